package connect

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"counterfoil/models"
	"counterfoil/models/platform"
	"counterfoil/models/store"
)

// A Setup is what an admin says of a connection. Naming a slug again changes what is
// given and leaves the rest.
type Setup struct {
	Platform models.Platform
	Slug     string
	Account  string
	Shop     string
	APIURL   string
	Set      map[string]string // an empty value takes a setting back to its default
	Secrets  Secrets
	Demo     bool
}

var slugShape = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,62}$`)

var currencyShape = regexp.MustCompile(`^[A-Z]{3}$`)

// commonSettings are known for every platform, with what their values are.
var commonSettings = map[string]string{
	"currency": "currency", "creates_orders": "auto", "mode": "mode", "order_key": "key", "api_version": "text", "rate": "number",
	"budget": "count", "sweep_every": "span", "import_since": "span", "sweep_overlap": "span", "missed_after": "span", "heal_after": "span", "stale_after": "span",
	"unsent_after": "span", "fresh_on_open": "span", "carry_fresh": "span", "settle_time": "span", "down_after": "span", "review_after": "span",
	"subscriptions": "subscriptions", "ignore_topics": "topics",
}

// Fingerprint names a secret without telling it.
func Fingerprint(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:4])
}

// Add makes or changes a connection. Its errors say in words what to do.
func (b *Book) Add(ctx context.Context, actor string, in Setup) error {
	if err := in.check(); err != nil {
		return err
	}
	if err := b.Look(ctx); err != nil {
		return err
	}
	var id int64
	news := false // in the rules of what belongs to which order, or to another system
	err := b.store.Tx(ctx, func(tx *store.Tx) error {
		shop := int64(0)
		if in.Shop != "" { // first: whoever holds a connection never waits for its shop
			var err error
			if shop, err = tx.EnsureShop(ctx, in.Shop, in.Shop); err != nil {
				return err
			}
		}
		row, err := tx.LockConnection(ctx, in.Slug)
		if models.CodeOf(err) == models.NotFound {
			row, err = store.ConnectionRow{Slug: in.Slug, Platform: in.Platform, Settings: "{}", Demo: in.Demo}, nil
		}
		if err != nil {
			return err
		}
		if in.Platform != "" && row.Platform != in.Platform {
			return fmt.Errorf("%s is a connection to %s already: choose another --slug", in.Slug, row.Platform)
		}
		if row.ID == 0 && (in.Platform == "" || in.Account == "" || in.Shop == "") {
			return fmt.Errorf("a new connection needs --platform, --account and --shop")
		}
		before, rules := describe(row), row.Settings
		secrets, err := b.merge(&row, in)
		if err != nil {
			return err
		}
		if shop != 0 {
			if row.ID != 0 && row.ShopID != shop {
				if has, err := tx.HasOrders(ctx, row.ID); err != nil || has {
					return errors.Join(err, fmt.Errorf("%s has orders in its shop already and can't move to another: connect the account under another --slug", in.Slug))
				}
			}
			row.ShopID = shop
		}
		if row.ID, err = tx.SaveConnection(ctx, row); err != nil {
			return err
		}
		if err := b.keepSecrets(ctx, tx, row, secrets.Webhook); err != nil {
			return err
		}
		id, news = row.ID, ruled(rules, row.Settings)
		return tx.Audit(ctx, actor, "connection.set", "connection:"+strconv.FormatInt(row.ID, 10), before, describe(row))
	})
	if err != nil {
		return err
	}
	if err := b.Look(ctx); err != nil || !news {
		return err
	}
	// Apart, because whoever holds an object needs the connection's row.
	return b.store.Tx(ctx, func(tx *store.Tx) error { return tx.JudgeUnmatchedAgain(ctx, id) })
}

// merge puts what is given over what is there and tries whether an adapter can use it.
func (b *Book) merge(row *store.ConnectionRow, in Setup) (Secrets, error) {
	set := map[string]string{}
	if err := json.Unmarshal([]byte(row.Settings), &set); err != nil {
		return Secrets{}, fmt.Errorf("connect: settings of %s: %w", row.Slug, err)
	}
	for k, v := range in.Set {
		if v == "" {
			delete(set, k)
			continue
		}
		set[k] = v
	}
	text, err := json.Marshal(set)
	if err != nil {
		return Secrets{}, err
	}
	row.Settings = string(text)
	if in.Account != "" {
		row.Account = in.Account
	}
	if in.APIURL != "" {
		row.APIURL = strings.TrimRight(in.APIURL, "/")
	}
	secrets := Secrets{}
	if row.Credentials != nil {
		plain, err := b.keys.Open(row.Credentials, secretContext(row.Slug, "credentials"))
		if err != nil {
			return Secrets{}, fmt.Errorf("connect: credentials of %s can't be opened: %w", row.Slug, err)
		}
		if err := json.Unmarshal(plain, &secrets); err != nil {
			return Secrets{}, fmt.Errorf("connect: credentials of %s: %w", row.Slug, err)
		}
	}
	for _, f := range []struct {
		into  *string
		given string
	}{{&secrets.APIToken, in.Secrets.APIToken}, {&secrets.ClientID, in.Secrets.ClientID}, {&secrets.ClientSecret, in.Secrets.ClientSecret},
		{&secrets.UserName, in.Secrets.UserName}, {&secrets.Password, in.Secrets.Password}} {
		if f.given != "" {
			*f.into = f.given
		}
	}
	webhook := in.Secrets.Webhook
	if len(webhook) == 0 && in.Secrets.ClientSecret != "" && row.Platform == models.Shopify {
		webhook = []string{in.Secrets.ClientSecret} // an app's client secret signs its webhooks too
	}
	secrets.Webhook = nil
	row.APIState, row.APISince = models.APINone, b.now()
	row.Credentials = nil
	if secrets.access() {
		row.APIState = models.APIUp
	}
	if !secrets.empty() {
		plain, err := json.Marshal(secrets)
		if err != nil {
			return Secrets{}, err
		}
		row.Credentials = b.keys.Seal(plain, secretContext(row.Slug, "credentials"))
	}
	secrets.Webhook = webhook
	maker, ok := b.makers[row.Platform]
	if !ok {
		return Secrets{}, fmt.Errorf("--platform must be one of shopify, stripe, receiptroller")
	}
	adapter, err := maker(platform.Config{Slug: row.Slug, Account: row.Account, APIURL: row.APIURL, Settings: set, Now: b.now, Webhook: webhook,
		APIToken: secrets.APIToken, ClientID: secrets.ClientID, ClientSecret: secrets.ClientSecret, UserName: secrets.UserName, Password: secrets.Password})
	if err != nil {
		return Secrets{}, err
	}
	return secrets, knownSettings(in.Set, row.Platform, adapter)
}

// knownSettings refuses a setting that neither the console nor the adapter reads:
// most likely its name is misspelt.
func knownSettings(set map[string]string, p models.Platform, adapter platform.Adapter) error {
	names := slices.Collect(maps.Keys(commonSettings))
	for _, s := range adapter.Settings() {
		names = append(names, s.Name)
	}
	slices.Sort(names)
	names = slices.Compact(names)
	for _, name := range slices.Sorted(maps.Keys(set)) {
		if set[name] != "" && !slices.Contains(names, name) {
			return fmt.Errorf("--set %s is no setting of %s; there are %s", name, p, strings.Join(names, ", "))
		}
	}
	return nil
}

// keepSecrets replaces the set of accepted secrets where some are given. Those that
// are no longer named are retired, not forgotten: they still explain refusals.
func (b *Book) keepSecrets(ctx context.Context, tx *store.Tx, row store.ConnectionRow, webhook []string) error {
	if len(webhook) == 0 {
		if old := b.ID(row.ID); old != nil {
			return b.alone(row, old.Fingerprints)
		}
		return nil
	}
	var keep []string
	for _, s := range webhook {
		if strings.TrimSpace(s) == "" {
			return fmt.Errorf("a webhook secret is empty: leave it out, or give its value")
		}
		fp := Fingerprint(s)
		keep = append(keep, fp)
		if err := tx.AddSecret(ctx, row.ID, fp, b.keys.Seal([]byte(s), secretContext(row.Slug, fp))); err != nil {
			return err
		}
	}
	if err := b.alone(row, keep); err != nil {
		return err
	}
	return tx.RetireOtherSecrets(ctx, row.ID, keep)
}

// alone refuses a secret that two shops would share where one of the connections has
// no API access, so that payloads alone are believed: whoever knows the secret in one
// shop could speak in the other.
func (b *Book) alone(row store.ConnectionRow, fingerprints []string) error {
	for _, c := range b.All() {
		if c.ShopID == row.ShopID || c.ID == row.ID || !slices.ContainsFunc(fingerprints, func(f string) bool { return slices.Contains(c.Fingerprints, f) }) {
			continue
		}
		switch models.APINone {
		case row.APIState:
			return fmt.Errorf("without API access %s needs a webhook secret of its own: this one is used by %s of another shop", row.Slug, c.Slug)
		case c.APIState:
			return fmt.Errorf("%s needs another webhook secret: this one is used by %s of another shop, which has no API access", row.Slug, c.Slug)
		}
	}
	return nil
}

func (s Secrets) empty() bool {
	return s.APIToken == "" && s.ClientID == "" && s.ClientSecret == "" && s.UserName == "" && s.Password == ""
}

// describe says what a connection is for the audit trail, without secrets.
func describe(row store.ConnectionRow) string {
	if row.ID == 0 {
		return ""
	}
	return fmt.Sprintf("platform=%s account=%s shop=%d api=%s state=%s settings=%s", row.Platform, row.Account, row.ShopID, row.APIURL, row.APIState, row.Settings)
}

func (in Setup) check() error {
	if !slugShape.MatchString(in.Slug) {
		return fmt.Errorf("--slug must be lower-case letters, digits and dashes, at most 63, for instance hk-main")
	}
	if in.Shop != "" && !slugShape.MatchString(in.Shop) {
		return fmt.Errorf("--shop must be lower-case letters, digits and dashes, at most 63, for instance hk")
	}
	if in.Platform != "" && !slices.Contains(models.Platforms, in.Platform) {
		return fmt.Errorf("--platform must be one of shopify, stripe, receiptroller")
	}
	if in.APIURL != "" {
		u, err := url.Parse(in.APIURL)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
			return fmt.Errorf("--api-url must be an http or https address without user, query or fragment, for instance https://api.stripe.com")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(in.Set)) {
		if err := checkSetting(name, in.Set[name]); err != nil {
			return err
		}
	}
	return nil
}

// KeyFits tells whether a text can be the key of metadata, as Stripe limits it.
func KeyFits(key string) bool {
	return key != "" && utf8.ValidString(key) && utf8.RuneCountInString(key) <= 40 && strings.TrimSpace(key) == key &&
		!strings.ContainsAny(key, "[]") && !strings.ContainsFunc(key, unicode.IsControl)
}

func checkSetting(name, value string) error {
	if value == "" {
		return nil
	}
	switch commonSettings[name] {
	case "span":
		if d, err := time.ParseDuration(value); err != nil || d < 0 {
			return fmt.Errorf("--set %s must be a span of time like 10m or 0s", name)
		}
	case "number":
		if f, err := strconv.ParseFloat(value, 64); err != nil || !(f > 0) || math.IsInf(f, 0) {
			return fmt.Errorf("--set %s must be a number above 0", name)
		}
	case "count":
		if n, err := strconv.ParseInt(value, 10, 64); err != nil || n < 0 {
			return fmt.Errorf("--set %s must be a whole number, 0 for no limit", name)
		}
	case "auto":
		if value != "auto" && value != "true" && value != "false" {
			return fmt.Errorf("--set %s must be auto, true or false", name)
		}
	case "mode":
		if value != "live" && value != "test" {
			return fmt.Errorf("--set %s must be live or test", name)
		}
	case "subscriptions":
		if value != "api" && value != "admin" && value != "config" {
			return fmt.Errorf("--set %s must be api, admin or config", name)
		}
	case "topics":
		return checkTopics(value)
	case "key":
		if !KeyFits(value) {
			return fmt.Errorf("--set %s must be a metadata key: at most 40 characters, without brackets and blanks around it", name)
		}
	case "currency":
		if !currencyShape.MatchString(value) {
			return fmt.Errorf("--set %s must be an ISO 4217 code like HKD", name)
		}
	}
	return nil
}
