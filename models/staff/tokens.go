package staff

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"counterfoil/models"
	"counterfoil/models/store"
)

// tokenPrefix lets people and secret scanners see whose token they found.
const tokenPrefix = "cf_"

const (
	tokenAge    = 90 * 24 * time.Hour
	maxTokenAge = 400 * 24 * time.Hour
	// approveAge is the longest life of a token that may approve: one shift.
	approveAge = 12 * time.Hour
	usedEvery  = time.Second
)

// A NewToken is an API token to be made.
type NewToken struct {
	Name   string
	Role   models.Role    // empty: the user's, or service
	User   string         // e-mail of whoever it acts for; empty: a service
	Shops  []string       // slugs; none: every shop (of that person)
	Scopes []models.Scope // none: read and write
	Age    time.Duration  // 0: 90 days
}

// AddToken makes a token and gives back its secret, which is shown once and never
// again. With a user it acts for that person, never beyond what they may; without,
// for a service. One that may approve needs a user and ends after 12 hours at most.
func (s *Service) AddToken(ctx context.Context, actor models.Actor, n NewToken) (string, store.Token, error) {
	t := store.Token{Name: strings.TrimSpace(n.Name), Role: n.Role, Scopes: n.Scopes}
	if len(t.Scopes) == 0 {
		t.Scopes = []models.Scope{models.ScopeRead, models.ScopeWrite}
	}
	if err := n.check(t); err != nil {
		return "", store.Token{}, err
	}
	var err error
	if t.Shops, err = s.shopIDs(ctx, n.Shops); err != nil {
		return "", store.Token{}, err
	}
	if t, err = s.owned(ctx, t, n.User); err != nil {
		return "", store.Token{}, err
	}
	age := n.Age
	if age == 0 {
		age = tokenAge
	}
	if slices.Contains(t.Scopes, models.ScopeApprove) {
		age = min(age, approveAge)
	}
	text := tokenPrefix + secret()
	err = s.store.Tx(ctx, func(tx *store.Tx) error {
		t.Created, t.Expires = tx.Now, tx.Now.Add(age)
		id, err := tx.AddToken(ctx, t, digest(text))
		if err != nil {
			return err
		}
		t.ID = id
		owner := "service"
		if t.User != nil {
			owner = who(t.User.ID)
		}
		return tx.Audit(ctx, actor.ID(), "token.add", fmt.Sprintf("token:%d", id), "",
			fmt.Sprintf("for %s role %s scopes %s shops %v until %s", owner, t.Role, list(t.Scopes), t.Shops, t.Expires.Format(time.RFC3339)))
	})
	if err != nil {
		return "", store.Token{}, fmt.Errorf("staff: add token: %w", err)
	}
	return text, t, nil
}

func (n NewToken) check(t store.Token) error {
	bad := map[string]string{}
	if t.Name == "" || len(t.Name) > maxName || !utf8.ValidString(t.Name) || strings.ContainsAny(t.Name, "\x00\r\n") {
		bad["name"] = "error.name"
	}
	if n.Role != "" && !slices.Contains(models.Roles, n.Role) {
		bad["role"] = "error.role"
	}
	for _, scope := range t.Scopes {
		if !slices.Contains(models.Scopes, scope) {
			bad["scope"] = "error.scope"
		}
	}
	if n.User == "" && slices.Contains(t.Scopes, models.ScopeApprove) {
		bad["scope"] = "error.approve_needs_user"
	}
	if n.Age < 0 || n.Age > maxTokenAge {
		bad["expires"] = "error.expires"
	}
	return invalidFields(bad)
}

// owned gives a token its user and refuses a role or a shop beyond the user's own.
func (s *Service) owned(ctx context.Context, t store.Token, email string) (store.Token, error) {
	if email == "" {
		if t.Role == "" {
			t.Role = models.Service
		}
		return t, nil
	}
	account, err := s.store.AccountByEmail(ctx, strings.ToLower(strings.TrimSpace(email)))
	if models.CodeOf(err) == models.NotFound || err == nil && !account.Disabled.IsZero() {
		return t, invalid("user", "error.staff_unknown")
	}
	if err != nil {
		return t, fmt.Errorf("staff: add token: %w", err)
	}
	if t.Role == "" {
		t.Role = account.Role
	}
	if t.Role == models.Service || !contains(account.Role, t.Role) {
		return t, invalid("role", "error.role_beyond_user")
	}
	for _, shop := range t.Shops {
		if !person(account).Sees(shop) {
			return t, invalid("shop", "error.shop_beyond_user")
		}
	}
	t.User = &account
	return t, nil
}

// Token finds whoever an API token acts for. An unknown, ended or revoked token, and
// one whose person is gone, is unauthenticated. It asks the database each time, so
// that a revoked token is dead at once.
func (s *Service) Token(ctx context.Context, text string) (models.Actor, error) {
	unknown := models.Fail(models.Unauthenticated, "error.unauthenticated")
	if !strings.HasPrefix(text, tokenPrefix) {
		return models.Actor{}, unknown
	}
	t, err := s.store.TokenByHash(ctx, digest(text))
	if models.CodeOf(err) == models.NotFound {
		return models.Actor{}, unknown
	}
	if err != nil {
		return models.Actor{}, fmt.Errorf("staff: token: %w", err)
	}
	now := s.store.Now()
	actor, alive := acting(t)
	if !alive || !t.Revoked.IsZero() || !now.Before(t.Expires) {
		return models.Actor{}, unknown
	}
	if now.Sub(t.Used) > usedEvery {
		if err := s.store.Tx(ctx, func(tx *store.Tx) error { return tx.UseToken(ctx, t.ID) }); err != nil {
			return models.Actor{}, fmt.Errorf("staff: token: %w", err)
		}
	}
	return actor, nil
}

// acting is what a token may at this moment: no more than its person, or a service,
// and no more than it was made for.
func acting(t store.Token) (models.Actor, bool) {
	if t.User == nil {
		role, ok := within(models.Service, t.Role)
		return models.Actor{TokenID: t.ID, Name: t.Name, Role: role, Shops: t.Shops, Scopes: t.Scopes}, ok
	}
	if !t.User.Disabled.IsZero() {
		return models.Actor{}, false
	}
	actor := person(*t.User)
	role, ok := within(actor.Role, t.Role)
	shops, some := shopsWithin(actor.Shops, t.Shops)
	actor.TokenID, actor.Role, actor.Shops, actor.Scopes = t.ID, role, shops, t.Scopes
	actor.Lead = actor.Lead && role == t.User.Role
	return actor, ok && some
}

// Tokens lists all tokens by name, without their secrets.
func (s *Service) Tokens(ctx context.Context) ([]store.Token, error) {
	tokens, err := s.store.Tokens(ctx)
	if err != nil {
		return nil, fmt.Errorf("staff: tokens: %w", err)
	}
	return tokens, nil
}

// RevokeToken ends a token by its name; one that is revoked already stays so.
func (s *Service) RevokeToken(ctx context.Context, actor models.Actor, name string) error {
	err := s.store.Tx(ctx, func(tx *store.Tx) error {
		t, err := tx.TokenByName(ctx, strings.TrimSpace(name))
		if err != nil {
			return err
		}
		done, err := tx.RevokeToken(ctx, t.ID)
		if err != nil || !done {
			return err
		}
		return tx.Audit(ctx, actor.ID(), "token.revoke", fmt.Sprintf("token:%d", t.ID), "", "")
	})
	if err != nil {
		return fmt.Errorf("staff: revoke token: %w", err)
	}
	return nil
}
