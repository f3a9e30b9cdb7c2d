package models

import "sort"

// A MoveClass says what may justify a move.
type MoveClass string

const (
	ByReport   MoveClass = "forward"  // a reported or an official observation
	ByReading  MoveClass = "official" // an official observation only
	ByApproval MoveClass = "approval" // a correction that a second person approved
)

// A Guard is a further condition of a move, judged from amounts.
type Guard string

const (
	Always         Guard = ""
	ReceivedKept   Guard = "received_kept"   // the sum received didn't shrink
	ReceivedGrew   Guard = "received_grew"   // the sum received grew
	ReceivedSteady Guard = "received_steady" // the sum received didn't grow
)

// A Rule is one row of the table that decides every move. The table is printed
// on /rules and in a golden file; there is no other place where a move is allowed.
type Rule struct {
	Axis     Axis
	From, To State
	Class    MoveClass
	Guard    Guard
	// Eyes says that the move is made and an exception of kind state_differs is
	// opened beside it: it can be true, and a person should know.
	Eyes bool
	// Skips says that the row isn't a platform's own step but two or more of them
	// in one reading.
	Skips bool
}

// ownRules are the steps that a platform's own buttons can take.
var ownRules = []Rule{
	{Axis: Payment, From: PaymentPending, To: PaymentAuthorized, Class: ByReport},
	{Axis: Payment, From: PaymentPending, To: PaymentPartiallyPaid, Class: ByReport},
	{Axis: Payment, From: PaymentPending, To: PaymentPaid, Class: ByReport},
	{Axis: Payment, From: PaymentPending, To: PaymentFailed, Class: ByReport},
	{Axis: Payment, From: PaymentPending, To: PaymentVoided, Class: ByReport},
	{Axis: Payment, From: PaymentAuthorized, To: PaymentPartiallyPaid, Class: ByReport},
	{Axis: Payment, From: PaymentAuthorized, To: PaymentPaid, Class: ByReport},
	{Axis: Payment, From: PaymentAuthorized, To: PaymentFailed, Class: ByReport},
	{Axis: Payment, From: PaymentAuthorized, To: PaymentVoided, Class: ByReport},
	{Axis: Payment, From: PaymentPartiallyPaid, To: PaymentPaid, Class: ByReport},
	{Axis: Payment, From: PaymentFailed, To: PaymentPending, Class: ByReport},
	{Axis: Payment, From: PaymentFailed, To: PaymentAuthorized, Class: ByReport},
	{Axis: Payment, From: PaymentFailed, To: PaymentPartiallyPaid, Class: ByReport},
	{Axis: Payment, From: PaymentFailed, To: PaymentPaid, Class: ByReport},
	{Axis: Payment, From: PaymentFailed, To: PaymentVoided, Class: ByReport},
	{Axis: Payment, From: PaymentAuthorized, To: PaymentPending, Class: ByReading},
	{Axis: Payment, From: PaymentVoided, To: PaymentPending, Class: ByReading},
	{Axis: Payment, From: PaymentVoided, To: PaymentAuthorized, Class: ByReading},
	{Axis: Payment, From: PaymentVoided, To: PaymentPartiallyPaid, Class: ByReading},
	{Axis: Payment, From: PaymentVoided, To: PaymentPaid, Class: ByReading},
	{Axis: Payment, From: PaymentVoided, To: PaymentFailed, Class: ByReading},
	{Axis: Payment, From: PaymentPaid, To: PaymentPartiallyPaid, Class: ByReading, Guard: ReceivedKept},
	{Axis: Payment, From: PaymentPaid, To: PaymentPending, Class: ByApproval},
	{Axis: Payment, From: PaymentPaid, To: PaymentAuthorized, Class: ByApproval},
	{Axis: Payment, From: PaymentPaid, To: PaymentFailed, Class: ByApproval},
	{Axis: Payment, From: PaymentPaid, To: PaymentVoided, Class: ByApproval},
	{Axis: Payment, From: PaymentPartiallyPaid, To: PaymentPending, Class: ByApproval},
	{Axis: Payment, From: PaymentPartiallyPaid, To: PaymentAuthorized, Class: ByApproval},
	{Axis: Payment, From: PaymentPartiallyPaid, To: PaymentFailed, Class: ByApproval},
	{Axis: Payment, From: PaymentPartiallyPaid, To: PaymentVoided, Class: ByApproval},

	{Axis: Refund, From: RefundNone, To: RefundPending, Class: ByReport},
	{Axis: Refund, From: RefundNone, To: RefundPartial, Class: ByReport},
	{Axis: Refund, From: RefundNone, To: RefundFull, Class: ByReport},
	{Axis: Refund, From: RefundPending, To: RefundPartial, Class: ByReport},
	{Axis: Refund, From: RefundPending, To: RefundFull, Class: ByReport},
	{Axis: Refund, From: RefundPartial, To: RefundFull, Class: ByReport},
	{Axis: Refund, From: RefundPending, To: RefundNone, Class: ByReading},
	{Axis: Refund, From: RefundFull, To: RefundPartial, Class: ByReading, Guard: ReceivedGrew},
	{Axis: Refund, From: RefundFull, To: RefundPartial, Class: ByReading, Guard: ReceivedSteady, Eyes: true},
	{Axis: Refund, From: RefundFull, To: RefundPending, Class: ByReading, Eyes: true},
	{Axis: Refund, From: RefundFull, To: RefundNone, Class: ByReading, Eyes: true},
	{Axis: Refund, From: RefundPartial, To: RefundPending, Class: ByReading, Eyes: true},
	{Axis: Refund, From: RefundPartial, To: RefundNone, Class: ByReading, Eyes: true},

	{Axis: Dispute, From: DisputeNone, To: DisputeOpen, Class: ByReport},
	{Axis: Dispute, From: DisputeNone, To: DisputeWon, Class: ByReport},
	{Axis: Dispute, From: DisputeNone, To: DisputeLost, Class: ByReport},
	{Axis: Dispute, From: DisputeOpen, To: DisputeWon, Class: ByReport},
	{Axis: Dispute, From: DisputeOpen, To: DisputeLost, Class: ByReport},
	{Axis: Dispute, From: DisputeOpen, To: DisputeNone, Class: ByReading},
	{Axis: Dispute, From: DisputeWon, To: DisputeLost, Class: ByReading, Eyes: true},
	{Axis: Dispute, From: DisputeLost, To: DisputeWon, Class: ByReading, Eyes: true},
	{Axis: Dispute, From: DisputeWon, To: DisputeOpen, Class: ByReading, Eyes: true},
	{Axis: Dispute, From: DisputeLost, To: DisputeOpen, Class: ByReading, Eyes: true},

	{Axis: Fulfillment, From: FulfillmentUnfulfilled, To: FulfillmentInProgress, Class: ByReport},
	{Axis: Fulfillment, From: FulfillmentUnfulfilled, To: FulfillmentPartial, Class: ByReport},
	{Axis: Fulfillment, From: FulfillmentUnfulfilled, To: FulfillmentFulfilled, Class: ByReport},
	{Axis: Fulfillment, From: FulfillmentInProgress, To: FulfillmentPartial, Class: ByReport},
	{Axis: Fulfillment, From: FulfillmentInProgress, To: FulfillmentFulfilled, Class: ByReport},
	{Axis: Fulfillment, From: FulfillmentPartial, To: FulfillmentFulfilled, Class: ByReport},
	{Axis: Fulfillment, From: FulfillmentInProgress, To: FulfillmentUnfulfilled, Class: ByReading},
	{Axis: Fulfillment, From: FulfillmentPartial, To: FulfillmentUnfulfilled, Class: ByReading},
	{Axis: Fulfillment, From: FulfillmentFulfilled, To: FulfillmentUnfulfilled, Class: ByReading},
	{Axis: Fulfillment, From: FulfillmentPartial, To: FulfillmentInProgress, Class: ByReading},
	{Axis: Fulfillment, From: FulfillmentFulfilled, To: FulfillmentInProgress, Class: ByReading},
	{Axis: Fulfillment, From: FulfillmentFulfilled, To: FulfillmentPartial, Class: ByReading},
	{Axis: Fulfillment, From: FulfillmentUnfulfilled, To: FulfillmentHeld, Class: ByReading},
	{Axis: Fulfillment, From: FulfillmentInProgress, To: FulfillmentHeld, Class: ByReading},
	{Axis: Fulfillment, From: FulfillmentPartial, To: FulfillmentHeld, Class: ByReading},
	{Axis: Fulfillment, From: FulfillmentFulfilled, To: FulfillmentHeld, Class: ByReading, Eyes: true},
	{Axis: Fulfillment, From: FulfillmentHeld, To: FulfillmentUnfulfilled, Class: ByReading},
	{Axis: Fulfillment, From: FulfillmentHeld, To: FulfillmentInProgress, Class: ByReading},
	{Axis: Fulfillment, From: FulfillmentHeld, To: FulfillmentPartial, Class: ByReading},
	{Axis: Fulfillment, From: FulfillmentHeld, To: FulfillmentFulfilled, Class: ByReading},

	{Axis: Cancellation, From: CancellationActive, To: CancellationRequested, Class: ByReport},
	{Axis: Cancellation, From: CancellationActive, To: CancellationCancelled, Class: ByReport},
	{Axis: Cancellation, From: CancellationRequested, To: CancellationCancelled, Class: ByReport},
	{Axis: Cancellation, From: CancellationRequested, To: CancellationActive, Class: ByReading},
	{Axis: Cancellation, From: CancellationCancelled, To: CancellationActive, Class: ByApproval},

	{Axis: Return, From: ReturnNone, To: ReturnRequested, Class: ByReport},
	{Axis: Return, From: ReturnNone, To: ReturnInProgress, Class: ByReport},
	{Axis: Return, From: ReturnNone, To: ReturnReceived, Class: ByReport},
	{Axis: Return, From: ReturnNone, To: ReturnDeclined, Class: ByReport},
	{Axis: Return, From: ReturnRequested, To: ReturnInProgress, Class: ByReport},
	{Axis: Return, From: ReturnRequested, To: ReturnReceived, Class: ByReport},
	{Axis: Return, From: ReturnRequested, To: ReturnDeclined, Class: ByReport},
	{Axis: Return, From: ReturnInProgress, To: ReturnReceived, Class: ByReport},
	{Axis: Return, From: ReturnInProgress, To: ReturnRequested, Class: ByReading},
	{Axis: Return, From: ReturnRequested, To: ReturnNone, Class: ByReading},
	{Axis: Return, From: ReturnInProgress, To: ReturnNone, Class: ByReading},
	{Axis: Return, From: ReturnInProgress, To: ReturnDeclined, Class: ByReading},
	{Axis: Return, From: ReturnReceived, To: ReturnRequested, Class: ByReading},
	{Axis: Return, From: ReturnReceived, To: ReturnInProgress, Class: ByReading},
	{Axis: Return, From: ReturnDeclined, To: ReturnRequested, Class: ByReading},
	{Axis: Return, From: ReturnDeclined, To: ReturnInProgress, Class: ByReading},
	{Axis: Return, From: ReturnDeclined, To: ReturnReceived, Class: ByReading},
	{Axis: Return, From: ReturnReceived, To: ReturnNone, Class: ByReading, Eyes: true},
	{Axis: Return, From: ReturnDeclined, To: ReturnNone, Class: ByApproval},
}

// Rules is the whole table: the platforms' own steps, what one reading may skip,
// and the state review. Read-only.
var Rules = closed(ownRules)

// closed adds what can be reached in two allowed steps, again and again until
// nothing is new. A skipped step that asks for eyes still asks for them; where
// several ways lead to one place, the quietest counts.
func closed(own []Rule) []Rule {
	type hop struct {
		axis     Axis
		from, to State
	}
	rules := append([]Rule(nil), own...)
	direct := map[hop]bool{}
	approval := map[hop]bool{}
	eyes := map[hop]bool{}
	for _, r := range own {
		h := hop{r.Axis, r.From, r.To}
		if r.Class == ByApproval {
			approval[h] = true
			continue
		}
		direct[h] = true
		if r.Guard == Always {
			eyes[h] = r.Eyes
		}
	}
	for grew := true; grew; {
		grew = false
		for _, axis := range Axes {
			for _, a := range States[axis] {
				for _, c := range States[axis] {
					h := hop{axis, a, c}
					if a == c || direct[h] {
						continue
					}
					best, found := false, false
					for _, b := range States[axis] {
						e1, ok1 := eyes[hop{axis, a, b}]
						e2, ok2 := eyes[hop{axis, b, c}]
						if ok1 && ok2 && (!found || best) {
							best, found = e1 || e2, true
						}
					}
					if !found {
						continue
					}
					if old, known := eyes[h]; !known || old && !best {
						eyes[h] = best
						grew = true
					}
				}
			}
		}
	}
	for h, e := range eyes {
		if !direct[h] && !approval[h] {
			rules = append(rules, Rule{Axis: h.axis, From: h.from, To: h.to, Class: ByReading, Eyes: e, Skips: true})
		}
	}
	for _, axis := range []Axis{Payment, Refund} {
		for _, s := range States[axis] {
			if s != Review {
				rules = append(rules,
					Rule{Axis: axis, From: s, To: Review, Class: ByReport, Eyes: true},
					Rule{Axis: axis, From: Review, To: s, Class: ByReading})
			}
		}
	}
	rank := func(axis Axis, s State) int {
		for i, known := range States[axis] {
			if known == s {
				return i
			}
		}
		return len(States[axis])
	}
	order := map[Axis]int{}
	for i, a := range Axes {
		order[a] = i
	}
	sort.SliceStable(rules, func(i, j int) bool {
		x, y := rules[i], rules[j]
		if x.Axis != y.Axis {
			return order[x.Axis] < order[y.Axis]
		}
		if x.From != y.From {
			return rank(x.Axis, x.From) < rank(y.Axis, y.From)
		}
		return rank(x.Axis, x.To) < rank(y.Axis, y.To)
	})
	return rules
}

// rulesOf indexes Rules by axis and ends.
var rulesOf = indexRules(Rules)

type ends struct {
	axis     Axis
	from, to State
}

func indexRules(rules []Rule) map[ends][]Rule {
	m := map[ends][]Rule{}
	for _, r := range rules {
		k := ends{r.Axis, r.From, r.To}
		m[k] = append(m[k], r)
	}
	return m
}

// RulesFor lists the rows that lead from one state of an axis to another.
func RulesFor(axis Axis, from, to State) []Rule { return rulesOf[ends{axis, from, to}] }
