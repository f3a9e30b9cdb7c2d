package app

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"counterfoil/models"
	"counterfoil/models/casework"
	"counterfoil/models/platform/sandbox"
	"counterfoil/models/staff"
)

// people are those who work at a rig, each made when first needed.
type people struct {
	mu  sync.Mutex
	all map[string]*rig
}

// person is somebody with a token that may do all that they may.
func (r *rig) person(name string, role models.Role) *rig {
	r.t.Helper()
	r.people.mu.Lock()
	defer r.people.mu.Unlock()
	if p, ok := r.people.all[name]; ok {
		return p
	}
	email := name + "@shop.example"
	if _, err := r.app.staff.AddAccount(context.Background(), commandLine, staff.NewAccount{Email: email, Name: name, Role: role, Password: "a-long-password"}); err != nil {
		r.t.Fatal(err)
	}
	p := r.holding(staff.NewToken{Name: name, User: email, Scopes: []models.Scope{models.ScopeRead, models.ScopeWrite, models.ScopeApprove}})
	if r.people.all == nil {
		r.people.all = map[string]*rig{}
	}
	r.people.all[name] = p
	return p
}

type seenRequest struct {
	ID, Kind, State, Reason, Code string
	Needs                         int
	MadeID                        *string `json:"made_id"`
	OrderID                       *string `json:"order_id"`
	ProposedBy                    string  `json:"proposed_by"`
	DecidedBy                     string  `json:"decided_by"`
	Approvals                     []struct{ By string }
}

// asks has support ask for the release, or the repetition, of an action.
func (r *rig) asks(what, action string) (int, seenRequest) {
	r.t.Helper()
	var q seenRequest
	code := r.person("Wing", models.Support).callWith(http.MethodPost, "/api/v1/actions/"+action+"/"+what, `{"reason": "the customer called", "code": "goodwill"}`, &q)
	return code, q
}

// approves has a manager approve a request.
func (r *rig) approves(id string) int {
	r.t.Helper()
	return r.person("Ng", models.Manager).callWith(http.MethodPost, "/api/v1/requests/"+id+"/approve", `{}`, nil)
}

// released has two people release an action.
func (r *rig) released(action string) {
	r.t.Helper()
	code, q := r.asks("release", action)
	if code != http.StatusCreated {
		r.t.Fatalf("asked for the release: %d %+v", code, q)
	}
	if code := r.approves(q.ID); code != http.StatusOK {
		r.t.Fatalf("approved: %d", code)
	}
}

// stage waits until the instruction of a stage is in a state.
func (r *rig) stage(stage string, state models.ActionState, why string) seenAction {
	r.t.Helper()
	var a seenAction
	r.wait(fmt.Sprintf("%s is %s %s", stage, state, why), func() bool {
		a = r.actions()[stage]
		return a.State == string(state) && (why == "" || a.Why == why)
	})
	return a
}

const more1, more2 = "fulfillment_instruction/more:1", "fulfillment_instruction/more:2"

// shipped is a paid order of three pieces whose instruction was sent.
func (r *rig) shippedOrder() (int64, *sink) {
	r.t.Helper()
	s := newSink(r.t)
	r.live("hk", s, true, models.FulfillmentInstruction)
	id := r.placed(sandbox.ShopifyOrder{Pieces: 3})
	r.postAll("hk", must(r.shop.Pay(id))...)
	r.becomes(models.ActionDone, "")
	r.settled()
	return id, s
}

func TestGoodsThatAnEditAddsWaitForTwoPeople(t *testing.T) {
	t.Parallel()
	r := start(t).withShopify(nil)
	id, s := r.shippedOrder()
	told := must(r.shop.Edit(id, "0.00", 2))
	told = append(told, must(r.shop.Touch(id))...)
	shuffled(map[string][]sandbox.Notification{"hk": told}, 20, func(slug string, n sandbox.Notification) {
		if got := r.post(slug, n); got != http.StatusOK {
			t.Errorf("%s answered %d", n.Topic, got)
		}
	})
	r.settled()
	a := r.stage(more1, models.ActionWaiting, "released")
	if a.Pieces != 2 || !a.Person || s.count() != 1 {
		t.Errorf("%+v, %d calls", a, s.count())
	}
	r.released(a.ID)
	r.stage(more1, models.ActionDone, "")
	if got := s.effects(); got != "fulfillment_instruction/more:1 1, fulfillment_instruction/order 1" || s.count() != 2 {
		t.Errorf("%d calls: %s", s.count(), got)
	}
	if body := s.calls[1].body; !strings.Contains(body, `"stage":"more:1"`) || !strings.Contains(body, `"pieces":2`) {
		t.Errorf("told %s", body)
	}
	if _, twice := r.actions()[more2]; twice {
		t.Error("it was planned twice")
	}
	// What comes after it left is another one.
	r.postAll("hk", must(r.shop.Edit(id, "0.00", 1))...)
	if a := r.stage(more2, models.ActionWaiting, "released"); a.Pieces != 1 {
		t.Errorf("%+v", a)
	}
	// The platform shows everything shipped: by its own staff.
	r.postAll("hk", must(r.shop.Fulfill(id, 0, "SF1"))...)
	r.stage(more2, models.ActionNotNeeded, "shipped_already")
}

func TestGoodsThatComeAndGoBeforeTheyAreReleased(t *testing.T) {
	t.Parallel()
	r := start(t).withShopify(nil)
	id, s := r.shippedOrder()
	edit := func(pieces int) {
		r.postAll("hk", must(r.shop.Edit(id, "0.00", pieces))...)
		r.settled()
	}
	pieces := func(want int) {
		t.Helper()
		r.wait(fmt.Sprintf("it is for %d", want), func() bool { a := r.actions()[more1]; return a.Pieces == want && a.Why == "released" })
	}
	edit(2)
	pieces(2)
	edit(1)
	pieces(3)
	edit(-2)
	pieces(1)
	// Somebody asked for the release of one piece: with two it is another thing.
	code, q := r.asks("release", r.actions()[more1].ID)
	if code != http.StatusCreated {
		t.Fatal(code)
	}
	edit(1)
	pieces(2)
	if code := r.approves(q.ID); code != http.StatusConflict {
		t.Errorf("approved although it is for more: %d", code)
	}
	edit(-2)
	r.stage(more1, models.ActionNotNeeded, "taken_out")
	edit(1)
	if a := r.stage(more2, models.ActionWaiting, "released"); a.Pieces != 1 || s.count() != 1 {
		t.Errorf("%+v, %d calls", a, s.count())
	}
}

func TestAnUnsentInstructionCoversWhatAnEditAdds(t *testing.T) {
	t.Parallel()
	r := start(t).withShopify(nil)
	s := newSink(t)
	r.live("hk", s, true, models.FulfillmentInstruction)
	id := r.pausedInstruction()
	r.postAll("hk", must(r.shop.Edit(id, "0.00", 2))...)
	r.settled()
	r.exec(`UPDATE holds SET released_at = now(), released_by = 'console'`)
	r.exec(`UPDATE actions SET due_at = now()`)
	r.becomes(models.ActionDone, "")
	if _, planned := r.actions()[more1]; planned || s.count() != 1 {
		t.Errorf("%d calls, %+v", s.count(), r.actions())
	}
}

func TestAParcelThatWasCalledBackIsShippedAgainByTwoPeople(t *testing.T) {
	t.Parallel()
	r := start(t).withShopify(nil)
	id, s := r.shippedOrder()
	r.postAll("hk", must(r.shop.Fulfill(id, 2, "SF1"))...)
	r.settled()
	if _, planned := r.actions()[more1]; planned {
		t.Error("a part that was shipped asks for more")
	}
	back := must(r.shop.CancelFulfillment(id))
	shuffled(map[string][]sandbox.Notification{"hk": back}, 12, func(slug string, n sandbox.Notification) { r.post(slug, n) })
	r.settled()
	a := r.stage(more1, models.ActionWaiting, "released")
	if a.Pieces != 2 {
		t.Errorf("%+v", a)
	}
	r.released(a.ID)
	r.stage(more1, models.ActionDone, "")
	if got := s.effects(); got != "fulfillment_instruction/more:1 1, fulfillment_instruction/order 1" {
		t.Error(got)
	}
}

func TestAReplacementAndAMessageOnceMore(t *testing.T) {
	t.Parallel()
	r := start(t).withShopify(nil)
	s := newSink(t)
	r.live("hk", s, true, usual...)
	id := r.paid()
	r.carried()
	r.postAll("hk", must(r.shop.Fulfill(id, 0, "SF1"))...)
	r.settled()
	o, _ := r.order(gid(id))
	var q seenRequest
	wing := r.person("Wing", models.Support)
	if code := wing.callWith(http.MethodPost, "/api/v1/orders/"+o.ID+"/replacement", `{"reason": "lost", "code": "lost_parcel"}`, &q); code != http.StatusCreated {
		t.Fatalf("%d %+v", code, q)
	}
	if code := wing.callWith(http.MethodPost, "/api/v1/requests/"+q.ID+"/approve", ``, nil); code != http.StatusForbidden {
		t.Errorf("support decides: %d", code)
	}
	if code := r.approves(q.ID); code != http.StatusOK {
		t.Fatalf("approved: %d", code)
	}
	r.stage("fulfillment_instruction/replacement:1", models.ActionDone, "")
	message := r.actions()["customer_message/payment_received"]
	code, q := r.asks("again", message.ID)
	if code != http.StatusCreated || r.approves(q.ID) != http.StatusOK {
		t.Fatalf("%d %+v", code, q)
	}
	r.stage("customer_message/again:1", models.ActionDone, "")
	want := "customer_message/again:1 1, customer_message/payment_received 1, fulfillment_instruction/order 1, fulfillment_instruction/replacement:1 1, invoice/order 1"
	if got := s.effects(); got != want || s.count() != 5 {
		t.Errorf("%d calls: %s", s.count(), got)
	}
	if body := s.calls[4].body; !strings.Contains(body, fmt.Sprintf(`"repeats":{"action":"%s","stage":"payment_received"}`, message.ID)) {
		t.Errorf("told %s", body)
	}
	var list struct{ Items []seenRequest }
	if code := r.call(http.MethodGet, "/api/v1/requests?state=applied", &list); code != http.StatusOK || len(list.Items) != 2 || list.Items[0].ID != q.ID ||
		list.Items[0].MadeID == nil || list.Items[0].ProposedBy != "Wing" || list.Items[0].DecidedBy != "Ng" || len(list.Items[0].Approvals) != 1 {
		t.Errorf("%d %+v", code, list)
	}
	if code := r.call(http.MethodGet, "/api/v1/requests?state=lost", nil); code != http.StatusUnprocessableEntity {
		t.Errorf("an unknown state: %d", code)
	}
}

func TestAPartialRefundWaitsForTwoPeopleEachTime(t *testing.T) {
	t.Parallel()
	r := start(t).withShopify(nil)
	s := newSink(t)
	r.live("hk", s, true, models.FulfillmentInstruction)
	id := r.pausedInstruction()
	r.postAll("hk", must(r.shop.Refund(id, "20.00", sandbox.RefundSucceeds))...)
	r.settled()
	a := r.instruction()
	r.released(a.ID)
	// The pause is a fact for a release. Meanwhile a second part goes back: the state
	// stays the same, and the release was about less.
	r.postAll("hk", must(r.shop.Refund(id, "10.00", sandbox.RefundSucceeds))...)
	r.settled()
	r.exec(`UPDATE holds SET released_at = now(), released_by = 'console'`)
	r.exec(`UPDATE actions SET due_at = now()`)
	r.becomes(models.ActionWaiting, "not_refunded_partly")
	if s.count() != 0 {
		t.Fatalf("%d calls", s.count())
	}
	r.released(a.ID)
	r.becomes(models.ActionDone, "")
	if s.count() != 1 {
		t.Errorf("%d calls", s.count())
	}
}

func TestApprovingWhileTheOrderMoves(t *testing.T) {
	t.Parallel()
	r := start(t).withShopify(nil)
	s := newSink(t)
	r.live("hk", s, true, models.FulfillmentInstruction)
	id := r.pausedInstruction()
	r.postAll("hk", must(r.shop.Refund(id, "20.00", sandbox.RefundSucceeds))...)
	r.settled()
	_, q := r.asks("release", r.instruction().ID)
	r.postAll("hk", must(r.shop.OpenDispute(id))...)
	r.becomes(models.ActionWithdrawn, "dispute")
	if code := r.approves(q.ID); code != http.StatusConflict {
		t.Errorf("approved: %d", code)
	}
	var list struct{ Items []seenRequest }
	if r.call(http.MethodGet, "/api/v1/requests?state=stale", &list); len(list.Items) != 1 || s.count() != 0 {
		t.Errorf("%d calls, %+v", s.count(), list)
	}
}

func TestWhatIsOldWaitsForARelease(t *testing.T) {
	t.Parallel()
	r := start(t).withShopify(nil)
	s := newSink(t)
	r.live("hk", s, true, models.FulfillmentInstruction, models.Invoice)
	r.pausedInstruction()
	r.exec(`UPDATE actions SET planned_at = planned_at - interval '15 days'`)
	r.exec(`UPDATE holds SET released_at = now(), released_by = 'console'`)
	r.exec(`UPDATE actions SET due_at = now() WHERE state = 'waiting'`)
	a := r.becomes(models.ActionWaiting, "not_expired")
	if a.Expires == nil || a.Expires.After(time.Now()) {
		t.Errorf("%+v", a)
	}
	r.released(a.ID)
	if a = r.becomes(models.ActionDone, ""); a.Request == nil || a.Expires != nil {
		t.Errorf("%+v", a)
	}
}

func TestWhatFailedIsTriedAgainByHand(t *testing.T) {
	t.Parallel()
	r := start(t).withShopify(nil)
	s := newSink(t)
	broken := true
	var mu sync.Mutex
	s.answer = func(w http.ResponseWriter, _ call, _ int) {
		mu.Lock()
		defer mu.Unlock()
		if broken {
			http.Error(w, "no such warehouse", http.StatusUnprocessableEntity)
		}
	}
	r.live("hk", s, true, models.FulfillmentInstruction)
	id := r.paid()
	a := r.becomes(models.ActionFailed, "")
	retry := "/api/v1/actions/" + a.ID + "/retry"
	if code := r.person("Wing", models.Support).callWith(http.MethodPost, retry, `{"reason": "mended"}`, nil); code != http.StatusForbidden {
		t.Errorf("support tries again: %d", code)
	}
	if code := r.person("Ng", models.Manager).callWith(http.MethodPost, retry, `{"reason": "mended"}`, nil); code != http.StatusOK {
		t.Errorf("a manager tries again: %d", code)
	}
	r.wait("it failed again", func() bool { b := r.instruction(); return b.State == "failed" && b.Tries == 2 })
	if got := r.openCases(); got != "action_failed/fulfillment_instruction/ask" {
		t.Errorf("open are %q", got)
	}
	mu.Lock()
	broken = false
	mu.Unlock()
	// Tries of a round count from its beginning: more than are allowed in one don't end it.
	r.exec(`UPDATE actions SET tries = 30`)
	if code := r.person("Ng", models.Manager).callWith(http.MethodPost, retry, `{"reason": "mended"}`, nil); code != http.StatusOK {
		t.Errorf("a manager tries again: %d", code)
	}
	if b := r.becomes(models.ActionDone, ""); b.ID != a.ID || b.Tries != 31 || r.openCases() != "" {
		t.Errorf("%+v, open are %q", b, r.openCases())
	}
	_ = id
}

func TestWhatDidNotHappenIsSentAgainByTwoPeople(t *testing.T) {
	t.Parallel()
	r := start(t).withShopify(nil)
	s := newSink(t)
	s.answer = func(w http.ResponseWriter, _ call, nth int) {
		if nth == 1 {
			cut(w)
		}
	}
	r.live("hk", s, false, models.FulfillmentInstruction)
	r.paid()
	a := r.becomes(models.ActionUnclear, "")
	ng := r.person("Ng", models.Manager)
	if code := ng.callWith(http.MethodPost, "/api/v1/actions/"+a.ID+"/receipt", `{"outcome": "failed"}`, nil); code != http.StatusOK {
		t.Fatal(code)
	}
	if code := ng.callWith(http.MethodPost, "/api/v1/actions/"+a.ID+"/retry", `{"reason": "x"}`, nil); code != http.StatusConflict {
		t.Errorf("one person sends it again: %d", code)
	}
	r.released(a.ID)
	if b := r.becomes(models.ActionDone, ""); b.ID != a.ID || s.count() != 2 || r.openCases() != "" {
		t.Errorf("%d calls, %+v, open are %q", s.count(), b, r.openCases())
	}
}

// A decision takes the locks of whoever carries the action, and of a hold: whatever
// comes first, the action is sent at most once, and never while it is held.
func TestDecidingAgainstClaimsAndHolds(t *testing.T) {
	t.Parallel()
	r := start(t).withShopify(nil)
	s := newSink(t)
	r.live("hk", s, true, models.FulfillmentInstruction)
	boss := models.Actor{StaffID: 1001, Name: "Ng", Role: models.Manager}
	for round := range 8 {
		id := r.pausedInstruction()
		r.postAll("hk", must(r.shop.Refund(id, "20.00", sandbox.RefundSucceeds))...)
		r.settled()
		var order, action int64
		r.scan(&order, `SELECT id FROM orders WHERE platform_ref = $1`, gid(id))
		r.scan(&action, `SELECT id FROM actions WHERE order_id = $1 AND kind = 'fulfillment_instruction'`, order)
		_, q := r.asks("release", strconv.FormatInt(action, 10))
		n, err := strconv.ParseInt(q.ID, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		r.exec(`UPDATE holds SET released_at = now(), released_by = 'console' WHERE released_at IS NULL`)
		var held casework.Held
		var holdErr error
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := r.app.asked.Decide(context.Background(), boss, n, true, ""); err != nil {
				t.Errorf("round %d: %v", round, err)
			}
		})
		wg.Go(func() {
			for range 5 {
				if err := r.app.actions.Carry(context.Background(), action); err != nil {
					t.Error(err)
				}
			}
		})
		if round%2 == 0 {
			wg.Go(func() {
				held, holdErr = r.app.holds.Hold(context.Background(), boss, casework.Pause{Scope: models.HoldOrder, Subject: order, Reason: "stock"})
			})
		}
		wg.Wait()
		if holdErr != nil {
			t.Error(holdErr)
		}
		sends := func() int {
			s.mu.Lock()
			defer s.mu.Unlock()
			n := 0
			for _, c := range s.calls {
				if c.key == strconv.FormatInt(action, 10) {
					n++
				}
			}
			return n
		}
		state := func() (state string) {
			r.scan(&state, `SELECT state FROM actions WHERE id = $1`, action)
			return state
		}
		if round%2 == 0 && len(held.Sending) == 0 && state() != "done" {
			r.wait("it waits for the hold", func() bool {
				var why string
				r.scan(&why, `SELECT why FROM actions WHERE id = $1`, action)
				return why == "no_hold"
			})
			if sends() != 0 {
				t.Errorf("round %d: sent while it is held", round)
			}
			continue
		}
		r.wait("it is sent", func() bool { return state() == "done" })
		if sends() != 1 {
			t.Errorf("round %d: sent %d times", round, sends())
		}
	}
}
