-- oldest: 1
-- +goose Up

-- When a person last had many cases read again at once: all of them have the same time,
-- and are one list of results.
ALTER TABLE exceptions ADD COLUMN asked_at timestamptz;
CREATE INDEX exceptions_asked ON exceptions (asked_at) WHERE asked_at IS NOT NULL;
CREATE INDEX requests_exception ON requests (exception_id, id DESC) WHERE exception_id IS NOT NULL;
-- Closed cases are listed from the newest.
CREATE INDEX exceptions_connection ON exceptions (connection_id, id DESC);

INSERT INTO schema_oldest VALUES (7, 1);
