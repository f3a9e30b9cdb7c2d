package models

import "slices"

// A Role is what a person, or a service token, is here for.
type Role string

const (
	Support Role = "support"
	Manager Role = "manager"
	Admin   Role = "admin"
	Auditor Role = "auditor"
	Service Role = "service" // tokens that act for no person
)

// Roles lists all roles; the schema has the same list. Admin and manager are
// different people's work: neither contains the other.
var Roles = []Role{Support, Manager, Admin, Auditor, Service}

// A Permission names one thing that people may do. Every route states one.
type Permission string

const (
	Public          Permission = "public" // nobody has to be signed in
	SignedIn        Permission = "signed_in"
	OrdersRead      Permission = "orders.read"
	OrdersResync    Permission = "orders.resync"
	OrdersHold      Permission = "orders.hold"
	OrdersRelease   Permission = "orders.release"
	EventsRead      Permission = "events.read"
	ConnectionsRead Permission = "connections.read"
	RulesRead       Permission = "rules.read"
	ActionsRead     Permission = "actions.read"
	// Tick a manual action off, or settle one whose outcome is unclear.
	ActionsReceipt Permission = "actions.receipt"
	// Holds of a whole connection or shop.
	ConnectionsHold    Permission = "connections.hold"
	ConnectionsRelease Permission = "connections.release"
	// Ask for a release, a replacement or a message once more; decide on it.
	ActionsRequest Permission = "actions.request"
	ActionsDecide  Permission = "actions.decide"
	// Have an action tried again whose tries are used up.
	ActionsRetry Permission = "actions.retry"
	// Ask for a kind of action to be made live, or agree.
	ActionsLive  Permission = "actions.live"
	PoliciesRead Permission = "policies.read"
	PoliciesEdit Permission = "policies.edit"
	// Say why a second payment or refund is right.
	OrdersExplain Permission = "orders.explain"
	// Look through a platform's recent objects for how they name their orders.
	ConnectionsFind Permission = "connections.find"
	ConnectionsEdit Permission = "connections.edit"
	ExceptionsRead  Permission = "exceptions.read"
	// Take a case, note, tick off that the customer was told, close, dismiss. Which
	// cases whose, the service says.
	ExceptionsWork Permission = "exceptions.work"
	// Ask for a difference to be accepted; decide on it.
	ExceptionsAccept Permission = "exceptions.accept"
	ExceptionsDecide Permission = "exceptions.decide"
	// Compare a connection now, stop a sweep.
	SweepsRun Permission = "sweeps.run"
	// Register notifications at the platform.
	ConnectionsNotify Permission = "connections.notify"
	// Check a connection's access with its test objects; close a check after a change.
	ConnectionsCheck Permission = "connections.check"
	HealthRead       Permission = "health.read"
)

// A Scope limits what a token may be used for.
type Scope string

const (
	ScopeRead    Scope = "read"
	ScopeWrite   Scope = "write"
	ScopeApprove Scope = "approve"
	ScopeResync  Scope = "resync"
	ScopePropose Scope = "propose"
	ScopeReceipt Scope = "receipt"
	ScopeMetrics Scope = "metrics"
)

// Scopes lists all scopes; the schema has the same list.
var Scopes = []Scope{ScopeRead, ScopeWrite, ScopeApprove, ScopeResync, ScopePropose, ScopeReceipt, ScopeMetrics}

// grants is the table of permissions: who has what.
var grants = map[Permission][]Role{
	SignedIn:        {Support, Manager, Admin, Auditor, Service},
	OrdersRead:      {Support, Manager, Admin, Auditor, Service},
	EventsRead:      {Support, Manager, Admin, Auditor, Service},
	ConnectionsRead: {Support, Manager, Admin, Auditor, Service},
	RulesRead:       {Support, Manager, Admin, Auditor, Service},
	ActionsRead:     {Support, Manager, Admin, Auditor, Service},
	ActionsReceipt:  {Support, Manager, Admin, Service},
	OrdersResync:    {Support, Manager, Admin, Service},
	OrdersHold:      {Support, Manager, Admin},
	OrdersRelease:   {Support, Manager},

	ConnectionsHold:    {Support, Manager, Admin},
	ConnectionsRelease: {Manager},

	ActionsRequest:  {Support, Manager},
	ActionsDecide:   {Support, Manager},
	ActionsRetry:    {Support, Manager},
	ActionsLive:     {Manager, Admin},
	PoliciesRead:    {Support, Manager, Admin, Auditor},
	PoliciesEdit:    {Manager},
	OrdersExplain:   {Support, Manager},
	ConnectionsFind: {Manager, Admin},
	ConnectionsEdit: {Admin},

	ExceptionsRead:    {Support, Manager, Admin, Auditor, Service},
	ExceptionsWork:    {Support, Manager, Admin},
	ExceptionsAccept:  {Support, Manager, Admin, Service},
	ExceptionsDecide:  {Manager},
	SweepsRun:         {Support, Manager, Admin},
	ConnectionsNotify: {Manager, Admin},
	ConnectionsCheck:  {Manager, Admin},
	HealthRead:        {Support, Manager, Admin, Auditor, Service},
}

// leads are the permissions that support have only with the grant of a shift lead.
var leads = map[Permission]bool{ConnectionsHold: true, ActionsDecide: true, ActionsRetry: true, OrdersExplain: true, SweepsRun: true}

// scopesFor says which scopes of a token open a permission.
var scopesFor = map[Permission][]Scope{
	OrdersResync:       {ScopeWrite, ScopeResync},
	ActionsReceipt:     {ScopeWrite, ScopeReceipt},
	OrdersHold:         {ScopeWrite},
	OrdersRelease:      {ScopeWrite},
	ConnectionsHold:    {ScopeWrite},
	ConnectionsRelease: {ScopeWrite},
	ActionsRequest:     {ScopeWrite, ScopePropose},
	ActionsDecide:      {ScopeApprove},
	ActionsRetry:       {ScopeWrite},
	ActionsLive:        {ScopeApprove},
	PoliciesRead:       {}, // a page, for people
	PoliciesEdit:       {ScopeWrite},
	OrdersExplain:      {ScopeWrite},
	ConnectionsFind:    {ScopeWrite},
	ConnectionsEdit:    {ScopeWrite},
	ExceptionsWork:     {ScopeWrite},
	ExceptionsAccept:   {ScopeWrite, ScopePropose},
	ExceptionsDecide:   {ScopeApprove},
	SweepsRun:          {ScopeWrite},
	ConnectionsNotify:  {ScopeWrite},
	ConnectionsCheck:   {ScopeWrite},
}

// ForTokens tells whether a token can have a permission at all.
func ForTokens(p Permission) bool {
	need, special := scopesFor[p]
	return !special || len(need) > 0
}

// Permissions lists every permission that can be granted.
var Permissions = []Permission{SignedIn, OrdersRead, OrdersResync, OrdersHold, OrdersRelease, EventsRead, ConnectionsRead, ConnectionsHold,
	ConnectionsRelease, ConnectionsFind, ConnectionsEdit, RulesRead, ActionsRead, ActionsReceipt, ActionsRequest, ActionsDecide, ActionsRetry, ActionsLive,
	PoliciesRead, PoliciesEdit, OrdersExplain, ExceptionsRead, ExceptionsWork, ExceptionsAccept, ExceptionsDecide, SweepsRun,
	ConnectionsNotify, ConnectionsCheck, HealthRead}

// Granted lists the roles that have a permission.
func Granted(p Permission) []Role { return grants[p] }

// ForLeads tells whether support have a permission only as shift leads.
func ForLeads(p Permission) bool { return leads[p] }

// An Actor is whoever acts: a signed-in person, or a token.
type Actor struct {
	StaffID int64 // 0 for a service token
	TokenID int64 // 0 for a browser
	Name    string
	Email   string
	Role    Role
	Lead    bool
	Shops   []int64 // empty: every shop
	Scopes  []Scope // of the token; nil in a browser
	Locale  string
}

// May tells whether the actor has a permission at all. Rules that depend on the
// object are in the services.
func (a Actor) May(p Permission) bool {
	if p == Public {
		return true
	}
	if !slices.Contains(grants[p], a.Role) || leads[p] && a.Role == Support && !a.Lead {
		return false
	}
	if a.TokenID == 0 {
		return true
	}
	need, special := scopesFor[p]
	if !special {
		need = []Scope{ScopeRead, ScopeWrite}
	}
	return slices.ContainsFunc(need, func(s Scope) bool { return slices.Contains(a.Scopes, s) })
}

// Decides tells whether the actor is a shift lead or a manager: whose word decides about
// money and goods.
func (a Actor) Decides() bool { return a.Role == Manager || a.Role == Support && a.Lead }

// Sees tells whether the actor may see objects of a shop.
func (a Actor) Sees(shop int64) bool {
	return len(a.Shops) == 0 || slices.Contains(a.Shops, shop)
}

// ID is how the ledger and the audit trail name the actor, without personal data.
func (a Actor) ID() string {
	switch {
	case a.StaffID != 0:
		return "staff:" + itoa(a.StaffID)
	case a.TokenID != 0:
		return "token:" + itoa(a.TokenID)
	}
	return "console"
}

func itoa(n int64) string { return Decimal(n, "JPY") }
