package store_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"counterfoil/models"
	"counterfoil/models/store"
)

func (b *bench) rules() models.ActionRules {
	b.t.Helper()
	rules, err := b.ActionRules(b.t.Context(), b.shop)
	if err != nil {
		b.t.Fatal(err)
	}
	return rules
}

func (b *bench) setRules(by string, rules models.ActionRules) {
	b.t.Helper()
	b.inTx(func(tx *store.Tx) error { return tx.SetActionRules(b.t.Context(), b.shop, rules, by) })
}

func TestOnlyWhatDiffersFromTheDefaultsIsKept(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	if b.rules().Version() != models.RulesOf(nil).Version() {
		t.Error("a new shop has other rules than the product")
	}
	b.must(`INSERT INTO staff (email, name, role, password) VALUES ('ng@x.example', 'Ng', 'manager', '')`)
	ng := "staff:" + one[string](b, `SELECT id::text FROM staff`)
	invoiceOff := models.ActionRule{Occasion: models.OnPaid, Kind: models.Invoice}
	late := models.ActionRule{Occasion: models.OnRefunded, Kind: models.CustomerMessage, Active: true, Wait: 90 * time.Minute}
	first := models.RulesOf([]models.ActionRule{invoiceOff, late})
	b.setRules(ng, first)
	if b.rules().Version() != first.Version() || one[int](b, `SELECT count(*) FROM action_rules`) != 2 {
		t.Errorf("kept %v", b.rules())
	}
	// Who decided a rule stays named when another one decides something else.
	b.setRules("staff:999", models.RulesOf([]models.ActionRule{invoiceOff}))
	changes, err := b.RuleChanges(t.Context(), b.shop)
	if err != nil || len(changes) != 1 || changes[0].Name != "Ng" || changes[0].ActionRule != invoiceOff || changes[0].At.IsZero() {
		t.Errorf("%+v %v", changes, err)
	}
	b.setRules("staff:999", models.RulesOf([]models.ActionRule{{Occasion: models.OnPaid, Kind: models.Invoice, Wait: time.Hour}}))
	if changes, err = b.RuleChanges(t.Context(), b.shop); err != nil || len(changes) != 1 || changes[0].Name != "staff:999" {
		t.Errorf("%+v %v", changes, err)
	}
	b.setRules(ng, models.RulesOf(nil))
	if changes, err = b.RuleChanges(t.Context(), b.shop); err != nil || len(changes) != 0 || b.rules().Version() != models.RulesOf(nil).Version() {
		t.Errorf("the product's own rules are %+v %v", changes, err)
	}
	name, at, err := b.RulesSaved(t.Context(), b.shop)
	if err != nil || name != "" || !at.IsZero() {
		t.Errorf("saved by %q %s %v", name, at, err)
	}
}

// Whoever switches a rule back to the product's own leaves when that was; waiting longer
// switches nothing.
func TestRulesKeepWhenTheyWereSwitched(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	invoice := models.ActionRule{Occasion: models.OnPaid, Kind: models.Invoice}
	switches := func() string {
		t.Helper()
		list, err := b.RuleSwitches(t.Context(), b.shop)
		if err != nil {
			t.Fatal(err)
		}
		var out []string
		for _, s := range list {
			if s.At.IsZero() {
				t.Errorf("%+v", s)
			}
			out = append(out, models.ActionRules{s.ActionRule}.String())
		}
		return strings.Join(out, " ")
	}
	moment := func() time.Time {
		return one[time.Time](b, `SELECT switched_at FROM action_rules WHERE kind = 'invoice'`)
	}
	for _, c := range []struct {
		decided []models.ActionRule
		want    string
	}{
		{nil, ""},
		{[]models.ActionRule{{Occasion: models.OnRefunded, Kind: models.CustomerMessage, Active: true, Wait: time.Hour}}, ""},
		{[]models.ActionRule{invoice}, "paid/invoice=off"},
		{nil, "paid/invoice=on"},
	} {
		b.setRules("staff:1", models.RulesOf(c.decided))
		if got := switches(); got != c.want {
			t.Errorf("after %v: %q, want %q", c.decided, got, c.want)
		}
	}
	was := moment()
	invoice.Active, invoice.Wait = true, time.Hour
	b.setRules("staff:1", models.RulesOf([]models.ActionRule{invoice}))
	if got := switches(); got != "paid/invoice=on,1h0m0s" || !moment().Equal(was) {
		t.Errorf("a longer wait: %q, switched at %s, was %s", got, moment(), was)
	}
}

func TestActionsKeepTheirOccasion(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	order := b.order("o-1")
	b.plan(order, models.Plan{Kind: models.FulfillmentInstruction, Stage: models.WholeOrder, Occasion: models.OnAuthorized},
		models.Plan{Kind: models.Invoice, Stage: models.WholeOrder, Occasion: models.OnPaid, Wait: time.Hour})
	b.plan(order, models.Plan{Kind: models.FulfillmentInstruction, Stage: models.WholeOrder, Occasion: models.OnPaid})
	list, err := b.ActionsOf(t.Context(), order)
	if err != nil || len(list) != 2 {
		t.Fatalf("%+v %v", list, err)
	}
	if list[1].Occasion != models.OnAuthorized || list[0].Occasion != models.OnPaid {
		t.Errorf("%+v", list)
	}
	if wait := list[0].NotBefore.Sub(list[0].Planned); wait != time.Hour {
		t.Errorf("waits %s", wait)
	}
	counts, err := b.WatchedSince(t.Context(), b.shop, time.Now().Add(-time.Minute), 1)
	if err != nil || counts[models.FulfillmentInstruction] != (models.ActionCount{N: 1}) || counts[models.Invoice] != (models.ActionCount{N: 1}) || len(counts) != 2 {
		t.Errorf("watched %v %v", counts, err)
	}
	b.plan(order, models.Plan{Kind: models.Invoice, Stage: "more:1", Occasion: models.OnPaid})
	if counts, err = b.WatchedSince(t.Context(), b.shop, time.Now().Add(-time.Minute), 1); err != nil || counts[models.Invoice] != (models.ActionCount{N: 1, More: true}) {
		t.Errorf("two of a kind, counted to one: %v %v", counts, err)
	}
	b.must(`UPDATE actions SET planned_at = now() - interval '8 days' WHERE kind = 'invoice'`, `UPDATE actions SET state = 'done' WHERE kind <> 'invoice'`)
	if counts, err = b.WatchedSince(t.Context(), b.shop, time.Now().Add(-7*24*time.Hour), 1); err != nil || len(counts) != 0 {
		t.Errorf("watched %v %v", counts, err)
	}
}

func TestShopNames(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.must(`INSERT INTO shops (slug, name) VALUES ('aa', '')`)
	all, err := b.ShopNames(t.Context(), nil)
	if err != nil || len(all) != 2 || all[0].Name != "aa" || all[1].Name != "Hong Kong" {
		t.Errorf("%+v %v", all, err)
	}
	if mine, err := b.ShopNames(t.Context(), []int64{b.shop}); err != nil || len(mine) != 1 || mine[0].Slug != "hk" {
		t.Errorf("%+v %v", mine, err)
	}
}

func TestRequestsToMakeAKindLive(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ng := models.Actor{StaffID: 4, Name: "Ng", Role: models.Manager}
	ad := models.Actor{StaffID: 5, Name: "Ad", Role: models.Admin}
	ask := func() int64 {
		t.Helper()
		var id int64
		b.inTx(func(tx *store.Tx) (err error) {
			id, err = tx.InsertLive(t.Context(), store.NewLive{Shop: b.shop, Kind: models.Invoice, Reason: "go", Seen: "seen", Secret: []byte("sealed"), Actor: ng,
				Terms: models.LiveTerms{Mode: models.ByHTTP, URL: "https://x.example", Hosts: []string{"a"}, NewSecret: true}})
			return err
		})
		return id
	}
	id := ask()
	l, err := b.Live(t.Context(), id)
	if err != nil || l.URL != "https://x.example" || l.Hosts[0] != "a" || l.ByRole != models.Manager || l.By != "staff:4" || l.Shop != "hk" || l.Expires.Sub(l.At) != models.LiveFor {
		t.Errorf("%+v %v", l, err)
	}
	if strings.Contains(l.Terms, "sealed") || strings.Contains(l.Terms, "secret\":\"") {
		t.Errorf("the terms tell the secret: %s", l.Terms)
	}
	again := b.Tx(t.Context(), func(tx *store.Tx) error {
		_, err := tx.InsertLive(t.Context(), store.NewLive{Shop: b.shop, Kind: models.Invoice, Reason: "go", Actor: ad})
		return err
	})
	if again == nil {
		t.Error("a second request for the same kind is open")
	}
	if open, err := b.OpenLives(t.Context(), b.shop, time.Now()); err != nil || len(open) != 1 {
		t.Errorf("%d are open, %v", len(open), err)
	}
	if open, err := b.OpenLives(t.Context(), b.shop, time.Now().Add(models.LiveFor)); err != nil || len(open) != 0 {
		t.Errorf("%d are open a day later, %v", len(open), err)
	}
	// The schema itself refuses what the services never try.
	for name, do := range map[string]func(tx *store.Tx) error{
		"an approval of one's own": func(tx *store.Tx) error {
			return tx.Approve(t.Context(), l.Request, models.Approval{By: ng.ID(), Name: ng.Name, Role: ng.Role})
		},
		"nobody's approval": func(tx *store.Tx) error {
			return tx.EndRequest(t.Context(), id, store.Decision{State: models.RequestApplied, By: ad.ID(), Name: "Ad"})
		},
		"a decision of one's own": func(tx *store.Tx) error {
			return tx.EndRequest(t.Context(), id, store.Decision{State: models.RequestRejected, By: ng.ID(), Name: "Ng"})
		},
	} {
		if err := b.Tx(t.Context(), do); sqlState(err) != notAllowed {
			t.Errorf("%s: %v", name, err)
		}
	}
	b.inTx(func(tx *store.Tx) error {
		locked, secret, err := tx.LockLive(t.Context(), id)
		if err != nil || string(secret) != "sealed" {
			t.Errorf("%q %v", secret, err)
		}
		if err := tx.Approve(t.Context(), locked.Request, models.Approval{By: ad.ID(), Name: ad.Name, Role: ad.Role}); err != nil {
			return err
		}
		return tx.EndRequest(t.Context(), id, store.Decision{State: models.RequestApplied, By: ad.ID(), Name: ad.Name})
	})
	if n := one[int](b, `SELECT count(*) FROM requests WHERE state = 'applied' AND secret IS NULL AND decider_name = 'Ad'`); n != 1 {
		t.Error("the secret stays with a request that is over")
	}
	if err := b.Tx(t.Context(), func(tx *store.Tx) error {
		return tx.EndRequest(t.Context(), id, store.Decision{State: models.RequestRejected, By: "staff:6"})
	}); models.CodeOf(err) != models.Conflict {
		t.Errorf("decided twice: %v", err)
	}
	if err := b.run(fmt.Sprintf(`UPDATE requests SET state = 'rejected', decided_by = 'staff:6' WHERE id = %d`, id)); sqlState(err) != notAllowed {
		t.Errorf("decided twice in the schema: %v", err)
	}
	ask() // a closed one is in nobody's way
}

func TestADestinationIsSeenAsAWhole(t *testing.T) {
	t.Parallel()
	base := store.DestinationRow{Destination: models.Destination{Kind: models.Invoice, Mode: models.ByHTTP, URL: "https://x.example", Hosts: []string{"a", "b"}}, Secret: []byte("1")}
	for name, change := range map[string]func(d *store.DestinationRow){
		"mode":       func(d *store.DestinationRow) { d.Mode = models.Watch },
		"address":    func(d *store.DestinationRow) { d.URL += "/" },
		"idempotent": func(d *store.DestinationRow) { d.Idempotent = true },
		"hosts":      func(d *store.DestinationRow) { d.Hosts = []string{"a b"} },
		"secret":     func(d *store.DestinationRow) { d.Secret = []byte("2") },
		"time":       func(d *store.DestinationRow) { d.Updated = time.Now() },
	} {
		d := base
		change(&d)
		if d.Seen() == base.Seen() {
			t.Errorf("another %s isn't seen", name)
		}
	}
}
