package reconcile

import (
	"context"
	"time"

	"counterfoil/models"
	"counterfoil/models/connect"
	"counterfoil/models/store"
)

// Opened asks for an order that somebody looks at to be read again, where its last
// reading is older than its connection's fresh_on_open. Nobody waits for it. It answers
// whether a reading is under way.
//
// A platform that can't be asked isn't asked for this, nor one whose calls are counted.
func (s *Resync) Opened(ctx context.Context, f models.OrderFile) (bool, error) {
	var old, connections []int64
	now := s.Store.Now()
	for _, o := range f.Objects {
		if conn := s.Book.ID(o.Connection); conn != nil && opens(conn, now.Sub(o.Fetched)) {
			old, connections = append(old, o.ID), append(connections, conn.ID)
		}
	}
	if len(old) == 0 {
		return false, nil
	}
	reading := false
	err := s.Store.Tx(ctx, func(tx *store.Tx) error {
		asked, under, err := tx.RereadOpened(ctx, old)
		if reading = under; err != nil || !asked || s.Ledger.Queue == nil {
			return err
		}
		return s.Ledger.Queue.WakeEvents(ctx, tx, connections)
	})
	return reading, err
}

// opens tells whether an object of a connection is read because somebody looks at it.
func opens(c *connect.Conn, age time.Duration) bool {
	fresh := c.Duration("fresh_on_open")
	if c.Adapter == nil || !c.Adapter.HasAPI() || fresh <= 0 || age < fresh || c.CallBudget() > 0 {
		return false
	}
	_, paused := c.Paused(time.Now())
	return c.APIState == models.APIUp && !paused
}
