package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"counterfoil/models"
	"counterfoil/models/connect"
	"counterfoil/models/ledger"
	"counterfoil/models/platform"
	"counterfoil/models/queue"
	"counterfoil/models/reconcile"
	"counterfoil/models/seal"
	"counterfoil/models/store"
	"counterfoil/models/store/storetest"
)

// A shelf is a platform whose list of orders a test holds in its hand.
type shelf struct {
	platform.Adapter // what no sweep asks

	mu      sync.Mutex
	goods   []models.Observation // in the order of their last change
	perPage int
	asked   []string // cursors of the list, as they were asked for
	before  func(cursor string) error
}

func (s *shelf) Platform() models.Platform    { return models.Shopify }
func (s *shelf) HasAPI() bool                 { return true }
func (s *shelf) Kinds() []string              { return []string{"order"} }
func (s *shelf) Together() int                { return 25 }
func (s *shelf) Settings() []models.Setting   { return nil }
func (s *shelf) Deep(models.ObjectRef) string { return "" }
func (s *shelf) Spell(typed string) []string  { return []string{typed} }
func (s *shelf) Reads() map[models.Axis]bool {
	return map[models.Axis]bool{models.Payment: true, models.Refund: true, models.Dispute: true, models.Fulfillment: true, models.Cancellation: true, models.Return: true}
}
func (s *shelf) Check(context.Context) ([]models.Note, error) { return nil, nil }

func (s *shelf) Fetch(_ context.Context, refs []models.ObjectRef) (map[models.ObjectRef]models.Observation, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[models.ObjectRef]models.Observation{}
	for _, o := range s.goods {
		if slices.Contains(refs, o.Ref) {
			out[o.Ref] = o
		}
	}
	return out, nil
}

func (s *shelf) Changed(_ context.Context, w platform.Window) (platform.Batch, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, w.Cursor)
	if s.before != nil {
		if err := s.before(w.Cursor); err != nil {
			return platform.Batch{}, err
		}
	}
	from, _ := strconv.Atoi(w.Cursor)
	var b platform.Batch
	for i := from; i < len(s.goods); i++ {
		o := s.goods[i]
		if !w.Since.IsZero() && o.Changed.Before(w.Since) || !o.Changed.Before(w.Until) {
			continue
		}
		if len(b.Observations) == s.perPage {
			b.Next = strconv.Itoa(i)
			break
		}
		b.Observations = append(b.Observations, o)
	}
	return b, nil
}

// paid is a paid order that nobody has shipped.
func paid(n int, changed time.Time) models.Observation {
	id := "gid://shopify/Order/" + strconv.Itoa(n)
	o := models.Observation{Ref: models.ObjectRef{Account: "hk.myshopify.com", Kind: "order", ID: id}, Basis: models.Official, Changed: changed, Placed: changed,
		Number: "#" + strconv.Itoa(n), Store: true, Amounts: &models.Amounts{Currency: "HKD", Total: 10000, Received: 10000}, Axes: map[models.Axis]models.Statement{}}
	for a, s := range map[models.Axis]models.State{models.Payment: models.PaymentPaid, models.Refund: models.RefundNone, models.Dispute: models.DisputeNone,
		models.Fulfillment: models.FulfillmentUnfulfilled, models.Cancellation: models.CancellationActive, models.Return: models.ReturnNone} {
		o.Axes[a] = models.Statement{State: s, Word: string(s)}
	}
	return o
}

// A yard is a connection to a shelf on a database of its own.
type yard struct {
	t      testing.TB
	shelf  *shelf
	store  *store.Store
	sweeps *reconcile.Sweeps
	add    time.Duration
}

func newYard(t testing.TB, perPage int) *yard {
	t.Helper()
	y := &yard{t: t, shelf: &shelf{perPage: perPage}}
	log := slog.New(slog.DiscardHandler)
	s, err := store.Open(t.Context(), storetest.New(t), store.Options{Now: func() time.Time { return time.Now().Add(y.add) }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	y.store = s
	keys, err := seal.Parse(seal.New())
	if err != nil {
		t.Fatal(err)
	}
	book := connect.New(s, keys, map[models.Platform]platform.Maker{models.Shopify: func(platform.Config) (platform.Adapter, error) { return y.shelf, nil }}, nil, s.Now)
	if err := book.Add(t.Context(), "console", connect.Setup{Platform: models.Shopify, Slug: "hk", Account: "hk.myshopify.com", Shop: "hk",
		Set: map[string]string{"sweep_every": "0s", "missed_after": "0s"}, Secrets: connect.Secrets{Webhook: []string{"s"}, APIToken: "t"}}); err != nil {
		t.Fatal(err)
	}
	q, err := queue.New(s, nil, nil, false, log)
	if err != nil {
		t.Fatal(err)
	}
	y.sweeps = &reconcile.Sweeps{Store: s, Book: book, Ledger: &ledger.Ledger{Book: book, Queue: q}, Queue: q, Log: log}
	return y
}

func (y *yard) scan(into any, query string, args ...any) {
	y.t.Helper()
	if err := y.store.SQL().QueryRow(query, args...).Scan(into); err != nil {
		y.t.Fatal(query, err)
	}
}

var boss = models.Actor{StaffID: 1, Role: models.Manager}

// compare compares everything; the first time it imports.
func (y *yard) compare() {
	y.t.Helper()
	ids, err := y.sweeps.Ask(y.t.Context(), boss, "hk")
	if err == nil {
		_, err = y.sweeps.Run(y.t.Context(), ids)
	}
	if err != nil {
		y.t.Fatal(err)
	}
}

// order asks for a run over the orders since a time.
func (y *yard) order(since, until time.Time) int64 {
	y.t.Helper()
	var ids []int64
	if err := y.store.Tx(y.t.Context(), func(tx *store.Tx) (err error) {
		ids, err = tx.AskSweep(y.t.Context(), 1, []string{"order"}, models.SweepGap, "console", since, until)
		return err
	}); err != nil {
		y.t.Fatal(err)
	}
	return ids[0]
}

func (y *yard) found() (n int) {
	y.t.Helper()
	y.scan(&n, `SELECT count(*) FROM exceptions WHERE kind = 'missed_notification' AND state = 'open'`)
	return n
}

var errKilled = errors.New("killed")

// A run that dies in the middle of page 3 of 10 goes on with page 3: pages 1 and 2 aren't
// asked for again, and nothing is counted twice.
func TestARunGoesOnWhereItWasKilled(t *testing.T) {
	t.Parallel()
	y := newYard(t, 10)
	y.compare()
	since := y.store.Now().Add(-time.Hour)
	for i := range 100 {
		y.shelf.goods = append(y.shelf.goods, paid(1000+i, since.Add(time.Duration(i)*time.Second)))
	}
	until := y.store.Now()
	id := y.order(since, until)
	y.shelf.asked = nil
	ctx, kill := context.WithCancel(t.Context())
	y.shelf.before = func(cursor string) error {
		if cursor != "20" {
			return nil
		}
		kill()
		return errKilled
	}
	if _, err := y.sweeps.Run(ctx, []int64{id}); err == nil {
		t.Fatal("it wasn't killed")
	}
	var pages int
	var cursor string
	y.scan(&pages, `SELECT pages FROM sweeps WHERE id = $1`, id)
	y.scan(&cursor, `SELECT cursor FROM sweeps WHERE id = $1`, id)
	if pages != 2 || cursor != "20" {
		t.Fatalf("%d pages, at %q", pages, cursor)
	}
	y.shelf.before = nil
	y.scan(&pages, `UPDATE sweeps SET claimed_until = NULL, due_at = now() WHERE id = $1 RETURNING pages`, id) // the dead one's lease has run out
	if _, err := y.sweeps.Run(t.Context(), []int64{id}); err != nil {
		t.Fatal(err)
	}
	want := []string{"", "10", "20", "20", "30", "40", "50", "60", "70", "80", "90"}
	if !slices.Equal(y.shelf.asked, want) {
		t.Errorf("asked %v, want %v", y.shelf.asked, want)
	}
	var run string
	y.scan(&run, `SELECT concat_ws(' ', state, pages, seen, missed) FROM sweeps WHERE id = $1`, id)
	if run != "done 10 100 100" || y.found() != 100 {
		t.Errorf("the run is %q, %d found", run, y.found())
	}
}

// What changes on the boundary of two runs, what shares a second across a page's end, and
// what moves to the end of the list while it is read: none is lost, none counts twice.
func TestBoundariesLoseNothing(t *testing.T) {
	t.Parallel()
	y := newYard(t, 2)
	y.compare()
	began := y.store.Now().Add(-time.Hour).Truncate(time.Second)
	edge := began.Add(10 * time.Minute)
	for i, at := range []time.Time{began, edge.Add(-time.Second), edge.Add(-time.Second), edge, edge, edge.Add(time.Second)} {
		y.shelf.goods = append(y.shelf.goods, paid(1+i, at))
	}
	moved := false
	y.shelf.before = func(cursor string) error {
		if cursor == "2" && !moved { // the first order changes while page 2 is asked for
			moved = true
			o := paid(1, edge.Add(-time.Millisecond))
			y.shelf.goods = append(y.shelf.goods, o)
		}
		return nil
	}
	for _, id := range []int64{y.order(began, edge)} {
		if _, err := y.sweeps.Run(t.Context(), []int64{id}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := y.sweeps.Run(t.Context(), []int64{y.order(edge.Add(-time.Minute), edge.Add(time.Hour))}); err != nil {
		t.Fatal(err)
	}
	if n := y.found(); n != 6 {
		t.Errorf("%d of 6 orders are found", n)
	}
	var twice int
	y.scan(&twice, `SELECT count(*) FROM (SELECT subject FROM exceptions GROUP BY subject HAVING count(*) > 1) x`)
	if twice != 0 {
		t.Errorf("%d are found twice", twice)
	}
}

// A hundred thousand objects need no more memory than a few, and the row tells how far
// the run has come.
func TestAHundredThousandObjects(t *testing.T) {
	if testing.Short() || raced {
		t.Skip("takes a while")
	}
	const all = 100_000
	y := newYard(t, 250)
	at := y.store.Now().Add(-time.Hour)
	// The platform's own list isn't kept here: each page is made as it is asked for.
	big := &endless{shelf: y.shelf, all: all, at: at}
	y.sweeps.Book = connect.New(y.store, keysOf(t), map[models.Platform]platform.Maker{models.Shopify: func(platform.Config) (platform.Adapter, error) { return big, nil }}, nil, y.store.Now)
	if err := y.sweeps.Book.Add(t.Context(), "console", connect.Setup{Platform: models.Shopify, Slug: "big", Account: "hk.myshopify.com", Shop: "big",
		Set: map[string]string{"sweep_every": "0s", "import_since": "1h"}, Secrets: connect.Secrets{Webhook: []string{"s"}, APIToken: "t"}}); err != nil {
		t.Fatal(err)
	}
	// The record of all of them, as an import would have made it.
	digest := func(n int) string { d := big.make(n).Digest(); return fmt.Sprintf("%x", d[:]) }
	if _, err := y.store.SQL().Exec(`
INSERT INTO orders (shop_id, connection_id, platform, account, platform_ref, announced)
SELECT c.shop_id, c.id, 'shopify', c.account, 'gid://shopify/Order/' || n, true FROM connections c, generate_series(0, $1) n WHERE c.slug = 'big'`, all-1); err != nil {
		t.Fatal(err)
	}
	for from := 0; from < all; from += 10_000 {
		list := ""
		for n := from; n < from+10_000; n++ {
			list += digest(n) + "\n"
		}
		if _, err := y.store.SQL().Exec(`
INSERT INTO platform_objects (connection_id, account, kind, ref, order_id, official, digest, fetched_at)
SELECT c.id, c.account, 'order', 'gid://shopify/Order/' || ($1 + d.n - 1), o.id, '{}', decode(d.hex, 'hex'), now()
FROM connections c, regexp_split_to_table(rtrim($2, E'\n'), E'\n') WITH ORDINALITY d (hex, n), orders o
WHERE c.slug = 'big' AND o.connection_id = c.id AND o.platform_ref = 'gid://shopify/Order/' || ($1 + d.n - 1)`, from, list); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := y.store.SQL().Exec(`UPDATE orders SET verification = 'verified'; ANALYZE`); err != nil {
		t.Fatal(err)
	}
	var ids []int64
	if err := y.store.Tx(t.Context(), func(tx *store.Tx) (err error) {
		ids, err = tx.AskSweep(t.Context(), 2, []string{"order"}, models.SweepGap, "console", time.Time{}, y.store.Now())
		return err
	}); err != nil {
		t.Fatal(err)
	}
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	began, early := time.Now(), uint64(0)
	for n := 0; ; n++ {
		more, err := y.sweeps.Page(t.Context(), ids[0])
		if err != nil {
			t.Fatal(err)
		}
		if n == 20 {
			early = heap()
			var seen int64
			if y.scan(&seen, `SELECT seen FROM sweeps WHERE id = $1`, ids[0]); seen != 21*250 {
				t.Errorf("the row tells of %d objects", seen)
			}
		}
		if !more {
			break
		}
	}
	took, late := time.Since(began), heap()
	var run string
	y.scan(&run, `SELECT concat_ws(' ', state, seen, missed, different, failed) FROM sweeps WHERE id = $1`, ids[0])
	if run != "done 100000 0 0 0" {
		t.Errorf("the run is %q", run)
	}
	if late > early+8<<20 {
		t.Errorf("the heap grew from %d to %d KiB", early>>10, late>>10)
	}
	t.Logf("%d objects in %.1f s, %.0f a second; heap %d KiB after 5,000, %d KiB at the end", all, took.Seconds(), all/took.Seconds(), early>>10, late>>10)
}

// An endless shelf makes its goods as they are asked for.
type endless struct {
	*shelf
	all int
	at  time.Time
}

func (e *endless) make(n int) models.Observation { return paid(n, e.at) }

func (e *endless) Changed(_ context.Context, w platform.Window) (platform.Batch, error) {
	from, _ := strconv.Atoi(w.Cursor)
	var b platform.Batch
	for n := from; n < min(e.all, from+250); n++ {
		b.Observations = append(b.Observations, e.make(n))
	}
	if from+250 < e.all {
		b.Next = strconv.Itoa(from + 250)
	}
	return b, nil
}

func keysOf(t testing.TB) seal.Keys {
	k, err := seal.Parse(seal.New())
	if err != nil {
		t.Fatal(err)
	}
	return k
}
