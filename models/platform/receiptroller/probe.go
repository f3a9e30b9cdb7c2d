package receiptroller

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"counterfoil/models"
	"counterfoil/models/platform"
)

// Sign makes the request with which the platform would send a body, by the settings.
func (a *Adapter) Sign(secret int, body []byte, at time.Time) platform.Request {
	s := a.signing
	stamp := strconv.FormatInt(at.Unix(), 10)
	if s.millis {
		stamp = strconv.FormatInt(at.UnixMilli(), 10)
	}
	sum := s.sum(s.secrets[secret], stamp, body)
	text := hex.EncodeToString(sum)
	if s.base64 {
		text = base64.StdEncoding.EncodeToString(sum)
	}
	h := http.Header{}
	h.Set(s.header, s.prefix+text)
	h.Set(s.stamp, stamp)
	return platform.Request{Header: h, Body: body}
}

// Shape reads one receipt at its own address and says which paths it has.
func (a *Adapter) Shape(ctx context.Context, ref models.ObjectRef) (models.Shape, models.Absence, error) {
	t, ok := parseRef(ref)
	if !ok || t.store == "" {
		return nil, models.Unreadable, nil
	}
	answer, err := a.call(ctx, http.MethodGet, "/"+url.PathEscape(t.org)+"/"+t.yyyymm+"/"+url.PathEscape(t.store)+"/receipt/"+url.PathEscape(t.id), nil)
	switch {
	case err != nil:
		return nil, "", err
	case answer.Status == http.StatusNotFound:
		return nil, models.Gone, nil
	case answer.Status != http.StatusOK:
		return nil, models.Unreadable, nil
	case !json.Valid(answer.Body):
		return nil, "", &platform.Outage{Detail: "the answer isn't JSON"}
	}
	s, err := models.ShapeOf(answer.Body)
	return s, models.Present, err
}

var (
	_ platform.Signer = (*Adapter)(nil)
	_ platform.Shaper = (*Adapter)(nil)
)
