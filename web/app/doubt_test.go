package app

import (
	"fmt"
	"net/http"
	"testing"

	"counterfoil/models"
	"counterfoil/models/actions"
	"counterfoil/models/platform/sandbox"
)

// dueNow has what waits looked at again at once.
func (r *rig) dueNow() {
	r.t.Helper()
	r.exec(`UPDATE actions SET due_at = now() WHERE due_at IS NOT NULL`)
}

// A try that may have had its effect is remembered, whatever the tries after it say:
// nobody else gets the action, nobody is asked to do it, and nothing calls it back.
func TestDoubtStaysWithItsDestination(t *testing.T) {
	t.Parallel()
	for what, change := range map[string]func(r *rig, order int64, a, b *sink){
		"another address":      func(r *rig, _ int64, _, b *sink) { r.live("hk", b, true, models.FulfillmentInstruction) },
		"no longer idempotent": func(r *rig, _ int64, a, _ *sink) { r.live("hk", a, false, models.FulfillmentInstruction) },
		"by hand": func(r *rig, _ int64, _, _ *sink) {
			r.destination(actions.Setup{Shop: "hk", Kind: models.FulfillmentInstruction, Mode: models.ByHand})
		},
		"watched": func(r *rig, _ int64, _, _ *sink) {
			r.destination(actions.Setup{Shop: "hk", Kind: models.FulfillmentInstruction, Mode: models.Watch})
		},
		"cancelled": func(r *rig, order int64, _, _ *sink) {
			r.postAll("hk", must(r.shop.Cancel(order, "customer"))...)
			r.settled()
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			r := start(t).withShopify(nil)
			a, b := newSink(t), newSink(t)
			a.answer = func(w http.ResponseWriter, _ call, nth int) {
				if nth == 1 {
					w.WriteHeader(http.StatusInternalServerError)
					return
				}
				w.Header().Set("Retry-After", "600")
				w.WriteHeader(http.StatusTooManyRequests)
			}
			r.live("hk", a, true, models.FulfillmentInstruction)
			order := r.paid()
			r.wait("the second answer is stored", func() bool {
				var n int
				r.scan(&n, `SELECT count(*) FROM actions WHERE kind = 'fulfillment_instruction' AND tries = 2 AND error LIKE '429%'`)
				return n == 1
			})
			if i := r.instruction(); i.State != string(models.ActionSending) {
				t.Fatalf("after a fault and a busy answer it is %+v", i)
			}
			change(r, order, a, b)
			r.dueNow()
			r.becomes(models.ActionUnclear, "")
			if a.count() != 2 || b.count() != 0 {
				t.Errorf("%d calls here, %d there", a.count(), b.count())
			}
		})
	}
}

// What stands on a list of work stays there, wherever its kind goes meanwhile: somebody
// may be packing it.
func TestAListOfWorkStaysThere(t *testing.T) {
	t.Parallel()
	for _, mode := range []models.DestinationMode{models.ByHTTP, models.Watch} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			r := start(t).withShopify(nil)
			s := newSink(t)
			r.destination(actions.Setup{Shop: "hk", Kind: models.FulfillmentInstruction, Mode: models.ByHand})
			order := r.paid()
			id := r.becomes(models.ActionManual, "").ID
			if mode == models.ByHTTP {
				r.live("hk", s, false, models.FulfillmentInstruction)
			} else {
				r.destination(actions.Setup{Shop: "hk", Kind: models.FulfillmentInstruction, Mode: mode})
			}
			o, _ := r.order(gid(order))
			boss := r.person("boss", models.Manager)
			for _, do := range []string{"hold", "release"} {
				if code := boss.callWith(http.MethodPost, "/api/v1/orders/"+o.ID+"/"+do, `{"reason": "look"}`, nil); code != http.StatusOK {
					t.Fatalf("%s: %d", do, code)
				}
				if do == "hold" {
					r.dueNow()
					r.becomes(models.ActionWaiting, "no_hold")
				}
			}
			r.becomes(models.ActionManual, "")
			// Who had it in hand says that it didn't happen: from then on it goes as the others do.
			if code := boss.callWith(http.MethodPost, "/api/v1/actions/"+id+"/receipt", `{"outcome": "failed"}`, nil); code != http.StatusOK {
				t.Fatalf("reported: %d", code)
			}
			if s.count() != 0 {
				t.Errorf("%d calls", s.count())
			}
		})
	}
}

// Two orders become one at the moment at which the shell's instruction is answered: the
// answer is kept, and nothing is sent again.
func TestAnsweredWhileItsOrderIsMerged(t *testing.T) {
	t.Parallel()
	for _, idempotent := range []bool{true, false} {
		t.Run(fmt.Sprint(idempotent), func(t *testing.T) {
			t.Parallel()
			r := start(t).withShopify(nil).withStripe("hk", map[string]string{"creates_orders": "true"})
			s := newSink(t)
			id, ordered, err := r.shop.CreateOrder(sandbox.ShopifyOrder{Total: "100.00"})
			if err != nil {
				t.Fatal(err)
			}
			intent, paid := r.stripe.CreateIntent(10000, "hkd", sandbox.StripeIntent{Metadata: map[string]string{"order_id": fmt.Sprint(id)}})
			paid = append(paid, must(r.stripe.Succeed(intent))...)
			r.live("hk", s, idempotent, models.FulfillmentInstruction)
			r.exec(`CREATE FUNCTION slow() RETURNS trigger AS $$ BEGIN PERFORM pg_advisory_xact_lock(4711); RETURN NEW; END $$ LANGUAGE plpgsql`)
			r.exec(`CREATE TRIGGER slow BEFORE UPDATE OF merged_into ON orders FOR EACH ROW WHEN (NEW.merged_into IS NOT NULL) EXECUTE FUNCTION slow()`)
			s.answer = func(w http.ResponseWriter, _ call, nth int) {
				if nth > 1 {
					return
				}
				lock := r.lock(`SELECT pg_advisory_xact_lock(4711)`)
				r.postAll("hk", ordered...)
				r.wait("the merge is under way", func() bool { return r.blocked("merged_into") > 0 })
				fmt.Fprint(w, `{"receipt": "R-1"}`)
				if err := http.NewResponseController(w).Flush(); err != nil {
					t.Error(err)
				}
				go func() {
					r.wait("the result waits", func() bool { return r.blocked("FROM actions WHERE id") > 0 })
					if err := lock.Rollback(); err != nil {
						t.Error(err)
					}
				}()
			}
			r.postAll("pay", paid...)
			r.wait("the answer is stored", func() bool {
				var n int
				r.scan(&n, `SELECT count(*) FROM actions WHERE kind = 'fulfillment_instruction' AND state = 'done' AND receipt = 'R-1'`)
				return n == 1
			})
			r.settled()
			if s.count() != 1 || r.openCases() != "" {
				t.Errorf("%d calls, open %q", s.count(), r.openCases())
			}
		})
	}
}

// stalled claims an instruction with a process that stands still before its call, and
// has another one find the lease over.
func stalled(t *testing.T, idempotent bool, meanwhile func(c *child, order int64)) (*child, *sink) {
	t.Helper()
	c := startChild(t)
	c.people = &people{}
	other := c.sibling()
	c.withShopify(nil)
	s := newSink(t)
	c.live("hk", s, idempotent, models.FulfillmentInstruction)
	c.exec(`CREATE FUNCTION slow() RETURNS trigger AS $$ BEGIN PERFORM pg_advisory_xact_lock(4712); RETURN NULL; END $$ LANGUAGE plpgsql`)
	c.exec(`CREATE CONSTRAINT TRIGGER slow AFTER UPDATE OF state ON actions DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (NEW.state = 'sending' AND OLD.state <> 'sending') EXECUTE FUNCTION slow()`)
	lock := c.lock(`SELECT pg_advisory_xact_lock(4712)`)
	id, ns, err := c.shop.CreateOrder(sandbox.ShopifyOrder{Total: "100.00"})
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range append(ns, must(c.shop.Pay(id))...) {
		c.persist("hk", n)
	}
	c.wait("the claim commits", func() bool { return c.blocked("commit") > 0 })
	c.stop()
	if err := lock.Rollback(); err != nil {
		t.Fatal(err)
	}
	if err := other.launch(); err != nil {
		t.Fatal(err)
	}
	c.wait("it is claimed", func() bool { return c.instruction().State == string(models.ActionSending) })
	meanwhile(c, id)
	c.expire()
	c.becomes(models.ActionUnclear, "")
	return c, s
}

func TestStoppedBeforeItSends(t *testing.T) {
	t.Parallel()
	t.Run("sent again by people's decision", func(t *testing.T) {
		t.Parallel()
		c, s := stalled(t, false, func(*child, int64) {})
		id := c.instruction().ID
		if code := c.person("Ng", models.Manager).callWith(http.MethodPost, "/api/v1/actions/"+id+"/receipt", `{"outcome": "failed"}`, nil); code != http.StatusOK {
			t.Fatal(code)
		}
		c.released(id)
		c.becomes(models.ActionDone, "")
		c.resume()
		c.answersAgain()
		if s.count() != 1 {
			t.Errorf("%d calls at a destination that isn't idempotent", s.count())
		}
	})
	t.Run("cancelled", func(t *testing.T) {
		t.Parallel()
		c, s := stalled(t, true, func(c *child, order int64) {
			for _, n := range must(c.shop.Cancel(order, "customer")) {
				c.persist("hk", n)
			}
			c.settled()
		})
		c.resume()
		c.answersAgain()
		if s.count() != 0 {
			t.Errorf("%d calls for a cancelled order", s.count())
		}
	})
}

// answersAgain waits until a process that stood still has done what it had begun: its
// own work comes before what it is asked now.
func (c *child) answersAgain() {
	c.t.Helper()
	id, ns, err := c.shop.CreateOrder(sandbox.ShopifyOrder{Total: "1.00"})
	if err != nil {
		c.t.Fatal(err)
	}
	for _, n := range ns {
		c.persist("hk", n)
	}
	c.wait("a new order is there", func() bool { _, ok := c.order(gid(id)); return ok })
}
