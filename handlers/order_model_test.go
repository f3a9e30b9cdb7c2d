package handlers

import (
	"slices"
	"testing"
	"time"

	"counterfoil/models"
	"counterfoil/models/platform"
	"counterfoil/views"
	"counterfoil/views/locale"
)

func TestOrderAxesAndDoubts(t *testing.T) {
	t.Parallel()
	m := orderModel(downOrder(), supporter, moment)
	if m.Stated != 6 || m.Verified != 3 || !m.Checked.Equal(before(2*time.Second)) || !m.Unsure.Equal(before(33*time.Minute)) {
		t.Errorf("%d of %d, checked %v, unsure %v", m.Verified, m.Stated, m.Checked, m.Unsure)
	}
	if len(m.Doubts) != 1 || !slices.Equal(m.Doubts[0].Axes, []models.Axis{models.Fulfillment, models.Cancellation, models.Return}) || m.Doubts[0].Reason.Key != "doubt.api_down" || m.Doubts[0].Review {
		t.Errorf("%+v", m.Doubts)
	}
	for _, a := range m.Axes {
		if a.Old == a.Axis.Money() {
			t.Errorf("%s: last known only %v", a.Axis, a.Old)
		}
	}
	late := orderModel(downOrder(), supporter, moment.Add(2*time.Hour))
	if !late.Doubts[0].Review {
		t.Error("after review_after a person decides")
	}
	bare := downOrder()
	bare.Store = false
	for a, rec := range bare.Axes {
		if !a.Money() {
			bare.Axes[a] = models.AxisRecord{State: rec.State}
		}
	}
	if m := orderModel(bare, supporter, moment); m.Stated != 3 || m.Verified != 3 || len(m.Doubts) != 0 {
		t.Errorf("axes that nobody states count: %d of %d, %+v", m.Verified, m.Stated, m.Doubts)
	}
}

func rowOf(t *testing.T, rows []views.TruthRow, key string) views.TruthRow {
	t.Helper()
	for _, r := range rows {
		if r.Label.Key == key {
			return r
		}
	}
	t.Fatalf("no row %s", key)
	return views.TruthRow{}
}

func TestTruth(t *testing.T) {
	t.Parallel()
	rows := orderModel(downOrder(), supporter, moment).Truth
	for key, want := range map[string]views.Mark{
		"axis.payment":      views.Agrees,  // Stripe decides and was read
		"axis.dispute":      views.Agrees,  // one platform states it
		"axis.fulfillment":  views.Unknown, // said the same, and the store can't be asked
		"axis.cancellation": views.Differ,  // said since the last good reading
		"axis.return":       views.Unknown,
		"amount.refunded":   views.Differ, // the store counts nothing
		"amount.total":      views.Unknown,
	} {
		if got := rowOf(t, rows, key).Mark; got != want {
			t.Errorf("%s is %s, want %s", key, got, want)
		}
	}
	pay := rowOf(t, rows, "axis.payment")
	if len(pay.Now) != 2 || pay.Now[0].By != models.Stripe || pay.Now[0].Word != "succeeded" || pay.Now[1].Text.Key != "truth.cannot_ask_since" || pay.Now[1].Last.Word != "PAID" {
		t.Errorf("payment now: %+v", pay.Now)
	}
	if total := rowOf(t, rows, "amount.total"); len(total.Now) != 1 {
		t.Errorf("a payment's amount stands against the order's total: %+v", total.Now)
	}
	if gone := rowOf(t, rows, "axis.return"); len(gone.Said) != 0 {
		t.Errorf("not stated is never none: %+v", gone.Said)
	}
}

func TestTruthAfterTheStoreAnswers(t *testing.T) {
	t.Parallel()
	f := downOrder()
	h := f.Health[shopConn]
	h.State = models.APIUp
	f.Health[shopConn] = h
	f.Objects[0].Official.Read = before(time.Second)
	f.Objects[0].Official.Axes[models.Cancellation] = models.Statement{State: models.CancellationCancelled, Word: "2026-11-30"}
	rows := orderModel(f, supporter, moment).Truth
	if r := rowOf(t, rows, "axis.cancellation"); r.Mark != views.Differ || !r.Now[0].Differs || r.Said[0].Differs {
		t.Errorf("the platform's word differs, the older notification is history: %+v", r)
	}
	if r := rowOf(t, rows, "axis.fulfillment"); r.Mark != views.Agrees {
		t.Errorf("%+v", r)
	}
	f.Objects[0].Official.Axes[models.Return] = models.Statement{Word: "TELEPORTED", Unclear: true}
	if r := rowOf(t, orderModel(f, supporter, moment).Truth, "axis.return"); r.Mark != views.Unknown || r.Now[0].Text.Key != "truth.unknown_word" || r.Now[0].Word != "TELEPORTED" {
		t.Errorf("%+v", r)
	}
	f.Objects[0].Official = &models.Observation{Absence: models.Gone, Read: before(time.Second)}
	if r := rowOf(t, orderModel(f, supporter, moment).Truth, "axis.return"); r.Now[0].Text.Key != "absence.gone" {
		t.Errorf("%+v", r)
	}
}

func TestWithoutAPIOnlyTheNotificationSpeaks(t *testing.T) {
	t.Parallel()
	f := downOrder()
	f.Health = map[int64]models.Health{shopConn: {State: models.APINone}, stripeConn: {State: models.APINone}}
	for i := range f.Objects {
		f.Objects[i].Official, f.Objects[i].Reads = nil, nil
	}
	m := orderModel(f, supporter, moment)
	if r := rowOf(t, m.Truth, "axis.payment"); r.Mark != views.Unknown || r.Now[0].Text.Key != "truth.no_api" || len(r.Said) != 1 {
		t.Errorf("%+v", r)
	}
	if m.Offer[0].Refused.Key != "may.refused.no_api" {
		t.Errorf("%+v", m.Offer[0])
	}
}

func TestOffers(t *testing.T) {
	t.Parallel()
	m := orderModel(downOrder(), supporter, moment)
	if o := m.Offer[0]; o.Post != "/orders/10428/resync" || !o.Refused.Empty() || o.Note.Key != "may.resync.both" {
		t.Errorf("%+v", o)
	}
	if len(m.Deep) != 2 || len(m.Offer) != 4 {
		t.Errorf("%+v", m.Deep)
	}
	if o := orderModel(downOrder(), auditor, moment).Offer[0]; o.Refused.Key != "may.refused.role" {
		t.Errorf("an auditor may: %+v", o)
	}
}

func TestWorkBeginsWithWhatIsUrgent(t *testing.T) {
	t.Parallel()
	work := orderWork(troubledOrder(), supporter)
	rank := map[string]int{"now": 0, "today": 1, "later": 2, "": 3}
	for i, w := range work {
		if i > 0 && rank[w.Urgency] < rank[work[i-1].Urgency] {
			t.Errorf("%s comes after %s", w.Title.Key, work[i-1].Title.Key)
		}
		if w.Next.Empty() || w.Why.Empty() || w.Urgency != "" && len(w.Who) == 0 {
			t.Errorf("%s doesn't say what next and who: %+v", w.Title.Key, w)
		}
	}
	if len(orderWork(downOrder(), supporter)) != 2 {
		t.Error("a closed exception is work")
	}
}

func TestTimeline(t *testing.T) {
	t.Parallel()
	f := downOrder()
	f.Ledger = append([]models.Entry{{Axis: models.Payment, From: models.PaymentPaid, To: models.PaymentPaid, Before: models.Amounts{Currency: "HKD", Received: 100000}, After: models.Amounts{Currency: "HKD", Received: 128000},
		Cause: models.Cause{Kind: models.CauseResync, Basis: models.Official}, Actor: "staff:7", At: before(time.Minute)}}, f.Ledger...)
	flow := orderFlow(f, supporter)
	var firsts, moves, events int
	for i, s := range flow {
		if i > 0 && s.At.After(flow[i-1].At) {
			t.Errorf("step %d is newer than the one above", i)
		}
		switch {
		case len(s.Set) > 0:
			firsts++
			if len(s.Set) != 6 || s.Set[0].Axis != models.Payment || s.CauseHref != "/events/400" {
				t.Errorf("first reading: %+v", s)
			}
		case s.Kind == "ledger":
			moves++
		case s.Kind == "event":
			events++
		}
	}
	if firsts != 1 || moves != 2 || events != 3 {
		t.Errorf("%d first readings, %d moves, %d events", firsts, moves, events)
	}
	if s := flow[0]; s.Actor != supporter.Name || len(s.Sums) != 1 || s.Sums[0].After.Minor != 128000 || s.Cause.Key != "cause.official" || s.CauseHref != "" {
		t.Errorf("%+v", s)
	}
}

func TestAnnouncedOrdersClaimNothing(t *testing.T) {
	t.Parallel()
	m := orderModel(announcedOrder(), supporter, moment)
	if len(m.Axes) != 0 || len(m.Truth) != 0 || len(m.Doubts) != 0 || len(m.Said) != 5 || m.Amounts.Total != 196000 {
		t.Errorf("%+v", m)
	}
}

func TestEventModel(t *testing.T) {
	t.Parallel()
	f, order := waitingEvent(), downOrder()
	m := eventModel(f, &order)
	if len(m.Truth) != 2 || m.Truth[1].Mark != views.Differ || m.Waits.Key != "event_page.waits.waiting" || m.Effect.Key != "event_page.effect.nothing_yet" {
		t.Errorf("%+v", m)
	}
	if len(m.Path) != 3 || m.Path[0].Text.Key != "event_page.step.received" || !m.Path[2].Warn {
		t.Errorf("%+v", m.Path)
	}
	lone := eventModel(f, nil)
	if lone.Truth[1].Mark != views.Unknown || lone.Truth[1].Ours.Text.Key != "truth.no_record" || lone.Truth[1].Said[0].Differs {
		t.Errorf("%+v", lone.Truth)
	}
	f.State, f.Moves = models.EventApplied, []models.Entry{{Axis: models.Cancellation, From: models.CancellationActive, To: models.CancellationCancelled}}
	if m := eventModel(f, &order); !m.Waits.Empty() || m.Effect.Key != "event_page.effect.moved" || len(m.Moves) != 1 {
		t.Errorf("%+v", m)
	}
	f.Said = nil
	if len(eventModel(f, &order).Truth) != 0 {
		t.Error("an event that says nothing has sides")
	}
}

func TestEveryReasonAndCauseHasItsWords(t *testing.T) {
	t.Parallel()
	var keys []string
	for _, r := range []platform.Reason{platform.SignatureMissing, platform.SignatureWrong, platform.TimeMissing, platform.TimeOff, platform.WrongAccount, platform.TooLarge} {
		keys = append(keys, "reason."+string(r))
	}
	for _, c := range []platform.Cause{platform.CauseUnknown, platform.CauseHeaderMissing, platform.CauseClock, platform.CauseOtherConnection, platform.CauseRetired,
		platform.CauseReencoded, platform.CauseCutShort, platform.CauseAdminKey, platform.CauseOtherShop, platform.CauseMalformed} {
		keys = append(keys, "refusal."+string(c))
	}
	keys = append(keys, "refusal."+string(platform.CauseOtherConnection)+"_elsewhere")
	for _, key := range keys {
		if locale.New(locale.English, hongKong, moment).T(key) == key {
			t.Errorf("%s has no words", key)
		}
	}
}

// A capture below the total makes the order partially paid: both sides agree on that,
// though the payment itself says paid.
func TestAComposedStateIsNoDifference(t *testing.T) {
	t.Parallel()
	f := downOrder()
	f.Health[shopConn] = models.Health{State: models.APIUp}
	f.Axes = axisRecords(models.PaymentPartiallyPaid, models.RefundNone, models.DisputeNone, models.FulfillmentUnfulfilled, models.CancellationActive, models.ReturnNone)
	f.Amounts = models.Amounts{Currency: "HKD", Total: 128000, Received: 100000}
	f.Objects[0].Official.Axes[models.Payment] = models.Statement{State: models.PaymentAuthorized, Word: "AUTHORIZED"}
	f.Objects[0].Official.Amounts = &models.Amounts{Currency: "HKD", Total: 128000}
	f.Objects[1].Official.Amounts = &models.Amounts{Currency: "HKD", Total: 100000, Received: 100000}
	r := rowOf(t, orderModel(f, supporter, moment).Truth, "axis.payment")
	if r.Mark != views.Agrees {
		t.Errorf("%s", r.Mark)
	}
	for _, c := range r.Now {
		if c.Differs {
			t.Errorf("%s is marked in a row that agrees", c.Word)
		}
	}
}

func TestSumsOfExceptionsAreMoney(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		kind     models.ExceptionKind
		side     string
		currency string
		want     any
	}{
		{models.AmountDiffers, "2861.00", "HKD", locale.Money{Minor: 286100, Currency: "HKD"}},
		{models.AmountDiffers, "USD", "HKD", "USD"},
		{models.AmountDiffers, "2861.00", "", "2861.00"},
		{models.StateDiffers, "2", "HKD", "2"},
	} {
		if got := sideOf(models.Exception{Kind: c.kind}, c.side, c.currency); got != c.want {
			t.Errorf("%s %q: %v, want %v", c.kind, c.side, got, c.want)
		}
	}
}
