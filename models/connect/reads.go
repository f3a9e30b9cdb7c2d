package connect

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"counterfoil/models"
	"counterfoil/models/platform"
	"counterfoil/models/store"
)

// Reads are the lists and files that people and programs see: what is kept, judged
// by what the platforms' states are at the moment of looking.
type Reads struct {
	Store *store.Store
	Book  *Book
}

// Orders lists orders, newest first by id.
func (r Reads) Orders(ctx context.Context, q models.OrderQuery) (models.Page[models.OrderRow], error) {
	page, err := r.Store.Orders(ctx, store.OrderFilter{OrderQuery: q, Health: r.Book.Healths(), Now: r.Store.Now()})
	for _, row := range page.Items {
		r.describe(row.Objects)
	}
	return page, err
}

// describe adds what only the connections know of objects.
func (r Reads) describe(objects []models.Object) {
	for i := range objects {
		o := &objects[i]
		c := r.Book.ID(o.Connection)
		if c == nil {
			continue
		}
		o.Slug, o.Platform = c.Slug, c.Platform
		if c.Adapter != nil {
			o.Reads, o.Deep = c.Adapter.Reads(), c.Adapter.Deep(o.Ref)
		}
	}
}

// OrderFile reads an order with everything its page shows.
func (r Reads) OrderFile(ctx context.Context, id int64) (models.OrderFile, error) {
	f, err := r.Store.OrderFile(ctx, id)
	if err != nil {
		return f, err
	}
	health := r.Book.Healths()
	for id, h := range health {
		h.Waiting = f.Health[id].Waiting
		health[id] = h
	}
	f.Health = health
	if f.Outcome, err = r.Store.OutcomeFacts(ctx, f.Order); err != nil {
		return f, err
	}
	f.Outcome.Fresh = map[int64]time.Duration{}
	for _, c := range r.Book.All() {
		f.Slugs[c.ID] = c.Slug
		f.Outcome.Fresh[c.ID] = c.Duration("fresh_on_open")
	}
	r.describe(f.Objects)
	return f, nil
}

// Slugs names the connections of the given shops (empty: all), in order.
func (r Reads) Slugs(shops []int64) []string { return r.Book.Slugs(shops) }

// Events lists notifications, newest first by id.
func (r Reads) Events(ctx context.Context, q models.EventQuery) (models.Page[models.Event], error) {
	return r.Store.Events(ctx, q)
}

// EventFile reads a notification with everything its page shows.
func (r Reads) EventFile(ctx context.Context, id int64) (models.EventFile, error) {
	return r.Store.EventFile(ctx, id)
}

// Connections lists the connections of the given shops (empty: all) with everything
// their page shows.
func (r Reads) Connections(ctx context.Context, shops []int64) ([]models.ConnectionFile, error) {
	files, err := r.Store.ConnectionFiles(ctx, shops)
	if err != nil {
		return nil, err
	}
	for i := range files {
		f := &files[i]
		c := r.Book.ID(f.ID)
		if c == nil {
			continue
		}
		f.Budget = c.CallBudget()
		if c.Broken != nil {
			f.Notes = append(f.Notes, models.Note{Key: "note.connection_broken", Warn: true, At: r.Store.Now()})
		}
		if speaker, ok := c.Adapter.(platform.Speaker); ok {
			for _, n := range speaker.Spoken() { // newer than what was kept of the last check
				f.Notes = append(slices.DeleteFunc(f.Notes, func(was models.Note) bool { return was.Key == n.Key }), n)
			}
		}
		if c.Adapter != nil {
			f.HasAPI = c.Adapter.HasAPI()
			_, f.Labels = c.Adapter.(platform.Labeller)
			f.Effective = settings(c)
		}
	}
	return files, nil
}

// span writes a duration as people set it: 10m, not 10m0s.
func span(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// settings are the adapter's own and those of the console, with the values in force.
func settings(c *Conn) []models.Setting {
	out := c.Adapter.Settings()
	have := map[string]bool{}
	for _, s := range out {
		have[s.Name] = true
	}
	for _, name := range []string{"settle_time", "down_after", "review_after", "stale_after"} {
		if d := c.Duration(name); !have[name] {
			out = append(out, models.Setting{Name: name, Value: span(d), Set: c.Set[name] != ""})
		}
	}
	if !have["creates_orders"] {
		value := "false"
		if c.CreatesOrders() {
			value = "true"
		}
		out = append(out, models.Setting{Name: "creates_orders", Value: value, Set: c.Set["creates_orders"] != ""})
	}
	if !have["ignore_topics"] {
		out = append(out, models.Setting{Name: "ignore_topics", Value: cmp.Or(c.Set["ignore_topics"], "none"), Set: c.Set["ignore_topics"] != ""})
	}
	return out
}

// HealthHistory lists how a connection's platform could be asked, the present state first.
func (r Reads) HealthHistory(ctx context.Context, connection int64) ([]models.HealthPeriod, error) {
	return r.Store.HealthHistory(ctx, connection)
}
