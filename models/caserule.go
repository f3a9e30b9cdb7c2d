package models

import "time"

// An Urgency says how soon a case wants people.
type Urgency string

const (
	Now   Urgency = "now"
	Today Urgency = "today"
	Later Urgency = "later"
)

// Urgencies lists all of them; the schema has the same list.
var Urgencies = []Urgency{Now, Today, Later}

// A Desk is who a case goes to first.
type Desk string

const (
	DeskSupport Desk = "support"
	DeskLead    Desk = "lead"
	DeskManager Desk = "manager"
	DeskAdmin   Desk = "admin"
)

// A CaseRule is one row of the policies: what happens while an exception of one kind,
// axis and case is open. A shop's managers may decide otherwise on Policy and Tell.
type CaseRule struct {
	Key    string // kind, or kind/case
	Kind   ExceptionKind
	Policy Policy
	// Grace is how long an exception that pauses nothing may settle by itself before it
	// is people's. It stands still while the platform can't be asked.
	Grace time.Duration
	// Heals: the object is read again by policy when the grace is over (of a hold: at
	// once); what that doesn't settle is people's. Grace 0 means the connection's heal_after.
	Heals   bool
	Tell    bool // the customer has to be told
	Urgency Urgency
	Desk    Desk
	// Ends: after this time nothing happened, and it closes by itself; 0: it doesn't.
	Ends time.Duration
}

const day = 24 * time.Hour

// CaseRules are the policies as the product ships them, in the order of /policies.
var CaseRules = []CaseRule{
	{Key: "missed_notification/payment", Kind: MissedNotification, Policy: PolicyWait, Heals: true, Urgency: Later, Desk: DeskSupport},
	{Key: "missed_notification/reversal", Kind: MissedNotification, Policy: PolicyHold, Heals: true, Urgency: Today, Desk: DeskSupport},
	{Key: "missed_notification/fulfillment", Kind: MissedNotification, Policy: PolicyWait, Grace: time.Hour, Heals: true, Urgency: Later, Desk: DeskSupport},
	{Key: "missed_notification/return", Kind: MissedNotification, Policy: PolicyWait, Grace: day, Heals: true, Urgency: Later, Desk: DeskSupport},
	{Key: "state_differs/payment_ours_ahead", Kind: StateDiffers, Policy: PolicyHold, Urgency: Now, Desk: DeskLead},
	{Key: "state_differs/payment_ours_behind", Kind: StateDiffers, Policy: PolicyWait, Heals: true, Urgency: Today, Desk: DeskSupport},
	{Key: "state_differs/reversal", Kind: StateDiffers, Policy: PolicyHold, Urgency: Today, Desk: DeskLead},
	{Key: "state_differs/dispute", Kind: StateDiffers, Policy: PolicyHold, Urgency: Now, Desk: DeskManager},
	{Key: "state_differs/fulfillment_ours_behind", Kind: StateDiffers, Policy: PolicyWait, Heals: true, Urgency: Later, Desk: DeskSupport},
	{Key: "state_differs/fulfillment_ours_ahead", Kind: StateDiffers, Policy: PolicyAsk, Grace: time.Hour, Urgency: Today, Desk: DeskSupport},
	{Key: "state_differs/return", Kind: StateDiffers, Policy: PolicyWait, Grace: day, Heals: true, Urgency: Later, Desk: DeskSupport},
	{Key: "amount_differs/received", Kind: AmountDiffers, Policy: PolicyHold, Urgency: Today, Desk: DeskLead},
	{Key: "amount_differs/refunded_unshipped", Kind: AmountDiffers, Policy: PolicyHold, Grace: 30 * time.Minute, Urgency: Today, Desk: DeskLead},
	{Key: "amount_differs/refunded_shipped", Kind: AmountDiffers, Policy: PolicyAsk, Grace: 30 * time.Minute, Urgency: Today, Desk: DeskLead},
	{Key: "amount_differs/total", Kind: AmountDiffers, Policy: PolicyWait, Heals: true, Urgency: Later, Desk: DeskSupport},
	{Key: "amount_differs/link", Kind: AmountDiffers, Policy: PolicyAsk, Urgency: Today, Desk: DeskSupport},
	{Key: "platforms_disagree/payment", Kind: PlatformsDisagree, Policy: PolicyHold, Urgency: Today, Desk: DeskLead},
	{Key: "platforms_disagree/refund_unshipped", Kind: PlatformsDisagree, Policy: PolicyHold, Urgency: Today, Desk: DeskSupport},
	{Key: "platforms_disagree/refund_shipped", Kind: PlatformsDisagree, Policy: PolicyAsk, Urgency: Today, Desk: DeskSupport},
	{Key: "platforms_disagree/cancellation", Kind: PlatformsDisagree, Policy: PolicyHold, Urgency: Today, Desk: DeskLead},
	{Key: "platforms_disagree/other", Kind: PlatformsDisagree, Policy: PolicyAsk, Urgency: Later, Desk: DeskSupport},
	{Key: "move_refused/money", Kind: MoveRefused, Policy: PolicyHold, Urgency: Today, Desk: DeskLead},
	{Key: "move_refused/fulfillment", Kind: MoveRefused, Policy: PolicyAsk, Grace: 15 * time.Minute, Urgency: Today, Desk: DeskSupport},
	{Key: "move_refused/return", Kind: MoveRefused, Policy: PolicyWait, Grace: day, Heals: true, Urgency: Later, Desk: DeskSupport},
	{Key: "unknown_status/money", Kind: UnknownStatus, Policy: PolicyHold, Urgency: Now, Desk: DeskManager},
	{Key: "unknown_status/other", Kind: UnknownStatus, Policy: PolicyAsk, Urgency: Today, Desk: DeskAdmin},
	{Key: "schema_changed/relied", Kind: SchemaChanged, Policy: PolicyHold, Urgency: Now, Desk: DeskManager},
	{Key: "schema_changed/other", Kind: SchemaChanged, Policy: PolicyAsk, Grace: day, Urgency: Later, Desk: DeskAdmin},
	{Key: "payload_conflict", Kind: PayloadConflict, Policy: PolicyHold, Urgency: Today, Desk: DeskLead},
	{Key: "unmatched/money", Kind: Unmatched, Policy: PolicyAsk, Tell: true, Urgency: Today, Desk: DeskSupport},
	{Key: "unmatched/reversal", Kind: Unmatched, Policy: PolicyAsk, Urgency: Today, Desk: DeskSupport},
	{Key: "unmatched/no_money", Kind: Unmatched, Policy: PolicyWait, Urgency: Later, Desk: DeskSupport, Ends: 7 * day},
	{Key: "action_failed/instruction", Kind: ActionFailedKind, Policy: PolicyAsk, Urgency: Today, Desk: DeskLead},
	{Key: "action_failed/document", Kind: ActionFailedKind, Policy: PolicyAsk, Urgency: Today, Desk: DeskSupport},
	{Key: "action_failed/message", Kind: ActionFailedKind, Policy: PolicyWait, Grace: time.Hour, Urgency: Later, Desk: DeskSupport},
	{Key: "action_unclear/instruction", Kind: ActionUnclearKind, Policy: PolicyHold, Urgency: Now, Desk: DeskLead},
	{Key: "action_unclear/document", Kind: ActionUnclearKind, Policy: PolicyAsk, Urgency: Today, Desk: DeskLead},
	{Key: "action_unclear/message", Kind: ActionUnclearKind, Policy: PolicyAsk, Grace: time.Hour, Urgency: Later, Desk: DeskSupport},
	{Key: "subscription_missing", Kind: SubscriptionMissing, Policy: PolicyAsk, Urgency: Now, Desk: DeskManager},
	{Key: "signature_failures/good_ones", Kind: SignatureFailures, Policy: PolicyWait, Urgency: Later, Desk: DeskAdmin},
	{Key: "signature_failures/alone", Kind: SignatureFailures, Policy: PolicyAsk, Urgency: Now, Desk: DeskManager},
	{Key: "gone_on_platform/idle", Kind: GoneOnPlatform, Policy: PolicyWait, Urgency: Later, Desk: DeskSupport, Ends: day},
	{Key: "gone_on_platform/paid", Kind: GoneOnPlatform, Policy: PolicyHold, Urgency: Today, Desk: DeskLead},
	{Key: "outside_window", Kind: OutsideWindowKind, Policy: PolicyAsk, Urgency: Later, Desk: DeskAdmin},
	{Key: "contradiction/shipped_unpaid", Kind: Contradiction, Policy: PolicyAsk, Grace: time.Hour, Urgency: Today, Desk: DeskLead},
	{Key: "contradiction/shipped_after", Kind: Contradiction, Policy: PolicyAsk, Tell: true, Urgency: Now, Desk: DeskLead},
	{Key: "contradiction/shipped_while_paused", Kind: Contradiction, Policy: PolicyAsk, Urgency: Now, Desk: DeskManager},
	{Key: "contradiction/cancelled_not_refunded", Kind: Contradiction, Policy: PolicyAsk, Grace: day, Tell: true, Urgency: Today, Desk: DeskSupport},
	{Key: "contradiction/refunded_not_cancelled", Kind: Contradiction, Policy: PolicyHold, Grace: time.Hour, Urgency: Today, Desk: DeskLead},
	{Key: "contradiction/changed_after_instruction", Kind: Contradiction, Policy: PolicyAsk, Urgency: Now, Desk: DeskLead},
	{Key: "contradiction/other", Kind: Contradiction, Policy: PolicyAsk, Urgency: Today, Desk: DeskLead},
	{Key: "paid_twice", Kind: PaidTwice, Policy: PolicyAsk, Grace: 15 * time.Minute, Tell: true, Urgency: Today, Desk: DeskSupport},
	{Key: "shipped_twice", Kind: ShippedTwice, Policy: PolicyHold, Tell: true, Urgency: Now, Desk: DeskLead},
	{Key: "overdue/unshipped", Kind: Overdue, Policy: PolicyAsk, Tell: true, Urgency: Today, Desk: DeskSupport},
	{Key: "overdue/unpaid", Kind: Overdue, Policy: PolicyAsk, Urgency: Later, Desk: DeskSupport},
	{Key: "overdue/refund", Kind: Overdue, Policy: PolicyAsk, Tell: true, Urgency: Later, Desk: DeskSupport},
	{Key: "overdue/event", Kind: Overdue, Policy: PolicyAsk, Urgency: Today, Desk: DeskAdmin},
	{Key: "event_failed", Kind: EventFailedKind, Policy: PolicyAsk, Urgency: Today, Desk: DeskLead},
	{Key: "action_differs", Kind: ActionDiffers, Policy: PolicyAsk, Grace: time.Hour, Urgency: Today, Desk: DeskLead},
	{Key: "silence", Kind: Silence, Policy: PolicyAsk, Urgency: Now, Desk: DeskManager},
	{Key: "drill_failed", Kind: DrillFailed, Policy: PolicyAsk, Urgency: Later, Desk: DeskAdmin},
	{Key: "access_ending", Kind: AccessEnding, Policy: PolicyAsk, Urgency: Later, Desk: DeskAdmin},
}

var caseRules = func() map[string]CaseRule {
	m := make(map[string]CaseRule, len(CaseRules))
	for _, r := range CaseRules {
		m[r.Key] = r
	}
	return m
}()

// CaseRuleOf finds a row of the policies by its key.
func CaseRuleOf(key string) (CaseRule, bool) {
	r, ok := caseRules[key]
	return r, ok
}

// HealAfter is how long the console waits before it reads again by policy, where the
// connection's heal_after doesn't say otherwise.
const HealAfter = 15 * time.Minute

// Decided is the rule as a shop's managers want it. One that waits is read again by
// policy; one that asks never is.
func (r CaseRule) Decided(p Policy, tell bool) CaseRule {
	if p != r.Policy {
		r.Heals = p == PolicyWait
		if p == PolicyHold {
			r.Grace = 0
		}
	}
	r.Policy, r.Tell = p, tell
	return r
}

// DisagreeGrace is how long two platforms may tell an axis of an order differently
// before it is a case: one usually hears of it a little before the other.
func DisagreeGrace(a Axis) time.Duration {
	switch a {
	case Payment:
		return 15 * time.Minute
	case Cancellation:
		return time.Hour
	}
	return day
}
