package models

import (
	"reflect"
	"slices"
	"testing"
	"time"
)

// shopSays and intentSays are objects as last read.
func shopSays(pay State, a Amounts) ObjectView {
	return ObjectView{ID: 1, Connection: 1, Platform: Shopify, Ref: ObjectRef{Kind: "order", ID: "1"}, Reads: map[Axis]bool{Payment: true},
		Official: &Observation{Basis: Official, Read: noon, Amounts: &a, Store: true, Axes: map[Axis]Statement{
			Payment: {State: pay, Word: "SHOP " + string(pay)}, Refund: {State: RefundState(a.Received, a.Refunded, false)}}}}
}

func intentSays(id string, pay State, a Amounts, how LinkHow) ObjectView {
	return ObjectView{Connection: 2, Platform: Stripe, Ref: ObjectRef{Kind: "payment_intent", ID: id}, LinkedBy: how,
		Official: &Observation{Basis: Official, Read: noon, Amounts: &a, Axes: map[Axis]Statement{
			Payment: {State: pay, Word: "stripe " + string(pay)}, Refund: {State: RefundState(a.Received, a.Refunded, false)}, Dispute: {State: DisputeNone}}}}
}

func TestComposePayments(t *testing.T) {
	t.Parallel()
	usd := func(total, received int64) Amounts { return Amounts{Currency: "USD", Total: total, Received: received} }
	for name, c := range map[string]struct {
		objects  []ObjectView
		payment  State
		by       Platform
		disputed bool
		refund   State
		amounts  Amounts
		problems []string
	}{
		"one payment": {[]ObjectView{intentSays("pi_1", PaymentPaid, hkd(100, 100, 0), LinkMetadata)},
			PaymentPaid, Stripe, false, RefundNone, hkd(100, 100, 0), nil},
		"a second intent left open": {[]ObjectView{intentSays("pi_1", PaymentPaid, hkd(100, 100, 0), LinkMetadata), intentSays("pi_2", PaymentPending, hkd(100, 0, 0), LinkMetadata)},
			PaymentPaid, Stripe, false, RefundNone, hkd(100, 100, 0), nil},
		"a second intent cancelled": {[]ObjectView{intentSays("pi_1", PaymentAuthorized, hkd(100, 0, 0), LinkMetadata), intentSays("pi_2", PaymentVoided, hkd(100, 0, 0), LinkMetadata)},
			PaymentAuthorized, Stripe, false, RefundNone, hkd(100, 0, 0), nil},
		"two payments, one refunded": {[]ObjectView{intentSays("pi_1", PaymentPaid, hkd(60, 60, 60), LinkMetadata), intentSays("pi_2", PaymentPaid, hkd(40, 40, 0), LinkMetadata)},
			PaymentPaid, Stripe, false, RefundPartial, hkd(100, 100, 60), nil},
		"two payments, both refunded": {[]ObjectView{intentSays("pi_1", PaymentPaid, hkd(60, 60, 60), LinkMetadata), intentSays("pi_2", PaymentPaid, hkd(40, 40, 40), LinkMetadata)},
			PaymentPaid, Stripe, false, RefundFull, hkd(100, 100, 100), nil},
		"two currencies aren't added": {[]ObjectView{intentSays("pi_1", PaymentPaid, hkd(60, 60, 0), LinkMetadata), intentSays("pi_2", PaymentPaid, usd(40, 40), LinkMetadata)},
			PaymentPaid, Stripe, false, RefundNone, hkd(60, 60, 0), []string{"amount_differs/currency"}},
		"store and payment agree": {[]ObjectView{shopSays(PaymentPaid, hkd(100, 100, 0)), intentSays("pi_1", PaymentPaid, hkd(100, 100, 0), LinkMetadata)},
			PaymentPaid, Stripe, false, RefundNone, hkd(100, 100, 0), nil},
		"the store hasn't heard of the money yet": {[]ObjectView{shopSays(PaymentPending, hkd(100, 0, 0)), intentSays("pi_1", PaymentPaid, hkd(100, 100, 0), LinkMetadata)},
			PaymentPaid, Stripe, false, RefundNone, hkd(100, 100, 0), nil},
		"two captures reach the total": {[]ObjectView{shopSays(PaymentPending, hkd(100, 0, 0)), intentSays("pi_1", PaymentPaid, hkd(60, 60, 0), LinkMetadata), intentSays("pi_2", PaymentPaid, hkd(40, 40, 0), LinkMetadata)},
			PaymentPaid, Stripe, false, RefundNone, hkd(100, 100, 0), nil},
		"a capture below what is outstanding": {[]ObjectView{shopSays(PaymentPending, hkd(100, 0, 0)), intentSays("pi_1", PaymentPaid, hkd(60, 60, 0), LinkMetadata)},
			PaymentPartiallyPaid, Stripe, false, RefundNone, hkd(100, 60, 0), []string{"amount_differs/received"}},
		"the store says how much is paid": {[]ObjectView{shopSays(PaymentPartiallyPaid, hkd(100, 60, 0)), intentSays("pi_1", PaymentPaid, hkd(60, 60, 0), LinkMetadata)},
			PaymentPartiallyPaid, Shopify, false, RefundNone, hkd(100, 60, 0), nil},
		"authorized, not captured": {[]ObjectView{shopSays(PaymentPending, hkd(100, 0, 0)), intentSays("pi_1", PaymentAuthorized, hkd(100, 0, 0), LinkMetadata)},
			PaymentAuthorized, Stripe, false, RefundNone, hkd(100, 0, 0), nil},
		"the store believes in money that wasn't captured": {[]ObjectView{shopSays(PaymentPaid, hkd(100, 100, 0)), intentSays("pi_1", PaymentAuthorized, hkd(100, 0, 0), LinkMetadata)},
			PaymentPaid, Shopify, true, RefundNone, hkd(100, 100, 0), []string{"platforms_disagree"}},
		"the store believes in a payment that failed": {[]ObjectView{shopSays(PaymentPartiallyPaid, hkd(100, 60, 0)), intentSays("pi_1", PaymentFailed, hkd(60, 0, 0), LinkMetadata)},
			PaymentPartiallyPaid, Shopify, true, RefundNone, hkd(100, 60, 0), []string{"platforms_disagree"}},
		"an open intent beside a void order": {[]ObjectView{shopSays(PaymentVoided, hkd(100, 0, 0)), intentSays("pi_1", PaymentPending, hkd(100, 0, 0), LinkMetadata)},
			PaymentVoided, Shopify, false, RefundNone, hkd(100, 0, 0), nil},
		"a typed reference that fits": {[]ObjectView{shopSays(PaymentPending, hkd(100, 0, 0)), intentSays("pi_1", PaymentPaid, hkd(100, 100, 0), LinkReference)},
			PaymentPaid, Stripe, false, RefundNone, hkd(100, 100, 0), nil},
		"a typed reference that doesn't": {[]ObjectView{shopSays(PaymentPending, hkd(100, 0, 0)), intentSays("pi_1", PaymentPaid, hkd(1, 1, 0), LinkReference)},
			PaymentPending, Shopify, false, RefundNone, hkd(100, 0, 0), []string{"amount_differs/link"}},
		"a typed reference in another currency": {[]ObjectView{shopSays(PaymentPending, hkd(100, 0, 0)), intentSays("pi_1", PaymentPaid, usd(100, 100), LinkReference)},
			PaymentPending, Shopify, false, RefundNone, hkd(100, 0, 0), []string{"amount_differs/link"}},
		"a typed reference beside one from metadata": {[]ObjectView{shopSays(PaymentPending, hkd(100, 0, 0)), intentSays("pi_1", PaymentPaid, hkd(60, 60, 0), LinkMetadata), intentSays("pi_2", PaymentPaid, hkd(1, 1, 0), LinkReference)},
			PaymentPartiallyPaid, Stripe, false, RefundNone, hkd(100, 60, 0), []string{"amount_differs/link", "amount_differs/received"}},
		"a typed reference that doesn't, and was refunded": {[]ObjectView{shopSays(PaymentPending, hkd(100, 0, 0)), intentSays("pi_1", PaymentPaid, hkd(1, 1, 1), LinkReference)},
			PaymentPending, Shopify, false, RefundNone, hkd(100, 0, 0), []string{"amount_differs/link"}},
		"a typed reference doesn't stand for a payment that failed": {[]ObjectView{shopSays(PaymentPaid, hkd(100, 100, 0)), intentSays("pi_1", PaymentFailed, hkd(100, 0, 0), LinkMetadata), intentSays("pi_2", PaymentPaid, hkd(900, 900, 0), LinkReference)},
			PaymentPaid, Shopify, true, RefundNone, hkd(100, 100, 0), []string{"amount_differs/link", "platforms_disagree"}},
		"money in another currency": {[]ObjectView{shopSays(PaymentPending, hkd(100, 0, 0)), intentSays("pi_1", PaymentPaid, usd(100, 100), LinkMetadata)},
			PaymentPending, Shopify, false, RefundNone, hkd(100, 0, 0), nil},
		"the store hasn't heard of the refund": {[]ObjectView{shopSays(PaymentPaid, hkd(100, 100, 0)), intentSays("pi_1", PaymentPaid, hkd(100, 100, 100), LinkMetadata)},
			PaymentPaid, Stripe, false, RefundFull, hkd(100, 100, 100), []string{"platforms_disagree"}},
		"the payment hasn't heard of the refund": {[]ObjectView{shopSays(PaymentPaid, hkd(100, 100, 40)), intentSays("pi_1", PaymentPaid, hkd(100, 100, 0), LinkMetadata)},
			PaymentPaid, Stripe, false, RefundNone, hkd(100, 100, 40), []string{"platforms_disagree"}},
		"other money refunded": {[]ObjectView{shopSays(PaymentPaid, hkd(100, 100, 40)), intentSays("pi_1", PaymentPaid, hkd(60, 60, 0), LinkMetadata)},
			PaymentPaid, Stripe, false, RefundNone, hkd(100, 100, 40), nil},
		"the payment refunded, other money kept": {[]ObjectView{shopSays(PaymentPaid, hkd(100, 100, 60)), intentSays("pi_1", PaymentPaid, hkd(60, 60, 60), LinkMetadata)},
			PaymentPaid, Stripe, false, RefundPartial, hkd(100, 100, 60), nil},
		"all refunded": {[]ObjectView{shopSays(PaymentPaid, hkd(100, 100, 100)), intentSays("pi_1", PaymentPaid, hkd(100, 100, 100), LinkMetadata)},
			PaymentPaid, Stripe, false, RefundFull, hkd(100, 100, 100), nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			target := Compose(c.objects)
			pay := target.Axes[Payment]
			if pay.State != c.payment || pay.By.Platform != c.by || pay.Disputed != c.disputed {
				t.Errorf("payment %s by %s, disputed %t", pay.State, pay.By.Platform, pay.Disputed)
			}
			if got := target.Axes[Refund].State; got != c.refund {
				t.Errorf("refund %s", got)
			}
			if target.Amounts == nil || *target.Amounts != c.amounts {
				t.Errorf("amounts %+v", target.Amounts)
			}
			if got := kinds(target.Problems); !slices.Equal(got, c.problems) {
				t.Errorf("problems %v", got)
			}
			reversed := slices.Clone(c.objects)
			slices.Reverse(reversed)
			if other := Compose(reversed); !reflect.DeepEqual(other, target) {
				t.Error("it matters in which order the objects stand")
			}
		})
	}
}

func TestAuthority(t *testing.T) {
	t.Parallel()
	at := func(p Platform, axis Axis, s State) ObjectView {
		return ObjectView{Platform: p, Ref: ObjectRef{ID: string(p)}, Official: &Observation{Axes: map[Axis]Statement{axis: {State: s}}}}
	}
	for _, c := range []struct {
		axis  Axis
		order []Platform
	}{{Refund, []Platform{Stripe, Shopify, ReceiptRoller}}, {Dispute, []Platform{Stripe, Shopify, ReceiptRoller}}, {Payment, []Platform{Shopify, ReceiptRoller}},
		{Fulfillment, []Platform{Shopify, ReceiptRoller}}, {Cancellation, []Platform{Shopify, ReceiptRoller}}, {Return, []Platform{Shopify, ReceiptRoller}}} {
		var views []ObjectView
		for _, p := range c.order {
			views = append(views, at(p, c.axis, States[c.axis][1]))
		}
		for len(views) > 0 {
			if got := Compose(views).Axes[c.axis].By.Platform; got != views[0].Platform {
				t.Errorf("%s is decided by %s before %s", c.axis, got, views[0].Platform)
			}
			views = views[1:]
		}
	}
	// Dispute: open, else lost, else won, else none.
	for _, c := range [][]State{{DisputeOpen, DisputeLost, DisputeWon, DisputeNone}, {DisputeLost, DisputeWon, DisputeNone}, {DisputeWon, DisputeNone}} {
		var views []ObjectView
		for i, s := range c {
			v := at(Stripe, Dispute, s)
			v.Ref.ID = string(rune('z' - i))
			views = append(views, v)
		}
		if got := Compose(views).Axes[Dispute].State; got != c[0] {
			t.Errorf("of %v: %s", c, got)
		}
	}
}

// A payload speaks only where the platform's API can't.
func TestSaidOnlyFillsWhatCantBeRead(t *testing.T) {
	t.Parallel()
	said := &Observation{Amounts: new(hkd(100, 100, 0)), Items: &Items{Ordered: 2}, Axes: map[Axis]Statement{Payment: {State: PaymentPaid}, Return: {State: ReturnReceived}}}
	read := &Observation{Amounts: new(hkd(100, 0, 0)), Items: &Items{Ordered: 1}, Axes: map[Axis]Statement{Payment: {State: PaymentPending}}}
	v := ObjectView{Platform: ReceiptRoller, Said: said}
	reads := map[Axis]bool{Payment: true}
	for name, c := range map[string]struct {
		v       ObjectView
		payment Basis
		back    Basis
		amounts *Amounts
	}{
		"no API":                   {v, Reported, Reported, said.Amounts},
		"not read yet":             {with(v, nil, reads), "", Reported, nil},
		"read":                     {with(v, read, reads), Official, Reported, read.Amounts},
		"read, and gone since":     {with(v, &Observation{Absence: Gone}, reads), "", Reported, nil},
		"read before access ended": {with(v, read, nil), Official, Reported, read.Amounts},
	} {
		target := Compose([]ObjectView{c.v})
		if got := target.Axes[Payment].Basis; got != c.payment {
			t.Errorf("%s: payment is %q", name, got)
		}
		if got := target.Axes[Return].Basis; got != c.back {
			t.Errorf("%s: return is %q", name, got)
		}
		if !reflect.DeepEqual(target.Amounts, c.amounts) {
			t.Errorf("%s: amounts %+v", name, target.Amounts)
		}
	}
}

func with(v ObjectView, o *Observation, reads map[Axis]bool) ObjectView {
	v.Official, v.Reads = o, reads
	return v
}

func TestRefundState(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		received, refunded int64
		pending            bool
		want               State
	}{{100, 0, false, RefundNone}, {100, 0, true, RefundPending}, {100, 40, true, RefundPartial}, {100, 100, false, RefundFull}, {100, 120, false, RefundFull}, {0, 0, false, RefundNone}, {0, 5, false, RefundFull}} {
		if got := RefundState(c.received, c.refunded, c.pending); got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
}

func TestDigestKnowsWhatIsSaid(t *testing.T) {
	t.Parallel()
	o := Observation{Ref: ObjectRef{ID: "1"}, Axes: map[Axis]Statement{Payment: {State: PaymentPaid}, Refund: {State: RefundNone}}, Read: noon}
	same, other := o, o
	same.Read = noon.Add(time.Hour)
	other.Axes = map[Axis]Statement{Payment: {State: PaymentPaid}}
	if o.Digest() != same.Digest() || o.Digest() == other.Digest() {
		t.Error("a digest is over what is said, not over when it was read")
	}
}

// A store that tells of a dispute should tell what the payments tell; one that tells
// of none may only not know.
func TestComposeDisputes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		shop, stripe State
		disputed     bool
	}{{DisputeNone, DisputeOpen, false}, {DisputeOpen, DisputeOpen, false}, {DisputeOpen, DisputeNone, true}, {DisputeWon, DisputeLost, true}} {
		shop, pi := shopSays(PaymentPaid, hkd(100, 100, 0)), intentSays("pi_1", PaymentPaid, hkd(100, 100, 0), LinkMetadata)
		shop.Official.Axes[Dispute] = Statement{State: c.shop, Word: "SHOP " + string(c.shop)}
		pi.Official.Axes[Dispute] = Statement{State: c.stripe, Word: "stripe " + string(c.stripe)}
		target := Compose([]ObjectView{shop, pi})
		if w := target.Axes[Dispute]; w.State != c.stripe || w.Disputed != c.disputed || (len(target.Problems) == 1) != c.disputed {
			t.Errorf("%+v: %s, disputed %t, problems %v", c, w.State, w.Disputed, target.Problems)
		}
	}
}
