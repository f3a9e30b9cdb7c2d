package models

import "time"

// An APIState says whether a connection's platform can be asked.
type APIState string

const (
	APIUp        APIState = "up"
	APIThrottled APIState = "throttled"
	APIDownState APIState = "down"
	APINone      APIState = "none" // no API access is set up
)

// APIStates lists all states; the schema has the same list.
var APIStates = []APIState{APIUp, APIThrottled, APIDownState, APINone}

// A Health is what is known of a connection at the moment of looking.
type Health struct {
	State APIState
	Since time.Time
	// Waiting is when the oldest unprocessed event of the order on this connection
	// was received; zero where none waits.
	Waiting time.Time
	Settle  time.Duration // settle_time
	Review  time.Duration // review_after
	Stale   time.Duration // stale_after of unfinished orders, 0: never
	Unsent  time.Duration // stale_after of paid and unshipped ones, 0: never
}

// A HealthPeriod is one stretch of a connection's health: how its platform could be
// asked, and until when.
type HealthPeriod struct {
	State APIState
	Since time.Time
	Until time.Time // zero: it is the present one
	Error string    // the platform's words, without personal data
}

// A Shown is verification as people see it: what is stored, judged again at the
// moment of looking, so that old state is never shown as current.
type Shown struct {
	Check    Check
	Doubt    Doubt
	Since    time.Time // when the doubt began, where known
	Checking bool      // a notification came within settle_time; the platform is being asked
	Settled  bool      // nothing more is expected
	At       time.Time // last official reading that stated it
	Platform Platform
}

// Settled tells whether money and goods are at rest, so that no reading is ever overdue.
func (o Order) Settled() bool {
	pay, ful, ret := o.State(Payment), o.State(Fulfillment), o.State(Return)
	if o.State(Dispute) == DisputeOpen || o.State(Refund) == RefundPending || o.State(Refund) == Review || pay == Review ||
		o.State(Cancellation) == CancellationRequested || ret == ReturnRequested || ret == ReturnInProgress {
		return false
	}
	if o.State(Cancellation) == CancellationCancelled {
		return o.Refunded >= o.Received // what came in went back
	}
	if pay == PaymentVoided || o.State(Refund) == RefundFull {
		return true
	}
	return pay == PaymentPaid && (ful == FulfillmentFulfilled || !o.Store)
}

// Show judges one axis at a moment. health is by connection id.
func (o Order) Show(a Axis, health map[int64]Health, now time.Time) Shown {
	if o.Announced {
		return Shown{Check: Unverified, Doubt: ReportedOnly, Platform: o.Platform}
	}
	rec := o.Axes[a]
	s := Shown{Check: rec.Check, Doubt: rec.Doubt, At: rec.CheckedAt, Platform: rec.Platform, Settled: o.Settled()}
	if rec.Connection == 0 || rec.Check == ToReview {
		if rec.Check == "" {
			s.Check = Verified
		}
		return s
	}
	h := health[rec.Connection]
	overdue := h.Stale
	if o.State(Payment) == PaymentPaid && o.State(Fulfillment) == FulfillmentUnfulfilled && o.Store {
		overdue = h.Unsent
	}
	waits := !h.Waiting.IsZero()
	switch {
	case rec.Doubt == ReportedOnly && h.State != APIDownState:
		s.Check = Unverified
	case h.State == APIDownState:
		s.Check, s.Doubt, s.Since = Unverified, APIDown, h.Since
		if now.Sub(h.Since) > h.Review {
			s.Check = ToReview
		}
	case h.State == APIThrottled && waits:
		s.Check, s.Doubt, s.Since = Unverified, Throttled, h.Since
	case rec.Check == Unverified:
		if rec.Doubt == APIDown {
			s.Since = h.Since
		}
	case waits && now.Sub(h.Waiting) > h.Settle:
		s.Check, s.Doubt, s.Since = Unverified, EventWaits, h.Waiting
	case waits:
		s.Checking = true
	case !s.Settled && overdue > 0 && now.Sub(rec.CheckedAt) > overdue:
		s.Check, s.Doubt = Unverified, ReadingOverdue
	}
	return s
}

// Worst is the verification of the whole order: that of its worst axis, with the
// oldest time at which a deciding platform was read.
func (o Order) Worst(health map[int64]Health, now time.Time) Shown {
	rank := map[Check]int{Verified: 0, Unverified: 1, ToReview: 2}
	var worst Shown
	for i, a := range Axes {
		s := o.Show(a, health, now)
		if i == 0 || rank[s.Check] > rank[worst.Check] {
			at, checking := worst.At, worst.Checking
			worst = s
			worst.Checking = worst.Checking || checking
			if worst.At.IsZero() || !at.IsZero() && at.Before(worst.At) {
				worst.At = at
			}
			continue
		}
		worst.Checking = worst.Checking || s.Checking
		if !s.At.IsZero() && (worst.At.IsZero() || s.At.Before(worst.At)) {
			worst.At = s.At
		}
	}
	return worst
}

// Doubted records that a platform could not confirm the axes that it decides. The
// time of the last good reading stays.
func (o *Order) Doubted(connection int64, check Check, why Doubt) bool {
	changed := false
	for a, rec := range o.Axes {
		if rec.Connection != connection || rec.Check == check && rec.Doubt == why || rec.Check == ToReview && check != ToReview || rec.Doubt == Differs || rec.Doubt == ReportedOnly {
			continue
		}
		rec.Check, rec.Doubt = check, why
		o.Axes[a] = rec
		changed = true
	}
	return changed
}
