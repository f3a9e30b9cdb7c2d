package models

import "time"

// A Limit says up to which sums people decide alone, in minor units of a currency.
// In a currency without one only two managers together do.
type Limit struct {
	Currency     string
	LeadOrder    int64 // a shift lead, for one order
	LeadShift    int64 // a shift lead, over what they approved in a shift
	ManagerOrder int64 // a manager, for one order
}

// Limits is the whole table.
var Limits = []Limit{
	{Currency: "HKD", LeadOrder: 1_000_00, LeadShift: 10_000_00, ManagerOrder: 20_000_00},
	{Currency: "TWD", LeadOrder: 4_000_00, LeadShift: 40_000_00, ManagerOrder: 80_000_00},
}

// Shift is how far back a lead's approvals are summed.
const Shift = 12 * time.Hour

// A Stake is what a request is worth to whoever decides it.
type Stake struct {
	Amount   int64 // total of the order
	Currency string
	Shift    int64 // what the actor approved in the last shift, in that currency
}

func (s Stake) limit() (Limit, bool) {
	for _, l := range Limits {
		if l.Currency == s.Currency {
			return l, true
		}
	}
	return Limit{}, false
}

// weighs tells whether a request of the kind has a sum at stake: a message once more
// moves no goods.
func (k RequestKind) weighs() bool { return k == RequestRelease || k == RequestReplacement }

// Approvers is how many people have to approve a request. Above a manager's limit two
// managers decide together; a manager who proposed is one of them.
func (r Request) Approvers(s Stake) int {
	l, known := s.limit()
	if r.Kind.weighs() && (!known || s.Amount > l.ManagerOrder) && r.ByRole != Manager {
		return 2
	}
	return 1
}

// MayDecide tells whether the actor may approve a request, and if not why, as a
// catalogue key. Nobody decides what they proposed, themselves or through a token.
func (a Actor) MayDecide(r Request, s Stake) (ok bool, why string) {
	if ok, why = a.MayReject(r); !ok {
		return ok, why
	}
	for _, yes := range r.Approvals {
		if yes.By == a.ID() {
			return false, "error.approved_already"
		}
	}
	if !r.Kind.weighs() || a.Role == Manager {
		return true, ""
	}
	l, known := s.limit()
	switch {
	case !known || s.Amount > l.LeadOrder:
		return false, "error.over_lead_order"
	case s.Shift+s.Amount > l.LeadShift:
		return false, "error.over_lead_shift"
	}
	return true, ""
}

// MayReject tells whether the actor may say no to a request, and if not why. No sum
// stands in the way of a no.
func (a Actor) MayReject(r Request) (ok bool, why string) {
	switch {
	case !a.Sees(r.ShopID):
		return false, "error.request_unknown"
	case r.Kind == RequestLive:
		return false, "error.request_of_policies"
	case a.StaffID == 0 || !a.May(r.Kind.Decides()):
		return false, r.Kind.undecided()
	case r.By == a.ID():
		return false, "error.own_request"
	case r.State != RequestProposed:
		return false, "error.request_decided"
	}
	return true, ""
}

// Decides is the permission to decide on requests of a kind.
func (k RequestKind) Decides() Permission {
	switch k {
	case RequestAccept:
		return ExceptionsDecide
	case RequestPolicy:
		return PoliciesEdit
	}
	return ActionsDecide
}

// Asks is the permission to make requests of a kind.
func (k RequestKind) Asks() Permission {
	switch k {
	case RequestAccept:
		return ExceptionsAccept
	case RequestPolicy:
		return PoliciesEdit
	}
	return ActionsRequest
}

// undecided is why somebody without that permission may not decide.
func (k RequestKind) undecided() string {
	if k == RequestAccept || k == RequestPolicy {
		return "error.may_not_decide_cases"
	}
	return "error.may_not_decide"
}
