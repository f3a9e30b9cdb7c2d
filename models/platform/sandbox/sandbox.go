// Package sandbox has small servers that speak the three platforms' real protocols
// on loopback and misbehave on request: late, twice, out of order, lost, forged,
// down, throttled. The demo, drills and tests use them; the real adapters talk to
// them unchanged.
package sandbox

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// A Notification is a signed request as its platform would send it.
type Notification struct {
	Topic  string
	Header http.Header
	Body   []byte
}

// Switches make one platform misbehave. The zero value behaves. All may be turned
// while requests run.
type Switches struct {
	Down     atomic.Bool  // every call is answered 503
	Dead     atomic.Bool  // every connection is dropped without an answer
	Throttle atomic.Bool  // every call is answered as the platform throttles
	Scarce   atomic.Int32 // of so many calls one is answered, the others are throttled
	Slow     atomic.Int64 // nanoseconds before each answer

	Duplicate atomic.Int32 // further copies of each notification
	Reorder   atomic.Bool  // notifications that wait together go out in random order
	Drop      atomic.Bool  // notifications are lost
	Forge     atomic.Bool  // one byte of each body is flipped after signing
	Delay     atomic.Int64 // nanoseconds before each notification goes out
}

// Guard puts the switches in front of a platform's API. throttled answers in the
// platform's own way. Calls are counted.
func (s *Switches) Guard(calls *atomic.Int64, throttled, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		nth := calls.Add(1)
		if d := time.Duration(s.Slow.Load()); d > 0 {
			select {
			case <-time.After(d):
			case <-r.Context().Done():
				return
			}
		}
		switch {
		case s.Dead.Load():
			panic(http.ErrAbortHandler)
		case s.Down.Load():
			http.Error(w, "service unavailable", http.StatusServiceUnavailable)
		case s.Throttle.Load(), s.Scarce.Load() > 1 && nth%int64(s.Scarce.Load()) != 0:
			throttled.ServeHTTP(w, r)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// An Outbox sends a platform's notifications to the receiver, as its switches say.
type Outbox struct {
	*Switches
	URL    string // the receiver's address of the connection
	Client *http.Client
	// Route says where a notification goes and whether it goes at all; an empty address
	// is URL. Done is told how a delivery was answered, 0: not at all. Both may be nil.
	Route func(Notification) (address string, goes bool)
	Done  func(n Notification, status int)

	mu   sync.Mutex
	held []Notification
	sent []Sent
}

// A Sent is one delivery and its answer.
type Sent struct {
	Notification
	At     time.Time
	Status int // 0: no answer
	Lost   bool
}

// Put adds notifications that the next Flush sends.
func (o *Outbox) Put(ns ...Notification) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.held = append(o.held, ns...)
}

// Flush sends what is held and returns how each delivery went.
func (o *Outbox) Flush(ctx context.Context) ([]Sent, error) {
	o.mu.Lock()
	held := o.held
	o.held = nil
	o.mu.Unlock()
	var out []Notification
	for _, n := range held {
		for range 1 + int(o.Duplicate.Load()) {
			out = append(out, n)
		}
	}
	if o.Reorder.Load() {
		rand.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	}
	var done []Sent
	for _, n := range out {
		s, err := o.deliver(ctx, n)
		if err != nil {
			return done, err
		}
		done = append(done, s)
	}
	o.mu.Lock()
	o.sent = append(o.sent, done...)
	if len(o.sent) > 1000 {
		o.sent = o.sent[len(o.sent)-1000:]
	}
	o.mu.Unlock()
	return done, nil
}

// Sent lists the last deliveries, oldest first.
func (o *Outbox) Sent() []Sent {
	o.mu.Lock()
	defer o.mu.Unlock()
	return append([]Sent(nil), o.sent...)
}

func (o *Outbox) deliver(ctx context.Context, n Notification) (s Sent, err error) {
	s = Sent{Notification: n, At: time.Now()}
	address := o.URL
	if o.Route != nil {
		to, goes := o.Route(n)
		if !goes {
			s.Lost = true
			return s, nil
		}
		if to != "" {
			address = to
		}
	}
	if o.Done != nil {
		defer func() {
			if err == nil && !s.Lost {
				o.Done(n, s.Status)
			}
		}()
	}
	if o.Drop.Load() {
		s.Lost = true
		return s, nil
	}
	if d := time.Duration(o.Delay.Load()); d > 0 {
		select {
		case <-time.After(d):
		case <-ctx.Done():
			return s, ctx.Err()
		}
	}
	body := n.Body
	if o.Forge.Load() && len(body) > 0 {
		body = bytes.Clone(body)
		body[len(body)/2] ^= 1
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(body))
	if err != nil {
		return s, fmt.Errorf("sandbox: notify: %w", err)
	}
	req.Header = n.Header.Clone()
	client := o.Client
	if client == nil {
		client = http.DefaultClient
	}
	res, err := client.Do(req)
	if err != nil {
		if ctx.Err() != nil {
			return s, ctx.Err()
		}
		return s, nil
	}
	defer res.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, 1<<16))
	s.Status = res.StatusCode
	return s, nil
}
