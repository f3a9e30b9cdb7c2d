-- oldest: 1
-- +goose Up

-- When it is looked at whether something of the order is overdue; NULL: nothing can be.
ALTER TABLE orders ADD COLUMN overdue_at timestamptz;
CREATE INDEX orders_overdue ON orders (overdue_at) WHERE overdue_at IS NOT NULL;

-- What may become a group, and what waits although its platform answers.
CREATE INDEX exceptions_ungrouped ON exceptions (first_seen) WHERE state = 'open' AND group_id IS NULL;
CREATE INDEX exceptions_kind ON exceptions (kind, id) WHERE state = 'open';
CREATE INDEX events_waiting ON events (connection_id, received_at) WHERE due_at IS NOT NULL AND state IN ('received', 'waiting');
CREATE INDEX acceptances_open ON acceptances (subject) WHERE ended_at IS NULL;

INSERT INTO schema_oldest VALUES (8, 1);
