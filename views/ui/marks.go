// Package ui has the pieces that pages share.
package ui

import "counterfoil/models"

// A Tone is the third thing that a badge says, after its shape and its word.
type Tone string

const (
	Plain Tone = ""
	OK    Tone = "badge--ok"    // done, as it should be
	Busy  Tone = "badge--busy"  // under way
	Warn  Tone = "badge--warn"  // not certain, or waiting for somebody
	Bad   Tone = "badge--bad"   // wrong or urgent
	Quiet Tone = "badge--quiet" // nothing happened
)

// A Mark is how a state looks: its icon and its tone.
type Mark struct {
	Icon string
	Tone Tone
}

// stateMarks has every state of every axis; a test compares it with models.States.
var stateMarks = map[models.Axis]map[models.State]Mark{
	models.Payment: {
		models.PaymentPending: {"wait", Warn}, models.PaymentAuthorized: {"wait", Busy}, models.PaymentPartiallyPaid: {"half", Busy},
		models.PaymentPaid: {"done", OK}, models.PaymentFailed: {"stop", Bad}, models.PaymentVoided: {"stop", Quiet}, models.Review: {"review", Warn},
	},
	models.Refund: {
		models.RefundNone: {"none", Quiet}, models.RefundPending: {"wait", Warn}, models.RefundPartial: {"half", Busy},
		models.RefundFull: {"done", Plain}, models.Review: {"review", Warn},
	},
	models.Dispute: {
		models.DisputeNone: {"none", Quiet}, models.DisputeOpen: {"flag", Bad}, models.DisputeWon: {"done", OK}, models.DisputeLost: {"stop", Bad},
	},
	models.Fulfillment: {
		models.FulfillmentUnfulfilled: {"none", Quiet}, models.FulfillmentInProgress: {"wait", Busy}, models.FulfillmentPartial: {"half", Busy},
		models.FulfillmentFulfilled: {"done", OK}, models.FulfillmentHeld: {"held", Warn},
	},
	models.Cancellation: {
		models.CancellationActive: {"none", Quiet}, models.CancellationRequested: {"wait", Warn}, models.CancellationCancelled: {"stop", Plain},
	},
	models.Return: {
		models.ReturnNone: {"none", Quiet}, models.ReturnRequested: {"wait", Warn}, models.ReturnInProgress: {"half", Busy},
		models.ReturnReceived: {"done", Plain}, models.ReturnDeclined: {"stop", Quiet},
	},
}

var eventMarks = map[models.EventState]Mark{
	models.EventReceived: {"in", Busy}, models.EventWaiting: {"wait", Warn}, models.EventUnmatched: {"review", Warn}, models.EventApplied: {"done", OK},
	models.EventSuperseded: {"done", Quiet}, models.EventNotApplied: {"none", Quiet}, models.EventReview: {"review", Warn}, models.EventFailed: {"stop", Bad},
}

var apiMarks = map[models.APIState]Mark{
	models.APIUp: {"done", OK}, models.APIThrottled: {"wait", Warn}, models.APIDownState: {"stop", Bad}, models.APINone: {"none", Quiet},
}

// StateMark is how a state of an axis looks. A state nobody knows needs a person.
func StateMark(a models.Axis, s models.State) Mark {
	if m, ok := stateMarks[a][s]; ok {
		return m
	}
	return Mark{"review", Warn}
}

// EventMark is how the state of an event looks.
func EventMark(s models.EventState) Mark {
	if m, ok := eventMarks[s]; ok {
		return m
	}
	return Mark{"review", Warn}
}

// verifyMark is how verification looks: the class ending and the icon.
func verifyMark(s models.Shown) (class, icon string) {
	switch {
	case s.Check == models.ToReview:
		return "review", "review"
	case s.Check == models.Unverified:
		return "unverified", "un"
	case s.Checking:
		return "checking", "sync"
	case s.Settled:
		return "settled", "ok"
	}
	return "verified", "ok"
}

// VerifyKey is the word for verification as shown, below "check.".
func VerifyKey(s models.Shown) string {
	class, _ := verifyMark(s)
	return class
}
