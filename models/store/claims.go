package store

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"counterfoil/models"
)

// A DueEvent is an unprocessed event that a worker has claimed.
type DueEvent struct {
	ID       int64
	Key      []byte
	Account  string
	EventID  string
	Topic    string
	Object   models.ObjectRef `gorm:"-"`
	ObjKind  string           `gorm:"column:object_kind"`
	ObjRef   string           `gorm:"column:object_ref"`
	Occurred *time.Time       `gorm:"column:occurred_at"`
	Floor    *time.Time       `gorm:"column:floor_at"`
	Version  int64
	SaidJSON *string             `gorm:"column:said"`
	Said     *models.Observation `gorm:"-"`
	Digest   []byte
	Content  []byte
	Test     bool
	Known    bool
	State    models.EventState
	Tries    int
	Rereads  int
	Received time.Time  `gorm:"column:received_at"`
	Waited   *time.Time `gorm:"-"`
	OrderID  *int64
}

// A Claim is one object that a worker holds, with the events that its reading will serve.
type Claim struct {
	ObjectID int64
	Ref      models.ObjectRef
	No       int64 // reading number: a lower one than the last applied is thrown away
	OrderID  int64
	Events   []DueEvent
	// Reread is set where the object itself asks to be read again: the time at which
	// it will ask once more if this claim comes to nothing.
	Reread *time.Time
}

// claimedEvents is how many events of one object a claim takes at once.
const claimedEvents = 500

// dueOf has the objects of a connection's oldest due events that nobody holds. It
// takes the connection and how many events to look at.
const dueOf = `
    SELECT e.account, e.object_kind, e.object_ref FROM events e
    LEFT JOIN platform_objects h ON h.connection_id = e.connection_id AND h.account = e.account AND h.kind = e.object_kind AND h.ref = e.object_ref
    WHERE e.connection_id = ? AND e.due_at <= now() AND (h.claimed_until IS NULL OR h.claimed_until < now())
    ORDER BY e.due_at LIMIT ?`

// ClaimDue takes up to limit objects of a connection whose events are due, with their
// due events, for lease. Objects that another worker holds are passed over.
func (tx *Tx) ClaimDue(ctx context.Context, connection int64, limit int, lease time.Duration) ([]Claim, error) {
	look := max(limit*8, claimedEvents)
	if err := tx.exec(ctx, `
INSERT INTO platform_objects (connection_id, account, kind, ref)
SELECT DISTINCT ?::bigint, d.account, d.object_kind, d.object_ref FROM (`+dueOf+`) d
ORDER BY 1, 2, 3, 4
ON CONFLICT (connection_id, account, kind, ref) DO NOTHING`, connection, connection, look); err != nil {
		return nil, err
	}
	var held []struct {
		ID        int64
		Account   string
		Kind      string
		Ref       string
		ClaimedNo int64
		OrderID   *int64
		RereadAt  *time.Time
	}
	if err := tx.rows(ctx, &held, `
WITH due AS (
    SELECT p.id, COALESCE(p.reread_at <= now(), false) AS reread FROM platform_objects p
    WHERE p.id IN (
        SELECT o.id FROM (SELECT DISTINCT account, object_kind, object_ref FROM (`+dueOf+`) x) d
        JOIN platform_objects o ON o.connection_id = ? AND o.account = d.account AND o.kind = d.object_kind AND o.ref = d.object_ref
        UNION
        (SELECT o.id FROM platform_objects o WHERE o.connection_id = ? AND o.reread_at <= now() ORDER BY o.reread_at LIMIT ?))
    AND (p.claimed_until IS NULL OR p.claimed_until < now())
    ORDER BY p.id LIMIT ? FOR UPDATE OF p SKIP LOCKED
)
UPDATE platform_objects p SET claimed_until = now() + make_interval(secs => ?), claimed_no = nextval('reading_no'),
       reread_at = CASE WHEN due.reread THEN now() + make_interval(secs => ?) ELSE p.reread_at END
FROM due WHERE p.id = due.id
RETURNING p.id, p.account, p.kind, p.ref, p.claimed_no, p.order_id, CASE WHEN due.reread THEN p.reread_at END AS reread_at`,
		connection, look, connection, connection, limit, limit, lease.Seconds(), lease.Seconds()); err != nil {
		return nil, err
	}
	claims := make([]Claim, 0, len(held))
	ids := make([]int64, 0, len(held))
	at := map[models.ObjectRef]int{}
	for _, h := range held {
		c := Claim{ObjectID: h.ID, Ref: models.ObjectRef{Account: h.Account, Kind: h.Kind, ID: h.Ref}, No: h.ClaimedNo, Reread: h.RereadAt}
		if h.OrderID != nil {
			c.OrderID = *h.OrderID
		}
		at[c.Ref] = len(claims)
		claims = append(claims, c)
		ids = append(ids, h.ID)
	}
	if len(ids) == 0 {
		return nil, nil
	}
	events, err := tx.dueEvents(ctx, connection, ids)
	if err != nil {
		return nil, err
	}
	for _, e := range events {
		if i, ok := at[e.Object]; ok {
			claims[i].Events = append(claims[i].Events, e)
		}
	}
	return claims, nil
}

// dueEvents finds the due events of objects among those of each object: in a burst
// there are many more that are due. What names no object is the other way round.
func (tx *Tx) dueEvents(ctx context.Context, connection int64, objects []int64) ([]DueEvent, error) {
	var events []DueEvent
	if err := tx.rows(ctx, &events, `
SELECT e.id, e.key, e.account, e.event_id, e.topic, e.object_kind, e.object_ref, e.occurred_at, e.floor_at, e.version, e.said::text AS said,
       e.digest, e.content, e.test, e.known, e.state, e.tries, e.rereads, e.received_at, e.order_id
FROM platform_objects p CROSS JOIN LATERAL (
    SELECT x.* FROM (
        SELECT * FROM events y WHERE y.connection_id = p.connection_id AND y.account = p.account AND y.object_kind = p.kind AND y.object_ref = p.ref
          AND p.ref <> '' OFFSET 0) x
    WHERE x.due_at <= now()
    UNION ALL
    SELECT x.* FROM events x WHERE x.connection_id = p.connection_id AND x.account = p.account AND x.object_kind = p.kind AND x.object_ref = p.ref
      AND p.ref = '' AND x.due_at <= now()
    ORDER BY id LIMIT ?) e
WHERE p.id = ANY (?::bigint[]) AND p.connection_id = ? ORDER BY e.key`, claimedEvents, idList(objects), connection); err != nil {
		return nil, err
	}
	for i := range events {
		e := &events[i]
		e.Object = models.ObjectRef{Account: e.Account, Kind: e.ObjKind, ID: e.ObjRef}
		if e.SaidJSON != nil {
			var o models.Observation
			if err := json.Unmarshal([]byte(*e.SaidJSON), &o); err != nil {
				return nil, fmt.Errorf("store: reported observation of event %d: %w", e.ID, err)
			}
			e.Said = &o
		}
	}
	return events, nil
}

// Again locks an object that this worker holds and looks once more for due events:
// the next claim if there are some, otherwise the object is given back. Whoever
// found it held meanwhile may therefore have gone away.
func (tx *Tx) Again(ctx context.Context, connection int64, c Claim, lease time.Duration) (Claim, bool, error) {
	var now struct {
		ClaimedNo int64
		OrderID   *int64
		Reread    bool
	}
	if err := tx.one(ctx, "error.object_unknown", &now, `
SELECT claimed_no, order_id, COALESCE(reread_at <= now(), false) AS reread FROM platform_objects WHERE id = ? FOR UPDATE`, c.ObjectID); err != nil {
		return Claim{}, false, err
	}
	if now.ClaimedNo != c.No {
		return Claim{}, false, nil // the lease ran out and somebody else holds it
	}
	events, err := tx.dueEvents(ctx, connection, []int64{c.ObjectID})
	if err != nil {
		return Claim{}, false, err
	}
	if len(events) == 0 && !now.Reread {
		return Claim{}, false, tx.exec(ctx, `UPDATE platform_objects SET claimed_until = NULL WHERE id = ?`, c.ObjectID)
	}
	next := Claim{ObjectID: c.ObjectID, Ref: c.Ref, Events: events}
	if now.OrderID != nil {
		next.OrderID = *now.OrderID
	}
	var taken struct {
		ClaimedNo int64
		RereadAt  *time.Time
	}
	err = tx.one(ctx, "error.object_unknown", &taken, `
UPDATE platform_objects SET claimed_until = now() + make_interval(secs => ?), claimed_no = nextval('reading_no'),
       reread_at = CASE WHEN ?::boolean THEN now() + make_interval(secs => ?) ELSE reread_at END
WHERE id = ? RETURNING claimed_no, CASE WHEN ?::boolean THEN reread_at END AS reread_at`,
		lease.Seconds(), now.Reread, lease.Seconds(), c.ObjectID, now.Reread)
	next.No, next.Reread = taken.ClaimedNo, taken.RereadAt
	return next, err == nil, err
}

// Read takes back an object's wish to be read again, unless somebody wished so anew
// since the claim.
func (tx *Tx) Read(ctx context.Context, c Claim) error {
	if c.Reread == nil {
		return nil
	}
	return tx.exec(ctx, `UPDATE platform_objects SET reread_at = NULL WHERE id = ? AND reread_at = ?`, c.ObjectID, *c.Reread)
}

// DueConnections lists the connections on which somebody has to look.
func (r reads) DueConnections(ctx context.Context) ([]int64, error) {
	var ids []int64
	err := r.rows(ctx, &ids, `
SELECT c.id FROM connections c WHERE
    EXISTS (SELECT 1 FROM events e WHERE e.connection_id = c.id AND e.due_at <= now())
    OR EXISTS (SELECT 1 FROM platform_objects p WHERE p.connection_id = c.id AND p.reread_at <= now())
    OR (c.api_failing IS NOT NULL AND c.api_next <= now())`)
	return ids, err
}

// Release gives claimed objects back that came to nothing, so that others needn't wait
// for their leases.
func (tx *Tx) Release(ctx context.Context, claims []Claim) error {
	for _, c := range claims {
		if err := tx.exec(ctx, `UPDATE platform_objects SET claimed_until = NULL, reread_at = CASE WHEN ?::boolean THEN now() ELSE reread_at END WHERE id = ? AND claimed_no = ?`,
			c.Reread != nil, c.ObjectID, c.No); err != nil {
			return err
		}
	}
	return nil
}

// SameContent finds an event of the same object and topic with the same content that
// a reading has served which began after that event was first kept. Such a copy
// under another id needs no call of its own.
func (r reads) SameContent(ctx context.Context, connection int64, e DueEvent) (int64, error) {
	var id int64
	err := r.rows(ctx, &id, `
SELECT o.id FROM events o JOIN platform_objects p ON p.connection_id = o.connection_id AND p.account = o.account AND p.kind = o.object_kind AND p.ref = o.object_ref
WHERE o.connection_id = ? AND o.object_kind = ? AND o.object_ref = ? AND o.account = ? AND o.topic = ? AND o.content = ? AND o.id <> ?
  AND o.state IN ('applied', 'superseded') AND p.fetched_at > o.received_at
  -- Nothing else was said of the object since: it may have come back to what it was.
  AND NOT EXISTS (SELECT 1 FROM events x WHERE x.connection_id = o.connection_id AND x.object_kind = o.object_kind AND x.object_ref = o.object_ref
      AND x.account = o.account AND x.content <> o.content AND x.received_at >= o.received_at)
ORDER BY o.id LIMIT 1`, connection, e.ObjKind, e.ObjRef, e.Account, e.Topic, e.Content, e.ID)
	return id, err
}

// RereadNow asks for an object to be read again at once.
func (tx *Tx) RereadNow(ctx context.Context, connection int64, ref models.ObjectRef) error {
	return tx.exec(ctx, `UPDATE platform_objects SET reread_at = now() WHERE connection_id = ? AND account = ? AND kind = ? AND ref = ?`,
		connection, ref.Account, ref.Kind, ref.ID)
}

// RereadLater asks for an object to be read again after a while.
func (tx *Tx) RereadLater(ctx context.Context, object int64, after time.Duration) error {
	return tx.exec(ctx, `UPDATE platform_objects SET reread_at = now() + make_interval(secs => ?) WHERE id = ?`, after.Seconds(), object)
}

// RereadOpened asks for objects to be read at once that nobody asked for yet; one that
// is to be read later has its reason to wait. It tells whether it asked for any, and
// whether any is being read or about to be.
func (tx *Tx) RereadOpened(ctx context.Context, objects []int64) (asked, reading bool, err error) {
	n, err := tx.changed(ctx, `
UPDATE platform_objects SET reread_at = now() WHERE id IN (
    SELECT id FROM platform_objects WHERE id = ANY (?::bigint[]) AND reread_at IS NULL AND (claimed_until IS NULL OR claimed_until < now())
    ORDER BY id FOR UPDATE SKIP LOCKED)`, idList(objects))
	if err != nil {
		return false, false, err
	}
	err = tx.one(ctx, "", &reading, `SELECT EXISTS (SELECT 1 FROM platform_objects WHERE id = ANY (?::bigint[]) AND (reread_at <= now() OR claimed_until >= now()))`, idList(objects))
	return n > 0, reading, err
}
