package connect_test

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"counterfoil/models"
	"counterfoil/models/connect"
	"counterfoil/models/platform"
	"counterfoil/models/platform/receiptroller"
	"counterfoil/models/platform/shopify"
	"counterfoil/models/platform/stripe"
	"counterfoil/models/seal"
	"counterfoil/models/store"
	"counterfoil/models/store/storetest"
)

// A desk is a book on a database of its own, with a clock that stands still.
type desk struct {
	*connect.Book
	t     testing.TB
	store *store.Store
	keys  seal.Keys

	mu  sync.Mutex
	now time.Time
}

func (d *desk) clock() time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.now
}

func (d *desk) forward(by time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.now = d.now.Add(by)
}

func makers() map[models.Platform]platform.Maker {
	return map[models.Platform]platform.Maker{
		models.Shopify:       func(c platform.Config) (platform.Adapter, error) { return shopify.New(c) },
		models.Stripe:        func(c platform.Config) (platform.Adapter, error) { return stripe.New(c) },
		models.ReceiptRoller: func(c platform.Config) (platform.Adapter, error) { return receiptroller.New(c) },
	}
}

func newDesk(t testing.TB) *desk {
	t.Helper()
	d := &desk{t: t, now: time.Now().UTC().Truncate(time.Millisecond)}
	s, err := store.Open(t.Context(), storetest.New(t), store.Options{Now: d.clock, AuditKey: []byte("audit")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	if d.keys, err = seal.Parse(seal.New()); err != nil {
		t.Fatal(err)
	}
	d.store = s
	d.Book = d.book()
	return d
}

// book is another process' book on the same database.
func (d *desk) book() *connect.Book {
	return connect.New(d.store, d.keys, makers(), nil, d.clock)
}

func (d *desk) add(in connect.Setup) {
	d.t.Helper()
	if err := d.Add(d.t.Context(), "staff:1", in); err != nil {
		d.t.Fatal(err)
	}
}

func (d *desk) conn(slug string) *connect.Conn {
	d.t.Helper()
	c, err := d.Slug(d.t.Context(), slug)
	if err != nil {
		d.t.Fatal(err)
	}
	if c.Broken != nil {
		d.t.Fatal(c.Broken)
	}
	return c
}

func pay(slug, shop string, secrets ...string) connect.Setup {
	return connect.Setup{Platform: models.Stripe, Slug: slug, Account: "acct_" + slug, Shop: shop,
		Secrets: connect.Secrets{Webhook: secrets, APIToken: "sk_test_" + slug}}
}

func till(slug, shop string, secrets ...string) connect.Setup {
	return connect.Setup{Platform: models.ReceiptRoller, Slug: slug, Account: "org1", Shop: shop, Set: map[string]string{"currency": "HKD"}, Secrets: connect.Secrets{Webhook: secrets}}
}

// What can't be used is refused in words that say what to do.
func TestAddSaysWhatToDo(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.add(pay("taken", "hk", "whsec_1"))
	with := func(change func(*connect.Setup)) connect.Setup {
		in := pay("new", "hk", "whsec_2")
		change(&in)
		return in
	}
	set := func(name, value string) connect.Setup {
		return with(func(in *connect.Setup) { in.Set = map[string]string{name: value} })
	}
	for name, c := range map[string]struct {
		in   connect.Setup
		says string
	}{
		"every topic":          {set("ignore_topics", "*"), "--set ignore_topics must be topics"},
		"a star in between":    {set("ignore_topics", "a.*.b"), "--set ignore_topics must be topics"},
		"no topic":             {set("ignore_topics", "a,,b"), "--set ignore_topics must be topics"},
		"metadata, no value":   {set("ignore_metadata", "app"), "ignore_metadata"},
		"no slug":              {with(func(in *connect.Setup) { in.Slug = "" }), "--slug must be lower-case letters"},
		"slug in capitals":     {with(func(in *connect.Setup) { in.Slug = "HK" }), "for instance hk-main"},
		"slug with a slash":    {with(func(in *connect.Setup) { in.Slug = "a/b" }), "--slug must be"},
		"slug too long":        {with(func(in *connect.Setup) { in.Slug = strings.Repeat("a", 64) }), "at most 63"},
		"shop with a space":    {with(func(in *connect.Setup) { in.Shop = "hong kong" }), "--shop must be"},
		"no shop":              {with(func(in *connect.Setup) { in.Shop = "" }), "needs --platform, --account and --shop"},
		"no account":           {with(func(in *connect.Setup) { in.Account = "" }), "needs --platform, --account and --shop"},
		"no platform":          {with(func(in *connect.Setup) { in.Platform = "" }), "needs --platform, --account and --shop"},
		"unknown platform":     {with(func(in *connect.Setup) { in.Platform = "etsy" }), "--platform must be one of shopify, stripe, receiptroller"},
		"another platform":     {with(func(in *connect.Setup) { in.Slug, in.Platform = "taken", models.Shopify }), "choose another --slug"},
		"api-url without host": {with(func(in *connect.Setup) { in.APIURL = "https:///v1" }), "--api-url must be"},
		"api-url of files":     {with(func(in *connect.Setup) { in.APIURL = "file:///etc" }), "--api-url must be"},
		"api-url with a user":  {with(func(in *connect.Setup) { in.APIURL = "https://u:p@h" }), "without user"},
		"api-url with a query": {with(func(in *connect.Setup) { in.APIURL = "https://h?x=1" }), "without user, query"},
		"empty secret":         {with(func(in *connect.Setup) { in.Secrets.Webhook = []string{" "} }), "a webhook secret is empty"},
		"span":                 {set("settle_time", "soon"), "--set settle_time must be a span of time like 10m"},
		"negative span":        {set("down_after", "-1m"), "--set down_after must be a span"},
		"rate of words":        {set("rate", "fast"), "--set rate must be a number above 0"},
		"rate of nothing":      {set("rate", "0"), "--set rate must be"},
		"rate that isn't one":  {set("rate", "NaN"), "--set rate must be"},
		"endless rate":         {set("rate", "Inf"), "--set rate must be"},
		"budget":               {set("budget", "-1"), "--set budget must be a whole number"},
		"creates_orders":       {set("creates_orders", "yes"), "must be auto, true or false"},
		"mode":                 {set("mode", "sandbox"), "must be live or test"},
		"subscriptions":        {set("subscriptions", "none"), "must be api, admin or config"},
		"currency":             {set("currency", "hkd"), "must be an ISO 4217 code like HKD"},
		"currency of digits":   {set("currency", "123"), "must be an ISO 4217 code"},
		"misspelt":             {set("settle_tme", "1m"), "--set settle_tme is no setting of stripe; there are "},
		"another platform's":   {set("signature_header", "X"), "--set signature_header is no setting of stripe"},
		"adapter's own":        {set("tolerance", "never"), "tolerance"},
		"version":              {set("api_version", "1999-01-01"), "api_version"},
		"half of an access": {connect.Setup{Platform: models.ReceiptRoller, Slug: "r", Account: "o", Shop: "hk", Set: map[string]string{"currency": "HKD"},
			Secrets: connect.Secrets{Webhook: []string{"s"}, UserName: "u"}}, "user_name and password"},
		"half of an app": {connect.Setup{Platform: models.Shopify, Slug: "s", Account: "s.myshopify.com", Shop: "hk", Secrets: connect.Secrets{ClientID: "id"}}, "client_secret"},
	} {
		err := d.Add(t.Context(), "staff:1", c.in)
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n := len(d.All()); n != 1 {
		t.Errorf("%d connections", n)
	}
	err := d.Add(t.Context(), "staff:1", set("x", "1"))
	for _, known := range []string{"api_version", "settle_time", "tolerance", "order_key"} {
		if err == nil || !strings.Contains(err.Error(), known) {
			t.Errorf("the list of known settings lacks %s: %v", known, err)
		}
	}
}

// Every setting that an adapter shows can be set, and unset again.
func TestEverySettingCanBeSet(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	shop := connect.Setup{Platform: models.Shopify, Slug: "shop", Account: "s.myshopify.com", Shop: "hk", Secrets: connect.Secrets{APIToken: "shpat", Webhook: []string{"a"}}}
	receipts := till("till", "hk", "b")
	receipts.Secrets.UserName, receipts.Secrets.Password = "u", "p"
	for _, in := range []connect.Setup{shop, receipts, pay("pay", "hk", "c")} {
		d.add(in)
		values := map[string]string{}
		for _, s := range d.conn(in.Slug).Adapter.Settings() {
			if s.Value != "unchecked" {
				values[s.Name] = s.Value
			}
		}
		if len(values) == 0 {
			t.Errorf("%s has no settings", in.Slug)
		}
		d.add(connect.Setup{Slug: in.Slug, Set: values})
		if got := d.conn(in.Slug).Set; len(got) == 0 {
			t.Errorf("%s: nothing was set", in.Slug)
		}
		for name := range values {
			values[name] = ""
		}
		values["gone_with_an_old_release"] = ""
		delete(values, "currency")
		d.add(connect.Setup{Slug: in.Slug, Set: values})
		got := maps.Clone(d.conn(in.Slug).Set)
		delete(got, "currency")
		if len(got) != 0 {
			t.Errorf("%s: still set are %v", in.Slug, got)
		}
	}
}

func TestAddAgainChangesWhatIsGiven(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	first := pay("pay", "hk", "whsec_1")
	first.APIURL, first.Set = "http://127.0.0.1:9/", map[string]string{"settle_time": "5s", "rate": "3"}
	d.add(first)
	was := d.conn("pay")
	if was.APIURL != "http://127.0.0.1:9" || was.APIState != models.APIUp || !was.Ready() || !was.Adapter.HasAPI() || was.Duration("settle_time") != 5*time.Second {
		t.Errorf("%+v", was.ConnectionRow)
	}
	d.add(connect.Setup{Slug: "pay", Set: map[string]string{"rate": "", "down_after": "0s"}})
	now := d.conn("pay")
	if now.ID != was.ID || now.Account != was.Account || now.ShopID != was.ShopID || now.APIURL != was.APIURL || !now.Adapter.HasAPI() ||
		!slices.Equal(now.Fingerprints, was.Fingerprints) || !maps.Equal(now.Set, map[string]string{"settle_time": "5s", "down_after": "0s"}) || now.Version <= was.Version {
		t.Errorf("%+v, set %v", now.ConnectionRow, now.Set)
	}
	d.add(connect.Setup{Slug: "pay", Shop: "tw", Account: "acct_2"})
	if now := d.conn("pay"); now.Shop != "tw" || now.Account != "acct_2" || now.APIURL != was.APIURL {
		t.Errorf("%+v", now.ConnectionRow)
	}
	var entries int
	var after string
	if err := d.store.SQL().QueryRowContext(t.Context(), `SELECT count(*), string_agg(actor || before || after, ' ') FROM audit WHERE verb = 'connection.set'`).Scan(&entries, &after); err != nil {
		t.Fatal(err)
	}
	if entries != 3 || !strings.Contains(after, "staff:1") || !strings.Contains(after, "acct_2") || strings.Contains(after, "whsec") || strings.Contains(after, "sk_test") {
		t.Errorf("%d entries in the audit trail: %s", entries, after)
	}
}

func TestRotation(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.add(pay("pay", "hk", "whsec_old"))
	d.add(connect.Setup{Slug: "pay", Secrets: connect.Secrets{Webhook: []string{"whsec_old", "whsec_new"}}})
	old, fresh := connect.Fingerprint("whsec_old"), connect.Fingerprint("whsec_new")
	if c := d.conn("pay"); !slices.Equal(c.Fingerprints, []string{old, fresh}) || c.Retired != nil {
		t.Errorf("both: %v, retired %v", c.Fingerprints, c.RetiredFingerprints)
	}
	d.add(connect.Setup{Slug: "pay", Secrets: connect.Secrets{Webhook: []string{"whsec_new"}}})
	if c := d.conn("pay"); !slices.Equal(c.Fingerprints, []string{fresh}) || !slices.Equal(c.RetiredFingerprints, []string{old}) || c.Retired == nil || !c.Adapter.HasAPI() {
		t.Errorf("new one: %v, retired %v", c.Fingerprints, c.RetiredFingerprints)
	}
	d.add(connect.Setup{Slug: "pay", Secrets: connect.Secrets{Webhook: []string{"whsec_old"}}})
	if c := d.conn("pay"); !slices.Equal(c.Fingerprints, []string{old}) || !slices.Equal(c.RetiredFingerprints, []string{fresh}) {
		t.Errorf("back: %v, retired %v", c.Fingerprints, c.RetiredFingerprints)
	}
	if len(old) != 8 || strings.Contains("whsec_old", old) {
		t.Errorf("fingerprint %q", old)
	}
}

// An app's client secret signs its webhooks, unless others are named.
func TestClientSecretSigns(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.add(connect.Setup{Platform: models.Shopify, Slug: "hk", Account: "hk.myshopify.com", Shop: "hk", Secrets: connect.Secrets{ClientID: "id", ClientSecret: "app-secret"}})
	if c := d.conn("hk"); !slices.Equal(c.Fingerprints, []string{connect.Fingerprint("app-secret")}) || !c.Ready() || !c.Adapter.HasAPI() {
		t.Errorf("%v", c.Fingerprints)
	}
}

func TestNoSecretIsKeptPlain(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	plain := []string{"whsec-plain-webhook", "plain-api-token", "plain-client-id", "plain-client-secret", "plain-user-name", "plain-password"}
	d.add(connect.Setup{Platform: models.Stripe, Slug: "all", Account: "acct", Shop: "hk", Secrets: connect.Secrets{Webhook: plain[:1],
		APIToken: plain[1], ClientID: plain[2], ClientSecret: plain[3], UserName: plain[4], Password: plain[5]}})
	for _, table := range []string{"connections", "connection_secrets", "audit"} {
		var rows string
		if err := d.store.SQL().QueryRowContext(t.Context(), `SELECT string_agg(x::text, ' ') FROM `+table+` x`).Scan(&rows); err != nil {
			t.Fatal(err)
		}
		for _, s := range plain {
			for _, form := range []string{s, hex.EncodeToString([]byte(s)), base64.StdEncoding.EncodeToString([]byte(s))[:12]} {
				if strings.Contains(rows, form) {
					t.Errorf("%s holds %s", table, s)
				}
			}
		}
	}
	// What was sealed for one place opens at no other.
	if _, err := d.store.SQL().ExecContext(t.Context(), `UPDATE connections SET slug = 'moved', version = version + 1`); err != nil {
		t.Fatal(err)
	}
	if err := d.Look(t.Context()); err != nil {
		t.Fatal(err)
	}
	if c, err := d.Slug(t.Context(), "moved"); err != nil || c.Broken == nil || c.Ready() || strings.Contains(fmt.Sprint(c.Broken), "plain") {
		t.Errorf("%v, %v", c, err)
	}
	// Another key opens nothing; the connection is there and says so.
	other, err := seal.Parse(seal.New())
	if err != nil {
		t.Fatal(err)
	}
	b := connect.New(d.store, other, makers(), nil, d.clock)
	if c, err := b.Slug(t.Context(), "moved"); err != nil || c.Broken == nil {
		t.Errorf("%v, %v", c, err)
	}
}

func TestAnotherProcessAddsAConnection(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	other := d.book()
	if _, err := other.Slug(t.Context(), "pay"); models.CodeOf(err) != models.NotFound {
		t.Errorf("unknown: %v", err)
	}
	d.add(pay("pay", "hk", "whsec_1"))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		c, err := other.Slug(ctx, "pay")
		if err == nil {
			if !c.Ready() || other.ID(c.ID) != c || len(other.All()) != 1 || len(other.Healths()) != 1 {
				t.Errorf("%+v", c.ConnectionRow)
			}
			break
		}
		if models.CodeOf(err) != models.NotFound {
			t.Fatal(err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatal("the other process never saw it")
		}
	}
	// What changes there is seen at the next look; what doesn't keeps its adapter.
	was := other.ID(d.conn("pay").ID)
	if err := other.Look(t.Context()); err != nil {
		t.Fatal(err)
	}
	if other.ID(was.ID).Adapter != was.Adapter {
		t.Error("an adapter was built anew for nothing")
	}
	d.add(connect.Setup{Slug: "pay", Secrets: connect.Secrets{Webhook: []string{"whsec_2"}}})
	if err := other.Look(t.Context()); err != nil {
		t.Fatal(err)
	}
	if now := other.ID(was.ID); now.Adapter == was.Adapter || !slices.Equal(now.Fingerprints, []string{connect.Fingerprint("whsec_2")}) {
		t.Errorf("%v", now.Fingerprints)
	}
}

// Where payloads alone are believed the secret belongs to one shop.
func TestSharedSecret(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.add(pay("pay", "hk", "shared"))
	refused := func(what string, in connect.Setup) {
		t.Helper()
		if err := d.Add(t.Context(), "staff:1", in); err == nil || !strings.Contains(err.Error(), "webhook secret") {
			t.Errorf("%s: %v", what, err)
		}
	}
	refused("reported only, in another shop", till("till", "tw", "shared"))
	d.add(till("till", "hk", "shared"))
	refused("with access, in another shop than the one without", pay("pay-tw", "tw", "shared"))
	refused("moved to another shop", connect.Setup{Slug: "till", Shop: "tw"})
	d.add(till("till-tw", "tw", "own"))
	refused("changed to another shop's", connect.Setup{Slug: "till-tw", Secrets: connect.Secrets{Webhook: []string{"own", "shared"}}})
	// With access everywhere the platform is asked anyway.
	d.add(pay("pay-2", "hk", "both"))
	d.add(pay("pay-3", "tw", "both"))
	// A book that hasn't looked yet knows no better.
	if err := d.book().Add(t.Context(), "staff:1", till("late", "jp", "shared")); err == nil {
		t.Error("a new process let a shared secret pass")
	}
	if got := d.conn("till-tw").Fingerprints; !slices.Equal(got, []string{connect.Fingerprint("own")}) {
		t.Errorf("a refused change left %v", got)
	}
}

func TestWhoCreatesOrders(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.add(pay("alone", "web", "a"))
	d.add(pay("beside", "hk", "b"))
	d.add(connect.Setup{Platform: models.Shopify, Slug: "store", Account: "s.myshopify.com", Shop: "hk", Secrets: connect.Secrets{Webhook: []string{"c"}, APIToken: "t"}})
	forced := pay("forced", "hk", "d")
	forced.Set = map[string]string{"creates_orders": "true"}
	d.add(forced)
	for slug, want := range map[string]bool{"alone": true, "beside": false, "store": true, "forced": true} {
		if got := d.conn(slug).CreatesOrders(); got != want {
			t.Errorf("%s creates orders: %t", slug, got)
		}
	}
	d.add(connect.Setup{Slug: "store", Set: map[string]string{"creates_orders": "false"}})
	if d.conn("store").CreatesOrders() {
		t.Error("the store still creates orders")
	}
}

func TestSecretsAsPeopleWriteThem(t *testing.T) {
	t.Parallel()
	var s connect.Secrets
	if err := json.Unmarshal([]byte(`{"webhook_secrets": ["a", "b"], "api_token": "t", "client_id": "i", "client_secret": "s", "user_name": "u", "password": "p"}`), &s); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(s.Webhook, []string{"a", "b"}) || s.APIToken != "t" || s.ClientID != "i" || s.ClientSecret != "s" || s.UserName != "u" || s.Password != "p" {
		t.Errorf("%+v", s)
	}
}
