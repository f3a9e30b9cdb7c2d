package receiptroller

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"counterfoil/models/platform"
)

// An access holds the token of a connection: one that an admin set, or one that a
// login fetched and that is kept until shortly before its end.
type access struct {
	fixed          string
	user, password string
	life           time.Duration // asked for at login
	// gate is held by whoever looks at the token or fetches one, so that many callers
	// make one login; a channel, so that a caller who gives up needn't wait.
	gate  chan struct{}
	token *ticket
}

// A ticket is a fetched token.
type ticket struct {
	token string
	renew time.Time
}

func newAccess(cfg platform.Config, life time.Duration) access {
	return access{fixed: cfg.APIToken, user: cfg.UserName, password: cfg.Password, life: life, gate: make(chan struct{}, 1), token: &ticket{}}
}

func (s access) possible() bool { return s.fixed != "" || s.user != "" }

// renewal is how long before its end a token is replaced.
func renewal(left time.Duration) time.Duration { return min(5*time.Minute, left/10) }

// bearer is the token to call with. refused is one that the platform has just turned
// away: it is replaced, unless somebody else was faster.
func (a *Adapter) bearer(ctx context.Context, refused string) (string, error) {
	s := a.access
	if s.fixed != "" {
		return s.fixed, nil
	}
	if s.user == "" {
		return "", &platform.Outage{Denied: true, Detail: "no API access is set up"}
	}
	select {
	case s.gate <- struct{}{}:
		defer func() { <-s.gate }()
	case <-ctx.Done():
		return "", &platform.Outage{Detail: "we stopped asking", Err: ctx.Err()}
	}
	if s.token.token != "" && s.token.token != refused && a.now().Before(s.token.renew) {
		return s.token.token, nil
	}
	fresh, err := a.login(ctx)
	if err != nil {
		return "", err
	}
	*s.token = fresh
	return fresh.token, nil
}

// login fetches a token. A refused login was answered 400 in older versions of the
// API and is 401 today.
func (a *Adapter) login(ctx context.Context) (ticket, error) {
	asked := a.now().Add(a.access.life).UTC()
	body, err := json.Marshal(map[string]string{"userName": a.access.user, "password": a.access.password, "expire": asked.Format("2006-01-02T15:04:05.000Z")})
	if err != nil {
		return ticket{}, fmt.Errorf("receiptroller: login: %w", err)
	}
	answer, err := a.caller.Do(ctx, a.request(http.MethodPost, "/account/login", body, ""))
	if err != nil {
		return ticket{}, err
	}
	if answer.Status != http.StatusOK {
		return ticket{}, &platform.Outage{Denied: answer.Status == http.StatusBadRequest, Detail: fmt.Sprintf("login: status %d", answer.Status)}
	}
	reply := placeOf("", answer.Body)
	token := find([]place{reply}, "token")
	if token.text == "" {
		return ticket{}, &platform.Outage{Detail: "login: the answer holds no token"}
	}
	// An end that can't be read, or has passed by our clock, is no end: the token is
	// used until the platform turns it away.
	now, end := a.now(), find([]place{reply}, "expire").time(time.UTC)
	if !end.After(now) {
		end = asked
	}
	return ticket{token: token.text, renew: end.Add(-renewal(end.Sub(now)))}, nil
}

// call makes one call with our token, and once more with a new one where a fetched
// token was turned away. It answers 2xx and those 4xx that speak of one object.
func (a *Adapter) call(ctx context.Context, method, path string, body []byte) (platform.Answer, error) {
	refused := ""
	for {
		token, err := a.bearer(ctx, refused)
		if err != nil {
			return platform.Answer{}, err
		}
		answer, err := a.caller.Do(ctx, a.request(method, path, body, token))
		out, isOutage := errors.AsType[*platform.Outage](err)
		if isOutage && out.Denied && answer.Status == http.StatusUnauthorized && a.access.fixed == "" && refused == "" {
			refused = token
			continue
		}
		if err == nil && answer.Status >= 300 && answer.Status < 400 {
			err = &platform.Outage{Detail: fmt.Sprintf("status %d, which we don't follow", answer.Status)}
		}
		return answer, err
	}
}

// request builds a request anew for each try.
func (a *Adapter) request(method, path string, body []byte, token string) func(context.Context) (*http.Request, error) {
	return func(ctx context.Context) (*http.Request, error) {
		req, err := http.NewRequestWithContext(ctx, method, a.base+path, bytes.NewReader(body))
		if err != nil {
			return nil, err
		}
		req.Header.Set("Accept", "application/json")
		if body != nil {
			req.Header.Set("Content-Type", "application/json")
		}
		if token != "" {
			req.Header.Set("Authorization", "Bearer "+token)
		}
		return req, nil
	}
}
