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
  /** Counted, not timed. */
  count: { share: 0.05, least: 0 },
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

function scenarioFigures(scenario: ScenarioRecord): Figure[] {
  const where = scenario.name
  const accepted = scenario.codes['ACCEPTED'] ?? 0
  const figures: Figure[] = []
  const add = (what: string, value: number, unit: string, kind: Kind, better: Figure['better']) => {
    if (Number.isFinite(value)) figures.push({ where, what, value, unit, kind, better })
  }
  add('answered', scenario.answered / scenario.seconds, '/s', 'throughput', 'higher')
  for (const { name, p50_ms, p99_ms } of scenario.latencies) {
    add(`${name} p50`, p50_ms, 'ms', 'median', 'lower')
    add(`${name} p99`, p99_ms, 'ms', 'tail', 'lower')
  }
  const { edge, core } = scenario.commands
  add('commands a request, edge', edge / scenario.answered, '', 'count', 'lower')
  if (accepted > 0) add('commands an acceptance', (edge + core) / accepted, '', 'count', 'lower')
  const cpu = Object.entries(scenario.cpu_seconds).filter(([process]) => process !== 'driver')
  const spent = cpu.reduce((sum, [, value]) => sum + value, 0)
  if (spent > 0) add('CPU of 1,000 answers', (spent / scenario.answered) * 1e6, 'ms', 'cpu', 'lower')
  return figures
}

/** Which way a bench's figure is better, by how it is named; undefined for one that is no measure. */
export function benchKind(name: string): Pick<Figure, 'unit' | 'kind' | 'better'> | undefined {
  if (name.includes('.') || name === 'claims' || name === 'connections') return undefined
  if (name.startsWith('ratio')) return { unit: '×', kind: 'ratio', better: 'higher' }
  if (name.endsWith('_per_s')) return { unit: '/s', kind: 'throughput', better: 'higher' }
  if (name.endsWith('_ms')) {
    return { unit: 'ms', kind: /p50|median|first/.test(name) ? 'median' : 'tail', better: 'lower' }
  }
  if (/commands|bytes|kb_/.test(name)) return { unit: '', kind: 'count', better: 'lower' }
  return undefined
}

/** Every figure of a record that a later run can be held to. */
export function figuresOf(record: RunRecord): Figure[] {
  const bench = Object.entries(record.bench ?? {}).flatMap(([suite, figures]) =>
    Object.entries(figures).flatMap(([what, value]): Figure[] => {
      const kind = benchKind(what)
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
        kind: 'count',
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
