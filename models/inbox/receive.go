// Package inbox takes in notifications, keeps them, processes and replays them.
package inbox

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"counterfoil/models"
	"counterfoil/models/connect"
	"counterfoil/models/ledger"
	"counterfoil/models/platform"
	"counterfoil/models/queue"
	"counterfoil/models/seal"
	"counterfoil/models/store"
)

// An Inbox is the way of a notification from its bytes to what it did.
type Inbox struct {
	store  *store.Store
	book   *connect.Book
	ledger *ledger.Ledger
	queue  *queue.Queue
	keys   seal.Keys
	log    *slog.Logger

	commits  chan *arrival
	alarms   chan int64
	refusals *refusals
	matches  *matches
	runs     runs
	suspects *suspects
}

// New makes an inbox. Run must be running for Receive to answer.
func New(s *store.Store, book *connect.Book, l *ledger.Ledger, q *queue.Queue, keys seal.Keys, log *slog.Logger) *Inbox {
	return &Inbox{store: s, book: book, ledger: l, queue: q, keys: keys, log: log,
		commits: make(chan *arrival, maxBatch), alarms: make(chan int64, maxBatch), refusals: newRefusals(), matches: newMatches(), runs: newRuns(), suspects: newSuspects()}
}

// A Result is the answer to a request that was kept.
type Result string

const (
	Kept  Result = "kept"
	Known Result = "known"
)

const (
	maxBatch = 256
	// longestSaid is how much of what a payload reports is kept outside of it.
	longestSaid = 256 << 10
	batchBytes  = 4 << 20
	// commitTime is how long a request waits for its commit; the platforms give up at
	// five seconds and more for the whole request.
	commitTime = 3 * time.Second
)

// An arrival is a verified notification that waits for its commit.
type arrival struct {
	event    store.NewEvent
	deadline time.Time
	done     chan outcome
}

type outcome struct {
	kept store.Kept
	err  error
}

// Known fails with not_found for a slug that no connection has.
func (in *Inbox) Known(ctx context.Context, slug string) error {
	_, err := in.book.Slug(ctx, slug)
	return err
}

// Receive verifies a request and keeps it. The answer comes after the commit. Its
// error is a *platform.Refusal where the request isn't genuine; not_found for an
// unknown slug; unavailable where it couldn't be kept and should be sent again.
func (in *Inbox) Receive(ctx context.Context, slug string, r platform.Request, requestID string) (Result, error) {
	conn, err := in.book.Slug(ctx, slug)
	if err != nil {
		return "", err
	}
	if !conn.Ready() {
		if err := in.book.LookSoon(ctx); err != nil {
			return "", err
		}
		if conn, err = in.book.Slug(ctx, slug); err != nil {
			return "", err
		}
		if !conn.Ready() {
			return "", models.Fail(models.Unavailable, "error.secret_missing").Because(conn.Broken)
		}
	}
	now := in.store.Now()
	match, err := conn.Adapter.Verify(r, now)
	if err != nil {
		conn, match, err = in.verifyAgain(ctx, slug, conn, r, now)
	}
	if err != nil {
		refusal, ok := errors.AsType[*platform.Refusal](err)
		if !ok {
			return "", err
		}
		in.Refuse(conn, r, refusal, requestID, int64(len(r.Body)))
		return "", refusal
	}
	if match.Secret < len(conn.Fingerprints) {
		in.matches.note(conn.ID, conn.Fingerprints[match.Secret], now)
	}
	event, err := in.newEvent(conn, r, match, now, requestID)
	if err != nil {
		return "", err
	}
	return in.commit(ctx, event)
}

// patientBody is the largest body that waits for a look at the secrets.
const patientBody = 128 << 10

// verifyAgain looks whether another process changed the secrets, before a genuine
// request is refused.
func (in *Inbox) verifyAgain(ctx context.Context, slug string, conn *connect.Conn, r platform.Request, now time.Time) (*connect.Conn, platform.Match, error) {
	look := in.book.LookSoon
	if len(r.Body) > patientBody {
		look = in.book.LookOnce // it would keep its memory while it waits
	}
	if err := look(ctx); err != nil {
		return conn, platform.Match{}, err
	}
	fresh, err := in.book.Slug(ctx, slug)
	if err != nil {
		return conn, platform.Match{}, err
	}
	if !fresh.Ready() {
		return fresh, platform.Match{}, models.Fail(models.Unavailable, "error.secret_missing").Because(fresh.Broken)
	}
	m, err := fresh.Adapter.Verify(r, now)
	return fresh, m, err
}

func (in *Inbox) newEvent(conn *connect.Conn, r platform.Request, match platform.Match, now time.Time, requestID string) (store.NewEvent, error) {
	n := conn.Adapter.Parse(r, now)
	account := storable(n.Account, 255)
	if account == "" {
		account = conn.Account
	}
	e := store.NewEvent{
		ConnectionID: conn.ID, Account: account, EventID: storable(n.EventID, 255), Topic: storable(n.Topic, 255), Act: storable(n.Act, 255),
		Object:   models.ObjectRef{Account: account, Kind: storable(n.Object.Kind, 64), ID: storable(n.Object.ID, 512)},
		Occurred: bounded(n.Occurred), Floor: bounded(n.Floor), Version: n.Version, Digest: sha256.Sum256(r.Body), Content: n.Content,
		Size: len(r.Body), RequestID: requestID, Test: n.Test, Known: n.Known, Conflict: n.Conflict, Received: now,
	}
	if n.Object.Zero() {
		e.Object = models.ObjectRef{Account: account}
	}
	if match.Timed {
		ms := match.Skew.Milliseconds()
		e.Skew = &ms
	}
	if match.Secret < len(conn.Fingerprints) {
		e.Secret = conn.Fingerprints[match.Secret]
	}
	if n.Said != nil {
		said := *n.Said
		said.Basis, said.Read = models.Reported, now
		if said.Ref.Account == "" {
			said.Ref.Account = account
		}
		b, err := json.Marshal(said)
		if err == nil && len(b) > longestSaid {
			said.Parts, said.Refs, said.Links, said.Faults = nil, nil, nil, nil
			b, err = json.Marshal(said)
		}
		if err != nil {
			return e, err
		}
		if len(b) <= longestSaid { // the payload keeps it all
			e.Said = []byte(storable(string(bytes.ReplaceAll(b, []byte(`\u0000`), []byte(`\ufffd`))), 2*longestSaid))
		}
	}
	e.Key = eventKey(account, n)
	e.Sealed = in.keys.Seal(r.Body, payloadContext(conn.ID, account, e.EventID, e.Digest))
	return e, nil
}

// eventKey is what makes an event one: account and event id, or account, topic and
// content where the id identifies nothing.
func eventKey(account string, n models.Notice) [16]byte {
	h := sha256.New()
	part := func(s string) { h.Write([]byte(s)); h.Write([]byte{0}) }
	part(account)
	if n.Anonymous || n.EventID == "" {
		part("content")
		part(n.Topic)
		h.Write(n.Content[:])
	} else {
		part("id")
		part(n.EventID)
	}
	var key [16]byte
	copy(key[:], h.Sum(nil))
	return key
}

// payloadContext binds a sealed payload to its event.
func payloadContext(connection int64, account, eventID string, digest [32]byte) []byte {
	b, _ := json.Marshal([]any{connection, account, eventID, digest[:]})
	return b
}

// storable makes foreign text fit for a column: no NUL, no broken UTF-8, bounded.
// The payload keeps its bytes.
func storable(s string, limit int) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	s = strings.ReplaceAll(s, "\x00", "\uFFFD")
	if len(s) <= limit {
		return s
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return s[:limit]
}

// bounded keeps times inside what Postgres and people can read.
func bounded(t time.Time) time.Time {
	if t.IsZero() || t.Year() < 1970 || t.Year() > 9999 {
		return time.Time{}
	}
	return t.UTC().Truncate(time.Microsecond)
}

func (in *Inbox) commit(ctx context.Context, e store.NewEvent) (Result, error) {
	a := &arrival{event: e, deadline: time.Now().Add(commitTime), done: make(chan outcome, 1)}
	wait := time.NewTimer(commitTime)
	defer wait.Stop()
	late := models.Fail(models.Unavailable, "error.not_kept")
	select {
	case in.commits <- a:
	case <-wait.C:
		return "", late
	case <-ctx.Done():
		return "", late.Because(ctx.Err())
	}
	select {
	case o := <-a.done:
		switch {
		case o.err != nil:
			return "", late.Because(o.err)
		case o.kept.Fresh:
			return Kept, nil
		}
		return Known, nil
	case <-wait.C:
		return "", late
	}
}

// Commits runs the one committer of this process until the context ends: what waits
// together shares a transaction, and each is answered after it.
func (in *Inbox) Commits(ctx context.Context) {
	for {
		var batch []*arrival
		size := 0
		select {
		case <-ctx.Done():
			in.drain()
			return
		case a := <-in.commits:
			batch, size = append(batch, a), len(a.event.Sealed)
		}
	gather:
		for len(batch) < maxBatch && size < batchBytes {
			select {
			case a := <-in.commits:
				batch, size = append(batch, a), size+len(a.event.Sealed)
			default:
				break gather
			}
		}
		in.keep(context.WithoutCancel(ctx), batch)
	}
}

// drain answers what still waits when the program stops.
func (in *Inbox) drain() {
	for {
		select {
		case a := <-in.commits:
			a.done <- outcome{err: context.Canceled}
		default:
			return
		}
	}
}

// keep commits a batch. One that fails on data is tried again row by row, so that a
// bad row fails alone; one that fails on the database fails for all.
func (in *Inbox) keep(ctx context.Context, batch []*arrival) {
	now := time.Now()
	live := batch[:0]
	for _, a := range batch {
		if a.deadline.Before(now) {
			a.done <- outcome{err: context.DeadlineExceeded}
			continue
		}
		live = append(live, a)
	}
	if len(live) == 0 {
		return
	}
	slices.SortStableFunc(live, func(a, b *arrival) int {
		if a.event.ConnectionID != b.event.ConnectionID {
			return int(a.event.ConnectionID - b.event.ConnectionID)
		}
		return bytes.Compare(a.event.Key[:], b.event.Key[:])
	})
	kept, err := in.transact(ctx, live)
	if err == nil {
		for i, a := range live {
			a.done <- outcome{kept: kept[i]}
		}
		return
	}
	if store.Down(err) || len(live) == 1 {
		in.log.Error("notifications not kept", "count", len(live), "error", err)
		for _, a := range live {
			a.done <- outcome{err: err}
		}
		return
	}
	for _, a := range live {
		in.keep(ctx, []*arrival{a})
	}
}

func (in *Inbox) transact(ctx context.Context, batch []*arrival) ([]store.Kept, error) {
	ctx, cancel := context.WithTimeout(ctx, commitTime)
	defer cancel()
	events := make([]store.NewEvent, len(batch))
	var connections []int64
	for i, a := range batch {
		events[i] = a.event
		if n := len(connections); n == 0 || connections[n-1] != a.event.ConnectionID {
			connections = append(connections, a.event.ConnectionID)
		}
	}
	var kept []store.Kept
	err := in.store.Tx(ctx, func(tx *store.Tx) error {
		var err error
		if kept, err = tx.KeepEvents(ctx, events); err != nil {
			return err
		}
		for i, k := range kept {
			if events[i].Conflict == "" || !k.Fresh {
				continue
			}
			p := models.Problem{Kind: models.PayloadConflict, Case: "header", Detail: events[i].Conflict}
			if err := tx.OpenCase(ctx, store.Case{ConnectionID: events[i].ConnectionID, Subject: eventSubject(k.ID), Object: events[i].Object, Problem: p}); err != nil {
				return err
			}
		}
		return in.queue.WakeEvents(ctx, tx, connections)
	})
	return kept, err
}
