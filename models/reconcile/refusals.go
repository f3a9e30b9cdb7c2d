package reconcile

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"counterfoil/models"
	"counterfoil/models/connect"
	"counterfoil/models/ledger"
	"counterfoil/models/store"
)

// Refusals watches the door: many refused requests are an exception, and when they end,
// what may have been refused wrongly is compared.
type Refusals struct {
	Store *store.Store
	Book  *connect.Book
	Log   *slog.Logger
}

// Lookout looks every few seconds until the context ends.
func (s *Refusals) Lookout(ctx context.Context) {
	tick := time.NewTicker(10 * time.Second)
	defer tick.Stop()
	for {
		for _, c := range s.Book.All() {
			if err := s.Look(ctx, c); err != nil && ctx.Err() == nil && !store.Down(err) {
				s.Log.Error("refusals", "connection", c.Slug, "error", err)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// Look judges one connection.
func (s *Refusals) Look(ctx context.Context, c *connect.Conn) error {
	now := s.Store.Now()
	r, err := s.Store.Refused(ctx, c.ID, now)
	if err != nil {
		return err
	}
	name, over := models.Refusing(r.Case, r.Recent, r.Last, r.Good, now)
	if name == r.Case && !over {
		return nil
	}
	return s.Store.Tx(ctx, func(tx *store.Tx) error {
		if over {
			note := fmt.Sprintf("%d, %s – %s", r.All, r.First.Format(time.RFC3339), r.Last.Format(time.RFC3339))
			mine, err := tx.EndRefusals(ctx, c.ID, "ended", note)
			if err != nil || !mine || c.Adapter == nil || !c.Adapter.HasAPI() {
				return err
			}
			_, err = tx.AskSweep(ctx, c.ID, kindsOf(c), models.SweepRefusals, ledger.Console, r.First.Add(-5*time.Minute), now)
			return err
		}
		if r.Case != "" { // another case of it: the one that is open gives way
			if mine, err := tx.EndRefusals(ctx, c.ID, "ended", ""); err != nil || !mine {
				return err
			}
		}
		return tx.OpenCase(ctx, store.Case{ConnectionID: c.ID, Subject: "connection:" + strconv.FormatInt(c.ID, 10),
			Problem: models.Problem{Kind: models.SignatureFailures, Case: name, Detail: strconv.FormatInt(r.All, 10)}})
	})
}
