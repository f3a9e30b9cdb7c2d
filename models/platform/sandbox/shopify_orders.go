package sandbox

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"counterfoil/models"
)

// A ShopifyOrder is what a buyer orders. Empty fields have usable defaults.
type ShopifyOrder struct {
	Total    string // decimal; default 1280
	Currency string
	Pieces   int    // default 2
	Gateway  string // shopify_payments, manual, Cash on Delivery (COD)
	Source   string // web, pos
	Name     string // default: # and the next number
	Test     bool
	Placed   time.Time // default: now
}

// A ShopifyRefund is how a refund goes.
type ShopifyRefund string

const (
	RefundSucceeds ShopifyRefund = "SUCCESS"
	RefundPends    ShopifyRefund = "PENDING"
	RefundFails    ShopifyRefund = "FAILURE"
)

type shopOrder struct {
	id                                  int64
	number                              int
	name                                string
	currency, gateway, source           string
	test                                bool
	total                               int64
	pieces, removed                     int // removed by an edit, of the pieces
	created, updated, closed, cancelled time.Time
	reason                              string
	moves                               []*shopMove
	refunds                             []*shopRefund
	shipments                           []*shopShipment
	request                             shopRequest
	returns                             []*shopReturn
	disputes                            []*shopDispute
	words                               map[string]*string // forced status words
}

type shopMove struct {
	id           int64
	kind, status string
	amount       int64
	at           time.Time
}

type shopRefund struct {
	id     int64
	amount int64
	at     time.Time
	move   *shopMove
}

type shopShipment struct {
	id          int64
	name        string
	pieces      int
	status      string
	tracking    string
	at, changed time.Time
}

type shopRequest struct {
	id              int64
	status, request string
}

type shopReturn struct {
	id         int64
	name       string
	status     string
	pieces     int
	processed  int
	at, closed time.Time
}

type shopDispute struct {
	id     int64
	status string
}

// A shopAct collects the notifications of one act.
type shopAct struct {
	s     *Shopify
	o     *shopOrder
	later []string // topics with the order as it is when the act is over
	out   []Notification
}

// order announces the order under topics.
func (a *shopAct) order(topics ...string) { a.later = append(a.later, topics...) }

// body announces something else.
func (a *shopAct) body(topic string, v any) {
	a.out = append(a.out, a.s.notify(topic, shopBody(v), a.o))
}

// do runs one act on an order. An act that fails changes nothing.
func (s *Shopify) do(id int64, f func(o *shopOrder, a *shopAct) error) ([]Notification, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o, ok := s.orders[id]
	if !ok {
		return nil, fmt.Errorf("sandbox: no order %d", id)
	}
	s.act++
	a := &shopAct{s: s, o: o}
	if err := f(o, a); err != nil {
		return nil, fmt.Errorf("sandbox: order %d: %w", id, err)
	}
	if len(a.later) > 0 {
		b := shopBody(s.restOrder(o))
		for _, topic := range a.later {
			a.out = append(a.out, s.notify(topic, b, o))
		}
	}
	return a.out, nil
}

// tick is the time of a change.
func (s *Shopify) tick() time.Time {
	t := s.cfg.Now().Truncate(time.Microsecond)
	if !t.After(s.last) {
		t = s.last.Add(time.Microsecond)
	}
	s.last = t
	return t
}

func (s *Shopify) id() int64 {
	s.next++
	return s.next
}

// CreateOrder places an order that isn't paid yet.
func (s *Shopify) CreateOrder(n ShopifyOrder) (int64, []Notification, error) {
	s.mu.Lock()
	if n.Total == "" {
		n.Total = "1280"
	}
	if n.Currency == "" {
		n.Currency = s.cfg.Currency
	}
	if n.Pieces == 0 {
		n.Pieces = 2
	}
	if n.Gateway == "" {
		n.Gateway = "shopify_payments"
	}
	if n.Source == "" {
		n.Source = "web"
	}
	total, err := models.Minor(n.Total, n.Currency)
	if err != nil {
		s.mu.Unlock()
		return 0, nil, err
	}
	s.numbers++
	o := &shopOrder{id: s.id(), number: s.numbers, name: n.Name, currency: n.Currency, gateway: n.Gateway, source: n.Source, test: n.Test,
		total: total, pieces: n.Pieces, words: map[string]*string{}}
	if o.name == "" {
		o.name = fmt.Sprintf("#%d", o.number)
	}
	o.request = shopRequest{id: s.id(), status: "OPEN", request: "UNSUBMITTED"}
	o.updated = s.tick()
	if o.created = n.Placed; o.created.IsZero() {
		o.created = o.updated
	} else if o.created.Before(o.updated) {
		o.updated = o.created
	}
	s.orders[o.id] = o
	s.mu.Unlock()
	ns, err := s.do(o.id, func(o *shopOrder, a *shopAct) error {
		a.order("orders/create")
		return nil
	})
	return o.id, ns, err
}

// Orders lists the shop's orders, the oldest first.
func (s *Shopify) Orders() []int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	ids := make([]int64, 0, len(s.orders))
	for id := range s.orders {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// ShopifyGID is an order's reference.
func ShopifyGID(id int64) string { return fmt.Sprintf("gid://shopify/Order/%d", id) }

// Name is an order's number as people say it; empty where there is no such order.
func (s *Shopify) Name(id int64) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o, ok := s.orders[id]; ok {
		return o.name
	}
	return ""
}

func (o *shopOrder) sum(status string, kinds ...string) int64 {
	var n int64
	for _, m := range o.moves {
		if m.status == status && slices.Contains(kinds, m.kind) {
			n += m.amount
		}
	}
	return n
}

func (o *shopOrder) received() int64 { return o.sum("SUCCESS", "SALE", "CAPTURE") }
func (o *shopOrder) refunded() int64 { return o.sum("SUCCESS", "REFUND") }

// current is what the order costs after refunds and a cancellation.
func (o *shopOrder) current() int64 {
	n := o.total
	for _, r := range o.refunds {
		n -= r.amount
	}
	if !o.cancelled.IsZero() && o.received() == 0 {
		return 0
	}
	return max(0, n)
}

func (o *shopOrder) outstanding() int64 {
	return max(0, o.current()-o.received()+o.refunded())
}

func (o *shopOrder) shipped() int {
	n := 0
	for _, f := range o.shipments {
		if f.status == "SUCCESS" {
			n += f.pieces
		}
	}
	return n
}

// wanted is how many pieces the order asks for after its edits.
func (o *shopOrder) wanted() int { return o.pieces - o.removed }

func (s *Shopify) move(o *shopOrder, a *shopAct, kind, status string, amount int64) *shopMove {
	m := &shopMove{id: s.id(), kind: kind, status: status, amount: amount, at: s.tick()}
	o.moves = append(o.moves, m)
	o.updated = m.at
	if status == "SUCCESS" || status == "FAILURE" {
		a.body("order_transactions/create", s.restMove(o, m))
	}
	return m
}

// Authorize reserves the whole sum.
func (s *Shopify) Authorize(id int64) ([]Notification, error) {
	return s.do(id, func(o *shopOrder, a *shopAct) error {
		s.move(o, a, "AUTHORIZATION", "SUCCESS", o.outstanding())
		a.order("orders/updated")
		return nil
	})
}

// Void lets an authorization go.
func (s *Shopify) Void(id int64) ([]Notification, error) {
	return s.do(id, func(o *shopOrder, a *shopAct) error {
		s.move(o, a, "VOID", "SUCCESS", 0)
		a.order("orders/updated")
		return nil
	})
}

// Decline is an attempt to pay that fails.
func (s *Shopify) Decline(id int64) ([]Notification, error) {
	return s.do(id, func(o *shopOrder, a *shopAct) error {
		s.move(o, a, "SALE", "FAILURE", o.outstanding())
		a.order("orders/updated")
		return nil
	})
}

// Pay pays all that is outstanding; what was authorized is captured.
func (s *Shopify) Pay(id int64) ([]Notification, error) { return s.pay(id, "") }

// PayPartly pays a part.
func (s *Shopify) PayPartly(id int64, amount string) ([]Notification, error) {
	return s.pay(id, amount)
}

func (s *Shopify) pay(id int64, amount string) ([]Notification, error) {
	return s.do(id, func(o *shopOrder, a *shopAct) error {
		n, kind := o.outstanding(), "SALE"
		if amount != "" {
			var err error
			if n, err = models.Minor(amount, o.currency); err != nil {
				return err
			}
		}
		if o.sum("SUCCESS", "AUTHORIZATION") > 0 {
			kind = "CAPTURE"
		}
		s.move(o, a, kind, "SUCCESS", n)
		if o.outstanding() == 0 {
			a.order("orders/paid")
		}
		a.order("orders/updated")
		return nil
	})
}

// Refund gives money back. A refund that fails at once leaves no record.
func (s *Shopify) Refund(id int64, amount string, how ShopifyRefund) ([]Notification, error) {
	return s.do(id, func(o *shopOrder, a *shopAct) error {
		n, err := models.Minor(amount, o.currency)
		if err != nil {
			return err
		}
		m := s.move(o, a, "REFUND", string(how), n)
		if how != RefundFails {
			r := &shopRefund{id: s.id(), amount: n, at: m.at, move: m}
			o.refunds = append(o.refunds, r)
			a.body("refunds/create", s.restRefund(o, r))
		}
		a.order("orders/updated")
		return nil
	})
}

// RecordRefund writes down a refund that moves no money.
func (s *Shopify) RecordRefund(id int64) ([]Notification, error) {
	return s.do(id, func(o *shopOrder, a *shopAct) error {
		o.updated = s.tick()
		r := &shopRefund{id: s.id(), at: o.updated}
		o.refunds = append(o.refunds, r)
		a.body("refunds/create", s.restRefund(o, r))
		a.order("orders/updated")
		return nil
	})
}

// SettleRefund ends the newest refund under way.
func (s *Shopify) SettleRefund(id int64, how ShopifyRefund) ([]Notification, error) {
	return s.do(id, func(o *shopOrder, a *shopAct) error {
		for _, m := range slices.Backward(o.moves) {
			if m.kind == "REFUND" && m.status == string(RefundPends) {
				m.status, o.updated = string(how), s.tick()
				a.body("order_transactions/create", s.restMove(o, m))
				a.order("orders/updated")
				return nil
			}
		}
		return errors.New("no refund is under way")
	})
}

// Fulfill ships pieces, or all that are left for 0.
func (s *Shopify) Fulfill(id int64, pieces int, tracking string) ([]Notification, error) {
	return s.do(id, func(o *shopOrder, a *shopAct) error {
		left := o.wanted() - o.shipped()
		if pieces == 0 {
			pieces = left
		}
		if pieces <= 0 || pieces > left {
			return errors.New("nothing is left to ship")
		}
		o.updated = s.tick()
		f := &shopShipment{id: s.id(), name: fmt.Sprintf("%s.%d", o.name, len(o.shipments)+1), pieces: pieces, status: "SUCCESS", tracking: tracking, at: o.updated, changed: o.updated}
		o.shipments = append(o.shipments, f)
		o.request.status = "IN_PROGRESS"
		topic := "orders/partially_fulfilled"
		if o.shipped() == o.wanted() {
			topic, o.request.status = "orders/fulfilled", "CLOSED"
		}
		a.body("fulfillments/create", s.restShipment(o, f))
		a.order(topic, "orders/updated")
		return nil
	})
}

// CancelFulfillment calls the newest shipment back.
func (s *Shopify) CancelFulfillment(id int64) ([]Notification, error) {
	return s.do(id, func(o *shopOrder, a *shopAct) error {
		for _, f := range slices.Backward(o.shipments) {
			if f.status == "SUCCESS" {
				o.updated = s.tick()
				f.status, f.changed, o.request.status = "CANCELLED", o.updated, "OPEN"
				a.body("fulfillments/update", s.restShipment(o, f))
				a.order("orders/updated")
				return nil
			}
		}
		return errors.New("nothing was shipped")
	})
}

// warehouse changes the fulfillment order; its notifications hold GIDs only.
func (s *Shopify) warehouse(id int64, topic, status, request string) ([]Notification, error) {
	return s.do(id, func(o *shopOrder, a *shopAct) error {
		o.updated = s.tick()
		if status != "" {
			o.request.status = status
		}
		if request != "" {
			o.request.request = request
		}
		a.body("fulfillment_orders/"+topic, map[string]any{"fulfillment_order": map[string]any{"id": o.request.gid(), "status": strings.ToLower(o.request.status)}})
		a.order("orders/updated")
		return nil
	})
}

// Hold and Release are the platform's own stop.
func (s *Shopify) Hold(id int64) ([]Notification, error) {
	return s.warehouse(id, "placed_on_hold", "ON_HOLD", "")
}

func (s *Shopify) Release(id int64) ([]Notification, error) {
	return s.warehouse(id, "hold_released", "OPEN", "")
}

// RequestFulfillment hands the order to the warehouse, RequestCancellation asks the
// warehouse to stop, RejectCancellation is its no.
func (s *Shopify) RequestFulfillment(id int64) ([]Notification, error) {
	return s.warehouse(id, "fulfillment_request_submitted", "IN_PROGRESS", "ACCEPTED")
}

func (s *Shopify) RequestCancellation(id int64) ([]Notification, error) {
	return s.warehouse(id, "cancellation_request_submitted", "", "CANCELLATION_REQUESTED")
}

func (s *Shopify) RejectCancellation(id int64) ([]Notification, error) {
	return s.warehouse(id, "cancellation_request_rejected", "", "CANCELLATION_REJECTED")
}

// Cancel cancels the order. It moves no money by itself.
func (s *Shopify) Cancel(id int64, reason string) ([]Notification, error) {
	return s.do(id, func(o *shopOrder, a *shopAct) error {
		o.updated = s.tick()
		o.cancelled, o.closed, o.reason = o.updated, o.updated, reason
		if o.request.status != "CLOSED" {
			o.request.status = "CLOSED"
		}
		a.order("orders/cancelled", "orders/updated")
		return nil
	})
}

// RequestReturn is a buyer's wish to send pieces back. Like everything about
// returns it doesn't move the order's time of change.
func (s *Shopify) RequestReturn(id int64, pieces int) ([]Notification, error) {
	return s.do(id, func(o *shopOrder, a *shopAct) error {
		r := &shopReturn{id: s.id(), name: fmt.Sprintf("%s-R%d", o.name, len(o.returns)+1), status: "REQUESTED", pieces: pieces, at: s.tick()}
		o.returns = append(o.returns, r)
		a.body("returns/request", map[string]any{"id": r.id, "admin_graphql_api_id": r.gid(), "status": "requested", "name": r.name,
			"order": map[string]any{"id": o.id, "admin_graphql_api_id": ShopifyGID(o.id)}, "total_return_line_items": r.pieces})
		return nil
	})
}

func (s *Shopify) returning(id int64, topic string, from []string, to string, also func(r *shopReturn)) ([]Notification, error) {
	return s.do(id, func(o *shopOrder, a *shopAct) error {
		for _, r := range slices.Backward(o.returns) {
			if slices.Contains(from, r.status) {
				r.status = to
				if also != nil {
					also(r)
				}
				a.body("returns/"+topic, map[string]any{"id": r.id, "admin_graphql_api_id": r.gid(), "order_id": o.id, "status": strings.ToLower(to)})
				return nil
			}
		}
		return errors.New("no such return")
	})
}

// ApproveReturn, DeclineReturn and CancelReturn answer the newest wish.
func (s *Shopify) ApproveReturn(id int64) ([]Notification, error) {
	return s.returning(id, "approve", []string{"REQUESTED"}, "OPEN", nil)
}

func (s *Shopify) DeclineReturn(id int64) ([]Notification, error) {
	return s.returning(id, "decline", []string{"REQUESTED"}, "DECLINED", nil)
}

func (s *Shopify) CancelReturn(id int64) ([]Notification, error) {
	return s.returning(id, "cancel", []string{"REQUESTED", "OPEN"}, "CANCELED", nil)
}

// CloseReturn ends the newest open return; processed pieces really came back.
func (s *Shopify) CloseReturn(id int64, processed int) ([]Notification, error) {
	return s.returning(id, "close", []string{"OPEN"}, "CLOSED", func(r *shopReturn) { r.processed, r.closed = processed, s.tick() })
}

// ReopenReturn opens the newest closed return again.
func (s *Shopify) ReopenReturn(id int64) ([]Notification, error) {
	return s.returning(id, "reopen", []string{"CLOSED"}, "OPEN", func(r *shopReturn) { r.closed = time.Time{} })
}

// UpdateReturn changes a return's lines; its notification names no order.
func (s *Shopify) UpdateReturn(id int64) ([]Notification, error) {
	return s.do(id, func(o *shopOrder, a *shopAct) error {
		if len(o.returns) == 0 {
			return errors.New("no such return")
		}
		a.body("returns/update", map[string]any{"admin_graphql_api_id": o.returns[len(o.returns)-1].gid(), "return_line_items": map[string]any{"removals": []any{}}})
		return nil
	})
}

// Edit adds to what the order asks, or takes unshipped pieces out of it for a negative
// number: the line keeps its quantity, and its current quantity shrinks.
func (s *Shopify) Edit(id int64, more string, pieces int) ([]Notification, error) {
	return s.do(id, func(o *shopOrder, a *shopAct) error {
		n, err := models.Minor(more, o.currency)
		if err != nil {
			return err
		}
		if o.wanted()+pieces < o.shipped() {
			return errors.New("what was shipped can't be removed")
		}
		o.total, o.pieces, o.removed, o.updated = o.total+n, o.pieces+max(0, pieces), o.removed+max(0, -pieces), s.tick()
		at := s.local(o.updated)
		a.body("orders/edited", map[string]any{"order_edit": map[string]any{"id": s.id(), "order_id": o.id, "created_at": at, "committed_at": at,
			"line_items": map[string]any{"additions": []any{}, "removals": []any{}}}})
		a.order("orders/updated")
		return nil
	})
}

// OpenDispute is a chargeback, ResolveDispute its end: WON, LOST, ACCEPTED, PREVENTED.
func (s *Shopify) OpenDispute(id int64) ([]Notification, error) {
	return s.do(id, func(o *shopOrder, a *shopAct) error {
		d := &shopDispute{id: s.id(), status: "NEEDS_RESPONSE"}
		o.disputes = append(o.disputes, d)
		a.body("disputes/create", s.restDispute(o, d))
		return nil
	})
}

func (s *Shopify) ResolveDispute(id int64, status string) ([]Notification, error) {
	return s.do(id, func(o *shopOrder, a *shopAct) error {
		if len(o.disputes) == 0 {
			return errors.New("no dispute")
		}
		d := o.disputes[len(o.disputes)-1]
		d.status = status
		a.body("disputes/update", s.restDispute(o, d))
		return nil
	})
}

// SetWord forces a status word of the API: displayFinancialStatus,
// displayFulfillmentStatus, returnStatus. An empty word is null.
func (s *Shopify) SetWord(id int64, field, word string) ([]Notification, error) {
	return s.do(id, func(o *shopOrder, a *shopAct) error {
		o.words[field], o.updated = &word, s.tick()
		a.order("orders/updated")
		return nil
	})
}

// SetFinancialWord forces displayFinancialStatus, e.g. to a word that nobody knows.
func (s *Shopify) SetFinancialWord(id int64, word string) ([]Notification, error) {
	return s.SetWord(id, "displayFinancialStatus", word)
}

// Touch changes something that nobody records, like a tag.
func (s *Shopify) Touch(id int64) ([]Notification, error) {
	return s.do(id, func(o *shopOrder, a *shopAct) error {
		o.updated = s.tick()
		a.order("orders/updated")
		return nil
	})
}

// Delete takes the order away for good.
func (s *Shopify) Delete(id int64) ([]Notification, error) {
	return s.do(id, func(o *shopOrder, a *shopAct) error {
		delete(s.orders, id)
		a.body("orders/delete", map[string]any{"id": o.id})
		return nil
	})
}
