// Package shopify speaks to Shopify: it checks and reads the notifications of one
// shop and asks its Admin GraphQL API how orders stand.
//
// Facts it rests on: only the body of a notification is signed, so topic, shop and
// ids in headers say where to look and never what is true; returns and disputes
// needn't move an order's updatedAt; two states can share one updatedAt second; a
// field that we aren't allowed to read is null with an error, which is never
// "empty"; an order outside the readable window looks like one that is gone.
package shopify

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"time"

	"counterfoil/models"
	"counterfoil/models/platform"
)

// Kinds of objects that notifications name and Fetch reads.
const (
	KindOrder            = "order"
	KindReturn           = "return"
	KindFulfillmentOrder = "fulfillment_order"
)

const (
	defaultVersion = "2026-10"
	defaultRate    = 4 // calls a second; the points of each answer say what is really left

	// The admin's test notification is about an order that doesn't exist.
	adminTestID   = "820982911946154508"
	adminTestName = "#9999"
)

// An Adapter speaks for one shop.
type Adapter struct {
	cfg     platform.Config
	base    string // without a slash at the end
	version string
	secrets []string
	words   dictionary
	caller  *platform.Caller
	token   *tokens // nil: no API access
	full    *shape
	wide    *shape
	lean    *shape

	mu     sync.Mutex
	points bucket
	prices map[string]float64 // points per order as the platform counts them, by shape
	fields missing
	served string // API version that answered last
}

var (
	hostName   = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9.-]*$`)
	apiVersion = regexp.MustCompile(`^(\d{4}-\d{2}|unstable)$`)
)

// New makes the adapter of a shop. Account is its *.myshopify.com name. Where no
// webhook secret is set the client secret is taken: Shopify signs an app's
// notifications with it. With a client id and secret tokens are fetched and
// renewed; they win over a static token.
func New(cfg platform.Config) (*Adapter, error) {
	a := &Adapter{cfg: cfg, version: cfg.Settings["api_version"], secrets: cfg.Webhook, words: newDictionary(), prices: map[string]float64{}}
	if !hostName.MatchString(cfg.Account) {
		return nil, errors.New("shopify: account must be the shop's name, like example.myshopify.com")
	}
	if a.version == "" {
		a.version = defaultVersion
	}
	if !apiVersion.MatchString(a.version) {
		return nil, errors.New("shopify: setting api_version must look like " + defaultVersion)
	}
	if cfg.ClientID != "" && cfg.ClientSecret == "" {
		return nil, errors.New("shopify: client_id is set and client_secret isn't")
	}
	if len(a.secrets) == 0 && cfg.ClientSecret != "" {
		a.secrets = []string{cfg.ClientSecret}
	}
	a.base = strings.TrimRight(cfg.APIURL, "/")
	if a.base == "" {
		a.base = "https://" + cfg.Account
	}
	if u, err := url.Parse(a.base); err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		return nil, errors.New("shopify: api_url isn't an address")
	}
	if a.cfg.Now == nil {
		a.cfg.Now = time.Now
	}
	a.caller = platform.NewCaller(a.cfg, defaultRate)
	a.caller.Refused = a.throttled
	if cfg.APIToken != "" || cfg.ClientID != "" {
		a.token = newTokens(a)
	}
	a.full, a.wide, a.lean = fullShape(), wideShape(), leanShape()
	return a, nil
}

// Platform is Shopify.
func (a *Adapter) Platform() models.Platform { return models.Shopify }

// HasAPI tells whether there are credentials for the API.
func (a *Adapter) HasAPI() bool { return a.token != nil }

// Reads are all axes, without those whose fields our access was refused for.
func (a *Adapter) Reads() map[models.Axis]bool {
	if !a.HasAPI() {
		return nil
	}
	gone := a.refused()
	reads := map[models.Axis]bool{}
	for _, axis := range models.Axes {
		reads[axis] = axis != models.Dispute || !gone["disputes"]
	}
	if gone["returnStatus"] {
		reads[models.Return] = false
	}
	return reads
}

// Together is how many orders fit into one query of 1000 points.
func (a *Adapter) Together() int { return a.full.fits() }

// Kinds of objects that Changed can list. Returns don't move an order's updatedAt,
// so orders with an unfinished return are listed apart.
func (a *Adapter) Kinds() []string { return []string{KindOrder, KindReturn} }

// Verify tells whether one of the secrets signed exactly these bytes. Shopify signs
// no time, so now isn't looked at.
func (a *Adapter) Verify(r platform.Request, _ time.Time) (platform.Match, error) {
	sent := strings.TrimSpace(r.Header.Get("X-Shopify-Hmac-Sha256"))
	if sent == "" {
		return platform.Match{}, &platform.Refusal{Reason: platform.SignatureMissing, Cause: platform.CauseHeaderMissing, Detail: "X-Shopify-Hmac-Sha256"}
	}
	sum, err := base64.StdEncoding.DecodeString(sent)
	if err != nil || len(sum) != sha256.Size {
		return platform.Match{}, &platform.Refusal{Reason: platform.SignatureMissing, Cause: platform.CauseMalformed}
	}
	shop := strings.TrimSpace(r.Header.Get("X-Shopify-Shop-Domain"))
	elsewhere := shop != "" && !strings.EqualFold(shop, a.cfg.Account)
	for i, secret := range a.secrets {
		mac := hmac.New(sha256.New, []byte(secret))
		mac.Write(r.Body)
		if secret == "" || !hmac.Equal(mac.Sum(nil), sum) {
			continue
		}
		if elsewhere {
			return platform.Match{}, &platform.Refusal{Reason: platform.WrongAccount, Cause: platform.CauseOtherShop}
		}
		return platform.Match{Secret: i}, nil
	}
	cause := platform.CauseUnknown
	switch {
	case adminTest(r.Body):
		cause = platform.CauseAdminKey
	case elsewhere:
		cause = platform.CauseOtherShop
	}
	return platform.Match{}, &platform.Refusal{Reason: platform.SignatureWrong, Cause: cause}
}

// adminTest recognises the admin's test notification, which is signed with a key
// that only the admin shows. A larger body isn't looked into: it isn't one, and
// strangers shouldn't be able to make us parse it.
func adminTest(body []byte) bool {
	const largest = 64 << 10
	var b struct {
		ID   leaf `json:"id"`
		Name leaf `json:"name"`
		Test leaf `json:"test"`
	}
	if len(body) > largest || json.Unmarshal(body, &b) != nil || !b.Test.yes() {
		return false
	}
	return b.ID.digits() == adminTestID || b.Name.raw == adminTestName
}

// Deep is the page of an order in the shop's admin; it leads on to admin.shopify.com.
func (a *Adapter) Deep(ref models.ObjectRef) string {
	if _, id := splitGID(ref.ID); ref.Kind == KindOrder && id != "" {
		return "https://" + a.cfg.Account + "/admin/orders/" + id
	}
	return ""
}

var adminPage = regexp.MustCompile(`^https://\S*/orders/(\d+)`)

// Spell gives an order's id and GID for each other, and a number with and without #.
func (a *Adapter) Spell(typed string) []string {
	typed = strings.TrimSpace(typed)
	if m := adminPage.FindStringSubmatch(typed); m != nil {
		typed = orderGID(m[1])
	}
	if typ, id := splitGID(typed); typ == "Order" {
		return []string{typed, id}
	}
	if bare, ok := strings.CutPrefix(typed, "#"); ok && bare != "" {
		return []string{typed, bare}
	}
	if plainID(typed) != "" {
		return []string{orderGID(typed), typed, "#" + typed}
	}
	if typed == "" {
		return nil
	}
	return []string{typed}
}

// Settings lists what can be set on a Shopify connection with the values in force.
func (a *Adapter) Settings() []models.Setting {
	defaults := [][2]string{
		{"api_version", defaultVersion}, {"rate", fmt.Sprint(defaultRate)},
	}
	var out []models.Setting
	for _, d := range defaults {
		s := models.Setting{Name: d[0], Value: d[1]}
		if v, ok := a.cfg.Settings[d[0]]; ok && v != "" {
			s.Value, s.Set = v, true
		}
		out = append(out, s)
	}
	return out
}

func orderGID(id string) string { return gidPrefix + "Order/" + id }

func (a *Adapter) order(id string) models.ObjectRef {
	return models.ObjectRef{Account: a.cfg.Account, Kind: KindOrder, ID: orderGID(id)}
}

var _ platform.Adapter = (*Adapter)(nil)
