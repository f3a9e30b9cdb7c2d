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
	foreign := t.Amounts != nil && !first && before.Currency != "" && before.Currency != t.Amounts.Currency
	if foreign {
		s.Problems = append(s.Problems, Problem{Kind: AmountDiffers, Case: "currency", Axis: Payment, PlatformState: t.Amounts.Currency, LocalState: before.Currency})
	} else if t.Amounts != nil {
		after = *t.Amounts
	}
	rules, after := judge(o, t, first, after)
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
		if foreign && axis.Money() {
			was.Check, was.Doubt = ToReview, Differs
			s.Order.Axes[axis] = was
			continue
		}
		s.step(axis, was, want, first, rules, before, after, now)
	}
	s.Order.Announced = false
	if first {
		s.Order.Said = nil
	}
	s.settleAmounts(first, before, after, t)
	if after.Refunded > after.Received {
		s.Problems = append(s.Problems, Problem{Kind: AmountDiffers, Case: CaseRefundedMore, Axis: Refund,
			PlatformState: Decimal(after.Refunded, after.Currency), LocalState: Decimal(after.Received, after.Currency)})
	}
	return s
}

// judge finds for each axis that is to move the rule that lets it, and the sums that
// the order takes over. Sums that belong to a refused move are refused with it:
// otherwise the same reading would be judged differently the second time.
func judge(o Order, t Target, first bool, after Amounts) (map[Axis]Rule, Amounts) {
	rules := map[Axis]Rule{}
	if first {
		return rules, after
	}
	for _, axis := range Axes {
		want, stated := t.Axes[axis]
		was := o.State(axis)
		if !stated || want.State == "" || want.State == was {
			continue
		}
		if r, ok := allowed(axis, was, want, o.Amounts, after); ok {
			rules[axis] = r
			continue
		}
		switch axis {
		case Payment:
			after.Total, after.Received, after.Outstanding = o.Total, o.Received, o.Outstanding
		case Refund:
			after.Refunded = o.Refunded
		}
	}
	return rules, after
}

// step enters what is stated of one axis, or says why it can't.
func (s *Step) step(axis Axis, was AxisRecord, want Want, first bool, rules map[Axis]Rule, before, after Amounts, now time.Time) {
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
	rule, ok := rules[axis]
	if !ok {
		rec := was
		rec.Check, rec.Doubt = Unverified, Differs
		s.Order.Axes[axis] = rec
		s.Problems = append(s.Problems, Problem{Kind: MoveRefused, Axis: axis, PlatformState: want.Word, LocalState: string(was.State), Detail: string(want.State)})
		return
	}
	s.set(axis, was.State, want.State, want, before, after, now)
	if rule.Eyes && want.State != Review {
		s.Moves[len(s.Moves)-1].Eyes = true
		s.Problems = append(s.Problems, Problem{Kind: StateDiffers, Case: CaseMovedBack, Axis: axis, PlatformState: want.Word, LocalState: string(was.State)})
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
