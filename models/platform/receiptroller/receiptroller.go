// Package receiptroller speaks to ReceiptRoller: receipts of shops, notified by
// signed webhooks and read through its REST API v1.2.
//
// Much about the webhooks is not published. What had to be assumed is a setting of
// the connection, and Settings says which defaults are assumptions.
package receiptroller

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"
	// Months are counted in a time zone that a bare container may not know.
	_ "time/tzdata"

	"counterfoil/models"
	"counterfoil/models/platform"
)

const (
	realHost = "https://api.receiptroller.com"
	// receiptKind is the only kind of object that can be asked for.
	receiptKind = "receipt"
	// perSecond is our own manners: no limit per second is published.
	perSecond = 1
	// together is how many receipts one month's list answers well: it costs the same
	// for one as for all.
	together = 200
)

// An option is a setting that this adapter reads.
type option struct {
	name, standard string
	// assumed: the default is a guess about the platform.
	assumed bool
}

// options in the order in which pages list them.
var options = []option{
	{"signature_header", "X-RR-Signature", true},
	{"timestamp_header", "X-RR-Timestamp", true},
	{"signed_payload", "{timestamp}.{body}", true},
	{"signature_encoding", "hex", true},
	{"signature_prefix", "", true},
	{"timestamp_unit", "s", true},
	{"tolerance", "300s", true},
	{"type_field", "type", true},
	{"month_zone", "Asia/Tokyo", true},
	{"currency", "JPY", true},
	{"token_life", "24h", true},
	{"rate", "1", false},
	{"budget", "1000", false},
}

// An Adapter speaks for one organization. It is safe for concurrent use.
type Adapter struct {
	account  string
	base     string
	set      map[string]string // as set, of the options above
	signing  signing
	types    []string // fields that may name an event's kind
	zone     *time.Location
	currency string
	meanings map[meaning][]platform.Word
	now      func() time.Time
	caller   *platform.Caller
	access   access

	mu    sync.Mutex
	pages map[month]int // how many pages a month's list had when last seen
}

var _ platform.Adapter = (*Adapter)(nil)

// New makes the adapter of a connection. Its error says in words which setting or
// secret can't be used.
func New(cfg platform.Config) (*Adapter, error) {
	a := &Adapter{account: cfg.Account, set: map[string]string{}, now: cfg.Now, meanings: meanings(), pages: map[month]int{}}
	if a.now == nil {
		a.now = time.Now
	}
	values := map[string]string{}
	for _, o := range options {
		values[o.name] = o.standard
		if v := strings.TrimSpace(cfg.Settings[o.name]); v != "" {
			values[o.name], a.set[o.name] = v, v
		}
	}
	var err error
	if !usable(cfg.Account) {
		return nil, fmt.Errorf("receiptroller: account must be the organization's id, without a slash")
	}
	if a.base, err = baseAddress(cfg.APIURL); err != nil {
		return nil, err
	}
	if a.signing, err = newSigning(values, cfg.Webhook); err != nil {
		return nil, err
	}
	if err = a.envelope(values); err != nil {
		return nil, err
	}
	if rate, err := strconv.ParseFloat(values["rate"], 64); err != nil || !(rate > 0) {
		return nil, fmt.Errorf("receiptroller: rate must be a number of calls per second above 0")
	}
	if budget, err := strconv.Atoi(values["budget"]); err != nil || budget < 0 {
		return nil, fmt.Errorf("receiptroller: budget must be a number of calls per 30 days")
	}
	life, err := time.ParseDuration(values["token_life"])
	if err != nil || life < time.Minute {
		return nil, fmt.Errorf("receiptroller: token_life must be a duration of at least 1m")
	}
	if (cfg.UserName == "") != (cfg.Password == "") {
		return nil, fmt.Errorf("receiptroller: user_name and password are needed together")
	}
	a.access = newAccess(cfg, life)
	a.caller = platform.NewCaller(cfg, perSecond)
	return a, nil
}

// envelope reads the settings that say how events and amounts are to be understood.
func (a *Adapter) envelope(values map[string]string) error {
	a.types = []string{values["type_field"]}
	for _, known := range []string{"type", "event_type", "event"} {
		if known != a.types[0] {
			a.types = append(a.types, known)
		}
	}
	zone, err := time.LoadLocation(values["month_zone"])
	if err != nil || values["month_zone"] == "Local" {
		return fmt.Errorf("receiptroller: month_zone must be a time zone such as Asia/Tokyo")
	}
	a.zone = zone
	a.currency = values["currency"]
	if len(a.currency) != 3 || strings.Trim(a.currency, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") != "" {
		return fmt.Errorf("receiptroller: currency must be three capital letters such as JPY")
	}
	return nil
}

// baseAddress checks the address of the API and takes off its last slash.
func baseAddress(typed string) (string, error) {
	if typed == "" {
		return realHost, nil
	}
	u, err := url.Parse(typed)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return "", fmt.Errorf("receiptroller: api-url must be an http or https address without user, query or fragment")
	}
	return strings.TrimRight(typed, "/"), nil
}

// Platform is ReceiptRoller.
func (a *Adapter) Platform() models.Platform { return models.ReceiptRoller }

// HasAPI tells whether there is a token, or a login that fetches one.
func (a *Adapter) HasAPI() bool { return a.access.possible() }

// Reads are the axes that a fetched receipt states. No call tells of refunds or
// disputes, and cancelType is 0 on receipts that nobody cancelled.
func (a *Adapter) Reads() map[models.Axis]bool {
	if !a.HasAPI() {
		return nil
	}
	return map[models.Axis]bool{models.Payment: true, models.Fulfillment: true, models.Return: true}
}

// Together is how many receipts one Fetch answers best.
func (a *Adapter) Together() int { return together }

// Kinds of objects that Changed can list.
func (a *Adapter) Kinds() []string { return []string{receiptKind} }

// Settings lists what this adapter reads, with the values in force. A default that
// is a guess counts as assumed until an admin sets it.
func (a *Adapter) Settings() []models.Setting {
	list := make([]models.Setting, 0, len(options))
	for _, o := range options {
		v, set := a.set[o.name]
		if !set {
			v = o.standard
		}
		list = append(list, models.Setting{Name: o.name, Value: v, Set: set, Assumed: o.assumed && !set})
	}
	return list
}

// Deep is empty: no address of a receipt's own page is published.
func (a *Adapter) Deep(models.ObjectRef) string { return "" }

// Spell answers a receipt's full reference, whether typed as such or as its address
// in the API, and a bare receipt id as it stands.
func (a *Adapter) Spell(typed string) []string {
	s := strings.Trim(strings.TrimSpace(typed), "/")
	if s == "" {
		return nil
	}
	if _, rest, found := strings.Cut(s, "://"); found {
		_, s, _ = strings.Cut(rest, "/")
		if plain, err := url.PathUnescape(s); err == nil {
			s = plain
		}
	}
	parts := strings.Split(s, "/")
	if len(parts) == 5 && parts[3] == "receipt" {
		parts = append(parts[:3:3], parts[4])
	}
	if len(parts) == 3 { // month, store and receipt of our own organization
		parts = append([]string{a.account}, parts...)
	}
	if id := strings.Join(parts, "/"); len(parts) == 4 && id != s {
		return []string{id, s}
	}
	return []string{s}
}
