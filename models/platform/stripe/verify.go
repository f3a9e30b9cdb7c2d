package stripe

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
	"time"

	"counterfoil/models/platform"
)

const signatureHeader = "Stripe-Signature"

// maxSignatures bounds the work for one request; while a secret is rolled there are two.
const maxSignatures = 32

// Verify tells whether a secret of this connection signed exactly these bytes
// within the tolerance before or after now. The signature decides first, so an old
// time counts only where the request is genuine.
func (a *Adapter) Verify(r platform.Request, now time.Time) (platform.Match, error) {
	header := strings.Join(r.Header.Values(signatureHeader), ",")
	if strings.TrimSpace(header) == "" {
		return platform.Match{}, &platform.Refusal{Reason: platform.SignatureMissing, Cause: platform.CauseHeaderMissing, Detail: signatureHeader}
	}
	stamp, signatures := parseSignature(header)
	if stamp == "" {
		return platform.Match{}, &platform.Refusal{Reason: platform.TimeMissing, Cause: platform.CauseMalformed}
	}
	signed, err := strconv.ParseInt(stamp, 10, 64)
	if err != nil || len(signatures) == 0 {
		return platform.Match{}, &platform.Refusal{Reason: platform.SignatureMissing, Cause: platform.CauseMalformed}
	}
	secret := a.signer(stamp, r.Body, signatures)
	if secret < 0 {
		return platform.Match{}, &platform.Refusal{Reason: platform.SignatureWrong, Cause: damage(r.Body)}
	}
	skew := time.Unix(signed, 0).Sub(now)
	if skew > a.tolerance || skew < -a.tolerance {
		return platform.Match{}, &platform.Refusal{Reason: platform.TimeOff, Cause: platform.CauseClock,
			Detail: strconv.FormatInt(int64(skew/time.Second), 10)}
	}
	return platform.Match{Secret: secret, Skew: skew, Timed: true}, nil
}

// parseSignature reads t and the readable v1 parts; other schemes are ignored.
func parseSignature(header string) (stamp string, signatures [][]byte) {
	for part := range strings.SplitSeq(header, ",") {
		key, value, _ := strings.Cut(part, "=")
		value = strings.TrimSpace(value)
		switch strings.TrimSpace(key) {
		case "t":
			stamp = value
		case "v1":
			sum, err := hex.DecodeString(value)
			if err == nil && len(sum) == sha256.Size && len(signatures) < maxSignatures {
				signatures = append(signatures, sum)
			}
		}
	}
	return stamp, signatures
}

// signer is the place of the secret that made one of the signatures, or -1.
func (a *Adapter) signer(stamp string, body []byte, signatures [][]byte) int {
	for i, secret := range a.secrets {
		if secret == "" {
			continue
		}
		mac := hmac.New(sha256.New, []byte(secret))
		mac.Write([]byte(stamp))
		mac.Write([]byte{'.'})
		mac.Write(body)
		sum := mac.Sum(nil)
		for _, s := range signatures {
			if hmac.Equal(sum, s) {
				return i
			}
		}
	}
	return -1
}

// damage guesses what happened to the body on its way: Stripe ends it with a brace
// and writes snapshot events indented.
func damage(body []byte) platform.Cause {
	trimmed := bytes.TrimSpace(body)
	switch {
	case len(trimmed) == 0 || trimmed[len(trimmed)-1] != '}':
		return platform.CauseCutShort
	case !bytes.ContainsRune(trimmed, '\n') && bytes.Contains(trimmed, []byte(`"object":"event"`)):
		return platform.CauseReencoded
	}
	return platform.CauseUnknown
}
