package shopify

import (
	"slices"
	"strings"
	"time"

	"counterfoil/models"
)

// said is what a notification reports. A full order states its axes; a refund, a
// transaction, a shipment or a return alone states only itself.
func (a *Adapter) said(b body, n models.Notice, now time.Time) *models.Observation {
	o := models.Observation{Ref: n.Object, Basis: models.Reported, Read: now.UTC(), Test: n.Test, Store: true}
	switch {
	case b.isOrder(n.Topic) && b.full():
		a.saidOrder(&o, b)
	default:
		a.saidPart(&o, b, n.Topic)
		if len(o.Parts) == 0 {
			return nil
		}
	}
	return &o
}

// saidOrder states what a full body can. All statements carry updated_at, also
// those that have an older time of their own: what is said later of an axis must
// win, also when it says that nothing has happened. Without updated_at no time is
// stated at all.
func (a *Adapter) saidOrder(o *models.Observation, b body) {
	o.Changed = b.Updated.stamp()
	o.Placed = b.Created.stamp()
	_, id := splitGID(o.Ref.ID)
	o.Number, o.Refs = names(b.Name, id)
	o.Method, o.Channel = method(b.Gateways.items), printable(b.Source.decimal(), 60)
	o.Axes = map[models.Axis]models.Statement{}

	m := a.saidMoney(o, b)
	a.saidPayment(o, b, m)
	a.saidRefund(o, b, m)
	a.saidGoods(o, b)
	for axis, s := range o.Axes {
		s.At = o.Changed
		o.Axes[axis] = s
	}
}

// A moneyState is what can be worked out of a body's amounts.
type moneyState struct {
	currency    string
	total       int64
	received    int64
	refunded    int64
	outstanding int64
	pending     bool // a refund is under way
	summed      bool // refunded is sure
	sure        bool // received is sure
	owed        bool // outstanding is stated
	unknown     string
	words       []string // of refund transactions
}

// saidMoney works out the sums: what came in isn't in the body, but it is what the
// order still costs, less what is outstanding, plus what went back.
func (a *Adapter) saidMoney(o *models.Observation, b body) moneyState {
	m := moneyState{currency: b.Currency.word(), summed: true}
	for _, r := range b.Refunds.items {
		if len(r.Transactions.items) == 0 {
			o.Parts = append(o.Parts, refundRecord(partID("Refund", r.ID, r.GID), r.Created.stamp(), 0, ""))
		}
		for _, t := range r.Transactions.items {
			a.saidMoved(o, &m, t)
		}
	}
	m.summed = m.summed && (b.Refunds.given() || b.Refunds.kind == absent)
	amount := func(l leaf, path string) (int64, bool) {
		if l.kind == absent || l.kind == null {
			return 0, false
		}
		v, err := l.minor(m.currency)
		if err != nil {
			o.Faults = append(o.Faults, models.Fault{Kind: models.SchemaChanged, Axis: models.Payment, Path: path})
		}
		return v, err == nil
	}
	if m.currency == "" {
		return m // a subscription can leave it out
	}
	total, priced := amount(b.Total, "total_price")
	if !priced {
		return m
	}
	m.total = total
	current, now := amount(b.Current, "current_total_price")
	m.outstanding, m.owed = amount(b.Outstanding, "total_outstanding")
	switch {
	case now && m.owed && m.summed:
		m.received, m.sure = current-m.outstanding+m.refunded, true
	case b.Financial.word() == "paid":
		m.received, m.sure = total, true
	case slices.Contains([]string{"pending", "authorized", "voided"}, b.Financial.word()) && len(m.words) == 0:
		m.sure = true
	}
	if m.sure && m.summed {
		o.Amounts = &models.Amounts{Currency: m.currency, Total: m.total, Received: m.received, Refunded: m.refunded, Outstanding: m.outstanding}
	}
	return m
}

// saidMoved adds a transaction as a part, and a refund to the sum if it is in the
// shop's currency.
func (a *Adapter) saidMoved(o *models.Observation, m *moneyState, t restMoved) {
	p, ok := a.moved(t.Kind.word(), t.Status.word(), partID("OrderTransaction", t.ID, t.GID), t.Amount, t.Currency.word())
	if !ok {
		return
	}
	p.At = firstTime(t.Processed, t.Created)
	if p.ID != "" {
		o.Parts = append(o.Parts, p)
	}
	if m == nil || p.Axis != models.Refund {
		return
	}
	m.words = append(m.words, t.Status.word())
	switch {
	case p.State == "":
		m.unknown = t.Status.word()
	case p.State == models.RefundPending:
		m.pending = true
	case p.Counts && p.Currency == m.currency:
		m.refunded += p.Amount
	case p.Counts:
		m.summed = false
	}
}

func (a *Adapter) saidPayment(o *models.Observation, b body, m moneyState) {
	word := b.Financial.word()
	switch {
	case b.Financial.kind == absent:
		return // a subscription can leave fields out: not stated is never pending
	case b.Financial.odd():
		o.Faults = append(o.Faults, models.Fault{Kind: models.SchemaChanged, Axis: models.Payment, Path: fieldFinancialREST})
		o.Axes[models.Payment] = unclear(models.Payment, "")
		return
	}
	cond := m.sure && m.received >= m.total || m.owed && m.outstanding <= 0
	if word == "" {
		cond = m.sure && m.received > 0
	}
	state, known := a.words.state(fieldFinancialREST, word, cond)
	switch {
	case !known:
		o.Faults = append(o.Faults, models.Fault{Kind: models.UnknownStatus, Axis: models.Payment, Path: fieldFinancialREST, Word: word})
		o.Axes[models.Payment] = unclear(models.Payment, word)
	case state == models.PaymentPartiallyPaid && word != "partially_paid" && !m.sure:
		o.Axes[models.Payment] = unclear(models.Payment, word) // how much came in isn't in this body
	case state == models.Review:
		o.Axes[models.Payment] = unclear(models.Payment, word)
	default:
		o.Axes[models.Payment] = models.Statement{State: state, Word: word}
	}
}

func (a *Adapter) saidRefund(o *models.Observation, b body, m moneyState) {
	word := refundWord(m.words)
	switch {
	case !b.Refunds.given():
	case m.unknown != "":
		o.Faults = append(o.Faults, models.Fault{Kind: models.UnknownStatus, Axis: models.Refund, Path: "refunds.transactions.status", Word: m.unknown})
		o.Axes[models.Refund] = unclear(models.Refund, word)
	case m.sure && m.summed:
		o.Axes[models.Refund] = models.Statement{State: models.RefundState(m.received, m.refunded, m.pending), Word: word}
	case b.Financial.word() == "refunded":
		o.Axes[models.Refund] = models.Statement{State: models.RefundFull, Word: word}
	case b.Financial.word() == "partially_refunded":
		o.Axes[models.Refund] = models.Statement{State: models.RefundPartial, Word: word}
	case m.refunded == 0 && m.summed:
		o.Axes[models.Refund] = models.Statement{State: models.RefundState(1, 0, m.pending), Word: word}
	default:
		o.Axes[models.Refund] = unclear(models.Refund, word)
	}
}

// saidGoods states shipments, cancellation and returns.
func (a *Adapter) saidGoods(o *models.Observation, b body) {
	if b.Fulfillment.kind != absent {
		word := b.Fulfillment.word()
		state, known := a.words.state(fieldFulfilREST, word, false)
		switch {
		case b.Fulfillment.odd():
			o.Faults = append(o.Faults, models.Fault{Kind: models.SchemaChanged, Axis: models.Fulfillment, Path: fieldFulfilREST})
			o.Axes[models.Fulfillment] = unclear(models.Fulfillment, "")
		case !known:
			o.Faults = append(o.Faults, models.Fault{Kind: models.UnknownStatus, Axis: models.Fulfillment, Path: fieldFulfilREST, Word: word})
			o.Axes[models.Fulfillment] = unclear(models.Fulfillment, word)
		default:
			o.Axes[models.Fulfillment] = models.Statement{State: state, Word: word}
		}
	}
	switch b.Cancelled.kind {
	case null:
		state, _ := a.words.state(fieldCancelled, "", false)
		o.Axes[models.Cancellation] = models.Statement{State: state}
	case text:
		state, _ := a.words.state(fieldCancelled, isSet, false)
		o.Axes[models.Cancellation] = models.Statement{State: state, Word: b.Reason.word()}
	}
	shipped := 0
	for _, f := range b.Fulfillments.items {
		p := a.shipped(f.Status.word(), partID("Fulfillment", f.ID, f.GID), f.Tracking.word(), f.Carrier.word(), f.Created.stamp())
		if p.ID != "" {
			o.Parts = append(o.Parts, p)
		}
		if p.Counts {
			shipped += pieces(f.Lines.items)
		}
	}
	if b.Lines.given() && b.Fulfillments.given() {
		o.Items = &models.Items{Ordered: pieces(b.Lines.items), Removed: removed(b.Lines.items), Shipped: shipped}
	}
	if b.Returns.given() {
		a.saidReturns(o, b.Returns.items)
	}
}

// saidReturns judges the list of returns: requested, else in progress, else
// received, else declined, else none.
func (a *Adapter) saidReturns(o *models.Observation, returns []restReturn) {
	rank := []models.State{models.ReturnNone, models.ReturnDeclined, models.ReturnReceived, models.ReturnInProgress, models.ReturnRequested}
	s := models.Statement{State: models.ReturnNone}
	for _, r := range returns {
		p := a.returned(r.Status.word(), partID("Return", r.ID, r.GID), time.Time{}, "")
		if p.ID != "" {
			o.Parts = append(o.Parts, p)
		}
		if p.State == "" {
			o.Faults = append(o.Faults, models.Fault{Kind: models.UnknownStatus, Axis: models.Return, Path: fieldReturnPart, Word: p.Word})
			o.Axes[models.Return] = unclear(models.Return, p.Word)
			return
		}
		if slices.Index(rank, p.State) >= slices.Index(rank, s.State) {
			s = models.Statement{State: p.State, Word: p.Word}
		}
	}
	o.Axes[models.Return] = s
}

// saidPart states the one thing that a body is.
func (a *Adapter) saidPart(o *models.Observation, b body, topic string) {
	typ, _ := splitGID(b.GID.raw)
	is := func(gidType, prefix string) bool {
		return typ == gidType || typ == "" && strings.HasPrefix(topic, prefix)
	}
	switch {
	case is("Refund", "refunds/"):
		if len(b.Transactions.items) == 0 {
			o.Parts = append(o.Parts, refundRecord(partID("Refund", b.ID, b.GID), firstTime(b.Processed, b.Created), 0, ""))
		}
		for _, t := range b.Transactions.items {
			a.saidMoved(o, nil, t)
		}
	case is("OrderTransaction", "order_transactions/"):
		a.saidMoved(o, nil, restMoved{ID: b.ID, GID: b.GID, Kind: b.Kind, Status: b.Status, Amount: b.Amount, Currency: b.Currency, Created: b.Created, Processed: b.Processed})
	case is("Fulfillment", "fulfillments/"):
		o.Parts = append(o.Parts, a.shipped(b.Status.word(), partID("Fulfillment", b.ID, b.GID), b.Tracking.word(), b.Carrier.word(), firstTime(b.Updated, b.Created)))
	case is("Return", "returns/") && b.Status.word() != "":
		o.Parts = append(o.Parts, a.returned(b.Status.word(), partID("Return", b.ID, b.GID), time.Time{}, b.Name.word()))
	case is("ShopifyPaymentsDispute", "disputes/") && b.Status.word() != "":
		word := b.Status.word()
		state, _ := a.words.state(fieldDispute, strings.ToUpper(word), false)
		p := models.Part{Axis: models.Dispute, ID: partID("ShopifyPaymentsDispute", b.ID, b.GID), State: state, Word: word}
		if v, err := b.Amount.minor(b.Currency.word()); err == nil {
			p.Amount, p.Currency = v, b.Currency.word()
		}
		o.Parts = append(o.Parts, p)
	}
	o.Parts = slices.DeleteFunc(o.Parts, func(p models.Part) bool { return p.ID == "" })
}

func pieces(lines []restLine) int {
	n := 0
	for _, l := range lines {
		n += l.Quantity.count()
	}
	return n
}

// removed counts the pieces that an edit or a refund took out of their lines again.
func removed(lines []restLine) int {
	n := 0
	for _, l := range lines {
		if l.Current.kind == number {
			n += max(0, l.Quantity.count()-l.Current.count())
		}
	}
	return n
}

func firstTime(ls ...leaf) time.Time {
	for _, l := range ls {
		if t := l.stamp(); !t.IsZero() {
			return t
		}
	}
	return time.Time{}
}
