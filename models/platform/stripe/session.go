package stripe

import "counterfoil/models"

// state states the payment axis of a session that has no payment intent.
func (s session) state(o *models.Observation) {
	word, when := s.PaymentStatus, whenComplete
	switch s.Status {
	case "expired":
		word, when = s.Status, whenAlone
	case "open":
		when = whenOpen
	}
	o.Axes[models.Payment] = pay(o, fieldSession, word, []string{when})
	s.sums(o, false)
}

// sums states what the session asks and, where it was paid, what came in.
func (s session) sums(o *models.Observation, paid bool) {
	code, known := currency(s.Currency)
	if s.AmountTotal == nil || !known {
		return
	}
	total, ok := minor(*s.AmountTotal, code)
	if !ok {
		o.Faults = append(o.Faults, models.Fault{Kind: models.Contradiction, Axis: models.Payment, Path: "checkout_session.amount_total"})
		return
	}
	o.Amounts = &models.Amounts{Currency: code, Total: total}
	if paid {
		o.Amounts.Received = total
	}
}
