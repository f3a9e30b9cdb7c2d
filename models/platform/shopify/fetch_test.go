package shopify

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"counterfoil/models"
	"counterfoil/models/platform"
	"counterfoil/models/platform/sandbox"
)

type act = func(id int64) ([]sandbox.Notification, error)

func TestAnOrderIsReadAsItStands(t *testing.T) {
	t.Parallel()
	type shop = *sandbox.Shopify
	refund := func(amount string, how sandbox.ShopifyRefund) func(shop) act {
		return func(s shop) act {
			return func(id int64) ([]sandbox.Notification, error) { return s.Refund(id, amount, how) }
		}
	}
	settle := func(how sandbox.ShopifyRefund) func(shop) act {
		return func(s shop) act {
			return func(id int64) ([]sandbox.Notification, error) { return s.SettleRefund(id, how) }
		}
	}
	pay := func(s shop) act { return s.Pay }
	partly := func(s shop) act {
		return func(id int64) ([]sandbox.Notification, error) { return s.PayPartly(id, "300") }
	}
	ship := func(n int) func(shop) act {
		return func(s shop) act {
			return func(id int64) ([]sandbox.Notification, error) { return s.Fulfill(id, n, "TRACK1") }
		}
	}
	cancel := func(s shop) act {
		return func(id int64) ([]sandbox.Notification, error) { return s.Cancel(id, "CUSTOMER") }
	}
	wish := func(s shop) act {
		return func(id int64) ([]sandbox.Notification, error) { return s.RequestReturn(id, 1) }
	}
	shut := func(s shop) act {
		return func(id int64) ([]sandbox.Notification, error) { return s.CloseReturn(id, 1) }
	}
	word := func(field, word string) func(shop) act {
		return func(s shop) act {
			return func(id int64) ([]sandbox.Notification, error) { return s.SetWord(id, field, word) }
		}
	}
	end := func(word string) func(shop) act {
		return func(s shop) act {
			return func(id int64) ([]sandbox.Notification, error) { return s.ResolveDispute(id, word) }
		}
	}
	edit := func(s shop) act {
		return func(id int64) ([]sandbox.Notification, error) { return s.Edit(id, "100", 1) }
	}
	tests := []struct {
		name   string
		acts   []func(shop) act
		axes   string // payment refund dispute fulfillment cancellation return
		money  string // total received refunded
		faults string
	}{
		{"placed", nil, "pending none none unfulfilled active none", "128000 0 0", ""},
		{"authorized", []func(shop) act{func(s shop) act { return s.Authorize }}, "authorized none none unfulfilled active none", "128000 0 0", ""},
		{"captured", []func(shop) act{func(s shop) act { return s.Authorize }, pay}, "paid none none unfulfilled active none", "128000 128000 0", ""},
		{"voided", []func(shop) act{func(s shop) act { return s.Authorize }, func(s shop) act { return s.Void }}, "voided none none unfulfilled active none", "128000 0 0", ""},
		{"declined", []func(shop) act{func(s shop) act { return s.Decline }}, "pending none none unfulfilled active none", "128000 0 0", ""},
		{"partly paid", []func(shop) act{partly}, "partially_paid none none unfulfilled active none", "128000 30000 0", ""},
		{"paid", []func(shop) act{pay}, "paid none none unfulfilled active none", "128000 128000 0", ""},
		{"edited after paying", []func(shop) act{pay, edit}, "partially_paid none none unfulfilled active none", "138000 128000 0", ""},
		{"partly refunded", []func(shop) act{pay, refund("80", sandbox.RefundSucceeds)}, "paid partial none unfulfilled active none", "128000 128000 8000", ""},
		{"refunded", []func(shop) act{pay, refund("1280", sandbox.RefundSucceeds)}, "paid full none unfulfilled active none", "128000 128000 128000", ""},
		{"partly paid and refunded", []func(shop) act{partly, refund("100", sandbox.RefundSucceeds)}, "partially_paid partial none unfulfilled active none", "128000 30000 10000", ""},
		{"refund under way", []func(shop) act{pay, refund("80", sandbox.RefundPends)}, "paid pending none unfulfilled active none", "128000 128000 0", ""},
		{"refund arrived", []func(shop) act{pay, refund("80", sandbox.RefundPends), settle(sandbox.RefundSucceeds)}, "paid partial none unfulfilled active none", "128000 128000 8000", ""},
		{"refund failed later", []func(shop) act{pay, refund("80", sandbox.RefundPends), settle(sandbox.RefundFails)}, "paid none none unfulfilled active none", "128000 128000 0", ""},
		{"refund failed", []func(shop) act{pay, refund("80", sandbox.RefundFails)}, "paid none none unfulfilled active none", "128000 128000 0", ""},
		{"refund without money", []func(shop) act{pay, func(s shop) act { return s.RecordRefund }}, "paid none none unfulfilled active none", "128000 128000 0", ""},
		{"disputed", []func(shop) act{pay, func(s shop) act { return s.OpenDispute }}, "paid none open unfulfilled active none", "128000 128000 0", ""},
		{"dispute won", []func(shop) act{pay, func(s shop) act { return s.OpenDispute }, end("WON")}, "paid none won unfulfilled active none", "128000 128000 0", ""},
		{"dispute accepted", []func(shop) act{pay, func(s shop) act { return s.OpenDispute }, end("ACCEPTED")}, "paid none lost unfulfilled active none", "128000 128000 0", ""},
		{"dispute prevented", []func(shop) act{pay, func(s shop) act { return s.OpenDispute }, end("PREVENTED")}, "paid none none unfulfilled active none", "128000 128000 0", ""},
		{"dispute of another kind", []func(shop) act{pay, func(s shop) act { return s.OpenDispute }, end("ESCALATED")}, "paid none ? unfulfilled active none", "128000 128000 0", "unknown_status disputes.status=ESCALATED"},
		{"partly shipped", []func(shop) act{pay, ship(1)}, "paid none none partial active none", "128000 128000 0", ""},
		{"shipped", []func(shop) act{pay, ship(0)}, "paid none none fulfilled active none", "128000 128000 0", ""},
		{"shipment called back", []func(shop) act{pay, ship(0), func(s shop) act { return s.CancelFulfillment }}, "paid none none unfulfilled active none", "128000 128000 0", ""},
		{"at the warehouse", []func(shop) act{pay, func(s shop) act { return s.RequestFulfillment }}, "paid none none in_progress active none", "128000 128000 0", ""},
		{"held", []func(shop) act{pay, func(s shop) act { return s.Hold }}, "paid none none held active none", "128000 128000 0", ""},
		{"released", []func(shop) act{pay, func(s shop) act { return s.Hold }, func(s shop) act { return s.Release }}, "paid none none unfulfilled active none", "128000 128000 0", ""},
		{"warehouse asked to stop", []func(shop) act{pay, func(s shop) act { return s.RequestFulfillment }, func(s shop) act { return s.RequestCancellation }}, "paid none none in_progress requested none", "128000 128000 0", ""},
		{"warehouse doesn't stop", []func(shop) act{pay, func(s shop) act { return s.RequestFulfillment }, func(s shop) act { return s.RequestCancellation }, func(s shop) act { return s.RejectCancellation }}, "paid none none in_progress active none", "128000 128000 0", ""},
		{"cancelled unpaid", []func(shop) act{cancel}, "voided none none unfulfilled cancelled none", "128000 0 0", ""},
		{"cancelled paid", []func(shop) act{pay, cancel}, "paid none none unfulfilled cancelled none", "128000 128000 0", ""},
		{"return wished", []func(shop) act{pay, ship(0), wish}, "paid none none fulfilled active requested", "128000 128000 0", ""},
		{"return approved", []func(shop) act{pay, ship(0), wish, func(s shop) act { return s.ApproveReturn }}, "paid none none fulfilled active in_progress", "128000 128000 0", ""},
		{"return closed", []func(shop) act{pay, ship(0), wish, func(s shop) act { return s.ApproveReturn }, shut}, "paid none none fulfilled active received", "128000 128000 0", ""},
		{"return reopened", []func(shop) act{pay, ship(0), wish, func(s shop) act { return s.ApproveReturn }, shut, func(s shop) act { return s.ReopenReturn }}, "paid none none fulfilled active in_progress", "128000 128000 0", ""},
		{"return declined", []func(shop) act{pay, ship(0), wish, func(s shop) act { return s.DeclineReturn }}, "paid none none fulfilled active declined", "128000 128000 0", ""},
		{"return called off", []func(shop) act{pay, ship(0), wish, func(s shop) act { return s.CancelReturn }}, "paid none none fulfilled active none", "128000 128000 0", ""},
		{"second return", []func(shop) act{pay, ship(0), wish, func(s shop) act { return s.DeclineReturn }, wish}, "paid none none fulfilled active requested", "128000 128000 0", ""},
		{"return failed", []func(shop) act{pay, word("returnStatus", "RETURN_FAILED")}, "paid none none unfulfilled active ?", "128000 128000 0", "unknown_status returnStatus=RETURN_FAILED"},
		{"unknown payment", []func(shop) act{pay, word("displayFinancialStatus", "CRYPTO_PENDING")}, "review? none none unfulfilled active none", "128000 128000 0", "unknown_status displayFinancialStatus=CRYPTO_PENDING"},
		{"unknown shipment", []func(shop) act{word("displayFulfillmentStatus", "TELEPORTED")}, "pending none none ? active none", "128000 0 0", "unknown_status displayFulfillmentStatus=TELEPORTED"},
		{"unknown return", []func(shop) act{word("returnStatus", "LOST_AT_SEA")}, "pending none none unfulfilled active ?", "128000 0 0", "unknown_status returnStatus=LOST_AT_SEA"},
		{"no payment word, no money", []func(shop) act{word("displayFinancialStatus", "")}, "pending none none unfulfilled active none", "128000 0 0", ""},
		{"no payment word, but money", []func(shop) act{pay, word("displayFinancialStatus", "")}, "review? none none unfulfilled active none", "128000 128000 0", "contradiction displayFinancialStatus"},
		{"expired", []func(shop) act{word("displayFinancialStatus", "EXPIRED")}, "voided none none unfulfilled active none", "128000 0 0", ""},
		{"scheduled", []func(shop) act{word("displayFulfillmentStatus", "SCHEDULED")}, "pending none none held active none", "128000 0 0", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			var acts []act
			for _, a := range tt.acts {
				acts = append(acts, a(w.shop))
			}
			id, _ := w.order(sandbox.ShopifyOrder{}, acts...)
			o := w.one(id)
			if got := axes(o); got != tt.axes {
				t.Errorf("axes\n got %s\nwant %s", got, tt.axes)
			}
			if o.Amounts == nil {
				t.Fatal("no amounts")
			}
			if got := fmt.Sprint(o.Amounts.Total, o.Amounts.Received, o.Amounts.Refunded); got != tt.money || o.Amounts.Currency != "HKD" {
				t.Errorf("money %s %s, want %s HKD", got, o.Amounts.Currency, tt.money)
			}
			if got := faults(o); got != tt.faults {
				t.Errorf("faults %q, want %q", got, tt.faults)
			}
			if o.Ref != w.ref(id) || o.Basis != models.Official || !o.Store || o.Number != "#1001" || !slices.Contains(o.Refs, fmt.Sprint(id)) {
				t.Errorf("identity: %+v", o)
			}
			for axis, s := range o.Axes {
				if !s.Unclear && !axis.Has(s.State) {
					t.Errorf("%s has no state %q", axis, s.State)
				}
			}
		})
	}
}

// What an edit takes out of an order stays among what was ordered.
func TestPiecesOfAnEditedOrder(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	edit := func(pieces int) func(id int64) ([]sandbox.Notification, error) {
		return func(id int64) ([]sandbox.Notification, error) { return w.shop.Edit(id, "0", pieces) }
	}
	id, _ := w.order(sandbox.ShopifyOrder{Pieces: 3}, w.shop.Pay, edit(2), edit(-1),
		func(id int64) ([]sandbox.Notification, error) { return w.shop.Fulfill(id, 3, "A1") })
	if got, want := *w.one(id).Items, (models.Items{Ordered: 5, Removed: 1, Shipped: 3}); got != want {
		t.Errorf("items %+v, want %+v", got, want)
	}
	if _, err := w.shop.Edit(id, "0", -2); err == nil {
		t.Error("what was shipped was removed")
	}
	if _, err := w.shop.Fulfill(id, 0, "A2"); err != nil {
		t.Fatal(err)
	}
	if got := w.one(id); got.Items.Shipped != 4 || got.Axes[models.Fulfillment].State != models.FulfillmentFulfilled {
		t.Errorf("%+v %s", got.Items, axes(got))
	}
}

func TestPartsItemsMethodAndChannel(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id, _ := w.order(sandbox.ShopifyOrder{Gateway: "Cash on Delivery (COD)", Source: "pos", Pieces: 3, Total: "90", Currency: "JPY", Test: true}, w.shop.Pay,
		func(id int64) ([]sandbox.Notification, error) { return w.shop.Refund(id, "30", sandbox.RefundSucceeds) },
		func(id int64) ([]sandbox.Notification, error) { return w.shop.Refund(id, "10", sandbox.RefundFails) },
		func(id int64) ([]sandbox.Notification, error) { return w.shop.Fulfill(id, 1, "A1") },
		func(id int64) ([]sandbox.Notification, error) { return w.shop.CancelFulfillment(id) },
		func(id int64) ([]sandbox.Notification, error) { return w.shop.Fulfill(id, 2, "A2") },
		func(id int64) ([]sandbox.Notification, error) { return w.shop.RequestReturn(id, 2) },
		w.shop.ApproveReturn,
		func(id int64) ([]sandbox.Notification, error) { return w.shop.CloseReturn(id, 1) })
	o := w.one(id)
	if o.Method != "cash_on_delivery" || o.Channel != "pos" || !o.Test {
		t.Errorf("method %q channel %q test %v", o.Method, o.Channel, o.Test)
	}
	if want := (models.Items{Ordered: 3, Shipped: 2, Returning: 2, CameBack: 1, InReturned: 2}); o.Items == nil || *o.Items != want {
		t.Errorf("items %+v, want %+v", o.Items, want)
	}
	var got []string
	seen := map[string]bool{}
	for _, p := range o.Parts {
		if seen[p.ID] {
			t.Errorf("part %s twice", p.ID)
		}
		seen[p.ID] = true
		got = append(got, fmt.Sprintf("%s %s %s %d %v %s", p.Axis, p.State, p.Word, p.Amount, p.Counts, p.Note))
	}
	want := []string{
		"payment paid SALE/SUCCESS 90 true ",
		"refund partial SUCCESS 30 true ",
		"refund none FAILURE 10 false ",
		"refund none recorded 30 false ",
		"fulfillment unfulfilled CANCELLED 0 false Other A1",
		"fulfillment fulfilled SUCCESS 0 true Other A2",
		"return received CLOSED 0 true #1001-R1",
	}
	if !slices.Equal(got, want) {
		t.Errorf("parts\n%s", strings.Join(got, "\n"))
	}
}

func TestALongListIsReadWhole(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	acts := []act{w.shop.Pay}
	for range 12 {
		acts = append(acts, func(id int64) ([]sandbox.Notification, error) { return w.shop.Refund(id, "10", sandbox.RefundSucceeds) })
	}
	id, _ := w.order(sandbox.ShopifyOrder{}, acts...)
	o := w.one(id)
	if o.Amounts == nil || o.Amounts.Refunded != 12000 || len(o.Parts) != 1+12+12 {
		t.Errorf("amounts %+v, %d parts", o.Amounts, len(o.Parts))
	}
}

func TestReturnsAndFulfillmentOrdersLeadToTheirOrder(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id, ns := w.order(sandbox.ShopifyOrder{}, w.shop.Pay, w.shop.Hold,
		func(id int64) ([]sandbox.Notification, error) { return w.shop.RequestReturn(id, 1) }, w.shop.UpdateReturn)
	var refs []models.ObjectRef
	for _, n := range ns {
		if p := w.Parse(w.request(n), w.clock.Now()); p.Object.Kind != KindOrder {
			refs = append(refs, p.Object)
		}
	}
	if len(refs) != 2 || refs[0].Kind != KindFulfillmentOrder || refs[1].Kind != KindReturn {
		t.Fatalf("refs %v", refs)
	}
	for ref, o := range w.read(append(refs, w.ref(id))...) {
		if o.Ref != w.ref(id) || o.Absence != models.Present {
			t.Errorf("%v leads to %v %s", ref, o.Ref, o.Absence)
		}
	}
}

func TestAbsences(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	there, _ := w.order(sandbox.ShopifyOrder{})
	old, ns := w.order(sandbox.ShopifyOrder{Placed: w.clock.Now().AddDate(0, -3, 0)}, w.shop.Hold,
		func(id int64) ([]sandbox.Notification, error) { return w.shop.RequestReturn(id, 1) }, w.shop.UpdateReturn)
	led := map[string]models.ObjectRef{}
	for _, n := range ns {
		ref := w.Parse(w.request(n), w.clock.Now()).Object
		led[ref.Kind] = ref
	}
	deleted, _ := w.order(sandbox.ShopifyOrder{}, w.shop.Delete)
	broken, _ := w.order(sandbox.ShopifyOrder{})
	w.shop.Break(sandbox.ShopifyGID(broken), "INTERNAL_SERVER_ERROR")
	secret, _ := w.order(sandbox.ShopifyOrder{})
	w.shop.Break(sandbox.ShopifyGID(secret), "ACCESS_DENIED")
	w.shop.SetScopes(slices.DeleteFunc(slices.Clone(sandbox.ShopifyScopes), func(s string) bool { return s == "read_all_orders" })...)

	ref := func(kind, id string) models.ObjectRef { return models.ObjectRef{Account: account, Kind: kind, ID: id} }
	want := map[models.ObjectRef]models.Absence{
		w.ref(there): models.Present, w.ref(old): models.Gone, led[KindFulfillmentOrder]: models.OutsideWindow, led[KindReturn]: models.Unreadable, w.ref(deleted): models.Gone,
		w.ref(broken): models.Unreadable, w.ref(secret): models.Unreadable,
		ref(KindOrder, "gid://shopify/Order/820982911946154508"):   models.AdminTest,
		ref(KindOrder, "gid://shopify/Order/99999999999999999999"): models.Gone,
		ref(KindOrder, "#1001"):                                    models.Unreadable,
		ref("refund", "gid://shopify/Refund/1"):                    models.Unreadable,
		ref(KindReturn, "gid://shopify/Return/99"):                 models.Gone,
	}
	// Asked alone, the old order can't be told from a deleted one.
	alone := w.one(old)
	if alone.Absence != models.Gone {
		t.Errorf("old order alone: %q", alone.Absence)
	}
	want[w.ref(old)] = models.OutsideWindow
	var refs []models.ObjectRef
	for r := range want {
		refs = append(refs, r)
	}
	for r, o := range w.read(refs...) {
		if o.Absence != want[r] {
			t.Errorf("%v: %q, want %q (%s)", r, o.Absence, want[r], o.Detail)
		}
		if o.Absence != models.Present && (len(o.Axes) > 0 || o.Amounts != nil) {
			t.Errorf("%v: absent, but states something", r)
		}
	}
}

func TestManyOrdersInFewCalls(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.shop.SetPoints(1e6, 1000)
	var refs []models.ObjectRef
	for range w.Together() {
		id, _ := w.order(sandbox.ShopifyOrder{}, w.shop.Pay)
		refs = append(refs, w.ref(id))
	}
	if w.read(refs...); w.shop.Calls() != 1 {
		t.Errorf("%d orders took %d calls", len(refs), w.shop.Calls())
	}
	w.shop.SetLargest(300) // the platform counts otherwise than we
	before := w.shop.Calls()
	if w.read(refs...); w.shop.Calls()-before > 15 {
		t.Errorf("cut in halves: %d calls", w.shop.Calls()-before)
	}
}

func outage(t *testing.T, err error) *platform.Outage {
	t.Helper()
	out, ok := errors.AsType[*platform.Outage](err)
	if !ok {
		t.Fatalf("not an outage: %v", err)
	}
	return out
}

func TestOutages(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name              string
		do                func(*world)
		throttled, denied bool
		detail            string
	}{
		{"down", func(w *world) { w.shop.Down.Store(true) }, false, false, "status 503"},
		{"dead", func(w *world) { w.shop.Dead.Store(true) }, false, false, "no connection"},
		{"throttled with 200", func(w *world) { w.shop.SetPoints(2000, 1); w.shop.Throttle.Store(true) }, true, false, "throttled"},
		{"throttled with 429", func(w *world) {
			w.shop.SetPoints(2000, 1)
			w.shop.TooMany.Store(true)
			w.shop.Throttle.Store(true)
		}, true, false, "throttled"},
		{"no scope", func(w *world) { w.shop.SetScopes() }, false, true, "ACCESS_DENIED"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			id, _ := w.order(sandbox.ShopifyOrder{})
			tt.do(w)
			_, err := w.Fetch(context.Background(), []models.ObjectRef{w.ref(id)})
			out := outage(t, err)
			if out.Throttled != tt.throttled || out.Denied != tt.denied || out.Detail != tt.detail {
				t.Errorf("%+v", out)
			}
			if tt.throttled && out.After < 2*time.Second {
				t.Errorf("come back after %v", out.After)
			}
		})
	}
}

func TestPointsAreLookedAtBeforeAsking(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.shop.SetPoints(70, 0.5) // one order costs about 50, less when there is little to say
	id, _ := w.order(sandbox.ShopifyOrder{}, w.shop.Pay)
	var out *platform.Outage
	for range 10 {
		if _, err := w.Fetch(context.Background(), []models.ObjectRef{w.ref(id)}); err != nil {
			out = outage(t, err)
			break
		}
	}
	if out == nil || !out.Throttled || out.After < 2*time.Second {
		t.Fatalf("%+v", out)
	}
	calls := w.shop.Calls()
	if _, err := w.Fetch(context.Background(), []models.ObjectRef{w.ref(id)}); !outage(t, err).Throttled || w.shop.Calls() != calls {
		t.Errorf("asked although the points can't suffice: %d calls", w.shop.Calls()-calls)
	}
	w.clock.pass(out.After)
	w.one(id)
}

func TestADeniedFieldIsNotStated(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id, _ := w.order(sandbox.ShopifyOrder{}, w.shop.Pay, w.shop.OpenDispute)
	w.shop.SetScopes("read_all_orders", "read_orders", "read_fulfillments", "read_returns")
	o := w.one(id)
	if got, want := axes(o), "paid none - unfulfilled active none"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if faults(o) != "" || w.Reads()[models.Dispute] || !w.Reads()[models.Payment] {
		t.Errorf("faults %q, reads %v", faults(o), w.Reads())
	}
	calls := w.shop.Calls()
	if w.one(id); w.shop.Calls() != calls+1 {
		t.Errorf("the refused fields were asked for again: %d calls", w.shop.Calls()-calls)
	}
	b, err := w.Changed(context.Background(), platform.Window{Since: w.clock.Now().Add(-time.Hour)})
	if err != nil || len(b.Observations) != 1 {
		t.Errorf("list: %v %+v", err, b)
	}
	w.shop.SetScopes(sandbox.ShopifyScopes...)
	w.clock.pass(leftOut + time.Second)
	if o := w.one(id); o.Axes[models.Dispute].State != models.DisputeOpen {
		t.Errorf("the scope is back: %s", axes(o))
	}
}

// answers is a server that gives one body to every query.
func answers(t *testing.T, bodies ...string) *Adapter {
	t.Helper()
	var mu sync.Mutex
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		body := bodies[0]
		if len(bodies) > 1 {
			bodies = bodies[1:]
		}
		w.Header().Set("X-Shopify-API-Version", defaultVersion)
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(srv.Close)
	a, err := New(platform.Config{Account: account, APIURL: srv.URL, APIToken: "t", Settings: map[string]string{"rate": "1000"}})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

const plainOrder = `{"id":"gid://shopify/Order/1","legacyResourceId":"1","name":"#1","test":false,"createdAt":"2026-11-01T00:00:00Z","updatedAt":"2026-11-01T00:00:01Z",
	"cancelledAt":null,"cancelReason":null,"displayFinancialStatus":"PAID","displayFulfillmentStatus":"UNFULFILLED","returnStatus":"NO_RETURN","subtotalLineItemsQuantity":1,
	"paymentGatewayNames":["visa"],"sourceName":"web","totalPriceSet":{"shopMoney":{"amount":"20.0","currencyCode":"CAD"}},
	"totalReceivedSet":{"shopMoney":{"amount":"20.00","currencyCode":"CAD"}},"totalRefundedSet":{"shopMoney":{"amount":"0.0","currencyCode":"CAD"}},
	"totalOutstandingSet":{"shopMoney":{"amount":"0.0","currencyCode":"CAD"}},"transactions":[],"refunds":[],"fulfillments":[],
	"fulfillmentOrders":{"nodes":[]},"returns":{"edges":[]},"disputes":[]}`

func TestOneFieldGoneOrOfAnotherType(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, from, to, axes, faults string }{
		{"as it is", "", "", "paid none none unfulfilled active none", ""},
		{"payment gone", `"displayFinancialStatus":"PAID",`, "", "review? none none unfulfilled active none", "schema_changed displayFinancialStatus"},
		{"payment an object", `"displayFinancialStatus":"PAID"`, `"displayFinancialStatus":{"word":"PAID"}`, "review? none none unfulfilled active none", "schema_changed displayFinancialStatus"},
		{"fulfillment a number", `"UNFULFILLED"`, `7`, "paid none none ? active none", "schema_changed displayFulfillmentStatus"},
		{"cancellation gone", `"cancelledAt":null,`, ``, "paid none none unfulfilled ? none", "schema_changed cancelledAt"},
		{"returns gone", `"returnStatus":"NO_RETURN",`, ``, "paid none none unfulfilled active ?", "schema_changed returnStatus"},
		{"disputes null without an error", `"disputes":[]`, `"disputes":null`, "paid none - unfulfilled active none", "schema_changed disputes"},
		{"amount a fraction of a cent", `"20.00"`, `"20.001"`, "paid review? none unfulfilled active none", "schema_changed totalReceivedSet.shopMoney.amount"},
		{"amount a number", `"20.00"`, `20`, "paid none none unfulfilled active none", ""},
		{"refunded sum without transactions", `"0.0","currencyCode":"CAD"}},
	"totalOutstandingSet"`, `"5.0","currencyCode":"CAD"}},
	"totalOutstandingSet"`, "paid none none unfulfilled active none", "contradiction totalRefundedSet"},
		{"transactions gone", `"transactions":[],`, ``, "paid none none unfulfilled active none", "schema_changed transactions"},
		{"unknown refund", `"transactions":[]`, `"transactions":[{"id":"gid://shopify/OrderTransaction/1","kind":"REFUND","status":"UNKNOWN","amountSet":{"shopMoney":{"amount":"1.0","currencyCode":"CAD"}}}]`,
			"paid review? none unfulfilled active none", "unknown_status transactions.status=UNKNOWN"},
		{"unknown request", `"fulfillmentOrders":{"nodes":[]}`, `"fulfillmentOrders":{"nodes":[{"id":"gid://shopify/FulfillmentOrder/1","requestStatus":"PONDERING"}]}`,
			"paid none none unfulfilled ? none", "unknown_status fulfillmentOrders.requestStatus=PONDERING"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			order := strings.Replace(plainOrder, tt.from, tt.to, 1)
			if tt.from != "" && order == plainOrder {
				t.Fatal("the test changes nothing")
			}
			a := answers(t, `{"data":{"nodes":[`+order+`]}}`)
			got, err := a.Fetch(context.Background(), []models.ObjectRef{a.order("1")})
			if err != nil {
				t.Fatal(err)
			}
			o := got[a.order("1")]
			if axes(o) != tt.axes || faults(o) != tt.faults {
				t.Errorf("got %s (%s)\nwant %s (%s)", axes(o), faults(o), tt.axes, tt.faults)
			}
		})
	}
}

func TestAFieldThatTheSchemaLost(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id, _ := w.order(sandbox.ShopifyOrder{}, w.shop.Pay)
	w.shop.Remove("Order", "returnStatus")
	w.shop.Remove("OrderTransaction", "processedAt")
	o := w.one(id)
	if got, want := axes(o), "paid none none unfulfilled active ?"; got != want || faults(o) != "schema_changed returnStatus" {
		t.Errorf("got %s (%s)", got, faults(o))
	}
}

func TestErrorsBesideData(t *testing.T) {
	t.Parallel()
	denied := `{"message":"Access denied for disputes field.","path":["nodes",0,"disputes"],"extensions":{"code":"ACCESS_DENIED"}}`
	withoutDisputes := strings.Replace(plainOrder, `"disputes":[]`, `"disputes":null`, 1)
	tests := []struct {
		name   string
		bodies []string
		want   string
	}{
		{"field null beside the rest", []string{`{"data":{"nodes":[` + withoutDisputes + `]},"errors":[` + denied + `]}`, `{"data":{"nodes":[` + strings.Replace(plainOrder, `,"disputes":[]`, "", 1) + `]}}`},
			"paid none - unfulfilled active none"},
		{"inside error once", []string{`{"errors":[{"message":"oops","extensions":{"code":"INTERNAL_SERVER_ERROR"}}]}`, `{"data":{"nodes":[` + plainOrder + `]}}`}, "paid none none unfulfilled active none"},
		{"inside error for good", []string{`{"errors":[{"message":"oops","extensions":{"code":"INTERNAL_SERVER_ERROR"}}]}`}, "outage"},
		{"shop closed", []string{`{"errors":[{"message":"closed","extensions":{"code":"SHOP_INACTIVE"}}]}`}, "denied"},
		{"null with an error that names nothing", []string{`{"data":{"nodes":[null]},"errors":[{"message":"odd"}]}`}, "unreadable"},
		{"null without an error", []string{`{"data":{"nodes":[null]}}`}, "gone"},
		{"another object", []string{`{"data":{"nodes":[{"id":"gid://shopify/Product/1"}]}}`}, "unreadable"},
		{"too few nodes", []string{`{"data":{"nodes":[]}}`}, "error"},
		{"our query is wrong", []string{`{"errors":[{"message":"Parse error"}]}`}, "error"},
		{"a page of a proxy", []string{`<html>`}, "outage"},
		{"a bare sentence", []string{`{"errors":"Not Found"}`}, "error"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			a := answers(t, tt.bodies...)
			got, err := a.Fetch(context.Background(), []models.ObjectRef{a.order("1")})
			said := axes(got[a.order("1")])
			if why := got[a.order("1")].Absence; why != models.Present {
				said = string(why)
			}
			if out, ok := errors.AsType[*platform.Outage](err); ok && out.Denied {
				said = "denied"
			} else if ok {
				said = "outage"
			} else if err != nil {
				said = "error"
			}
			if said != tt.want {
				t.Errorf("got %s (%v), want %s", said, err, tt.want)
			}
		})
	}
}

func TestAnExpiredVersionIsNoticed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *platform.Config) { c.Settings["api_version"] = "2025-01" })
	id, _ := w.order(sandbox.ShopifyOrder{})
	if d := w.one(id).Detail; !strings.Contains(d, "2025-01") || !strings.Contains(d, "2026-01") {
		t.Errorf("detail %q", d)
	}
	if !slices.Contains(noteKeys(t, w), "note.shopify.version_other") {
		t.Error("no note")
	}
}

func noteKeys(t *testing.T, w *world) []string {
	t.Helper()
	notes, err := w.Check(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	var keys []string
	for _, n := range notes {
		keys = append(keys, n.Key+strings.Join(append([]string{""}, n.Args...), " "))
	}
	if len(keys) == 0 {
		t.Fatal("no notes")
	}
	for i := range keys {
		if strings.HasPrefix(keys[i], "note.shopify.version_other") {
			keys[i] = "note.shopify.version_other"
		}
	}
	return keys
}

func TestCheckSaysWhatOurAccessCovers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *platform.Config) {
		c.Webhook, c.APIToken, c.ClientID, c.ClientSecret = nil, "", "app", "s1"
	})
	if got, want := noteKeys(t, w), []string{"note.shopify.version 2026-10", "note.shopify.client_secret_signs"}; !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	w.shop.SetScopes("write_orders", "read_fulfillments", "read_assigned_fulfillment_orders")
	want := []string{"note.shopify.scope_missing read_returns", "note.shopify.scope_missing read_shopify_payments_disputes", "note.shopify.window 60",
		"note.shopify.version 2026-10", "note.shopify.client_secret_signs"}
	if got := noteKeys(t, w); !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

func TestTokensAreRenewedInTime(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *platform.Config) { c.APIToken, c.ClientID, c.ClientSecret = "", "app", "s1" })
	id, _ := w.order(sandbox.ShopifyOrder{})
	for range 26 {
		w.one(id)
		w.clock.pass(time.Hour)
	}
	if n := w.shop.Grants(); n != 2 {
		t.Errorf("%d tokens in 26 hours", n)
	}
	w.shop.Revoke()
	if w.one(id); w.shop.Grants() != 3 {
		t.Errorf("no new token after a 401: %d", w.shop.Grants())
	}
	w.shop.SetSecret("s2") // the grant fails from now on, the token we have still holds
	w.clock.pass(23 * time.Hour)
	w.one(id)
	w.clock.pass(2 * time.Hour)
	_, err := w.Fetch(context.Background(), []models.ObjectRef{w.ref(id)})
	if out := outage(t, err); !out.Denied {
		t.Errorf("%+v", out)
	}
}

func TestManyAskForOneToken(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *platform.Config) { c.APIToken, c.ClientID, c.ClientSecret = "", "app", "s1" })
	w.shop.SetPoints(1e6, 1000)
	id, _ := w.order(sandbox.ShopifyOrder{})
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if _, err := w.Fetch(context.Background(), []models.ObjectRef{w.ref(id)}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if w.shop.Grants() != 1 {
		t.Errorf("%d tokens", w.shop.Grants())
	}
}

// walk reads a window to its end.
func walk(t *testing.T, w *world, win platform.Window) (ids []string, pages int) {
	t.Helper()
	for {
		b, err := w.Changed(context.Background(), win)
		if err != nil {
			t.Fatal(err)
		}
		pages++
		for _, o := range b.Observations {
			ids = append(ids, o.Ref.ID)
		}
		for _, r := range b.Refs {
			ids = append(ids, r.ID)
		}
		if b.Next == "" {
			return ids, pages
		}
		win.Cursor = b.Next
	}
}

func TestChangedWalksEveryOrderOfASecond(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.shop.SetPoints(1e6, 1000)
	before, _ := w.order(sandbox.ShopifyOrder{})
	w.clock.pass(time.Minute)
	since := w.clock.Now()
	want := map[string]bool{}
	for range 40 { // all within one second
		id, _ := w.order(sandbox.ShopifyOrder{})
		want[sandbox.ShopifyGID(id)] = true
	}
	w.clock.pass(time.Minute)
	until := w.clock.Now()
	after, _ := w.order(sandbox.ShopifyOrder{})
	ids, pages := walk(t, w, platform.Window{Since: since.Add(300 * time.Millisecond), Until: until})
	if len(ids) != 40 || pages < 4 || slices.Contains(ids, sandbox.ShopifyGID(before)) || slices.Contains(ids, sandbox.ShopifyGID(after)) {
		t.Errorf("%d orders on %d pages", len(ids), pages)
	}
	for _, id := range ids {
		delete(want, id)
	}
	if len(want) > 0 {
		t.Errorf("%d orders were missed", len(want))
	}
	if ids, _ := walk(t, w, platform.Window{Since: until.Add(time.Hour)}); len(ids) != 0 {
		t.Errorf("%d orders in the future", len(ids))
	}
}

func TestTheListSaysTheSameAsTheObject(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.shop.SetPoints(1e6, 1000)
	for _, acts := range [][]act{nil, {w.shop.Pay}, {w.shop.Authorize}, {w.shop.Pay, func(id int64) ([]sandbox.Notification, error) { return w.shop.Fulfill(id, 1, "T") }}} {
		w.order(sandbox.ShopifyOrder{}, acts...)
	}
	b, err := w.Changed(context.Background(), platform.Window{Since: w.clock.Now().Add(-time.Hour), Kind: KindOrder})
	if err != nil || len(b.Observations) != 4 {
		t.Fatalf("%v %d", err, len(b.Observations))
	}
	for _, o := range b.Observations {
		if got := w.read(o.Ref)[o.Ref]; got.Digest() != o.Digest() {
			t.Errorf("the list says\n%+v\nthe object\n%+v", o, got)
		}
	}
}

func TestUnfinishedReturnsAreFoundWithoutAChange(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id, _ := w.order(sandbox.ShopifyOrder{}, w.shop.Pay, func(id int64) ([]sandbox.Notification, error) { return w.shop.Fulfill(id, 0, "T") })
	changed := w.one(id).Changed
	w.order(sandbox.ShopifyOrder{})
	w.clock.pass(time.Hour)
	since := w.clock.Now()
	if _, err := w.shop.RequestReturn(id, 1); err != nil {
		t.Fatal(err)
	}
	if ids, _ := walk(t, w, platform.Window{Since: since}); len(ids) != 0 {
		t.Error("a return moved updatedAt")
	}
	ids, _ := walk(t, w, platform.Window{Since: since, Kind: KindReturn})
	if !slices.Equal(ids, []string{sandbox.ShopifyGID(id)}) {
		t.Errorf("got %v", ids)
	}
	if o := w.one(id); !o.Changed.Equal(changed) || o.Axes[models.Return].State != models.ReturnRequested {
		t.Errorf("%v %s", o.Changed, axes(o))
	}
}

func TestAListThatMisleadsIsAnError(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, body, cursor string }{
		{"search not understood", `{"data":{"orders":{"nodes":[],"pageInfo":{"hasNextPage":false,"endCursor":null}}},"extensions":{"search":[{"warnings":[{"field":"updatd_at","message":"Invalid search field"}]}]}}`, ""},
		{"cursor stands still", `{"data":{"orders":{"nodes":[],"pageInfo":{"hasNextPage":true,"endCursor":"abc"}}}}`, "abc"},
		{"cursor missing", `{"data":{"orders":{"nodes":[],"pageInfo":{"hasNextPage":true,"endCursor":null}}}}`, ""},
		{"no list", `{"data":{}}`, ""},
		{"not an order", `{"data":{"orders":{"nodes":[{"id":"gid://shopify/Product/1"}],"pageInfo":{}}}}`, ""},
		{"half of it", `{"data":{"orders":{"nodes":[],"pageInfo":{}}},"errors":[{"message":"x"}]}`, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := answers(t, tt.body).Changed(context.Background(), platform.Window{Since: time.Unix(0, 0), Cursor: tt.cursor})
			if _, isOutage := errors.AsType[*platform.Outage](err); err == nil || isOutage {
				t.Errorf("got %v", err)
			}
		})
	}
	w := newWorld(t)
	w.order(sandbox.ShopifyOrder{})
	r, err := w.ask(context.Background(), listIDs, listVars(1, "", "updatd_at:>='2026-01-01T00:00:00Z'"), 3)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.page(""); err == nil {
		t.Error("the sandbox's warning went unnoticed")
	}
	if _, err := w.Changed(context.Background(), platform.Window{Kind: "customer"}); err == nil {
		t.Error("an unknown kind was listed")
	}
}

func TestWithoutCredentialsThereIsNoAPI(t *testing.T) {
	t.Parallel()
	a, err := New(platform.Config{Account: account, Webhook: []string{"s"}})
	if err != nil {
		t.Fatal(err)
	}
	if a.HasAPI() || a.Reads() != nil {
		t.Error("an API out of nothing")
	}
	if _, err := a.Fetch(context.Background(), []models.ObjectRef{a.order("1")}); !outage(t, err).Denied {
		t.Error("fetched")
	}
}

func TestTheCostIsCountedAsTheSandboxCountsIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id, _ := w.order(sandbox.ShopifyOrder{})
	for _, s := range []*shape{w.full, w.wide} {
		r, err := w.ask(context.Background(), s.byID(nil), map[string]any{"ids": []string{sandbox.ShopifyGID(id)}}, 0)
		if err != nil || r.Extensions.Cost == nil {
			t.Fatal(err)
		}
		if got := int(r.Extensions.Cost.Requested); got != s.points || got > mostPoints {
			t.Errorf("%s costs %d, we think %d", s.name, got, s.points)
		}
	}
}
