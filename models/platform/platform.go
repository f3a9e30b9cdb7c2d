// Package platform says what the console asks of a platform: is this yours, what
// is it about, how does the thing stand now, what has changed since.
package platform

import (
	"context"
	"net/http"
	"time"

	"counterfoil/models"
)

// A Request is a notification as it came in: its headers and its exact bytes.
type Request struct {
	Header http.Header
	Body   []byte
}

// A Match says which secret signed a request.
type Match struct {
	Secret int // index into Config.Webhook
	// Skew is how far the signed time was ahead of ours; meaningful where Timed.
	Skew  time.Duration
	Timed bool
}

// A Refusal says why a request isn't genuine. Its reason and cause are catalogue
// key parts; Detail never holds input.
type Refusal struct {
	Reason Reason
	Cause  Cause
	Detail string
}

func (r *Refusal) Error() string { return string(r.Reason) + ": " + string(r.Cause) }

// A Reason is what is wrong with a request.
type Reason string

const (
	SignatureMissing Reason = "signature_missing" // no signature, or an unreadable one
	SignatureWrong   Reason = "signature_wrong"
	TimeMissing      Reason = "time_missing"
	TimeOff          Reason = "time_off" // signed, but too old or too far ahead
	WrongAccount     Reason = "wrong_account"
	TooLarge         Reason = "too_large"
)

// A Cause is the likely cause of a refusal, worked out without trusting the request.
type Cause string

const (
	CauseUnknown         Cause = "unknown"
	CauseHeaderMissing   Cause = "header_missing"   // Detail: its name
	CauseClock           Cause = "clock_off"        // Detail: seconds, signed
	CauseOtherConnection Cause = "other_connection" // Detail: its slug
	CauseRetired         Cause = "retired_secret"   // Detail: fingerprint
	CauseReencoded       Cause = "reencoded"        // the body was parsed and written again on its way
	CauseCutShort        Cause = "cut_short"        // bytes are missing at the end
	CauseAdminKey        Cause = "admin_key"        // signed with the shop's notification key, not the app's secret
	CauseOtherShop       Cause = "other_shop"       // the header names another account
	CauseMalformed       Cause = "malformed"        // the signature header can't be read
)

// An Outage is a failure to ask: the platform is down, throttles us, or doesn't
// let us in. It uses up no tries of an event, however long it lasts.
type Outage struct {
	Throttled bool
	// Denied: our credentials or scopes were refused; time alone won't mend it.
	Denied bool
	// After is when the platform said to come back, zero where it didn't.
	After time.Duration
	// Detail is shown to staff: the status and the platform's words, without personal data.
	Detail string
	Err    error
}

func (o *Outage) Error() string { return "platform can't be asked: " + o.Detail }
func (o *Outage) Unwrap() error { return o.Err }

// A Budget is asked before every call to the platform. It waits where a pause is
// short and answers an *Outage (Throttled) where the calls are used up.
type Budget interface {
	Spend(ctx context.Context, calls int) error
}

// A Config is all that an adapter needs to speak for one connection.
type Config struct {
	Slug     string
	Account  string
	APIURL   string            // base address; empty: the platform's real host
	Settings map[string]string // as set by an admin; adapters know the defaults
	// Webhook secrets that are accepted, several at once for rotation.
	Webhook []string
	// API credentials; all empty where the connection has no API access.
	APIToken     string
	ClientID     string
	ClientSecret string
	UserName     string
	Password     string

	Now    func() time.Time
	HTTP   *http.Client // never follows redirects; nil: the adapter makes one
	Budget Budget       // nil: unlimited
}

// A Window is one stretch of what changed since a time.
type Window struct {
	Since time.Time
	Until time.Time
	// Cursor continues a stretch; empty at its start.
	Cursor string
	// Kind of object to list, one of Adapter.Kinds; empty: the first.
	Kind string
	// Lean asks for lean readings where the adapter is a Leaner; others answer as ever.
	Lean bool
	// Most is how many objects a page has at most; 0: as many as suit the platform.
	Most int
}

// A Batch is one page of what changed. Observations are given where the list
// itself states the objects in full, so that they needn't be fetched again.
type Batch struct {
	Refs         []models.ObjectRef
	Observations []models.Observation
	Next         string // empty at the end
	// Expected is how many objects the window has in all; 0: the platform doesn't say.
	// It comes with the first page.
	Expected int64
}

// An Adapter speaks for one connection. Verify and Parse are pure: no network, no
// clock but the one given. All methods may be called at once from many goroutines.
type Adapter interface {
	Platform() models.Platform
	// Verify tells whether a secret of this connection signed exactly these bytes
	// within the tolerance before and after now. Its error is always a *Refusal.
	Verify(r Request, now time.Time) (Match, error)
	// Parse reads only what identity needs, and what the payload reports. It is
	// called on verified requests and never fails: what can't be read is kept as a
	// notice without an object.
	Parse(r Request, now time.Time) models.Notice
	// HasAPI tells whether the platform can be asked at all.
	HasAPI() bool
	// Reads are the axes that the platform's API can state; nil without API access.
	Reads() map[models.Axis]bool
	// Fetch reads objects as they stand now. The answer has one observation for each
	// reference asked, under that reference; an absent or unreadable object is an
	// observation with an Absence. The error is an *Outage where the platform can't
	// be asked (nothing is known then), anything else is our own failure.
	Fetch(ctx context.Context, refs []models.ObjectRef) (map[models.ObjectRef]models.Observation, error)
	// Together is how many references one Fetch answers best.
	Together() int
	// Kinds of objects that Changed can list.
	Kinds() []string
	// Changed lists what changed in a window, oldest first where the platform allows it.
	Changed(ctx context.Context, w Window) (Batch, error)
	// Check makes one cheap call and says in words what our access covers: scopes,
	// readable window, versions.
	Check(ctx context.Context) ([]models.Note, error)
	// Settings lists the connection's settings with the values in force.
	Settings() []models.Setting
	// Deep is the address of the platform's own page about an object, or empty.
	Deep(ref models.ObjectRef) string
	// Spell turns what people type for a reference into the platform's own spelling:
	// a GID, a number. It answers all spellings worth looking for.
	Spell(typed string) []string
}

// A Labeller is an adapter whose platform leaves it to the merchant in which field its
// payments name their orders.
type Labeller interface {
	Adapter
	// Recent lists the newest payments with their fields, newest first, in at most so
	// many calls; more tells whether there are older ones. The error is as Fetch's.
	Recent(ctx context.Context, calls int) (payments []models.Labelled, more bool, err error)
	// LinkField is the field that links payments to orders today.
	LinkField() string
}

// A Maker builds the adapter of a connection. Its error says in words which
// setting or secret can't be used.
type Maker func(Config) (Adapter, error)

// Word is one row of an adapter's table from the platform's words to states. The
// table is printed on /rules and in a golden file; nothing else translates.
type Word struct {
	Field string // the platform's field, e.g. displayFinancialStatus
	Word  string // in the platform's spelling; empty: null
	Axis  models.Axis
	State models.State
	Note  string // a condition, e.g. "received ≥ total"
}
