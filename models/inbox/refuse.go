package inbox

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"counterfoil/models"
	"counterfoil/models/connect"
	"counterfoil/models/platform"
	"counterfoil/models/store"
)

func eventSubject(id int64) string { return "event:" + strconv.FormatInt(id, 10) }

const (
	evidencePerMinute = 20   // per connection
	evidenceKept      = 1000 // per connection
	evidenceWaiting   = 2000 // in memory, over all connections
	evidenceHeaders   = 40
	diagnoseUpTo      = 1 << 20
)

// refusals adds up refused requests in memory, so that strangers can't fill the disk
// or make a hot row.
type refusals struct {
	mu     sync.Mutex
	rows   []store.RejectionRow
	counts map[int64]int64
	minute map[int64]int
	since  time.Time
}

func newRefusals() *refusals {
	return &refusals{counts: map[int64]int64{}, minute: map[int64]int{}}
}

// room counts a refusal and tells whether its evidence is kept.
func (f *refusals) room(id int64, now time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.counts[id]++
	if now.Sub(f.since) >= time.Minute {
		f.since = now
		clear(f.minute)
	}
	if f.minute[id] >= evidencePerMinute || len(f.rows) >= evidenceWaiting {
		return false
	}
	f.minute[id]++
	return true
}

// Refuse keeps bounded evidence of a refused request, with its likely cause.
func (in *Inbox) Refuse(conn *connect.Conn, r platform.Request, why *platform.Refusal, requestID string, size int64) {
	now := in.store.Now()
	if !in.refusals.room(conn.ID, now) {
		return
	}
	in.diagnose(conn, r, why, now)
	names := slices.Sorted(maps.Keys(r.Header))
	for i, n := range names {
		names[i] = storable(n, 64)
	}
	if len(names) > evidenceHeaders {
		names = names[:evidenceHeaders]
	}
	sum := sha256.Sum256(r.Body)
	row := store.RejectionRow{ConnectionID: conn.ID, Rejection: models.Rejection{At: now, RequestID: requestID, Reason: string(why.Reason),
		Cause: string(why.Cause), Detail: why.Detail, Size: size, Hash: hex.EncodeToString(sum[:]), Headers: names}}
	in.refusals.mu.Lock()
	in.refusals.rows = append(in.refusals.rows, row)
	in.refusals.mu.Unlock()
}

// RefuseTooLarge keeps evidence of a body beyond the limit, which wasn't read whole.
func (in *Inbox) RefuseTooLarge(ctx context.Context, slug string, r platform.Request, requestID string, size int64) {
	conn, err := in.book.Slug(ctx, slug)
	if err != nil {
		return
	}
	in.Refuse(conn, platform.Request{Header: r.Header}, &platform.Refusal{Reason: platform.TooLarge, Cause: platform.CauseUnknown}, requestID, size)
}

// diagnose looks for the likely cause of a wrong signature with our own secrets
// only: nothing of the request is believed.
func (in *Inbox) diagnose(conn *connect.Conn, r platform.Request, why *platform.Refusal, now time.Time) {
	if why.Reason != platform.SignatureWrong || why.Cause != platform.CauseUnknown && why.Cause != platform.CauseAdminKey || len(r.Body) > diagnoseUpTo {
		return
	}
	if conn.Retired != nil {
		if m, err := conn.Retired.Verify(r, now); err == nil && m.Secret < len(conn.RetiredFingerprints) {
			why.Cause, why.Detail = platform.CauseRetired, conn.RetiredFingerprints[m.Secret]
			return
		}
	}
	for _, other := range in.book.All() {
		if other.ID == conn.ID || other.Platform != conn.Platform || other.Adapter == nil || slices.Equal(other.Fingerprints, conn.Fingerprints) {
			continue
		}
		_, err := other.Adapter.Verify(r, now)
		refusal, _ := errors.AsType[*platform.Refusal](err)
		// Another shop's name in a header is checked after the signature fits.
		if err == nil || refusal != nil && (refusal.Reason == platform.TimeOff || refusal.Reason == platform.WrongAccount && in.signs(other, r, now)) {
			why.Cause = platform.CauseOtherConnection
			if other.ShopID == conn.ShopID { // the name of another shop's is nobody's business here
				why.Detail = other.Slug
			}
			return
		}
	}
	for _, body := range encodings(r.Body) {
		if _, err := conn.Adapter.Verify(platform.Request{Header: r.Header, Body: body}, now); err == nil {
			why.Cause = platform.CauseReencoded
			return
		}
	}
	if why.Cause == platform.CauseAdminKey {
		return
	}
	if len(bytes.TrimSpace(r.Body)) > 0 && !json.Valid(r.Body) && brokenOff(r.Body) {
		why.Cause = platform.CauseCutShort
	}
}

// signs tells whether the other connection's secret signed the body, whatever the
// account header says.
func (in *Inbox) signs(other *connect.Conn, r platform.Request, now time.Time) bool {
	h := r.Header.Clone()
	h.Del("X-Shopify-Shop-Domain")
	_, err := other.Adapter.Verify(platform.Request{Header: h, Body: r.Body}, now)
	return err == nil
}

// brokenOff tells whether JSON ends before it is complete.
func brokenOff(body []byte) bool {
	dec := json.NewDecoder(bytes.NewReader(body))
	for {
		if _, err := dec.Token(); err != nil {
			return strings.Contains(err.Error(), "unexpected EOF") || strings.Contains(err.Error(), "unexpected end") || err.Error() == "EOF"
		}
	}
}

// encodings are the ways in which a JSON body may have been written before something
// on its way parsed it and wrote it again.
func encodings(body []byte) [][]byte {
	trimmed := bytes.TrimSpace(body)
	var compact bytes.Buffer
	if json.Compact(&compact, trimmed) != nil {
		return nil
	}
	flat := compact.Bytes()
	var indented bytes.Buffer
	_ = json.Indent(&indented, flat, "", "  ")
	slashes := bytes.ReplaceAll(flat, []byte("/"), []byte(`\/`))
	plain := bytes.ReplaceAll(flat, []byte(`\/`), []byte("/"))
	amps := bytes.ReplaceAll(slashes, []byte("&"), []byte(`\u0026`))
	return [][]byte{trimmed, flat, indented.Bytes(), append(bytes.Clone(indented.Bytes()), '\n'), slashes, plain, amps, append(bytes.Clone(flat), '\n')}
}

// matches remembers when each secret last matched.
type matches struct {
	mu sync.Mutex
	at map[secret]time.Time
}

type secret struct {
	connection  int64
	fingerprint string
}

func newMatches() *matches { return &matches{at: map[secret]time.Time{}} }

func (m *matches) note(connection int64, fingerprint string, at time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.at[secret{connection, fingerprint}] = at
}

// flushEvery is how long evidence of refusals and matches stays in memory only.
const flushEvery = 2 * time.Second

// Evidence writes what refusals and matches have added up, until the context ends.
func (in *Inbox) Evidence(ctx context.Context) {
	tick := time.NewTicker(flushEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushEvery)
			in.flush(last)
			cancel()
			return
		case <-tick.C:
			in.flush(ctx)
		}
	}
}

func (in *Inbox) flush(ctx context.Context) {
	f, m := in.refusals, in.matches
	f.mu.Lock()
	rows, counts := f.rows, f.counts
	f.rows, f.counts = nil, map[int64]int64{}
	f.mu.Unlock()
	m.mu.Lock()
	at := m.at
	m.at = map[secret]time.Time{}
	m.mu.Unlock()
	if len(counts) == 0 && len(at) == 0 {
		return
	}
	err := in.store.Tx(ctx, func(tx *store.Tx) error {
		for _, s := range slices.SortedFunc(maps.Keys(at), func(a, b secret) int {
			if a.connection != b.connection {
				return int(a.connection - b.connection)
			}
			return strings.Compare(a.fingerprint, b.fingerprint)
		}) {
			if err := tx.SecretMatched(ctx, s.connection, s.fingerprint, at[s]); err != nil {
				return err
			}
		}
		return tx.KeepRejections(ctx, rows, counts, evidenceKept)
	})
	if err == nil {
		return
	}
	// The counts survive a database that is away; evidence only as far as there is room.
	f.mu.Lock()
	for id, n := range counts {
		f.counts[id] += n
	}
	if len(f.rows)+len(rows) <= evidenceWaiting {
		f.rows = append(rows, f.rows...)
	}
	f.mu.Unlock()
}
