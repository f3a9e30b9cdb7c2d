package sandbox

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// A shopHook is one subscription that an app made by the API.
type shopHook struct {
	id      int64
	topic   string // ORDERS_CREATE
	uri     string
	format  string
	version string
	failed  int // deliveries in a row
}

func (h *shopHook) gid() string { return fmt.Sprintf("gid://shopify/WebhookSubscription/%d", h.id) }

// mostFailures is how many failed deliveries in a row a subscription survives.
const mostFailures = 8

func hookTopic(topic string) string { return strings.ToUpper(strings.ReplaceAll(topic, "/", "_")) }

// Subscriptions lists the topics of the subscriptions that there are, in the API's spelling.
func (s *Shopify) Subscriptions() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for _, h := range s.hooks {
		out = append(out, h.topic)
	}
	slices.Sort(out)
	return out
}

// Unsubscribe takes the subscription to a topic away, as the platform does by itself.
func (s *Shopify) Unsubscribe(topic string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hooks = slices.DeleteFunc(s.hooks, func(h *shopHook) bool { return h.topic == hookTopic(topic) })
}

// MoveSubscription lets the subscription to a topic send elsewhere.
func (s *Shopify) MoveSubscription(topic, address string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range s.hooks {
		if h.topic == hookTopic(topic) {
			h.uri = address
		}
	}
}

// route says where a notification goes. Before the first subscription was made by the
// API the app's configuration sends all of them to the outbox's address.
func (s *Shopify) route(n Notification) (address string, goes bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.hooked {
		return "", true
	}
	for _, h := range s.hooks {
		if h.topic == hookTopic(n.Topic) {
			return h.uri, true
		}
	}
	return "", false
}

// delivered counts failures in a row; the subscription goes at the eighth.
func (s *Shopify) delivered(n Notification, status int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hooks = slices.DeleteFunc(s.hooks, func(h *shopHook) bool {
		if h.topic != hookTopic(n.Topic) {
			return false
		}
		if h.failed++; status >= 200 && status < 300 {
			h.failed = 0
		}
		return h.failed >= mostFailures && !s.KeepSubscriptions.Load()
	})
}

// hookFields shows a subscription as the API does.
func (s *Shopify) hookFields(h *shopHook) map[string]any {
	return map[string]any{"id": h.gid(), "topic": h.topic, "uri": h.uri, "format": h.format, "apiVersion": map[string]any{"handle": h.version, "supported": true, "displayName": h.version}}
}

// mutation makes a change that a field of a mutation names.
func (e *gqlRun) mutation(f *gqlField) any {
	s := e.s
	input, _ := e.arg(f, "webhookSubscription").(map[string]any)
	payload := func(h *shopHook, problem string) map[string]any {
		out := map[string]any{"webhookSubscription": nil, "deletedWebhookSubscriptionId": nil, "userErrors": []any{}}
		if problem != "" {
			out["userErrors"] = []any{map[string]any{"field": []any{"webhookSubscription"}, "message": problem}}
		} else if h != nil {
			out["webhookSubscription"] = s.hookFields(h)
			out["deletedWebhookSubscriptionId"] = h.gid()
		}
		return out
	}
	id, _ := e.arg(f, "id").(string)
	at := slices.IndexFunc(s.hooks, func(h *shopHook) bool { return h.gid() == id })
	switch f.name {
	case "webhookSubscriptionCreate":
		topic, _ := e.arg(f, "topic").(string)
		uri, problem := s.hookAddress(input)
		if slices.ContainsFunc(s.hooks, func(h *shopHook) bool { return h.topic == topic && h.uri == uri }) {
			problem = "Address for this topic has already been taken"
		}
		if problem != "" {
			return payload(nil, problem)
		}
		s.next++
		h := &shopHook{id: s.next, topic: topic, uri: uri, format: "JSON", version: e.version}
		s.hooks, s.hooked = append(s.hooks, h), true
		return payload(h, "")
	case "webhookSubscriptionUpdate":
		if at < 0 {
			return payload(nil, "Webhook subscription does not exist")
		}
		uri, problem := s.hookAddress(input)
		if problem == "" {
			s.hooks[at].uri = uri
		}
		return payload(s.hooks[at], problem)
	case "webhookSubscriptionDelete":
		if at < 0 {
			return payload(nil, "Webhook subscription does not exist")
		}
		h := s.hooks[at]
		s.hooks = slices.Delete(s.hooks, at, at+1)
		return payload(h, "")
	}
	return nil
}

// hookAddress judges where a subscription may send.
func (s *Shopify) hookAddress(input map[string]any) (uri, problem string) {
	uri, _ = input["uri"].(string)
	u, err := url.Parse(uri)
	if err != nil || u.Host == "" || s.RefuseInsecure.Load() && u.Scheme != "https" {
		return uri, "Address is invalid: it must use https"
	}
	return uri, ""
}
