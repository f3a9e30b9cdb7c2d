package ledger

import (
	"context"
	"encoding/hex"
	"slices"
	"strconv"

	"counterfoil/models"
	"counterfoil/models/store"
)

// A joining is a meeting of a store's order with orders that payments made for
// themselves before it was known, the shells. Whether they become one is judged under
// the locks.
type joining struct {
	into   int64
	shells []int64
	// led: the reading is of one of the shell's payments and names the order; else it
	// is the order's own and what waited names it.
	led bool

	locked  []models.Order // the shells that are still there, locked
	order   models.Order   // the store's, locked
	objects []store.ObjectRow
}

// joining looks for orders that may become one through this reading. Their references
// are locked, so that of two who name each other one always sees the other.
func (l *Ledger) joining(ctx context.Context, tx *store.Tx, r Reading, obj store.ObjectRow, orderID int64, desc *models.Observation, fresh []string) (*joining, error) {
	j := &joining{into: orderID}
	switch {
	case r.Hint || desc == nil || desc.Absence != models.Present || orderID == 0:
	case desc.Store && len(fresh) > 0:
		shells, err := tx.ShellsNaming(ctx, r.Conn.ShopID, fresh)
		if err != nil {
			return nil, err
		}
		j.shells = slices.DeleteFunc(shells, func(id int64) bool { return id == orderID })
	case !desc.Store && obj.OrderID != 0 && r.Conn.StoreInShop && len(desc.Links) > 0:
		own, err := tx.Order(ctx, obj.OrderID)
		if err != nil || own.Store || own.MergedInto != 0 {
			return j, err
		}
		id, _, err := storeOrder(ctx, tx, r.Conn.ShopID, desc.Links)
		if err != nil || id == 0 {
			return j, err
		}
		j.into, j.shells, j.led = id, []int64{own.ID}, true
	}
	return j, nil
}

// storeOrder finds the one store's order that links name.
func storeOrder(ctx context.Context, tx *store.Tx, shop int64, links []models.Link) (int64, models.LinkHow, error) {
	for _, link := range links {
		for _, form := range models.RefForms(link.Value) {
			ids, err := tx.StoreOrdersNamed(ctx, shop, form)
			if err != nil {
				return 0, "", err
			}
			if len(ids) == 1 {
				return ids[0], link.How, nil
			}
		}
	}
	return 0, "", nil
}

// lock locks the orders by id and gives the one that the reading's object belongs to
// now. A shell can be merged only under the order's lock; who holds that one looks
// first, since whoever follows a merged shell holds it while he waits for the order.
func (j *joining) lock(ctx context.Context, tx *store.Tx, orderID int64) (models.Order, error) {
	if orderID == 0 {
		return models.Order{}, nil
	}
	if len(j.shells) == 0 {
		return lockMerged(ctx, tx, orderID)
	}
	ids := append([]int64{j.into}, j.shells...)
	slices.Sort(ids)
	for _, id := range ids {
		if j.order.ID != 0 {
			if o, err := tx.Order(ctx, id); err != nil {
				return o, err
			} else if o.MergedInto != 0 {
				continue
			}
		}
		o, err := tx.LockOrder(ctx, id)
		switch {
		case err != nil:
			return o, err
		case id == j.into:
			j.order = o
		case o.MergedInto == 0:
			j.locked = append(j.locked, o)
		}
	}
	if j.led && len(j.locked) > 0 {
		return j.locked[0], nil
	}
	return j.order, nil
}

// lockObjects locks the reading's object and all of the shells', and gives the first.
func (j *joining) lockObjects(ctx context.Context, tx *store.Tx, id int64) (store.ObjectRow, error) {
	if len(j.locked) == 0 {
		return tx.LockObject(ctx, id)
	}
	shells := make([]int64, len(j.locked))
	for i, s := range j.locked {
		shells[i] = s.ID
	}
	var err error
	if j.objects, err = tx.LockObjects(ctx, id, shells); err != nil {
		return store.ObjectRow{}, err
	}
	for _, o := range j.objects {
		if o.ID == id {
			return o, nil
		}
	}
	return tx.LockObject(ctx, id)
}

// join advances the reading's order and makes it one with the shells that belong to it.
// What the order's own reading says comes first; what the payments add has the link as
// its cause.
func (l *Ledger) join(ctx context.Context, tx *store.Tx, r Reading, j *joining, order models.Order, obj store.ObjectRow, desc *models.Observation, fresh []string, out *Outcome) error {
	if len(j.locked) == 0 {
		return l.advance(ctx, tx, r, order, desc, fresh, out)
	}
	ids := make([]int64, len(j.locked))
	for i, s := range j.locked {
		ids[i] = s.ID
	}
	if err := tx.LockEvents(ctx, order.ShopID, fresh, eventIDs(r.Events), ids); err != nil {
		return err
	}
	for i, o := range j.objects {
		if o.ID == obj.ID {
			j.objects[i] = obj
		}
	}
	if j.led {
		joined, err := takeIn(ctx, tx, j, j.locked[0])
		if err != nil {
			return err
		}
		if !joined {
			return l.advance(ctx, tx, r, order, desc, fresh, out)
		}
		return l.led(ctx, tx, r, j, desc, fresh, out)
	}
	if err := l.advance(ctx, tx, r, order, desc, fresh, out); err != nil {
		return err
	}
	for _, shell := range j.locked {
		var err error
		if j.order, err = tx.Order(ctx, order.ID); err != nil {
			return err
		}
		joined, err := takeIn(ctx, tx, j, shell)
		if err != nil {
			return err
		}
		if !joined {
			continue
		}
		link := Reading{Conn: r.Conn, Cause: linkCause(shell, tx), Actor: r.Actor}
		if err := l.advance(ctx, tx, link, j.order, nil, nil, out); err != nil {
			return err
		}
	}
	return nil
}

// led advances the store's order by the payment that named it. The link is the cause;
// the event that told of it is in the entry.
func (l *Ledger) led(ctx context.Context, tx *store.Tx, r Reading, j *joining, desc *models.Observation, fresh []string, out *Outcome) error {
	cause, told := linkCause(j.locked[0], tx), Pick(r.Events, "")
	if told != nil {
		cause.EventID, cause.Topic, cause.Digest = told.EventID, told.Topic, hex.EncodeToString(told.Digest)
	}
	out.OrderID = j.order.ID
	link := r
	link.Events, link.Cause = nil, cause
	if err := l.advance(ctx, tx, link, j.order, desc, fresh, out); err != nil || told == nil {
		return err
	}
	for i := range out.Entries {
		out.Entries[i].Event = told.ID
	}
	return nil
}

func linkCause(shell models.Order, tx *store.Tx) models.Cause {
	return models.Cause{Kind: models.CauseLink, ID: strconv.FormatInt(shell.ID, 10), At: tx.Now}
}

// takeIn moves the objects of a shell to the store's order and ends the shell. It
// answers false where they don't belong there after all.
func takeIn(ctx context.Context, tx *store.Tx, j *joining, shell models.Order) (bool, error) {
	o := j.order
	if !o.Store || o.Announced || o.MergedInto != 0 || o.ShopID != shell.ShopID {
		return false, nil
	}
	how := map[int64]models.LinkHow{}
	named := false
	for _, obj := range j.objects {
		if obj.OrderID != shell.ID {
			continue
		}
		how[obj.ID] = models.LinkIntent
		known := known(obj)
		if known == nil {
			continue
		}
		id, by, err := storeOrder(ctx, tx, o.ShopID, known.Links)
		if err != nil {
			return false, err
		}
		switch id {
		case 0:
		case o.ID:
			how[obj.ID] = by
			named = named || Accepts(o, by, known)
		default:
			return false, nil // its payments name different orders: a person decides
		}
	}
	if !named {
		return false, nil
	}
	for _, obj := range j.objects {
		if by, ok := how[obj.ID]; ok {
			if err := tx.LinkObject(ctx, obj.ID, o.ID, by); err != nil {
				return false, err
			}
		}
	}
	return true, tx.CloseShell(ctx, shell, o)
}

// Accepts tells whether an order takes in a payment that names it.
func Accepts(o models.Order, how models.LinkHow, desc *models.Observation) bool {
	if desc.Test && !o.Test {
		return false
	}
	return how != models.LinkReference || o.Fits(desc.Amounts)
}

// known is what is known of an object, official first.
func known(obj store.ObjectRow) *models.Observation {
	if obj.Official != nil {
		return obj.Official
	}
	return obj.Said
}

// linked keeps what depends on whether an object has an order: the case that it has
// none, and under which names a store's order would take it in.
func (l *Ledger) linked(ctx context.Context, tx *store.Tx, o models.Order, before, after store.ObjectRow, foreign string) error {
	how := ""
	switch {
	case foreign != "":
		how = "dismissed"
	case before.OrderID == 0 && after.OrderID != 0:
		how = "order appeared"
	}
	if how != "" {
		if err := tx.CloseCases(ctx, objectSubject(after.ID), []models.ExceptionKind{models.Unmatched}, nil, how); err != nil {
			return err
		}
	}
	if after.OrderID == 0 || o.Store {
		return nil
	}
	was, is := wantedRefs(known(before)), wantedRefs(known(after))
	if before.OrderID == 0 {
		was = nil
	}
	if slices.Equal(was, is) {
		return nil
	}
	return tx.KeepLinks(ctx, o.ShopID, after.ID, is)
}

func objectSubject(id int64) string { return "object:" + strconv.FormatInt(id, 10) }
