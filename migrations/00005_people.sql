-- oldest: 1
-- +goose Up

-- Which occasions plan which actions in a shop. A row is a rule that its managers once
-- decided otherwise than the product; without one the product's own rule holds.
CREATE TABLE action_rules (
    shop_id    bigint      NOT NULL REFERENCES shops,
    occasion   text        NOT NULL CONSTRAINT action_rules_occasion_check CHECK (occasion IN ('paid', 'authorized', 'pay_on_delivery', 'refunded', 'shipped', 'cancelled')),
    kind       text        NOT NULL CONSTRAINT action_rules_kind_check CHECK (kind IN ('fulfillment_instruction', 'service_activation', 'stock_deduction', 'invoice', 'credit_note', 'customer_message')),
    active     boolean     NOT NULL,
    wait       bigint      NOT NULL DEFAULT 0 CONSTRAINT action_rules_wait_check CHECK (wait BETWEEN 0 AND 2592000), -- seconds
    updated_at timestamptz NOT NULL,
    updated_by text        NOT NULL,
    switched_at timestamptz, -- on or off, last; NULL: never
    PRIMARY KEY (shop_id, occasion, kind)
);

-- How many of a kind would have been sent lately.
CREATE INDEX actions_watched ON actions (shop_id, kind, planned_at) WHERE state = 'watched';
-- /actions of one shop, by state.
CREATE INDEX actions_shop_state ON actions (shop_id, state, id DESC);

-- What one person asks for and another one decides: to release a waiting action, to
-- ship a replacement, to send a message again, to make a kind of action live.
CREATE TABLE requests (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    kind        text        NOT NULL CONSTRAINT requests_kind_check CHECK (kind IN ('release', 'replacement', 'again', 'live')),
    state       text        NOT NULL DEFAULT 'proposed' CONSTRAINT requests_state_check CHECK (state IN ('proposed', 'applied', 'rejected', 'withdrawn', 'expired', 'stale')),
    subject     text        NOT NULL, -- action:7, order:3, live:1:invoice; one open request for each
    shop_id     bigint      NOT NULL REFERENCES shops,
    order_id    bigint REFERENCES orders,
    action_id   bigint REFERENCES actions, -- what is released, or sent again
    action_kind text        CONSTRAINT requests_action_kind_check CHECK (action_kind IN ('fulfillment_instruction', 'service_activation', 'stock_deduction', 'invoice', 'credit_note', 'customer_message')),
    code        text        NOT NULL DEFAULT 'other',
    reason      text        NOT NULL CONSTRAINT requests_reason_check CHECK (reason <> ''),
    terms       text        NOT NULL DEFAULT '', -- JSON: what else was asked for
    secret      bytea,      -- sealed
    seen        text        NOT NULL DEFAULT '', -- digest of the facts that the proposer saw
    needs       integer     NOT NULL DEFAULT 1 CONSTRAINT requests_needs_check CHECK (needs BETWEEN 1 AND 2), -- approvals
    proposed_by   text        NOT NULL,
    proposer_name text        NOT NULL,
    proposer_role text        NOT NULL,
    proposed_at   timestamptz NOT NULL,
    expires_at    timestamptz NOT NULL,
    decided_by    text        NOT NULL DEFAULT '',
    decider_name  text        NOT NULL DEFAULT '',
    decided_at    timestamptz,
    note          text        NOT NULL DEFAULT '',
    made_id       bigint REFERENCES actions, -- the action that came of it
    CONSTRAINT requests_own_check CHECK (NOT (state = 'applied' OR state = 'rejected') OR decided_by <> '' AND decided_by <> proposed_by),
    CONSTRAINT requests_proposer_key UNIQUE (id, proposed_by)
);
CREATE UNIQUE INDEX requests_open_key ON requests (subject) WHERE state = 'proposed';
CREATE INDEX requests_order ON requests (order_id, id DESC) WHERE order_id IS NOT NULL;
CREATE INDEX requests_state ON requests (state, id DESC);
CREATE INDEX requests_shop ON requests (shop_id, id DESC);
CREATE INDEX requests_action ON requests (action_id) WHERE action_id IS NOT NULL;
CREATE INDEX requests_made ON requests (made_id) WHERE made_id IS NOT NULL;
CREATE INDEX requests_live ON requests (shop_id, action_kind, id DESC) WHERE kind = 'live';
CREATE INDEX requests_due ON requests (expires_at) WHERE state = 'proposed';

CREATE TABLE approvals (
    request_id  bigint      NOT NULL,
    proposed_by text        NOT NULL,
    actor       text        NOT NULL,
    actor_name  text        NOT NULL,
    role        text        NOT NULL,
    at          timestamptz NOT NULL,
    PRIMARY KEY (request_id, actor),
    FOREIGN KEY (request_id, proposed_by) REFERENCES requests (id, proposed_by),
    CONSTRAINT approvals_own_check CHECK (actor <> proposed_by)
);
CREATE INDEX approvals_actor ON approvals (actor, at); -- what somebody approved in a shift
CREATE TRIGGER approvals_append_only BEFORE UPDATE OR DELETE ON approvals FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER approvals_no_truncate BEFORE TRUNCATE ON approvals FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- A request is decided once, by the people that it needs.
-- +goose StatementBegin
CREATE FUNCTION requests_decided() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' OR OLD.state <> 'proposed' AND (OLD.made_id IS NOT NULL OR NEW.made_id IS NULL OR (to_jsonb(NEW) - 'made_id') <> (to_jsonb(OLD) - 'made_id'))
        OR (NEW.proposed_by, NEW.reason, NEW.terms, NEW.subject, NEW.needs) IS DISTINCT FROM (OLD.proposed_by, OLD.reason, OLD.terms, OLD.subject, OLD.needs) THEN
        RAISE EXCEPTION 'a request stays what was proposed and how it was decided' USING ERRCODE = 'check_violation';
    END IF;
    IF NEW.state = 'applied' AND OLD.state = 'proposed' AND (SELECT count(*) FROM approvals WHERE request_id = NEW.id) < NEW.needs THEN
        RAISE EXCEPTION 'request % needs % approvals', NEW.id, NEW.needs USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd
CREATE TRIGGER requests_decided BEFORE UPDATE OR DELETE ON requests FOR EACH ROW EXECUTE FUNCTION requests_decided();

ALTER TABLE actions
    ADD COLUMN occasion   text    NOT NULL DEFAULT '', -- of the rule that planned it
    ADD COLUMN pieces     integer NOT NULL DEFAULT 0,  -- goods that no instruction covered; 0: the whole order
    ADD COLUMN repeats_id bigint REFERENCES actions,   -- what is done once more
    ADD COLUMN request_id bigint REFERENCES requests,  -- by which it was last released, or asked for
    ADD COLUMN released_entry bigint NOT NULL DEFAULT 0, -- newest ledger entry of the order then
    ADD COLUMN released_case  bigint NOT NULL DEFAULT 0, -- and the newest of its exceptions
    ADD COLUMN round      integer NOT NULL DEFAULT 0,  -- tries before somebody had it tried again
    ADD COLUMN retried_at timestamptz,
    ADD COLUMN retried_by text    NOT NULL DEFAULT '',
    ADD COLUMN retry_reason text  NOT NULL DEFAULT '',
    ADD COLUMN told boolean       NOT NULL DEFAULT false, -- somebody outside may have got it: its bytes are fixed
    ADD COLUMN settled_by text    NOT NULL DEFAULT '',    -- name of whoever ticked it off or settled it
    ADD COLUMN doubt boolean      NOT NULL DEFAULT false; -- a try may have had its effect, and nobody knows
UPDATE actions SET told = true, doubt = state IN ('sending', 'unclear') WHERE tries > 0;

-- Why a second payment or refund is right, or what went wrong: append-only. It holds
-- for the part as it stood then; another amount or state isn't explained by it.
CREATE TABLE explanations (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    order_id   bigint      NOT NULL REFERENCES orders,
    part       text        NOT NULL, -- the platform's id of the payment, capture or refund
    amount     bigint      NOT NULL, -- minor units of currency
    currency   text        NOT NULL,
    standing   text        NOT NULL CONSTRAINT explanations_standing_check CHECK (standing IN ('succeeded', 'pending', 'failed', 'unclear')),
    code       text        NOT NULL,
    reason     text        NOT NULL CONSTRAINT explanations_reason_check CHECK (reason <> ''),
    actor      text        NOT NULL,
    actor_name text        NOT NULL,
    at         timestamptz NOT NULL
);
CREATE INDEX explanations_order ON explanations (order_id, id);
CREATE TRIGGER explanations_append_only BEFORE UPDATE OR DELETE ON explanations FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER explanations_no_truncate BEFORE TRUNCATE ON explanations FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- When an action last came on a list of work: whoever saw it there may have done it.
ALTER TABLE actions ADD COLUMN listed_at timestamptz;
UPDATE actions SET listed_at = planned_at WHERE state = 'manual';
-- What paused an order and ended, in its history.
CREATE INDEX holds_subject ON holds (scope, subject, id DESC);

INSERT INTO schema_oldest VALUES (5, 1);
