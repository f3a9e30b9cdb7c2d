package casework_test

import (
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"counterfoil/models"
	"counterfoil/models/actions"
	"counterfoil/models/casework"
	"counterfoil/models/seal"
)

const liveSecret = "whsec_c2luay1zZWNyZXQ="

// lives are the requests of a floor.
func (f *floor) lives() *casework.Lives {
	f.t.Helper()
	keys, err := seal.Parse(seal.New())
	if err != nil {
		f.t.Fatal(err)
	}
	return &casework.Lives{Store: f.Store, Keys: keys, Log: slog.New(slog.DiscardHandler)}
}

func (f *floor) seen(kind models.ActionKind) string {
	f.t.Helper()
	d, err := f.Store.Destination(f.t.Context(), f.shops[0], kind)
	if err != nil {
		f.t.Fatal(err)
	}
	return d.Seen()
}

// wish asks to send invoices of the first shop to an address.
func (f *floor) wish() casework.LiveProposal {
	return casework.LiveProposal{Reason: "the warehouse is ready", Seen: f.seen(models.Invoice),
		Setup: actions.Setup{Shop: "hk", Kind: models.Invoice, Mode: models.ByHTTP, URL: "https://x.example/in", Idempotent: true, Hosts: []string{"x.example"}, Secret: liveSecret}}
}

func (f *floor) propose(s *casework.Lives, who models.Actor, p casework.LiveProposal) int64 {
	f.t.Helper()
	id, err := s.Propose(f.t.Context(), who, p)
	if err != nil {
		f.t.Fatal(err)
	}
	return id
}

// standing is where invoices go, and how the newest request stands.
func (f *floor) standing() string {
	f.t.Helper()
	var mode, state string
	f.scan(&mode, `SELECT COALESCE((SELECT mode FROM destinations WHERE kind = 'invoice'), 'none')`)
	f.scan(&state, `SELECT COALESCE((SELECT state FROM requests ORDER BY id DESC LIMIT 1), 'none')`)
	return mode + " " + state
}

var (
	manager2 = models.Actor{StaffID: 14, Name: "Chang", Role: models.Manager}
	admin2   = models.Actor{StaffID: 15, Name: "Lee", Role: models.Admin}
)

func TestWhoMakesAKindLive(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		by, decides      models.Actor
		approve, standAs string
	}{
		"a manager and an administrator":  {manager, admin, "ok", "http applied"},
		"an administrator and a manager":  {admin, manager, "ok", "http applied"},
		"a manager alone":                 {manager, manager, "forbidden", "none proposed"},
		"an administrator alone":          {admin, admin, "forbidden", "none proposed"},
		"two managers":                    {manager, manager2, "forbidden", "none proposed"},
		"two administrators":              {admin, admin2, "forbidden", "none proposed"},
		"a manager and support":           {manager, support, "forbidden", "none proposed"},
		"a manager and a lead":            {manager, lead, "forbidden", "none proposed"},
		"a manager and an auditor":        {manager, auditor, "forbidden", "none proposed"},
		"a manager and a service":         {manager, service, "forbidden", "none proposed"},
		"a manager who became an admin":   {manager, models.Actor{StaffID: manager.StaffID, Name: "Ng", Role: models.Admin}, "forbidden", "none proposed"},
		"a token of an administrator":     {manager, models.Actor{StaffID: 5, TokenID: 3, Role: models.Admin, Scopes: []models.Scope{models.ScopeApprove}}, "ok", "http applied"},
		"a token that only writes":        {manager, models.Actor{StaffID: 5, TokenID: 3, Role: models.Admin, Scopes: []models.Scope{models.ScopeWrite}}, "forbidden", "none proposed"},
		"the proposer's own token":        {manager, models.Actor{StaffID: manager.StaffID, TokenID: 3, Role: models.Manager, Scopes: []models.Scope{models.ScopeApprove}}, "forbidden", "none proposed"},
		"an administrator of another one": {manager, models.Actor{StaffID: 5, Role: models.Admin, Shops: []int64{999}}, "not_found", "none proposed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFloor(t)
			s := f.lives()
			id := f.propose(s, c.by, f.wish())
			_, err := s.Reject(t.Context(), c.decides, id, "no")
			if got := code(err); got != c.approve {
				t.Errorf("rejecting: %s %v", got, err)
			}
			if c.approve == "ok" {
				id = f.propose(s, c.by, f.wish())
			}
			_, err = s.Approve(t.Context(), c.decides, id)
			if got := code(err); got != c.approve {
				t.Errorf("approving: %s %v", got, err)
			}
			if got := f.standing(); got != c.standAs {
				t.Errorf("it is %s", got)
			}
			if c.approve != "ok" {
				return
			}
			var approvals int
			f.scan(&approvals, fmt.Sprintf(`SELECT count(*) FROM approvals WHERE request_id = %d AND actor = '%s' AND role = '%s'`, id, c.decides.ID(), c.decides.Role))
			if approvals != 1 {
				t.Errorf("%d approvals", approvals)
			}
			if _, err := s.Approve(t.Context(), c.decides, id); code(err) != "conflict" {
				t.Errorf("approved twice: %v", err)
			}
		})
	}
}

func TestWhoMayAskForAKindToBeLive(t *testing.T) {
	t.Parallel()
	f := newFloor(t)
	s := f.lives()
	for _, c := range []struct {
		actor models.Actor
		want  string
	}{{support, "forbidden"}, {lead, "forbidden"}, {auditor, "forbidden"}, {service, "forbidden"}, {manager, "ok"}, {admin, "ok"},
		{models.Actor{StaffID: 9, Role: models.Manager, Shops: []int64{f.shops[1]}}, "not_found"}} {
		_, err := s.Propose(t.Context(), c.actor, f.wish())
		if got := code(err); got != c.want {
			t.Errorf("%s asks: %s %v", c.actor.Role, got, err)
		}
		f.exec(`UPDATE requests SET state = 'withdrawn' WHERE state = 'proposed'`)
	}
}

func TestWhatCantBeAskedFor(t *testing.T) {
	t.Parallel()
	f := newFloor(t)
	s := f.lives()
	for name, c := range map[string]struct {
		change func(p *casework.LiveProposal)
		want   string
	}{
		"another scheme":     {func(p *casework.LiveProposal) { p.URL = "ftp://x.example" }, "invalid url"},
		"a file":             {func(p *casework.LiveProposal) { p.URL = "file:///etc/passwd" }, "invalid url"},
		"a user":             {func(p *casework.LiveProposal) { p.URL = "https://a:b@x.example" }, "invalid url"},
		"a fragment":         {func(p *casework.LiveProposal) { p.URL = "https://x.example/#a" }, "invalid url"},
		"no host":            {func(p *casework.LiveProposal) { p.URL = "https:///in" }, "invalid url"},
		"no address":         {func(p *casework.LiveProposal) { p.URL = "" }, "invalid url"},
		"an endless address": {func(p *casework.LiveProposal) { p.URL += strings.Repeat("a", 2000) }, "invalid url"},
		"a host with a path": {func(p *casework.LiveProposal) { p.Hosts = []string{"x/y"} }, "invalid hosts"},
		"a bad secret":       {func(p *casework.LiveProposal) { p.Secret = "whsec_%" }, "invalid secret"},
		"no secret":          {func(p *casework.LiveProposal) { p.Secret = "" }, "invalid secret"},
		"no reason":          {func(p *casework.LiveProposal) { p.Reason = " " }, "invalid reason"},
		"two lines":          {func(p *casework.LiveProposal) { p.Reason = "a\nb" }, "invalid reason"},
		"watching":           {func(p *casework.LiveProposal) { p.Mode = models.Watch }, "invalid mode"},
		"nothing":            {func(p *casework.LiveProposal) { p.Mode = "" }, "invalid mode"},
		"no such kind":       {func(p *casework.LiveProposal) { p.Kind = "gift" }, "invalid kind"},
		"no such shop":       {func(p *casework.LiveProposal) { p.Shop = "sg" }, "not_found"},
		"what isn't there":   {func(p *casework.LiveProposal) { p.Seen = "other" }, "conflict"},
	} {
		p := f.wish()
		c.change(&p)
		if _, err := s.Propose(t.Context(), manager, p); code(err) != c.want {
			t.Errorf("%s: %s %v", name, code(err), err)
		}
	}
	if got := f.standing(); got != "none none" {
		t.Errorf("it is %s", got)
	}
	// An address typed beside "by hand" is none.
	p := f.wish()
	p.Mode = models.ByHand
	id := f.propose(s, manager, p)
	if _, err := s.Propose(t.Context(), admin, f.wish()); code(err) != "conflict" {
		t.Errorf("a second request beside the first: %v", err)
	}
	l, err := s.Approve(t.Context(), admin, id)
	if err != nil || l.URL != "" || len(l.Hosts) != 0 || l.NewSecret {
		t.Errorf("%+v %v", l, err)
	}
	if got := f.standing(); got != "manual applied" {
		t.Errorf("it is %s", got)
	}
}

func TestWhatWasChangedMeanwhileIsOver(t *testing.T) {
	t.Parallel()
	f := newFloor(t)
	s := f.lives()
	id := f.propose(s, manager, f.wish())
	if err := actions.SetDestination(t.Context(), f.Store, s.Keys, "console", actions.Setup{Shop: "hk", Kind: models.Invoice, Mode: models.ByHand}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Approve(t.Context(), admin, id); code(err) != "conflict" {
		t.Errorf("approved: %v", err)
	}
	if got := f.standing(); got != "manual stale" {
		t.Errorf("it is %s", got)
	}
	// Stopped, and then asked to go on by who hasn't seen that.
	p := f.wish()
	if err := s.Stop(t.Context(), admin, "hk", models.Invoice); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Propose(t.Context(), manager, p); code(err) != "conflict" {
		t.Errorf("asked by an old form: %v", err)
	}
	id = f.propose(s, manager, f.wish())
	f.now = f.now.Add(models.LiveFor)
	if _, err := s.Approve(t.Context(), admin, id); code(err) != "conflict" {
		t.Errorf("approved a day later: %v", err)
	}
	if got := f.standing(); got != "watch expired" {
		t.Errorf("it is %s", got)
	}
	// One that is over, and that nobody has closed yet, is in nobody's way.
	f.propose(s, manager, f.wish())
	f.now = f.now.Add(models.LiveFor)
	f.propose(s, admin, f.wish())
	f.now = f.now.Add(models.LiveFor)
	if err := (&casework.Requests{Store: s.Store, Log: s.Log}).Expire(t.Context()); err != nil {
		t.Fatal(err)
	}
	var open int
	f.scan(&open, `SELECT count(*) FROM requests WHERE state = 'proposed'`)
	if open != 0 {
		t.Errorf("%d are still open", open)
	}
}

func TestWithdrawingAndStopping(t *testing.T) {
	t.Parallel()
	f := newFloor(t)
	s := f.lives()
	id := f.propose(s, manager, f.wish())
	for _, who := range []models.Actor{admin, manager2, support} {
		if _, err := s.Withdraw(t.Context(), who, id); code(err) != "forbidden" {
			t.Errorf("%s withdraws another's: %v", who.Name, err)
		}
	}
	if _, err := s.Withdraw(t.Context(), manager, id); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Approve(t.Context(), admin, id); code(err) != "conflict" {
		t.Errorf("approved what was withdrawn: %v", err)
	}
	if _, err := s.Approve(t.Context(), admin, 999); code(err) != "not_found" {
		t.Errorf("approved what isn't there: %v", err)
	}
	if err := s.Stop(t.Context(), admin, "hk", models.Invoice); code(err) != "conflict" {
		t.Errorf("stopped what wasn't live: %v", err)
	}
	for _, who := range []models.Actor{manager, admin} {
		id := f.propose(s, manager, f.wish())
		if _, err := s.Approve(t.Context(), admin, id); err != nil {
			t.Fatal(err)
		}
		if err := s.Stop(t.Context(), support, "hk", models.Invoice); code(err) != "forbidden" {
			t.Errorf("support stops: %v", err)
		}
		if err := s.Stop(t.Context(), who, "hk", models.Invoice); err != nil || f.standing() != "watch applied" {
			t.Errorf("%s stops: %v, it is %s", who.Role, err, f.standing())
		}
	}
	// The secret that was approved once may stay.
	p := f.wish()
	p.Secret = ""
	if _, err := s.Approve(t.Context(), admin, f.propose(s, manager, p)); err != nil || f.standing() != "http applied" {
		t.Errorf("%v, it is %s", err, f.standing())
	}
	var told int
	f.scan(&told, `SELECT count(*) FROM audit WHERE before || after || subject LIKE '%`+liveSecret+`%' OR before || after LIKE '%warehouse is ready%'`)
	if told != 0 {
		t.Errorf("%d audit rows tell a secret or what people typed", told)
	}
	f.scan(&told, `SELECT count(*) FROM requests WHERE terms LIKE '%c2lua%' OR position('sink-secret'::bytea IN secret) > 0 OR secret IS NOT NULL AND state <> 'proposed'`)
	if told != 0 {
		t.Errorf("%d requests tell or keep a secret", told)
	}
	var verbs string
	f.scan(&verbs, `SELECT string_agg(DISTINCT verb, ' ' ORDER BY verb) FROM audit`)
	if verbs != "destination.set request.approve request.propose request.withdraw" {
		t.Errorf("audited are %s", verbs)
	}
}

// Whoever comes at the same time, one decision is made, and it is the one that counts.
func TestDecisionsAtOnce(t *testing.T) {
	t.Parallel()
	f := newFloor(t)
	s := f.lives()
	for round := range 10 {
		id := f.propose(s, manager, f.wish())
		results := make([]string, 5)
		var all sync.WaitGroup
		start := make(chan struct{})
		for i, do := range []func() error{
			func() error { _, err := s.Approve(t.Context(), admin, id); return err },
			func() error { _, err := s.Approve(t.Context(), admin2, id); return err },
			func() error { _, err := s.Reject(t.Context(), admin2, id, "no"); return err },
			func() error { _, err := s.Withdraw(t.Context(), manager, id); return err },
			func() error {
				return actions.SetDestination(t.Context(), f.Store, s.Keys, "console", actions.Setup{Shop: "hk", Kind: models.StockDeduction, Mode: models.ByHand})
			},
		} {
			all.Go(func() {
				<-start
				results[i] = code(do())
			})
		}
		close(start)
		all.Wait()
		won := strings.Count(strings.Join(results[:4], " "), "ok")
		if won != 1 || results[4] != "ok" {
			t.Fatalf("round %d: %v", round, results)
		}
		var applied, set int
		f.scan(&applied, fmt.Sprintf(`SELECT count(*) FROM approvals WHERE request_id = %d`, id))
		f.scan(&set, `SELECT count(*) FROM destinations WHERE kind = 'invoice' AND mode = 'http'`)
		if want := strings.Count(strings.Join(results[:2], " "), "ok"); applied != want || set != want {
			t.Errorf("round %d: %v, %d approvals, %d destinations", round, results, applied, set)
		}
		f.exec(`DELETE FROM destinations WHERE kind = 'invoice'`)
	}
}

func TestRulesAreSavedByManagersWhoSawThem(t *testing.T) {
	t.Parallel()
	f := newFloor(t)
	p := &casework.Policies{Store: f.Store}
	read := func(who models.Actor) models.PolicyFile {
		t.Helper()
		file, err := p.File(t.Context(), who, "hk")
		if err != nil {
			t.Fatal(err)
		}
		return file
	}
	off := models.RulesOf([]models.ActionRule{{Occasion: models.OnPaid, Kind: models.Invoice}})
	seen := read(manager)
	for _, c := range []struct {
		actor models.Actor
		want  string
	}{{support, "forbidden"}, {lead, "forbidden"}, {admin, "forbidden"}, {auditor, "forbidden"}, {service, "forbidden"},
		{models.Actor{StaffID: 9, Role: models.Manager, Shops: []int64{f.shops[1]}}, "not_found"}, {manager, "ok"}, {manager2, "conflict"}} {
		if err := p.SetRules(t.Context(), c.actor, "hk", seen.Rules.Version(), off); code(err) != c.want {
			t.Errorf("%s %s saves: %v", c.actor.Role, c.actor.Name, err)
		}
	}
	now := read(auditor)
	if now.Rules.Version() != off.Version() || len(now.Changes) != 1 || now.SavedBy != manager.Name || now.Saved.IsZero() {
		t.Errorf("%+v", now)
	}
	if other, err := p.File(t.Context(), manager, "tw"); err != nil || other.Rules.Version() != seen.Rules.Version() {
		t.Errorf("another shop: %v", err)
	}
	if _, err := p.File(t.Context(), models.Actor{StaffID: 9, Role: models.Manager, Shops: []int64{f.shops[1]}}, "hk"); code(err) != "not_found" {
		t.Errorf("a shop of others: %v", err)
	}
	// The same once more is nothing that happened.
	if err := p.SetRules(t.Context(), manager, "hk", off.Version(), off); err != nil {
		t.Error(err)
	}
	for wait, want := range map[time.Duration]string{-time.Second: "invalid paid/invoice", models.LongestWait + time.Second: "invalid paid/invoice", time.Millisecond: "invalid paid/invoice", models.LongestWait: "ok"} {
		late := models.RulesOf([]models.ActionRule{{Occasion: models.OnPaid, Kind: models.Invoice, Wait: wait}})
		if err := p.SetRules(t.Context(), manager, "hk", read(manager).Rules.Version(), late); code(err) != want {
			t.Errorf("a wait of %s: %v", wait, err)
		}
	}
	if err := p.SetRules(t.Context(), manager, "hk", read(manager).Rules.Version(), models.RulesOf(nil)); err != nil {
		t.Error(err)
	}
	var trail string
	f.scan(&trail, `SELECT string_agg(before || ' > ' || after, '; ' ORDER BY id) FROM audit WHERE verb = 'rules.set' AND subject = 'shop:`+fmt.Sprint(f.shops[0])+`'`)
	if trail != "paid/invoice=on > paid/invoice=off; paid/invoice=off > paid/invoice=off,720h0m0s; paid/invoice=off,720h0m0s > paid/invoice=on" {
		t.Errorf("audited %s", trail)
	}
	if none, err := p.File(t.Context(), models.Actor{StaffID: 9, Role: models.Manager, Shops: []int64{999}}, ""); err != nil || none.Slug != "" {
		t.Errorf("without a shop: %+v %v", none, err)
	}
}
