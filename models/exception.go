package models

// An ExceptionKind names a difference or a problem that needs a decision.
type ExceptionKind string

const (
	MissedNotification  ExceptionKind = "missed_notification"
	StateDiffers        ExceptionKind = "state_differs"
	AmountDiffers       ExceptionKind = "amount_differs"
	PlatformsDisagree   ExceptionKind = "platforms_disagree"
	MoveRefused         ExceptionKind = "move_refused"
	UnknownStatus       ExceptionKind = "unknown_status"
	SchemaChanged       ExceptionKind = "schema_changed"
	PayloadConflict     ExceptionKind = "payload_conflict"
	Unmatched           ExceptionKind = "unmatched"
	EventFailedKind     ExceptionKind = "event_failed"
	ActionFailedKind    ExceptionKind = "action_failed"
	ActionUnclearKind   ExceptionKind = "action_unclear"
	ActionDiffers       ExceptionKind = "action_differs"
	Contradiction       ExceptionKind = "contradiction"
	PaidTwice           ExceptionKind = "paid_twice"
	ShippedTwice        ExceptionKind = "shipped_twice"
	SubscriptionMissing ExceptionKind = "subscription_missing"
	SignatureFailures   ExceptionKind = "signature_failures"
	Silence             ExceptionKind = "silence"
	GoneOnPlatform      ExceptionKind = "gone_on_platform"
	OutsideWindowKind   ExceptionKind = "outside_window"
	AccessEnding        ExceptionKind = "access_ending"
	Overdue             ExceptionKind = "overdue"
	DrillFailed         ExceptionKind = "drill_failed"
)

// ExceptionKinds lists all kinds; the schema has the same list.
var ExceptionKinds = []ExceptionKind{MissedNotification, StateDiffers, AmountDiffers, PlatformsDisagree, MoveRefused,
	UnknownStatus, SchemaChanged, PayloadConflict, Unmatched, EventFailedKind, ActionFailedKind, ActionUnclearKind, ActionDiffers,
	Contradiction, PaidTwice, ShippedTwice, SubscriptionMissing, SignatureFailures, Silence, GoneOnPlatform,
	OutsideWindowKind, AccessEnding, Overdue, DrillFailed}

// A Policy says what happens while an exception is open.
type Policy string

const (
	PolicyHold Policy = "hold" // that order's fulfillment is paused, a person decides
	PolicyWait Policy = "wait" // settles by itself after its grace
	PolicyAsk  Policy = "ask"  // nothing is paused, a person decides
)

// Cases that decide a policy, beside those named after an action's kind.
const (
	CaseMovedBack    = "moved_back"     // the platform took back what our record had taken over
	CaseLink         = "link"           // a payment named the order by what a buyer can type, and doesn't fit
	CaseRefundedMore = "refunded_more"  // more went back than came in
	CaseMoney        = "money_received" // of unmatched; refunds and disputes are money too
	CaseNoMoney      = "no_money"
	CaseTotal        = "total"     // an edit changed what the order asks
	CaseGoodOnes     = "good_ones" // of signature_failures: genuine notifications still arrive

	CaseRefundedNotCancelled = "refunded_not_cancelled"
)

// A Problem is what the rules found wrong with one observation. It becomes an
// exception; it is not a failure of the program.
type Problem struct {
	Kind          ExceptionKind
	Case          string
	Axis          Axis
	PlatformState string // in the platform's own spelling
	LocalState    string
	Detail        string // a word, a path, a sum: never personal data
	// Shipped: all goods of its order have left, so that there is nothing to pause.
	Shipped bool
	// Idle: its order is a test, or was never paid and isn't shipped unpaid.
	Idle bool
}

// Of is the problem with what its policy depends on of its order.
func (p Problem) Of(o Order) Problem {
	pay := o.State(Payment)
	unpaid := pay == PaymentPending || pay == PaymentFailed || pay == PaymentVoided
	p.Shipped = o.Shipped()
	p.Idle = o.Test || unpaid && o.Received == 0 && !o.PaysOnDelivery()
	return p
}

// Policy is what happens while the problem's exception is open, as the product ships
// it. Problems of actions name the action's kind as their case.
func (p Problem) Policy() Policy {
	money, goods := p.Axis.Money() || p.Axis == Cancellation, ActionKind(p.Case)
	switch p.Kind {
	case MissedNotification:
		return either(p.Axis == Refund || p.Axis == Dispute || p.Axis == Cancellation, PolicyHold, PolicyWait)
	case StateDiffers:
		return p.stateDiffers()
	case AmountDiffers:
		switch {
		case p.Case == CaseTotal:
			return PolicyWait
		case p.Case == CaseLink:
			return PolicyAsk // or whoever types another's number could stop their order
		case p.Axis == Refund:
			return either(p.Shipped, PolicyAsk, PolicyHold)
		}
		return PolicyHold
	case PlatformsDisagree:
		if p.Axis == Refund {
			return either(p.Shipped, PolicyAsk, PolicyHold)
		}
		return either(p.Axis == Payment || p.Axis == Cancellation, PolicyHold, PolicyAsk)
	case MoveRefused:
		return either(money, PolicyHold, either(p.Axis == Return, PolicyWait, PolicyAsk))
	case UnknownStatus:
		return either(money, PolicyHold, PolicyAsk)
	case SchemaChanged:
		return either(p.Axis != "", PolicyHold, PolicyAsk) // a field that states an axis, or another one
	case PayloadConflict, ShippedTwice:
		return PolicyHold
	case Unmatched:
		return either(p.Case == CaseNoMoney, PolicyWait, PolicyAsk)
	case ActionFailedKind:
		return either(goods == CustomerMessage, PolicyWait, PolicyAsk)
	case ActionUnclearKind:
		return either(goods.HighRisk(), PolicyHold, PolicyAsk)
	case SignatureFailures:
		return either(p.Case == CaseGoodOnes, PolicyWait, PolicyAsk)
	case GoneOnPlatform:
		return either(p.Idle, PolicyWait, PolicyHold)
	case Contradiction:
		return either(p.Case == CaseRefundedNotCancelled, PolicyHold, PolicyAsk)
	}
	return PolicyAsk
}

func (p Problem) stateDiffers() Policy {
	switch p.Axis {
	case Payment:
		ours := State(p.LocalState)
		behind := p.Case != CaseMovedBack && ours != "" && ours != PaymentPaid && ours != PaymentPartiallyPaid
		return either(behind, PolicyWait, PolicyHold)
	case Refund, Dispute, Cancellation:
		return PolicyHold
	case Return:
		return PolicyWait
	}
	return PolicyAsk
}

func either(yes bool, then, otherwise Policy) Policy {
	if yes {
		return then
	}
	return otherwise
}
