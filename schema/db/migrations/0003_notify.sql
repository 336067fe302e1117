-- Results on their way to shops (webhooks) and to browsers (Web Push). Rows are made in the transaction that publishes
-- the outbox event, so none is forgotten; the next attempt's time is also the lease of whoever is at it.

CREATE TABLE webhook_endpoints (
  endpoint_id    uuid PRIMARY KEY,
  url            text NOT NULL,
  description    text NOT NULL,
  -- Empty: all.
  event_types    text[] NOT NULL,
  state          text NOT NULL CHECK (state IN ('ENABLED', 'DISABLED')),
  -- Why it is disabled: 'operator', 'failing' or 'gone'.
  disabled_reason text,
  -- Since when nothing was taken; NULL while all is well.
  failing_since  timestamptz,
  version        bigint NOT NULL DEFAULT 1,
  created_by     text NOT NULL,
  created_at     timestamptz NOT NULL,
  updated_at     timestamptz NOT NULL,
  CHECK ((state = 'DISABLED') = (disabled_reason IS NOT NULL))
);
CREATE INDEX webhook_endpoints_by_age ON webhook_endpoints (created_at, endpoint_id);

-- Apart from the endpoint, so that reading one never reads its secrets.
CREATE TABLE webhook_secrets (
  endpoint_id  uuid NOT NULL REFERENCES webhook_endpoints,
  generation   bigint NOT NULL,
  secret       text NOT NULL,
  -- NULL: the present one.
  expires_at   timestamptz,
  PRIMARY KEY (endpoint_id, generation)
);

CREATE TABLE webhook_deliveries (
  endpoint_id   uuid NOT NULL REFERENCES webhook_endpoints,
  -- The outbox' own: an event goes to an endpoint once, however often it is published.
  event_id      bigint NOT NULL,
  type          text NOT NULL,
  -- The signed bytes: the same at each attempt, also when the outbox has forgotten the event.
  body          text NOT NULL,
  state         text NOT NULL DEFAULT 'PENDING' CHECK (state IN ('PENDING', 'DELIVERED', 'FAILED')),
  attempts      integer NOT NULL DEFAULT 0,
  next_attempt_at timestamptz NOT NULL,
  -- Attempts are planned until here; sending again by hand moves it.
  give_up_at    timestamptz NOT NULL,
  created_at    timestamptz NOT NULL,
  delivered_at  timestamptz,
  PRIMARY KEY (endpoint_id, event_id),
  CHECK ((state = 'DELIVERED') = (delivered_at IS NOT NULL))
);
CREATE INDEX webhook_deliveries_due ON webhook_deliveries (endpoint_id, next_attempt_at) WHERE state = 'PENDING';
CREATE INDEX webhook_deliveries_by_age ON webhook_deliveries (endpoint_id, created_at, event_id);
CREATE INDEX webhook_deliveries_swept ON webhook_deliveries (created_at);

CREATE TABLE webhook_attempts (
  endpoint_id   uuid NOT NULL,
  event_id      bigint NOT NULL,
  attempt       integer NOT NULL,
  at            timestamptz NOT NULL,
  duration_ms   integer NOT NULL,
  -- NULL: no answer came.
  status        integer,
  -- NULL: it was taken.
  error         text,
  PRIMARY KEY (endpoint_id, event_id, attempt),
  FOREIGN KEY (endpoint_id, event_id) REFERENCES webhook_deliveries ON DELETE CASCADE
);

CREATE TABLE push_subscriptions (
  user_id          text NOT NULL,
  -- Made of the endpoint: subscribing again is the same subscription.
  subscription_id  uuid NOT NULL,
  endpoint         text NOT NULL,
  p256dh           text NOT NULL,
  auth             text NOT NULL,
  created_at       timestamptz NOT NULL,
  expires_at       timestamptz,
  PRIMARY KEY (user_id, subscription_id)
) PARTITION BY HASH (user_id);
-- A browser has one user at a time: whoever subscribes it takes it from the one before.
CREATE INDEX push_subscriptions_by_id ON push_subscriptions (subscription_id);

CREATE TABLE push_deliveries (
  user_id          text NOT NULL,
  subscription_id  uuid NOT NULL,
  event_id         bigint NOT NULL,
  body             text NOT NULL,
  attempts         integer NOT NULL DEFAULT 0,
  next_attempt_at  timestamptz NOT NULL,
  give_up_at       timestamptz NOT NULL,
  PRIMARY KEY (user_id, subscription_id, event_id)
) PARTITION BY HASH (user_id);
CREATE INDEX push_deliveries_due ON push_deliveries (next_attempt_at);

DO $$
DECLARE parent text;
BEGIN
  FOREACH parent IN ARRAY ARRAY['push_subscriptions', 'push_deliveries'] LOOP
    FOR part IN 0..7 LOOP
      EXECUTE format('CREATE TABLE %I PARTITION OF %I FOR VALUES WITH (MODULUS 8, REMAINDER %s)',
        parent || '_' || part, parent, part);
    END LOOP;
  END LOOP;
END $$;
