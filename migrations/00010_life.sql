-- oldest: 1
-- +goose Up

-- When each process of the console was last alive, and when none was.
CREATE TABLE console_life (
    process text        PRIMARY KEY,
    seen_at timestamptz NOT NULL
);

CREATE TABLE off_times (
    id    bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    since timestamptz NOT NULL,
    until timestamptz NOT NULL
);

INSERT INTO schema_oldest VALUES (10, 1);
