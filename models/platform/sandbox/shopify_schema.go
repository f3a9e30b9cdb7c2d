package sandbox

import "strings"

// shopifySchema is the part of the Admin API's schema that the sandbox answers.
type shopifySchema map[string]map[string]schemaField

type schemaField struct {
	typ   string // empty: a plain value
	list  bool
	conn  bool
	may   bool   // may be null: an error stays with the field and doesn't take its object along
	scope string // that reading it needs; alternatives with |
}

// newShopifySchema reads the table: name, name:Type, name:[Type], name:<Type> for a
// connection; ? may be null, @ a scope of its own.
func newShopifySchema() shopifySchema {
	warehouse := "read_merchant_managed_fulfillment_orders|read_assigned_fulfillment_orders|read_third_party_fulfillment_orders"
	table := map[string]string{
		"Query": `nodes:[Node]? node:Node? order:Order?@read_orders return:Return?@read_returns fulfillmentOrder:FulfillmentOrder?@` + warehouse + `
			orders:<Order>@read_orders shop:Shop currentAppInstallation:App? publicApiVersions:[ApiVersion]
			ordersCount:Count?@read_orders webhookSubscriptions:<WebhookSubscription>`,
		"Mutation": `webhookSubscriptionCreate:WebhookSubscriptionPayload? webhookSubscriptionUpdate:WebhookSubscriptionPayload?
			webhookSubscriptionDelete:WebhookSubscriptionPayload?`,
		"WebhookSubscriptionPayload": "webhookSubscription:WebhookSubscription? deletedWebhookSubscriptionId userErrors:[UserError]",
		"WebhookSubscription":        "id topic uri format apiVersion:ApiVersion createdAt updatedAt filter",
		"UserError":                  "field message",
		"Count":                      "count precision",
		"Node":                       "id",
		"Order": `id legacyResourceId name number test confirmed edited createdAt processedAt updatedAt closed closedAt cancelledAt cancelReason
			currencyCode presentmentCurrencyCode displayFinancialStatus displayFulfillmentStatus returnStatus fullyPaid unpaid sourceName
			paymentGatewayNames subtotalLineItemsQuantity currentSubtotalLineItemsQuantity
			totalPriceSet:MoneyBag currentTotalPriceSet:MoneyBag totalReceivedSet:MoneyBag totalRefundedSet:MoneyBag netPaymentSet:MoneyBag
			totalOutstandingSet:MoneyBag transactions:[OrderTransaction] refunds:[Refund] fulfillments:[Fulfillment]
			fulfillmentOrders:<FulfillmentOrder>@` + warehouse + ` returns:<Return>@read_returns
			disputes:[OrderDisputeSummary]@read_shopify_payments_disputes`,
		"MoneyBag":                "shopMoney:MoneyV2 presentmentMoney:MoneyV2",
		"MoneyV2":                 "amount currencyCode",
		"OrderTransaction":        "id kind status gateway createdAt processedAt amountSet:MoneyBag",
		"Refund":                  "id createdAt processedAt updatedAt totalRefundedSet:MoneyBag transactions:<OrderTransaction>",
		"Fulfillment":             "id name status displayStatus createdAt updatedAt totalQuantity trackingInfo:[FulfillmentTrackingInfo]",
		"FulfillmentTrackingInfo": "company number url",
		"FulfillmentOrder":        "id status requestStatus orderId orderName order:Order?",
		"Return":                  "id name status createdAt closedAt totalQuantity order:Order? returnLineItems:<ReturnLineItemType>",
		"ReturnLineItemType":      "id quantity processedQuantity",
		"OrderDisputeSummary":     "id status initiatedAs",
		"Shop":                    "id name myshopifyDomain currencyCode",
		"App":                     "id accessScopes:[AccessScope]",
		"AccessScope":             "handle description",
		"ApiVersion":              "handle supported displayName",
		"PageInfo":                "hasNextPage hasPreviousPage startCursor endCursor",
	}
	s := shopifySchema{}
	for typ, line := range table {
		s[typ] = map[string]schemaField{}
		for _, word := range strings.Fields(line) {
			var f schemaField
			word, f.scope, _ = strings.Cut(word, "@")
			word, f.may = strings.CutSuffix(word, "?")
			name, of, _ := strings.Cut(word, ":")
			f.list, f.conn = strings.HasPrefix(of, "["), strings.HasPrefix(of, "<")
			f.typ = strings.Trim(of, "[]<>")
			s[typ][name] = f
		}
	}
	return s
}
