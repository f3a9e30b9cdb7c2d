package reconcile

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"counterfoil/models"
	"counterfoil/models/connect"
	"counterfoil/models/ledger"
	"counterfoil/models/platform"
	"counterfoil/models/store"
)

// Links finds out which field of a connection's payments names their orders.
type Links struct {
	Store *store.Store
	Book  *connect.Book
}

// recentCalls is how many calls one look costs at most.
const recentCalls = 3

// Labels says how many calls finding costs at most; it fails for a connection whose
// platform doesn't leave it to the merchant in which field payments name their orders,
// and for one that the actor doesn't see.
func (s *Links) Labels(ctx context.Context, actor models.Actor, slug string) (calls int, err error) {
	_, _, err = s.connection(ctx, actor, slug)
	return recentCalls, err
}

func (s *Links) connection(ctx context.Context, actor models.Actor, slug string) (*connect.Conn, platform.Labeller, error) {
	conn, err := s.Book.Slug(ctx, slug)
	if err != nil {
		return nil, nil, err
	}
	if !actor.Sees(conn.ShopID) {
		return nil, nil, models.Fail(models.NotFound, "error.connection_unknown")
	}
	labeller, ok := conn.Adapter.(platform.Labeller)
	if !ok {
		return nil, nil, models.Fail(models.NotFound, "error.links_none", slug)
	}
	return conn, labeller, nil
}

// Find reads a connection's newest payments and counts, for each of their fields, how
// many name an order of its shop in the way in which payments are linked. Managers and
// admins may. A platform that can't be asked is unavailable, with why.
func (s *Links) Find(ctx context.Context, actor models.Actor, slug string) (models.LinkFinding, error) {
	conn, labeller, err := s.connection(ctx, actor, slug)
	if err != nil {
		return models.LinkFinding{}, err
	}
	if !actor.May(models.ConnectionsFind) {
		return models.LinkFinding{}, models.Fail(models.Forbidden, "error.may_not_find_links")
	}
	if !labeller.HasAPI() {
		return models.LinkFinding{}, models.Fail(models.Unavailable, "error.links_no_api")
	}
	call, cancel := context.WithTimeout(connect.Awaited(ctx), callTime)
	payments, more, err := labeller.Recent(call, recentCalls)
	cancel()
	if err != nil {
		return models.LinkFinding{}, s.failed(ctx, conn, err)
	}
	if err := s.Book.Answered(ctx, conn); err != nil {
		return models.LinkFinding{}, err
	}
	match, err := s.matcher(ctx, conn.ShopID, payments)
	if err != nil {
		return models.LinkFinding{}, err
	}
	found := models.FindLink(payments, labeller.LinkField(), match)
	found.More, found.Chosen, found.NoStore = more, conn.Set["order_key"] != "", !conn.StoreInShop
	return found, s.Store.Tx(ctx, func(tx *store.Tx) error {
		return tx.Audit(ctx, actor.ID(), "connection.links", "connection:"+strconv.FormatInt(conn.ID, 10), "",
			fmt.Sprintf("read %d fields %d", found.Read, len(found.Keys)+found.Left))
	})
}

// failed says why a platform couldn't be asked, and remembers it as every other call does.
func (s *Links) failed(ctx context.Context, conn *connect.Conn, err error) error {
	out, ok := errors.AsType[*platform.Outage](err)
	if !ok {
		if ctx.Err() != nil {
			return err
		}
		out = &platform.Outage{Detail: "the answer can't be read", Err: err}
	}
	if _, _, err := s.Book.Failed(ctx, conn, out); err != nil {
		return err
	}
	key := "error.links_down"
	switch {
	case out.Throttled:
		key = "error.links_throttled"
	case out.Denied:
		key = "error.links_denied"
	}
	return models.Fail(models.Unavailable, key, conn.Platform, out.Detail).Because(err)
}

// matcher finds, in two statements for all payments, what their values name. It judges
// as the ledger does when it links a payment.
func (s *Links) matcher(ctx context.Context, shop int64, payments []models.Labelled) (func(models.Labelled, string) models.LinkMatch, error) {
	var forms []string
	for _, p := range payments {
		for _, value := range p.Labels {
			if !p.Foreign {
				forms = append(forms, models.RefForms(value)...)
			}
		}
	}
	named, err := s.Store.AllOrdersNamed(ctx, shop, forms)
	if err != nil {
		return nil, err
	}
	var ids []int64
	for _, found := range named {
		ids = append(ids, found...)
	}
	tests, err := s.Store.TestOrders(ctx, ids)
	if err != nil {
		return nil, err
	}
	return func(p models.Labelled, value string) models.LinkMatch {
		id, several, err := ledger.Named(value, func(form string) ([]int64, error) { return named[form], nil })
		switch {
		case err == nil && id != 0 && ledger.Accepts(models.Order{Test: tests[id]}, models.LinkMetadata, &models.Observation{Test: p.Test}):
			return models.MatchesOne
		case several:
			return models.MatchesSeveral
		}
		return models.MatchesNone
	}, nil
}

// Use makes a field the one that links a connection's payments to orders. Admins may.
// What waits for its order is looked at again with it.
func (s *Links) Use(ctx context.Context, actor models.Actor, slug, field string) error {
	if _, _, err := s.connection(ctx, actor, slug); err != nil {
		return err
	}
	if !actor.May(models.ConnectionsEdit) {
		return models.Fail(models.Forbidden, "error.may_not_edit_connection")
	}
	if !connect.KeyFits(field) {
		return &models.Error{Code: models.Invalid, Key: "error.links_key", Fields: map[string]string{"key": "error.links_key"}}
	}
	return s.Book.Add(ctx, actor.ID(), connect.Setup{Slug: slug, Set: map[string]string{"order_key": field}})
}
