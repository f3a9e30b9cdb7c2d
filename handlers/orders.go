package handlers

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/gin-gonic/gin"

	"counterfoil/models"
	"counterfoil/views"
	"counterfoil/views/locale"
	"counterfoil/web"
)

type orderReader interface {
	Orders(ctx context.Context, q models.OrderQuery) (models.Page[models.OrderRow], error)
	OrderFile(ctx context.Context, id int64) (models.OrderFile, error)
}

// A connectionNamer names the connections of shops (none: all), in order.
type connectionNamer interface{ Slugs(shops []int64) []string }

// A resyncer reads the official objects of one order again. Its result is same, moved,
// exception or unavailable.
type resyncer interface {
	Resync(ctx context.Context, actor models.Actor, order int64) (result string, err error)
	// Opened asks for an order that is looked at to be read again by itself, where that
	// is due, and tells whether it is being read.
	Opened(ctx context.Context, f models.OrderFile) (bool, error)
	// Find asks a connection's platform for what a person typed, and answers the order
	// that this led to (0: none).
	Find(ctx context.Context, actor models.Actor, slug, typed string) (result string, order int64, err error)
	// Askable lists the connections of the actor's shops whose platforms can be asked.
	Askable(actor models.Actor) []string
}

// Orders has the pages of orders.
type Orders struct {
	Book        orderReader
	Connections connectionNamer
	Reconcile   resyncer
}

func (h Orders) list(c *gin.Context) error {
	ctx, actor := c.Request.Context(), web.Actor(c)
	asked, err := query(c)
	if err != nil {
		return err
	}
	q, err := orderQuery(asked)
	if err != nil {
		return err
	}
	q.Shops = actor.Shops
	page, err := h.Book.Orders(ctx, q)
	if err != nil {
		return err
	}
	// A search with one answer is a way to that order.
	if q.Text != "" && q.Cursor == "" && page.Next == "" && len(page.Items) == 1 && len(asked) == 1 {
		return web.SeeOther(c, orderPath(page.Items[0].ID))
	}
	m := ordersModel(page, q, h.Connections.Slugs(actor.Shops))
	if q.Text != "" && q.Cursor == "" && len(page.Items) == 0 {
		m.Ask = askOffers(h.Reconcile.Askable(actor), actor)
	}
	return web.Render(c, http.StatusOK, views.Orders(web.Page(c, locale.T(ctx, "nav.orders"), "orders"), m))
}

// askOffers let a person ask the platforms for what a search didn't find.
func askOffers(slugs []string, actor models.Actor) []views.OfferModel {
	var list []views.OfferModel
	for _, slug := range slugs {
		list = append(list, views.OfferModel{Label: locale.Say("ask.platform_of", slug), Icon: "sync", Post: "/orders/ask", Page: slug, Refused: without(actor, models.OrdersResync)})
	}
	return list
}

// ask asks a platform for what a search didn't find.
func (h Orders) ask(c *gin.Context) error {
	slug, typed := c.PostForm("connection"), strings.TrimSpace(models.Half(c.PostForm("q")))
	if err := readable(url.Values{"connection": {slug}, "q": {typed}}); err != nil {
		return err
	}
	result, order, err := h.Reconcile.Find(c.Request.Context(), web.Actor(c), slug, typed)
	said := ""
	wrong, known := errors.AsType[*models.Error](err)
	switch {
	case err == nil && order != 0:
		web.Flash(c, "ask.found")
		return web.SeeOther(c, orderPath(order))
	case err == nil && result == "unavailable":
		said = "ask.unavailable"
	case err == nil, known && wrong.Key == "error.no_order_for_it":
		said = "ask.no_order"
	case known && wrong.Key == "error.platform_unknown_ref":
		said = "ask.nothing"
	case known && wrong.Code == models.Invalid:
		said = "ask.unreadable"
	default:
		return err
	}
	web.FlashBad(c, said, slug, typed)
	return web.SeeOther(c, "/orders?"+url.Values{"q": {typed}}.Encode())
}

func (h Orders) show(c *gin.Context) error {
	id, err := idParam(c)
	if err != nil {
		return err
	}
	ctx, actor := c.Request.Context(), web.Actor(c)
	f, err := h.Book.OrderFile(ctx, id)
	if err != nil {
		return err
	}
	if !actor.Sees(f.ShopID) {
		return models.Fail(models.NotFound, "error.not_found")
	}
	if f.ID != id { // a shell that became part of another order
		return web.SeeOther(c, orderPath(f.ID))
	}
	m := orderModel(f, actor, web.Now(c))
	reading, err := h.Reconcile.Opened(ctx, f)
	if err != nil {
		return err
	}
	m.Checking = m.Checking || reading
	return web.Render(c, http.StatusOK, views.OrderFile(web.Page(c, m.Name, "orders").WithoutPauses(), m))
}

func (h Orders) resync(c *gin.Context) error {
	id, err := idParam(c)
	if err != nil {
		return err
	}
	result, err := h.Reconcile.Resync(c.Request.Context(), web.Actor(c), id)
	if err != nil {
		return err
	}
	switch result {
	case "same", "moved":
		web.Flash(c, "resync."+result)
	default:
		web.FlashBad(c, "resync."+result)
	}
	if c.PostForm("to") == "outcome" { // where the button stood
		return web.SeeOther(c, orderPath(id)+"#outcome")
	}
	return web.SeeOther(c, orderPath(id))
}

func orderPath(id int64) string { return "/orders/" + strconv.FormatInt(id, 10) }

func idParam(c *gin.Context) (int64, error) {
	id, err := strconv.ParseInt(c.Param("id"), 10, 64)
	if err != nil || id <= 0 {
		return 0, models.Fail(models.NotFound, "error.not_found")
	}
	return id, nil
}

// orderQuery reads the filters of a list's address. A word that is no state is
// refused: a list that silently shows more than was asked for misleads.
func orderQuery(v url.Values) (models.OrderQuery, error) {
	if err := readable(v); err != nil {
		return models.OrderQuery{}, err
	}
	q := models.OrderQuery{
		Connection: v.Get("connection"), Shop: v.Get("shop"), Ref: v.Get("ref"), Text: strings.TrimSpace(models.Half(v.Get("q"))),
		Verification: models.Check(v.Get("verification")), Cursor: v.Get("cursor"), States: map[models.Axis]models.State{},
		Unresolved: v.Get("unresolved") == "true", Paused: v.Get("paused") == "true", Announced: v.Get("announced") == "true", Test: v.Get("test") == "true",
	}
	for _, a := range models.Axes {
		s := models.State(v.Get(string(a)))
		if s == "" {
			continue
		}
		if !a.Has(s) {
			return q, models.Fail(models.Invalid, "error.filter", string(s))
		}
		q.States[a] = s
	}
	if q.Verification != "" && !slices.Contains(models.Checks, q.Verification) {
		return q, models.Fail(models.Invalid, "error.filter", string(q.Verification))
	}
	return q, nil
}

// orderValues is the address of a query, without its cursor.
func orderValues(q models.OrderQuery) url.Values {
	v := url.Values{}
	set := func(name, value string) {
		if value != "" {
			v.Set(name, value)
		}
	}
	flag := func(name string, on bool) {
		if on {
			v.Set(name, "true")
		}
	}
	set("q", q.Text)
	set("ref", q.Ref)
	set("shop", q.Shop)
	set("connection", q.Connection)
	set("verification", string(q.Verification))
	for a, s := range q.States {
		set(string(a), string(s))
	}
	flag("unresolved", q.Unresolved)
	flag("paused", q.Paused)
	flag("announced", q.Announced)
	flag("test", q.Test)
	return v
}

// listPath is a list's address with its filters and a cursor; without a cursor that
// has a page behind it, empty.
func listPath(path string, v url.Values, cursor string) string {
	if cursor == "" {
		return ""
	}
	with := url.Values{"cursor": {cursor}}
	for name, values := range v {
		with[name] = values
	}
	return path + "?" + with.Encode()
}

// orderViews are the saved views of the list.
var orderViews = []struct {
	key   string
	query models.OrderQuery
}{
	{"orders.view.all", models.OrderQuery{}},
	{"orders.view.to_ship", models.OrderQuery{States: map[models.Axis]models.State{models.Payment: models.PaymentPaid, models.Fulfillment: models.FulfillmentUnfulfilled}}},
	{"orders.view.unresolved", models.OrderQuery{Unresolved: true}},
	{"orders.view.unverified", models.OrderQuery{Verification: models.Unverified}},
	{"orders.view.review", models.OrderQuery{Verification: models.ToReview}},
	{"orders.view.paused", models.OrderQuery{Paused: true}},
	{"orders.view.announced", models.OrderQuery{Announced: true}},
	{"orders.view.dispute", models.OrderQuery{States: map[models.Axis]models.State{models.Dispute: models.DisputeOpen}}},
}

// ordersModel works out the list of orders.
func ordersModel(page models.Page[models.OrderRow], q models.OrderQuery, slugs []string) views.OrdersModel {
	v := orderValues(q)
	m := views.OrdersModel{
		Query: q.Text, States: q.States, Check: q.Verification, Connection: q.Connection, Unresolved: q.Unresolved, Announced: q.Announced, Paused: q.Paused,
		Test: q.Test, Connections: slugs, Filtered: len(v) > 0, Newer: listPath("/orders", v, page.Prev), Older: listPath("/orders", v, page.Next),
	}
	for _, view := range orderViews {
		m.Views = append(m.Views, chip("/orders", view.key, orderValues(view.query), v))
	}
	for _, r := range page.Items {
		m.Rows = append(m.Rows, orderLine(r))
	}
	return m
}

// chip is a saved view; it is the current one where the address says the same.
func chip(path, key string, view, now url.Values) views.ChipModel {
	m := views.ChipModel{Label: locale.Say(key), Href: path, Current: view.Encode() == now.Encode()}
	if len(view) > 0 {
		m.Href += "?" + view.Encode()
	}
	return m
}

func orderLine(r models.OrderRow) views.OrderLine {
	l := views.OrderLine{
		ID: r.ID, Name: orderName(r.Order), Connection: r.Connection, ShopName: r.ShopName, Placed: r.Placed, Amounts: announcedAmounts(r.Order),
		Shown: r.Shown, Announced: r.Announced, Test: r.Test, Unresolved: r.Events + r.Exceptions, Urgent: r.Urgent,
	}
	if len(r.Holds) > 0 {
		l.Paused = views.HoldSaid(r.Holds[0])
	}
	if r.Announced {
		if r.Said != nil {
			l.Payment, l.Goods = r.Said.Axes[models.Payment].State, r.Said.Axes[models.Fulfillment].State
		}
		return l
	}
	l.Payment, l.Goods = r.State(models.Payment), r.State(models.Fulfillment)
	if l.Payment == models.PaymentPartiallyPaid {
		l.PaymentSub = locale.Say("order.sum", locale.Money{Minor: r.Received, Currency: r.Currency})
	}
	if l.Goods == models.FulfillmentPartial && r.Items.Ordered > 0 {
		l.GoodsSub = locale.Say("order.shipped", r.Items.Shipped, r.Items.Ordered)
	}
	for _, a := range []models.Axis{models.Dispute, models.Refund, models.Cancellation, models.Return} {
		if s := r.State(a); s != "" && s != models.Resting[a] {
			l.Others = append(l.Others, views.AxisState{Axis: a, State: s})
		}
	}
	return l
}

// query is what a list was asked for. A filter that can't be read would otherwise be
// left out without a word.
func query(c *gin.Context) (url.Values, error) {
	v, err := url.ParseQuery(c.Request.URL.RawQuery)
	if err != nil {
		return nil, models.Fail(models.Invalid, "error.query")
	}
	return v, nil
}

// readable refuses filters that no text of ours can contain.
func readable(v url.Values) error {
	for _, values := range v {
		for _, s := range values {
			if len(s) > 255 || !utf8.ValidString(s) || strings.ContainsRune(s, 0) {
				return models.Fail(models.Invalid, "error.text")
			}
		}
	}
	return nil
}
