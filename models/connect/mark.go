package connect

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"strings"

	"counterfoil/models/platform"
	"counterfoil/models/store"
)

// Accept seals a further webhook secret of a connection, in a transaction that holds
// the connection. The ones that are there stay accepted.
func (b *Book) Accept(ctx context.Context, tx *store.Tx, c *Conn, secret string) error {
	fp := Fingerprint(secret)
	if err := b.alone(c.ConnectionRow, []string{fp}); err != nil {
		return err
	}
	return tx.AddSecret(ctx, c.ID, fp, b.keys.Seal([]byte(secret), secretContext(c.Slug, fp)))
}

// mark tells whether what a check of the connection rests on has changed: address,
// credentials, secrets, API version. It tells nothing of them by itself.
func (b *Book) mark(cfg platform.Config, fingerprints []string) string {
	mac := hmac.New(sha256.New, b.keys.Derive("connection marks"))
	for _, part := range []string{cfg.Account, cfg.APIURL, cfg.Settings["api_version"], cfg.APIToken, cfg.ClientID, cfg.ClientSecret, cfg.UserName, cfg.Password, strings.Join(fingerprints, ",")} {
		fmt.Fprintf(mac, "%d:%s", len(part), part)
	}
	return hex.EncodeToString(mac.Sum(nil)[:16])
}

// WithVersion is the connection's adapter in another API version, for trying it.
func (b *Book) WithVersion(c *Conn, version string) (platform.Adapter, error) {
	cfg := c.config
	cfg.Settings = maps.Clone(c.Set)
	cfg.Settings["api_version"] = version
	return b.makers[c.Platform](cfg)
}
