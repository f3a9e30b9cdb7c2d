package stripe

import (
	"slices"
	"strings"
	"time"

	"counterfoil/models"
)

// A payment is all that was read about one payment.
type payment struct {
	intent   *intent // nil: a charge made without one
	charge   *charge // the one that counts; nil: none was made yet
	refunds  []refund
	disputes []dispute
	session  *session // where it was looked up
}

// observe puts an official reading together.
func (a *Adapter) observe(p payment, ref models.ObjectRef, read time.Time) models.Observation {
	o := models.Observation{Ref: ref, Basis: models.Official, Read: read, Axes: map[models.Axis]models.Statement{}}
	a.describe(p, &o)
	p.state(&o)
	p.sums(&o)
	p.refunded(&o)
	p.disputed(&o)
	return o
}

// describe fills in everything that isn't a state or a sum.
func (a *Adapter) describe(p payment, o *models.Observation) {
	if p.charge != nil {
		o.Placed, o.Live, o.Method = at(p.charge.Created), p.charge.Livemode, clean(p.charge.Method.Type)
		a.link(p.charge.Metadata, o)
		if p.intent != nil {
			o.Refs = append(o.Refs, clean(p.charge.ID))
		}
	}
	if p.intent != nil {
		o.Placed, o.Live = at(p.intent.Created), p.intent.Livemode
		a.link(p.intent.Metadata, o)
		if o.Method == "" && len(p.intent.MethodTypes) == 1 {
			o.Method = clean(p.intent.MethodTypes[0])
		}
	}
	if p.session != nil {
		a.linkSession(*p.session, o)
	}
	o.Test = o.Test || a.otherMode(o.Live)
}

func (a *Adapter) describeSession(s session, o *models.Observation) {
	o.Placed, o.Live = at(s.Created), s.Livemode
	a.linkSession(s, o)
	o.Test = o.Test || a.otherMode(o.Live)
}

// linkSession adds what a session says of its order.
func (a *Adapter) linkSession(s session, o *models.Observation) {
	if s.ID != "" && s.ID != o.Ref.ID {
		o.Refs = append(o.Refs, clean(s.ID))
	}
	a.link(s.Metadata, o)
	if v := clean(strings.TrimSpace(s.ClientReference)); v != "" {
		addLink(o, models.Link{How: models.LinkReference, Value: v})
	}
}

func (a *Adapter) link(m metadata, o *models.Observation) {
	for _, rule := range a.foreign {
		if v, there := m[rule.key]; there && v == rule.value {
			o.Foreign = rule.key + "=" + rule.value
		}
	}
	if v := clean(strings.TrimSpace(m[a.orderKey])); v != "" {
		addLink(o, models.Link{How: models.LinkMetadata, Value: v})
	}
}

func addLink(o *models.Observation, l models.Link) {
	if !slices.Contains(o.Links, l) {
		o.Links = append(o.Links, l)
	}
}

// linked tells whether the merchant's own order stands on the intent.
func (a *Adapter) linked(in *intent) bool { return strings.TrimSpace(in.Metadata[a.orderKey]) != "" }

// state states the payment axis.
func (p payment) state(o *models.Observation) {
	field, word, when := fieldCharge, "", []string{}
	var since time.Time
	switch {
	case p.intent != nil:
		field, word, when = fieldIntent, p.intent.Status, p.intentWhen()
		since = at(p.intent.CanceledAt)
		if word != "canceled" {
			since = time.Time{}
			if p.charge != nil {
				since = at(p.charge.Created)
			}
		}
	case p.charge != nil:
		word, when, since = p.charge.Status, p.charge.when(), at(p.charge.Created)
	}
	s := pay(o, field, word, when)
	s.At = since
	o.Axes[models.Payment] = s
	if p.failedAfterwards() {
		s.Unclear, s.Word = true, word+", charge failed"
		o.Axes[models.Payment] = s
		o.Faults = append(o.Faults, models.Fault{Kind: models.Contradiction, Axis: models.Payment, Path: "latest_charge.status", Word: "failed"})
	}
}

// pay looks a payment's word up and says so where it isn't in the table.
func pay(o *models.Observation, field, word string, when []string) models.Statement {
	word = clean(word)
	st, ok := state(field, word, when...)
	if ok {
		return models.Statement{State: st, Word: word}
	}
	o.Faults = append(o.Faults, unknown(models.Payment, field, word))
	return models.Statement{State: models.Review, Word: word, Unclear: true}
}

// unknown is the fault of a word that isn't in the table, or of a missing one.
func unknown(axis models.Axis, field, word string) models.Fault {
	if word == "" {
		return models.Fault{Kind: models.SchemaChanged, Axis: axis, Path: field}
	}
	return models.Fault{Kind: models.UnknownStatus, Axis: axis, Path: field, Word: word}
}

func (p payment) intentWhen() []string {
	when := []string{whenChargeHolds, whenNoAttempt}
	if p.charge != nil && p.charge.Status == "failed" {
		when = []string{whenChargeFailed, whenAttemptFailed}
	} else if bool(p.intent.LastError) {
		// Later updates clear the error, so its absence proves nothing; its presence does.
		when[1] = whenAttemptFailed
	}
	return when
}

// failedAfterwards tells whether a debit was returned after the intent succeeded:
// Stripe leaves the intent's word as it was.
func (p payment) failedAfterwards() bool {
	return p.intent != nil && p.intent.Status == "succeeded" && p.charge != nil && p.charge.Status == "failed"
}

func (c charge) when() []string {
	switch {
	case c.Captured:
		return []string{whenCaptured}
	case c.Refunded:
		return []string{whenReleased}
	}
	return []string{whenUncaptured}
}

// sums states total and received, and the payment's own part.
func (p payment) sums(o *models.Observation) {
	var total, received *int64
	var code, ref, path string
	switch {
	case p.intent != nil:
		total, received, code, ref, path = p.intent.Amount, p.intent.AmountReceived, p.intent.Currency, p.intent.ID, kindIntent
	case p.charge != nil:
		total, received, code, ref, path = p.charge.Amount, p.charge.received(), p.charge.Currency, p.charge.ID, kindCharge
	}
	code, known := currency(code)
	if total == nil || received == nil || !known {
		o.Faults = append(o.Faults, models.Fault{Kind: models.SchemaChanged, Axis: models.Payment, Path: path + ".amount"})
		return
	}
	all, fits := minor(*total, code)
	in, also := minor(*received, code)
	if !fits || !also {
		o.Faults = append(o.Faults, models.Fault{Kind: models.Contradiction, Axis: models.Payment, Path: path + ".amount"})
		return
	}
	if p.failedAfterwards() {
		in = 0
	}
	o.Amounts = &models.Amounts{Currency: code, Total: all, Received: in}
	s := o.Axes[models.Payment]
	part := models.Part{Axis: models.Payment, ID: clean(ref), State: s.State, Word: s.Word, Amount: all, Currency: code, At: s.At}
	if in > 0 {
		part.Amount, part.Counts = in, true
	}
	addPart(o, part)
}

// addPart leaves out what has no id: it couldn't be told from another one.
func addPart(o *models.Observation, p models.Part) {
	if p.ID != "" {
		o.Parts = append(o.Parts, p)
	}
}

// received is what a charge brought in. Old versions don't say how much was captured.
func (c charge) received() *int64 {
	var none int64
	switch {
	case c.Status != "succeeded" || !c.Captured:
		return &none
	case c.AmountCaptured == nil:
		return c.Amount
	}
	return c.AmountCaptured
}

// newest picks the charge that counts: the one that succeeded, else the latest try.
func newest(charges []charge) *charge {
	var best *charge
	for i := range charges {
		c := &charges[i]
		if best == nil || (c.Status == "succeeded") != (best.Status == "succeeded") && c.Status == "succeeded" ||
			c.Status == best.Status && c.Created > best.Created {
			best = c
		}
	}
	return best
}
