package casework_test

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"counterfoil/models"
	"counterfoil/models/casework"
	"counterfoil/models/store"
	"counterfoil/models/store/storetest"
)

// A floor is a console with two shops, a connection and an order in each.
type floor struct {
	*casework.Holds
	t     *testing.T
	shops [2]int64
	conns [2]int64
	order [2]int64
	now   time.Time
}

func newFloor(t *testing.T) *floor {
	t.Helper()
	f := &floor{t: t, now: time.Now().UTC().Truncate(time.Second)}
	s, err := store.Open(t.Context(), storetest.New(t), store.Options{AuditKey: []byte("audit"), Now: func() time.Time { return f.now }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	for _, who := range []models.Actor{support, other, lead, manager, admin, auditor, second, third, foreign, manager2} {
		if _, err := s.SQL().ExecContext(t.Context(), `INSERT INTO staff (id, email, name, role, lead, password) OVERRIDING SYSTEM VALUE VALUES ($1, lower($2) || '@shop.example', $2, $3, $4, 'x')`,
			who.StaffID, who.Name, who.Role, who.Lead); err != nil {
			t.Fatal(err)
		}
	}
	f.Holds = &casework.Holds{Store: s, Log: slog.New(slog.DiscardHandler)}
	err = s.Tx(t.Context(), func(tx *store.Tx) (err error) {
		for i, slug := range []string{"hk", "tw"} {
			if f.shops[i], err = tx.EnsureShop(t.Context(), slug, slug); err != nil {
				return err
			}
			if f.conns[i], err = tx.SaveConnection(t.Context(), store.ConnectionRow{Slug: slug, Platform: models.Shopify, Account: slug, ShopID: f.shops[i], Settings: "{}", APIState: models.APIUp}); err != nil {
				return err
			}
			if f.order[i], err = tx.AnnounceOrder(t.Context(), models.Order{ShopID: f.shops[i], ConnectionID: f.conns[i], Platform: models.Shopify, Account: slug, Ref: "1", Number: "#1"}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func (f *floor) subject(s models.HoldScope) int64 {
	return map[models.HoldScope]int64{models.HoldOrder: f.order[0], models.HoldConnection: f.conns[0], models.HoldShop: f.shops[0]}[s]
}

func (f *floor) scan(into any, query string) {
	f.t.Helper()
	if err := f.Store.SQL().QueryRowContext(f.t.Context(), query).Scan(into); err != nil {
		f.t.Fatal(query, err)
	}
}

func (f *floor) exec(query string) {
	f.t.Helper()
	if _, err := f.Store.SQL().ExecContext(f.t.Context(), query); err != nil {
		f.t.Fatal(query, err)
	}
}

var (
	support = models.Actor{StaffID: 1, Name: "Wing", Role: models.Support}
	other   = models.Actor{StaffID: 2, Name: "Ho", Role: models.Support}
	lead    = models.Actor{StaffID: 3, Name: "Ka", Role: models.Support, Lead: true}
	manager = models.Actor{StaffID: 4, Name: "Ng", Role: models.Manager}
	admin   = models.Actor{StaffID: 5, Name: "Ad", Role: models.Admin}
	auditor = models.Actor{StaffID: 6, Name: "Au", Role: models.Auditor}
	service = models.Actor{TokenID: 7, Name: "Robot", Role: models.Service, Scopes: []models.Scope{models.ScopeRead, models.ScopeWrite}}
)

// code is what came of it, "ok" where it worked.
func code(err error) string {
	if err == nil {
		return "ok"
	}
	if e, ok := errors.AsType[*models.Error](err); ok && e.Code == models.Invalid {
		for field := range e.Fields {
			return "invalid " + field
		}
	}
	return string(models.CodeOf(err))
}

func TestWhoMayPauseWhat(t *testing.T) {
	t.Parallel()
	f := newFloor(t)
	for _, c := range []struct {
		actor                             models.Actor
		order, connection, shop, fourHour string // the last: connection, with an end in four hours
	}{
		{support, "ok", "forbidden", "forbidden", "forbidden"},
		{lead, "ok", "invalid until", "invalid until", "ok"},
		{manager, "ok", "ok", "ok", "ok"},
		{admin, "ok", "invalid until", "invalid until", "ok"},
		{auditor, "forbidden", "forbidden", "forbidden", "forbidden"},
		{service, "forbidden", "forbidden", "forbidden", "forbidden"},
		{models.Actor{StaffID: 1, TokenID: 9, Role: models.Manager, Scopes: []models.Scope{models.ScopeRead}}, "forbidden", "forbidden", "forbidden", "forbidden"},
	} {
		try := func(p casework.Pause, want string) {
			t.Helper()
			p.Subject, p.Reason = f.subject(p.Scope), "because"
			_, err := f.Hold(t.Context(), c.actor, p)
			if got := code(err); got != want {
				t.Errorf("%s (lead %t) pauses %s until %s: %s, want %s", c.actor.Role, c.actor.Lead, p.Scope, p.Until, got, want)
			}
			f.exec(`UPDATE holds SET released_at = now()`)
		}
		try(casework.Pause{Scope: models.HoldOrder}, c.order)
		try(casework.Pause{Scope: models.HoldConnection}, c.connection)
		try(casework.Pause{Scope: models.HoldShop}, c.shop)
		try(casework.Pause{Scope: models.HoldConnection, Until: f.now.Add(4 * time.Hour)}, c.fourHour)
		elsewhere := c.actor
		elsewhere.Shops = f.shops[1:]
		if _, err := f.Hold(t.Context(), elsewhere, casework.Pause{Scope: models.HoldOrder, Subject: f.order[0], Reason: "x"}); models.CodeOf(err) != models.NotFound {
			t.Errorf("%s of another shop: %v", c.actor.Role, err)
		}
	}
}

func TestWhoMayResumeWhat(t *testing.T) {
	t.Parallel()
	f := newFloor(t)
	for _, c := range []struct {
		name    string
		scope   models.HoldScope
		setter  models.Actor
		after   time.Duration
		actor   models.Actor
		outcome string
	}{
		{"support, their own", models.HoldOrder, support, time.Hour, support, "ok"},
		{"support, their own, late", models.HoldOrder, support, time.Hour + time.Second, support, "forbidden"},
		{"support, another's", models.HoldOrder, support, 0, other, "forbidden"},
		{"support, a manager's", models.HoldOrder, manager, 0, support, "forbidden"},
		{"lead", models.HoldOrder, support, 48 * time.Hour, lead, "ok"},
		{"manager", models.HoldOrder, lead, 0, manager, "ok"},
		{"admin, their own", models.HoldOrder, admin, 0, admin, "forbidden"},
		{"auditor", models.HoldOrder, manager, 0, auditor, "forbidden"},
		{"service", models.HoldOrder, manager, 0, service, "forbidden"},
		{"lead, a connection", models.HoldConnection, manager, 0, lead, "forbidden"},
		{"admin, a shop", models.HoldShop, manager, 0, admin, "forbidden"},
		{"manager, a connection", models.HoldConnection, manager, 0, manager, "ok"},
		{"manager, a shop", models.HoldShop, manager, 0, manager, "ok"},
	} {
		if _, err := f.Hold(t.Context(), c.setter, casework.Pause{Scope: c.scope, Subject: f.subject(c.scope), Reason: "because"}); err != nil {
			t.Fatal(c.name, err)
		}
		f.now = f.now.Add(c.after)
		err := f.Release(t.Context(), c.actor, c.scope, f.subject(c.scope))
		if got := code(err); got != c.outcome {
			t.Errorf("%s: %s, want %s", c.name, got, c.outcome)
		}
		var open int
		f.scan(&open, `SELECT count(*) FROM holds WHERE released_at IS NULL`)
		if (open == 0) != (err == nil) {
			t.Errorf("%s: %v, but %d are open", c.name, err, open)
		}
		f.exec(`UPDATE holds SET released_at = now() WHERE released_at IS NULL`)
	}
	if err := f.Release(t.Context(), manager, models.HoldOrder, f.order[0]); models.CodeOf(err) != models.Conflict {
		t.Errorf("nothing is held: %v", err)
	}
	manager := manager
	manager.Shops = f.shops[1:]
	if err := f.Release(t.Context(), manager, models.HoldOrder, f.order[0]); models.CodeOf(err) != models.NotFound {
		t.Errorf("of another shop: %v", err)
	}
}

func TestWhatAPauseNeeds(t *testing.T) {
	t.Parallel()
	f := newFloor(t)
	in := func(d time.Duration) time.Time { return f.now.Add(d) }
	for name, c := range map[string]struct {
		actor models.Actor
		pause casework.Pause
		want  string
	}{
		"no reason":                        {support, casework.Pause{Reason: "  "}, "invalid reason"},
		"a long reason":                    {support, casework.Pause{Reason: strings.Repeat("字", 501)}, "invalid reason"},
		"several lines":                    {support, casework.Pause{Reason: "a\nb"}, "invalid reason"},
		"what can't be kept":               {support, casework.Pause{Reason: "a\x00b"}, "invalid reason"},
		"broken text":                      {support, casework.Pause{Reason: "a\xff"}, "invalid reason"},
		"an end in the past":               {support, casework.Pause{Reason: "x", Until: in(0)}, "invalid until"},
		"a lead for too long":              {lead, casework.Pause{Reason: "x", Scope: models.HoldShop, Until: in(4*time.Hour + time.Second)}, "invalid until"},
		"ends by itself, but when":         {manager, casework.Pause{Reason: "x", Resumes: true}, "invalid until"},
		"support, by itself, too late":     {support, casework.Pause{Reason: "x", Until: in(2 * time.Hour), Resumes: true}, "invalid resumes"},
		"a lead's connection, by itself":   {lead, casework.Pause{Reason: "x", Scope: models.HoldConnection, Until: in(time.Hour), Resumes: true}, "invalid resumes"},
		"an admin's order, by itself":      {admin, casework.Pause{Reason: "x", Until: in(time.Hour), Resumes: true}, "invalid resumes"},
		"support, by itself within 1 h":    {support, casework.Pause{Reason: "x", Until: in(time.Hour), Resumes: true}, "ok"},
		"a lead, by itself tomorrow":       {lead, casework.Pause{Reason: "x", Until: in(24 * time.Hour), Resumes: true}, "ok"},
		"500 characters":                   {support, casework.Pause{Reason: strings.Repeat("字", 500)}, "ok"},
		"an order that isn't there":        {support, casework.Pause{Reason: "x", Subject: 99}, "not_found"},
		"a connection that isn't there":    {manager, casework.Pause{Reason: "x", Scope: models.HoldConnection, Subject: 99}, "not_found"},
		"a manager's shop, without an end": {manager, casework.Pause{Reason: "x", Scope: models.HoldShop}, "ok"},
	} {
		if c.pause.Scope == "" {
			c.pause.Scope = models.HoldOrder
		}
		if c.pause.Subject == 0 {
			c.pause.Subject = f.subject(c.pause.Scope)
		}
		_, err := f.Hold(t.Context(), c.actor, c.pause)
		if got := code(err); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
		f.exec(`UPDATE holds SET released_at = now() WHERE released_at IS NULL`)
	}
}

func TestASecondPauseNamesTheFirst(t *testing.T) {
	t.Parallel()
	f := newFloor(t)
	pause := casework.Pause{Scope: models.HoldOrder, Subject: f.order[0], Reason: "two refunds for Mr. Chan"}
	if _, err := f.Hold(t.Context(), support, pause); err != nil {
		t.Fatal(err)
	}
	_, err := f.Hold(t.Context(), manager, pause)
	e, ok := errors.AsType[*models.Error](err)
	if !ok || e.Code != models.Conflict || e.Args[0] != "Wing" {
		t.Errorf("%v", err)
	}
	var n int
	f.scan(&n, `SELECT count(*) FROM holds`)
	if n != 1 {
		t.Errorf("%d holds", n)
	}
	if err := f.Release(t.Context(), manager, models.HoldOrder, f.order[0]); err != nil {
		t.Fatal(err)
	}
	var trail string
	f.scan(&trail, `SELECT string_agg(actor || ' ' || verb || ' ' || subject || ' ' || before || '>' || after, '; ' ORDER BY id) FROM audit`)
	want := fmt.Sprintf("staff:1 order.hold order:%d >hold 1; staff:4 order.release order:%d hold 1>", f.order[0], f.order[0])
	if trail != want {
		t.Errorf("audit %q, want %q", trail, want)
	}
}

func TestAPauseNamesWhatIsBeingSent(t *testing.T) {
	t.Parallel()
	f := newFloor(t)
	for i := range 2 {
		f.exec(fmt.Sprintf(`INSERT INTO actions (order_id, shop_id, kind, stage, state, official, planned_at) VALUES
    (%[1]d, %[2]d, 'fulfillment_instruction', 'order', 'sending', true, now()), (%[1]d, %[2]d, 'fulfillment_instruction', 'more:1', 'waiting', true, now()),
    (%[1]d, %[2]d, 'invoice', 'order', 'sending', true, now())`, f.order[i], f.shops[i]))
	}
	for _, scope := range models.HoldScopes {
		reach, err := f.Reach(t.Context(), manager, scope, f.subject(scope))
		if err != nil || reach != (casework.Reach{Waits: 1, Sending: 1}) {
			t.Errorf("%s: %+v, %v", scope, reach, err)
		}
		held, err := f.Hold(t.Context(), manager, casework.Pause{Scope: scope, Subject: f.subject(scope), Reason: "x"})
		if err != nil || len(held.Sending) != 1 || held.Sending[0].OrderName != "#1" || held.Sending[0].OrderID != f.order[0] || !held.Sending[0].Kind.HighRisk() {
			t.Errorf("%s: %+v, %v", scope, held, err)
		}
	}
}

func TestAPauseOfAShellReachesItsOrder(t *testing.T) {
	t.Parallel()
	f := newFloor(t)
	shell, order := f.order[0], f.order[1]
	hold := func(id int64) error {
		_, err := f.Hold(t.Context(), manager, casework.Pause{Scope: models.HoldOrder, Subject: id, Reason: "x"})
		return err
	}
	if err := hold(shell); err != nil {
		t.Fatal(err)
	}
	f.exec(fmt.Sprintf(`UPDATE orders SET merged_into = %d WHERE id = %d`, order, shell))
	for _, id := range []int64{shell, order} {
		if err := hold(id); models.CodeOf(err) != models.Conflict {
			t.Errorf("order %d isn't held: %v", id, err)
		}
	}
	if err := f.Release(t.Context(), manager, models.HoldOrder, shell); err != nil {
		t.Fatal(err)
	}
	if err := hold(shell); err != nil {
		t.Fatal(err)
	}
	var subject int64
	f.scan(&subject, `SELECT subject FROM holds WHERE released_at IS NULL`)
	if subject != order {
		t.Errorf("held is %d, not the order %d", subject, order)
	}
}

func TestAPauseAsksUnlessItWasToEnd(t *testing.T) {
	t.Parallel()
	f := newFloor(t)
	f.now = f.now.Add(-2 * time.Hour) // the database's clock is ahead of all ends
	for scope, resumes := range map[models.HoldScope]bool{models.HoldOrder: true, models.HoldConnection: false} {
		if _, err := f.Hold(t.Context(), manager, casework.Pause{Scope: scope, Subject: f.subject(scope), Reason: "x", Until: f.now.Add(time.Hour), Resumes: resumes}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := f.Hold(t.Context(), manager, casework.Pause{Scope: models.HoldShop, Subject: f.shops[0], Reason: "x", Until: f.now.Add(72 * time.Hour), Resumes: true}); err != nil {
		t.Fatal(err)
	}
	// Several processes look at once.
	done := make(chan error, 3)
	for range cap(done) {
		go func() { done <- f.End(t.Context()) }()
	}
	for range cap(done) {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	var open, trail string
	f.scan(&open, `SELECT string_agg(scope, ' ' ORDER BY scope) FROM holds WHERE released_at IS NULL`)
	f.scan(&trail, `SELECT string_agg(actor || ' ' || verb, '; ') FROM audit WHERE verb LIKE '%.release'`)
	if open != "connection shop" || trail != "console order.release" {
		t.Errorf("still held: %s; audit: %s", open, trail)
	}
	holds, err := f.Store.HoldsReaching(t.Context(), f.order[0], f.shops[0], f.conns[:1])
	if err != nil || len(holds) != 2 || !holds[0].Asks(f.Store.Now().Add(time.Hour)) && !holds[1].Asks(f.Store.Now().Add(time.Hour)) {
		t.Errorf("%+v, %v", holds, err)
	}
}
