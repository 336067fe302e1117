import type { RunRecord } from '../../record/record.ts'

/** The budgets of DESIGN §10 that a run can be held to, and where each is found in its record. */
export interface Budget {
  readonly what: string
  /** The suite of `npm run bench` that measures it, and its figure there. */
  readonly suite?: string
  readonly figure?: string
  /** Or a latency of a scenario. */
  readonly latency?: string
  readonly bound: number
  readonly is: 'at least' | 'at most'
  readonly unit: string
}

const ratio = { is: 'at least', unit: '×' } as const

export const budgets: readonly Budget[] = [
  {
    suite: 'lua',
    figure: 'ratio_batch32',
    bound: 4,
    what: 'decisions a second in calls of 32, beside the article’s script one claim a call',
    ...ratio,
  },
  {
    suite: 'lua',
    figure: 'ratio_batch32_pipelined',
    bound: 2,
    what: 'the same, beside the article’s script pipelined by 16',
    ...ratio,
  },
  {
    suite: 'lua',
    figure: 'ratio_single',
    bound: 0.6,
    what: 'one claim a call, beside the article’s script, both unpipelined',
    ...ratio,
  },
  {
    suite: 'lua',
    figure: 'commands_per_claim_32',
    bound: 0.25,
    is: 'at most',
    unit: 'commands',
    what: 'Redis commands as Upstash counts them, a claim, in calls of 32',
  },
  {
    suite: 'lua',
    figure: 'bytes_per_claim',
    bound: 120,
    is: 'at most',
    unit: 'bytes',
    what: 'Redis memory of a settled acceptance',
  },
  {
    suite: 'edge',
    figure: 'ratio_soldout',
    bound: 0.9,
    what: 'sold-out answers, beside a bare worker in the same runtime',
    ...ratio,
  },
  {
    suite: 'edge',
    figure: 'ratio_claim',
    bound: 0.55,
    what: 'full claims, beside a bare worker in the same runtime',
    ...ratio,
  },
  {
    suite: 'edge',
    figure: 'soldout_commands_per_request',
    bound: 0.05,
    is: 'at most',
    unit: 'commands',
    what: 'Redis commands a request on a sold-out campaign',
  },
  {
    suite: 'drain',
    figure: 'ratio',
    bound: 0.7,
    what: 'coupons a second, beside the same rows inserted by bare statements',
    ...ratio,
  },
  {
    suite: 'sse',
    figure: 'kb_per_connection',
    bound: 20,
    is: 'at most',
    unit: 'KB',
    what: 'memory of a stream, 10,000 in one process',
  },
  {
    suite: 'sse',
    figure: 'last_told_ms',
    bound: 1000,
    is: 'at most',
    unit: 'ms',
    what: 'until the last of 10,000 is told',
  },
  {
    latency: 'accept',
    bound: 90,
    is: 'at most',
    unit: 'ms',
    what: 'accept p99, opening flood at 70 % of measured capacity',
  },
  {
    latency: 'deliver',
    bound: 1000,
    is: 'at most',
    unit: 'ms',
    what: 'accepted to delivered p99, opening flood at 70 % of measured capacity',
  },
]

/** The scenario in which the path's own latencies have their budget. */
const flood = 'opening-flood'

/** What the record has for a budget; undefined where it was not measured. */
export function foundFor(budget: Budget, record: RunRecord): number | undefined {
  if (budget.latency !== undefined) {
    const scenario = record.scenarios.find(({ name }) => name === flood)
    return scenario?.latencies.find(({ name }) => name === budget.latency)?.p99_ms
  }
  const value = record.bench?.[budget.suite!]?.[budget.figure!]
  return typeof value === 'number' ? value : undefined
}

export function holds({ bound, is }: Budget, found: number): boolean {
  return is === 'at least' ? found >= bound : found <= bound
}
