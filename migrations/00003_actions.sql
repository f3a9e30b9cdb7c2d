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
    person      boolean     NOT NULL DEFAULT false, -- waits for a person's release from the start
    released_at timestamptz, -- by a person, last
    not_before  timestamptz,
    due_at      timestamptz, -- when somebody has to look at it; while it is being sent, the end of the lease
    tries       integer     NOT NULL DEFAULT 0,
    body        bytea,      -- as it is sent on every try; fixed when it is claimed
    url         text        NOT NULL DEFAULT '',    -- of the destination, when it was claimed
    idempotent  boolean     NOT NULL DEFAULT false, -- likewise
    error       text        NOT NULL DEFAULT '',
    receipt     text        NOT NULL DEFAULT '',
    withdrew_id bigint REFERENCES ledger,
    instead_id  bigint REFERENCES actions, -- what took its place when two orders became one
    planned_at  timestamptz NOT NULL,
    sent_at     timestamptz,
    done_at     timestamptz,
    CONSTRAINT actions_once_key UNIQUE (order_id, kind, stage)
);
CREATE INDEX actions_due ON actions (due_at) WHERE due_at IS NOT NULL;
-- /actions, by state and per shop.
CREATE INDEX actions_state ON actions (state, id DESC);
CREATE INDEX actions_shop ON actions (shop_id, id DESC);

-- Notifications that lead to an order through another object, before one is sent.
CREATE INDEX platform_objects_leads ON platform_objects (leads_to) WHERE leads_to IS NOT NULL;

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
    released_by text        NOT NULL DEFAULT '',
    CONSTRAINT holds_resumes_check CHECK (NOT resumes OR until IS NOT NULL)
);
CREATE UNIQUE INDEX holds_open_key ON holds (scope, subject) WHERE released_at IS NULL;
CREATE INDEX holds_due ON holds (until) WHERE released_at IS NULL AND resumes;
-- A hold of a shell reaches the order that it became part of.
CREATE INDEX orders_merged ON orders (merged_into) WHERE merged_into IS NOT NULL;

INSERT INTO schema_oldest VALUES (3, 1);
