package staff

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"time"
	"unicode/utf8"

	"counterfoil/models"
	"counterfoil/models/store"
)

// An Attempt is somebody at the sign-in page.
type Attempt struct {
	Email    string
	Password string
	Address  string // of the client
	Agent    string // the browser's name for itself
}

// Failed sign-ins are counted over a quarter of an hour.
const (
	failureWindow = 15 * time.Minute
	// maxPair failures for one account from one address close that pair.
	maxPair = 5
	// maxAddress failures from one address close it; an office shares one.
	maxAddress = 50
	// attackedAccount failures for one account, from wherever, leave each address a
	// single try for it. Its owner, from an address of their own, still gets in.
	attackedAccount = 50
)

// How long a browser stays signed in: a long shift, and shorter when nobody is there.
const (
	SessionAge  = 12 * time.Hour
	sessionIdle = 2 * time.Hour
	seenEvery   = time.Minute
)

const maxAgent = 200

// SignIn checks e-mail and password and begins a session, whose token it returns.
// Whatever is wrong (unknown, disabled, another password) is unauthenticated, with
// the same sentence after the same time; too many failures are forbidden
// (login.too_many), judged without looking at the account.
func (s *Service) SignIn(ctx context.Context, a Attempt) (token string, err error) {
	email := strings.ToLower(strings.TrimSpace(a.Email))
	if email == "" || len(email) > maxEmail || !utf8.ValidString(email) || strings.Contains(email, "\x00") || a.Password == "" || len(a.Password) > maxPassword {
		return "", models.Fail(models.Unauthenticated, "login.wrong")
	}
	address := network(a.Address)
	subjects := store.SignInSubjects{Pair: s.subject("pair", email, address), Address: s.subject("address", address), Account: s.subject("account", email)}
	counted, err := s.countFirst(ctx, subjects)
	if err != nil {
		return "", err
	}
	account, ok, err := s.check(ctx, email, a.Password)
	if err != nil {
		return "", err
	}
	if !ok {
		return "", s.refuse(ctx, account)
	}
	token = secret()
	err = s.store.Tx(ctx, func(tx *store.Tx) error {
		if err := tx.ForgiveSignIn(ctx, subjects, counted); err != nil {
			return err
		}
		if err := tx.AddSession(ctx, digest(token), account.ID, tx.Now.Add(SessionAge), cut(a.Agent, maxAgent)); err != nil {
			return err
		}
		return tx.Audit(ctx, who(account.ID), "session.begin", who(account.ID), "", "")
	})
	if err != nil {
		return "", fmt.Errorf("staff: sign in: %w", err)
	}
	return token, nil
}

// countFirst counts the attempt as failed before the password is looked at, so that
// attempts at once can't all pass the limit.
func (s *Service) countFirst(ctx context.Context, subjects store.SignInSubjects) (counted time.Time, err error) {
	err = s.store.Tx(ctx, func(tx *store.Tx) error {
		if err := tx.LockSignIns(ctx, subjects); err != nil {
			return err
		}
		since := tx.Now.Add(-failureWindow)
		n, err := tx.SignInFailures(ctx, subjects, since)
		if err != nil {
			return err
		}
		if n.Pair >= maxPair || n.Address >= maxAddress || n.Account >= attackedAccount && n.Pair >= 1 {
			return models.Fail(models.Forbidden, "login.too_many", int(failureWindow/time.Minute))
		}
		counted = tx.Now
		return tx.CountSignIn(ctx, subjects, since)
	})
	if err != nil {
		return time.Time{}, fmt.Errorf("staff: sign in: %w", err)
	}
	return counted, nil
}

// check looks for the account and tries the password, a decoy's where there is none.
func (s *Service) check(ctx context.Context, email, password string) (store.Account, bool, error) {
	account, err := s.store.AccountByEmail(ctx, email)
	known := err == nil
	if err != nil && models.CodeOf(err) != models.NotFound {
		return store.Account{}, false, fmt.Errorf("staff: sign in: %w", err)
	}
	stored := account.Password
	if !known {
		stored = s.decoy
	}
	right, err := s.matches(ctx, stored, password)
	if err != nil {
		return store.Account{}, false, err
	}
	return account, known && right && account.Disabled.IsZero(), nil
}

// refuse records the failure and gives the one answer that all failures have.
func (s *Service) refuse(ctx context.Context, account store.Account) error {
	err := s.store.Tx(ctx, func(tx *store.Tx) error {
		return tx.Audit(ctx, models.Actor{}.ID(), "session.refused", who(account.ID), "", "")
	})
	if err != nil {
		return fmt.Errorf("staff: sign in: %w", err)
	}
	return models.Fail(models.Unauthenticated, "login.wrong")
}

// Session finds the person behind a browser's token, with the role and shops that
// they have now. An ended or idle session, and a disabled account, are unauthenticated.
func (s *Service) Session(ctx context.Context, token string) (models.Actor, error) {
	hash := digest(token)
	found, err := s.store.SessionByToken(ctx, hash)
	if err != nil {
		if models.CodeOf(err) == models.NotFound {
			return models.Actor{}, models.Fail(models.Unauthenticated, "error.unauthenticated")
		}
		return models.Actor{}, fmt.Errorf("staff: session: %w", err)
	}
	now := s.store.Now()
	if !now.Before(found.Expires) || now.Sub(found.Seen) > sessionIdle || !found.Account.Disabled.IsZero() {
		return models.Actor{}, models.Fail(models.Unauthenticated, "error.unauthenticated")
	}
	if now.Sub(found.Seen) > seenEvery {
		if err := s.store.Tx(ctx, func(tx *store.Tx) error { return tx.SeeSession(ctx, hash) }); err != nil {
			return models.Actor{}, fmt.Errorf("staff: session: %w", err)
		}
	}
	return person(found.Account), nil
}

// SignOut ends a session; one that has ended already is no error.
func (s *Service) SignOut(ctx context.Context, token string) error {
	err := s.store.Tx(ctx, func(tx *store.Tx) error {
		id, err := tx.EndSession(ctx, digest(token))
		if err != nil || id == 0 {
			return err
		}
		return tx.Audit(ctx, who(id), "session.end", who(id), "", "")
	})
	if err != nil {
		return fmt.Errorf("staff: sign out: %w", err)
	}
	return nil
}

func person(a store.Account) models.Actor {
	return models.Actor{StaffID: a.ID, Name: a.Name, Email: a.Email, Role: a.Role, Lead: a.Lead, Shops: a.Shops, Locale: a.Locale}
}

// network is what an address is counted as: itself, or its /64 where a client has
// that many to choose from.
func network(address string) string {
	a, err := netip.ParseAddr(address)
	if err != nil {
		return ""
	}
	a = a.Unmap().WithZone("")
	if a.Is4() {
		return a.String()
	}
	p, err := a.Prefix(64)
	if err != nil {
		return ""
	}
	return p.String()
}

// cut shortens text to at most n bytes of whole letters that Postgres can store.
func cut(text string, n int) string {
	text = strings.ToValidUTF8(strings.ReplaceAll(text, "\x00", ""), "")
	if len(text) > n {
		text = strings.ToValidUTF8(text[:n], "")
	}
	return text
}
