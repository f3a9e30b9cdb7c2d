// Package app builds the program, starts it and stops it, and has its command line.
package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"counterfoil/migrations"
	"counterfoil/models"
	"counterfoil/models/connect"
	"counterfoil/models/platform"
	"counterfoil/models/platform/receiptroller"
	"counterfoil/models/platform/shopify"
	"counterfoil/models/platform/stripe"
	"counterfoil/models/seal"
	"counterfoil/models/staff"
	"counterfoil/models/store"
	"counterfoil/models/store/localpg"
	"counterfoil/web/config"
)

// makers build the adapter of each platform.
var makers = map[models.Platform]platform.Maker{
	models.Shopify:       func(c platform.Config) (platform.Adapter, error) { return shopify.New(c) },
	models.Stripe:        func(c platform.Config) (platform.Adapter, error) { return stripe.New(c) },
	models.ReceiptRoller: func(c platform.Config) (platform.Adapter, error) { return receiptroller.New(c) },
}

// words are the tables from each platform's words to states, for the page of rules.
var words = map[models.Platform][]platform.Word{
	models.Shopify: shopify.Words(), models.Stripe: stripe.Words(), models.ReceiptRoller: receiptroller.Words(),
}

// A base is what every command that touches data stands on.
type base struct {
	dsn   string
	keys  seal.Keys
	store *store.Store
	book  *connect.Book
	staff *staff.Service
	log   *slog.Logger
	now   func() time.Time
	close []func()
}

// options of a base that tests set and people don't.
type options struct {
	now    func() time.Time
	client *http.Client
	log    *slog.Logger
}

// keysOf reads the keys, making a key file the first time.
func keysOf(db config.Database) (seal.Keys, error) {
	if db.Key != "" {
		return seal.Parse(db.Key)
	}
	if err := os.MkdirAll(db.Data, 0o755); err != nil {
		return seal.Keys{}, fmt.Errorf("the data folder can't be made: %w", err)
	}
	return seal.LoadOrCreate(filepath.Join(db.Data, "key"))
}

// open connects a base to a database that is there, migrating it first.
func open(ctx context.Context, dsn string, keys seal.Keys, o options) (*base, error) {
	if err := migrations.Up(ctx, dsn); err != nil {
		return nil, err
	}
	if o.now == nil {
		o.now = time.Now
	}
	if o.log == nil {
		o.log = slog.New(slog.DiscardHandler)
	}
	s, err := store.Open(ctx, dsn, store.Options{Now: o.now, Log: o.log, AuditKey: keys.Derive("audit")})
	if err != nil {
		return nil, err
	}
	b := &base{dsn: dsn, keys: keys, store: s, log: o.log, now: o.now, close: []func(){s.Close}}
	if err := migrations.Check(ctx, s.SQL()); err != nil {
		b.shut()
		return nil, err
	}
	b.book = connect.New(s, keys, makers, o.client, o.now)
	b.staff = staff.New(s, keys.Derive("sign-in"))
	if err := b.book.Look(ctx); err != nil {
		b.shut()
		return nil, err
	}
	if b.book.Locked() {
		b.shut()
		return nil, errors.New("the key opens nothing in this database: COUNTERFOIL_KEY, or the key file in the data folder, isn't the one that its secrets were sealed with")
	}
	return b, nil
}

// shut closes in the opposite order of opening.
func (b *base) shut() {
	for i := len(b.close) - 1; i >= 0; i-- {
		b.close[i]()
	}
	b.close = nil
}

// forCommand opens a base for the time of one command: the database that is
// configured, the private one that runs, or the private one started for the command.
func forCommand(ctx context.Context, db config.Database) (*base, error) {
	dsn, stop := db.URL, func() {}
	if dsn == "" {
		var err error
		if dsn, stop, err = localpg.ForCommand(ctx, db.Data); err != nil {
			return nil, err
		}
	}
	keys, err := keysOf(db)
	if err != nil {
		stop()
		return nil, err
	}
	b, err := open(ctx, dsn, keys, options{})
	if err != nil {
		stop()
		return nil, err
	}
	b.close = append([]func(){stop}, b.close...)
	return b, nil
}
