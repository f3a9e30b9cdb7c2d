package app

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"counterfoil/models"
	"counterfoil/models/platform/sandbox"
	"counterfoil/models/store"
)

// A days is the traffic of a merchant's ordinary days, hour by hour: what happens at
// the platforms, and which notifications come late.
type days struct {
	*week
	tick  time.Duration
	tales []*tale
	late  []lateNotice
	now   int // ticks since the beginning

	orders, sent, delayed int
	left                  []float64 // of each plot, what makes no whole one yet
}

type lateNotice struct {
	at   int
	slug string
	n    sandbox.Notification
}

// hours is a span in ticks.
func (d *days) hours(n int) int { return max(1, int(time.Duration(n)*time.Hour/d.tick)) }

// place begins a tale at some tick of the day that is under way.
func (d *days) place(n int, make func() *tale) {
	perDay := d.hours(24)
	for range n {
		t := make()
		t.next = d.now + d.rng.IntN(perDay)
		d.tales = append(d.tales, t)
	}
}

// day places what an ordinary day brings, at a scale of 600 orders a day.
func (d *days) day(scale float64) {
	plot := 0
	n := func(of int) int { // what is left of one day is the next one's
		if plot++; plot > len(d.left) {
			d.left = append(d.left, 0)
		}
		left := &d.left[plot-1]
		*left += float64(of) * scale
		whole := int(*left)
		*left -= float64(whole)
		return whole
	}
	const cod = "Cash on Delivery (COD)"
	ship, hour := d.hours(5), d.hours(1)
	shipped := func(t *tale, id *int64) *tale { return t.then(ship, d.ship(id)) }
	paid := func(plot string) (*tale, *int64) {
		t, id := d.order(plot, sandbox.ShopifyOrder{})
		return t.then(0, d.pay(t, id)), id
	}
	rest := 600
	some := func(of int, make func() *tale) {
		rest -= of
		now := n(of)
		d.orders += now
		d.place(now, make)
	}
	some(15, func() *tale { // an edit adds goods, and the buyer pays for them
		t, id := paid("edited, more")
		return shipped(t.then(hour, func() told { return told{"hk": must(d.shop.Edit(*id, "20.00", 1))} }).then(hour, d.pay(t, id)), id)
	})
	some(10, func() *tale {
		t, id := d.order("edited, less, and then paid", sandbox.ShopifyOrder{})
		return shipped(t.then(hour, func() told { return told{"hk": must(d.shop.Edit(*id, "0.00", -1))} }).then(0, d.pay(t, id)), id)
	})
	some(5, func() *tale { // the warehouse has its instruction already
		t, id := paid("edited, less")
		return shipped(t.then(hour, func() told { return told{"hk": must(d.shop.Edit(*id, "0.00", -1))} }), id)
	})
	some(20, func() *tale {
		t, id := paid("second and reopened return")
		back := func(do func(int64) ([]sandbox.Notification, error)) func() told {
			return func() told { return told{"hk": must(do(*id))} }
		}
		ask := func(id int64) ([]sandbox.Notification, error) { return d.shop.RequestReturn(id, 1) }
		end := func(id int64) ([]sandbox.Notification, error) { return d.shop.CloseReturn(id, 1) }
		return shipped(t, id).then(d.hours(20), back(ask)).then(hour, back(d.shop.ApproveReturn)).then(d.hours(8), back(end)).
			then(hour, back(d.shop.ReopenReturn)).then(hour, back(end)).then(hour, d.refund(t, id, 2000, 2000))
	})
	some(15, func() *tale {
		t, id := paid("parcel called back and sent again")
		return shipped(t, id).then(hour, func() told { return told{"hk": must(d.shop.CancelFulfillment(*id))} }).then(hour, d.ship(id))
	})
	some(60, func() *tale {
		t, id := d.order("pay on delivery", sandbox.ShopifyOrder{Gateway: cod})
		return shipped(t, id).then(d.hours(24), d.pay(t, id))
	})
	some(40, func() *tale { // a gift card pays a part at once, a card at Stripe the rest
		t, id := d.order("gift card and card", sandbox.ShopifyOrder{})
		return shipped(t.then(0, func() told {
			t.paid = true
			in, ns := d.stripe.CreateIntent(7000, "hkd", sandbox.StripeIntent{Metadata: map[string]string{"order_id": fmt.Sprint(*id)}})
			return told{"hk": append(must(d.shop.PayPartly(*id, "30.00")), must(d.shop.Pay(*id))...), "pay": append(ns, must(d.stripe.Succeed(in))...)}
		}), id)
	})
	some(40, func() *tale { // paid in another currency than the shop's
		t, id := d.order("two currencies", sandbox.ShopifyOrder{})
		return shipped(t.then(0, func() told {
			t.paid = true
			in, ns := d.stripe.CreateIntent(1280, "usd", sandbox.StripeIntent{Metadata: map[string]string{"order_id": fmt.Sprint(*id)}})
			return told{"hk": must(d.shop.Pay(*id)), "pay": append(ns, must(d.stripe.Succeed(in))...)}
		}), id)
	})
	some(10, func() *tale { // the refund is made at Stripe, and the shop never hears of it
		t, id, intent := d.card("refund made at Stripe")
		return shipped(t, id).then(d.hours(10), func() told {
			_, ns, err := d.stripe.Refund(*intent, 2000, "succeeded")
			return told{"pay": must(ns, err)}
		})
	})
	some(100, func() *tale { t, id, _ := d.card("card"); return shipped(t, id) })
	some(10, func() *tale {
		t, id := paid("cancelled and refunded")
		return t.then(hour, func() told { return told{"hk": must(d.shop.Cancel(*id, "CUSTOMER"))} }).then(0, d.refund(t, id, 10000, 10000))
	})
	some(10, func() *tale {
		t, id := paid("refunded in part")
		return shipped(t, id).then(d.hours(12), d.refund(t, id, 2500, 2500))
	})
	some(15, func() *tale {
		t, _ := d.order("never paid", sandbox.ShopifyOrder{Gateway: "manual"})
		return t
	})
	some(rest, func() *tale { t, id := paid("paid and shipped"); return shipped(t, id) })
	d.place(n(20), func() *tale { // begun and never paid
		t := &tale{life: &life{plot: "payment without order, unused"}}
		return t.then(0, func() told {
			_, ns := d.stripe.CreateIntent(4200, "hkd", sandbox.StripeIntent{})
			return told{"pay": ns}
		})
	})
	d.place(n(10), func() *tale { // money that no order of the shop belongs to
		t := &tale{life: &life{plot: "payment without order"}}
		return t.then(0, func() told {
			in, ns := d.stripe.CreateIntent(4200, "hkd", sandbox.StripeIntent{})
			return told{"pay": append(ns, must(d.stripe.Succeed(in))...)}
		})
	})
	d.place(n(150), func() *tale { t, _ := d.slip("receipt"); return t })
}

// signedNow is a notification as its platform sends it after a while: some sign the
// time of the delivery.
func (d *days) signedNow(slug string, n sandbox.Notification) sandbox.Notification {
	switch slug {
	case "pay":
		n.Header = d.stripe.Sign(n.Body)
	case "till":
		n = d.receipt.Again(n)
	}
	return n
}

// step lets one tick's acts happen and their notifications come, five of a hundred of
// them some hours late.
func (d *days) step() {
	deliver := func(slug string, n sandbox.Notification) {
		d.postAll(slug, n)
		d.sent++
	}
	d.late = slices.DeleteFunc(d.late, func(l lateNotice) bool {
		if l.at <= d.now {
			deliver(l.slug, d.signedNow(l.slug, l.n))
		}
		return l.at <= d.now
	})
	for _, tl := range d.tales {
		if tl.next != d.now || len(tl.acts) == 0 {
			continue
		}
		for again := true; again; again = len(tl.acts) > 0 && tl.after[0] == 0 {
			all := tl.acts[0]()
			tl.acts, tl.after = tl.acts[1:], tl.after[1:]
			for _, slug := range slices.Sorted(maps.Keys(all)) {
				for _, n := range all[slug] {
					if d.rng.IntN(100) < 5 {
						d.late = append(d.late, lateNotice{d.now + 1 + d.rng.IntN(d.hours(4)), slug, n})
						d.delayed++
						continue
					}
					deliver(slug, n)
				}
			}
		}
		if len(tl.acts) > 0 {
			tl.next = d.now + tl.after[0]
		}
	}
	d.now++
}

// pass lets time go by, on the program's clock and on the database's.
func (r *rig) pass(by time.Duration) {
	r.t.Helper()
	r.clock.forward(by)
	for _, q := range []string{
		`UPDATE events SET due_at = due_at - $1::interval WHERE due_at > now()`,
		`UPDATE platform_objects SET reread_at = reread_at - $1::interval WHERE reread_at > now()`,
		`UPDATE actions SET due_at = due_at - $1::interval WHERE due_at > now()`,
		`UPDATE connections SET api_next = api_next - $1::interval WHERE api_next > now()`,
		`UPDATE sweeps SET due_at = due_at - $1::interval WHERE due_at > now()`,
	} {
		if _, err := r.app.store.SQL().Exec(q, fmt.Sprintf("%d seconds", int(by.Seconds()))); err != nil {
			r.t.Fatal(q, err)
		}
	}
}

// sweep compares what may have changed on connections since the tick before last.
func (r *rig) sweep(slugs ...string) {
	r.t.Helper()
	ctx := context.Background()
	for _, slug := range slugs {
		conn, err := r.app.book.Slug(ctx, slug)
		if err != nil {
			r.t.Fatal(err)
		}
		kinds := map[models.Platform][]string{models.Shopify: {"order", "return", "unread"}, models.Stripe: {"event", "unread"}, models.ReceiptRoller: {"receipt"}}[conn.Platform]
		var ids []int64
		if err := r.app.store.Tx(ctx, func(tx *store.Tx) (err error) {
			now := r.clock.now()
			ids, err = tx.AskSweep(ctx, conn.ID, kinds, models.SweepAsked, "console", now.Add(-3*time.Hour), now)
			return err
		}); err != nil {
			r.t.Fatal(err)
		}
		if _, err := r.app.sweeps.Run(ctx, ids); err != nil {
			r.t.Fatal(err)
		}
	}
}

// read waits until no event is unprocessed but those that wait for their order.
func (r *rig) read() {
	r.t.Helper()
	r.wait("every event is read", func() bool {
		var n int
		r.scan(&n, `SELECT count(*) FROM events WHERE due_at IS NOT NULL AND (state <> 'unmatched' OR due_at <= now())`)
		return n == 0
	})
}

// healed lets exceptions move on: what heals by itself is read again.
func (r *rig) healed() {
	r.t.Helper()
	ctx := context.Background()
	r.wait("what heals by itself has been read again", func() bool {
		if err := errors.Join(r.app.cases.Due(ctx), r.app.cases.Group(ctx)); err != nil {
			r.t.Fatal(err)
		}
		var n int
		r.scan(&n, `SELECT count(*) FROM exceptions WHERE state = 'open' AND heal_at <= $1`, r.clock.now())
		return n == 0
	})
	r.read()
}

// lines are what stands on the list of what needs people: cases, groups folded.
func (r *rig) lines() (lines, cases int) {
	r.t.Helper()
	r.scan(&lines, `SELECT count(DISTINCT COALESCE('g' || group_id, 'x' || id)) FROM exceptions WHERE state = 'open' AND needs`)
	r.scan(&cases, `SELECT count(*) FROM exceptions WHERE state = 'open' AND needs`)
	return lines, cases
}

// measured leaves out under the race detector what runs without it, in a step of its own.
func measured(t *testing.T) {
	t.Helper()
	if raced {
		t.Skip("runs without the race detector")
	}
}

// An ordinary week needs few people: 600 orders a day with everything that belongs to
// their life. One day at half of that; COUNTERFOIL_WEEK=1 is the whole week.
func TestANormalWeek(t *testing.T) {
	t.Parallel()
	measured(t)
	scale, length := 0.5, 1
	if s := os.Getenv("COUNTERFOIL_WEEK"); s != "" {
		scale, _ = strconv.ParseFloat(s, 64)
		length = 7
	}
	r := start(t).withShopify(map[string]string{"sweep_every": "0s"}).withStripe("hk", map[string]string{"sweep_every": "0s"}).withReceipts(true)
	r.shop.SetPoints(1e9, 1e9)
	s := newSink(t)
	r.live("hk", s, true, models.FulfillmentInstruction)
	d := &days{week: &week{rig: r, rng: rand.New(rand.NewPCG(3, 5))}, tick: time.Hour}
	views, doubted := 0, 0
	for day := range length {
		d.day(scale)
		for range d.hours(24) {
			d.step()
			r.read()
			r.sweep("hk", "pay")
			if d.now%8 == 0 {
				r.sweep("till")
			}
			r.healed()
			var all, bad int
			r.scan(&all, `SELECT count(*) FROM orders WHERE merged_into IS NULL AND created_at > $1`, r.clock.now().Add(-48*time.Hour))
			r.scan(&bad, `SELECT count(*) FROM orders WHERE merged_into IS NULL AND created_at > $1 AND verification <> 'verified'`, r.clock.now().Add(-48*time.Hour))
			views, doubted = views+all, doubted+bad
			r.pass(d.tick)
		}
		lines, cases := r.lines()
		t.Logf("day %d: %d orders, %d notifications, %d late; %d lines, %d cases need people", day+1, d.orders, d.sent, d.delayed, lines, cases)
	}
	rows, err := r.app.store.SQL().Query(`
SELECT kind, COALESCE(axis, ''), case_name, count(*), count(*) FILTER (WHERE needs), count(*) FILTER (WHERE state = 'open') FROM exceptions GROUP BY 1, 2, 3 ORDER BY 4 DESC`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var kind, axis, name string
		var n, needs, open int
		if err := rows.Scan(&kind, &axis, &name, &n, &needs, &open); err != nil {
			t.Fatal(err)
		}
		t.Logf("%-22s %-13s %-24s %5d opened, %5d needed people, %5d open", kind, axis, name, n, needs, open)
	}
	var everLines int
	r.scan(&everLines, `SELECT count(DISTINCT COALESCE('g' || group_id, 'x' || id)) FROM exceptions WHERE needs`)
	t.Logf("%d orders, %d lines ever needed a person: %.2f of 100; banner on %.2f %% of views", d.orders, everLines, 100*float64(everLines)/float64(d.orders), 100*float64(doubted)/float64(views))
	if everLines*100 > 2*d.orders {
		t.Errorf("more than 2 of 100 orders need a person")
	}
	if doubted*100 > views {
		t.Errorf("the banner stands on more than 1 of 100 views")
	}
}

// A bad night: 6,000 orders in five hours, and for three of them the shop's platform
// answers one call in ten. Few lines stand on the list meanwhile, and in the end each
// paid order was sent once. A twentieth of its size; COUNTERFOIL_NIGHT=1 is the whole night.
func TestABadNight(t *testing.T) {
	t.Parallel()
	measured(t)
	scale := 0.05
	if s := os.Getenv("COUNTERFOIL_NIGHT"); s != "" {
		scale, _ = strconv.ParseFloat(s, 64)
	}
	r := start(t).withShopify(map[string]string{"sweep_every": "0s"}).withStripe("hk", map[string]string{"sweep_every": "0s"})
	r.waits = 10 * time.Minute
	r.shop.SetPoints(1e9, 1e9)
	s := newSink(t)
	r.live("hk", s, true, models.FulfillmentInstruction)
	d := &days{week: &week{rig: r, rng: rand.New(rand.NewPCG(20, 40))}, tick: 10 * time.Minute}
	const ticks, scarce, well = 30, 4, 22 // of ten minutes: from 20:00 to 01:00, scarce from 20:40 to 23:40
	perTick := int(6000*scale) / ticks
	most, asked := 0, 0
	for now := range ticks {
		for range perTick {
			tl, _, _ := d.card("card")
			tl.next = now
			d.tales, d.orders = append(d.tales, tl), d.orders+1
		}
		if now == scarce {
			r.shop.Scarce.Store(10)
		}
		if now == well {
			r.shop.Scarce.Store(0)
		}
		d.step()
		r.wait("every notification was looked at", func() bool {
			var n int
			r.scan(&n, `SELECT count(*) FROM events WHERE state = 'received' AND due_at <= now()`)
			return n == 0
		})
		if now < scarce || now >= well {
			r.read()
			r.sweep("hk", "pay")
			asked++
		}
		lines, cases := r.lines()
		if most = max(most, lines); lines > 0 && now%3 == 0 {
			t.Logf("tick %d: %d lines, %d cases", now, lines, cases)
		}
		r.pass(d.tick)
	}
	for len(d.late) > 0 || slices.ContainsFunc(d.tales, func(tl *tale) bool { return len(tl.acts) > 0 }) {
		d.step()
		r.read()
		r.pass(d.tick)
	}
	r.sweep("hk", "pay")
	r.healed()
	r.wait("every instruction is carried", func() bool {
		var n int
		r.scan(&n, `SELECT count(*) FROM actions WHERE kind = 'fulfillment_instruction' AND state <> 'done'`)
		return n == 0
	})
	lines, cases := r.lines()
	most = max(most, lines)
	var shipped int
	r.scan(&shipped, `SELECT count(*) FROM actions WHERE kind = 'fulfillment_instruction' AND state = 'done'`)
	t.Logf("%d orders, %d notifications, %d late: at most %d lines; %d lines and %d cases at the end; %d instructions for %d calls", d.orders, d.sent, d.delayed, most, lines, cases, shipped, s.count())
	if most > 10 {
		t.Errorf("%d lines stood on the list, at most 10", most)
	}
	if shipped != d.orders || s.count() != d.orders {
		t.Errorf("%d orders were paid, %d instructions done in %d calls", d.orders, shipped, s.count())
	}
}
