package models

import (
	"testing"
	"time"
)

func TestShow(t *testing.T) {
	t.Parallel()
	up := Health{State: APIUp, Settle: time.Minute, Review: time.Hour, Stale: 24 * time.Hour, Unsent: 6 * time.Hour}
	in := func(s APIState, ago time.Duration) Health {
		h := up
		h.State, h.Since = s, noon.Add(-ago)
		return h
	}
	waiting := func(h Health, ago time.Duration) Health {
		h.Waiting = noon.Add(-ago)
		return h
	}
	read := func(ago time.Duration) AxisRecord {
		return AxisRecord{State: PaymentPending, Check: Verified, CheckedAt: noon.Add(-ago), Connection: 1, Platform: Shopify}
	}
	doubt := func(check Check, d Doubt) AxisRecord {
		r := read(time.Minute)
		r.Check, r.Doubt = check, d
		return r
	}
	for name, c := range map[string]struct {
		rec    AxisRecord
		health Health
		states map[Axis]State // of the rest of the order
		want   Shown
	}{
		"just read":                     {read(time.Minute), up, nil, Shown{Check: Verified}},
		"nobody states it":              {AxisRecord{State: PaymentPending, Check: Verified}, in(APIDownState, time.Minute), nil, Shown{Check: Verified}},
		"down":                          {read(time.Minute), in(APIDownState, 10*time.Minute), nil, Shown{Check: Unverified, Doubt: APIDown, Since: noon.Add(-10 * time.Minute)}},
		"down for review_after":         {read(time.Minute), in(APIDownState, time.Hour), nil, Shown{Check: Unverified, Doubt: APIDown, Since: noon.Add(-time.Hour)}},
		"down for longer":               {read(time.Minute), in(APIDownState, time.Hour+time.Second), nil, Shown{Check: ToReview, Doubt: APIDown, Since: noon.Add(-time.Hour - time.Second)}},
		"throttled, nothing waits":      {read(time.Minute), in(APIThrottled, time.Minute), nil, Shown{Check: Verified}},
		"throttled, an event waits":     {read(time.Minute), waiting(in(APIThrottled, time.Minute), time.Second), nil, Shown{Check: Unverified, Doubt: Throttled, Since: noon.Add(-time.Minute)}},
		"checking":                      {read(time.Minute), waiting(up, time.Minute), nil, Shown{Check: Verified, Checking: true}},
		"an event waits":                {read(time.Minute), waiting(up, time.Minute+time.Second), nil, Shown{Check: Unverified, Doubt: EventWaits, Since: noon.Add(-time.Minute - time.Second)}},
		"read a day ago":                {read(24 * time.Hour), up, nil, Shown{Check: Verified}},
		"overdue":                       {read(24*time.Hour + 1), up, nil, Shown{Check: Unverified, Doubt: ReadingOverdue}},
		"never overdue":                 {read(1000 * time.Hour), Health{State: APIUp, Settle: time.Minute}, nil, Shown{Check: Verified}},
		"settled is never overdue":      {read(1000 * time.Hour), up, map[Axis]State{Payment: PaymentPaid, Fulfillment: FulfillmentFulfilled}, Shown{Check: Verified, Settled: true}},
		"paid and unsent is overdue":    {read(6*time.Hour + 1), up, map[Axis]State{Payment: PaymentPaid}, Shown{Check: Unverified, Doubt: ReadingOverdue}},
		"paid and unsent":               {read(6 * time.Hour), up, map[Axis]State{Payment: PaymentPaid}, Shown{Check: Verified}},
		"reported only":                 {doubt(Unverified, ReportedOnly), in(APINone, 0), nil, Shown{Check: Unverified, Doubt: ReportedOnly}},
		"reported only, an event waits": {doubt(Unverified, ReportedOnly), waiting(up, time.Hour), nil, Shown{Check: Unverified, Doubt: ReportedOnly}},
		"a difference":                  {doubt(Unverified, Differs), up, nil, Shown{Check: Unverified, Doubt: Differs}},
		"a difference while down":       {doubt(Unverified, Differs), in(APIDownState, time.Minute), nil, Shown{Check: Unverified, Doubt: APIDown, Since: noon.Add(-time.Minute)}},
		"outside the window":            {doubt(Unverified, TooOld), up, nil, Shown{Check: Unverified, Doubt: TooOld}},
		"not read since it was down":    {doubt(Unverified, APIDown), in(APIUp, time.Second), nil, Shown{Check: Unverified, Doubt: APIDown, Since: noon.Add(-time.Second)}},
		"an unclear word stays":         {doubt(ToReview, UnclearWord), in(APIDownState, time.Minute), nil, Shown{Check: ToReview, Doubt: UnclearWord}},
		"missing":                       {doubt(ToReview, Missing), up, nil, Shown{Check: ToReview, Doubt: Missing}},
	} {
		o := known(hkd(100, 0, 0), c.states)
		c.rec.State = o.State(Payment)
		o.Axes[Payment] = c.rec
		c.want.At, c.want.Platform = c.rec.CheckedAt, c.rec.Platform
		if got := o.Show(Payment, map[int64]Health{1: c.health}, noon); got != c.want {
			t.Errorf("%s:\n got %+v\nwant %+v", name, got, c.want)
		}
	}
}

func TestAnnouncedIsNeverVerified(t *testing.T) {
	t.Parallel()
	o := Order{Announced: true, Platform: Shopify}
	for _, s := range []Shown{o.Show(Payment, nil, noon), o.Worst(nil, noon)} {
		if s.Check != Unverified || s.Doubt != ReportedOnly || s.Settled {
			t.Errorf("%+v", s)
		}
	}
}

func TestWorst(t *testing.T) {
	t.Parallel()
	o := known(hkd(100, 0, 0), nil)
	set := func(a Axis, check Check, d Doubt, ago time.Duration, connection int64) {
		rec := o.Axes[a]
		rec.Check, rec.Doubt, rec.Connection, rec.CheckedAt = check, d, connection, noon.Add(-ago)
		o.Axes[a] = rec
	}
	for i, a := range Axes {
		set(a, Verified, NoDoubt, time.Duration(i)*time.Minute, 1)
	}
	health := map[int64]Health{1: {State: APIUp, Settle: time.Minute}, 2: {State: APIUp, Settle: time.Minute, Waiting: noon}}
	if s := o.Worst(health, noon); s.Check != Verified || s.Checking || !s.At.Equal(noon.Add(-5*time.Minute)) {
		t.Errorf("all verified: %+v", s)
	}
	set(Return, Verified, NoDoubt, 0, 2)
	if s := o.Worst(health, noon); !s.Checking || s.Check != Verified || !s.At.Equal(noon.Add(-4*time.Minute)) {
		t.Errorf("one is being checked: %+v", s)
	}
	set(Dispute, Unverified, Differs, 0, 1)
	set(Refund, ToReview, UnclearWord, 0, 1)
	if s := o.Worst(health, noon); s.Check != ToReview || s.Doubt != UnclearWord || !s.Checking || !s.At.Equal(noon.Add(-4*time.Minute)) {
		t.Errorf("one in review: %+v", s)
	}
}

func TestSettled(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		states map[Axis]State
		bare   bool // no goods
		want   bool
	}{
		"new":                    {nil, false, false},
		"paid":                   {map[Axis]State{Payment: PaymentPaid}, false, false},
		"paid, without goods":    {map[Axis]State{Payment: PaymentPaid}, true, true},
		"paid and sent":          {map[Axis]State{Payment: PaymentPaid, Fulfillment: FulfillmentFulfilled}, false, true},
		"paid, sent in part":     {map[Axis]State{Payment: PaymentPaid, Fulfillment: FulfillmentPartial}, false, false},
		"voided":                 {map[Axis]State{Payment: PaymentVoided}, false, true},
		"refunded":               {map[Axis]State{Payment: PaymentPaid, Refund: RefundFull}, false, true},
		"cancelled":              {map[Axis]State{Cancellation: CancellationCancelled}, false, true},
		"cancelled, disputed":    {map[Axis]State{Cancellation: CancellationCancelled, Dispute: DisputeOpen}, false, false},
		"cancelled, refund runs": {map[Axis]State{Cancellation: CancellationCancelled, Refund: RefundPending}, false, false},
		"return under way":       {map[Axis]State{Payment: PaymentPaid, Fulfillment: FulfillmentFulfilled, Return: ReturnInProgress}, false, false},
		"return asked for":       {map[Axis]State{Payment: PaymentPaid, Fulfillment: FulfillmentFulfilled, Return: ReturnRequested}, false, false},
		"payment in review":      {map[Axis]State{Payment: Review, Cancellation: CancellationCancelled}, false, false},
		"cancellation requested": {map[Axis]State{Payment: PaymentVoided, Cancellation: CancellationRequested}, false, false},
	} {
		o := known(hkd(100, 0, 0), c.states)
		o.Store = !c.bare
		if got := o.Settled(); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

func TestDoubted(t *testing.T) {
	t.Parallel()
	base := func() Order {
		o := known(hkd(100, 0, 0), nil)
		for a, rec := range map[Axis]AxisRecord{Refund: {Check: Unverified, Doubt: Differs, Connection: 1}, Dispute: {Check: Unverified, Doubt: ReportedOnly, Connection: 1},
			Fulfillment: {Check: ToReview, Doubt: UnclearWord, Connection: 1}, Return: {Check: Verified, Connection: 2}} {
			rec.State = Resting[a]
			o.Axes[a] = rec
		}
		return o
	}
	o := base()
	if !o.Doubted(1, Unverified, APIDown) || o.Doubted(1, Unverified, APIDown) {
		t.Error("doubt is news once")
	}
	for a, want := range map[Axis]Doubt{Payment: APIDown, Cancellation: APIDown, Refund: Differs, Dispute: ReportedOnly, Fulfillment: UnclearWord, Return: NoDoubt} {
		if got := o.Axes[a].Doubt; got != want {
			t.Errorf("%s: %q", a, got)
		}
	}
	o = base()
	o.Doubted(1, ToReview, Missing)
	if rec := o.Axes[Fulfillment]; rec.Check != ToReview || rec.Doubt != Missing {
		t.Errorf("fulfillment: %+v", rec)
	}
}
