package store

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"counterfoil/models"
)

// A ConnectionRow is a connection as it is kept. Credentials and secrets are sealed.
type ConnectionRow struct {
	ID          int64
	Slug        string
	Platform    models.Platform
	Account     string
	ShopID      int64
	Shop        string
	ShopName    string
	APIURL      string `gorm:"column:api_url"`
	Settings    string // JSON object of strings
	Credentials []byte
	APIState    models.APIState `gorm:"column:api_state"`
	APISince    time.Time       `gorm:"column:api_since"`
	APIError    string          `gorm:"column:api_error"`
	APIFailures int             `gorm:"column:api_failures"`
	APIFailing  *time.Time      `gorm:"column:api_failing"`
	APINext     *time.Time      `gorm:"column:api_next"`
	Notes       string
	Rejected    int64
	Demo        bool
	Version     int64
	// StoreInShop tells whether a platform that has goods is connected to the same shop.
	StoreInShop bool
}

// A SecretRow is one webhook secret of a connection.
type SecretRow struct {
	ID           int64
	ConnectionID int64
	Fingerprint  string
	Sealed       []byte
	AddedAt      time.Time
	RetiredAt    *time.Time
	LastMatched  *time.Time
}

const connectionColumns = `
SELECT c.id, c.slug, c.platform, c.account, c.shop_id, s.slug AS shop, s.name AS shop_name, c.api_url, c.settings::text AS settings,
       c.credentials, c.api_state, c.api_since, c.api_error, c.api_failures, c.api_failing, c.api_next, c.notes::text AS notes,
       c.rejected, c.demo, c.version,
       EXISTS (SELECT 1 FROM connections o WHERE o.shop_id = c.shop_id AND o.platform IN ('shopify', 'receiptroller')) AS store_in_shop
FROM connections c JOIN shops s ON s.id = c.shop_id`

// ConnectionRows lists all connections, by slug.
func (r reads) ConnectionRows(ctx context.Context) ([]ConnectionRow, error) {
	var rows []ConnectionRow
	err := r.rows(ctx, &rows, connectionColumns+` ORDER BY c.slug`)
	return rows, err
}

// SecretRows lists all webhook secrets, the oldest first.
func (r reads) SecretRows(ctx context.Context) ([]SecretRow, error) {
	var rows []SecretRow
	err := r.rows(ctx, &rows, `
SELECT id, connection_id, fingerprint, sealed, added_at, retired_at, last_matched
FROM connection_secrets ORDER BY connection_id, added_at, id`)
	return rows, err
}

// EnsureShop finds a shop by its slug, or makes it, and locks it. References to it aren't
// in the way: nothing that could be one is touched.
func (tx *Tx) EnsureShop(ctx context.Context, slug, name string) (int64, error) {
	var id int64
	err := tx.one(ctx, "error.shop_unknown", &id, `
INSERT INTO shops (slug, name) VALUES (?, ?)
ON CONFLICT (slug) DO UPDATE SET name = shops.name RETURNING id`, slug, name)
	return id, err
}

// ShopID finds a shop by its slug.
func (r reads) ShopID(ctx context.Context, slug string) (int64, error) {
	var id int64
	err := r.one(ctx, "error.shop_unknown", &id, `SELECT id FROM shops WHERE slug = ?`, slug)
	return id, err
}

// LockConnection locks a connection for an update of its settings, after its shop.
// References to it aren't in the way.
func (tx *Tx) LockConnection(ctx context.Context, slug string) (ConnectionRow, error) {
	var row ConnectionRow
	err := tx.one(ctx, "error.connection_unknown", &row, connectionColumns+` WHERE c.slug = ? FOR NO KEY UPDATE OF c`, slug)
	return row, err
}

// SaveConnection makes a connection (ID 0) or changes what an admin sets.
func (tx *Tx) SaveConnection(ctx context.Context, c ConnectionRow) (int64, error) {
	if c.ID == 0 {
		err := tx.one(ctx, "", &c.ID, `
INSERT INTO connections (slug, platform, account, shop_id, api_url, settings, credentials, api_state, api_since, demo)
VALUES (?, ?, ?, ?, ?, ?::jsonb, ?, ?, ?, ?) RETURNING id`,
			c.Slug, c.Platform, c.Account, c.ShopID, c.APIURL, c.Settings, c.Credentials, c.APIState, tx.Now, c.Demo)
		if err != nil {
			return 0, err
		}
		return c.ID, tx.noteHealth(ctx, c.ID, c.APIState, tx.Now, "")
	}
	n, err := tx.changed(ctx, `
UPDATE connections SET account = ?, shop_id = ?, api_url = ?, settings = ?::jsonb, credentials = ?,
       -- What failed is tried again at once: only an answer says that it works now.
       api_state = CASE WHEN ? = 'none' THEN 'none' WHEN api_state = 'none' THEN 'up' ELSE api_state END,
       api_since = CASE WHEN (? = 'none') <> (api_state = 'none') THEN ? ELSE api_since END,
       api_failing = CASE WHEN ? = 'none' THEN NULL WHEN api_state = 'none' THEN ? ELSE api_failing END,
       api_next = CASE WHEN ? = 'none' THEN NULL WHEN api_state = 'none' OR api_failing IS NOT NULL THEN now() END,
       api_failures = CASE WHEN ? = 'none' THEN 0 ELSE api_failures END, version = version + 1, updated_at = ?
WHERE id = ?`, c.Account, c.ShopID, c.APIURL, c.Settings, c.Credentials, string(c.APIState), string(c.APIState), tx.Now, string(c.APIState), tx.Now,
		string(c.APIState), string(c.APIState), tx.Now, c.ID)
	if err == nil && n == 0 {
		return 0, models.Fail(models.NotFound, "error.connection_unknown")
	}
	if err != nil {
		return 0, err
	}
	return c.ID, tx.noteHealth(ctx, c.ID, c.APIState, tx.Now, "")
}

// AddSecret accepts a webhook secret; one that is there already is accepted again.
func (tx *Tx) AddSecret(ctx context.Context, connection int64, fingerprint string, sealed []byte) error {
	return tx.exec(ctx, `
INSERT INTO connection_secrets (connection_id, fingerprint, sealed, added_at) VALUES (?, ?, ?, ?)
ON CONFLICT (connection_id, fingerprint) DO UPDATE SET retired_at = NULL, sealed = EXCLUDED.sealed`,
		connection, fingerprint, sealed, tx.Now)
}

// RetireOtherSecrets stops accepting every secret that isn't named.
func (tx *Tx) RetireOtherSecrets(ctx context.Context, connection int64, keep []string) error {
	list, err := json.Marshal(keep)
	if err != nil {
		return err
	}
	return tx.exec(ctx, `
UPDATE connection_secrets SET retired_at = ?
WHERE connection_id = ? AND retired_at IS NULL AND NOT (?::jsonb @> to_jsonb(fingerprint))`, tx.Now, connection, string(list))
}

// SecretMatched notes when secrets last matched; called every few seconds, not per event.
func (tx *Tx) SecretMatched(ctx context.Context, connection int64, fingerprint string, at time.Time) error {
	return tx.exec(ctx, `
UPDATE connection_secrets SET last_matched = ?
WHERE connection_id = ? AND fingerprint = ? AND (last_matched IS NULL OR last_matched < ?)`, at, connection, fingerprint, at)
}

// SetNotes keeps what a platform said of our access.
func (tx *Tx) SetNotes(ctx context.Context, connection int64, notes []models.Note) error {
	b, err := json.Marshal(notes)
	if err != nil {
		return err
	}
	return tx.exec(ctx, `UPDATE connections SET notes = ?::jsonb WHERE id = ?`, string(b), connection)
}

// DueProbe makes the oldest waiting event of a failing connection due, so that one
// call finds out whether the platform is back. It does nothing before api_next.
func (tx *Tx) DueProbe(ctx context.Context, connection int64) (bool, error) {
	n, err := tx.changed(ctx, `
UPDATE events SET due_at = now() WHERE id = (
    SELECT e.id FROM events e JOIN connections c ON c.id = e.connection_id
    WHERE c.id = ? AND c.api_failing IS NOT NULL AND c.api_next <= now() AND e.state = 'waiting'
    ORDER BY e.due_at, e.id LIMIT 1 FOR UPDATE OF e SKIP LOCKED)`, connection)
	return n > 0, err
}

// ConnectionVersion counts the changes of a connection that an admin made.
func (r reads) ConnectionVersion(ctx context.Context, connection int64) (int64, error) {
	var n int64
	err := r.rows(ctx, &n, `SELECT version FROM connections WHERE id = ?`, connection)
	return n, err
}

// HasOrders tells whether a connection's objects have become orders.
func (r reads) HasOrders(ctx context.Context, connection int64) (bool, error) {
	var has bool
	err := r.rows(ctx, &has, `SELECT EXISTS (SELECT 1 FROM platform_objects WHERE connection_id = ? AND order_id IS NOT NULL)`, connection)
	return has, err
}

// ClaimProbe lets one of all processes ask a failing connection's platform whether it
// is back; the others wait for a while.
func (tx *Tx) ClaimProbe(ctx context.Context, connection int64, wait time.Duration) (bool, error) {
	n, err := tx.changed(ctx, `
UPDATE connections SET api_next = now() + make_interval(secs => ?) WHERE id = ? AND api_failing IS NOT NULL AND api_next <= now()`, wait.Seconds(), connection)
	return n > 0, err
}

// CallsSince sums the calls spent in the last days.
func (r reads) CallsSince(ctx context.Context, connection int64, days int) (int64, error) {
	var n int64
	err := r.rows(ctx, &n, `
SELECT COALESCE(sum(calls), 0) FROM connection_calls WHERE connection_id = ? AND day > (now() AT TIME ZONE 'UTC')::date - ?::int`, connection, days)
	return n, err
}

// SpendCalls counts calls if the budget of 30 days still allows them.
func (tx *Tx) SpendCalls(ctx context.Context, connection, calls, budget int64) (bool, error) {
	// One after another: two who look at the same sum would both find room.
	if err := tx.exec(ctx, `SELECT pg_advisory_xact_lock(hashtextextended('calls', ?))`, connection); err != nil {
		return false, err
	}
	n, err := tx.changed(ctx, `
INSERT INTO connection_calls (connection_id, day, calls)
SELECT ?::bigint, (now() AT TIME ZONE 'UTC')::date, ?::bigint
WHERE (SELECT COALESCE(sum(calls), 0) FROM connection_calls WHERE connection_id = ? AND day > (now() AT TIME ZONE 'UTC')::date - 30) + ? <= ?
ON CONFLICT (connection_id, day) DO UPDATE SET calls = connection_calls.calls + EXCLUDED.calls`, connection, calls, connection, calls, budget)
	return n > 0, err
}

// RejectionRow is the bounded evidence of one refused request.
type RejectionRow struct {
	ConnectionID int64
	models.Rejection
}

// KeepRejections writes evidence of refused requests, drops the oldest beyond keep
// for each connection, and adds to the counts.
func (tx *Tx) KeepRejections(ctx context.Context, rows []RejectionRow, counts map[int64]int64, keep int) error {
	for _, r := range rows {
		names, err := json.Marshal(r.Headers)
		if err != nil {
			return err
		}
		if err := tx.exec(ctx, `
INSERT INTO rejections (connection_id, at, request_id, reason, cause, detail, size, hash, headers)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ARRAY(SELECT jsonb_array_elements_text(?::jsonb)))`,
			r.ConnectionID, r.At, r.RequestID, r.Reason, r.Cause, r.Detail, r.Size, r.Hash, string(names)); err != nil {
			return err
		}
	}
	for _, id := range slices.Sorted(maps.Keys(counts)) {
		n := counts[id]
		if err := tx.exec(ctx, `UPDATE connections SET rejected = rejected + ? WHERE id = ?`, n, id); err != nil {
			return err
		}
		if err := tx.exec(ctx, `
DELETE FROM rejections WHERE connection_id = ? AND id <= (
    SELECT id FROM rejections WHERE connection_id = ? ORDER BY id DESC OFFSET ? LIMIT 1)`, id, id, keep); err != nil {
			return err
		}
	}
	return nil
}
