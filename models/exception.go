package models

import (
	"crypto/sha256"
	"strings"
)

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
	CaseReversal     = "reversal"  // of unmatched: a refund or a dispute, and no payment
	CaseGoodOnes     = "good_ones" // of signature_failures: genuine notifications still arrive
	CaseBehind       = "behind"    // of state_differs: the platform is ahead of our record

	// Of contradiction: states that don't fit together.
	CaseShippedUnpaid           = "shipped_unpaid"
	CaseShippedAfterCancel      = "shipped_after_cancel"
	CaseShippedAfterRefund      = "shipped_after_refund"
	CaseShippedWhilePaused      = "shipped_while_paused"
	CaseCancelledNotRefunded    = "cancelled_not_refunded"
	CaseRefundedNotCancelled    = "refunded_not_cancelled"
	CaseChangedAfterInstruction = "changed_after_instruction"

	// Of action_differs: what was done here and there doesn't match.
	CaseShippedUnasked = "shipped_unasked" // while our instruction was still here
	CaseNotShipped     = "not_shipped"     // long after our instruction was done

	// Of overdue: what should have happened by now.
	CaseOverdueUnshipped = "unshipped"
	CaseOverdueUnpaid    = "unpaid" // shipped, to be paid on delivery
	CaseOverdueRefund    = "refund" // pending for long
	CaseOverdueReturn    = "return" // closed and not refunded
	CaseOverdueEvent     = "event"  // waits although its platform answers
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

// Digests are hashes of what each side says: an accepted difference stays accepted
// while both are what they were.
func (p Problem) Digests() (platform, local []byte) {
	one := func(parts ...string) []byte {
		sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
		return sum[:]
	}
	return one(p.PlatformState, p.Detail), one(p.LocalState)
}

// Rule is the row of the policies that the problem follows. Problems of actions name
// the action's kind as their case.
func (p Problem) Rule() CaseRule {
	kind := string(p.Kind)
	if name := p.ruleCase(); name != "" {
		kind += "/" + name
	}
	return caseRules[kind]
}

// Policy is what happens while the problem's exception is open, as the product ships it.
func (p Problem) Policy() Policy { return p.Rule().Policy }

func (p Problem) ruleCase() string {
	reversal := p.Axis == Refund || p.Axis == Dispute || p.Axis == Cancellation
	switch p.Kind {
	case MissedNotification:
		return either(reversal, "reversal", either(p.Axis == Fulfillment || p.Axis == Return, string(p.Axis), string(Payment)))
	case StateDiffers:
		return p.stateDiffers()
	case AmountDiffers:
		switch {
		case p.Case == CaseTotal, p.Case == CaseLink:
			return p.Case // whoever types another's number must not stop their order
		case p.Axis == Refund:
			return either(p.Shipped, "refunded_shipped", "refunded_unshipped")
		}
		return "received"
	case PlatformsDisagree:
		switch p.Axis {
		case Refund:
			return either(p.Shipped, "refund_shipped", "refund_unshipped")
		case Payment, Cancellation:
			return string(p.Axis)
		}
		return "other"
	case MoveRefused:
		return either(reversal || p.Axis == Payment, "money", either(p.Axis == Return, string(Return), string(Fulfillment)))
	case UnknownStatus:
		return either(reversal || p.Axis == Payment, "money", "other")
	case SchemaChanged:
		return either(p.Axis != "", "relied", "other") // a field that states an axis, or another one
	case Unmatched:
		return either(p.Case == CaseNoMoney, "no_money", either(p.Case == CaseReversal, "reversal", "money"))
	case ActionFailedKind, ActionUnclearKind:
		kind := ActionKind(p.Case)
		return either(kind.HighRisk(), "instruction", either(kind == CustomerMessage, "message", "document"))
	case SignatureFailures:
		return either(p.Case == CaseGoodOnes, CaseGoodOnes, CaseAlone)
	case GoneOnPlatform:
		return either(p.Idle, "idle", "paid")
	case Contradiction:
		switch p.Case {
		case CaseShippedAfterCancel, CaseShippedAfterRefund:
			return "shipped_after"
		case CaseShippedUnpaid, CaseShippedWhilePaused, CaseCancelledNotRefunded, CaseRefundedNotCancelled, CaseChangedAfterInstruction:
			return p.Case
		}
		return "other"
	case Overdue:
		switch p.Case {
		case CaseOverdueUnpaid, CaseOverdueEvent:
			return p.Case
		case CaseOverdueRefund, CaseOverdueReturn:
			return CaseOverdueRefund
		}
		return CaseOverdueUnshipped
	}
	return ""
}

// stateDiffers tells which side is ahead: where ours is behind, reading again mends it.
func (p Problem) stateDiffers() string {
	ours, behind := State(p.LocalState), p.Case == CaseBehind
	switch p.Axis {
	case Payment:
		behind = behind || p.Case != CaseMovedBack && ours != "" && ours != PaymentPaid && ours != PaymentPartiallyPaid
		return either(behind, "payment_ours_behind", "payment_ours_ahead")
	case Refund, Cancellation:
		return "reversal"
	case Dispute, Return:
		return string(p.Axis)
	}
	return either(behind, "fulfillment_ours_behind", "fulfillment_ours_ahead")
}

func either[T any](yes bool, then, otherwise T) T {
	if yes {
		return then
	}
	return otherwise
}
