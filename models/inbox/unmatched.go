package inbox

import (
	"context"
	"slices"
	"strconv"
	"time"

	"counterfoil/models"
	"counterfoil/models/connect"
	"counterfoil/models/ledger"
	"counterfoil/models/store"
)

// How long an event may match no order before it is a person's: with money received,
// somebody waits for goods.
const (
	moneyGrace = time.Hour
	quietGrace = 7 * 24 * time.Hour
)

// waitsForOrder tells whether the events of a claim wait for an order to appear.
func waitsForOrder(c store.Claim, seen *models.Observation, out ledger.Outcome) bool {
	return out.Unmatched && out.Foreign == "" && (seen != nil || slices.ContainsFunc(c.Events, func(e store.DueEvent) bool { return e.Said != nil }))
}

// money tells whether an object shows that money moved.
func money(o *models.Observation) bool {
	if o == nil {
		return false
	}
	if a := o.Amounts; a != nil && (a.Received > 0 || a.Refunded > 0) {
		return true
	}
	back, dispute := o.Axes[models.Refund].State, o.Axes[models.Dispute].State
	return back != "" && back != models.RefundNone || dispute != "" && dispute != models.DisputeNone
}

// lookAgain is when an event that matches no order looks by itself. The order that
// appears calls it at once; this is only the second line.
func lookAgain(e store.DueEvent, seen *models.Observation, now time.Time) time.Duration {
	waited, grace := now.Sub(e.Received), quietGrace
	if money(seen) || seen == nil && money(e.Said) {
		grace = moneyGrace
	}
	switch after := backoff(e.Rereads, secondLine); {
	case waited < grace:
		return min(after, grace-waited)
	case waited < quietGrace:
		return max(after, time.Hour)
	default:
		return 24 * time.Hour
	}
}

// unmatched makes events a case that have matched no order for too long: one of each
// payment, and one of each day for those that moved no money. It closes the case of
// a day once nothing of it waits any more.
func (in *Inbox) unmatched(ctx context.Context, tx *store.Tx, conn *connect.Conn, c store.Claim, seen *models.Observation, out ledger.Outcome, waits bool) error {
	oldest, fresh, waited := tx.Now, false, false
	for _, e := range c.Events {
		if e.Received.Before(oldest) {
			oldest = e.Received
		}
		fresh = fresh || e.State == models.EventReceived
		waited = waited || e.State == models.EventUnmatched
	}
	if !waits {
		if !waited || tx.Now.Sub(oldest) < quietGrace {
			return nil
		}
		return tx.CloseUnmatchedDays(ctx, conn.ID, ids(c.Events))
	}
	desc := ledger.Describe(ledger.Reading{Seen: seen, Events: c.Events})
	paid := money(desc)
	if len(c.Events) == 0 || desc.Test || tx.Now.Sub(oldest) < quietGrace && !(paid && tx.Now.Sub(oldest) >= moneyGrace) {
		return nil
	}
	ref := desc.Ref.ID
	if ref == "" {
		ref = c.Ref.ID
	}
	k := store.Case{ConnectionID: conn.ID, Ref: ref, Problem: models.Problem{Kind: models.Unmatched, Case: models.CaseNoMoney, PlatformState: desc.Axes[models.Payment].Word}}
	if paid {
		k.Subject, k.Problem.Case = "object:"+strconv.FormatInt(out.ObjectID, 10), models.CaseMoney
		if a := desc.Amounts; a != nil {
			if a.Received == 0 {
				k.Problem.Case = models.CaseReversal
			}
			k.Problem.Detail = models.Decimal(a.Received, a.Currency) + " " + a.Currency
		}
	} else {
		k.Subject, k.Problem.Detail = store.UnmatchedDay(oldest.UTC().Format(time.DateOnly)), oldest.UTC().Format(time.DateOnly)
	}
	// Looking again is no news; another event is.
	if open, err := tx.CaseOpen(ctx, conn.ID, k.Subject, models.Unmatched); err != nil || open && !fresh {
		return err
	}
	return tx.OpenCase(ctx, k)
}

// dismiss settles the events of a claim that a rule of the connection calls another
// system's by their topic, unless their object belongs to an order already. It gives
// the claim with the others.
func (in *Inbox) dismiss(ctx context.Context, conn *connect.Conn, c store.Claim) (store.Claim, error) {
	var theirs, ours []store.DueEvent
	for _, e := range c.Events {
		if conn.Ignores(e.Topic) {
			theirs = append(theirs, e)
		} else {
			ours = append(ours, e)
		}
	}
	if len(theirs) == 0 || c.OrderID != 0 {
		return c, nil
	}
	order, err := in.store.LeadsTo(ctx, c.ObjectID)
	if err != nil || order != 0 {
		return c, err
	}
	err = in.store.Tx(ctx, func(tx *store.Tx) error {
		if len(ours) == 0 {
			if err := tx.CloseCases(ctx, "object:"+strconv.FormatInt(c.ObjectID, 10), []models.ExceptionKind{models.Unmatched}, nil, "dismissed"); err != nil {
				return err
			}
		}
		if err := tx.CloseUnmatchedDays(ctx, conn.ID, ids(theirs)); err != nil {
			return err
		}
		marks := make([]store.Mark, len(theirs))
		for i, e := range theirs {
			if err := tx.CountTopic(ctx, conn.ID, e.Topic, true, 1); err != nil {
				return err
			}
			marks[i] = store.Mark{ID: e.ID, Key: e.Key, State: models.EventNotApplied, Error: "note.other_system"}
		}
		if _, err := tx.MarkEvents(ctx, marks); err != nil {
			return err
		}
		return tx.Unwant(ctx, ids(theirs))
	})
	if err == nil {
		c.Events = ours
	}
	return c, err
}
