-- What accepted claims become beside a coupon at once: reviews, direct issue, and the archive of the request log.

-- Accepted claims that wait for a decision. The claim's own row has the state; this one says why it waits, until when,
-- and whether its record in Redis was told: DECIDED stands in the ledger, CLOSED also in Redis.
CREATE TABLE reviews (
  user_id      text NOT NULL,
  request_id   uuid NOT NULL,
  campaign_id  text NOT NULL,
  bucket       integer NOT NULL,
  cause        text NOT NULL CHECK (cause IN ('held')),
  state        text NOT NULL DEFAULT 'OPEN' CHECK (state IN ('OPEN', 'DECIDED', 'CLOSED')),
  -- The timer: what becomes of it then, unless a person decides before. NULL: it waits for a person.
  due_at       timestamptz,
  due_verdict  text CHECK (due_verdict IN ('issue', 'reject')),
  decided_by   text,
  opened_at    timestamptz NOT NULL,
  decided_at   timestamptz,
  PRIMARY KEY (user_id, request_id),
  CHECK ((due_at IS NULL) = (due_verdict IS NULL)),
  CHECK ((state = 'OPEN') = (decided_at IS NULL) AND (decided_at IS NULL) = (decided_by IS NULL))
) PARTITION BY HASH (user_id);
CREATE INDEX reviews_by_age ON reviews (opened_at, request_id);
CREATE INDEX reviews_by_request ON reviews (request_id);
CREATE INDEX reviews_due ON reviews (due_at) WHERE state = 'OPEN' AND due_at IS NOT NULL;
CREATE INDEX reviews_untold ON reviews (decided_at) WHERE state = 'DECIDED';

CREATE INDEX dead_letters_by_age ON dead_letters (created_at, dead_letter_id);

-- How claims become coupons: through the log, or in the database at once (for small campaigns).
ALTER TABLE campaigns
  ADD COLUMN delivery text NOT NULL DEFAULT 'stream' CHECK (delivery IN ('stream', 'direct')),
  ADD CHECK (delivery = 'stream' OR mode = 'first_come');

-- The requests that were accepted, as the log had them, in the transaction that issued them. By day of acceptance
-- (UTC); days are exported and then dropped as a whole. Rows outside of all days made ahead go to the last table.
CREATE TABLE request_log (
  accepted_at  timestamptz NOT NULL,
  campaign_id  text NOT NULL,
  bucket       integer NOT NULL,
  entry_id     text NOT NULL,
  fields       text[] NOT NULL
) PARTITION BY RANGE (accepted_at);
CREATE TABLE request_log_rest PARTITION OF request_log DEFAULT;
CREATE INDEX request_log_by_time ON request_log (accepted_at);

DO $$
BEGIN
  FOR part IN 0..7 LOOP
    EXECUTE format('CREATE TABLE %I PARTITION OF reviews FOR VALUES WITH (MODULUS 8, REMAINDER %s)',
      'reviews_' || part, part);
  END LOOP;
END $$;
