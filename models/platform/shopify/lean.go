package shopify

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"time"

	"counterfoil/models"
	"counterfoil/models/platform"
)

const countQuery = "query Count($query: String) { ordersCount(query: $query, limit: null) { count precision } }"

// leanShape reads what a change of an order shows in: words, times, and three sums. An
// order costs 7 points of the 1000 that a query may.
func leanShape() *shape {
	s := &shape{name: "lean"}
	s.order = append(scalars("Order", `id name test createdAt updatedAt cancelledAt cancelReason displayFinancialStatus displayFulfillmentStatus returnStatus`),
		money("Order", "totalPriceSet"), money("Order", "totalReceivedSet"), money("Order", "totalRefundedSet"))
	s.points = 1 + cost(s.order)
	return s
}

// Agrees compares a lean reading with a whole one. Disputes and pieces of returns that
// don't move an order's updatedAt aren't in it: the list doesn't show them either.
func (a *Adapter) Agrees(whole, lean models.Observation) bool { return whole.AgreesLean(lean) }

// changedLean lists lean readings: of what changed, or of unfinished returns.
func (a *Adapter) changedLean(ctx context.Context, w platform.Window, search string) (platform.Batch, error) {
	began := a.cfg.Now()
	first := page(w, min((mostPoints-2)/a.lean.points, mostIDs))
	for {
		gone := a.gone()
		r, err := a.ask(ctx, a.lean.list(gone), listVars(first, w.Cursor, search), 2+a.cost(a.lean, first))
		if err != nil {
			return platform.Batch{}, err
		}
		if r.Errors.has(codeTooDear) && first > 1 {
			first /= 2
			continue
		}
		if a.learn(a.lean, r, gone) {
			continue
		}
		p, err := r.page(w.Cursor)
		if err != nil {
			return platform.Batch{}, err
		}
		b := platform.Batch{Next: p.next}
		refused := a.refused()
		for _, raw := range p.nodes {
			o, ok := a.leanly(raw, refused, began)
			if !ok {
				return platform.Batch{}, errors.New("shopify: the list holds something that isn't an order")
			}
			b.Observations = append(b.Observations, o)
		}
		if w.Cursor == "" {
			b.Expected = a.expected(ctx, search)
		}
		return b, nil
	}
}

// leanly decodes a lean reading. Words are compared as they stand; what they mean
// together with sums that aren't here is for the whole reading.
func (a *Adapter) leanly(raw json.RawMessage, refused map[string]bool, began time.Time) (models.Observation, bool) {
	d := decoder{a: a, shape: a.lean, refused: refused}
	_ = json.Unmarshal(raw, &d.v)
	typ, id := splitGID(d.v.ID.raw)
	if typ != "Order" {
		return models.Observation{}, false
	}
	d.o = models.Observation{Ref: a.order(id), Basis: models.Official, Read: began.UTC(), Changed: d.v.Updated.stamp(), Placed: d.v.Created.stamp(),
		Test: d.v.Test.yes(), Store: true, Lean: true, Axes: map[models.Axis]models.Statement{}}
	d.o.Number, _ = names(d.v.Name, id)
	if d.o.Changed.IsZero() {
		d.changed("", "updatedAt")
	}
	d.amounts()
	d.payment()
	word := d.v.Fulfillment.word()
	if state, known := a.words.state(fieldFulfillment, word, false); known && word != "" {
		d.state(models.Fulfillment, models.Statement{State: state, Word: word})
	} else {
		d.unknown(models.Fulfillment, fieldFulfillment, word)
	}
	if d.v.Cancelled.kind == text {
		d.cancellation()
	}
	if word = d.v.Return.word(); word != "" {
		state, _ := a.words.state(fieldReturn, word, false)
		d.state(models.Return, models.Statement{State: state, Word: word})
	}
	return d.o, true
}

// expected counts a search; 0 where that isn't said exactly.
func (a *Adapter) expected(ctx context.Context, search string) int64 {
	r, err := a.ask(ctx, countQuery, map[string]any{"query": search}, 1)
	if err != nil || len(r.Errors) > 0 {
		return 0 // it is for showing progress only
	}
	var data struct {
		Count struct {
			Count leaf `json:"count"`
		} `json:"ordersCount"`
	}
	_ = json.Unmarshal(r.Data, &data)
	return int64(data.Count.Count.count())
}

// page is how many objects to ask for.
func page(w platform.Window, usual int) int {
	if w.Most > 0 {
		return min(w.Most, usual)
	}
	return usual
}

func whole(f float64) string { return strconv.FormatInt(int64(f), 10) }

// Sign makes the request with which Shopify would send a body.
func (a *Adapter) Sign(secret int, body []byte, _ time.Time) platform.Request {
	mac := hmac.New(sha256.New, []byte(a.secrets[secret]))
	mac.Write(body)
	h := http.Header{}
	h.Set("X-Shopify-Hmac-Sha256", base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	h.Set("X-Shopify-Shop-Domain", a.cfg.Account)
	return platform.Request{Header: h, Body: body}
}

// Shape reads one order and says which paths it has.
func (a *Adapter) Shape(ctx context.Context, ref models.ObjectRef) (models.Shape, models.Absence, error) {
	if typ, _ := splitGID(ref.ID); ref.Kind != KindOrder || typ != "Order" {
		return nil, models.Unreadable, nil
	}
	for {
		gone := a.gone()
		r, err := a.ask(ctx, a.full.byID(gone), map[string]any{"ids": []string{ref.ID}}, a.cost(a.full, 1))
		if err != nil {
			return nil, "", err
		}
		if a.learn(a.full, r, gone) {
			continue
		}
		nodes, err := r.nodes(1)
		switch {
		case err != nil:
			return nil, "", err
		case nodes[0].null && nodes[0].err == nil:
			return nil, models.Gone, nil
		case nodes[0].null:
			return nil, models.Unreadable, nil
		}
		s, err := models.ShapeOf(nodes[0].raw)
		return s, models.Present, err
	}
}

var (
	_ platform.Subscriber = (*Adapter)(nil)
	_ platform.Signer     = (*Adapter)(nil)
	_ platform.Shaper     = (*Adapter)(nil)
	_ platform.Limited    = (*Adapter)(nil)
	_ platform.Leaner     = (*Adapter)(nil)
	_ platform.Speaker    = (*Adapter)(nil)
)
