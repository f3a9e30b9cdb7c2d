package models

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// A Standing says whether money moved.
type Standing string

const (
	MoneyMoved   Standing = "succeeded"
	MoneyMoving  Standing = "pending"
	MoneyFailed  Standing = "failed"
	MoneyUnclear Standing = "unclear" // its word or its amount can't be read
)

// Standings lists all of them; the schema has the same list.
var Standings = []Standing{MoneyMoved, MoneyMoving, MoneyFailed, MoneyUnclear}

// A Telling is what one platform says of one payment or refund.
type Telling struct {
	Platform   Platform
	Connection int64
	Slug       string
	Deep       string // address of the platform's own page, empty where there is none
	Part
	Standing Standing
	Basis    Basis
	Read     time.Time // of the official reading; zero where only a payload says so
}

// A Movement is money that came in or went back once, however many platforms tell of it.
type Movement struct {
	Telling           // of the platform that decides about money
	Also    []Telling // the same money as others tell it
	Fresh   bool      // the reading is newer than all that happened to the order
}

// Names tells whether the movement is known under an id of a platform.
func (m Movement) Names(part string) bool {
	return m.ID == part || slices.ContainsFunc(m.Also, func(t Telling) bool { return t.ID == part })
}

// Explains tells whether an explanation is about the movement as it stands now.
func (e Explanation) Explains(m Movement) bool {
	return m.Names(e.Part) && e.Amount == m.Amount && e.Currency == m.Currency && e.Standing == m.Standing
}

// RecordedWord is how a store that wrote a refund down without moving money for it is shown.
const RecordedWord = "recorded"

// ReleasedNote marks what looks like a refund and is the rest of an authorisation.
const ReleasedNote = "released"

// standing says whether a part is money that moved; empty where it is none.
func (p Part) standing() Standing {
	switch {
	case p.Axis == Payment && p.Counts:
		return MoneyMoved
	case p.Axis != Refund, p.Word == RecordedWord, p.Note == ReleasedNote:
		return ""
	case p.Counts:
		return MoneyMoved
	case p.State == RefundPending:
		return MoneyMoving
	case p.State == RefundNone:
		return MoneyFailed
	}
	return MoneyUnclear
}

// tellings are all that objects say of the payments or refunds of an axis, each once
// for a platform, in the order in which the money moved.
func tellings(objects []Object, a Axis) []Telling {
	var list []Telling
	for _, o := range objects {
		_, basis, ok := o.statement(a)
		if !ok {
			continue
		}
		seen := o.Said
		if basis == Official {
			seen = o.latest()
		}
		for _, p := range seen.Parts {
			if s := p.standing(); p.Axis == a && s != "" {
				t := Telling{Platform: o.Platform, Connection: o.Connection, Slug: o.Slug, Deep: o.Deep, Part: p, Standing: s, Basis: basis}
				if basis == Official {
					t.Read = seen.Read
				}
				list = append(list, t)
			}
		}
	}
	// Of two that tell of one part the official and newer one stays.
	slices.SortFunc(list, func(x, y Telling) int {
		return cmp.Or(strings.Compare(string(x.Platform), string(y.Platform)), strings.Compare(x.ID, y.ID), strings.Compare(string(x.Basis), string(y.Basis)),
			y.Read.Compare(x.Read), cmp.Compare(x.Connection, y.Connection), cmp.Compare(y.Amount, x.Amount), strings.Compare(x.Word, y.Word))
	})
	list = slices.CompactFunc(list, func(x, y Telling) bool { return x.Platform == y.Platform && x.ID == y.ID })
	slices.SortFunc(list, byTime)
	return list
}

// byTime orders money as it moved; what has no time comes last.
func byTime(x, y Telling) int {
	if x.At.IsZero() != y.At.IsZero() {
		if x.At.IsZero() {
			return 1
		}
		return -1
	}
	return cmp.Or(x.At.Compare(y.At), cmp.Compare(moneyRank[y.Platform], moneyRank[x.Platform]), strings.Compare(x.ID, y.ID))
}

// Movements puts together what several platforms tell of the same money, as the
// composition does: a store's payments and refunds are those of the payment platform
// as far as there are as many. currency is the order's.
func Movements(objects []Object, a Axis, currency string) []Movement {
	list := tellings(objects, a)
	var moves []Movement
	for _, p := range []Platform{Stripe, Shopify, ReceiptRoller} {
		var told []Telling
		for _, t := range list {
			if t.Platform == p {
				told = append(told, t)
			}
		}
		moves = joinMoney(moves, told, currency)
	}
	slices.SortStableFunc(moves, func(x, y Movement) int { return byTime(x.Telling, y.Telling) })
	return moves
}

// joinMoney adds what a further platform tells to the movements that are known.
func joinMoney(moves []Movement, told []Telling, currency string) []Movement {
	if len(moves) == 0 || len(told) == 0 {
		for _, t := range told {
			moves = append(moves, Movement{Telling: t})
		}
		return moves
	}
	taken := make([]bool, len(moves))
	var left []Telling
	for _, t := range told {
		i := slices.IndexFunc(moves, func(m Movement) bool {
			return !m.tellsFor(t.Platform) && m.Amount == t.Amount && m.Currency == t.Currency && (m.Standing == MoneyFailed) == (t.Standing == MoneyFailed)
		})
		if i < 0 {
			left = append(left, t)
			continue
		}
		moves[i].Also = append(moves[i].Also, t)
		taken[i] = true
	}
	var out, known []Movement
	for i, m := range moves {
		if taken[i] || m.Standing == MoneyFailed {
			out = append(out, m)
		} else {
			known = append(known, m)
		}
	}
	var rest []Telling
	for _, t := range left {
		if t.Standing == MoneyFailed {
			out = append(out, Movement{Telling: t})
		} else {
			rest = append(rest, t)
		}
	}
	return append(out, pairMoney(known, rest, currency)...)
}

// tellsFor tells whether a platform tells of the movement already.
func (m Movement) tellsFor(p Platform) bool {
	return m.Platform == p || slices.ContainsFunc(m.Also, func(t Telling) bool { return t.Platform == p })
}

// pairMoney joins what has no equal on the other side: parts of one sum, or one sum in
// two currencies. The side that tells of more movements is shown, else the one in the
// order's currency, else the one that decides about money.
func pairMoney(known []Movement, rest []Telling, currency string) []Movement {
	if len(known) == 0 || len(rest) == 0 {
		for _, t := range rest {
			known = append(known, Movement{Telling: t})
		}
		return known
	}
	shown, other := known, make([]Movement, len(rest))
	for i, t := range rest {
		other[i] = Movement{Telling: t}
	}
	if len(rest) > len(known) || len(rest) == len(known) && known[0].Currency != currency && rest[0].Currency == currency {
		shown, other = other, shown
	}
	for i, m := range other {
		at := &shown[min(i, len(shown)-1)]
		at.Also = append(append(at.Also, m.Telling), m.Also...)
	}
	return shown
}

// moved adds up what moved in a currency, as the platform tells it that knows most.
func moved(objects []Object, a Axis, currency string) int64 {
	sums := map[Platform]int64{}
	for _, t := range tellings(objects, a) {
		if t.Standing == MoneyMoved && t.Currency == currency {
			sums[t.Platform] += t.Amount
		}
	}
	var most int64
	for _, sum := range sums {
		most = max(most, sum)
	}
	return most
}

// freshAtMost is how old a reading may be where the connection doesn't say.
const freshAtMost = 2 * time.Minute

// oneCheck is how long reading all objects of an order may take: what one of the
// readings finds doesn't make those before it old.
const oneCheck = 30 * time.Second

// fresh tells whether an official reading shows what is true now: it began after all
// that happened to the order, and not long ago.
func (f OrderFile) fresh(connection int64, read, now time.Time) bool {
	age := f.Outcome.Fresh[connection]
	if age <= 0 {
		age = freshAtMost
	}
	return !read.IsZero() && now.Sub(read) <= age && !f.happened(read)
}

// happened tells whether something happened to the order after a reading began.
func (f OrderFile) happened(read time.Time) bool {
	for _, e := range f.Ledger {
		at := e.At
		if e.Cause.Basis == Official && !e.Cause.Read.IsZero() {
			at = e.Cause.Read.Add(-oneCheck)
		}
		if at.After(read) {
			return true
		}
	}
	for _, e := range f.Events {
		if e.Received.After(read) {
			return true
		}
	}
	for _, a := range f.everyAction() {
		if a.Sent.After(read) || a.Heard() && a.Done.After(read) {
			return true
		}
	}
	return false
}

// asks is what the order asks in all: the store says so. Where there is none, one
// payment is all there should be.
func (f OrderFile) asks() int64 {
	store, most := false, int64(0)
	for _, o := range f.Objects {
		store = store || o.Platform != Stripe
		if a, _ := o.amounts(); a != nil && o.Platform == Stripe && a.Currency == f.Currency {
			most = max(most, a.Total)
		}
	}
	if store || most == 0 {
		return f.Total
	}
	return most
}

func (f OrderFile) checkMoney(now time.Time) []OutcomeLine {
	objects, unsure := f.sureObjects()
	in, out := Movements(objects, Payment, f.Currency), Movements(objects, Refund, f.Currency)
	var lines []OutcomeLine
	asked, sum := f.asks(), int64(0)
	received, back := moved(objects, Payment, f.Currency), moved(objects, Refund, f.Currency)
	for i, m := range in {
		l := OutcomeLine{Found: FoundIn}
		if m.Currency == f.Currency {
			sum += m.Amount
		}
		beyond := sum > asked || m.Currency != f.Currency
		switch {
		case i > 0 && beyond:
			l.Found, l.Explain = FoundSecondIn, true
		case i > 0:
			l.Found = FoundPart
		case m.Currency == f.Currency && sum > asked && received-back > asked:
			l.Found, l.Verdict = FoundAbove, VerdictOpen
		}
		lines = append(lines, f.judgeMoney(l, m, now))
	}
	n, sum := 0, int64(0)
	for _, m := range out {
		l := OutcomeLine{Found: FoundOut}
		switch m.Standing {
		case MoneyFailed:
			l.Found = FoundNotCounted
		default:
			n++
			if m.Currency == f.Currency {
				sum += m.Amount
			}
			above := m.Currency == f.Currency && sum > max(received, f.receivedElsewhere(objects))
			switch {
			case above:
				l.Found, l.Explain = FoundOutAbove, true
			case n > 1:
				l.Found, l.Explain = FoundSecondOut, true
			case m.Standing == MoneyMoving:
				l.Found, l.Verdict = FoundPending, VerdictOpen
			case m.Standing == MoneyUnclear:
				l.Found, l.Verdict = FoundOdd, VerdictUnknown
			}
		}
		lines = append(lines, f.judgeMoney(l, m, now))
	}
	for _, m := range Movements(unsure, Payment, f.Currency) {
		lines = append(lines, f.judgeMoney(OutcomeLine{Found: FoundUnsureMoney, Verdict: VerdictOpen}, m, now))
	}
	if len(in)+len(out) == 0 {
		lines = append(lines, f.noMoney(objects, now))
	}
	return lines
}

// judgeMoney adds to a line what its movement's reading and explanations are worth.
func (f OrderFile) judgeMoney(l OutcomeLine, m Movement, now time.Time) OutcomeLine {
	m.Fresh = m.Basis == Official && f.fresh(m.Connection, m.Read, now)
	l.Group, l.Money = OutcomeMoney, &m
	if l.Explain {
		l.Verdict = VerdictBad
		for i, e := range f.Outcome.Explained {
			if e.Explains(m) {
				l.Explained, l.Verdict = &f.Outcome.Explained[i], VerdictGood
			}
		}
	}
	if l.Verdict == "" {
		l.Verdict = VerdictGood
	}
	if !m.Fresh && l.Verdict != VerdictBad {
		l.Verdict = VerdictUnknown
	}
	return l
}

// noMoney is the line of an order of which no platform tells that money moved.
func (f OrderFile) noMoney(objects []Object, now time.Time) OutcomeLine {
	l := OutcomeLine{Group: OutcomeMoney, Found: FoundNoMoney, Verdict: VerdictUnknown, Money: &Movement{}}
	for _, o := range objects {
		if _, basis, ok := o.statement(Payment); !ok || basis != Official {
			continue
		}
		read := o.latest().Read
		fresh := f.fresh(o.Connection, read, now)
		if l.Money.Read.IsZero() || read.Before(l.Money.Read) {
			l.Money.Platform, l.Money.Connection, l.Money.Slug, l.Money.Deep, l.Money.Read = o.Platform, o.Connection, o.Slug, o.Deep, read
			l.Money.Fresh = fresh
		}
	}
	switch {
	case f.receivedElsewhere(objects) > 0:
		l.Found = FoundUnnamed
	case l.Money.Fresh:
		l.Verdict = VerdictGood
	}
	return l
}

// receivedElsewhere is what objects say came in as a sum, where their parts don't show it.
func (f OrderFile) receivedElsewhere(objects []Object) int64 {
	sums := map[Platform]int64{}
	for _, o := range objects {
		if a, _ := o.amounts(); a != nil && a.Currency == f.Currency {
			sums[o.Platform] += a.Received
		}
	}
	var most int64
	for _, sum := range sums {
		most = max(most, sum)
	}
	return most
}

// sureObjects leaves out payments of which it isn't sure that they are this order's:
// the composition doesn't count them either.
func (f OrderFile) sureObjects() (sure, unsure []Object) {
	var store *Object
	for i, o := range f.Objects {
		if o.Platform != Stripe && (store == nil || goodsRank[o.Platform] > goodsRank[store.Platform]) {
			store = &f.Objects[i]
		}
	}
	var own *Amounts
	if store != nil {
		own, _ = store.amounts()
	}
	for _, o := range f.Objects {
		if o.Platform == Stripe && !o.sure(own) {
			unsure = append(unsure, o)
		} else {
			sure = append(sure, o)
		}
	}
	return sure, unsure
}

// Explainable finds the payment or refund of an order that a person may explain.
func (o Outcome) Explainable(part string) (OutcomeLine, bool) {
	for _, l := range o.Lines {
		if l.Explain && l.Money != nil && l.Money.Names(part) {
			return l, true
		}
	}
	return OutcomeLine{}, false
}
