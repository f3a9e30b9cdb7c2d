package models

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

func TestWhoMayDoWhat(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	for _, p := range append([]Permission{Public}, Permissions...) {
		fmt.Fprintf(&b, "%s:", p)
		for _, r := range Roles {
			if (Actor{StaffID: 1, Role: r}).May(p) {
				fmt.Fprintf(&b, " %s", r)
			} else if (Actor{StaffID: 1, Role: r, Lead: true}).May(p) {
				b.WriteString(" lead")
			}
		}
		b.WriteString("\n  with a token of scope:")
		for _, s := range Scopes {
			if (Actor{StaffID: 1, TokenID: 1, Role: Manager, Scopes: []Scope{s}}).May(p) {
				fmt.Fprintf(&b, " %s", s)
			}
		}
		b.WriteString("\n")
	}
	golden(t, "permissions.golden", b.String())
}

func TestPermissionsAreComplete(t *testing.T) {
	t.Parallel()
	if got, want := slices.Sorted(maps.Keys(grants)), slices.Sorted(slices.Values(Permissions)); !slices.Equal(got, want) {
		t.Errorf("granted are %v, listed %v", got, want)
	}
	for p, scopes := range scopesFor {
		if !slices.Contains(Permissions, p) {
			t.Errorf("scopes for %s, which nobody can have", p)
		}
		for _, s := range scopes {
			if !slices.Contains(Scopes, s) {
				t.Errorf("%s: unknown scope %s", p, s)
			}
		}
	}
	for _, p := range Permissions {
		for _, r := range Granted(p) {
			if !slices.Contains(Roles, r) {
				t.Errorf("%s: unknown role %s", p, r)
			}
		}
		if (Actor{}).May(p) || (Actor{StaffID: 1, Role: "owner"}).May(p) {
			t.Errorf("%s: somebody without a known role may", p)
		}
		for _, r := range Roles {
			if (Actor{TokenID: 1, Role: r}).May(p) {
				t.Errorf("%s: a token without scopes may", p)
			}
		}
	}
}

func TestActor(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		a    Actor
		want string
	}{{Actor{StaffID: 7, TokenID: 3}, "staff:7"}, {Actor{TokenID: 3}, "token:3"}, {Actor{Name: "command line"}, "console"}} {
		if got := c.a.ID(); got != c.want {
			t.Errorf("%+v is %s", c.a, got)
		}
	}
	if a := (Actor{Shops: []int64{2}}); a.Sees(1) || !a.Sees(2) {
		t.Error("an actor of one shop sees that one only")
	}
	if !(Actor{}).Sees(1) {
		t.Error("an actor without shops sees them all")
	}
}
