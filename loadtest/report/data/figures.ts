import type { RunRecord, ScenarioRecord } from '../../record/record.ts'

export interface Band {
  /** Share of the earlier value. */
  readonly share: number
  /** In the figure's own unit: smaller differences are noise whatever their share. */
  readonly least: number
}

export const bands = {
  throughput: { share: 0.15, least: 0 },
  median: { share: 0.25, least: 2 },
  tail: { share: 0.4, least: 5 },
  cpu: { share: 0.15, least: 0 },
  /** Measured side by side in one run, so that the machine's moods cancel out. */
  ratio: { share: 0.1, least: 0 },
  /** Counted under load: how many claims share a call or a transaction follows the machine's moods. */
  batched: { share: 0.2, least: 0 },
  /** Counted where nothing depends on time. */
  count: { share: 0.05, least: 0 },
  memory: { share: 0.1, least: 0 },
} as const satisfies Record<string, Band>

export type Kind = keyof typeof bands

export interface Figure {
  readonly where: string
  readonly what: string
  readonly unit: string
  readonly kind: Kind
  readonly better: 'higher' | 'lower'
  readonly value: number
}

/** Fewer answers than this say nothing about a percentile of them. */
const answersMin = 200

function scenarioFigures(scenario: ScenarioRecord): Figure[] {
  const where = scenario.name
  const { answered, offered, settings, commands, figures: own = {} } = scenario
  const accepted = scenario.codes['ACCEPTED'] ?? 0
  const figures: Figure[] = []
  const add = (what: string, value: number, unit: string, kind: Kind, better: Figure['better']) => {
    if (Number.isFinite(value)) figures.push({ where, what, value, unit, kind, better })
  }
  // People come at planned instants: how many are answered a second is the plan's figure, and not the system's.
  add('answered of offered', answered / offered, '×', 'count', 'higher')
  const rehearsed = settings['claims/s in the rehearsal']
  if (typeof rehearsed === 'number') add('claims in the rehearsal', rehearsed, '/s', 'throughput', 'higher')
  for (const { name, count, p50_ms, p99_ms } of scenario.latencies) {
    if (count < answersMin) continue
    add(`${name} p50`, p50_ms, 'ms', 'median', 'lower')
    add(`${name} p99`, p99_ms, 'ms', 'tail', 'lower')
  }
  add('commands a request, edge', commands.edge / answered, '', 'batched', 'lower')
  if (accepted > 0)
    add('commands an acceptance', (commands.edge + commands.core) / accepted, '', 'batched', 'lower')
  const cpu = Object.entries(scenario.cpu_seconds).filter(([process]) => process !== 'driver')
  const spent = cpu.reduce((sum, [, value]) => sum + value, 0)
  if (spent > 0) add('CPU of 1,000 answers', (spent / answered) * 1e6, 'ms', 'cpu', 'lower')
  for (const [name, value] of Object.entries(own)) {
    const kind = kindOf(name)
    if (kind && kind.kind !== 'count')
      figures.push({ where, what: name.replaceAll('_', ' '), value, ...kind })
  }
  return figures
}

/** Which way a figure is better, by how it is named; undefined for one that is no measure. */
export function kindOf(name: string): Pick<Figure, 'unit' | 'kind' | 'better'> | undefined {
  if (name.includes('.') || name === 'claims' || name === 'connections') return undefined
  if (name.startsWith('ratio')) return { unit: '×', kind: 'ratio', better: 'higher' }
  if (name.endsWith('_per_s')) return { unit: '/s', kind: 'throughput', better: 'higher' }
  const time = /_(ms|us)$/.exec(name)?.[1]
  if (time !== undefined) {
    const kind = /p50|median|first/.test(name) ? 'median' : 'tail'
    return { unit: time === 'us' ? 'µs' : time, kind, better: 'lower' }
  }
  if (name.includes('kb_')) return { unit: 'KB', kind: 'memory', better: 'lower' }
  if (/commands|bytes/.test(name)) return { unit: '', kind: 'count', better: 'lower' }
  return undefined
}

/** Every figure of a record that a later run can be held to. */
export function figuresOf(record: RunRecord): Figure[] {
  const bench = Object.entries(record.bench ?? {}).flatMap(([suite, figures]) =>
    Object.entries(figures).flatMap(([what, value]): Figure[] => {
      const kind = kindOf(what)
      return kind && typeof value === 'number' ? [{ where: `bench ${suite}`, what, value, ...kind }] : []
    }),
  )
  const rate = { unit: '/s', kind: 'throughput', better: 'higher' } as const
  const scale = (record.scale ?? []).flatMap((one): Figure[] => {
    const where = `scale ${one.name}`
    return [
      { where, what: 'claims', value: one.claims_per_second, ...rate },
      { where, what: 'delivered', value: one.delivered_per_second, ...rate },
      {
        where,
        what: 'commands a claim',
        value: one.commands_per_claim,
        unit: '',
        kind: 'batched',
        better: 'lower',
      },
    ]
  })
  const peers = (record.peers ?? []).map(
    (peer): Figure => ({
      where: `peer ${peer.name}`,
      what: 'claims',
      value: peer.claims_per_second,
      ...rate,
    }),
  )
  return [...record.scenarios.flatMap(scenarioFigures), ...bench, ...scale, ...peers]
}
