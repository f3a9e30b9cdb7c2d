package sandbox

import "fmt"

// ReturnDebit takes the money of a paid intent back weeks later, as banks do with
// direct debits. The intent's own status stays succeeded.
func (p *Stripe) ReturnDebit(id string) ([]Notification, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, c, err := p.paid(id)
	if err != nil {
		return nil, err
	}
	c.fields["status"], c.fields["paid"], c.fields["failure_code"] = "failed", false, "charge_returned"
	return p.emit(c, map[string]any{"status": "succeeded"}, "charge.failed"), nil
}

// paid finds a paid intent, or a charge without one, and its charge.
func (p *Stripe) paid(id string) (*stripeObject, *stripeObject, error) {
	if c := p.objects[id]; c != nil && c.kind == "charge" && c.fields["payment_intent"] == nil {
		_, err := p.act(id, "charge", "succeeded")
		return nil, c, err
	}
	in, err := p.act(id, "payment_intent", "succeeded")
	if err != nil {
		return nil, nil, err
	}
	latest, _ := in.fields["latest_charge"].(string)
	return in, p.objects[latest], nil
}

// CreateCharge makes a paid charge without an intent, as old integrations do.
func (p *Stripe) CreateCharge(amount int64, currency string, in StripeIntent) (string, []Notification) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.requests++
	method := in.Method
	if method == "" {
		method = "card"
	}
	c := p.add("charge", "ch", p.account(in.Account), map[string]any{
		"amount": amount, "amount_captured": amount, "amount_refunded": int64(0), "captured": true, "currency": currency, "customer": nil,
		"dispute": nil, "disputed": false, "failure_code": nil, "metadata": copied(in.Metadata), "paid": true, "payment_intent": nil,
		"payment_method_details": map[string]any{"type": method}, "refunded": false, "status": "succeeded",
	})
	return c.id, p.emit(c, nil, "charge.succeeded")
}

// PayInvoice makes an invoice and pays it with an intent of its own.
func (p *Stripe) PayInvoice(amount int64, currency string, in StripeIntent) (invoice, intent string, ns []Notification) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.requests++
	bill := p.invoice(amount, currency, in)
	o := p.intent(amount, currency, in)
	out := append(p.emit(o, nil, "payment_intent.created"), p.succeed(o)...)
	bill.fields["status"], bill.fields["amount_paid"] = "paid", amount
	ip := p.add("invoice_payment", "inpay", bill.account, map[string]any{"invoice": bill.id, "status": "paid", "is_default": true,
		"amount_paid": amount, "amount_requested": amount, "currency": currency,
		"payment": map[string]any{"type": "payment_intent", "payment_intent": o.id}})
	out = append(out, p.emit(bill, nil, "invoice.paid", "invoice.payment_succeeded")...)
	return bill.id, o.id, append(out, p.emit(ip, nil, "invoice_payment.paid")...)
}

// DraftInvoice makes an invoice that nobody paid yet.
func (p *Stripe) DraftInvoice(amount int64, currency string, in StripeIntent) (string, []Notification) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.requests++
	bill := p.invoice(amount, currency, in)
	return bill.id, p.emit(bill, nil, "invoice.created")
}

func (p *Stripe) invoice(amount int64, currency string, in StripeIntent) *stripeObject {
	return p.add("invoice", "in", p.account(in.Account), map[string]any{"amount_due": amount, "amount_paid": int64(0), "total": amount,
		"currency": currency, "customer": nil, "metadata": copied(in.Metadata), "status": "draft"})
}

// Refund gives money of a paid intent, or of a charge without one, back. status is
// succeeded, pending or requires_action.
func (p *Stripe) Refund(id string, amount int64, status string) (string, []Notification, error) {
	return p.RefundFor(id, amount, status, "")
}

// RefundFor is a refund with Stripe's word for why: duplicate, fraudulent,
// requested_by_customer; empty where nobody gave one.
func (p *Stripe) RefundFor(id string, amount int64, status, reason string) (string, []Notification, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	in, c, err := p.paid(id)
	if err != nil {
		return "", nil, err
	}
	if amount <= 0 || number(c, "amount_refunded")+amount > number(c, "amount_captured") {
		return "", nil, fmt.Errorf("sandbox: can't refund %d of %s", amount, c.id)
	}
	var intent, why any
	if in != nil {
		intent = in.id
	}
	if reason != "" {
		why = reason
	}
	re := p.add("refund", "re", c.account, map[string]any{"amount": amount, "balance_transaction": nil, "charge": c.id,
		"currency": c.fields["currency"], "failure_reason": nil, "metadata": map[string]string{}, "payment_intent": intent, "pending_reason": nil,
		"reason": why, "status": status})
	out := p.emit(re, nil, "refund.created")
	if status == "succeeded" {
		out = append(out, p.count(re, c, amount)...)
	}
	return re.id, out, nil
}

// count enters a refund into its charge's sum, or takes it out again.
func (p *Stripe) count(re, c *stripeObject, amount int64) []Notification {
	before := map[string]any{"amount_refunded": number(c, "amount_refunded"), "refunded": c.fields["refunded"]}
	c.fields["amount_refunded"] = number(c, "amount_refunded") + amount
	c.fields["refunded"] = number(c, "amount_refunded") >= number(c, "amount_captured")
	topic := "charge.refunded"
	if amount < 0 {
		topic = "charge.updated"
	} else {
		re.fields["balance_transaction"] = "txn_" + re.id
	}
	return p.emit(c, before, topic)
}

// SettleRefund lets a refund under way arrive.
func (p *Stripe) SettleRefund(id string) ([]Notification, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	re, err := p.act(id, "refund", "pending", "requires_action")
	if err != nil {
		return nil, err
	}
	was := re.fields["status"]
	re.fields["status"] = "succeeded"
	charge, _ := re.fields["charge"].(string)
	out := p.count(re, p.objects[charge], number(re, "amount"))
	return append(out, p.emit(re, map[string]any{"status": was}, "refund.updated", "charge.refund.updated")...), nil
}

// FailRefund lets the bank return a refund, also weeks after it succeeded.
func (p *Stripe) FailRefund(id, reason string) ([]Notification, error) {
	return p.endRefund(id, "failed", reason, "refund.failed", "refund.updated", "charge.refund.updated")
}

// CancelRefund stops a refund that is under way.
func (p *Stripe) CancelRefund(id string) ([]Notification, error) {
	return p.endRefund(id, "canceled", "merchant_request", "refund.updated")
}

func (p *Stripe) endRefund(id, status, reason string, topics ...string) ([]Notification, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	re, err := p.act(id, "refund", "pending", "requires_action", "succeeded")
	if err != nil {
		return nil, err
	}
	was := re.fields["status"]
	re.fields["status"], re.fields["failure_reason"] = status, reason
	out := p.emit(re, map[string]any{"status": was}, topics...)
	if charge, _ := re.fields["charge"].(string); was == "succeeded" {
		out = append(out, p.count(re, p.objects[charge], -number(re, "amount"))...)
	}
	return out, nil
}

// OpenDispute lets the bank ask: an inquiry, or a dispute that takes the money at once.
func (p *Stripe) OpenDispute(id string, amount int64, inquiry bool) (string, []Notification, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	in, c, err := p.paid(id)
	if err != nil {
		return "", nil, err
	}
	var intent any
	if in != nil {
		intent = in.id
	}
	status, topics := "needs_response", []string{"charge.dispute.created", "charge.dispute.funds_withdrawn"}
	if inquiry {
		status, topics = "warning_needs_response", topics[:1]
	}
	d := p.add("dispute", "dp", c.account, map[string]any{"amount": amount, "charge": c.id, "currency": c.fields["currency"],
		"evidence_details": map[string]any{"due_by": p.now().AddDate(0, 0, 14).Unix(), "has_evidence": false},
		"metadata":         map[string]string{}, "payment_intent": intent, "reason": "fraudulent", "status": status})
	c.fields["disputed"], c.fields["dispute"] = true, d.id
	return d.id, p.emit(d, nil, topics...), nil
}

// WinDispute brings the money back.
func (p *Stripe) WinDispute(id string) ([]Notification, error) {
	return p.endDispute(id, "won", "charge.dispute.closed", "charge.dispute.funds_reinstated")
}

// LoseDispute leaves it with the buyer.
func (p *Stripe) LoseDispute(id string) ([]Notification, error) {
	return p.endDispute(id, "lost", "charge.dispute.closed")
}

// CloseInquiry ends an inquiry without a dispute.
func (p *Stripe) CloseInquiry(id string) ([]Notification, error) {
	return p.endDispute(id, "warning_closed", "charge.dispute.closed")
}

func (p *Stripe) endDispute(id, status string, topics ...string) ([]Notification, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	d, err := p.act(id, "dispute")
	if err != nil {
		return nil, err
	}
	was := d.fields["status"]
	d.fields["status"] = status
	return p.emit(d, map[string]any{"status": was}, topics...), nil
}

// SetStatusWord gives an object a status word that nobody has met.
func (p *Stripe) SetStatusWord(id, word string) ([]Notification, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	o := p.objects[id]
	topics := map[string]string{"payment_intent": "payment_intent." + word, "refund": "refund.updated", "dispute": "charge.dispute.updated"}
	if o == nil || topics[o.kind] == "" {
		return nil, fmt.Errorf("sandbox: no status word on %s", id)
	}
	p.requests++
	was := o.fields["status"]
	o.fields["status"] = word
	return p.emit(o, map[string]any{"status": was}, topics[o.kind]), nil
}
