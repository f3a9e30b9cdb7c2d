package shopify

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"counterfoil/models"
	"counterfoil/models/platform"
)

// longestID bounds the ids of deliveries and acts; Shopify's are UUIDs.
const longestID = 200

// about lists the topics that are about orders; what begins like one of elsewhere isn't.
var (
	about = []string{
		"orders/create", "orders/paid", "orders/updated", "orders/cancelled", "orders/fulfilled", "orders/partially_fulfilled",
		"orders/edited", "orders/delete", "orders/risk_assessment_changed", "orders/shopify_protect_eligibility_changed",
		"refunds/create", "order_transactions/create", "fulfillments/create", "fulfillments/update",
		"fulfillment_events/create", "fulfillment_events/delete", "disputes/create", "disputes/update",
		"returns/request", "returns/approve", "returns/decline", "returns/cancel", "returns/close", "returns/reopen",
		"returns/update", "returns/process",
	}
	aboutPrefixes = []string{"fulfillment_orders/"}
	elsewhere     = []string{
		"app/", "app_purchases_one_time/", "app_subscriptions/", "audit_events/", "bulk_operations/", "carts/create", "carts/update", "channels/", "checkouts/",
		"collection_listings/", "collection_publications/", "collections/", "companies/", "company_contact_roles/",
		"company_contacts/", "company_locations/", "customer_account_settings/", "customer_groups/", "customer_payment_methods/",
		"customer_tags/", "customers/", "customers_email_marketing_consent/", "customers_marketing_consent/", "discounts/", "domains/",
		"draft_orders/", "finance_app_staff_member/", "inventory_items/", "inventory_levels/", "inventory_shipments/",
		"inventory_transfers/", "locales/", "locations/", "markets/", "markets_backup_region/", "metafield_definitions/",
		"metaobjects/", "payment_schedules/", "payment_terms/", "product_feeds/", "product_listings/", "product_publications/",
		"products/", "profiles/", "publications/", "scheduled_product_listings/", "segments/", "selling_plan_groups/", "shop/",
		"subscription_billing_attempts/", "subscription_billing_cycle_edits/", "subscription_billing_cycles/",
		"subscription_contracts/", "tax_partners/", "tax_services/", "tax_summaries/", "themes/", "variants/",
	}
)

// A body is every shape of notification about orders at once.
type body struct {
	ID   leaf `json:"id"`
	GID  leaf `json:"admin_graphql_api_id"`
	Name leaf `json:"name"`
	Test leaf `json:"test"`

	OrderID  leaf `json:"order_id"`
	OrderGID leaf `json:"admin_graphql_api_order_id"`
	Order    struct {
		ID  leaf `json:"id"`
		GID leaf `json:"admin_graphql_api_id"`
	} `json:"order"`
	Edit struct {
		OrderID   leaf `json:"order_id"`
		Created   leaf `json:"created_at"`
		Committed leaf `json:"committed_at"`
	} `json:"order_edit"`

	Created   leaf `json:"created_at"`
	Processed leaf `json:"processed_at"`
	Updated   leaf `json:"updated_at"`
	Cancelled leaf `json:"cancelled_at"`
	Reason    leaf `json:"cancel_reason"`

	Financial    leaf              `json:"financial_status"`
	Fulfillment  leaf              `json:"fulfillment_status"`
	Currency     leaf              `json:"currency"`
	Total        leaf              `json:"total_price"`
	Current      leaf              `json:"current_total_price"`
	Outstanding  leaf              `json:"total_outstanding"`
	Gateways     list[leaf]        `json:"payment_gateway_names"`
	Source       leaf              `json:"source_name"`
	Lines        list[restLine]    `json:"line_items"`
	Refunds      list[restRefund]  `json:"refunds"`
	Fulfillments list[restShipped] `json:"fulfillments"`
	Returns      list[restReturn]  `json:"returns"`

	// Of a transaction, a refund, a shipment, a return or a dispute alone.
	Transactions list[restMoved] `json:"transactions"`
	Kind         leaf            `json:"kind"`
	Status       leaf            `json:"status"`
	Amount       leaf            `json:"amount"`
	Tracking     leaf            `json:"tracking_number"`
	Carrier      leaf            `json:"tracking_company"`
}

type restLine struct {
	Quantity leaf `json:"quantity"`
	Current  leaf `json:"current_quantity"` // without what was removed
}

type restMoved struct {
	ID        leaf `json:"id"`
	GID       leaf `json:"admin_graphql_api_id"`
	Kind      leaf `json:"kind"`
	Status    leaf `json:"status"`
	Amount    leaf `json:"amount"`
	Currency  leaf `json:"currency"`
	Created   leaf `json:"created_at"`
	Processed leaf `json:"processed_at"`
}

type restRefund struct {
	ID           leaf            `json:"id"`
	GID          leaf            `json:"admin_graphql_api_id"`
	Created      leaf            `json:"created_at"`
	Transactions list[restMoved] `json:"transactions"`
}

type restShipped struct {
	ID       leaf           `json:"id"`
	GID      leaf           `json:"admin_graphql_api_id"`
	Status   leaf           `json:"status"`
	Created  leaf           `json:"created_at"`
	Tracking leaf           `json:"tracking_number"`
	Carrier  leaf           `json:"tracking_company"`
	Lines    list[restLine] `json:"line_items"`
}

type restReturn struct {
	ID     leaf `json:"id"`
	GID    leaf `json:"admin_graphql_api_id"`
	Status leaf `json:"status"`
}

// Parse reads what a notification is about and what it reports. The body decides;
// the topic helps only where a body has nothing but an id.
func (a *Adapter) Parse(r platform.Request, now time.Time) models.Notice {
	n := models.Notice{
		EventID: r.Header.Get("X-Shopify-Webhook-Id"),
		Act:     printable(r.Header.Get("X-Shopify-Event-Id"), longestID),
		Topic:   printable(r.Header.Get("X-Shopify-Topic"), 100),
		Content: sha256.Sum256(r.Body),
	}
	n.Anonymous = n.EventID == "" || len(n.EventID) > longestID
	if n.Anonymous {
		n.EventID = printable(n.EventID, longestID)
	}

	var b body
	err := json.Unmarshal(r.Body, &b)
	_, surprise := errors.AsType[*json.UnmarshalTypeError](err) // the rest is read nonetheless
	readable := err == nil || surprise
	if n.Topic == "" {
		n.Topic = b.likelyTopic()
	}
	notAboutOrders := within(n.Topic, elsewhere)
	if readable {
		n.Object = a.object(b, n.Topic, notAboutOrders)
		if n.Object.Zero() && !notAboutOrders {
			n.Object = a.fulfillmentOrder(r.Body)
		}
	}
	n.Known = readable && (notAboutOrders || !n.Object.Zero() && (slices.Contains(about, n.Topic) || within(n.Topic, aboutPrefixes)))
	n.Test = b.Test.yes() || n.Object.ID == orderGID(adminTestID)
	if b.isOrder(n.Topic) {
		if b.full() {
			n.Floor = b.Updated.stamp()
		}
		if _, id := splitGID(b.GID.raw); id != "" && b.ID.digits() != "" && id != b.ID.digits() {
			n.Conflict = "id"
		}
	}
	n.Occurred = b.occurred()
	if n.Occurred.IsZero() {
		if t, err := time.Parse(time.RFC3339Nano, r.Header.Get("X-Shopify-Triggered-At")); err == nil {
			n.Occurred = t.UTC()
		}
	}
	if n.Object.Kind == KindOrder || n.Object.Kind == KindReturn {
		n.Said = a.said(b, n, now)
	}
	return n
}

func within(topic string, prefixes []string) bool {
	return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(topic, p) })
}

// isOrder tells whether the body is an order itself, not something about one. Old
// bodies have no GID; one with nothing but an id is an order by its topic.
func (b body) isOrder(topic string) bool {
	if typ, _ := splitGID(b.GID.raw); typ != "" {
		return typ == "Order"
	}
	if b.ID.digits() == "" || b.OrderID.digits() != "" || b.OrderGID.raw != "" || b.Edit.OrderID.kind != absent {
		return false
	}
	return b.Financial.kind != absent || strings.HasPrefix(topic, "orders/")
}

// full tells whether the body states an order, rather than naming it.
func (b body) full() bool {
	return b.Financial.kind != absent || b.Total.kind != absent && b.Currency.kind != absent
}

// object is the order where the body names one, else a return.
func (a *Adapter) object(b body, topic string, notAboutOrders bool) models.ObjectRef {
	typ, gid := splitGID(b.GID.raw)
	if b.isOrder(topic) && (!notAboutOrders || b.full()) {
		if gid != "" {
			return a.order(gid)
		}
		return a.order(b.ID.digits())
	}
	if notAboutOrders {
		return models.ObjectRef{}
	}
	for _, l := range []leaf{b.OrderGID, b.Order.GID} {
		if typ, id := splitGID(l.raw); typ == "Order" {
			return a.order(id)
		}
	}
	for _, l := range []leaf{b.OrderID, b.Order.ID, b.Edit.OrderID} {
		if id := l.digits(); id != "" {
			return a.order(id)
		}
	}
	switch {
	case typ == "Return":
	case typ == "" && strings.HasPrefix(topic, "returns/"):
		gid = b.ID.digits()
	default:
		gid = ""
	}
	if gid == "" {
		return models.ObjectRef{}
	}
	return models.ObjectRef{Account: a.cfg.Account, Kind: KindReturn, ID: gidPrefix + "Return/" + gid}
}

// fulfillmentOrder looks through a body that has only GIDs of fulfillment orders,
// under a name that depends on the topic.
func (a *Adapter) fulfillmentOrder(raw []byte) models.ObjectRef {
	var parts map[string]json.RawMessage
	_ = json.Unmarshal(raw, &parts)
	names := []string{"fulfillment_order", "original_fulfillment_order"}
	rest := []string{}
	for name := range parts {
		rest = append(rest, name)
	}
	slices.Sort(rest)
	for _, name := range append(names, rest...) {
		var o struct {
			ID leaf `json:"id"`
		}
		if p := parts[name]; len(p) == 0 || p[0] != '{' || json.Unmarshal(p, &o) != nil {
			continue
		}
		if typ, id := splitGID(o.ID.raw); typ == "FulfillmentOrder" {
			return models.ObjectRef{Account: a.cfg.Account, Kind: KindFulfillmentOrder, ID: gidPrefix + "FulfillmentOrder/" + id}
		}
	}
	return models.ObjectRef{}
}

// likelyTopic names what the body looks like where the header is missing.
func (b body) likelyTopic() string {
	typ, _ := splitGID(b.GID.raw)
	switch {
	case b.isOrder(""):
		return "orders/updated"
	case b.Edit.OrderID.kind != absent:
		return "orders/edited"
	case typ == "Refund":
		return "refunds/create"
	case typ == "Fulfillment":
		return "fulfillments/update"
	case typ == "OrderTransaction":
		return "order_transactions/create"
	case typ == "Return":
		return "returns/update"
	}
	return "unknown"
}

// occurred is the body's own best time.
func (b body) occurred() time.Time {
	for _, l := range []leaf{b.Updated, b.Edit.Committed, b.Processed, b.Edit.Created, b.Created} {
		if t := l.stamp(); !t.IsZero() {
			return t
		}
	}
	return time.Time{}
}
