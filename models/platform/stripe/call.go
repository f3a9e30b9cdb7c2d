package stripe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	"counterfoil/models"
	"counterfoil/models/platform"
)

// A trouble is an answer about one object that leaves the others untouched.
type trouble struct {
	absence models.Absence
	detail  string
}

func (t *trouble) Error() string { return "stripe: " + string(t.absence) + ": " + t.detail }

// A failure is Stripe's own account of what went wrong. Its message may hold what
// was sent, so only its fixed words are shown.
type failure struct {
	Type    string `json:"type"`
	Code    string `json:"code"`
	Message string `json:"message"`
	Param   string `json:"param"`
}

func failed(a platform.Answer) (failure, bool) {
	var body struct {
		Error *failure `json:"error"`
	}
	if json.Unmarshal(a.Body, &body) != nil || body.Error == nil {
		return failure{}, false
	}
	return *body.Error, true
}

// refused tells a lock on one object, which says nothing of the others, from a limit
// of the account. Both come with several statuses.
func refused(a platform.Answer) *platform.Outage {
	if a.Status != http.StatusConflict && a.Status != http.StatusBadRequest && a.Status != http.StatusTooManyRequests {
		return nil
	}
	switch f, _ := failed(a); f.Code {
	case "lock_timeout":
		return &platform.Outage{Detail: f.Code}
	case "rate_limit":
		return &platform.Outage{Throttled: true, After: platform.RetryAfter(a.Header, time.Now()), Detail: f.Code}
	}
	return nil
}

// get asks for one address and decodes the answer. Its error is an *Outage, a
// *trouble about this one object, or our own failure.
func (a *Adapter) get(ctx context.Context, account, path string, query url.Values, into any) error {
	_, err := a.answer(ctx, account, path, query, into)
	return err
}

func (a *Adapter) answer(ctx context.Context, account, path string, query url.Values, into any) (platform.Answer, error) {
	return a.call(ctx, http.MethodGet, account, path, query, into)
}

// call makes one call; what changes something carries its values in the body.
func (a *Adapter) call(ctx context.Context, method, account, path string, query url.Values, into any) (platform.Answer, error) {
	if !a.HasAPI() {
		return platform.Answer{}, errors.New("stripe: the connection has no API key")
	}
	address, form := a.base+path, ""
	switch {
	case method == http.MethodPost:
		form = query.Encode()
	case len(query) > 0:
		address += "?" + query.Encode()
	}
	ans, err := a.caller.Do(ctx, func(ctx context.Context) (*http.Request, error) {
		r, err := http.NewRequestWithContext(ctx, method, address, strings.NewReader(form))
		if err != nil {
			return nil, err
		}
		if form != "" {
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		}
		r.Header.Set("Authorization", "Bearer "+a.cfg.APIToken)
		r.Header.Set("Stripe-Version", a.version)
		switch {
		case a.own(account):
		case accountPattern.MatchString(account):
			r.Header.Set("Stripe-Account", account)
		default:
			r.Header.Set("Stripe-Context", account)
		}
		return r, nil
	})
	if err != nil {
		return ans, a.refused(ans, account, err)
	}
	if ans.Status != http.StatusOK {
		return ans, a.unreadable(ans)
	}
	if err := json.Unmarshal(ans.Body, into); err != nil {
		return ans, undecodable(err)
	}
	return ans, nil
}

var permissionPattern = regexp.MustCompile(`\brak_[a-z_]+\b`)

// refused adds Stripe's words to an outage. A connected account that took its access
// back is refused with 403 as well, but that is its own trouble, not the connection's.
func (a *Adapter) refused(ans platform.Answer, account string, err error) error {
	out, ok := errors.AsType[*platform.Outage](err)
	if !ok || ans.Status < 400 {
		return err
	}
	f, _ := failed(ans)
	if ans.Status == http.StatusForbidden && !a.own(account) && f.Code == "account_invalid" {
		return &trouble{absence: models.Unreadable, detail: "account_invalid"}
	}
	said := *out
	for _, word := range []string{ans.Header.Get("Stripe-Rate-Limited-Reason"), f.Code, permissionPattern.FindString(f.Message)} {
		if word != "" {
			said.Detail += ", " + clean(word)
		}
	}
	return &said
}

// unreadable judges an answer that isn't 200.
func (a *Adapter) unreadable(ans platform.Answer) error {
	f, ok := failed(ans)
	switch {
	case !ok:
		// Not Stripe's words: a proxy, or a wrong address. Nothing is known of the object.
		return &platform.Outage{Detail: fmt.Sprintf("status %d, not an answer of Stripe", ans.Status)}
	case ans.Status == http.StatusNotFound && (f.Code == "resource_missing" || f.Code == "not_found"):
		return &trouble{absence: models.Gone, detail: f.Code}
	}
	return &trouble{absence: models.Unreadable, detail: clean(fmt.Sprintf("status %d, %s", ans.Status, either(f.Code, f.Type)))}
}

// A shape is a field of another type than we rely on.
type shape struct{ path string }

func (s *shape) Error() string { return "stripe: unexpected type of " + s.path }

func undecodable(err error) error {
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return &shape{path: clean(wrong.Field)}
	}
	return &platform.Outage{Detail: "the answer isn't JSON", Err: err}
}

// pages bounds a list that belongs to one payment: 100 refunds a page are enough for
// any that is real.
const pages = 20

// all reads a list to its end. An entry that moves between two pages is taken once.
func all[T any](ctx context.Context, a *Adapter, account, path string, query url.Values, idOf func(T) string) ([]T, error) {
	var out []T
	seen := map[string]bool{}
	query.Set("limit", "100")
	for range pages {
		var page list[T]
		if err := a.get(ctx, account, path, query, &page); err != nil {
			return nil, err
		}
		for _, x := range page.Data {
			if !seen[idOf(x)] {
				seen[idOf(x)] = true
				out = append(out, x)
			}
		}
		if !page.HasMore || len(page.Data) == 0 {
			return out, nil
		}
		query.Set("starting_after", idOf(page.Data[len(page.Data)-1]))
	}
	return nil, &trouble{absence: models.Unreadable, detail: "the list doesn't end"}
}
