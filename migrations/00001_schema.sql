-- oldest: 1
-- +goose Up

CREATE TABLE shops (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    slug       text        NOT NULL CONSTRAINT shops_slug_key UNIQUE,
    name       text        NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now()
);

-- A connection is one account on one platform. Its API state is shared by all
-- processes and written only when it changes.
CREATE TABLE connections (
    id              bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    slug            text        NOT NULL CONSTRAINT connections_slug_key UNIQUE,
    platform        text        NOT NULL CONSTRAINT connections_platform_check CHECK (platform IN ('shopify', 'stripe', 'receiptroller')),
    account         text        NOT NULL,
    shop_id         bigint      NOT NULL REFERENCES shops,
    api_url         text        NOT NULL DEFAULT '',
    settings        jsonb       NOT NULL DEFAULT '{}',
    credentials     bytea,      -- sealed JSON; NULL: no API access
    api_state       text        NOT NULL DEFAULT 'up' CONSTRAINT connections_api_state_check CHECK (api_state IN ('up', 'throttled', 'down', 'none')),
    api_since       timestamptz NOT NULL DEFAULT now(),
    api_error       text        NOT NULL DEFAULT '',
    api_failures    integer     NOT NULL DEFAULT 0,
    api_failing     timestamptz,            -- since when calls fail without a good one between
    api_next        timestamptz,            -- no call before this time
    notes           jsonb       NOT NULL DEFAULT '[]',
    rejected        bigint      NOT NULL DEFAULT 0,
    demo            boolean     NOT NULL DEFAULT false,
    version         bigint      NOT NULL DEFAULT 1,
    created_at      timestamptz NOT NULL DEFAULT now(),
    updated_at      timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE connection_secrets (
    id            bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    connection_id bigint      NOT NULL REFERENCES connections,
    fingerprint   text        NOT NULL,
    sealed        bytea       NOT NULL,
    added_at      timestamptz NOT NULL DEFAULT now(),
    retired_at    timestamptz,
    last_matched  timestamptz,
    CONSTRAINT connection_secrets_key UNIQUE (connection_id, fingerprint)
);

-- Calls spent per connection and day; the budget of 30 days is their sum.
CREATE TABLE connection_calls (
    connection_id bigint NOT NULL REFERENCES connections,
    day           date   NOT NULL,
    calls         bigint NOT NULL,
    PRIMARY KEY (connection_id, day)
);

CREATE TABLE orders (
    id            bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    shop_id       bigint      NOT NULL REFERENCES shops,
    connection_id bigint      NOT NULL REFERENCES connections,
    platform      text        NOT NULL CONSTRAINT orders_platform_check CHECK (platform IN ('shopify', 'stripe', 'receiptroller')),
    account       text        NOT NULL,
    platform_ref  text        NOT NULL,
    number        text        NOT NULL DEFAULT '',
    placed_at     timestamptz,
    currency      text        NOT NULL DEFAULT '',
    total         bigint      NOT NULL DEFAULT 0,
    paid          bigint      NOT NULL DEFAULT 0,
    refunded      bigint      NOT NULL DEFAULT 0,
    outstanding   bigint      NOT NULL DEFAULT 0,
    items         jsonb       NOT NULL DEFAULT '{}',
    payment       text CONSTRAINT orders_payment_check CHECK (payment IN ('pending', 'authorized', 'partially_paid', 'paid', 'failed', 'voided', 'review')),
    refund        text CONSTRAINT orders_refund_check CHECK (refund IN ('none', 'pending', 'partial', 'full', 'review')),
    dispute       text CONSTRAINT orders_dispute_check CHECK (dispute IN ('none', 'open', 'won', 'lost')),
    fulfillment   text CONSTRAINT orders_fulfillment_check CHECK (fulfillment IN ('unfulfilled', 'in_progress', 'partial', 'fulfilled', 'held')),
    cancellation  text CONSTRAINT orders_cancellation_check CHECK (cancellation IN ('active', 'requested', 'cancelled')),
    return        text CONSTRAINT orders_return_check CHECK (return IN ('none', 'requested', 'in_progress', 'received', 'declined')),
    axes          jsonb       NOT NULL DEFAULT '{}', -- per axis: since, word, check, doubt, when read, who decides
    verification  text        NOT NULL DEFAULT 'unverified' CONSTRAINT orders_verification_check CHECK (verification IN ('verified', 'unverified', 'review')),
    money_by      bigint REFERENCES connections,     -- decides payment, refund and dispute
    goods_by      bigint REFERENCES connections,     -- decides fulfillment, cancellation and return
    checked_at    timestamptz,                       -- the oldest of the readings that its axes rest on
    settled       boolean     NOT NULL DEFAULT false,
    store         boolean     NOT NULL DEFAULT false,
    announced     boolean     NOT NULL DEFAULT false,
    said          jsonb,                             -- what was said while announced
    test          boolean     NOT NULL DEFAULT false,
    method        text        NOT NULL DEFAULT '',
    channel       text        NOT NULL DEFAULT '',
    disagree_since timestamptz,                     -- since when linked platforms, both well read, tell it differently
    disagree_due  timestamptz,                      -- when they are read once more for it
    merged_into   bigint REFERENCES orders,
    version       bigint      NOT NULL DEFAULT 1,
    created_at    timestamptz NOT NULL DEFAULT now(),
    updated_at    timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT orders_platform_ref_key UNIQUE (connection_id, platform_ref),
    CONSTRAINT orders_announced_check CHECK (
        (announced AND payment IS NULL AND refund IS NULL AND dispute IS NULL AND fulfillment IS NULL AND cancellation IS NULL AND return IS NULL)
        OR (NOT announced AND payment IS NOT NULL AND refund IS NOT NULL AND dispute IS NOT NULL AND fulfillment IS NOT NULL AND cancellation IS NOT NULL AND return IS NOT NULL))
);
-- /orders, newest first, per shop and with each filter.
CREATE INDEX orders_shop_id ON orders (shop_id, id DESC);
CREATE INDEX orders_payment ON orders (payment, id DESC);
CREATE INDEX orders_fulfillment ON orders (fulfillment, id DESC);
CREATE INDEX orders_doubted ON orders (id DESC) WHERE verification <> 'verified';
CREATE INDEX orders_announced ON orders (id DESC) WHERE announced;
CREATE INDEX orders_disputed ON orders (id DESC) WHERE dispute = 'open';
-- Orders that a recovered platform has to read again.
CREATE INDEX orders_money_by ON orders (money_by) WHERE verification <> 'verified';
CREATE INDEX orders_goods_by ON orders (goods_by) WHERE verification <> 'verified';

-- Disagreements whose grace may be over.
CREATE INDEX orders_disagree ON orders (disagree_due) WHERE disagree_due IS NOT NULL;

-- Everything by which an order can be found within its shop: platform reference,
-- legacy id, number, payment intent.
CREATE TABLE order_refs (
    shop_id  bigint NOT NULL REFERENCES shops,
    ref      text   NOT NULL,
    order_id bigint NOT NULL REFERENCES orders,
    PRIMARY KEY (shop_id, ref, order_id)
);
CREATE INDEX order_refs_ref ON order_refs (ref text_pattern_ops);
CREATE INDEX order_refs_order ON order_refs (order_id);

CREATE SEQUENCE reading_no;

-- What a platform says about one thing, as last fetched.
CREATE TABLE platform_objects (
    id            bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    connection_id bigint      NOT NULL REFERENCES connections,
    account       text        NOT NULL,
    kind          text        NOT NULL,
    ref           text        NOT NULL,
    order_id      bigint REFERENCES orders,
    linked_by     text        NOT NULL DEFAULT '',
    leads_to      bigint REFERENCES platform_objects, -- a refund or a return leads to its order
    state         text        NOT NULL DEFAULT '',    -- the platform's own words, for lists
    official      jsonb,
    said          jsonb,
    digest        bytea,
    fetched_at    timestamptz,                        -- when the last official reading began
    reported_at   timestamptz,
    missing_since timestamptz,                        -- the platform answers and doesn't know it
    applied_no    bigint      NOT NULL DEFAULT 0,     -- reading number of the last reading applied
    claimed_no    bigint      NOT NULL DEFAULT 0,
    claimed_until timestamptz,
    reread_at     timestamptz,                        -- to be read again though no event asks for it
    created_at    timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT platform_objects_key UNIQUE (connection_id, account, kind, ref)
);
CREATE INDEX platform_objects_order ON platform_objects (order_id);
CREATE INDEX platform_objects_reread ON platform_objects (connection_id, reread_at) WHERE reread_at IS NOT NULL;

-- The event row is the queue: due_at says when somebody has to look at it.
CREATE TABLE events (
    id            bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    connection_id bigint      NOT NULL REFERENCES connections,
    key           bytea       NOT NULL CONSTRAINT events_key_check CHECK (length(key) = 16),
    account       text        NOT NULL,
    event_id      text        NOT NULL DEFAULT '',
    topic         text        NOT NULL,
    object_kind   text        NOT NULL DEFAULT '',
    object_ref    text        NOT NULL DEFAULT '',
    act           text        NOT NULL DEFAULT '',
    occurred_at   timestamptz,
    floor_at      timestamptz,  -- a reading whose own time lies before it is older than the event
    version       bigint      NOT NULL DEFAULT 0,
    said          jsonb,
    digest        bytea       NOT NULL,  -- SHA-256 of the exact bytes
    content       bytea       NOT NULL,  -- without what may differ between deliveries
    size          integer     NOT NULL,
    secret        text        NOT NULL DEFAULT '',  -- fingerprint of the secret that matched
    skew_ms       bigint,
    request_id    text        NOT NULL DEFAULT '',
    test          boolean     NOT NULL DEFAULT false,
    known         boolean     NOT NULL DEFAULT true,
    state         text        NOT NULL DEFAULT 'received' CONSTRAINT events_state_check CHECK (state IN ('received', 'waiting', 'unmatched', 'applied', 'superseded', 'not_applied', 'review', 'failed')),
    deliveries    bigint      NOT NULL DEFAULT 1,
    conflicts     integer     NOT NULL DEFAULT 0,
    tries         integer     NOT NULL DEFAULT 0,  -- our own failures
    attempts      integer     NOT NULL DEFAULT 0,  -- all attempts, for event_tries
    rereads       integer     NOT NULL DEFAULT 0,
    due_at        timestamptz,
    order_id      bigint REFERENCES orders,
    caused_by     bigint,       -- the event that is the cause of what this one would have moved
    entry_id      bigint,       -- the ledger entry that says already what this one would have said
    error         text        NOT NULL DEFAULT '',
    received_at   timestamptz NOT NULL DEFAULT now(),
    last_at       timestamptz NOT NULL DEFAULT now(),
    done_at       timestamptz,
    CONSTRAINT events_once_key UNIQUE (connection_id, key)
);
CREATE INDEX events_due ON events (connection_id, due_at) WHERE due_at IS NOT NULL;
CREATE INDEX events_object ON events (connection_id, object_kind, object_ref, id);
CREATE INDEX events_order ON events (order_id, id DESC) WHERE order_id IS NOT NULL;
CREATE INDEX events_event_id ON events (event_id text_pattern_ops) WHERE event_id <> '';
CREATE INDEX events_act ON events (connection_id, act) WHERE act <> '';
CREATE INDEX events_state ON events (state, id DESC);
-- /events of one connection, and its last one.
CREATE INDEX events_connection ON events (connection_id, id DESC);

-- Arrivals after the first, the last 20 of each event.
CREATE TABLE event_deliveries (
    event_id   bigint      NOT NULL REFERENCES events ON DELETE CASCADE,
    slot       smallint    NOT NULL,
    n          bigint      NOT NULL,
    at         timestamptz NOT NULL,
    same       boolean     NOT NULL,
    request_id text        NOT NULL,
    PRIMARY KEY (event_id, slot)
);

-- Attempts to process, the last 20 of each event.
CREATE TABLE event_tries (
    event_id bigint      NOT NULL REFERENCES events ON DELETE CASCADE,
    slot     smallint    NOT NULL,
    n        integer     NOT NULL,
    at       timestamptz NOT NULL,
    outcome  text        NOT NULL,
    error    text        NOT NULL DEFAULT '',
    PRIMARY KEY (event_id, slot)
);

-- An event's exact bytes, sealed. Partitioned by week, so that old weeks are
-- dropped whole. No foreign key: rows are inserted in the event's own statement.
CREATE TABLE payloads (
    event_id bigint      NOT NULL,
    n        smallint    NOT NULL DEFAULT 0, -- 0: the first; later ones have other content
    kept_at  timestamptz NOT NULL DEFAULT now(),
    digest   bytea       NOT NULL,
    sealed   bytea       NOT NULL,
    PRIMARY KEY (event_id, n, kept_at)
) PARTITION BY RANGE (kept_at);
CREATE TABLE payloads_rest PARTITION OF payloads DEFAULT WITH (toast_tuple_target = 8160);
ALTER TABLE payloads_rest ALTER COLUMN sealed SET STORAGE EXTERNAL;

-- Payloads that must outlive their week: open cases, disputes.
CREATE TABLE payloads_kept (
    event_id bigint      NOT NULL,
    n        smallint    NOT NULL,
    kept_at  timestamptz NOT NULL,
    digest   bytea       NOT NULL,
    sealed   bytea       NOT NULL,
    PRIMARY KEY (event_id, n)
);

-- +goose StatementBegin
CREATE FUNCTION payload_weeks(ahead integer) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    first date := date_trunc('week', now() AT TIME ZONE 'UTC')::date;
    week  date;
    name  text;
BEGIN
    PERFORM pg_advisory_xact_lock(7263544);
    FOR i IN 0..ahead LOOP
        week := first + 7 * i;
        name := 'payloads_' || to_char(week, 'IYYY"w"IW');
        IF to_regclass(name) IS NULL THEN
            EXECUTE format('CREATE TABLE %I (LIKE payloads INCLUDING DEFAULTS INCLUDING CONSTRAINTS) WITH (toast_tuple_target = 8160)', name);
            EXECUTE format('ALTER TABLE %I ALTER COLUMN sealed SET STORAGE EXTERNAL', name);
            EXECUTE format('WITH moved AS (DELETE FROM payloads_rest WHERE kept_at >= %L AND kept_at < %L RETURNING *) INSERT INTO %I SELECT * FROM moved',
                week::timestamp AT TIME ZONE 'UTC', (week + 7)::timestamp AT TIME ZONE 'UTC', name);
            EXECUTE format('ALTER TABLE payloads ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)',
                name, week::timestamp AT TIME ZONE 'UTC', (week + 7)::timestamp AT TIME ZONE 'UTC');
        END IF;
    END LOOP;
END $$;
-- +goose StatementEnd
SELECT payload_weeks(4);

-- Events that wait for an order, by the references under which it may appear.
CREATE TABLE wanted (
    shop_id  bigint NOT NULL REFERENCES shops,
    ref      text   NOT NULL,
    event_id bigint NOT NULL REFERENCES events ON DELETE CASCADE,
    PRIMARY KEY (shop_id, ref, event_id)
);
CREATE INDEX wanted_event ON wanted (event_id);

CREATE TABLE ledger (
    id              bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    order_id        bigint      NOT NULL REFERENCES orders,
    axis            text        NOT NULL CONSTRAINT ledger_axis_check CHECK (axis IN ('payment', 'refund', 'dispute', 'fulfillment', 'cancellation', 'return')),
    from_state      text        NOT NULL DEFAULT '',
    to_state        text        NOT NULL,
    currency        text        NOT NULL DEFAULT '',
    total_before    bigint      NOT NULL,
    paid_before     bigint      NOT NULL,
    refunded_before bigint      NOT NULL,
    total           bigint      NOT NULL,
    paid            bigint      NOT NULL,
    refunded        bigint      NOT NULL,
    cause_kind      text        NOT NULL CONSTRAINT ledger_cause_kind_check CHECK (cause_kind IN ('event', 'resync', 'import', 'correction', 'link')),
    cause_id        text        NOT NULL,
    cause           jsonb       NOT NULL, -- what proves it by itself
    actor           text        NOT NULL,
    at              timestamptz NOT NULL,
    xid             xid8        NOT NULL DEFAULT pg_current_xact_id()
);
CREATE INDEX ledger_order ON ledger (order_id, id DESC);
CREATE INDEX ledger_cause ON ledger (cause_kind, cause_id);

-- +goose StatementBegin
CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% is append-only', TG_TABLE_NAME USING ERRCODE = 'restrict_violation';
END $$;
-- +goose StatementEnd
CREATE TRIGGER ledger_append_only BEFORE UPDATE OR DELETE ON ledger FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER ledger_no_truncate BEFORE TRUNCATE ON ledger FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- An axis or an amount changes only with a ledger entry of the same transaction.
-- +goose StatementBegin
CREATE FUNCTION orders_need_ledger() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    missing text;
    old_row orders := CASE WHEN TG_OP = 'UPDATE' THEN OLD END;
BEGIN
    IF NEW.announced THEN
        IF TG_OP = 'UPDATE' AND NOT OLD.announced THEN
            RAISE EXCEPTION 'order % can''t become announced again', NEW.id USING ERRCODE = 'restrict_violation';
        END IF;
        RETURN NULL;
    END IF;
    SELECT string_agg(c.axis, ', ') INTO missing
    FROM (VALUES
        ('payment', NEW.payment, old_row.payment),
        ('refund', NEW.refund, old_row.refund),
        ('dispute', NEW.dispute, old_row.dispute),
        ('fulfillment', NEW.fulfillment, old_row.fulfillment),
        ('cancellation', NEW.cancellation, old_row.cancellation),
        ('return', NEW.return, old_row.return)) AS c (axis, now_is, was)
    WHERE c.now_is IS DISTINCT FROM c.was
      AND NOT EXISTS (SELECT 1 FROM ledger l WHERE l.order_id = NEW.id AND l.axis = c.axis
          AND l.to_state = c.now_is AND l.xid = pg_current_xact_id());
    IF missing IS NULL AND (NEW.total, NEW.paid, NEW.refunded, NEW.currency) IS DISTINCT FROM (COALESCE(old_row.total, 0), COALESCE(old_row.paid, 0), COALESCE(old_row.refunded, 0), COALESCE(old_row.currency, ''))
       AND NOT EXISTS (SELECT 1 FROM ledger l WHERE l.order_id = NEW.id AND l.xid = pg_current_xact_id()
           AND (l.total, l.paid, l.refunded) = (NEW.total, NEW.paid, NEW.refunded)) THEN
        missing := 'amounts';
    END IF;
    IF missing IS NOT NULL THEN
        RAISE EXCEPTION 'order %: % changed without a ledger entry', NEW.id, missing USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE CONSTRAINT TRIGGER orders_ledger_insert AFTER INSERT ON orders
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (NOT NEW.announced) EXECUTE FUNCTION orders_need_ledger();
CREATE CONSTRAINT TRIGGER orders_ledger_update AFTER UPDATE ON orders
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
    WHEN ((OLD.payment, OLD.refund, OLD.dispute, OLD.fulfillment, OLD.cancellation, OLD.return, OLD.total, OLD.paid, OLD.refunded, OLD.currency, OLD.announced)
        IS DISTINCT FROM (NEW.payment, NEW.refund, NEW.dispute, NEW.fulfillment, NEW.cancellation, NEW.return, NEW.total, NEW.paid, NEW.refunded, NEW.currency, NEW.announced))
    EXECUTE FUNCTION orders_need_ledger();

CREATE TABLE exceptions (
    id             bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    connection_id  bigint REFERENCES connections,
    subject        text        NOT NULL, -- order:7, object:9, secret:…, topic:…, shape:…
    kind           text        NOT NULL CONSTRAINT exceptions_kind_check CHECK (kind IN ('missed_notification', 'state_differs', 'amount_differs', 'platforms_disagree', 'move_refused', 'unknown_status', 'schema_changed', 'payload_conflict', 'unmatched', 'event_failed', 'action_failed', 'action_unclear', 'action_differs', 'contradiction', 'paid_twice', 'shipped_twice', 'subscription_missing', 'signature_failures', 'silence', 'gone_on_platform', 'outside_window', 'access_ending', 'overdue', 'drill_failed')),
    case_name      text        NOT NULL DEFAULT '',
    axis           text,
    order_id       bigint REFERENCES orders,
    object_ref     text        NOT NULL DEFAULT '',
    platform_state text        NOT NULL DEFAULT '',
    local_state    text        NOT NULL DEFAULT '',
    detail         text        NOT NULL DEFAULT '',
    policy         text        NOT NULL CONSTRAINT exceptions_policy_check CHECK (policy IN ('hold', 'wait', 'ask')),
    state          text        NOT NULL DEFAULT 'open' CONSTRAINT exceptions_state_check CHECK (state IN ('open', 'closed')),
    count          bigint      NOT NULL DEFAULT 1,
    first_seen     timestamptz NOT NULL,
    last_seen      timestamptz NOT NULL,
    closed_at      timestamptz,
    closed_how     text        NOT NULL DEFAULT ''
);
CREATE UNIQUE INDEX exceptions_open_key ON exceptions (connection_id, subject, kind, axis) NULLS NOT DISTINCT WHERE state = 'open';
CREATE INDEX exceptions_order ON exceptions (order_id) WHERE order_id IS NOT NULL;
CREATE INDEX exceptions_open ON exceptions (id DESC) WHERE state = 'open';
CREATE INDEX exceptions_subject ON exceptions (subject) WHERE state = 'open';

-- Bounded evidence of refused requests: no input but header names, a size and a hash.
CREATE TABLE rejections (
    id            bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    connection_id bigint      NOT NULL REFERENCES connections,
    at            timestamptz NOT NULL,
    request_id    text        NOT NULL,
    reason        text        NOT NULL,
    cause         text        NOT NULL,
    detail        text        NOT NULL DEFAULT '',
    size          bigint      NOT NULL,
    hash          text        NOT NULL,
    headers       text[]      NOT NULL
);
CREATE INDEX rejections_connection ON rejections (connection_id, id DESC);

-- Notifications that are about nothing we can fetch.
CREATE TABLE topics (
    connection_id bigint      NOT NULL REFERENCES connections,
    topic         text        NOT NULL,
    known         boolean     NOT NULL,
    count         bigint      NOT NULL,
    last_at       timestamptz NOT NULL,
    PRIMARY KEY (connection_id, topic)
);

CREATE TABLE staff (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    email       text        NOT NULL CONSTRAINT staff_email_check CHECK (email = lower(email)),
    name        text        NOT NULL,
    role        text        NOT NULL CONSTRAINT staff_role_check CHECK (role IN ('support', 'manager', 'admin', 'auditor')),
    lead        boolean     NOT NULL DEFAULT false,
    password    text        NOT NULL, -- argon2id
    locale      text        NOT NULL DEFAULT '',
    disabled_at timestamptz,
    created_at  timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT staff_email_key UNIQUE (email)
);

CREATE TABLE staff_shops (
    staff_id bigint NOT NULL REFERENCES staff,
    shop_id  bigint NOT NULL REFERENCES shops,
    PRIMARY KEY (staff_id, shop_id)
);

CREATE TABLE sessions (
    token      bytea       PRIMARY KEY, -- SHA-256 of the cookie's random value
    staff_id   bigint      NOT NULL REFERENCES staff,
    created_at timestamptz NOT NULL DEFAULT now(),
    seen_at    timestamptz NOT NULL DEFAULT now(),
    expires_at timestamptz NOT NULL,
    ended_at   timestamptz,
    agent      text        NOT NULL DEFAULT ''
);
CREATE INDEX sessions_staff ON sessions (staff_id);

CREATE TABLE api_tokens (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name       text        NOT NULL CONSTRAINT api_tokens_name_key UNIQUE,
    token      bytea       NOT NULL CONSTRAINT api_tokens_token_key UNIQUE, -- SHA-256
    role       text        NOT NULL CONSTRAINT api_tokens_role_check CHECK (role IN ('support', 'manager', 'admin', 'auditor', 'service')),
    staff_id   bigint REFERENCES staff,
    scopes     text[]      NOT NULL,
    shops      bigint[]    NOT NULL DEFAULT '{}',
    created_at timestamptz NOT NULL DEFAULT now(),
    expires_at timestamptz NOT NULL,
    used_at    timestamptz,
    revoked_at timestamptz,
    CONSTRAINT api_tokens_approve_check CHECK (NOT ('approve' = ANY (scopes)) OR staff_id IS NOT NULL)
);

-- Failed sign-ins, counted per account and per address apart, so that nobody can
-- lock a colleague out.
CREATE TABLE sign_in_failures (
    subject text        NOT NULL, -- hash of account, or of account and address
    at      timestamptz NOT NULL
);
CREATE INDEX sign_in_failures_subject ON sign_in_failures (subject, at);

-- Plain inserts with a MAC over the exact bytes; ids and states, never personal data.
CREATE TABLE audit (
    id      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at      timestamptz NOT NULL,
    actor   text        NOT NULL,
    verb    text        NOT NULL,
    subject text        NOT NULL,
    before  text        NOT NULL DEFAULT '',
    after   text        NOT NULL DEFAULT '',
    mac     bytea       NOT NULL
);
CREATE TRIGGER audit_append_only BEFORE UPDATE OR DELETE ON audit FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER audit_no_truncate BEFORE TRUNCATE ON audit FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE INDEX audit_subject ON audit (subject, id DESC);

-- The oldest schema release whose program may still run on this schema. Each step
-- adds a row.
CREATE TABLE schema_oldest (
    version bigint PRIMARY KEY,
    oldest  bigint NOT NULL
);
INSERT INTO schema_oldest VALUES (1, 1), (2, 1);
