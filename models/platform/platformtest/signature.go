package platformtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"counterfoil/models/platform"
)

func (s suite) goodSignature(t *testing.T) {
	m, err := s.offline(t).Verify(s.f.Genuine(s.f.Secrets[0], s.f.Now), s.f.Now)
	if err != nil {
		t.Fatalf("a genuine request was refused: %v", err)
	}
	if m.Secret != 0 || m.Timed != s.f.Timed {
		t.Errorf("match is %+v", m)
	}
	if m.Skew.Abs() >= time.Second {
		t.Errorf("skew is %v for a request signed now", m.Skew)
	}
}

// refused checks that a request isn't accepted, with a reason.
func refused(t *testing.T, a platform.Adapter, r platform.Request, now time.Time, reasons ...platform.Reason) *platform.Refusal {
	t.Helper()
	_, err := a.Verify(r, now)
	no, ok := errors.AsType[*platform.Refusal](err)
	if !ok {
		t.Fatalf("want a refusal, got %v", err)
	}
	for _, reason := range reasons {
		if no.Reason == reason {
			return no
		}
	}
	t.Errorf("reason is %q, want one of %v", no.Reason, reasons)
	return no
}

func (s suite) tampered(t *testing.T) {
	a := s.offline(t)
	good := s.f.Genuine(s.f.Secrets[0], s.f.Now)
	if len(good.Body) < 2 || !json.Valid(good.Body) {
		t.Fatal("the genuine request has no JSON body")
	}
	none := platform.Request{Header: good.Header.Clone(), Body: good.Body}
	none.Header.Del(s.f.Signature)
	refused(t, a, none, s.f.Now, platform.SignatureMissing)
	refused(t, a, platform.Request{}, s.f.Now, platform.SignatureMissing)
	for _, nonsense := range []string{" ", "zz", "=", strings.Repeat("0", 64), strings.Repeat("A", 43) + "=", "\x00", strings.Repeat("f", 1<<16)} {
		r := platform.Request{Header: good.Header.Clone(), Body: good.Body}
		r.Header[http.CanonicalHeaderKey(s.f.Signature)] = []string{nonsense}
		refused(t, a, r, s.f.Now, platform.SignatureMissing, platform.SignatureWrong, platform.TimeMissing)
	}
	for i := range good.Body {
		body := bytes.Clone(good.Body)
		body[i] ^= 1
		refused(t, a, withBody(good, body), s.f.Now, platform.SignatureWrong)
	}
	refused(t, a, s.f.Genuine("another-"+s.f.Secrets[0], s.f.Now), s.f.Now, platform.SignatureWrong)
	var plain, wide bytes.Buffer
	if json.Compact(&plain, good.Body) != nil || json.Indent(&wide, good.Body, "", "  ") != nil {
		t.Fatal("the genuine body can't be written anew")
	}
	for _, body := range [][]byte{plain.Bytes(), wide.Bytes(), append(bytes.Clone(good.Body), '\n'), append([]byte{' '}, good.Body...)} {
		if !bytes.Equal(body, good.Body) {
			refused(t, a, withBody(good, body), s.f.Now, platform.SignatureWrong)
		}
	}
	for _, n := range []int{0, 1, len(good.Body) / 2, len(good.Body) - 1} {
		refused(t, a, withBody(good, good.Body[:n]), s.f.Now, platform.SignatureWrong)
	}
}

func (s suite) rotation(t *testing.T) {
	a := s.offline(t, s.f.Secrets[0], s.f.Secrets[1])
	for i, secret := range s.f.Secrets {
		m, err := a.Verify(s.f.Genuine(secret, s.f.Now), s.f.Now)
		if err != nil || m.Secret != i {
			t.Errorf("secret %d: match %+v, error %v", i, m, err)
		}
	}
	refused(t, s.offline(t, s.f.Secrets[0]), s.f.Genuine(s.f.Secrets[1], s.f.Now), s.f.Now, platform.SignatureWrong)
}

// noSecret: a connection without secrets accepts nothing, not even what is signed
// with an empty one.
func (s suite) noSecret(t *testing.T) {
	cfg := s.config("http://127.0.0.1:1")
	cfg.Webhook = nil
	cfg.ClientSecret = ""
	cfg.ClientID = ""
	a, err := s.f.Make(cfg)
	if err != nil {
		return
	}
	for _, secret := range []string{"", s.f.Secrets[0]} {
		if _, err := a.Verify(s.f.Genuine(secret, s.f.Now), s.f.Now); err == nil {
			t.Errorf("accepted without any secret")
		}
	}
}

func (s suite) clock(t *testing.T) {
	a := s.offline(t)
	for _, off := range []time.Duration{-10 * time.Minute, 10 * time.Minute} {
		late := s.f.Genuine(s.f.Secrets[0], s.f.Now.Add(off))
		if !s.f.Timed {
			if _, err := a.Verify(late, s.f.Now); err != nil {
				t.Errorf("%v off: refused although no time is signed: %v", off, err)
			}
			continue
		}
		no := refused(t, a, late, s.f.Now, platform.TimeOff)
		if no.Cause != platform.CauseClock || strings.HasPrefix(no.Detail, "-") != (off < 0) {
			t.Errorf("%v off: cause %q, detail %q", off, no.Cause, no.Detail)
		}
		forged := s.f.Genuine("another-"+s.f.Secrets[0], s.f.Now.Add(off))
		refused(t, a, forged, s.f.Now, platform.SignatureWrong)
	}
	if !s.f.Timed {
		return
	}
	for _, off := range []time.Duration{-4 * time.Minute, 4 * time.Minute} {
		m, err := a.Verify(s.f.Genuine(s.f.Secrets[0], s.f.Now.Add(off)), s.f.Now)
		if err != nil || (m.Skew-off).Abs() >= time.Second {
			t.Errorf("%v off: match %+v, error %v", off, m, err)
		}
	}
}

func (s suite) parseIsPure(t *testing.T) {
	a := s.offline(t)
	r := s.f.Genuine(s.f.Secrets[0], s.f.Now)
	body := bytes.Clone(r.Body)
	one, two := a.Parse(r, s.f.Now), a.Parse(r, s.f.Now)
	if !reflect.DeepEqual(one, two) {
		t.Error("one request gives two notices")
	}
	if !bytes.Equal(body, r.Body) {
		t.Error("Parse changes the body")
	}
	if one.EventID == "" || one.Anonymous || !one.Known || one.Topic == "" {
		t.Errorf("a genuine event isn't recognised: topic %q, anonymous %v, known %v", one.Topic, one.Anonymous, one.Known)
	}
	server := s.f.Serve(t)
	if one.Object != server.Existing {
		t.Errorf("object is %+v, want %+v", one.Object, server.Existing)
	}
	other := a.Parse(withBody(r, append(bytes.Clone(r.Body), ' ')), s.f.Now)
	if one.Content == ([32]byte{}) || other.EventID != one.EventID {
		t.Error("the content has no digest, or a blank changes the id")
	}
	if one.Said != nil {
		checkObservation(t, *one.Said)
	}
}

// garbage is what Parse must survive: none of it is about anything.
var garbage = []string{
	"", " ", "null", "true", "0", "-", `""`, `"text"`, "[]", "[[]]", "{}", "{", "}", `{"`, `{"a":`, "\x00", "{\"id\":\"\x00\"}", "\xff\xfe", "{\"id\":\"\xff\xfe\"}", "\ufeff{}",
	`{"id":null,"event_id":null,"type":null,"data":null,"object":null,"created":null,"occurred_at":null,"version":null}`,
	`{"id":1,"event_id":2,"type":3,"data":4,"object":5,"created":"6","occurred_at":7,"version":"8","admin_graphql_api_id":9}`,
	`{"id":"1","event_id":"2","type":"t","data":"4","object":"event","created":"x","occurred_at":"yesterday","version":"v"}`,
	`{"id":{},"event_id":[],"type":{},"data":[],"object":[],"created":{},"occurred_at":[],"version":{}}`,
	`{"id":1e999,"event_id":1e999,"created":1e999,"occurred_at":-1e999,"version":99999999999999999999999999}`,
	`{"data":{"object":null,"receipt":null}}`, `{"data":{"object":[],"receipt":[]}}`, `{"data":{"object":"x","receipt":"x"}}`,
	`{"data":{"object":{"id":1,"object":2,"metadata":3,"amount":"4","status":5},"receipt":{"receiptId":{},"store":[],"paymentSummary":"x"}}}`,
	`{"type":"receipt.refunded","data":{"receiptId":"r","storeId":1,"terminalTransactionDateTime":"0001-01-01","refundedAmount":{}}}`,
	`{"order_id":{},"line_items":null,"refunds":"x","total_price":[],"financial_status":7,"updated_at":1}`,
	strings.Repeat("[", 20000), strings.Repeat(`{"a":`, 20000), strings.Repeat(`{"data":`, 9000) + "1" + strings.Repeat("}", 9000),
	`{"id":"` + strings.Repeat("x", 1<<20) + `"}`,
}

func (s suite) parseGarbage(t *testing.T) {
	a := s.offline(t)
	good := s.f.Genuine(s.f.Secrets[0], s.f.Now)
	for _, body := range garbage {
		for _, h := range []http.Header{good.Header, {}, nil} {
			r := platform.Request{Header: h, Body: []byte(body)}
			n := a.Parse(r, s.f.Now)
			if !reflect.DeepEqual(n, a.Parse(r, s.f.Now)) {
				t.Errorf("garbage of %d bytes gives two notices", len(body))
			}
			if n.EventID == "" && !n.Anonymous {
				t.Errorf("garbage of %d bytes has no id and isn't anonymous", len(body))
			}
			if n.Said != nil {
				checkObservation(t, *n.Said)
			}
			_, _ = a.Verify(r, s.f.Now)
		}
	}
	for i := 0; i < len(good.Body); i += 7 {
		a.Parse(withBody(good, good.Body[:i]), s.f.Now)
	}
}

func (s suite) unknownTopic(t *testing.T) {
	a := s.offline(t)
	r := s.f.Unknown(s.f.Secrets[0], s.f.Now)
	if _, err := a.Verify(r, s.f.Now); err != nil {
		t.Fatalf("refused: %v", err)
	}
	n := a.Parse(r, s.f.Now)
	if n.Known || n.Topic == "" || n.EventID == "" {
		t.Errorf("known %v, topic %q, has an id %v; want an unknown topic kept with its id", n.Known, n.Topic, n.EventID != "")
	}
}
