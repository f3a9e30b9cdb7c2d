package sandbox

import (
	"fmt"
	"strings"
	"time"

	"counterfoil/models"
)

const (
	minute = time.Minute
	hour   = time.Hour
	day    = 24 * time.Hour
)

// A plot is a kind of order's life: how many of them the past days hold, and how
// often it is begun from then on.
type plot struct {
	name  string
	past  int
	often int
	tell  func() *tale
}

// A shopfront is one of the merchant's shops on Shopify, a till one of its accounts
// at Stripe, the counter its shop in the street.
type shopfront struct {
	*Shopify
	post     *post
	currency string
}

type till struct {
	*Stripe
	post *post
}

type counter struct {
	*ReceiptRoller
	post *post
}

// price is an amount that something may cost, in the currency's minor unit.
func (t *Town) price(currency string) int64 {
	n := t.rng.Int64N(100)
	switch currency {
	case "TWD":
		return (390 + n*n + 10*n) * 100
	case "JPY":
		return 1200 + 20*n*n
	case "USD":
		return 1999 + 3*n*n
	}
	return (88+n*n/3+8*n)*100 + 50*(n%2)
}

func (t *Town) tracking() string {
	t.trackings++
	return fmt.Sprintf("SF%d%07d", 10+t.seed%90, 4_210_000+t.trackings*37)
}

// shop is one of the two shops: Hong Kong sells twice as much.
func (t *Town) shop() *shopfront {
	if t.rng.IntN(3) == 0 {
		return t.twMain
	}
	return t.hkMain
}

// A sale is the tale of one order in a shop.
type sale struct {
	*tale
	town  *Town
	shop  *shopfront
	id    int64
	total int64
	order ShopifyOrder
}

// sale begins with an order that isn't paid.
func (t *Town) sale(shop *shopfront, gateway string) *sale {
	s := &sale{tale: &tale{}, town: t, shop: shop, total: t.price(shop.currency)}
	s.order = ShopifyOrder{Total: models.Decimal(s.total, shop.currency), Pieces: 2 + t.rng.IntN(3), Gateway: gateway}
	s.add(0, shop.post, func() ([]Notification, error) {
		if shop == t.twMain {
			t.numbers++
			s.order.Name = fmt.Sprintf("#TW%d", 2040+t.numbers)
		}
		id, ns, err := shop.CreateOrder(s.order)
		s.id = id
		return ns, err
	})
	return s
}

func (s *sale) then(after time.Duration, do func(order int64) ([]Notification, error)) *sale {
	s.add(after, s.shop.post, func() ([]Notification, error) { return do(s.id) })
	return s
}

// paid is a sale with the money in.
func (t *Town) paid(shop *shopfront) *sale {
	return t.sale(shop, "shopify_payments").then(2*minute, shop.Pay)
}

// sent is a sale whose goods are on their way, all at once.
func (t *Town) sent(shop *shopfront) *sale {
	s := t.paid(shop)
	return s.then(20*hour, s.ship(0))
}

func (s *sale) ship(pieces int) func(int64) ([]Notification, error) {
	return func(id int64) ([]Notification, error) { return s.shop.Fulfill(id, pieces, s.town.tracking()) }
}

// share is a part of the order's total in whole units of money.
func (s *sale) share(percent int64) string {
	if percent == 100 {
		return s.order.Total
	}
	n := s.total * percent / 100
	return models.Decimal(max(100, n-n%100), s.shop.currency)
}

func (s *sale) refund(percent int64, how ShopifyRefund) func(int64) ([]Notification, error) {
	return func(id int64) ([]Notification, error) { return s.shop.Refund(id, s.share(percent), how) }
}

func (s *sale) settle(how ShopifyRefund) func(int64) ([]Notification, error) {
	return func(id int64) ([]Notification, error) { return s.shop.SettleRefund(id, how) }
}

func (s *sale) cancel(reason string) func(int64) ([]Notification, error) {
	return func(id int64) ([]Notification, error) { return s.shop.Cancel(id, reason) }
}

func (s *sale) wantBack(pieces int) func(int64) ([]Notification, error) {
	return func(id int64) ([]Notification, error) { return s.shop.RequestReturn(id, pieces) }
}

func (s *sale) cameBack(pieces int) func(int64) ([]Notification, error) {
	return func(id int64) ([]Notification, error) { return s.shop.CloseReturn(id, pieces) }
}

func (s *sale) judged(word string) func(int64) ([]Notification, error) {
	return func(id int64) ([]Notification, error) { return s.shop.ResolveDispute(id, word) }
}

func (s *sale) word(field, word string) func(int64) ([]Notification, error) {
	return func(id int64) ([]Notification, error) { return s.shop.SetWord(id, field, word) }
}

// A payment is what a tale does at Stripe.
type payment struct {
	*tale
	town     *Town
	till     *till
	amount   int64
	currency string

	intent, refunded, disputed string
}

// payment begins with an intent; in is asked when the time has come.
func (t *Town) payment(tl *tale, after time.Duration, at *till, amount int64, currency string, in func() StripeIntent) *payment {
	p := &payment{tale: tl, town: t, till: at, amount: amount, currency: strings.ToLower(currency)}
	p.add(after, at.post, func() ([]Notification, error) {
		id, ns := at.CreateIntent(p.amount, p.currency, in())
		p.intent = id
		return ns, nil
	})
	return p
}

func (p *payment) then(after time.Duration, do func(intent string) ([]Notification, error)) *payment {
	p.add(after, p.till.post, func() ([]Notification, error) { return do(p.intent) })
	return p
}

func (p *payment) fail(intent string) ([]Notification, error) {
	return p.till.Fail(intent, "card_declined")
}

func (p *payment) capture(percent int64) func(string) ([]Notification, error) {
	return func(intent string) ([]Notification, error) { return p.till.Capture(intent, p.part(percent)) }
}

// part is a share of the amount in whole units of money.
func (p *payment) part(percent int64) int64 {
	n := p.amount * percent / 100
	if percent == 100 || models.Exponent(p.currency) == 0 {
		return n
	}
	return max(100, n-n%100)
}

func (p *payment) refund(percent int64, status string) func(string) ([]Notification, error) {
	return func(intent string) ([]Notification, error) {
		id, ns, err := p.till.Refund(intent, p.part(percent), status)
		p.refunded = id
		return ns, err
	}
}

func (p *payment) arrived(string) ([]Notification, error) { return p.till.SettleRefund(p.refunded) }

func (p *payment) bounced(string) ([]Notification, error) {
	return p.till.FailRefund(p.refunded, "lost_or_stolen_card")
}

func (p *payment) dispute(inquiry bool) func(string) ([]Notification, error) {
	return func(intent string) ([]Notification, error) {
		id, ns, err := p.till.OpenDispute(intent, p.amount, inquiry)
		p.disputed = id
		return ns, err
	}
}

func (p *payment) won(string) ([]Notification, error)     { return p.till.WinDispute(p.disputed) }
func (p *payment) lost(string) ([]Notification, error)    { return p.till.LoseDispute(p.disputed) }
func (p *payment) dropped(string) ([]Notification, error) { return p.till.CloseInquiry(p.disputed) }

func (p *payment) word(word string) func(string) ([]Notification, error) {
	return func(intent string) ([]Notification, error) { return p.till.SetStatusWord(intent, word) }
}

// byCard is an order of Hong Kong that is paid at Stripe; one intent is open.
func (t *Town) byCard(manual bool) (*sale, *payment) {
	s := t.sale(t.hkMain, "stripe")
	return s, s.intent(1*minute, manual)
}

// intent opens an intent for the order. Some of the shop's pages name the order by
// its number, some by its id.
func (s *sale) intent(after time.Duration, manual bool) *payment {
	byID := s.town.rng.IntN(2) == 0
	return s.town.payment(s.tale, after, s.town.hkTill, s.total, s.shop.currency, func() StripeIntent {
		ref := s.shop.Name(s.id)
		if byID {
			ref = fmt.Sprint(s.id)
		}
		return StripeIntent{Metadata: map[string]string{"order_id": ref}, Manual: manual}
	})
}

// online is a payment of the web shop, which has no orders but these.
func (t *Town) online(in StripeIntent) *payment {
	currency := "USD"
	if t.rng.IntN(3) == 0 {
		currency = "JPY"
	}
	return t.payment(&tale{}, 0, t.web, t.price(currency), currency, func() StripeIntent { return in })
}

// checkout is a payment of the web shop on Stripe's own page.
func (t *Town) checkout(delayed bool) *payment {
	p := &payment{tale: &tale{}, town: t, till: t.web, amount: t.price("USD"), currency: "usd"}
	p.add(0, t.web.post, func() ([]Notification, error) {
		session := t.web.CreateSession(p.amount, p.currency, StripeSession{Delayed: delayed})
		id, ns, err := t.web.CompleteSession(session)
		p.intent = id
		return ns, err
	})
	return p
}

// A slip is the tale of a receipt.
type slip struct {
	*tale
	town    *Town
	receipt Receipt
}

func (t *Town) slip() *slip {
	s := &slip{tale: &tale{}, town: t}
	goods := []ReceiptLine{{"oolong 150 g", 128, 1}, {"pine incense", 68, 2}, {"tea cup", 90, 1 + t.rng.Int64N(4)}, {"gift box", 40, 1}}
	lines := goods[t.rng.IntN(3):]
	s.add(0, t.counter.post, func() ([]Notification, error) {
		r, n := t.counter.Issue(Receipt{Lines: lines, Store: "central", Terminal: "till2"})
		s.receipt = r
		return []Notification{n}, nil
	})
	return s
}

func (s *slip) then(after time.Duration, do func(id string) (Notification, error)) *slip {
	s.add(after, s.town.counter.post, func() ([]Notification, error) {
		n, err := do(s.receipt.ID)
		return []Notification{n}, err
	})
	return s
}

func (s *slip) refund(amount int64) func(string) (Notification, error) {
	return func(id string) (Notification, error) { return s.town.counter.Refund(id, amount) }
}

// plots are all lives that the town knows.
func (t *Town) plots() []plot {
	return append(append(t.shopPlots(), t.cardPlots()...), append(t.webPlots(), t.counterPlots()...)...)
}

func (t *Town) shopPlots() []plot {
	return []plot{
		{"paid and shipped", 4, 12, func() *tale { return t.sent(t.shop()).tale }},
		{"paid, waits for the warehouse", 2, 4, func() *tale { return t.paid(t.shop()).tale }},
		{"bank transfer, not there yet", 1, 2, func() *tale { return t.sale(t.twMain, "manual").tale }},
		{"at the warehouse", 1, 2, func() *tale {
			s := t.paid(t.shop())
			return s.then(3*hour, s.shop.RequestFulfillment).tale
		}},
		{"pay on delivery, on its way", 1, 2, func() *tale {
			s := t.sale(t.twMain, "Cash on Delivery (COD)")
			return s.then(16*hour, s.ship(0)).tale
		}},
		{"pay on delivery, paid at the door", 1, 3, func() *tale {
			s := t.sale(t.twMain, "Cash on Delivery (COD)")
			return s.then(16*hour, s.ship(0)).then(30*hour, s.shop.Pay).tale
		}},
		{"captured when shipped", 1, 4, func() *tale {
			s := t.sale(t.shop(), "shopify_payments")
			return s.then(minute, s.shop.Authorize).then(18*hour, s.shop.Pay).then(minute, s.ship(0)).tale
		}},
		{"authorised", 1, 1, func() *tale {
			s := t.sale(t.shop(), "shopify_payments")
			return s.then(minute, s.shop.Authorize).tale
		}},
		{"authorised and let go", 1, 1, func() *tale {
			s := t.sale(t.shop(), "shopify_payments")
			return s.then(minute, s.shop.Authorize).then(9*hour, s.shop.Void).then(minute, s.cancel("OTHER")).tale
		}},
		{"deposit paid", 1, 1, func() *tale {
			s := t.sale(t.twMain, "manual")
			return s.then(5*hour, func(id int64) ([]Notification, error) { return s.shop.PayPartly(id, s.share(30)) }).tale
		}},
		{"deposit, then the rest", 1, 2, func() *tale {
			s := t.sale(t.twMain, "manual")
			return s.then(5*hour, func(id int64) ([]Notification, error) { return s.shop.PayPartly(id, s.share(30)) }).then(26*hour, s.shop.Pay).tale
		}},
		{"declined, then paid", 1, 2, func() *tale {
			s := t.sale(t.shop(), "shopify_payments")
			return s.then(minute, s.shop.Decline).then(3*minute, s.shop.Pay).tale
		}},
		{"first of two parcels", 1, 1, func() *tale {
			s := t.paid(t.shop())
			return s.then(15*hour, s.ship(1)).tale
		}},
		{"two parcels", 2, 4, func() *tale {
			s := t.paid(t.shop())
			return s.then(15*hour, s.ship(1)).then(22*hour, s.ship(0)).tale
		}},
		{"held by the shop", 1, 1, func() *tale {
			s := t.paid(t.shop())
			return s.then(20*minute, s.shop.Hold).tale
		}},
		{"held and released", 1, 2, func() *tale {
			s := t.paid(t.shop())
			return s.then(20*minute, s.shop.Hold).then(17*hour, s.shop.Release).then(4*hour, s.ship(0)).tale
		}},
		{"shipment called back", 1, 1, func() *tale {
			s := t.paid(t.shop())
			return s.then(12*hour, s.ship(0)).then(2*hour, s.shop.CancelFulfillment).tale
		}},
		{"asked to stop, not yet answered", 1, 1, func() *tale {
			s := t.paid(t.shop())
			return s.then(2*hour, s.shop.RequestFulfillment).then(hour, s.shop.RequestCancellation).tale
		}},
		{"asked to stop, too late", 1, 1, func() *tale {
			s := t.paid(t.shop())
			return s.then(2*hour, s.shop.RequestFulfillment).then(hour, s.shop.RequestCancellation).then(hour, s.shop.RejectCancellation).then(3*hour, s.ship(0)).tale
		}},
		{"cancelled before it was paid", 1, 2, func() *tale {
			s := t.sale(t.shop(), "manual")
			return s.then(30*hour, s.cancel("CUSTOMER")).tale
		}},
		{"cancelled and refunded", 1, 2, func() *tale {
			s := t.paid(t.shop())
			return s.then(4*hour, s.cancel("INVENTORY")).then(minute, s.refund(100, RefundSucceeds)).tale
		}},
		{"cancelled, refund under way", 1, 1, func() *tale {
			s := t.paid(t.shop())
			return s.then(4*hour, s.cancel("CUSTOMER")).then(minute, s.refund(100, RefundPends)).tale
		}},
		{"part refunded", 1, 3, func() *tale {
			s := t.sent(t.shop())
			return s.then(26*hour, s.refund(25, RefundSucceeds)).tale
		}},
		{"refund under way, then there", 1, 2, func() *tale {
			s := t.sent(t.shop())
			return s.then(20*hour, s.refund(40, RefundPends)).then(15*hour, s.settle(RefundSucceeds)).tale
		}},
		{"refund refused by the bank", 1, 1, func() *tale {
			s := t.sent(t.shop())
			return s.then(20*hour, s.refund(40, RefundPends)).then(15*hour, s.settle(RefundFails)).tale
		}},
		{"wants to send it back", 1, 1, func() *tale {
			s := t.sent(t.shop())
			return s.then(40*hour, s.wantBack(1)).tale
		}},
		{"is sending it back", 1, 1, func() *tale {
			s := t.sent(t.shop())
			return s.then(30*hour, s.wantBack(1)).then(5*hour, s.shop.ApproveReturn).tale
		}},
		{"sent back and refunded", 1, 3, func() *tale {
			s := t.sent(t.shop())
			return s.then(20*hour, s.wantBack(1)).then(4*hour, s.shop.ApproveReturn).then(30*hour, s.cameBack(1)).then(hour, s.refund(40, RefundSucceeds)).tale
		}},
		{"return opened again", 1, 1, func() *tale {
			s := t.sent(t.shop())
			return s.then(20*hour, s.wantBack(2)).then(4*hour, s.shop.ApproveReturn).then(24*hour, s.cameBack(1)).then(5*hour, s.shop.ReopenReturn).tale
		}},
		{"return declined", 1, 1, func() *tale {
			s := t.sent(t.shop())
			return s.then(30*hour, s.wantBack(1)).then(6*hour, s.shop.DeclineReturn).tale
		}},
		{"disputed", 1, 1, func() *tale {
			s := t.sent(t.hkMain)
			return s.then(50*hour, s.shop.OpenDispute).tale
		}},
		{"dispute won", 1, 1, func() *tale {
			s := t.sent(t.hkMain)
			return s.then(20*hour, s.shop.OpenDispute).then(40*hour, s.judged("WON")).tale
		}},
		{"dispute lost", 1, 1, func() *tale {
			s := t.sent(t.hkMain)
			return s.then(20*hour, s.shop.OpenDispute).then(40*hour, s.judged("LOST")).tale
		}},
		{"changed after it was paid", 1, 2, func() *tale {
			s := t.paid(t.shop())
			return s.then(5*hour, func(id int64) ([]Notification, error) { return s.shop.Edit(id, "180", 1) }).tale
		}},
		{"changed, and the rest paid", 1, 2, func() *tale {
			s := t.paid(t.shop())
			return s.then(5*hour, func(id int64) ([]Notification, error) { return s.shop.Edit(id, "180", 1) }).then(40*minute, s.shop.Pay).tale
		}},
		{"bought in the shop", 1, 3, func() *tale {
			s := t.sale(t.hkMain, "cash")
			s.order.Source = "pos"
			return s.then(minute, s.shop.Pay).then(minute, s.ship(0)).tale
		}},
		{"a word that nobody knows", 1, 1, func() *tale {
			s := t.paid(t.hkMain)
			return s.then(3*hour, s.word("displayFinancialStatus", "SETTLEMENT_HELD")).tale
		}},
		{"a word that nobody knew for a while", 0, 1, func() *tale {
			s := t.paid(t.twMain)
			return s.then(3*hour, s.word("displayFulfillmentStatus", "AWAITING_PICKUP")).then(3*hour, s.word("displayFulfillmentStatus", "UNFULFILLED")).tale
		}},
		{"paid, and nobody was told", 1, 1, func() *tale {
			s := t.paid(t.twMain)
			s.fated(lost, 0)
			return s.tale
		}},
		{"a trial of the shop", 1, 1, func() *tale {
			s := t.paid(t.hkMain)
			s.order.Test = true
			return s.tale
		}},
		{"deleted by the merchant", 0, 1, func() *tale {
			s := t.sale(t.shop(), "manual")
			return s.then(hour, s.shop.Delete).tale
		}},
	}
}

// cardPlots are orders of Hong Kong that are paid at Stripe: two platforms speak of one order.
func (t *Town) cardPlots() []plot {
	return []plot{
		{"card", 3, 10, func() *tale {
			s, p := t.byCard(false)
			p.then(minute, p.till.Succeed)
			return s.then(minute, s.shop.Pay).then(19*hour, s.ship(0)).tale
		}},
		{"card, and the payment is told first", 1, 3, func() *tale {
			s := t.sale(t.hkMain, "stripe")
			s.fated(late, 3)
			p := s.intent(minute, false)
			p.then(minute, p.till.Succeed)
			return s.then(minute, s.shop.Pay).tale
		}},
		{"card, captured when shipped", 1, 4, func() *tale {
			s, p := t.byCard(true)
			p.then(minute, p.till.Authorize)
			s.then(minute, s.shop.Authorize)
			p.then(18*hour, p.capture(100))
			return s.then(minute, s.shop.Pay).then(minute, s.ship(0)).tale
		}},
		{"card authorised", 1, 1, func() *tale {
			s, p := t.byCard(true)
			p.then(minute, p.till.Authorize)
			return s.then(minute, s.shop.Authorize).tale
		}},
		{"card, less captured than authorised", 1, 1, func() *tale {
			s, p := t.byCard(true)
			p.then(minute, p.till.Authorize)
			s.then(minute, s.shop.Authorize)
			p.then(18*hour, p.capture(80))
			return s.tale
		}},
		{"card declined, paid with another", 1, 3, func() *tale {
			s, first := t.byCard(false)
			first.then(minute, first.fail)
			second := s.intent(4*minute, false)
			second.then(minute, second.till.Succeed)
			return s.then(minute, s.shop.Pay).tale
		}},
		{"card declined", 1, 1, func() *tale {
			s, p := t.byCard(false)
			p.then(minute, p.fail)
			return s.tale
		}},
		{"card, part refunded", 1, 3, func() *tale {
			s, p := t.byCard(false)
			p.then(minute, p.till.Succeed)
			s.then(minute, s.shop.Pay).then(17*hour, s.ship(0))
			p.then(20*hour, p.refund(30, "succeeded"))
			return s.then(minute, s.refund(30, RefundSucceeds)).tale
		}},
		{"card, refunded whole", 1, 2, func() *tale {
			s, p := t.byCard(false)
			p.then(minute, p.till.Succeed)
			s.then(minute, s.shop.Pay).then(5*hour, s.cancel("CUSTOMER"))
			p.then(minute, p.refund(100, "succeeded"))
			return s.then(minute, s.refund(100, RefundSucceeds)).tale
		}},
		{"card disputed", 1, 1, func() *tale {
			s, p := t.byCard(false)
			p.then(minute, p.till.Succeed)
			s.then(minute, s.shop.Pay).then(17*hour, s.ship(0))
			p.then(40*hour, p.dispute(false))
			return s.tale
		}},
		{"card disputed, won", 1, 1, func() *tale {
			s, p := t.byCard(false)
			p.then(minute, p.till.Succeed)
			s.then(minute, s.shop.Pay).then(17*hour, s.ship(0))
			p.then(20*hour, p.dispute(false)).then(40*hour, p.won)
			return s.tale
		}},
		{"marked paid, but the card wasn't", 1, 1, func() *tale {
			s, p := t.byCard(false)
			p.then(minute, p.fail)
			return s.then(hour, s.shop.Pay).tale
		}},
		{"the bank takes its money back", 0, 1, func() *tale {
			s, p := t.byCard(false)
			p.then(minute, p.till.Succeed)
			s.then(minute, s.shop.Pay).then(17*hour, s.ship(0))
			p.then(30*hour, p.till.ReturnDebit)
			return s.tale
		}},
	}
}

func (t *Town) webPlots() []plot {
	paid := func() *payment {
		p := t.online(StripeIntent{})
		return p.then(minute, p.till.Succeed)
	}
	return []plot{
		{"paid on the web", 2, 6, func() *tale { return paid().tale }},
		{"left at the till", 1, 2, func() *tale {
			p := t.online(StripeIntent{})
			return p.then(minute, p.till.Require).tale
		}},
		{"declined on the web", 1, 2, func() *tale {
			p := t.online(StripeIntent{})
			return p.then(minute, p.fail).tale
		}},
		{"declined, then paid on the web", 1, 2, func() *tale {
			p := t.online(StripeIntent{})
			return p.then(minute, p.fail).then(3*minute, p.till.Succeed).tale
		}},
		{"authorised on the web", 1, 1, func() *tale {
			p := t.online(StripeIntent{Manual: true})
			return p.then(minute, p.till.Authorize).tale
		}},
		{"authorised and cancelled on the web", 1, 1, func() *tale {
			p := t.online(StripeIntent{Manual: true})
			return p.then(minute, p.till.Authorize).then(6*hour, p.till.CancelIntent).tale
		}},
		{"part refunded on the web", 1, 2, func() *tale {
			p := paid()
			return p.then(20*hour, p.refund(50, "succeeded")).tale
		}},
		{"refunded on the web", 1, 1, func() *tale {
			p := paid()
			return p.then(20*hour, p.refund(100, "succeeded")).tale
		}},
		{"refund under way on the web", 1, 1, func() *tale {
			p := paid()
			return p.then(20*hour, p.refund(100, "pending")).tale
		}},
		{"refund that arrives later", 0, 1, func() *tale {
			p := paid()
			return p.then(20*hour, p.refund(60, "pending")).then(20*hour, p.arrived).tale
		}},
		{"refund that comes back", 1, 1, func() *tale {
			p := paid()
			return p.then(20*hour, p.refund(100, "succeeded")).then(40*hour, p.bounced).tale
		}},
		{"dispute on the web", 1, 1, func() *tale {
			p := paid()
			return p.then(40*hour, p.dispute(false)).tale
		}},
		{"dispute lost on the web", 1, 1, func() *tale {
			p := paid()
			return p.then(20*hour, p.dispute(false)).then(40*hour, p.lost).tale
		}},
		{"inquiry that ends", 1, 1, func() *tale {
			p := paid()
			return p.then(20*hour, p.dispute(true)).then(20*hour, p.dropped).tale
		}},
		{"bought on Stripe's page", 1, 2, func() *tale { return t.checkout(false).tale }},
		{"bought by bank transfer on Stripe's page", 1, 1, func() *tale {
			p := t.checkout(true)
			return p.then(20*hour, p.till.Succeed).tale
		}},
		{"a word of Stripe that nobody knows", 1, 0, func() *tale {
			p := t.online(StripeIntent{})
			return p.then(minute, p.word("requires_review")).tale
		}},
	}
}

func (t *Town) counterPlots() []plot {
	return []plot{
		{"receipt", 3, 6, func() *tale { return t.slip().tale }},
		{"receipt, part refunded", 1, 2, func() *tale {
			s := t.slip()
			return s.then(20*hour, s.refund(68)).tale
		}},
		{"receipt, refunded", 1, 1, func() *tale {
			s := t.slip()
			return s.then(20*hour, s.refund(0)).tale
		}},
		{"goods brought back to the counter", 1, 1, func() *tale {
			s := t.slip()
			return s.then(20*hour, func(id string) (Notification, error) {
				_, n, err := t.counter.Return(id)
				return n, err
			}).tale
		}},
	}
}
