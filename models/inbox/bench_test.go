package inbox

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"counterfoil/models"
	"counterfoil/models/connect"
	"counterfoil/models/ledger"
	"counterfoil/models/platform"
	"counterfoil/models/platform/shopify"
	"counterfoil/models/platform/stripe"
	"counterfoil/models/queue"
	"counterfoil/models/seal"
	"counterfoil/models/store"
	"counterfoil/models/store/storetest"
)

// A bench is an inbox on a database of its own, whose platforms say what a test says.
type bench struct {
	*Inbox
	t   testing.TB
	ctx context.Context

	mu      sync.Mutex
	now     time.Time
	no      int // of the last event
	reading *atomic.Int64
	dsn     string
	key     string
}

func (b *bench) clock() time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.now
}

func (b *bench) forward(by time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.now = b.now.Add(by)
}

// newBench connects the Shopify shop hk and the Stripe account pay to one shop.
func newBench(t testing.TB, set map[string]string) *bench {
	t.Helper()
	b := &bench{t: t, ctx: t.Context(), now: time.Date(2026, 11, 30, 6, 0, 0, 0, time.UTC), dsn: storetest.New(t), key: seal.New(), reading: &atomic.Int64{}}
	b.open()
	for _, in := range []connect.Setup{
		{Platform: models.Shopify, Slug: "hk", Account: "hk.myshopify.com", Shop: "hk", Secrets: connect.Secrets{ClientID: "app", ClientSecret: "secret"}},
		{Platform: models.Stripe, Slug: "pay", Account: "acct_1", Shop: "hk", Set: set, Secrets: connect.Secrets{Webhook: []string{"whsec_1"}, APIToken: "sk_live_1"}},
	} {
		if err := b.book.Add(b.ctx, "console", in); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

// beside is what a second process has on the same database.
func (b *bench) beside() *bench {
	b.t.Helper()
	other := &bench{t: b.t, ctx: b.ctx, now: b.clock(), dsn: b.dsn, key: b.key, reading: b.reading}
	other.open()
	if err := other.book.Look(b.ctx); err != nil {
		b.t.Fatal(err)
	}
	return other
}

func (b *bench) open() {
	t := b.t
	t.Helper()
	s, err := store.Open(b.ctx, b.dsn, store.Options{Now: b.clock, AuditKey: []byte("audit")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	keys, err := seal.Parse(b.key)
	if err != nil {
		t.Fatal(err)
	}
	book := connect.New(s, keys, map[models.Platform]platform.Maker{
		models.Shopify: func(c platform.Config) (platform.Adapter, error) { return shopify.New(c) },
		models.Stripe:  func(c platform.Config) (platform.Adapter, error) { return stripe.New(c) },
	}, nil, b.clock)
	log := slog.New(slog.DiscardHandler)
	q, err := queue.New(s, nil, nil, false, log)
	if err != nil {
		t.Fatal(err)
	}
	b.Inbox = New(s, book, &ledger.Ledger{Book: book, Queue: q}, q, keys, log)
}

func (b *bench) conn(slug string) *connect.Conn {
	b.t.Helper()
	c, err := b.book.Slug(b.ctx, slug)
	if err != nil || c.Broken != nil {
		b.t.Fatal(err, c.Broken)
	}
	return c
}

// event keeps a notification about an object, at which nobody looks but the test.
func (b *bench) event(slug, topic string, ref models.ObjectRef) store.DueEvent {
	b.t.Helper()
	return b.events(slug, topic, []models.ObjectRef{ref})[0]
}

func (b *bench) events(slug, topic string, refs []models.ObjectRef) []store.DueEvent {
	b.t.Helper()
	c := b.conn(slug)
	batch := make([]store.NewEvent, len(refs))
	for i, ref := range refs {
		b.no++
		id := fmt.Sprint("evt_", b.no)
		sum := sha256.Sum256([]byte(slug + id))
		batch[i] = store.NewEvent{ConnectionID: c.ID, Key: [16]byte(sum[:]), Account: c.Account, EventID: id, Topic: topic, Object: ref, Digest: sum, Content: sum, Known: true, Received: b.clock(), Sealed: []byte("x")}
	}
	slices.SortFunc(batch, func(x, y store.NewEvent) int { return bytes.Compare(x.Key[:], y.Key[:]) })
	var out []store.DueEvent
	err := b.store.Tx(b.ctx, func(tx *store.Tx) error {
		kept, err := tx.KeepEvents(b.ctx, batch)
		if err != nil {
			return err
		}
		out = nil
		marks := make([]store.Mark, len(kept))
		for i, e := range batch {
			marks[i] = store.Mark{ID: kept[i].ID, State: models.EventReceived, After: time.Hour}
			out = append(out, store.DueEvent{ID: kept[i].ID, Key: e.Key[:], Account: e.Account, EventID: e.EventID, Topic: topic, Object: e.Object,
				ObjKind: e.Object.Kind, ObjRef: e.Object.ID, Digest: e.Digest[:], Content: e.Content[:], Known: true, State: models.EventReceived, Received: e.Received})
			if err := tx.EnsureObject(b.ctx, c.ID, e.Object); err != nil {
				return err
			}
		}
		_, err = tx.MarkEvents(b.ctx, marks)
		return err
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return out
}

// see applies a reading that serves events, as a worker does.
func (b *bench) see(slug string, o models.Observation, events ...store.DueEvent) {
	b.t.Helper()
	if err := b.trySee(slug, o, events...); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) trySee(slug string, o models.Observation, events ...store.DueEvent) error {
	c := b.book.ID(b.id(slug))
	o.Basis, o.Read = models.Official, b.clock()
	return b.Inbox.apply(b.ctx, c, store.Claim{Ref: o.Ref, Events: events, No: b.reading.Add(1)}, &o)
}

func (b *bench) id(slug string) int64 {
	c, _ := b.book.Slug(b.ctx, slug)
	return c.ID
}

// scan reads one row.
func scan[T any](b *bench, query string, args ...any) T {
	b.t.Helper()
	var v T
	if err := b.store.SQL().QueryRowContext(b.ctx, query, args...).Scan(&v); err != nil {
		b.t.Fatalf("%v: %s", err, query)
	}
	return v
}

func (b *bench) exec(query string, args ...any) {
	b.t.Helper()
	if _, err := b.store.SQL().ExecContext(b.ctx, query, args...); err != nil {
		b.t.Fatal(err)
	}
}

// order reads the order that a reference names, following a shell.
func (b *bench) order(ref string) models.OrderFile {
	b.t.Helper()
	f, err := b.store.OrderFile(b.ctx, scan[int64](b, `SELECT order_id FROM order_refs WHERE ref = $1 ORDER BY order_id LIMIT 1`, ref))
	if err != nil {
		b.t.Fatal(err)
	}
	return f
}

func (b *bench) states(o models.OrderFile) string {
	return fmt.Sprint(o.State(models.Payment), " ", o.State(models.Refund), " ", models.Decimal(o.Received, o.Currency), " ", models.Decimal(o.Refunded, o.Currency))
}

func (b *bench) deadlocks() int64 {
	return scan[int64](b, `SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()`)
}

func shopRef(n int) models.ObjectRef {
	return models.ObjectRef{Account: "hk.myshopify.com", Kind: "order", ID: fmt.Sprint("gid://shopify/Order/", n)}
}

func payRef(id string) models.ObjectRef {
	return models.ObjectRef{Account: "acct_1", Kind: "payment_intent", ID: id}
}

func hkd(total, received, refunded int64) models.Amounts {
	return models.Amounts{Currency: "HKD", Total: total, Received: received, Refunded: refunded}
}

// shopSays is the shop's order n.
func shopSays(n int, pay models.State, a models.Amounts) models.Observation {
	return models.Observation{Ref: shopRef(n), Number: fmt.Sprint("#", n), Refs: []string{fmt.Sprint(n)}, Store: true, Amounts: &a, Axes: map[models.Axis]models.Statement{
		models.Payment: {State: pay, Word: "SHOP_" + string(pay)}, models.Refund: {State: models.RefundState(a.Received, a.Refunded, false)},
		models.Fulfillment: {State: models.FulfillmentUnfulfilled, Word: "UNFULFILLED"}, models.Cancellation: {State: models.CancellationActive}, models.Return: {State: models.ReturnNone}}}
}

// intentSays is a payment that names its order.
func intentSays(id string, pay models.State, a models.Amounts, links ...models.Link) models.Observation {
	return models.Observation{Ref: payRef(id), Links: links, Amounts: &a, Axes: map[models.Axis]models.Statement{
		models.Payment: {State: pay, Word: "pi_" + string(pay)}, models.Refund: {State: models.RefundState(a.Received, a.Refunded, false), Word: "succeeded"},
		models.Dispute: {State: models.DisputeNone}}}
}

func byMetadata(v string) models.Link { return models.Link{How: models.LinkMetadata, Value: v} }
func typed(v string) models.Link      { return models.Link{How: models.LinkReference, Value: v} }

var outage = &platform.Outage{Detail: "status 503"}
