package store

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"counterfoil/models"
)

// An ObjectRow is a platform object as it is kept.
type ObjectRow struct {
	ID           int64
	ConnectionID int64
	Ref          models.ObjectRef
	OrderID      int64
	LinkedBy     models.LinkHow
	Official     *models.Observation
	Said         *models.Observation
	Fetched      time.Time
	Reported     time.Time
	Missing      time.Time
	AppliedNo    int64
}

type objectRow struct {
	ID           int64
	ConnectionID int64
	Account      string
	Kind         string
	Ref          string
	OrderID      *int64
	LinkedBy     models.LinkHow
	Official     *string
	Said         *string
	FetchedAt    *time.Time
	ReportedAt   *time.Time
	MissingSince *time.Time
	AppliedNo    int64
}

const objectColumns = `p.id, p.connection_id, p.account, p.kind, p.ref, p.order_id, p.linked_by, p.official::text AS official,
       p.said::text AS said, p.fetched_at, p.reported_at, p.missing_since, p.applied_no`

func (r objectRow) object() (ObjectRow, error) {
	o := ObjectRow{ID: r.ID, ConnectionID: r.ConnectionID, Ref: models.ObjectRef{Account: r.Account, Kind: r.Kind, ID: r.Ref},
		LinkedBy: r.LinkedBy, Fetched: utc(r.FetchedAt), Reported: utc(r.ReportedAt), Missing: utc(r.MissingSince), AppliedNo: r.AppliedNo}
	if r.OrderID != nil {
		o.OrderID = *r.OrderID
	}
	for _, f := range []struct {
		text *string
		into **models.Observation
	}{{r.Official, &o.Official}, {r.Said, &o.Said}} {
		if f.text == nil {
			continue
		}
		*f.into = &models.Observation{}
		if err := json.Unmarshal([]byte(*f.text), *f.into); err != nil {
			return o, fmt.Errorf("store: observation of object %d: %w", r.ID, err)
		}
	}
	return o, nil
}

// FindObject looks at an object without locking it, making its row if there is none.
func (tx *Tx) FindObject(ctx context.Context, connection int64, ref models.ObjectRef) (ObjectRow, error) {
	for range 2 {
		var row objectRow
		n, err := tx.scan(ctx, &row, `SELECT `+objectColumns+` FROM platform_objects p
WHERE p.connection_id = ? AND p.account = ? AND p.kind = ? AND p.ref = ?`, connection, ref.Account, ref.Kind, ref.ID)
		if err != nil {
			return ObjectRow{}, err
		}
		if n > 0 {
			return row.object()
		}
		if err := tx.exec(ctx, `INSERT INTO platform_objects (connection_id, account, kind, ref) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING`,
			connection, ref.Account, ref.Kind, ref.ID); err != nil {
			return ObjectRow{}, err
		}
	}
	return ObjectRow{}, fmt.Errorf("store: object %s %s can't be made", ref.Kind, ref.ID)
}

// LockObject locks an object, after its order.
func (tx *Tx) LockObject(ctx context.Context, id int64) (ObjectRow, error) {
	var row objectRow
	if err := tx.one(ctx, "error.object_unknown", &row, `SELECT `+objectColumns+` FROM platform_objects p WHERE p.id = ? FOR UPDATE`, id); err != nil {
		return ObjectRow{}, err
	}
	return row.object()
}

// SaveObject writes what is known of an object after reading number no (0: only a
// payload spoke).
func (tx *Tx) SaveObject(ctx context.Context, o ObjectRow, no int64) error {
	text := func(x *models.Observation) (any, error) {
		if x == nil {
			return nil, nil
		}
		b, err := json.Marshal(x)
		return string(b), err
	}
	official, err := text(o.Official)
	if err != nil {
		return err
	}
	said, err := text(o.Said)
	if err != nil {
		return err
	}
	var digest any
	state := ""
	if o.Official != nil {
		d := o.Official.Digest()
		digest = d[:]
		state = o.Official.Axes[models.Payment].Word
		if w := o.Official.Axes[models.Fulfillment].Word; w != "" {
			state += " " + w
		}
	}
	var order any
	if o.OrderID != 0 {
		order = o.OrderID
	}
	return tx.exec(ctx, `
UPDATE platform_objects SET order_id = ?, linked_by = ?, official = ?::jsonb, said = ?::jsonb, digest = ?, state = ?, fetched_at = ?,
       reported_at = ?, missing_since = ?, applied_no = GREATEST(applied_no, ?)
WHERE id = ?`, order, o.LinkedBy, official, said, digest, state, nullTime(o.Fetched), nullTime(o.Reported), nullTime(o.Missing), no, o.ID)
}

// EnsureObject makes an object's row, so that transactions that lock orders only
// ever find it.
func (tx *Tx) EnsureObject(ctx context.Context, connection int64, ref models.ObjectRef) error {
	return tx.exec(ctx, `INSERT INTO platform_objects (connection_id, account, kind, ref) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING`,
		connection, ref.Account, ref.Kind, ref.ID)
}

// Lead remembers that asking for one object leads to another one.
func (tx *Tx) Lead(ctx context.Context, from, to int64) error {
	return tx.exec(ctx, `UPDATE platform_objects SET leads_to = ? WHERE id = ? AND leads_to IS DISTINCT FROM ?`, to, from, to)
}

// NextReading takes a reading number for a reading that starts now.
func (tx *Tx) NextReading(ctx context.Context) (int64, error) {
	var n int64
	err := tx.one(ctx, "", &n, `SELECT nextval('reading_no')`)
	return n, err
}

// ObjectsOf lists the platform objects of an order.
func (r reads) ObjectsOf(ctx context.Context, order int64) ([]ObjectRow, error) {
	return r.objectsWhere(ctx, "p.order_id = ?", order)
}

func (r reads) objectsWhere(ctx context.Context, cond string, args ...any) ([]ObjectRow, error) {
	var rows []objectRow
	if err := r.rows(ctx, &rows, `SELECT `+objectColumns+` FROM platform_objects p WHERE `+cond+` ORDER BY p.id`, args...); err != nil {
		return nil, err
	}
	out := make([]ObjectRow, len(rows))
	for i, row := range rows {
		o, err := row.object()
		if err != nil {
			return nil, err
		}
		out[i] = o
	}
	return out, nil
}
