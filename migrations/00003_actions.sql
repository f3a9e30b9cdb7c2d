-- oldest: 1
-- +goose Up

-- A follow-up of an order, once per kind and stage. The row is the promise and the
-- queue; its job is only an alarm clock.
CREATE TABLE actions (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    order_id    bigint      NOT NULL REFERENCES orders,
    shop_id     bigint      NOT NULL REFERENCES shops,
    kind        text        NOT NULL CONSTRAINT actions_kind_check CHECK (kind IN ('fulfillment_instruction', 'service_activation', 'stock_deduction', 'invoice', 'credit_note', 'customer_message')),
    stage       text        NOT NULL,
    state       text        NOT NULL CONSTRAINT actions_state_check CHECK (state IN ('planned', 'waiting', 'sending', 'manual', 'done', 'failed', 'unclear', 'withdrawn', 'not_needed', 'watched')),
    why         text        NOT NULL DEFAULT '',
    entry_id    bigint REFERENCES ledger,
    official    boolean     NOT NULL,
    person      boolean     NOT NULL DEFAULT false, -- waits for a person's release
    not_before  timestamptz,
    due_at      timestamptz,
    lease_until timestamptz,
    tries       integer     NOT NULL DEFAULT 0,
    body        bytea,      -- as it is sent on every try; fixed when it is claimed
    idempotent  boolean     NOT NULL DEFAULT false, -- of the destination, when it was claimed
    error       text        NOT NULL DEFAULT '',
    receipt     text        NOT NULL DEFAULT '',
    withdrew_id bigint REFERENCES ledger,
    planned_at  timestamptz NOT NULL,
    sent_at     timestamptz,
    done_at     timestamptz,
    CONSTRAINT actions_once_key UNIQUE (order_id, kind, stage)
);
CREATE INDEX actions_due ON actions (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX actions_state ON actions (state, id DESC);

-- Where the actions of a kind go. No row: the kind is watched.
CREATE TABLE destinations (
    shop_id     bigint      NOT NULL REFERENCES shops,
    kind        text        NOT NULL CONSTRAINT destinations_kind_check CHECK (kind IN ('fulfillment_instruction', 'service_activation', 'stock_deduction', 'invoice', 'credit_note', 'customer_message')),
    mode        text        NOT NULL CONSTRAINT destinations_mode_check CHECK (mode IN ('watch', 'manual', 'http')),
    url         text        NOT NULL DEFAULT '',
    secret      bytea,      -- sealed
    idempotent  boolean     NOT NULL DEFAULT false,
    allow_hosts text[]      NOT NULL DEFAULT '{}',
    updated_at  timestamptz NOT NULL,
    PRIMARY KEY (shop_id, kind)
);

CREATE TABLE holds (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    scope       text        NOT NULL CONSTRAINT holds_scope_check CHECK (scope IN ('order', 'connection', 'shop')),
    subject     bigint      NOT NULL,
    reason      text        NOT NULL CONSTRAINT holds_reason_check CHECK (reason <> ''),
    actor       text        NOT NULL,
    actor_name  text        NOT NULL DEFAULT '',
    since       timestamptz NOT NULL,
    until       timestamptz,
    resumes     boolean     NOT NULL DEFAULT false,
    released_at timestamptz,
    released_by text        NOT NULL DEFAULT ''
);
CREATE INDEX holds_open ON holds (scope, subject) WHERE released_at IS NULL;

INSERT INTO schema_oldest VALUES (3, 1);
