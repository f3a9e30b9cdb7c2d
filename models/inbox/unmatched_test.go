package inbox

import (
	"fmt"
	"testing"
	"time"

	"counterfoil/models"
	"counterfoil/models/connect"
	"counterfoil/models/store"
)

// openCases lists the open exceptions of a kind, with how often each was seen.
func (b *bench) openCases(kind models.ExceptionKind) string {
	b.t.Helper()
	return scan[string](b, `SELECT COALESCE(string_agg(concat_ws(' ', split_part(subject, ':', 1), NULLIF(case_name, ''), axis, NULLIF(platform_state, ''), NULLIF(local_state, ''), 'x' || count), '; ' ORDER BY id), '')
		FROM exceptions WHERE kind = $1 AND state = 'open'`, kind)
}

// again looks at a waiting payment once more, as its own retry does.
func (b *bench) again(o models.Observation, events ...store.DueEvent) {
	b.t.Helper()
	for i := range events {
		events[i].State = models.EventUnmatched
	}
	b.see("pay", o, events...)
}

func TestUnmatchedMoneyBecomesOneCase(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	pi := intentSays("pi_1", models.PaymentPaid, hkd(10000, 10000, 0), byMetadata("1001"))
	e := []store.DueEvent{b.event("pay", "payment_intent.succeeded", payRef("pi_1")), b.event("pay", "charge.succeeded", payRef("pi_1"))}
	b.see("pay", pi, e...)
	b.forward(59 * time.Minute)
	b.again(pi, e...)
	if got := b.openCases(models.Unmatched); got != "" {
		t.Fatalf("before its time: %s", got)
	}
	b.forward(time.Minute)
	for range 3 {
		b.again(pi, e...)
	}
	if got := b.openCases(models.Unmatched); got != "object money_received pi_paid x1" {
		t.Errorf("case: %s", got)
	}
	// Another event of the same payment is the same case, seen again.
	b.see("pay", pi, append(e, b.event("pay", "charge.updated", payRef("pi_1")))...)
	if got := b.openCases(models.Unmatched); got != "object money_received pi_paid x2" {
		t.Errorf("case: %s", got)
	}
	b.see("hk", shopSays(1001, models.PaymentPending, hkd(10000, 0, 0)))
	if n := scan[int](b, `SELECT count(*) FROM events WHERE state = 'unmatched' AND due_at <= now()`); n != 3 {
		t.Errorf("the order woke %d events", n)
	}
	b.again(pi, e...)
	if got := b.openCases(models.Unmatched); got != "" || b.states(b.order("pi_1")) != "paid none 100.00 0.00" {
		t.Errorf("still open: %s", got)
	}
	if how := scan[string](b, `SELECT closed_how FROM exceptions WHERE kind = 'unmatched'`); how != "order appeared" {
		t.Errorf("closed how: %s", how)
	}
}

func TestUnmatchedWithoutMoneyIsOneCaseOfItsDay(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	var seen []models.Observation
	var events []store.DueEvent
	for i := range 3 {
		o := intentSays(fmt.Sprint("pi_", i), models.PaymentPending, hkd(10000, 0, 0), byMetadata(fmt.Sprint(1000+i)))
		e := b.event("pay", "payment_intent.created", o.Ref)
		b.see("pay", o, e)
		seen, events = append(seen, o), append(events, e)
	}
	b.forward(quietGrace - time.Minute)
	b.again(seen[0], events[0])
	if got := b.openCases(models.Unmatched); got != "" {
		t.Fatalf("before its time: %s", got)
	}
	b.forward(time.Minute)
	for i := range seen {
		b.again(seen[i], events[i])
	}
	if got := b.openCases(models.Unmatched); got != "unmatched no_money pi_pending x1" {
		t.Errorf("case: %s", got)
	}
	for i := range seen {
		b.see("hk", shopSays(1000+i, models.PaymentPending, hkd(10000, 0, 0)))
		b.again(seen[i], events[i])
		if got := b.openCases(models.Unmatched); (got == "") != (i == len(seen)-1) {
			t.Errorf("after %d orders: %q", i+1, got)
		}
	}
}

func TestUnmatchedLooksAgainLessAndLess(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 30, 6, 0, 0, 0, time.UTC)
	paid, quiet := intentSays("pi", models.PaymentPaid, hkd(1, 1, 0)), intentSays("pi", models.PaymentPending, hkd(1, 0, 0))
	for name, c := range map[string]struct {
		seen     *models.Observation
		waited   time.Duration
		rereads  int
		low, top time.Duration
	}{
		"at first":             {&paid, 0, 0, time.Second, 2 * time.Second},
		"later":                {&paid, 5 * time.Minute, 5, 32 * time.Second, 40 * time.Second},
		"in time for the case": {&paid, 59 * time.Minute, 20, time.Minute, time.Minute},
		"after the case":       {&paid, 2 * time.Hour, 20, time.Hour, time.Hour},
		"without money":        {&quiet, 2 * time.Hour, 20, 10 * time.Minute, 13 * time.Minute},
		"after a week":         {&quiet, 8 * 24 * time.Hour, 20, 24 * time.Hour, 24 * time.Hour},
	} {
		got := lookAgain(store.DueEvent{Received: now.Add(-c.waited), Rereads: c.rereads}, c.seen, now)
		if got < c.low || got > c.top {
			t.Errorf("%s: after %s", name, got)
		}
	}
}

func TestAnotherSystemsEventsAreDismissed(t *testing.T) {
	t.Parallel()
	b := newBench(t, map[string]string{"ignore_topics": "charge.updated,invoice.*"})
	pi := intentSays("pi_1", models.PaymentPaid, hkd(10000, 10000, 0), byMetadata("1001"))
	pi.Foreign = "app=other"
	e := b.event("pay", "payment_intent.succeeded", payRef("pi_1"))
	// It is another system's, whatever number it names.
	b.see("hk", shopSays(1001, models.PaymentPending, hkd(10000, 0, 0)))
	b.see("pay", pi, e)
	if got := scan[string](b, `SELECT state || ' ' || error FROM events WHERE id = $1`, e.ID); got != "not_applied note.other_system" {
		t.Errorf("event %s", got)
	}
	if o := b.order("1001"); b.states(o) != "pending none 0.00 0.00" {
		t.Errorf("order %s", b.states(o))
	}
	// By topic, without asking; beside another event of the same object that stays.
	theirs, ours := b.event("pay", "invoice.paid", payRef("pi_2")), b.event("pay", "payment_intent.created", payRef("pi_2"))
	claim := store.Claim{ObjectID: scan[int64](b, `SELECT id FROM platform_objects WHERE ref = 'pi_2'`), Ref: payRef("pi_2"), Events: []store.DueEvent{theirs, ours}}
	left, err := b.dismiss(b.ctx, b.conn("pay"), claim)
	if err != nil || len(left.Events) != 1 || left.Events[0].ID != ours.ID {
		t.Errorf("left %d events, %v", len(left.Events), err)
	}
	if got := scan[string](b, `SELECT state || ' ' || error FROM events WHERE id = $1`, theirs.ID); got != "not_applied note.other_system" {
		t.Errorf("event %s", got)
	}
	if n := scan[int](b, `SELECT count FROM topics WHERE topic = 'invoice.paid'`); n != 1 {
		t.Errorf("counted %d", n)
	}
	// What belongs to an order is no other system's.
	b.see("pay", intentSays("pi_3", models.PaymentPaid, hkd(10000, 10000, 0), byMetadata("1001")))
	claim = store.Claim{ObjectID: scan[int64](b, `SELECT id FROM platform_objects WHERE ref = 'pi_3'`), Ref: payRef("pi_3"), OrderID: b.order("1001").ID,
		Events: []store.DueEvent{b.event("pay", "charge.updated", payRef("pi_3"))}}
	if left, err := b.dismiss(b.ctx, b.conn("pay"), claim); err != nil || len(left.Events) != 1 {
		t.Errorf("left %d events, %v", len(left.Events), err)
	}
}

// A rule that an admin sets is applied to what waits already.
func TestNewRuleJudgesWhatWaits(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	pi := intentSays("pi_1", models.PaymentPaid, hkd(10000, 10000, 0), byMetadata("7"))
	e := b.event("pay", "payment_intent.succeeded", payRef("pi_1"))
	b.see("pay", pi, e)
	b.forward(time.Hour)
	b.again(pi, e)
	if b.openCases(models.Unmatched) == "" {
		t.Fatal("no case")
	}
	if err := b.book.Add(b.ctx, "staff:1", connect.Setup{Slug: "pay", Set: map[string]string{"ignore_metadata": "app=other"}}); err != nil {
		t.Fatal(err)
	}
	if n := scan[int](b, `SELECT count(*) FROM events e JOIN platform_objects p ON p.ref = e.object_ref WHERE e.due_at <= now() AND p.reread_at <= now()`); n != 1 {
		t.Errorf("%d are judged again", n)
	}
	pi.Foreign = "app=other"
	b.again(pi, e)
	if got := b.openCases(models.Unmatched); got != "" {
		t.Errorf("still open: %s", got)
	}
	if how := scan[string](b, `SELECT closed_how FROM exceptions WHERE kind = 'unmatched'`); how != "dismissed" {
		t.Errorf("closed how: %s", how)
	}
}

// A buyer can type a reference into a payment link: it counts only if the sum fits.
func TestTypedReferenceMovesNothingUnlessItFits(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	b.see("hk", shopSays(1001, models.PaymentPending, hkd(10000, 0, 0)))
	e := b.event("pay", "checkout.session.completed", payRef("pi_1"))
	b.see("pay", intentSays("pi_1", models.PaymentPaid, hkd(100, 100, 0), typed("1001")), e)
	if o := b.order("1001"); b.states(o) != "pending none 0.00 0.00" || len(o.Objects) != 1 {
		t.Errorf("HK$1: %s", b.states(o))
	}
	if got := scan[string](b, `SELECT state FROM events WHERE id = $1`, e.ID); got != "unmatched" {
		t.Errorf("the event is %s", got)
	}
	// One that fitted when it was begun, of which less came in, and went back.
	b.see("pay", intentSays("pi_2", models.PaymentPending, hkd(10000, 0, 0), typed("1001")))
	for _, a := range []models.Amounts{hkd(10000, 100, 0), hkd(10000, 100, 100)} {
		b.see("pay", intentSays("pi_2", models.PaymentPaid, a, typed("1001")))
		if o := b.order("1001"); b.states(o) != "pending none 0.00 0.00" {
			t.Errorf("less than it said: %s", b.states(o))
		}
	}
	b.see("pay", intentSays("pi_3", models.PaymentPaid, hkd(10000, 10000, 0), typed("1001")))
	if o := b.order("1001"); b.states(o) != "paid none 100.00 0.00" {
		t.Errorf("the whole sum: %s", b.states(o))
	}
	// A second intent, left open or called off, is no move back.
	for _, s := range []models.State{models.PaymentPending, models.PaymentFailed, models.PaymentVoided} {
		b.see("pay", intentSays("pi_4", s, hkd(10000, 0, 0), byMetadata("1001")))
		if o := b.order("1001"); o.State(models.Payment) != models.PaymentPaid {
			t.Errorf("%s beside a payment: %s", s, o.State(models.Payment))
		}
	}
}

func TestRefundToldTwiceMovesOnce(t *testing.T) {
	t.Parallel()
	shop, pi := shopSays(1001, models.PaymentPaid, hkd(10000, 10000, 4000)), intentSays("pi_1", models.PaymentPaid, hkd(10000, 10000, 4000), byMetadata("1001"))
	for name, told := range map[string][]models.Observation{"shop first": {shop, pi, shop, pi}, "payment first": {pi, shop, pi, shop}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, nil)
			b.see("hk", shopSays(1001, models.PaymentPaid, hkd(10000, 10000, 0)))
			b.see("pay", intentSays("pi_1", models.PaymentPaid, hkd(10000, 10000, 0), byMetadata("1001")))
			for _, o := range told {
				slug := "pay"
				if o.Store {
					slug = "hk"
				}
				b.see(slug, o)
			}
			o := b.order("1001")
			if b.states(o) != "paid partial 100.00 40.00" || !o.DisagreeSince.IsZero() {
				t.Errorf("order %s, disagreeing since %s", b.states(o), o.DisagreeSince)
			}
			if n := scan[int](b, `SELECT count(*) FROM ledger WHERE order_id = $1 AND refunded > refunded_before`, o.ID); n != 1 {
				t.Errorf("the refunded sum grew %d times", n)
			}
			if n := scan[int](b, `SELECT count(*) FROM actions WHERE stage LIKE 'refund:%'`); n != 1 {
				t.Errorf("%d messages about one refund", n)
			}
		})
	}
}

// Shopify says paid, Stripe says refunded: one exception with both states, after the
// grace, in which both can be asked.
func TestPlatformsDisagree(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	shop, pi := shopSays(1001, models.PaymentPaid, hkd(10000, 10000, 0)), intentSays("pi_1", models.PaymentPaid, hkd(10000, 10000, 10000), byMetadata("1001"))
	both := func() {
		t.Helper()
		b.see("hk", shop)
		b.see("pay", pi)
	}
	expect := func(when, want string) {
		t.Helper()
		if got := b.openCases(models.PlatformsDisagree); got != want {
			t.Errorf("%s: %q", when, got)
		}
	}
	const differ = "order refund succeeded 100.00 SHOP_paid 0.00 x"
	both()
	if o := b.order("1001"); b.states(o) != "paid full 100.00 100.00" || o.DisagreeSince.IsZero() || o.Axes[models.Refund].Doubt != models.Differs {
		t.Errorf("order %s since %s", b.states(o), o.DisagreeSince)
	}
	expect("at once", "")
	b.forward(models.DisagreeGrace(models.Refund) - time.Second)
	both()
	expect("within the grace", "")
	// An outage is no part of the grace.
	if _, _, err := b.book.Failed(b.ctx, b.conn("pay"), outage); err != nil {
		t.Fatal(err)
	}
	b.forward(time.Hour)
	b.see("hk", shop)
	expect("while one can't be asked", "")
	if err := b.book.Answered(b.ctx, b.conn("pay")); err != nil {
		t.Fatal(err)
	}
	both()
	expect("asked again", "")
	// Nor is a case opened while an event of theirs isn't processed.
	e := b.event("pay", "charge.refund.updated", payRef("pi_1"))
	b.forward(time.Second)
	b.see("hk", shop)
	expect("while an event waits", "")
	b.see("pay", pi, e)
	expect("after the grace", differ+"1")
	// It is open already: an outage doesn't close it.
	if _, _, err := b.book.Failed(b.ctx, b.conn("pay"), outage); err != nil {
		t.Fatal(err)
	}
	b.see("hk", shop)
	expect("open, and one can't be asked", differ+"1")
	if err := b.book.Answered(b.ctx, b.conn("pay")); err != nil {
		t.Fatal(err)
	}
	shop = shopSays(1001, models.PaymentPaid, hkd(10000, 10000, 10000))
	b.see("hk", shop)
	expect("both agree", "")
	if o := b.order("1001"); !o.DisagreeSince.IsZero() || o.Axes[models.Refund].Check != models.Verified {
		t.Errorf("order %+v", o.Axes[models.Refund])
	}
}

// What outlasts its grace is read once more, not again and again.
func TestDisagreementIsReadOnceMore(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	b.see("hk", shopSays(1001, models.PaymentPaid, hkd(10000, 10000, 0)))
	b.see("pay", intentSays("pi_1", models.PaymentPaid, hkd(10000, 10000, 10000), byMetadata("1001")))
	woken := func() int {
		b.wake(b.ctx)
		return scan[int](b, `WITH x AS (UPDATE platform_objects SET reread_at = NULL WHERE reread_at IS NOT NULL RETURNING 1) SELECT count(*) FROM x`)
	}
	if n := woken(); n != 0 {
		t.Errorf("%d are read at once", n)
	}
	b.forward(models.DisagreeGrace(models.Refund))
	if n := woken(); n != 2 {
		t.Errorf("%d are read after the grace", n)
	}
	b.exec(`UPDATE platform_objects SET fetched_at = $1`, b.clock())
	if n := woken(); n != 0 {
		t.Errorf("%d are read although they were", n)
	}
}

// Without an API the payload alone names the order; it waits all the same.
func TestReportedPaymentWaitsForItsOrder(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	b.exec(`UPDATE connections SET credentials = NULL, api_state = 'none', version = version + 1 WHERE slug = 'pay'`)
	if err := b.book.Look(b.ctx); err != nil {
		t.Fatal(err)
	}
	e := b.event("pay", "payment_intent.succeeded", payRef("pi_1"))
	said := intentSays("pi_1", models.PaymentPaid, hkd(10000, 10000, 0), byMetadata("1001"))
	said.Basis, said.Changed = models.Reported, b.clock()
	e.Said = &said
	report := func() string {
		t.Helper()
		if err := b.Inbox.apply(b.ctx, b.conn("pay"), store.Claim{Ref: e.Object, Events: []store.DueEvent{e}}, nil); err != nil {
			t.Fatal(err)
		}
		return scan[string](b, `SELECT state FROM events WHERE id = $1`, e.ID)
	}
	if s := report(); s != "unmatched" {
		t.Fatalf("the event is %s", s)
	}
	b.see("hk", shopSays(1001, models.PaymentPending, hkd(10000, 0, 0)))
	if n := scan[int](b, `SELECT count(*) FROM events WHERE state = 'unmatched' AND due_at <= now()`); n != 1 {
		t.Error("the order didn't wake it")
	}
	if s := report(); s != "applied" {
		t.Errorf("the event is %s", s)
	}
	if o := b.order("1001"); b.states(o) != "paid none 100.00 0.00" || o.Axes[models.Payment].Doubt != models.ReportedOnly {
		t.Errorf("order %s", b.states(o))
	}
}
