package locale

import (
	"strings"
	"time"
)

// Time writes a moment in full: 30 Nov 2026, 14:02.
func (p Printer) Time(t time.Time) string { return p.layout("format.time", t) }

// Exact writes a moment with its seconds, for a hover: 30 Nov 2026, 14:02:07.
func (p Printer) Exact(t time.Time) string { return p.layout("format.exact", t) }

// Clock writes the time of day: 14:02.
func (p Printer) Clock(t time.Time) string { return p.layout("format.clock", t) }

// Short leaves out what today's reader knows: 14:02 today, else 28 Nov, 14:02, and
// the year where it is another.
func (p Printer) Short(t time.Time) string {
	local := t.In(p.zone)
	switch {
	case sameDay(local, p.now):
		return p.layout("format.clock", t)
	case local.Year() == p.now.Year():
		return p.layout("format.short", t)
	}
	return p.layout("format.time", t)
}

// Day names a day: Today, 30 Nov · Saturday, 28 Nov · 3 Jan 2025.
func (p Printer) Day(t time.Time) string {
	local := t.In(p.zone)
	switch {
	case sameDay(local, p.now):
		return p.T("format.today", p.layout("format.date", t))
	case local.Year() == p.now.Year():
		return p.layout("format.day", t)
	}
	return p.layout("format.day_year", t)
}

// SameDay tells whether two moments are on one day where the reader is.
func (p Printer) SameDay(a, b time.Time) bool { return sameDay(a.In(p.zone), b.In(p.zone)) }

func sameDay(a, b time.Time) bool {
	y, m, d := a.Date()
	v, n, e := b.Date()
	return y == v && m == n && d == e
}

// longest age that is said as an age; older moments are said as dates.
const longestAge = 7 * 24 * time.Hour

// Recent tells whether a moment is near enough to be said by its distance.
func (p Printer) Recent(t time.Time) bool {
	d := p.now.Sub(t)
	return d < longestAge && d > -longestAge
}

// Ago says how far a moment is from now: 3 min ago, in 2 h. Beyond a week it is a date.
func (p Printer) Ago(t time.Time) string {
	if t.IsZero() {
		return p.T("time.never")
	}
	if !p.Recent(t) {
		return p.Short(t)
	}
	d := p.now.Sub(t).Round(time.Second)
	if d < 0 {
		return p.T("time.future", p.Span(-d))
	}
	return p.T("time.past", p.Span(d))
}

// Span says a duration in its largest unit: 2 s, 17 min, 33 h, 4 d.
func (p Printer) Span(d time.Duration) string {
	switch {
	case d < time.Minute:
		return p.T("time.s", int(d/time.Second))
	case d < time.Hour:
		return p.T("time.min", int(d/time.Minute))
	case d < 48*time.Hour:
		return p.T("time.h", int(d/time.Hour))
	}
	return p.T("time.d", int(d/(24*time.Hour)))
}

// Units are the patterns of Span, for the script that keeps ages fresh.
func (p Printer) Units() string {
	return strings.Join([]string{p.T("time.s"), p.T("time.min"), p.T("time.h"), p.T("time.d")}, "|")
}

// layout formats a moment by a layout of the catalogue, in the person's zone. Go
// knows English names of days only; other catalogues have them as words.
func (p Printer) layout(key string, t time.Time) string {
	if t.IsZero() {
		return ""
	}
	local := t.In(p.zone)
	s := local.Format(p.T(key))
	if p.lang != English {
		s = strings.ReplaceAll(s, local.Weekday().String(), p.T("weekday."+local.Weekday().String()))
	}
	return s
}
