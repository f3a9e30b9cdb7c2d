// Package connect keeps the connections: it loads them, opens their secrets, builds
// their adapters, and shares between all processes whether their platforms can be asked.
package connect

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"counterfoil/models"
	"counterfoil/models/platform"
	"counterfoil/models/seal"
	"counterfoil/models/store"
)

// A Secrets is what an admin gives on standard input. Absent fields leave what is
// there; only Webhook replaces the whole set.
type Secrets struct {
	Webhook      []string `json:"webhook_secrets,omitempty"`
	APIToken     string   `json:"api_token,omitempty"`
	ClientID     string   `json:"client_id,omitempty"`
	ClientSecret string   `json:"client_secret,omitempty"`
	UserName     string   `json:"user_name,omitempty"`
	Password     string   `json:"password,omitempty"`
}

// access tells whether the credentials let us ask the platform.
func (s Secrets) access() bool {
	return s.APIToken != "" || s.ClientID != "" && s.ClientSecret != "" || s.UserName != "" && s.Password != ""
}

// A Conn is one connection as the program uses it. It is never changed; a new one
// takes its place when the database's row moves.
type Conn struct {
	store.ConnectionRow
	Set     map[string]string
	Adapter platform.Adapter
	// Fingerprints of the accepted secrets, in the adapter's order.
	Fingerprints []string
	// Retired verifies with the secrets that are no longer accepted; nil where there
	// are none. It is asked for likely causes only.
	Retired             platform.Adapter
	RetiredFingerprints []string
	// Broken says why no adapter could be built; Adapter is nil then.
	Broken error
	// Mark changes with address, credentials, secrets and API version.
	Mark   string
	config platform.Config
}

// Ready tells whether notifications can be verified at all.
func (c *Conn) Ready() bool { return c.Adapter != nil && len(c.Fingerprints) > 0 }

// CreatesOrders tells whether an object of this connection may become an order of
// its own.
func (c *Conn) CreatesOrders() bool {
	switch c.Set["creates_orders"] {
	case "true":
		return true
	case "false":
		return false
	}
	return c.Platform != models.Stripe || !c.StoreInShop
}

// Duration is a setting that is a span of time, or its default.
func (c *Conn) Duration(name string) time.Duration {
	if d, err := time.ParseDuration(c.Set[name]); err == nil && d >= 0 {
		return d
	}
	return durations[name][c.Platform]
}

// durations are the defaults of the settings that are spans of time.
var durations = map[string]map[models.Platform]time.Duration{
	"settle_time":   {models.Shopify: time.Minute, models.Stripe: time.Minute, models.ReceiptRoller: time.Minute},
	"down_after":    {models.Shopify: time.Minute, models.Stripe: time.Minute, models.ReceiptRoller: time.Minute},
	"review_after":  {models.Shopify: time.Hour, models.Stripe: time.Hour, models.ReceiptRoller: time.Hour},
	"stale_after":   {models.Shopify: 24 * time.Hour, models.Stripe: 24 * time.Hour},
	"unsent_after":  {models.Shopify: 6 * time.Hour, models.Stripe: 6 * time.Hour},
	"sweep_every":   {models.Shopify: 10 * time.Minute, models.Stripe: 10 * time.Minute, models.ReceiptRoller: 8 * time.Hour},
	"sweep_overlap": {models.Shopify: 15 * time.Minute, models.Stripe: 15 * time.Minute, models.ReceiptRoller: 15 * time.Minute},
	"import_since":  {models.Shopify: 60 * 24 * time.Hour, models.Stripe: 60 * 24 * time.Hour},
	"missed_after":  {models.Shopify: 30 * time.Minute, models.Stripe: time.Hour, models.ReceiptRoller: 8 * time.Hour},
	"heal_after":    {models.Shopify: 15 * time.Minute, models.Stripe: 15 * time.Minute, models.ReceiptRoller: 15 * time.Minute},
	"fresh_on_open": {models.Shopify: 2 * time.Minute, models.Stripe: 2 * time.Minute},
	"carry_fresh":   {models.Shopify: time.Minute, models.Stripe: time.Minute, models.ReceiptRoller: time.Minute},
}

// receiptBudget is what the free plan of ReceiptRoller allows in 30 days.
const receiptBudget = 1000

// CallBudget is how many calls the connection may make in 30 days; 0: any number.
func (c *Conn) CallBudget() int64 {
	if n, err := strconv.ParseInt(c.Set["budget"], 10, 64); err == nil && n >= 0 {
		return n
	}
	if c.Platform == models.ReceiptRoller {
		return receiptBudget
	}
	return 0
}

// Health is what order pages need to know of the connection.
func (c *Conn) Health() models.Health {
	h := models.Health{State: c.APIState, Since: c.APISince.UTC(), Settle: c.Duration("settle_time"), Review: c.Duration("review_after"),
		Stale: c.Duration("stale_after"), Unsent: c.Duration("unsent_after")}
	return h
}

// A Book has all connections. It looks again every few seconds, and at once (at most
// once a second) where somebody asks for what it doesn't know.
type Book struct {
	store  *store.Store
	keys   seal.Keys
	makers map[models.Platform]platform.Maker
	client *http.Client
	now    func() time.Time

	mu     sync.RWMutex
	slugs  map[string]*Conn
	ids    map[int64]*Conn
	looked time.Time // when the last look began
	fail   error     // of the last look

	look   chan struct{} // one look at a time
	missed time.Time     // when the last look for something missing began; its looker's own
}

// New makes an empty book; Look fills it.
func New(s *store.Store, keys seal.Keys, makers map[models.Platform]platform.Maker, client *http.Client, now func() time.Time) *Book {
	if now == nil {
		now = time.Now
	}
	return &Book{store: s, keys: keys, makers: makers, client: client, now: now, slugs: map[string]*Conn{}, ids: map[int64]*Conn{}, look: make(chan struct{}, 1)}
}

const (
	lookAtMost = time.Second
	// lookTime is how long a look may take: whoever waits for it has a sender or a
	// person waiting.
	lookTime = 2 * time.Second
)

// Look reads the connections again and rebuilds those that changed.
func (b *Book) Look(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	select {
	case b.look <- struct{}{}:
	case <-ctx.Done():
		return models.Fail(models.Unavailable, "error.database").Because(ctx.Err())
	}
	defer func() { <-b.look }()
	return b.read(ctx)
}

// LookSoon looks again before somebody is told that what he asks for isn't there: at
// most once a second, so that strangers can't make us look more often.
func (b *Book) LookSoon(ctx context.Context) error { return b.lookFor(ctx, true) }

// LookOnce is LookSoon for whoever carries a large body and shouldn't wait: where
// somebody looked within the second, that has to do.
func (b *Book) LookOnce(ctx context.Context) error { return b.lookFor(ctx, false) }

func (b *Book) lookFor(ctx context.Context, patient bool) error {
	asked := time.Now()
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	select {
	case b.look <- struct{}{}:
	case <-ctx.Done():
		return models.Fail(models.Unavailable, "error.database").Because(ctx.Err())
	}
	defer func() { <-b.look }()
	// Whoever waits here looks after those before him: what they saw is new enough only
	// if their look began after he asked.
	b.mu.RLock()
	seen, fail := b.looked.After(asked), b.fail
	b.mu.RUnlock()
	if seen {
		return fail
	}
	if wait := time.Until(b.missed.Add(lookAtMost)); wait > 0 {
		if !patient {
			return fail
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return models.Fail(models.Unavailable, "error.database").Because(ctx.Err())
		}
	}
	b.missed = time.Now()
	return b.read(ctx)
}

func (b *Book) read(ctx context.Context) error {
	began := time.Now()
	conns, err := b.load(ctx)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.looked, b.fail = began, err
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	slugs, ids := make(map[string]*Conn, len(conns)), make(map[int64]*Conn, len(conns))
	for _, c := range conns {
		slugs[c.Slug], ids[c.ID] = c, c
	}
	b.slugs, b.ids = slugs, ids
	return nil
}

func (b *Book) load(ctx context.Context) ([]*Conn, error) {
	rows, err := b.store.ConnectionRows(ctx)
	if err != nil {
		return nil, err
	}
	secrets, err := b.store.SecretRows(ctx)
	if err != nil {
		return nil, err
	}
	of := map[int64][]store.SecretRow{}
	for _, s := range secrets {
		of[s.ConnectionID] = append(of[s.ConnectionID], s)
	}
	conns := make([]*Conn, 0, len(rows))
	for _, row := range rows {
		if old := b.ID(row.ID); old != nil && same(old, row, of[row.ID]) {
			next := *old
			next.ConnectionRow = row
			conns = append(conns, &next)
			continue
		}
		conns = append(conns, b.build(row, of[row.ID]))
	}
	return conns, nil
}

// same tells whether an adapter built before still fits.
func same(old *Conn, row store.ConnectionRow, secrets []store.SecretRow) bool {
	if old.Version != row.Version || old.Broken != nil {
		return false
	}
	accepted, retired := 0, 0
	for _, s := range secrets {
		if s.RetiredAt != nil {
			retired++
			continue
		}
		if accepted >= len(old.Fingerprints) || old.Fingerprints[accepted] != s.Fingerprint {
			return false
		}
		accepted++
	}
	return accepted == len(old.Fingerprints) && retired == len(old.RetiredFingerprints)
}

func (b *Book) build(row store.ConnectionRow, secrets []store.SecretRow) *Conn {
	c := &Conn{ConnectionRow: row, Set: map[string]string{}}
	if err := json.Unmarshal([]byte(row.Settings), &c.Set); err != nil {
		c.Broken = fmt.Errorf("connect: settings of %s: %w", row.Slug, err)
		return c
	}
	cfg := platform.Config{Slug: row.Slug, Account: row.Account, APIURL: row.APIURL, Settings: c.Set, Now: b.now, HTTP: b.client, Budget: b.budget(c)}
	if row.Credentials != nil {
		plain, err := b.keys.Open(row.Credentials, secretContext(row.Slug, "credentials"))
		if err != nil {
			c.Broken = fmt.Errorf("connect: credentials of %s can't be opened: %w", row.Slug, err)
			return c
		}
		var given Secrets
		if err := json.Unmarshal(plain, &given); err != nil {
			c.Broken = fmt.Errorf("connect: credentials of %s: %w", row.Slug, err)
			return c
		}
		cfg.APIToken, cfg.ClientID, cfg.ClientSecret, cfg.UserName, cfg.Password = given.APIToken, given.ClientID, given.ClientSecret, given.UserName, given.Password
	}
	var retired []string
	for _, s := range secrets {
		plain, err := b.keys.Open(s.Sealed, secretContext(row.Slug, s.Fingerprint))
		if err != nil {
			if s.RetiredAt == nil {
				c.Broken = fmt.Errorf("connect: a secret of %s can't be opened: %w", row.Slug, err)
			}
			continue
		}
		if s.RetiredAt != nil {
			retired = append(retired, string(plain))
			c.RetiredFingerprints = append(c.RetiredFingerprints, s.Fingerprint)
			continue
		}
		cfg.Webhook = append(cfg.Webhook, string(plain))
		c.Fingerprints = append(c.Fingerprints, s.Fingerprint)
	}
	if c.Broken != nil {
		return c
	}
	maker, ok := b.makers[row.Platform]
	if !ok {
		c.Broken = fmt.Errorf("connect: no adapter speaks for %s", row.Platform)
		return c
	}
	adapter, err := maker(cfg)
	if err != nil {
		c.Broken = fmt.Errorf("connect: %s: %w", row.Slug, err)
		return c
	}
	c.Adapter, c.config, c.Mark = adapter, cfg, b.mark(cfg, c.Fingerprints)
	if len(retired) > 0 {
		old := cfg
		old.Webhook = retired
		if a, err := maker(old); err == nil {
			c.Retired = a
		}
	}
	return c
}

// secretContext binds a sealed secret to its place.
func secretContext(slug, what string) []byte { return []byte("connection\x00" + slug + "\x00" + what) }

// ID finds a connection by its number; nil where there is none.
func (b *Book) ID(id int64) *Conn {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.ids[id]
}

// Slug finds a connection by its slug, looking in the database once more before it
// says that there is none.
func (b *Book) Slug(ctx context.Context, slug string) (*Conn, error) {
	b.mu.RLock()
	c := b.slugs[slug]
	b.mu.RUnlock()
	if c != nil {
		return c, nil
	}
	if err := b.LookSoon(ctx); err != nil {
		return nil, err
	}
	b.mu.RLock()
	defer b.mu.RUnlock()
	if c = b.slugs[slug]; c == nil {
		return nil, models.Fail(models.NotFound, "error.connection_unknown")
	}
	return c, nil
}

// Locked tells whether there are sealed secrets and not one of them can be opened.
func (b *Book) Locked() bool {
	sealed, shut := 0, 0
	for _, c := range b.All() {
		if c.Broken == nil && c.Credentials == nil && len(c.Fingerprints) == 0 {
			continue
		}
		sealed++
		if errors.Is(c.Broken, seal.ErrUnknownKey) {
			shut++
		}
	}
	return sealed > 0 && shut == sealed
}

// Slugs names the connections of the given shops (empty: all), in order.
func (b *Book) Slugs(shops []int64) []string {
	var out []string
	for _, c := range b.All() {
		if len(shops) == 0 || slices.Contains(shops, c.ShopID) {
			out = append(out, c.Slug)
		}
	}
	slices.Sort(out)
	return out
}

// All lists the connections.
func (b *Book) All() []*Conn {
	b.mu.RLock()
	defer b.mu.RUnlock()
	out := make([]*Conn, 0, len(b.ids))
	for _, c := range b.ids {
		out = append(out, c)
	}
	return out
}

// Follow looks again every two seconds until the context ends.
func (b *Book) Follow(ctx context.Context) {
	tick := time.NewTicker(2 * time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			_ = b.Look(ctx) // kept as b.fail; the next look mends it
		}
	}
}

// Healths is what order pages need to know of all connections.
func (b *Book) Healths() map[int64]models.Health {
	b.mu.RLock()
	defer b.mu.RUnlock()
	out := make(map[int64]models.Health, len(b.ids))
	for id, c := range b.ids {
		out[id] = c.Health()
	}
	return out
}
