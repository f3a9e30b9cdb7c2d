package models

import "testing"

func TestHowManyAreReadAgainAtOnce(t *testing.T) {
	t.Parallel()
	for want, actors := range map[int][]Actor{
		50:   {{StaffID: 1, Role: Support}},
		500:  {{StaffID: 1, Role: Support, Lead: true}},
		5000: {{StaffID: 1, Role: Manager}, {StaffID: 1, Role: Admin}},
		0:    {{StaffID: 1, Role: Auditor}, {TokenID: 1, Role: Service, Scopes: []Scope{ScopeWrite, ScopeResync}}},
	} {
		for _, a := range actors {
			if n := a.ResyncMany(); n != want {
				t.Errorf("%s: %d, want %d", a.Role, n, want)
			}
		}
	}
}

// An administrator's token may act as a service, and as none of the person.
func TestWhoProposesAnAcceptance(t *testing.T) {
	t.Parallel()
	propose := []Scope{ScopePropose}
	for _, c := range []struct {
		actor Actor
		may   bool
	}{
		{Actor{StaffID: 1, Role: Support}, true}, {Actor{StaffID: 1, Role: Manager}, true}, {Actor{StaffID: 1, Role: Admin}, false}, {Actor{StaffID: 1, Role: Auditor}, false},
		{Actor{TokenID: 2, Role: Service, Scopes: propose}, true}, {Actor{TokenID: 2, Role: Service, Scopes: []Scope{ScopeRead}}, false},
		{Actor{TokenID: 2, StaffID: 1, Role: Service, Scopes: propose}, false},
	} {
		if ok, _ := c.actor.MayAccept(); ok != c.may {
			t.Errorf("%+v: %t", c.actor, ok)
		}
	}
}

// What an acceptance is bound to changes with either side, and with nothing else.
func TestSidesOfAnException(t *testing.T) {
	t.Parallel()
	x := Exception{ID: 1, Kind: AmountDiffers, PlatformState: "180.00", LocalState: "0.00", Detail: "re_1", Count: 1}
	same := x
	same.ID, same.Count, same.Owner, same.Version = 2, 9, 4, 7
	if x.Sides() != same.Sides() {
		t.Error("being seen again moves a side")
	}
	for name, move := range map[string]func(*Exception){
		"platform": func(x *Exception) { x.PlatformState = "181.00" },
		"detail":   func(x *Exception) { x.Detail = "re_2" },
		"ours":     func(x *Exception) { x.LocalState = "180.00" },
		"kept":     func(x *Exception) { x.PlatformDigest, x.LocalDigest = []byte{1}, []byte{2} },
	} {
		moved := x
		move(&moved)
		if moved.Sides() == x.Sides() {
			t.Errorf("%s moved, and nothing shows", name)
		}
	}
	platform, local := Problem{PlatformState: x.PlatformState, LocalState: x.LocalState, Detail: x.Detail}.Digests()
	kept := x
	kept.PlatformDigest, kept.LocalDigest = platform, local
	if kept.Sides() != x.Sides() {
		t.Error("digests that were kept say something else than the same sides")
	}
}
