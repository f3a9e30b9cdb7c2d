package store_test

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"counterfoil/models"
	"counterfoil/models/store"
)

// delivery is one arrival of event n with a content.
func delivery(connection int64, n int, content string) store.NewEvent {
	e := store.NewEvent{ConnectionID: connection, Account: "hk", EventID: fmt.Sprint("evt_", n), Topic: "orders/paid",
		Object: models.ObjectRef{Account: "hk", Kind: "order", ID: fmt.Sprint(n)}, Digest: sha256.Sum256([]byte("body " + content)), Content: sha256.Sum256([]byte(content)),
		Size: len(content), RequestID: "req", Known: true, Received: time.Now().UTC(), Sealed: []byte("sealed " + content)}
	sum := sha256.Sum256(fmt.Append(nil, n))
	copy(e.Key[:], sum[:])
	return e
}

func inKeyOrder(batch []store.NewEvent) []store.NewEvent {
	slices.SortStableFunc(batch, func(a, b store.NewEvent) int {
		return cmp.Or(cmp.Compare(a.ConnectionID, b.ConnectionID), slices.Compare(a.Key[:], b.Key[:]))
	})
	return batch
}

// keep keeps a batch in a transaction of its own.
func (b *bench) keep(ctx context.Context, batch ...store.NewEvent) ([]store.Kept, error) {
	var kept []store.Kept
	err := b.Tx(ctx, func(tx *store.Tx) (err error) {
		kept, err = tx.KeepEvents(ctx, batch)
		return err
	})
	return kept, err
}

func (b *bench) mustKeep(batch ...store.NewEvent) []store.Kept {
	b.t.Helper()
	kept, err := b.keep(b.t.Context(), batch...)
	if err != nil {
		b.t.Fatal(err)
	}
	return kept
}

func TestKeepEventsOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	batch := inKeyOrder([]store.NewEvent{delivery(b.conn, 1, "a"), delivery(b.conn, 2, "b"), delivery(b.conn, 1, "a"), delivery(b.conn, 3, "c"), delivery(b.conn, 1, "a")})
	kept := b.mustKeep(batch...)
	seen, fresh := map[string]int64{}, 0
	for i, k := range kept {
		id := batch[i].EventID
		seen[id]++
		if k.Fresh != (seen[id] == 1) || k.Deliveries != seen[id] || k.Conflict {
			t.Errorf("copy %d of %s: %+v", seen[id], id, k)
		}
		if k.Fresh {
			fresh++
		}
		if got := one[string](b, `SELECT event_id FROM events WHERE id = $1`, k.ID); got != id {
			t.Errorf("the answer for %s names %s", id, got)
		}
	}
	if fresh != 3 || seen["evt_1"] != 3 {
		t.Errorf("%d fresh, %v", fresh, seen)
	}
	again := b.mustKeep(delivery(b.conn, 1, "a"))
	if again[0].Fresh || again[0].Deliveries != 4 || again[0].Conflict {
		t.Errorf("a fourth copy: %+v", again[0])
	}
	if got := one[string](b, `SELECT string_agg(event_id || ' ' || deliveries || ' ' || state || ' ' || (due_at <= now()), ', ' ORDER BY event_id) FROM events`); got != "evt_1 4 received true, evt_2 1 received true, evt_3 1 received true" {
		t.Errorf("events: %s", got)
	}
	if got := one[string](b, `SELECT string_agg(convert_from(sealed, 'UTF8'), ', ' ORDER BY sealed) FROM payloads`); got != "sealed a, sealed b, sealed c" {
		t.Errorf("payloads: %s", got)
	}
	if got := one[string](b, `SELECT string_agg(n || ' ' || same, ', ' ORDER BY n) FROM event_deliveries`); got != "2 true, 3 true, 4 true" {
		t.Errorf("deliveries: %s", got)
	}
	// The same key of another connection is another event.
	if other := b.mustKeep(delivery(b.connection("tw"), 1, "a")); !other[0].Fresh {
		t.Errorf("another connection's: %+v", other[0])
	}
}

func TestKeepEventsKeepsNothingTwiceOver(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for range 45 {
		b.mustKeep(delivery(b.conn, 1, "a"))
	}
	if got := one[string](b, `SELECT count(*) || ' ' || min(n) || ' ' || max(n) FROM event_deliveries`); got != "20 26 45" {
		t.Errorf("deliveries kept, first, last: %s", got)
	}
	if kept := b.mustKeep(); len(kept) != 0 {
		t.Errorf("an empty batch kept %d", len(kept))
	}
}

func TestConflictKeepsASecondPayload(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	// In one batch, in the next, and the same again.
	kept := b.mustKeep(delivery(b.conn, 1, "a"), delivery(b.conn, 1, "b"))
	if kept[0].Conflict || !kept[1].Conflict || kept[1].Fresh {
		t.Errorf("in one batch: %+v", kept)
	}
	for _, content := range []string{"c", "c", "b"} {
		if kept := b.mustKeep(delivery(b.conn, 1, content)); !kept[0].Conflict {
			t.Errorf("content %s: %+v", content, kept[0])
		}
	}
	if got := one[string](b, `SELECT string_agg(n || ' ' || convert_from(sealed, 'UTF8'), ', ' ORDER BY n) FROM payloads`); got != "0 sealed a, 1 sealed b, 2 sealed c" {
		t.Errorf("payloads: %s", got)
	}
	if got := one[string](b, `SELECT string_agg(kind || ' ' || subject || ' ' || count || ' ' || state || ' ' || detail, ', ') FROM exceptions`); got != fmt.Sprintf("payload_conflict event:%d 2 open evt_1", kept[0].ID) {
		t.Errorf("exceptions: %s", got)
	}
	for i := range 20 {
		b.mustKeep(delivery(b.conn, 1, fmt.Sprint("flood ", i)))
	}
	if got := one[string](b, `SELECT conflicts || ' ' || deliveries FROM events`); got != "10 25" {
		t.Errorf("conflicts and deliveries: %s", got)
	}
	if n := one[int64](b, `SELECT count(*) FROM payloads`); n != 11 {
		t.Errorf("%d payloads", n)
	}
	// Other bytes with the same content (a count of pending deliveries, say) are no conflict.
	same := delivery(b.conn, 2, "x")
	b.mustKeep(same)
	same.Digest = sha256.Sum256([]byte("other bytes"))
	if kept := b.mustKeep(same); kept[0].Conflict {
		t.Errorf("what may differ between deliveries is a conflict: %+v", kept[0])
	}
}

// A batch is in the order of its keys, copies beside each other; another one is
// refused whole rather than half kept.
func TestKeepEventsWantsKeyOrder(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	sorted := inKeyOrder([]store.NewEvent{delivery(b.conn, 1, "a"), delivery(b.conn, 2, "b"), delivery(b.conn, 3, "c")})
	if _, err := b.keep(t.Context(), sorted[0], sorted[1], sorted[0]); err == nil {
		t.Error("copies apart from each other were kept")
	}
	if n := one[int64](b, `SELECT count(*) FROM events`) + one[int64](b, `SELECT count(*) FROM payloads`); n != 0 {
		t.Errorf("%d rows of a refused batch stayed", n)
	}
}

func TestKeepEventsAtOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const writers, batches, keys = 8, 50, 40
	ctx := within(t, 2*time.Minute)
	var (
		wg    sync.WaitGroup
		mu    sync.Mutex
		sent  = map[string]int64{}
		fresh = map[string]int64{}
	)
	for w := range writers {
		wg.Go(func() {
			random := rand.New(rand.NewPCG(uint64(w), 1))
			for range batches {
				var batch []store.NewEvent
				for range 1 + random.IntN(16) {
					n := random.IntN(keys)
					batch = append(batch, delivery(b.conn, n, fmt.Sprint("content of ", n)))
				}
				kept, err := b.keep(ctx, inKeyOrder(batch)...)
				if err != nil {
					t.Errorf("writer %d: %v", w, err)
					return
				}
				mu.Lock()
				for i, k := range kept {
					sent[batch[i].EventID]++
					if k.Fresh {
						fresh[batch[i].EventID]++
					}
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	rows, err := b.SQL().QueryContext(ctx, `SELECT event_id, deliveries, (SELECT count(*) FROM payloads p WHERE p.event_id = e.id) FROM events e`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	n := 0
	for rows.Next() {
		var id string
		var deliveries, payloads int64
		if err := rows.Scan(&id, &deliveries, &payloads); err != nil {
			t.Fatal(err)
		}
		n++
		if deliveries != sent[id] || fresh[id] != 1 || payloads != 1 {
			t.Errorf("%s: %d deliveries of %d, %d times fresh, %d payloads", id, deliveries, sent[id], fresh[id], payloads)
		}
	}
	if n != len(sent) {
		t.Errorf("%d events of %d", n, len(sent))
	}
	if n := b.deadlocks(); n != 0 {
		t.Errorf("%d deadlocks", n)
	}
}

// An event that finds no order and an order that finds no event, at the same moment:
// one always sees the other.
func TestUnmatchedAndNewOrderMeet(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const pairs = 500
	ctx := within(t, 3*time.Minute)
	var batch []store.NewEvent
	for n := range pairs {
		batch = append(batch, delivery(b.conn, n, "a"))
	}
	inKeyOrder(batch)
	kept := b.mustKeep(batch...)
	far := []store.Mark{}
	for _, k := range kept {
		far = append(far, store.Mark{ID: k.ID, State: models.EventWaiting, After: time.Hour})
	}
	if err := b.Tx(ctx, func(tx *store.Tx) error { _, err := tx.MarkEvents(ctx, far); return err }); err != nil {
		t.Fatal(err)
	}
	pair := func(event int64, ref string) {
		var both sync.WaitGroup
		start := make(chan struct{})
		refs := []string{ref, "gid:" + ref}
		both.Go(func() { // the event: looks for the order, else waits for it
			<-start
			err := b.Tx(ctx, func(tx *store.Tx) error {
				if err := tx.LockRefs(ctx, b.shop, refs); err != nil {
					return err
				}
				found, err := tx.OrdersNamed(ctx, b.shop, ref)
				if err != nil {
					return err
				}
				if len(found) > 0 {
					_, err := tx.MarkEvents(ctx, []store.Mark{{ID: event, State: models.EventWaiting}})
					return err
				}
				if _, err := tx.MarkEvents(ctx, []store.Mark{{ID: event, State: models.EventUnmatched, After: time.Hour}}); err != nil {
					return err
				}
				return tx.Want(ctx, b.shop, []string{ref}, []int64{event})
			})
			if err != nil {
				t.Error(err)
			}
		})
		both.Go(func() { // the order: is made, and wakes what waits
			<-start
			err := b.Tx(ctx, func(tx *store.Tx) error {
				if err := tx.LockRefs(ctx, b.shop, []string{refs[1], refs[0]}); err != nil {
					return err
				}
				id, err := tx.AnnounceOrder(ctx, models.Order{ShopID: b.shop, ConnectionID: b.conn, Platform: models.Shopify, Account: "hk", Ref: refs[1], Number: ref})
				if err != nil {
					return err
				}
				_, err = tx.AddRefs(ctx, b.shop, id, refs)
				return err
			})
			if err != nil {
				t.Error(err)
			}
		})
		close(start)
		both.Wait()
	}
	work := make(chan int)
	var wg sync.WaitGroup
	for range 5 {
		wg.Go(func() {
			for n := range work {
				pair(kept[n].ID, fmt.Sprint("#", n))
			}
		})
	}
	for n := range pairs {
		work <- n
	}
	close(work)
	wg.Wait()
	if n := one[int64](b, `SELECT count(*) FROM events WHERE due_at > now()`); n != 0 {
		t.Errorf("%d of %d events wait although their order is there", n, pairs)
	}
	if n := b.deadlocks(); n != 0 {
		t.Errorf("%d deadlocks", n)
	}
}
