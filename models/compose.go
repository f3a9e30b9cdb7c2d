package models

import (
	"cmp"
	"slices"
	"strings"
)

// An ObjectView is a platform object of an order, as last known, together with
// what its connection can do.
type ObjectView struct {
	ID         int64
	Connection int64
	Slug       string
	Platform   Platform
	Ref        ObjectRef
	LinkedBy   LinkHow
	// Official is the last official reading, nil if there was none.
	Official *Observation
	// Said is what payloads reported, merged axis by axis; it speaks only for the
	// axes that no official reading of this object can state.
	Said *Observation
	// Reads lists the axes that the platform's API can state. Empty: the
	// connection has no API access.
	Reads map[Axis]bool
}

// latest is the reading that stands for the object: official where there is one.
func (v ObjectView) latest() *Observation {
	if v.Official != nil && v.Official.Absence == Present {
		return v.Official
	}
	return nil
}

// statement is what the object says about an axis and on which basis.
func (v ObjectView) statement(a Axis) (Statement, Basis, bool) {
	if o := v.latest(); o != nil {
		if s, ok := o.Axes[a]; ok {
			return s, Official, true
		}
	}
	if v.Said != nil && !v.Reads[a] {
		if s, ok := v.Said.Axes[a]; ok {
			return s, Reported, true
		}
	}
	return Statement{}, "", false
}

// amounts are the sums the object states, official first.
func (v ObjectView) amounts() (*Amounts, Basis) {
	if o := v.latest(); o != nil && o.Amounts != nil {
		a := *o.Amounts
		if _, basis, ok := v.statement(Refund); ok && basis == Reported && v.Said.Amounts != nil && v.Said.Amounts.Currency == a.Currency {
			a.Refunded = v.Said.Amounts.Refunded // the API has no call for it
		}
		return &a, Official
	}
	if v.Said != nil && len(v.Reads) == 0 && v.Said.Amounts != nil {
		return v.Said.Amounts, Reported
	}
	return nil, ""
}

// A Want is what the platforms together say about one axis.
type Want struct {
	Statement
	Basis Basis
	// By is the object that decides.
	By ObjectView
	// Disputed: another linked platform says otherwise.
	Disputed bool
}

// A Target is what all objects of an order say together. It depends on their
// latest readings only, never on the order in which those arrived.
type Target struct {
	Axes     map[Axis]Want
	Amounts  *Amounts
	Items    *Items
	Problems []Problem
}

// payRank orders a payment's states by how far it got; the furthest of an order's
// payments counts, so a second intent left open or cancelled is no move back.
var payRank = map[State]int{PaymentVoided: 1, PaymentFailed: 2, PaymentPending: 3, Review: 4, PaymentAuthorized: 5, PaymentPartiallyPaid: 6, PaymentPaid: 7}

// moneyRank and goodsRank say who decides where several platforms describe one order.
var moneyRank = map[Platform]int{Stripe: 3, Shopify: 2, ReceiptRoller: 1}
var goodsRank = map[Platform]int{Shopify: 3, ReceiptRoller: 2, Stripe: 1}

// Compose puts the objects of one order together.
func Compose(objects []ObjectView) Target {
	t := Target{Axes: map[Axis]Want{}}
	objects = slices.Clone(objects)
	slices.SortStableFunc(objects, func(a, b ObjectView) int {
		return cmp.Or(strings.Compare(string(a.Platform), string(b.Platform)), cmp.Compare(a.Connection, b.Connection),
			strings.Compare(a.Ref.Account, b.Ref.Account), strings.Compare(a.Ref.Kind, b.Ref.Kind), strings.Compare(a.Ref.ID, b.Ref.ID))
	})
	var store *ObjectView
	var pays []ObjectView
	for i, v := range objects {
		if v.Platform == Stripe {
			pays = append(pays, v)
		} else if store == nil || goodsRank[v.Platform] > goodsRank[store.Platform] {
			store = &objects[i]
		}
	}
	var own *Amounts
	if store != nil {
		own, _ = store.amounts()
	}
	for _, a := range Axes {
		for _, v := range objects {
			s, basis, ok := v.statement(a)
			if !ok || v.Platform == Stripe && !v.sure(own) {
				continue // what a buyer typed says nothing of this order
			}
			w, taken := t.Axes[a]
			if !taken || outranks(a, v, s, w) {
				t.Axes[a] = Want{Statement: s, Basis: basis, By: v}
			}
		}
	}
	t.composeAmounts(store, own, pays)
	if store != nil && len(pays) > 0 {
		pays = t.composePayment(*store, own, pays)
	}
	t.composeRefund(pays)
	if store != nil && own != nil {
		t.compareRefunds(*store, *own, pays)
		t.compareDisputes(*store)
	}
	return t
}

// outranks tells whether v's statement decides the axis rather than the one in w.
func outranks(a Axis, v ObjectView, s Statement, w Want) bool {
	rank := goodsRank
	if a.Money() {
		rank = moneyRank
	}
	mine, theirs := rank[v.Platform], rank[w.By.Platform]
	if mine != theirs {
		return mine > theirs
	}
	switch a {
	case Payment:
		return payRank[s.State] > payRank[w.State]
	case Dispute:
		return disputeRank[s.State] > disputeRank[w.State]
	}
	return s.At.After(w.At)
}

// disputeRank: open, else lost, else won, else none.
var disputeRank = map[State]int{DisputeOpen: 3, DisputeLost: 2, DisputeWon: 1}

// composeAmounts takes the total from the store, the money from the payments
// where there are any in the same currency, else from the store.
func (t *Target) composeAmounts(store *ObjectView, own *Amounts, pays []ObjectView) {
	var sum Amounts
	counted := false
	for _, p := range pays {
		a, _ := p.amounts()
		if a == nil || !p.sure(own) {
			continue
		}
		if counted && a.Currency != sum.Currency {
			t.Problems = append(t.Problems, Problem{Kind: AmountDiffers, Case: "currency", Axis: Payment, PlatformState: a.Currency, LocalState: sum.Currency})
			continue
		}
		sum.Currency = a.Currency
		sum.Received += a.Received
		sum.Refunded += a.Refunded
		if a.Received > 0 || sum.Total == 0 {
			sum.Total = max(sum.Total, a.Total)
		}
		counted = true
	}
	switch {
	case own == nil && !counted:
	case own == nil:
		sum.Total = max(sum.Total, sum.Received)
		t.Amounts = &sum
	case !counted || sum.Currency != own.Currency:
		a := *own
		t.Amounts = &a
	default:
		a := *own
		a.Received = max(sum.Received, own.Received)
		a.Refunded = max(sum.Refunded, own.Refunded)
		t.Amounts = &a
	}
	if store != nil {
		if o := store.latest(); o != nil && o.Items != nil {
			t.Items = o.Items
		} else if store.Said != nil && len(store.Reads) == 0 {
			t.Items = store.Said.Items
		}
	}
}

// sure tells whether a payment's money counts for the order of a store: a link that a
// buyer can type counts only while the amount fits, or within what the store itself
// knows to have come in.
func (v ObjectView) sure(own *Amounts) bool {
	a, _ := v.amounts()
	switch {
	case v.LinkedBy != LinkReference || own == nil || a == nil || a.Received == 0:
		return true
	case a.Currency != own.Currency:
		return own.Received > 0
	}
	return a.Received == own.Total || a.Received <= own.Received
}

// composePayment: the store says how much of the order is paid, the payments say
// whether that money really came. It answers the payments that count.
func (t *Target) composePayment(store ObjectView, own *Amounts, pays []ObjectView) []ObjectView {
	captured := int64(0)
	var sure []ObjectView
	for _, p := range pays {
		a, _ := p.amounts()
		if !p.sure(own) {
			t.Problems = append(t.Problems, Problem{Kind: AmountDiffers, Case: CaseLink, Axis: Payment,
				PlatformState: Decimal(a.Received, a.Currency), LocalState: Decimal(own.Total, own.Currency), Detail: p.Ref.ID})
			continue
		}
		sure = append(sure, p)
		if a != nil && own != nil && a.Currency == own.Currency {
			captured += a.Received
		}
	}
	said, basis, ok := store.statement(Payment)
	if !ok || len(sure) == 0 {
		return sure
	}
	money := t.Axes[Payment]
	byStore := Want{Statement: said, Basis: basis, By: store}
	switch {
	case said.State == PaymentPaid && money.State == PaymentPaid:
	case said.State == PaymentPaid || said.State == PaymentPartiallyPaid:
		// The store believes in money that the payment platform doesn't show.
		byStore.Disputed = money.State != PaymentPaid && money.State != PaymentPartiallyPaid
		t.Axes[Payment] = byStore
		if byStore.Disputed {
			t.Problems = append(t.Problems, Problem{Kind: PlatformsDisagree, Axis: Payment, PlatformState: money.Word, LocalState: said.Word})
		}
	case own != nil && captured > 0 && captured < own.Total:
		money.State = PaymentPartiallyPaid
		t.Axes[Payment] = money
		t.Problems = append(t.Problems, Problem{Kind: AmountDiffers, Case: "received", Axis: Payment,
			PlatformState: Decimal(captured, own.Currency), LocalState: Decimal(own.Total, own.Currency)})
	case own != nil && money.State == PaymentPaid && captured < own.Total:
		// It came in another currency: what it is worth here, only the store can say.
		t.Axes[Payment] = byStore
	case money.State == PaymentPaid, money.State == PaymentAuthorized && said.State == PaymentPending:
	default:
		t.Axes[Payment] = byStore
	}
	return sure
}

// compareRefunds: the store and the payments tell of the same money, so they should
// tell of the same refunds. What came in elsewhere may go back without the payments.
func (t *Target) compareRefunds(store ObjectView, own Amounts, pays []ObjectView) {
	w := t.Axes[Refund]
	said, basis, ok := store.statement(Refund)
	if !ok || basis != Official || said.Unclear || w.By.Platform != Stripe || w.Basis != Official || w.Unclear {
		return
	}
	var received, refunded int64
	for _, p := range pays {
		a, basis := p.amounts()
		if a == nil || basis != Official || a.Currency != own.Currency {
			return
		}
		received += a.Received
		refunded += a.Refunded
	}
	if refunded == own.Refunded || refunded < own.Refunded && received < own.Received {
		return
	}
	w.Disputed = true
	t.Axes[Refund] = w
	pay, _, _ := store.statement(Payment)
	t.Problems = append(t.Problems, Problem{Kind: PlatformsDisagree, Axis: Refund,
		PlatformState: spelled(w.Word, refunded, own.Currency), LocalState: spelled(pay.Word, own.Refunded, own.Currency)})
}

// spelled is a platform's word with the sum refunded that it goes with.
func spelled(word string, sum int64, currency string) string {
	return strings.TrimSpace(word + " " + Decimal(sum, currency))
}

// compareDisputes: a store that tells of a dispute should tell what the payments tell.
// One that tells of none may only not know.
func (t *Target) compareDisputes(store ObjectView) {
	w := t.Axes[Dispute]
	said, basis, ok := store.statement(Dispute)
	if !ok || basis != Official || said.Unclear || said.State == DisputeNone || w.By.Platform != Stripe || w.Basis != Official || w.Unclear || w.State == said.State {
		return
	}
	w.Disputed = true
	t.Axes[Dispute] = w
	t.Problems = append(t.Problems, Problem{Kind: PlatformsDisagree, Axis: Dispute, PlatformState: w.Word, LocalState: said.Word})
}

// composeRefund judges by the sums what one payment alone can't know: there are
// several, or more came in than through this one.
func (t *Target) composeRefund(pays []ObjectView) {
	w, ok := t.Axes[Refund]
	if !ok || t.Amounts == nil || w.By.Platform != Stripe || w.Unclear || len(pays) < 2 && w.State != RefundFull {
		return
	}
	pending := false
	for _, p := range pays {
		if a, _ := p.amounts(); a != nil && a.Currency != t.Amounts.Currency {
			return
		}
		s, _, ok := p.statement(Refund)
		pending = pending || ok && s.State == RefundPending
	}
	w.State = RefundState(t.Amounts.Received, t.Amounts.Refunded, pending)
	t.Axes[Refund] = w
}

// RefundState judges succeeded refunds against what was received; pending only
// while none has succeeded and one is under way.
func RefundState(received, refunded int64, pending bool) State {
	switch {
	case refunded > 0 && refunded >= received:
		return RefundFull
	case refunded > 0:
		return RefundPartial
	case pending:
		return RefundPending
	}
	return RefundNone
}
