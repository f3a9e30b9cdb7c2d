package store

import (
	"context"
	"strconv"
	"strings"
	"time"

	"counterfoil/models"
)

type requestRow struct {
	ID           int64
	Kind         models.RequestKind
	State        models.RequestState
	Subject      string
	ShopID       int64
	Shop         string
	OrderID      *int64
	OrderName    string
	ActionID     *int64
	ActionKind   *models.ActionKind
	Code         models.ReasonCode
	Reason       string
	Terms        string
	Seen         string
	Needs        int
	ProposedBy   string
	ProposerName string
	ProposerRole models.Role
	ProposedAt   time.Time
	ExpiresAt    time.Time
	DecidedBy    string
	DeciderName  string
	DecidedAt    *time.Time
	Note         string
	MadeID       *int64
	ExceptionID  *int64
}

const requestColumns = `
SELECT q.id, q.kind, q.state, q.subject, q.shop_id, s.slug AS shop, q.order_id, COALESCE(NULLIF(o.number, ''), o.platform_ref, '') AS order_name, q.action_id,
       q.action_kind, q.code, q.reason, q.terms, q.seen, q.needs, q.proposed_by, q.proposer_name, q.proposer_role, q.proposed_at, q.expires_at,
       q.decided_by, q.decider_name, q.decided_at, q.note, q.made_id, q.exception_id
FROM requests q JOIN shops s ON s.id = q.shop_id LEFT JOIN orders o ON o.id = q.order_id`

func (r requestRow) request() models.Request {
	some := func(id *int64) int64 {
		if id == nil {
			return 0
		}
		return *id
	}
	q := models.Request{ID: r.ID, Kind: r.Kind, State: r.State, Subject: r.Subject, ShopID: r.ShopID, Shop: r.Shop, OrderID: some(r.OrderID),
		OrderName: r.OrderName, ActionID: some(r.ActionID), Code: r.Code, Reason: r.Reason, Terms: r.Terms, Seen: r.Seen, Needs: r.Needs,
		By: r.ProposedBy, ByName: r.ProposerName, ByRole: r.ProposerRole, At: r.ProposedAt.UTC(), Expires: r.ExpiresAt.UTC(),
		DecidedBy: r.DecidedBy, Decider: r.DeciderName, Decided: utc(r.DecidedAt), Note: r.Note, Made: some(r.MadeID), Exception: some(r.ExceptionID)}
	if r.ActionKind != nil {
		q.ActionKind = *r.ActionKind
	}
	return q
}

func (r reads) requestsWhere(ctx context.Context, cond string, args ...any) ([]models.Request, error) {
	var rows []requestRow
	if err := r.rows(ctx, &rows, requestColumns+" WHERE "+cond, args...); err != nil || len(rows) == 0 {
		return nil, err
	}
	out := make([]models.Request, len(rows))
	at := map[int64]int{}
	ids := make([]int64, len(rows))
	for i, row := range rows {
		out[i] = row.request()
		at[row.ID], ids[i] = i, row.ID
	}
	var yes []struct {
		RequestID int64
		Actor     string
		ActorName string
		Role      models.Role
		At        time.Time
	}
	err := r.rows(ctx, &yes, `SELECT request_id, actor, actor_name, role, at FROM approvals WHERE request_id = ANY (?::bigint[]) ORDER BY at, actor`, idList(ids))
	for _, y := range yes {
		q := &out[at[y.RequestID]]
		q.Approvals = append(q.Approvals, models.Approval{By: y.Actor, Name: y.ActorName, Role: y.Role, At: y.At.UTC()})
	}
	return out, err
}

// Requests lists requests, newest first. Those of a shell are the order's that it
// became part of.
func (r reads) Requests(ctx context.Context, q models.RequestQuery) (models.Page[models.Request], error) {
	var page models.Page[models.Request]
	before, err := cursorID(q.Cursor)
	if err != nil {
		return page, err
	}
	w := &where{}
	if before > 0 {
		w.and("q.id < ?", before)
	}
	if len(q.Shops) > 0 {
		w.and("q.shop_id = ANY (?::bigint[])", idList(q.Shops))
	}
	if q.State != "" {
		w.and("q.state = ?", q.State)
	}
	if q.Kind != "" {
		w.and("q.kind = ?", q.Kind)
	}
	if q.Order != 0 {
		w.and(`q.order_id IN (SELECT x.id FROM orders x, (SELECT COALESCE(merged_into, id) AS id FROM orders WHERE id = ?) i WHERE x.id = i.id OR x.merged_into = i.id)`, q.Order)
	}
	if q.Action != 0 {
		w.and("(q.action_id = ? OR q.made_id = ?)", q.Action, q.Action)
	}
	if q.Case != 0 {
		w.and("q.exception_id = ?", q.Case)
	}
	limit := pageSize(q.Limit)
	items, err := r.requestsWhere(ctx, w.String()+" ORDER BY q.id DESC LIMIT ?", append(w.args, limit+1)...)
	if err != nil {
		return page, err
	}
	if len(items) > limit {
		items = items[:limit]
		page.Next = strconv.FormatInt(items[limit-1].ID, 10)
	}
	page.Items = items
	return page, nil
}

// Request looks at a request.
func (r reads) Request(ctx context.Context, id int64) (models.Request, error) {
	return r.requestWhere(ctx, "q.id = ?", id)
}

func (r reads) requestWhere(ctx context.Context, cond string, args ...any) (models.Request, error) {
	list, err := r.requestsWhere(ctx, cond, args...)
	if err == nil && len(list) == 0 {
		err = models.Fail(models.NotFound, "error.request_unknown")
	}
	if err != nil {
		return models.Request{}, err
	}
	return list[0], nil
}

// LockRequest locks a request, after its order and its action.
func (tx *Tx) LockRequest(ctx context.Context, id int64) (models.Request, error) {
	if err := tx.exec(ctx, `SELECT 1 FROM requests WHERE id = ? FOR UPDATE`, id); err != nil {
		return models.Request{}, err
	}
	return tx.Request(ctx, id)
}

// OpenRequest finds and locks the request about a subject that waits for a decision;
// its id is 0 where there is none.
func (tx *Tx) OpenRequest(ctx context.Context, subject string) (models.Request, error) {
	if err := tx.exec(ctx, `SELECT 1 FROM requests WHERE subject = ? AND state = 'proposed' FOR UPDATE`, subject); err != nil {
		return models.Request{}, err
	}
	q, err := tx.requestWhere(ctx, "q.subject = ? AND q.state = 'proposed'", subject)
	if models.CodeOf(err) == models.NotFound {
		return models.Request{}, nil
	}
	return q, err
}

// AddRequest keeps what somebody asks for.
func (tx *Tx) AddRequest(ctx context.Context, q models.Request) (int64, error) {
	null := func(n int64) any {
		if n == 0 {
			return nil
		}
		return n
	}
	var id int64
	err := tx.one(ctx, "", &id, `
INSERT INTO requests (kind, subject, shop_id, order_id, action_id, action_kind, code, reason, terms, seen, needs, proposed_by, proposer_name, proposer_role, proposed_at, expires_at, exception_id)
VALUES (?, ?, ?, ?, ?, NULLIF(?, ''), ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id`,
		q.Kind, q.Subject, q.ShopID, null(q.OrderID), null(q.ActionID), q.ActionKind, q.Code, q.Reason, q.Terms, q.Seen, q.Needs,
		q.By, q.ByName, q.ByRole, tx.Now, q.Expires, null(q.Exception))
	return id, err
}

// Approve keeps one person's yes to a request that this transaction has locked.
func (tx *Tx) Approve(ctx context.Context, q models.Request, yes models.Approval) error {
	return tx.exec(ctx, `INSERT INTO approvals (request_id, proposed_by, actor, actor_name, role, at) VALUES (?, ?, ?, ?, ?, ?)`,
		q.ID, q.By, yes.By, yes.Name, yes.Role, tx.Now)
}

// A Decision ends a request.
type Decision struct {
	State models.RequestState
	By    string
	Name  string
	Note  string
	Made  int64 // action
}

// EndRequest ends a request that this transaction has locked and that is open.
func (tx *Tx) EndRequest(ctx context.Context, id int64, d Decision) error {
	var made any
	if d.Made != 0 {
		made = d.Made
	}
	n, err := tx.changed(ctx, `
UPDATE requests SET state = ?, decided_by = ?, decider_name = ?, decided_at = ?, note = ?, made_id = ?, secret = NULL WHERE id = ? AND state = 'proposed'`,
		d.State, d.By, d.Name, tx.Now, d.Note, made, id)
	if err == nil && n == 0 {
		return models.Fail(models.Conflict, "error.request_decided")
	}
	return err
}

// DueRequests lists the requests that nobody decided in time.
func (r reads) DueRequests(ctx context.Context, now time.Time) ([]int64, error) {
	var ids []int64
	err := r.rows(ctx, &ids, `SELECT id FROM requests WHERE state = 'proposed' AND expires_at <= ? ORDER BY expires_at LIMIT 100`, now)
	return ids, err
}

// AskedAgain counts how often messages of an order were asked for once more since a
// moment, without what was called back or refused.
func (r reads) AskedAgain(ctx context.Context, order int64, since time.Time) (int, error) {
	var n int
	err := r.rows(ctx, &n, `SELECT count(*) FROM requests WHERE order_id = ? AND kind = ? AND proposed_at > ? AND state IN ('proposed', 'applied')`,
		order, models.RequestAgain, since)
	return n, err
}

// LockActor keeps what one person does at the same moment in sequence, before every
// other lock: sums over what somebody approved are judged under it.
func (tx *Tx) LockActor(ctx context.Context, actor string) error {
	return tx.exec(ctx, `SELECT pg_advisory_xact_lock(hashtextextended(?, 7))`, strings.Join([]string{"approver", actor}, ":"))
}
