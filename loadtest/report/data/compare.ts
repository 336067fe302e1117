import type { RunRecord, Scalar } from '../../record/record.ts'
import { bands, type Figure, figuresOf, type Kind } from './figures.ts'

/**
 * Two records beside each other. A difference counts only beyond the noise that runs of the same program show on a
 * small shared machine; the bands are rules of thumb by kind of figure, and no statistics.
 */

export interface Difference extends Omit<Figure, 'value'> {
  readonly before: number
  readonly after: number
  /** after ÷ before; undefined where the earlier value is 0. */
  readonly ratio: number | undefined
  readonly says: 'better' | 'worse' | 'within noise'
}

/** Something that passed and now fails, or the other way round: no noise is granted to these. */
export interface Turn {
  readonly where: string
  readonly what: string
  readonly says: 'better' | 'worse'
}

export interface Comparison {
  readonly differences: readonly Difference[]
  readonly turns: readonly Turn[]
  /** In one of them only, by name. */
  readonly added: readonly string[]
  readonly gone: readonly string[]
  /** Why the two may not be comparable, in sentences. */
  readonly cautions: readonly string[]
}

/** The smallest difference beyond noise has `|after − before|` greater than both of the band's sides. */
export function judge(
  before: number,
  after: number,
  kind: Kind,
  better: Figure['better'],
): Difference['says'] {
  const { share, least } = bands[kind]
  const change = after - before
  if (Math.abs(change) <= Math.max(Math.abs(before) * share, least)) return 'within noise'
  return change > 0 === (better === 'higher') ? 'better' : 'worse'
}

const keyOf = ({ where, what }: { where: string; what: string }) => `${where} · ${what}`

/** Name → passed, of everything in a record that passes or fails. */
function outcomesOf(record: RunRecord): Map<string, boolean> {
  const outcomes = new Map<string, boolean>()
  for (const { name, passed, criteria } of record.scenarios) {
    outcomes.set(`scenario ${name} · whole`, passed)
    for (const criterion of criteria) outcomes.set(`scenario ${name} · ${criterion.name}`, criterion.passed)
  }
  for (const { name, passed } of record.drills ?? []) outcomes.set(`drill ${name} · whole`, passed)
  if (record.simulation) {
    outcomes.set('simulation · no violation', record.simulation.violations.length === 0)
    for (const mutation of record.simulation.mutations)
      outcomes.set(`simulation · catches ${mutation.name}`, mutation.caught_at !== null)
  }
  return outcomes
}

function turnsBetween(before: RunRecord, after: RunRecord): Turn[] {
  const earlier = outcomesOf(before)
  return [...outcomesOf(after)].flatMap(([name, passed]): Turn[] => {
    const was = earlier.get(name)
    if (was === undefined || was === passed) return []
    const [where, what] = name.split(' · ') as [string, string]
    return [{ where, what, says: passed ? 'better' : 'worse' }]
  })
}

/** Settings that follow from a rehearsal, such as the rate, are never the same twice. */
function isAlike(was: Scalar | undefined, is: Scalar | undefined): boolean {
  if (typeof was !== 'number' || typeof is !== 'number') return was === is
  return Math.abs(is - was) <= 0.1 * Math.abs(was)
}

function cautionsOf(before: RunRecord, after: RunRecord): string[] {
  const cautions: string[] = []
  const say = (what: string, was: unknown, is: unknown) => {
    if (was !== is) cautions.push(`${what}: ${was ?? 'not set'} before, ${is ?? 'not set'} now.`)
  }
  say('Processor', before.machine.cpu_model, after.machine.cpu_model)
  say('Cores', before.machine.cpus, after.machine.cpus)
  for (const name of ['node', 'redis', 'postgres', 'workerd'])
    say(`Version of ${name}`, before.machine.versions[name], after.machine.versions[name])
  for (const scenario of after.scenarios) {
    const earlier = before.scenarios.find(({ name }) => name === scenario.name)
    if (!earlier) continue
    for (const name of new Set([...Object.keys(earlier.settings), ...Object.keys(scenario.settings)])) {
      const [was, is] = [earlier.settings[name], scenario.settings[name]]
      if (!isAlike(was, is)) say(`${scenario.name}, setting ${name}`, was, is)
    }
  }
  return cautions
}

/** What is better, worse or the same in `after`, figure by figure. */
export function compare(before: RunRecord, after: RunRecord): Comparison {
  const earlier = new Map(figuresOf(before).map((figure) => [keyOf(figure), figure]))
  const later = figuresOf(after)
  const differences = later.flatMap(({ value, ...figure }): Difference[] => {
    const was = earlier.get(keyOf(figure))?.value
    if (was === undefined) return []
    const says = judge(was, value, figure.kind, figure.better)
    return [{ ...figure, before: was, after: value, ratio: was === 0 ? undefined : value / was, says }]
  })
  const names = new Set(later.map(keyOf))
  return {
    differences,
    turns: turnsBetween(before, after),
    added: later.map(keyOf).filter((name) => !earlier.has(name)),
    gone: [...earlier.keys()].filter((name) => !names.has(name)),
    cautions: cautionsOf(before, after),
  }
}
