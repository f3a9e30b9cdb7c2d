package models

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A Verdict is what the outcome check found of one thing.
type Verdict string

const (
	VerdictGood    Verdict = "good"
	VerdictOpen    Verdict = "open"    // not yet: it waits for the console, a platform or a person
	VerdictUnknown Verdict = "unknown" // nobody can tell: no reading is fresh enough, or no clear answer came
	VerdictBad     Verdict = "bad"     // a person mends it, or explains it
)

// Verdicts lists all verdicts, the best first.
var Verdicts = []Verdict{VerdictGood, VerdictOpen, VerdictUnknown, VerdictBad}

// An OutcomeGroup is what a line of the outcome check is about.
type OutcomeGroup string

const (
	OutcomeInstructions OutcomeGroup = "instruction"
	OutcomeGoods        OutcomeGroup = "goods"
	OutcomeMessages     OutcomeGroup = "message"
	OutcomeMoney        OutcomeGroup = "money"
)

// OutcomeGroups lists all groups in the order of the check.
var OutcomeGroups = []OutcomeGroup{OutcomeInstructions, OutcomeGoods, OutcomeMessages, OutcomeMoney}

// A Finding says what was found, in one of the catalogue's sentences.
type Finding string

const (
	// Of one action.
	FoundDone      Finding = "done"
	FoundSending   Finding = "sending"
	FoundWaiting   Finding = "waiting"
	FoundManual    Finding = "manual"
	FoundFailed    Finding = "failed"
	FoundUnclear   Finding = "unclear"
	FoundWithdrawn Finding = "withdrawn" // because of a state that still holds
	FoundTakenBack Finding = "taken_back"
	FoundNotNeeded Finding = "not_needed"
	FoundWatched   Finding = "watched"
	FoundTwice     Finding = "twice"   // somebody outside may have heard of it more than once
	FoundUnasked   Finding = "unasked" // nobody approved it
	FoundMissing   Finding = "missing"
	FoundRuledOut  Finding = "ruled_out" // the shop's rules plan none
	FoundSwitched  Finding = "switched"  // they were switched since it could have been planned
	FoundNotYet    Finding = "not_yet"
	FoundNoneDue   Finding = "none_due"
	FoundUntrue    Finding = "untrue" // it told of a refund that didn't last

	// Of goods.
	FoundPieces      Finding = "pieces"
	FoundTooMany     Finding = "too_many"
	FoundMayBeMore   Finding = "may_be_more"   // more than ordered, with a replacement of ours
	FoundShipped     Finding = "shipped"       // by others; our instruction wasn't to be sent
	FoundShippedLive Finding = "shipped_early" // by others, while an instruction of ours still waits

	// Of money.
	FoundNoMoney     Finding = "no_money"
	FoundUnnamed     Finding = "unnamed" // a platform's sums tell of money, and no payment of it is named
	FoundIn          Finding = "in"
	FoundPart        Finding = "part"         // a further payment within the order's total
	FoundSecondIn    Finding = "second_in"    // a further payment beyond it
	FoundAbove       Finding = "above"        // the first payment is more than the order asks
	FoundOut         Finding = "out"          // a refund
	FoundSecondOut   Finding = "second_out"   // a further refund
	FoundOutAbove    Finding = "out_above"    // more went back than came in
	FoundPending     Finding = "pending"      // a refund under way
	FoundNotCounted  Finding = "not_counted"  // a refund that failed
	FoundOdd         Finding = "odd"          // a refund whose word or amount can't be read
	FoundUnsureMoney Finding = "unsure_money" // a payment that may not be this order's
)

// Findings lists all findings, for the catalogue's test.
var Findings = []Finding{FoundDone, FoundSending, FoundWaiting, FoundManual, FoundFailed, FoundUnclear, FoundWithdrawn, FoundTakenBack, FoundNotNeeded,
	FoundWatched, FoundTwice, FoundUnasked, FoundMissing, FoundRuledOut, FoundSwitched, FoundNotYet, FoundNoneDue, FoundUntrue, FoundPieces, FoundTooMany, FoundMayBeMore,
	FoundShipped, FoundShippedLive, FoundNoMoney, FoundUnnamed, FoundIn, FoundPart, FoundSecondIn, FoundAbove, FoundOut, FoundSecondOut, FoundOutAbove, FoundPending,
	FoundNotCounted, FoundOdd, FoundUnsureMoney}

// An OutcomeLine is one thing that was checked, with its evidence.
type OutcomeLine struct {
	Group   OutcomeGroup
	Stage   string // of an instruction or a message
	Found   Finding
	Verdict Verdict
	Not     NotNeeded // why an action isn't needed
	// Actions and Entries are the evidence: actions newest first, and the ledger
	// entries that asked for them.
	Actions []Action
	Entries []Entry
	Items   Items     // of goods
	Money   *Movement // of money
	// Explain: only a person's explanation takes the verdict away. Explained is the
	// one that holds.
	Explain   bool
	Explained *Explanation
}

// An Outcome is what staff look at after a repair: one instruction per stage, the
// right messages, no second movement of money.
type Outcome struct {
	Verdict Verdict
	Count   map[Verdict]int
	Lines   []OutcomeLine
}

// An Explanation says why a second payment or refund is right, or what went wrong.
// It is bound to what it explained: another amount or state isn't explained by it.
type Explanation struct {
	ID       int64
	OrderID  int64
	Part     string // the platform's id of the payment, capture or refund
	Amount   int64
	Currency string
	Standing Standing
	Code     ReasonCode
	Reason   string
	By       string // actor
	ByName   string
	At       time.Time
}

// A ReasonCode says in one of a few words why people did something; a free text
// stands beside it.
type ReasonCode string

const (
	PaidOutside     ReasonCode = "paid_outside"
	RefundedOutside ReasonCode = "refunded_outside"
	ShortPayment    ReasonCode = "short_payment"
	PlatformWrong   ReasonCode = "platform_wrong"
	OursWrong       ReasonCode = "ours_wrong"
	WrongLink       ReasonCode = "wrong_link"
	LostParcel      ReasonCode = "lost_parcel"
	Uncollected     ReasonCode = "uncollected"
	DuplicateOrder  ReasonCode = "duplicate"
	Goodwill        ReasonCode = "goodwill"
	SuspectedFraud  ReasonCode = "suspected_fraud"
	TestReason      ReasonCode = "test"
	OtherReason     ReasonCode = "other"
)

// ReasonCodes lists all codes.
var ReasonCodes = []ReasonCode{PaidOutside, RefundedOutside, ShortPayment, PlatformWrong, OursWrong, WrongLink, LostParcel, Uncollected, DuplicateOrder,
	Goodwill, SuspectedFraud, TestReason, OtherReason}

// OutcomeFacts are what the check needs beside the order's file.
type OutcomeFacts struct {
	Merged    []Action       // actions that stayed with shells that became part of the order
	Asked     map[int64]bool // actions that an approved request asked for
	Switched  []RuleSwitch   // rules that the shop's managers switched on or off
	Explained []Explanation  // oldest first
	// Fresh is how old an official reading of a connection may be.
	Fresh map[int64]time.Duration
}

// CheckOutcome checks an order. It depends on what is known alone, never on the order
// in which it came, nor on how often or by how many platforms it was told.
func CheckOutcome(f OrderFile, now time.Time) Outcome {
	all := f.everyAction()
	lines := f.checkInstructions(all)
	lines = append(lines, f.checkGoods(all)...)
	lines = append(lines, f.checkMessages(all)...)
	lines = append(lines, f.checkMoney(now)...)
	o := Outcome{Verdict: VerdictGood, Count: map[Verdict]int{}, Lines: lines}
	for _, l := range lines {
		o.Count[l.Verdict]++
		if slices.Index(Verdicts, l.Verdict) > slices.Index(Verdicts, o.Verdict) {
			o.Verdict = l.Verdict
		}
	}
	return o
}

// everyAction lists the order's actions and those that stayed with its shells, each
// once, newest first.
func (f OrderFile) everyAction() []Action {
	all := append(slices.Clone(f.Actions), f.Outcome.Merged...)
	slices.SortFunc(all, func(a, b Action) int { return cmp.Compare(b.ID, a.ID) })
	return slices.CompactFunc(all, func(a, b Action) bool { return a.ID == b.ID })
}

// Heard tells whether somebody outside may have heard of the action.
func (a Action) Heard() bool {
	switch a.State {
	case ActionSending, ActionDone, ActionFailed, ActionUnclear:
		return true
	}
	return a.Told
}

// stages gathers the actions of a kind by stage, the stages in the order in which
// they were planned first.
func stages(all []Action, kind ActionKind) (names []string, of map[string][]Action) {
	of = map[string][]Action{}
	for _, a := range slices.Backward(all) {
		if a.Kind != kind {
			continue
		}
		if of[a.Stage] == nil {
			names = append(names, a.Stage)
		}
		of[a.Stage] = append([]Action{a}, of[a.Stage]...)
	}
	return names, of
}

// checkStage judges what there is of one kind and stage.
func (f OrderFile) checkStage(group OutcomeGroup, stage string, list []Action) OutcomeLine {
	l := OutcomeLine{Group: group, Stage: stage}
	var heard []Action
	for _, a := range list {
		if a.Heard() {
			heard = append(heard, a)
		}
	}
	if len(heard) > 1 {
		l.Found, l.Verdict, l.Actions = FoundTwice, VerdictBad, heard
		return l
	}
	// What took another one's place speaks for both.
	one := list[0]
	if i := slices.IndexFunc(list, func(a Action) bool { return a.Instead == 0 }); i >= 0 {
		one = list[i]
	}
	if len(heard) == 1 {
		one = heard[0]
	}
	l.Actions, l.Entries = []Action{one}, f.entriesOf(one)
	l.Found, l.Verdict, l.Not = f.foundAction(one)
	name, _, numbered := strings.Cut(stage, ":")
	if numbered && (name == "again" || name == "replacement") && !f.Outcome.Asked[one.ID] && one.State != ActionWithdrawn && one.State != ActionNotNeeded {
		l.Found, l.Verdict = FoundUnasked, VerdictBad
	}
	return l
}

func (f OrderFile) foundAction(a Action) (Finding, Verdict, NotNeeded) {
	switch a.State {
	case ActionDone:
		return FoundDone, VerdictGood, ""
	case ActionSending:
		return FoundSending, VerdictOpen, ""
	case ActionManual:
		return FoundManual, VerdictOpen, ""
	case ActionFailed:
		return FoundFailed, VerdictBad, ""
	case ActionUnclear:
		return FoundUnclear, VerdictUnknown, ""
	case ActionNotNeeded:
		return FoundNotNeeded, VerdictGood, NotNeeded(a.Why)
	case ActionWatched:
		return FoundWatched, VerdictGood, ""
	case ActionWithdrawn:
		if _, ended := f.Withdraws(); ended {
			return FoundWithdrawn, VerdictGood, ""
		}
		if a.Kind == FulfillmentInstruction && f.instructionDue() && !f.underWay() {
			return FoundTakenBack, VerdictBad, ""
		}
		return FoundTakenBack, VerdictOpen, ""
	}
	return FoundWaiting, VerdictOpen, ""
}

// entriesOf is the ledger entry that planned an action, where it is at hand.
func (f OrderFile) entriesOf(a Action) []Entry {
	for _, e := range f.Ledger {
		if e.ID == a.Entry {
			return []Entry{e}
		}
	}
	return nil
}

// instructionDue tells whether the order is at the point at which it is shipped.
func (f OrderFile) instructionDue() bool {
	pay := f.State(Payment)
	return pay == PaymentPaid || f.PaysOnDelivery() && pay == PaymentPending
}

// underWay tells whether goods left already.
func (f OrderFile) underWay() bool {
	s := f.State(Fulfillment)
	return s == FulfillmentPartial || s == FulfillmentFulfilled
}

// byRule judges that nothing of a kind was planned at a moment, by the rule as it stood
// then. What was switched since says nothing good or bad of what was before.
func (f OrderFile) byRule(on Occasion, kind ActionKind, at time.Time) (Finding, Verdict) {
	rule := RuleSwitch{ActionRule: ActionRule{Occasion: on, Kind: kind}.Default()}
	if i := slices.IndexFunc(f.Outcome.Switched, func(s RuleSwitch) bool { return s.Same(rule.ActionRule) }); i >= 0 {
		rule = f.Outcome.Switched[i]
	}
	switch {
	case rule.At.After(at) && rule.Active && kind == CustomerMessage:
		return FoundSwitched, VerdictGood // nobody sends it any more
	case rule.At.After(at):
		return FoundSwitched, VerdictOpen
	case !rule.Active:
		return FoundRuledOut, VerdictGood
	}
	return FoundMissing, VerdictBad
}

func (f OrderFile) checkInstructions(all []Action) []OutcomeLine {
	names, of := stages(all, FulfillmentInstruction)
	var lines []OutcomeLine
	if of[WholeOrder] == nil {
		lines = append(lines, f.noInstruction())
	}
	for _, name := range names {
		lines = append(lines, f.checkStage(OutcomeInstructions, name, of[name]))
	}
	return lines
}

// noInstruction judges an order without an instruction for the whole of it.
func (f OrderFile) noInstruction() OutcomeLine {
	l := OutcomeLine{Group: OutcomeInstructions, Stage: WholeOrder, Found: FoundNoneDue, Verdict: VerdictGood}
	on := OnPaid
	if f.PaysOnDelivery() {
		on = OnPayOnDelivery
	}
	pay := f.State(Payment)
	_, ended := f.Withdraws()
	switch not := f.notNeeded(FulfillmentInstruction, false); {
	case not != Needed:
		l.Found, l.Not = FoundNotNeeded, not
	case ended, pay == PaymentFailed, pay == PaymentVoided, f.underWay():
	case !f.instructionDue():
		l.Found, l.Verdict = FoundNotYet, VerdictOpen
	default:
		var at time.Time // nobody knows: before whatever was switched
		if e := f.fellDue(); e != nil {
			at, l.Entries = e.At, []Entry{*e}
		}
		l.Found, l.Verdict = f.byRule(on, FulfillmentInstruction, at)
	}
	return l
}

// fellDue is the ledger entry with which the order had to be shipped, where it is at
// hand: the payment, or the first one of an order that is paid on delivery.
func (f OrderFile) fellDue() *Entry {
	var due *Entry
	for i, e := range f.Ledger {
		switch {
		case e.Axis != Payment || e.To == e.From:
		case f.PaysOnDelivery():
			due = &f.Ledger[i]
		case e.To == PaymentPaid:
			return &f.Ledger[i]
		}
	}
	return due
}

// checkGoods compares what was shipped with what was ordered, and with what we asked for.
func (f OrderFile) checkGoods(all []Action) []OutcomeLine {
	var lines []OutcomeLine
	heard, live, replaced := false, false, false
	for _, a := range all {
		if a.Kind != FulfillmentInstruction {
			continue
		}
		heard = heard || a.Heard()
		live = live || a.State == ActionPlanned || a.State == ActionWaiting || a.State == ActionManual
		replaced = replaced || a.Heard() && strings.HasPrefix(a.Stage, "replacement:")
	}
	if f.Items.Ordered > 0 {
		l := OutcomeLine{Group: OutcomeGoods, Found: FoundPieces, Verdict: VerdictGood, Items: f.Items}
		switch {
		case f.Items.Shipped > f.Items.Ordered && replaced:
			l.Found, l.Verdict = FoundMayBeMore, VerdictOpen
		case f.Items.Shipped > f.Items.Ordered:
			l.Found, l.Verdict = FoundTooMany, VerdictBad
		}
		lines = append(lines, l)
	}
	if !heard && f.underWay() && !f.Test && f.Platform != ReceiptRoller {
		l := OutcomeLine{Group: OutcomeGoods, Found: FoundShipped, Verdict: VerdictGood, Items: f.Items}
		if live {
			l.Found, l.Verdict = FoundShippedLive, VerdictOpen
		}
		lines = append(lines, l)
	}
	return lines
}

// due are the messages that the ledger asks for: one when the payment came, one for
// each growth of the refunded sum.
func (f OrderFile) due() []OutcomeLine {
	var lines []OutcomeLine
	for _, e := range slices.Backward(f.Ledger) {
		l := OutcomeLine{Group: OutcomeMessages, Entries: []Entry{e}}
		on := OnPaid
		switch {
		case e.Axis == Payment && e.To == PaymentPaid && e.From != PaymentPaid:
			l.Stage = "payment_received"
		case e.Axis == Refund && e.After.Refunded > e.Before.Refunded:
			l.Stage, on = "refund:"+strconv.FormatInt(e.After.Refunded, 10), OnRefunded
		default:
			continue
		}
		switch {
		case slices.ContainsFunc(lines, func(have OutcomeLine) bool { return have.Stage == l.Stage }):
			continue
		case f.Test:
			l.Found, l.Verdict, l.Not = FoundNotNeeded, VerdictGood, IsTest
		case e.Cause.Kind == CauseImport:
			l.Found, l.Verdict, l.Not = FoundNotNeeded, VerdictGood, ImportedQuietly
		default:
			l.Found, l.Verdict = f.byRule(on, CustomerMessage, e.At)
		}
		lines = append(lines, l)
	}
	return lines
}

func (f OrderFile) checkMessages(all []Action) []OutcomeLine {
	names, of := stages(all, CustomerMessage)
	lines := f.due()
	for _, name := range names {
		l := f.checkStage(OutcomeMessages, name, of[name])
		if sum, ok := strings.CutPrefix(name, "refund:"); ok && l.Verdict == VerdictGood && l.Actions[0].Heard() {
			if told, err := strconv.ParseInt(sum, 10, 64); err == nil && told > f.Refunded {
				l.Found, l.Verdict = FoundUntrue, VerdictBad
			}
		}
		i := slices.IndexFunc(lines, func(have OutcomeLine) bool { return have.Stage == name })
		if i < 0 {
			lines = append(lines, l)
			continue
		}
		if len(l.Entries) == 0 {
			l.Entries = lines[i].Entries
		}
		lines[i] = l
	}
	return lines
}
