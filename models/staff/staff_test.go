package staff

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"counterfoil/models"
	"counterfoil/models/store"
	"counterfoil/models/store/storetest"
)

// clock is a time that a test moves.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

func open(t testing.TB) (*Service, *store.Store, *clock) {
	t.Helper()
	c := &clock{at: time.Date(2026, 11, 30, 14, 0, 0, 0, time.UTC)}
	s, err := store.Open(t.Context(), storetest.New(t), store.Options{Now: c.now, AuditKey: []byte("audit")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return New(s, []byte("key of the tests")), s, c
}

const password = "a long enough password"

func add(t testing.TB, s *Service, email string, role models.Role, shops ...string) {
	t.Helper()
	if _, err := s.AddAccount(t.Context(), models.Actor{}, NewAccount{Email: email, Name: "Somebody", Role: role, Password: password, Shops: shops}); err != nil {
		t.Fatal(err)
	}
}

func shop(t testing.TB, s *store.Store, slug string) int64 {
	t.Helper()
	var id int64
	err := s.Tx(t.Context(), func(tx *store.Tx) (err error) {
		id, err = tx.EnsureShop(t.Context(), slug, slug)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func verbs(t testing.TB, s *store.Store) []string {
	t.Helper()
	rows, err := s.SQL().QueryContext(t.Context(), `SELECT actor || ' ' || verb || ' ' || subject FROM audit ORDER BY id`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var all []string
	for rows.Next() {
		var v string
		if err := rows.Scan(&v); err != nil {
			t.Fatal(err)
		}
		all = append(all, v)
	}
	return all
}

func TestSignInGivesASessionThatEndsWithSignOut(t *testing.T) {
	t.Parallel()
	s, st, _ := open(t)
	add(t, s, "Wing@Shop.example", models.Support)
	token, err := s.SignIn(t.Context(), Attempt{Email: " wing@shop.EXAMPLE ", Password: password, Address: "192.0.2.1", Agent: "browser"})
	if err != nil {
		t.Fatal(err)
	}
	actor, err := s.Session(t.Context(), token)
	if err != nil || actor.Role != models.Support || actor.Email != "wing@shop.example" || actor.TokenID != 0 || len(actor.Shops) != 0 {
		t.Fatalf("session = %+v, %v", actor, err)
	}
	again, err := s.SignIn(t.Context(), Attempt{Email: "wing@shop.example", Password: password, Address: "192.0.2.1"})
	if err != nil || again == token {
		t.Fatalf("a second sign-in gave %q after %q: %v", again, token, err)
	}
	if err := s.SignOut(t.Context(), token); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Session(t.Context(), token); models.CodeOf(err) != models.Unauthenticated {
		t.Fatalf("after sign-out: %v", err)
	}
	if _, err := s.Session(t.Context(), again); err != nil {
		t.Fatalf("the other browser's session: %v", err)
	}
	if err := s.SignOut(t.Context(), token); err != nil {
		t.Fatalf("signing out twice: %v", err)
	}
	me := fmt.Sprintf("staff:%d", actor.StaffID)
	want := []string{"console staff.add " + me, me + " session.begin " + me, me + " session.begin " + me, me + " session.end " + me}
	if got := verbs(t, st); !slices.Equal(got, want) {
		t.Fatalf("audit = %q, want %q", got, want)
	}
}

func TestSessionsEnd(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		then func(t *testing.T, s *Service, c *clock, token string)
		ends bool
	}{
		{"in use within the idle time", func(t *testing.T, s *Service, c *clock, token string) {
			for range 8 {
				c.pass(sessionIdle - time.Minute)
				if c.now().Sub(time.Date(2026, 11, 30, 14, 0, 0, 0, time.UTC)) >= SessionAge {
					c.pass(-(sessionIdle - time.Minute))
					return
				}
				if _, err := s.Session(t.Context(), token); err != nil {
					t.Fatal(err)
				}
			}
		}, false},
		{"idle", func(_ *testing.T, _ *Service, c *clock, _ string) { c.pass(sessionIdle + time.Second) }, true},
		{"old", func(t *testing.T, s *Service, c *clock, token string) {
			for range 12 {
				c.pass(time.Hour)
				_, _ = s.Session(t.Context(), token)
			}
		}, true},
		{"account disabled", func(t *testing.T, s *Service, _ *clock, _ string) {
			if err := s.Disable(t.Context(), models.Actor{}, "wing@shop.example"); err != nil {
				t.Fatal(err)
			}
		}, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s, _, c := open(t)
			add(t, s, "wing@shop.example", models.Manager)
			token, err := s.SignIn(t.Context(), Attempt{Email: "wing@shop.example", Password: password, Address: "192.0.2.1"})
			if err != nil {
				t.Fatal(err)
			}
			tt.then(t, s, c, token)
			_, err = s.Session(t.Context(), token)
			if ended := models.CodeOf(err) == models.Unauthenticated; ended != tt.ends {
				t.Fatalf("session = %v, want ended %t", err, tt.ends)
			}
		})
	}
}

func TestEveryWrongSignInHasTheSameAnswer(t *testing.T) {
	t.Parallel()
	s, st, _ := open(t)
	add(t, s, "wing@shop.example", models.Support)
	add(t, s, "gone@shop.example", models.Support)
	if err := s.Disable(t.Context(), models.Actor{}, "gone@shop.example"); err != nil {
		t.Fatal(err)
	}
	for i, a := range []Attempt{
		{Email: "wing@shop.example", Password: "another password"},
		{Email: "nobody@shop.example", Password: password},
		{Email: "gone@shop.example", Password: password},
		{Email: "", Password: password},
		{Email: "wing@shop.example", Password: ""},
		{Email: "wing@shop.example", Password: strings.Repeat("x", maxPassword+1)},
		{Email: "w\x00ing@shop.example", Password: password},
	} {
		a.Address = fmt.Sprintf("192.0.2.%d", i)
		_, err := s.SignIn(t.Context(), a)
		if got, want := fmt.Sprint(err), models.Fail(models.Unauthenticated, "login.wrong").Error(); got != want {
			t.Errorf("%q: %v, want %v", a.Email, got, want)
		}
	}
	refused := 0
	for _, v := range verbs(t, st) {
		if strings.Contains(v, "session.refused") {
			refused++
		}
	}
	if refused != 3 {
		t.Errorf("%d refusals in the audit trail, want 3", refused)
	}
}

func TestFailuresCloseThePairAndNotTheColleague(t *testing.T) {
	t.Parallel()
	s, _, c := open(t)
	add(t, s, "wing@shop.example", models.Support)
	try := func(address, pass string) error {
		_, err := s.SignIn(t.Context(), Attempt{Email: "wing@shop.example", Password: pass, Address: address})
		return err
	}
	for range maxPair {
		if err := try("192.0.2.66", "wrong password"); models.CodeOf(err) != models.Unauthenticated {
			t.Fatal(err)
		}
	}
	if err := try("192.0.2.66", password); models.CodeOf(err) != models.Forbidden {
		t.Fatalf("the pair is still open: %v", err)
	}
	if err := try("192.0.2.7", password); err != nil {
		t.Fatalf("a colleague elsewhere is locked out: %v", err)
	}
	c.pass(failureWindow + time.Second)
	if err := try("192.0.2.66", password); err != nil {
		t.Fatalf("the pair stays closed: %v", err)
	}
}

func TestARightPasswordForgivesEarlierMistakes(t *testing.T) {
	t.Parallel()
	s, _, _ := open(t)
	add(t, s, "wing@shop.example", models.Support)
	for range 2 {
		for range maxPair - 1 {
			if _, err := s.SignIn(t.Context(), Attempt{Email: "wing@shop.example", Password: "mistyped", Address: "192.0.2.1"}); models.CodeOf(err) != models.Unauthenticated {
				t.Fatal(err)
			}
		}
		if _, err := s.SignIn(t.Context(), Attempt{Email: "wing@shop.example", Password: password, Address: "192.0.2.1"}); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAnAttackedAccountLeavesEachAddressOneTry(t *testing.T) {
	t.Parallel()
	s, st, _ := open(t)
	add(t, s, "wing@shop.example", models.Support)
	account := s.subject("account", "wing@shop.example")
	if _, err := st.SQL().ExecContext(t.Context(), `INSERT INTO sign_in_failures (subject, at) SELECT $1, $2 FROM generate_series(1, $3)`,
		account, st.Now(), attackedAccount); err != nil {
		t.Fatal(err)
	}
	bad := Attempt{Email: "wing@shop.example", Password: "a guess", Address: "192.0.2.5"}
	if _, err := s.SignIn(t.Context(), bad); models.CodeOf(err) != models.Unauthenticated {
		t.Fatalf("first guess: %v", err)
	}
	if _, err := s.SignIn(t.Context(), bad); models.CodeOf(err) != models.Forbidden {
		t.Fatalf("second guess: %v", err)
	}
	if _, err := s.SignIn(t.Context(), Attempt{Email: "wing@shop.example", Password: password, Address: "192.0.2.6"}); err != nil {
		t.Fatalf("the owner: %v", err)
	}
}

func TestAnAddressIsClosedForAllAccounts(t *testing.T) {
	t.Parallel()
	s, st, _ := open(t)
	add(t, s, "wing@shop.example", models.Support)
	if _, err := st.SQL().ExecContext(t.Context(), `INSERT INTO sign_in_failures (subject, at) SELECT $1, $2 FROM generate_series(1, $3)`,
		s.subject("address", "2001:db8::/64"), st.Now(), maxAddress); err != nil {
		t.Fatal(err)
	}
	for address, want := range map[string]models.Code{"2001:db8::1": models.Forbidden, "2001:db8::ffff": models.Forbidden, "2001:db8:0:1::1": ""} {
		_, err := s.SignIn(t.Context(), Attempt{Email: "wing@shop.example", Password: password, Address: address})
		if want == "" && err != nil || want != "" && models.CodeOf(err) != want {
			t.Errorf("%s: %v, want %q", address, err, want)
		}
	}
}

func TestManyAtOnceDontPassTheLimit(t *testing.T) {
	t.Parallel()
	s, st, _ := open(t)
	add(t, s, "wing@shop.example", models.Support)
	subjects := store.SignInSubjects{Pair: s.subject("pair", "wing@shop.example", "192.0.2.1"), Address: s.subject("address", "192.0.2.1"), Account: s.subject("account", "wing@shop.example")}
	var wg sync.WaitGroup
	passed := make(chan struct{}, 40)
	for range 40 {
		wg.Go(func() {
			if _, err := s.countFirst(t.Context(), subjects); err == nil {
				passed <- struct{}{}
			}
		})
	}
	wg.Wait()
	if len(passed) != maxPair {
		t.Fatalf("%d attempts passed, want %d", len(passed), maxPair)
	}
	n, err := st.SignInFailures(t.Context(), subjects, st.Now().Add(-time.Hour))
	if err != nil || n != (store.SignInCount{Pair: maxPair, Address: maxPair, Account: maxPair}) {
		t.Fatalf("counted %+v, %v", n, err)
	}
}

func TestAccountsAreChecked(t *testing.T) {
	t.Parallel()
	s, st, _ := open(t)
	shop(t, st, "harbour")
	tests := []struct {
		name  string
		in    NewAccount
		code  models.Code
		field string
	}{
		{"no e-mail", NewAccount{Name: "A", Role: models.Support, Password: password}, models.Invalid, "email"},
		{"no name", NewAccount{Email: "a@b.c", Role: models.Support, Password: password}, models.Invalid, "name"},
		{"a role of tokens", NewAccount{Email: "a@b.c", Name: "A", Role: models.Service, Password: password}, models.Invalid, "role"},
		{"an unknown role", NewAccount{Email: "a@b.c", Name: "A", Role: "boss", Password: password}, models.Invalid, "role"},
		{"a manager as lead", NewAccount{Email: "a@b.c", Name: "A", Role: models.Manager, Lead: true, Password: password}, models.Invalid, "grant"},
		{"a short password", NewAccount{Email: "a@b.c", Name: "A", Role: models.Support, Password: "short"}, models.Invalid, "password"},
		{"an unknown shop", NewAccount{Email: "a@b.c", Name: "A", Role: models.Support, Password: password, Shops: []string{"harbour", "nowhere"}}, models.Invalid, "shop"},
		{"good", NewAccount{Email: "a@b.c", Name: "A", Role: models.Support, Lead: true, Shops: []string{"harbour", "harbour"}}, "", ""},
		{"twice", NewAccount{Email: "A@B.c", Name: "A", Role: models.Support}, models.Conflict, ""},
	}
	for _, tt := range tests {
		pass, err := s.AddAccount(t.Context(), models.Actor{}, tt.in)
		if tt.code == "" {
			if err != nil || len(pass) < minPassword {
				t.Errorf("%s: %q, %v", tt.name, pass, err)
			}
			token, err := s.SignIn(t.Context(), Attempt{Email: "a@b.c", Password: pass, Address: "192.0.2.1"})
			if err != nil {
				t.Fatal(err)
			}
			actor, err := s.Session(t.Context(), token)
			if err != nil || !actor.Lead || len(actor.Shops) != 1 {
				t.Errorf("%s: actor %+v, %v", tt.name, actor, err)
			}
			continue
		}
		var e *models.Error
		if models.CodeOf(err) != tt.code || tt.field != "" && (!as(err, &e) || e.Fields[tt.field] == "") {
			t.Errorf("%s: %v, want %s of %s", tt.name, err, tt.code, tt.field)
		}
	}
}
