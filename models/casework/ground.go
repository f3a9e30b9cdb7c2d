package casework

import (
	"context"
	"slices"
	"strconv"
	"time"

	"counterfoil/models"
	"counterfoil/models/store"
	"counterfoil/views/locale"
)

// A place is what somebody decides about. moves: their approvals are summed.
type place struct {
	order, action int64
	moves         bool
}

// A ground is everything that a decision about an order rests on, under its locks.
type ground struct {
	order  models.Order
	action *models.Action // what is released, sent again or replaced; nil: none
	gate   models.Gate
	around store.Surroundings
}

// workTries is how often an order may become another one under our hands.
const workTries = 3

// errAgain has the work begun again, because the order became another one meanwhile.
var errAgain = models.Fail(models.Conflict, "error.moved_meanwhile")

// work does something about a place that the actor sees, with the locks of whoever
// carries an action: shop and connections are relied on, order and action locked.
func (s *Requests) work(ctx context.Context, actor models.Actor, p place, do func(tx *store.Tx, g *ground) error) error {
	for try := 1; ; try++ {
		err := s.Store.Tx(ctx, func(tx *store.Tx) error {
			if p.moves {
				if err := tx.LockActor(ctx, actor.ID()); err != nil {
					return err
				}
			}
			g, err := s.stand(ctx, tx, actor, p)
			if err != nil {
				return err
			}
			return do(tx, g)
		})
		if err != error(errAgain) || try == workTries {
			return err
		}
	}
}

func (s *Requests) stand(ctx context.Context, tx *store.Tx, actor models.Actor, p place) (*ground, error) {
	unknown := "error.order_unknown"
	var about models.Action
	var err error
	if p.action != 0 {
		unknown = "error.action_unknown"
		if about, err = tx.Action(ctx, p.action); err != nil {
			return nil, err
		}
		p.order = about.OrderID
	}
	seen, err := tx.Order(ctx, p.order)
	if err == nil && seen.MergedInto != 0 {
		seen, err = tx.Order(ctx, seen.MergedInto)
	}
	if err != nil {
		return nil, err
	}
	if !actor.Sees(seen.ShopID) {
		return nil, models.Fail(models.NotFound, unknown)
	}
	apis, err := tx.Rely(ctx, seen.ShopID, seen.Connections())
	if err != nil {
		return nil, err
	}
	g := &ground{}
	if g.order, err = tx.LockOrder(ctx, seen.ID); err != nil {
		return nil, err
	}
	if g.order.MergedInto != 0 || !slices.Equal(g.order.Connections(), seen.Connections()) {
		return nil, errAgain
	}
	if p.action != 0 {
		load, err := tx.LockAction(ctx, p.action)
		if err != nil {
			return nil, err
		}
		if load.OrderID != about.OrderID {
			return nil, errAgain
		}
		g.action = &load.Action
	}
	g.gate, g.around, err = s.Actions.Gate(ctx, tx, g.order, apis)
	return g, err
}

// seen is a digest of what is known now, to be compared with what a proposer saw.
func (g *ground) seen() string {
	return models.Seen(g.order, g.around.LastEntry, g.action, g.around.Exceptions)
}

// againPerDay is how often support may ask for messages of one order once more.
const againPerDay = 2

// fits refuses what can't be asked for now, and completes the request with what it is
// about. It is judged when it is proposed and again when it is decided.
func (g *ground) fits(ctx context.Context, tx *store.Tx, actor models.Actor, q *models.Request) error {
	a := g.action
	if a != nil {
		if a.Instead != 0 {
			return merged(*a)
		}
		q.ActionID, q.ActionKind = a.ID, a.Kind
	}
	switch {
	case q.Kind == models.RequestRelease && a != nil:
		q.Subject = store.ActionSubject(a.ID)
		return g.releasable(*a, q.ID != 0)
	case q.Kind == models.RequestAgain && a != nil:
		q.Subject = store.ActionSubject(a.ID)
		if a.Kind != models.CustomerMessage {
			return invalid("action", "error.only_messages_again")
		}
		if a.State != models.ActionDone {
			return models.Fail(models.Conflict, "error.message_not_sent")
		}
		if actor.Role != models.Support || actor.Lead || q.ID != 0 {
			return nil
		}
		n, err := tx.AskedAgain(ctx, g.order.ID, tx.Now.Add(-24*time.Hour))
		if err == nil && n >= againPerDay {
			return models.Fail(models.Forbidden, "error.again_limit")
		}
		return err
	case q.Kind == models.RequestReplacement:
		q.Subject = "order:" + strconv.FormatInt(g.order.ID, 10)
		if a != nil && a.Kind != models.FulfillmentInstruction {
			return invalid("action", "error.not_an_instruction")
		}
		q.ActionKind = models.FulfillmentInstruction
		if why := g.order.Unreplaceable(g.around.Actions); why != "" {
			return models.Fail(models.Conflict, why)
		}
		return nil
	}
	return invalid("kind", "error.word")
}

// merged refuses an action that stayed with an order that became part of another one.
func merged(a models.Action) error {
	return models.Fail(models.Conflict, "error.action_merged", a.Instead)
}

// releasable tells whether people's decision is what the action waits for. What was
// proposed while it did is decided even if only facts are missing by now.
func (g *ground) releasable(a models.Action, proposed bool) error {
	why, facts := g.gate.Unreleasable(a)
	switch {
	case why == "", proposed && (why == "error.only_facts" || why == "error.nothing_to_release"):
		return nil
	case len(facts) == 0:
		return models.Fail(models.Conflict, why)
	}
	names := make(locale.List, len(facts))
	for i, f := range facts {
		names[i] = locale.Say("condition." + f)
	}
	return models.Fail(models.Invalid, why, names)
}

// apply does what was asked for. It answers the action, and whether it is due.
func (g *ground) apply(ctx context.Context, tx *store.Tx, q models.Request) (int64, bool, error) {
	switch q.Kind {
	case models.RequestRelease:
		return q.ActionID, true, tx.ReleaseAction(ctx, q.ActionID, q.ID)
	case models.RequestReplacement:
		return tx.AddAction(ctx, g.order, store.Extra{Kind: models.FulfillmentInstruction, Stage: models.StageReplacement, Official: true, Request: q.ID})
	}
	repeats := g.action.ID
	if g.action.Repeats != 0 {
		repeats = g.action.Repeats // what a repetition repeats is the message itself
	}
	return tx.AddAction(ctx, g.order, store.Extra{Kind: g.action.Kind, Stage: models.StageAgain, Official: true, Repeats: repeats, Request: q.ID})
}

type sums interface {
	ShiftSum(ctx context.Context, approver, currency string, since time.Time) (int64, error)
}

// stake is what a request about an order is worth to an actor who may decide it.
func stake(ctx context.Context, r sums, actor models.Actor, o models.Order, now time.Time) (models.Stake, error) {
	shift, err := r.ShiftSum(ctx, actor.ID(), o.Currency, now.Add(-models.Shift))
	return models.Stake{Amount: o.Total, Currency: o.Currency, Shift: shift}, err
}
