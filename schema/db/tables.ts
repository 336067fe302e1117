import {
  bigint,
  boolean,
  integer,
  jsonb,
  pgTable,
  primaryKey,
  text,
  timestamp,
  uuid,
} from 'drizzle-orm/pg-core'
import type { AllocationMode, Delivery, Drip, Pace, Rules, TailPolicy } from '../rules.ts'
import type {
  BallotState,
  CampaignState,
  ClaimState,
  CompensationState,
  CouponState,
  TransferState,
} from '../states.ts'

/** Typed mirrors of the tables that migrations make; migrations are the truth, a test compares the two. */

const instant = (name: string) => timestamp(name, { withTimezone: true, mode: 'date' })
const count = (name: string) => bigint(name, { mode: 'number' })

export const campaigns = pgTable('campaigns', {
  campaignId: text('campaign_id').primaryKey(),
  name: text('name').notNull(),
  mode: text('mode').$type<AllocationMode>().notNull(),
  state: text('state').$type<CampaignState>().notNull(),
  version: count('version').notNull(),
  configVersion: count('config_version').notNull(),
  ruleVersion: count('rule_version').notNull(),
  quota: count('quota').notNull(),
  perUserLimit: integer('per_user_limit').notNull(),
  bucketCount: integer('bucket_count').notNull(),
  startsAt: instant('starts_at').notNull(),
  endsAt: instant('ends_at').notNull(),
  timeZone: text('time_zone').notNull(),
  createdBy: text('created_by').notNull(),
  approvedBy: text('approved_by'),
  createdAt: instant('created_at').notNull(),
  updatedAt: instant('updated_at').notNull(),
  tailPolicy: text('tail_policy').$type<TailPolicy>().notNull().default('rebalance'),
  drip: jsonb('drip').$type<Drip>(),
  pace: jsonb('pace').$type<Pace>(),
  stockCollectedAt: instant('stock_collected_at'),
  delivery: text('delivery').$type<Delivery>().notNull().default('stream'),
  /** The Redis deployment that has its gates; its id says the same. */
  store: text('store').notNull().default('main'),
})
export type Campaign = typeof campaigns.$inferSelect

export const ruleVersions = pgTable(
  'rule_versions',
  {
    campaignId: text('campaign_id').notNull(),
    ruleVersion: count('rule_version').notNull(),
    rules: jsonb('rules').$type<Rules>().notNull(),
    createdBy: text('created_by').notNull(),
    createdAt: instant('created_at').notNull(),
  },
  (t) => [primaryKey({ columns: [t.campaignId, t.ruleVersion] })],
)

export const campaignStock = pgTable('campaign_stock', {
  campaignId: text('campaign_id').primaryKey(),
  quota: count('quota').notNull(),
  issued: count('issued').notNull(),
  unallocated: count('unallocated').notNull(),
  withdrawn: count('withdrawn').notNull(),
})

export const buckets = pgTable(
  'buckets',
  {
    campaignId: text('campaign_id').notNull(),
    bucket: integer('bucket').notNull(),
    allocated: count('allocated').notNull(),
    primedAt: instant('primed_at'),
    configVersion: count('config_version').notNull().default(0),
    epoch: count('epoch').notNull(),
    configReachedAt: instant('config_reached_at'),
  },
  (t) => [primaryKey({ columns: [t.campaignId, t.bucket] })],
)

export type TransferReason = 'increase' | 'rebalance' | 'centralise' | 'spread' | 'collect'

export const transfers = pgTable('transfers', {
  transferId: uuid('transfer_id').primaryKey(),
  campaignId: text('campaign_id').notNull(),
  fromBucket: integer('from_bucket'),
  toBucket: integer('to_bucket'),
  requested: count('requested').notNull(),
  amount: count('amount'),
  state: text('state').$type<TransferState>().notNull(),
  reason: text('reason').$type<TransferReason>().notNull(),
  version: count('version').notNull().default(1),
  createdAt: instant('created_at').notNull(),
  updatedAt: instant('updated_at').notNull(),
})

export const ballots = pgTable('ballots', {
  campaignId: text('campaign_id').primaryKey(),
  seed: text('seed').notNull(),
  seedHash: text('seed_hash').notNull(),
  state: text('state').$type<BallotState>().notNull(),
  quota: count('quota'),
  entrants: count('entrants'),
  version: count('version').notNull().default(1),
  drawnAt: instant('drawn_at'),
  settledAt: instant('settled_at'),
})

export const ballotLots = pgTable(
  'ballot_lots',
  {
    userId: text('user_id').notNull(),
    campaignId: text('campaign_id').notNull(),
    requestId: uuid('request_id').notNull(),
    bucket: integer('bucket').notNull(),
    ruleVersion: count('rule_version').notNull(),
    entrant: text('entrant').notNull(),
    rank: count('rank').notNull(),
    won: boolean('won').notNull(),
    state: text('state').$type<'DRAWN' | 'DECIDED' | 'MARKED'>().notNull(),
  },
  (t) => [primaryKey({ columns: [t.userId, t.campaignId] })],
)

export const claims = pgTable(
  'claims',
  {
    userId: text('user_id').notNull(),
    requestId: uuid('request_id').notNull(),
    campaignId: text('campaign_id').notNull(),
    bucket: integer('bucket').notNull(),
    ruleVersion: count('rule_version').notNull(),
    status: text('status').$type<ClaimState>().notNull(),
    reason: text('reason'),
    couponId: uuid('coupon_id'),
    entryMs: count('entry_ms').notNull(),
    entrySeq: count('entry_seq').notNull(),
    keyFingerprint: text('key_fingerprint').notNull(),
    paramsFingerprint: text('params_fingerprint').notNull(),
    tokenId: text('token_id').notNull(),
    acceptedAt: instant('accepted_at').notNull(),
    settledAt: instant('settled_at'),
    version: count('version').notNull(),
  },
  (t) => [primaryKey({ columns: [t.userId, t.requestId] })],
)

export const coupons = pgTable(
  'coupons',
  {
    userId: text('user_id').notNull(),
    couponId: uuid('coupon_id').notNull(),
    campaignId: text('campaign_id').notNull(),
    claimSeq: integer('claim_seq').notNull(),
    requestId: uuid('request_id').notNull(),
    ruleVersion: count('rule_version').notNull(),
    validFrom: instant('valid_from').notNull(),
    validTo: instant('valid_to').notNull(),
    state: text('state').$type<CouponState>().notNull(),
    version: count('version').notNull(),
    issuedAt: instant('issued_at').notNull(),
    updatedAt: instant('updated_at').notNull(),
  },
  (t) => [primaryKey({ columns: [t.userId, t.couponId] })],
)

export const ledger = pgTable(
  'ledger',
  {
    userId: text('user_id').notNull(),
    ledgerId: uuid('ledger_id').notNull(),
    campaignId: text('campaign_id').notNull(),
    requestId: uuid('request_id'),
    couponId: uuid('coupon_id'),
    kind: text('kind').notNull(),
    fromState: text('from_state'),
    toState: text('to_state').notNull(),
    actor: text('actor').notNull(),
    reason: text('reason'),
    at: instant('at').notNull(),
  },
  (t) => [primaryKey({ columns: [t.userId, t.ledgerId] })],
)

export const outbox = pgTable('outbox', {
  eventId: count('event_id').generatedAlwaysAsIdentity().primaryKey(),
  userId: text('user_id').notNull(),
  requestId: uuid('request_id'),
  type: text('type').notNull(),
  payload: jsonb('payload').$type<Record<string, unknown>>().notNull(),
  createdAt: instant('created_at').notNull(),
  publishedAt: instant('published_at'),
})

export const compensations = pgTable(
  'compensations',
  {
    userId: text('user_id').notNull(),
    requestId: uuid('request_id').notNull(),
    campaignId: text('campaign_id').notNull(),
    bucket: integer('bucket').notNull(),
    state: text('state').$type<CompensationState>().notNull(),
    reason: text('reason').notNull(),
    attempts: integer('attempts').notNull(),
    version: count('version').notNull(),
    createdAt: instant('created_at').notNull(),
    updatedAt: instant('updated_at').notNull(),
  },
  (t) => [primaryKey({ columns: [t.userId, t.requestId] })],
)

export type ReviewState = 'OPEN' | 'DECIDED' | 'CLOSED'

export const reviews = pgTable(
  'reviews',
  {
    userId: text('user_id').notNull(),
    requestId: uuid('request_id').notNull(),
    campaignId: text('campaign_id').notNull(),
    bucket: integer('bucket').notNull(),
    cause: text('cause').$type<'held'>().notNull(),
    state: text('state').$type<ReviewState>().notNull().default('OPEN'),
    dueAt: instant('due_at'),
    dueVerdict: text('due_verdict').$type<'issue' | 'reject'>(),
    decidedBy: text('decided_by'),
    openedAt: instant('opened_at').notNull(),
    decidedAt: instant('decided_at'),
  },
  (t) => [primaryKey({ columns: [t.userId, t.requestId] })],
)

export const requestLog = pgTable('request_log', {
  acceptedAt: instant('accepted_at').notNull(),
  campaignId: text('campaign_id').notNull(),
  bucket: integer('bucket').notNull(),
  entryId: text('entry_id').notNull(),
  fields: text('fields').array().notNull(),
})

export const deadLetters = pgTable('dead_letters', {
  deadLetterId: uuid('dead_letter_id').primaryKey(),
  campaignId: text('campaign_id').notNull(),
  bucket: integer('bucket').notNull(),
  entryId: text('entry_id').notNull(),
  position: integer('position').notNull(),
  cause: text('cause').notNull(),
  fields: text('fields').array().notNull(),
  state: text('state').$type<'OPEN' | 'REPLAYED' | 'DISCARDED'>().notNull(),
  createdAt: instant('created_at').notNull(),
  closedAt: instant('closed_at'),
})

export const auditLog = pgTable('audit_log', {
  auditId: uuid('audit_id').primaryKey(),
  at: instant('at').notNull(),
  actor: text('actor').notNull(),
  role: text('role').notNull(),
  action: text('action').notNull(),
  target: text('target').notNull(),
  outcome: text('outcome').$type<'done' | 'refused'>().notNull(),
  reason: text('reason'),
  before: jsonb('before'),
  after: jsonb('after'),
})

export const idempotencyKeys = pgTable(
  'idempotency_keys',
  {
    actor: text('actor').notNull(),
    route: text('route').notNull(),
    key: text('key').notNull(),
    bodyHash: text('body_hash').notNull(),
    status: integer('status').notNull(),
    answer: jsonb('answer').notNull(),
    createdAt: instant('created_at').notNull(),
  },
  (t) => [primaryKey({ columns: [t.actor, t.route, t.key] })],
)

export const webhookEndpoints = pgTable('webhook_endpoints', {
  endpointId: uuid('endpoint_id').primaryKey(),
  url: text('url').notNull(),
  description: text('description').notNull(),
  eventTypes: text('event_types').array().notNull(),
  state: text('state').$type<'ENABLED' | 'DISABLED'>().notNull(),
  disabledReason: text('disabled_reason').$type<'operator' | 'failing' | 'gone'>(),
  failingSince: instant('failing_since'),
  version: count('version').notNull().default(1),
  createdBy: text('created_by').notNull(),
  createdAt: instant('created_at').notNull(),
  updatedAt: instant('updated_at').notNull(),
})
export type WebhookEndpoint = typeof webhookEndpoints.$inferSelect

export const webhookSecrets = pgTable(
  'webhook_secrets',
  {
    endpointId: uuid('endpoint_id').notNull(),
    generation: count('generation').notNull(),
    secret: text('secret').notNull(),
    expiresAt: instant('expires_at'),
  },
  (t) => [primaryKey({ columns: [t.endpointId, t.generation] })],
)

export const webhookDeliveries = pgTable(
  'webhook_deliveries',
  {
    endpointId: uuid('endpoint_id').notNull(),
    eventId: count('event_id').notNull(),
    type: text('type').notNull(),
    body: text('body').notNull(),
    state: text('state').$type<'PENDING' | 'DELIVERED' | 'FAILED'>().notNull().default('PENDING'),
    attempts: integer('attempts').notNull().default(0),
    nextAttemptAt: instant('next_attempt_at').notNull(),
    giveUpAt: instant('give_up_at').notNull(),
    createdAt: instant('created_at').notNull(),
    deliveredAt: instant('delivered_at'),
  },
  (t) => [primaryKey({ columns: [t.endpointId, t.eventId] })],
)

export const webhookAttempts = pgTable(
  'webhook_attempts',
  {
    endpointId: uuid('endpoint_id').notNull(),
    eventId: count('event_id').notNull(),
    attempt: integer('attempt').notNull(),
    at: instant('at').notNull(),
    durationMs: integer('duration_ms').notNull(),
    status: integer('status'),
    error: text('error'),
  },
  (t) => [primaryKey({ columns: [t.endpointId, t.eventId, t.attempt] })],
)

export const pushSubscriptions = pgTable(
  'push_subscriptions',
  {
    userId: text('user_id').notNull(),
    subscriptionId: uuid('subscription_id').notNull(),
    endpoint: text('endpoint').notNull(),
    p256dh: text('p256dh').notNull(),
    auth: text('auth').notNull(),
    createdAt: instant('created_at').notNull(),
    expiresAt: instant('expires_at'),
  },
  (t) => [primaryKey({ columns: [t.userId, t.subscriptionId] })],
)

export const pushDeliveries = pgTable(
  'push_deliveries',
  {
    userId: text('user_id').notNull(),
    subscriptionId: uuid('subscription_id').notNull(),
    eventId: count('event_id').notNull(),
    body: text('body').notNull(),
    attempts: integer('attempts').notNull().default(0),
    nextAttemptAt: instant('next_attempt_at').notNull(),
    giveUpAt: instant('give_up_at').notNull(),
  },
  (t) => [primaryKey({ columns: [t.userId, t.subscriptionId, t.eventId] })],
)
