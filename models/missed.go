package models

import (
	"slices"
	"time"
)

// topics name the notification that should have come, by platform, axis and state; an
// empty state is every other one.
var topics = map[Platform]map[Axis]map[State]string{
	Shopify: {
		Payment:      {PaymentPaid: "orders/paid", "": "orders/updated"},
		Refund:       {"": "refunds/create"},
		Dispute:      {DisputeOpen: "disputes/create", "": "disputes/update"},
		Fulfillment:  {FulfillmentFulfilled: "orders/fulfilled", FulfillmentPartial: "orders/partially_fulfilled", "": "fulfillments/update"},
		Cancellation: {CancellationCancelled: "orders/cancelled", "": "fulfillment_orders/cancellation_request_submitted"},
		Return:       {ReturnRequested: "returns/request", ReturnInProgress: "returns/approve", ReturnReceived: "returns/close", ReturnDeclined: "returns/decline", "": "returns/cancel"},
	},
	Stripe: {
		Payment: {PaymentPaid: "payment_intent.succeeded", PaymentFailed: "payment_intent.payment_failed", PaymentVoided: "payment_intent.canceled",
			PaymentAuthorized: "payment_intent.amount_capturable_updated", "": "payment_intent.processing"},
		Refund:  {RefundPartial: "charge.refunded", RefundFull: "charge.refunded", RefundPending: "refund.created", "": "refund.failed"},
		Dispute: {DisputeOpen: "charge.dispute.created", "": "charge.dispute.closed"},
	},
	ReceiptRoller: {
		Payment:     {"": "receipt.issued"},
		Fulfillment: {"": "receipt.issued"},
		Refund:      {"": "receipt.refunded"},
		Return:      {"": "receipt.refunded"},
	},
}

// MissedTopic is the notification that should have told of a state; of an order that
// isn't known at all, the one that tells of its birth.
func MissedTopic(p Platform, a Axis, s State, unknown bool) string {
	if unknown && p == Shopify {
		return "orders/create"
	}
	of := topics[p][a]
	if t := of[s]; t != "" {
		return t
	}
	return of[""]
}

// RedeliverDays is how long ReceiptRoller's portal can send a notification again.
const RedeliverDays = 30

// ChangedAt is the platform's own time of what an observation says; zero where it has none.
func (o Observation) ChangedAt() time.Time {
	if !o.Changed.IsZero() {
		return o.Changed
	}
	var at time.Time
	for _, s := range o.Axes {
		if s.At.After(at) {
			at = s.At
		}
	}
	for _, p := range o.Parts {
		if p.At.After(at) {
			at = p.At
		}
	}
	return at
}

// Differences are what an order's record lacks of what a step would bring: one problem
// for each axis, of the kind that tells of a notification which never came. base is the
// step from what is kept already; what that would bring too is nothing new.
func Differences(o Order, base, step Step, was, is *Observation) []Problem {
	var out []Problem
	add := func(p Problem) {
		if !slices.ContainsFunc(out, func(x Problem) bool { return x.Axis == p.Axis }) {
			out = append(out, p)
		}
	}
	for _, m := range step.Moves {
		if slices.ContainsFunc(base.Moves, func(b Move) bool { return b.Axis == m.Axis && b.From == m.From && b.To == m.To && b.After == m.After }) {
			continue
		}
		p := Problem{Kind: MissedNotification, Axis: m.Axis, PlatformState: string(m.To), LocalState: string(o.State(m.Axis))}
		if m.From == m.To {
			p.Kind = AmountDiffers
			after, before := m.After.Received, m.Before.Received
			switch {
			case m.Axis == Refund:
				after, before = m.After.Refunded, m.Before.Refunded
			case after == before && m.After.Total != m.Before.Total:
				p.Case = CaseTotal
				after, before = m.After.Total, m.Before.Total
			}
			p.PlatformState, p.LocalState = Decimal(after, m.After.Currency), Decimal(before, m.Before.Currency)
		}
		add(p)
	}
	for _, x := range step.Problems {
		known := slices.ContainsFunc(base.Problems, func(b Problem) bool {
			return b.Kind == x.Kind && b.Axis == x.Axis && b.Case == x.Case && b.PlatformState == x.PlatformState
		})
		if known || x.Axis == "" || x.Kind == StateDiffers {
			continue
		}
		add(Problem{Kind: MissedNotification, Axis: x.Axis, PlatformState: x.PlatformState, LocalState: x.LocalState, Detail: x.Detail})
	}
	for _, a := range movedParts(was, is) {
		add(Problem{Kind: MissedNotification, Axis: a, PlatformState: is.Axes[a].Word, LocalState: string(o.State(a))})
	}
	return out
}

// movedParts are the axes of which one observation lists other parts than another.
func movedParts(was, is *Observation) []Axis {
	if was == nil || is == nil {
		return nil
	}
	type key struct {
		axis Axis
		id   string
	}
	type said struct {
		state    State
		amount   int64
		currency string
		counts   bool
	}
	had := map[key]said{}
	for _, p := range was.Parts {
		had[key{p.Axis, p.ID}] = said{p.State, p.Amount, p.Currency, p.Counts}
	}
	var out []Axis
	differs := func(a Axis) {
		if !slices.Contains(out, a) {
			out = append(out, a)
		}
	}
	for _, p := range is.Parts {
		k := key{p.Axis, p.ID}
		if h, ok := had[k]; !ok || h != (said{p.State, p.Amount, p.Currency, p.Counts}) {
			differs(p.Axis)
		}
		delete(had, k)
	}
	for _, a := range Axes {
		for k := range had {
			if k.axis == a {
				differs(a)
			}
		}
	}
	return out
}
