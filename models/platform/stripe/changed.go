package stripe

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"time"

	"counterfoil/models/platform"
)

// lists says where each kind is listed. Read only.
var lists = []struct{ kind, path string }{
	{kindEvent, "/v1/events"},
	{kindIntent, "/v1/payment_intents"},
	{kindCharge, "/v1/charges"},
	{kindRefund, "/v1/refunds"},
	{kindDispute, "/v1/disputes"},
	{kindSession, "/v1/checkout/sessions"},
}

// Kinds of objects that Changed lists. Events tell every change of the last 30 days;
// the others are listed by birth and also show what no event was made for.
func (a *Adapter) Kinds() []string {
	kinds := make([]string, len(lists))
	for i, l := range lists {
		kinds[i] = l.kind
	}
	return kinds
}

// Changed lists one page, newest first: Stripe offers no other order. References are
// the payment intents wherever the list names them. It covers the connection's own
// account only; connected accounts have lists of their own.
func (a *Adapter) Changed(ctx context.Context, w platform.Window) (platform.Batch, error) {
	i := slices.IndexFunc(lists, func(l struct{ kind, path string }) bool { return l.kind == either(w.Kind, kindEvent) })
	if i < 0 {
		return platform.Batch{}, fmt.Errorf("stripe: there is no list of %q", w.Kind)
	}
	limit := 100
	if w.Most > 0 {
		limit = min(w.Most, limit)
	}
	query := url.Values{"limit": {strconv.Itoa(limit)}}
	if !w.Since.IsZero() {
		query.Set("created[gte]", strconv.FormatInt(w.Since.Unix(), 10))
	}
	if !w.Until.IsZero() {
		query.Set("created[lte]", strconv.FormatInt(w.Until.Add(time.Second-1).Unix(), 10))
	}
	if w.Cursor != "" {
		query.Set("starting_after", w.Cursor)
	}
	if lists[i].kind == kindEvent {
		query["types[]"] = changeTopics
	}
	var page list[json.RawMessage]
	if err := a.get(ctx, "", lists[i].path, query, &page); err != nil {
		return platform.Batch{}, fmt.Errorf("stripe: list %s: %w", lists[i].kind, err)
	}
	var b platform.Batch
	last := ""
	for _, raw := range page.Data {
		e := split(raw)
		last = e.text("id")
		ref := snapshotObject(e, "")
		if lists[i].kind == kindEvent {
			ref = a.notice(e, time.Time{}).Object
		}
		if !ref.Zero() && !slices.Contains(b.Refs, ref) {
			b.Refs = append(b.Refs, ref)
		}
	}
	if page.HasMore && last == "" {
		return platform.Batch{}, fmt.Errorf("stripe: list %s: a page without ids", lists[i].kind)
	}
	if page.HasMore {
		b.Next = last
	}
	return b, nil
}
