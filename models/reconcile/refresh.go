package reconcile

import (
	"context"
	"slices"
	"time"

	"counterfoil/models"
)

// Refresh reads an order's official objects on some connections again, for the console
// itself, before it relies on them. A platform that can't be asked leaves the order in
// doubt, which whoever asked sees there.
func (s *Resync) Refresh(ctx context.Context, order int64, connections []int64) error {
	objects, err := s.Store.ObjectsOf(ctx, order)
	if err != nil {
		return err
	}
	for _, o := range objects {
		conn := s.Book.ID(o.ConnectionID)
		if !slices.Contains(connections, o.ConnectionID) || conn == nil || conn.Adapter == nil || !conn.Adapter.HasAPI() {
			continue
		}
		if _, paused := conn.Paused(time.Now()); paused {
			return nil
		}
		result, _, err := s.read(ctx, models.Actor{}, conn, o.Ref)
		if err != nil {
			return err
		}
		if result == Unavailable {
			return nil
		}
	}
	return nil
}
