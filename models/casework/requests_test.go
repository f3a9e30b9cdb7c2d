package casework_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"counterfoil/models"
	"counterfoil/models/actions"
	"counterfoil/models/casework"
	"counterfoil/models/connect"
	"counterfoil/models/queue"
	"counterfoil/models/seal"
	"counterfoil/models/store"
)

var (
	second  = models.Actor{StaffID: 8, Name: "Lau", Role: models.Manager}
	third   = models.Actor{StaffID: 9, Name: "Yip", Role: models.Manager}
	foreign = models.Actor{StaffID: 10, Name: "Tai", Role: models.Manager}
)

// A desk is a floor with orders whose actions wait for people.
type desk struct {
	*floor
	*casework.Requests
	n int
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	f := newFloor(t)
	s := f.Holds.Store
	q, err := queue.New(s, nil, nil, false, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	book := connect.New(s, seal.Keys{}, nil, nil, func() time.Time { return f.now })
	carrier := actions.New(actions.Actions{Store: s, Book: book, Log: slog.New(slog.DiscardHandler)})
	foreign.Shops = []int64{f.shops[1]}
	return &desk{floor: f, Requests: &casework.Requests{Store: s, Queue: q, Actions: carrier, Log: slog.New(slog.DiscardHandler)}}
}

func (d *desk) inTx(do func(tx *store.Tx) error) {
	d.t.Helper()
	if err := d.Requests.Store.Tx(d.t.Context(), do); err != nil {
		d.t.Fatal(err)
	}
}

// sql runs a statement that has to work.
func (d *desk) sql(query string, args ...any) {
	d.t.Helper()
	if _, err := d.Requests.Store.SQL().ExecContext(d.t.Context(), query, args...); err != nil {
		d.t.Fatal(query, err)
	}
}

func (d *desk) count(query string, args ...any) int {
	d.t.Helper()
	var n int
	if err := d.Requests.Store.SQL().QueryRowContext(d.t.Context(), query, args...).Scan(&n); err != nil {
		d.t.Fatal(query, err)
	}
	return n
}

// order makes a paid order of the first shop.
func (d *desk) order(total int64, currency string) int64 {
	d.t.Helper()
	d.n++
	ref := fmt.Sprintf("o-%d", d.n)
	var id int64
	d.inTx(func(tx *store.Tx) (err error) {
		ctx := d.t.Context()
		if id, err = tx.AnnounceOrder(ctx, models.Order{ShopID: d.shops[0], ConnectionID: d.conns[0], Platform: models.Shopify, Account: "hk", Ref: ref, Number: "#" + ref}); err != nil {
			return err
		}
		o, err := tx.LockOrder(ctx, id)
		if err != nil {
			return err
		}
		o.Announced, o.Store, o.Axes = false, true, map[models.Axis]models.AxisRecord{}
		o.Amounts = models.Amounts{Currency: currency, Total: total, Received: total}
		for _, axis := range models.Axes {
			state := models.Resting[axis]
			if axis == models.Payment {
				state = models.PaymentPaid
			}
			o.Axes[axis] = models.AxisRecord{State: state, Check: models.Verified, CheckedAt: tx.Now, Since: tx.Now, Connection: d.conns[0], Platform: models.Shopify}
			if _, err := tx.WriteEntry(ctx, id, models.Move{Axis: axis, To: state, After: o.Amounts}, models.Cause{Kind: models.CauseImport, ID: "1"}, "console"); err != nil {
				return err
			}
		}
		return tx.SaveOrder(ctx, o)
	})
	return id
}

// moves moves the dispute of an order.
func (d *desk) moves(order int64, from, to models.State) {
	d.t.Helper()
	d.inTx(func(tx *store.Tx) error {
		o, err := tx.LockOrder(d.t.Context(), order)
		if err != nil {
			return err
		}
		rec := o.Axes[models.Dispute]
		rec.State = to
		o.Axes[models.Dispute] = rec
		if _, err := tx.WriteEntry(d.t.Context(), order, models.Move{Axis: models.Dispute, From: from, To: to, Before: o.Amounts, After: o.Amounts}, models.Cause{Kind: models.CauseResync, ID: "1"}, "console"); err != nil {
			return err
		}
		return tx.SaveOrder(d.t.Context(), o)
	})
}

// action makes an action of an order: an instruction that waits for people, or what it is changed to.
func (d *desk) action(order int64, kind models.ActionKind, stage, state string) int64 {
	d.t.Helper()
	var id int64
	err := d.Requests.Store.SQL().QueryRowContext(d.t.Context(), `INSERT INTO actions (order_id, shop_id, kind, stage, state, official, person, planned_at)
		SELECT id, shop_id, $2, $3, $4, true, true, now() FROM orders WHERE id = $1 RETURNING id`, order, kind, stage, state).Scan(&id)
	if err != nil {
		d.t.Fatal(err)
	}
	return id
}

// ask is a request of a kind about a fresh order.
func (d *desk) ask(kind models.RequestKind, total int64, currency string) (casework.Ask, int64) {
	d.t.Helper()
	order := d.order(total, currency)
	a := casework.Ask{Kind: kind, Reason: "the customer called", Code: "lost_parcel"}
	switch kind {
	case models.RequestRelease:
		a.Action = d.action(order, models.FulfillmentInstruction, "order", "waiting")
	case models.RequestAgain:
		a.Action = d.action(order, models.CustomerMessage, "payment_received", "done")
	default:
		d.action(order, models.FulfillmentInstruction, "order", "done")
		a.Order = order
	}
	return a, order
}

func (d *desk) propose(actor models.Actor, a casework.Ask) models.Request {
	d.t.Helper()
	q, err := d.Propose(d.t.Context(), actor, a)
	if err != nil {
		d.t.Fatal(err)
	}
	return q
}

// why is the sentence of an error.
func why(err error) string {
	if err == nil {
		return "ok"
	}
	_, key, _ := strings.Cut(err.Error(), "error.")
	return key
}

func TestWhoAsksAndWhoDecides(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	approving := models.Actor{StaffID: 4, TokenID: 11, Name: "Ng", Role: models.Manager, Scopes: []models.Scope{models.ScopeApprove, models.ScopeWrite}}
	robot := models.Actor{TokenID: 7, Name: "Robot", Role: models.Service, Scopes: models.Scopes}
	people := map[string]models.Actor{"support": support, "other": other, "lead": lead, "manager": manager, "second": second, "admin": admin, "auditor": auditor, "robot": robot, "token of manager": approving}
	may := map[string]bool{"support": true, "other": true, "lead": true, "manager": true, "second": true, "token of manager": true}
	amounts := map[string]struct {
		total    int64
		currency string
		lead     bool // decides it
		two      bool // managers
	}{
		"small":   {1_000_00, "HKD", true, false},
		"large":   {20_000_00, "HKD", false, false},
		"huge":    {20_000_01, "HKD", false, true},
		"foreign": {1, "USD", false, true},
	}
	for _, kind := range []models.RequestKind{models.RequestRelease, models.RequestReplacement, models.RequestAgain} {
		for size, m := range amounts {
			for who, proposer := range people {
				a, _ := d.ask(kind, m.total, m.currency)
				q, err := d.Propose(t.Context(), proposer, a)
				if (err == nil) != may[who] {
					t.Errorf("%s asks for %s: %v", who, kind, err)
				}
				if err != nil {
					if models.CodeOf(err) != models.Forbidden {
						t.Errorf("%s asks for %s: %v", who, kind, err)
					}
					continue
				}
				if size != "small" && who != "support" && who != "manager" {
					continue // the deciders are the same for every proposer
				}
				for whom, decider := range people {
					stake, err := d.Stake(t.Context(), decider, q)
					if err != nil {
						t.Fatal(err)
					}
					stake.Shift = 0 // this test's lead approves more than a shift's worth
					ok := (decider.Role == models.Manager || whom == "lead" && (m.lead || kind == models.RequestAgain)) && decider.ID() != proposer.ID()
					if got, _ := decider.MayDecide(q, stake); got != ok {
						t.Errorf("%s may decide %s %s of %s: %t", whom, size, kind, who, got)
					}
					if !ok && decider.ID() != "staff:3" {
						if _, err := d.Decide(t.Context(), decider, q.ID, true, ""); models.CodeOf(err) != models.Forbidden {
							t.Errorf("%s decides %s %s of %s: %v", whom, size, kind, who, err)
						}
					}
				}
				first, last := second, third
				after, err := d.Decide(t.Context(), first, q.ID, true, "")
				if who == "second" {
					first = manager
					after, err = d.Decide(t.Context(), first, q.ID, true, "")
				}
				if err != nil {
					t.Errorf("%s %s of %s: %v", size, kind, who, err)
					continue
				}
				if m.two && kind != models.RequestAgain && who == "support" {
					if after.State != models.RequestProposed || after.Needs != 2 || len(after.Approvals) != 1 {
						t.Errorf("%s %s with one of two: %+v", size, kind, after)
					}
					if _, err := d.Decide(t.Context(), first, q.ID, true, ""); why(err) != "approved_already" {
						t.Errorf("approved twice: %v", err)
					}
					if after, err = d.Decide(t.Context(), last, q.ID, true, ""); err != nil {
						t.Error(err)
					}
				}
				if after.State != models.RequestApplied || after.Made == 0 || after.DecidedBy == "" || len(after.Approvals) != after.Needs {
					t.Errorf("%s %s of %s: %+v", size, kind, who, after)
				}
				made, err := d.Requests.Store.Action(t.Context(), after.Made)
				if err != nil || made.Request != q.ID || made.Released.IsZero() {
					t.Errorf("%+v %v", made, err)
				}
				if _, err := d.Decide(t.Context(), third, q.ID, true, ""); why(err) != "request_decided" {
					t.Errorf("decided again: %v", err)
				}
			}
		}
	}
	if n := d.count(`SELECT count(*) FROM audit WHERE before LIKE '%called%' OR after LIKE '%called%'`); n != 0 {
		t.Errorf("%d audit rows hold what people typed", n)
	}
	if n := d.count(`SELECT count(*) FROM requests r WHERE (SELECT count(*) FROM audit a WHERE a.subject = 'request:' || r.id AND a.verb = 'request.propose') <> 1`); n != 0 {
		t.Errorf("%d requests weren't audited once", n)
	}
}

func TestWhatSomebodyDoesNotSee(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	a, _ := d.ask(models.RequestRelease, 100, "HKD")
	r, _ := d.ask(models.RequestReplacement, 100, "HKD")
	q := d.propose(support, a)
	_, proposed := d.Propose(t.Context(), foreign, r)
	_, released := d.Propose(t.Context(), foreign, a)
	_, decided := d.Decide(t.Context(), foreign, q.ID, true, "")
	_, found := d.Find(t.Context(), foreign, q.ID)
	_, retried := d.Retry(t.Context(), foreign, a.Action, "again")
	for _, err := range []error{proposed, released, decided, found, retried, d.Withdraw(t.Context(), foreign, q.ID)} {
		if models.CodeOf(err) != models.NotFound {
			t.Errorf("%v", err)
		}
	}
	page, err := d.List(t.Context(), models.RequestQuery{Shops: foreign.Shops})
	if err != nil || len(page.Items) != 0 {
		t.Errorf("%+v %v", page, err)
	}
}

func TestWhatIsAskedFor(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	a, order := d.ask(models.RequestRelease, 100, "HKD")
	for _, reason := range []string{"", " ", strings.Repeat("x", 501), "two\nlines", "a\x00b", "\xff"} {
		bad := a
		bad.Reason = reason
		if _, err := d.Propose(t.Context(), support, bad); code(err) != "invalid reason" {
			t.Errorf("%q: %v", reason, err)
		}
	}
	bad := a
	bad.Code = "because"
	if _, err := d.Propose(t.Context(), support, bad); code(err) != "invalid code" {
		t.Error(err)
	}
	a.Reason, a.Code = strings.Repeat("字", 500), ""
	q := d.propose(support, a)
	if q.Code != "other" || q.Subject != fmt.Sprintf("action:%d", a.Action) || q.OrderID != order || !q.Expires.Equal(d.now.Add(4*time.Hour)) || q.Needs != 1 {
		t.Errorf("%+v", q)
	}
	_, err := d.Propose(t.Context(), other, a)
	if e, ok := err.(*models.Error); !ok || e.Key != "error.request_open" || e.Args[0] != "Wing" {
		t.Errorf("asked for twice: %v", err)
	}
	if _, err := d.Decide(t.Context(), manager, q.ID, false, ""); code(err) != "invalid note" {
		t.Errorf("rejected without a word: %v", err)
	}
	if err := d.Withdraw(t.Context(), other, q.ID); why(err) != "not_your_request" {
		t.Error(err)
	}
	after, err := d.Decide(t.Context(), lead, q.ID, false, "call them first")
	if err != nil || after.State != models.RequestRejected || after.Note != "call them first" || after.DecidedBy != "staff:3" {
		t.Errorf("%+v %v", after, err)
	}
	q = d.propose(other, a) // what was refused may be asked for again
	if err := d.Withdraw(t.Context(), other, q.ID); err != nil {
		t.Error(err)
	}
	if _, err := d.Decide(t.Context(), manager, q.ID, true, ""); why(err) != "request_decided" {
		t.Errorf("decided when it was taken back: %v", err)
	}
	page, err := d.List(t.Context(), models.RequestQuery{Order: order, Kind: models.RequestRelease, Action: a.Action, Limit: 1})
	if err != nil || len(page.Items) != 1 || page.Items[0].ID != q.ID || page.Next == "" {
		t.Errorf("%+v %v", page, err)
	}
	if page, err = d.List(t.Context(), models.RequestQuery{Cursor: page.Next, State: models.RequestRejected}); err != nil || len(page.Items) != 1 || page.Next != "" {
		t.Errorf("%+v %v", page, err)
	}
}

func TestWhatCannotBeAskedFor(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	order := d.order(100, "HKD")
	plain := d.action(order, models.FulfillmentInstruction, "order", "waiting")
	d.sql(`UPDATE actions SET person = false WHERE id = $1`, plain)
	invoice := d.action(order, models.Invoice, "order", "done")
	unsent := d.action(order, models.CustomerMessage, "payment_received", "waiting")
	d.sql(`UPDATE connections SET api_state = 'down'`)
	for want, a := range map[string]casework.Ask{
		"only_facts":          {Kind: models.RequestRelease, Action: plain},
		"nothing_to_replace":  {Kind: models.RequestReplacement, Order: order},
		"message_not_sent":    {Kind: models.RequestAgain, Action: unsent},
		"action_unknown":      {Kind: models.RequestRelease, Action: 999},
		"order_unknown":       {Kind: models.RequestReplacement, Order: 999},
		"action_not_waiting":  {Kind: models.RequestRelease, Action: invoice},
		"invalid only":        {Kind: models.RequestAgain, Action: invoice},
		"invalid kind":        {Kind: models.RequestLive, Order: order},
		"invalid instruction": {Kind: models.RequestReplacement, Action: invoice},
	} {
		a.Reason = "because"
		_, err := d.Propose(t.Context(), manager, a)
		if kind, _, field := strings.Cut(want, " "); field && code(err) != "invalid kind" && code(err) != "invalid action" || !field && why(err) != kind {
			t.Errorf("%s: %v", want, err)
		}
	}
	d.moves(order, models.DisputeNone, models.DisputeOpen)
	d.sql(`UPDATE actions SET state = 'withdrawn' WHERE id = $1`, plain)
	for _, a := range []casework.Ask{{Kind: models.RequestRelease, Action: plain}, {Kind: models.RequestReplacement, Order: order}} {
		a.Reason = "because"
		if _, err := d.Propose(t.Context(), manager, a); why(err) != "still_ended.dispute" {
			t.Errorf("%s of a disputed order: %v", a.Kind, err)
		}
	}
	d.moves(order, models.DisputeOpen, models.DisputeWon)
	q := d.propose(manager, casework.Ask{Kind: models.RequestRelease, Action: plain, Reason: "won"})
	if _, err := d.Decide(t.Context(), second, q.ID, true, ""); err != nil {
		t.Error(err)
	}
	if a, _ := d.Requests.Store.Action(t.Context(), plain); a.State != models.ActionPlanned || a.ID != plain {
		t.Errorf("%+v", a)
	}
}

func TestARequestOfAnOrderThatMovedIsStale(t *testing.T) {
	t.Parallel()
	for name, move := range map[string]func(d *desk, order, action int64){
		"its ledger":          func(d *desk, order, _ int64) { d.moves(order, models.DisputeNone, models.DisputeWon) },
		"its action was sent": func(d *desk, _, action int64) { d.sql(`UPDATE actions SET state = 'done' WHERE id = $1`, action) },
		"a case": func(d *desk, order, _ int64) {
			d.inTx(func(tx *store.Tx) error {
				return tx.OpenCase(d.t.Context(), store.Case{ConnectionID: d.conns[0], Subject: fmt.Sprintf("order:%d", order), OrderID: order, Problem: models.Problem{Kind: models.SchemaChanged}})
			})
		},
		"it became part of another order": func(d *desk, order, action int64) {
			into := d.order(500, "HKD")
			d.sql(`UPDATE orders SET merged_into = $2 WHERE id = $1`, order, into)
			d.sql(`UPDATE actions SET order_id = $2 WHERE id = $1`, action, into)
		},
		"it became part of another order, and its action isn't needed": func(d *desk, order, action int64) {
			into := d.order(500, "HKD")
			instead := d.action(into, models.FulfillmentInstruction, "order", "done")
			d.sql(`UPDATE orders SET merged_into = $2 WHERE id = $1`, order, into)
			d.sql(`UPDATE actions SET state = 'not_needed', why = 'merged', instead_id = $2 WHERE id = $1`, action, instead)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			a, order := d.ask(models.RequestRelease, 100, "HKD")
			q := d.propose(support, a)
			move(d, order, a.Action)
			got, err := d.Decide(t.Context(), manager, q.ID, true, "")
			if why(err) != "request_stale" || models.CodeOf(err) != models.Conflict || got.State != models.RequestStale {
				t.Fatalf("%+v %v", got, err)
			}
			kept, err := d.Find(t.Context(), manager, q.ID)
			if err != nil || kept.State != models.RequestStale || kept.Made != 0 || len(kept.Approvals) != 0 {
				t.Errorf("%+v %v", kept, err)
			}
			if n := d.count(`SELECT count(*) FROM actions WHERE released_at IS NOT NULL`); n != 0 {
				t.Error("it was released")
			}
			if n := d.count(`SELECT count(*) FROM audit WHERE verb = 'request.stale'`); n != 1 {
				t.Errorf("%d audit rows", n)
			}
		})
	}
}

func TestNobodyDecidedInTime(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	a, _ := d.ask(models.RequestRelease, 100, "HKD")
	m, _ := d.ask(models.RequestAgain, 100, "HKD")
	risky, message := d.propose(support, a), d.propose(support, m)
	d.now = d.now.Add(4*time.Hour - time.Second)
	if err := d.Expire(t.Context()); err != nil || d.count(`SELECT count(*) FROM requests WHERE state = 'expired'`) != 0 {
		t.Fatal("too early", err)
	}
	d.now = d.now.Add(time.Second)
	if got, err := d.Decide(t.Context(), manager, risky.ID, true, ""); why(err) != "request_expired" || got.State != models.RequestExpired {
		t.Errorf("decided too late: %+v %v", got, err)
	}
	// What is out of time is in nobody's way, even before it was noticed.
	risky = d.propose(other, a)
	d.now = d.now.Add(4 * time.Hour)
	again := d.propose(support, a)
	if err := d.Expire(t.Context()); err != nil {
		t.Fatal(err)
	}
	for id, want := range map[int64]models.RequestState{risky.ID: models.RequestExpired, again.ID: models.RequestProposed, message.ID: models.RequestProposed} {
		if q, _ := d.Find(t.Context(), manager, id); q.State != want {
			t.Errorf("request %d is %s, want %s", id, q.State, want)
		}
	}
	d.now = d.now.Add(24 * time.Hour)
	if err := d.Expire(t.Context()); err != nil || d.count(`SELECT count(*) FROM requests WHERE state = 'expired'`) != 4 {
		t.Error("not all are expired", err)
	}
}

func TestWhatALeadApprovesInAShift(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	approve := func() error {
		a, _ := d.ask(models.RequestReplacement, 1_000_00, "HKD")
		q := d.propose(support, a)
		_, err := d.Decide(t.Context(), lead, q.ID, true, "")
		return err
	}
	for i := range 10 {
		if err := approve(); err != nil {
			t.Fatalf("%d: %v", i, err)
		}
	}
	if err := approve(); why(err) != "over_lead_shift" {
		t.Errorf("the eleventh: %v", err)
	}
	a, _ := d.ask(models.RequestRelease, 4_000_00, "TWD")
	q := d.propose(support, a)
	if _, err := d.Decide(t.Context(), lead, q.ID, true, ""); err != nil {
		t.Errorf("another currency: %v", err)
	}
	d.now = d.now.Add(12 * time.Hour)
	if err := approve(); err != nil {
		t.Errorf("the next shift: %v", err)
	}
}

func TestMessagesOnceMore(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	a, order := d.ask(models.RequestAgain, 100_000_00, "HKD")
	var made models.Action
	for n := 1; n <= 2; n++ {
		q := d.propose(support, a)
		after, err := d.Decide(t.Context(), lead, q.ID, true, "")
		if err != nil {
			t.Fatal(err)
		}
		if made, err = d.Requests.Store.Action(t.Context(), after.Made); err != nil || made.Stage != fmt.Sprintf("again:%d", n) || made.Repeats != a.Action || made.State != models.ActionWatched {
			t.Errorf("%+v %v", made, err)
		}
	}
	if _, err := d.Propose(t.Context(), other, a); why(err) != "again_limit" {
		t.Errorf("a third time in a day: %v", err)
	}
	if _, err := d.Propose(t.Context(), lead, a); err != nil {
		t.Errorf("by a lead: %v", err)
	}
	d.sql(`UPDATE requests SET state = 'withdrawn' WHERE state = 'proposed'`)
	d.now = d.now.Add(25 * time.Hour)
	// What repeats a repetition repeats the message.
	d.sql(`UPDATE actions SET state = 'done' WHERE id = $1`, made.ID)
	q := d.propose(support, casework.Ask{Kind: models.RequestAgain, Action: made.ID, Reason: "still nothing"})
	after, err := d.Decide(t.Context(), manager, q.ID, true, "")
	if err != nil {
		t.Fatal(err)
	}
	if made, err = d.Requests.Store.Action(t.Context(), after.Made); err != nil || made.Stage != "again:3" || made.Repeats != a.Action || made.OrderID != order {
		t.Errorf("%+v %v", made, err)
	}
}

func TestTwoDecideAtOnce(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	for round := range 5 {
		a, order := d.ask(models.RequestReplacement, 100, "HKD")
		q := d.propose(support, a)
		errs := make([]error, 6)
		var wg sync.WaitGroup
		for i := range errs {
			wg.Go(func() {
				_, errs[i] = d.Decide(context.WithoutCancel(t.Context()), []models.Actor{manager, second, third}[i%3], q.ID, i < 4, "note")
			})
		}
		wg.Wait()
		worked := 0
		for _, err := range errs {
			if err == nil {
				worked++
			} else if models.CodeOf(err) != models.Conflict {
				t.Error(err)
			}
		}
		after, err := d.Find(t.Context(), manager, q.ID)
		made := d.count(`SELECT count(*) FROM actions WHERE order_id = $1 AND stage LIKE 'replacement:%'`, order)
		if err != nil || worked != 1 || made != 0 && after.State != models.RequestApplied || made != 1 && after.State == models.RequestApplied {
			t.Errorf("round %d: %d decided, %d made, %+v %v", round, worked, made, after, err)
		}
	}
}

func TestTwoAskAtOnce(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	a, _ := d.ask(models.RequestRelease, 100, "HKD")
	errs := make([]error, 6)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() {
			_, errs[i] = d.Propose(context.WithoutCancel(t.Context()), []models.Actor{support, other}[i%2], a)
		})
	}
	wg.Wait()
	worked := 0
	for _, err := range errs {
		if err == nil {
			worked++
		} else if why(err) != "request_open" {
			t.Error(err)
		}
	}
	if worked != 1 || d.count(`SELECT count(*) FROM requests`) != 1 {
		t.Errorf("%d asked", worked)
	}
}

func TestTryingAgain(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	order := d.order(100, "HKD")
	failed := d.action(order, models.FulfillmentInstruction, "order", "failed")
	d.sql(`UPDATE actions SET tries = 30, body = 'x', error = '422' WHERE id = $1`, failed)
	for _, actor := range []models.Actor{support, admin, auditor, service} {
		if _, err := d.Retry(t.Context(), actor, failed, "mended"); models.CodeOf(err) != models.Forbidden {
			t.Errorf("%s: %v", actor.Role, err)
		}
	}
	if _, err := d.Retry(t.Context(), lead, failed, ""); code(err) != "invalid reason" {
		t.Error(err)
	}
	after, err := d.Retry(t.Context(), lead, failed, "mended")
	if err != nil || after.State != models.ActionWaiting || after.Tries != 30 || after.Round != 30 || after.RetryReason != "mended" || after.RetriedBy != lead.Name {
		t.Fatalf("%+v %v", after, err)
	}
	if _, err := d.Retry(t.Context(), manager, failed, "mended"); why(err) != "action_not_failed" {
		t.Error(err)
	}
	// What didn't happen, as somebody reported, and can't be taken back: two people.
	d.sql(`UPDATE actions SET state = 'failed', error = $2 WHERE id = $1`, failed, models.ReportedFailed)
	if _, err := d.Retry(t.Context(), manager, failed, "mended"); why(err) != "release_instead" {
		t.Error(err)
	}
	q := d.propose(support, casework.Ask{Kind: models.RequestRelease, Action: failed, Reason: "nothing left the house"})
	if _, err := d.Decide(t.Context(), manager, q.ID, true, ""); err != nil {
		t.Fatal(err)
	}
	if after, err = d.Requests.Store.Action(t.Context(), failed); err != nil || after.State != models.ActionWaiting || after.Round != 30 {
		t.Errorf("%+v %v", after, err)
	}
	message := d.action(order, models.CustomerMessage, "payment_received", "failed")
	d.sql(`UPDATE actions SET error = $2 WHERE id = $1`, message, models.ReportedFailed)
	if _, err := d.Retry(t.Context(), manager, message, "mended"); err != nil {
		t.Errorf("a message that didn't happen: %v", err)
	}
	if n := d.count(`SELECT count(*) FROM audit WHERE verb = 'action.retry' AND after NOT LIKE '%mended%'`); n != 2 {
		t.Errorf("%d audit rows", n)
	}
}
