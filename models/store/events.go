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
		Problem: models.Problem{Kind: models.PayloadConflict, Detail: e.EventID}, Object: e.Object})
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

// MarkEvents writes what became of events, in the order of their keys, and says which
// it found open. What another worker has settled meanwhile stays as it is. The events
// are named by an array and nothing else: of a list Postgres expects so many rows that
// it would rather read the whole table, and their state would have it read all that
// are or were in one. The array is made in the statement, so that one plan serves all.
func (tx *Tx) MarkEvents(ctx context.Context, marks []Mark) (map[int64]bool, error) {
	if len(marks) == 0 {
		return nil, nil
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
		return nil, err
	}
	var ids []int64
	err = tx.rows(ctx, &ids, `
WITH m AS (SELECT * FROM jsonb_to_recordset(?::jsonb) AS t (id bigint, state text, order_id bigint, caused_by bigint, entry_id bigint, error text, after float8, open boolean, try integer, reread integer)),
held AS (SELECT e.id, e.state FROM events e WHERE e.id = ANY (ARRAY(SELECT id FROM m)) ORDER BY e.connection_id, e.key FOR UPDATE),
done AS (
    UPDATE events e SET state = m.state, order_id = COALESCE(m.order_id, e.order_id), caused_by = m.caused_by, entry_id = m.entry_id, error = m.error,
        tries = e.tries + m.try, rereads = e.rereads + m.reread, attempts = e.attempts + 1,
        due_at = CASE WHEN m.open THEN now() + make_interval(secs => m.after) END,
        done_at = CASE WHEN m.open THEN NULL ELSE ?::timestamptz END
    FROM m, held WHERE e.id = ANY (ARRAY(SELECT id FROM m)) AND e.id = m.id AND held.id = m.id AND held.state IN ('received', 'waiting', 'unmatched')
    RETURNING e.id, e.attempts)
INSERT INTO event_tries (event_id, slot, n, at, outcome, error)
SELECT d.id, d.attempts % 20, d.attempts, ?, m.state, m.error FROM done d JOIN m USING (id)
ON CONFLICT (event_id, slot) DO UPDATE SET n = EXCLUDED.n, at = EXCLUDED.at, outcome = EXCLUDED.outcome, error = EXCLUDED.error
RETURNING event_id`,
		string(b), tx.Now, tx.Now)
	marked := make(map[int64]bool, len(ids))
	for _, id := range ids {
		marked[id] = true
	}
	return marked, err
}

// SettleReviews settles the events of an order that the rules had refused, once a
// reading fits the rules again.
func (tx *Tx) SettleReviews(ctx context.Context, order int64) error {
	return tx.exec(ctx, `
UPDATE events e SET state = 'superseded', error = 'note.settled', done_at = ? FROM (
    SELECT id FROM events WHERE order_id = ? AND state = 'review' AND error = 'note.refused' ORDER BY connection_id, key FOR UPDATE) r
WHERE e.id = r.id`, tx.Now, order)
}
