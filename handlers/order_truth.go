package handlers

import (
	"slices"
	"strings"
	"time"

	"counterfoil/models"
	"counterfoil/views"
	"counterfoil/views/locale"
)

// A saying is what one signed notification, or several about one object, stated.
type saying struct {
	by  models.Platform
	obs *models.Observation
	at  time.Time // when it reached us
}

func objectSayings(objects []models.Object) []saying {
	var list []saying
	for _, o := range objects {
		if o.Said != nil {
			list = append(list, saying{by: o.Platform, obs: o.Said, at: o.Reported})
		}
	}
	return list
}

// truthRows puts the three sides beside each other: a row per axis, then the sums.
// With statedOnly, rows of which the notification says nothing are left out.
func truthRows(f models.OrderFile, said []saying, statedOnly bool) []views.TruthRow {
	target := compose(f.Objects)
	var rows []views.TruthRow
	for _, a := range models.Axes {
		row := axisRow(f, target, a, said)
		if !statedOnly || len(row.Said) > 0 {
			rows = append(rows, row)
		}
	}
	for _, s := range sums {
		row := sumRow(f, s, said)
		if len(row.Said) > 0 || len(row.Now) > 0 && !statedOnly {
			rows = append(rows, row)
		}
	}
	return rows
}

// compose is what all platforms say together, by the same rules as the ledger's.
func compose(objects []models.Object) models.Target {
	views := make([]models.ObjectView, len(objects))
	for i, o := range objects {
		views[i] = o.ObjectView
	}
	return models.Compose(views)
}

func axisRow(f models.OrderFile, target models.Target, a models.Axis, said []saying) views.TruthRow {
	ours := f.Axes[a]
	want, decided := target.Axes[a]
	row := views.TruthRow{Label: locale.Say("axis." + string(a)), Mark: views.Unknown}
	row.Ours = views.Claim{Axis: a, State: ours.State, At: ours.Since, AtPrefix: "truth.since"}
	down := decided && f.Health[want.By.Connection].State == models.APIDownState
	switch {
	case !decided || down || want.Basis != models.Official:
	case want.State != ours.State && want.State != "" || want.Disputed:
		row.Mark = views.Differ
	case !want.Unclear && ours.State != models.Review:
		row.Mark = views.Agrees
	}
	for _, o := range f.Objects {
		if c, ok := nowClaim(f, o, a); ok {
			decides := decided && want.By.Connection == o.Connection && want.By.Ref == o.Ref
			c.Differs = row.Mark == views.Differ && c.State != "" && c.State != ours.State && (decides || want.Disputed)
			// Whoever decides the axis speaks first.
			at := len(row.Now)
			if decides {
				at = 0
			}
			row.Now = slices.Insert(row.Now, at, c)
		}
	}
	row.Mark = contradicted(f, a, ours.State, row)
	for _, s := range said {
		st, ok := s.obs.Axes[a]
		if !ok {
			continue
		}
		c := stateClaim(a, st)
		c.By, c.At = s.by, s.at
		// What was said before the last good reading is history, not a difference.
		if c.State != "" && c.State != ours.State && (want.By.Official == nil || s.at.After(want.By.Official.Read)) {
			c.Differs = true
			row.Mark = views.Differ
		}
		row.Said = append(row.Said, c)
	}
	return row
}

// contradicted marks a row on which our record follows one platform while another,
// taken as a whole, says otherwise. A state put together from several is no difference.
func contradicted(f models.OrderFile, a models.Axis, ours models.State, row views.TruthRow) views.Mark {
	if row.Mark != views.Agrees {
		return row.Mark
	}
	follows, other := false, map[models.Platform]bool{}
	for _, p := range models.Platforms {
		var own []models.Object
		for _, o := range f.Objects {
			if o.Platform == p && o.Official != nil {
				own = append(own, o)
			}
		}
		if whole, states := compose(own).Axes[a]; states && whole.State != "" {
			follows = follows || whole.State == ours
			other[p] = whole.State != ours
		}
	}
	if !follows {
		return row.Mark
	}
	for i, c := range row.Now {
		if other[c.By] && c.State != ours {
			row.Now[i].Differs = true
			row.Mark = views.Differ
		}
	}
	return row.Mark
}

func stateClaim(a models.Axis, s models.Statement) views.Claim {
	c := views.Claim{Axis: a, State: s.State, Word: s.Word}
	if s.State == "" {
		c.Text = locale.Say("truth.unknown_word")
	}
	return c
}

// nowClaim is what a platform object says now about an axis. A platform that can't be
// asked says so, with its last known word below.
func nowClaim(f models.OrderFile, o models.Object, a models.Axis) (views.Claim, bool) {
	state := f.Health[o.Connection].State
	if o.Official == nil {
		_, stated := saidOf(o, a)
		switch {
		case !stated && !o.Reads[a]:
			return views.Claim{}, false
		case state == models.APINone:
			return views.Claim{Text: locale.Say("truth.no_api"), By: o.Platform}, stated
		case state == models.APIDownState:
			return views.Claim{Text: cannotAsk(f, o)}, true
		case o.Reads[a]:
			return views.Claim{Text: locale.Say("truth.not_read"), By: o.Platform}, true
		}
		return views.Claim{}, false
	}
	if o.Official.Absence != models.Present {
		return views.Claim{Text: locale.Say("absence." + string(o.Official.Absence)), By: o.Platform, At: o.Official.Read}, true
	}
	s, ok := o.Official.Axes[a]
	if !ok {
		return views.Claim{}, false
	}
	c := stateClaim(a, s)
	c.At = o.Official.Read
	if state == models.APIDownState {
		return views.Claim{Text: cannotAsk(f, o), Last: &c}, true
	}
	c.By = o.Platform
	return c, true
}

func saidOf(o models.Object, a models.Axis) (models.Statement, bool) {
	if o.Said == nil {
		return models.Statement{}, false
	}
	s, ok := o.Said.Axes[a]
	return s, ok
}

func cannotAsk(f models.OrderFile, o models.Object) locale.Text {
	if since := f.Health[o.Connection].Since; !since.IsZero() {
		return locale.Say("truth.cannot_ask_since", o.Platform, since)
	}
	return locale.Say("truth.cannot_ask", o.Platform)
}

// A sum is one of the amounts that stand beside each other.
type sum struct {
	key string
	of  func(models.Amounts) int64
}

var (
	totalSum    = sum{"amount.total", func(a models.Amounts) int64 { return a.Total }}
	receivedSum = sum{"amount.received", func(a models.Amounts) int64 { return a.Received }}
	refundedSum = sum{"amount.refunded", func(a models.Amounts) int64 { return a.Refunded }}
	sums        = []sum{totalSum, receivedSum, refundedSum}
)

func sumClaim(minor int64, currency string) views.Claim {
	return views.Claim{Sum: &locale.Money{Minor: minor, Currency: currency}}
}

// sumRow compares like with like: a payment's amount is never held against an order's
// total, and payments below what the store received may be one way of several.
func sumRow(f models.OrderFile, s sum, said []saying) views.TruthRow {
	row := views.TruthRow{Label: locale.Say(s.key), Mark: views.Unknown, Ours: sumClaim(s.of(f.Amounts), f.Currency)}
	store := slices.ContainsFunc(f.Objects, func(o models.Object) bool { return o.Platform != models.Stripe })
	counts := func(p models.Platform) bool { return s.key != totalSum.key || p != models.Stripe || !store }
	compared := false
	for _, p := range models.Platforms {
		if !counts(p) {
			continue
		}
		c, down, ok := platformSum(f, s, p)
		if !ok {
			continue
		}
		if c.Sum != nil && sameCurrency(c.Sum.Currency, f.Currency) {
			off := c.Sum.Minor != s.of(f.Amounts)
			if s.key == receivedSum.key && p == models.Stripe && store {
				off = c.Sum.Minor > s.of(f.Amounts) || off && !f.DisagreeSince.IsZero()
			}
			compared = true
			c.Differs = off
			if off {
				row.Mark = views.Differ
			}
		}
		if down != nil {
			c = views.Claim{Text: *down, Last: &views.Claim{Sum: c.Sum, At: c.At}}
		}
		row.Now = append(row.Now, c)
	}
	if compared && row.Mark != views.Differ && !slices.ContainsFunc(row.Now, func(c views.Claim) bool { return c.Last != nil }) {
		row.Mark = views.Agrees
	}
	for _, say := range said {
		if say.obs.Amounts != nil && counts(say.by) {
			c := sumClaim(s.of(*say.obs.Amounts), say.obs.Amounts.Currency)
			c.By, c.At = say.by, say.at
			row.Said = append(row.Said, c)
		}
	}
	return row
}

// platformSum adds up a platform's objects in one currency, with the oldest reading's
// time; down says so where the platform can't be asked.
func platformSum(f models.OrderFile, s sum, p models.Platform) (c views.Claim, down *locale.Text, ok bool) {
	for _, o := range f.Objects {
		if o.Platform != p || o.Official == nil || o.Official.Absence != models.Present || o.Official.Amounts == nil {
			continue
		}
		a := *o.Official.Amounts
		if ok && !sameCurrency(c.Sum.Currency, a.Currency) {
			continue
		}
		if !ok {
			c = sumClaim(0, a.Currency)
			c.By, ok = p, true
		}
		c.Sum.Minor += s.of(a)
		c.At = older(c.At, o.Official.Read)
		if f.Health[o.Connection].State == models.APIDownState {
			t := cannotAsk(f, o)
			down = &t
		}
	}
	return c, down, ok
}

func sameCurrency(a, b string) bool { return strings.EqualFold(a, b) }
