package receiptroller

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"counterfoil/models/platform"
)

// A signing is how notifications are signed, as the settings say: HMAC-SHA256 with
// the secret's bytes as they stand.
type signing struct {
	secrets         [][]byte
	header, stamp   string
	before, between string // of the signed text around time stamp and body
	after           string
	timed           bool // the time stamp is part of the signed text
	stampLast       bool
	prefix          string
	base64          bool
	millis          bool
	tolerance       time.Duration
}

func newSigning(values map[string]string, secrets []string) (signing, error) {
	s := signing{header: values["signature_header"], stamp: values["timestamp_header"], prefix: values["signature_prefix"]}
	if !headerName(s.header) {
		return s, errors.New("receiptroller: signature_header must be the name of a header")
	}
	if !headerName(s.stamp) || strings.EqualFold(s.stamp, s.header) {
		return s, errors.New("receiptroller: timestamp_header must be the name of another header than signature_header")
	}
	switch values["signature_encoding"] {
	case "hex":
	case "base64":
		s.base64 = true
	default:
		return s, errors.New("receiptroller: signature_encoding must be hex or base64")
	}
	switch values["timestamp_unit"] {
	case "s":
	case "ms":
		s.millis = true
	default:
		return s, errors.New("receiptroller: timestamp_unit must be s or ms")
	}
	var err error
	if s.tolerance, err = time.ParseDuration(values["tolerance"]); err != nil || s.tolerance < 0 {
		return s, errors.New("receiptroller: tolerance must be a duration such as 300s")
	}
	for _, secret := range secrets {
		if secret == "" {
			return s, errors.New("receiptroller: a webhook secret is empty")
		}
		s.secrets = append(s.secrets, []byte(secret))
	}
	return s, s.template(values["signed_payload"])
}

// headerName tells whether a setting can be the name of a header.
func headerName(s string) bool {
	const allowed = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	return s != "" && strings.Trim(s, allowed) == ""
}

// template takes signed_payload apart, e.g. {timestamp}.{body}.
func (s *signing) template(t string) error {
	const stamp, body = "{timestamp}", "{body}"
	i, j := strings.Index(t, stamp), strings.Index(t, body)
	rest := strings.Replace(strings.Replace(t, stamp, "", 1), body, "", 1)
	if j < 0 || strings.ContainsAny(rest, "{}") {
		return fmt.Errorf("receiptroller: signed_payload must hold %s once, and may hold %s once", body, stamp)
	}
	switch {
	case i < 0:
		s.before, s.after = t[:j], t[j+len(body):]
	case i < j:
		s.timed = true
		s.before, s.between, s.after = t[:i], t[i+len(stamp):j], t[j+len(body):]
	default:
		s.timed, s.stampLast = true, true
		s.before, s.between, s.after = t[:j], t[j+len(body):i], t[i+len(stamp):]
	}
	return nil
}

// Verify tells whether a secret of this connection signed exactly these bytes
// within the tolerance before and after now. A signed text without a time stamp
// has no tolerance: an unsigned time proves nothing.
func (a *Adapter) Verify(r platform.Request, now time.Time) (platform.Match, error) {
	s := a.signing
	given := r.Header.Get(s.header)
	if given == "" {
		return platform.Match{}, &platform.Refusal{Reason: platform.SignatureMissing, Cause: platform.CauseHeaderMissing, Detail: s.header}
	}
	stamp := ""
	if s.timed {
		if stamp = r.Header.Get(s.stamp); stamp == "" {
			return platform.Match{}, &platform.Refusal{Reason: platform.TimeMissing, Cause: platform.CauseHeaderMissing, Detail: s.stamp}
		}
	}
	sum, ok := s.decode(given)
	if !ok {
		return platform.Match{}, &platform.Refusal{Reason: platform.SignatureMissing, Cause: platform.CauseMalformed, Detail: s.header}
	}
	m := platform.Match{Secret: s.match(stamp, r.Body, sum), Timed: s.timed}
	if m.Secret < 0 {
		return platform.Match{}, &platform.Refusal{Reason: platform.SignatureWrong, Cause: s.likely(stamp, r.Body, sum)}
	}
	if !s.timed {
		return m, nil
	}
	at, ok := s.time(stamp)
	if !ok {
		return platform.Match{}, &platform.Refusal{Reason: platform.TimeMissing, Cause: platform.CauseMalformed, Detail: s.stamp}
	}
	m.Skew = at.Sub(now)
	if m.Skew.Abs() > s.tolerance {
		return platform.Match{}, &platform.Refusal{Reason: platform.TimeOff, Cause: platform.CauseClock, Detail: strconv.FormatInt(int64(m.Skew/time.Second), 10)}
	}
	return m, nil
}

// decode reads the signature's bytes out of its header.
func (s signing) decode(given string) ([]byte, bool) {
	given, found := strings.CutPrefix(strings.TrimSpace(given), s.prefix)
	if !found {
		return nil, false
	}
	var sum []byte
	var err error
	if s.base64 {
		sum, err = base64.RawStdEncoding.DecodeString(strings.TrimRight(given, "="))
	} else {
		sum, err = hex.DecodeString(given)
	}
	return sum, err == nil && len(sum) == sha256.Size
}

// match is the index of the secret that signed, or -1. Every secret is tried, so
// that the time it takes says nothing about which one fits.
func (s signing) match(stamp string, body, sum []byte) int {
	which := -1
	for i, secret := range s.secrets {
		if hmac.Equal(s.sum(secret, stamp, body), sum) && which < 0 {
			which = i
		}
	}
	return which
}

func (s signing) sum(secret []byte, stamp string, body []byte) []byte {
	first, second := []byte(stamp), body
	if s.stampLast {
		first, second = body, []byte(stamp)
	}
	if !s.timed {
		first, second = nil, body
	}
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(s.before))
	mac.Write(first)
	mac.Write([]byte(s.between))
	mac.Write(second)
	mac.Write([]byte(s.after))
	return mac.Sum(nil)
}

// likely works out why a signature doesn't fit: the body was written anew on its
// way, or its end is missing.
func (s signing) likely(stamp string, body, sum []byte) platform.Cause {
	var plain bytes.Buffer
	if json.Compact(&plain, body) == nil {
		if !bytes.Equal(plain.Bytes(), body) && s.match(stamp, plain.Bytes(), sum) >= 0 {
			return platform.CauseReencoded
		}
		return platform.CauseUnknown
	}
	var whole json.RawMessage
	err := json.NewDecoder(bytes.NewReader(body)).Decode(&whole)
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		return platform.CauseCutShort
	}
	return platform.CauseUnknown
}

// time reads a time stamp in the unit that the settings name.
func (s signing) time(stamp string) (time.Time, bool) {
	n, err := strconv.ParseInt(stamp, 10, 64)
	if err != nil || len(stamp) > 15 {
		return time.Time{}, false
	}
	if s.millis {
		return time.UnixMilli(n), true
	}
	return time.Unix(n, 0), true
}
