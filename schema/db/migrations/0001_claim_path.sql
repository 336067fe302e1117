-- The claim path, from a campaign's rules to a delivered coupon (DESIGN §6).
-- What grows with users is partitioned by hash of user_id and keeps user_id in every unique key, so that the
-- same tables can be distributed on it. Campaigns, rules, buckets are small reference tables.

CREATE TABLE campaigns (
  campaign_id     text PRIMARY KEY,
  name            text NOT NULL,
  mode            text NOT NULL DEFAULT 'first_come' CHECK (mode IN ('first_come', 'drip', 'ballot')),
  state           text NOT NULL CHECK (state IN ('DRAFT', 'IN_REVIEW', 'APPROVED', 'ACTIVE', 'PAUSED', 'ENDED', 'VOIDED')),
  -- Of this row: optimistic locking and If-Match.
  version         bigint NOT NULL DEFAULT 1,
  -- Of what the gates in Redis must know; an older one is ignored there.
  config_version  bigint NOT NULL DEFAULT 1,
  rule_version    bigint NOT NULL DEFAULT 1,
  quota           bigint NOT NULL CHECK (quota >= 0),
  per_user_limit  integer NOT NULL CHECK (per_user_limit BETWEEN 1 AND 100),
  bucket_count    integer NOT NULL DEFAULT 1 CHECK (bucket_count BETWEEN 1 AND 1024),
  starts_at       timestamptz NOT NULL,
  ends_at         timestamptz NOT NULL,
  time_zone       text NOT NULL,
  created_by      text NOT NULL,
  approved_by     text,
  created_at      timestamptz NOT NULL,
  updated_at      timestamptz NOT NULL,
  CHECK (starts_at < ends_at),
  -- The maker never approves (GV4), also when the code is wrong.
  CHECK (approved_by IS NULL OR approved_by <> created_by)
);
CREATE INDEX campaigns_by_age ON campaigns (created_at, campaign_id);

CREATE TABLE rule_versions (
  campaign_id   text NOT NULL REFERENCES campaigns,
  rule_version  bigint NOT NULL,
  rules         jsonb NOT NULL,
  created_by    text NOT NULL,
  created_at    timestamptz NOT NULL,
  PRIMARY KEY (campaign_id, rule_version)
);

-- The last line against overselling: issued only grows by a conditional update that also holds in the row itself.
CREATE TABLE campaign_stock (
  campaign_id  text PRIMARY KEY REFERENCES campaigns,
  quota        bigint NOT NULL,
  issued       bigint NOT NULL DEFAULT 0,
  unallocated  bigint NOT NULL DEFAULT 0,
  withdrawn    bigint NOT NULL DEFAULT 0,
  CHECK (issued >= 0 AND issued <= quota),
  CHECK (unallocated >= 0 AND withdrawn >= 0)
) WITH (fillfactor = 50);

CREATE TABLE buckets (
  campaign_id  text NOT NULL REFERENCES campaigns,
  bucket       integer NOT NULL,
  -- Stock given to this bucket by the ledger: what priming, transfers and increases add up to.
  allocated    bigint NOT NULL CHECK (allocated >= 0),
  -- Set once its gate was primed. From then on only a rebuild may open it again, never another priming:
  -- a Redis that lost everything looks just like one that was never primed.
  primed_at    timestamptz,
  -- The newest of the campaign's config_versions that the gate confirmed: 0 before it was primed.
  config_version bigint NOT NULL DEFAULT 0,
  epoch        bigint NOT NULL DEFAULT 1,
  PRIMARY KEY (campaign_id, bucket)
);

CREATE TABLE claims (
  user_id        text NOT NULL,
  request_id     uuid NOT NULL,
  campaign_id    text NOT NULL,
  bucket         integer NOT NULL,
  rule_version   bigint NOT NULL,
  status         text NOT NULL CHECK (status IN ('ACCEPTED', 'PROCESSING', 'DELIVERED', 'REJECTED', 'UNKNOWN', 'REVIEW')),
  reason         text,
  coupon_id      uuid,
  -- Position in the bucket's log: claims up to a snapshot's watermark are on the ledger's side.
  entry_ms       bigint NOT NULL,
  entry_seq      bigint NOT NULL,
  key_fingerprint    text NOT NULL,
  params_fingerprint text NOT NULL,
  token_id       text NOT NULL,
  accepted_at    timestamptz NOT NULL,
  settled_at     timestamptz,
  version        bigint NOT NULL DEFAULT 1,
  PRIMARY KEY (user_id, request_id),
  CHECK ((status = 'REJECTED') = (reason IS NOT NULL) OR status = 'REVIEW'),
  CHECK ((status = 'DELIVERED') = (coupon_id IS NOT NULL))
) PARTITION BY HASH (user_id);

CREATE TABLE coupons (
  user_id       text NOT NULL,
  coupon_id     uuid NOT NULL,
  campaign_id   text NOT NULL,
  -- 1 … per_user_limit: one coupon per (campaign, user, sequence) (IS2).
  claim_seq     integer NOT NULL CHECK (claim_seq BETWEEN 1 AND 100),
  request_id    uuid NOT NULL,
  -- What its rights are, for ever: the rule version and the validity it was issued with (IS3).
  rule_version  bigint NOT NULL,
  valid_from    timestamptz NOT NULL,
  valid_to      timestamptz NOT NULL,
  state         text NOT NULL CHECK (state IN ('ISSUING', 'AVAILABLE', 'RESERVED', 'USED', 'EXPIRED', 'REVOKED')),
  version       bigint NOT NULL DEFAULT 1,
  issued_at     timestamptz NOT NULL,
  updated_at    timestamptz NOT NULL,
  PRIMARY KEY (user_id, coupon_id),
  UNIQUE (user_id, campaign_id, claim_seq),
  UNIQUE (user_id, request_id),
  CHECK (valid_from < valid_to)
) PARTITION BY HASH (user_id);

-- Every change of a coupon's or a claim's rights, written in the same transaction (invariant 8).
CREATE TABLE ledger (
  user_id      text NOT NULL,
  ledger_id    uuid NOT NULL,
  campaign_id  text NOT NULL,
  request_id   uuid,
  coupon_id    uuid,
  kind         text NOT NULL,
  from_state   text,
  to_state     text NOT NULL,
  actor        text NOT NULL,
  reason       text,
  at           timestamptz NOT NULL,
  PRIMARY KEY (user_id, ledger_id)
) PARTITION BY HASH (user_id);
CREATE INDEX ledger_by_request ON ledger (user_id, request_id);

-- Events, in the same transaction as what they tell. Kept for resuming streams, removed by age.
CREATE TABLE outbox (
  event_id      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  user_id       text NOT NULL,
  request_id    uuid,
  type          text NOT NULL,
  payload       jsonb NOT NULL,
  created_at    timestamptz NOT NULL,
  published_at  timestamptz
);
CREATE INDEX outbox_unpublished ON outbox (event_id) WHERE published_at IS NULL;
CREATE INDEX outbox_by_user ON outbox (user_id, event_id);

CREATE TABLE compensations (
  user_id      text NOT NULL,
  request_id   uuid NOT NULL,
  campaign_id  text NOT NULL,
  bucket       integer NOT NULL,
  state        text NOT NULL CHECK (state IN ('PENDING', 'APPLIED', 'CLOSED', 'UNKNOWN', 'REVIEW')),
  reason       text NOT NULL,
  attempts     integer NOT NULL DEFAULT 0,
  version      bigint NOT NULL DEFAULT 1,
  created_at   timestamptz NOT NULL,
  updated_at   timestamptz NOT NULL,
  PRIMARY KEY (user_id, request_id)
) PARTITION BY HASH (user_id);
CREATE INDEX compensations_open ON compensations (campaign_id, updated_at) WHERE state IN ('PENDING', 'UNKNOWN', 'APPLIED');

-- What could not be read or written, with its cause and its bytes; replayable.
CREATE TABLE dead_letters (
  dead_letter_id uuid PRIMARY KEY,
  campaign_id  text NOT NULL,
  bucket       integer NOT NULL,
  entry_id     text NOT NULL,
  position     integer NOT NULL,
  cause        text NOT NULL,
  fields       text[] NOT NULL,
  state        text NOT NULL DEFAULT 'OPEN' CHECK (state IN ('OPEN', 'REPLAYED', 'DISCARDED')),
  created_at   timestamptz NOT NULL,
  closed_at    timestamptz,
  UNIQUE (campaign_id, bucket, entry_id, position)
);

-- Operators' commands: who, what, why, before and after; refused attempts too (GV4).
CREATE TABLE audit_log (
  audit_id   uuid PRIMARY KEY,
  at         timestamptz NOT NULL,
  actor      text NOT NULL,
  role       text NOT NULL,
  action     text NOT NULL,
  target     text NOT NULL,
  outcome    text NOT NULL CHECK (outcome IN ('done', 'refused')),
  reason     text,
  before     jsonb,
  after      jsonb
);
CREATE INDEX audit_by_target ON audit_log (target, at, audit_id);
CREATE INDEX audit_by_time ON audit_log (at, audit_id);

-- Answers of commands by idempotency key, scoped to actor and route (case-B4).
CREATE TABLE idempotency_keys (
  actor        text NOT NULL,
  route        text NOT NULL,
  key          text NOT NULL,
  body_hash    text NOT NULL,
  status       integer NOT NULL,
  answer       jsonb NOT NULL,
  created_at   timestamptz NOT NULL,
  PRIMARY KEY (actor, route, key)
);

DO $$
DECLARE parent text;
BEGIN
  FOREACH parent IN ARRAY ARRAY['claims', 'coupons', 'ledger', 'compensations'] LOOP
    FOR part IN 0..7 LOOP
      EXECUTE format('CREATE TABLE %I PARTITION OF %I FOR VALUES WITH (MODULUS 8, REMAINDER %s)',
        parent || '_' || part, parent, part);
    END LOOP;
  END LOOP;
END $$;
