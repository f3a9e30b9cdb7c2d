package stripe

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"counterfoil/models"
	"counterfoil/models/platform"
)

const endpointsPath = "/v1/webhook_endpoints"

// neededTopics announce every change of a payment that we record. Read only.
var neededTopics = []string{
	"payment_intent.created", "payment_intent.processing", "payment_intent.amount_capturable_updated", "payment_intent.succeeded",
	"payment_intent.payment_failed", "payment_intent.canceled",
	"charge.succeeded", "charge.failed", "charge.captured", "charge.expired", "charge.refunded",
	"refund.created", "refund.updated", "refund.failed",
	"charge.dispute.created", "charge.dispute.updated", "charge.dispute.closed",
	"checkout.session.completed", "checkout.session.expired", "checkout.session.async_payment_succeeded", "checkout.session.async_payment_failed",
	"invoice.paid", "invoice.payment_failed",
}

// Needed are the event types that announce what we record.
func (a *Adapter) Needed() []string { return slices.Clone(neededTopics) }

type endpoint struct {
	ID      string   `json:"id"`
	URL     string   `json:"url"`
	Status  string   `json:"status"`
	Events  []string `json:"enabled_events"`
	Version string   `json:"api_version"`
	Secret  string   `json:"secret"`
}

func (e endpoint) subscription() platform.Subscription {
	s := platform.Subscription{ID: clean(e.ID), Address: clean(e.URL), Off: e.Status == "disabled"}
	for _, topic := range e.Events {
		s.Topics = append(s.Topics, clean(topic))
	}
	return s
}

// Subscriptions lists the account's endpoints. The version of their bodies isn't
// judged: what is applied is fetched in the connection's own. Destinations for thin
// events are another list that this one doesn't have.
func (a *Adapter) Subscriptions(ctx context.Context) ([]platform.Subscription, error) {
	all, err := all(ctx, a, "", endpointsPath, url.Values{}, func(e endpoint) string { return e.ID })
	if err != nil {
		return nil, unsaid(err)
	}
	out := make([]platform.Subscription, len(all))
	for i, e := range all {
		out[i] = e.subscription()
	}
	return out, nil
}

// unsaid is what an answer about one object means where no object was asked for.
func unsaid(err error) error {
	if t, ok := errors.AsType[*trouble](err); ok {
		return &platform.NotRegistered{Detail: t.detail}
	}
	return err
}

// Register makes an endpoint, or gives ours the events that it lacks.
func (a *Adapter) Register(ctx context.Context, address string) (platform.Registered, error) {
	var done platform.Registered
	list, err := a.Subscriptions(ctx)
	if err != nil {
		return done, err
	}
	door := platform.DoorOf(address)
	if len(platform.JudgeSubscriptions(neededTopics, list, door, address, "")) == 0 {
		return done, nil
	}
	var made endpoint
	i := slices.IndexFunc(list, func(s platform.Subscription) bool { return platform.SameDoor(s.Address, door) })
	if i >= 0 {
		topics := list[i].Topics
		for _, t := range neededTopics {
			if !slices.Contains(topics, t) && !slices.Contains(topics, "*") {
				topics = append(topics, t)
			}
		}
		change := url.Values{"url": {address}, "disabled": {"false"}, "enabled_events[]": topics}
		if _, err := a.call(ctx, http.MethodPost, "", endpointsPath+"/"+url.PathEscape(list[i].ID), change, &made); err != nil {
			return done, unsaid(err)
		}
		done.Mended = 1
		return done, nil
	}
	if _, err := a.call(ctx, http.MethodPost, "", endpointsPath, url.Values{"url": {address}, "enabled_events[]": neededTopics, "api_version": {a.version},
		"description": {"Counterfoil"}}, &made); err != nil {
		return done, unsaid(err)
	}
	if !idPattern.MatchString(made.ID) || made.Secret == "" {
		return done, errors.New("stripe: the answer about the new endpoint has no id or no secret")
	}
	return platform.Registered{Made: 1, IDs: []string{made.ID}, Secrets: []string{made.Secret}}, nil
}

// Unregister takes an endpoint away.
func (a *Adapter) Unregister(ctx context.Context, id string) error {
	var gone struct{}
	_, err := a.call(ctx, http.MethodDelete, "", endpointsPath+"/"+url.PathEscape(id), nil, &gone)
	return unsaid(err)
}

// Events lists what Stripe made events of, newest first, at most 30 days back. Of
// events that some endpoint didn't take, another program's endpoint may be the one.
func (a *Adapter) Events(ctx context.Context, since, until time.Time, undelivered bool, cursor string) ([]platform.LoggedEvent, string, error) {
	query := url.Values{"limit": {"100"}}
	if !since.IsZero() {
		query.Set("created[gte]", strconv.FormatInt(since.Unix(), 10))
	}
	if !until.IsZero() {
		query.Set("created[lte]", strconv.FormatInt(until.Add(time.Second-1).Unix(), 10))
	}
	if undelivered {
		query.Set("delivery_success", "false")
	}
	if cursor != "" {
		query.Set("starting_after", cursor)
	}
	var page list[json.RawMessage]
	if err := a.get(ctx, "", "/v1/events", query, &page); err != nil {
		return nil, "", fmt.Errorf("stripe: events: %w", unsaid(err))
	}
	var out []platform.LoggedEvent
	for _, raw := range page.Data {
		e := split(raw)
		n := a.notice(e, time.Time{})
		var pending int
		e.read("pending_webhooks", &pending)
		out = append(out, platform.LoggedEvent{ID: n.EventID, Topic: n.Topic, Object: n.Object, Created: n.Occurred, Pending: pending > 0})
	}
	next := ""
	if page.HasMore && len(page.Data) > 0 {
		if next = split(page.Data[len(page.Data)-1]).text("id"); next == "" {
			return nil, "", errors.New("stripe: events: a page without ids")
		}
	}
	return out, next, nil
}

// Sign makes the request with which Stripe would send a body.
func (a *Adapter) Sign(secret int, body []byte, at time.Time) platform.Request {
	stamp := strconv.FormatInt(at.Unix(), 10)
	mac := hmac.New(sha256.New, []byte(a.secrets[secret]))
	mac.Write([]byte(stamp + "."))
	mac.Write(body)
	h := http.Header{}
	h.Set(signatureHeader, "t="+stamp+",v1="+hex.EncodeToString(mac.Sum(nil)))
	return platform.Request{Header: h, Body: body}
}

// Shape reads one object at its own address and says which paths it has.
func (a *Adapter) Shape(ctx context.Context, ref models.ObjectRef) (models.Shape, models.Absence, error) {
	i := slices.IndexFunc(lists, func(l struct{ kind, path string }) bool { return l.kind == ref.Kind })
	if i < 0 || !idPattern.MatchString(ref.ID) {
		return nil, models.Unreadable, nil
	}
	query := url.Values{}
	if ref.Kind == kindIntent {
		query.Set("expand[]", "latest_charge")
	}
	var raw json.RawMessage
	err := a.get(ctx, ref.Account, lists[i].path+"/"+ref.ID, query, &raw)
	if t, ok := errors.AsType[*trouble](err); ok {
		return nil, t.absence, nil
	}
	if err != nil {
		return nil, "", err
	}
	s, err := models.ShapeOf(raw)
	return s, models.Present, err
}

// Limits are the calls a second that this console allows itself.
func (a *Adapter) Limits() []models.Note {
	return []models.Note{{Key: "note.stripe.rate", Args: []string{strings.TrimSpace(either(a.cfg.Settings["rate"], fmt.Sprint(defaultRate)))}, At: a.now()}}
}

var (
	_ platform.Subscriber = (*Adapter)(nil)
	_ platform.Logger     = (*Adapter)(nil)
	_ platform.Signer     = (*Adapter)(nil)
	_ platform.Shaper     = (*Adapter)(nil)
	_ platform.Limited    = (*Adapter)(nil)
)
