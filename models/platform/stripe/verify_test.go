package stripe_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"counterfoil/models/platform"
	"counterfoil/models/platform/sandbox"
)

// at is the receiver's time in tests of signatures.
var at = time.Date(2026, 11, 28, 14, 2, 0, 0, time.UTC)

func sum(secret, stamp, body string) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(stamp + "." + body))
	return hex.EncodeToString(mac.Sum(nil))
}

func stamp(off time.Duration) string { return strconv.FormatInt(at.Add(off).Unix(), 10) }

func signed(header, body string) platform.Request {
	h := http.Header{}
	if header != "" {
		h.Set("Stripe-Signature", header)
	}
	return platform.Request{Header: h, Body: []byte(body)}
}

func TestVerify(t *testing.T) {
	t.Parallel()
	const body = "{\n  \"id\": \"evt_1\"\n}"
	a := adapter(t, platform.Config{Webhook: []string{"whsec_new", "", " whsec_old\n"}})
	now := stamp(0)
	good := sum("whsec_new", now, body)
	other := strings.Repeat("ab", sha256.Size)
	for _, tt := range []struct {
		name   string
		header string
		body   string
		secret int
		reason platform.Reason
		cause  platform.Cause
		detail string
	}{
		{name: "current secret", header: "t=" + now + ",v1=" + good},
		{name: "previous secret", header: "t=" + now + ",v1=" + sum("whsec_old", now, body), secret: 2},
		{name: "rolled, ours second", header: "t=" + now + ",v1=" + other + ",v1=" + good},
		{name: "blanks and v0", header: "t=" + now + ", v1=" + good + " , v0=" + other},
		{name: "an unreadable v1 beside", header: "t=" + now + ",v1=zz,v1=" + good + ",nonsense"},
		{name: "just in time, late", header: "t=" + stamp(-300*time.Second) + ",v1=" + sum("whsec_new", stamp(-300*time.Second), body)},
		{name: "just in time, early", header: "t=" + stamp(300*time.Second) + ",v1=" + sum("whsec_new", stamp(300*time.Second), body)},

		{name: "missing", reason: platform.SignatureMissing, cause: platform.CauseHeaderMissing, detail: "Stripe-Signature"},
		{name: "malformed", header: "what is this", reason: platform.TimeMissing, cause: platform.CauseMalformed},
		{name: "no time", header: "v1=" + good, reason: platform.TimeMissing, cause: platform.CauseMalformed},
		{name: "time is no number", header: "t=soon,v1=" + good, reason: platform.SignatureMissing, cause: platform.CauseMalformed},
		{name: "only v0", header: "t=" + now + ",v0=" + good, reason: platform.SignatureMissing, cause: platform.CauseMalformed},
		{name: "unknown secret", header: "t=" + now + ",v1=" + sum("whsec_else", now, body), reason: platform.SignatureWrong, cause: platform.CauseUnknown},
		{name: "empty secret", header: "t=" + now + ",v1=" + sum("", now, body), reason: platform.SignatureWrong, cause: platform.CauseUnknown},
		{name: "other time than signed", header: "t=" + stamp(time.Second) + ",v1=" + good, reason: platform.SignatureWrong, cause: platform.CauseUnknown},
		{name: "body changed", header: "t=" + now + ",v1=" + good, body: "{\n  \"id\": \"evt_2\"\n}", reason: platform.SignatureWrong, cause: platform.CauseUnknown},
		{name: "cut short", header: "t=" + now + ",v1=" + good, body: body[:8], reason: platform.SignatureWrong, cause: platform.CauseCutShort},
		{name: "written again", header: "t=" + now + ",v1=" + good, body: `{"id":"evt_1","object":"event"}`, reason: platform.SignatureWrong, cause: platform.CauseReencoded},
		{name: "ten minutes late", header: "t=" + stamp(-10*time.Minute) + ",v1=" + sum("whsec_new", stamp(-10*time.Minute), body),
			reason: platform.TimeOff, cause: platform.CauseClock, detail: "-600"},
		{name: "ten minutes ahead", header: "t=" + stamp(10*time.Minute) + ",v1=" + sum("whsec_new", stamp(10*time.Minute), body),
			reason: platform.TimeOff, cause: platform.CauseClock, detail: "600"},
		{name: "forged and old", header: "t=" + stamp(-10*time.Minute) + ",v1=" + other, reason: platform.SignatureWrong, cause: platform.CauseUnknown},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			m, err := a.Verify(signed(tt.header, either(tt.body, body)), at)
			if tt.reason == "" {
				if err != nil || m.Secret != tt.secret || !m.Timed {
					t.Fatalf("match %+v, error %v", m, err)
				}
				return
			}
			refusal, ok := errors.AsType[*platform.Refusal](err)
			if !ok || *refusal != (platform.Refusal{Reason: tt.reason, Cause: tt.cause, Detail: tt.detail}) {
				t.Errorf("refusal %#v", err)
			}
		})
	}
}

func either(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

func TestSkewIsSigned(t *testing.T) {
	t.Parallel()
	a := adapter(t, platform.Config{Webhook: []string{"whsec_x"}, Settings: map[string]string{"tolerance": "20m"}})
	for _, off := range []time.Duration{-10 * time.Minute, 10 * time.Minute} {
		m, err := a.Verify(signed("t="+stamp(off)+",v1="+sum("whsec_x", stamp(off), "{}"), "{}"), at)
		if err != nil || m.Skew != off {
			t.Errorf("skew %v, error %v, want %v", m.Skew, err, off)
		}
	}
}

func TestWhatTheSandboxSendsIsGenuine(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *platform.Config) { c.Webhook = []string{"whsec_before", "whsec_after"} })
	r.Secrets = []string{"whsec_after", "whsec_elsewhere"}
	_, ns := r.CreateIntent(5000, "hkd", sandbox.StripeIntent{})
	m, err := r.a.Verify(platform.Request{Header: ns[0].Header, Body: ns[0].Body}, r.clock.now())
	if err != nil || m.Secret != 1 {
		t.Errorf("match %+v, error %v", m, err)
	}
	r.clock.pass(10 * time.Minute)
	_, err = r.a.Verify(platform.Request{Header: ns[0].Header, Body: ns[0].Body}, r.clock.now())
	if refusal, ok := errors.AsType[*platform.Refusal](err); !ok || refusal.Reason != platform.TimeOff {
		t.Errorf("ten minutes later: %v", err)
	}
	if _, err := r.a.Verify(platform.Request{Header: r.Sign(ns[0].Body), Body: ns[0].Body}, r.clock.now()); err != nil {
		t.Errorf("signed anew: %v", err)
	}
}

func FuzzVerify(f *testing.F) {
	f.Add("t=1,v1=00", []byte("{}"))
	f.Add("t=1764338520, v1="+strings.Repeat("0f", 32)+",v0=x", []byte("\x00\xff"))
	f.Add(",,==,t", []byte(nil))
	f.Add("t=-9223372036854775808,v1="+sum("whsec_x", "-9223372036854775808", "a"), []byte("a"))
	a := adapter(f, platform.Config{Webhook: []string{"whsec_x"}})
	f.Fuzz(func(t *testing.T, header string, body []byte) {
		m, err := a.Verify(signed(header, string(body)), at)
		if err == nil {
			if m.Skew > 300*time.Second || m.Skew < -300*time.Second || !strings.Contains(header, "v1") {
				t.Errorf("accepted with %+v", m)
			}
			return
		}
		if _, ok := errors.AsType[*platform.Refusal](err); !ok {
			t.Errorf("error %T isn't a refusal", err)
		}
	})
}
