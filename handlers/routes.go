// Package handlers has the pages and the table of routes. Handlers only translate:
// they read the request, ask one service and choose the view.
package handlers

import (
	"fmt"
	"net/http"

	"github.com/gin-gonic/gin"

	"counterfoil/handlers/api"
	"counterfoil/models"
	"counterfoil/web"
)

// Doors are all handlers behind the table of routes.
type Doors struct {
	Login       Login
	Orders      Orders
	Events      Events
	Rules       Rules
	Connections Connections
	Holds       Holds
	Links       Links
	Checks      Checks
	Policies    Policies
	Actions     Actions
	Explain     Explain
	Sweeps      Sweeps
	Exceptions  Exceptions
	API         api.API
	Machine     Machine
}

// A route says what a request does and which permission it needs. There is no
// default: what is open to everybody says models.Public.
type route struct {
	method, path string
	needs        models.Permission
	do           web.HandlerFunc
}

const (
	get  = http.MethodGet
	post = http.MethodPost
)

// pages are for people; nobody is sent to sign in.
func (d Doors) pages() []route {
	return []route{
		{get, "/", models.Public, func(c *gin.Context) error { return web.SeeOther(c, home) }},
		{get, "/login", models.Public, d.Login.page},
		{post, "/login", models.Public, d.Login.signIn},
		{post, "/logout", models.SignedIn, d.Login.signOut},
		{get, "/orders", models.OrdersRead, d.Orders.list},
		{post, "/orders/ask", models.OrdersResync, d.Orders.ask},
		{get, "/orders/:id", models.OrdersRead, d.Orders.show},
		{post, "/orders/:id/resync", models.OrdersResync, d.Orders.resync},
		{get, "/orders/:id/explain", models.OrdersExplain, d.Explain.form},
		{post, "/orders/:id/explain", models.OrdersExplain, d.Explain.explain},
		{get, "/orders/:id/hold", models.OrdersHold, d.Holds.form(Holds.order)},
		{post, "/orders/:id/hold", models.OrdersHold, d.Holds.hold(Holds.order)},
		{post, "/orders/:id/release", models.OrdersRelease, d.Holds.release(Holds.order)},
		{get, "/orders/:id/replacement", models.ActionsRequest, d.Actions.replacementForm},
		{post, "/orders/:id/replacement", models.ActionsRequest, d.Actions.replace},
		{get, "/exceptions", models.ExceptionsRead, d.Exceptions.list},
		{get, "/exceptions/resync", models.ExceptionsRead, d.Exceptions.many},
		{post, "/exceptions/resync", models.OrdersResync, d.Exceptions.resyncMany},
		{get, "/exceptions/:id", models.ExceptionsRead, d.Exceptions.show},
		{post, "/exceptions/:id/resync", models.OrdersResync, d.Exceptions.resync},
		{post, "/exceptions/:id/take", models.ExceptionsWork, d.Exceptions.act("take", "case_done.take", takeCase)},
		{post, "/exceptions/:id/assign", models.ExceptionsWork, d.Exceptions.act("assign", "case_done.assign", assignCase)},
		{post, "/exceptions/:id/back", models.ExceptionsWork, d.Exceptions.act("back", "case_done.back", giveCaseBack)},
		{post, "/exceptions/:id/note", models.ExceptionsWork, d.Exceptions.act("note", "case_done.note", noteCase)},
		{post, "/exceptions/:id/told", models.ExceptionsWork, d.Exceptions.act("told", "case_done.told", tellCase)},
		{post, "/exceptions/:id/close", models.ExceptionsWork, d.Exceptions.act("close", "case_done.close", solveCase)},
		{post, "/exceptions/:id/dismiss", models.ExceptionsWork, d.Exceptions.act("dismiss", "case_done.dismiss", dismissCase)},
		{post, "/exceptions/:id/accept", models.ExceptionsAccept, d.Exceptions.act("accept", "case_done.accept", acceptCase)},
		{get, "/actions", models.ActionsRead, d.Actions.list},
		{get, "/actions/:id", models.ActionsRead, d.Actions.show},
		{post, "/actions/:id/receipt", models.ActionsReceipt, d.Actions.receipt},
		{post, "/actions/:id/retry", models.ActionsRetry, d.Actions.retry},
		{post, "/actions/:id/release", models.ActionsRequest, d.Actions.ask(models.RequestRelease)},
		{post, "/actions/:id/again", models.ActionsRequest, d.Actions.ask(models.RequestAgain)},
		{get, "/requests/:id", models.ActionsRead, d.Actions.request},
		{post, "/requests/:id/approve", models.ActionsDecide, d.Actions.decide(true)},
		{post, "/requests/:id/reject", models.ActionsDecide, d.Actions.decide(false)},
		{post, "/requests/:id/withdraw", models.ActionsRequest, d.Actions.withdraw},
		{get, "/events", models.EventsRead, d.Events.list},
		{get, "/events/:id", models.EventsRead, d.Events.show},
		{get, "/rules", models.RulesRead, d.Rules.show},
		{get, "/policies", models.PoliciesRead, d.Policies.show},
		{post, "/policies/:slug/rules", models.PoliciesEdit, d.Policies.setRules},
		{get, "/policies/:slug/case", models.PoliciesEdit, d.Policies.caseForm},
		{post, "/policies/:slug/case", models.PoliciesEdit, d.Policies.setCase},
		{get, "/policies/:slug/live/:kind", models.ActionsLive, d.Policies.liveForm},
		{post, "/policies/:slug/live/:kind", models.ActionsLive, d.Policies.propose},
		{post, "/policies/:slug/live/:kind/approve", models.ActionsLive, d.Policies.approve},
		{post, "/policies/:slug/live/:kind/reject", models.ActionsLive, d.Policies.reject},
		{post, "/policies/:slug/live/:kind/withdraw", models.ActionsLive, d.Policies.withdraw},
		{post, "/policies/:slug/live/:kind/stop", models.ActionsLive, d.Policies.stop},
		{get, "/connections", models.ConnectionsRead, d.Connections.list},
		{get, "/connections/:slug/hold", models.ConnectionsHold, d.Holds.form(Holds.connection)},
		{post, "/connections/:slug/hold", models.ConnectionsHold, d.Holds.hold(Holds.connection)},
		{post, "/connections/:slug/release", models.ConnectionsRelease, d.Holds.release(Holds.connection)},
		{get, "/connections/:slug/links", models.ConnectionsFind, d.Links.show},
		{post, "/connections/:slug/links", models.ConnectionsFind, d.Links.read},
		{post, "/connections/:slug/links/use", models.ConnectionsEdit, d.Links.use},
		{get, "/connections/:slug/sweeps", models.ConnectionsRead, d.Sweeps.show},
		{post, "/connections/:slug/sweeps", models.SweepsRun, d.Sweeps.ask},
		{post, "/connections/:slug/sweeps/:id/stop", models.SweepsRun, d.Sweeps.stop},
		{get, "/connections/:slug/check", models.ConnectionsRead, d.Checks.show},
		{post, "/connections/:slug/check", models.ConnectionsCheck, d.Checks.check},
		{post, "/connections/:slug/canaries", models.ConnectionsCheck, d.Checks.addCanary},
		{post, "/connections/:slug/canaries/:id", models.ConnectionsCheck, d.Checks.changeCanary},
		{get, "/connections/:slug/notifications", models.ConnectionsRead, d.Checks.notifications},
		{post, "/connections/:slug/notifications", models.ConnectionsNotify, d.Checks.register},
		{get, "/shops/:slug/hold", models.ConnectionsHold, d.Holds.form(Holds.shop)},
		{post, "/shops/:slug/hold", models.ConnectionsHold, d.Holds.hold(Holds.shop)},
		{post, "/shops/:slug/release", models.ConnectionsRelease, d.Holds.release(Holds.shop)},
	}
}

// programs ask with a bearer token.
func (d Doors) programs() []route {
	return []route{
		{get, "/api/v1/orders", models.OrdersRead, d.API.Orders},
		{get, "/api/v1/orders/:id", models.OrdersRead, d.API.Order},
		{post, "/api/v1/orders/:id/resync", models.OrdersResync, d.API.ResyncOrder},
		{post, "/api/v1/orders/:id/hold", models.OrdersHold, d.API.HoldOrder},
		{post, "/api/v1/orders/:id/release", models.OrdersRelease, d.API.ReleaseOrder},
		{get, "/api/v1/events", models.EventsRead, d.API.Events},
		{get, "/api/v1/events/:id", models.EventsRead, d.API.Event},
		{get, "/api/v1/actions", models.ActionsRead, d.API.ListActions},
		{post, "/api/v1/actions/:id/receipt", models.ActionsReceipt, d.API.Receipt},
		{post, "/api/v1/actions/:id/release", models.ActionsRequest, d.API.ReleaseAction},
		{post, "/api/v1/actions/:id/again", models.ActionsRequest, d.API.RepeatAction},
		{post, "/api/v1/actions/:id/retry", models.ActionsRetry, d.API.RetryAction},
		{post, "/api/v1/orders/:id/replacement", models.ActionsRequest, d.API.ReplaceOrder},
		{get, "/api/v1/requests", models.ActionsRead, d.API.ListRequests},
		{post, "/api/v1/requests/:id/approve", models.ActionsDecide, d.API.ApproveRequest},
		{post, "/api/v1/requests/:id/reject", models.ActionsDecide, d.API.RejectRequest},
		{post, "/api/v1/requests/:id/withdraw", models.ActionsRequest, d.API.WithdrawRequest},
		{get, "/api/v1/exceptions", models.ExceptionsRead, d.API.Exceptions},
		{get, "/api/v1/exceptions/:id", models.ExceptionsRead, d.API.Exception},
		{post, "/api/v1/exceptions/:id/resync", models.OrdersResync, d.API.ResyncException},
		{post, "/api/v1/exceptions/:id/close", models.ExceptionsWork, d.API.CloseException},
		{post, "/api/v1/exceptions/:id/dismiss", models.ExceptionsWork, d.API.DismissException},
		{post, "/api/v1/exceptions/:id/accept", models.ExceptionsAccept, d.API.AcceptException},
		{get, "/api/v1/connections", models.ConnectionsRead, d.API.Connections},
		{post, "/api/v1/connections/:slug/resync", models.OrdersResync, d.API.ResyncRef},
		{get, "/api/v1/connections/:slug/sweeps", models.ConnectionsRead, d.API.Sweeps},
		{post, "/api/v1/connections/:slug/sweeps", models.SweepsRun, d.API.Sweep},
	}
}

// machines ask without a session. /metrics looks at who asks by itself: this machine,
// or a token that may read figures.
func (d Doors) machines() []route {
	return []route{
		{get, "/healthz", models.Public, d.Machine.healthz},
		{get, "/readyz", models.Public, d.Machine.readyz},
		{get, "/metrics", models.Public, d.Machine.metrics},
		{get, "/static/*path", models.Public, d.Machine.static},
	}
}

// Mount gives an engine its routes. It panics on a route that states no permission,
// which is a mistake in the tables above.
func Mount(e *web.Engine, d Doors) { mount(e, d.pages(), d.programs(), d.machines()) }

func mount(e *web.Engine, pages, programs, machines []route) {
	for _, r := range pages {
		e.Page(r.method, r.path, r.stated(), r.do)
	}
	for _, r := range programs {
		e.API(r.method, r.path, r.stated(), r.do)
	}
	for _, r := range machines {
		if r.stated() != models.Public {
			panic(fmt.Sprintf("handlers: %s %s: nobody is known there, so it can't need %s", r.method, r.path, r.needs))
		}
		e.Open(r.method, r.path, r.do)
	}
}

func (r route) stated() models.Permission {
	if r.needs == "" {
		panic(fmt.Sprintf("handlers: %s %s states no permission", r.method, r.path))
	}
	return r.needs
}
