package store

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"counterfoil/models"
)

type exceptionRow struct {
	ID             int64
	Kind           models.ExceptionKind
	CaseName       string
	Axis           *models.Axis
	OrderID        *int64
	Connection     *string
	Platform       *models.Platform
	ShopID         *int64
	Shop           *string
	Number         string
	Currency       string
	Subject        string
	ObjectID       *int64
	ObjectRef      string
	PlatformState  string
	LocalState     string
	Detail         string
	Policy         models.Policy
	State          string
	Count          int64
	FirstSeen      time.Time
	LastSeen       time.Time
	Rule           string
	Urgency        models.Urgency
	FirstTo        models.Desk
	Needs          bool
	NeedsAt        *time.Time
	HealAt         *time.Time
	HealedAt       *time.Time
	Tell           bool
	ToldAt         *time.Time
	ToldBy         string
	Topic          string
	OwnerID        *int64
	Owner          string
	OwnedAt        *time.Time
	GroupID        *int64
	ClosedAt       *time.Time
	ClosedHow      string
	ClosedBy       string
	ClosedNote     string
	Version        int64
	PlatformDigest []byte
	LocalDigest    []byte
}

const exceptionColumns = `x.id, x.kind, x.case_name, x.axis, x.order_id, c.slug AS connection, c.platform, s.id AS shop_id, s.slug AS shop,
       COALESCE(NULLIF(o.number, ''), o.platform_ref, '') AS number, COALESCE(o.currency, '') AS currency, x.subject, x.object_id, x.object_ref, x.platform_state, x.local_state, x.detail, x.policy, x.state, x.count,
       x.first_seen, x.last_seen, x.rule, x.urgency, x.first_to, x.needs, x.needs_at, x.heal_at, x.healed_at, x.tell, x.told_at, x.told_by, x.topic,
       x.owner_id, COALESCE(w.name, '') AS owner, x.owned_at, x.group_id, x.closed_at, x.closed_how, x.closed_by, x.closed_note, x.version, x.platform_digest, x.local_digest`

// exceptionTables are the exceptions with what they belong to: the shop of their
// connection, or of their order where they are about none.
const exceptionTables = `exceptions x LEFT JOIN connections c ON c.id = x.connection_id LEFT JOIN orders o ON o.id = x.order_id
LEFT JOIN shops s ON s.id = COALESCE(c.shop_id, o.shop_id) LEFT JOIN staff w ON w.id = x.owner_id`

func (r exceptionRow) exception() models.Exception {
	x := models.Exception{ID: r.ID, Kind: r.Kind, Case: r.CaseName, Ref: r.ObjectRef, PlatformState: r.PlatformState, LocalState: r.LocalState,
		Detail: r.Detail, Policy: r.Policy, State: r.State, Count: r.Count, First: r.FirstSeen.UTC(), Last: r.LastSeen.UTC(), Number: r.Number, Currency: r.Currency, Subject: r.Subject,
		Rule: r.Rule, Urgency: r.Urgency, FirstTo: r.FirstTo, Needs: r.Needs, NeedsAt: utc(r.NeedsAt), HealAt: utc(r.HealAt), Healed: utc(r.HealedAt),
		Tell: r.Tell, Told: utc(r.ToldAt), ToldBy: r.ToldBy, Topic: r.Topic, OwnedBy: r.Owner, Owned: utc(r.OwnedAt), Closed: utc(r.ClosedAt), How: r.ClosedHow,
		ClosedBy: r.ClosedBy, Note: r.ClosedNote, Version: r.Version, PlatformDigest: r.PlatformDigest, LocalDigest: r.LocalDigest}
	set := func(into *int64, from *int64) {
		if from != nil {
			*into = *from
		}
	}
	set(&x.OrderID, r.OrderID)
	set(&x.ShopID, r.ShopID)
	set(&x.ObjectID, r.ObjectID)
	set(&x.Owner, r.OwnerID)
	set(&x.Group, r.GroupID)
	if r.Axis != nil {
		x.Axis = *r.Axis
	}
	if r.Connection != nil {
		x.Connection, x.Platform = *r.Connection, *r.Platform
	}
	if r.Shop != nil {
		x.Shop = *r.Shop
	}
	return x
}

func (r reads) exceptionsWhere(ctx context.Context, cond string, args ...any) ([]models.Exception, error) {
	var rows []exceptionRow
	if err := r.rows(ctx, &rows, `SELECT `+exceptionColumns+` FROM `+exceptionTables+` WHERE `+cond, args...); err != nil {
		return nil, err
	}
	out := make([]models.Exception, len(rows))
	for i, row := range rows {
		out[i] = row.exception()
	}
	return out, nil
}

// Exception looks at an exception.
func (r reads) Exception(ctx context.Context, id int64) (models.Exception, error) {
	list, err := r.exceptionsWhere(ctx, "x.id = ?", id)
	if err == nil && len(list) == 0 {
		err = models.Fail(models.NotFound, "error.exception_unknown")
	}
	if err != nil {
		return models.Exception{}, err
	}
	return list[0], nil
}

// casesWhere are the conditions of a query, without its cursor.
func casesWhere(q models.CaseQuery) *where {
	w := &where{}
	if len(q.Shops) > 0 {
		w.and("s.id = ANY (?::bigint[])", idList(q.Shops))
	}
	if q.State != "" {
		w.and("x.state = ?", q.State)
	}
	if q.Needs != nil {
		w.and("x.needs = ?", *q.Needs)
	}
	if q.Order != 0 {
		w.and("x.order_id IN ("+orderAndShells+")", q.Order, q.Order)
	}
	if q.Kind != "" {
		w.and("x.kind = ?", q.Kind)
	}
	if q.Connection != "" {
		w.and("c.slug = ?", q.Connection)
	}
	if q.Shop != "" {
		w.and("s.slug = ?", q.Shop)
	}
	if q.Urgency != "" {
		w.and("x.urgency = ?", q.Urgency)
	}
	if q.Policy != "" {
		w.and("x.policy = ?", q.Policy)
	}
	if q.Tell {
		w.and("x.tell AND x.told_at IS NULL")
	}
	if q.Owner != 0 {
		w.and("x.owner_id = ?", q.Owner)
	}
	if q.Free {
		w.and("x.owner_id IS NULL")
	}
	if q.Group != 0 {
		w.and("x.group_id = ?", q.Group)
	}
	if !q.Asked.IsZero() {
		w.and("x.asked_at = ?", q.Asked)
	}
	if text := models.Half(strings.TrimSpace(q.Text)); text != "" {
		like := likePrefix(text)
		w.and(`(x.object_ref LIKE ? OR x.id::text = ? OR o.number LIKE ? OR x.order_id IN (
        SELECT COALESCE(m.merged_into, m.id) FROM order_refs y JOIN orders m ON m.id = y.order_id WHERE y.ref LIKE ? OR y.ref = ANY (ARRAY(SELECT jsonb_array_elements_text(?::jsonb)))))`,
			like, text, like, like, spellings(text))
	}
	return w
}

// caseRank sorts what is urgent first.
const caseRank = `CASE x.urgency WHEN 'now' THEN 0 WHEN 'today' THEN 1 ELSE 2 END`

// Exceptions lists exceptions: each one, newest first; or folded, a group being one row.
func (r reads) Exceptions(ctx context.Context, q models.CaseQuery) (models.Page[models.CaseRow], error) {
	if q.Folded {
		return r.foldedCases(ctx, q)
	}
	var page models.Page[models.CaseRow]
	before, err := cursorID(q.Cursor)
	if err != nil {
		return page, err
	}
	w := casesWhere(q)
	if before > 0 {
		w.and("x.id < ?", before)
	}
	limit := pageSize(q.Limit)
	list, err := r.exceptionsWhere(ctx, w.String()+" ORDER BY x.id DESC LIMIT ?", append(w.args, limit+1)...)
	if err != nil {
		return page, err
	}
	if len(list) > limit {
		list = list[:limit]
		page.Next = strconv.FormatInt(list[limit-1].ID, 10)
	}
	for _, x := range list {
		page.Items = append(page.Items, models.CaseRow{Exception: x, Members: 1})
	}
	return page, r.beingRead(ctx, page.Items)
}

func (r reads) foldedCases(ctx context.Context, q models.CaseQuery) (models.Page[models.CaseRow], error) {
	var page models.Page[models.CaseRow]
	rank, before, err := foldedCursor(q.Cursor)
	if err != nil {
		return page, err
	}
	w := casesWhere(q)
	args, after := w.args, "true"
	if before > 0 {
		after, args = "(f.rank, -f.id) > (?, ?)", append(args, rank, -before)
	}
	limit := pageSize(q.Limit)
	var rows []struct {
		Row     exceptionRow `gorm:"embedded"`
		Members int
		Rank    int
	}
	err = r.rows(ctx, &rows, `
WITH hit AS (
    SELECT x.id, COALESCE(x.group_id, -x.id) AS line, `+caseRank+` AS rank FROM `+exceptionTables+` WHERE `+w.String()+`
), f AS (
    SELECT max(id) AS id, min(rank) AS rank, count(*) AS members FROM hit GROUP BY line
), page AS (
    SELECT f.* FROM f WHERE `+after+` ORDER BY f.rank, f.id DESC LIMIT ?
)
SELECT `+exceptionColumns+`, page.members, page.rank FROM page JOIN `+strings.Replace(exceptionTables, "exceptions x", "exceptions x ON x.id = page.id", 1)+`
ORDER BY page.rank, page.id DESC`, append(args, limit+1)...)
	if err != nil {
		return page, err
	}
	for i, row := range rows {
		if i == limit {
			page.Next = fmt.Sprintf("%d.%d", rows[i-1].Rank, rows[i-1].Row.ID)
			break
		}
		x := row.Row.exception()
		x.Urgency = models.Urgencies[row.Rank]
		page.Items = append(page.Items, models.CaseRow{Exception: x, Members: row.Members})
	}
	return page, r.beingRead(ctx, page.Items)
}

func foldedCursor(cursor string) (rank int, id int64, err error) {
	if cursor == "" {
		return 0, 0, nil
	}
	head, tail, ok := strings.Cut(cursor, ".")
	rank, err = strconv.Atoi(head)
	if err == nil && ok {
		id, err = strconv.ParseInt(tail, 10, 64)
	}
	if err != nil || !ok || id <= 0 {
		return 0, 0, &models.Error{Code: models.Invalid, Key: "error.cursor", Fields: map[string]string{"cursor": "error.cursor"}}
	}
	return rank, id, nil
}

// beingRead marks the rows whose object, or one of their order, is to be read now or is
// being read.
func (r reads) beingRead(ctx context.Context, rows []models.CaseRow) error {
	ids, at := make([]int64, len(rows)), map[int64]int{}
	for i, row := range rows {
		ids[i], at[row.ID] = row.ID, i
	}
	if len(ids) == 0 {
		return nil
	}
	var reading []int64
	err := r.rows(ctx, &reading, `
SELECT x.id FROM exceptions x WHERE x.id = ANY (?::bigint[]) AND x.state = 'open' AND EXISTS (
    SELECT 1 FROM platform_objects p WHERE (p.id = x.object_id OR p.order_id = x.order_id) AND (p.reread_at <= now() OR p.claimed_until > now()))`, idList(ids))
	for _, id := range reading {
		rows[at[id]].Reading = true
	}
	return err
}

// CaseCount counts the open lines of a query, a group being one.
func (r reads) CaseCount(ctx context.Context, q models.CaseQuery) (models.CaseCount, error) {
	q.State, q.Needs = "open", nil
	w := casesWhere(q)
	var n struct {
		Needs, Settling, NeedsCases, SettlingCases int
		Oldest                                     *time.Time
	}
	err := r.one(ctx, "", &n, `
SELECT count(DISTINCT COALESCE(x.group_id, -x.id)) FILTER (WHERE x.needs) AS needs, count(*) FILTER (WHERE x.needs) AS needs_cases,
       count(DISTINCT COALESCE(x.group_id, -x.id)) FILTER (WHERE NOT x.needs) AS settling, count(*) FILTER (WHERE NOT x.needs) AS settling_cases,
       min(x.first_seen) FILTER (WHERE x.needs) AS oldest
FROM `+exceptionTables+` WHERE `+w.String(), w.args...)
	return models.CaseCount{Needs: n.Needs, Settling: n.Settling, NeedsCases: n.NeedsCases, SettlingCases: n.SettlingCases, Oldest: utc(n.Oldest)}, err
}

// CaseKinds counts what a query finds by kind and connection, the most first.
func (r reads) CaseKinds(ctx context.Context, q models.CaseQuery) ([]models.KindCount, error) {
	w := casesWhere(q)
	var out []models.KindCount
	err := r.rows(ctx, &out, `
SELECT x.kind, COALESCE(c.slug, '') AS connection, count(*) AS n FROM `+exceptionTables+` WHERE `+w.String()+` GROUP BY 1, 2 ORDER BY 3 DESC, 1, 2`, w.args...)
	return out, err
}

// ExceptionFile reads an exception with everything its page shows but its order.
func (r reads) ExceptionFile(ctx context.Context, id int64) (models.ExceptionFile, error) {
	x, err := r.Exception(ctx, id)
	f := models.ExceptionFile{Exception: x}
	if err != nil {
		return f, err
	}
	object := x.ObjectID
	if object == 0 {
		if n, err := strconv.ParseInt(strings.TrimPrefix(x.Subject, "object:"), 10, 64); err == nil {
			object = n
		}
	}
	if object != 0 {
		list, err := r.objectsWhere(ctx, "p.id = ?", object)
		if err != nil {
			return f, err
		}
		for _, o := range list {
			obj := shown(o)
			f.Object = &obj
		}
		if f.Found, err = r.sighting(ctx, "object_id = ?", object); err != nil {
			return f, err
		}
	} else if x.OrderID != 0 {
		if f.Found, err = r.sighting(ctx, "order_id = ? ORDER BY last_seen DESC", x.OrderID); err != nil {
			return f, err
		}
	}
	if f.Notes, err = r.Notes(ctx, CaseSubject(id)); err != nil {
		return f, err
	}
	if f.Asked, err = r.requestsWhere(ctx, "q.exception_id = ? ORDER BY q.id DESC", id); err != nil {
		return f, err
	}
	if x.Group != 0 {
		if err = r.one(ctx, "", &f.Members, `SELECT count(*) FROM exceptions WHERE group_id = ? AND state = 'open'`, x.Group); err != nil {
			return f, err
		}
	}
	var accepted struct {
		AcceptedAt time.Time
		Until      time.Time
		EndedAt    *time.Time
	}
	n, err := r.scan(ctx, &accepted, `SELECT accepted_at, until, ended_at FROM acceptances WHERE exception_id = ? ORDER BY id DESC LIMIT 1`, id)
	if err == nil && n > 0 {
		f.Accepted = &models.Acceptance{At: accepted.AcceptedAt.UTC(), Until: accepted.Until.UTC(), Ended: utc(accepted.EndedAt)}
	}
	return f, err
}

func (r reads) sighting(ctx context.Context, cond string, id int64) (*models.Sighting, error) {
	var row struct {
		ObjectID  int64
		Seen      string
		ChangedAt *time.Time
		FirstSeen time.Time
		LastSeen  time.Time
		Count     int64
	}
	n, err := r.scan(ctx, &row, `SELECT object_id, seen::text AS seen, changed_at, first_seen, last_seen, count FROM findings WHERE `+cond+` LIMIT 1`, id)
	if err != nil || n == 0 {
		return nil, err
	}
	f := &models.Sighting{Object: row.ObjectID, Seen: &models.Observation{}, Changed: utc(row.ChangedAt), First: row.FirstSeen.UTC(), Last: row.LastSeen.UTC(), Count: row.Count}
	if err := json.Unmarshal([]byte(row.Seen), f.Seen); err != nil {
		return nil, fmt.Errorf("store: finding of object %d: %w", row.ObjectID, err)
	}
	return f, nil
}

// CaseSubject is what notes and requests are about that concern an exception.
func CaseSubject(id int64) string { return "exception:" + strconv.FormatInt(id, 10) }

// Notes lists what people wrote beside something, newest first.
func (r reads) Notes(ctx context.Context, subject string) ([]models.CaseNote, error) {
	var out []models.CaseNote
	err := r.rows(ctx, &out, `SELECT by, name, at, body FROM notes WHERE subject = ? ORDER BY id DESC LIMIT 200`, subject)
	for i := range out {
		out[i].At = out[i].At.UTC()
	}
	return out, err
}

// Colleagues lists the people at work who see a shop (0: every shop) and work on cases.
func (r reads) Colleagues(ctx context.Context, shop int64) ([]models.Colleague, error) {
	var out []models.Colleague
	err := r.rows(ctx, &out, `
SELECT p.id, p.name, p.role, p.lead FROM staff p WHERE p.disabled_at IS NULL AND p.role IN ('support', 'manager', 'admin')
  AND (NOT EXISTS (SELECT 1 FROM staff_shops y WHERE y.staff_id = p.id) OR EXISTS (SELECT 1 FROM staff_shops y WHERE y.staff_id = p.id AND y.shop_id = ?))
ORDER BY p.name, p.id LIMIT 500`, shop)
	return out, err
}

// ObjectByID looks at an object without locking it.
func (r reads) ObjectByID(ctx context.Context, id int64) (ObjectRow, error) {
	list, err := r.objectsWhere(ctx, "p.id = ?", id)
	if err == nil && len(list) == 0 {
		err = models.Fail(models.NotFound, "error.object_unknown")
	}
	if err != nil {
		return ObjectRow{}, err
	}
	return list[0], nil
}
