package sandbox

import (
	"fmt"
	"strings"
	"time"

	"counterfoil/models"
)

func (r shopRequest) gid() string { return fmt.Sprintf("gid://shopify/FulfillmentOrder/%d", r.id) }
func (r *shopReturn) gid() string { return fmt.Sprintf("gid://shopify/Return/%d", r.id) }

// word is a status word, forced or worked out; nil is null.
func (o *shopOrder) word(field, worked string) any {
	if w, ok := o.words[field]; ok {
		if *w == "" {
			return nil
		}
		return *w
	}
	return worked
}

func (o *shopOrder) financial() any {
	w, received, refunded := "PENDING", o.received(), o.refunded()
	switch {
	case refunded > 0 && refunded >= received:
		w = "REFUNDED"
	case refunded > 0:
		w = "PARTIALLY_REFUNDED"
	case received > 0 && received >= o.total, o.total == 0:
		w = "PAID"
	case received > 0:
		w = "PARTIALLY_PAID"
	case len(o.moves) > 0 && o.moves[len(o.moves)-1].kind == "VOID", !o.cancelled.IsZero():
		w = "VOIDED"
	case o.sum("SUCCESS", "AUTHORIZATION") > 0:
		w = "AUTHORIZED"
	}
	return o.word("displayFinancialStatus", w)
}

func (o *shopOrder) fulfillment() any {
	w := "UNFULFILLED"
	switch {
	case o.request.status == "ON_HOLD":
		w = "ON_HOLD"
	case o.shipped() > 0 && o.shipped() >= o.wanted():
		w = "FULFILLED"
	case o.shipped() > 0:
		w = "PARTIALLY_FULFILLED"
	case o.request.status == "IN_PROGRESS":
		w = "IN_PROGRESS"
	}
	return o.word("displayFulfillmentStatus", w)
}

func (o *shopOrder) returned() any {
	has := map[string]bool{}
	for _, r := range o.returns {
		has[r.status] = true
	}
	w := "NO_RETURN"
	switch {
	case has["REQUESTED"]:
		w = "RETURN_REQUESTED"
	case has["OPEN"]:
		w = "IN_PROGRESS"
	case has["CLOSED"]:
		w = "RETURNED"
	}
	return o.word("returnStatus", w)
}

// restWord spells a word of the API as notifications do.
func restWord(word any) any {
	w, ok := word.(string)
	if !ok {
		return nil
	}
	switch w {
	case "UNFULFILLED", "ON_HOLD", "IN_PROGRESS", "SCHEDULED":
		return nil
	case "PARTIALLY_FULFILLED":
		return "partial"
	}
	return strings.ToLower(w)
}

func restSet(amount, currency string) map[string]any {
	m := map[string]any{"amount": amount, "currency_code": currency}
	return map[string]any{"shop_money": m, "presentment_money": m}
}

// restOrder is the body of orders/*. The buyer is invented and always the same.
func (s *Shopify) restOrder(o *shopOrder) map[string]any {
	money := func(n int64) string { return models.Decimal(n, o.currency) }
	address := map[string]any{"name": "Test Buyer", "address1": "1 Example Street", "city": "Exampleville", "zip": "00000", "country_code": "HK"}
	refunds, shipments, returns := []any{}, []any{}, []any{}
	for _, r := range o.refunds {
		refunds = append(refunds, s.restRefund(o, r))
	}
	for _, f := range o.shipments {
		shipments = append(shipments, s.restShipment(o, f))
	}
	for _, r := range o.returns {
		returns = append(returns, map[string]any{"id": r.id, "admin_graphql_api_id": r.gid(), "name": r.name, "status": strings.ToLower(r.status)})
	}
	var reason any
	if o.reason != "" {
		reason = strings.ToLower(o.reason)
	}
	return map[string]any{
		"id": o.id, "admin_graphql_api_id": ShopifyGID(o.id), "name": o.name, "number": o.number - 1000, "order_number": o.number, "test": o.test,
		"confirmed": true, "token": "0123456789abcdef0123456789abcdef", "tags": "", "source_name": o.source, "payment_gateway_names": []any{o.gateway},
		"created_at": s.local(o.created), "processed_at": s.local(o.created), "updated_at": s.local(o.updated), "closed_at": s.local(o.closed),
		"cancelled_at": s.local(o.cancelled), "cancel_reason": reason,
		"financial_status": restWord(o.financial()), "fulfillment_status": restWord(o.fulfillment()),
		"currency": o.currency, "presentment_currency": o.currency,
		"total_price": money(o.total), "total_price_set": restSet(money(o.total), o.currency),
		"current_total_price": money(o.current()), "total_outstanding": money(o.outstanding()),
		"email": "buyer@example.com", "customer": map[string]any{"id": 1, "email": "buyer@example.com", "first_name": "Test", "last_name": "Buyer"},
		"billing_address": address, "shipping_address": address, "order_status_url": "https://" + s.cfg.Account + "/orders/example",
		"line_items": []any{map[string]any{"id": o.id + 7, "title": "Example & Sons mug", "quantity": o.pieces, "current_quantity": o.wanted(),
			"fulfillable_quantity": o.wanted() - o.shipped(), "price": money(o.total / int64(max(1, o.pieces)))}},
		"refunds": refunds, "fulfillments": shipments, "returns": returns,
	}
}

func (s *Shopify) restMove(o *shopOrder, m *shopMove) map[string]any {
	return map[string]any{"id": m.id, "admin_graphql_api_id": fmt.Sprintf("gid://shopify/OrderTransaction/%d", m.id), "order_id": o.id, "parent_id": nil,
		"kind": strings.ToLower(m.kind), "status": strings.ToLower(m.status), "gateway": o.gateway, "amount": models.Decimal(m.amount, o.currency), "currency": o.currency,
		"created_at": s.local(m.at), "processed_at": s.local(m.at), "test": o.test}
}

func (s *Shopify) restRefund(o *shopOrder, r *shopRefund) map[string]any {
	moves := []any{}
	if r.move != nil {
		moves = append(moves, s.restMove(o, r.move))
	}
	return map[string]any{"id": r.id, "admin_graphql_api_id": fmt.Sprintf("gid://shopify/Refund/%d", r.id), "order_id": o.id, "created_at": s.local(r.at),
		"processed_at": s.local(r.at), "note": nil, "restock": false, "return": nil, "refund_line_items": []any{}, "order_adjustments": []any{}, "transactions": moves}
}

func (s *Shopify) restShipment(o *shopOrder, f *shopShipment) map[string]any {
	return map[string]any{"id": f.id, "admin_graphql_api_id": fmt.Sprintf("gid://shopify/Fulfillment/%d", f.id), "order_id": o.id, "name": f.name,
		"status": strings.ToLower(f.status), "shipment_status": nil, "service": "manual", "tracking_company": "Other", "tracking_number": f.tracking,
		"created_at": s.local(f.at), "updated_at": s.local(f.changed), "line_items": []any{map[string]any{"id": o.id + 7, "quantity": f.pieces}}}
}

func (s *Shopify) restDispute(o *shopOrder, d *shopDispute) map[string]any {
	return map[string]any{"id": d.id, "order_id": o.id, "type": "chargeback", "amount": models.Decimal(o.received(), o.currency), "currency": o.currency,
		"status": strings.ToLower(d.status), "initiated_at": s.local(s.cfg.Now())}
}

// shopBag is money as the API writes it: "20.0", not "20.00".
func shopBag(n int64, currency string) map[string]any {
	d := models.Decimal(n, currency)
	if strings.Contains(d, ".") {
		d = strings.TrimRight(d, "0")
		if strings.HasSuffix(d, ".") {
			d += "0"
		}
	} else {
		d += ".0"
	}
	m := map[string]any{"amount": d, "currencyCode": currency}
	return map[string]any{"shopMoney": m, "presentmentMoney": m}
}

// graph is an order as the API has it, with everything that can be asked.
func (s *Shopify) graph(o *shopOrder) map[string]any {
	money := func(n int64) map[string]any { return shopBag(n, o.currency) }
	var moves, refunds, shipments, returns, disputes []any
	move := func(m *shopMove) map[string]any {
		return map[string]any{"id": fmt.Sprintf("gid://shopify/OrderTransaction/%d", m.id), "kind": m.kind, "status": m.status, "gateway": o.gateway,
			"amountSet": money(m.amount), "createdAt": shopUTC(m.at), "processedAt": shopUTC(m.at)}
	}
	for _, m := range o.moves {
		moves = append(moves, move(m))
	}
	for _, r := range o.refunds {
		g := map[string]any{"id": fmt.Sprintf("gid://shopify/Refund/%d", r.id), "createdAt": shopUTC(r.at), "processedAt": shopUTC(r.at), "updatedAt": shopUTC(r.at),
			"totalRefundedSet": money(r.amount), "transactions": []any{}}
		if r.move != nil {
			g["transactions"] = []any{move(r.move)}
		}
		refunds = append(refunds, g)
	}
	for _, f := range o.shipments {
		shipments = append(shipments, map[string]any{"id": fmt.Sprintf("gid://shopify/Fulfillment/%d", f.id), "name": f.name, "status": f.status,
			"displayStatus": strings.Replace(f.status, "CANCELLED", "CANCELED", 1), "createdAt": shopUTC(f.at), "updatedAt": shopUTC(f.changed), "totalQuantity": f.pieces,
			"trackingInfo": []any{map[string]any{"company": "Other", "number": f.tracking, "url": nil}}})
	}
	for _, r := range o.returns {
		returns = append(returns, s.graphReturn(o, r))
	}
	for _, d := range o.disputes {
		disputes = append(disputes, map[string]any{"id": fmt.Sprintf("gid://shopify/ShopifyPaymentsDispute/%d", d.id), "status": d.status, "initiatedAs": "CHARGEBACK"})
	}
	var reason any
	if o.reason != "" {
		reason = o.reason
	}
	return map[string]any{
		"id": ShopifyGID(o.id), "legacyResourceId": fmt.Sprint(o.id), "name": o.name, "number": o.number, "test": o.test, "confirmed": true, "edited": false,
		"createdAt": shopUTC(o.created), "processedAt": shopUTC(o.created), "updatedAt": shopUTC(o.updated), "closed": !o.closed.IsZero(), "closedAt": shopUTC(o.closed),
		"cancelledAt": shopUTC(o.cancelled), "cancelReason": reason, "currencyCode": o.currency, "presentmentCurrencyCode": o.currency,
		"displayFinancialStatus": o.financial(), "displayFulfillmentStatus": o.fulfillment(), "returnStatus": o.returned(),
		"fullyPaid": o.outstanding() == 0, "unpaid": o.received() == 0, "sourceName": o.source, "paymentGatewayNames": []any{o.gateway},
		"subtotalLineItemsQuantity": o.pieces, "currentSubtotalLineItemsQuantity": o.wanted(),
		"totalPriceSet": money(o.total), "currentTotalPriceSet": money(o.current()), "totalReceivedSet": money(o.received()), "totalRefundedSet": money(o.refunded()),
		"netPaymentSet": money(o.received() - o.refunded()), "totalOutstandingSet": money(o.outstanding()),
		"transactions": moves, "refunds": refunds, "fulfillments": shipments,
		"fulfillmentOrders": []any{s.graphRequest(o)}, "returns": returns, "disputes": disputes,
	}
}

func (s *Shopify) graphReturn(o *shopOrder, r *shopReturn) map[string]any {
	return map[string]any{"id": r.gid(), "name": r.name, "status": r.status, "createdAt": shopUTC(r.at), "closedAt": shopUTC(r.closed), "totalQuantity": r.pieces,
		"returnLineItems": []any{map[string]any{"id": fmt.Sprintf("gid://shopify/ReturnLineItem/%d", r.id+1), "quantity": r.pieces, "processedQuantity": r.processed}},
		"order":           func() any { return s.visible(o) }}
}

func (s *Shopify) graphRequest(o *shopOrder) map[string]any {
	return map[string]any{"id": o.request.gid(), "status": o.request.status, "requestStatus": o.request.request, "orderId": ShopifyGID(o.id), "orderName": o.name,
		"order": func() any { return s.visible(o) }}
}

// shopWindow is how far back an app reads without read_all_orders.
const shopWindow = 60 * 24 * time.Hour

// sees tells whether the app may see an order.
func (s *Shopify) sees(o *shopOrder) bool {
	return o != nil && s.orders[o.id] != nil && (s.allowed("read_all_orders") || s.cfg.Now().Sub(o.created) <= shopWindow)
}

// visible is the order as the app may see it: null outside the window.
func (s *Shopify) visible(o *shopOrder) any {
	if !s.sees(o) {
		return nil
	}
	return s.graph(o)
}
