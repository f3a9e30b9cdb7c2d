package models

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// An Occasion is what may plan actions.
type Occasion string

const (
	OnPaid          Occasion = "paid"            // the payment became paid
	OnAuthorized    Occasion = "authorized"      // the bank reserved it: for shops that capture when they ship
	OnPayOnDelivery Occasion = "pay_on_delivery" // an order that is paid on delivery appeared
	OnRefunded      Occasion = "refunded"        // the refunded sum grew
	OnShipped       Occasion = "shipped"
	OnCancelled     Occasion = "cancelled"
)

// Occasions lists all occasions; the schema has the same list.
var Occasions = []Occasion{OnPaid, OnAuthorized, OnPayOnDelivery, OnRefunded, OnShipped, OnCancelled}

// An ActionRule says whether an occasion plans a kind of action, and how long that
// waits at least.
type ActionRule struct {
	Occasion Occasion
	Kind     ActionKind
	Active   bool
	Wait     time.Duration
}

// Same tells whether two rules are about the same occasion and kind.
func (r ActionRule) Same(other ActionRule) bool {
	return r.Occasion == other.Occasion && r.Kind == other.Kind
}

// Default is what the product itself decides.
func (r ActionRule) Default() ActionRule {
	i := slices.IndexFunc(defaultRules, func(d ruleRow) bool { return r.Same(d.ActionRule) })
	if i < 0 {
		return ActionRule{Occasion: r.Occasion, Kind: r.Kind}
	}
	return defaultRules[i].ActionRule
}

// Stage is that of the actions that the rule plans. In that of a refund {n} stands for
// what is refunded so far, in minor units.
func (r ActionRule) Stage() string {
	i := slices.IndexFunc(defaultRules, func(d ruleRow) bool { return r.Same(d.ActionRule) })
	if i < 0 {
		return ""
	}
	return defaultRules[i].stage
}

// refundStage has a place for the sum, so that each growth is an action of its own.
const refundStage = "refund:{n}"

// LongestWait is the longest that a rule may let its actions wait.
const LongestWait = 30 * 24 * time.Hour

// A ruleRow is a combination that exists, with the product's own decision.
type ruleRow struct {
	ActionRule
	stage string
}

// defaultRules is the table of what may plan what, in the order in which a step plans.
var defaultRules = []ruleRow{
	{ActionRule{OnPaid, FulfillmentInstruction, true, 0}, WholeOrder},
	{ActionRule{OnPaid, ServiceActivation, false, 0}, WholeOrder},
	{ActionRule{OnPaid, StockDeduction, false, 0}, WholeOrder},
	{ActionRule{OnPaid, Invoice, true, 0}, WholeOrder},
	{ActionRule{OnPaid, CustomerMessage, true, 0}, "payment_received"},
	{ActionRule{OnAuthorized, FulfillmentInstruction, false, 0}, WholeOrder},
	{ActionRule{OnPayOnDelivery, FulfillmentInstruction, true, 0}, WholeOrder},
	{ActionRule{OnPayOnDelivery, ServiceActivation, false, 0}, WholeOrder},
	{ActionRule{OnPayOnDelivery, StockDeduction, false, 0}, WholeOrder},
	{ActionRule{OnRefunded, CreditNote, false, 0}, refundStage},
	{ActionRule{OnRefunded, CustomerMessage, true, 0}, refundStage},
	{ActionRule{OnShipped, CustomerMessage, false, 0}, "shipped"},
	{ActionRule{OnCancelled, CustomerMessage, false, 0}, "cancelled"},
}

// ActionRules are all rules of a shop, in the order of the table.
type ActionRules []ActionRule

// RulesOf puts what a shop decided otherwise into the table. What isn't in the table
// is left out: it can't be decided.
func RulesOf(decided []ActionRule) ActionRules {
	rules := make(ActionRules, len(defaultRules))
	for i, d := range defaultRules {
		rules[i] = d.ActionRule
		if at := slices.IndexFunc(decided, d.Same); at >= 0 {
			rules[i] = decided[at]
		}
	}
	return rules
}

// Changed are the rules that aren't the product's own.
func (rules ActionRules) Changed() []ActionRule {
	var out []ActionRule
	for _, r := range rules {
		if r != r.Default() {
			out = append(out, r)
		}
	}
	return out
}

// Version is a short name of what the rules say, for forms that are saved later.
func (rules ActionRules) Version() string {
	sum := sha256.Sum256([]byte(rules.String()))
	return hex.EncodeToString(sum[:8])
}

// String writes the rules as the audit trail keeps them: paid/invoice=on,10m0s …
func (rules ActionRules) String() string {
	words := make([]string, len(rules))
	for i, r := range rules {
		state := "off"
		if r.Active {
			state = "on"
		}
		words[i] = fmt.Sprintf("%s/%s=%s", r.Occasion, r.Kind, state)
		if r.Wait > 0 {
			words[i] += "," + r.Wait.String()
		}
	}
	return strings.Join(words, " ")
}

// oldOrder is the age from which a first reading plans nothing that happens by itself.
const oldOrder = 14 * 24 * time.Hour

// A cause is an occasion that a move is, with the move.
type cause struct {
	Occasion
	move Move
}

// causes are the occasions of the moves of one step.
func causes(before, after Order, moves []Move) []cause {
	var out []cause
	first := before.first()
	for _, m := range moves {
		to := func(a Axis, s State) bool { return m.Axis == a && m.To == s && m.From != s }
		switch {
		case to(Payment, PaymentPaid):
			out = append(out, cause{OnPaid, m})
		case to(Payment, PaymentAuthorized):
			out = append(out, cause{OnAuthorized, m})
		case m.Axis == Refund && m.After.Refunded > m.Before.Refunded:
			out = append(out, cause{OnRefunded, m})
		case to(Fulfillment, FulfillmentFulfilled):
			out = append(out, cause{OnShipped, m})
		case to(Cancellation, CancellationCancelled):
			out = append(out, cause{OnCancelled, m})
		}
		if m.Axis == Payment && first && after.PaysOnDelivery() && (m.To == PaymentPending || to(Payment, PaymentPaid)) {
			out = append(out, cause{OnPayOnDelivery, m})
		}
	}
	return out
}

// first tells whether nothing had been read of the order until now.
func (o Order) first() bool { return o.Announced || len(o.Axes) == 0 }

// Plans tells whether the moves of a step could plan anything, whatever the rules are.
func Plans(before, after Order, moves []Move) bool { return len(causes(before, after, moves)) > 0 }

// Plan says which actions the moves of one step plan. quiet is the import of existing
// orders: nothing of it is carried.
func (rules ActionRules) Plan(before, after Order, moves []Move, quiet bool, now time.Time) []Plan {
	var plans []Plan
	first := before.first()
	old := first && !after.Placed.IsZero() && now.Sub(after.Placed) > oldOrder
	for _, c := range causes(before, after, moves) {
		for _, r := range rules {
			switch {
			case r.Occasion != c.Occasion || !r.Active:
				continue
			case c.Occasion == OnPaid && r.Kind.ships() && after.PaysOnDelivery() && !first:
				continue // it went when the order appeared: money is no reason
			case c.Occasion == OnShipped && old:
				continue // whoever got it knows
			}
			stage := strings.Replace(r.Stage(), "{n}", strconv.FormatInt(c.move.After.Refunded, 10), 1)
			if slices.ContainsFunc(plans, func(p Plan) bool { return p.Kind == r.Kind && p.Stage == stage }) {
				continue
			}
			not := after.notNeeded(r.Kind, quiet)
			if not == Needed && c.Occasion == OnShipped {
				not = after.overCounter()
			}
			plans = append(plans, Plan{Kind: r.Kind, Stage: stage, Occasion: r.Occasion, Axis: c.move.Axis, Not: not, Wait: r.Wait, Person: old})
		}
	}
	return plans
}

// ships tells whether the kind goes along with the goods.
func (k ActionKind) ships() bool { return k == FulfillmentInstruction || k == StockDeduction }

func (o Order) notNeeded(k ActionKind, quiet bool) NotNeeded {
	switch {
	case o.Test:
		return IsTest
	case quiet:
		return ImportedQuietly
	case !k.HighRisk():
		return Needed
	case o.overCounter() != Needed:
		return o.overCounter()
	case k == FulfillmentInstruction && o.Shipped():
		return ShippedAlready
	}
	return Needed
}

// overCounter says why nothing is sent to a buyer who took it along.
func (o Order) overCounter() NotNeeded {
	switch {
	case o.Platform == ReceiptRoller:
		return IsReceipt
	case strings.EqualFold(o.Channel, "pos"):
		return PointOfSale
	}
	return Needed
}

// funded tells whether the order's money is where the occasion of the action wants it.
// Actions of no rule go by the order alone.
func (o Order) funded(a Action) bool {
	switch o.State(Payment) {
	case PaymentPaid:
		return true
	case PaymentPending:
		return o.PaysOnDelivery() && (a.Occasion == OnPayOnDelivery || a.Occasion == "")
	case PaymentAuthorized:
		return a.Occasion == OnAuthorized
	}
	return false
}

// A RuleSwitch is a rule that a shop switched on or off, and when it did so last.
type RuleSwitch struct {
	ActionRule
	At time.Time
}

// A RuleChange is a rule that a shop decided otherwise than the product.
type RuleChange struct {
	ActionRule
	At   time.Time
	Name string // of who decided
}
