package store

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"counterfoil/models"
)

// DueActions lists actions that somebody has to look at, the longest due first.
func (r reads) DueActions(ctx context.Context, limit int) ([]int64, error) {
	var ids []int64
	err := r.rows(ctx, &ids, `SELECT id FROM actions WHERE due_at <= now() ORDER BY due_at LIMIT ?`, limit)
	return ids, err
}

// Rely shares a shop's and connections' rows until the end of the transaction: a hold
// and a change of their health come before or after it. It comes before the lock of an
// order, and answers the states of the platforms.
func (tx *Tx) Rely(ctx context.Context, shop int64, connections []int64) (map[int64]models.APIState, error) {
	if err := tx.exec(ctx, `SELECT 1 FROM shops WHERE id = ? FOR SHARE`, shop); err != nil {
		return nil, err
	}
	var rows []struct {
		ID       int64
		APIState models.APIState `gorm:"column:api_state"`
	}
	err := tx.rows(ctx, &rows, `SELECT id, api_state FROM connections WHERE id = ANY (?::bigint[]) ORDER BY id FOR SHARE`, idList(connections))
	states := make(map[int64]models.APIState, len(rows))
	for _, row := range rows {
		states[row.ID] = row.APIState
	}
	return states, err
}

// A Load is an action in the hands of whoever carries it.
type Load struct {
	models.Action
	Due  bool
	Body []byte // as it is sent on every try; nil: it was never claimed
	// URL and Idempotent are of the destination that it was claimed for.
	URL        string
	Idempotent bool
	// Listed: it was on a list of work, and whoever saw it there may have done it.
	Listed bool
}

// LockAction locks an action, after its order.
func (tx *Tx) LockAction(ctx context.Context, id int64) (Load, error) {
	var row struct {
		Row        actionRow `gorm:"embedded"`
		Due        bool
		Body       []byte
		URL        string `gorm:"column:url"`
		Idempotent bool
		Listed     bool
	}
	// In two statements: one that waits for the lock would look for the new order of an
	// action that was merged meanwhile among the rows it saw before.
	if err := tx.exec(ctx, `SELECT 1 FROM actions WHERE id = ? FOR UPDATE`, id); err != nil {
		return Load{}, err
	}
	err := tx.one(ctx, "error.action_unknown", &row, strings.Replace(actionColumns, "SELECT a.id",
		"SELECT COALESCE(a.due_at <= now(), false) AS due, a.body, a.url, a.idempotent, a.listed_at IS NOT NULL AS listed, a.id", 1)+" WHERE a.id = ?", id)
	return Load{Action: row.Row.action(), Due: row.Due, Body: row.Body, URL: row.URL, Idempotent: row.Idempotent, Listed: row.Listed}, err
}

// A Surroundings is what an order's conditions depend on beside the order itself.
type Surroundings struct {
	Waiting    map[int64]time.Time // connection → since when its oldest unprocessed event of the order waits
	Events     []models.Event      // those that are unprocessed, or need a person
	Exceptions []models.Exception  // open ones
	Actions    []models.Action
	Holds      []models.Hold
	LastEntry  int64 // the newest of the order's ledger
	Shop       string
	ShopName   string
	Connection string // slug of where the order was first seen
}

// Surroundings looks at what an order's conditions depend on. The order is locked. Its
// events are reached by their objects one after the other, and by nothing else: how
// many events of all are unprocessed at the moment must not matter.
func (tx *Tx) Surroundings(ctx context.Context, o models.Order) (Surroundings, error) {
	var names struct{ Shop, ShopName, Connection string }
	if err := tx.one(ctx, "error.order_unknown", &names, `
SELECT s.slug AS shop, s.name AS shop_name, c.slug AS connection FROM shops s, connections c WHERE s.id = ? AND c.id = ?`, o.ShopID, o.ConnectionID); err != nil {
		return Surroundings{}, err
	}
	s := Surroundings{Shop: names.Shop, ShopName: names.ShopName, Connection: names.Connection, Waiting: map[int64]time.Time{}}
	var events []struct {
		ID           int64
		ConnectionID int64
		State        models.EventState
		ReceivedAt   time.Time
		Due          bool
	}
	if err := tx.rows(ctx, &events, `
WITH named AS MATERIALIZED (
    SELECT p.connection_id, p.account, p.kind, p.ref FROM platform_objects p WHERE p.order_id = ?
    UNION SELECT f.connection_id, f.account, f.kind, f.ref FROM platform_objects l JOIN platform_objects f ON f.leads_to = l.id WHERE l.order_id = ?
), about AS MATERIALIZED (
    SELECT x.id FROM events x WHERE x.order_id = ?
    UNION SELECT x.id FROM named p CROSS JOIN LATERAL (
        SELECT y.id FROM events y WHERE y.connection_id = p.connection_id AND y.account = p.account AND y.object_kind = p.kind AND y.object_ref = p.ref OFFSET 0) x)
SELECT e.id, e.connection_id, e.state, e.received_at, e.due_at IS NOT NULL AND e.state <> 'unmatched' AS due FROM events e
WHERE e.id = ANY (ARRAY(SELECT id FROM about)) AND (e.state || '') IN ('received', 'waiting', 'unmatched', 'review', 'failed')
ORDER BY e.received_at DESC`, o.ID, o.ID, o.ID); err != nil {
		return s, err
	}
	for _, e := range events {
		s.Events = append(s.Events, models.Event{ID: e.ID, State: e.State, Received: e.ReceivedAt.UTC(), OrderID: o.ID})
		if e.Due {
			s.Waiting[e.ConnectionID] = e.ReceivedAt.UTC()
		}
	}
	var err error
	if s.Exceptions, err = tx.exceptionsOf(ctx, o.ID); err != nil {
		return s, err
	}
	if s.Actions, err = tx.ActionsOf(ctx, o.ID); err != nil {
		return s, err
	}
	if s.LastEntry, _, err = tx.LastEntry(ctx, o.ID); err != nil {
		return s, err
	}
	s.Holds, err = tx.HoldsReaching(ctx, o.ID, o.ShopID, o.Connections())
	return s, err
}

// PostponeAction lets an action that this transaction has locked wait, and says for what.
func (tx *Tx) PostponeAction(ctx context.Context, id int64, state models.ActionState, why string, after time.Duration) error {
	return tx.exec(ctx, `UPDATE actions SET state = ?, why = ?, due_at = now() + make_interval(secs => ?) WHERE id = ?`, state, why, after.Seconds(), id)
}

// RestAction takes an action that this transaction has locked out of the console's
// hands: to a person's list, or to what is only watched.
func (tx *Tx) RestAction(ctx context.Context, id int64, state models.ActionState) error {
	return tx.exec(ctx, `
UPDATE actions SET state = ?, why = '', due_at = NULL, listed_at = CASE WHEN ? = 'manual' THEN ? ELSE listed_at END WHERE id = ?`, state, string(state), tx.Now, id)
}

// ClaimAction marks an action that this transaction has locked as being sent, until a
// lease runs out. It answers the number of the try.
func (tx *Tx) ClaimAction(ctx context.Context, id int64, body []byte, d models.Destination, lease time.Duration) (int, error) {
	var try int
	err := tx.one(ctx, "error.action_unknown", &try, `
UPDATE actions SET state = 'sending', why = '', body = ?, url = ?, idempotent = ?, due_at = now() + make_interval(secs => ?), tries = tries + 1, told = true, doubt = true, sent_at = COALESCE(sent_at, ?)
WHERE id = ? RETURNING tries`, body, d.URL, d.Idempotent, lease.Seconds(), tx.Now, id)
	return try, err
}

// An Ending is how an action goes on after somebody tried or settled it.
type Ending struct {
	State   models.ActionState
	After   time.Duration // next look, for open states
	Error   string
	Receipt string
	// Untold: the try reached nobody, and no try before did. Doubt: one may have had its
	// effect, and nobody knows.
	Untold, Doubt bool
	By            string // name of whoever settled it; empty: the console did
}

// EndAction writes how an action that this transaction has locked goes on.
func (tx *Tx) EndAction(ctx context.Context, id int64, e Ending) error {
	return tx.exec(ctx, `
UPDATE actions SET state = ?, why = '', error = ?, receipt = COALESCE(NULLIF(?, ''), receipt),
       due_at = CASE WHEN ? THEN now() + make_interval(secs => ?) END, done_at = CASE WHEN ? = 'done' THEN ?::timestamptz END,
       told = told AND NOT ?, doubt = ?, settled_by = ?, listed_at = CASE WHEN ? = 'failed' THEN NULL ELSE listed_at END
WHERE id = ?`, e.State, e.Error, e.Receipt, e.State.Open(), e.After.Seconds(), e.State, tx.Now, e.Untold, e.Doubt, e.By, e.State, id)
}

// CloseActionCases closes the open exceptions that an action has because of its tries,
// but for one of a kind that stands (empty: none does). Its order may have become part
// of another one, of another connection, since they were opened.
func (tx *Tx) CloseActionCases(ctx context.Context, action, connection int64, stands models.ExceptionKind, how string) error {
	return tx.exec(ctx, `
UPDATE exceptions SET state = 'closed', closed_at = ?, closed_how = ?
WHERE subject = ? AND state = 'open' AND kind IN (?, ?) AND NOT (kind = ? AND connection_id = ?)`,
		tx.Now, how, ActionSubject(action), models.ActionFailedKind, models.ActionUnclearKind, stands, connection)
}

// ActionSubject is what exceptions are about that concern an action.
func ActionSubject(id int64) string { return "action:" + strconv.FormatInt(id, 10) }

// A DestinationRow is a destination with its sealed secret.
type DestinationRow struct {
	models.Destination
	Secret []byte
}

// Destination is where the actions of a kind go; watched where nobody said.
func (r reads) Destination(ctx context.Context, shop int64, kind models.ActionKind) (DestinationRow, error) {
	var row struct {
		Mode       models.DestinationMode
		URL        string `gorm:"column:url"`
		Secret     []byte
		Idempotent bool
		Hosts      string
		UpdatedAt  time.Time
	}
	d := DestinationRow{Destination: models.Destination{Kind: kind, Mode: models.Watch}}
	n, err := r.scan(ctx, &row, `
SELECT mode, url, secret, idempotent, to_jsonb(allow_hosts)::text AS hosts, updated_at FROM destinations WHERE shop_id = ? AND kind = ?`, shop, kind)
	if err != nil || n == 0 {
		return d, err
	}
	d.Mode, d.URL, d.Secret, d.Idempotent, d.Updated = row.Mode, row.URL, row.Secret, row.Idempotent, row.UpdatedAt.UTC()
	return d, json.Unmarshal([]byte(row.Hosts), &d.Hosts)
}

// LockShop locks a shop against everybody who carries one of its actions.
func (tx *Tx) LockShop(ctx context.Context, slug string) (int64, error) {
	var id int64
	err := tx.one(ctx, "error.shop_unknown", &id, `SELECT id FROM shops WHERE slug = ? FOR NO KEY UPDATE`, slug)
	return id, err
}

// SetDestination says where the actions of a kind of a shop go. The shop is locked.
func (tx *Tx) SetDestination(ctx context.Context, shop int64, d DestinationRow) error {
	hosts, err := json.Marshal(append([]string{}, d.Hosts...))
	if err != nil {
		return err
	}
	return tx.exec(ctx, `
INSERT INTO destinations (shop_id, kind, mode, url, secret, idempotent, allow_hosts, updated_at)
VALUES (?, ?, ?, ?, ?, ?, ARRAY(SELECT jsonb_array_elements_text(?::jsonb)), ?)
ON CONFLICT (shop_id, kind) DO UPDATE SET mode = EXCLUDED.mode, url = EXCLUDED.url, secret = EXCLUDED.secret, idempotent = EXCLUDED.idempotent,
    allow_hosts = EXCLUDED.allow_hosts, updated_at = EXCLUDED.updated_at`,
		shop, d.Kind, d.Mode, d.URL, d.Secret, d.Idempotent, string(hosts), tx.Now)
}

// DelayAction keeps an action that can't be worked on because of a fault of ours from
// being looked at all the time.
func (tx *Tx) DelayAction(ctx context.Context, id int64, after time.Duration) error {
	return tx.exec(ctx, `
UPDATE actions SET due_at = now() + make_interval(secs => ?) WHERE id = ? AND state IN ('planned', 'waiting', 'sending') AND due_at <= now()`, after.Seconds(), id)
}
