package stripe

import (
	"context"
	"errors"
	"net/url"
	"sync"
	"time"

	"counterfoil/models"
	"counterfoil/models/platform"
)

// Fetch reads objects as they stand now. Whatever leads to a payment intent is
// answered with that intent, and an intent that several references lead to is read
// once. Calls per payment:
//
//   - 1 for the intent with its charge and the charge's first ten refunds,
//   - 1 more to get there from a charge, refund, dispute, session or invoice payment,
//   - 1 more for the session's references where the intent's metadata names no order,
//   - 1 more for disputes where the charge says that there are any,
//   - 1 more for refunds beyond ten, in steps of 100,
//   - up to 3 more in the seconds after a payment while Stripe doesn't name its charge.
func (a *Adapter) Fetch(ctx context.Context, refs []models.ObjectRef) (map[models.ObjectRef]models.Observation, error) {
	read := a.now()
	roots := make([]root, len(refs))
	answers := make([]models.Observation, len(refs))
	err := each(ctx, len(refs), func(ctx context.Context, i int) error {
		var err error
		roots[i], err = a.lead(ctx, refs[i])
		answers[i], err = settle(refs[i], read, models.Observation{}, err)
		return err
	})
	if err != nil {
		return nil, err
	}
	var todo []root
	asked := map[models.ObjectRef][]int{}
	for i, r := range roots {
		if answers[i].Ref.Zero() {
			if asked[r.ref] == nil {
				todo = append(todo, r)
			}
			asked[r.ref] = append(asked[r.ref], i)
		}
	}
	err = each(ctx, len(todo), func(ctx context.Context, i int) error {
		o, err := a.readRoot(ctx, todo[i], read)
		o, err = settle(todo[i].ref, read, o, err)
		for _, j := range asked[todo[i].ref] {
			answers[j] = o
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	out := make(map[models.ObjectRef]models.Observation, len(refs))
	for i, ref := range refs {
		out[ref] = answers[i]
	}
	return out, nil
}

// settle turns what concerns one object alone into its answer.
func settle(ref models.ObjectRef, read time.Time, o models.Observation, err error) (models.Observation, error) {
	if t, ok := errors.AsType[*trouble](err); ok {
		return models.Observation{Ref: ref, Basis: models.Official, Read: read, Absence: t.absence, Detail: t.detail}, nil
	}
	if s, ok := errors.AsType[*shape](err); ok {
		return models.Observation{Ref: ref, Basis: models.Official, Read: read,
			Faults: []models.Fault{{Kind: models.SchemaChanged, Path: s.path}}}, nil
	}
	return o, err
}

// each runs work side by side, at most as many as Together says, and returns the
// first failure; the others are stopped then.
func each(ctx context.Context, n int, work func(ctx context.Context, i int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	room := make(chan struct{}, together)
	var once sync.Once
	var failure error
	for i := range n {
		room <- struct{}{}
		if failed := ctx.Err(); failed != nil {
			once.Do(func() { failure = &platform.Outage{Detail: "we stopped asking", Err: failed} })
			<-room
			break
		}
		wg.Go(func() {
			defer func() { <-room }()
			if err := work(ctx, i); err != nil {
				once.Do(func() { failure = err })
				cancel(err)
			}
		})
	}
	wg.Wait()
	return failure
}

// A root is what a reading is about in the end, with what was read on the way.
type root struct {
	ref     models.ObjectRef
	charge  *charge  // given for a root charge
	session *session // given where the way began at one
	bill    bool     // the root is an invoice that no payment belongs to
}

// lead finds the root of a reference.
func (a *Adapter) lead(ctx context.Context, ref models.ObjectRef) (root, error) {
	switch {
	case zeroPattern.MatchString(ref.ID):
		return root{}, &trouble{absence: models.AdminTest, detail: "a sample of the Dashboard"}
	case !idPattern.MatchString(ref.ID):
		return root{}, &trouble{absence: models.Gone, detail: "no id of Stripe looks like this"}
	case !a.own(ref.Account) && !contextPattern.MatchString(ref.Account):
		return root{}, &trouble{absence: models.Unreadable, detail: "no account of Stripe looks like this"}
	}
	switch ref.Kind {
	case kindIntent:
		return root{ref: ref}, nil
	case kindCharge:
		return a.leadCharge(ctx, ref)
	case kindRefund:
		var re refund
		err := a.get(ctx, ref.Account, "/v1/refunds/"+ref.ID, nil, &re)
		return a.leadVia(ctx, ref, re.PaymentIntent, re.Charge, err)
	case kindDispute:
		var d dispute
		err := a.get(ctx, ref.Account, "/v1/disputes/"+ref.ID, nil, &d)
		return a.leadVia(ctx, ref, d.PaymentIntent, d.Charge, err)
	case kindInvoicePayment:
		var p invoicePayment
		err := a.get(ctx, ref.Account, "/v1/invoice_payments/"+ref.ID, nil, &p)
		return a.leadVia(ctx, ref, p.Payment.PaymentIntent, p.Payment.Charge, err)
	case kindSession:
		return a.leadSession(ctx, ref)
	case kindInvoice:
		return a.leadInvoice(ctx, ref)
	}
	return root{}, &trouble{absence: models.Unreadable, detail: "this kind of object isn't read"}
}

// leadVia goes on to the intent, else to the charge that an object names.
func (a *Adapter) leadVia(ctx context.Context, from models.ObjectRef, intent, charge id, err error) (root, error) {
	switch {
	case err != nil:
		return root{}, err
	case intent != "":
		return root{ref: models.ObjectRef{Account: from.Account, Kind: kindIntent, ID: string(intent)}}, nil
	case charge != "":
		return a.leadCharge(ctx, models.ObjectRef{Account: from.Account, Kind: kindCharge, ID: string(charge)})
	}
	return root{}, &trouble{absence: models.Unreadable, detail: "it names no payment"}
}

func (a *Adapter) leadCharge(ctx context.Context, ref models.ObjectRef) (root, error) {
	if !idPattern.MatchString(ref.ID) {
		return root{}, &trouble{absence: models.Unreadable, detail: "it names no payment"}
	}
	var ch charge
	if err := a.get(ctx, ref.Account, "/v1/charges/"+ref.ID, url.Values{"expand[]": {"refunds"}}, &ch); err != nil {
		return root{}, err
	}
	if ch.PaymentIntent != "" {
		ref.Kind, ref.ID = kindIntent, string(ch.PaymentIntent)
		return root{ref: ref}, nil
	}
	return root{ref: ref, charge: &ch}, nil
}

func (a *Adapter) leadSession(ctx context.Context, ref models.ObjectRef) (root, error) {
	var s session
	if err := a.get(ctx, ref.Account, "/v1/checkout/sessions/"+ref.ID, nil, &s); err != nil {
		return root{}, err
	}
	r := root{ref: ref, session: &s}
	switch {
	case s.PaymentIntent != "":
		r.ref.Kind, r.ref.ID = kindIntent, string(s.PaymentIntent)
	case s.Invoice != "":
		via, err := a.leadInvoice(ctx, models.ObjectRef{Account: ref.Account, Kind: kindInvoice, ID: string(s.Invoice)})
		if err != nil {
			return root{}, err
		}
		if !via.bill {
			via.session = &s
			return via, nil
		}
	}
	return r, nil
}

// leadInvoice asks for the payments of an invoice: the paid one, else the one that
// is offered first.
func (a *Adapter) leadInvoice(ctx context.Context, ref models.ObjectRef) (root, error) {
	payments, err := all(ctx, a, ref.Account, "/v1/invoice_payments", url.Values{"invoice": {ref.ID}}, func(p invoicePayment) string { return p.ID })
	if err != nil {
		return root{}, err
	}
	var best *invoicePayment
	rank := 0
	for i, p := range payments {
		r := 1
		if p.IsDefault {
			r = 2
		}
		if p.Status == "paid" {
			r = 3
		}
		if r > rank && (p.Payment.PaymentIntent != "" || p.Payment.Charge != "") {
			best, rank = &payments[i], r
		}
	}
	if best == nil {
		return root{ref: ref, bill: true}, nil
	}
	return a.leadVia(ctx, ref, best.Payment.PaymentIntent, best.Payment.Charge, nil)
}
