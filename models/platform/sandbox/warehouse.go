package sandbox

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
)

// A Warehouse takes the instructions that the console sends, each key once. Now and
// then it has none of the goods, or is busy.
type Warehouse struct {
	Secret string // whsec_…

	mu    sync.Mutex
	slips map[string]string // key → receipt
	asked map[string]int
}

// NewWarehouse makes a warehouse that believes whoever signs with the secret.
func NewWarehouse(secret string) *Warehouse {
	return &Warehouse{Secret: secret, slips: map[string]string{}, asked: map[string]int{}}
}

// Slips counts the instructions that were taken.
func (w *Warehouse) Slips() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.slips)
}

// One in so many keys is refused, or has to ask a second time.
const (
	refusedOf = 17
	busyOf    = 11
)

func (w *Warehouse) ServeHTTP(out http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(out, r.Body, 1<<20))
	if err != nil {
		http.Error(out, "too long", http.StatusRequestEntityTooLarge)
		return
	}
	key := r.Header.Get("Idempotency-Key")
	if !w.signed(r.Header, body) || key == "" {
		http.Error(out, "signature", http.StatusUnauthorized)
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked[key]++
	luck := int(sha256.Sum256([]byte(key))[0])
	switch receipt, known := w.slips[key]; {
	case known:
		answer(out, http.StatusOK, map[string]string{"receipt": receipt})
	case luck%refusedOf == 0:
		answer(out, http.StatusUnprocessableEntity, map[string]string{"error": "an item isn't in stock"})
	case luck%busyOf == 0 && w.asked[key] == 1:
		http.Error(out, "stocktaking", http.StatusServiceUnavailable)
	default:
		w.slips[key] = fmt.Sprintf("WH-%06d", len(w.slips)+1)
		answer(out, http.StatusOK, map[string]string{"receipt": w.slips[key]})
	}
}

// signed checks a Standard Webhooks signature.
func (w *Warehouse) signed(h http.Header, body []byte) bool {
	secret, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(w.Secret, "whsec_"))
	if err != nil {
		return false
	}
	mac := hmac.New(sha256.New, secret)
	fmt.Fprintf(mac, "%s.%s.%s", h.Get("webhook-id"), h.Get("webhook-timestamp"), body)
	return hmac.Equal([]byte("v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil))), []byte(h.Get("webhook-signature")))
}
