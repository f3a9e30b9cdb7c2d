package reconcile

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"counterfoil/models"
	"counterfoil/models/connect"
	"counterfoil/models/platform"
	"counterfoil/models/store"
)

// Subscriptions looks after what the platforms send us: it registers notifications when
// a person says so, and tells when one is gone.
type Subscriptions struct {
	Store *store.Store
	Book  *connect.Book
	// Public is the console's address as the platforms reach it; empty: the one that was
	// used when the notifications were registered.
	Public string
	Log    *slog.Logger
}

const (
	lookEvery  = time.Hour
	lookLease  = 2 * time.Minute
	lookAgain  = models.SubscriptionPatience + 5*time.Second
	lookFailed = 5 * time.Minute
	doorPrefix = "/hooks/"
)

// Lookout looks at the subscriptions that this console registers: at every hour, after
// an outage ended, and after it was off. It never stops on errors.
func (s *Subscriptions) Lookout(ctx context.Context) {
	tick := time.NewTicker(2 * time.Second)
	defer tick.Stop()
	started := map[int64]bool{}
	for {
		for _, c := range s.Book.All() {
			if err := s.look(ctx, c, !started[c.ID]); err != nil && ctx.Err() == nil {
				s.Log.Warn("subscriptions not looked at", "connection", c.Slug, "error", err)
			}
			started[c.ID] = true
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// look asks the platform once where it is time to.
func (s *Subscriptions) look(ctx context.Context, c *connect.Conn, started bool) error {
	sub, ok := c.Adapter.(platform.Subscriber)
	if !ok || !sub.HasAPI() {
		return nil
	}
	known, err := s.Store.SubscriptionLook(ctx, c.ID)
	if err != nil {
		return err
	}
	if models.SubscriptionWayOf(c.Set["subscriptions"], known.RegisteredAt != nil) != models.WayAPI {
		return s.leave(ctx, c)
	}
	// The database's clock decides; this only spares it the question.
	recovered := known.LookedAt != nil && c.APISince.After(*known.LookedAt)
	if !started && !recovered && time.Until(known.NextAt) > time.Minute {
		return nil
	}
	mine := false
	if err := s.Store.Tx(ctx, func(tx *store.Tx) (err error) {
		mine, err = tx.ClaimLook(ctx, c.ID, started, lookLease)
		return err
	}); err != nil || !mine {
		return err
	}
	list, err := sub.Subscriptions(connect.Sweeping(ctx))
	if err != nil {
		return s.couldNotLook(ctx, c, err)
	}
	if err := s.Book.Answered(ctx, c); err != nil {
		return err
	}
	return s.judge(ctx, c, sub, known.Address, list)
}

// leave closes what was open where people said that they look after it themselves.
func (s *Subscriptions) leave(ctx context.Context, c *connect.Conn) error {
	faults, err := s.Store.SubscriptionFaults(ctx, c.ID)
	if err != nil || len(faults) == 0 {
		return err
	}
	return s.Store.Tx(ctx, func(tx *store.Tx) error {
		return errors.Join(tx.ForgetFaults(ctx, c.ID), tx.CloseCases(ctx, connectionSubject(c.ID), []models.ExceptionKind{models.SubscriptionMissing}, nil, "ended"))
	})
}

func (s *Subscriptions) couldNotLook(ctx context.Context, c *connect.Conn, err error) error {
	why := "our own failure"
	if out, ok := errors.AsType[*platform.Outage](err); ok {
		why = out.Detail
		if !out.Denied { // not being allowed to list them says nothing of the rest
			if _, _, err := s.Book.Failed(ctx, c, out); err != nil {
				return err
			}
		}
	} else {
		s.Log.Warn("subscriptions can't be listed", "connection", c.Slug, "error", err)
	}
	return s.Store.Tx(ctx, func(tx *store.Tx) error { return tx.LookFailed(ctx, c.ID, why, lookFailed) })
}

// judge keeps what a look showed, and opens or closes the connection's exception.
func (s *Subscriptions) judge(ctx context.Context, c *connect.Conn, sub platform.Subscriber, registered string, list []platform.Subscription) error {
	address := registered
	if s.Public != "" {
		address = strings.TrimSuffix(s.Public, "/") + doorPrefix + c.Slug
	}
	version := ""
	if c.Platform == models.Shopify {
		version = c.Set["api_version"]
	}
	needed := slices.DeleteFunc(sub.Needed(), c.Ignores)
	wrong := platform.JudgeSubscriptions(needed, list, doorPrefix+c.Slug, address, version)
	return s.Store.Tx(ctx, func(tx *store.Tx) error {
		next := lookEvery
		if len(wrong) > 0 {
			next = lookAgain
		}
		lasting, err := tx.Looked(ctx, c.ID, wrong, models.SubscriptionPatience, next)
		if err != nil {
			return err
		}
		if len(wrong) == 0 {
			return tx.CloseCases(ctx, connectionSubject(c.ID), []models.ExceptionKind{models.SubscriptionMissing}, nil, "reading")
		}
		if len(lasting) == 0 {
			return nil
		}
		return tx.OpenCase(ctx, store.Case{ConnectionID: c.ID, Subject: connectionSubject(c.ID), Topic: topicList(lasting), Ref: c.Account,
			Problem: models.Problem{Kind: models.SubscriptionMissing, PlatformState: string(wrong[lasting[0]]), Detail: topicList(lasting)}})
	})
}

// topicList names a few topics for people.
func topicList(topics []string) string {
	const most = 6
	if len(topics) > most {
		return strings.Join(topics[:most], ", ") + fmt.Sprintf(" (+%d)", len(topics)-most)
	}
	return strings.Join(topics, ", ")
}

func connectionSubject(id int64) string { return "connection:" + strconv.FormatInt(id, 10) }

// seen finds a connection that the actor sees.
func seen(ctx context.Context, book *connect.Book, actor models.Actor, slug string) (*connect.Conn, error) {
	c, err := book.Slug(ctx, slug)
	if err != nil {
		return nil, err
	}
	if !actor.Sees(c.ShopID) {
		return nil, models.Fail(models.NotFound, "error.connection_unknown")
	}
	return c, nil
}

// File is what the page of a connection's notifications shows.
func (s *Subscriptions) File(ctx context.Context, actor models.Actor, slug string) (models.SubscriptionFile, error) {
	var f models.SubscriptionFile
	c, err := seen(ctx, s.Book, actor, slug)
	if err != nil {
		return f, err
	}
	sub, ok := c.Adapter.(platform.Subscriber)
	if !ok {
		return f, models.Fail(models.NotFound, "error.subscriptions_none", slug)
	}
	look, err := s.Store.SubscriptionLook(ctx, c.ID)
	if err != nil {
		return f, err
	}
	f = models.SubscriptionFile{Chosen: c.Set["subscriptions"] != "", Address: look.Address, By: look.RegisteredBy, Error: look.Error,
		Way: models.SubscriptionWayOf(c.Set["subscriptions"], look.RegisteredAt != nil)}
	if look.RegisteredAt != nil {
		f.Registered = look.RegisteredAt.UTC()
	}
	if look.LookedAt != nil {
		f.Looked = look.LookedAt.UTC()
	}
	faults, err := s.Store.SubscriptionFaults(ctx, c.ID)
	if err != nil {
		return f, err
	}
	by := map[string]models.SubscriptionTopic{}
	for _, t := range faults {
		by[t.Topic] = t
	}
	for _, topic := range slices.DeleteFunc(sub.Needed(), c.Ignores) {
		t := by[topic]
		t.Topic = topic
		f.Topics = append(f.Topics, t)
	}
	return f, nil
}

// Register has a connection's notifications sent to this console: base is the address
// that the person used. What Stripe tells once, the secret of a new endpoint, is sealed
// and accepted; where that fails the endpoint is taken away again.
func (s *Subscriptions) Register(ctx context.Context, actor models.Actor, slug, base string) (platform.Registered, error) {
	var done platform.Registered
	if !actor.May(models.ConnectionsNotify) {
		return done, models.Fail(models.Forbidden, "error.may_not_notify")
	}
	c, err := seen(ctx, s.Book, actor, slug)
	if err != nil {
		return done, err
	}
	sub, ok := c.Adapter.(platform.Subscriber)
	if !ok {
		return done, models.Fail(models.NotFound, "error.subscriptions_none", slug)
	}
	if !sub.HasAPI() {
		return done, models.Fail(models.Unavailable, "error.subscriptions_no_api")
	}
	if way := c.Set["subscriptions"]; way == string(models.WayAdmin) || way == string(models.WayConfig) {
		return done, models.Fail(models.Conflict, "error.subscriptions_elsewhere", way)
	}
	if s.Public != "" {
		base = s.Public
	}
	if u, err := url.Parse(base); err != nil || u.Host == "" {
		return done, models.Fail(models.Invalid, "error.subscriptions_address")
	}
	address := strings.TrimSuffix(base, "/") + doorPrefix + c.Slug
	done, err = sub.Register(connect.Awaited(ctx), address)
	if err == nil || len(done.Secrets) > 0 {
		err = errors.Join(err, s.keep(ctx, actor, c, address, done))
		if err != nil {
			s.takeBack(ctx, c, sub, done)
		}
	}
	if err != nil {
		return done, s.refused(ctx, c, err)
	}
	return done, s.Book.Look(ctx)
}

// keep seals the secrets and writes down what was registered.
func (s *Subscriptions) keep(ctx context.Context, actor models.Actor, c *connect.Conn, address string, done platform.Registered) error {
	return s.Store.Tx(ctx, func(tx *store.Tx) error {
		if _, err := tx.LockConnection(ctx, c.Slug); err != nil {
			return err
		}
		var prints []string
		for _, secret := range done.Secrets {
			if err := s.Book.Accept(ctx, tx, c, secret); err != nil {
				return err
			}
			prints = append(prints, connect.Fingerprint(secret))
		}
		if err := tx.Registered(ctx, c.ID, address, actor.ID()); err != nil {
			return err
		}
		return tx.Audit(ctx, actor.ID(), "connection.notify", connectionSubject(c.ID), "",
			fmt.Sprintf("address=%s made=%d mended=%d secrets=%s", address, done.Made, done.Mended, strings.Join(prints, ",")))
	})
}

// takeBack removes what nobody could verify the notifications of.
func (s *Subscriptions) takeBack(ctx context.Context, c *connect.Conn, sub platform.Subscriber, done platform.Registered) {
	if len(done.Secrets) == 0 {
		return
	}
	for _, id := range done.IDs {
		if err := sub.Unregister(context.WithoutCancel(ctx), id); err != nil {
			s.Log.Error("an endpoint whose secret wasn't kept stays at the platform", "connection", c.Slug, "endpoint", id, "error", err)
		}
	}
}

// refused says in words why nothing was registered.
func (s *Subscriptions) refused(ctx context.Context, c *connect.Conn, err error) error {
	if out, ok := errors.AsType[*platform.Outage](err); ok {
		if out.Denied {
			return models.Fail(models.Unavailable, "error.subscriptions_denied", out.Detail).Because(err)
		}
		if _, _, failed := s.Book.Failed(ctx, c, out); failed != nil {
			return failed
		}
		return models.Fail(models.Unavailable, "error.platform_unavailable", out.Detail).Because(err)
	}
	if no, ok := errors.AsType[*platform.NotRegistered](err); ok {
		return models.Fail(models.Invalid, "error.subscriptions_refused", no.Detail).Because(err)
	}
	return err
}
