package api

import (
	"strconv"
	"time"

	"counterfoil/models"
)

// order is an order as programs read it. Every key is always there; what isn't known
// is null, an empty string or an empty list.
type order struct {
	ID           string          `json:"id"`
	Number       string          `json:"number"`
	Shop         string          `json:"shop"`
	Connection   string          `json:"connection"`
	Platform     models.Platform `json:"platform"`
	PlatformRef  string          `json:"platform_ref"`
	PlacedAt     *time.Time      `json:"placed_at"`
	Currency     string          `json:"currency"`
	Total        *string         `json:"total"` // null while the order is only announced, like the other amounts
	Paid         *string         `json:"paid"`
	Refunded     *string         `json:"refunded"`
	Payment      *models.State   `json:"payment"` // null while the order is only announced, like the other axes
	Refund       *models.State   `json:"refund"`
	Dispute      *models.State   `json:"dispute"`
	Fulfillment  *models.State   `json:"fulfillment"`
	Cancellation *models.State   `json:"cancellation"`
	Return       *models.State   `json:"return"`
	Verification verification    `json:"verification"`
	Axes         map[string]axis `json:"axes"`
	Announced    bool            `json:"announced"`
	Test         bool            `json:"test"`
	Holds        []hold          `json:"holds"`
	Unresolved   unresolved      `json:"unresolved"`
	Objects      []object        `json:"objects"`
	Ledger       []entry         `json:"ledger"` // newest first
	Actions      []action        `json:"actions"`
	Version      int64           `json:"version"`
	Outcome      *outcome        `json:"outcome"` // of one order; null in lists and while the order is only announced
}

type verification struct {
	State      models.Check `json:"state"`
	Reason     models.Doubt `json:"reason"`
	VerifiedAt *time.Time   `json:"verified_at"`
}

type axis struct {
	State        models.State    `json:"state"`
	Verification *models.Check   `json:"verification"` // null where no platform of the order states the axis
	Reason       models.Doubt    `json:"reason"`
	VerifiedAt   *time.Time      `json:"verified_at"`
	Platform     models.Platform `json:"platform"`
}

type hold struct {
	Scope  models.HoldScope `json:"scope"` // of the order itself, its connection or its shop
	Reason string           `json:"reason"`
	By     string           `json:"by"`
	Since  time.Time        `json:"since"`
	Until  *time.Time       `json:"until"`
}

type unresolved struct {
	Events     int `json:"events"`
	Exceptions int `json:"exceptions"`
}

type object struct {
	Connection string     `json:"connection"`
	Kind       string     `json:"kind"`
	Ref        string     `json:"ref"`
	FetchedAt  *time.Time `json:"fetched_at"`
	State      string     `json:"state"` // the platform's own words
}

type entry struct {
	Axis  models.Axis  `json:"axis"`
	From  models.State `json:"from"`
	To    models.State `json:"to"`
	At    time.Time    `json:"at"`
	Cause cause        `json:"cause"`
	Actor string       `json:"actor"`
}

type cause struct {
	Kind models.CauseKind `json:"kind"`
	ID   string           `json:"id"`
}

type action struct {
	ID    string `json:"id"`
	Kind  string `json:"kind"`
	Stage string `json:"stage"`
	State string `json:"state"`
	Tries int    `json:"tries"`
	Why   string `json:"why"` // it waits, was withdrawn or isn't needed
	// Person: it waits for people's release from the start.
	Person    bool       `json:"person"`
	Pieces    int        `json:"pieces"`     // goods that no instruction covered; 0: the whole order
	RequestID *string    `json:"request_id"` // by which it was released last, or asked for
	ExpiresAt *time.Time `json:"expires_at"` // from when on it waits for people
}

// instant writes a time in UTC, a missing one as null.
func instant(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

func id(n int64) string { return strconv.FormatInt(n, 10) }

// baseJSON is what lists and single orders share. show judges one axis now, worst
// the whole order.
func baseJSON(o models.Order, shop, connection string, worst models.Shown, show func(models.Axis) models.Shown) order {
	out := order{
		ID: id(o.ID), Number: o.Number, Shop: shop, Connection: connection, Platform: o.Platform, PlatformRef: o.Ref,
		PlacedAt: instant(o.Placed), Currency: o.Currency,
		Announced: o.Announced, Test: o.Test, Version: o.Version, Axes: map[string]axis{},
		Holds: []hold{}, Objects: []object{}, Ledger: []entry{}, Actions: []action{},
	}
	if o.Announced {
		// Known from a signed notification only, whatever may be said of an axis later.
		out.Verification = verification{State: models.Unverified, Reason: models.ReportedOnly}
		return out
	}
	sum := func(minor int64) *string { s := models.Decimal(minor, o.Currency); return &s }
	out.Total, out.Paid, out.Refunded = sum(o.Total), sum(o.Received), sum(o.Refunded)
	out.Verification = verification{worst.Check, worst.Doubt, instant(worst.At)}
	for _, a := range models.Axes {
		s := show(a)
		x := axis{State: o.State(a), Reason: s.Doubt, VerifiedAt: instant(s.At), Platform: s.Platform}
		if s.Platform != "" {
			x.Verification = &s.Check
		}
		out.Axes[string(a)] = x
	}
	state := func(a models.Axis) *models.State { s := o.State(a); return &s }
	out.Payment, out.Refund, out.Dispute = state(models.Payment), state(models.Refund), state(models.Dispute)
	out.Fulfillment, out.Cancellation, out.Return = state(models.Fulfillment), state(models.Cancellation), state(models.Return)
	return out
}

func fileJSON(f models.OrderFile, now time.Time) order {
	out := baseJSON(f.Order, f.Shop, f.Connection, f.Worst(f.Health, now), func(a models.Axis) models.Shown { return f.Show(a, f.Health, now) })
	out.Unresolved.Events = len(f.Waiting)
	for _, e := range f.Exceptions {
		if e.State != "closed" {
			out.Unresolved.Exceptions++
		}
	}
	out.add(f.Objects, f.Ledger, f.Actions)
	out.Holds = holdsJSON(f.Holds)
	if !f.Announced {
		out.Outcome = outcomeJSON(f, now)
	}
	return out
}

func (o *order) add(objects []models.Object, ledger []models.Entry, actions []models.Action) {
	for _, x := range objects {
		o.Objects = append(o.Objects, object{x.Slug, x.Ref.Kind, x.Ref.ID, instant(x.Fetched), objectWords(x)})
	}
	for _, e := range ledger {
		o.Ledger = append(o.Ledger, entry{e.Axis, e.From, e.To, e.At.UTC(), cause{e.Cause.Kind, e.Cause.ID}, e.Actor})
	}
	for _, a := range actions {
		o.Actions = append(o.Actions, actionJSON(a))
	}
}

// rowJSON shows a line of the list.
func rowJSON(row models.OrderRow, now time.Time) order {
	show := func(a models.Axis) models.Shown { return row.Show(a, row.Health, now) }
	out := baseJSON(row.Order, row.Shop, row.Connection, row.Shown, show)
	out.Unresolved = unresolved{row.Events, row.Exceptions}
	out.add(row.Objects, row.Ledger, row.Actions)
	out.Holds = holdsJSON(row.Holds)
	return out
}

// objectWords is how a platform calls the state of its object: the words of the axes
// that it states, in our order, once each.
func objectWords(o models.Object) string {
	seen := o.Official
	if seen == nil {
		seen = o.Said
	}
	if seen == nil {
		return ""
	}
	if seen.Absence != models.Present {
		return string(seen.Absence)
	}
	words, had := "", map[string]bool{}
	for _, a := range models.Axes {
		w := seen.Axes[a].Word
		if w == "" || had[w] {
			continue
		}
		had[w] = true
		if words != "" {
			words += " "
		}
		words += w
	}
	return words
}
