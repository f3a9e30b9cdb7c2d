package casework_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"counterfoil/models"
	"counterfoil/models/casework"
)

// files reads orders whose objects a test plays.
type files struct {
	*floor
	objects []models.Object
}

func (f *files) OrderFile(ctx context.Context, id int64) (models.OrderFile, error) {
	file, err := f.Store.OrderFile(ctx, id)
	if err != nil {
		return file, err
	}
	file.Announced, file.Amounts, file.Objects = false, models.Amounts{Currency: "HKD", Total: 100, Received: 100}, f.objects
	file.Outcome, err = f.Store.OutcomeFacts(ctx, file.Order)
	return file, err
}

// refunds are refunds of a payment as Stripe tells them.
func (f *files) refunds(standing models.State, amounts ...int64) {
	o := models.Object{ObjectView: models.ObjectView{Connection: f.conns[0], Platform: models.Stripe, Reads: map[models.Axis]bool{models.Payment: true, models.Refund: true}}}
	o.Official = &models.Observation{Basis: models.Official, Read: f.now, Amounts: &models.Amounts{Currency: "HKD", Total: 100, Received: 100},
		Axes:  map[models.Axis]models.Statement{models.Payment: {State: models.PaymentPaid}, models.Refund: {State: models.RefundPartial}},
		Parts: []models.Part{{Axis: models.Payment, ID: "pi_1", State: models.PaymentPaid, Amount: 100, Currency: "HKD", Counts: true}}}
	for i, amount := range amounts {
		o.Official.Parts = append(o.Official.Parts, models.Part{Axis: models.Refund, ID: "re_" + string(rune('1'+i)), State: standing, Word: "w", Amount: amount, Currency: "HKD",
			Counts: standing == models.RefundPartial, At: f.now.Add(time.Duration(i) * time.Second)})
	}
	f.objects = []models.Object{o}
}

func newFiles(t *testing.T) (*files, *casework.Explanations) {
	t.Helper()
	f := &files{floor: newFloor(t)}
	f.refunds(models.RefundPartial, 10, 20)
	return f, &casework.Explanations{Store: f.Store, Files: f}
}

func (f *files) second() casework.Explain {
	return casework.Explain{Order: f.order[0], Part: "re_2", Code: models.Goodwill, Reason: "a scratched cup", Amount: 20, Currency: "HKD", Standing: models.MoneyMoved}
}

func TestWhoMayExplain(t *testing.T) {
	t.Parallel()
	f, s := newFiles(t)
	elsewhere := manager
	elsewhere.Shops = []int64{f.shops[1]}
	reader := manager
	reader.TokenID, reader.Scopes = 9, []models.Scope{models.ScopeRead}
	for name, c := range map[string]struct {
		actor models.Actor
		want  string
	}{
		"support": {support, "forbidden"}, "lead": {lead, "ok"}, "manager": {manager, "ok"}, "admin": {admin, "forbidden"}, "auditor": {auditor, "forbidden"},
		"service": {service, "forbidden"}, "another shop's": {elsewhere, "not_found"}, "a token that only reads": {reader, "forbidden"},
	} {
		if _, err := s.Explain(t.Context(), c.actor, f.second()); code(err) != c.want {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
	var n int
	if f.scan(&n, `SELECT count(*) FROM explanations`); n != 2 {
		t.Errorf("%d explanations are kept", n)
	}
}

func TestExplain(t *testing.T) {
	t.Parallel()
	f, s := newFiles(t)
	for name, c := range map[string]struct {
		change func(*casework.Explain)
		want   string
	}{
		"no reason":        {func(e *casework.Explain) { e.Reason = "  " }, "invalid reason"},
		"a long reason":    {func(e *casework.Explain) { e.Reason = strings.Repeat("杯", 501) }, "invalid reason"},
		"two lines":        {func(e *casework.Explain) { e.Reason = "a\nb" }, "invalid reason"},
		"no code":          {func(e *casework.Explain) { e.Code = "" }, "invalid code"},
		"an unknown code":  {func(e *casework.Explain) { e.Code = "whim" }, "invalid code"},
		"the first refund": {func(e *casework.Explain) { e.Part, e.Amount = "re_1", 10 }, "not_found"},
		"no such part":     {func(e *casework.Explain) { e.Part = "re_9" }, "not_found"},
		"no such order":    {func(e *casework.Explain) { e.Order = 999 }, "not_found"},
		"another amount":   {func(e *casework.Explain) { e.Amount = 21 }, "conflict"},
		"another state":    {func(e *casework.Explain) { e.Standing = models.MoneyMoving }, "conflict"},
		"another currency": {func(e *casework.Explain) { e.Currency = "TWD" }, "conflict"},
	} {
		in := f.second()
		c.change(&in)
		if _, err := s.Explain(t.Context(), lead, in); code(err) != c.want {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
	verdict := func() models.Verdict {
		t.Helper()
		file, err := f.OrderFile(t.Context(), f.order[0])
		if err != nil {
			t.Fatal(err)
		}
		l, _ := models.CheckOutcome(file, f.now).Explainable("re_2")
		return l.Verdict
	}
	if verdict() != models.VerdictBad {
		t.Fatalf("unexplained it is %s", verdict())
	}
	if _, err := s.Explain(t.Context(), lead, f.second()); err != nil {
		t.Fatal(err)
	}
	if verdict() != models.VerdictGood {
		t.Errorf("explained it is %s", verdict())
	}
	var audit string
	f.scan(&audit, `SELECT concat_ws(' ', actor, verb, after) FROM audit WHERE verb = 'outcome.explain'`)
	if audit != "staff:3 outcome.explain explanation 1 of re_2 0.20 HKD code goodwill" {
		t.Errorf("audited as %q", audit)
	}
	// It holds for what it explained only.
	f.refunds(models.RefundPartial, 10, 30)
	if verdict() != models.VerdictBad {
		t.Errorf("with another amount it is %s", verdict())
	}
	f.refunds(models.RefundPending, 10, 20)
	if verdict() != models.VerdictBad {
		t.Errorf("in another state it is %s", verdict())
	}
	f.refunds(models.RefundPartial, 10, 20)
	if verdict() != models.VerdictGood {
		t.Errorf("as it was it is %s", verdict())
	}
	for _, stmt := range []string{`UPDATE explanations SET reason = 'x'`, `DELETE FROM explanations`, `TRUNCATE explanations`} {
		if _, err := f.Store.SQL().ExecContext(t.Context(), stmt); err == nil {
			t.Errorf("%s went through", stmt)
		}
	}
}

// The check knows what stayed with shells, what was approved, and what a shop's rules
// leave out.
func TestWhatTheOutcomeCheckKnows(t *testing.T) {
	t.Parallel()
	f, _ := newFiles(t)
	f.exec(`UPDATE orders SET merged_into = (SELECT min(id) FROM orders) WHERE id = (SELECT max(id) FROM orders)`)
	f.exec(`INSERT INTO actions (order_id, shop_id, kind, stage, state, official, planned_at) SELECT id, shop_id, 'fulfillment_instruction', 'order', 'done', true, now() FROM orders`)
	f.exec(`INSERT INTO actions (order_id, shop_id, kind, stage, state, official, planned_at) SELECT min(id), min(shop_id), 'customer_message', 'again:1', 'done', true, now() FROM orders`)
	f.exec(`INSERT INTO requests (kind, subject, shop_id, order_id, reason, proposed_by, proposer_name, proposer_role, proposed_at, expires_at)
SELECT 'again', 'action:' || id, shop_id, order_id, 'lost', 'staff:1', 'Wing', 'support', now(), now() FROM actions WHERE stage = 'again:1'`)
	facts := func() models.OutcomeFacts {
		t.Helper()
		o, err := f.Store.Order(t.Context(), f.order[0])
		if err != nil {
			t.Fatal(err)
		}
		got, err := f.Store.OutcomeFacts(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	if got := facts(); len(got.Merged) != 1 || got.Merged[0].OrderID != f.order[1] || len(got.Asked) != 0 || len(got.Switched) != 0 {
		t.Errorf("%+v", got)
	}
	f.exec(`INSERT INTO approvals (request_id, proposed_by, actor, actor_name, role, at) SELECT id, proposed_by, 'staff:3', 'Ka', 'support', now() FROM requests`)
	f.exec(`UPDATE requests SET state = 'applied', decided_by = 'staff:3', decided_at = now(), made_id = (SELECT id FROM actions WHERE stage = 'again:1')`)
	f.exec(`INSERT INTO action_rules (shop_id, occasion, kind, active, updated_at, updated_by, switched_at)
SELECT min(shop_id), o, 'customer_message', o = 'paid', now(), 'staff:4', CASE WHEN o = 'refunded' THEN now() END FROM orders, unnest(ARRAY['paid', 'refunded']) AS o GROUP BY o`)
	got := facts()
	if len(got.Asked) != 1 || len(got.Switched) != 1 || got.Switched[0].Occasion != models.OnRefunded || got.Switched[0].Kind != models.CustomerMessage || got.Switched[0].Active || got.Switched[0].At.IsZero() {
		t.Errorf("%+v", got)
	}
	file, err := f.Store.OrderFile(t.Context(), f.order[0])
	if err != nil {
		t.Fatal(err)
	}
	file.Outcome = got
	for _, l := range models.CheckOutcome(file, f.now).Lines {
		want := map[string]models.Finding{"order": models.FoundTwice, "again:1": models.FoundDone}[l.Stage]
		if l.Stage != "" && l.Found != want {
			t.Errorf("%s %s: %s, want %s", l.Group, l.Stage, l.Found, want)
		}
	}
}
