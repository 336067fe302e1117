/**
 * Every bound of the product, in one place, units last in the name.
 * The assertions at the end say how they relate; they run when the module loads, so a wrong edit can't start.
 */
export const limits = {
  /** Claims decided by one arbitration call (Redis time per call stays well under a millisecond). */
  claimsPerCallMax: 64,
  /** Arbitration calls in flight per isolate and bucket; the second only when it is full, or the first is slow. */
  callsInFlightMax: 2,
  /** Claims waiting for a call in one isolate and bucket; beyond it the answer is BUSY at once. */
  claimsWaitingMax: 4096,
  /** A follower's own deadline for its verdict; past it the answer is OUTCOME_UNKNOWN. */
  claimDeadlineMs: 3000,
  /** Deadline of the arbitration call itself: shorter, so that the leader hears of it before its followers give up. */
  arbiterCallTimeoutMs: 2500,

  /** Coupon stock of one bucket, so that no Redis key grows big (DESIGN §4). */
  bucketQuotaMax: 100_000,
  bucketsMax: 1024,
  /** Largest quota of a campaign. Keeps every counter far below 2^53 in Lua and in JavaScript. */
  campaignQuotaMax: 100_000_000,
  perUserLimitMax: 100,
  /** Of a campaign that is claimed in the database at once: each claim is a transaction on one stock row. */
  directQuotaMax: 10_000,

  dripEveryMinMs: 100,
  dripEveryMaxMs: 30 * 86_400_000,
  pacePerSecondMax: 1_000_000,
  /** How often stock is looked over, and how soon again while it moves and sells. */
  stockLookEveryMs: 1_000,
  stockMovingEveryMs: 200,
  /** Without a sale since the last move, moving pays less and less: up to this. */
  stockIdleEveryMaxMs: 10_000,
  /** Transfers of one step: they share a transaction and a connection to Redis. */
  transfersAtOnceMax: 256,
  /** Campaigns with this much of their quota left, in percent, or less are centralised. */
  centraliseBelowPercent: 10,

  /** A ballot that no operator draws is drawn this long after its end. */
  ballotDrawDelayMs: 60_000,
  ballotBatchMax: 500,

  userIdCharsMax: 256,
  deviceIdCharsMax: 128,
  idempotencyKeyCharsMin: 1,
  idempotencyKeyCharsMax: 128,
  claimTokenCharsMax: 1400,
  loginTokenCharsMax: 4096,
  /** Largest request body read by the edge; a claim has none. */
  requestBodyBytesMax: 16_384,

  /** Claim tokens may be fetched this long before the start, and live until the end or this long. */
  tokenLeadMs: 10 * 60_000,
  tokenLifetimeMs: 30 * 60_000,
  /** Clock leeway, both ways, for every signed instant (case-K6). */
  clockLeewayMs: 5_000,
  /** A ticket lets its bearer read one claim's status and events. */
  ticketLifetimeMs: 24 * 3_600_000,
  /** An edge→core assertion lives as long as the request that it accompanies. */
  assertionLifetimeMs: 60_000,

  /** Lease of a bucket and how often the guardian renews it: three renewals may be lost. */
  leaseMs: 5_000,
  leaseRenewEveryMs: 1_000,
  /** The guardian withholds leases beyond these. */
  drainLagEntriesMax: 20_000,
  oldestUnsettledMaxMs: 30_000,

  /** Stream entries read by one drain step; an entry holds up to claimsPerCallMax claims. */
  drainEntriesMax: 64,
  drainBlockMs: 1_000,
  /** Pending entries of a silent consumer are taken over after this. */
  autoclaimIdleMs: 15_000,
  /** Deliveries after which an entry is split, and its bad claim put to the dead letters. */
  deliveriesMax: 5,

  outboxBatchMax: 1_000,
  outboxPollMs: 250,

  sseHeartbeatMs: 15_000,
  sseLifetimeMs: 10 * 60_000,
  sseConnectionsPerUserMax: 6,
  pollAfterMs: 1_000,
  pollAfterMaxMs: 15_000,
  /** Final claim answers that a core process keeps in memory; some 300 bytes each. */
  finalClaimsKeptMax: 50_000,

  /** Deliveries to webhooks and browsers: how often they are looked for, and how many are on their way. */
  deliveryPollMs: 500,
  deliveriesInFlightMax: 128,
  deliveriesPerEndpointMax: 32,
  /** Of an endpoint that is failing: probes, not a flood. */
  deliveriesWhileFailingMax: 2,
  deliveryTimeoutMs: 15_000,
  /** A delivery whose process died is taken over after this. */
  deliveryLeaseMs: 60_000,
  /** Back-off between attempts: the first wait, what each failure multiplies it with, the longest. */
  deliveryRetryFirstMs: 5_000,
  deliveryRetryFactor: 3,
  deliveryRetryMaxMs: 6 * 3_600_000,
  /** No attempt is planned past this age. */
  deliveryGiveUpMs: 24 * 3_600_000,
  /** Delivered and failed ones can be looked up, and sent again, for so long. */
  deliveryKeptMs: 7 * 86_400_000,
  webhookEndpointsMax: 100,
  webhookUrlCharsMax: 2_048,
  /** An endpoint that took nothing for so long is disabled. */
  webhookDisableAfterMs: 48 * 3_600_000,
  /** After a rotation both secrets sign for so long. */
  webhookSecretOverlapMs: 24 * 3_600_000,
  pushSubscriptionsPerUserMax: 10,

  pageSizeDefault: 50,
  pageSizeMax: 200,

  /** How stale a campaign view may be in an isolate's memory. */
  viewTtlMs: 1_000,
  viewNegativeTtlMs: 5_000,
  coreTimeoutMs: 2_000,
  retryAfterMs: 1_000,
} as const

function assertLimit(holds: boolean, what: string): void {
  if (!holds) throw new Error(`limits: ${what}`)
}
assertLimit(
  limits.arbiterCallTimeoutMs < limits.claimDeadlineMs,
  'a call must end before its followers give up',
)
assertLimit(limits.leaseRenewEveryMs * 3 < limits.leaseMs, 'a lease must outlive three missed renewals')
assertLimit(
  limits.bucketQuotaMax * limits.bucketsMax >= limits.campaignQuotaMax,
  'buckets must hold the largest quota',
)
assertLimit(limits.campaignQuotaMax < 2 ** 53, 'counters must be exact in Lua')
assertLimit(limits.sseHeartbeatMs < 30_000, 'idle streams are dropped by the platform after about 30 s')
assertLimit(limits.drainEntriesMax * limits.claimsPerCallMax <= 8192, 'one drain transaction stays bounded')
assertLimit(
  limits.deliveryTimeoutMs * 2 < limits.deliveryLeaseMs,
  'a delivery on its way must not be taken over',
)
assertLimit(
  limits.deliveryGiveUpMs < limits.webhookDisableAfterMs,
  'an endpoint must have failed a whole delivery before it is disabled',
)
