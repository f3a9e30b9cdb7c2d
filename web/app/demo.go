package app

import (
	"context"
	"fmt"

	"counterfoil/web/config"
)

type demoCmd struct {
	config.Database
	config.Serve
}

func (c *demoCmd) Run(context.Context, terminal) error {
	return fmt.Errorf("no demo yet")
}
