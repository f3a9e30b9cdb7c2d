package app

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"counterfoil/handlers"
	"counterfoil/handlers/api"
	"counterfoil/handlers/hooks"
	"counterfoil/handlers/jobs"
	"counterfoil/migrations"
	"counterfoil/models"
	"counterfoil/models/actions"
	"counterfoil/models/casework"
	"counterfoil/models/connect"
	"counterfoil/models/inbox"
	"counterfoil/models/ledger"
	"counterfoil/models/queue"
	"counterfoil/models/reconcile"
	"counterfoil/models/store"
	"counterfoil/models/store/localpg"
	"counterfoil/views"
	"counterfoil/web"
	"counterfoil/web/config"
)

// atOnce is how many alarms of each queue one process answers at once. Who carries an
// action mostly waits for its destination.
var atOnce = map[string]int{queue.Events: 6, queue.Actions: 24, queue.Sweeps: 2}

// An App is the running program.
type App struct {
	*base
	Addr    string // where it listens
	server  *http.Server
	listen  net.Listener
	inbox   *inbox.Inbox
	actions *actions.Actions
	holds   *casework.Holds
	lives   *casework.Lives
	cases   *reconcile.Cases
	asked   *casework.Requests
	hears   *reconcile.Subscriptions
	doors   *reconcile.Refusals
	checks  *reconcile.Checks
	sweeps  *reconcile.Sweeps
	queue   *queue.Queue
	failed  <-chan struct{} // closed when the private Postgres is lost for good; nil: none
}

// local starts the private Postgres where no database is configured.
func local(ctx context.Context, db config.Database, log *slog.Logger) (dsn string, server *localpg.Server, err error) {
	if db.URL != "" {
		return db.URL, nil, nil
	}
	server, err = localpg.Start(ctx, db.Data, localpg.Options{Log: log})
	if err != nil {
		return "", nil, err
	}
	return server.DSN(), server, nil
}

// New builds the program and fails early: database, schema, services, listening last.
func New(ctx context.Context, db config.Database, set config.Serve, demo bool, o options) (*App, error) {
	zone, err := set.Location()
	if err != nil {
		return nil, err
	}
	dsn, pg, err := local(ctx, db, o.log)
	if err != nil {
		return nil, err
	}
	stopPG := func() {
		if pg == nil {
			return
		}
		stop, cancel := context.WithTimeout(context.Background(), 15*time.Second)
		defer cancel()
		if err := pg.Stop(stop); err != nil {
			o.log.Error("private Postgres didn't stop", "error", err)
		}
	}
	keys, err := keysOf(db)
	if err != nil {
		stopPG()
		return nil, err
	}
	b, err := open(ctx, dsn, keys, o)
	if err != nil {
		stopPG()
		return nil, err
	}
	b.close = append([]func(){stopPG}, b.close...)
	a := &App{base: b}
	if pg != nil {
		a.failed = pg.Done()
	}
	if err := a.build(ctx, set, zone, demo); err != nil {
		b.shut()
		return nil, err
	}
	return a, nil
}

// later lets the queue know those who do its work only after all exist.
type later struct{ app *App }

func (l later) Wake(connection int64) { l.app.inbox.Wake(connection) }

func (l later) Carry(ctx context.Context, action int64) error {
	return l.app.actions.Carry(ctx, action)
}

func (l later) Page(ctx context.Context, sweep int64) (bool, error) {
	return l.app.sweeps.Page(ctx, sweep)
}

func (a *App) build(ctx context.Context, set config.Serve, zone *time.Location, demo bool) error {
	lg := &ledger.Ledger{Book: a.book}
	work := later{a}
	listen := a.announces(ctx)
	if !listen {
		a.log.Warn("the database doesn't deliver announcements here: due work is looked up every few hundred milliseconds")
	}
	q, err := queue.New(a.store, jobs.Workers(work, work, work), atOnce, listen, a.log)
	if err != nil {
		return err
	}
	a.queue, lg.Queue = q, q
	a.sweeps = &reconcile.Sweeps{Store: a.store, Book: a.book, Ledger: lg, Queue: q, Log: a.log}
	a.inbox = inbox.New(a.store, a.book, lg, q, a.keys, a.log)
	a.holds = &casework.Holds{Store: a.store, Log: a.log}
	a.lives = &casework.Lives{Store: a.store, Keys: a.keys, Log: a.log}
	resync := &reconcile.Resync{Store: a.store, Book: a.book, Ledger: lg}
	a.cases = &reconcile.Cases{Store: a.store, Resync: resync, Zone: zone, Log: a.log}
	a.actions = actions.New(actions.Actions{Store: a.store, Book: a.book, Keys: a.keys, Refresh: resync, Outline: api.Outline, Log: a.log})
	a.asked = &casework.Requests{Store: a.store, Queue: q, Actions: a.actions, Log: a.log}
	public, err := set.PublicURL()
	if err != nil {
		return err
	}
	a.doors = &reconcile.Refusals{Store: a.store, Book: a.book, Log: a.log}
	a.hears = &reconcile.Subscriptions{Store: a.store, Book: a.book, Public: public, Log: a.log}
	a.checks = &reconcile.Checks{Store: a.store, Book: a.book, Log: a.log}
	cookies := a.keys.DeriveAll("cookie signing")
	secrets := a.keys.DeriveAll("cookie encryption")
	var pairs [][]byte
	for i := range cookies {
		pairs = append(pairs, cookies[i], secrets[i])
	}
	engine, err := web.New(web.Options{Log: a.log, Now: a.now, Zone: zone, People: a.staff, Keys: pairs, Loopback: config.Loopback(set.Addr),
		Proxies: set.Proxies, Demo: demo, Strips: a.strips, Needs: a.needs})
	if err != nil {
		return err
	}
	reads := connect.Reads{Store: a.store, Book: a.book}
	engine.Hooks(hooks.New(a.inbox, hooks.Limits{Body: set.BodyLimit, Memory: set.BodyMemory}).Mount)
	handlers.Mount(engine, handlers.Doors{
		Orders:      handlers.Orders{Book: reads, Connections: reads, Reconcile: pages{resync}},
		Events:      handlers.Events{Book: reads, Connections: reads},
		Connections: handlers.Connections{Book: reads, Base: public},
		Sweeps:      handlers.Sweeps{Sweeper: a.sweeps},
		Checks:      handlers.Checks{Checker: a.checks, Registrar: a.hears, Base: public},
		Explain:     handlers.Explain{Casework: &casework.Explanations{Store: a.store, Files: reads}},
		Holds:       handlers.Holds{Book: reads, Connections: reads, Casework: a.holds},
		Links:       handlers.Links{Finder: &reconcile.Links{Store: a.store, Book: a.book}},
		Policies:    handlers.Policies{Book: &casework.Policies{Store: a.store}, Lives: a.lives},
		Actions:     handlers.Actions{Book: a.store, Orders: reads, Actions: a.actions, Casework: a.asked},
		Exceptions: handlers.Exceptions{Book: reads, Lists: a.store, Connections: reads, Casework: &casework.Cases{Store: a.store, Queue: q}, Requests: a.asked,
			Reconcile: resync},
		Rules:   handlers.Rules{Words: words},
		Login:   handlers.Login{Staff: a.staff},
		Machine: handlers.Machine{Ready: a.ready, Figures: figures(a.store)},
		API: api.API{Book: reads, Resync: resync, Holds: a.holds, Actions: a.actions, Requests: a.asked,
			Cases: &casework.Cases{Store: a.store, Queue: q}, Reread: cases{reads, resync}, Compares: a.sweeps},
	})
	// Listening comes last, and before serving: a busy port is an error at start.
	if a.listen, err = net.Listen("tcp", set.Addr); err != nil {
		return fmt.Errorf("can't listen on %s: %w", set.Addr, err)
	}
	a.Addr = a.listen.Addr().String()
	a.server = web.NewServer(a.Addr, engine)
	return nil
}

// pages gives the order page its resync.
type pages struct{ of *reconcile.Resync }

func (p pages) Resync(ctx context.Context, actor models.Actor, order int64) (string, error) {
	return p.of.Order(ctx, actor, order)
}

func (p pages) Opened(ctx context.Context, f models.OrderFile) (bool, error) {
	return p.of.Opened(ctx, f)
}

func (p pages) Find(ctx context.Context, actor models.Actor, slug, typed string) (string, int64, error) {
	return p.of.Find(ctx, actor, slug, typed)
}

func (p pages) Askable(actor models.Actor) []string { return p.of.Askable(actor) }

// cases lists exceptions and reads what they are about again.
type cases struct {
	connect.Reads
	*reconcile.Resync
}

// announces tells whether NOTIFY reaches a listener: behind a transaction pool it doesn't.
func (a *App) announces(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	conn, err := a.store.Pool().Acquire(ctx)
	if err != nil {
		return false
	}
	defer conn.Release()
	if _, err := conn.Exec(ctx, "LISTEN counterfoil_hello"); err != nil {
		return false
	}
	if _, err := a.store.Pool().Exec(ctx, "SELECT pg_notify('counterfoil_hello', '')"); err != nil {
		return false
	}
	_, err = conn.Conn().WaitForNotification(ctx)
	if _, failed := conn.Exec(context.WithoutCancel(ctx), "UNLISTEN *"); failed != nil && err == nil {
		a.log.Warn("unlisten", "error", failed)
	}
	return err == nil
}

// strips are the platforms of an actor's shops that can't be asked now, and what of
// them is paused as a whole.
func (a *App) strips(ctx context.Context, actor models.Actor) ([]views.Strip, error) {
	var out []views.Strip
	for _, c := range a.book.All() {
		if !actor.Sees(c.ShopID) || c.APIState != models.APIDownState && c.APIState != models.APIThrottled {
			continue
		}
		waiting, err := a.store.ObjectsWaiting(ctx, c.ID)
		if err != nil {
			return out, err
		}
		out = append(out, views.Strip{Connection: c.Slug, Platform: c.Platform, State: c.APIState, Since: c.APISince, Waiting: waiting})
	}
	holds, err := a.store.WideHolds(ctx, actor.Shops)
	for _, h := range holds {
		for _, c := range a.book.All() {
			if h.Scope == models.HoldConnection && c.ID == h.Subject || h.Scope == models.HoldShop && c.ShopID == h.Subject {
				out = append(out, views.Strip{Connection: c.Slug, Hold: &h})
				break
			}
		}
	}
	return out, err
}

// needs counts the exceptions that need people, a group being one.
func (a *App) needs(ctx context.Context, actor models.Actor) (int, error) {
	n, err := a.store.CaseCount(ctx, models.CaseQuery{Shops: actor.Shops})
	return n.Needs, err
}

func (a *App) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if err := a.store.Ping(ctx); err != nil {
		return err
	}
	return migrations.Check(ctx, a.store.SQL())
}

// Run serves until the context ends, then stops in order: requests, jobs, database.
func (a *App) Run(ctx context.Context) error {
	defer a.shut()
	work, stopWork := context.WithCancel(context.WithoutCancel(ctx))
	defer stopWork()
	if err := a.queue.Start(work); err != nil {
		return errors.Join(err, a.listen.Close())
	}
	var background sync.WaitGroup
	commits, stopCommits := context.WithCancel(context.WithoutCancel(ctx))
	defer stopCommits()
	background.Go(func() { a.inbox.Commits(commits) })
	background.Go(func() { a.inbox.Evidence(commits) })
	background.Go(func() { a.inbox.Lookout(work) })
	background.Go(func() { a.actions.Lookout(work) })
	background.Go(func() { a.sweeps.Lookout(work) })
	background.Go(func() { a.book.Follow(work) })
	background.Go(func() { a.holds.Ends(work) })
	background.Go(func() { a.asked.Ends(work) })
	background.Go(func() { a.cases.Lookout(work) })
	background.Go(func() { a.hears.Lookout(work) })
	background.Go(func() { a.checks.Lookout(work) })
	background.Go(func() { (&reconcile.Silences{Store: a.store, Book: a.book, Log: a.log}).Lookout(work) })
	background.Go(func() { a.breathe(work) })
	background.Go(func() { a.doors.Lookout(work) })
	background.Go(func() { a.housekeeping(work) })
	serving, stopServing := context.WithCancel(ctx)
	defer stopServing()
	if a.failed != nil {
		background.Go(func() {
			select {
			case <-a.failed:
				stopServing()
			case <-work.Done():
			}
		})
	}
	err := web.Serve(serving, a.server, a.listen)
	stopJobs, cancel := context.WithTimeout(context.WithoutCancel(ctx), 20*time.Second)
	defer cancel()
	err = errors.Join(err, a.queue.Stop(stopJobs))
	stopWork()
	stopCommits()
	background.Wait()
	return err
}

// breathEvery is how often a process says that it lives.
const breathEvery = 10 * time.Second

// breathe says that this process lives. What came before its first breath and after
// anybody's last is a time in which the console was off.
func (a *App) breathe(ctx context.Context) {
	process := rand.Text()
	tick := time.NewTicker(breathEvery)
	defer tick.Stop()
	for {
		err := a.store.Tx(ctx, func(tx *store.Tx) error { return tx.Alive(ctx, process) })
		if err != nil && ctx.Err() == nil && !store.Down(err) {
			a.log.Error("sign of life", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// checkEvery is how often each platform is asked what our access covers.
const checkEvery = 6 * time.Hour

// housekeeping makes room for the weeks to come and asks what our access covers.
func (a *App) housekeeping(ctx context.Context) {
	tick := time.NewTicker(time.Minute)
	defer tick.Stop()
	checked := map[int64]time.Time{}
	weeks := time.Time{}
	for {
		now := time.Now()
		if now.Sub(weeks) > 24*time.Hour {
			if err := a.store.Tx(ctx, func(tx *store.Tx) error { return errors.Join(tx.PayloadWeeks(ctx), tx.ForgetSessions(ctx)) }); err == nil {
				weeks = now
			}
		}
		for _, c := range a.book.All() {
			every := checkEvery
			if c.CallBudget() > 0 {
				every = 24 * time.Hour // a check spends a call
			}
			if now.Sub(checked[c.ID]) < every {
				continue
			}
			checked[c.ID] = now
			if err := a.book.Check(ctx, c); err != nil && ctx.Err() == nil {
				a.log.Warn("access not checked", "connection", c.Slug, "error", err)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// figures are the program's figures as Prometheus text.
func figures(s *store.Store) http.Handler {
	reg := prometheus.NewRegistry()
	reg.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), &measures{store: s})
	return promhttp.HandlerFor(reg, promhttp.HandlerOpts{})
}

// measures asks the database for its figures when somebody looks.
type measures struct{ store *store.Store }

var (
	eventsByState = prometheus.NewDesc("counterfoil_events", "Notifications that are not done, by connection and state.", []string{"connection", "state"}, nil)
	oldestDue     = prometheus.NewDesc("counterfoil_oldest_unprocessed_seconds", "Age of the oldest unprocessed notification.", []string{"connection"}, nil)
	rejected      = prometheus.NewDesc("counterfoil_rejected_total", "Refused requests.", []string{"connection"}, nil)
	apiState      = prometheus.NewDesc("counterfoil_api_up", "1 while the platform can be asked.", []string{"connection"}, nil)
)

// Describe names the figures.
func (m *measures) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{eventsByState, oldestDue, rejected, apiState} {
		ch <- d
	}
}

// Collect reads the figures.
func (m *measures) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	figures, err := m.store.Figures(ctx)
	if err != nil {
		ch <- prometheus.NewInvalidMetric(eventsByState, err)
		return
	}
	for _, e := range figures.Events {
		ch <- prometheus.MustNewConstMetric(eventsByState, prometheus.GaugeValue, float64(e.N), e.Connection, e.State)
	}
	for _, c := range figures.Connections {
		up := 0.0
		if c.State == models.APIUp {
			up = 1
		}
		ch <- prometheus.MustNewConstMetric(oldestDue, prometheus.GaugeValue, c.Oldest, c.Connection)
		ch <- prometheus.MustNewConstMetric(rejected, prometheus.CounterValue, float64(c.Rejected), c.Connection)
		ch <- prometheus.MustNewConstMetric(apiState, prometheus.GaugeValue, up, c.Connection)
	}
}
