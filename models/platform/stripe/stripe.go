// Package stripe speaks to one Stripe account, and to the accounts connected to it.
// It uses no client library: those refuse events of other API versions and accept
// signed times from the future.
package stripe

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"time"

	"counterfoil/models"
	"counterfoil/models/platform"
)

const (
	defaultURL       = "https://api.stripe.com"
	defaultVersion   = "2026-03-25.dahlia"
	oldestVersion    = "2025-03-31" // invoice payments exist and a released authorisation is no refund
	defaultOrderKey  = "order_id"
	defaultTolerance = 300 * time.Second
	defaultRate      = 20 // Stripe allows 25 calls a second per endpoint
	together         = 8
	noRule           = "none"
)

// Kinds of objects that Fetch can answer.
const (
	kindIntent         = "payment_intent"
	kindCharge         = "charge"
	kindRefund         = "refund"
	kindDispute        = "dispute"
	kindSession        = "checkout_session"
	kindInvoice        = "invoice"
	kindInvoicePayment = "invoice_payment"
	kindEvent          = "event"
)

// An Adapter speaks for one Stripe connection.
type Adapter struct {
	cfg       platform.Config
	caller    *platform.Caller
	base      string
	secrets   []string
	orderKey  string
	version   string
	tolerance time.Duration
	// mode is live or test; empty: unchecked.
	mode string
	// foreign are the metadata of another system on the same account.
	foreign []pair
	now     func() time.Time
}

type pair struct{ key, value string }

var _ platform.Adapter = (*Adapter)(nil)

// New makes the adapter of a connection. Its error says which setting can't be used.
func New(cfg platform.Config) (*Adapter, error) {
	a := &Adapter{
		cfg:      cfg,
		caller:   platform.NewCaller(cfg, defaultRate),
		orderKey: either(cfg.Settings["order_key"], defaultOrderKey),
		version:  either(cfg.Settings["api_version"], defaultVersion),
		mode:     either(cfg.Settings["mode"], keyMode(cfg.APIToken)),
		now:      cfg.Now,
	}
	a.caller.Refused = refused
	if a.now == nil {
		a.now = time.Now
	}
	for _, s := range cfg.Webhook {
		// The place in the list is what Match.Secret names, so an empty one stays.
		a.secrets = append(a.secrets, strings.TrimSpace(s))
	}
	if a.mode != "" && a.mode != "live" && a.mode != "test" {
		return nil, fmt.Errorf("stripe: setting mode is %q, must be live or test", a.mode)
	}
	if _, err := time.Parse(time.DateOnly, first(a.version, len(time.DateOnly))); err != nil || a.version < oldestVersion {
		return nil, fmt.Errorf("stripe: setting api_version is %q, must be %s or newer", a.version, oldestVersion)
	}
	tolerance, err := parseTolerance(cfg.Settings["tolerance"])
	if err != nil {
		return nil, err
	}
	a.tolerance = tolerance
	if a.foreign, err = parsePairs(cfg.Settings["ignore_metadata"]); err != nil {
		return nil, err
	}
	u, err := url.Parse(either(cfg.APIURL, defaultURL))
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		return nil, errors.New("stripe: the API address must be an http or https address")
	}
	a.base = strings.TrimRight(u.String(), "/")
	return a, nil
}

// parseTolerance reads how far a signed time may be off. Zero would switch the
// check off or refuse everything, depending on whom one asks, so it is refused.
func parseTolerance(set string) (time.Duration, error) {
	if set == "" {
		return defaultTolerance, nil
	}
	if strings.Trim(set, "0123456789") == "" {
		set += "s"
	}
	d, err := time.ParseDuration(set)
	if err != nil || d <= 0 {
		return 0, fmt.Errorf("stripe: setting tolerance is %q, must be a positive duration such as 300s", set)
	}
	return d, nil
}

// parsePairs reads metadata as key=value, several separated by commas.
func parsePairs(set string) ([]pair, error) {
	if set == "" || set == noRule {
		return nil, nil
	}
	var out []pair
	for part := range strings.SplitSeq(set, ",") {
		key, value, ok := strings.Cut(strings.TrimSpace(part), "=")
		if !ok || key == "" {
			return nil, fmt.Errorf("stripe: setting ignore_metadata is %q, must be key=value, several separated by commas", set)
		}
		out = append(out, pair{key, value})
	}
	return out, nil
}

// keyMode reads the mode from the prefix of an API key; empty where it shows none.
func keyMode(key string) string {
	switch {
	case strings.HasPrefix(key, "sk_live_"), strings.HasPrefix(key, "rk_live_"):
		return "live"
	case strings.HasPrefix(key, "sk_test_"), strings.HasPrefix(key, "rk_test_"):
		return "test"
	}
	return ""
}

// otherMode tells whether something of the given mode is test traffic here: of the
// other mode than the connection's.
func (a *Adapter) otherMode(live *bool) bool {
	return live != nil && a.mode != "" && *live != (a.mode == "live")
}

// Platform is Stripe.
func (a *Adapter) Platform() models.Platform { return models.Stripe }

// HasAPI tells whether the connection has an API key.
func (a *Adapter) HasAPI() bool { return a.cfg.APIToken != "" }

// Reads are the money axes; Stripe knows nothing of goods.
func (a *Adapter) Reads() map[models.Axis]bool {
	if !a.HasAPI() {
		return nil
	}
	return map[models.Axis]bool{models.Payment: true, models.Refund: true, models.Dispute: true}
}

// Together is how many objects are fetched side by side: Stripe has no call that
// answers for several.
func (a *Adapter) Together() int { return together }

// Settings lists the settings that this adapter reads.
func (a *Adapter) Settings() []models.Setting {
	values := []models.Setting{
		{Name: "mode", Value: either(a.mode, "unchecked")},
		{Name: "order_key", Value: a.orderKey},
		{Name: "ignore_metadata", Value: either(a.cfg.Settings["ignore_metadata"], noRule)},
		{Name: "api_version", Value: a.version},
		{Name: "tolerance", Value: either(a.cfg.Settings["tolerance"], defaultTolerance.String())},
		{Name: "rate", Value: either(a.cfg.Settings["rate"], fmt.Sprint(defaultRate))},
	}
	for i, s := range values {
		values[i].Set = a.cfg.Settings[s.Name] != ""
	}
	return values
}

// Deep is the Dashboard's page about an object; sessions have none.
func (a *Adapter) Deep(ref models.ObjectRef) string {
	page := map[string]string{kindIntent: "payments", kindCharge: "payments", kindDispute: "disputes", kindInvoice: "invoices"}[ref.Kind]
	if page == "" || !idPattern.MatchString(ref.ID) {
		return ""
	}
	address := "https://dashboard.stripe.com/"
	if !a.own(ref.Account) && accountPattern.MatchString(ref.Account) {
		address += ref.Account + "/"
	}
	if a.mode == "test" {
		address += "test/"
	}
	return address + page + "/" + ref.ID
}

// Spell finds the id in what people paste: a Dashboard address, an id with its
// client secret behind it, or the id itself.
func (a *Adapter) Spell(typed string) []string {
	typed = strings.TrimSpace(typed)
	if id := pastedPattern.FindString(typed); id != "" {
		id, _, _ = strings.Cut(id, "_secret_")
		return []string{id}
	}
	if typed == "" {
		return nil
	}
	return []string{typed}
}

var (
	// idPattern is what an id may consist of before it becomes part of an address.
	idPattern      = regexp.MustCompile(`^[A-Za-z0-9_-]{1,255}$`)
	accountPattern = regexp.MustCompile(`^acct_[A-Za-z0-9]+$`)
	contextPattern = regexp.MustCompile(`^[!-~]{1,255}$`)
	pastedPattern  = regexp.MustCompile(`\b(?:pi|ch|py|re|pyr|dp|du|cs|in|inpay)_[A-Za-z0-9_]+`)
	zeroPattern    = regexp.MustCompile(`^(?:[a-z]+_)*0*$`)
)

// own tells whether an account is the connection's own.
func (a *Adapter) own(account string) bool { return account == "" || account == a.cfg.Account }

func either(value, otherwise string) string {
	if value != "" {
		return value
	}
	return otherwise
}

func first(s string, n int) string { return s[:min(n, len(s))] }
