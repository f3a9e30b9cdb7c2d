package staff

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"counterfoil/models"
)

func as(err error, target **models.Error) bool { return errors.As(err, target) }

func TestTokensActForAServiceOrAPerson(t *testing.T) {
	t.Parallel()
	s, st, _ := open(t)
	harbour, peak := shop(t, st, "harbour"), shop(t, st, "peak")
	add(t, s, "all@shop.example", models.Manager)
	add(t, s, "one@shop.example", models.Support, "harbour")
	add(t, s, "eyes@shop.example", models.Auditor)
	readWrite := []models.Scope{models.ScopeRead, models.ScopeWrite}
	tests := []struct {
		name   string
		in     NewToken
		role   models.Role
		shops  []int64
		scopes []models.Scope
		may    bool // resync
	}{
		{"a service", NewToken{}, models.Service, nil, readWrite, true},
		{"a service of one shop", NewToken{Shops: []string{"peak"}}, models.Service, []int64{peak}, readWrite, true},
		{"a service that only reads", NewToken{Scopes: []models.Scope{models.ScopeRead}}, models.Service, nil, []models.Scope{models.ScopeRead}, false},
		{"a service that only looks", NewToken{Role: models.Auditor}, models.Auditor, nil, readWrite, false},
		{"a service that asks for more", NewToken{Role: models.Manager}, models.Service, nil, readWrite, true},
		{"a manager", NewToken{User: "all@shop.example"}, models.Manager, nil, readWrite, true},
		{"a manager in one shop", NewToken{User: "All@shop.example", Shops: []string{"peak"}}, models.Manager, []int64{peak}, readWrite, true},
		{"a manager who only looks", NewToken{User: "all@shop.example", Role: models.Auditor}, models.Auditor, nil, readWrite, false},
		{"support of one shop", NewToken{User: "one@shop.example"}, models.Support, []int64{harbour}, readWrite, true},
		{"an auditor", NewToken{User: "eyes@shop.example"}, models.Auditor, nil, readWrite, false},
	}
	for _, tt := range tests {
		tt.in.Name = tt.name
		text, made, err := s.AddToken(t.Context(), models.Actor{}, tt.in)
		if err != nil || !strings.HasPrefix(text, "cf_") || len(text) < 40 || made.Expires.Sub(made.Created) != tokenAge {
			t.Fatalf("%s: %q %+v %v", tt.name, text, made, err)
		}
		actor, err := s.Token(t.Context(), text)
		if err != nil || actor.Role != tt.role || !slices.Equal(actor.Shops, tt.shops) || !slices.Equal(actor.Scopes, tt.scopes) || actor.TokenID != made.ID {
			t.Errorf("%s: %+v, %v", tt.name, actor, err)
		}
		if (actor.StaffID == 0) != (tt.in.User == "") {
			t.Errorf("%s: acts for %d", tt.name, actor.StaffID)
		}
		if actor.May(models.OrdersResync) != tt.may {
			t.Errorf("%s: may resync = %t", tt.name, !tt.may)
		}
	}
}

func TestTokensAreRefused(t *testing.T) {
	t.Parallel()
	s, st, _ := open(t)
	shop(t, st, "harbour")
	shop(t, st, "peak")
	add(t, s, "one@shop.example", models.Support, "harbour")
	add(t, s, "eyes@shop.example", models.Auditor)
	add(t, s, "gone@shop.example", models.Support)
	if err := s.Disable(t.Context(), models.Actor{}, "gone@shop.example"); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name  string
		in    NewToken
		field string
	}{
		{"no name", NewToken{}, "name"},
		{"unknown role", NewToken{Name: "a", Role: "boss"}, "role"},
		{"unknown scope", NewToken{Name: "a", Scopes: []models.Scope{"everything"}}, "scope"},
		{"a service that approves", NewToken{Name: "a", Scopes: []models.Scope{models.ScopeApprove}}, "scope"},
		{"negative age", NewToken{Name: "a", Age: -time.Hour}, "expires"},
		{"unknown user", NewToken{Name: "a", User: "nobody@shop.example"}, "user"},
		{"disabled user", NewToken{Name: "a", User: "gone@shop.example"}, "user"},
		{"more than the user", NewToken{Name: "a", User: "eyes@shop.example", Role: models.Manager}, "role"},
		{"another shop than the user's", NewToken{Name: "a", User: "one@shop.example", Shops: []string{"peak"}}, "shop"},
		{"unknown shop", NewToken{Name: "a", Shops: []string{"nowhere"}}, "shop"},
	}
	for _, tt := range tests {
		_, _, err := s.AddToken(t.Context(), models.Actor{}, tt.in)
		var e *models.Error
		if models.CodeOf(err) != models.Invalid || !as(err, &e) || e.Fields[tt.field] == "" {
			t.Errorf("%s: %v, want %s refused", tt.name, err, tt.field)
		}
	}
	if _, _, err := s.AddToken(t.Context(), models.Actor{}, NewToken{Name: "same"}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.AddToken(t.Context(), models.Actor{}, NewToken{Name: "same"}); models.CodeOf(err) != models.Conflict {
		t.Errorf("the same name twice: %v", err)
	}
}

func TestTokensDie(t *testing.T) {
	t.Parallel()
	s, st, c := open(t)
	add(t, s, "wing@shop.example", models.Manager)
	text := func(in NewToken) string {
		t.Helper()
		text, _, err := s.AddToken(t.Context(), models.Actor{}, in)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	dead := func(name, text string) {
		t.Helper()
		if _, err := s.Token(t.Context(), text); models.CodeOf(err) != models.Unauthenticated {
			t.Errorf("%s: %v", name, err)
		}
	}
	short, revoked, hers := text(NewToken{Name: "short", Age: time.Hour}), text(NewToken{Name: "revoked"}), text(NewToken{Name: "hers", User: "wing@shop.example"})
	approve := text(NewToken{Name: "approve", User: "wing@shop.example", Scopes: []models.Scope{models.ScopeRead, models.ScopeApprove}, Age: 90 * 24 * time.Hour})
	dead("unknown", "cf_"+strings.Repeat("x", 43))
	dead("without prefix", strings.TrimPrefix(short, "cf_"))
	if err := s.RevokeToken(t.Context(), models.Actor{}, "revoked"); err != nil {
		t.Fatal(err)
	}
	if err := s.RevokeToken(t.Context(), models.Actor{}, "revoked"); err != nil {
		t.Errorf("revoking twice: %v", err)
	}
	if err := s.RevokeToken(t.Context(), models.Actor{}, "never made"); models.CodeOf(err) != models.NotFound {
		t.Errorf("revoking nothing: %v", err)
	}
	dead("revoked", revoked)
	c.pass(time.Hour)
	dead("expired", short)
	if _, err := s.Token(t.Context(), approve); err != nil {
		t.Errorf("may approve, after an hour: %v", err)
	}
	c.pass(approveAge)
	dead("may approve, after twelve hours", approve)
	if _, err := st.SQL().ExecContext(t.Context(), `UPDATE staff SET role = 'auditor'`); err != nil {
		t.Fatal(err)
	}
	if actor, err := s.Token(t.Context(), hers); err != nil || actor.Role != models.Auditor || actor.May(models.OrdersResync) {
		t.Errorf("after her role shrank: %+v, %v", actor, err)
	}
	if err := s.Disable(t.Context(), models.Actor{}, "wing@shop.example"); err != nil {
		t.Fatal(err)
	}
	dead("of a disabled person", hers)
	tokens, err := s.Tokens(t.Context())
	if err != nil || len(tokens) != 4 || tokens[0].Name != "approve" || tokens[1].User == nil || tokens[2].Revoked.IsZero() || !tokens[2].Used.IsZero() || tokens[1].Used.IsZero() {
		t.Errorf("tokens = %+v, %v", tokens, err)
	}
}

func TestUseIsWrittenAtMostOnceASecond(t *testing.T) {
	t.Parallel()
	s, st, c := open(t)
	text, made, err := s.AddToken(t.Context(), models.Actor{}, NewToken{Name: "busy"})
	if err != nil {
		t.Fatal(err)
	}
	used := func() time.Time {
		t.Helper()
		if _, err := s.Token(t.Context(), text); err != nil {
			t.Fatal(err)
		}
		found, err := st.TokenByName(t.Context(), made.Name)
		if err != nil {
			t.Fatal(err)
		}
		return found.Used
	}
	first := used()
	c.pass(time.Second)
	if second := used(); !second.Equal(first) {
		t.Errorf("written again after a second: %s, %s", first, second)
	}
	c.pass(time.Millisecond)
	if third := used(); !third.Equal(c.now()) {
		t.Errorf("not written later: %s", third)
	}
}

func TestNoTokenExceedsItsPerson(t *testing.T) {
	t.Parallel()
	for _, limit := range models.Roles {
		for _, asked := range models.Roles {
			role, ok := within(limit, asked)
			for _, p := range models.Permissions {
				got := ok && models.ForTokens(p) && slices.Contains(models.Granted(p), role)
				if got && !(slices.Contains(models.Granted(p), limit) && slices.Contains(models.Granted(p), asked)) {
					t.Errorf("a %s token of a %s acts as %s and has %s", asked, limit, role, p)
				}
			}
		}
	}
}

func TestStoredPasswords(t *testing.T) {
	t.Parallel()
	s := New(nil, nil)
	stored, err := s.hash(t.Context(), password)
	if err != nil {
		t.Fatal(err)
	}
	for given, want := range map[string]bool{password: true, "another password": false, "": false} {
		if got, err := s.matches(t.Context(), stored, given); err != nil || got != want {
			t.Errorf("%q matches = %t, %v", given, got, err)
		}
	}
	if got, err := s.matches(t.Context(), s.decoy, password); err != nil || got {
		t.Errorf("the decoy matches = %t, %v", got, err)
	}
	for _, broken := range []string{"", "plain", "$argon2id$v=19$m=x$a$b", "$argon2id$v=19$m=1,t=1,p=1$!$!"} {
		if _, err := s.matches(t.Context(), broken, password); err == nil {
			t.Errorf("%q was read", broken)
		}
	}
}
