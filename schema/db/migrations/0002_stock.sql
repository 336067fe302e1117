-- Where a campaign's stock goes: transfers between its buckets, how its tail is served, release over time, ballots.

ALTER TABLE campaigns
  -- What becomes of stock in one bucket while another is empty (A4 §11.2); without a meaning where there is one bucket.
  ADD COLUMN tail_policy text NOT NULL DEFAULT 'rebalance'
    CHECK (tail_policy IN ('accept', 'rebalance', 'centralise')),
  -- {initial, starts_at, every_ms, amount} of the whole campaign; each gate has its share.
  ADD COLUMN drip jsonb,
  -- {per_second, burst} of the whole campaign.
  ADD COLUMN pace jsonb,
  -- What its buckets had left was taken back, as of this instant; a later change of the campaign makes it due again.
  ADD COLUMN stock_collected_at timestamptz,
  ADD CHECK ((mode = 'drip') = (drip IS NOT NULL));

-- When the gate confirmed config_version: a pause says when the last bucket had it.
ALTER TABLE buckets ADD COLUMN config_reached_at timestamptz;

-- Stock on its way. NULL for a bucket is the campaign's unallocated stock. The row alone says what is still to be
-- done; between WITHDRAWN and DEPOSITED its amount is in transit. At every commit, for campaigns that are no ballot:
-- quota = withdrawn + unallocated + sum of buckets.allocated + sum of amounts that are WITHDRAWN.
CREATE TABLE transfers (
  transfer_id  uuid PRIMARY KEY,
  campaign_id  text NOT NULL REFERENCES campaigns,
  from_bucket  integer,
  to_bucket    integer,
  -- The most to take; what there was may have been less.
  requested    bigint NOT NULL CHECK (requested > 0),
  amount       bigint CHECK (amount BETWEEN 0 AND requested),
  state        text NOT NULL CHECK (state IN ('PLANNED', 'WITHDRAWN', 'DEPOSITED')),
  reason       text NOT NULL CHECK (reason IN ('increase', 'rebalance', 'centralise', 'spread', 'collect', 'decrease')),
  version      bigint NOT NULL DEFAULT 1,
  created_at   timestamptz NOT NULL,
  updated_at   timestamptz NOT NULL,
  CHECK (from_bucket IS DISTINCT FROM to_bucket),
  CHECK ((state = 'PLANNED') = (amount IS NULL))
);
CREATE INDEX transfers_open ON transfers (campaign_id, transfer_id) WHERE state <> 'DEPOSITED';
CREATE INDEX transfers_by_time ON transfers (updated_at);
CREATE INDEX transfers_by_campaign ON transfers (campaign_id, transfer_id);

CREATE INDEX compensations_in_review ON compensations (campaign_id) WHERE state = 'REVIEW';

-- A ballot's seed is made at publication, and shown only after the draw; its hash is shown from the start.
CREATE TABLE ballots (
  campaign_id  text PRIMARY KEY REFERENCES campaigns,
  seed         text NOT NULL,
  seed_hash    text NOT NULL,
  state        text NOT NULL CHECK (state IN ('OPEN', 'DRAWN', 'SETTLED', 'CANCELLED')),
  -- Of the draw.
  quota        bigint,
  entrants     bigint,
  version      bigint NOT NULL DEFAULT 1,
  drawn_at     timestamptz,
  settled_at   timestamptz,
  CHECK ((state IN ('DRAWN', 'SETTLED')) = (drawn_at IS NOT NULL AND quota IS NOT NULL AND entrants IS NOT NULL))
);

-- The lots of a draw, and how far each was carried out: decided in the ledger, then marked in Redis.
CREATE TABLE ballot_lots (
  user_id      text NOT NULL,
  campaign_id  text NOT NULL,
  request_id   uuid NOT NULL,
  bucket       integer NOT NULL,
  rule_version bigint NOT NULL,
  entrant      text NOT NULL,
  -- From 1; the first `quota` have won.
  rank         bigint NOT NULL CHECK (rank > 0),
  won          boolean NOT NULL,
  state        text NOT NULL CHECK (state IN ('DRAWN', 'DECIDED', 'MARKED')),
  PRIMARY KEY (user_id, campaign_id)
) PARTITION BY HASH (user_id);
CREATE INDEX ballot_lots_open ON ballot_lots (campaign_id, state, rank) WHERE state <> 'MARKED';
CREATE INDEX ballot_lots_by_rank ON ballot_lots (campaign_id, rank);

-- A ballot's entries until they are drawn.
CREATE INDEX claims_processing ON claims (campaign_id) WHERE status = 'PROCESSING';

DO $$
BEGIN
  FOR part IN 0..7 LOOP
    EXECUTE format('CREATE TABLE %I PARTITION OF ballot_lots FOR VALUES WITH (MODULUS 8, REMAINDER %s)',
      'ballot_lots_' || part, part);
  END LOOP;
END $$;
