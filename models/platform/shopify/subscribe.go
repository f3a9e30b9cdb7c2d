package shopify

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"counterfoil/models"
	"counterfoil/models/platform"
)

// topicsOf are the topics that each scope allows to subscribe to, of those that tell a
// change which we record. Refunds, transactions and shipments move an order, so that
// orders/updated announces them too, but only their own topic comes at once.
var topicsOf = []struct {
	scope  []string
	topics []string
}{
	{needed[0], []string{"orders/create", "orders/paid", "orders/updated", "orders/cancelled", "orders/fulfilled", "orders/partially_fulfilled",
		"orders/edited", "orders/delete", "refunds/create", "order_transactions/create"}},
	{needed[1], []string{"fulfillments/create", "fulfillments/update"}},
	{needed[2], []string{"returns/request", "returns/approve", "returns/decline", "returns/cancel", "returns/close", "returns/reopen"}},
	{needed[4], []string{"disputes/create", "disputes/update"}},
}

// Needed are the topics that our scopes allow, of those that tell what we record.
func (a *Adapter) Needed() []string {
	var scopes []string
	if a.token != nil {
		scopes = a.token.granted(context.Background())
	}
	var out []string
	for _, of := range topicsOf {
		if scopes == nil || slices.ContainsFunc(of.scope, func(s string) bool { return covers(scopes, s) }) {
			out = append(out, of.topics...)
		}
	}
	return out
}

const (
	subscriptionsQuery = `query Subscriptions($first: Int!, $after: String) { webhookSubscriptions(first: $first, after: $after) {
		nodes { id topic uri format apiVersion { handle } } pageInfo { hasNextPage endCursor } } }`
	subscribeMutation = `mutation Subscribe($topic: WebhookSubscriptionTopic!, $input: WebhookSubscriptionInput!) {
		webhookSubscriptionCreate(topic: $topic, webhookSubscription: $input) { webhookSubscription { id } userErrors { field message } } }`
	resubscribeMutation = `mutation Resubscribe($id: ID!, $input: WebhookSubscriptionInput!) {
		webhookSubscriptionUpdate(id: $id, webhookSubscription: $input) { webhookSubscription { id } userErrors { field message } } }`
	unsubscribeMutation = `mutation Unsubscribe($id: ID!) {
		webhookSubscriptionDelete(id: $id) { deletedWebhookSubscriptionId userErrors { field message } } }`
	mutationPoints = 10
)

// enum is a topic as the API spells it: ORDERS_CREATE. The first underscore after the
// resource stands for the slash.
func enum(topic string) string { return strings.ToUpper(strings.ReplaceAll(topic, "/", "_")) }

// topicOf finds the spelling of notifications for one of the API's; its own words where
// it isn't one that we need.
func topicOf(word string) string {
	for _, of := range topicsOf {
		for _, t := range of.topics {
			if enum(t) == word {
				return t
			}
		}
	}
	return strings.ToLower(word)
}

// Subscriptions lists those that this app made by the API on this shop. Ones that the
// app's config declares, or that people made in the admin, aren't shown to us.
func (a *Adapter) Subscriptions(ctx context.Context) ([]platform.Subscription, error) {
	if a.token != nil && a.token.granted(ctx) == nil {
		// What our scopes don't allow isn't missing.
		if _, err := a.Check(ctx); err != nil {
			return nil, err
		}
	}
	var out []platform.Subscription
	for after := any(nil); ; {
		r, err := a.ask(ctx, subscriptionsQuery, map[string]any{"first": 100, "after": after}, 2+200)
		if err != nil {
			return nil, err
		}
		var data struct {
			List list[struct {
				ID      leaf `json:"id"`
				Topic   leaf `json:"topic"`
				URI     leaf `json:"uri"`
				Format  leaf `json:"format"`
				Version struct {
					Handle leaf `json:"handle"`
				} `json:"apiVersion"`
			}] `json:"webhookSubscriptions"`
		}
		_ = json.Unmarshal(r.Data, &data)
		if len(r.Errors) > 0 {
			return nil, r.failed()
		}
		if !data.List.given() {
			return nil, errors.New("shopify: the answer has no list of subscriptions")
		}
		for _, n := range data.List.items {
			out = append(out, platform.Subscription{ID: printable(n.ID.raw, 120), Topics: []string{topicOf(n.Topic.word())}, Address: printable(n.URI.raw, 2000),
				Format: strings.ToLower(n.Format.word()), Version: n.Version.Handle.word()})
		}
		if !data.List.page.HasNextPage || data.List.page.EndCursor == "" || after == data.List.page.EndCursor {
			return out, nil
		}
		after = data.List.page.EndCursor
	}
}

// Register makes one subscription for each topic that has none, and mends those of this
// connection that send elsewhere. One in another API version is made anew: it can't be
// changed, and a new one gets the version of the call, or the app's.
func (a *Adapter) Register(ctx context.Context, address string) (platform.Registered, error) {
	var done platform.Registered
	list, err := a.Subscriptions(ctx)
	if err != nil {
		return done, err
	}
	door := platform.DoorOf(address)
	for topic, fault := range platform.JudgeSubscriptions(a.Needed(), list, door, address, a.cfg.Settings["api_version"]) {
		input := map[string]any{"uri": address, "format": "JSON"}
		i := slices.IndexFunc(list, func(s platform.Subscription) bool {
			return slices.Contains(s.Topics, topic) && platform.SameDoor(s.Address, door)
		})
		if i >= 0 && fault == models.SubscriptionVersion {
			if err := a.Unregister(ctx, list[i].ID); err != nil {
				return done, err
			}
		} else if i >= 0 {
			if _, err := a.mutate(ctx, resubscribeMutation, map[string]any{"id": list[i].ID, "input": input}); err != nil {
				return done, err
			}
			done.Mended++
			continue
		}
		id, err := a.mutate(ctx, subscribeMutation, map[string]any{"topic": enum(topic), "input": input})
		if err != nil {
			return done, err
		}
		done.Made++
		done.IDs = append(done.IDs, id)
	}
	return done, nil
}

// Unregister takes a subscription away.
func (a *Adapter) Unregister(ctx context.Context, id string) error {
	_, err := a.mutate(ctx, unsubscribeMutation, map[string]any{"id": id})
	return err
}

// mutate makes one change of a subscription. What Shopify refuses for its own reasons
// comes as userErrors beside a good answer.
func (a *Adapter) mutate(ctx context.Context, mutation string, vars map[string]any) (string, error) {
	r, err := a.ask(ctx, mutation, vars, mutationPoints)
	if err != nil {
		return "", err
	}
	if len(r.Errors) > 0 {
		if r.Errors.has(codeDenied) || r.Errors.has(codeInternal) {
			return "", r.failed()
		}
		return "", &platform.NotRegistered{Detail: r.Errors.detail()}
	}
	var data map[string]struct {
		Subscription struct {
			ID leaf `json:"id"`
		} `json:"webhookSubscription"`
		Deleted leaf `json:"deletedWebhookSubscriptionId"`
		Errors  list[struct {
			Message leaf `json:"message"`
		}] `json:"userErrors"`
	}
	_ = json.Unmarshal(r.Data, &data)
	for _, did := range data {
		if len(did.Errors.items) > 0 {
			return "", &platform.NotRegistered{Detail: printable(did.Errors.items[0].Message.raw, 200)}
		}
		if id := did.Subscription.ID.raw + did.Deleted.raw; id != "" {
			return printable(id, 120), nil
		}
	}
	return "", errors.New("shopify: a subscription's answer names none")
}

// Limits are what is left of the shop's points, as the last answer said.
func (a *Adapter) Limits() []models.Note {
	a.mu.Lock()
	defer a.mu.Unlock()
	b := a.points
	if b.rate <= 0 {
		return nil
	}
	left := min(b.max, b.left+max(0, a.cfg.Now().Sub(b.at).Seconds())*b.rate)
	return []models.Note{{Key: "note.shopify.points", Args: []string{whole(left), whole(b.max), whole(b.rate)}, At: b.at}}
}

// Spoken says that calls are answered in another version than they name: an expired one
// is served by the oldest that is left, without an error.
func (a *Adapter) Spoken() []models.Note {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.served == "" || a.served == a.version {
		return nil
	}
	return []models.Note{{Key: "note.shopify.version_other", Args: []string{a.version, a.served}, Warn: true}}
}
