package actions

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"counterfoil/models"
	"counterfoil/models/seal"
	"counterfoil/models/store"
)

// A Setup is what an admin says of a destination.
type Setup struct {
	Shop       string // slug
	Kind       models.ActionKind
	Mode       models.DestinationMode
	URL        string
	Idempotent bool
	Hosts      []string
	Secret     string // empty: the one that is there stays
}

// SetDestination says where the actions of a kind of a shop go from now on. What was
// only watched until now stays watched. Its errors say in words what to do.
func SetDestination(ctx context.Context, s *store.Store, keys seal.Keys, actor string, in Setup) error {
	if err := in.check(); err != nil {
		return err
	}
	return s.Tx(ctx, func(tx *store.Tx) error {
		shop, err := tx.LockShop(ctx, in.Shop)
		if models.CodeOf(err) == models.NotFound {
			return fmt.Errorf("there is no shop %s: it comes with its first connection", in.Shop)
		}
		if err != nil {
			return err
		}
		before, err := tx.Destination(ctx, shop, in.Kind)
		if err != nil {
			return err
		}
		next := store.DestinationRow{Destination: models.Destination{Kind: in.Kind, Mode: in.Mode, URL: in.URL, Idempotent: in.Idempotent, Hosts: in.Hosts}, Secret: before.Secret}
		if in.Secret != "" {
			next.Secret = SealSecret(keys, shop, in.Kind, in.Secret)
		}
		if in.Mode == models.ByHTTP && next.Secret == nil {
			return errors.New(`a destination needs a signing secret: give it as JSON on standard input, {"secret": "…"}`)
		}
		return Apply(ctx, tx, actor, shop, before, next)
	})
}

// Apply sends the actions of a kind somewhere else from now on. The shop is locked,
// and before is where they go until now.
func Apply(ctx context.Context, tx *store.Tx, actor string, shop int64, before, next store.DestinationRow) error {
	if err := tx.SetDestination(ctx, shop, next); err != nil {
		return err
	}
	return tx.Audit(ctx, actor, "destination.set", "shop:"+strconv.FormatInt(shop, 10), describe(before), describe(next))
}

// SealSecret seals the signing secret of a destination for its place.
func SealSecret(keys seal.Keys, shop int64, kind models.ActionKind, secret string) []byte {
	return keys.Seal([]byte(secret), secretContext(shop, kind))
}

// describe says what a destination is for the audit trail, without its secret.
func describe(d store.DestinationRow) string {
	return fmt.Sprintf("kind=%s mode=%s url=%s idempotent=%t hosts=%s secret=%t", d.Kind, d.Mode, d.URL, d.Idempotent, strings.Join(d.Hosts, ","), d.Secret != nil)
}

// secretContext binds a sealed secret to its place.
func secretContext(shop int64, kind models.ActionKind) []byte {
	return []byte("destination\x00" + strconv.FormatInt(shop, 10) + "\x00" + string(kind))
}

// secretPrefix marks secrets whose bytes are written in base64.
const secretPrefix = "whsec_"

// openSecret gives the bytes that sign.
func (s *Actions) openSecret(shop int64, d store.DestinationRow) ([]byte, error) {
	plain, err := s.Keys.Open(d.Secret, secretContext(shop, d.Kind))
	if err != nil {
		return nil, fmt.Errorf("actions: the secret of the destination of %s can't be opened: %w", d.Kind, err)
	}
	return signingBytes(string(plain))
}

func signingBytes(secret string) ([]byte, error) {
	coded, ok := strings.CutPrefix(secret, secretPrefix)
	if !ok {
		return []byte(secret), nil
	}
	b, err := base64.StdEncoding.DecodeString(coded)
	if err != nil || len(b) == 0 {
		return nil, errors.New(said["secret"])
	}
	return b, nil
}

// said are what the command line says of a field that can't be used.
var said = map[string]string{
	"idempotent": "--idempotent and --allow-host say something about the address of --url",
	"url":        "--url must be an http or https address without user and fragment, for instance https://warehouse.example/instructions",
	"hosts":      "--allow-host is the name or the address of a host as it stands in --url, for instance warehouse.internal or 10.0.0.8",
	"secret":     "a secret that begins with whsec_ goes on in base64",
}

func (in Setup) check() error {
	switch bad := in.Faults(); {
	case len(bad) == 0:
		return nil
	case bad[0] == "kind":
		var kinds []string
		for _, k := range models.ActionKinds {
			kinds = append(kinds, string(k))
		}
		return fmt.Errorf("--kind must be one of %s", strings.Join(kinds, ", "))
	default:
		return errors.New(said[bad[0]])
	}
}

// plain tells whether an address is written in letters that everybody reads alike: none
// that hide, or turn what is shown around.
func plain(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' })
}

// Inner tells whether the address names a host of an inner network outright that no
// allowed host vouches for: it will never be called. What a name leads to is seen then.
func (in Setup) Inner() bool {
	u, err := url.Parse(in.URL)
	if err != nil || in.Mode != models.ByHTTP {
		return false
	}
	at, err := netip.ParseAddr(u.Hostname())
	return err == nil && !public(at) && !allowed(in.Hosts, u)
}

// Faults names the fields that can't be used. Whether an address belongs to an inner
// network is seen when it is called.
func (in Setup) Faults() []string {
	var bad []string
	if !slices.Contains(models.ActionKinds, in.Kind) {
		bad = append(bad, "kind")
	}
	if in.Mode != models.ByHTTP {
		if in.Idempotent || len(in.Hosts) > 0 {
			bad = append(bad, "idempotent")
		}
		return bad
	}
	u, err := url.Parse(in.URL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil || u.Fragment != "" || !plain(in.URL) {
		bad = append(bad, "url")
	}
	if slices.ContainsFunc(in.Hosts, func(h string) bool { return h == "" || strings.ContainsAny(h, "/@ ") || !plain(h) }) {
		bad = append(bad, "hosts")
	}
	if _, err := signingBytes(in.Secret); err != nil {
		bad = append(bad, "secret")
	}
	return bad
}
