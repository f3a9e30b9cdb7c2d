package receiptroller

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"counterfoil/models"
)

// A place is one JSON object of a body, its values still unread, and the path to it.
type place struct {
	path   string
	values map[string]json.RawMessage
}

// placeOf reads a body's object; a body of another shape is a place without values.
func placeOf(path string, raw []byte) place {
	p := place{path: path}
	if json.Unmarshal(raw, &p.values) != nil {
		p.values = nil
	}
	return p
}

// join adds a name to the path.
func (p place) join(name string) string {
	if p.path == "" {
		return name
	}
	return p.path + "." + name
}

// child is an object inside the place.
func (p place) child(name string) place {
	raw, _ := p.raw(name)
	if raw == nil {
		return place{path: p.join(name)}
	}
	return placeOf(p.join(name), raw)
}

// raw finds a value under its name in camel case or in snake case.
func (p place) raw(name string) (json.RawMessage, bool) {
	if raw, ok := p.values[name]; ok {
		return raw, true
	}
	raw, ok := p.values[snake(name)]
	return raw, ok
}

// snake turns receiptId into receipt_id.
func snake(camel string) string {
	var b strings.Builder
	for _, r := range camel {
		if unicode.IsUpper(r) {
			b.WriteByte('_')
			r = unicode.ToLower(r)
		}
		b.WriteRune(r)
	}
	return b.String()
}

// A leaf is a single value. The platform sends one and the same as a number here and
// as a string there, and leaves empty ones out.
type leaf struct {
	path  string
	text  string
	named bool // its name stands in the body, perhaps without a value
	wrong bool // neither number nor string
}

// find looks for a value under any of its names, in the places in which it may
// stand; the first one that isn't empty counts.
func find(places []place, names ...string) leaf {
	var found leaf
	if len(places) > 0 {
		found.path = places[0].join(names[0])
	}
	for _, p := range places {
		for _, name := range names {
			raw, ok := p.raw(name)
			if !ok {
				continue
			}
			l := readLeaf(raw)
			l.path, l.named = p.join(name), true
			if l.text != "" || l.wrong {
				return l
			}
			if !found.named {
				found = l
			}
		}
	}
	return found
}

func readLeaf(raw json.RawMessage) leaf {
	raw = bytes.TrimSpace(raw)
	var l leaf
	switch {
	case len(raw) == 0, bytes.Equal(raw, []byte("null")):
	case raw[0] == '"':
		l.wrong = json.Unmarshal(raw, &l.text) != nil
		l.text = strings.TrimSpace(l.text)
	case raw[0] == '-', raw[0] >= '0' && raw[0] <= '9':
		l.text = string(raw)
	default:
		l.wrong = true
	}
	return l
}

// whole is the value as a whole number; ok is false where it isn't one.
func (l leaf) whole() (n int64, ok bool) {
	n, err := models.Minor(l.text, "JPY") // a currency without decimals
	return n, err == nil && !l.wrong
}

// word is the value as a word of the table, empty where it isn't a whole number.
func (l leaf) word() string {
	n, ok := l.whole()
	if !ok {
		return ""
	}
	return strconv.FormatInt(n, 10)
}

// amount is the value in minor units.
func (l leaf) amount(currency string) (n int64, ok bool) {
	n, err := models.Minor(l.text, currency)
	return n, err == nil && !l.wrong
}

// spellings of a time that the platform's documents have shown over the years.
var spellings = []string{
	time.RFC3339,
	"2006-01-02T15:04:05Z0700",
	"2006-01-02T15:04:05",
	"2006-01-02T15:04",
	"2006-01-02 15:04:05 Z07:00",
	"2006-01-02 15:04:05Z07:00",
	"2006-01-02 15:04:05 Z0700",
	"2006-01-02 15:04:05",
	"2006-01-02 15:04",
	"2006/01/02 15:04:05",
	"2006-01-02",
}

// time reads the value leniently; zone is for spellings without an offset. It is
// zero where there is none, and for years that are an empty value in disguise.
func (l leaf) time(zone *time.Location) time.Time {
	for _, s := range spellings {
		t, err := time.ParseInLocation(s, l.text, zone)
		if err == nil && t.Year() >= 2000 && t.Year() < 2200 {
			return t.UTC()
		}
	}
	return time.Time{}
}

// usable tells whether a text can be one part of a reference and of an address.
func usable(part string) bool {
	return part != "" && part != "." && part != ".." && len(part) <= 200 && utf8.ValidString(part) &&
		!strings.ContainsFunc(part, func(r rune) bool { return r == '/' || unicode.IsControl(r) || r == utf8.RuneError })
}
