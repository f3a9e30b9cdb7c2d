package app

import (
	"context"
	"fmt"

	"counterfoil/models"
	"counterfoil/models/actions"
	"counterfoil/web/config"
)

type destinationCmd struct {
	Set destinationSetCmd `cmd:"" help:"Say where the follow-ups of a kind of a shop go. The signing secret is read as JSON from standard input."`
}

type destinationSetCmd struct {
	config.Database
	Shop       string   `required:"" help:"Shop, as its connections name it."`
	Kind       string   `required:"" help:"fulfillment_instruction, service_activation, stock_deduction, invoice, credit_note or customer_message."`
	URL        string   `name:"url" required:"" xor:"where" help:"Address that is called, signed and with an Idempotency-Key."`
	Manual     bool     `required:"" xor:"where" help:"The list of work: a person ticks each off with a receipt."`
	Watch      bool     `required:"" xor:"where" help:"Nowhere: planned and shown, never sent."`
	Idempotent bool     `help:"The same key twice has one effect there, so what isn't clear may be sent again."`
	AllowHost  []string `name:"allow-host" help:"Host of --url that may have an address of an inner network; may be given several times."`
}

func (c *destinationSetCmd) Run(ctx context.Context, t terminal) error {
	var given struct {
		Secret string `json:"secret"`
	}
	if err := readJSON(t.in, &given, `{"secret": "…"}`); err != nil {
		return err
	}
	b, err := forCommand(ctx, c.Database)
	if err != nil {
		return err
	}
	defer b.shut()
	mode := models.ByHTTP
	switch {
	case c.Manual:
		mode = models.ByHand
	case c.Watch:
		mode = models.Watch
	}
	in := actions.Setup{Shop: c.Shop, Kind: models.ActionKind(c.Kind), Mode: mode,
		URL: c.URL, Idempotent: c.Idempotent, Hosts: c.AllowHost, Secret: given.Secret}
	if err := actions.SetDestination(ctx, b.store, b.keys, commandLine.ID(), in); err != nil {
		return err
	}
	if in.Inner() {
		fmt.Fprintln(t.err, "warning: this address lies in an inner network and is never called unless --allow-host names its host")
	}
	return nil
}
