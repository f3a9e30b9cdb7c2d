package staff

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"counterfoil/models"
	"counterfoil/models/store"
)

const (
	maxEmail = 254
	maxName  = 100
)

// A NewAccount is a member of staff to be added.
type NewAccount struct {
	Email    string
	Name     string
	Role     models.Role
	Lead     bool
	Shops    []string // slugs; none: every shop
	Password string   // empty: one is made
}

// AddAccount adds a member of staff and gives back the password, which is shown once
// and never again. An address that exists already is a conflict.
func (s *Service) AddAccount(ctx context.Context, actor models.Actor, n NewAccount) (password string, err error) {
	n.Email, n.Name = strings.ToLower(strings.TrimSpace(n.Email)), strings.TrimSpace(n.Name)
	if n.Password == "" {
		n.Password = generate()
	}
	if err := n.check(); err != nil {
		return "", err
	}
	shops, err := s.shopIDs(ctx, n.Shops)
	if err != nil {
		return "", err
	}
	hashed, err := s.hash(ctx, n.Password)
	if err != nil {
		return "", err
	}
	err = s.store.Tx(ctx, func(tx *store.Tx) error {
		id, err := tx.AddAccount(ctx, store.Account{Email: n.Email, Name: n.Name, Role: n.Role, Lead: n.Lead, Password: hashed, Shops: shops})
		if err != nil {
			return err
		}
		return tx.Audit(ctx, actor.ID(), "staff.add", who(id), "", fmt.Sprintf("role %s lead %t shops %v", n.Role, n.Lead, shops))
	})
	if err != nil {
		return "", fmt.Errorf("staff: add: %w", err)
	}
	return n.Password, nil
}

func (n NewAccount) check() error {
	bad := map[string]string{}
	if name, host, ok := strings.Cut(n.Email, "@"); !ok || name == "" || host == "" || len(n.Email) > maxEmail || !utf8.ValidString(n.Email) || strings.ContainsAny(n.Email, " \t\r\n\x00") {
		bad["email"] = "error.email"
	}
	if n.Name == "" || len(n.Name) > maxName || !utf8.ValidString(n.Name) || strings.Contains(n.Name, "\x00") {
		bad["name"] = "error.name"
	}
	if n.Role == models.Service || !slices.Contains(models.Roles, n.Role) {
		bad["role"] = "error.role"
	}
	if n.Lead && n.Role != models.Support {
		bad["grant"] = "error.lead_role"
	}
	if len(n.Password) < minPassword || len(n.Password) > maxPassword {
		bad["password"] = "error.password_length"
	}
	return invalidFields(bad)
}

// invalidFields refuses an input for the first of its bad fields, naming all.
func invalidFields(bad map[string]string) error {
	if len(bad) == 0 {
		return nil
	}
	fields := make([]string, 0, len(bad))
	for f := range bad {
		fields = append(fields, f)
	}
	return &models.Error{Code: models.Invalid, Key: bad[slices.Min(fields)], Fields: bad}
}

// Disable closes an account: its sessions end and its tokens are dead from now on.
func (s *Service) Disable(ctx context.Context, actor models.Actor, email string) error {
	err := s.store.Tx(ctx, func(tx *store.Tx) error {
		account, err := tx.AccountByEmail(ctx, strings.ToLower(strings.TrimSpace(email)))
		if err != nil {
			return err
		}
		done, err := tx.DisableAccount(ctx, account.ID)
		if err != nil || !done {
			return err
		}
		return tx.Audit(ctx, actor.ID(), "staff.disable", who(account.ID), "", "")
	})
	if err != nil {
		return fmt.Errorf("staff: disable: %w", err)
	}
	return nil
}
