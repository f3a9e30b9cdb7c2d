package platform

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"golang.org/x/time/rate"
)

const (
	callTimeout  = 10 * time.Second
	maxAnswer    = 32 << 20 // a month of 1000 receipts is about 8 MB
	retries      = 2
	longestPause = 2 * time.Second // longer waits belong to the queue, not to a held worker
)

// An Answer is what a platform answered, with its body read whole.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
}

// A Caller makes the calls of one connection: at its rate, within its budget, with
// time-outs, a bounded answer, and a few retries with jitter that honour
// Retry-After. Where calls are counted it doesn't retry: the queue does, later. It
// never follows redirects: they would carry our token elsewhere.
type Caller struct {
	client *http.Client
	limit  *rate.Limiter
	budget Budget
	now    func() time.Time
	// Refused reads an answer that says "not now" in words of its own; nil where its
	// status tells all.
	Refused func(Answer) *Outage
}

// NewCaller makes the caller of a connection; perSecond is overridden by the
// connection's setting "rate".
func NewCaller(cfg Config, perSecond float64) *Caller {
	if v, err := strconv.ParseFloat(cfg.Settings["rate"], 64); err == nil && v > 0 {
		perSecond = v
	}
	c := cfg.HTTP
	if c == nil {
		c = &http.Client{Transport: &http.Transport{
			Proxy:                 http.ProxyFromEnvironment,
			DialContext:           (&net.Dialer{Timeout: 3 * time.Second}).DialContext,
			TLSHandshakeTimeout:   5 * time.Second,
			ResponseHeaderTimeout: callTimeout,
			MaxIdleConnsPerHost:   8,
			IdleConnTimeout:       90 * time.Second,
		}}
	}
	once := *c
	once.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	now := cfg.Now
	if now == nil {
		now = time.Now
	}
	return &Caller{client: &once, limit: rate.NewLimiter(rate.Limit(perSecond), max(1, int(perSecond))), budget: cfg.Budget, now: now}
}

// Do sends the request that build makes, anew for each try, and reads the answer.
// 2xx, 3xx and 4xx other than 401, 403, 402, 423 and 429 come back as answers. Everything
// that says "not now" or "not you" is an *Outage.
func (c *Caller) Do(ctx context.Context, build func(ctx context.Context) (*http.Request, error)) (Answer, error) {
	var last error
	for try := 0; ; try++ {
		a, err := c.once(ctx, build)
		if err == nil {
			return a, nil
		}
		last = err
		out, isOutage := errors.AsType[*Outage](err)
		if !isOutage || out.Denied || try >= retries || c.budget != nil || ctx.Err() != nil {
			return a, last
		}
		pause := time.Duration(200<<try) * time.Millisecond
		pause += time.Duration(rand.Int64N(int64(pause)))
		if out.After > 0 {
			pause = out.After
		}
		if pause > longestPause {
			return a, last
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return a, last
		}
	}
}

func (c *Caller) once(ctx context.Context, build func(ctx context.Context) (*http.Request, error)) (Answer, error) {
	if c.budget != nil {
		if err := c.budget.Spend(ctx, 1); err != nil {
			return Answer{}, err
		}
	}
	if err := c.limit.Wait(ctx); err != nil {
		return Answer{}, &Outage{Throttled: true, Detail: "our own rate limit", Err: err}
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	req, err := build(ctx)
	if err != nil {
		return Answer{}, fmt.Errorf("platform: build request: %w", err)
	}
	res, err := c.client.Do(req)
	if err != nil {
		return Answer{}, &Outage{Detail: netDetail(err), Err: err}
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer+1))
	if err != nil {
		return Answer{}, &Outage{Detail: "the answer broke off", Err: err}
	}
	if len(body) > maxAnswer {
		return Answer{}, fmt.Errorf("platform: answer larger than %d bytes", maxAnswer)
	}
	a := Answer{Status: res.StatusCode, Header: res.Header, Body: body}
	if c.Refused != nil {
		if out := c.Refused(a); out != nil {
			return a, out
		}
	}
	switch {
	case a.Status == http.StatusTooManyRequests:
		return a, &Outage{Throttled: true, After: RetryAfter(a.Header, c.now()), Detail: "status 429"}
	case a.Status >= 500:
		return a, &Outage{After: RetryAfter(a.Header, c.now()), Detail: fmt.Sprintf("status %d", a.Status)}
	case a.Status == 401, a.Status == 402, a.Status == 403, a.Status == 423:
		return a, &Outage{Denied: true, Detail: fmt.Sprintf("status %d", a.Status)}
	}
	return a, nil
}

// RetryAfter reads the header in both of its forms; zero where it isn't there.
func RetryAfter(h http.Header, now time.Time) time.Duration {
	v := strings.TrimSpace(h.Get("Retry-After"))
	if s, err := strconv.ParseFloat(v, 64); err == nil && s > 0 {
		return time.Duration(min(s, 86400) * float64(time.Second))
	}
	if t, err := http.ParseTime(v); err == nil && t.After(now) {
		return t.Sub(now)
	}
	return 0
}

// netDetail says what went wrong on the way without the address.
func netDetail(err error) string {
	var ne net.Error
	switch {
	case errors.As(err, &ne) && ne.Timeout():
		return "no answer in time"
	case errors.Is(err, context.Canceled):
		return "we stopped asking"
	}
	return "no connection"
}
