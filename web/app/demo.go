package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"path/filepath"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/jackc/pgx/v5"

	"counterfoil/models"
	"counterfoil/models/actions"
	"counterfoil/models/connect"
	"counterfoil/models/platform/sandbox"
	"counterfoil/models/staff"
	"counterfoil/web/config"
)

type demoCmd struct {
	config.Database
	config.Serve
}

// Run serves a town until somebody ends it. Nothing of an earlier demonstration is
// kept: its platforms lived in memory, so its orders could no longer be asked about.
func (c *demoCmd) Run(ctx context.Context, t terminal) error {
	log := slog.New(slog.NewJSONHandler(t.err, &slog.HandlerOptions{Level: slog.LevelWarn}))
	d, err := newDemo(ctx, c.Database, c.Serve, uint64(time.Now().UnixNano()), options{log: log})
	if err != nil {
		return err
	}
	defer d.stop()
	if err := d.introduce(t.out); err != nil {
		return err
	}
	return d.run(ctx)
}

// A demo is the console together with a sandbox town that it is connected to.
type demo struct {
	app      *App
	town     *sandbox.Town
	password string
	token    string
	data     string // folder of the private Postgres; empty: there is none
	ends     []func()
}

// demoPassword opens all accounts while nobody else can reach them.
const demoPassword = "harbour-pine"

// demoStaff are people of every role.
var demoStaff = []staff.NewAccount{
	{Email: "support@harbourpine.example", Name: "Wong Ka Yan 黃嘉欣", Role: models.Support},
	{Email: "lead@harbourpine.example", Name: "Lin Yi-Chun 林怡君", Role: models.Support, Lead: true},
	{Email: "manager@harbourpine.example", Name: "Chan Chi Ming 陳志明", Role: models.Manager},
	{Email: "manager2@harbourpine.example", Name: "Chang Shu-Fen 張淑芬", Role: models.Manager},
	{Email: "admin@harbourpine.example", Name: "Lee Wing Kit 李永傑", Role: models.Admin},
	{Email: "auditor@harbourpine.example", Name: "Wu Chia-Hao 吳家豪", Role: models.Auditor},
}

// newDemo builds the console on an emptied database and connects it to a new town.
func newDemo(ctx context.Context, db config.Database, set config.Serve, seed uint64, o options) (*demo, error) {
	d := &demo{}
	err := d.build(ctx, db, set, seed, o)
	if err != nil {
		d.stop()
		return nil, err
	}
	return d, nil
}

func (d *demo) build(ctx context.Context, db config.Database, set config.Serve, seed uint64, o options) error {
	if db.URL == "" {
		// Beside the data of a console that may be served from the same folder.
		db.Data = filepath.Join(db.Data, "demo")
		d.data = db.Data
	}
	dsn, pg, err := local(ctx, db, o.log)
	if err != nil {
		return err
	}
	if pg != nil {
		d.ends = append(d.ends, func() {
			stop, cancel := context.WithTimeout(context.Background(), 15*time.Second)
			defer cancel()
			if err := pg.Stop(stop); err != nil {
				o.log.Error("private Postgres didn't stop", "error", err)
			}
		})
	}
	hold, err := emptied(ctx, dsn)
	if err != nil {
		return err
	}
	d.ends = append(d.ends, func() { _ = hold.Close(context.Background()) }) // the lock goes in any case
	db.URL = dsn
	if d.app, err = New(ctx, db, set, true, o); err != nil {
		return err
	}
	d.ends = append(d.ends, d.app.leave)
	if pg != nil {
		d.app.failed = pg.Done()
	}
	return d.settle(ctx, set, seed)
}

// leave gives back what an app took that never ran.
func (a *App) leave() {
	_ = a.listen.Close() // it is closed already where the app ran
	a.shut()
}

// settle founds the town, connects it and gives the console its people.
func (d *demo) settle(ctx context.Context, set config.Serve, seed uint64) error {
	d.town = sandbox.NewTown(d.app.now, seed)
	d.town.Trouble = func(err error) { d.app.log.Error("sandbox", "error", err) }
	// The platforms outlive the console: it may ask until it has stopped.
	open, shut := context.WithCancel(context.WithoutCancel(ctx))
	d.ends = append([]func(){shut}, d.ends...)
	if err := d.town.Start(open); err != nil {
		return err
	}
	d.town.Deliver(func(slug string) string { return d.address() + "/hooks/" + slug })
	for _, c := range d.town.Connections() {
		err := d.app.book.Add(ctx, commandLine.ID(), connect.Setup{Platform: c.Platform, Slug: c.Slug, Account: c.Account, Shop: c.Shop, APIURL: c.APIURL, Set: c.Set, Demo: true,
			Secrets: connect.Secrets{Webhook: c.Webhook, APIToken: c.Token, ClientID: c.ClientID, ClientSecret: c.ClientSecret}})
		if err != nil {
			return err
		}
	}
	if err := d.destinations(ctx); err != nil {
		return err
	}
	if config.Loopback(set.Addr) {
		d.password = demoPassword
	}
	for _, p := range demoStaff {
		p.Password = d.password
		var err error
		if d.password, err = d.app.staff.AddAccount(ctx, commandLine, p); err != nil {
			return err
		}
	}
	var err error
	d.token, _, err = d.app.staff.AddToken(ctx, commandLine, staff.NewToken{Name: "demonstration", User: "manager@harbourpine.example", Age: 24 * time.Hour})
	return err
}

// destinations makes one kind of each way: Hong Kong's instructions go to the town's
// warehouse, Taiwan's to a list of work, and everything else is watched.
func (d *demo) destinations(ctx context.Context) error {
	warehouse, address := d.town.Warehouse()
	for _, in := range []actions.Setup{
		{Shop: "hk", Kind: models.FulfillmentInstruction, Mode: models.ByHTTP, URL: address + "/instructions", Idempotent: true, Hosts: []string{"127.0.0.1"}, Secret: warehouse.Secret},
		{Shop: "tw", Kind: models.FulfillmentInstruction, Mode: models.ByHand},
	} {
		if err := actions.SetDestination(ctx, d.app.store, d.app.keys, commandLine.ID(), in); err != nil {
			return err
		}
	}
	return nil
}

// address is where people and the town reach the console.
func (d *demo) address() string {
	host, port, err := net.SplitHostPort(d.app.Addr)
	if ip := net.ParseIP(host); err == nil && ip != nil && ip.IsUnspecified() {
		return "http://" + net.JoinHostPort("127.0.0.1", port)
	}
	return "http://" + d.app.Addr
}

// introduce says where the console is and who may sign in.
func (d *demo) introduce(out io.Writer) error {
	fmt.Fprintf(out, "Counterfoil demonstration on %s\n\n", d.address())
	w := tabwriter.NewWriter(out, 0, 4, 3, ' ', 0)
	fmt.Fprintln(w, "E-MAIL\tPASSWORD\tROLE\tNAME")
	for _, p := range demoStaff {
		role := string(p.Role)
		if p.Lead {
			role += ", lead"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", p.Email, d.password, role, p.Name)
	}
	fmt.Fprintln(w, "\nCONNECTION\tPLATFORM\tSHOP\tSANDBOX")
	for _, c := range d.town.Connections() {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", c.Slug, c.Platform, c.Shop, c.APIURL)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(out, "\nAPI token of the first manager, for a day: %s\n", d.token)
	if d.data != "" {
		fmt.Fprintf(out, "Other commands find this database with --data %s\n", d.data)
	}
	_, err := fmt.Fprintln(out, "\nThe orders of the last four days come in within half a minute; then something happens\nevery few seconds, and not everything goes well. Ctrl-C ends it; the next start begins anew.")
	return err
}

// run serves and lets the town live until the context ends.
func (d *demo) run(ctx context.Context) error {
	living, leave := context.WithCancel(ctx)
	var town sync.WaitGroup
	town.Go(func() { d.town.Run(living) })
	err := d.app.Run(ctx)
	leave()
	town.Wait()
	return err
}

func (d *demo) stop() {
	for i := len(d.ends) - 1; i >= 0; i-- {
		d.ends[i]()
	}
	d.ends = nil
}

// demoLock is held on the database for as long as a demonstration runs there.
const demoLock = 7263545

// emptied makes a database ready for a demonstration, and keeps others away until the
// connection that it answers is closed. What an earlier demonstration left is dropped;
// anything else is refused untouched.
func emptied(ctx context.Context, dsn string) (*pgx.Conn, error) {
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return nil, fmt.Errorf("the database can't be reached: %w", err)
	}
	if err := empty(ctx, conn); err != nil {
		return nil, errors.Join(err, conn.Close(context.WithoutCancel(ctx)))
	}
	return conn, nil
}

func empty(ctx context.Context, conn *pgx.Conn) error {
	var alone, ours bool
	var schema string
	var tables int
	err := conn.QueryRow(ctx, `SELECT pg_try_advisory_lock($1), current_schema(), (SELECT count(*) FROM pg_tables WHERE schemaname = current_schema()),
		to_regclass('goose_db_version') IS NOT NULL AND to_regclass('connections') IS NOT NULL AND to_regclass('staff') IS NOT NULL`, demoLock).
		Scan(&alone, &schema, &tables, &ours)
	switch {
	case err != nil:
		return fmt.Errorf("the database can't be asked: %w", err)
	case !alone:
		return fmt.Errorf("another demonstration runs in this database")
	case tables == 0:
		return nil
	case !ours:
		return fmt.Errorf("the database holds tables that aren't a demonstration's: give demo an empty one, or none")
	}
	var demos, others, people int
	err = conn.QueryRow(ctx, `SELECT (SELECT count(*) FROM connections WHERE demo), (SELECT count(*) FROM connections WHERE NOT demo), (SELECT count(*) FROM staff)`).
		Scan(&demos, &others, &people)
	switch {
	case err != nil:
		return fmt.Errorf("the database can't be asked: %w", err)
	case others > 0 || demos == 0 && people > 0:
		return fmt.Errorf("the database belongs to a console that is no demonstration: give demo an empty one, or none")
	case demos == 0:
		return nil
	}
	name := pgx.Identifier{schema}.Sanitize()
	if _, err := conn.Exec(ctx, "DROP SCHEMA "+name+" CASCADE; CREATE SCHEMA "+name); err != nil {
		return fmt.Errorf("the last demonstration can't be cleared away: %w", err)
	}
	return nil
}
