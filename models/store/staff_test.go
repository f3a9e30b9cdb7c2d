package store_test

import (
	"slices"
	"testing"
	"time"

	"counterfoil/models"
	"counterfoil/models/store"
	"counterfoil/models/store/storetest"
)

// staffStore is a store with one shop and one person of it.
func staffStore(t testing.TB, now func() time.Time) (s *store.Store, shop, person int64) {
	t.Helper()
	s, err := store.Open(t.Context(), storetest.New(t), store.Options{Now: now, AuditKey: []byte("audit")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	err = s.Tx(t.Context(), func(tx *store.Tx) (err error) {
		if shop, err = tx.EnsureShop(t.Context(), "harbour", "Harbour"); err != nil {
			return err
		}
		person, err = tx.AddAccount(t.Context(), store.Account{Email: "wing@shop.example", Name: "Wing", Role: models.Support, Lead: true, Password: "hash", Shops: []int64{shop}})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return s, shop, person
}

func TestAccountsAndSessionsComeBackAsWritten(t *testing.T) {
	t.Parallel()
	s, shop, person := staffStore(t, nil)
	want := store.Account{ID: person, Email: "wing@shop.example", Name: "Wing", Role: models.Support, Lead: true, Password: "hash", Shops: []int64{shop}}
	got, err := s.AccountByEmail(t.Context(), want.Email)
	if err != nil || !slices.Equal(got.Shops, want.Shops) || got.Password != want.Password || got.ID != want.ID || !got.Lead || got.Role != want.Role {
		t.Fatalf("account = %+v, %v", got, err)
	}
	// A hash with bytes that text can't hold.
	hash, expires := []byte{0, 0xff, '\'', 3}, s.Now().Add(time.Hour)
	if err := s.Tx(t.Context(), func(tx *store.Tx) error { return tx.AddSession(t.Context(), hash, person, expires, "browser") }); err != nil {
		t.Fatal(err)
	}
	session, err := s.SessionByToken(t.Context(), hash)
	if err != nil || session.Account.ID != person || !slices.Equal(session.Account.Shops, want.Shops) || !session.Expires.Equal(expires) {
		t.Fatalf("session = %+v, %v", session, err)
	}
	for _, whose := range []int64{person, 0} {
		err := s.Tx(t.Context(), func(tx *store.Tx) error {
			id, err := tx.EndSession(t.Context(), hash)
			if id != whose {
				t.Errorf("ended the session of %d, want %d", id, whose)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.SessionByToken(t.Context(), hash); models.CodeOf(err) != models.NotFound {
		t.Errorf("after its end: %v", err)
	}
}

func TestTokensComeBackAsWritten(t *testing.T) {
	t.Parallel()
	s, shop, person := staffStore(t, nil)
	expires := s.Now().Add(time.Hour)
	hash := map[string][]byte{"hers": {0, 1}, "service": {0, 2}}
	for name, in := range map[string]store.Token{
		"hers":    {Role: models.Support, User: &store.Account{ID: person}, Scopes: []models.Scope{models.ScopeRead, models.ScopeApprove}, Shops: []int64{shop}, Expires: expires},
		"service": {Role: models.Service, Scopes: []models.Scope{models.ScopeMetrics}, Expires: expires},
	} {
		in.Name = name
		err := s.Tx(t.Context(), func(tx *store.Tx) error { _, err := tx.AddToken(t.Context(), in, hash[name]); return err })
		if err != nil {
			t.Fatal(err)
		}
		got, err := s.TokenByHash(t.Context(), hash[name])
		if err != nil || got.Name != name || got.Role != in.Role || !slices.Equal(got.Scopes, in.Scopes) || !slices.Equal(got.Shops, in.Shops) || !got.Expires.Equal(expires) || !got.Used.IsZero() {
			t.Errorf("%s = %+v, %v", name, got, err)
		}
		if (got.User != nil) != (in.User != nil) || got.User != nil && (got.User.ID != person || !slices.Equal(got.User.Shops, []int64{shop})) {
			t.Errorf("%s acts for %+v", name, got.User)
		}
	}
	err := s.Tx(t.Context(), func(tx *store.Tx) error {
		_, err := tx.AddToken(t.Context(), store.Token{Name: "no user", Role: models.Service, Scopes: []models.Scope{models.ScopeApprove}, Expires: expires}, []byte{3})
		return err
	})
	if err == nil {
		t.Error("the schema let a service approve")
	}
}

func TestFailuresAreForgotten(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 30, 14, 0, 0, 0, time.UTC)
	s, _, _ := staffStore(t, func() time.Time { return now })
	subjects := store.SignInSubjects{Pair: "p", Address: "a", Account: "c"}
	fail := func() {
		t.Helper()
		if err := s.Tx(t.Context(), func(tx *store.Tx) error { return tx.CountSignIn(t.Context(), subjects, now.Add(-time.Minute)) }); err != nil {
			t.Fatal(err)
		}
	}
	fail()
	now = now.Add(2 * time.Minute)
	fail()
	n, err := s.SignInFailures(t.Context(), subjects, now.Add(-time.Hour))
	if want := (store.SignInCount{Pair: 1, Address: 1, Account: 1}); err != nil || n != want {
		t.Errorf("counted %+v, %v; the old ones are still there", n, err)
	}
}
