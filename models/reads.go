package models

import "time"

// A Page is one stretch of a list, newest first. Next is the cursor of the
// stretch after it, Prev of the one before; empty where there is none.
type Page[T any] struct {
	Items []T
	Next  string
	Prev  string
}

// An OrderQuery filters /orders. Empty fields don't filter.
type OrderQuery struct {
	Shops        []int64 // those the person may see; empty: all
	Shop         string  // slug
	Connection   string  // slug
	Ref          string  // platform reference in any spelling, or that of a linked object
	Text         string  // number, reference or event id, as typed
	States       map[Axis]State
	Verification Check
	Announced    bool
	Unresolved   bool
	Paused       bool // a hold reaches it: its own, its connection's, its shop's
	Test         bool // test orders too; they are left out otherwise
	Whole        bool // objects and ledger of each order too
	Cursor       string
	Limit        int // default 50, at most 200
}

// An OrderRow is one line of the list.
type OrderRow struct {
	Order
	Shop       string // slug
	ShopName   string
	Connection string           // slug
	Shown      Shown            // of the worst axis
	Health     map[int64]Health // of the connections, with what waits of this order
	// Unresolved events and exceptions of the order.
	Events     int
	Exceptions int
	Urgent     bool // one of them pauses the order
	Holds      []Hold
	// Objects, Ledger and Actions where the query asked for whole orders.
	Objects []Object
	Ledger  []Entry
	Actions []Action
}

// An Object is a platform object as its order's page shows it.
type Object struct {
	ObjectView
	Fetched  time.Time // last official reading
	Reported time.Time // last signed payload
	Deep     string    // address of the platform's own page, empty where there is none
}

// An Exception is a difference or a problem that needs a decision.
type Exception struct {
	ID            int64
	Kind          ExceptionKind
	Case          string
	Axis          Axis
	OrderID       int64
	Connection    string // slug
	Ref           string // platform reference
	PlatformState string
	LocalState    string
	Detail        string
	Policy        Policy
	State         string // open, closed
	Count         int64
	First, Last   time.Time

	Shop     string // slug
	ShopID   int64
	Platform Platform
	Number   string // of its order, as people say it
	Currency string // of its order, empty where none is known
	ObjectID int64
	Rule     string // the row of the policies that it follows
	Urgency  Urgency
	FirstTo  Desk
	Needs    bool      // a person's; else it is settling by itself
	NeedsAt  time.Time // when its grace ends
	HealAt   time.Time // when the console reads again by policy
	Healed   time.Time // when it last did
	Tell     bool      // the customer has to be told
	Told     time.Time
	ToldBy   string
	Topic    string // the notification that should have come
	Owner    int64
	OwnedBy  string // the owner's name
	Owned    time.Time
	Group    int64
	Closed   time.Time
	How      string // resync, sweep, late, reading, correction, accepted, dismissed, solved, link
	ClosedBy string // the name of whoever closed it
	Note     string // why, in that person's words
	Version  int64

	Subject        string // order:7, object:9, event:3, action:5
	PlatformDigest []byte // of what each side said when it was seen last
	LocalDigest    []byte
}

// An OrderFile is an order with everything its page shows.
type OrderFile struct {
	Order
	Shop       string
	ShopName   string
	Connection string // slug
	Health     map[int64]Health
	Slugs      map[int64]string // connection id → slug
	Objects    []Object
	Ledger     []Entry // newest first
	Events     []Event // newest first, at most 100
	Waiting    []Event // unprocessed or needing a person
	Exceptions []Exception
	Holds      []Hold    // open ones that reach it
	Paused     []Hold    // all that have reached it, the newest first, at most 100
	Actions    []Action  // newest first
	Asked      []Request // what waits for a decision about it, newest first
	Outcome    OutcomeFacts
}

// An EventQuery filters /events.
type EventQuery struct {
	Shops      []int64
	Connection string
	EventID    string
	Exact      bool // EventID is whole, not a beginning
	Topic      string
	State      EventState
	Order      int64
	Cursor     string
	Limit      int
}

// A SecretView is a webhook secret as people may see it.
type SecretView struct {
	Fingerprint string // first 8 hex digits of its SHA-256
	Added       time.Time
	Retired     time.Time // zero while it is accepted
	LastMatched time.Time // zero: never
}

// A Rejection is the bounded evidence of a refused request.
type Rejection struct {
	At        time.Time
	RequestID string
	Reason    string // catalogue key part: signature_missing, signature_wrong, time_off, too_large, …
	Cause     string // likely cause: other_connection, retired_secret, reencoded, cut_short, clock_off, header_missing, admin_key, unknown
	Detail    string // slug of the other connection, seconds off, name of the header
	Size      int64
	Hash      string
	Headers   []string
}

// A TopicCount counts notifications that nobody has said anything about.
type TopicCount struct {
	Topic string
	Count int64
	Last  time.Time
	Known bool // known, but not about orders
}

// A ConnectionFile is a connection with everything its page shows.
type ConnectionFile struct {
	ID         int64
	Slug       string
	Platform   Platform
	Account    string
	ShopID     int64
	Shop       string
	ShopName   string
	APIURL     string
	Settings   map[string]string // as set; Effective fills the defaults
	Effective  []Setting
	API        APIState
	APISince   time.Time
	APIError   string
	History    []HealthPeriod // of the API, the present state first
	HasAPI     bool
	Labels     bool // its payments name their orders in a field that the merchant chose
	Secrets    []SecretView
	Rejections []Rejection
	Rejected   int64 // all, ever
	Topics     []TopicCount
	Events24   int64 // at most 10,000 are counted
	LastEvent  time.Time
	Oldest     time.Time // oldest unprocessed event
	Calls30    int64     // calls spent in 30 days
	Budget     int64     // 0: none
	Notes      []Note    // what the platform said of our access
	OpenExc    int64
	OldestExc  time.Time
	LastSweep  time.Time
	Checkpoint string
	Test       bool
	Holds      []Hold // open ones of the connection and its shop
}

// A Setting is one setting of a connection with its value in force.
type Setting struct {
	Name    string
	Value   string
	Set     bool // by an admin; otherwise the default
	Assumed bool // a default about the platform that nothing published confirms
}

// A Note is something that a platform says about our access, in words.
type Note struct {
	Key  string // catalogue key
	Args []string
	Warn bool
	At   time.Time
}
