package models

import "time"

// A ShopName is a shop as lists name it.
type ShopName struct {
	ID   int64
	Slug string
	Name string
}

// A PolicyFile is a shop's rules and where its actions go.
type PolicyFile struct {
	ShopName
	Shops   []ShopName // that the person may see
	Rules   ActionRules
	Changes []RuleChange
	SavedBy string // who saved the rules last; empty: nobody
	Saved   time.Time
	Kinds   []KindFile   // in the order of ActionKinds
	Cases   []CasePolicy // in the order of CaseRules
}

// A KindFile is where the actions of a kind go, and who wants that changed.
type KindFile struct {
	Destination
	Signed  bool        // there is a signing secret
	Seen    string      // digest of the destination, for forms that are sent later
	Watched ActionCount // in the last week: would have been sent
	Open    *Live       // what waits for the other side
	Last    *Live       // what was asked for last, and is over
}

// A Live is a request to send the actions of a kind somewhere.
type Live struct {
	Request
	LiveTerms
	Stale bool // the destination isn't any more what the proposer saw
}

// LiveTerms are what a Live asks for, as they are kept.
type LiveTerms struct {
	Mode       DestinationMode `json:"mode"`
	URL        string          `json:"url,omitempty"`
	Idempotent bool            `json:"idempotent,omitempty"`
	Hosts      []string        `json:"hosts,omitempty"`
	NewSecret  bool            `json:"new_secret,omitempty"` // else the one that is there stays
}

// LiveFor is how long a Live waits for the other side.
const LiveFor = 24 * time.Hour

// Agrees tells whether the actor is the other side of the request: a manager's needs
// an administrator, and the other way round.
func (l Live) Agrees(a Actor) bool {
	return a.May(ActionsLive) && a.Sees(l.ShopID) && a.ID() != l.By && a.Role == l.OtherSide()
}

// OtherSide is whose answer the request waits for.
func (l Live) OtherSide() Role { return l.ByRole.OtherSide() }

// OtherSide is who has to agree where somebody of a role asks for a kind to be live.
func (r Role) OtherSide() Role {
	if r == Manager {
		return Admin
	}
	return Manager
}
