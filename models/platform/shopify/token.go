package shopify

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"time"

	"counterfoil/models/platform"
)

// Tokens are renewed this long before they end: a night in which renewing fails
// costs nothing.
const renewAhead = 2 * time.Hour

// tokens keeps the access token of a shop: a static one, or one that is asked for
// with the client id and secret and ends after about 24 hours.
type tokens struct {
	a    *Adapter
	turn chan struct{} // held by whoever asks for a token; the others wait for its answer

	// Guarded by turn.
	value  string
	ends   time.Time // zero: never
	scopes []string  // as granted with the token; nil where nobody said
}

func newTokens(a *Adapter) *tokens {
	t := &tokens{a: a, turn: make(chan struct{}, 1)}
	if !t.renews() {
		t.value = a.cfg.APIToken
	}
	return t
}

func (t *tokens) renews() bool { return t.a.cfg.ClientID != "" }

// get answers a token that holds for a while. refused is a token that the platform
// didn't take, empty otherwise.
func (t *tokens) get(ctx context.Context, refused string) (string, error) {
	select {
	case t.turn <- struct{}{}:
	case <-ctx.Done():
		return "", &platform.Outage{Detail: "we stopped asking", Err: ctx.Err()}
	}
	defer func() { <-t.turn }()
	if !t.renews() {
		return t.value, nil
	}
	now := t.a.cfg.Now()
	usable := t.value != "" && t.value != refused && now.Before(t.ends)
	if usable && now.Before(t.ends.Add(-renewAhead)) {
		return t.value, nil
	}
	err := t.ask(ctx, now)
	if err != nil && !usable {
		return "", err
	}
	return t.value, nil
}

// ask makes the client credentials grant.
func (t *tokens) ask(ctx context.Context, now time.Time) error {
	form := url.Values{"grant_type": {"client_credentials"}, "client_id": {t.a.cfg.ClientID}, "client_secret": {t.a.cfg.ClientSecret}}.Encode()
	ans, err := t.a.caller.Do(ctx, func(ctx context.Context) (*http.Request, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, t.a.base+"/admin/oauth/access_token", strings.NewReader(form))
		if err != nil {
			return nil, err
		}
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		req.Header.Set("Accept", "application/json")
		return req, nil
	})
	if err != nil {
		return err
	}
	var got struct {
		Token   string  `json:"access_token"`
		Scope   string  `json:"scope"`
		Expires float64 `json:"expires_in"`
	}
	if ans.Status != http.StatusOK || json.Unmarshal(ans.Body, &got) != nil || got.Token == "" {
		return &platform.Outage{Denied: true, Detail: "no access token: " + http.StatusText(ans.Status)}
	}
	if got.Expires <= 0 || got.Expires > 10*365*86400 {
		got.Expires = 86400
	}
	t.value, t.ends = got.Token, now.Add(time.Duration(got.Expires*float64(time.Second)))
	t.scopes = splitScopes(got.Scope)
	return nil
}

// granted are the scopes that came with the token; nil where nobody said.
func (t *tokens) granted(ctx context.Context) []string {
	select {
	case t.turn <- struct{}{}:
	case <-ctx.Done():
		return nil
	}
	defer func() { <-t.turn }()
	return t.scopes
}

func (t *tokens) learned(scopes []string) {
	t.turn <- struct{}{}
	t.scopes = scopes
	<-t.turn
}

func splitScopes(s string) []string {
	var out []string
	for _, w := range strings.FieldsFunc(s, func(r rune) bool { return r == ',' || r == ' ' }) {
		out = append(out, printable(w, 80))
	}
	return out
}
