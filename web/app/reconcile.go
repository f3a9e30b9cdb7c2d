package app

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"time"

	"counterfoil/models"
	"counterfoil/models/ledger"
	"counterfoil/models/queue"
	"counterfoil/models/reconcile"
	"counterfoil/web/config"
)

type reconcileCmd struct {
	config.Database
	Connection string `required:"" help:"Slug of the connection."`
}

// compared is what a comparison came to, as scripts read it.
type compared struct {
	Seen       int64  `json:"seen"`
	Missed     int64  `json:"missed"`
	Different  int64  `json:"different"`
	Checkpoint string `json:"checkpoint"`
}

func (c *reconcileCmd) Run(ctx context.Context, t terminal) error {
	b, err := forCommand(ctx, c.Database)
	if err != nil {
		return err
	}
	defer b.shut()
	log := slog.New(slog.NewTextHandler(t.err, &slog.HandlerOptions{Level: slog.LevelError}))
	out, err := b.reconcile(ctx, c.Connection, log)
	if err != nil {
		return err
	}
	return json.NewEncoder(t.out).Encode(out)
}

// reconcile compares a connection now and waits for the end, doing the pages that no
// served process does.
func (b *base) reconcile(ctx context.Context, slug string, log *slog.Logger) (compared, error) {
	q, err := queue.New(b.store, nil, nil, false, log)
	if err != nil {
		return compared{}, err
	}
	s := &reconcile.Sweeps{Store: b.store, Book: b.book, Ledger: &ledger.Ledger{Book: b.book, Queue: q}, Queue: q, Log: log}
	ids, err := s.Ask(ctx, commandLine, slug)
	if err != nil {
		return compared{}, err
	}
	runs, err := s.Run(ctx, ids)
	if err != nil {
		return compared{}, err
	}
	var out compared
	for _, r := range runs {
		if r.State != models.SweepDone {
			return out, fmt.Errorf("the comparison of %s wasn't finished: %s %s", r.Kind, r.State, r.Error)
		}
		out.Seen, out.Missed, out.Different = out.Seen+r.Seen, out.Missed+r.Missed, out.Different+r.Different
	}
	c, err := b.book.Slug(ctx, slug)
	if err != nil {
		return out, err
	}
	points, err := b.store.Checkpoints(ctx, c.ID)
	var at time.Time
	for _, p := range points {
		if at.IsZero() || p.At.Before(at) {
			at = p.At
		}
	}
	if !at.IsZero() {
		out.Checkpoint = at.UTC().Format(time.RFC3339)
	}
	return out, err
}
