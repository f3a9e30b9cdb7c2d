package handlers

import (
	"bytes"
	"context"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/a-h/templ"

	"counterfoil/models"
	"counterfoil/models/platform"
	"counterfoil/static"
	"counterfoil/views"
	"counterfoil/views/locale"
)

// Pages are drawn from made-up records, the way the handlers draw them. With
// VIEWS_OUT set they are written there, to be looked at in a browser.

var (
	hongKong = time.FixedZone("HKT", 8*60*60)
	moment   = time.Date(2026, 11, 30, 22, 31, 12, 0, hongKong)
)

func before(d time.Duration) time.Time { return moment.Add(-d) }

var (
	supporter = models.Actor{StaffID: 7, Name: "Lam Wing-yan", Role: models.Support, Lead: true}
	auditor   = models.Actor{StaffID: 9, Name: "Ho Ka-ming", Role: models.Auditor}
)

const (
	shopConn   = 1
	stripeConn = 2
	rrConn     = 3
)

func shopifyReads() map[models.Axis]bool {
	reads := map[models.Axis]bool{}
	for _, a := range models.Axes {
		reads[a] = true
	}
	return reads
}

func stripeReads() map[models.Axis]bool {
	return map[models.Axis]bool{models.Payment: true, models.Refund: true, models.Dispute: true}
}

// axisRecords makes six verified records; money by stripe, goods by shopify.
func axisRecords(states ...models.State) map[models.Axis]models.AxisRecord {
	axes := map[models.Axis]models.AxisRecord{}
	for i, a := range models.Axes {
		rec := models.AxisRecord{State: states[i], Since: before(56 * time.Hour), Check: models.Verified, CheckedAt: before(2 * time.Second), Connection: stripeConn, Platform: models.Stripe}
		if !a.Money() {
			rec.Connection, rec.Platform, rec.CheckedAt = shopConn, models.Shopify, before(33*time.Minute)
		}
		axes[a] = rec
	}
	return axes
}

func said(states map[models.Axis]models.Statement, amounts *models.Amounts) *models.Observation {
	return &models.Observation{Basis: models.Reported, Axes: states, Amounts: amounts}
}

// downOrder is a partly refunded order whose store can't be asked.
func downOrder() models.OrderFile {
	paid := models.Amounts{Currency: "HKD", Total: 128000, Received: 128000, Refunded: 18000}
	f := models.OrderFile{
		Order: models.Order{
			ID: 10428, ShopID: 1, ConnectionID: shopConn, Platform: models.Shopify, Ref: "gid://shopify/Order/820982911946154508", Number: "#HK-10428",
			Placed: before(56 * time.Hour), Amounts: paid, Store: true, Channel: "web", Method: "card", Items: models.Items{Ordered: 3},
			Axes: axisRecords(models.PaymentPaid, models.RefundPartial, models.DisputeNone, models.FulfillmentUnfulfilled, models.CancellationActive, models.ReturnNone),
		},
		Shop: "hk", ShopName: "Harbour & Pine, Hong Kong", Connection: "hk-main",
		Health: map[int64]models.Health{
			shopConn:   {State: models.APIDownState, Since: before(21 * time.Minute), Review: time.Hour, Settle: time.Minute, Stale: 24 * time.Hour, Unsent: 6 * time.Hour},
			stripeConn: {State: models.APIUp, Settle: time.Minute, Stale: 24 * time.Hour, Unsent: 6 * time.Hour},
		},
		Objects: []models.Object{
			{
				ObjectView: models.ObjectView{ID: 1, Connection: shopConn, Slug: "hk-main", Platform: models.Shopify, Reads: shopifyReads(),
					Ref: models.ObjectRef{Account: "harbourpine-hk.myshopify.com", Kind: "order", ID: "gid://shopify/Order/820982911946154508"},
					Official: &models.Observation{Basis: models.Official, Read: before(33 * time.Minute), Store: true,
						Amounts: &models.Amounts{Currency: "HKD", Total: 128000, Received: 128000},
						Axes: map[models.Axis]models.Statement{
							models.Payment: {State: models.PaymentPaid, Word: "PAID"}, models.Refund: {State: models.RefundNone, Word: "PAID"},
							models.Fulfillment: {State: models.FulfillmentUnfulfilled, Word: "UNFULFILLED"}, models.Cancellation: {State: models.CancellationActive, Word: "null"},
							models.Return: {State: models.ReturnNone, Word: "NO_RETURN"},
						}},
					Said: said(map[models.Axis]models.Statement{
						models.Cancellation: {State: models.CancellationCancelled, Word: "cancelled_at"}, models.Fulfillment: {State: models.FulfillmentUnfulfilled, Word: "null"},
					}, nil)},
				Fetched: before(33 * time.Minute), Reported: before(17 * time.Minute), Deep: "https://harbourpine-hk.myshopify.com/admin/orders/820982911946154508",
			},
			{
				ObjectView: models.ObjectView{ID: 2, Connection: stripeConn, Slug: "stripe-hk", Platform: models.Stripe, Reads: stripeReads(), LinkedBy: models.LinkMetadata,
					Ref: models.ObjectRef{Account: "acct_1", Kind: "payment_intent", ID: "pi_3QXk9aB2eZvKYlo21dFhT7Rc"},
					Official: &models.Observation{Basis: models.Official, Read: before(2 * time.Second), Amounts: &paid,
						Axes: map[models.Axis]models.Statement{
							models.Payment: {State: models.PaymentPaid, Word: "succeeded"}, models.Refund: {State: models.RefundPartial, Word: "succeeded"}, models.Dispute: {State: models.DisputeNone},
						},
						Parts: []models.Part{
							{Axis: models.Payment, ID: "pi_3QXk9aB2eZvKYlo21dFhT7Rc", State: models.PaymentPaid, Word: "succeeded", Amount: 128000, Currency: "HKD", At: before(56 * time.Hour), Counts: true},
							{Axis: models.Refund, ID: "re_3QXk9aB2eZvKYlo21pQ8sN4v", State: models.RefundPartial, Word: "succeeded", Amount: 18000, Currency: "HKD", At: before(25 * time.Minute), Counts: true},
							{Axis: models.Refund, ID: "re_3QXk9aB2eZvKYlo21zzFaild", State: models.RefundNone, Word: "failed", Amount: 18000, Currency: "HKD", At: before(3 * time.Hour), Note: "lost_or_stolen_card"},
						}},
					Said: said(map[models.Axis]models.Statement{models.Payment: {State: models.PaymentPaid, Word: "succeeded"}}, &paid)},
				Fetched: before(2 * time.Second), Reported: before(24 * time.Minute), Deep: "https://dashboard.stripe.com/payments/pi_3QXk9aB2eZvKYlo21dFhT7Rc",
			},
		},
		Waiting: []models.Event{{ID: 501, Connection: "hk-main", Platform: models.Shopify, EventID: "b54557e4-bdd9-4b37-8a5f-bf7d70bcd043", Topic: "orders/cancelled",
			State: models.EventWaiting, Deliveries: 2, Received: before(17 * time.Minute)}},
		Exceptions: []models.Exception{
			{ID: 31, Kind: models.AmountDiffers, Axis: models.Refund, PlatformState: "0.00", LocalState: "180.00", Policy: models.PolicyHold, State: "open", Count: 4, First: before(10 * time.Minute), Last: before(time.Minute)},
			{ID: 30, Kind: models.MissedNotification, Axis: models.Payment, Policy: models.PolicyWait, State: "closed", Count: 1, First: before(50 * time.Hour), Last: before(50 * time.Hour)},
		},
	}
	f.Events = append(f.Events, f.Waiting...)
	f.Events = append(f.Events,
		models.Event{ID: 490, Connection: "stripe-hk", Platform: models.Stripe, EventID: "evt_3QXk9aB2eZvKYlo21mJw0dQe", Topic: "refund.updated", State: models.EventApplied, Deliveries: 1, Received: before(24 * time.Minute)},
		models.Event{ID: 400, Connection: "hk-main", Platform: models.Shopify, EventID: "c4a557e4-bdd9-4b37-8a5f-bf7d70bcd099", Topic: "orders/create", State: models.EventApplied, Deliveries: 1, Received: before(56 * time.Hour)})
	f.Ledger = []models.Entry{{ID: 9, Axis: models.Refund, From: models.RefundNone, To: models.RefundPartial, Before: models.Amounts{Currency: "HKD", Total: 128000, Received: 128000}, After: paid,
		Cause: models.Cause{Kind: models.CauseEvent, ID: "490", EventID: "evt_3QXk9aB2eZvKYlo21mJw0dQe", Topic: "refund.updated", Basis: models.Official}, Actor: "console", At: before(23 * time.Minute)}}
	for i, a := range models.Axes {
		f.Ledger = append(f.Ledger, models.Entry{ID: int64(8 - i), Axis: a, To: f.Order.State(a), After: models.Amounts{Currency: "HKD", Total: 128000},
			Cause: models.Cause{Kind: models.CauseEvent, ID: "400", EventID: "c4a557e4-bdd9-4b37-8a5f-bf7d70bcd099", Topic: "orders/create", Basis: models.Official}, Actor: "console", At: before(56 * time.Hour)})
	}
	return f
}

// quietOrder is settled, has a long Chinese shop name and New Taiwan dollars.
func quietOrder() models.OrderFile {
	f := downOrder()
	f.ID, f.Number, f.ShopName, f.Connection = 4471, "#TW-4471", "海港與松木生活選物有限公司（台灣）臺北市大安區忠孝東路四段旗艦店", "tw-main"
	f.Amounts = models.Amounts{Currency: "TWD", Total: 218000, Received: 218000}
	f.Axes = axisRecords(models.PaymentPaid, models.RefundNone, models.DisputeNone, models.FulfillmentFulfilled, models.CancellationActive, models.ReturnReceived)
	f.Items = models.Items{Ordered: 2, Shipped: 2, Returning: 1, CameBack: 1, InReturned: 1}
	f.Health[shopConn] = models.Health{State: models.APIUp, Settle: time.Minute}
	f.Waiting, f.Exceptions, f.Objects = nil, nil, f.Objects[:1]
	f.Objects[0].Said = nil
	f.Objects[0].Official.Amounts = &models.Amounts{Currency: "TWD", Total: 218000, Received: 218000}
	f.Objects[0].Official.Axes = map[models.Axis]models.Statement{
		models.Payment: {State: models.PaymentPaid, Word: "PAID"}, models.Refund: {State: models.RefundNone, Word: "PAID"},
		models.Fulfillment: {State: models.FulfillmentFulfilled, Word: "FULFILLED"}, models.Cancellation: {State: models.CancellationActive, Word: "null"},
		models.Return: {State: models.ReturnReceived, Word: "RETURNED"},
	}
	for a, rec := range f.Axes {
		rec.Connection, rec.Platform = shopConn, models.Shopify
		f.Axes[a] = rec
	}
	return f
}

// troubledOrder is disputed, failed, refused and to review, for people who may not resync.
func troubledOrder() models.OrderFile {
	f := downOrder()
	f.Number, f.Test = "#HK-10433-ÉDITION-SPÉCIALE-2026-11-30-000000000000000000001", true
	f.Axes = axisRecords(models.PaymentFailed, models.RefundFull, models.DisputeOpen, models.FulfillmentHeld, models.CancellationRequested, models.ReturnInProgress)
	rec := f.Axes[models.Refund]
	rec.Check, rec.Doubt = models.ToReview, models.UnclearWord
	f.Axes[models.Refund] = rec
	rec = f.Axes[models.Payment]
	rec.Check, rec.Doubt = models.Unverified, models.Differs
	f.Axes[models.Payment] = rec
	for i, s := range []models.EventState{models.EventFailed, models.EventReview, models.EventUnmatched, models.EventReceived} {
		f.Waiting = append(f.Waiting, models.Event{ID: int64(600 + i), Connection: "stripe-hk", Platform: models.Stripe, Topic: "charge.dispute.funds_withdrawn", State: s, Deliveries: 1, Received: before(time.Hour), Error: "no dispute in the answer"})
	}
	for _, k := range models.ExceptionKinds {
		f.Exceptions = append(f.Exceptions, models.Exception{Kind: k, Axis: models.Payment, PlatformState: "requires_payment_method", LocalState: "paid", Policy: models.PolicyAsk, State: "open", Count: 1, First: before(20 * time.Minute)})
	}
	return f
}

// announcedOrder is known from a signed notification only.
func announcedOrder() models.OrderFile {
	f := downOrder()
	f.ID, f.Number, f.Announced, f.Axes, f.Ledger, f.Exceptions, f.Objects = 10502, "#HK-10502", true, nil, nil, nil, nil
	f.Amounts = models.Amounts{}
	f.Said = said(map[models.Axis]models.Statement{models.Payment: {State: models.PaymentPaid, Word: "paid"}, models.Fulfillment: {State: models.FulfillmentUnfulfilled, Word: "null"}},
		&models.Amounts{Currency: "HKD", Total: 196000, Received: 196000})
	return f
}

func orderRows() []models.OrderRow {
	row := func(f models.OrderFile, events, exceptions int, urgent bool) models.OrderRow {
		return models.OrderRow{Order: f.Order, Shop: f.Shop, ShopName: f.ShopName, Connection: f.Connection, Shown: f.Worst(f.Health, moment), Events: events, Exceptions: exceptions, Urgent: urgent}
	}
	return []models.OrderRow{row(announcedOrder(), 1, 0, false), row(quietOrder(), 0, 0, false), row(troubledOrder(), 5, 20, true), row(downOrder(), 1, 1, true)}
}

func waitingEvent() models.EventFile {
	o := downOrder()
	e := o.Waiting[0]
	e.OrderID, e.OrderName, e.Account, e.Last, e.Object = o.ID, o.Number, "harbourpine-hk.myshopify.com", before(16*time.Minute), o.Objects[0].Ref
	return models.EventFile{
		Event: e, ConnectionID: shopConn, ShopID: 1, Digest: strings.Repeat("9c41f0e7b2", 6), Size: 11482, RequestID: "7q2m19xabc", Secret: "1f2e3d4c", Conflicts: 1,
		Said:     o.Objects[0].Said,
		Arrivals: []models.Delivery{{At: before(17 * time.Minute), Same: true, RequestID: "7q2m19xabc"}, {At: before(16 * time.Minute), RequestID: "7q2m19xabd"}},
		Attempts: []models.Try{{At: before(17 * time.Minute), Outcome: "waiting", Error: "503 Service Unavailable"}}, Relatives: o.Events[1:],
	}
}

func connectionFiles() []models.ConnectionFile {
	return []models.ConnectionFile{
		{
			ID: shopConn, Slug: "hk-main", Platform: models.Shopify, Account: "harbourpine-hk.myshopify.com", Shop: "hk", ShopName: "Harbour & Pine, Hong Kong", API: models.APIDownState,
			Holds:    []models.Hold{heldBy(models.HoldConnection, "hk-main")},
			APISince: before(21 * time.Minute), APIError: "503 Service Unavailable", HasAPI: true, Rejected: 41, Events24: 1402, LastEvent: before(3 * time.Minute), Oldest: before(17 * time.Minute), Calls30: 41208, OpenExc: 3,
			Secrets: []models.SecretView{{Fingerprint: "1f2e3d4c", Added: before(900 * time.Hour), LastMatched: before(3 * time.Minute)}, {Fingerprint: "99aa88bb", Added: before(time.Hour)}},
			Rejections: []models.Rejection{{At: before(time.Hour), RequestID: "abcdefghij", Reason: "signature_wrong", Cause: "other_connection", Detail: "tw-main", Size: 4812, Headers: []string{"X-Shopify-Topic", "X-Shopify-Hmac-Sha256", "X-Shopify-Shop-Domain"}},
				{At: before(2 * time.Hour), RequestID: "klmnopqrst", Reason: "signature_wrong", Cause: "other_connection", Size: 102}},
			Topics:    []models.TopicCount{{Topic: "products/update", Count: 9120, Last: before(time.Minute), Known: true}, {Topic: "orders/teleported", Count: 2, Last: before(time.Hour)}},
			Notes:     []models.Note{{Key: "note.shopify.window", Args: []string{"60"}, At: before(time.Hour)}, {Key: "note.shopify.scope_missing", Args: []string{"read_returns"}, Warn: true, At: before(time.Hour)}},
			Effective: []models.Setting{{Name: "sweep_every", Value: "10m"}, {Name: "api_version", Value: "2026-10", Set: true}},
		},
		{
			ID: rrConn, Slug: "counter", Platform: models.ReceiptRoller, Account: "org_77", Shop: "counter", ShopName: "Causeway Bay counter", API: models.APINone, LastEvent: before(30 * time.Hour), Budget: 1000, Calls30: 212,
			Effective: []models.Setting{{Name: "signature_header", Value: "X-RR-Signature", Assumed: true}, {Name: "budget", Value: "1000"}},
		},
	}
}

func testWords() map[models.Platform][]platform.Word {
	return map[models.Platform][]platform.Word{models.Shopify: {
		{Field: "displayFinancialStatus", Word: "PAID", Axis: models.Payment, State: models.PaymentPaid}, {Field: "displayFinancialStatus", Axis: models.Payment, State: models.PaymentPending, Note: "nothing received"},
	}}
}

func page(title, current string, actor models.Actor) views.Page {
	return views.Page{Title: title, Current: current, Actor: actor, Now: moment, Zone: hongKong, Demo: true,
		Strips: []views.Strip{{Connection: "hk-main", Platform: models.Shopify, State: models.APIDownState, Since: before(21 * time.Minute), Waiting: 1912}}}
}

func heldBy(scope models.HoldScope, name string) models.Hold {
	return models.Hold{ID: 3, Scope: scope, Name: name, Reason: "two refunds for one parcel.", By: "staff:7", ByName: "Lam Wing-yan", Since: before(10 * time.Minute), Until: moment.Add(3 * time.Hour)}
}

// heldOrder is paused three times over, once past its end.
func heldOrder() models.OrderFile {
	f := downOrder()
	due := heldBy(models.HoldShop, f.ShopName)
	due.Until = before(time.Minute)
	ends := heldBy(models.HoldConnection, "hk-main")
	ends.Resumes = true
	f.Holds = []models.Hold{heldBy(models.HoldOrder, f.Number), due, ends}
	return f
}

func holdForm(scope models.HoldScope) views.HoldFormModel {
	m := views.HoldFormModel{Scope: scope, Title: locale.Say("may.pause"), Do: locale.Say("may.pause"), Crumb: "#HK-10428", Back: "/orders/10428", Action: "/orders/10428/hold", Waits: 1, Platform: models.Shopify, Resumes: true}
	if scope != models.HoldOrder {
		m.Title, m.Do, m.Sending, m.Needs, m.Chosen = locale.Say("may.pause_all", "hk-main"), locale.Say("may.pause_all", "hk-main"), 2, true, true
		m.Errors = map[string]locale.Text{"reason": locale.Say("error.reason_text"), "until": locale.Say("error.hold_longest"), "resumes": locale.Say("error.hold_resumes")}
	}
	return m
}

// allPages draws every page in the states that matter.
func allPages() map[string]templ.Component {
	calm := page("#TW-4471", "orders", supporter)
	calm.Demo, calm.Strips, calm.Flash = false, nil, &views.Flash{Text: locale.Say("resync.same")}
	event := waitingEvent()
	down := downOrder()
	order := func(f models.OrderFile, p views.Page) templ.Component {
		return views.OrderFile(p, orderModel(f, p.Actor, moment))
	}
	return map[string]templ.Component{
		"order.html":           order(down, page("#HK-10428", "orders", supporter)),
		"order-quiet.html":     order(quietOrder(), calm),
		"order-trouble.html":   order(troubledOrder(), page("#HK-10433", "orders", auditor)),
		"order-said.html":      order(announcedOrder(), page("#HK-10502", "orders", supporter)),
		"order-held.html":      order(heldOrder(), page("#HK-10428", "orders", models.Actor{StaffID: 8, Role: models.Support})),
		"order-mine.html":      order(heldOrder(), page("#HK-10428", "orders", supporter)),
		"hold.html":            views.HoldForm(page("Pause shipping", "orders", supporter), holdForm(models.HoldOrder)),
		"hold-wrong.html":      views.HoldForm(page("Pause shipping", "connections", supporter), holdForm(models.HoldConnection)),
		"orders.html":          views.Orders(page("Orders", "orders", supporter), ordersModel(models.Page[models.OrderRow]{Items: orderRows(), Next: "abc"}, models.OrderQuery{}, []string{"hk-main", "tw-main", "stripe-hk"})),
		"orders-empty.html":    views.Orders(page("Orders", "orders", supporter), ordersModel(models.Page[models.OrderRow]{}, models.OrderQuery{}, nil)),
		"orders-none.html":     views.Orders(page("Orders", "orders", supporter), ordersModel(models.Page[models.OrderRow]{}, models.OrderQuery{Text: "#9"}, nil)),
		"events.html":          views.Events(page("Events", "events", supporter), eventsModel(models.Page[models.Event]{Items: append(down.Events, troubledOrder().Waiting...)}, models.EventQuery{}, nil)),
		"events-empty.html":    views.Events(page("Events", "events", supporter), eventsModel(models.Page[models.Event]{}, models.EventQuery{}, nil)),
		"events-none.html":     views.Events(page("Events", "events", supporter), eventsModel(models.Page[models.Event]{}, models.EventQuery{State: models.EventFailed}, nil)),
		"event.html":           views.EventFile(page("orders/cancelled", "events", supporter), eventModel(event, &down)),
		"event-lone.html":      views.EventFile(page("orders/cancelled", "events", supporter), eventModel(event, nil)),
		"rules.html":           views.Rules(page("Rules", "rules", supporter), rulesModel(testWords())),
		"connections.html":     views.Connections(page("Connections", "connections", supporter), connectionsModel(connectionFiles(), "https://console.harbourpine.example", supporter, moment)),
		"sweeps.html":          views.Sweeps(page("Comparison", "connections", chief), sweptConnection(chief)),
		"sweeps-0.html":        views.Sweeps(page("Comparison", "connections", auditor), sweptConnection(auditor)),
		"check.html":           views.Check(page("Check connection", "connections", supporter), checkedConnection()),
		"notifications.html":   views.Subscriptions(page("Notifications", "connections", supporter), subscribedConnection()),
		"connections-0.html":   views.Connections(page("Connections", "connections", supporter), connectionsModel(nil, "", supporter, moment)),
		"actions.html":         views.Actions(page("Follow-ups", "actions", supporter), actionsModel(manyActions(supporter, models.TabNeeds))),
		"actions-auditor.html": views.Actions(page("Follow-ups", "actions", auditor), actionsModel(manyActions(auditor, models.TabAll))),
		"actions-0.html":       views.Actions(calm, actionsModel(actionsIn{query: models.ActionListQuery{Tab: models.TabWatched}, actor: supporter, now: moment})),
		"actions-none.html":    views.Actions(calm, actionsModel(actionsIn{query: models.ActionListQuery{Tab: models.TabAll, Order: 7}, actor: supporter, now: moment})),
		"action.html":          views.ActionFile(page("Follow-up", "actions", supporter), actionModel(heldAction(supporter))),
		"action-au.html":       views.ActionFile(page("Follow-up", "actions", auditor), actionModel(heldAction(auditor))),
		"action-facts.html":    views.ActionFile(calm, actionModel(factsAction())),
		"action-unclear.html":  views.ActionFile(calm, actionModel(unclearAction())),
		"request.html":         views.RequestFile(calm, requestModel(openAsk(), supporter, "error.over_lead_order", moment, typed{})),
		"replacement.html":     views.Replacement(calm, replacementModel(quietOrder(), nil, supporter, "", moment, wrongAsk())),
		"policies.html":        views.Policies(page("Policies", "policies", supporter), policiesModel(policyFile(), supporter)),
		"policies-ask.html":    views.Policies(page("Policies", "policies", chief), latePolicies()),
		"policies-0.html":      views.Policies(page("Policies", "policies", chief), policiesModel(models.PolicyFile{}, chief)),
		"live.html":            views.LiveForm(page("Make live", "policies", chief), liveForm(nil)),
		"live-wrong.html":      views.LiveForm(page("Make live", "policies", chief), liveForm(wrongLive())),
		"login.html":           views.Login(page("Sign in", "", models.Actor{}), views.LoginModel{Email: "wing.lam@harbourpine.example", Error: locale.Say("login.wrong")}),
		"error-404.html":       views.Error(page("Not found", "", supporter), views.ErrorModel{Status: http.StatusNotFound, Request: "abcdefghij"}),
		"error-503.html":       views.Error(page("Not available", "", models.Actor{}), views.ErrorModel{Status: http.StatusServiceUnavailable, Request: "abcdefghij"}),
		"error-405.html":       views.Error(page("Not available", "", models.Actor{}), views.ErrorModel{Status: http.StatusMethodNotAllowed, Text: locale.Say("error.method")}),
	}
}

func draw(t *testing.T, c templ.Component, lang string) string {
	t.Helper()
	var b bytes.Buffer
	if err := c.Render(locale.With(context.Background(), locale.New(lang, hongKong, moment)), &b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

var (
	inlined = regexp.MustCompile(`\sstyle=|<style|<script>|<script [^>]*>[^<]|\son[a-z]+="|javascript:|src="data:`)
	rawKey  = regexp.MustCompile(`>\s*[a-z_]+(\.[a-z_]+){1,3}\s*<`)
	hole    = regexp.MustCompile(`\{\d\}`)
	pattern = regexp.MustCompile(`data-(units|past|future)="[^"]*"`)
	attrKey = regexp.MustCompile(`(title|aria-label|placeholder)="[a-z_]+(\.[a-z_]+)+"`)
)

func TestPagesKeepThePolicyAndSayEveryWord(t *testing.T) {
	t.Parallel()
	for name, c := range allPages() {
		for _, lang := range []string{locale.English, locale.Chinese} {
			html := draw(t, c, lang)
			if hit := inlined.FindString(html); hit != "" {
				t.Errorf("%s in %s: the policy forbids %q", name, lang, hit)
			}
			for _, hit := range rawKey.FindAllString(html, -1) {
				if !ownWord(hit) {
					t.Errorf("%s in %s: a key without words %q", name, lang, hit)
				}
			}
			if hit := attrKey.FindString(html); hit != "" {
				t.Errorf("%s in %s: a key without words %q", name, lang, hit)
			}
			if hit := hole.FindString(pattern.ReplaceAllString(html, "")); hit != "" {
				t.Errorf("%s in %s: a sentence misses its value %q", name, lang, hit)
			}
			if strings.Contains(html, "%!") {
				t.Errorf("%s in %s: a value can't be written", name, lang)
			}
		}
	}
}

// ownWord tells whether what looks like a key is a topic of the made-up records.
func ownWord(hit string) bool {
	return strings.Contains(hit, "refund.updated") || strings.Contains(hit, "charge.dispute")
}

var links = regexp.MustCompile(`(?:href|action|src)="(/[^"]*)"`)

// Every link leads to a page that exists: no dead ends, nothing promised for later.
func TestPagesHaveNoDeadLinks(t *testing.T) {
	t.Parallel()
	known := regexp.MustCompile(`^/(login|logout|orders|exceptions|events|connections|rules|actions|policies)?([?#].*)?$|^/(orders|exceptions|events|actions|requests)/\d+([?#].*)?$|^/orders/\d+/(resync|hold|release|replacement)$|^/actions/\d+/(receipt|retry|release|again)$|^/requests/\d+/(approve|reject|withdraw)$|^/(connections|shops)/[a-z-]+/(hold|release)$` +
		`|^/connections/[a-z-]+/(check|sweeps|sweeps/\d+/stop|notifications|canaries|canaries/\d+)$|^/exceptions/\d+/(resync|take|assign|back|note|told|close|dismiss|accept)$|^/exceptions/resync([?#].*)?$|^/policies/[a-z-]+/case[?].*$|^/policies/[a-z-]+/rules$|^/policies/[a-z-]+/live/[a-z_]+(/(approve|reject|withdraw|stop))?$`)
	assets := httptest.NewServer(static.Handler())
	defer assets.Close()
	for name, c := range allPages() {
		for _, m := range links.FindAllStringSubmatch(draw(t, c, locale.English), -1) {
			switch {
			case strings.HasPrefix(m[1], "/static/"):
				w := httptest.NewRecorder()
				path, _, _ := strings.Cut(m[1], "#")
				static.Handler().ServeHTTP(w, httptest.NewRequest("GET", path, nil))
				if w.Code != http.StatusOK {
					t.Errorf("%s: %s answers %d", name, m[1], w.Code)
				}
			case !known.MatchString(m[1]):
				t.Errorf("%s: %s leads nowhere", name, m[1])
			}
		}
	}
}

var used = regexp.MustCompile(`icons\.svg#i-([a-z]+)`)

func TestEveryIconExists(t *testing.T) {
	t.Parallel()
	w := httptest.NewRecorder()
	static.Handler().ServeHTTP(w, httptest.NewRequest("GET", static.URL("icons.svg"), nil))
	sprite := w.Body.String()
	for name, c := range allPages() {
		for _, m := range used.FindAllStringSubmatch(draw(t, c, locale.English), -1) {
			if !strings.Contains(sprite, `id="i-`+m[1]+`"`) {
				t.Errorf("%s: there is no icon %s", name, m[1])
			}
		}
	}
}

// TestWritePages is for eyes: pages as files, with what the browser loads beside them.
func TestWritePages(t *testing.T) {
	t.Parallel()
	out := os.Getenv("VIEWS_OUT")
	if out == "" {
		t.Skip("VIEWS_OUT is not set")
	}
	write := func(name string, body []byte) {
		t.Helper()
		path := filepath.Join(out, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, body, fs.FileMode(0o644)); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"app.css", "app.js", "icons.svg", "icon.svg"} {
		w := httptest.NewRecorder()
		static.Handler().ServeHTTP(w, httptest.NewRequest("GET", static.URL(name), nil))
		write(static.URL(name), w.Body.Bytes())
	}
	for name, c := range allPages() {
		write(name, []byte(draw(t, c, locale.English)))
		write("zh/"+name, []byte(draw(t, c, locale.Chinese)))
	}
}
