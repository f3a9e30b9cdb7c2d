package app

import (
	"context"
	"encoding/json"
	"fmt"
	"text/tabwriter"
	"time"

	"counterfoil/models"
	"counterfoil/models/reconcile"
	"counterfoil/web/config"
)

type connectionLinksCmd struct {
	config.Database
	Connection string `required:"" help:"Slug of the connection."`
	JSON       bool   `name:"json" help:"As JSON."`
}

// foundKey is how one metadata key names orders, as scripts read it.
type foundKey struct {
	Key      string     `json:"key"`
	Payments int        `json:"payments"`
	Matches  int        `json:"matches"`
	Several  int        `json:"several"`
	First    *time.Time `json:"first"`
	Last     *time.Time `json:"last"`
}

func keyFound(k models.LinkKey) foundKey {
	f := foundKey{Key: k.Name, Payments: k.Payments, Matches: k.Matches, Several: k.Several}
	if !k.First.IsZero() {
		f.First, f.Last = &k.First, &k.Last
	}
	return f
}

func (c *connectionLinksCmd) Run(ctx context.Context, t terminal) error {
	b, err := forCommand(ctx, c.Database)
	if err != nil {
		return err
	}
	defer b.shut()
	found, err := (&reconcile.Links{Store: b.store, Book: b.book}).Find(ctx, commandLine, c.Connection)
	if err != nil {
		return err
	}
	keys := []foundKey{}
	for _, k := range found.Keys {
		keys = append(keys, keyFound(k))
	}
	if c.JSON {
		enc := json.NewEncoder(t.out)
		enc.SetIndent("", "  ")
		return enc.Encode(map[string]any{"read": found.Read, "more": found.More, "set": keyFound(found.Set), "proposed": found.Proposed, "items": keys})
	}
	w := tabwriter.NewWriter(t.out, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "KEY\tPAYMENTS\tNAME ONE ORDER\tSEVERAL\tNONE")
	for _, k := range keys {
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\n", k.Key, k.Payments, k.Matches, k.Several, k.Payments-k.Matches-k.Several)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(t.out, "%d payments read. Set now: %s, which %d of %d name an order by.\n", found.Read, found.Set.Name, found.Set.Matches, found.Set.Payments)
	switch found.Proposed {
	case "":
		fmt.Fprintln(t.out, "No key names an order: have the checkout set the order's id or number as metadata, or connect the store first.")
	case found.Set.Name:
		fmt.Fprintln(t.out, "There is nothing to change.")
	default:
		fmt.Fprintf(t.out, "Proposed: counterfoil connection add --slug %s --set order_key=%s\n", c.Connection, found.Proposed)
	}
	return nil
}
