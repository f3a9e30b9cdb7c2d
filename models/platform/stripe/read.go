package stripe

import (
	"context"
	"net/url"
	"time"

	"counterfoil/models"
)

// readRoot reads everything that the statement about a root needs.
func (a *Adapter) readRoot(ctx context.Context, r root, read time.Time) (models.Observation, error) {
	switch {
	case r.ref.Kind == kindIntent:
		return a.readIntent(ctx, r, read)
	case r.charge != nil:
		p := payment{charge: r.charge}
		if err := a.complete(ctx, r.ref, &p, "charge"); err != nil {
			return models.Observation{}, err
		}
		return a.observe(p, r.ref, read), nil
	case r.session != nil:
		o := models.Observation{Ref: r.ref, Basis: models.Official, Read: read, Axes: map[models.Axis]models.Statement{}}
		a.describeSession(*r.session, &o)
		r.session.state(&o)
		return o, nil
	}
	return a.readInvoice(ctx, r.ref, read)
}

func (a *Adapter) readIntent(ctx context.Context, r root, read time.Time) (models.Observation, error) {
	var in intent
	query := url.Values{"expand[]": {"latest_charge.refunds"}}
	if err := a.get(ctx, r.ref.Account, "/v1/payment_intents/"+r.ref.ID, query, &in); err != nil {
		return models.Observation{}, err
	}
	p := payment{intent: &in, charge: in.LatestCharge.Full}
	if p.charge == nil && (in.LatestCharge.ID != "" || in.Status == "succeeded" || in.Status == "requires_capture") {
		// Right after a payment latest_charge can be null for some seconds.
		charges, err := all(ctx, a, r.ref.Account, "/v1/charges", url.Values{"payment_intent": {r.ref.ID}, "expand[]": {"data.refunds"}},
			func(c charge) string { return c.ID })
		if err != nil {
			return models.Observation{}, err
		}
		p.charge = newest(charges)
	}
	if err := a.complete(ctx, r.ref, &p, "payment_intent"); err != nil {
		return models.Observation{}, err
	}
	if !a.linked(&in) {
		s, err := a.sessionOf(ctx, r)
		if err != nil {
			return models.Observation{}, err
		}
		p.session = s
	}
	return a.observe(p, r.ref, read), nil
}

// complete reads refunds and disputes where the charge doesn't tell all of them.
// Refunds under way or failed don't show in amount_refunded, so the charge's own list
// decides, and its end must have been seen. An inquiry sets disputed too.
func (a *Adapter) complete(ctx context.Context, ref models.ObjectRef, p *payment, filter string) error {
	paid := p.intent != nil && p.intent.AmountReceived != nil && *p.intent.AmountReceived > 0
	var err error
	if p.charge != nil && p.charge.Refunds != nil && !p.charge.Refunds.HasMore {
		p.refunds = p.charge.Refunds.Data
	} else if paid || p.charge != nil {
		p.refunds, err = all(ctx, a, ref.Account, "/v1/refunds", url.Values{filter: {ref.ID}}, func(re refund) string { return re.ID })
	}
	if err != nil {
		return err
	}
	if paid && p.charge == nil || p.charge != nil && (p.charge.Disputed || p.charge.Dispute != "") {
		p.disputes, err = all(ctx, a, ref.Account, "/v1/disputes", url.Values{filter: {ref.ID}}, func(d dispute) string { return d.ID })
	}
	return err
}

// sessionOf finds the session through which an intent was paid; nil where there is none.
func (a *Adapter) sessionOf(ctx context.Context, r root) (*session, error) {
	if r.session != nil {
		return r.session, nil
	}
	var found list[session]
	query := url.Values{"payment_intent": {r.ref.ID}, "limit": {"1"}}
	if err := a.get(ctx, r.ref.Account, "/v1/checkout/sessions", query, &found); err != nil || len(found.Data) == 0 {
		return nil, err
	}
	return &found.Data[0], nil
}

// readInvoice answers for an invoice without a payment of Stripe's: drafts, and those
// paid elsewhere. It states no axis.
func (a *Adapter) readInvoice(ctx context.Context, ref models.ObjectRef, read time.Time) (models.Observation, error) {
	var in invoice
	if err := a.get(ctx, ref.Account, "/v1/invoices/"+ref.ID, nil, &in); err != nil {
		return models.Observation{}, err
	}
	o := models.Observation{Ref: ref, Basis: models.Official, Read: read, Placed: at(in.Created), Live: in.Livemode, Test: a.otherMode(in.Livemode)}
	a.link(in.Metadata, &o)
	return o, nil
}
