package sandbox

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// StripeVersion is the API version that answers are rendered in where a request names none.
const StripeVersion = "2026-03-25.dahlia"

// A Stripe is the platform of one account and of the accounts connected to it: its
// REST API, and the events that it signs. Its fields are set before the first use;
// all methods may be called at once.
type Stripe struct {
	*Switches
	Outbox *Outbox // sends what Put is given; the methods here only sign

	Account string // the platform's own account
	Key     string // accepted API key
	// Secrets sign each notification, one v1 for each: two while a secret is rolled.
	Secrets []string
	Live    bool
	// EventVersion is the API version of snapshot events; empty: null, as in ancient ones.
	EventVersion string
	// Snapshot and Thin are the destinations: each gets an event of its own.
	Snapshot bool
	Thin     bool
	// OpaqueContext names connected accounts by a path that isn't an account id.
	OpaqueContext bool
	// LockTimeout makes Throttle answer that an object is locked instead of a rate.
	LockTimeout atomic.Bool

	now   func() time.Time
	calls atomic.Int64

	mu       sync.Mutex
	paths    []string // of the calls since the last Paths
	denied   map[string]string
	broken   map[string]bool
	accounts map[string]bool // connected
	objects  map[string]*stripeObject
	order    []*stripeObject // as they were made
	serial   int
	requests int
	hidden   map[string]int // readings that show no latest_charge, by intent
	plans    map[string]StripeSession
	// endpoints that were made by the API.
	endpoints []*stripeEndpoint
}

// A stripeObject is one object of the API as it stands. Fields hold what JSON can;
// what depends on the version is worked out when it is rendered.
type stripeObject struct {
	id, kind, account string
	created           int64
	fields            map[string]any
}

// NewStripe makes the platform of an account in test mode. key is the API key that
// it accepts, secret signs its events, now is its clock.
func NewStripe(account, key, secret string, now func() time.Time) *Stripe {
	s := &Switches{}
	p := &Stripe{
		Switches: s, Outbox: &Outbox{Switches: s},
		Account: account, Key: key, Secrets: []string{secret}, EventVersion: StripeVersion, Snapshot: true,
		now: now, denied: map[string]string{}, broken: map[string]bool{}, accounts: map[string]bool{},
		objects: map[string]*stripeObject{}, hidden: map[string]int{}, plans: map[string]StripeSession{},
	}
	p.Outbox.Done = p.delivered
	return p
}

// Now is the platform's clock.
func (p *Stripe) Now() time.Time { return p.now() }

// Calls is how many calls of the API were made.
func (p *Stripe) Calls() int64 { return p.calls.Load() }

// Paths lists the calls since it was last asked, as path and query.
func (p *Stripe) Paths() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	paths := p.paths
	p.paths = nil
	return paths
}

// Connect adds a connected account.
func (p *Stripe) Connect(account string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.accounts[account] = true
}

// Deny makes the key a restricted one that may not read addresses with a prefix; an
// empty permission allows it again.
func (p *Stripe) Deny(prefix, permission string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.denied[prefix] = permission
}

// Break makes one object unreadable while others can be read.
func (p *Stripe) Break(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.broken[id] = true
}

// HideCharge makes the next readings of an intent show no latest_charge, as happens
// in the seconds after a payment.
func (p *Stripe) HideCharge(intent string, readings int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hidden[intent] = readings
}

// Handler is the API, with the switches in front.
func (p *Stripe) Handler() http.Handler {
	return p.Guard(&p.calls, http.HandlerFunc(p.throttle), http.HandlerFunc(p.serve))
}

// throttle answers as Stripe does, in either of its two ways.
func (p *Stripe) throttle(w http.ResponseWriter, _ *http.Request) {
	if p.LockTimeout.Load() {
		stripeFailure(w, http.StatusTooManyRequests, "invalid_request_error", "lock_timeout", "This object cannot be accessed right now.", "")
		return
	}
	w.Header().Set("Stripe-Rate-Limited-Reason", "endpoint-rate")
	stripeFailure(w, http.StatusTooManyRequests, "invalid_request_error", "rate_limit", "Request rate limit exceeded.", "")
}

// Sign makes the headers of a delivery, with the time it is made.
func (p *Stripe) Sign(body []byte) http.Header {
	t := strconv.FormatInt(p.now().Unix(), 10)
	parts := []string{"t=" + t}
	for _, secret := range p.Secrets {
		mac := hmac.New(sha256.New, []byte(secret))
		mac.Write([]byte(t + "."))
		mac.Write(body)
		parts = append(parts, "v1="+hex.EncodeToString(mac.Sum(nil)))
	}
	if !p.Live {
		parts = append(parts, "v0="+strings.Repeat("00", sha256.Size))
	}
	h := http.Header{}
	h.Set("Content-Type", "application/json; charset=utf-8")
	h.Set("User-Agent", "Stripe/1.0 (+https://stripe.com/docs/webhooks)")
	h.Set("Stripe-Signature", strings.Join(parts, ","))
	return h
}

// Again delivers an event once more, by its id: signed anew, with fewer deliveries open.
func (p *Stripe) Again(event string) (Notification, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	o := p.objects[event]
	if o == nil || o.kind != "event" && o.kind != "v2.core.event" {
		return Notification{}, fmt.Errorf("sandbox: no event %s", event)
	}
	return p.notification(o, 0), nil
}

// Sample is what the Dashboard's test button sends: an id of zeros, and an object
// that doesn't exist.
func (p *Stripe) Sample(topic string) Notification {
	p.mu.Lock()
	defer p.mu.Unlock()
	family, _, _ := strings.Cut(topic, ".")
	prefix := map[string]string{"payment_intent": "pi", "charge": "ch", "refund": "re"}[family]
	o := map[string]any{"id": prefix + "_00000000000000", "object": family, "amount": 2000, "amount_received": 0, "currency": "usd",
		"status": "requires_payment_method", "created": p.now().Unix(), "livemode": false, "metadata": map[string]any{}}
	body := stripeJSON(map[string]any{"id": "evt_00000000000000", "object": "event", "type": topic, "created": 1326853478,
		"livemode": false, "api_version": p.version(), "pending_webhooks": 1,
		"request": map[string]any{"id": nil, "idempotency_key": nil}, "data": map[string]any{"object": o}})
	return Notification{Topic: topic, Header: p.Sign(body), Body: body}
}

func (p *Stripe) version() any {
	if p.EventVersion == "" {
		return nil
	}
	return p.EventVersion
}

// emit makes the events of one change and signs them. All events of one call share
// its request. The caller holds the lock.
func (p *Stripe) emit(o *stripeObject, previous map[string]any, topics ...string) []Notification {
	var out []Notification
	request := fmt.Sprintf("req_sandbox%06d", p.requests)
	for _, topic := range topics {
		data := map[string]any{"object": p.render(o, p.EventVersion, false)}
		if len(previous) > 0 {
			data["previous_attributes"] = previous
		}
		// The list of events has it whether a destination takes it or not.
		twin := p.add("event", "evt", o.account, map[string]any{"type": topic, "api_version": p.version(), "data": data,
			"pending_webhooks": 0, "request": map[string]any{"id": request, "idempotency_key": nil}})
		if p.EventVersion < "2017-05-25" {
			twin.fields["request"] = request
		}
		if o.account != p.Account {
			twin.fields["account"] = o.account
		}
		if p.Snapshot {
			out = append(out, p.notification(twin, 1))
		}
		if p.Thin {
			e := p.add("v2.core.event", "evt_thin", o.account, map[string]any{"type": "v1." + topic, "context": p.context(o.account),
				"reason":         map[string]any{"type": "request", "request": map[string]any{"id": request, "idempotency_key": ""}},
				"snapshot_event": twin.id,
				"related_object": map[string]any{"id": o.id, "type": o.kind, "url": stripePaths[o.kind] + "/" + o.id}})
			out = append(out, p.notification(e, 1))
		}
	}
	return out
}

// context names a connected account in a thin event; null for our own.
func (p *Stripe) context(account string) any {
	switch {
	case account == p.Account:
		return nil
	case p.OpaqueContext:
		return "org_sandbox/" + account
	}
	return account
}

// notification renders an event and signs it. The caller holds the lock.
func (p *Stripe) notification(e *stripeObject, pending int) Notification {
	body := p.render(e, p.EventVersion, false)
	if e.kind == "event" {
		body["pending_webhooks"] = pending
	}
	b := stripeJSON(body)
	topic, _ := e.fields["type"].(string)
	return Notification{Topic: topic, Header: p.Sign(b), Body: b}
}

// add makes an object. The caller holds the lock.
func (p *Stripe) add(kind, prefix, account string, fields map[string]any) *stripeObject {
	p.serial++
	o := &stripeObject{id: fmt.Sprintf("%s_3Sandbox%08d", prefix, p.serial), kind: kind, account: account, created: p.now().Unix(), fields: fields}
	p.objects[o.id] = o
	p.order = append(p.order, o)
	return o
}

// stripeJSON writes a body as Stripe does: indented.
func stripeJSON(v any) []byte {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		// Only maps, text and numbers come here.
		return []byte("{}")
	}
	return b
}
