package sandbox

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"counterfoil/models"
)

// A Town is a small world to show the console with: a merchant whose customers order,
// pay and send things back, on five accounts of the three platforms, and everything
// that goes wrong between platforms and a receiver. What happens follows from the
// seed alone.
//
// The last days of the town happen first, one act after the other, each at its own
// time by the platforms' clock; then life goes on at a calm pace. Exported fields are
// set before Run.
type Town struct {
	Rush    time.Duration // between two acts of the past days
	Pace    time.Duration // between two acts from then on
	Trouble func(error)   // told of an act that failed; nil: nobody

	now  func() time.Time
	seed uint64
	rng  *rand.Rand
	at   atomic.Int64 // the platforms' time while an act of the past happens, in nanoseconds; 0: now

	hkMain, twMain *shopfront
	hkTill, web    *till
	counter        *counter
	posts          []*post
	warehouse      *Warehouse
	warehouseURL   string // on loopback; empty until Start

	numbers   int // of orders in Taiwan
	trackings int
	turn      int // acts so far
	waiting   []parcel
	living    []*tale
	spell     spell
}

// A TownConnection is what has to be known to connect one of the town's accounts.
type TownConnection struct {
	Platform models.Platform
	Slug     string
	Account  string
	Shop     string
	APIURL   string // on loopback; empty until Start
	Set      map[string]string
	Webhook  []string
	Token    string
	// ClientID and ClientSecret are given in place of a token.
	ClientID, ClientSecret string
}

// A post sends the notifications of one connection.
type post struct {
	TownConnection
	*Switches
	box *Outbox
	api http.Handler
	// anew signs a notification again with the present time, as each try does; nil
	// where the platform signs no time.
	anew func(Notification) Notification
}

// NewTown founds a town. now is the clock of its platforms once the past is over.
func NewTown(now func() time.Time, seed uint64) *Town {
	t := &Town{Rush: 90 * time.Millisecond, Pace: 4 * time.Second, now: now, seed: seed, rng: rand.New(rand.NewPCG(seed, 1))}
	t.hkMain = t.shopify("hk-main", "hk", "harbourpine-hk.myshopify.com", "HKD", false)
	t.twMain = t.shopify("tw-main", "tw", "harbourpine-tw.myshopify.com", "TWD", true)
	t.hkTill = t.stripe("stripe-hk", "hk", "acct_1HarbourPineHK")
	t.web = t.stripe("stripe-web", "web", "acct_1HarbourPineWeb")
	t.counter = t.receipts("rr-counter", "counter", "harbourpine", "HKD")
	t.posts = []*post{t.hkMain.post, t.twMain.post, t.hkTill.post, t.web.post, t.counter.post}
	key := sha256.Sum256(fmt.Appendf(nil, "%d/warehouse", seed))
	t.warehouse = NewWarehouse("whsec_" + base64.StdEncoding.EncodeToString(key[:]))
	return t
}

// clock is what the platforms' clocks show.
func (t *Town) clock() time.Time {
	if at := t.at.Load(); at != 0 {
		return time.Unix(0, at)
	}
	return t.now()
}

// secret is a secret of this town.
func (t *Town) secret(prefix, of string) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d/%s/%s", t.seed, prefix, of))
	return prefix + hex.EncodeToString(sum[:16])
}

// firstID makes each town's ids differ from those of others.
func (t *Town) firstID(of string) int64 {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d/first/%s", t.seed, of))
	n := int64(sum[0])<<24 | int64(sum[1])<<16 | int64(sum[2])<<8 | int64(sum[3])
	return 5_000_000_000_000 + n*1000
}

// shopify opens a shop; grants: its tokens are fetched, not given.
func (t *Town) shopify(slug, shop, account, currency string, grants bool) *shopfront {
	cfg := ShopifyConfig{Account: account, Secret: t.secret("shpss_", slug), ClientID: t.secret("", "client "+slug), Currency: currency,
		FirstID: t.firstID(slug), Now: t.clock}
	c := TownConnection{Platform: models.Shopify, Slug: slug, Account: account, Shop: shop, Webhook: []string{cfg.Secret}}
	if grants {
		c.ClientID, c.ClientSecret = cfg.ClientID, cfg.Secret
	} else {
		cfg.Token = t.secret("shpat_", slug)
		c.Token = cfg.Token
	}
	s := NewShopify(cfg)
	s.SetPoints(20_000, 1000) // a large plan: the past days are read in seconds
	p := &post{TownConnection: c, Switches: s.Switches, box: s.Outbox, api: s}
	return &shopfront{Shopify: s, post: p, currency: currency}
}

func (t *Town) stripe(slug, shop, account string) *till {
	key, secret := t.secret("key_", slug), t.secret("whsec_", slug)
	s := NewStripe(account, key, secret, t.clock)
	s.Live = true
	p := &post{TownConnection: TownConnection{Platform: models.Stripe, Slug: slug, Account: account, Shop: shop, Webhook: []string{secret}, Token: key,
		Set: map[string]string{"mode": "live"}}, Switches: s.Switches, box: s.Outbox, api: s.Handler(),
		anew: func(n Notification) Notification {
			n.Header = s.Sign(n.Body)
			return n
		}}
	return &till{Stripe: s, post: p}
}

func (t *Town) receipts(slug, shop, organization, currency string) *counter {
	secret := t.secret("rr_", slug)
	r := NewReceiptRoller(organization, secret, t.clock)
	r.Token = t.secret("rrt_", slug)
	p := &post{TownConnection: TownConnection{Platform: models.ReceiptRoller, Slug: slug, Account: organization, Shop: shop, Webhook: []string{secret}, Token: r.Token,
		// The free plan's 1000 calls would be used up on the first day.
		Set: map[string]string{"currency": currency, "budget": "100000"}}, Switches: r.Switches, box: r.Outbox, api: r.Handler(), anew: r.Again}
	return &counter{ReceiptRoller: r, post: p}
}

// Start lets the platforms listen on free ports of 127.0.0.1 until the context ends.
func (t *Town) Start(ctx context.Context) error {
	var err error
	for _, p := range t.posts {
		if p.APIURL, err = t.listen(ctx, p.Slug, p.api); err != nil {
			return err
		}
	}
	t.warehouseURL, err = t.listen(ctx, "warehouse", t.warehouse)
	return err
}

// listen serves until the context ends, and answers where.
func (t *Town) listen(ctx context.Context, name string, h http.Handler) (string, error) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("sandbox: %s can't listen: %w", name, err)
	}
	server := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	go func() {
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			t.trouble(fmt.Errorf("sandbox: %s stopped: %w", name, err))
		}
	}()
	context.AfterFunc(ctx, func() { _ = server.Close() }) // nobody is left to hear of it
	return "http://" + l.Addr().String(), nil
}

// Warehouse is where the town's goods lie, with its address and its signing secret.
func (t *Town) Warehouse() (w *Warehouse, address string) { return t.warehouse, t.warehouseURL }

// Connections are the town's accounts, in the order in which they are to be connected.
func (t *Town) Connections() []TownConnection {
	out := make([]TownConnection, len(t.posts))
	for i, p := range t.posts {
		out[i] = p.TownConnection
	}
	return out
}

// Deliver says where the notifications of a connection go.
func (t *Town) Deliver(address func(slug string) string) {
	for _, p := range t.posts {
		p.box.URL = address(p.Slug)
	}
}

func (t *Town) trouble(err error) {
	if err != nil && t.Trouble != nil {
		t.Trouble(err)
	}
}

// Run lives through the past days and then goes on until the context ends.
func (t *Town) Run(ctx context.Context) {
	t.trouble(t.history(ctx))
	for ctx.Err() == nil {
		t.trouble(t.live(ctx))
		pause(ctx, t.Pace)
	}
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// A tale is one order's life: beats that follow each other.
type tale struct {
	plot  string
	beats []beat
	next  int
}

// A beat is one act, some time after the one before.
type beat struct {
	after time.Duration
	from  *post
	do    func() ([]Notification, error)
	fate  fate
	turns int // for a late one: how many acts later it comes
}

func (t *tale) add(after time.Duration, from *post, do func() ([]Notification, error)) *tale {
	t.beats = append(t.beats, beat{after: after, from: from, do: do})
	return t
}

// fated says how the notifications of the last beat fare.
func (t *tale) fated(f fate, turns int) {
	t.beats[len(t.beats)-1].fate, t.beats[len(t.beats)-1].turns = f, turns
}

func (t *tale) span() time.Duration {
	var d time.Duration
	for _, b := range t.beats {
		d += b.after
	}
	return d
}

// A moment is a beat at its place in the past.
type moment struct {
	at   time.Time
	beat beat
}

const (
	pastDays = 4 * 24 * time.Hour
	// recent is how long ago the last act of the past may be: nothing overtakes the present.
	recent = 2 * time.Minute
)

// past lays every plot's tales over the last days.
func (t *Town) past(now time.Time) []moment {
	var all []moment
	for _, p := range t.plots() {
		for range p.past {
			tl := p.tell()
			room := max(pastDays-tl.span(), 3*time.Hour)
			at := now.Add(-recent - tl.span() - time.Duration(t.rng.Int64N(int64(room))))
			for _, b := range tl.beats {
				at = at.Add(b.after)
				all = append(all, moment{at, b})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b moment) int { return a.at.Compare(b.at) })
	return all
}

// history is the past days. An act that fails is told and left out.
func (t *Town) history(ctx context.Context) error {
	var failed []error
	for _, m := range t.past(t.now()) {
		if ctx.Err() != nil {
			return nil
		}
		t.at.Store(m.at.UnixNano())
		ns, err := m.beat.do()
		t.at.Store(0)
		if err != nil {
			failed = append(failed, err)
			continue
		}
		t.turn++
		b := m.beat
		if b.fate == arrives {
			b.fate, b.turns = t.pastFate()
		}
		t.send(ctx, b, ns)
		pause(ctx, t.Rush)
	}
	return errors.Join(failed...)
}

// openTales are told side by side; with more of them each would be slow.
const openTales = 6

// live is one act of the present: some tale goes on, or a new one begins.
func (t *Town) live(ctx context.Context) error {
	t.turn++
	t.weather()
	if len(t.living) == 0 || len(t.living) < openTales && t.rng.IntN(3) == 0 {
		t.living = append(t.living, t.newTale())
	}
	i := t.rng.IntN(len(t.living))
	tl := t.living[i]
	b := tl.beats[tl.next]
	tl.next++
	ns, err := b.do()
	if err != nil || tl.next == len(tl.beats) {
		t.living = slices.Delete(t.living, i, i+1)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", tl.plot, err)
	}
	if b.fate == arrives {
		b.fate, b.turns = t.presentFate()
	}
	t.send(ctx, b, ns)
	return nil
}

// newTale chooses by the plots' weights.
func (t *Town) newTale() *tale {
	plots := t.plots()
	sum := 0
	for _, p := range plots {
		sum += p.often
	}
	n := t.rng.IntN(sum)
	for _, p := range plots {
		if n -= p.often; n < 0 {
			return p.tell()
		}
	}
	return plots[0].tell()
}
