package ledger

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"counterfoil/models"
	"counterfoil/models/store"
)

// hint announces an order by name, or puts a known one in doubt.
func (l *Ledger) hint(ctx context.Context, tx *store.Tx, r Reading, order models.Order, desc *models.Observation, fresh []string) error {
	if order.Announced {
		if desc != nil && (order.Said == nil || desc.Changed.After(order.Said.Changed)) {
			order.Said = desc
			order.Number = number(models.ObjectRef{ID: order.Ref}, desc)
			if err := tx.SaveOrder(ctx, order); err != nil {
				return err
			}
		}
		if desc == nil {
			return nil
		}
		return l.addRefs(ctx, tx, r, order, fresh)
	}
	doubted := order.Doubted(r.Conn.ID, models.Unverified, r.Doubt)
	if !doubted {
		return nil
	}
	return tx.SaveOrder(ctx, order)
}

// GoneAfter is how long a platform may answer without knowing an object before we
// say that it is gone: some platforms tell before they can be asked.
const GoneAfter = 10 * time.Minute

// missing judges an object that the platform doesn't show although it answers.
func (l *Ledger) missing(ctx context.Context, tx *store.Tx, r Reading, order models.Order, obj store.ObjectRow) error {
	p := models.Problem{Kind: models.GoneOnPlatform, Detail: obj.Ref.ID}
	check, doubt := models.ToReview, models.Missing
	subject := objectSubject(obj.ID)
	if order.ID != 0 {
		subject = "order:" + strconv.FormatInt(order.ID, 10)
	}
	switch r.Seen.Absence {
	case models.AdminTest:
		return nil
	case models.OutsideWindow:
		p = models.Problem{Kind: models.OutsideWindowKind}
		check, doubt = models.Unverified, models.TooOld
		subject = "window"
	case models.Unreadable:
		p.Case, p.Detail = "unreadable", r.Seen.Detail
		if tx.Now.Sub(obj.Missing) < GoneAfter {
			return nil
		}
	default:
		if order.ID == 0 && allTests(r.Events) || tx.Now.Sub(obj.Missing) < GoneAfter && !Deleted(r.Events) {
			return nil
		}
	}
	if order.ID != 0 && !order.Announced && order.Doubted(r.Conn.ID, check, doubt) {
		if err := tx.SaveOrder(ctx, order); err != nil {
			return err
		}
	}
	k := store.Case{ConnectionID: r.Conn.ID, Subject: subject, OrderID: order.ID, Ref: obj.Ref.ID, Problem: p.Of(order)}
	if subject != "window" {
		k.ObjectID = obj.ID
	}
	return tx.OpenCase(ctx, k)
}

// Deleted tells whether the platform itself said that the object was deleted.
func Deleted(events []store.DueEvent) bool {
	for _, e := range events {
		if e.Topic == "orders/delete" {
			return true
		}
	}
	return false
}

func allTests(events []store.DueEvent) bool {
	for _, e := range events {
		if !e.Test {
			return false
		}
	}
	return len(events) > 0
}

// faults are what adapters couldn't understand of the order's objects, as problems.
func faults(objects []models.ObjectView) []models.Problem {
	var out []models.Problem
	for _, o := range objects {
		seen := o.Official
		if seen == nil {
			seen = o.Said
		}
		if seen == nil {
			continue
		}
		for _, f := range seen.Faults {
			if f.Kind == models.UnknownStatus {
				continue // Advance tells it with both states
			}
			out = append(out, models.Problem{Kind: f.Kind, Axis: f.Axis, Detail: strings.TrimSpace(f.Path + " " + f.Word)})
		}
	}
	return out
}

// disagreeAgain is when a disagreement is looked at once more whose grace is over,
// while something about the order still waits.
const disagreeAgain = time.Minute

// grace holds each disagreement back until it has lasted as long as its axis allows, with
// both sides well read. What is held back opens no case and closes none.
func (l *Ledger) grace(ctx context.Context, tx *store.Tx, r Reading, o *models.Order, objects []models.ObjectView, problems []models.Problem) (now, held []models.Problem, err error) {
	o.DisagreeDue = time.Time{}
	if !slices.ContainsFunc(problems, disagrees) {
		o.DisagreeSince = time.Time{}
		return problems, nil, nil
	}
	if o.DisagreeSince.IsZero() {
		o.DisagreeSince = tx.Now
	}
	lasted := tx.Now.Sub(o.DisagreeSince)
	over := slices.ContainsFunc(problems, func(p models.Problem) bool { return disagrees(p) && lasted >= models.DisagreeGrace(p.Axis) })
	waits := l.unasked(objects)
	if over && !waits {
		if waits, err = tx.EventsWait(ctx, o.ID, eventIDs(r.Events)); err != nil {
			return nil, nil, err
		}
	}
	for _, p := range problems {
		if !disagrees(p) || !waits && lasted >= models.DisagreeGrace(p.Axis) {
			now = append(now, p)
			continue
		}
		held = append(held, p)
		due := o.DisagreeSince.Add(models.DisagreeGrace(p.Axis))
		if !due.After(tx.Now) {
			due = tx.Now.Add(disagreeAgain)
		}
		if o.DisagreeDue.IsZero() || due.Before(o.DisagreeDue) {
			o.DisagreeDue = due
		}
	}
	return now, held, nil
}

// unasked tells whether the platform of one of the objects can't be asked now.
func (l *Ledger) unasked(objects []models.ObjectView) bool {
	return slices.ContainsFunc(objects, func(v models.ObjectView) bool {
		c := l.Book.ID(v.Connection)
		return c != nil && c.APIFailing != nil
	})
}

func eventIDs(events []store.DueEvent) []int64 {
	ids := make([]int64, len(events))
	for i, e := range events {
		ids[i] = e.ID
	}
	return ids
}

func disagrees(p models.Problem) bool { return p.Kind == models.PlatformsDisagree }

func caseName(p models.Problem) string { return string(p.Kind) + "/" + string(p.Axis) }
