import type {
  DrillRecord,
  PeerRecord,
  RunRecord,
  ScenarioRecord,
  SimulationRecord,
} from '../../record/record.ts'
import { many } from '../text/format.ts'
import { budgets, foundFor, holds } from './budgets.ts'
import { missingFrom } from './matrix.ts'

export interface PartVerdict {
  readonly part: string
  /** `absent`: nothing of it is in the record, which is neither. */
  readonly state: 'passed' | 'failed' | 'absent'
  /** In a few words, `9 of 10 scenarios`. */
  readonly brief: string
  /** With names and more numbers. */
  readonly says: string
}

export interface Verdict {
  readonly passed: boolean
  readonly parts: readonly PartVerdict[]
  /** In one line. */
  readonly line: string
}

/** As far as a prediction may be from the measurement (issue: within 25 %). */
export const predictionErrorMax = 0.25

/** What is asked of a prediction; one that is no number fails. */
export const isNear = (error: number): boolean => Math.abs(error) <= predictionErrorMax

export const isCaught = (mutation: SimulationRecord['mutations'][number]): boolean =>
  mutation.caught_at !== null && mutation.caught_at <= mutation.allowed_seeds

/** The peers are there to show what is lost by them; only our own row is held to losing nothing. */
export const isOurs = ({ name }: PeerRecord): boolean => /^(tidegate|ours)\b/i.test(name)

export const isWhole = ({ oversold, lost, doubled, stranded = 0 }: PeerRecord): boolean =>
  oversold + lost + doubled + stranded === 0

const state = (passed: boolean) => (passed ? 'passed' : 'failed')
const absent = (part: string): PartVerdict => ({
  part,
  state: 'absent',
  brief: '',
  says: 'not in this record',
})

interface Rule<Entry> {
  /** What the entries are, where the part's own name does not say it. */
  readonly noun?: string
  /** What those did that held. */
  readonly verb?: string
  held(entry: Entry): boolean
  nameOf(entry: Entry): string
}

function judge<Entry>(part: string, entries: readonly Entry[] | undefined, rule: Rule<Entry>): PartVerdict {
  if (entries === undefined || entries.length === 0) return absent(part)
  const { noun = part, verb = 'passed' } = rule
  const failed = entries.filter((entry) => !rule.held(entry)).map(rule.nameOf)
  const held = `${entries.length - failed.length} of ${entries.length}`
  return failed.length === 0
    ? { part, state: 'passed', brief: `${held} ${noun}`, says: `${held} ${verb}` }
    : {
        part,
        state: 'failed',
        brief: `${failed.length} of ${entries.length} ${noun}`,
        says: `${held} ${verb}, not ${failed.join(', ')}`,
      }
}

const leftOut = (verdict: PartVerdict, names: readonly string[]): PartVerdict =>
  names.length === 0 || verdict.state === 'absent'
    ? verdict
    : { ...verdict, says: `${verdict.says}; not run: ${names.join(', ')}` }

function scenariosVerdict(scenarios: readonly ScenarioRecord[]): PartVerdict {
  const verdict = judge('scenarios', scenarios, {
    held: ({ passed, violations, criteria }) =>
      passed && violations.length === 0 && criteria.every((criterion) => criterion.passed),
    nameOf: ({ name }) => name,
  })
  return leftOut(verdict, missingFrom(scenarios))
}

/** A drill that can't be run on this machine has neither passed nor failed, but is named. */
function drillsVerdict(drills: readonly DrillRecord[] = []): PartVerdict {
  const run = drills.filter(({ skipped }) => skipped === undefined)
  const verdict = judge('drills', run, {
    held: ({ passed, violations }) => passed && violations.length === 0,
    nameOf: ({ name }) => name,
  })
  return leftOut(
    verdict,
    drills.filter((drill) => !run.includes(drill)).map(({ name }) => name),
  )
}

function simulationVerdict(simulation: SimulationRecord | undefined): PartVerdict {
  if (simulation === undefined) return absent('simulation')
  const { seeds, steps, violations, mutations } = simulation
  const caught = mutations.filter(isCaught).length
  const planted =
    mutations.length === 0 ? 'no planted bugs run' : `${caught} of ${mutations.length} planted bugs caught`
  return {
    part: 'simulation',
    brief: `simulation of ${many(seeds, 'seed')} (${many(violations.length, 'violation')}, ${planted})`,
    state: state(violations.length === 0 && caught === mutations.length && seeds > 0),
    says: `${many(seeds, 'seed')}, ${many(steps, 'step')}, ${many(violations.length, 'violation')}, ${planted}`,
  }
}

function peersVerdict(peers: readonly PeerRecord[] | undefined): PartVerdict {
  if (peers === undefined || peers.length === 0) return absent('peers')
  const ours = peers.filter(isOurs)
  const others = peers.filter((peer) => !isOurs(peer))
  const broken = others.filter((peer) => !isWhole(peer)).length
  const whole = ours.every(isWhole)
  const told = `${broken} of ${many(others.length, 'other design')} oversold, lost, doubled or stranded something`
  return {
    part: 'peers',
    state: state(whole),
    brief: ours.length === 0 ? many(peers.length, 'other design') : 'Tidegate beside other designs',
    says: ours.length === 0 ? told : `Tidegate ${whole ? 'nothing' : 'did'}, ${told}`,
  }
}

/**
 * What of a record passed and what did not. A record with nothing in it has not passed. What is absent does not fail
 * it, since parts are run one by one, but it is named.
 */
export function verdictOf(record: RunRecord): Verdict {
  const measured = budgets.filter((budget) => foundFor(budget, record) !== undefined)
  const parts = [
    scenariosVerdict(record.scenarios),
    drillsVerdict(record.drills),
    simulationVerdict(record.simulation),
    peersVerdict(record.peers),
    judge('scale', record.scale, {
      noun: 'runs of scale',
      verb: 'without a violation',
      held: (s) => s.violations.length === 0,
      nameOf: (s) => s.name,
    }),
    judge('capacity', record.capacity?.validations, {
      noun: 'predictions of capacity',
      verb: 'predictions within 25 %',
      held: (v) => isNear(v.error),
      nameOf: (v) => `${v.run} ${v.what}`,
    }),
    judge('budgets', measured, {
      verb: 'held',
      held: (budget) => holds(budget, foundFor(budget, record)!),
      nameOf: ({ suite, figure, latency }) => (suite ? `${suite} ${figure}` : `${latency} p99`),
    }),
  ]
  const missing = record.scenarios.length > 0 ? missingFrom(record.scenarios) : []
  return { parts, ...headline(parts, missing) }
}

/** What failed comes first. */
function headline(
  parts: readonly PartVerdict[],
  scenarios: readonly string[],
): Pick<Verdict, 'passed' | 'line'> {
  const [failed, passed, missing] = (['failed', 'passed', 'absent'] as const).map((state) =>
    parts.filter((part) => part.state === state),
  ) as [PartVerdict[], PartVerdict[], PartVerdict[]]
  const list = (some: readonly PartVerdict[]) => some.map(({ brief }) => brief).join(', ')
  const rest = [...scenarios.map((name) => `scenario ${name}`), ...missing.map(({ part }) => part)]
  const sentences = [
    failed.length > 0 && `Failed: ${list(failed)}`,
    passed.length > 0 && `Passed: ${list(passed)}`,
    rest.length > 0 && `Not in this record: ${rest.join(', ')}`,
  ].filter((sentence) => sentence !== false)
  return { passed: failed.length === 0 && passed.length > 0, line: `${sentences.join('. ')}.` }
}
