package casework

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"counterfoil/models"
	"counterfoil/models/actions"
	"counterfoil/models/ledger"
	"counterfoil/models/queue"
	"counterfoil/models/store"
)

// Requests has what one person asks for and another one decides: the release of a
// follow-up that waits, a replacement, a message once more.
type Requests struct {
	Store   *store.Store
	Queue   *queue.Queue
	Actions *actions.Actions
	Log     *slog.Logger
}

// An Ask is what somebody asks for.
type Ask = models.Ask

// List lists requests, newest first.
func (s *Requests) List(ctx context.Context, q models.RequestQuery) (models.Page[models.Request], error) {
	return s.Store.Requests(ctx, q)
}

// Find finds a request that the actor sees.
func (s *Requests) Find(ctx context.Context, actor models.Actor, id int64) (models.Request, error) {
	q, err := s.Store.Request(ctx, id)
	if err == nil && !actor.Sees(q.ShopID) {
		return models.Request{}, models.Fail(models.NotFound, "error.request_unknown")
	}
	return q, err
}

// Stake is what a request is worth to an actor who may decide it, for
// models.Actor.MayDecide.
func (s *Requests) Stake(ctx context.Context, actor models.Actor, q models.Request) (models.Stake, error) {
	if q.OrderID == 0 {
		return models.Stake{}, nil
	}
	order, err := s.Store.Order(ctx, q.OrderID)
	if err == nil && order.MergedInto != 0 {
		order, err = s.Store.Order(ctx, order.MergedInto)
	}
	if err != nil {
		return models.Stake{}, err
	}
	return stake(ctx, s.Store, actor, order, s.Store.Now())
}

// Propose asks for a release, a replacement or a message once more. Support and
// managers may, in their shops; one request about a thing is open at a time, and one
// more is a conflict that names who asked first.
func (s *Requests) Propose(ctx context.Context, actor models.Actor, a Ask) (models.Request, error) {
	var out models.Request
	a.Reason = strings.TrimSpace(a.Reason)
	if a.Code == "" {
		a.Code = models.OtherReason
	}
	err := s.work(ctx, actor, place{order: a.Order, action: a.Action}, func(tx *store.Tx, g *ground) error {
		if !actor.May(models.ActionsRequest) {
			return models.Fail(models.Forbidden, "error.may_not_request")
		}
		if err := check(a); err != nil {
			return err
		}
		q := models.Request{Kind: a.Kind, ShopID: g.order.ShopID, OrderID: g.order.ID, Code: a.Code, Reason: a.Reason,
			By: actor.ID(), ByName: actor.Name, ByRole: actor.Role}
		if err := g.fits(ctx, tx, actor, &q); err != nil {
			return err
		}
		q.Needs = q.Approvers(models.Stake{Amount: g.order.Total, Currency: g.order.Currency})
		q.Seen, q.Expires = g.seen(), tx.Now.Add(q.Undecided())
		open, err := tx.OpenRequest(ctx, q.Subject)
		if err != nil {
			return err
		}
		if open.ID != 0 {
			if tx.Now.Before(open.Expires) {
				return models.Fail(models.Conflict, "error.request_open", open.ByName, open.At)
			}
			if err := expire(ctx, tx, open); err != nil {
				return err
			}
		}
		id, err := tx.AddRequest(ctx, q)
		if err != nil {
			return err
		}
		if out, err = tx.Request(ctx, id); err != nil {
			return err
		}
		return tx.Audit(ctx, actor.ID(), "request.propose", requestSubject(id), "", described(out))
	})
	return out, err
}

// Decide approves or rejects a request. Shift leads and managers may, within their
// limits, and nobody what they proposed. A yes is compared with what the proposer saw:
// if that moved, the request is stale, and the answer a conflict that says so. A no
// needs a note.
func (s *Requests) Decide(ctx context.Context, actor models.Actor, id int64, yes bool, note string) (models.Request, error) {
	found, err := s.Find(ctx, actor, id)
	if err != nil {
		return models.Request{}, err
	}
	if ok, why := actor.MayReject(found); !ok {
		return found, refusal(why)
	}
	note = strings.TrimSpace(note)
	if !yes && note == "" || note != "" && !sentence(note) {
		return found, invalid("note", "error.reason_text")
	}
	switch found.Kind {
	case models.RequestAccept:
		return s.decideCase(ctx, actor, found, yes, note)
	case models.RequestPolicy:
		return s.decidePolicy(ctx, actor, found, yes, note)
	}
	var out models.Request
	var late error
	err = s.work(ctx, actor, place{order: found.OrderID, action: found.ActionID, moves: yes}, func(tx *store.Tx, g *ground) error {
		out, late = models.Request{}, nil
		q, err := tx.LockRequest(ctx, id)
		if err != nil {
			return err
		}
		ok, why := actor.MayReject(q)
		if ok && yes {
			stake, err := stake(ctx, tx, actor, g.order, tx.Now)
			if err != nil {
				return err
			}
			ok, why = actor.MayDecide(q, stake)
		}
		switch {
		case !ok:
			return refusal(why)
		case !tx.Now.Before(q.Expires):
			late = models.Fail(models.Conflict, "error.request_expired")
			err = expire(ctx, tx, q)
		case !yes:
			err = end(ctx, tx, actor.ID(), q, store.Decision{State: models.RequestRejected, By: actor.ID(), Name: actor.Name, Note: note}, "request.reject")
		case g.seen() != q.Seen:
			late = models.Fail(models.Conflict, "error.request_stale")
			err = stale(ctx, tx, q)
		default:
			var here bool
			if here, err = stillHere(ctx, tx, q); err != nil {
				return err
			}
			if here {
				err = s.approve(ctx, tx, g, actor, q, note)
			} else {
				late = models.Fail(models.Conflict, "error.proposer_gone")
				err = stale(ctx, tx, q)
			}
		}
		if err != nil {
			return err
		}
		out, err = tx.Request(ctx, id)
		return err
	})
	if err == nil {
		err = late // what it says was committed
	}
	return out, err
}

// approve keeps a yes, and does what was asked for once there are enough of them.
func (s *Requests) approve(ctx context.Context, tx *store.Tx, g *ground, actor models.Actor, q models.Request, note string) error {
	if err := tx.Approve(ctx, q, models.Approval{By: actor.ID(), Name: actor.Name, Role: actor.Role}); err != nil {
		return err
	}
	if len(q.Approvals)+1 < q.Needs {
		return tx.Audit(ctx, actor.ID(), "request.approve", requestSubject(q.ID), described(q), fmt.Sprintf("approval 1 of %d", q.Needs))
	}
	if err := g.fits(ctx, tx, actor, &q); err != nil {
		return err
	}
	made, due, err := g.apply(ctx, tx, q)
	if err != nil {
		return err
	}
	if due {
		if err := s.Queue.WakeActions(ctx, tx, []int64{made}); err != nil {
			return err
		}
	}
	return end(ctx, tx, actor.ID(), q, store.Decision{State: models.RequestApplied, By: actor.ID(), Name: actor.Name, Note: note, Made: made}, "request.approve")
}

// Withdraw takes back what the actor proposed.
func (s *Requests) Withdraw(ctx context.Context, actor models.Actor, id int64) error {
	if _, err := s.Find(ctx, actor, id); err != nil {
		return err
	}
	return s.Store.Tx(ctx, func(tx *store.Tx) error {
		q, err := tx.LockRequest(ctx, id)
		switch {
		case err != nil:
			return err
		case q.Kind == models.RequestLive:
			return models.Fail(models.Forbidden, "error.request_of_policies")
		case q.By != actor.ID() || !actor.May(q.Kind.Asks()):
			return models.Fail(models.Forbidden, "error.not_your_request")
		case q.State != models.RequestProposed:
			return models.Fail(models.Conflict, "error.request_decided")
		}
		return end(ctx, tx, actor.ID(), q, store.Decision{State: models.RequestWithdrawn, By: actor.ID(), Name: actor.Name}, "request.withdraw")
	})
}

// Retry gives a follow-up whose tries are used up a new round of them. A shift lead or
// a manager may; what can't be taken back and didn't happen, as somebody reported, is
// sent again only by a release that two people decide.
func (s *Requests) Retry(ctx context.Context, actor models.Actor, action int64, reason string) (models.Action, error) {
	var after models.Action
	reason = strings.TrimSpace(reason)
	err := s.work(ctx, actor, place{action: action}, func(tx *store.Tx, g *ground) error {
		if !actor.MayRetry() {
			return models.Fail(models.Forbidden, "error.may_not_retry")
		}
		if !sentence(reason) {
			return invalid("reason", "error.reason_text")
		}
		axis, ended := g.order.Withdraws()
		switch a := g.action; {
		case a.Instead != 0:
			return merged(*a)
		case a.State != models.ActionFailed:
			return models.Fail(models.Conflict, "error.action_not_failed")
		case a.Kind.HighRisk() && a.Error == models.ReportedFailed:
			return models.Fail(models.Conflict, "error.release_instead")
		case a.Kind.HighRisk() && ended:
			return models.Fail(models.Conflict, "error.still_ended."+string(axis))
		}
		if err := tx.RetryAction(ctx, action, actor.Name, reason); err != nil {
			return err
		}
		if err := s.Queue.WakeActions(ctx, tx, []int64{action}); err != nil {
			return err
		}
		var err error
		if after, err = tx.Action(ctx, action); err != nil {
			return err
		}
		return tx.Audit(ctx, actor.ID(), "action.retry", store.ActionSubject(action), string(g.action.State), fmt.Sprintf("%s after %d tries", after.State, after.Tries))
	})
	return after, err
}

// Ends expires the requests that nobody decided in time, until the context ends.
func (s *Requests) Ends(ctx context.Context) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		if err := s.Expire(ctx); err != nil && ctx.Err() == nil && !store.Down(err) {
			s.Log.Error("requests not expired", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// Expire ends the requests that nobody decided in time. Several processes may call it
// at once.
func (s *Requests) Expire(ctx context.Context) error {
	due, err := s.Store.DueRequests(ctx, s.Store.Now())
	if err != nil {
		return err
	}
	for _, id := range due {
		err := s.Store.Tx(ctx, func(tx *store.Tx) error {
			q, err := tx.LockRequest(ctx, id)
			if err != nil || q.State != models.RequestProposed || tx.Now.Before(q.Expires) {
				return err
			}
			return expire(ctx, tx, q)
		})
		if err != nil {
			return fmt.Errorf("casework: expire request %d: %w", id, err)
		}
	}
	return nil
}

// stillHere tells whether whoever asked works here as when they did: what somebody asked
// for who doesn't is nobody's wish any more.
func stillHere(ctx context.Context, tx *store.Tx, q models.Request) (bool, error) {
	id, err := strconv.ParseInt(strings.TrimPrefix(q.By, "staff:"), 10, 64)
	if err != nil {
		return true, nil // no person asked
	}
	return tx.WorksHere(ctx, id, q.ByRole)
}

func stale(ctx context.Context, tx *store.Tx, q models.Request) error {
	return end(ctx, tx, ledger.Console, q, store.Decision{State: models.RequestStale, By: ledger.Console}, "request.stale")
}

func expire(ctx context.Context, tx *store.Tx, q models.Request) error {
	return end(ctx, tx, ledger.Console, q, store.Decision{State: models.RequestExpired, By: ledger.Console}, "request.expire")
}

// end ends a request and writes that down, without what people typed.
func end(ctx context.Context, tx *store.Tx, by string, q models.Request, d store.Decision, verb string) error {
	if err := tx.EndRequest(ctx, q.ID, d); err != nil {
		return err
	}
	after := string(d.State)
	if d.Made != 0 {
		after += " action:" + strconv.FormatInt(d.Made, 10)
	}
	return tx.Audit(ctx, by, verb, requestSubject(q.ID), described(q), after)
}

func requestSubject(id int64) string { return "request:" + strconv.FormatInt(id, 10) }

func described(q models.Request) string {
	return fmt.Sprintf("%s %s order:%d code=%s needs=%d by=%s", q.Kind, q.Subject, q.OrderID, q.Code, q.Needs, q.By)
}

// sentence tells whether a text is one line that says something, in letters that stand
// where they are shown.
func sentence(s string) bool {
	seen := func(r rune) bool { return unicode.In(r, unicode.L, unicode.N, unicode.P, unicode.S) }
	return strings.ContainsFunc(s, seen) && utf8.ValidString(s) && utf8.RuneCountInString(s) <= maxReason && !strings.ContainsFunc(s, hides)
}

// hides are the letters that aren't shown, or turn others around.
func hides(r rune) bool {
	return unicode.IsControl(r) || r >= '\u202a' && r <= '\u202e' || r >= '\u2066' && r <= '\u2069'
}

func check(a Ask) error {
	bad := map[string]string{}
	if !sentence(a.Reason) {
		bad["reason"] = "error.reason_text"
	}
	if !slices.Contains(models.ReasonCodes, a.Code) {
		bad["code"] = "error.reason_code"
	}
	if len(bad) == 0 {
		return nil
	}
	return &models.Error{Code: models.Invalid, Key: "error.invalid", Fields: bad}
}

func invalid(field, why string) error {
	return &models.Error{Code: models.Invalid, Key: "error.invalid", Fields: map[string]string{field: why}}
}

// refusal is the error of who may not decide.
func refusal(why string) error {
	switch why {
	case "error.request_unknown":
		return models.Fail(models.NotFound, why)
	case "error.request_decided", "error.approved_already":
		return models.Fail(models.Conflict, why)
	}
	return models.Fail(models.Forbidden, why)
}
