package sandbox

import (
	"fmt"
	"maps"
)

// A StripeIntent says how a payment intent is made. The zero value is a card payment of
// the own account that is captured at once.
type StripeIntent struct {
	Account  string // a connected account; empty: the own one
	Metadata map[string]string
	Manual   bool   // authorised first, captured later
	Method   string // empty: card
}

// A StripeSession says how a checkout session is made. Its payment intent is made when the
// buyer pays, and metadata doesn't flow from one to the other.
type StripeSession struct {
	Account        string
	Metadata       map[string]string
	Reference      string // client_reference_id
	IntentMetadata map[string]string
	Manual         bool
	Delayed        bool // the method pays days later
}

// act begins one change: a request of its own, and the object that it is about.
// The caller holds the lock.
func (p *Stripe) act(id, kind string, allowed ...string) (*stripeObject, error) {
	o := p.objects[id]
	if o == nil || o.kind != kind {
		return nil, fmt.Errorf("sandbox: no %s %s", kind, id)
	}
	if len(allowed) > 0 {
		ok := false
		for _, status := range allowed {
			ok = ok || o.fields["status"] == status
		}
		if !ok {
			return nil, fmt.Errorf("sandbox: %s is %v", id, o.fields["status"])
		}
	}
	p.requests++
	return o, nil
}

func (p *Stripe) account(given string) string {
	if given == "" {
		return p.Account
	}
	p.accounts[given] = true
	return given
}

// CreateIntent makes a payment intent of an amount in Stripe's smallest unit.
func (p *Stripe) CreateIntent(amount int64, currency string, in StripeIntent) (string, []Notification) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.requests++
	o := p.intent(amount, currency, in)
	return o.id, p.emit(o, nil, "payment_intent.created")
}

func (p *Stripe) intent(amount int64, currency string, in StripeIntent) *stripeObject {
	method, capture := in.Method, "automatic_async"
	if method == "" {
		method = "card"
	}
	if in.Manual {
		capture = "manual"
	}
	return p.add("payment_intent", "pi", p.account(in.Account), map[string]any{
		"amount": amount, "amount_capturable": int64(0), "amount_received": int64(0), "canceled_at": nil, "cancellation_reason": nil,
		"capture_method": capture, "currency": currency, "customer": nil, "last_payment_error": nil, "latest_charge": nil,
		"metadata": copied(in.Metadata), "payment_method_types": []string{method}, "status": "requires_payment_method",
	})
}

func copied(m map[string]string) map[string]string {
	if m == nil {
		return map[string]string{}
	}
	return maps.Clone(m)
}

// charge makes an attempt of an intent.
func (p *Stripe) charge(in *stripeObject, status string, captured bool) *stripeObject {
	amount := number(in, "amount")
	var got int64
	if captured && status == "succeeded" {
		got = amount
	}
	methods, _ := in.fields["payment_method_types"].([]string)
	metadata, _ := in.fields["metadata"].(map[string]string)
	c := p.add("charge", "ch", in.account, map[string]any{
		"amount": amount, "amount_captured": got, "amount_refunded": int64(0), "captured": captured && status == "succeeded",
		"currency": in.fields["currency"], "customer": nil, "dispute": nil, "disputed": false, "failure_code": nil, "failure_message": nil,
		"metadata": copied(metadata), "paid": status == "succeeded", "payment_intent": in.id,
		"payment_method_details": map[string]any{"type": methods[0]}, "refunded": false, "status": status,
	})
	in.fields["latest_charge"] = c.id
	return c
}

func number(o *stripeObject, field string) int64 {
	n, _ := o.fields[field].(int64)
	return n
}

// CreateSession opens a checkout session.
func (p *Stripe) CreateSession(amount int64, currency string, s StripeSession) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.requests++
	status := "unpaid"
	if amount == 0 {
		status = "no_payment_required"
	}
	var reference any
	if s.Reference != "" {
		reference = s.Reference
	}
	prefix := "cs_test"
	if p.Live {
		prefix = "cs_live"
	}
	o := p.add("checkout.session", prefix, p.account(s.Account), map[string]any{
		"amount_subtotal": amount, "amount_total": amount, "client_reference_id": reference, "currency": currency, "customer": nil,
		"invoice": nil, "metadata": copied(s.Metadata), "mode": "payment", "payment_intent": nil, "payment_status": status, "status": "open",
	})
	// Not part of any answer: how the buyer will pay.
	p.plans[o.id] = s
	return o.id
}

// CompleteSession lets the buyer finish a session, which makes and pays its intent;
// an empty intent where there was nothing to pay.
func (p *Stripe) CompleteSession(id string) (string, []Notification, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	o, err := p.act(id, "checkout.session", "open")
	if err != nil {
		return "", nil, err
	}
	o.fields["status"] = "complete"
	if number(o, "amount_total") == 0 {
		return "", p.emit(o, nil, "checkout.session.completed"), nil
	}
	plan := p.plans[id]
	currency, _ := o.fields["currency"].(string)
	in := p.intent(number(o, "amount_total"), currency, StripeIntent{Account: o.account, Metadata: plan.IntentMetadata, Manual: plan.Manual})
	o.fields["payment_intent"] = in.id
	out := p.emit(in, nil, "payment_intent.created")
	switch {
	case plan.Delayed:
		p.charge(in, "pending", false)
		in.fields["status"] = "processing"
		out = append(out, p.emit(in, nil, "payment_intent.processing")...)
	case plan.Manual:
		out = append(out, p.authorize(in)...)
	default:
		o.fields["payment_status"] = "paid"
		out = append(out, p.succeed(in)...)
	}
	return in.id, append(out, p.emit(o, nil, "checkout.session.completed")...), nil
}

// ExpireSession ends a session that nobody finished.
func (p *Stripe) ExpireSession(id string) ([]Notification, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	o, err := p.act(id, "checkout.session", "open")
	if err != nil {
		return nil, err
	}
	o.fields["status"] = "expired"
	return p.emit(o, nil, "checkout.session.expired"), nil
}

// Succeed pays an intent. A session that waits for it hears of it too.
func (p *Stripe) Succeed(id string) ([]Notification, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	in, err := p.act(id, "payment_intent", "requires_payment_method", "requires_action", "processing")
	if err != nil {
		return nil, err
	}
	out := p.succeed(in)
	for _, o := range p.order {
		if o.kind == "checkout.session" && o.fields["payment_intent"] == id && o.fields["payment_status"] == "unpaid" {
			o.fields["payment_status"] = "paid"
			out = append(out, p.emit(o, nil, "checkout.session.async_payment_succeeded")...)
		}
	}
	return out, nil
}

func (p *Stripe) succeed(in *stripeObject) []Notification {
	c := p.pendingCharge(in)
	if c == nil {
		c = p.charge(in, "succeeded", true)
	} else {
		c.fields["status"], c.fields["captured"], c.fields["paid"], c.fields["amount_captured"] = "succeeded", true, true, c.fields["amount"]
	}
	in.fields["status"], in.fields["amount_received"], in.fields["last_payment_error"] = "succeeded", in.fields["amount"], nil
	return append(p.emit(c, nil, "charge.succeeded"), p.emit(in, nil, "payment_intent.succeeded")...)
}

func (p *Stripe) pendingCharge(in *stripeObject) *stripeObject {
	latest, _ := in.fields["latest_charge"].(string)
	if c := p.objects[latest]; c != nil && c.fields["status"] == "pending" {
		return c
	}
	return nil
}

// Fail is one failed attempt; the intent can be tried again.
func (p *Stripe) Fail(id, code string) ([]Notification, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	in, err := p.act(id, "payment_intent", "requires_payment_method", "requires_action", "processing")
	if err != nil {
		return nil, err
	}
	c := p.pendingCharge(in)
	if c == nil {
		c = p.charge(in, "failed", false)
	}
	c.fields["status"], c.fields["failure_code"] = "failed", code
	in.fields["status"] = "requires_payment_method"
	in.fields["last_payment_error"] = map[string]any{"type": "card_error", "code": code, "charge": c.id}
	return append(p.emit(c, nil, "charge.failed"), p.emit(in, nil, "payment_intent.payment_failed")...), nil
}

// Require sends the buyer off to confirm.
func (p *Stripe) Require(id string) ([]Notification, error) {
	return p.move(id, "requires_action", "payment_intent.requires_action", "requires_payment_method")
}

// Process lets an intent wait for a slow method.
func (p *Stripe) Process(id string) ([]Notification, error) {
	return p.move(id, "processing", "payment_intent.processing", "requires_payment_method", "requires_action")
}

func (p *Stripe) move(id, to, topic string, from ...string) ([]Notification, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	in, err := p.act(id, "payment_intent", from...)
	if err != nil {
		return nil, err
	}
	in.fields["status"] = to
	return p.emit(in, nil, topic), nil
}

// Authorize blocks the money of an intent that is captured by hand.
func (p *Stripe) Authorize(id string) ([]Notification, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	in, err := p.act(id, "payment_intent", "requires_payment_method", "requires_action")
	if err != nil {
		return nil, err
	}
	return p.authorize(in), nil
}

func (p *Stripe) authorize(in *stripeObject) []Notification {
	c := p.charge(in, "succeeded", false)
	in.fields["status"], in.fields["amount_capturable"] = "requires_capture", in.fields["amount"]
	return append(p.emit(c, nil, "charge.succeeded"), p.emit(in, nil, "payment_intent.amount_capturable_updated")...)
}

// Capture takes the authorised money, or a part of it; the rest is released.
func (p *Stripe) Capture(id string, amount int64) ([]Notification, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	in, err := p.act(id, "payment_intent", "requires_capture")
	if err != nil {
		return nil, err
	}
	latest, _ := in.fields["latest_charge"].(string)
	c := p.objects[latest]
	if amount <= 0 || amount > number(c, "amount") {
		return nil, fmt.Errorf("sandbox: can't capture %d of %d", amount, number(c, "amount"))
	}
	c.fields["captured"], c.fields["amount_captured"] = true, amount
	in.fields["status"], in.fields["amount_capturable"], in.fields["amount_received"] = "succeeded", int64(0), amount
	return append(p.emit(c, nil, "charge.captured"), p.emit(in, nil, "payment_intent.succeeded")...), nil
}

// CancelIntent ends an intent for good; an authorisation lapses with it.
func (p *Stripe) CancelIntent(id string) ([]Notification, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	in, err := p.act(id, "payment_intent", "requires_payment_method", "requires_action", "requires_capture", "processing")
	if err != nil {
		return nil, err
	}
	var out []Notification
	if in.fields["status"] == "requires_capture" {
		latest, _ := in.fields["latest_charge"].(string)
		out = p.emit(p.objects[latest], nil, "charge.expired")
	}
	in.fields["status"], in.fields["amount_capturable"] = "canceled", int64(0)
	in.fields["canceled_at"], in.fields["cancellation_reason"] = p.now().Unix(), "requested_by_customer"
	return append(out, p.emit(in, nil, "payment_intent.canceled")...), nil
}
