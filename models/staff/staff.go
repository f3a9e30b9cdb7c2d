// Package staff knows who works here, what they may do, and that it is really them:
// passwords, sessions, API tokens. Every change leaves its line in the audit trail.
package staff

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"counterfoil/models"
	"counterfoil/models/store"
)

// A Service signs people and programs in.
type Service struct {
	store  *store.Store
	key    []byte
	hashes chan struct{}
	decoy  string
}

// New makes the service. key makes the hashes under which failed sign-ins are
// counted, so that the table can't be searched for an address.
func New(s *store.Store, key []byte) *Service {
	return &Service{store: s, key: key, hashes: make(chan struct{}, hashesAtOnce), decoy: decoy()}
}

// secret makes 32 random bytes as text.
func secret() string {
	b := make([]byte, 32)
	_, _ = rand.Read(b) // never fails
	return base64.RawURLEncoding.EncodeToString(b)
}

// digest is how a session's or a token's secret is stored. It needs no slow hash:
// 32 random bytes can't be guessed.
func digest(secret string) []byte {
	sum := sha256.Sum256([]byte(secret))
	return sum[:]
}

// subject hashes what failed sign-ins are counted under.
func (s *Service) subject(kind string, parts ...string) string {
	mac := hmac.New(sha256.New, s.key)
	mac.Write([]byte(kind))
	for _, p := range parts {
		mac.Write([]byte{0})
		mac.Write([]byte(p))
	}
	return hex.EncodeToString(mac.Sum(nil)[:16])
}

func who(id int64) string { return fmt.Sprintf("staff:%d", id) }

// within is the role that somebody with the role limit has when asked to act in the
// role asked: the smaller of the two; false where neither contains the other, because
// no role says what they share.
func within(limit, asked models.Role) (models.Role, bool) {
	switch {
	case contains(asked, limit):
		return limit, true
	case contains(limit, asked):
		return asked, true
	}
	return "", false
}

// contains tells whether role a has every permission of role b that a token can have.
func contains(a, b models.Role) bool {
	for _, p := range models.Permissions {
		holders := models.Granted(p)
		if models.ForTokens(p) && slices.Contains(holders, b) && !slices.Contains(holders, a) {
			return false
		}
	}
	return true
}

// shopsWithin narrows the shops of a person to those of a token; empty means every
// shop on both sides. False where nothing is left.
func shopsWithin(person, token []int64) ([]int64, bool) {
	if len(person) == 0 {
		return token, true
	}
	if len(token) == 0 {
		return person, true
	}
	var both []int64
	for _, id := range token {
		if slices.Contains(person, id) {
			both = append(both, id)
		}
	}
	return both, len(both) > 0
}

// shopIDs looks up shops by slug and refuses unknown ones.
func (s *Service) shopIDs(ctx context.Context, slugs []string) ([]int64, error) {
	if len(slugs) == 0 {
		return nil, nil
	}
	slugs = slices.Compact(slices.Sorted(slices.Values(slugs)))
	ids, err := s.store.ShopsNamed(ctx, slugs)
	if err != nil {
		return nil, fmt.Errorf("staff: shops: %w", err)
	}
	if len(ids) != len(slugs) {
		return nil, invalid("shop", "error.shop_unknown")
	}
	return ids, nil
}

// invalid refuses one field of an input.
func invalid(field, key string) error {
	return &models.Error{Code: models.Invalid, Key: key, Fields: map[string]string{field: key}}
}

// list writes values for the audit trail.
func list[T ~string](values []T) string {
	parts := make([]string, len(values))
	for i, v := range values {
		parts[i] = string(v)
	}
	return strings.Join(parts, ",")
}
