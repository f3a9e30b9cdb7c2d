package sandbox

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// A ShopifyConfig describes a sandbox shop. Empty fields have usable defaults.
type ShopifyConfig struct {
	Account  string   // example-shop.myshopify.com
	Secret   string   // the app's client secret: signs notifications and fetches tokens
	ClientID string   // of the client credentials grant
	Token    string   // static access token; empty: none is accepted
	Scopes   []string // granted; nil: all that orders need
	Currency string   // of orders that name none
	FirstID  int64    // ids count up from here; real ones have up to 18 digits
	Now      func() time.Time
	Zone     *time.Location // in which notifications write times; the API writes UTC
}

// Shopify is a shop: orders that people change, the Admin GraphQL API over them,
// and the notifications that the real platform would send. Methods that change
// something return those notifications, signed, and don't send them: Put them into
// the Outbox or lose them. It is safe for concurrent use.
type Shopify struct {
	*Switches
	Outbox *Outbox
	// TooMany answers throttled calls with status 429 rather than 200.
	TooMany atomic.Bool
	// KeepSubscriptions leaves a subscription whose deliveries keep failing.
	KeepSubscriptions atomic.Bool
	// RefuseInsecure makes subscriptions to http addresses an error, as the real one does.
	RefuseInsecure atomic.Bool
	calls          atomic.Int64
	asked          atomic.Int64 // grants of tokens
	api            http.Handler

	mu      sync.Mutex
	cfg     ShopifyConfig
	schema  shopifySchema
	orders  map[int64]*shopOrder
	next    int64     // last id given out
	numbers int       // last order number given out
	last    time.Time // last change; two changes never share a microsecond
	act     int64     // last act of the merchant
	sent    int64     // last notification made
	tokens  map[string]time.Time
	points  float64
	filled  time.Time
	largest float64 // most points of one query
	bucket  float64
	restore float64
	removed map[string]bool   // fields taken out of the schema: Order.returnStatus
	broken  map[string]string // object → code of the error that reading it gives
	serves  []string          // API versions that haven't expired, the oldest first
	hooks   []*shopHook
	hooked  bool // subscriptions were made by the API
}

// ShopifyScopes are all scopes that reading orders whole needs.
var ShopifyScopes = []string{"read_orders", "read_all_orders", "read_fulfillments", "read_returns",
	"read_merchant_managed_fulfillment_orders", "read_shopify_payments_disputes"}

// NewShopify opens a shop without orders.
func NewShopify(cfg ShopifyConfig) *Shopify {
	if cfg.Account == "" {
		cfg.Account = "example-shop.myshopify.com"
	}
	if cfg.Secret == "" {
		cfg.Secret = "sandbox-client-secret"
	}
	if cfg.ClientID == "" {
		cfg.ClientID = "sandbox-client"
	}
	if cfg.Scopes == nil {
		cfg.Scopes = ShopifyScopes
	}
	if cfg.Currency == "" {
		cfg.Currency = "HKD"
	}
	if cfg.FirstID == 0 {
		cfg.FirstID = 5_600_000_000_001
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Zone == nil {
		cfg.Zone = time.FixedZone("", 8*3600)
	}
	s := &Shopify{
		Switches: &Switches{}, cfg: cfg, schema: newShopifySchema(), orders: map[int64]*shopOrder{}, next: cfg.FirstID - 1, numbers: 1000,
		tokens: map[string]time.Time{}, points: 2000, bucket: 2000, restore: 100, largest: 1000, filled: cfg.Now(),
		removed: map[string]bool{}, broken: map[string]string{}, serves: []string{"2026-01", "2026-04", "2026-07", "2026-10"},
	}
	s.Outbox = &Outbox{Switches: s.Switches, Route: s.route, Done: s.delivered}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /admin/oauth/access_token", s.grant)
	mux.HandleFunc("POST /admin/api/{version}/graphql.json", s.graphql)
	s.api = s.Guard(&s.calls, http.HandlerFunc(s.throttled), mux)
	return s
}

// ServeHTTP is the shop's API.
func (s *Shopify) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.api.ServeHTTP(w, r) }

// Calls counts the API calls so far, Grants the tokens given out.
func (s *Shopify) Calls() int64  { return s.calls.Load() }
func (s *Shopify) Grants() int64 { return s.asked.Load() }

// SetScopes changes what the app may read, from the next call on.
func (s *Shopify) SetScopes(scopes ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cfg.Scopes = slices.Clone(scopes)
}

// SetSecret changes the app's secret: later notifications are signed with it.
func (s *Shopify) SetSecret(secret string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cfg.Secret = secret
}

// SetPoints changes the size of the bucket and how fast it fills, and fills it.
func (s *Shopify) SetPoints(bucket, restore float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bucket, s.restore, s.points, s.filled = bucket, restore, bucket, s.cfg.Now()
}

// SetLargest changes how many points one query may cost.
func (s *Shopify) SetLargest(points float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.largest = points
}

// SetVersions changes which API versions are served. A call that names another one
// is answered by the oldest of them.
func (s *Shopify) SetVersions(versions ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.serves = slices.Clone(versions)
}

// Remove takes a field out of the schema, as a new version may.
func (s *Shopify) Remove(typ, field string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.removed[typ+"."+field] = true
}

// Break makes reading an object an error with the code; an empty code mends it.
func (s *Shopify) Break(gid, code string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken[gid] = code; code == "" {
		delete(s.broken, gid)
	}
}

// grant is the client credentials grant: a token for 24 hours.
func (s *Shopify) grant(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.FormValue("grant_type") != "client_credentials" || r.FormValue("client_id") != s.cfg.ClientID || r.FormValue("client_secret") != s.cfg.Secret {
		shopJSON(w, http.StatusBadRequest, map[string]any{"error": "invalid_request", "error_description": "The client credentials are wrong."})
		return
	}
	n := s.asked.Add(1)
	token := fmt.Sprintf("shpat_sandbox_%06d", n)
	s.tokens[token] = s.cfg.Now().Add(24 * time.Hour)
	shopJSON(w, http.StatusOK, map[string]any{"access_token": token, "scope": strings.Join(s.cfg.Scopes, ","), "expires_in": 86399})
}

// Revoke ends all tokens that were given out.
func (s *Shopify) Revoke() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.tokens)
}

func (s *Shopify) knows(token string) bool {
	ends, ok := s.tokens[token]
	return ok && s.cfg.Now().Before(ends) || token != "" && token == s.cfg.Token
}

// refill brings the bucket up to now.
func (s *Shopify) refill() {
	now := s.cfg.Now()
	if d := now.Sub(s.filled).Seconds(); d > 0 {
		s.points = min(s.bucket, s.points+d*s.restore)
	}
	s.filled = now
}

func (s *Shopify) throttled(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writeThrottled(w, 500, 0)
}

func (s *Shopify) writeThrottled(w http.ResponseWriter, requested, left float64) {
	status := http.StatusOK
	if s.TooMany.Load() {
		status = http.StatusTooManyRequests
		w.Header().Set("Retry-After", "1.0")
	}
	shopJSON(w, status, map[string]any{
		"errors": []any{map[string]any{"message": "Throttled", "extensions": map[string]any{
			"code": "THROTTLED", "documentation": "https://shopify.dev/api/usage/rate-limits"}}},
		"extensions": map[string]any{"cost": s.cost(requested, nil, left)},
	})
}

func (s *Shopify) cost(requested float64, actual any, left float64) map[string]any {
	return map[string]any{"requestedQueryCost": requested, "actualQueryCost": actual,
		"throttleStatus": map[string]any{"maximumAvailable": s.bucket, "currentlyAvailable": left, "restoreRate": s.restore}}
}

func shopJSON(w http.ResponseWriter, status int, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		http.Error(w, "", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(b)
}

// Notify signs a body as the shop would send it. Changes sign theirs themselves;
// this is for bodies that no change makes.
func (s *Shopify) Notify(topic string, body []byte) Notification {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.act++
	return s.notify(topic, body, nil)
}

// TestNotification is what the admin's button sends: an order that doesn't exist,
// signed with key, which only the admin shows.
func (s *Shopify) TestNotification(topic, key string) Notification {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.act++
	now := s.local(s.cfg.Now())
	body := shopBody(map[string]any{
		"id": 820982911946154508, "admin_graphql_api_id": "gid://shopify/Order/820982911946154508", "name": "#9999", "order_number": 1234,
		"number": 234, "test": true, "confirmed": false, "financial_status": "voided", "fulfillment_status": nil, "cancelled_at": now,
		"cancel_reason": "customer", "created_at": now, "processed_at": now, "updated_at": now, "closed_at": nil, "currency": s.cfg.Currency,
		"total_price": "398.00", "current_total_price": "398.00", "total_outstanding": "398.00", "email": "jon@example.com",
		"payment_gateway_names": []any{"visa", "bogus"}, "source_name": "web", "line_items": []any{}, "refunds": []any{}, "fulfillments": []any{}, "returns": []any{},
	})
	n := s.notify(topic, body, nil)
	n.Header.Set("X-Shopify-Test", "true")
	n.Header.Set("X-Shopify-Hmac-Sha256", shopSigned(key, body))
	return n
}

// notify signs one notification of the present act.
func (s *Shopify) notify(topic string, body []byte, o *shopOrder) Notification {
	s.sent++
	h := http.Header{}
	h.Set("Content-Type", "application/json")
	h.Set("User-Agent", "Shopify-Captain-Hook")
	h.Set("X-Shopify-Topic", topic)
	h.Set("X-Shopify-Shop-Domain", s.cfg.Account)
	h.Set("X-Shopify-API-Version", s.serves[len(s.serves)-1])
	h.Set("X-Shopify-Webhook-Id", s.uuid("delivery", s.sent))
	h.Set("X-Shopify-Event-Id", s.uuid("act", s.act))
	h.Set("X-Shopify-Triggered-At", s.cfg.Now().UTC().Format(time.RFC3339Nano))
	h.Set("X-Shopify-Test", "false")
	if o != nil {
		h.Set("X-Shopify-Order-Id", fmt.Sprint(o.id))
	}
	h.Set("X-Shopify-Hmac-Sha256", shopSigned(s.cfg.Secret, body))
	return Notification{Topic: topic, Header: h, Body: body}
}

func shopSigned(secret string, body []byte) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write(body)
	return base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

// uuid is a stable id in the form of a UUID.
func (s *Shopify) uuid(kind string, n int64) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s/%s/%d/%d", s.cfg.Account, kind, s.cfg.FirstID, n))
	x := hex.EncodeToString(sum[:16])
	return x[:8] + "-" + x[8:12] + "-4" + x[13:16] + "-8" + x[17:20] + "-" + x[20:]
}

// shopBody writes JSON as Shopify does: slashes escaped too.
func shopBody(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		return nil
	}
	return []byte(strings.ReplaceAll(string(b), "/", `\/`))
}

// local writes a time as notifications do: whole seconds with the shop's offset.
func (s *Shopify) local(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.In(s.cfg.Zone).Truncate(time.Second).Format("2006-01-02T15:04:05-07:00")
}

// shopUTC writes a time as the API does.
func shopUTC(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UTC().Truncate(time.Second).Format(time.RFC3339)
}
