// Package locale says things to people in their language: words from a catalogue,
// money, numbers and times.
package locale

import (
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"counterfoil/models"
)

// Languages that the catalogue has, the fallback first.
const (
	English = "en"
	Chinese = "zh-Hant"
)

//go:embed en.json zh-Hant.json
var files embed.FS

// A message is one sentence, or two where the count decides.
type message struct {
	One   string `json:"one"`
	Other string `json:"other"`
}

func (m *message) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '"' {
		return json.Unmarshal(b, &m.Other)
	}
	type plain message
	return json.Unmarshal(b, (*plain)(m))
}

type catalogue map[string]message

var catalogues = map[string]catalogue{English: load(English), Chinese: load(Chinese)}

// load reads an embedded file. One that can't be read leaves the keys themselves on
// the pages; a test keeps that from being released.
func load(lang string) catalogue {
	words := catalogue{}
	if b, err := files.ReadFile(lang + ".json"); err == nil {
		_ = json.Unmarshal(b, &words)
	}
	return words
}

// A Printer speaks one language to one person at one moment.
type Printer struct {
	lang string
	zone *time.Location
	now  time.Time
}

// New makes the printer of a request. An unknown language is English; a nil zone is UTC.
func New(lang string, zone *time.Location, now time.Time) Printer {
	if _, known := catalogues[lang]; !known {
		lang = English
	}
	if zone == nil {
		zone = time.UTC
	}
	return Printer{lang: lang, zone: zone, now: now.In(zone)}
}

type key struct{}

// With gives the pages rendered under the context their printer.
func With(ctx context.Context, p Printer) context.Context {
	return context.WithValue(ctx, key{}, p)
}

// From is the context's printer; without one, English in UTC.
func From(ctx context.Context) Printer {
	if p, ok := ctx.Value(key{}).(Printer); ok {
		return p
	}
	return New(English, time.UTC, time.Time{})
}

// T says the sentence under a key with the context's printer.
func T(ctx context.Context, key string, args ...any) string {
	return From(ctx).T(key, args...)
}

// Lang is the language as HTML names it.
func (p Printer) Lang() string { return p.lang }

// Now is the moment that ages are counted to.
func (p Printer) Now() time.Time { return p.now }

// A Text is a sentence that has not been said yet: a catalogue key and its values.
type Text struct {
	Key  string
	Args []any
}

// Say makes a Text.
func Say(key string, args ...any) Text { return Text{Key: key, Args: args} }

// Empty tells whether there is nothing to say.
func (t Text) Empty() bool { return t.Key == "" }

// A List is several sentences or words, said with commas between them.
type List []Text

// A Money is a sum in minor units of its currency.
type Money struct {
	Minor    int64
	Currency string
}

// An Ago is a moment that is said by its distance from now.
type Ago struct{ time.Time }

// T says the sentence under a key. {0}, {1}, … are its values: numbers, times, sums
// and spans are written as people of the language write them, a Text is said in its
// place. The first whole number decides between one and other. A key that no
// catalogue has is said as it stands.
func (p Printer) T(key string, args ...any) string {
	var b strings.Builder
	for _, part := range p.Parts(key, args...) {
		b.WriteString(p.Value(part))
	}
	return b.String()
}

// Text says a Text.
func (p Printer) Text(t Text) string { return p.T(t.Key, t.Args...) }

// Parts is the sentence under a key, cut where its values stand: strings are words,
// anything else is a value still to be written.
func (p Printer) Parts(key string, args ...any) []any {
	m, ok := catalogues[p.lang][key]
	if !ok {
		m, ok = catalogues[English][key]
	}
	if !ok {
		return []any{key}
	}
	rest := m.Other
	if m.One != "" && countsOne(args) {
		rest = m.One
	}
	var parts []any
	for {
		before, after, found := strings.Cut(rest, "{")
		digits, tail, closed := strings.Cut(after, "}")
		n, err := strconv.Atoi(digits)
		if !found || !closed || err != nil || n >= len(args) {
			return append(parts, rest)
		}
		if before != "" {
			parts = append(parts, before)
		}
		parts = append(parts, args[n])
		rest = tail
	}
}

func countsOne(args []any) bool {
	for _, a := range args {
		switch n := a.(type) {
		case int:
			return n == 1
		case int64:
			return n == 1
		}
	}
	return false
}

// Value writes one value of a sentence.
func (p Printer) Value(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case int:
		return p.Number(int64(v))
	case int64:
		return p.Number(v)
	case time.Time:
		return p.Short(v)
	case Ago:
		return p.Ago(v.Time)
	case time.Duration:
		return p.Span(v)
	case Money:
		return p.Money(v.Minor, v.Currency)
	case Text:
		return p.Text(v)
	case List:
		words := make([]string, len(v))
		for i, t := range v {
			words[i] = p.Text(t)
		}
		return strings.Join(words, p.T("list.comma"))
	case models.Platform:
		return p.T("platform." + string(v))
	}
	return fmt.Sprint(v)
}

// Number writes a count with its thousands apart: 41,208.
func (p Printer) Number(n int64) string {
	s := strconv.FormatInt(n, 10)
	return group(s)
}

// group sets the thousands of a decimal string apart.
func group(s string) string {
	sign := ""
	if strings.HasPrefix(s, "-") {
		sign, s = "-", s[1:]
	}
	whole, frac, dot := strings.Cut(s, ".")
	var b strings.Builder
	for i, d := range whole {
		if i > 0 && (len(whole)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(d)
	}
	if dot {
		b.WriteString("." + frac)
	}
	return sign + b.String()
}

// symbols of the currencies whose sign alone would be taken for another's.
var symbols = map[string]string{
	"HKD": "HK$", "TWD": "NT$", "USD": "US$", "MOP": "MOP$", "SGD": "S$", "AUD": "A$", "CAD": "CA$", "NZD": "NZ$",
	"CNY": "CN¥", "JPY": "JP¥", "EUR": "€", "GBP": "£", "KRW": "₩",
}

// Money writes a sum: HK$1,280.00, NT$1,280, US$99.00, CHF 12.50. New Taiwan dollars
// have decimals only where they aren't zero. Without a currency it is empty.
func (p Printer) Money(minor int64, currency string) string {
	currency = strings.ToUpper(currency)
	if currency == "" {
		return ""
	}
	digits := group(models.Decimal(minor, currency))
	if currency == "TWD" {
		digits = strings.TrimSuffix(digits, ".00")
	}
	sign := ""
	if rest, negative := strings.CutPrefix(digits, "-"); negative {
		sign, digits = "-", rest
	}
	if s, ok := symbols[currency]; ok {
		return sign + s + digits
	}
	return sign + currency + " " + digits
}
