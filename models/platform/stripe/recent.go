package stripe

import (
	"context"
	"fmt"
	"net/url"
	"strings"

	"counterfoil/models"
	"counterfoil/models/platform"
)

var _ platform.Labeller = (*Adapter)(nil)

// LinkField is the metadata key that links payments to orders.
func (a *Adapter) LinkField() string { return a.orderKey }

// Recent lists the metadata of the account's newest payment intents, 100 a call.
func (a *Adapter) Recent(ctx context.Context, calls int) (payments []models.Labelled, more bool, err error) {
	query := url.Values{"limit": {"100"}}
	for range calls {
		var page list[intent]
		if err := a.get(ctx, "", "/v1/payment_intents", query, &page); err != nil {
			return nil, false, fmt.Errorf("stripe: list recent %s: %w", kindIntent, err)
		}
		for _, in := range page.Data {
			payments = append(payments, a.labelled(in))
		}
		if !page.HasMore || len(page.Data) == 0 {
			return payments, false, nil
		}
		query.Set("starting_after", page.Data[len(page.Data)-1].ID)
	}
	return payments, true, nil
}

// labelled is an intent's metadata as link reads it. A key or a value that had to be
// changed for keeping couldn't link anything.
func (a *Adapter) labelled(in intent) models.Labelled {
	p := models.Labelled{Created: at(in.Created), Test: a.otherMode(in.Livemode), Labels: map[string]string{}}
	for _, rule := range a.foreign {
		v, there := in.Metadata[rule.key]
		p.Foreign = p.Foreign || there && v == rule.value
	}
	for k, v := range in.Metadata {
		if value := clean(strings.TrimSpace(v)); value != "" && clean(k) == k && k != "" {
			p.Labels[k] = value
		}
	}
	return p
}
