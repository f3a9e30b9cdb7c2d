package shopify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"counterfoil/models"
	"counterfoil/models/platform"
)

// How long a refused or unknown field is left out of queries before it is tried again.
const leftOut = time.Hour

// missing are fields that the platform doesn't give us: each until when it is left out.
type missing struct {
	refused   map[string]time.Time // our access doesn't cover them
	undefined map[string]time.Time // the schema doesn't have them
}

// apart are fields that need a scope of their own. Without it the rest of an order
// is still worth reading.
var apart = []string{"disputes", "returns", "fulfillmentOrders", "fulfillments", fieldReturn}

// refused are the fields that our access doesn't cover.
func (a *Adapter) refused() map[string]bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return valid(a.fields.refused, a.cfg.Now())
}

// gone are all fields that are left out of queries.
func (a *Adapter) gone() map[string]bool {
	all := a.refused()
	a.mu.Lock()
	defer a.mu.Unlock()
	for f := range valid(a.fields.undefined, a.cfg.Now()) {
		all[f] = true
	}
	return all
}

func valid(fields map[string]time.Time, now time.Time) map[string]bool {
	out := map[string]bool{}
	for f, until := range fields {
		if now.Before(until) {
			out[f] = true
		}
	}
	return out
}

// learn notes which fields an answer refused or didn't know. It is true if there
// was a new one, so that the same question without it is worth asking.
func (a *Adapter) learn(s *shape, r reply, asked map[string]bool) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	until := a.cfg.Now().Add(leftOut)
	fresh := false
	note := func(m *map[string]time.Time, f string) {
		if asked[f] {
			return
		}
		if *m == nil {
			*m = map[string]time.Time{}
		}
		(*m)[f] = until
		fresh = true
	}
	for _, e := range r.Errors {
		switch e.code() {
		case codeUndefined:
			on, name := e.undefined()
			for _, f := range find(s.order, "", on, name) {
				note(&a.fields.undefined, f)
			}
		case codeDenied:
			for _, p := range e.Path {
				if f, ok := p.(string); ok && slices.Contains(apart, f) {
					note(&a.fields.refused, f)
				}
			}
		}
	}
	return fresh
}

// errTooDear: one order alone costs more than a query may.
var errTooDear = errors.New("shopify: one order costs more than a query may")

// Fetch reads orders as they stand now; returns and fulfillment orders lead to
// their order. An order that can't be found while a fulfillment order names it lies
// outside the readable window; otherwise Shopify doesn't tell a deleted order from
// one that is too old for us, and it counts as gone: whoever knows when it was
// placed can tell.
func (a *Adapter) Fetch(ctx context.Context, refs []models.ObjectRef) (map[models.ObjectRef]models.Observation, error) {
	f := &fetch{a: a, began: a.cfg.Now(), out: map[models.ObjectRef]models.Observation{}, orders: map[string][]models.ObjectRef{}, proven: map[string]bool{}}
	var led []models.ObjectRef
	for _, ref := range refs {
		typ, id := splitGID(ref.ID)
		switch {
		case ref.Kind == KindOrder && id == adminTestID:
			f.absent(ref, models.AdminTest, "")
		case ref.Kind == KindOrder && typ == "Order":
			f.orders[orderGID(id)] = append(f.orders[orderGID(id)], ref)
		case ref.Kind == KindReturn && typ == "Return", ref.Kind == KindFulfillmentOrder && typ == "FulfillmentOrder":
			led = append(led, ref)
		default:
			f.absent(ref, models.Unreadable, "not a reference of an order")
		}
	}
	for part := range slices.Chunk(led, 100) {
		if err := f.resolve(ctx, part); err != nil {
			return nil, err
		}
	}
	ids := make([]string, 0, len(f.orders))
	for id := range f.orders {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	for part := range slices.Chunk(ids, a.full.fits()) {
		if err := f.read(ctx, part); err != nil {
			return nil, err
		}
	}
	return f.out, nil
}

// A fetch is one call of Fetch under way.
type fetch struct {
	a      *Adapter
	began  time.Time
	out    map[models.ObjectRef]models.Observation
	orders map[string][]models.ObjectRef // order → who asked
	proven map[string]bool               // orders that exist, whether we can read them or not
}

func (f *fetch) absent(ref models.ObjectRef, why models.Absence, detail string) {
	f.out[ref] = models.Observation{Ref: ref, Basis: models.Official, Absence: why, Detail: detail, Read: f.began.UTC()}
}

// resolve finds the orders of returns and fulfillment orders.
func (f *fetch) resolve(ctx context.Context, refs []models.ObjectRef) error {
	ids := make([]string, len(refs))
	for i, r := range refs {
		ids[i] = r.ID
	}
	r, err := f.a.ask(ctx, resolveQuery, map[string]any{"ids": ids}, float64(2*len(ids)))
	if err != nil {
		return err
	}
	nodes, err := r.nodes(len(ids))
	if err != nil {
		return err
	}
	for i, n := range nodes {
		var v struct {
			ID    leaf `json:"id"`
			Order struct {
				ID leaf `json:"id"`
			} `json:"order"`
			OrderID leaf `json:"orderId"`
		}
		_ = json.Unmarshal(n.raw, &v)
		id := v.Order.ID.raw + v.OrderID.raw
		switch typ, num := splitGID(id); {
		case typ == "Order":
			f.proven[orderGID(num)] = true
			f.orders[orderGID(num)] = append(f.orders[orderGID(num)], refs[i])
		case n.null && n.err == nil:
			f.absent(refs[i], models.Gone, "")
		default:
			f.absent(refs[i], models.Unreadable, n.detail("its order isn't stated"))
		}
	}
	return nil
}

// read reads one query's worth of orders, then those whole that need a query alone.
func (f *fetch) read(ctx context.Context, ids []string) error {
	got, err := f.a.orders(ctx, f.a.full, ids, f.began, true)
	if err != nil {
		return err
	}
	for _, id := range ids {
		r := got[id]
		if r.more {
			wide, err := f.a.orders(ctx, f.a.wide, []string{id}, f.began, true)
			switch {
			case errors.Is(err, errTooDear): // then what we have must do
			case err != nil:
				return err
			default:
				r = wide[id]
			}
		}
		o := r.obs
		if o.Absence == models.Gone && f.proven[id] {
			o.Absence = models.OutsideWindow
		}
		for _, ref := range f.orders[id] {
			f.out[ref] = o
		}
	}
	return nil
}

// A node is one place of a nodes answer.
type node struct {
	raw  json.RawMessage
	null bool
	err  *gqlError // why it is null, where that is said
}

func (n node) detail(otherwise string) string {
	if n.err != nil {
		return gqlErrors{*n.err}.detail()
	}
	return otherwise
}

// nodes lays the errors of a reply beside the places that they are about. An error
// that names no place counts for each that is null: we don't know that it is empty.
func (r reply) nodes(n int) ([]node, error) {
	var data struct {
		Nodes []json.RawMessage `json:"nodes"`
	}
	_ = json.Unmarshal(r.Data, &data)
	if len(data.Nodes) != n {
		if len(r.Errors) > 0 {
			return nil, errors.New("shopify: the query was refused: " + r.Errors.detail())
		}
		return nil, fmt.Errorf("shopify: asked for %d nodes, got %d", n, len(data.Nodes))
	}
	out := make([]node, n)
	for i, raw := range data.Nodes {
		out[i] = node{raw: raw, null: string(raw) == "null"}
	}
	for _, e := range r.Errors {
		at := -1
		if len(e.Path) > 1 {
			if x, ok := e.Path[1].(float64); ok && x >= 0 && int(x) < n {
				at = int(x)
			}
		}
		for i := range out {
			if (at == i || at < 0 && out[i].null) && out[i].err == nil {
				out[i].err = &e
			}
		}
	}
	return out, nil
}

// orders reads orders in one shape. Fields that the platform refuses or doesn't
// know are left out and the question is asked again; a query that costs too much is
// cut in halves. again: what failed inside the platform is asked once more.
func (a *Adapter) orders(ctx context.Context, s *shape, ids []string, began time.Time, again bool) (map[string]reading, error) {
	var r reply
	for {
		gone := a.gone()
		var err error
		r, err = a.ask(ctx, s.byID(gone), map[string]any{"ids": ids}, a.cost(s, len(ids)))
		if err != nil {
			return nil, err
		}
		if r.Errors.has(codeTooDear) {
			return a.halves(ctx, s, ids, began, again)
		}
		a.priced(s, len(ids), r)
		if !a.learn(s, r, gone) {
			break
		}
	}
	nodes, err := r.nodes(len(ids))
	if err != nil {
		return nil, err
	}
	out := map[string]reading{}
	refused := a.refused()
	var retry []string
	denied := 0
	for i, id := range ids {
		n := nodes[i]
		got, ok := reading{}, false
		if !n.null {
			got, ok = a.official(n.raw, s, refused, began)
		}
		absent := models.Observation{Ref: models.ObjectRef{Account: a.cfg.Account, Kind: KindOrder, ID: id}, Basis: models.Official, Read: began.UTC()}
		switch {
		case ok:
			got.obs.Detail = a.otherVersion(r.version)
		case !n.null:
			absent.Absence, absent.Detail = models.Unreadable, "the answer isn't an order"
			absent.Faults = []models.Fault{{Kind: models.SchemaChanged, Path: "nodes.id"}}
			got = reading{obs: absent}
		case n.err == nil:
			absent.Absence = models.Gone
			got = reading{obs: absent}
		default:
			absent.Absence, absent.Detail = models.Unreadable, n.detail("")
			got = reading{obs: absent}
			switch n.err.code() {
			case codeDenied:
				denied++
			case codeInternal:
				retry = append(retry, id)
			}
		}
		out[id] = got
	}
	if denied == len(ids) {
		return nil, &platform.Outage{Denied: true, Detail: codeDenied}
	}
	if again && len(retry) > 0 {
		more, err := a.orders(ctx, s, retry, began, false)
		if err != nil {
			return nil, err
		}
		for id, got := range more {
			out[id] = got
		}
	}
	return out, nil
}

func (a *Adapter) halves(ctx context.Context, s *shape, ids []string, began time.Time, again bool) (map[string]reading, error) {
	if len(ids) == 1 {
		return nil, errTooDear
	}
	out := map[string]reading{}
	for _, part := range [][]string{ids[:len(ids)/2], ids[len(ids)/2:]} {
		got, err := a.orders(ctx, s, part, began, again)
		if err != nil {
			return nil, err
		}
		for id, r := range got {
			out[id] = r
		}
	}
	return out, nil
}

// Unfinished returns: those that a sweep by updated_at can't find.
const unfinishedReturns = "return_status:return_requested OR return_status:in_progress OR return_status:inspection_complete OR return_status:return_failed"

// Changed lists orders by their last change, whole where one reading of the list
// shows them whole; or, as kind return, all orders with an unfinished return
// whenever they changed. An order that changes during the walk moves to the end
// and is seen twice, never missed. Bounds are whole seconds: Shopify sorts by
// microseconds that it doesn't show.
func (a *Adapter) Changed(ctx context.Context, w platform.Window) (platform.Batch, error) {
	began := a.cfg.Now()
	switch w.Kind {
	case "", KindOrder:
		if w.Lean {
			return a.changedLean(ctx, w, between(w.Since, w.Until))
		}
		return a.changedOrders(ctx, w, began)
	case KindReturn:
		if w.Lean {
			return a.changedLean(ctx, w, unfinishedReturns)
		}
		first := page(w, 100)
		r, err := a.ask(ctx, listIDs, listVars(first, w.Cursor, unfinishedReturns), float64(2+first))
		if err != nil {
			return platform.Batch{}, err
		}
		p, err := r.page(w.Cursor)
		if err != nil {
			return platform.Batch{}, err
		}
		b := platform.Batch{Next: p.next}
		for _, raw := range p.nodes {
			var v struct {
				ID leaf `json:"id"`
			}
			_ = json.Unmarshal(raw, &v)
			if typ, id := splitGID(v.ID.raw); typ == "Order" {
				b.Refs = append(b.Refs, a.order(id))
			}
		}
		return b, nil
	}
	return platform.Batch{}, fmt.Errorf("shopify: no list of %q", w.Kind)
}

func (a *Adapter) changedOrders(ctx context.Context, w platform.Window, began time.Time) (platform.Batch, error) {
	first := page(w, max(1, (pagePoints-2)/a.full.points))
	for {
		gone := a.gone()
		r, err := a.ask(ctx, a.full.list(gone), listVars(first, w.Cursor, between(w.Since, w.Until)), 2+a.cost(a.full, first))
		if err != nil {
			return platform.Batch{}, err
		}
		if r.Errors.has(codeTooDear) && first > 1 {
			first /= 2
			continue
		}
		if a.learn(a.full, r, gone) {
			continue
		}
		p, err := r.page(w.Cursor)
		if err != nil {
			return platform.Batch{}, err
		}
		b := platform.Batch{Next: p.next}
		refused := a.refused()
		for _, raw := range p.nodes {
			got, ok := a.official(raw, a.full, refused, began)
			switch {
			case !ok:
				return platform.Batch{}, errors.New("shopify: the list holds something that isn't an order")
			case got.more:
				b.Refs = append(b.Refs, got.obs.Ref)
			default:
				got.obs.Detail = a.otherVersion(r.version)
				b.Observations = append(b.Observations, got.obs)
			}
		}
		return b, nil
	}
}

func listVars(first int, after, query string) map[string]any {
	vars := map[string]any{"first": first, "query": query, "after": nil}
	if after != "" {
		vars["after"] = after
	}
	return vars
}

// between is the search for a window: from its first second on, up to its end.
func between(since, until time.Time) string {
	var terms []string
	if !since.IsZero() {
		terms = append(terms, "updated_at:>='"+since.UTC().Truncate(time.Second).Format(time.RFC3339)+"'")
	}
	if !until.IsZero() {
		if t := until.UTC().Truncate(time.Second); t.Before(until) {
			until = t.Add(time.Second)
		}
		terms = append(terms, "updated_at:<'"+until.UTC().Format(time.RFC3339)+"'")
	}
	return strings.Join(terms, " AND ")
}

type listPage struct {
	nodes []json.RawMessage
	next  string
}

// page reads a page of the list. A search that the platform didn't understand
// matches everything and says so only in a warning: that is our failure.
func (r reply) page(cursor string) (listPage, error) {
	for _, s := range r.Extensions.Search {
		for _, w := range s.Warnings {
			return listPage{}, errors.New("shopify: search not understood: " + printable(w.Field+": "+w.Message, 200))
		}
	}
	var data struct {
		Orders list[json.RawMessage] `json:"orders"`
	}
	_ = json.Unmarshal(r.Data, &data)
	if len(r.Errors) > 0 {
		return listPage{}, r.failed()
	}
	if !data.Orders.given() {
		return listPage{}, errors.New("shopify: the answer has no list of orders")
	}
	p := listPage{nodes: data.Orders.items}
	if data.Orders.page.HasNextPage {
		p.next = data.Orders.page.EndCursor
		if p.next == "" || p.next == cursor {
			return listPage{}, errors.New("shopify: the list's cursor doesn't advance")
		}
	}
	return p, nil
}

// failed is what the errors of a list mean. A list with errors is incomplete, so
// nothing of it is used.
func (r reply) failed() error {
	switch {
	case r.Errors.has(codeInternal):
		return &platform.Outage{Detail: codeInternal}
	case r.Errors.has(codeDenied):
		return &platform.Outage{Denied: true, Detail: codeDenied}
	}
	return errors.New("shopify: the list was refused: " + r.Errors.detail())
}
