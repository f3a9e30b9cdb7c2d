package models

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// wellFile is an order that is well in every respect: paid once, one instruction
// and one message sent, read officially a few seconds ago.
func wellFile() OrderFile {
	f := OrderFile{Order: Order{ID: 1, Platform: Shopify, Store: true, Amounts: hkd(100, 100, 0), Items: Items{Ordered: 2}, Axes: map[Axis]AxisRecord{
		Payment: {State: PaymentPaid, Connection: 2}, Refund: {State: RefundNone}, Dispute: {State: DisputeNone},
		Fulfillment: {State: FulfillmentUnfulfilled}, Cancellation: {State: CancellationActive}, Return: {State: ReturnNone}}}}
	f.Ledger = []Entry{
		{ID: 2, Axis: Payment, From: PaymentPending, To: PaymentPaid, At: noon.Add(time.Second), Cause: Cause{Kind: CauseEvent, Basis: Official, Read: noon}},
		{ID: 1, Axis: Payment, To: PaymentPending, At: noon.Add(-time.Hour), Cause: Cause{Kind: CauseEvent, Basis: Official, Read: noon.Add(-time.Hour)}}}
	f.Events = []Event{{ID: 9, Received: noon.Add(-time.Second)}}
	f.Actions = []Action{
		{ID: 12, Kind: CustomerMessage, Stage: "payment_received", State: ActionDone, Entry: 2, Tries: 1, Sent: noon.Add(3 * time.Second), Done: noon.Add(4 * time.Second)},
		{ID: 11, Kind: FulfillmentInstruction, Stage: WholeOrder, State: ActionDone, Entry: 2, Tries: 1, Sent: noon.Add(3 * time.Second), Done: noon.Add(4 * time.Second)}}
	f.Objects = []Object{shopTells(checked, payPart("tx1", 100)), stripeTells("pi_1", checked, payPart("pi_1", 100))}
	return f
}

var (
	checked = noon.Add(10 * time.Second)
	looked  = noon.Add(20 * time.Second)
)

func payPart(id string, amount int64) Part {
	return Part{Axis: Payment, ID: id, State: PaymentPaid, Word: "succeeded", Amount: amount, Currency: "HKD", At: noon, Counts: true}
}

func refundPart(id string, amount int64, at time.Duration) Part {
	return Part{Axis: Refund, ID: id, State: RefundPartial, Word: "succeeded", Amount: amount, Currency: "HKD", At: noon.Add(at), Counts: true}
}

func tells(o Object, read time.Time, parts []Part) Object {
	var in, out int64
	for _, p := range parts {
		switch {
		case p.Counts && p.Axis == Payment:
			in += p.Amount
		case p.Counts && p.Axis == Refund:
			out += p.Amount
		}
	}
	a := hkd(100, in, out)
	o.Official = &Observation{Basis: Official, Read: read, Amounts: &a, Parts: parts, Axes: map[Axis]Statement{Payment: {State: PaymentPaid}, Refund: {State: RefundState(in, out, false)}}}
	o.Reads = map[Axis]bool{Payment: true, Refund: true}
	return o
}

func shopTells(read time.Time, parts ...Part) Object {
	return tells(Object{ObjectView: ObjectView{Connection: 1, Slug: "hk", Platform: Shopify, Ref: ObjectRef{ID: "1"}}}, read, parts)
}

func stripeTells(id string, read time.Time, parts ...Part) Object {
	return tells(Object{ObjectView: ObjectView{Connection: 2, Slug: "pay", Platform: Stripe, LinkedBy: LinkMetadata, Ref: ObjectRef{ID: id}}}, read, parts)
}

// found writes a check in one line: what isn't good, and of money everything.
func found(o Outcome) string {
	var out []string
	for _, l := range o.Lines {
		s := fmt.Sprintf("%s %s %s", l.Group, l.Found, l.Verdict)
		if l.Stage != "" {
			s = fmt.Sprintf("%s %s", l.Stage, s)
		}
		if l.Money != nil && l.Money.ID != "" {
			s += " " + l.Money.ID
			for _, t := range l.Money.Also {
				s += "=" + t.ID
			}
		}
		out = append(out, s)
	}
	return strings.Join(out, "; ")
}

const (
	wellGoods   = "order instruction done good; goods pieces good; "
	wellMessage = "payment_received message done good; "
	wellMoney   = "money in good pi_1=tx1"
)

func TestCheckOutcome(t *testing.T) {
	t.Parallel()
	sent := func(id int64, kind ActionKind, stage string) Action {
		return Action{ID: id, Kind: kind, Stage: stage, State: ActionDone, Tries: 1, Sent: noon, Done: noon}
	}
	only := func(f *OrderFile, state ActionState) *Action {
		f.Actions[1] = Action{ID: 11, Kind: FulfillmentInstruction, Stage: WholeOrder, State: state, Entry: 2}
		return &f.Actions[1]
	}
	refunded := func(f *OrderFile, sums ...int64) {
		was := int64(0)
		for i, sum := range sums {
			f.Ledger = append([]Entry{{ID: int64(10 + i), Axis: Refund, To: RefundPartial, Before: hkd(100, 100, was), After: hkd(100, 100, sum), At: noon,
				Cause: Cause{Kind: CauseEvent, Basis: Official, Read: noon}}}, f.Ledger...)
			was = sum
		}
		f.Refunded = was
		f.Axes[Refund] = AxisRecord{State: RefundPartial}
	}
	for name, c := range map[string]struct {
		change func(f *OrderFile)
		want   string
	}{
		"all well": {func(*OrderFile) {}, wellGoods + wellMessage + wellMoney},
		"two sent instructions, one on a shell": {func(f *OrderFile) {
			a := sent(5, FulfillmentInstruction, WholeOrder)
			a.Instead, a.OrderID = 11, 7
			f.Outcome.Merged = []Action{a}
		}, "order instruction twice bad; goods pieces good; " + wellMessage + wellMoney},
		"a shell's that was never sent": {func(f *OrderFile) {
			f.Outcome.Merged = []Action{{ID: 5, Kind: FulfillmentInstruction, Stage: WholeOrder, State: ActionNotNeeded, Why: string(MergedAway), Instead: 11}}
		}, wellGoods + wellMessage + wellMoney},
		"two messages, one on a shell": {func(f *OrderFile) {
			f.Outcome.Merged = []Action{sent(5, CustomerMessage, "payment_received")}
		}, wellGoods + "payment_received message twice bad; " + wellMoney},
		"the rest of it, and a replacement that nobody approved": {func(f *OrderFile) {
			f.Actions = append([]Action{sent(14, FulfillmentInstruction, "replacement:1"), sent(13, FulfillmentInstruction, "more:1")}, f.Actions...)
		}, "order instruction done good; more:1 instruction done good; replacement:1 instruction unasked bad; goods pieces good; " + wellMessage + wellMoney},
		"an approved replacement": {func(f *OrderFile) {
			f.Actions = append([]Action{sent(14, FulfillmentInstruction, "replacement:1")}, f.Actions...)
			f.Outcome.Asked = map[int64]bool{14: true}
			f.Items.Shipped = 3
		}, "order instruction done good; replacement:1 instruction done good; goods may_be_more open; " + wellMessage + wellMoney},
		"a message once more": {func(f *OrderFile) {
			f.Actions = append([]Action{sent(14, CustomerMessage, "again:1"), sent(13, CustomerMessage, "again:2")}, f.Actions...)
			f.Outcome.Asked = map[int64]bool{14: true}
		}, wellGoods + wellMessage + "again:2 message unasked bad; again:1 message done good; " + wellMoney},
		"no instruction": {func(f *OrderFile) { f.Actions = f.Actions[:1] }, "order instruction missing bad; goods pieces good; " + wellMessage + wellMoney},
		"no instruction by the shop's rules": {func(f *OrderFile) {
			f.Actions = f.Actions[:1]
			f.Outcome.Switched = []RuleSwitch{{ActionRule{Occasion: OnPaid, Kind: FulfillmentInstruction}, noon}}
		}, "order instruction ruled_out good; goods pieces good; " + wellMessage + wellMoney},
		"no instruction, and its rule was off until then": {func(f *OrderFile) {
			f.Actions = f.Actions[:1]
			f.Outcome.Switched = []RuleSwitch{{ActionRule{Occasion: OnPaid, Kind: FulfillmentInstruction, Active: true}, noon}}
		}, "order instruction missing bad; goods pieces good; " + wellMessage + wellMoney},
		"no instruction, and its rule was switched on afterwards": {func(f *OrderFile) {
			f.Actions = f.Actions[:1]
			f.Outcome.Switched = []RuleSwitch{{ActionRule{Occasion: OnPaid, Kind: FulfillmentInstruction, Active: true}, checked}}
		}, "order instruction switched open; goods pieces good; " + wellMessage + wellMoney},
		"no instruction, and its rule was switched off afterwards": {func(f *OrderFile) {
			f.Actions = f.Actions[:1]
			f.Outcome.Switched = []RuleSwitch{{ActionRule{Occasion: OnPaid, Kind: FulfillmentInstruction}, checked}}
		}, "order instruction switched open; goods pieces good; " + wellMessage + wellMoney},
		"no instruction, and another rule was switched afterwards": {func(f *OrderFile) {
			f.Actions = f.Actions[:1]
			f.Outcome.Switched = []RuleSwitch{{ActionRule{Occasion: OnPayOnDelivery, Kind: FulfillmentInstruction}, checked}, {ActionRule{Occasion: OnPaid, Kind: Invoice}, checked}}
		}, "order instruction missing bad; goods pieces good; " + wellMessage + wellMoney},
		"no instruction of an order paid on delivery, and its rule was switched on before the money came": {func(f *OrderFile) {
			f.Actions, f.Method = f.Actions[:1], "Cash on Delivery (COD)"
			f.Outcome.Switched = []RuleSwitch{{ActionRule{Occasion: OnPayOnDelivery, Kind: FulfillmentInstruction, Active: true}, noon}}
		}, "order instruction switched open; goods pieces good; " + wellMessage + wellMoney},
		"no instruction, and how it was paid isn't at hand": {func(f *OrderFile) {
			f.Actions, f.Ledger = f.Actions[:1], nil
			f.Outcome.Switched = []RuleSwitch{{ActionRule{Occasion: OnPaid, Kind: FulfillmentInstruction, Active: true}, noon.Add(-time.Hour)}}
		}, "order instruction switched open; goods pieces good; " + wellMessage + wellMoney},
		"no instruction of a sale at the till": {func(f *OrderFile) { f.Actions, f.Channel = f.Actions[:1], "pos" }, "order instruction not_needed good; goods pieces good; " + wellMessage + wellMoney},
		"no instruction of a cancelled order": {func(f *OrderFile) {
			f.Actions = f.Actions[:1]
			f.Axes[Cancellation] = AxisRecord{State: CancellationCancelled}
		}, "order instruction none_due good; goods pieces good; " + wellMessage + wellMoney},
		"it waits":   {func(f *OrderFile) { only(f, ActionWaiting) }, "order instruction waiting open; goods pieces good; " + wellMessage + wellMoney},
		"on a list":  {func(f *OrderFile) { only(f, ActionManual) }, "order instruction manual open; goods pieces good; " + wellMessage + wellMoney},
		"ticked off": {func(f *OrderFile) { only(f, ActionDone).Done = noon }, wellGoods + wellMessage + wellMoney},
		"failed":     {func(f *OrderFile) { only(f, ActionFailed).Tries = 3 }, "order instruction failed bad; goods pieces good; " + wellMessage + wellMoney},
		"unclear":    {func(f *OrderFile) { only(f, ActionUnclear).Tries = 1 }, "order instruction unclear unknown; goods pieces good; " + wellMessage + wellMoney},
		"watched":    {func(f *OrderFile) { only(f, ActionWatched) }, "order instruction watched good; goods pieces good; " + wellMessage + wellMoney},
		"withdrawn, and the reason is gone": {func(f *OrderFile) { only(f, ActionWithdrawn).Why = "dispute" },
			"order instruction taken_back bad; goods pieces good; " + wellMessage + wellMoney},
		"withdrawn for a dispute": {func(f *OrderFile) {
			only(f, ActionWithdrawn).Why = "dispute"
			f.Axes[Dispute] = AxisRecord{State: DisputeOpen}
		}, "order instruction withdrawn good; goods pieces good; " + wellMessage + wellMoney},
		"shipped by others, watched": {func(f *OrderFile) {
			only(f, ActionWatched)
			f.Axes[Fulfillment] = AxisRecord{State: FulfillmentFulfilled}
			f.Items.Shipped = 2
		}, "order instruction watched good; goods pieces good; goods shipped good; " + wellMessage + wellMoney},
		"shipped by others, live": {func(f *OrderFile) {
			only(f, ActionWaiting)
			f.Axes[Fulfillment] = AxisRecord{State: FulfillmentPartial}
		}, "order instruction waiting open; goods pieces good; goods shipped_early open; " + wellMessage + wellMoney},
		"more shipped than ordered": {func(f *OrderFile) { f.Items.Shipped = 3 }, "order instruction done good; goods too_many bad; " + wellMessage + wellMoney},
		"no message":                {func(f *OrderFile) { f.Actions = f.Actions[1:] }, wellGoods + "payment_received message missing bad; " + wellMoney},
		"no message by the shop's rules": {func(f *OrderFile) {
			f.Actions = f.Actions[1:]
			f.Outcome.Switched = []RuleSwitch{{ActionRule{Occasion: OnPaid, Kind: CustomerMessage}, noon}}
		}, wellGoods + "payment_received message ruled_out good; " + wellMoney},
		"no message, and its rule was switched on afterwards": {func(f *OrderFile) {
			f.Actions = f.Actions[1:]
			f.Outcome.Switched = []RuleSwitch{{ActionRule{Occasion: OnPaid, Kind: CustomerMessage, Active: true}, checked}}
		}, wellGoods + "payment_received message switched good; " + wellMoney},
		"no message, and its rule was switched off afterwards": {func(f *OrderFile) {
			f.Actions = f.Actions[1:]
			f.Outcome.Switched = []RuleSwitch{{ActionRule{Occasion: OnPaid, Kind: CustomerMessage}, checked}}
		}, wellGoods + "payment_received message switched open; " + wellMoney},
		"no message for a quiet import": {func(f *OrderFile) {
			f.Actions = f.Actions[1:]
			f.Ledger[0].Cause.Kind = CauseImport
		}, wellGoods + "payment_received message not_needed good; " + wellMoney},
		"a refund told by both, one message": {func(f *OrderFile) {
			refunded(f, 40)
			f.Actions = append([]Action{sent(20, CustomerMessage, "refund:40")}, f.Actions...)
			f.Objects[0] = shopTells(checked, payPart("tx1", 100), refundPart("tx2", 40, 2), Part{Axis: Refund, ID: "rec", State: RefundNone, Word: RecordedWord, Amount: 40, Currency: "HKD"})
			f.Objects[1] = stripeTells("pi_1", checked, payPart("pi_1", 100), refundPart("re_1", 40, 1))
		}, wellGoods + wellMessage + "refund:40 message done good; " + wellMoney + "; money out good re_1=tx2"},
		"two refunds, one message missing": {func(f *OrderFile) {
			refunded(f, 40, 50)
			f.Actions = append([]Action{sent(20, CustomerMessage, "refund:40")}, f.Actions...)
			f.Objects[1] = stripeTells("pi_1", checked, payPart("pi_1", 100), refundPart("re_1", 40, 1), refundPart("re_2", 10, 2))
		}, wellGoods + wellMessage + "refund:40 message done good; refund:50 message missing bad; " + wellMoney + "; money out good re_1; money second_out bad re_2"},
		"a message of a refund that failed afterwards": {func(f *OrderFile) {
			refunded(f, 40)
			f.Refunded = 0
			f.Actions = append([]Action{sent(20, CustomerMessage, "refund:40")}, f.Actions...)
			failed := refundPart("re_1", 40, 1)
			failed.State, failed.Counts, failed.Word = RefundNone, false, "failed"
			f.Objects[1] = stripeTells("pi_1", checked, payPart("pi_1", 100), failed)
		}, wellGoods + wellMessage + "refund:40 message untrue bad; " + wellMoney + "; money not_counted good re_1"},
		"a failed refund isn't the first of two": {func(f *OrderFile) {
			failed := refundPart("re_1", 40, 1)
			failed.State, failed.Counts, failed.Word = RefundNone, false, "failed"
			f.Objects[1] = stripeTells("pi_1", checked, payPart("pi_1", 100), failed, refundPart("re_2", 40, 2))
		}, wellGoods + wellMessage + wellMoney + "; money not_counted good re_1; money out good re_2"},
		"more refunded than received": {func(f *OrderFile) {
			f.Objects[1] = stripeTells("pi_1", checked, payPart("pi_1", 100), refundPart("re_1", 140, 1))
		}, wellGoods + wellMessage + wellMoney + "; money out_above bad re_1"},
		"a refund under way": {func(f *OrderFile) {
			p := refundPart("re_1", 40, 1)
			p.State, p.Counts = RefundPending, false
			f.Objects[1] = stripeTells("pi_1", checked, payPart("pi_1", 100), p)
		}, wellGoods + wellMessage + wellMoney + "; money pending open re_1"},
		"two captures, the store knows of one": {func(f *OrderFile) {
			f.Objects = append(f.Objects, stripeTells("pi_2", checked, payPart("pi_2", 100)))
		}, wellGoods + wellMessage + wellMoney + "; money second_in bad pi_2"},
		"two captures make up the total": {func(f *OrderFile) {
			f.Objects = []Object{shopTells(checked, payPart("tx1", 60), payPart("tx2", 40)), stripeTells("pi_1", checked, payPart("pi_1", 60)), stripeTells("pi_2", checked, payPart("pi_2", 40))}
		}, wellGoods + wellMessage + "money in good pi_1=tx1; money part good pi_2=tx2"},
		"the store books one sale in two": {func(f *OrderFile) {
			f.Objects[0] = shopTells(checked, payPart("tx1", 60), payPart("tx2", 40))
		}, wellGoods + wellMessage + "money in good tx1=pi_1; money part good tx2"},
		"two captures and no store": {func(f *OrderFile) {
			f.Objects = []Object{stripeTells("pi_1", checked, payPart("pi_1", 100)), stripeTells("pi_2", checked, payPart("pi_2", 100))}
			f.Total, f.Received = 200, 200
		}, wellGoods + wellMessage + "money in good pi_1; money second_in bad pi_2"},
		"paid in another currency": {func(f *OrderFile) {
			p := payPart("pi_1", 13)
			p.Currency = "USD"
			f.Objects[1] = stripeTells("pi_1", checked, p)
			f.Objects[1].Official.Amounts.Currency = "USD"
		}, wellGoods + wellMessage + "money in good tx1=pi_1"},
		"a payment that a buyer's typing links": {func(f *OrderFile) {
			o := stripeTells("pi_2", checked, payPart("pi_2", 250))
			o.LinkedBy = LinkReference
			f.Objects = append(f.Objects, o)
		}, wellGoods + wellMessage + wellMoney + "; money unsure_money open pi_2"},
		"read before the last event":  {func(f *OrderFile) { f.Events[0].Received = noon.Add(11 * time.Second) }, wellGoods + wellMessage + "money in unknown pi_1=tx1"},
		"read before the last action": {func(f *OrderFile) { f.Actions[1].Done = noon.Add(11 * time.Second) }, wellGoods + wellMessage + "money in unknown pi_1=tx1"},
		"read before a correction": {func(f *OrderFile) {
			f.Ledger = append([]Entry{{ID: 30, Axis: Payment, From: PaymentPaid, To: PaymentPaid, At: noon.Add(11 * time.Second), Cause: Cause{Kind: CauseCorrection}}}, f.Ledger...)
		}, wellGoods + wellMessage + "money in unknown pi_1=tx1"},
		"the other reading of one check moved the order": {func(f *OrderFile) {
			f.Ledger = append([]Entry{{ID: 30, Axis: Fulfillment, From: FulfillmentInProgress, To: FulfillmentUnfulfilled, At: noon.Add(12 * time.Second),
				Cause: Cause{Kind: CauseResync, Basis: Official, Read: noon.Add(11 * time.Second)}}}, f.Ledger...)
		}, wellGoods + wellMessage + wellMoney},
		"known from a payload only": {func(f *OrderFile) {
			f.Objects = f.Objects[:1]
			f.Objects[0].Said, f.Objects[0].Official, f.Objects[0].Reads = f.Objects[0].Official, nil, nil
		}, wellGoods + wellMessage + "money in unknown tx1"},
		"read too long ago": {func(f *OrderFile) { f.Outcome.Fresh = map[int64]time.Duration{2: 5 * time.Second} }, wellGoods + wellMessage + "money in unknown pi_1=tx1"},
		"nothing paid": {func(f *OrderFile) {
			f.Actions, f.Ledger = nil, f.Ledger[1:]
			f.Axes[Payment] = AxisRecord{State: PaymentPending}
			f.Objects = []Object{shopTells(checked)}
		}, "order instruction not_yet open; goods pieces good; money no_money good"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := wellFile()
			c.change(&f)
			o := CheckOutcome(f, looked)
			if got := found(o); got != c.want {
				t.Errorf("found\n%s, want\n%s", got, c.want)
			}
			worst := VerdictGood
			for _, v := range Verdicts {
				if o.Count[v] > 0 {
					worst = v
				}
			}
			if o.Verdict != worst {
				t.Errorf("in all %s, the worst is %s", o.Verdict, worst)
			}
		})
	}
}

// An explanation holds for what it explained, under any of its names, and no longer.
func TestExplanationsHoldForWhatTheyExplained(t *testing.T) {
	t.Parallel()
	twice := func(second Part) OrderFile {
		f := wellFile()
		f.Objects[0] = shopTells(checked, payPart("tx1", 100), refundPart("tx2", 40, 1), refundPart("tx3", second.Amount, 2))
		f.Objects[1] = stripeTells("pi_1", checked, payPart("pi_1", 100), refundPart("re_1", 40, 1), second)
		return f
	}
	why := Explanation{Part: "re_2", Amount: 10, Currency: "HKD", Standing: MoneyMoved, Code: Goodwill}
	pending := refundPart("re_2", 10, 2)
	pending.State, pending.Counts = RefundPending, false
	for name, c := range map[string]struct {
		part Part
		why  func(*Explanation)
		want Verdict
	}{
		"as explained":         {refundPart("re_2", 10, 2), func(*Explanation) {}, VerdictGood},
		"under the shop's id":  {refundPart("re_2", 10, 2), func(e *Explanation) { e.Part = "tx3" }, VerdictGood},
		"another part":         {refundPart("re_2", 10, 2), func(e *Explanation) { e.Part = "re_1" }, VerdictBad},
		"another amount":       {refundPart("re_2", 11, 2), func(*Explanation) {}, VerdictBad},
		"another currency":     {refundPart("re_2", 10, 2), func(e *Explanation) { e.Currency = "USD" }, VerdictBad},
		"it was pending":       {refundPart("re_2", 10, 2), func(e *Explanation) { e.Standing = MoneyMoving }, VerdictBad},
		"it is pending":        {pending, func(e *Explanation) { e.Standing = MoneyMoving }, VerdictGood},
		"pending, moved since": {pending, func(*Explanation) {}, VerdictBad},
	} {
		f, e := twice(c.part), why
		c.why(&e)
		f.Outcome.Explained = []Explanation{e}
		o := CheckOutcome(f, looked)
		l := o.Lines[len(o.Lines)-1]
		if l.Verdict != c.want || !l.Explain || (l.Explained != nil) != (c.want == VerdictGood) {
			t.Errorf("%s: %s", name, found(o))
		}
		if got, ok := o.Explainable("tx3"); !ok || got.Money.ID != "re_2" {
			t.Errorf("%s: under the shop's id %v %v", name, got.Money, ok)
		}
		if _, ok := o.Explainable("re_1"); ok {
			t.Errorf("%s: the first refund asks for an explanation", name)
		}
	}
	// Explained or not, an old reading is no proof.
	f := twice(refundPart("re_2", 10, 2))
	f.Outcome.Explained = []Explanation{why}
	if o := CheckOutcome(f, looked.Add(time.Hour)); o.Lines[len(o.Lines)-1].Verdict != VerdictUnknown {
		t.Error(found(o))
	}
}

// However often, in whatever order and by how many platforms the same money is told,
// it is the same movements, and their sum is what the composition says.
func TestTheSameMoneyIsCountedOnce(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var shop, pay []Part
		n := rapid.IntRange(1, 4).Draw(t, "movements")
		var sum int64
		for i := range n {
			amount := rapid.Int64Range(1, 3).Draw(t, "amount") * 10
			sum += amount
			at := time.Duration(i) * time.Hour
			pay = append(pay, refundPart(fmt.Sprintf("re_%d", i), amount, at))
			shop = append(shop, refundPart(fmt.Sprintf("tx_%d", i), amount, at+time.Minute))
		}
		build := func(r *rand.Rand) []Object {
			parts := func(list []Part) []Part {
				out := append(slices.Clone(list), list[r.IntN(len(list))])
				r.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
				return append(out, payPart("p"+list[0].ID[:2], 1000))
			}
			all := []Object{shopTells(checked, parts(shop)...), stripeTells("pi_1", checked, parts(pay)...), stripeTells("pi_1", checked.Add(-time.Minute), parts(pay)...)}
			r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
			return all
		}
		seed := rapid.Uint64().Draw(t, "seed")
		one, two := Movements(build(rand.New(rand.NewPCG(1, seed))), Refund, "HKD"), Movements(build(rand.New(rand.NewPCG(2, seed))), Refund, "HKD")
		if !reflect.DeepEqual(one, two) {
			t.Fatalf("%v\n%v", one, two)
		}
		var got int64
		for _, m := range one {
			got += m.Amount
			if m.Platform != Stripe || len(m.Also) != 1 || m.Also[0].Platform != Shopify || m.Also[0].Amount != m.Amount {
				t.Fatalf("%+v", m)
			}
		}
		if len(one) != n || got != sum {
			t.Fatalf("%d movements of %d in all, want %d of %d", len(one), got, n, sum)
		}
	})
}

// Whatever two platforms tell, each telling is in one movement, and there are as many
// movements as the one tells that knows of more.
func TestNoTellingIsLostOrCountedTwice(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		draw := func(prefix string) []Part {
			var parts []Part
			for i := range rapid.IntRange(0, 4).Draw(t, prefix) {
				p := payPart(fmt.Sprintf("%s%d", prefix, i), rapid.Int64Range(1, 5).Draw(t, "amount"))
				p.Currency = rapid.SampledFrom([]string{"HKD", "HKD", "USD"}).Draw(t, "currency")
				p.At = noon.Add(time.Duration(rapid.IntRange(0, 3).Draw(t, "at")) * time.Hour)
				parts = append(parts, p)
			}
			return parts
		}
		shop, pay := draw("tx"), draw("pi")
		moves := Movements([]Object{shopTells(checked, shop...), stripeTells("pi", checked, pay...)}, Payment, "HKD")
		if len(moves) != max(len(shop), len(pay)) {
			t.Fatalf("%d movements of %d and %d tellings", len(moves), len(shop), len(pay))
		}
		seen := map[string]int{}
		for _, m := range moves {
			seen[m.ID]++
			for _, also := range m.Also {
				seen[also.ID]++
			}
		}
		for _, p := range append(shop, pay...) {
			if seen[p.ID] != 1 {
				t.Fatalf("%s is told %d times", p.ID, seen[p.ID])
			}
		}
	})
}
