package casework

import (
	"context"
	"fmt"
	"strings"
	"unicode/utf8"

	"counterfoil/models"
	"counterfoil/models/queue"
	"counterfoil/models/store"
)

// Cases are exceptions in people's hands: whose they are, what was said about them, and
// how they end.
type Cases struct {
	Store *store.Store
	Queue *queue.Queue
}

// maxNote is the longest note, in characters.
const maxNote = 2000

// Find finds an exception that the actor sees.
func (s *Cases) Find(ctx context.Context, actor models.Actor, id int64) (models.Exception, error) {
	x, err := s.Store.Exception(ctx, id)
	if err == nil && !actor.SeesCase(x) {
		return models.Exception{}, models.Fail(models.NotFound, "error.exception_unknown")
	}
	return x, err
}

// Take makes an exception the actor's own. Whoever has it keeps it: a lead or a manager
// gives it to somebody else. version is that of the exception as the actor saw it (0: as
// it is).
func (s *Cases) Take(ctx context.Context, actor models.Actor, id, version int64) error {
	return s.own(ctx, actor, id, version, "case.take", actor.StaffID, func(x models.Exception) error {
		if ok, why := actor.MayTake(x); !ok {
			return models.Fail(models.Forbidden, why)
		}
		if x.Owner != 0 && x.Owner != actor.StaffID {
			return models.Fail(models.Conflict, "error.case_taken", x.OwnedBy)
		}
		return nil
	})
}

// Assign gives an exception to a colleague who sees it. Leads and managers may.
func (s *Cases) Assign(ctx context.Context, actor models.Actor, id, version, to int64) error {
	return s.own(ctx, actor, id, version, "case.assign", to, func(x models.Exception) error {
		if ok, why := actor.MayAssign(x); !ok {
			return models.Fail(models.Forbidden, why)
		}
		people, err := s.Store.Colleagues(ctx, x.ShopID)
		if err != nil {
			return err
		}
		for _, p := range people {
			if p.ID == to && (p.Role != models.Admin || x.Technical()) {
				return nil
			}
		}
		return invalid("to", "error.case_colleague")
	})
}

// GiveBack makes an exception nobody's. Its owner may, leads and managers too.
func (s *Cases) GiveBack(ctx context.Context, actor models.Actor, id, version int64) error {
	return s.own(ctx, actor, id, version, "case.give_back", 0, func(x models.Exception) error {
		if ok, why := actor.MayGiveBack(x); !ok {
			return models.Fail(models.Forbidden, why)
		}
		return nil
	})
}

func (s *Cases) own(ctx context.Context, actor models.Actor, id, version int64, verb string, owner int64, may func(models.Exception) error) error {
	if _, err := s.Find(ctx, actor, id); err != nil {
		return err
	}
	return s.Store.Tx(ctx, func(tx *store.Tx) error {
		x, err := openCase(ctx, tx, id, version)
		if err != nil {
			return err
		}
		if err := may(x); err != nil {
			return err
		}
		if err := tx.OwnCase(ctx, id, owner); err != nil {
			return err
		}
		return tx.Audit(ctx, actor.ID(), verb, store.CaseSubject(id), staffID(x.Owner), staffID(owner))
	})
}

func staffID(id int64) string {
	if id == 0 {
		return ""
	}
	return models.Actor{StaffID: id}.ID()
}

// openCase locks an exception that is open, and as whoever decides saw it.
func openCase(ctx context.Context, tx *store.Tx, id, version int64) (models.Exception, error) {
	x, err := tx.LockException(ctx, id)
	switch {
	case err != nil:
	case x.State != "open":
		err = models.Fail(models.Conflict, "error.case_closed")
	case version != 0 && x.Version != version:
		err = models.Fail(models.Conflict, "error.case_changed")
	}
	return x, err
}

// Note keeps what the actor writes beside an exception, open or closed.
func (s *Cases) Note(ctx context.Context, actor models.Actor, id int64, body string) error {
	if _, err := s.Find(ctx, actor, id); err != nil {
		return err
	}
	if !actor.May(models.ExceptionsWork) {
		return models.Fail(models.Forbidden, "error.may_not_work_cases")
	}
	if body = strings.TrimSpace(body); !paragraph(body) {
		return invalid("note", "error.case_note")
	}
	return s.Store.Tx(ctx, func(tx *store.Tx) error {
		if err := tx.AddNote(ctx, store.CaseSubject(id), models.CaseNote{By: actor.ID(), Name: actor.Name, Body: body}); err != nil {
			return err
		}
		return tx.Audit(ctx, actor.ID(), "case.note", store.CaseSubject(id), "", "")
	})
}

// paragraph tells whether a text says something, on one line or several.
func paragraph(s string) bool {
	lines := strings.NewReplacer("\r\n", "\n", "\t", " ").Replace(s)
	return strings.TrimSpace(s) != "" && utf8.ValidString(s) && utf8.RuneCountInString(s) <= maxNote && !strings.ContainsFunc(strings.ReplaceAll(lines, "\n", " "), hides)
}

// Tell ticks off that the customer was told.
func (s *Cases) Tell(ctx context.Context, actor models.Actor, id, version int64) error {
	if _, err := s.Find(ctx, actor, id); err != nil {
		return err
	}
	if ok, why := actor.MayTell(); !ok {
		return models.Fail(models.Forbidden, why)
	}
	return s.Store.Tx(ctx, func(tx *store.Tx) error {
		x, err := openCase(ctx, tx, id, version)
		switch {
		case err != nil:
			return err
		case !x.Tell:
			return models.Fail(models.Conflict, "error.case_nobody_to_tell")
		case !x.Told.IsZero():
			return models.Fail(models.Conflict, "error.case_told", x.ToldBy)
		}
		if err := tx.TellCase(ctx, id, actor.Name); err != nil {
			return err
		}
		return tx.Audit(ctx, actor.ID(), "case.tell", store.CaseSubject(id), "", "told")
	})
}

// A Closing is how somebody wants an exception to end.
type Closing struct {
	Version int64 // as they saw it; 0: as it is
	Reason  string
}

// Solve closes an exception as solved.
func (s *Cases) Solve(ctx context.Context, actor models.Actor, id int64, c Closing) error {
	return s.close(ctx, actor, id, c, models.HowSolved, func(x models.Exception) error {
		if ok, why := actor.MaySolve(x); !ok {
			return models.Fail(models.Forbidden, why)
		}
		return nil
	})
}

// Dismiss closes an exception that needs nothing. One that pauses an order because of
// its payment is dismissed by two managers: see Propose.
func (s *Cases) Dismiss(ctx context.Context, actor models.Actor, id int64, c Closing) error {
	return s.close(ctx, actor, id, c, models.HowDismissed, func(x models.Exception) error {
		if ok, why := actor.MayDismiss(x); !ok {
			return models.Fail(models.Forbidden, why)
		}
		if actor.Together(x) {
			return models.Fail(models.Forbidden, "error.case_dismiss_together")
		}
		return nil
	})
}

func (s *Cases) close(ctx context.Context, actor models.Actor, id int64, c Closing, how string, may func(models.Exception) error) error {
	c.Reason = strings.TrimSpace(c.Reason)
	return s.locked(ctx, actor, id, c.Version, func(tx *store.Tx, x models.Exception) error {
		if err := may(x); err != nil {
			return err
		}
		if !sentence(c.Reason) {
			return invalid("reason", "error.reason_text")
		}
		if x.Untold() {
			return models.Fail(models.Conflict, "error.case_tell_first")
		}
		if err := tx.EndCase(ctx, id, how, actor.Name, c.Reason); err != nil {
			return err
		}
		if err := supersede(ctx, tx, x); err != nil {
			return err
		}
		if err := tx.Audit(ctx, actor.ID(), "case."+how, store.CaseSubject(id), recordCase(x), how); err != nil {
			return err
		}
		return s.wake(ctx, tx, x)
	})
}

// supersede ends what was asked for about an exception that is over.
func supersede(ctx context.Context, tx *store.Tx, x models.Exception) error {
	open, err := tx.OpenRequest(ctx, store.CaseSubject(x.ID))
	if err != nil || open.ID == 0 {
		return err
	}
	return stale(ctx, tx, open)
}

// locked does something with an exception that is open, its order and itself locked.
func (s *Cases) locked(ctx context.Context, actor models.Actor, id, version int64, do func(tx *store.Tx, x models.Exception) error) error {
	for try := 1; ; try++ {
		found, err := s.Find(ctx, actor, id)
		if err != nil {
			return err
		}
		err = s.Store.Tx(ctx, func(tx *store.Tx) error {
			if err := lockOrderOf(ctx, tx, found); err != nil {
				return err
			}
			x, err := openCase(ctx, tx, id, version)
			if err == nil && x.OrderID != found.OrderID {
				err = errAgain
			}
			if err != nil {
				return err
			}
			return do(tx, x)
		})
		if err != error(errAgain) || try == workTries {
			return err
		}
	}
}

// lockOrderOf locks the order of an exception and its unsent actions, before the
// exception.
func lockOrderOf(ctx context.Context, tx *store.Tx, x models.Exception) error {
	if x.OrderID == 0 {
		return nil
	}
	if _, err := tx.LockOrder(ctx, x.OrderID); err != nil {
		return err
	}
	_, _, err := tx.LockActions(ctx, x.OrderID)
	return err
}

// wake has what waits on the order of an exception that is over looked at again.
func (s *Cases) wake(ctx context.Context, tx *store.Tx, x models.Exception) error {
	return wake(ctx, tx, s.Queue, x)
}

func wake(ctx context.Context, tx *store.Tx, q *queue.Queue, x models.Exception) error {
	if x.OrderID == 0 {
		return nil
	}
	due, err := tx.WakeActions(ctx, x.OrderID, false)
	if err != nil || q == nil {
		return err
	}
	return q.WakeActions(ctx, tx, due)
}

// recordCase is an exception for the audit trail, without what anybody typed.
func recordCase(x models.Exception) string {
	return fmt.Sprintf("%s axis=%s policy=%s order:%d seen %d times", x.Kind, x.Axis, x.Policy, x.OrderID, x.Count)
}
