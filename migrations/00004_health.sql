-- oldest: 1
-- +goose Up

-- How a connection's platform could be asked: one row for each state, written only
-- when the state changes.
CREATE TABLE api_health (
    id            bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    connection_id bigint      NOT NULL REFERENCES connections,
    state         text        NOT NULL CONSTRAINT api_health_state_check CHECK (state IN ('up', 'throttled', 'down', 'none')),
    since         timestamptz NOT NULL,
    until         timestamptz, -- NULL: it is the present one
    error         text        NOT NULL DEFAULT ''
);
CREATE INDEX api_health_connection ON api_health (connection_id, id DESC);
CREATE UNIQUE INDEX api_health_present_key ON api_health (connection_id) WHERE until IS NULL;
INSERT INTO api_health (connection_id, state, since, error)
SELECT id, api_state, api_since, CASE WHEN api_state IN ('throttled', 'down') THEN api_error ELSE '' END FROM connections;

-- What the payments of orders of their own name as their order: a store's order that
-- appears later finds them here.
CREATE TABLE object_links (
    shop_id   bigint NOT NULL REFERENCES shops,
    ref       text   NOT NULL,
    object_id bigint NOT NULL REFERENCES platform_objects,
    PRIMARY KEY (shop_id, ref, object_id)
);
CREATE INDEX object_links_object ON object_links (object_id);
INSERT INTO object_links (shop_id, ref, object_id)
SELECT DISTINCT o.shop_id, f.ref, p.id
FROM orders o JOIN platform_objects p ON p.order_id = o.id
CROSS JOIN LATERAL jsonb_array_elements(COALESCE(p.official, p.said) -> 'links') l
CROSS JOIN LATERAL (VALUES (btrim(l ->> 'value')), (ltrim(btrim(l ->> 'value'), '#'))) f (ref)
WHERE NOT o.store AND jsonb_typeof(COALESCE(p.official, p.said) -> 'links') = 'array' AND f.ref <> '' AND length(f.ref) <= 255;

INSERT INTO schema_oldest VALUES (4, 1);
