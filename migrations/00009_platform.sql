-- oldest: 1
-- +goose Up

-- What the console knows of a connection's subscriptions, and when it looks again.
CREATE TABLE subscription_looks (
    connection_id bigint      PRIMARY KEY REFERENCES connections,
    address       text        NOT NULL DEFAULT '', -- where the console last registered notifications
    registered_at timestamptz,
    registered_by text        NOT NULL DEFAULT '',
    looked_at     timestamptz, -- when the platform last answered
    error         text        NOT NULL DEFAULT '',
    next_at       timestamptz NOT NULL
);
CREATE INDEX subscription_looks_next ON subscription_looks (next_at);

-- A needed topic whose subscription isn't as it should be. since is the first look that
-- showed it: the second makes it an exception.
CREATE TABLE subscription_faults (
    connection_id bigint      NOT NULL REFERENCES connections,
    topic         text        NOT NULL,
    fault         text        NOT NULL CONSTRAINT subscription_faults_fault_check CHECK (fault IN ('absent', 'off', 'elsewhere', 'format', 'version')),
    since         timestamptz NOT NULL,
    PRIMARY KEY (connection_id, topic)
);

-- How many notifications came in which hour. upto is the last event counted.
CREATE TABLE event_hours (
    connection_id bigint      NOT NULL REFERENCES connections,
    hour          timestamptz NOT NULL,
    events        bigint      NOT NULL,
    PRIMARY KEY (connection_id, hour)
);
CREATE TABLE event_hours_upto (
    id   boolean PRIMARY KEY DEFAULT true CONSTRAINT event_hours_upto_id_check CHECK (id),
    upto bigint  NOT NULL
);
INSERT INTO event_hours_upto (upto) VALUES (0);

-- Known test objects of a connection, with the shape that each had: paths and types,
-- never values.
CREATE TABLE canaries (
    id             bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    connection_id  bigint      NOT NULL REFERENCES connections,
    account        text        NOT NULL,
    kind           text        NOT NULL,
    ref            text        NOT NULL,
    shape          jsonb,
    shape_at       timestamptz,
    added_at       timestamptz NOT NULL,
    added_by       text        NOT NULL,
    removed_at     timestamptz,
    awaiting_since timestamptz, -- a person was asked to change it; its notification should come
    awaited_after  bigint      NOT NULL DEFAULT 0 -- the newest event then
);
CREATE UNIQUE INDEX canaries_open_key ON canaries (connection_id, account, kind, ref) WHERE removed_at IS NULL;

-- How checks of a connection went. mark tells which address, credentials, secrets and
-- version were checked; one check runs for each mark that is new.
CREATE TABLE connection_checks (
    id            bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    connection_id bigint      NOT NULL REFERENCES connections,
    mark          text        NOT NULL,
    version       text        NOT NULL DEFAULT '', -- another API version that was tried
    by            text        NOT NULL,
    started_at    timestamptz NOT NULL,
    ended_at      timestamptz,
    wrong         integer     NOT NULL DEFAULT 0,
    steps         jsonb       NOT NULL DEFAULT '[]'
);
CREATE INDEX connection_checks_latest ON connection_checks (connection_id, id DESC);
CREATE TABLE connection_marks (
    connection_id bigint PRIMARY KEY REFERENCES connections,
    mark          text   NOT NULL
);

INSERT INTO schema_oldest VALUES (9, 1);
