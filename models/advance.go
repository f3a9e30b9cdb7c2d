package models

import (
	"maps"
	"time"
)

// A Step is the outcome of Advance.
type Step struct {
	Order    Order
	Moves    []Move
	Problems []Problem
}

// Advance brings an order to what its platforms say together, as far as the rules
// allow. It is pure: what it can't do is a Problem, never a silent write.
// Everything it decides depends on the order and the target alone.
func Advance(o Order, t Target, now time.Time) Step {
	s := Step{Order: o, Problems: append([]Problem(nil), t.Problems...)}
	s.Order.Axes = maps.Clone(o.Axes)
	if s.Order.Axes == nil {
		s.Order.Axes = map[Axis]AxisRecord{}
	}
	first := o.Announced || len(o.Axes) == 0
	before, after := o.Amounts, o.Amounts
	if t.Amounts != nil && (before.Currency == "" || before.Currency == t.Amounts.Currency || first) {
		after = *t.Amounts
	} else if t.Amounts != nil {
		s.Problems = append(s.Problems, Problem{Kind: AmountDiffers, Case: "currency", Axis: Payment, PlatformState: t.Amounts.Currency, LocalState: before.Currency})
	}
	if t.Items != nil {
		s.Order.Items = *t.Items
	}
	for _, axis := range Axes {
		want, stated := t.Axes[axis]
		was := o.Axes[axis]
		if !stated {
			if first {
				s.set(axis, "", Resting[axis], Want{}, before, after, now)
			}
			continue
		}
		s.step(axis, was, want, first, before, after, now)
	}
	s.Order.Announced = false
	if first {
		s.Order.Said = nil
	}
	s.settleAmounts(first, before, after, t)
	if after.Refunded > after.Received && after.Received > 0 {
		s.Problems = append(s.Problems, Problem{Kind: AmountDiffers, Case: "refunded_more", Axis: Refund,
			PlatformState: Decimal(after.Refunded, after.Currency), LocalState: Decimal(after.Received, after.Currency)})
	}
	return s
}

// step judges one stated axis.
func (s *Step) step(axis Axis, was AxisRecord, want Want, first bool, before, after Amounts, now time.Time) {
	if want.Unclear && want.State == "" {
		rec := was
		if first {
			s.set(axis, "", Resting[axis], want, before, after, now)
			rec = s.Order.Axes[axis]
		}
		rec.Check, rec.Doubt, rec.Word = ToReview, UnclearWord, want.Word
		rec.Connection, rec.Platform = want.By.Connection, want.By.Platform
		s.Order.Axes[axis] = rec
		s.Problems = append(s.Problems, Problem{Kind: UnknownStatus, Axis: axis, PlatformState: want.Word, LocalState: string(was.State), Detail: want.Word})
		return
	}
	if want.Unclear {
		s.Problems = append(s.Problems, Problem{Kind: UnknownStatus, Axis: axis, PlatformState: want.Word, LocalState: string(was.State), Detail: want.Word})
	}
	if first || was.State == want.State {
		from := was.State
		if first {
			from = ""
		}
		s.set(axis, from, want.State, want, before, after, now)
		return
	}
	rule, ok := allowed(axis, was.State, want, before, after)
	if !ok {
		rec := was
		rec.Check, rec.Doubt = Unverified, Differs
		s.Order.Axes[axis] = rec
		s.Problems = append(s.Problems, Problem{Kind: MoveRefused, Axis: axis, PlatformState: want.Word, LocalState: string(was.State), Detail: string(want.State)})
		return
	}
	s.set(axis, was.State, want.State, want, before, after, now)
	if rule.Eyes && want.State != Review {
		s.Problems = append(s.Problems, Problem{Kind: StateDiffers, Case: "moved_back", Axis: axis, PlatformState: want.Word, LocalState: string(was.State)})
	}
}

// allowed finds the rule that lets an observation move an axis.
func allowed(axis Axis, from State, want Want, before, after Amounts) (Rule, bool) {
	for _, r := range RulesFor(axis, from, want.State) {
		if r.Class == ByApproval || r.Class == ByReading && want.Basis != Official {
			continue
		}
		switch r.Guard {
		case ReceivedKept:
			if after.Received < before.Received {
				continue
			}
		case ReceivedGrew:
			if after.Received <= before.Received {
				continue
			}
		case ReceivedSteady:
			if after.Received > before.Received {
				continue
			}
		}
		return r, true
	}
	return Rule{}, false
}

// set enters a state, and records the move if it is one.
func (s *Step) set(axis Axis, from, to State, want Want, before, after Amounts, now time.Time) {
	rec := s.Order.Axes[axis]
	if from != to {
		s.Moves = append(s.Moves, Move{Axis: axis, From: from, To: to, Before: before, After: after, Object: want.By.Ref, Basis: want.Basis})
		rec.Since = now
	}
	rec.State = to
	rec.Word = want.Word
	rec.Connection, rec.Platform = want.By.Connection, want.By.Platform
	rec.Check, rec.Doubt = Verified, NoDoubt
	switch {
	case to == Review || want.Unclear:
		rec.Check, rec.Doubt = ToReview, UnclearWord
	case want.Disputed:
		rec.Check, rec.Doubt = Unverified, Differs
	case want.Basis == Reported:
		rec.Check, rec.Doubt = Unverified, ReportedOnly
	}
	if want.Basis == Official && want.By.Official != nil {
		rec.CheckedAt = want.By.Official.Read
	}
	s.Order.Axes[axis] = rec
}

// settleAmounts enters changed sums: on the entries of this step where their axis
// moves, else as an entry whose two states are the same.
func (s *Step) settleAmounts(first bool, before, after Amounts, t Target) {
	s.Order.Amounts = after
	if first {
		return
	}
	need := map[Axis]bool{
		Payment: before.Received != after.Received || before.Total != after.Total || before.Currency != after.Currency,
		Refund:  before.Refunded != after.Refunded,
	}
	for _, m := range s.Moves {
		delete(need, m.Axis)
	}
	for _, axis := range MoneyAxes {
		if need[axis] {
			state := s.Order.Axes[axis].State
			w := t.Axes[axis]
			s.Moves = append(s.Moves, Move{Axis: axis, From: state, To: state, Before: before, After: after, Object: w.By.Ref, Basis: w.Basis})
		}
	}
}
