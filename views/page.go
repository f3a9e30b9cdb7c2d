// Package views has the pages. A page gets a Page and a model of its own, both
// filled by handlers; views never query and never ask for the time.
package views

import (
	"context"
	"slices"
	"time"

	"counterfoil/models"
	"counterfoil/views/locale"
)

// A Page is what every page needs beside its own model.
type Page struct {
	Title   string // of the window; the product's name is added
	Current string // entry of the navigation: orders, events, connections, rules
	Actor   models.Actor
	Now     time.Time
	Zone    *time.Location
	Demo    bool    // the platforms are a sandbox
	Strips  []Strip // platforms that can't be asked, shown on every page
	Flash   *Flash  // what the last request did, shown once
	Query   string  // what was searched for
	Path    string  // of this page with its query, to come back to
	Needs   int     // exceptions that need people, a group being one
}

// May is the one question that a view asks about permissions.
func (p Page) May(perm models.Permission) bool { return p.Actor.May(perm) }

// SignedIn tells whether somebody is.
func (p Page) SignedIn() bool { return p.Actor.StaffID != 0 }

// A Strip says what concerns every page: that a platform can't be asked or limits our
// requests, or that a whole connection or shop is paused.
type Strip struct {
	Connection string // slug
	Platform   models.Platform
	State      models.APIState
	Since      time.Time
	Waiting    int64 // orders with an unprocessed event there
	// Hold is the pause, where the strip is about one.
	Hold *models.Hold
}

// WithoutPauses is a page that shows what is paused by itself.
func (p Page) WithoutPauses() Page {
	p.Strips = slices.DeleteFunc(slices.Clone(p.Strips), func(s Strip) bool { return s.Hold != nil })
	return p
}

// A Flash is a sentence about what was just done.
type Flash struct {
	Text locale.Text
	Bad  bool
}

// A LoginModel is what the sign-in page shows.
type LoginModel struct {
	Email string
	Next  string      // path to go to afterwards
	Error locale.Text // why it didn't work, empty at first
}

// An ErrorModel is what an error page shows.
type ErrorModel struct {
	Status  int         // 403, 404, 422, 500, 503
	Text    locale.Text // the sentence of the error; empty: that of the status
	Request string      // id to give to whoever looks into it
}

// entry is one line of the navigation.
type entry struct {
	name string // of the page and, below "nav.", of its word
	path string
	key  string // pressed after g
	need models.Permission
}

var navigation = [][]entry{
	{{"orders", "/orders", "o", models.OrdersRead}, {"exceptions", "/exceptions", "x", models.ExceptionsRead}, {"actions", "/actions", "a", models.ActionsRead}, {"events", "/events", "e", models.EventsRead}},
	{{"connections", "/connections", "c", models.ConnectionsRead}, {"policies", "/policies", "p", models.PoliciesRead}, {"rules", "/rules", "r", models.RulesRead}},
}

// refusal is the likely cause of a refused request. A connection of another shop has
// no name here.
func refusal(ctx context.Context, r models.Rejection) string {
	if r.Cause == "other_connection" && r.Detail == "" {
		return locale.T(ctx, "refusal.other_connection_elsewhere")
	}
	return locale.T(ctx, "refusal."+r.Cause, r.Detail)
}
