package store

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"counterfoil/models"
)

// A NewEvent is a verified notification that is to be kept.
type NewEvent struct {
	ConnectionID int64
	Key          [16]byte
	Account      string
	EventID      string
	Topic        string
	Object       models.ObjectRef
	Act          string
	Occurred     time.Time
	Floor        time.Time
	Version      int64
	Said         []byte // JSON, nil: nothing
	Digest       [32]byte
	Content      [32]byte
	Size         int
	Secret       string
	Skew         *int64 // milliseconds
	RequestID    string
	Test         bool
	Known        bool
	Conflict     string
	Received     time.Time
	Sealed       []byte
}

// A Kept is the answer for one NewEvent.
type Kept struct {
	ID         int64
	Fresh      bool
	Deliveries int64
	Conflict   bool // a known id with other content
}

// keepEvents inserts a batch whose keys are distinct and sorted. One statement and
// one round trip: events, and the payloads of those that are new.
const keepEvents = `
WITH input AS (
    SELECT * FROM unnest($1::bigint[], $2::bytea[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[],
        $9::timestamptz[], $10::timestamptz[], $11::bigint[], $12::text[], $13::bytea[], $14::bytea[], $15::integer[], $16::text[],
        $17::bigint[], $18::text[], $19::boolean[], $20::boolean[], $21::timestamptz[], $22::bytea[], $23::bigint[])
    AS t (connection_id, key, account, event_id, topic, object_kind, object_ref, act, occurred_at, floor_at, version, said, digest,
        content, size, secret, skew_ms, request_id, test, known, received_at, sealed, copies)
), kept AS (
    INSERT INTO events (connection_id, key, account, event_id, topic, object_kind, object_ref, act, occurred_at, floor_at, version,
        said, digest, content, size, secret, skew_ms, request_id, test, known, received_at, last_at, deliveries, due_at)
    SELECT connection_id, key, account, event_id, topic, object_kind, object_ref, act, occurred_at, floor_at, version,
        NULLIF(said, '')::jsonb, digest, content, size, secret, skew_ms, request_id, test, known, received_at, received_at, copies, now()
    FROM input ORDER BY connection_id, key
    ON CONFLICT (connection_id, key) DO UPDATE SET deliveries = events.deliveries + EXCLUDED.deliveries, last_at = EXCLUDED.last_at
    RETURNING id, connection_id, key, deliveries, content, digest, (xmax = 0) AS fresh
), stored AS (
    INSERT INTO payloads (event_id, n, digest, sealed)
    SELECT k.id, 0, i.digest, i.sealed FROM kept k JOIN input i USING (connection_id, key) WHERE k.fresh
)
SELECT id, connection_id, key, fresh, deliveries, content, digest FROM kept`

// KeepEvents keeps a batch of verified notifications, each event once. The batch
// must be sorted by connection and key; copies of one event may follow one another.
// The answers come in the order of the batch.
func (tx *Tx) KeepEvents(ctx context.Context, batch []NewEvent) ([]Kept, error) {
	var firsts []int // index of the first copy of each event
	copies := map[int]int64{}
	first := make([]int, len(batch))
	for i := range batch {
		if n := len(firsts); n > 0 && batch[firsts[n-1]].ConnectionID == batch[i].ConnectionID && batch[firsts[n-1]].Key == batch[i].Key {
			first[i] = n - 1
			copies[n-1]++
			continue
		}
		first[i] = len(firsts)
		copies[len(firsts)] = 1
		firsts = append(firsts, i)
	}
	rows, err := tx.SQL().QueryContext(ctx, keepEvents, columnsOf(batch, firsts, copies)...)
	if err != nil {
		return nil, wrap(err)
	}
	type stored struct {
		id, deliveries  int64
		fresh           bool
		content, digest []byte
	}
	type once struct {
		connection int64
		key        [16]byte
	}
	back := make(map[once]stored, len(firsts))
	for rows.Next() {
		var s stored
		var connection int64
		var key []byte
		if err := rows.Scan(&s.id, &connection, &key, &s.fresh, &s.deliveries, &s.content, &s.digest); err != nil {
			rows.Close()
			return nil, wrap(err)
		}
		back[once{connection, [16]byte(key)}] = s
	}
	if err := rows.Err(); err != nil {
		return nil, wrap(err)
	}
	if len(back) != len(firsts) {
		return nil, fmt.Errorf("store: kept %d of %d events", len(back), len(firsts))
	}
	out := make([]Kept, len(batch))
	seen := map[int]int64{}
	for i, e := range batch {
		b := back[once{e.ConnectionID, e.Key}]
		seen[first[i]]++
		n := b.deliveries - copies[first[i]] + seen[first[i]]
		out[i] = Kept{ID: b.id, Fresh: b.fresh && i == firsts[first[i]], Deliveries: n}
		if out[i].Fresh {
			continue
		}
		same := string(b.digest) == string(e.Digest[:])
		if err := tx.exec(ctx, `
INSERT INTO event_deliveries (event_id, slot, n, at, same, request_id) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (event_id, slot) DO UPDATE SET n = EXCLUDED.n, at = EXCLUDED.at, same = EXCLUDED.same, request_id = EXCLUDED.request_id`,
			b.id, n%20, n, e.Received, same, e.RequestID); err != nil {
			return nil, err
		}
		if string(b.content) != string(e.Content[:]) {
			out[i].Conflict = true
			if err := tx.keepConflict(ctx, b.id, e); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

const maxConflicts = 10

// keepConflict keeps a second payload of a known event, and opens a case for it.
func (tx *Tx) keepConflict(ctx context.Context, id int64, e NewEvent) error {
	n, err := tx.changed(ctx, `
INSERT INTO payloads (event_id, n, digest, sealed)
SELECT ?::bigint, ev.conflicts + 1, ?, ? FROM events ev
WHERE ev.id = ? AND ev.conflicts < ? AND NOT EXISTS (SELECT 1 FROM payloads p WHERE p.event_id = ev.id AND p.digest = ?)`,
		id, e.Digest[:], e.Sealed, id, maxConflicts, e.Digest[:])
	if err != nil || n == 0 {
		return err
	}
	if err := tx.exec(ctx, `UPDATE events SET conflicts = conflicts + 1 WHERE id = ?`, id); err != nil {
		return err
	}
	return tx.OpenCase(ctx, Case{ConnectionID: e.ConnectionID, Subject: fmt.Sprintf("event:%d", id),
		Problem: models.Problem{Kind: models.PayloadConflict, Detail: e.EventID}, Ref: e.Object.ID, ObjectConnection: e.ConnectionID})
}

func columnsOf(batch []NewEvent, firsts []int, copies map[int]int64) []any {
	n := len(firsts)
	var (
		conn, version, skewed, count       = make([]int64, n), make([]int64, n), make([]*int64, n), make([]int64, n)
		key, digest, content, sealed       = make([][]byte, n), make([][]byte, n), make([][]byte, n), make([][]byte, n)
		account, eventID, topic, kind, ref = make([]string, n), make([]string, n), make([]string, n), make([]string, n), make([]string, n)
		act, said, secret, request         = make([]string, n), make([]string, n), make([]string, n), make([]string, n)
		occurred, floor, received          = make([]*time.Time, n), make([]*time.Time, n), make([]time.Time, n)
		size                               = make([]int32, n)
		test, known                        = make([]bool, n), make([]bool, n)
	)
	for j, i := range firsts {
		e := batch[i]
		conn[j], key[j], account[j], eventID[j], topic[j] = e.ConnectionID, e.Key[:], e.Account, e.EventID, e.Topic
		kind[j], ref[j], act[j], said[j] = e.Object.Kind, e.Object.ID, e.Act, string(e.Said)
		occurred[j], floor[j], version[j] = nullTime(e.Occurred), nullTime(e.Floor), e.Version
		digest[j], content[j], size[j], secret[j], skewed[j] = e.Digest[:], e.Content[:], int32(e.Size), e.Secret, e.Skew
		request[j], test[j], known[j], received[j], sealed[j], count[j] = e.RequestID, e.Test, e.Known, e.Received, e.Sealed, copies[j]
	}
	return []any{conn, key, account, eventID, topic, kind, ref, act, occurred, floor, version, said, digest, content, size, secret,
		skewed, request, test, known, received, sealed, count}
}

// CountTopics adds to the counts of notifications that are about nothing we fetch.
func (tx *Tx) CountTopic(ctx context.Context, connection int64, topic string, known bool, n int64) error {
	return tx.exec(ctx, `
INSERT INTO topics (connection_id, topic, known, count, last_at) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (connection_id, topic) DO UPDATE SET count = topics.count + EXCLUDED.count, last_at = EXCLUDED.last_at, known = EXCLUDED.known`,
		connection, topic, known, n, tx.Now)
}

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
	Reread   bool // the object itself asks to be read again
	Fetched  time.Time
}

// ClaimDue takes up to limit objects of a connection whose events are due, with all
// their due events, for lease. Objects that another worker holds are passed over.
func (tx *Tx) ClaimDue(ctx context.Context, connection int64, limit int, lease time.Duration) ([]Claim, error) {
	if err := tx.exec(ctx, `
INSERT INTO platform_objects (connection_id, account, kind, ref)
SELECT DISTINCT connection_id, account, object_kind, object_ref FROM (
    SELECT connection_id, account, object_kind, object_ref FROM events
    WHERE connection_id = ? AND due_at <= now() ORDER BY due_at LIMIT ?) d
ORDER BY 1, 2, 3, 4
ON CONFLICT (connection_id, account, kind, ref) DO NOTHING`, connection, limit*4); err != nil {
		return nil, err
	}
	var held []struct {
		ID        int64
		Account   string
		Kind      string
		Ref       string
		ClaimedNo int64
		OrderID   *int64
		Reread    bool
		FetchedAt *time.Time
	}
	if err := tx.rows(ctx, &held, `
WITH due AS (
    SELECT p.id, p.reread_at <= now() AS reread FROM platform_objects p
    WHERE p.id IN (
        SELECT o.id FROM (
            SELECT DISTINCT account, object_kind, object_ref FROM (
                SELECT account, object_kind, object_ref FROM events WHERE connection_id = ? AND due_at <= now() ORDER BY due_at LIMIT ?) x) d
        JOIN platform_objects o ON o.connection_id = ? AND o.account = d.account AND o.kind = d.object_kind AND o.ref = d.object_ref
        UNION
        (SELECT o.id FROM platform_objects o WHERE o.connection_id = ? AND o.reread_at <= now() ORDER BY o.reread_at LIMIT ?))
    AND (p.claimed_until IS NULL OR p.claimed_until < now())
    ORDER BY p.id LIMIT ? FOR UPDATE OF p SKIP LOCKED
)
UPDATE platform_objects p SET claimed_until = now() + make_interval(secs => ?), claimed_no = nextval('reading_no'), reread_at = NULL
FROM due WHERE p.id = due.id
RETURNING p.id, p.account, p.kind, p.ref, p.claimed_no, p.order_id, COALESCE(due.reread, false) AS reread, p.fetched_at`,
		connection, limit*4, connection, connection, limit, limit, lease.Seconds()); err != nil {
		return nil, err
	}
	claims := make([]Claim, 0, len(held))
	ids := make([]int64, 0, len(held))
	at := map[models.ObjectRef]int{}
	for _, h := range held {
		c := Claim{ObjectID: h.ID, Ref: models.ObjectRef{Account: h.Account, Kind: h.Kind, ID: h.Ref}, No: h.ClaimedNo, Reread: h.Reread, Fetched: utc(h.FetchedAt)}
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

func (tx *Tx) dueEvents(ctx context.Context, connection int64, objects []int64) ([]DueEvent, error) {
	var events []DueEvent
	if err := tx.rows(ctx, &events, `
SELECT e.id, e.key, e.account, e.event_id, e.topic, e.object_kind, e.object_ref, e.occurred_at, e.floor_at, e.version, e.said::text AS said,
       e.digest, e.content, e.test, e.known, e.state, e.tries, e.rereads, e.received_at, e.order_id
FROM platform_objects p JOIN events e ON e.connection_id = p.connection_id AND e.account = p.account AND e.object_kind = p.kind AND e.object_ref = p.ref
WHERE p.id = ANY (?::bigint[]) AND p.connection_id = ? AND e.due_at <= now() ORDER BY e.key`, idList(objects), connection); err != nil {
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
	next := Claim{ObjectID: c.ObjectID, Ref: c.Ref, Events: events, Reread: now.Reread}
	if now.OrderID != nil {
		next.OrderID = *now.OrderID
	}
	err = tx.one(ctx, "error.object_unknown", &next.No, `
UPDATE platform_objects SET claimed_until = now() + make_interval(secs => ?), claimed_no = nextval('reading_no'), reread_at = NULL
WHERE id = ? RETURNING claimed_no`, lease.Seconds(), c.ObjectID)
	return next, err == nil, err
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

// A Mark is what became of an event.
type Mark struct {
	ID       int64
	Key      []byte
	State    models.EventState
	OrderID  int64
	CausedBy int64
	EntryID  int64
	Error    string        // catalogue key, or the platform's words; kept with the try
	After    time.Duration // next look, for open states
	Try      bool          // one of our own tries is used up
	Reread   bool
}

// MarkEvents writes what became of events, in the order of their keys.
func (tx *Tx) MarkEvents(ctx context.Context, marks []Mark) error {
	if len(marks) == 0 {
		return nil
	}
	type row struct {
		ID       int64   `json:"id"`
		State    string  `json:"state"`
		OrderID  *int64  `json:"order_id"`
		CausedBy *int64  `json:"caused_by"`
		EntryID  *int64  `json:"entry_id"`
		Error    string  `json:"error"`
		After    float64 `json:"after"`
		Open     bool    `json:"open"`
		Try      int     `json:"try"`
		Reread   int     `json:"reread"`
	}
	some := func(n int64) *int64 {
		if n == 0 {
			return nil
		}
		return &n
	}
	list := make([]row, len(marks))
	for i, m := range marks {
		list[i] = row{ID: m.ID, State: string(m.State), OrderID: some(m.OrderID), CausedBy: some(m.CausedBy), EntryID: some(m.EntryID),
			Error: m.Error, After: m.After.Seconds(), Open: m.State.Open()}
		if m.Try {
			list[i].Try = 1
		}
		if m.Reread {
			list[i].Reread = 1
		}
	}
	b, err := json.Marshal(list)
	if err != nil {
		return err
	}
	return tx.exec(ctx, `
WITH m AS (SELECT * FROM jsonb_to_recordset(?::jsonb) AS t (id bigint, state text, order_id bigint, caused_by bigint, entry_id bigint, error text, after float8, open boolean, try integer, reread integer)),
held AS (SELECT e.id FROM events e JOIN m USING (id) ORDER BY e.key FOR UPDATE OF e),
done AS (
    UPDATE events e SET state = m.state, order_id = COALESCE(m.order_id, e.order_id), caused_by = m.caused_by, entry_id = m.entry_id, error = m.error,
        tries = e.tries + m.try, rereads = e.rereads + m.reread, attempts = e.attempts + 1,
        due_at = CASE WHEN m.open THEN now() + make_interval(secs => m.after) END,
        done_at = CASE WHEN m.open THEN NULL ELSE ?::timestamptz END
    FROM m, held WHERE e.id = m.id AND held.id = m.id
    RETURNING e.id, e.attempts)
INSERT INTO event_tries (event_id, slot, n, at, outcome, error)
SELECT d.id, d.attempts % 20, d.attempts, ?, m.state, m.error FROM done d JOIN m USING (id)
ON CONFLICT (event_id, slot) DO UPDATE SET n = EXCLUDED.n, at = EXCLUDED.at, outcome = EXCLUDED.outcome, error = EXCLUDED.error`,
		string(b), tx.Now, tx.Now)
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
ORDER BY o.id LIMIT 1`, connection, e.ObjKind, e.ObjRef, e.Account, e.Topic, e.Content, e.ID)
	return id, err
}

// SettleReviews settles the events of an order that the rules had refused, once a
// reading fits the rules again.
func (tx *Tx) SettleReviews(ctx context.Context, order int64) error {
	return tx.exec(ctx, `
UPDATE events e SET state = 'superseded', error = 'note.settled', done_at = ? FROM (
    SELECT id FROM events WHERE order_id = ? AND state = 'review' AND error = 'note.refused' ORDER BY key FOR UPDATE) r
WHERE e.id = r.id`, tx.Now, order)
}

// RereadLater asks for an object to be read again after a while.
func (tx *Tx) RereadLater(ctx context.Context, object int64, after time.Duration) error {
	return tx.exec(ctx, `UPDATE platform_objects SET reread_at = now() + make_interval(secs => ?) WHERE id = ?`, after.Seconds(), object)
}
