package store_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"counterfoil/models"
	"counterfoil/models/store"
	"counterfoil/models/store/storetest"
)

// A caseBench is a bench whose clock goes forward when it is told.
type caseBench struct {
	*bench
	mu  sync.Mutex
	now time.Time
}

func (b *caseBench) clock() time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.now
}

func (b *caseBench) forward(d time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.now = b.now.Add(d)
}

func newCaseBench(t testing.TB) *caseBench {
	t.Helper()
	b := &caseBench{now: time.Date(2026, 11, 30, 6, 0, 0, 0, time.UTC)}
	s, err := store.Open(t.Context(), storetest.New(t), store.Options{AuditKey: []byte("audit"), MaxConns: 6, Now: b.clock})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	b.bench = &bench{Store: s, t: t}
	b.conn = b.connection("hk")
	return b
}

func (b *caseBench) opens(subject string, p models.Problem) {
	b.t.Helper()
	b.inTx(func(tx *store.Tx) error {
		return tx.OpenCase(b.t.Context(), store.Case{ConnectionID: b.conn, Subject: subject, Problem: p})
	})
}

func (b *caseBench) due() (heal []store.DueCase) {
	b.t.Helper()
	b.inTx(func(tx *store.Tx) (err error) {
		heal, _, err = tx.DueCases(b.t.Context(), 100, time.Minute)
		return err
	})
	return heal
}

func (b *caseBench) groups() {
	b.t.Helper()
	b.inTx(func(tx *store.Tx) error { return tx.GroupCases(b.t.Context()) })
}

// stands is how the exceptions of a subject stand.
func (b *caseBench) stands(subject string) string {
	b.t.Helper()
	return one[string](b.bench, `SELECT COALESCE(string_agg(state || CASE WHEN needs THEN ' needs' ELSE '' END || CASE WHEN closed_how <> '' THEN ' ' || closed_how ELSE '' END, '; ' ORDER BY id), '')
		FROM exceptions WHERE subject = $1`, subject)
}

var unpaid = models.Problem{Kind: models.Contradiction, Case: models.CaseShippedUnpaid, Axis: models.Payment, PlatformState: "FULFILLED", LocalState: "pending"}

func TestGraceRunsFromTheSecondReading(t *testing.T) {
	t.Parallel()
	b := newCaseBench(t)
	b.opens("order:1", unpaid)
	expect := func(when, want string) {
		t.Helper()
		b.due()
		if got := b.stands("order:1"); got != want {
			t.Errorf("%s: %q, expected %q", when, got, want)
		}
	}
	expect("at the first sight", "open")
	b.forward(time.Minute)
	b.opens("order:1", unpaid)
	b.forward(time.Hour - time.Second)
	expect("just before its grace ends", "open")
	b.must(fmt.Sprintf(`UPDATE connections SET api_state = 'throttled' WHERE id = %d`, b.conn))
	b.forward(time.Hour)
	expect("while the platform can't be asked", "open")
	b.must(fmt.Sprintf(`UPDATE connections SET api_state = 'up' WHERE id = %d`, b.conn))
	expect("at once afterwards", "open")
	b.forward(time.Minute)
	expect("a little later", "open needs")
	b.opens("order:1", unpaid)
	expect("seen again", "open needs")

	// Where nobody comes to look a second time, people look.
	b.opens("order:2", unpaid)
	b.forward(time.Hour + 15*time.Minute)
	b.due()
	if got := b.stands("order:2"); got != "open needs" {
		t.Errorf("without a second reading: %q", got)
	}
}

func TestWhatNeedsWhom(t *testing.T) {
	t.Parallel()
	b := newCaseBench(t)
	for i, c := range []struct {
		p                   models.Problem
		first, hour, atWeek string
	}{
		{models.Problem{Kind: models.PayloadConflict}, "open needs", "open needs", "open needs"},
		{models.Problem{Kind: models.Contradiction, Case: models.CaseShippedAfterCancel, Axis: models.Cancellation}, "open needs", "open needs", "open needs"},
		{models.Problem{Kind: models.Contradiction, Case: models.CaseRefundedNotCancelled, Axis: models.Cancellation}, "open", "open", "open needs"},
		{models.Problem{Kind: models.Unmatched, Case: models.CaseNoMoney}, "open", "open", "closed ended"},
		{models.Problem{Kind: models.GoneOnPlatform, Idle: true}, "open", "open", "closed ended"},
		{models.Problem{Kind: models.ActionFailedKind, Case: string(models.CustomerMessage)}, "open", "open needs", "open needs"},
		{models.Problem{Kind: models.ActionDiffers, Axis: models.Fulfillment}, "open", "open needs", "open needs"},
		{models.Problem{Kind: models.SignatureFailures, Case: models.CaseGoodOnes}, "open", "open", "open"},
	} {
		subject := fmt.Sprint("x:", i)
		began := b.clock()
		b.opens(subject, c.p)
		for _, step := range []struct {
			after time.Duration
			want  string
		}{{0, c.first}, {time.Hour, c.hour}, {7 * 24 * time.Hour, c.atWeek}} {
			b.forward(began.Add(step.after).Sub(b.clock()))
			b.due()
			if got := b.stands(subject); got != step.want {
				t.Errorf("%s/%s after %s: %q, expected %q", c.p.Kind, c.p.Case, step.after, got, step.want)
			}
		}
	}
}

func TestHealsAreHandedOutOnce(t *testing.T) {
	t.Parallel()
	b := newCaseBench(t)
	missed := func(a models.Axis) models.Problem { return models.Problem{Kind: models.MissedNotification, Axis: a} }
	b.opens("object:1", missed(models.Refund))
	b.opens("object:2", missed(models.Payment))
	if one[string](b.bench, `SELECT string_agg(policy || ' ' || needs, ', ' ORDER BY id) FROM exceptions`) != "hold false, wait false" {
		t.Error("what settles by itself is a person's at once")
	}
	if heal := b.due(); len(heal) != 1 || heal[0].Subject != "object:1" {
		t.Errorf("at once: %+v", heal)
	}
	if heal := b.due(); len(heal) != 0 {
		t.Errorf("handed out twice: %+v", heal)
	}
	b.forward(time.Minute)
	if heal := b.due(); len(heal) != 1 || heal[0].Subject != "object:1" {
		t.Errorf("whoever had it is gone: %+v", heal)
	}
	end := func(id int64, settled bool) (closed bool) {
		b.inTx(func(tx *store.Tx) (err error) {
			closed, err = tx.Healed(t.Context(), id, settled)
			return err
		})
		return closed
	}
	if end(1, false) || b.stands("object:1") != "open needs" {
		t.Errorf("not settled: %s", b.stands("object:1"))
	}
	b.forward(14 * time.Minute)
	if heal := b.due(); len(heal) != 1 || heal[0].Subject != "object:2" || !end(heal[0].ID, true) || b.stands("object:2") != "closed resync" {
		t.Errorf("heal_after: %+v, %s", heal, b.stands("object:2"))
	}
}

// accept does what a manager's acceptance does.
func (b *caseBench) accept(subject string, until time.Time) {
	b.t.Helper()
	b.must(fmt.Sprintf(`INSERT INTO acceptances (exception_id, connection_id, subject, kind, axis, platform_digest, local_digest, reason, accepted_by, accepted_at, until)
		SELECT id, connection_id, subject, kind, axis, platform_digest, local_digest, 'why', 'staff:1', '%s', '%s' FROM exceptions WHERE subject = '%s' AND state = 'open'`,
		b.clock().Format(time.RFC3339), until.Format(time.RFC3339), subject),
		fmt.Sprintf(`UPDATE exceptions SET state = 'closed', closed_how = 'accepted' WHERE subject = '%s' AND state = 'open'`, subject))
}

func TestNothingAcceptedComesBack(t *testing.T) {
	t.Parallel()
	b := newCaseBench(t)
	b.opens("order:1", unpaid)
	b.accept("order:1", b.clock().Add(30*24*time.Hour))
	for range 3 {
		b.forward(24 * time.Hour)
		b.opens("order:1", unpaid)
	}
	if got := b.stands("order:1"); got != "closed accepted" {
		t.Errorf("as it was: %q", got)
	}
	moved := unpaid
	moved.LocalState = "failed"
	b.opens("order:1", moved)
	if got := b.stands("order:1"); got != "closed accepted; open" {
		t.Errorf("a side moved: %q", got)
	}
	b.accept("order:1", b.clock().Add(time.Hour))
	b.forward(2 * time.Hour)
	b.opens("order:1", moved)
	if got := b.stands("order:1"); got != "closed accepted; closed accepted; open" {
		t.Errorf("its time is over: %q", got)
	}
}

func TestManyAreOneGroup(t *testing.T) {
	t.Parallel()
	b := newCaseBench(t)
	p := models.Problem{Kind: models.PayloadConflict}
	in := func() int {
		b.groups()
		return one[int](b.bench, `SELECT count(*) FROM exceptions x JOIN case_groups g ON g.id = x.group_id WHERE g.closed_at IS NULL`)
	}
	for i := range 20 {
		b.opens(fmt.Sprint("event:", i), p)
	}
	b.opens("event:other", models.Problem{Kind: models.Silence})
	if n := in(); n != 0 {
		t.Errorf("twenty are a group of %d", n)
	}
	b.opens("event:20", p)
	if n := in(); n != 21 {
		t.Errorf("a group of %d", n)
	}
	b.forward(2 * time.Hour)
	b.opens("event:21", p)
	if n := in(); n != 22 {
		t.Errorf("later ones aren't taken in: %d", n)
	}
	b.must(`UPDATE exceptions SET state = 'closed' WHERE kind = 'payload_conflict'`)
	if n := in(); n != 0 || one[int](b.bench, `SELECT count(*) FROM case_groups WHERE closed_at IS NOT NULL`) != 1 {
		t.Errorf("the group stays open with %d", n)
	}
	b.opens("event:22", p)
	if n := in(); n != 0 {
		t.Errorf("one alone is a group of %d", n)
	}
}

func TestAShopsPolicyDecides(t *testing.T) {
	t.Parallel()
	b := newCaseBench(t)
	missed := models.Problem{Kind: models.MissedNotification, Axis: models.Payment}
	b.must(fmt.Sprintf(`INSERT INTO case_policies VALUES (%d, 'missed_notification/payment', 'ask', true, now(), 'staff:1'), (%d, 'contradiction/shipped_unpaid', 'hold', false, now(), 'staff:1')`, b.shop, b.shop))
	b.opens("object:1", missed)
	b.opens("order:1", unpaid)
	if got := one[string](b.bench, `SELECT string_agg(concat_ws(' ', policy, needs, tell, heal_at IS NULL), ', ' ORDER BY id) FROM exceptions`); got != "ask t t t, hold t f t" {
		t.Errorf("%s", got)
	}
}

// Whatever happens in whatever order: one open row for a key, needs never goes back
// silently, and what was accepted stays closed while nobody moves.
func TestCasesHoldTheirPromises(t *testing.T) {
	t.Parallel()
	b := newCaseBench(t)
	run := 0
	rapid.Check(t, func(r *rapid.T) {
		run++
		subject := fmt.Sprint("order:", 1000+run)
		problems := []models.Problem{unpaid, {Kind: models.MissedNotification, Axis: models.Payment}, {Kind: models.AmountDiffers, Case: "received", Axis: models.Payment},
			{Kind: models.Contradiction, Case: models.CaseShippedAfterRefund, Axis: models.Refund}, {Kind: models.Contradiction, Case: models.CaseCancelledNotRefunded, Axis: models.Refund}}
		kinds := []models.ExceptionKind{models.Contradiction, models.AmountDiffers}
		needed, standing := map[int64]bool{}, int64(0)
		var accepted bool
		for range rapid.IntRange(1, 12).Draw(r, "steps") {
			switch rapid.IntRange(0, 4).Draw(r, "step") {
			case 0, 1:
				p := problems[rapid.IntRange(0, len(problems)-1).Draw(r, "problem")]
				b.opens(subject, p)
			case 2:
				b.inTx(func(tx *store.Tx) error { return tx.CloseCases(b.t.Context(), subject, kinds, nil, "reading") })
			case 3:
				b.forward(time.Duration(rapid.IntRange(1, 120).Draw(r, "minutes")) * time.Minute)
				b.due()
			case 4:
				if !accepted && one[int](b.bench, `SELECT count(*) FROM exceptions WHERE subject = $1 AND state = 'open' AND kind = 'amount_differs'`, subject) == 1 {
					accepted = true
					b.must(fmt.Sprintf(`INSERT INTO acceptances (exception_id, connection_id, subject, kind, axis, platform_digest, local_digest, reason, accepted_by, accepted_at, until)
						SELECT id, connection_id, subject, kind, axis, platform_digest, local_digest, 'why', 'staff:1', now(), '2100-01-01' FROM exceptions WHERE subject = '%s' AND state = 'open' AND kind = 'amount_differs'`, subject),
						fmt.Sprintf(`UPDATE exceptions SET state = 'closed', closed_how = 'accepted' WHERE subject = '%s' AND state = 'open' AND kind = 'amount_differs'`, subject))
				}
			}
			if n := one[int](b.bench, `SELECT count(*) FROM (SELECT 1 FROM exceptions WHERE subject = $1 AND state = 'open' GROUP BY connection_id, kind, axis HAVING count(*) > 1) x`, subject); n != 0 {
				r.Fatalf("%d keys have two open rows", n)
			}
			if accepted && one[int](b.bench, `SELECT count(*) FROM exceptions WHERE subject = $1 AND state = 'open' AND kind = 'amount_differs'`, subject) != 0 {
				r.Fatal("what was accepted came back")
			}
			for id := range needed {
				if one[bool](b.bench, `SELECT state = 'open' AND NOT needs FROM exceptions WHERE id = $1`, id) {
					r.Fatalf("%d went back to settling by itself", id)
				}
			}
			for _, id := range b.idsOf(subject) {
				needed[id] = true
			}
			if standing != 0 && one[string](b.bench, `SELECT state FROM exceptions WHERE id = $1`, standing) != "open" {
				r.Fatal("goods that left after a refund were forgotten")
			}
			standing = one[int64](b.bench, `SELECT COALESCE(max(id), 0) FROM exceptions WHERE subject = $1 AND state = 'open' AND case_name = 'shipped_after_refund'`, subject)
		}
	})
}

// idsOf are the open exceptions of a subject that are people's.
func (b *caseBench) idsOf(subject string) []int64 {
	b.t.Helper()
	rows, err := b.SQL().QueryContext(b.t.Context(), `SELECT id FROM exceptions WHERE subject = $1 AND state = 'open' AND needs`, subject)
	if err != nil {
		b.t.Fatal(err)
	}
	defer rows.Close()
	var ids []int64
	for rows.Next() {
		var id int64
		if err := rows.Scan(&id); err != nil {
			b.t.Fatal(err)
		}
		ids = append(ids, id)
	}
	return ids
}

// A notification that waits is told only where its platform answers and others are
// served; a queue that is busy is none.
func TestEventsThatWaitForNothingAreTold(t *testing.T) {
	t.Parallel()
	b := newCaseBench(t)
	b.must(fmt.Sprintf(`UPDATE connections SET api_since = '2026-11-01' WHERE id = %d`, b.conn))
	event := func(n int, waiting time.Duration, due string, attempts int, done string) {
		d := delivery(b.conn, n, "x")
		b.mustKeep(d)
		b.must(fmt.Sprintf(`UPDATE events SET received_at = '%s', due_at = %s, attempts = %d, state = '%s', done_at = %s WHERE id = (SELECT max(id) FROM events)`,
			b.clock().Add(-waiting).Format(time.RFC3339), due, attempts, map[bool]string{true: "received", false: "applied"}[done == "NULL"], done))
	}
	look := func() string {
		b.inTx(func(tx *store.Tx) error { return tx.OpenStuckEvents(t.Context(), 50) })
		return one[string](b.bench, `SELECT COALESCE(string_agg(split_part(subject, ':', 2), ' ' ORDER BY id), '') FROM exceptions WHERE state = 'open' AND kind = 'overdue'`)
	}
	event(1, 0, "NULL", 1, "'"+b.clock().Add(-time.Minute).Format(time.RFC3339)+"'") // others are served
	event(2, 40*time.Minute, "now()", 0, "NULL")                                     // behind many
	event(3, 40*time.Minute, "now() + interval '1 minute'", 3, "NULL")               // tried, and tried again
	event(4, 20*time.Minute, "now() + interval '1 minute'", 3, "NULL")
	if got := look(); got != "3" {
		t.Errorf("told of %q", got)
	}
	b.must(`UPDATE events SET done_at = NULL WHERE id = 1`)
	if got := look(); got != "3 2" && got != "2 3" {
		t.Errorf("nothing is served: told of %q", got)
	}
	b.must(`UPDATE events SET state = 'applied', due_at = NULL WHERE id = 3`, fmt.Sprintf(`UPDATE connections SET api_state = 'down' WHERE id = %d`, b.conn))
	if got := look(); got != "2" {
		t.Errorf("after one was applied: %q", got)
	}
}
