package shopify

import (
	"fmt"
	"strings"
)

// A field is one line of a query: its name, the type it belongs to, how many
// elements are asked for and what of each.
type field struct {
	on    string // type that has the field, as the platform names it in errors
	name  string
	first int
	conn  bool // a connection, read through nodes
	sub   []field
}

func scalars(on, names string) []field {
	var fs []field
	for _, n := range strings.Fields(names) {
		fs = append(fs, field{on: on, name: n})
	}
	return fs
}

// money is a MoneyBag in the shop's own currency.
func money(on, name string) field {
	return field{on: on, name: name, sub: []field{{on: "MoneyBag", name: "shopMoney", sub: scalars("MoneyV2", "amount currencyCode")}}}
}

// A shape is a way to read orders: its fields, and what one order costs by
// Shopify's published rules (an object 1, a connection 2 and its page).
type shape struct {
	name   string
	order  []field
	points int
	sizes  map[string]int // how many elements of each list are asked for
	detail bool           // pieces of returns are asked for
}

const (
	mostPoints = 1000 // of one query
	mostIDs    = 250
	// A page of the list costs half of that, so that walking it needs waits of two
	// seconds at most where a shop gets 100 points back each second.
	pagePoints = 500
)

// fullShape reads nearly every order whole. An order with longer lists, or with a
// return, is read again in the wide shape, which takes one order at a time.
func fullShape() *shape {
	return newShape("full", map[string]int{"transactions": 5, "refunds": 3, "fulfillments": 4, "fulfillmentOrders": 4, "returns": 3}, false)
}

func wideShape() *shape {
	return newShape("wide", map[string]int{"transactions": 100, "refunds": 40, "fulfillments": 40, "fulfillmentOrders": 30, "returns": 10}, true)
}

// newShape asks for no data of customers.
func newShape(name string, sizes map[string]int, detail bool) *shape {
	ret := scalars("Return", "id name status createdAt closedAt totalQuantity")
	if detail {
		ret = append(ret, field{on: "Return", name: "returnLineItems", first: 20, conn: true, sub: scalars("ReturnLineItemType", "processedQuantity")})
	}
	s := &shape{name: name, sizes: sizes, detail: detail}
	s.order = append(scalars("Order", `id legacyResourceId name test createdAt updatedAt cancelledAt cancelReason
		displayFinancialStatus displayFulfillmentStatus returnStatus subtotalLineItemsQuantity currentSubtotalLineItemsQuantity paymentGatewayNames sourceName`),
		money("Order", "totalPriceSet"), money("Order", "totalReceivedSet"), money("Order", "totalRefundedSet"), money("Order", "totalOutstandingSet"),
		field{on: "Order", name: "transactions", first: sizes["transactions"],
			sub: append(scalars("OrderTransaction", "id kind status createdAt processedAt"), money("OrderTransaction", "amountSet"))},
		field{on: "Order", name: "refunds", first: sizes["refunds"],
			sub: append(scalars("Refund", "id createdAt"), money("Refund", "totalRefundedSet"))},
		field{on: "Order", name: "fulfillments", first: sizes["fulfillments"],
			sub: append(scalars("Fulfillment", "id status createdAt totalQuantity"),
				field{on: "Fulfillment", name: "trackingInfo", first: 1, sub: scalars("FulfillmentTrackingInfo", "company number")})},
		field{on: "Order", name: "fulfillmentOrders", first: sizes["fulfillmentOrders"], conn: true, sub: scalars("FulfillmentOrder", "id status requestStatus")},
		field{on: "Order", name: "returns", first: sizes["returns"], conn: true, sub: ret},
		field{on: "Order", name: "disputes", sub: scalars("OrderDisputeSummary", "id status")},
	)
	s.points = 1 + cost(s.order)
	return s
}

// fits is how many orders one query may ask for.
func (s *shape) fits() int { return max(1, min(mostPoints/s.points, mostIDs)) }

// cost estimates what fields cost beyond the object that has them.
func cost(fs []field) int {
	sum := 0
	for _, f := range fs {
		switch {
		case len(f.sub) == 0:
		case f.conn:
			sum += 2 + f.first*(1+cost(f.sub))
		default:
			sum += max(1, f.first) * (1 + cost(f.sub))
		}
	}
	return sum
}

// write renders fields without those whose path is in gone.
func write(b *strings.Builder, fs []field, path string, gone map[string]bool) {
	for _, f := range fs {
		p := f.name
		if path != "" {
			p = path + "." + f.name
		}
		if gone[p] {
			continue
		}
		if len(f.sub) == 0 {
			b.WriteString(f.name + " ")
			continue
		}
		var sub strings.Builder
		write(&sub, f.sub, p, gone)
		if sub.Len() == 0 {
			continue
		}
		b.WriteString(f.name)
		if f.first > 0 {
			fmt.Fprintf(b, "(first: %d)", f.first)
		}
		if f.conn {
			b.WriteString(" { nodes { " + sub.String() + "} } ")
		} else {
			b.WriteString(" { " + sub.String() + "} ")
		}
	}
}

// find lists the paths of a field of a type.
func find(fs []field, path, on, name string) []string {
	var out []string
	for _, f := range fs {
		p := strings.TrimPrefix(path+"."+f.name, ".")
		if f.on == on && f.name == name {
			out = append(out, p)
		}
		out = append(out, find(f.sub, p, on, name)...)
	}
	return out
}

func (s *shape) fields(gone map[string]bool) string {
	var b strings.Builder
	write(&b, s.order, "", gone)
	return strings.TrimSpace(b.String())
}

// byID reads orders by their ids.
func (s *shape) byID(gone map[string]bool) string {
	return "query Orders($ids: [ID!]!) { nodes(ids: $ids) { ... on Order { " + s.fields(gone) + " } } }"
}

const listHead = "query Changed($first: Int!, $after: String, $query: String) { orders(first: $first, after: $after, sortKey: UPDATED_AT, query: $query) { nodes { "
const listTail = " } pageInfo { hasNextPage endCursor } } }"

// list reads orders page by page.
func (s *shape) list(gone map[string]bool) string { return listHead + s.fields(gone) + listTail }

const (
	// listIDs lists orders by name only.
	listIDs = listHead + "id" + listTail
	// resolveQuery leads from what notifications can name to its order.
	resolveQuery = "query Resolve($ids: [ID!]!) { nodes(ids: $ids) { ... on Return { id order { id } } ... on FulfillmentOrder { id orderId } } }"
	accessQuery  = "query Access { shop { myshopifyDomain } currentAppInstallation { accessScopes { handle } } publicApiVersions { handle supported } }"
)
