package stripe

import (
	"slices"
	"strings"
	"time"

	"counterfoil/models"
)

// A tally is what refunds add up to, in Stripe's own units.
type tally struct {
	succeeded, other int64
	underWay         bool
	unclear          string // a word that isn't in the table
	odd              bool   // a refund can't be counted: other currency, no amount
	words            []string
	last             time.Time
}

// refunded states the refund axis: the sum of succeeded refunds against what came in.
func (p payment) refunded(o *models.Observation) {
	var received int64
	if o.Amounts != nil {
		received = o.Amounts.Received
	}
	t := p.refundParts(o, received)
	s := models.Statement{Word: strings.Join(t.words, ", "), At: t.last}
	if o.Amounts != nil {
		if sum, ok := minor(t.succeeded, o.Amounts.Currency); ok {
			o.Amounts.Refunded = sum
		} else {
			t.odd = true
		}
		s.State = models.RefundState(received, o.Amounts.Refunded, t.underWay)
	}
	switch {
	case t.unclear != "" || t.odd || o.Amounts == nil:
		s.State, s.Unclear = models.Review, true
		if t.unclear != "" {
			s.Word = t.unclear
		}
	case p.charge != nil && !t.explains(*p.charge):
		s.State, s.Unclear = models.Review, true
		o.Faults = append(o.Faults, models.Fault{Kind: models.Contradiction, Axis: models.Refund, Path: "charge.amount_refunded"})
	}
	o.Axes[models.Refund] = s
}

// explains tells whether the charge's own sum fits its refunds. Whether it counts
// refunds under way, failed ones, or a released rest of the authorisation depends on
// the payment method and the version it was captured under, so all of these fit.
func (t tally) explains(c charge) bool {
	var released int64
	if c.Amount != nil && c.AmountCaptured != nil {
		released = max(0, *c.Amount-*c.AmountCaptured)
	}
	return c.AmountRefunded >= t.succeeded && c.AmountRefunded <= t.succeeded+t.other+released
}

// refundParts enters each refund as a part and adds them up.
func (p payment) refundParts(o *models.Observation, received int64) tally {
	var t tally
	for _, re := range p.refunds {
		word := clean(re.Status)
		code, known := currency(re.Currency)
		part := models.Part{Axis: models.Refund, ID: clean(re.ID), Word: word, At: at(re.Created), Note: clean(either(re.FailureReason, re.PendingReason)), Reason: clean(re.Reason)}
		fits := known && re.Amount != nil && (o.Amounts == nil || o.Amounts.Currency == code)
		if known && re.Amount != nil {
			var exact bool
			part.Currency = code
			part.Amount, exact = minor(*re.Amount, code)
			fits = fits && exact
		}
		if !fits {
			t.odd = true
			o.Faults = append(o.Faults, models.Fault{Kind: models.Contradiction, Axis: models.Refund, Path: "refund.amount"})
		}
		when := whenSome
		if received > 0 && part.Amount >= received {
			when = whenAll
		}
		part.State, known = state(fieldRefund, word, when, whenNothing, whenUncounted)
		switch {
		case !known:
			t.unclear = either(word, "no status")
			o.Faults = append(o.Faults, unknown(models.Refund, fieldRefund, word))
		case p.release(re):
			part.State, part.Note = models.RefundNone, models.ReleasedNote
			t.add(re.Amount, &t.other)
		case part.State == models.RefundPartial || part.State == models.RefundFull:
			part.Counts = fits
			t.add(re.Amount, &t.succeeded)
		default:
			t.underWay = t.underWay || part.State == models.RefundPending
			t.add(re.Amount, &t.other)
		}
		if !slices.Contains(t.words, word) {
			t.words = append(t.words, word)
		}
		if part.At.After(t.last) {
			t.last = part.At
		}
		addPart(o, part)
	}
	slices.Sort(t.words)
	return t
}

func (t *tally) add(amount *int64, to *int64) {
	if amount != nil && *amount <= maxAmount && *to <= maxAmount {
		*to += *amount
	}
}

// release tells whether a refund is no refund: before 2025-03-31 Stripe wrote one for
// the part of an authorisation that was never captured. No money moved for it.
func (p payment) release(re refund) bool {
	c := p.charge
	if c == nil || re.Status != "succeeded" || re.BalanceTransaction != "" || re.Amount == nil || c.Amount == nil {
		return false
	}
	var captured int64
	if c.AmountCaptured != nil {
		captured = *c.AmountCaptured
	}
	return captured < *c.Amount && *re.Amount == *c.Amount-captured
}

// disputeOrder says which of several disputes speaks for the payment. Read only.
var disputeOrder = []models.State{models.DisputeOpen, models.DisputeLost, models.DisputeWon, models.DisputeNone}

// disputed states the dispute axis.
func (p payment) disputed(o *models.Observation) {
	s := models.Statement{State: models.DisputeNone}
	found := len(disputeOrder)
	for _, d := range p.disputes {
		word := clean(d.Status)
		st, known := state(fieldDispute, word)
		part := models.Part{Axis: models.Dispute, ID: clean(d.ID), State: st, Word: word, At: at(d.Created), Note: clean(d.Reason),
			Counts: st == models.DisputeOpen || st == models.DisputeLost}
		if due := at(d.Evidence.DueBy); !due.IsZero() {
			part.Note = strings.TrimSpace(part.Note + " due " + due.Format(time.RFC3339))
		}
		if code, ok := currency(d.Currency); ok && d.Amount != nil {
			part.Currency = code
			part.Amount, _ = minor(*d.Amount, code)
		}
		addPart(o, part)
		if !known {
			o.Faults = append(o.Faults, unknown(models.Dispute, fieldDispute, word))
			s = models.Statement{Word: word, Unclear: true, At: part.At}
			found = -1
			continue
		}
		if rank := slices.Index(disputeOrder, st); rank < found {
			found = rank
			s = models.Statement{State: st, Word: word, At: part.At}
		}
	}
	o.Axes[models.Dispute] = s
}
