package connect_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"counterfoil/models"
	"counterfoil/models/connect"
	"counterfoil/models/platform"
	"counterfoil/models/store"
)

func (d *desk) fail(slug string, out platform.Outage) (time.Duration, models.APIState) {
	d.t.Helper()
	next, state, err := d.Failed(d.t.Context(), d.conn(slug), &out)
	if err != nil {
		d.t.Fatal(err)
	}
	if got := d.conn(slug).APIState; got != state {
		d.t.Errorf("the state is %s and %s was told", got, state)
	}
	return next, state
}

func (d *desk) answered(slug string) {
	d.t.Helper()
	if err := d.Answered(d.t.Context(), d.conn(slug)); err != nil {
		d.t.Fatal(err)
	}
}

func TestDownAfterEnoughFailuresOverEnoughTime(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.add(pay("pay", "hk", "whsec_1"))
	began := d.clock()
	broken := platform.Outage{Detail: "status 503"}

	// Many failures within a short time aren't an outage, nor is one that lasts.
	var last time.Duration
	for i := range 10 {
		next, state := d.fail("pay", broken)
		if state != models.APIUp {
			t.Fatalf("down after %d failures at once", i+1)
		}
		if next < last || next > 15*time.Second {
			t.Errorf("try %d comes after %s, the one before after %s", i+1, next, last)
		}
		last = next
	}
	if last != 15*time.Second {
		t.Errorf("the longest pause is %s", last)
	}
	d.forward(59 * time.Second)
	if _, state := d.fail("pay", broken); state != models.APIUp {
		t.Error("down before down_after")
	}
	d.forward(time.Second)
	if _, state := d.fail("pay", broken); state != models.APIDownState {
		t.Error("not down after down_after")
	}
	c := d.conn("pay")
	if !c.APISince.Equal(began) || c.APIError != "status 503" {
		t.Errorf("down since %s (it began at %s): %s", c.APISince, began, c.APIError)
	}
	if h := c.Health(); h.State != models.APIDownState || !h.Since.Equal(began) || h.Review != time.Hour || h.Settle != time.Minute || h.Stale != 24*time.Hour || h.Unsent != 6*time.Hour {
		t.Errorf("health %+v", h)
	}
	// Throttling doesn't make a platform that is down look better.
	d.forward(time.Minute)
	if _, state := d.fail("pay", platform.Outage{Throttled: true, Detail: "status 429"}); state != models.APIDownState || !d.conn("pay").APISince.Equal(began) {
		t.Errorf("%s since %s", state, d.conn("pay").APISince)
	}
	d.answered("pay")
	c = d.conn("pay")
	if c.APIState != models.APIUp || !c.APISince.Equal(d.clock()) || c.APIFailures != 0 || c.APIFailing != nil || c.APINext != nil || c.APIError != "" {
		t.Errorf("after an answer: %+v", c.ConnectionRow)
	}
	// One failure long after starts anew.
	d.forward(time.Hour)
	if _, state := d.fail("pay", broken); state != models.APIUp {
		t.Error("one failure is an outage")
	}
}

func TestFewFailuresOverALongTime(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.add(pay("pay", "hk", "whsec_1"))
	for i := range 5 {
		d.forward(time.Hour)
		_, state := d.fail("pay", platform.Outage{Detail: "no connection"})
		if want := i == 4; (state == models.APIDownState) != want {
			t.Errorf("failure %d: %s", i+1, state)
		}
	}
}

func TestDownAfterZero(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	in := pay("pay", "hk", "whsec_1")
	in.Set = map[string]string{"down_after": "0s"}
	d.add(in)
	if _, state := d.fail("pay", platform.Outage{Denied: true, Detail: "status 401"}); state != models.APIDownState {
		t.Errorf("%s", state)
	}
}

func TestThrottled(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.add(pay("pay", "hk", "whsec_1"))
	for _, c := range []struct{ after, next time.Duration }{{30 * time.Second, 30 * time.Second}, {time.Millisecond, time.Second}, {48 * time.Hour, time.Hour}} {
		next, state := d.fail("pay", platform.Outage{Throttled: true, After: c.after, Detail: "status 429"})
		if state != models.APIThrottled || next != c.next {
			t.Errorf("after %s: %s, next in %s", c.after, state, next)
		}
	}
	since := d.conn("pay").APISince
	d.forward(time.Minute)
	d.fail("pay", platform.Outage{Throttled: true, Detail: "status 429"})
	if !d.conn("pay").APISince.Equal(since) {
		t.Error("throttled anew")
	}
	// A failure of another kind says that the throttle is over.
	if _, state := d.fail("pay", platform.Outage{Detail: "status 500"}); state == models.APIThrottled {
		t.Error("still throttled")
	}
	d.answered("pay")
	if c := d.conn("pay"); c.APIState != models.APIUp || c.CallsRunOut() {
		t.Errorf("%+v", c.ConnectionRow)
	}
}

func TestPaused(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.add(pay("pay", "hk", "whsec_1"))
	if out, paused := d.conn("pay").Paused(d.clock()); paused {
		t.Errorf("a healthy connection is paused: %v", out)
	}
	d.fail("pay", platform.Outage{Throttled: true, After: 10 * time.Minute, Detail: "status 429"})
	c := d.conn("pay")
	out, paused := c.Paused(*c.APINext)
	if paused {
		t.Errorf("paused beyond its time: %v", out)
	}
	out, paused = c.Paused(c.APINext.Add(-time.Minute))
	if !paused || !out.Throttled || out.After != time.Minute || out.Detail != "status 429" {
		t.Errorf("paused: %t, %+v", paused, out)
	}
	d.answered("pay")
	if out, paused := d.conn("pay").Paused(c.APINext.Add(-time.Minute)); paused {
		t.Errorf("still paused: %v", out)
	}
}

// A change by an admin gives the platform a fresh chance.
// New settings are tried at once, and only an answer says that they work.
func TestNewSettingsAreTriedAtOnce(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	in := pay("pay", "hk", "whsec_1")
	in.Set = map[string]string{"down_after": "0s"}
	d.add(in)
	d.fail("pay", platform.Outage{Denied: true, Detail: "status 401"})
	d.add(connect.Setup{Slug: "pay", Secrets: connect.Secrets{APIToken: "sk_test_right"}})
	c := d.conn("pay")
	if _, paused := c.Paused(time.Now().Add(time.Second)); paused || c.APIState != models.APIDownState || c.APIFailing == nil {
		t.Errorf("%+v", c.ConnectionRow)
	}
	if err := d.Answered(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if c := d.conn("pay"); c.APIState != models.APIUp || c.APIFailing != nil || c.APIError != "" {
		t.Errorf("%+v", c.ConnectionRow)
	}
}

// An answer makes due at once what waited for it.
func TestAnswerWakesWhatWaits(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.add(pay("pay", "hk", "whsec_1"))
	id := d.conn("pay").ID
	keep := func(key byte, state models.EventState) {
		err := d.store.Tx(t.Context(), func(tx *store.Tx) error {
			kept, err := tx.KeepEvents(t.Context(), []store.NewEvent{{ConnectionID: id, Key: [16]byte{key}, Topic: "x", Received: d.clock(), Sealed: []byte("sealed")}})
			if err != nil {
				return err
			}
			_, err = tx.MarkEvents(t.Context(), []store.Mark{{ID: kept[0].ID, State: state, After: time.Hour}})
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	keep(1, models.EventWaiting)
	keep(2, models.EventUnmatched)
	keep(3, models.EventApplied)
	d.fail("pay", platform.Outage{Detail: "status 503"})
	d.answered("pay")
	var due string
	if err := d.store.SQL().QueryRowContext(t.Context(), `SELECT string_agg(state || ' ' || COALESCE((due_at <= now())::text, '-'), ', ' ORDER BY key) FROM events`).Scan(&due); err != nil {
		t.Fatal(err)
	}
	if due != "waiting true, unmatched false, applied -" {
		t.Errorf("due: %s", due)
	}
}

func TestBudget(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	in := till("till", "hk", "s")
	in.Secrets.UserName, in.Secrets.Password = "u", "p"
	in.APIURL = "http://127.0.0.1:1" // nobody answers there
	in.Set["budget"] = "3"
	d.add(in)
	c := d.conn("till")
	if c.CallBudget() != 3 {
		t.Fatalf("budget %d", c.CallBudget())
	}
	ask := func(c *connect.Conn) *platform.Outage {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		_, err := c.Adapter.Check(ctx)
		out, ok := errors.AsType[*platform.Outage](err)
		if !ok {
			t.Fatalf("nobody answers and the check says %v", err)
		}
		return out
	}
	var out *platform.Outage
	for range 4 {
		if out = ask(c); out.Throttled {
			break
		}
	}
	if !out.Throttled || out.After <= 0 {
		t.Fatalf("more calls than the budget allows: %+v", out)
	}
	spent := func() int64 {
		n, err := d.store.CallsSince(t.Context(), c.ID, 30)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if n := spent(); n != 3 {
		t.Errorf("%d calls spent", n)
	}
	d.fail("till", *out)
	if c := d.conn("till"); !c.CallsRunOut() || c.APIState != models.APIThrottled {
		t.Errorf("%+v", c.ConnectionRow)
	}
	// Calls of long ago count no more, and another process shares the count.
	if _, err := d.store.SQL().ExecContext(t.Context(), `UPDATE connection_calls SET day = day - 30`); err != nil {
		t.Fatal(err)
	}
	other, err := d.book().Slug(t.Context(), "till")
	if err != nil {
		t.Fatal(err)
	}
	if out := ask(other); out.Throttled {
		t.Errorf("the budget came not back: %+v", out)
	}
	if n := spent(); n < 1 || n > 3 {
		t.Errorf("%d calls spent", n)
	}
	for slug, want := range map[string]int64{"pay": 0, "free": 1000, "none": 0} {
		in := till(slug, "hk", "s")
		switch slug {
		case "pay":
			in = pay(slug, "hk", "w")
		case "none":
			in.Set["budget"] = "0"
		}
		d.add(in)
		if got := d.conn(slug).CallBudget(); got != want {
			t.Errorf("%s: budget %d", slug, got)
		}
	}
}

// When calls get scarce, the last tenth is for those that a person waits for.
func TestLastTenthOfTheBudgetIsForPeople(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	in := till("till", "hk", "s")
	in.Secrets.UserName, in.Secrets.Password = "u", "p"
	in.APIURL = "http://127.0.0.1:1" // nobody answers there
	in.Set["budget"] = "20"
	d.add(in)
	c := d.conn("till")
	spend := func(ctx context.Context, most int) {
		t.Helper()
		for range most + 1 {
			_, err := c.Adapter.Check(ctx)
			out, ok := errors.AsType[*platform.Outage](err)
			if !ok {
				t.Fatalf("nobody answers and the check says %v", err)
			}
			if out.Throttled {
				break
			}
		}
		if n, err := d.store.CallsSince(ctx, c.ID, 30); err != nil || n != int64(most) {
			t.Errorf("%d calls spent instead of %d (%v)", n, most, err)
		}
	}
	spend(t.Context(), 18)
	spend(connect.Awaited(t.Context()), 20)
}

// Failures that several processes report at once are all counted.
func TestFailuresAtOnce(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.add(pay("pay", "hk", "whsec_1"))
	c := d.conn("pay")
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if _, _, err := d.Failed(t.Context(), c, &platform.Outage{Detail: "status 503"}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := d.conn("pay").APIFailures; n != 8 {
		t.Errorf("%d failures counted", n)
	}
}

// The history has one row for each state, none for what changes nothing.
func TestHealthHasAHistory(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.add(pay("pay", "hk", "whsec_1"))
	began := d.clock()
	reads := connect.Reads{Store: d.store, Book: d.Book}
	expect := func(when string, want ...models.HealthPeriod) {
		t.Helper()
		got, err := reads.HealthHistory(t.Context(), d.conn("pay").ID)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %+v, %v", when, got, err)
		}
	}
	first := models.HealthPeriod{State: models.APIUp, Since: began}
	expect("new", first)
	d.answered("pay")
	d.forward(time.Minute)
	failing := d.clock()
	for range 5 {
		d.fail("pay", platform.Outage{Detail: "status 503"})
	}
	expect("failing, not down", first)
	d.forward(time.Minute)
	d.fail("pay", platform.Outage{Detail: "status 503"})
	d.fail("pay", platform.Outage{Detail: "status 502"})
	first.Until = failing
	down := models.HealthPeriod{State: models.APIDownState, Since: failing, Error: "status 503"}
	expect("down", down, first)
	d.forward(time.Minute)
	d.answered("pay")
	d.answered("pay")
	down.Until = d.clock()
	up := models.HealthPeriod{State: models.APIUp, Since: d.clock()}
	expect("up again", up, down, first)
	// One failure that goes by isn't history.
	d.forward(time.Minute)
	d.fail("pay", platform.Outage{Detail: "status 500"})
	d.answered("pay")
	expect("a short failure", up, down, first)
	d.fail("pay", platform.Outage{Throttled: true, Detail: "status 429"})
	d.fail("pay", platform.Outage{Throttled: true, Detail: "status 429"})
	up.Until = d.clock()
	throttled := models.HealthPeriod{State: models.APIThrottled, Since: d.clock(), Error: "status 429"}
	expect("throttled", throttled, up, down, first)
	// An admin's change gives it a fresh chance.
	d.forward(time.Minute)
	d.add(connect.Setup{Slug: "pay", Secrets: connect.Secrets{APIToken: "sk_test_right"}})
	throttled.Until = d.clock()
	again := models.HealthPeriod{State: models.APIUp, Since: d.clock()}
	expect("set anew", again, throttled, up, down, first)
	files, err := reads.Connections(t.Context(), nil)
	if err != nil || len(files) != 1 || len(files[0].History) != 5 || files[0].History[0] != again {
		t.Errorf("the page shows %+v, %v", files, err)
	}
}

// Several processes fail at once; one of them writes the history.
func TestHealthOfManyAtOnce(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	in := pay("pay", "hk", "whsec_1")
	in.Set = map[string]string{"down_after": "0s"}
	d.add(in)
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			book := d.book()
			if err := book.Look(t.Context()); err != nil {
				t.Error(err)
				return
			}
			c := book.All()[0]
			if i%2 == 0 {
				_, _, err := book.Failed(t.Context(), c, &platform.Outage{Detail: "status 503"})
				if err != nil {
					t.Error(err)
				}
				return
			}
			if err := book.Answered(t.Context(), c); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	d.fail("pay", platform.Outage{Detail: "status 503"})
	h, err := d.store.HealthHistory(t.Context(), d.conn("pay").ID)
	if err != nil || h[0].State != models.APIDownState || !h[0].Until.IsZero() {
		t.Fatalf("%+v, %v", h, err)
	}
	for i, p := range h[1:] {
		if p.State == h[i].State || p.Until.IsZero() {
			t.Errorf("%d: %s follows %s", i, h[i].State, p.State)
		}
	}
}
