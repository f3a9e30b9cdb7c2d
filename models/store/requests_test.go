package store_test

import (
	"fmt"
	"strings"
	"testing"

	"counterfoil/models"
	"counterfoil/models/store"
)

// Whatever the program does, the schema lets nobody decide what they proposed, lets
// nobody approve twice, and applies nothing that lacks an approval.
func TestTheSchemaNeedsTwoPeople(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.destination(models.FulfillmentInstruction, models.ByHTTP)
	id := b.plan(b.order("o-1"), instruction)[0]
	a, err := b.Action(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	q := b.ask(a, 2)
	yes := func(by string) string {
		return fmt.Sprintf(`INSERT INTO approvals (request_id, proposed_by, actor, actor_name, role, at) VALUES (%d, 'staff:1', '%s', '', 'manager', now())`, q.ID, by)
	}
	decide := func(state, by string) string {
		return fmt.Sprintf(`UPDATE requests SET state = '%s', decided_by = '%s', decided_at = now() WHERE id = %d`, state, by, q.ID)
	}
	refused := func(what, query, constraint string) {
		t.Helper()
		if _, err := b.SQL().ExecContext(t.Context(), query); err == nil || !strings.Contains(err.Error(), constraint) {
			t.Errorf("%s: %v", what, err)
		}
	}
	refused("one's own approval", yes("staff:1"), "approvals_own_check")
	refused("an approval under another proposer", fmt.Sprintf(`INSERT INTO approvals (request_id, proposed_by, actor, actor_name, role, at) VALUES (%d, 'staff:9', 'staff:1', '', 'manager', now())`, q.ID), "foreign key")
	refused("rejected by its proposer", decide("rejected", "staff:1"), "requests_own_check")
	refused("applied without approvals", decide("applied", "staff:4"), "needs 2 approvals")
	b.must(yes("staff:4"))
	refused("applied with one of two", decide("applied", "staff:4"), "needs 2 approvals")
	refused("an approval twice", yes("staff:4"), "approvals_pkey")
	refused("fewer approvals needed", fmt.Sprintf(`UPDATE requests SET needs = 1 WHERE id = %d`, q.ID), "stays what was proposed")
	refused("an approval taken back", `DELETE FROM approvals`, "append-only")
	refused("another proposer", fmt.Sprintf(`UPDATE requests SET proposed_by = 'staff:2' WHERE id = %d`, q.ID), "")
	b.must(yes("staff:5"))
	refused("applied by its proposer", decide("applied", "staff:1"), "requests_own_check")
	refused("applied by nobody", decide("applied", ""), "requests_own_check")
	b.must(decide("applied", "staff:5"))
	refused("decided again", decide("rejected", "staff:4"), "stays what was proposed")
	refused("deleted", fmt.Sprintf(`DELETE FROM requests WHERE id = %d`, q.ID), "")
	// A second one about the same thing may be open once the first one is decided.
	second := b.ask(a, 1)
	err = b.Tx(t.Context(), func(tx *store.Tx) error {
		_, err := tx.AddRequest(t.Context(), second)
		return err
	})
	if models.CodeOf(err) != models.Conflict {
		t.Errorf("two open requests about one action: %v", err)
	}
}

func TestExtrasAreNumbered(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.destination(models.FulfillmentInstruction, models.ByHTTP)
	order := b.order("o-1")
	add := func(x store.Extra) {
		b.inTx(func(tx *store.Tx) error {
			o, err := tx.LockOrder(t.Context(), order)
			if err != nil {
				return err
			}
			_, due, err := tx.AddAction(t.Context(), o, x)
			if due != (x.Kind == models.FulfillmentInstruction) {
				t.Errorf("%s is due: %t", x.Kind, due)
			}
			return err
		})
	}
	for range 11 {
		add(store.Extra{Kind: models.FulfillmentInstruction, Stage: models.StageMore, Pieces: 2})
	}
	add(store.Extra{Kind: models.FulfillmentInstruction, Stage: models.StageReplacement})
	add(store.Extra{Kind: models.CustomerMessage, Stage: models.StageAgain})
	got := b.actions(order)
	for _, want := range []string{"fulfillment_instruction/more:1 planned,", "more:10 planned", "more:11 planned", "replacement:1 planned", "customer_message/again:1 watched"} {
		if !strings.Contains(got, want) {
			t.Errorf("%s is missing in %s", want, got)
		}
	}
	o, err := b.Order(t.Context(), order)
	if err != nil {
		t.Fatal(err)
	}
	// What the platform shows as shipped isn't needed; a replacement is wanted although it left.
	b.inTx(func(tx *store.Tx) error { return tx.ShippedActions(t.Context(), o.ID) })
	if n := one[int](b, `SELECT count(*) FROM actions WHERE state = 'not_needed'`); n != 11 {
		t.Errorf("%d aren't needed: %s", n, b.actions(order))
	}
}
