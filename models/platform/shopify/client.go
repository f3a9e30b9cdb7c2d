package shopify

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"time"

	"counterfoil/models/platform"
)

// A reply is what the GraphQL endpoint answered.
type reply struct {
	Data       json.RawMessage `json:"data"`
	Errors     gqlErrors       `json:"errors"`
	Extensions struct {
		Cost   *callCost `json:"cost"`
		Search []struct {
			Warnings []struct {
				Field   string `json:"field"`
				Message string `json:"message"`
			} `json:"warnings"`
		} `json:"search"`
	} `json:"extensions"`
	version string // that the platform really spoke
}

type callCost struct {
	Requested float64 `json:"requestedQueryCost"`
	Status    struct {
		Maximum   float64 `json:"maximumAvailable"`
		Available float64 `json:"currentlyAvailable"`
		Restore   float64 `json:"restoreRate"`
	} `json:"throttleStatus"`
}

type gqlError struct {
	Message    string `json:"message"`
	Path       []any  `json:"path"`
	Extensions struct {
		Code      string `json:"code"`
		TypeName  string `json:"typeName"`
		FieldName string `json:"fieldName"`
	} `json:"extensions"`
}

// gqlErrors is a list; some refusals have a bare sentence in its place.
type gqlErrors []gqlError

func (e *gqlErrors) UnmarshalJSON(b []byte) error {
	var all []gqlError
	var one string
	switch {
	case json.Unmarshal(b, &all) == nil:
		*e = all
	case json.Unmarshal(b, &one) == nil:
		*e = gqlErrors{{Message: one}}
	case string(b) != "null":
		*e = gqlErrors{{Message: "unreadable error"}}
	}
	return nil
}

// Codes of errors, as documented.
const (
	codeThrottled = "THROTTLED"
	codeTooDear   = "MAX_COST_EXCEEDED"
	codeDenied    = "ACCESS_DENIED"
	codeInternal  = "INTERNAL_SERVER_ERROR"
	codeInactive  = "SHOP_INACTIVE"
	codeUndefined = "undefinedField"
)

var noSuchField = regexp.MustCompile(`Field '(\w+)' doesn't exist on type '(\w+)'`)

// has tells whether an error has the code.
func (e gqlErrors) has(code string) bool {
	for _, x := range e {
		if x.code() == code {
			return true
		}
	}
	return false
}

// code is the error's code; answers for unknown fields are known by their sentence too.
func (x gqlError) code() string {
	if x.Extensions.Code == "" && noSuchField.MatchString(x.Message) {
		return codeUndefined
	}
	return x.Extensions.Code
}

// undefined names the field that the platform doesn't have.
func (x gqlError) undefined() (on, name string) {
	if x.Extensions.TypeName != "" && x.Extensions.FieldName != "" {
		return x.Extensions.TypeName, x.Extensions.FieldName
	}
	if m := noSuchField.FindStringSubmatch(x.Message); m != nil {
		return m[2], m[1]
	}
	return "", ""
}

// detail shows errors to staff: codes, else the platform's own sentence. Neither
// holds data of a person: we ask for none.
func (e gqlErrors) detail() string {
	if len(e) == 0 {
		return "no data"
	}
	if c := e[0].code(); c != "" {
		return printable(c, 80)
	}
	return printable(e[0].Message, 200)
}

// A bucket is what is left of the points that the shop gives us, as last answered.
type bucket struct {
	max, left, rate float64
	at              time.Time
}

// wait is how long until need points are there.
func (b bucket) wait(need float64, now time.Time) time.Duration {
	if b.rate <= 0 {
		return 0
	}
	left := b.left
	if since := now.Sub(b.at).Seconds(); since > 0 {
		left = min(b.max, left+since*b.rate)
	}
	if need = min(need, b.max); left >= need {
		return 0
	}
	return time.Duration((need - left) / b.rate * float64(time.Second))
}

// longestWait is how long a worker may be held for points; longer waits belong to the queue.
const longestWait = 2 * time.Second

// afford waits for the points of a query, or says when to come back.
func (a *Adapter) afford(ctx context.Context, need float64) error {
	a.mu.Lock()
	d := a.points.wait(need, a.cfg.Now())
	a.mu.Unlock()
	if d == 0 {
		return nil
	}
	if d > longestWait {
		return &platform.Outage{Throttled: true, After: d, Detail: "the shop's points are used up"}
	}
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return &platform.Outage{Throttled: true, After: d, Detail: "we stopped asking", Err: ctx.Err()}
	}
}

// throttled finds a throttle in an answer that otherwise looks fine, and when the
// points will be there again.
func (a *Adapter) throttled(ans platform.Answer) *platform.Outage {
	if !bytes.Contains(ans.Body, []byte(codeThrottled)) {
		return nil
	}
	var r reply
	if json.Unmarshal(ans.Body, &r) != nil || !r.Errors.has(codeThrottled) {
		return nil
	}
	after := platform.RetryAfter(ans.Header, a.cfg.Now())
	if c := r.Extensions.Cost; c != nil {
		s := c.Status
		after = max(after, bucket{max: max(s.Maximum, c.Requested), left: s.Available, rate: s.Restore}.wait(c.Requested, time.Time{}))
	}
	return &platform.Outage{Throttled: true, After: max(after, time.Second), Detail: "throttled"}
}

// ask makes one query. need is what it costs by our estimate, of what asks it and
// for how many objects. Errors in a 200 come back in the reply, except those that
// mean that nothing can be asked.
func (a *Adapter) ask(ctx context.Context, query string, vars map[string]any, need float64) (reply, error) {
	if a.token == nil {
		return reply{}, &platform.Outage{Denied: true, Detail: "no API access is set up"}
	}
	if err := a.afford(ctx, need); err != nil {
		return reply{}, err
	}
	var r reply
	for try := 0; ; try++ {
		ans, err := a.post(ctx, query, vars)
		if err != nil {
			return reply{}, err
		}
		r, err = a.read(ans)
		if err != nil {
			return reply{}, err
		}
		if !r.Errors.has(codeInternal) || r.hasData() {
			break
		}
		if try == 1 {
			return reply{}, &platform.Outage{Detail: codeInternal}
		}
	}
	switch {
	case r.Errors.has(codeInactive):
		return r, &platform.Outage{Denied: true, Detail: codeInactive}
	case r.Errors.has(codeDenied) && !r.hasData() && !r.Errors.named():
		return r, &platform.Outage{Denied: true, Detail: codeDenied}
	}
	return r, nil
}

// named tells whether an error says which field or object it is about.
func (e gqlErrors) named() bool {
	for _, x := range e {
		if len(x.Path) > 1 {
			return true
		}
	}
	return false
}

func (r reply) hasData() bool { return len(r.Data) > 0 && string(r.Data) != "null" }

// post sends a query with a token, once more with a new token on a 401.
func (a *Adapter) post(ctx context.Context, query string, vars map[string]any) (platform.Answer, error) {
	payload, err := json.Marshal(map[string]any{"query": query, "variables": vars})
	if err != nil {
		return platform.Answer{}, fmt.Errorf("shopify: query: %w", err)
	}
	refused := ""
	for {
		token, err := a.token.get(ctx, refused)
		if err != nil {
			return platform.Answer{}, err
		}
		ans, err := a.caller.Do(ctx, func(ctx context.Context) (*http.Request, error) {
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, a.base+"/admin/api/"+a.version+"/graphql.json", bytes.NewReader(payload))
			if err != nil {
				return nil, err
			}
			req.Header.Set("Content-Type", "application/json")
			req.Header.Set("Accept", "application/json")
			req.Header.Set("X-Shopify-Access-Token", token)
			return req, nil
		})
		if err != nil && ans.Status == http.StatusUnauthorized && refused == "" && a.token.renews() {
			refused = token
			continue
		}
		return ans, err
	}
}

// read takes an answer apart and remembers what it says of our points and version.
func (a *Adapter) read(ans platform.Answer) (reply, error) {
	if ans.Status != http.StatusOK {
		// 404: no such shop or version; a redirect: the shop's name has changed.
		return reply{}, &platform.Outage{Denied: true, Detail: fmt.Sprintf("status %d", ans.Status)}
	}
	var r reply
	if err := json.Unmarshal(ans.Body, &r); err != nil {
		if _, surprise := errors.AsType[*json.UnmarshalTypeError](err); !surprise {
			return reply{}, &platform.Outage{Detail: "the answer isn't JSON"}
		}
	}
	r.version = printable(strings.TrimSpace(ans.Header.Get("X-Shopify-API-Version")), 20)
	a.mu.Lock()
	defer a.mu.Unlock()
	if c := r.Extensions.Cost; c != nil && c.Status.Restore > 0 {
		a.points = bucket{max: c.Status.Maximum, left: c.Status.Available, rate: c.Status.Restore, at: a.cfg.Now()}
	}
	if r.version != "" {
		a.served = r.version
	}
	return r, nil
}

// cost of asking for n objects in a shape: by the platform's own count once it is known.
func (a *Adapter) cost(s *shape, n int) float64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	if p, ok := a.prices[s.name]; ok {
		return p * float64(n)
	}
	return float64(s.points * n)
}

// priced remembers what the platform asked for n objects in a shape.
func (a *Adapter) priced(s *shape, n int, r reply) {
	if c := r.Extensions.Cost; c != nil && c.Requested > 0 && n > 0 {
		a.mu.Lock()
		a.prices[s.name] = c.Requested / float64(n)
		a.mu.Unlock()
	}
}

// otherVersion says that an expired version was answered by another one.
func (a *Adapter) otherVersion(served string) string {
	if served == "" || served == a.version {
		return ""
	}
	return "asked for version " + a.version + ", answered with " + served
}
