package stripe

import (
	"encoding/json"
	"time"

	"counterfoil/models"
)

// said is what a snapshot event states by itself: for showing beside the official
// reading, and for connections without one. Nil where it states nothing. Stripe's
// objects carry no time of their last change, so the event's own time stands for it.
func (a *Adapter) said(object string, raw json.RawMessage, n models.Notice, live *bool, now time.Time) *models.Observation {
	o := models.Observation{Ref: n.Object, Basis: models.Reported, Read: now, Changed: n.Occurred, Test: n.Test, Live: live,
		Axes: map[models.Axis]models.Statement{}}
	read, ok := map[string]func(json.RawMessage, *models.Observation) error{
		"payment_intent": a.saidIntent, "charge": a.saidCharge, "refund": a.saidRefund,
		"dispute": a.saidDispute, "checkout.session": a.saidSession,
	}[object]
	if !ok {
		return nil
	}
	if err := read(raw, &o); err != nil {
		// A field of another type: the official reading decides, and tells of it too.
		return nil
	}
	for axis, s := range o.Axes {
		s.At = n.Occurred
		o.Axes[axis] = s
	}
	return &o
}

func (a *Adapter) saidIntent(raw json.RawMessage, o *models.Observation) error {
	var in intent
	if err := json.Unmarshal(raw, &in); err != nil {
		return err
	}
	p := payment{intent: &in}
	if in.Charges != nil {
		p.charge = newest(in.Charges.Data)
	}
	a.describe(p, o)
	p.state(o)
	p.sums(o)
	return nil
}

func (a *Adapter) saidCharge(raw json.RawMessage, o *models.Observation) error {
	var ch charge
	if err := json.Unmarshal(raw, &ch); err != nil {
		return err
	}
	p := payment{charge: &ch}
	a.describe(p, o)
	p.state(o)
	if ch.Status != "succeeded" {
		return nil
	}
	p.sums(o)
	if o.Amounts == nil {
		return nil
	}
	// An amount of 0 doesn't tell that no refund is under way, so it states nothing.
	if sum, ok := minor(ch.AmountRefunded, o.Amounts.Currency); ok && sum > 0 && ch.Captured {
		o.Amounts.Refunded = sum
		when := whenSome
		if sum >= o.Amounts.Received {
			when = whenAll
		}
		s, _ := state(fieldRefund, "succeeded", when)
		o.Axes[models.Refund] = models.Statement{State: s, Word: "succeeded"}
	}
	return nil
}

// saidRefund states its own part only: what other refunds there are it doesn't know.
func (a *Adapter) saidRefund(raw json.RawMessage, o *models.Observation) error {
	var re refund
	if err := json.Unmarshal(raw, &re); err != nil {
		return err
	}
	a.link(re.Metadata, o)
	p := payment{refunds: []refund{re}}
	p.refundParts(o, 0)
	return nil
}

func (a *Adapter) saidDispute(raw json.RawMessage, o *models.Observation) error {
	var d dispute
	if err := json.Unmarshal(raw, &d); err != nil {
		return err
	}
	a.link(d.Metadata, o)
	payment{disputes: []dispute{d}}.disputed(o)
	return nil
}

func (a *Adapter) saidSession(raw json.RawMessage, o *models.Observation) error {
	var s session
	if err := json.Unmarshal(raw, &s); err != nil {
		return err
	}
	a.describeSession(s, o)
	if s.PaymentIntent == "" && s.Invoice == "" {
		s.state(o)
		return nil
	}
	// Unpaid says nothing here: the intent has a word of its own for what goes on.
	if s.PaymentStatus == "paid" {
		st, _ := state(fieldIntent, "succeeded", whenChargeHolds)
		o.Axes[models.Payment] = models.Statement{State: st, Word: s.PaymentStatus}
		s.sums(o, true)
	}
	return nil
}
