-- oldest: 1
-- +goose Up

-- A run of a sweep over one kind of object of a connection. A page is finished in the
-- transaction that moves the cursor; whoever is killed in the middle of one leaves it
-- to the next who claims the run.
CREATE TABLE sweeps (
    id            bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    connection_id bigint      NOT NULL REFERENCES connections,
    kind          text        NOT NULL,
    reason        text        NOT NULL CONSTRAINT sweeps_reason_check CHECK (reason IN ('periodic', 'asked', 'import', 'outage', 'off', 'refusals', 'gap')),
    asked_by      text        NOT NULL DEFAULT 'console',
    since         timestamptz, -- NULL: from the beginning
    until         timestamptz NOT NULL,
    cursor        text        NOT NULL DEFAULT '',
    pages         integer     NOT NULL DEFAULT 0,
    seen          bigint      NOT NULL DEFAULT 0,
    missed        bigint      NOT NULL DEFAULT 0,
    different     bigint      NOT NULL DEFAULT 0,
    failed        bigint      NOT NULL DEFAULT 0, -- objects that couldn't be read or compared
    expected      bigint,      -- objects in all, where the platform says so
    reached       timestamptz, -- the platform's time of the last object compared
    state         text        NOT NULL DEFAULT 'running' CONSTRAINT sweeps_state_check CHECK (state IN ('running', 'done', 'stopped', 'failed')),
    error         text        NOT NULL DEFAULT '', -- why it waits or failed, without personal data
    tries         integer     NOT NULL DEFAULT 0,
    due_at        timestamptz, -- when somebody goes on with it
    claimed_no    bigint      NOT NULL DEFAULT 0,
    claimed_until timestamptz,
    started_at    timestamptz NOT NULL,
    updated_at    timestamptz NOT NULL,
    ended_at      timestamptz
);
CREATE UNIQUE INDEX sweeps_periodic_key ON sweeps (connection_id, kind) WHERE state = 'running' AND reason IN ('periodic', 'import');
CREATE INDEX sweeps_connection ON sweeps (connection_id, id DESC);
CREATE INDEX sweeps_due ON sweeps (due_at) WHERE state = 'running';
-- The calendar: what was compared of an hour.
CREATE INDEX sweeps_until ON sweeps (connection_id, kind, until DESC) WHERE state = 'done';

-- Up to when each kind of object of a connection has been compared without a gap.
CREATE TABLE checkpoints (
    connection_id bigint      NOT NULL REFERENCES connections,
    kind          text        NOT NULL,
    at            timestamptz NOT NULL,
    swept_at      timestamptz NOT NULL, -- when the run ended that brought it here
    next_at       timestamptz NOT NULL, -- when the next periodic run is due
    PRIMARY KEY (connection_id, kind)
);
CREATE INDEX checkpoints_next ON checkpoints (next_at);

-- When the first sweep, the quiet import, was over; NULL: it isn't.
ALTER TABLE connections ADD COLUMN imported_at timestamptz;

-- What a sweep saw that our record doesn't say, until the object is read and applied.
-- It moves nothing; a notification may still come. opens_at: when it is called missed.
CREATE TABLE findings (
    object_id     bigint      PRIMARY KEY REFERENCES platform_objects,
    connection_id bigint      NOT NULL REFERENCES connections,
    order_id      bigint REFERENCES orders, -- NULL: our record has no such order
    seen          jsonb       NOT NULL, -- the observation
    digest        bytea       NOT NULL,
    problems      jsonb       NOT NULL, -- what becomes exceptions, axis by axis
    changed_at    timestamptz, -- the platform's own time of the change
    first_seen    timestamptz NOT NULL,
    last_seen     timestamptz NOT NULL,
    count         bigint      NOT NULL DEFAULT 1,
    opens_at      timestamptz, -- NULL: its exceptions are open
    sweep_id      bigint REFERENCES sweeps
);
CREATE INDEX findings_opens ON findings (opens_at) WHERE opens_at IS NOT NULL;
CREATE INDEX findings_order ON findings (order_id) WHERE order_id IS NOT NULL;
CREATE INDEX findings_connection ON findings (connection_id);

-- More than a few of one kind and connection at once are one line and one alert.
CREATE TABLE case_groups (
    id            bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    connection_id bigint      REFERENCES connections,
    kind          text        NOT NULL,
    first_seen    timestamptz NOT NULL,
    last_seen     timestamptz NOT NULL,
    closed_at     timestamptz
);
CREATE UNIQUE INDEX case_groups_open_key ON case_groups (connection_id, kind) NULLS NOT DISTINCT WHERE closed_at IS NULL;

ALTER TABLE exceptions
    ADD COLUMN rule        text        NOT NULL DEFAULT '', -- the row of the policies that it follows
    ADD COLUMN urgency     text        NOT NULL DEFAULT 'today' CONSTRAINT exceptions_urgency_check CHECK (urgency IN ('now', 'today', 'later')),
    ADD COLUMN first_to    text        NOT NULL DEFAULT 'support',
    ADD COLUMN needs       boolean     NOT NULL DEFAULT true, -- a person's; else it is settling by itself
    ADD COLUMN needs_at    timestamptz, -- when its grace ends; NULL: not before somebody says so
    ADD COLUMN heal_at     timestamptz, -- when the console reads again by policy; NULL: it doesn't
    ADD COLUMN healed_at   timestamptz, -- when it last did
    ADD COLUMN tell        boolean     NOT NULL DEFAULT false, -- the customer has to be told
    ADD COLUMN told_at     timestamptz,
    ADD COLUMN told_by     text        NOT NULL DEFAULT '',
    ADD COLUMN owner_id    bigint REFERENCES staff,
    ADD COLUMN owned_at    timestamptz,
    ADD COLUMN group_id    bigint REFERENCES case_groups,
    ADD COLUMN object_id   bigint REFERENCES platform_objects,
    ADD COLUMN topic       text        NOT NULL DEFAULT '', -- the notification that should have come
    ADD COLUMN platform_digest bytea,   -- of what each side said when it was seen last
    ADD COLUMN local_digest    bytea,
    ADD COLUMN closed_by   text        NOT NULL DEFAULT '',
    ADD COLUMN closed_note text        NOT NULL DEFAULT '',
    ADD COLUMN version     bigint      NOT NULL DEFAULT 1;
CREATE INDEX exceptions_needs ON exceptions (needs, id DESC) WHERE state = 'open';
CREATE INDEX exceptions_due ON exceptions (least(needs_at, heal_at)) WHERE state = 'open' AND (needs_at IS NOT NULL OR heal_at IS NOT NULL);
CREATE INDEX exceptions_group ON exceptions (group_id) WHERE group_id IS NOT NULL;
CREATE INDEX exceptions_owner ON exceptions (owner_id, id DESC) WHERE state = 'open' AND owner_id IS NOT NULL;
CREATE INDEX exceptions_object ON exceptions (object_id) WHERE object_id IS NOT NULL;
-- Twenty of a kind and connection within half an hour make a group.
CREATE INDEX exceptions_recent ON exceptions (connection_id, kind, first_seen DESC);

-- A shop's policies where its managers decided otherwise than the product.
CREATE TABLE case_policies (
    shop_id    bigint      NOT NULL REFERENCES shops,
    rule       text        NOT NULL,
    policy     text        NOT NULL CONSTRAINT case_policies_policy_check CHECK (policy IN ('hold', 'wait', 'ask')),
    tell       boolean     NOT NULL,
    updated_at timestamptz NOT NULL,
    updated_by text        NOT NULL,
    PRIMARY KEY (shop_id, rule)
);

-- Differences that people accepted: they come back only when one side moves, or when
-- their time is over.
CREATE TABLE acceptances (
    id              bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    exception_id    bigint      NOT NULL REFERENCES exceptions,
    connection_id   bigint REFERENCES connections,
    subject         text        NOT NULL,
    kind            text        NOT NULL,
    axis            text,
    case_name       text        NOT NULL DEFAULT '',
    platform_digest bytea       NOT NULL,
    local_digest    bytea       NOT NULL,
    reason          text        NOT NULL,
    accepted_by     text        NOT NULL,
    accepted_at     timestamptz NOT NULL,
    until           timestamptz NOT NULL,
    ended_at        timestamptz
);
CREATE UNIQUE INDEX acceptances_open_key ON acceptances (connection_id, subject, kind, axis) NULLS NOT DISTINCT WHERE ended_at IS NULL;

-- What people wrote beside a case.
CREATE TABLE notes (
    id      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    subject text        NOT NULL, -- exception:7
    by      text        NOT NULL,
    name    text        NOT NULL,
    at      timestamptz NOT NULL,
    body    text        NOT NULL CONSTRAINT notes_body_check CHECK (body <> '')
);
CREATE INDEX notes_subject ON notes (subject, id DESC);

ALTER TABLE requests DROP CONSTRAINT requests_kind_check;
ALTER TABLE requests ADD CONSTRAINT requests_kind_check CHECK (kind IN ('release', 'replacement', 'again', 'live', 'accept', 'policy'));
ALTER TABLE requests ADD COLUMN exception_id bigint REFERENCES exceptions;

INSERT INTO schema_oldest VALUES (6, 1);
