package casework_test

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"counterfoil/models"
	"counterfoil/models/actions"
	"counterfoil/models/casework"
	"counterfoil/models/connect"
	"counterfoil/models/platform"
	"counterfoil/models/queue"
	"counterfoil/models/seal"
	"counterfoil/models/store"
)

// A casefloor is a floor with its exceptions.
type casefloor struct {
	*floor
	cases *casework.Cases
	asked *casework.Requests
}

func newCasefloor(t *testing.T) *casefloor {
	t.Helper()
	f := newFloor(t)
	q, err := queue.New(f.Store, nil, nil, false, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	book := connect.New(f.Store, seal.Keys{}, map[models.Platform]platform.Maker{}, nil, f.Store.Now)
	return &casefloor{f, &casework.Cases{Store: f.Store, Queue: q},
		&casework.Requests{Store: f.Store, Queue: q, Actions: actions.New(actions.Actions{Store: f.Store, Book: book}), Log: slog.New(slog.DiscardHandler)}}
}

// opens opens an exception about the order of a shop, and answers its id.
func (f *casefloor) opens(shop int, p models.Problem) int64 {
	f.t.Helper()
	err := f.Store.Tx(f.t.Context(), func(tx *store.Tx) error {
		return tx.OpenCase(f.t.Context(), store.Case{ConnectionID: f.conns[shop], Subject: fmt.Sprintf("order:%d", f.order[shop]), OrderID: f.order[shop], Ref: "1", Problem: p})
	})
	if err != nil {
		f.t.Fatal(err)
	}
	var id int64
	f.scan(&id, `SELECT max(id) FROM exceptions`)
	return id
}

func (f *casefloor) stands(id int64) models.Exception {
	f.t.Helper()
	x, err := f.Store.Exception(f.t.Context(), id)
	if err != nil {
		f.t.Fatal(err)
	}
	return x
}

var (
	waits    = models.Problem{Kind: models.StateDiffers, Axis: models.Return, PlatformState: "CLOSED", LocalState: "in_progress"}
	asks     = models.Problem{Kind: models.MoveRefused, Axis: models.Fulfillment, PlatformState: "UNFULFILLED", LocalState: "fulfilled"}
	moneyed  = models.Problem{Kind: models.MoveRefused, Axis: models.Payment, PlatformState: "PENDING", LocalState: "paid"}
	refunds  = models.Problem{Kind: models.MoveRefused, Axis: models.Refund, PlatformState: "none", LocalState: "full"}
	drifts   = models.Problem{Kind: models.SchemaChanged, Axis: "", Detail: "order.name"}
	untolds  = models.Problem{Kind: models.PaidTwice, Detail: "2 payments"}
	managers = models.Actor{StaffID: manager2.StaffID, Name: manager2.Name, Role: models.Manager}
)

func TestDefaultsOfTheseCases(t *testing.T) {
	t.Parallel()
	for want, p := range map[models.Policy][]models.Problem{models.PolicyWait: {waits}, models.PolicyAsk: {asks, drifts, untolds}, models.PolicyHold: {moneyed, refunds}} {
		for _, x := range p {
			if x.Policy() != want {
				t.Errorf("%s on %s: %s", x.Kind, x.Axis, x.Policy())
			}
		}
	}
}

// Who may close, dismiss, take and assign what is a table: each row is a case, each
// column a person.
func TestWhoEndsWhichCase(t *testing.T) {
	t.Parallel()
	people := map[string]models.Actor{"support": support, "lead": lead, "manager": manager, "admin": admin, "auditor": auditor, "service": service}
	for name, c := range map[string]struct {
		problem models.Problem
		solve   string
		dismiss string
		take    string
		assign  string
	}{
		"waits":     {waits, "support lead manager", "support lead manager", "support lead manager", "lead manager"},
		"asks":      {asks, "support lead manager", "lead manager", "support lead manager", "lead manager"},
		"a hold":    {refunds, "lead manager", "manager", "support lead manager", "lead manager"},
		"its money": {moneyed, "lead manager", "", "support lead manager", "lead manager"},
		"technical": {drifts, "support lead manager admin", "lead manager admin", "support lead manager admin", "lead manager"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newCasefloor(t)
			for who, actor := range people {
				for what, allowed := range map[string]string{"solve": c.solve, "dismiss": c.dismiss, "take": c.take, "assign": c.assign} {
					id := f.opens(0, c.problem)
					f.exec(fmt.Sprintf(`UPDATE exceptions SET owner_id = NULL WHERE id = %d`, id))
					var err error
					switch what {
					case "solve":
						err = f.cases.Solve(t.Context(), actor, id, casework.Closing{Reason: "it is mended"})
					case "dismiss":
						err = f.cases.Dismiss(t.Context(), actor, id, casework.Closing{Reason: "nothing to do"})
					case "take":
						err = f.cases.Take(t.Context(), actor, id, 0)
					case "assign":
						err = f.cases.Assign(t.Context(), actor, id, 0, lead.StaffID)
					}
					want := "forbidden"
					if slices.Contains(strings.Fields(allowed), who) {
						want = "ok"
					}
					if got := code(err); got != want {
						t.Errorf("%s: %s: %s, want %s (%v)", who, what, got, want, err)
					}
					f.exec(`UPDATE exceptions SET state = 'closed', closed_at = now(), closed_how = 'test' WHERE state = 'open'`)
				}
			}
		})
	}
}

func TestACaseOfAnotherShopIsUnknown(t *testing.T) {
	t.Parallel()
	f := newCasefloor(t)
	id := f.opens(1, waits)
	here := models.Actor{StaffID: manager.StaffID, Name: "Ng", Role: models.Manager, Shops: []int64{f.shops[0]}}
	for what, err := range map[string]error{
		"find":    second2(f.cases.Find(t.Context(), here, id)),
		"take":    f.cases.Take(t.Context(), here, id, 0),
		"assign":  f.cases.Assign(t.Context(), here, id, 0, lead.StaffID),
		"back":    f.cases.GiveBack(t.Context(), here, id, 0),
		"note":    f.cases.Note(t.Context(), here, id, "x"),
		"tell":    f.cases.Tell(t.Context(), here, id, 0),
		"solve":   f.cases.Solve(t.Context(), here, id, casework.Closing{Reason: "x"}),
		"dismiss": f.cases.Dismiss(t.Context(), here, id, casework.Closing{Reason: "x"}),
		"accept":  second2(f.asked.ProposeCase(t.Context(), here, id, 0, models.HowAccepted, "x")),
	} {
		if code(err) != "not_found" {
			t.Errorf("%s: %v", what, err)
		}
	}
	if x := f.stands(id); x.State != "open" || x.Owner != 0 {
		t.Errorf("%+v", x)
	}
}

func second2[T any](_ T, err error) error { return err }

func TestWhoChangedACaseFirstWins(t *testing.T) {
	t.Parallel()
	f := newCasefloor(t)
	id := f.opens(0, waits)
	seen := f.stands(id).Version
	if err := f.cases.Take(t.Context(), support, id, seen); err != nil {
		t.Fatal(err)
	}
	for what, err := range map[string]error{
		"solve": f.cases.Solve(t.Context(), lead, id, casework.Closing{Version: seen, Reason: "x"}),
		"take":  f.cases.Take(t.Context(), lead, id, seen),
		"taken": f.cases.Take(t.Context(), lead, id, 0),
	} {
		if code(err) != "conflict" {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := f.cases.GiveBack(t.Context(), other, id, 0); code(err) != "forbidden" {
		t.Errorf("somebody else gives it back: %v", err)
	}
	if err := f.cases.GiveBack(t.Context(), support, id, 0); err != nil {
		t.Error(err)
	}
	if err := f.cases.Assign(t.Context(), lead, id, 0, auditor.StaffID); code(err) != "invalid to" {
		t.Errorf("an auditor gets it: %v", err)
	}
	if err := f.cases.Assign(t.Context(), lead, id, 0, other.StaffID); err != nil {
		t.Error(err)
	}
	if x := f.stands(id); x.Owner != other.StaffID || x.OwnedBy != other.Name {
		t.Errorf("%d %s", x.Owner, x.OwnedBy)
	}
	if err := f.cases.Solve(t.Context(), support, id, casework.Closing{Reason: "mended there"}); err != nil {
		t.Error(err)
	}
	if err := f.cases.Dismiss(t.Context(), manager, id, casework.Closing{Reason: "x"}); code(err) != "conflict" {
		t.Errorf("closed twice: %v", err)
	}
	if x := f.stands(id); x.How != models.HowSolved || x.ClosedBy != support.Name || x.Note != "mended there" {
		t.Errorf("%+v", x)
	}
	var typed int
	f.scan(&typed, `SELECT count(*) FROM audit WHERE before || after LIKE '%mended there%'`)
	if typed != 0 {
		t.Error("the audit trail has what somebody typed")
	}
	var verbs string
	f.scan(&verbs, `SELECT string_agg(verb, ' ' ORDER BY id) FROM audit WHERE subject LIKE 'exception:%'`)
	if verbs != "case.take case.give_back case.assign case.solved" {
		t.Errorf("audited: %s", verbs)
	}
}

func TestNobodyClosesBeforeTheCustomerWasTold(t *testing.T) {
	t.Parallel()
	f := newCasefloor(t)
	id := f.opens(0, untolds)
	if !f.stands(id).Untold() {
		t.Fatal("this kind asks for nobody to be told")
	}
	for what, err := range map[string]error{
		"solve":   f.cases.Solve(t.Context(), manager, id, casework.Closing{Reason: "x"}),
		"dismiss": f.cases.Dismiss(t.Context(), manager, id, casework.Closing{Reason: "x"}),
		"accept":  second2(f.asked.ProposeCase(t.Context(), manager, id, 0, models.HowAccepted, "x")),
	} {
		if code(err) != "conflict" {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := f.cases.Tell(t.Context(), admin, id, 0); code(err) != "forbidden" {
		t.Errorf("an administrator: %v", err)
	}
	if err := f.cases.Tell(t.Context(), support, id, 0); err != nil {
		t.Fatal(err)
	}
	if err := f.cases.Tell(t.Context(), support, id, 0); code(err) != "conflict" {
		t.Errorf("told twice: %v", err)
	}
	if err := f.cases.Solve(t.Context(), support, id, casework.Closing{Reason: "one was refunded"}); err != nil {
		t.Error(err)
	}
}

// A case that paused its order wakes what waited for it.
func TestClosingACaseWakesWhatWaits(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(f *casefloor, id int64) error{
		"solved": func(f *casefloor, id int64) error {
			return f.cases.Solve(f.t.Context(), lead, id, casework.Closing{Reason: "x"})
		},
		"dismissed": func(f *casefloor, id int64) error {
			return f.cases.Dismiss(f.t.Context(), manager, id, casework.Closing{Reason: "x"})
		},
		"accepted": func(f *casefloor, id int64) error {
			q, err := f.asked.ProposeCase(f.t.Context(), support, id, 0, models.HowAccepted, "paid in cash")
			if err != nil {
				return err
			}
			_, err = f.asked.Decide(f.t.Context(), manager, q.ID, true, "")
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newCasefloor(t)
			id := f.opens(0, refunds)
			f.exec(fmt.Sprintf(`INSERT INTO actions (order_id, shop_id, kind, stage, state, official, why, planned_at, due_at)
VALUES (%d, %d, 'fulfillment_instruction', 'order', 'waiting', true, 'no_exception', now(), now() + interval '1 day')`, f.order[0], f.shops[0]))
			if err := end(f, id); err != nil {
				t.Fatal(err)
			}
			var due bool
			f.scan(&due, `SELECT due_at <= now() FROM actions`)
			if !due {
				t.Error("it still waits")
			}
			if x := f.stands(id); x.State != "closed" || x.How != name {
				t.Errorf("%s %s", x.State, x.How)
			}
		})
	}
}

func TestWhoAcceptsADifference(t *testing.T) {
	t.Parallel()
	proposer := models.Actor{TokenID: 9, Name: "Robot", Role: models.Service, Scopes: []models.Scope{models.ScopePropose}}
	for name, c := range map[string]struct {
		by, decides     models.Actor
		propose, decide string
	}{
		"support and a manager":    {support, manager, "ok", "ok"},
		"a lead and a manager":     {lead, manager, "ok", "ok"},
		"two managers":             {manager, manager2, "ok", "ok"},
		"a program and a manager":  {proposer, manager, "ok", "ok"},
		"support and a lead":       {support, lead, "ok", "forbidden"},
		"support and an admin":     {support, admin, "ok", "forbidden"},
		"a manager alone":          {manager, manager, "ok", "forbidden"},
		"a manager and their tool": {manager, models.Actor{StaffID: manager.StaffID, TokenID: 4, Role: models.Manager, Scopes: []models.Scope{models.ScopeApprove}}, "ok", "forbidden"},
		"an administrator":         {admin, manager, "forbidden", ""},
		"an auditor":               {auditor, manager, "forbidden", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newCasefloor(t)
			id := f.opens(0, moneyed)
			q, err := f.asked.ProposeCase(t.Context(), c.by, id, 0, models.HowAccepted, "paid by transfer")
			if got := code(err); got != c.propose {
				t.Fatalf("proposing: %s %v", got, err)
			}
			if c.propose != "ok" {
				return
			}
			if d := q.Expires.Sub(f.now); d != 4*time.Hour {
				t.Errorf("what pauses an order may wait %s", d)
			}
			if _, err := f.asked.ProposeCase(t.Context(), manager, id, 0, models.HowAccepted, "me too"); code(err) != "conflict" {
				t.Errorf("proposed twice: %v", err)
			}
			_, err = f.asked.Decide(t.Context(), c.decides, q.ID, true, "")
			if got := code(err); got != c.decide {
				t.Fatalf("approving: %s %v", got, err)
			}
			x := f.stands(id)
			if c.decide != "ok" {
				if x.State != "open" {
					t.Error("it was closed")
				}
				return
			}
			if x.How != models.HowAccepted || x.ClosedBy != c.decides.Name || x.Note != "paid by transfer" {
				t.Errorf("%+v", x)
			}
			var days float64
			var same bool
			f.scan(&days, `SELECT extract(epoch FROM until - accepted_at) / 86400 FROM acceptances WHERE ended_at IS NULL`)
			f.scan(&same, `SELECT a.platform_digest = x.platform_digest AND a.local_digest = x.local_digest AND a.kind = x.kind AND a.axis = x.axis AND a.subject = x.subject FROM acceptances a JOIN exceptions x ON x.id = a.exception_id`)
			if days != 30 || !same {
				t.Errorf("accepted for %v days, with both digests: %t", days, same)
			}
		})
	}
}

// The schema itself keeps anybody from approving what they proposed.
func TestTheSchemaRefusesOwnApprovals(t *testing.T) {
	t.Parallel()
	f := newCasefloor(t)
	q, err := f.asked.ProposeCase(t.Context(), manager, f.opens(0, moneyed), 0, models.HowAccepted, "x")
	if err != nil {
		t.Fatal(err)
	}
	err = f.Store.Tx(t.Context(), func(tx *store.Tx) error {
		return tx.Approve(t.Context(), q, models.Approval{By: manager.ID(), Name: manager.Name, Role: models.Manager})
	})
	if err == nil {
		t.Error("an own approval was kept")
	}
	err = f.Store.Tx(t.Context(), func(tx *store.Tx) error {
		return tx.EndRequest(t.Context(), q.ID, store.Decision{State: models.RequestApplied, By: manager.ID(), Name: manager.Name})
	})
	if err == nil {
		t.Error("a request was applied by whoever proposed it")
	}
}

func TestAnAcceptanceIsStaleWhenASideMoved(t *testing.T) {
	t.Parallel()
	for name, move := range map[string]func(f *casefloor, id int64){
		"the platform": func(f *casefloor, _ int64) { p := moneyed; p.PlatformState = "VOIDED"; f.opens(0, p) },
		"our record":   func(f *casefloor, _ int64) { p := moneyed; p.LocalState = "partially_paid"; f.opens(0, p) },
		"it closed": func(f *casefloor, id int64) {
			f.exec(fmt.Sprintf(`UPDATE exceptions SET state = 'closed', closed_at = now(), closed_how = 'reading' WHERE id = %d`, id))
		},
		"the proposer left": func(f *casefloor, _ int64) { f.exec(`UPDATE staff SET disabled_at = now() WHERE id = 1`) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newCasefloor(t)
			id := f.opens(0, moneyed)
			q, err := f.asked.ProposeCase(t.Context(), support, id, 0, models.HowAccepted, "x")
			if err != nil {
				t.Fatal(err)
			}
			f.opens(0, moneyed) // seen again, as it was: that alone changes nothing
			move(f, id)
			after, err := f.asked.Decide(t.Context(), manager, q.ID, true, "")
			if code(err) != "conflict" || after.State != models.RequestStale {
				t.Errorf("%s %v", after.State, err)
			}
			var n int
			f.scan(&n, `SELECT count(*) FROM acceptances`)
			if n != 0 {
				t.Error("it was accepted")
			}
		})
	}
}

func TestAHoldOnAPaymentIsDismissedByTwoManagers(t *testing.T) {
	t.Parallel()
	f := newCasefloor(t)
	id := f.opens(0, moneyed)
	if _, err := f.asked.ProposeCase(t.Context(), lead, id, 0, models.HowDismissed, "x"); code(err) != "forbidden" {
		t.Errorf("a lead: %v", err)
	}
	q, err := f.asked.ProposeCase(t.Context(), manager, id, 0, models.HowDismissed, "a known fault of theirs")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.asked.Decide(t.Context(), manager, q.ID, true, ""); code(err) != "forbidden" {
		t.Errorf("alone: %v", err)
	}
	if _, err := f.asked.Decide(t.Context(), managers, q.ID, true, ""); err != nil {
		t.Fatal(err)
	}
	var n int
	f.scan(&n, `SELECT count(*) FROM acceptances`)
	if x := f.stands(id); x.How != models.HowDismissed || n != 0 {
		t.Errorf("%s, %d acceptances", x.How, n)
	}
}

func TestClosingEndsWhatWasAskedFor(t *testing.T) {
	t.Parallel()
	f := newCasefloor(t)
	id := f.opens(0, asks)
	q, err := f.asked.ProposeCase(t.Context(), support, id, 0, models.HowAccepted, "x")
	if err != nil {
		t.Fatal(err)
	}
	if err := f.asked.Withdraw(t.Context(), other, q.ID); code(err) != "forbidden" {
		t.Errorf("another's: %v", err)
	}
	if err := f.cases.Solve(t.Context(), lead, id, casework.Closing{Reason: "x"}); err != nil {
		t.Fatal(err)
	}
	after, err := f.Store.Request(t.Context(), q.ID)
	if err != nil || after.State != models.RequestStale {
		t.Errorf("%s %v", after.State, err)
	}
}

func TestPoliciesOfCases(t *testing.T) {
	t.Parallel()
	f := newCasefloor(t)
	s := &casework.Policies{Store: f.Store}
	change := func(rule string, p models.Policy, tell bool, reason string) casework.PolicyChange {
		return casework.PolicyChange{PolicyTerms: models.PolicyTerms{Rule: rule, Policy: p, Tell: tell}, Reason: reason}
	}
	const hold, ask = "move_refused/money", "move_refused/fulfillment"
	for _, who := range []models.Actor{support, lead, admin, auditor, service} {
		if _, err := s.SetCasePolicy(t.Context(), who, "hk", change(ask, models.PolicyHold, false, "")); code(err) != "forbidden" {
			t.Errorf("%s: %v", who.Name, err)
		}
	}
	before := f.opens(0, asks)
	// Tightening holds at once.
	if asked, err := s.SetCasePolicy(t.Context(), manager, "hk", change(ask, models.PolicyHold, true, "")); err != nil || asked != 0 {
		t.Fatal(asked, err)
	}
	if x := f.stands(before); x.Policy != models.PolicyAsk || x.Tell {
		t.Error("an open exception was changed")
	}
	f.exec(`UPDATE exceptions SET state = 'closed', closed_at = now()`)
	if x := f.stands(f.opens(0, asks)); x.Policy != models.PolicyHold || !x.Tell {
		t.Errorf("a new one: %s %t", x.Policy, x.Tell)
	}
	if x := f.stands(f.opens(1, asks)); x.Policy != models.PolicyAsk {
		t.Errorf("another shop's: %s", x.Policy)
	}
	// Who saved meanwhile isn't overwritten.
	late := change(ask, models.PolicyAsk, false, "x")
	late.Seen = "ask"
	if _, err := s.SetCasePolicy(t.Context(), manager, "hk", late); code(err) != "conflict" {
		t.Errorf("a form of before: %v", err)
	}
	// Loosening needs a reason, and another manager.
	if _, err := s.SetCasePolicy(t.Context(), manager, "hk", change(hold, models.PolicyAsk, false, " ")); code(err) != "invalid reason" {
		t.Errorf("without a reason: %v", err)
	}
	id, err := s.SetCasePolicy(t.Context(), manager, "hk", change(hold, models.PolicyAsk, false, "we look at them anyway"))
	if err != nil || id == 0 {
		t.Fatal(id, err)
	}
	policy := func() string {
		var p string
		f.scan(&p, `SELECT COALESCE((SELECT policy FROM case_policies WHERE rule = '`+hold+`'), 'hold')`)
		return p
	}
	for _, who := range []models.Actor{manager, lead, admin} {
		if _, err := f.asked.Decide(t.Context(), who, id, true, ""); code(err) != "forbidden" {
			t.Errorf("%s approves: %v", who.Name, err)
		}
	}
	if policy() != "hold" {
		t.Error("it was loosened before anybody approved")
	}
	if _, err := f.asked.Decide(t.Context(), managers, id, true, ""); err != nil {
		t.Fatal(err)
	}
	if policy() != "ask" {
		t.Error("it wasn't loosened")
	}
	var was, is string
	f.scan(&was, `SELECT before FROM audit WHERE verb = 'policy.set' ORDER BY id DESC LIMIT 1`)
	f.scan(&is, `SELECT after FROM audit WHERE verb = 'policy.set' ORDER BY id DESC LIMIT 1`)
	if was != "policy=hold tell=false" || is != "policy=ask tell=false" {
		t.Errorf("audited: %q, %q", was, is)
	}
	file, err := s.File(t.Context(), auditor, "hk")
	if err != nil || len(file.Cases) != len(models.CaseRules) {
		t.Fatal(len(file.Cases), err)
	}
	for _, p := range file.Cases {
		if p.Key == hold && (p.Now != models.PolicyAsk || p.Policy != models.PolicyHold || p.ChangedBy != managers.Name || !p.Differs()) {
			t.Errorf("%+v", p)
		}
	}
}
