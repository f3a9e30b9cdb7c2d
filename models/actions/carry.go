package actions

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"counterfoil/models"
	"counterfoil/models/store"
)

const (
	// lease is how long a claim keeps others away; a call and storing its result fit in.
	lease = 30 * time.Second
	// ownDelay is the pause after a failure of ours.
	ownDelay = time.Minute
	// claimTries is how often an order may become another one under our hands.
	claimTries = 3
)

// Carry carries an action if it is due and its conditions are met; else it waits, and
// says for what. It may be called any number of times at once.
func (s *Actions) Carry(ctx context.Context, id int64) error {
	if !s.runs.enter(id) {
		return nil
	}
	for {
		err := s.carry(ctx, id)
		if !s.runs.leave(id) {
			return err
		}
		if err != nil || ctx.Err() != nil {
			s.runs.leave(id)
			return err
		}
	}
}

func (s *Actions) carry(ctx context.Context, id int64) error {
	c, err := s.claim(ctx, id, claim{})
	if err == nil && len(c.read) > 0 {
		// A reading that fails leaves the order as it is: the second claim then waits.
		if failed := s.Refresh.Refresh(ctx, c.order, c.read); failed != nil && ctx.Err() == nil && !store.Down(failed) {
			s.Log.Error("order not read before its action", "action", id, "error", failed)
		}
		c, err = s.claim(ctx, id, c)
	}
	switch {
	case err == nil && c.body == nil:
		return nil
	case err == nil:
		return s.send(ctx, c)
	case store.Down(err) || ctx.Err() != nil:
		return err
	}
	delay := s.Store.Tx(ctx, func(tx *store.Tx) error { return tx.DelayAction(ctx, id, ownDelay) })
	return errors.Join(err, delay)
}

// A claim is an action in the hands of one worker.
type claim struct {
	id, order int64
	try       int
	round     int  // tries before somebody had it tried again
	told      bool // somebody may have got it by a try before this one
	doubt     bool // one of those may have had its effect
	began     time.Time
	// read are the connections that have to be read before it can be claimed, since is
	// when that begins.
	read  []int64
	since time.Time

	body        []byte // nil: it wasn't claimed
	destination store.DestinationRow
	secret      []byte
}

// errAgain has a claim tried again, because the order became another one meanwhile.
var errAgain = models.Fail(models.Conflict, "error.moved_meanwhile")

// claim takes an action, in one transaction with everything that its conditions rely
// on. before is the claim that asked for readings; they are done now.
func (s *Actions) claim(ctx context.Context, id int64, before claim) (claim, error) {
	var out claim
	var err error
	for range claimTries {
		// By the clock on the wall: the other one stands still while this machine does.
		began := time.Now().Round(0)
		if out, err = s.tryClaim(ctx, id, before); models.CodeOf(err) != models.Conflict {
			out.began = began
			break
		}
	}
	return out, err
}

func (s *Actions) tryClaim(ctx context.Context, id int64, before claim) (claim, error) {
	var out claim
	err := s.Store.Tx(ctx, func(tx *store.Tx) error {
		out = claim{id: id}
		a, err := tx.Action(ctx, id)
		if err != nil || !a.State.Open() {
			return err
		}
		if a.Instead != 0 {
			return s.yield(ctx, tx, id)
		}
		seen, err := tx.Order(ctx, a.OrderID)
		if err != nil {
			return err
		}
		apis, err := tx.Rely(ctx, a.ShopID, seen.Connections())
		if err != nil {
			return err
		}
		// Actions of one order are claimed beside each other: none changes it.
		order, err := tx.ShareOrder(ctx, a.OrderID)
		if err != nil {
			return err
		}
		if order.MergedInto != 0 || !slices.Equal(order.Connections(), seen.Connections()) {
			return errAgain
		}
		load, err := tx.LockAction(ctx, id)
		if err != nil || !load.State.Open() || load.OrderID != order.ID {
			return err
		}
		if asked := len(before.read) > 0; asked && load.Tries != before.try || !asked && !load.Due {
			return nil // somebody else has it, or had it
		}
		out.order, out.try, out.round, out.told, out.doubt = order.ID, load.Tries, load.Round, load.Told, load.Doubt
		return s.judge(ctx, tx, load, order, apis, before, &out)
	})
	return out, err
}

// yield ends an action that stayed with an order that became part of another one, where
// another action took its place.
func (s *Actions) yield(ctx context.Context, tx *store.Tx, id int64) error {
	load, err := tx.LockAction(ctx, id)
	if err != nil || !load.State.Open() {
		return err
	}
	if load.State == models.ActionSending {
		return s.end(ctx, tx, load, store.Ending{State: models.ActionUnclear, Doubt: true, Error: "note.order_merged"}, "")
	}
	return tx.ForgoAction(ctx, id, models.MergedAway)
}

// judge decides what becomes of an action that is locked together with its order.
func (s *Actions) judge(ctx context.Context, tx *store.Tx, load store.Load, order models.Order, apis map[int64]models.APIState, before claim, out *claim) error {
	again := load.State == models.ActionSending
	if again && !load.Idempotent {
		return s.end(ctx, tx, load, store.Ending{State: models.ActionUnclear, Doubt: true, Error: "note.no_answer_stored"}, "")
	}
	destination, err := tx.Destination(ctx, order.ShopID, load.Kind)
	if err != nil {
		return err
	}
	if again && (destination.Mode != models.ByHTTP || destination.URL != load.URL || !destination.Idempotent) {
		// Whoever gets it now knows nothing of the tries before.
		return s.end(ctx, tx, load, store.Ending{State: models.ActionUnclear, Doubt: true, Error: "note.destination_gone"}, "")
	}
	// What was on a list of work may have been done there, wherever it would go now.
	byHand := destination.Mode == models.ByHand || load.Listed
	if destination.Mode == models.Watch && !byHand {
		return tx.RestAction(ctx, load.ID, models.ActionWatched)
	}
	around, err := tx.Surroundings(ctx, order)
	if err != nil {
		return err
	}
	gate := s.gate(order, around, apis, before.since, tx.Now)
	if why := models.Unmet(gate.Conditions(load.Action)); why != "" {
		if again && why == "not_expired" {
			// It was begun so long ago that its sender's memory of the key may be gone.
			return s.end(ctx, tx, load, store.Ending{State: models.ActionUnclear, Doubt: true, Error: "note.no_answer_stored"}, "")
		}
		if _, ended := order.Withdraws(); again && ended && load.Kind.HighRisk() {
			return s.end(ctx, tx, load, store.Ending{State: models.ActionUnclear, Doubt: true, Error: "note.order_ended"}, "")
		}
		state := load.State
		if state == models.ActionPlanned {
			state = models.ActionWaiting
		}
		if reads := gate.Readings(load.Action); len(reads) > 0 && len(before.read) == 0 {
			out.read, out.since = reads, tx.Now
			return tx.PostponeAction(ctx, load.ID, state, why, lease)
		}
		return tx.PostponeAction(ctx, load.ID, state, why, patience(load.Action, why, tx.Now))
	}
	if byHand {
		return tx.RestAction(ctx, load.ID, models.ActionManual)
	}
	out.destination = destination
	if out.secret, err = s.openSecret(order.ShopID, destination); err != nil {
		return err
	}
	body := load.Body
	if body == nil || !load.Told {
		if body, err = s.body(load.Action, order, around, gate); err != nil {
			return err
		}
	}
	if out.try, err = tx.ClaimAction(ctx, load.ID, body, destination.Destination, lease); err != nil {
		return err
	}
	out.body = body
	return nil
}

// gate puts together what the conditions of an order's actions are judged by.
func (s *Actions) gate(order models.Order, around store.Surroundings, apis map[int64]models.APIState, since, now time.Time) models.Gate {
	g := models.Gate{Order: order, Since: since, Now: now, Unprocessed: len(around.Waiting) > 0,
		Health: map[int64]models.Health{}, Fresh: map[int64]time.Duration{}}
	for id, state := range apis {
		h := models.Health{}
		if conn := s.Book.ID(id); conn != nil {
			h, g.Fresh[id] = conn.Health(), conn.Duration("carry_fresh")
		}
		h.State, h.Waiting = state, around.Waiting[id]
		g.Health[id] = h
	}
	for _, hold := range around.Holds {
		g.Held = append(g.Held, string(hold.Scope))
	}
	g.Cases, g.LastEntry = around.Exceptions, around.LastEntry
	return g
}

// Gate is what the conditions of an order's actions are judged by, in a transaction
// that has locked the order after relying on its shop and its connections.
func (s *Actions) Gate(ctx context.Context, tx *store.Tx, order models.Order, apis map[int64]models.APIState) (models.Gate, store.Surroundings, error) {
	around, err := tx.Surroundings(ctx, order)
	if err != nil {
		return models.Gate{}, around, err
	}
	return s.gate(order, around, apis, time.Time{}, tx.Now), around, nil
}

// sent is what a destination gets.
type sent struct {
	Action string            `json:"action"`
	Kind   models.ActionKind `json:"kind"`
	Stage  string            `json:"stage"`
	Shop   string            `json:"shop"`
	// Pieces are the goods that it is about, where they aren't the whole order.
	Pieces  int      `json:"pieces,omitempty"`
	Repeats *repeats `json:"repeats,omitempty"`
	Order   any      `json:"order"`
}

// repeats names the action that is done once more.
type repeats struct {
	Action string `json:"action"`
	Stage  string `json:"stage"`
}

func (s *Actions) body(a models.Action, order models.Order, around store.Surroundings, gate models.Gate) ([]byte, error) {
	file := models.OrderFile{Order: order, Shop: around.Shop, ShopName: around.ShopName, Connection: around.Connection, Health: gate.Health,
		Waiting: around.Events, Exceptions: around.Exceptions, Holds: around.Holds, Actions: around.Actions}
	out := sent{Action: key(a.ID), Kind: a.Kind, Stage: a.Stage, Shop: around.Shop, Pieces: a.Pieces, Order: s.Outline(file, gate.Now)}
	for _, x := range around.Actions {
		if x.ID == a.Repeats {
			out.Repeats = &repeats{Action: key(x.ID), Stage: x.Stage}
		}
	}
	b, err := json.Marshal(out)
	if err != nil {
		return nil, fmt.Errorf("actions: body of %d: %w", a.ID, err)
	}
	return b, nil
}

// key is an action's name outside, the same on every try.
func key(id int64) string { return strconv.FormatInt(id, 10) }

const (
	longestWait = time.Minute
	// toldWait is for what is told when it comes: nobody has to look for it.
	toldWait = 10 * time.Minute
)

// patience is how long an action waits before it looks by itself. What changes its
// order wakes it at once; what has waited long looks seldom.
func patience(a models.Action, why string, now time.Time) time.Duration {
	switch why {
	case "official", "released", "not_expired":
		return toldWait
	case "not_before":
		return max(time.Second, min(a.NotBefore.Sub(now), toldWait))
	}
	return min(max(now.Sub(a.Planned)/4, time.Second), longestWait)
}

// Conditions are those of an action, with their present answers, for people to see.
func (s *Actions) Conditions(ctx context.Context, id int64) ([]models.Condition, error) {
	var out []models.Condition
	err := s.Store.Tx(ctx, func(tx *store.Tx) error {
		a, err := tx.Action(ctx, id)
		if err != nil {
			return err
		}
		order, err := tx.Order(ctx, a.OrderID)
		if err != nil {
			return err
		}
		around, err := tx.Surroundings(ctx, order)
		if err != nil {
			return err
		}
		apis := map[int64]models.APIState{}
		for _, id := range order.Connections() {
			if conn := s.Book.ID(id); conn != nil {
				apis[id] = conn.APIState
			}
		}
		out = s.gate(order, around, apis, time.Time{}, tx.Now).Conditions(a)
		return nil
	})
	return out, err
}
