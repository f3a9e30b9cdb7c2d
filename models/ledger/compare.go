package ledger

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"counterfoil/models"
	"counterfoil/models/connect"
	"counterfoil/models/store"
)

// A Sighting is one object as a sweep saw it.
type Sighting struct {
	Conn  *connect.Conn
	Asked models.ObjectRef
	Seen  models.Observation
	No    int64 // of the reading
	// Import: the first sweep takes over what was there before it began, quietly.
	Import bool
	Began  time.Time // of the sweep
}

// Ref is the object that was seen.
func (s Sighting) Ref() models.ObjectRef {
	ref := s.Asked
	if !s.Seen.Ref.Zero() {
		ref = s.Seen.Ref
	}
	if ref.Account == "" {
		ref.Account = s.Conn.Account
	}
	return ref
}

// A Verdict says what comparing an object came to.
type Verdict string

const (
	Agrees   Verdict = "agrees"
	Left     Verdict = "left"     // an event or a later reading speaks for it
	Nothing  Verdict = "nothing"  // not about orders of ours
	Differs  Verdict = "differs"  // kept as a finding
	Imported Verdict = "imported" // taken over quietly
	Broken   Verdict = "broken"   // can't be read
)

// Compare judges what a sweep saw against the record. It never moves an order: what
// the record doesn't say becomes a finding, and exceptions once a notification is
// overdue. It runs in the caller's transaction, which must be able to run again.
func (l *Ledger) Compare(ctx context.Context, tx *store.Tx, s Sighting) (Verdict, int64, error) {
	obj, err := tx.FindObject(ctx, s.Conn.ID, s.Ref())
	if err != nil {
		return "", 0, err
	}
	var order models.Order
	if obj.OrderID != 0 {
		if order, err = lockMerged(ctx, tx, obj.OrderID); err != nil {
			return "", obj.ID, err
		}
	}
	was := obj.OrderID
	if obj, err = tx.LockObject(ctx, obj.ID); err != nil {
		return "", obj.ID, err
	}
	if obj.OrderID != was && obj.OrderID != order.ID {
		return "", obj.ID, fmt.Errorf("ledger: object %d was linked meanwhile: %w", obj.ID, errAgain)
	}
	if waits, err := tx.ObjectWaits(ctx, obj.ID); err != nil || waits || s.No < obj.AppliedNo {
		return Left, obj.ID, err
	}
	if obj.Official != nil && older(s.Seen, *obj.Official) {
		return Left, obj.ID, nil
	}
	if s.Seen.Absence != models.Present {
		return l.absent(ctx, tx, s, order, obj)
	}
	if order.ID == 0 {
		v, err := l.unknown(ctx, tx, s, obj)
		return v, obj.ID, err
	}
	views, _, err := l.views(ctx, tx, order.ID)
	if err != nil {
		return "", obj.ID, err
	}
	base := models.Advance(order, models.Compose(views), tx.Now)
	read := s.Seen
	for i := range views {
		if views[i].ID == obj.ID {
			views[i].Official = &read
		}
	}
	step := models.Advance(order, models.Compose(views), tx.Now)
	problems := models.Differences(order, base, step, obj.Official, &read)
	if order.Announced {
		problems = []models.Problem{{Kind: models.MissedNotification, Axis: models.Payment, PlatformState: read.Axes[models.Payment].Word}}
	}
	if len(problems) > 0 {
		return Differs, obj.ID, l.found(ctx, tx, s, order, obj, problems)
	}
	obj.Official, obj.Fetched, obj.Missing = &read, read.Read, time.Time{}
	if err := tx.SaveObject(ctx, obj, s.No); err != nil {
		return "", obj.ID, err
	}
	for a, rec := range step.Order.Axes {
		if rec.State == order.State(a) {
			order.Axes[a] = rec
		}
	}
	if err := tx.SaveOrder(ctx, order); err != nil {
		return "", obj.ID, err
	}
	_, err = tx.DropFinding(ctx, obj.ID, "sweep", "")
	return Agrees, obj.ID, err
}

// absent remembers that the platform answers and doesn't show an object that we know.
func (l *Ledger) absent(ctx context.Context, tx *store.Tx, s Sighting, order models.Order, obj store.ObjectRow) (Verdict, int64, error) {
	verdict := Nothing
	if s.Seen.Absence == models.Unreadable {
		verdict = Broken
	}
	if order.ID == 0 {
		return verdict, obj.ID, nil
	}
	r := Reading{Conn: s.Conn, Asked: s.Asked, No: s.No, Seen: &s.Seen, Actor: Console}
	l.take(&obj, r)
	if err := tx.SaveObject(ctx, obj, s.No); err != nil {
		return "", obj.ID, err
	}
	return verdict, obj.ID, l.missing(ctx, tx, r, order, obj)
}

// unknown judges an object that has no order: one that would make or join an order is
// missed, whatever it says.
func (l *Ledger) unknown(ctx context.Context, tx *store.Tx, s Sighting, obj store.ObjectRow) (Verdict, error) {
	if s.Seen.Foreign != "" {
		return Nothing, nil
	}
	joins := s.Conn.CreatesOrders()
	for _, link := range s.Seen.Links {
		if joins {
			break
		}
		id, _, err := Named(link.Value, func(form string) ([]int64, error) { return tx.OrdersNamed(ctx, s.Conn.ShopID, form) })
		if err != nil {
			return "", err
		}
		if id != 0 {
			if id, _, err = l.linkTo(ctx, tx, id, link, &s.Seen); err != nil {
				return "", err
			}
		}
		joins = id != 0
	}
	if !joins {
		if ids, err := tx.OrdersNamed(ctx, s.Conn.ShopID, obj.Ref.ID); err != nil || len(ids) != 1 {
			return Nothing, err
		}
	}
	p := models.Problem{Kind: models.MissedNotification, Axis: models.Payment, PlatformState: s.Seen.Axes[models.Payment].Word}
	return Differs, l.found(ctx, tx, s, models.Order{}, obj, []models.Problem{p})
}

// found keeps a difference, and opens its exceptions once a notification is overdue.
func (l *Ledger) found(ctx context.Context, tx *store.Tx, s Sighting, order models.Order, obj store.ObjectRow, problems []models.Problem) error {
	before, err := tx.FindingOf(ctx, obj.ID)
	if err != nil {
		return err
	}
	digest := s.Seen.Digest()
	f := store.Finding{ObjectID: obj.ID, ConnectionID: s.Conn.ID, OrderID: order.ID, Seen: s.Seen, Digest: digest[:], Problems: problems,
		Changed: s.Seen.ChangedAt(), First: tx.Now}
	if obj.Official != nil && !f.Changed.After(obj.Official.ChangedAt()) {
		f.Changed = time.Time{} // the platform's time doesn't tell of this change
	}
	since := f.Changed
	if before != nil {
		f.First = before.First
	}
	if since.IsZero() {
		since = f.First
	}
	told, err := tx.ToldSince(ctx, obj.ID, since)
	if err != nil {
		return err
	}
	for i, p := range f.Problems {
		switch {
		case told && p.Kind == models.MissedNotification:
			f.Problems[i].Kind, f.Problems[i].Case = models.StateDiffers, models.CaseBehind
		case !told:
			f.Problems[i].Kind, f.Problems[i].Case = models.MissedNotification, ""
			if s.Conn.Platform == models.ReceiptRoller {
				f.Problems[i].Detail = since.AddDate(0, 0, models.RedeliverDays).UTC().Format(time.DateOnly)
			}
		}
	}
	f.Opens = since.Add(s.Conn.Duration("missed_after"))
	same := before != nil && bytes.Equal(before.Digest, f.Digest) && slices.EqualFunc(before.Problems, f.Problems, func(a, b models.Problem) bool { return a.Kind == b.Kind && a.Axis == b.Axis })
	if same && before.Opens.IsZero() {
		f.Opens = time.Time{} // whatever people decided of it stands
		return tx.KeepFinding(ctx, f)
	}
	if err := tx.KeepFinding(ctx, f); err != nil || f.Opens.After(tx.Now) {
		return err
	}
	if err := tx.FindingOpened(ctx, obj.ID, false, false); err != nil {
		return err
	}
	return l.openFound(ctx, tx, s.Conn, order, obj, f)
}

// OpenFound opens the exceptions of a finding whose notification is overdue.
func (l *Ledger) OpenFound(ctx context.Context, tx *store.Tx, object int64) error {
	f, err := tx.FindingOf(ctx, object)
	if err != nil || f == nil {
		return err
	}
	conn := l.Book.ID(f.ConnectionID)
	if conn == nil {
		return nil
	}
	var order models.Order
	if f.OrderID != 0 {
		if order, err = lockMerged(ctx, tx, f.OrderID); err != nil {
			return err
		}
	}
	obj, err := tx.LockObject(ctx, object)
	if err != nil {
		return err
	}
	if f, err = tx.FindingOf(ctx, object); err != nil || f == nil || f.Opens.IsZero() || f.Opens.After(tx.Now) {
		return err // somebody was here meanwhile
	}
	if waits, err := tx.ObjectWaits(ctx, object); err != nil || waits {
		if err != nil {
			return err
		}
		return tx.FindingLater(ctx, object, tx.Now.Add(time.Minute))
	}
	missed := slices.ContainsFunc(f.Problems, func(p models.Problem) bool { return p.Kind == models.MissedNotification })
	if err := tx.FindingOpened(ctx, object, missed, !missed); err != nil {
		return err
	}
	return l.openFound(ctx, tx, conn, order, obj, *f)
}

func (l *Ledger) openFound(ctx context.Context, tx *store.Tx, conn *connect.Conn, order models.Order, obj store.ObjectRow, f store.Finding) error {
	subject := objectSubject(obj.ID)
	if order.ID != 0 {
		subject = "order:" + strconv.FormatInt(order.ID, 10)
	}
	doubted := false
	for _, p := range f.Problems {
		c := store.Case{ConnectionID: conn.ID, Subject: subject, OrderID: order.ID, Ref: obj.Ref.ID, ObjectID: obj.ID, Problem: p}
		if order.ID != 0 {
			c.Problem = p.Of(order)
		}
		if p.Kind == models.MissedNotification {
			c.Topic = models.MissedTopic(conn.Platform, p.Axis, f.Seen.Axes[p.Axis].State, order.ID == 0)
		}
		if accepted, err := tx.Accepted(ctx, c, tx.Now); err != nil {
			return err
		} else if accepted {
			continue
		}
		if err := tx.OpenCase(ctx, c); err != nil {
			return err
		}
		if rec, ok := order.Axes[p.Axis]; ok && rec.Check != models.ToReview {
			rec.Check, rec.Doubt = models.Unverified, models.Differs
			order.Axes[p.Axis], doubted = rec, true
		}
	}
	if !doubted {
		return nil
	}
	return tx.SaveOrder(ctx, order)
}

// settle ends what sweeps found of an object that is read and applied now.
func (l *Ledger) settle(ctx context.Context, tx *store.Tx, r Reading, object int64) error {
	how, note := "reading", ""
	switch told := Pick(r.Events, ""); {
	case told != nil:
		how = "late"
		if f, err := tx.FindingOf(ctx, object); err != nil {
			return err
		} else if f != nil && !f.Changed.IsZero() && told.Received.After(f.Changed) {
			note = told.Received.Sub(f.Changed).Round(time.Second).String()
		}
	case r.Cause.Kind == models.CauseResync:
		how = "resync"
	}
	_, err := tx.DropFinding(ctx, object, how, note)
	return err
}
