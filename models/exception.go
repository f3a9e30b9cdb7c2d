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

// DefaultPolicy is the policy of a kind on an axis as the product ships it.
func DefaultPolicy(kind ExceptionKind, axis Axis) Policy {
	switch kind {
	case MoveRefused, UnknownStatus, PlatformsDisagree:
		if axis.Money() || axis == Cancellation {
			return PolicyHold
		}
		return PolicyAsk
	case SchemaChanged, PayloadConflict, AmountDiffers:
		return PolicyHold
	case StateDiffers:
		if axis == Refund || axis == Dispute || axis == Payment {
			return PolicyHold
		}
		return PolicyAsk
	case GoneOnPlatform:
		return PolicyHold
	}
	return PolicyAsk
}

// A Problem is what the rules found wrong with one observation. It becomes an
// exception; it is not a failure of the program.
type Problem struct {
	Kind          ExceptionKind
	Case          string
	Axis          Axis
	PlatformState string // in the platform's own spelling
	LocalState    string
	Detail        string // a word, a path, a sum: never personal data
}

// Policy is what happens while the problem's exception is open. Problems of actions
// name the action's kind as their case.
func (p Problem) Policy() Policy {
	switch kind := ActionKind(p.Case); {
	case p.Kind == ActionUnclearKind && kind.HighRisk():
		return PolicyHold
	case p.Kind == ActionFailedKind && kind == CustomerMessage:
		return PolicyWait
	}
	return DefaultPolicy(p.Kind, p.Axis)
}
