import { bounds } from '../../edge/bounds.ts'
import { limits as product } from '../../schema/limits.ts'

/** A published limit, or one that is of the product itself, and where it stands. */
export interface Limit {
  readonly amount: number
  readonly what: string
  readonly source: string
}

const upstash = 'PLATFORM-FACTS.md, “Upstash Redis”'
const workers = 'PLATFORM-FACTS.md, “Cloudflare Workers”'
const ours = 'schema/limits.ts'

export const platform = {
  commandsPerDatabase: {
    amount: 10_000,
    what: 'commands a second of a database, those inside scripts too',
    source: upstash,
  },
  dollarsPerCommand: { amount: 0.2 / 100_000, what: '$0.20 per 100,000 commands', source: upstash },
  isolateMib: { amount: 128, what: 'MiB of memory of an isolate', source: workers },
  /** A Lua script runs on Redis' one thread, a worker's request on its isolate's. */
  threadUs: { amount: 1_000_000, what: 'µs of CPU a second of one thread', source: 'one core' },
  bucketQuota: {
    amount: product.bucketQuotaMax,
    what: 'coupons of a bucket',
    source: `${ours}, bucketQuotaMax`,
  },
  claimsPerCall: {
    amount: product.claimsPerCallMax,
    what: 'claims of a call',
    source: `${ours}, claimsPerCallMax`,
  },
  callsInFlight: {
    amount: product.callsInFlightMax,
    what: 'calls in flight of an isolate and bucket',
    source: `${ours}, callsInFlightMax`,
  },
  callIsSlow: {
    amount: bounds.callIsSlowMs,
    what: 'ms of a call, past which a second goes beside it',
    source: 'edge/bounds.ts, callIsSlowMs',
  },
  backlogEntries: {
    amount: product.drainLagEntriesMax,
    what: 'entries in a log, beyond which its bucket gets no lease',
    source: `${ours}, drainLagEntriesMax`,
  },
  unsettledSeconds: {
    amount: product.oldestUnsettledMaxMs / 1000,
    what: 'seconds that the oldest acceptance may wait before its bucket gets no lease',
    source: `${ours}, oldestUnsettledMaxMs`,
  },
  entriesPerBatch: {
    amount: product.drainEntriesMax,
    what: 'entries of a drain’s transaction',
    source: `${ours}, drainEntriesMax`,
  },
  answerMs: { amount: 90, what: 'ms to an answer, the slowest 1 %', source: 'DESIGN.md §10' },
  streamsPerProcess: {
    amount: 10_000,
    what: 'event streams of a core process: so many were measured, with the last told within a second',
    source: 'npm run bench -- sse',
  },
} as const satisfies Readonly<Record<string, Limit>>
