package models

import (
	"slices"
	"strings"
	"time"
)

// An ActionKind is a follow-up with consequences outside.
type ActionKind string

const (
	FulfillmentInstruction ActionKind = "fulfillment_instruction"
	ServiceActivation      ActionKind = "service_activation"
	StockDeduction         ActionKind = "stock_deduction"
	Invoice                ActionKind = "invoice"
	CreditNote             ActionKind = "credit_note"
	CustomerMessage        ActionKind = "customer_message"
)

// ActionKinds lists all kinds; the schema has the same list.
var ActionKinds = []ActionKind{FulfillmentInstruction, ServiceActivation, StockDeduction, Invoice, CreditNote, CustomerMessage}

// HighRisk kinds are carried only when everything about the order is verified: what
// they do can't be taken back.
func (k ActionKind) HighRisk() bool {
	return k == FulfillmentInstruction || k == ServiceActivation || k == StockDeduction
}

// An ActionState says how far an action has come and who moves it on.
type ActionState string

const (
	ActionPlanned   ActionState = "planned"    // the console, within seconds
	ActionWaiting   ActionState = "waiting"    // the console, when its conditions hold; or a release
	ActionSending   ActionState = "sending"    // the console: claimed, its body fixed, its lease running
	ActionManual    ActionState = "manual"     // a person, who ticks it off with a receipt
	ActionDone      ActionState = "done"       // rests
	ActionFailed    ActionState = "failed"     // a person: the tries are used up
	ActionUnclear   ActionState = "unclear"    // a person: it was sent and no clear answer came
	ActionWithdrawn ActionState = "withdrawn"  // a person may put it back while it was never sent
	ActionNotNeeded ActionState = "not_needed" // rests, and says why
	ActionWatched   ActionState = "watched"    // rests: would have been sent, had its kind a destination
)

// ActionStates lists all states; the schema has the same list.
var ActionStates = []ActionState{ActionPlanned, ActionWaiting, ActionSending, ActionManual, ActionDone, ActionFailed, ActionUnclear,
	ActionWithdrawn, ActionNotNeeded, ActionWatched}

// Open tells whether the console still works on actions in this state.
func (s ActionState) Open() bool {
	return s == ActionPlanned || s == ActionWaiting || s == ActionSending
}

// WholeOrder is the stage of the actions that an order needs once.
const WholeOrder = "order"

// An Action is one follow-up of an order. (order, kind, stage) is unique: whatever
// tells of one result, and however often, plans it once.
type Action struct {
	ID        int64
	OrderID   int64
	OrderName string
	ShopID    int64
	Shop      string // slug
	Kind      ActionKind
	Stage     string   // order, payment_received, refund:18000, more:1, replacement:1, again:1
	Occasion  Occasion // of the rule that planned it; empty: none did
	State     ActionState
	// Why says why it waits (the key of the first condition that isn't met), was
	// withdrawn (the axis that moved) or isn't needed (a NotNeeded).
	Why string
	// Entry is the ledger entry that planned it; Official tells whether that move
	// rests on an official reading or an approved correction.
	Entry    int64
	Official bool
	// Person: it waits for a person's release from the start. Released is when it was
	// released last, ReleasedEntry and ReleasedCase the newest ledger entry and exception
	// that those who did so could know.
	Person        bool
	Released      time.Time
	ReleasedEntry int64
	ReleasedCase  int64
	Request       int64 // by which it was last released, or asked for; 0: none
	// Pieces are goods that no instruction covered; 0: the whole order.
	Pieces    int
	Repeats   int64 // what is done once more, 0: nothing
	NotBefore time.Time
	Due       time.Time
	Tries     int
	// Told: somebody outside may have got it. A try that reached nobody tells nobody.
	Told      bool
	Doubt     bool // a try may have had its effect, and nobody knows
	Round     int  // tries before somebody had it tried again
	Error     string
	Receipt   string
	SettledBy string // name of whoever ticked it off or settled it
	Withdrew  int64  // ledger entry that withdrew it, 0: none
	Instead   int64  // action that took its place when two orders became one, 0: none
	Planned   time.Time
	Sent      time.Time
	Done      time.Time
	// Retried is when somebody had it tried again last, and why.
	Retried     time.Time
	RetriedBy   string
	RetryReason string
}

// A NotNeeded is why an action isn't needed.
type NotNeeded string

const (
	Needed          NotNeeded = ""
	ShippedAlready  NotNeeded = "shipped_already"
	PointOfSale     NotNeeded = "point_of_sale"
	IsReceipt       NotNeeded = "receipt"
	IsTest          NotNeeded = "test"
	ImportedQuietly NotNeeded = "imported"
	MergedAway      NotNeeded = "merged"    // two orders became one; Instead is the action that stays
	TakenOut        NotNeeded = "taken_out" // an edit took the goods out of the order again
)

// NotNeededs lists all reasons, for the catalogue's test.
var NotNeededs = []NotNeeded{ShippedAlready, PointOfSale, IsReceipt, IsTest, ImportedQuietly, MergedAway, TakenOut}

// A Plan is an action that a move asks for.
type Plan struct {
	Kind     ActionKind
	Stage    string
	Occasion Occasion
	Axis     Axis // of the move that plans it
	Not      NotNeeded
	Wait     time.Duration
	Person   bool // waits for a person's release from the start
}

// PaysOnDelivery tells whether the order is shipped before money comes.
func (o Order) PaysOnDelivery() bool {
	m := strings.ToLower(o.Method)
	return strings.Contains(m, "cod") || strings.Contains(m, "cash on delivery") || strings.Contains(m, "cash_on_delivery") || strings.Contains(m, "貨到付款")
}

// Shipped tells whether an official reading shows all goods shipped.
func (o Order) Shipped() bool {
	rec := o.Axes[Fulfillment]
	return rec.State == FulfillmentFulfilled && rec.Doubt != ReportedOnly
}

// A Condition is one of those that an action waits for, with its present answer.
type Condition struct {
	Key  string // catalogue key below "condition."
	Met  bool
	Args []any
}

// A Gate is what an order's conditions are judged by, read in the claiming transaction.
type Gate struct {
	Order  Order
	Health map[int64]Health // of the deciding connections, with what waits of the order
	// Fresh is how old the last official reading of a deciding connection may be. A
	// reading that began after Since is fresh in any case: it was made for this gate.
	Fresh map[int64]time.Duration
	Since time.Time
	// Held names the holds that reach the order: order, connection, shop.
	Held []string
	// Cases are the open exceptions of the order.
	Cases []Exception
	// LastEntry is the newest of its ledger entries.
	LastEntry int64
	// Unprocessed tells whether an event of the order isn't processed.
	Unprocessed bool
	Now         time.Time
}

// Conditions of an action, all of them, whether met or not.
func (g Gate) Conditions(a Action) []Condition {
	o := g.Order
	decided := g.decided(a)
	ends := a.Expires()
	people := []Condition{
		{Key: "released", Met: !a.Person || decided},
		{Key: "not_expired", Met: ends.IsZero() || g.Now.Before(ends), Args: []any{ends}},
		{Key: "not_before", Met: !g.Now.Before(a.NotBefore) || decided, Args: []any{a.NotBefore}},
	}
	if !a.Kind.HighRisk() {
		return append([]Condition{{Key: "official", Met: a.Official}}, people...)
	}
	verified, asked, fresh := !o.Announced && !g.Unprocessed, true, true
	for axis, id := range g.deciding() {
		s := o.Show(axis, g.Health, g.Now)
		verified = verified && s.Check == Verified && !s.Checking
		asked = asked && g.Health[id].State == APIUp
		fresh = fresh && g.fresh(s, id)
	}
	shipped := o.State(Fulfillment) == FulfillmentPartial || o.State(Fulfillment) == FulfillmentFulfilled
	_, ended := o.Withdraws()
	pauses := slices.ContainsFunc(g.Cases, func(x Exception) bool { return x.Policy == PolicyHold })
	return append([]Condition{
		{Key: "verified", Met: verified},
		{Key: "fresh", Met: fresh},
		{Key: "asked", Met: asked},
		{Key: "agree", Met: o.DisagreeSince.IsZero()},
		{Key: "paid", Met: o.funded(a)},
		{Key: "no_hold", Met: len(g.Held) == 0},
		{Key: "no_exception", Met: !pauses || decided},
		{Key: "not_ended", Met: !ended},
		{Key: "not_refunded_partly", Met: o.State(Refund) == RefundNone || decided},
		{Key: "not_held", Met: o.State(Fulfillment) != FulfillmentHeld},
		{Key: "not_shipped", Met: a.Kind != FulfillmentInstruction || a.Stage != WholeOrder || !shipped},
	}, people...)
}

// ConditionKeys lists the keys of all conditions, for the catalogue's test.
var ConditionKeys = []string{"verified", "fresh", "asked", "agree", "paid", "no_hold", "no_exception", "not_ended", "not_refunded_partly",
	"not_held", "not_shipped", "released", "not_expired", "not_before", "official"}

// deciding are the axes that a platform decides, with its connection.
func (g Gate) deciding() map[Axis]int64 {
	out := map[Axis]int64{}
	for axis, rec := range g.Order.Axes {
		if rec.Connection != 0 {
			out[axis] = rec.Connection
		}
	}
	return out
}

func (g Gate) fresh(s Shown, connection int64) bool {
	return g.Now.Sub(s.At) <= g.Fresh[connection] || !g.Since.IsZero() && !s.At.Before(g.Since)
}

// readable are the doubts that a good reading takes away by itself.
var readable = []Doubt{NoDoubt, APIDown, Throttled, ReadingOverdue}

// Readings lists the deciding connections that have to be read before the action can
// be carried; empty where that isn't all it waits for, so that no call is wasted.
func (g Gate) Readings(a Action) []int64 {
	if !a.Kind.HighRisk() || g.Unprocessed || g.Order.Announced {
		return nil
	}
	for _, c := range g.Conditions(a) {
		if !c.Met && c.Key != "verified" && c.Key != "fresh" && c.Key != "asked" {
			return nil
		}
	}
	var ids []int64
	for axis, id := range g.deciding() {
		s, h := g.Order.Show(axis, g.Health, g.Now), g.Health[id]
		if s.Checking || h.State == APINone || !slices.Contains(readable, s.Doubt) {
			return nil
		}
		if s.Check != Verified || h.State != APIUp || !g.fresh(s, id) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// Unmet is the key of the first condition that isn't met; empty where all are.
func Unmet(conditions []Condition) string {
	for _, c := range conditions {
		if !c.Met {
			return c.Key
		}
	}
	return ""
}

// Withdraws tells whether the order came to a state that calls an unsent high-risk
// action back, and on which axis.
func (o Order) Withdraws() (Axis, bool) {
	switch {
	case o.State(Cancellation) == CancellationCancelled:
		return Cancellation, true
	case o.State(Refund) == RefundFull:
		return Refund, true
	case o.State(Dispute) == DisputeOpen || o.State(Dispute) == DisputeLost:
		return Dispute, true
	}
	return "", false
}

// A DestinationMode says where the actions of a kind go.
type DestinationMode string

const (
	Watch  DestinationMode = "watch"  // nowhere: planned, shown, never sent
	ByHand DestinationMode = "manual" // to a worklist
	ByHTTP DestinationMode = "http"
)

// DestinationModes lists all modes; the schema has the same list.
var DestinationModes = []DestinationMode{Watch, ByHand, ByHTTP}

// A Destination is where the actions of a kind of a shop go, without its secret.
type Destination struct {
	Kind       ActionKind
	Mode       DestinationMode
	URL        string
	Idempotent bool     // the same key twice has one effect
	Hosts      []string // that may have an address of an inner network
	Updated    time.Time
}

// An ActionQuery filters the list of actions.
type ActionQuery struct {
	Shops  []int64 // those the person may see; empty: all
	State  ActionState
	Kind   ActionKind
	Order  int64
	Cursor string
	Limit  int
}

// A HoldScope says what a hold stops.
type HoldScope string

const (
	HoldOrder      HoldScope = "order"
	HoldConnection HoldScope = "connection"
	HoldShop       HoldScope = "shop"
)

// HoldScopes lists all scopes; the schema has the same list.
var HoldScopes = []HoldScope{HoldOrder, HoldConnection, HoldShop}

// A Hold is our stop on high-risk actions of an order, a connection or a shop. It
// stops what this console sends, not what people or other apps do at the platform.
type Hold struct {
	ID      int64
	Scope   HoldScope
	Subject int64  // id of the order, connection or shop
	Name    string // its number or slug
	Reason  string
	By      string // actor
	ByName  string
	Since   time.Time
	Until   time.Time // when it asks; zero: until somebody resumes
	// Resumes: it ends by itself at Until, because whoever set it chose so.
	Resumes  bool
	Released time.Time
	// ReleasedBy ended it: an actor, or the console where it ended by itself.
	ReleasedBy   string
	ReleasedName string
}
