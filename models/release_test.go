package models

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func pausing(id int64, first time.Time) Exception {
	return Exception{ID: id, Kind: MoveRefused, Policy: PolicyHold, State: "open", First: first}
}

// waiting is an instruction that waits for people for every reason that they can decide.
func waiting() Action {
	return Action{ID: 3, Kind: FulfillmentInstruction, Stage: WholeOrder, Official: true, State: ActionWaiting, Person: true,
		Planned: midday.Add(-20 * 24 * time.Hour), NotBefore: midday.Add(time.Hour)}
}

func TestWhatAReleaseDecides(t *testing.T) {
	t.Parallel()
	partly := func(o *Order) { o.set(Refund, RefundPartial) }
	released := func(a *Action) {
		a.Released, a.ReleasedEntry, a.ReleasedCase = midday.Add(-time.Minute), 40, 8
	}
	known := pausing(8, midday.Add(-time.Hour))
	for name, c := range map[string]struct {
		order func(*Order)
		gate  func(*Gate)
		want  string // without a release it waits for people in every case
	}{
		"everything that waits for people":     {order: partly},
		"a case that was open then":            {gate: func(g *Gate) { g.Cases = []Exception{known} }},
		"not a case that came since":           {gate: func(g *Gate) { g.Cases = []Exception{known, pausing(9, midday)} }, want: "no_exception"},
		"not a case that began since":          {gate: func(g *Gate) { g.Cases = []Exception{pausing(7, midday)} }, want: "no_exception"},
		"nothing, once anything else is wrong": {gate: func(g *Gate) { g.Cases = []Exception{{ID: 9, Kind: StateDiffers, Policy: PolicyAsk, First: midday}} }, want: "released"},
		"its own failures": {gate: func(g *Gate) {
			g.Cases = []Exception{{ID: 9, Kind: ActionFailedKind, Policy: PolicyAsk, First: midday}}
		}},
		"nothing, once the ledger moved": {gate: func(g *Gate) { g.LastEntry = 41 }, want: "released"},
		"not a second partial refund":    {order: partly, gate: func(g *Gate) { g.LastEntry = 41 }, want: "not_refunded_partly"},
		"no doubt":                       {order: func(o *Order) { o.doubt(Payment, Unverified, Differs) }, want: "verified"},
		"no reading":                     {gate: func(g *Gate) { g.Now = midday.Add(2 * time.Minute) }, want: "fresh"},
		"no outage":                      {gate: func(g *Gate) { g.health(func(h *Health) { h.State = APIThrottled }) }, want: "asked"},
		"no disagreement":                {order: func(o *Order) { o.DisagreeSince = midday }, want: "agree"},
		"no payment":                     {order: func(o *Order) { o.set(Payment, PaymentPartiallyPaid) }, want: "paid"},
		"no pause":                       {gate: func(g *Gate) { g.Held = []string{"order"} }, want: "no_hold"},
		"no cancellation":                {order: func(o *Order) { o.set(Cancellation, CancellationCancelled) }, want: "not_ended"},
		"no full refund":                 {order: func(o *Order) { o.set(Refund, RefundFull) }, want: "not_ended"},
		"no dispute":                     {order: func(o *Order) { o.set(Dispute, DisputeLost) }, want: "not_ended"},
		"no stop of the platform":        {order: func(o *Order) { o.set(Fulfillment, FulfillmentHeld) }, want: "not_held"},
		"no parcel that left already":    {order: func(o *Order) { o.set(Fulfillment, FulfillmentPartial) }, want: "not_shipped"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			gate := gateOf(paidOrder(c.order), func(g *Gate) {
				g.LastEntry = 40
				if c.gate != nil {
					c.gate(g)
				}
			})
			a := waiting()
			if Unmet(gate.Conditions(a)) == "" {
				t.Error("it waits for nobody before it is released")
			}
			released(&a)
			if got := Unmet(gate.Conditions(a)); got != c.want {
				t.Errorf("released it waits for %q, not %q: %+v", got, c.want, gate.Conditions(a))
			}
		})
	}
}

// Whatever a release decides, facts are never among it: an action without a release and
// the same one with it differ in nothing but what people decide.
func TestAReleaseNeverDecidesFacts(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		o := paidOrder(func(o *Order) {
			for _, a := range Axes {
				o.set(a, rapid.SampledFrom(States[a]).Draw(t, string(a)))
				if rapid.Bool().Draw(t, "doubt") {
					o.doubt(a, Unverified, Differs)
				}
			}
		})
		g := gateOf(o, func(g *Gate) {
			g.LastEntry = rapid.Int64Range(1, 5).Draw(t, "entry")
			g.Unprocessed = rapid.Bool().Draw(t, "unprocessed")
			if rapid.Bool().Draw(t, "held") {
				g.Held = []string{"shop"}
			}
			for range rapid.IntRange(0, 2).Draw(t, "cases") {
				g.Cases = append(g.Cases, pausing(rapid.Int64Range(1, 5).Draw(t, "case"), midday.Add(-time.Duration(rapid.IntRange(0, 100).Draw(t, "ago"))*time.Minute)))
			}
		})
		a := waiting()
		a.Kind = rapid.SampledFrom(ActionKinds).Draw(t, "kind")
		a.Official = rapid.Bool().Draw(t, "official")
		before := g.Conditions(a)
		a.Released = midday.Add(-time.Duration(rapid.IntRange(0, 100).Draw(t, "released")) * time.Minute)
		a.ReleasedEntry, a.ReleasedCase = rapid.Int64Range(0, 6).Draw(t, "then"), rapid.Int64Range(0, 6).Draw(t, "case then")
		after := g.Conditions(a)
		for i, c := range after {
			if before[i].Key != c.Key || before[i].Met && !c.Met {
				t.Fatalf("a release made %s worse", c.Key)
			}
			if c.Met != before[i].Met && !slices.Contains(ByPeople, c.Key) {
				t.Fatalf("a release met %s", c.Key)
			}
			if c.Met != before[i].Met && c.Key != "not_expired" && g.LastEntry > a.ReleasedEntry {
				t.Fatalf("a release met %s although the ledger moved since", c.Key)
			}
		}
	})
}

func TestWhatCanBeReleased(t *testing.T) {
	t.Parallel()
	cancelled := func(o *Order) { o.set(Cancellation, CancellationCancelled) }
	for name, c := range map[string]struct {
		order  func(*Order)
		gate   func(*Gate)
		action func(*Action)
		want   string
	}{
		"what waits for people":             {},
		"what waits for people and facts":   {gate: func(g *Gate) { g.Held = []string{"order"} }},
		"not what waits for facts alone":    {gate: func(g *Gate) { g.Held = []string{"order"} }, action: plain, want: "error.only_facts no_hold"},
		"not what waits for nothing":        {action: plain, want: "error.nothing_to_release"},
		"what stands on a list, and moved":  {action: func(a *Action) { a.State = ActionManual }},
		"not what is being sent":            {action: func(a *Action) { a.State = ActionSending }, want: "error.action_not_waiting"},
		"what was tried and waits":          {action: func(a *Action) { a.State, a.Why = ActionSending, "not_refunded_partly" }},
		"not what is done":                  {action: func(a *Action) { a.State = ActionDone }, want: "error.action_not_waiting"},
		"not what isn't needed":             {action: func(a *Action) { a.State = ActionNotNeeded }, want: "error.action_not_waiting"},
		"not what nobody can tell":          {action: func(a *Action) { a.State = ActionUnclear }, want: "error.action_not_waiting"},
		"what was called back":              {action: func(a *Action) { a.State = ActionWithdrawn }},
		"not what is still called back":     {order: cancelled, action: func(a *Action) { a.State = ActionWithdrawn }, want: "error.still_ended.cancellation"},
		"not what was sent and called back": {action: func(a *Action) { a.State, a.Told = ActionWithdrawn, true }, want: "error.action_was_sent"},
		"what didn't happen":                {action: func(a *Action) { a.State, a.Error = ActionFailed, ReportedFailed }},
		"not what didn't happen, and ended": {order: cancelled, action: func(a *Action) { a.State, a.Error = ActionFailed, ReportedFailed }, want: "error.still_ended.cancellation"},
		"not what one person may try again": {action: func(a *Action) { a.State, a.Error = ActionFailed, "422" }, want: "error.retry_instead"},
		"not a message that one may try again": {action: func(a *Action) { a.Kind, a.State, a.Error = CustomerMessage, ActionFailed, ReportedFailed },
			want: "error.retry_instead"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := waiting()
			if c.action != nil {
				c.action(&a)
			}
			why, facts := gateOf(paidOrder(c.order), c.gate).Unreleasable(a)
			if got := strings.TrimSpace(why + " " + strings.Join(facts, " ")); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

// plain waits for no people.
func plain(a *Action) {
	*a = Action{Kind: FulfillmentInstruction, Stage: WholeOrder, State: ActionWaiting, Planned: midday.Add(-time.Hour)}
}

func TestWhenAnActionStopsBeingCarriedByItself(t *testing.T) {
	t.Parallel()
	day := 24 * time.Hour
	for name, c := range map[string]struct {
		action Action
		want   time.Duration // after midday, 0: never
	}{
		"two weeks after it was planned":      {Action{State: ActionWaiting}, 14 * day},
		"after its time had come":             {Action{State: ActionWaiting, NotBefore: midday.Add(30 * day)}, 44 * day},
		"after its last release":              {Action{State: ActionPlanned, Released: midday.Add(day)}, 15 * day},
		"a message that somebody tries again": {Action{Kind: CustomerMessage, State: ActionWaiting, Retried: midday.Add(20 * day)}, 34 * day},
		"not goods that one person retries":   {Action{Kind: StockDeduction, State: ActionWaiting, Retried: midday.Add(20 * day)}, 14 * day},
		"never what rests":                    {Action{State: ActionDone}, 0},
		"never what was called back":          {Action{State: ActionWithdrawn}, 0},
	} {
		c.action.Planned = midday
		got := c.action.Expires()
		if c.want == 0 && !got.IsZero() || c.want != 0 && !got.Equal(midday.Add(c.want)) {
			t.Errorf("%s: %s", name, got)
		}
	}
}

func TestGoodsThatNoInstructionCovers(t *testing.T) {
	t.Parallel()
	sent := []Action{{Stage: WholeOrder, State: ActionDone}}
	items := func(ordered, removed, shipped int) func(*Order) {
		return func(o *Order) { o.Items = Items{Ordered: ordered, Removed: removed, Shipped: shipped} }
	}
	both := func(one, two func(*Order)) func(*Order) { return func(o *Order) { one(o); two(o) } }
	for name, c := range map[string]struct {
		before, after func(*Order)
		instructions  []Action
		want          int
	}{
		"an edit added some":                 {items(2, 0, 0), items(5, 0, 0), sent, 3},
		"a parcel was called back":           {items(2, 0, 2), items(2, 0, 1), sent, 1},
		"both":                               {items(2, 0, 2), items(3, 0, 1), sent, 2},
		"one for another":                    {items(2, 0, 0), items(3, 1, 0), sent, 1},
		"an edit took some out":              {items(3, 0, 0), items(3, 2, 0), sent, -2},
		"a count that sank":                  {items(3, 0, 0), items(2, 0, 0), sent, -1},
		"goods that came back":               {items(3, 0, 2), both(items(3, 1, 2), func(o *Order) { o.Refunded = 100 }), sent, 0},
		"a part was shipped at the platform": {items(3, 0, 0), items(3, 0, 2), sent, 0},
		"the first reading":                  {func(o *Order) { o.Axes = nil }, items(3, 0, 0), sent, 0},
		"items that were never told":         {nil, items(3, 0, 0), sent, 0},
		"an announced order":                 {both(items(2, 0, 0), func(o *Order) { o.Announced = true }), items(3, 0, 0), sent, 0},
		"no instruction yet":                 {items(2, 0, 0), items(3, 0, 0), nil, 0},
		"only another stage":                 {items(2, 0, 0), items(3, 0, 0), []Action{{Stage: "replacement:1", State: ActionDone}}, 0},
		"a test":                             {items(2, 0, 0), both(items(3, 0, 0), func(o *Order) { o.Test = true }), sent, 0},
		"the till":                           {items(2, 0, 0), both(items(3, 0, 0), func(o *Order) { o.Channel = "POS" }), sent, 0},
		"a receipt":                          {items(2, 0, 0), both(items(3, 0, 0), func(o *Order) { o.Platform = ReceiptRoller }), sent, 0},
		"a cancelled order":                  {items(2, 0, 2), both(items(2, 0, 0), func(o *Order) { o.set(Cancellation, CancellationCancelled) }), sent, 0},
	} {
		if got := Uncovered(paidOrder(c.before), paidOrder(c.after), c.instructions); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
	left := map[ActionState]bool{ActionSending: true, ActionDone: true, ActionUnclear: true, ActionWatched: true}
	told := map[ActionState]bool{ActionPlanned: true, ActionWaiting: true, ActionFailed: true}
	for _, s := range ActionStates {
		for _, why := range append([]NotNeeded{""}, NotNeededs...) {
			want := left[s] || s == ActionNotNeeded && (why == ShippedAlready || why == ImportedQuietly)
			got := Uncovered(paidOrder(items(2, 0, 0)), paidOrder(items(3, 0, 0)), []Action{{Stage: WholeOrder, State: s, Why: string(why)}}) == 1
			if got != want {
				t.Errorf("%s %s: %t", s, why, got)
			}
			fixed := Action{Stage: WholeOrder, State: s, Why: string(why), Told: true}
			if n := Uncovered(paidOrder(items(2, 0, 0)), paidOrder(items(3, 0, 0)), []Action{fixed}); (n == 1) != (want || told[s]) {
				t.Errorf("%s %s, somebody has its bytes: %d", s, why, n)
			}
			// What still goes covers a parcel that was called back, by itself.
			if n := Uncovered(paidOrder(items(2, 0, 2)), paidOrder(items(2, 0, 0)), []Action{fixed}); (n == 2) != want {
				t.Errorf("%s %s, a parcel was called back: %d", s, why, n)
			}
		}
	}
}

func TestWhoMayDecideWhat(t *testing.T) {
	t.Parallel()
	actors := map[string]Actor{
		"support": {StaffID: 1, Role: Support}, "lead": {StaffID: 3, Role: Support, Lead: true}, "manager": {StaffID: 4, Role: Manager},
		"admin": {StaffID: 5, Role: Admin}, "auditor": {StaffID: 6, Role: Auditor}, "service": {TokenID: 7, Role: Service, Scopes: Scopes},
		"token":           {StaffID: 4, TokenID: 8, Role: Manager, Scopes: []Scope{ScopeRead, ScopeWrite}},
		"approving token": {StaffID: 4, TokenID: 8, Role: Manager, Scopes: []Scope{ScopeApprove}},
		"elsewhere":       {StaffID: 9, Role: Manager, Shops: []int64{2}},
	}
	over := map[string]string{"support": "error.may_not_decide", "admin": "error.may_not_decide", "auditor": "error.may_not_decide", "service": "error.may_not_decide",
		"token": "error.may_not_decide", "elsewhere": "error.request_unknown"}
	for _, kind := range []RequestKind{RequestRelease, RequestReplacement, RequestAgain} {
		for _, c := range []struct {
			amount, currency string
			shift            string
			lead             string
			two              bool
		}{
			{"1000", "HKD", "0", "", false},
			{"1000.01", "HKD", "0", "error.over_lead_order", false},
			{"20000", "HKD", "0", "error.over_lead_order", false},
			{"20000.01", "HKD", "0", "error.over_lead_order", true},
			{"4000", "TWD", "36000", "", false},
			{"4000", "TWD", "36000.01", "error.over_lead_shift", false},
			{"80000.01", "TWD", "0", "error.over_lead_order", true},
			{"1000", "HKD", "9000.01", "error.over_lead_shift", false},
			{"1", "USD", "0", "error.over_lead_order", true},
		} {
			amount, _ := Minor(c.amount, c.currency)
			shift, _ := Minor(c.shift, c.currency)
			s := Stake{Amount: amount, Currency: c.currency, Shift: shift}
			for name, a := range actors {
				want := over[name]
				if name == "lead" && kind != RequestAgain {
					want = c.lead
				}
				r := Request{Kind: kind, State: RequestProposed, ShopID: 1, By: "staff:1000", ByRole: Support}
				if ok, why := a.MayDecide(r, s); why != want || ok != (want == "") {
					t.Errorf("%s decides %s over %s %s: %t %s, want %s", name, kind, c.amount, c.currency, ok, why, want)
				}
				r.By = a.ID()
				if ok, _ := a.MayDecide(r, s); ok {
					t.Errorf("%s decides its own %s", name, kind)
				}
				if ok, _ := a.MayReject(r); ok {
					t.Errorf("%s rejects its own %s", name, kind)
				}
			}
			for role, want := range map[Role]int{Support: 2, Manager: 1} {
				if !c.two || kind == RequestAgain {
					want = 1
				}
				if got := (Request{Kind: kind, ByRole: role}).Approvers(s); got != want {
					t.Errorf("%s by %s over %s %s needs %d", kind, role, c.amount, c.currency, got)
				}
			}
		}
	}
	done := Request{Kind: RequestRelease, State: RequestRejected, By: "staff:1"}
	if ok, why := actors["manager"].MayDecide(done, Stake{}); ok || why != "error.request_decided" {
		t.Error(why)
	}
	once := Request{Kind: RequestRelease, State: RequestProposed, By: "staff:1", Approvals: []Approval{{By: "staff:4"}}}
	if ok, why := actors["approving token"].MayDecide(once, Stake{}); ok || why != "error.approved_already" {
		t.Error(why)
	}
}

func TestWhatMakesARequestStale(t *testing.T) {
	t.Parallel()
	base := func() (Order, int64, *Action, []Exception) {
		a := waiting()
		return paidOrder(nil), 40, &a, []Exception{pausing(8, midday), pausing(7, midday)}
	}
	seen := func(change func(o *Order, entry *int64, a *Action, cases *[]Exception)) string {
		o, entry, a, cases := base()
		if change != nil {
			change(&o, &entry, a, &cases)
		}
		return Seen(o, entry, a, cases)
	}
	was := seen(nil)
	for name, c := range map[string]struct {
		change func(o *Order, entry *int64, a *Action, cases *[]Exception)
		moved  bool
	}{
		"nothing": {},
		"another reading": {change: func(o *Order, _ *int64, _ *Action, _ *[]Exception) {
			o.doubt(Payment, Unverified, APIDown)
			o.Version++
		}},
		"cases in another order":     {change: func(_ *Order, _ *int64, _ *Action, cases *[]Exception) { slices.Reverse(*cases) }},
		"a case seen once more":      {change: func(_ *Order, _ *int64, _ *Action, cases *[]Exception) { (*cases)[0].Count++ }},
		"it waits for another thing": {change: func(_ *Order, _ *int64, a *Action, _ *[]Exception) { a.State, a.Why = ActionPlanned, "fresh" }},
		"an axis":                    {func(o *Order, _ *int64, _ *Action, _ *[]Exception) { o.set(Dispute, DisputeOpen) }, true},
		"an amount":                  {func(o *Order, _ *int64, _ *Action, _ *[]Exception) { o.Total++ }, true},
		"pieces":                     {func(o *Order, _ *int64, _ *Action, _ *[]Exception) { o.Items.Ordered++ }, true},
		"the ledger":                 {func(_ *Order, entry *int64, _ *Action, _ *[]Exception) { *entry++ }, true},
		"another order":              {func(o *Order, _ *int64, _ *Action, _ *[]Exception) { o.ID++ }, true},
		"it was sent":                {func(_ *Order, _ *int64, a *Action, _ *[]Exception) { a.State = ActionDone }, true},
		"it was called back":         {func(_ *Order, _ *int64, a *Action, _ *[]Exception) { a.State = ActionWithdrawn }, true},
		"it is for more":             {func(_ *Order, _ *int64, a *Action, _ *[]Exception) { a.Pieces++ }, true},
		"a case":                     {func(_ *Order, _ *int64, _ *Action, cases *[]Exception) { *cases = append(*cases, pausing(9, midday)) }, true},
		"a case that was closed":     {func(_ *Order, _ *int64, _ *Action, cases *[]Exception) { *cases = (*cases)[1:] }, true},
	} {
		if got := seen(c.change) != was; got != c.moved {
			t.Errorf("%s: moved %t", name, got)
		}
	}
	if fmt.Sprint(len(was)) != "64" {
		t.Errorf("digest %q", was)
	}
}
