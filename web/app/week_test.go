package app

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"counterfoil/models"
	"counterfoil/models/platform/sandbox"
)

// A life is what the platforms know of one order, as far as follow-ups come of it.
type life struct {
	plot, ref           string
	receipt, pos, test  bool
	onDelivery          bool
	paid, goneWhenMoney bool
	refunded            []int64 // sums, in minor units
}

// owed is what a shop with every destination would have sent.
func (l *life) owed() []string {
	var out []string
	if l.test {
		return nil
	}
	if !l.receipt && !l.pos && (l.onDelivery || l.paid && !l.goneWhenMoney) {
		out = append(out, "fulfillment_instruction/order")
	}
	if l.paid {
		out = append(out, "invoice/order", "customer_message/payment_received")
	}
	for _, sum := range l.refunded {
		out = append(out, fmt.Sprint("customer_message/refund:", sum))
	}
	return out
}

// told are notifications by the slug of their connection.
type told = map[string][]sandbox.Notification

// A tale is a life act by act, each some ticks after the one before.
type tale struct {
	*life
	acts  []func() told
	after []int
	next  int // tick of the next act
}

func (t *tale) then(after int, do func() told) *tale {
	t.acts, t.after = append(t.acts, do), append(t.after, after)
	return t
}

// A week is a merchant's week on three platforms.
type week struct {
	*rig
	rng *rand.Rand
}

func (w *week) order(plot string, o sandbox.ShopifyOrder) (*tale, *int64) {
	o.Total = "100.00"
	l, id := &life{plot: plot, pos: o.Source == "pos", test: o.Test, onDelivery: strings.Contains(o.Gateway, "COD")}, new(int64)
	return (&tale{life: l}).then(0, func() told {
		made, ns, err := w.shop.CreateOrder(o)
		if err != nil {
			w.t.Fatal(err)
		}
		*id, l.ref = made, gid(made)
		return told{"hk": ns}
	}), id
}

func (w *week) pay(t *tale, id *int64) func() told {
	return func() told {
		t.paid = true
		return told{"hk": must(w.shop.Pay(*id))}
	}
}

func (w *week) ship(id *int64) func() told {
	return func() told { return told{"hk": must(w.shop.Fulfill(*id, 0, "SF1"))} }
}

func (w *week) refund(t *tale, id *int64, amount, sum int64) func() told {
	return func() told {
		t.refunded = append(t.refunded, sum)
		return told{"hk": must(w.shop.Refund(*id, models.Decimal(amount, "HKD"), sandbox.RefundSucceeds))}
	}
}

// card is an order that is paid at Stripe, with which the shop agrees.
func (w *week) card(plot string) (t *tale, id *int64, intent *string) {
	t, id = w.order(plot, sandbox.ShopifyOrder{})
	intent = new(string)
	return t.then(1, func() told {
		t.paid = true
		in, ns := w.stripe.CreateIntent(10000, "hkd", sandbox.StripeIntent{Metadata: map[string]string{"order_id": fmt.Sprint(*id)}})
		*intent = in
		return told{"pay": append(ns, must(w.stripe.Succeed(in))...), "hk": must(w.shop.Pay(*id))}
	}), id, intent
}

func (w *week) slip(plot string) (t *tale, id *string) {
	t, id = &tale{life: &life{plot: plot, receipt: true}}, new(string)
	return t.then(0, func() told {
		r, n := w.receipt.Issue(sandbox.Receipt{Lines: []sandbox.ReceiptLine{{Product: "tea", Price: 76, Quantity: 1}}})
		t.paid, t.ref, *id = true, r.Path(), r.ID
		return told{"till": {n}}
	}), id
}

// plots are what happens in a week.
func (w *week) plots() []func() *tale {
	const cod = "Cash on Delivery (COD)"
	of := func(plot string, o sandbox.ShopifyOrder, go_on func(t *tale, id *int64) *tale) func() *tale {
		return func() *tale { return go_on(w.order(plot, o)) }
	}
	return []func() *tale{
		of("paid and shipped", sandbox.ShopifyOrder{}, func(t *tale, id *int64) *tale { return t.then(1, w.pay(t, id)).then(4, w.ship(id)) }),
		of("paid, not shipped", sandbox.ShopifyOrder{}, func(t *tale, id *int64) *tale { return t.then(1, w.pay(t, id)) }),
		of("never paid", sandbox.ShopifyOrder{Gateway: "manual"}, func(t *tale, _ *int64) *tale { return t }),
		of("shipped, then paid", sandbox.ShopifyOrder{Gateway: "manual"}, func(t *tale, id *int64) *tale {
			t.goneWhenMoney = true
			return t.then(2, w.ship(id)).then(9, w.pay(t, id))
		}),
		of("deposit and rest", sandbox.ShopifyOrder{Gateway: "manual"}, func(t *tale, id *int64) *tale {
			return t.then(1, func() told { return told{"hk": must(w.shop.PayPartly(*id, "30.00"))} }).then(5, w.pay(t, id))
		}),
		of("authorised and captured", sandbox.ShopifyOrder{}, func(t *tale, id *int64) *tale {
			return t.then(1, func() told { return told{"hk": must(w.shop.Authorize(*id))} }).then(7, w.pay(t, id)).then(1, w.ship(id))
		}),
		of("authorised and let go", sandbox.ShopifyOrder{}, func(t *tale, id *int64) *tale {
			return t.then(1, func() told { return told{"hk": must(w.shop.Authorize(*id))} }).then(3, func() told { return told{"hk": must(w.shop.Void(*id))} })
		}),
		of("pay on delivery", sandbox.ShopifyOrder{Gateway: cod}, func(t *tale, id *int64) *tale { return t.then(4, w.ship(id)).then(10, w.pay(t, id)) }),
		of("pay on delivery, on its way", sandbox.ShopifyOrder{Gateway: cod}, func(t *tale, id *int64) *tale { return t.then(4, w.ship(id)) }),
		of("cancelled before it was paid", sandbox.ShopifyOrder{Gateway: "manual"}, func(t *tale, id *int64) *tale {
			return t.then(6, func() told { return told{"hk": must(w.shop.Cancel(*id, "CUSTOMER"))} })
		}),
		of("cancelled and refunded", sandbox.ShopifyOrder{}, func(t *tale, id *int64) *tale {
			return t.then(1, w.pay(t, id)).then(3, func() told { return told{"hk": must(w.shop.Cancel(*id, "INVENTORY"))} }).then(1, w.refund(t, id, 10000, 10000))
		}),
		of("refunded twice", sandbox.ShopifyOrder{}, func(t *tale, id *int64) *tale {
			return t.then(1, w.pay(t, id)).then(3, w.ship(id)).then(5, w.refund(t, id, 2000, 2000)).then(5, w.refund(t, id, 1500, 3500))
		}),
		of("bought in the shop", sandbox.ShopifyOrder{Source: "pos"}, func(t *tale, id *int64) *tale { return t.then(0, w.pay(t, id)).then(0, w.ship(id)) }),
		of("a trial", sandbox.ShopifyOrder{Test: true}, func(t *tale, id *int64) *tale { return t.then(1, w.pay(t, id)) }),
		func() *tale { t, id, _ := w.card("card"); return t.then(5, w.ship(id)) },
		func() *tale {
			t, _, _ := w.card("card and a second intent that nobody used")
			return t.then(1, func() told {
				spare, ns := w.stripe.CreateIntent(10000, "hkd", sandbox.StripeIntent{Metadata: map[string]string{"order_id": strings.TrimPrefix(t.ref, gid(0)[:len(gid(0))-1])}})
				return told{"pay": append(ns, must(w.stripe.CancelIntent(spare))...)}
			})
		},
		func() *tale {
			t, id, intent := w.card("refund told by both")
			return t.then(4, func() told {
				_, ns, err := w.stripe.Refund(*intent, 2000, "succeeded")
				both := w.refund(t, id, 2000, 2000)()
				both["pay"] = must(ns, err)
				return both
			})
		},
		func() *tale { t, _ := w.slip("receipt"); return t },
		func() *tale {
			t, id := w.slip("receipt and its return")
			return t.then(8, func() told {
				_, n, err := w.receipt.Return(*id) // a receipt of its own, of which a person decides
				return told{"till": must([]sandbox.Notification{n}, err)}
			})
		},
	}
}

// A week of traffic without destinations: nothing goes out, and the list of what would
// have been sent is what the platforms' truth says.
func TestAWeekWithoutDestinations(t *testing.T) {
	t.Parallel()
	r := startTwo(t).withShopify(nil).withStripe("hk", nil).withReceipts(true)
	s := newSink(t)
	for _, shop := range []string{"hk", "till"} {
		r.live(shop, s, true, models.ActionKinds...)
		for _, kind := range models.ActionKinds {
			if code := Main([]string{"destination", "set", "--database-url", r.dsn, "--key", r.key, "--shop", shop, "--kind", string(kind), "--watch"}, strings.NewReader(""), t.Output(), t.Output()); code != 0 {
				t.Fatalf("--watch exits with %d", code)
			}
		}
	}
	const ticks, tick = 84, 2 * time.Hour
	w := &week{rig: r, rng: rand.New(rand.NewPCG(7, 11))}
	plots := w.plots()
	starts := make([]int, 0, 2*ticks)
	for len(starts) < cap(starts) { // each plot some times, and room for its end
		starts = append(starts, w.rng.IntN(ticks-30))
	}
	var tales []*tale
	for i, at := range starts {
		tl := plots[i%len(plots)]()
		tl.next = at
		tales = append(tales, tl)
	}
	sent := 0
	for now := range ticks {
		for _, tl := range tales {
			if tl.next != now || len(tl.acts) == 0 {
				continue
			}
			for again := true; again; again = len(tl.acts) > 0 && tl.after[0] == 0 {
				all := tl.acts[0]()
				tl.acts, tl.after = tl.acts[1:], tl.after[1:]
				for _, slug := range slices.Sorted(maps.Keys(all)) {
					for _, n := range all[slug] {
						for range 1 + w.rng.IntN(2) {
							r.postAll(slug, n)
							sent++
						}
					}
				}
				if len(tl.acts) > 0 && tl.after[0] == 0 {
					r.settled() // the next act comes at once, but not before this one was read
				}
			}
			if len(tl.acts) > 0 {
				tl.next = now + tl.after[0]
			}
		}
		r.settled()
		r.clock.forward(tick)
	}
	r.settled()

	owed := map[string]string{}
	known := map[string]bool{}
	for _, tl := range tales {
		if len(tl.acts) > 0 {
			t.Fatalf("%s isn't told to its end", tl.plot)
		}
		for _, name := range tl.owed() {
			owed[tl.ref+" "+name] = tl.plot
		}
		known[tl.ref] = true
	}
	for _, id := range w.shop.Orders() {
		if !known[gid(id)] {
			t.Errorf("the shop has an order %d of which no tale tells", id)
		}
	}
	listed, pages := map[string]int{}, 0
	for cursor := ""; pages == 0 || cursor != ""; pages++ {
		var list struct {
			Items []struct {
				Kind, Stage, State string
				OrderID            string `json:"order_id"`
				Tries              int
			}
			Next string
		}
		if code := r.call(http.MethodGet, "/api/v1/actions?state=watched&limit=40&cursor="+cursor, &list); code != http.StatusOK {
			t.Fatalf("actions answered %d", code)
		}
		for _, a := range list.Items {
			var ref string
			r.scan(&ref, `SELECT platform_ref FROM orders WHERE id = $1::bigint`, a.OrderID)
			listed[ref+" "+a.Kind+"/"+a.Stage]++
			if a.State != "watched" || a.Tries != 0 {
				t.Errorf("%s of %s is %s after %d tries", a.Kind, ref, a.State, a.Tries)
			}
		}
		cursor = list.Next
	}
	for what, plot := range owed {
		if listed[what] != 1 {
			ref, _, _ := strings.Cut(what, " ")
			o, _ := r.order(ref)
			t.Errorf("%s (%s) is listed %d times: %s, %+v, %+v", what, plot, listed[what], o.states(), o.Ledger, o.Actions)
		}
	}
	for what := range listed {
		if _, ok := owed[what]; !ok {
			t.Errorf("%s is listed and wouldn't be sent", what)
		}
	}
	var other, tried int
	r.scan(&other, `SELECT count(*) FROM actions WHERE state NOT IN ('watched', 'not_needed')`)
	r.scan(&tried, `SELECT count(*) FROM actions WHERE tries > 0 OR sent_at IS NOT NULL OR body IS NOT NULL OR due_at IS NOT NULL`)
	if other != 0 || tried != 0 || s.count() != 0 {
		t.Errorf("%d calls out, %d actions in other states, %d claimed or due", s.count(), other, tried)
	}
	t.Logf("%d orders, %d deliveries, %d would have been sent on %d pages", len(tales), sent, len(listed), pages)
}
