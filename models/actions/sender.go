package actions

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	callTime   = 10 * time.Second
	maxAnswer  = 1 << 10 // what is kept of an answer
	maxReceipt = 255
)

// A parcel is one call to a destination.
type parcel struct {
	key    string // the same on every try
	url    string
	hosts  []string // that may have an address of an inner network
	once   bool     // the same key twice may have two effects
	secret []byte
	body   []byte
	at     time.Time
	// until is when a call may begin at the latest, by the clock on the wall: later,
	// others may have taken it over.
	until time.Time
}

// An answer says what a call to a destination came to.
type answer struct {
	done    bool
	refused bool // a no: sending it again changes nothing
	unsure  bool // … that may mean that it was done before
	reached bool // something may have come of it
	silent  bool // no answer came at all
	after   time.Duration
	receipt string
	err     string // the first line says what happened, the rest what the destination wrote
}

// A sender calls destinations. What may go to inner networks and what may not never
// share a connection; neither do calls that must not be made twice, so that a stale
// connection leaves no doubt.
type sender struct{ strict, inner, strictOnce, innerOnce *http.Client }

func newSender() sender {
	return sender{client(true, false), client(false, false), client(true, true), client(false, true)}
}

func dialer(strict bool) *net.Dialer {
	d := &net.Dialer{Timeout: 5 * time.Second}
	if strict {
		d.Control = guard
	}
	return d
}

func client(strict, once bool) *http.Client {
	return &http.Client{
		Transport: &http.Transport{Proxy: nil, DialContext: dialer(strict).DialContext, DisableKeepAlives: once, TLSHandshakeTimeout: 5 * time.Second,
			MaxIdleConnsPerHost: atOnce, IdleConnTimeout: 30 * time.Second, DisableCompression: true, MaxResponseHeaderBytes: 64 << 10},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

func (s sender) choose(p parcel, u *url.URL) *http.Client {
	switch inner := allowed(p.hosts, u); {
	case inner && p.once:
		return s.innerOnce
	case inner:
		return s.inner
	case p.once:
		return s.strictOnce
	}
	return s.strict
}

// allowed tells whether an admin vouches for the host of an address, with or without
// its port.
func allowed(hosts []string, u *url.URL) bool {
	return slices.ContainsFunc(hosts, func(h string) bool {
		return strings.EqualFold(h, u.Hostname()) || strings.EqualFold(h, u.Host)
	})
}

// post makes one call. It follows nothing and uses no proxy.
func (s sender) post(ctx context.Context, p parcel) answer {
	u, err := url.Parse(p.url)
	if err != nil {
		return answer{refused: true, err: "note.address_unreadable"}
	}
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	reached := false
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { reached = true }})
	// Without GetBody: or Go itself would send it again, because it has an Idempotency-Key.
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, u.String(), &timely{Reader: bytes.NewReader(p.body), until: p.until})
	if err != nil {
		return answer{refused: true, err: "note.address_unreadable"}
	}
	req.ContentLength = int64(len(p.body))
	stamp := strconv.FormatInt(p.at.Unix(), 10)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "Counterfoil")
	req.Header.Set("Idempotency-Key", p.key)
	req.Header.Set("Webhook-Id", p.key)
	req.Header.Set("Webhook-Timestamp", stamp)
	req.Header.Set("Webhook-Signature", sign(p.secret, p.key, stamp, p.body))
	res, err := s.choose(p, u).Do(req)
	switch {
	case errors.Is(err, errInner):
		return answer{refused: true, err: "note.address_refused"}
	case errors.Is(err, errLate):
		return answer{silent: true, err: "note.too_late"}
	case err != nil:
		return answer{reached: reached, silent: true, err: reason(err)}
	}
	defer res.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(res.Body, maxAnswer)) // the status decides, whatever becomes of the rest
	return judged(res, text)
}

// errLate ends a call whose time was over before its body went out: whoever got its head
// has nothing to do.
var errLate = errors.New("too late to begin")

// A timely body can be read only until its time is over.
type timely struct {
	*bytes.Reader
	until time.Time
}

func (t *timely) Read(b []byte) (int, error) {
	if !t.until.IsZero() && t.Size() == int64(t.Len()) && time.Now().Round(0).After(t.until) {
		return 0, errLate
	}
	return t.Reader.Read(b)
}

// WriteTo would have the body written past Read.
func (t *timely) WriteTo(w io.Writer) (int64, error) {
	return io.Copy(w, struct{ io.Reader }{t})
}

func (t *timely) Close() error { return nil }

// judged reads an answer. Whoever is too busy or too slow to answer says so by 429;
// after other failures something may have come of the call.
func judged(res *http.Response, text []byte) answer {
	a := answer{reached: true, err: strings.TrimSpace(res.Status + "\n" + string(text))}
	switch code := res.StatusCode; {
	case code >= 200 && code < 300:
		return answer{done: true, reached: true, receipt: receiptIn(text)}
	case code == http.StatusTooManyRequests:
		a.reached = false
	case code >= 500 || code == http.StatusRequestTimeout:
	default:
		// "See there" and "it exists already" are also said of what was done.
		a.refused, a.unsure = true, slices.Contains([]int{http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusConflict}, code)
	}
	if seconds, err := strconv.Atoi(res.Header.Get("Retry-After")); err == nil && seconds > 0 {
		a.after = time.Duration(min(seconds, int(longestAfter/time.Second))) * time.Second
	}
	return a
}

// receiptIn is the receipt in a JSON answer, where there is one.
func receiptIn(text []byte) string {
	var body struct {
		Receipt any `json:"receipt"`
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	if dec.Decode(&body) != nil {
		return ""
	}
	switch r := body.Receipt.(type) {
	case string:
		return r
	case json.Number:
		return r.String()
	}
	return ""
}

// reason is why a call failed, without the address.
func reason(err error) string {
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Sprintf("no answer within %s", callTime)
	}
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err
	}
	return err.Error()
}

// sign is the signature of a call as Standard Webhooks wants it.
func sign(secret []byte, key, stamp string, body []byte) string {
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(key + "." + stamp + "."))
	mac.Write(body)
	return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
}
