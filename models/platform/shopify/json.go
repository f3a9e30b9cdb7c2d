package shopify

import (
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"time"

	"counterfoil/models"
)

// A kind says what stands at a place in JSON. Bodies and answers change between
// versions, so nothing here fails on a surprise: it is kept as what it is.
type kind byte

const (
	absent kind = iota
	null
	text
	number
	boolean
	other // an object or a list where a plain value is expected, or the reverse
)

// A leaf is a plain JSON value as it was written. Numbers keep all their digits:
// ids have up to 18, more than a float64 holds.
type leaf struct {
	kind kind
	raw  string
}

// UnmarshalJSON never fails.
func (l *leaf) UnmarshalJSON(b []byte) error {
	*l = leaf{kind: other}
	switch b[0] {
	case 'n':
		l.kind = null
	case 't', 'f':
		*l = leaf{boolean, string(b)}
	case '"':
		var s string
		if json.Unmarshal(b, &s) == nil {
			*l = leaf{text, s}
		}
	case '{', '[':
	default:
		*l = leaf{number, string(b)}
	}
	return nil
}

// word is a status word; empty where there is none.
func (l leaf) word() string {
	if l.kind != text {
		return ""
	}
	return printable(l.raw, 80)
}

// odd tells whether something stands here that isn't a word.
func (l leaf) odd() bool { return l.kind == number || l.kind == boolean || l.kind == other }

// decimal is an amount as written, with or without quotes.
func (l leaf) decimal() string {
	if l.kind == text || l.kind == number {
		return l.raw
	}
	return ""
}

// minor is an amount in minor units; a missing one is an error, never zero.
func (l leaf) minor(currency string) (int64, error) {
	d := l.decimal()
	if d == "" || currency == "" {
		return 0, errNoAmount
	}
	return models.Minor(d, currency)
}

var errNoAmount = errors.New("shopify: no amount")

// digits is a plain id, with or without quotes.
func (l leaf) digits() string {
	if l.kind != text && l.kind != number {
		return ""
	}
	return plainID(l.raw)
}

func (l leaf) count() int {
	n, err := strconv.Atoi(l.decimal())
	if err != nil || n < 0 || n > 1e9 {
		return 0
	}
	return n
}

func (l leaf) yes() bool { return l.kind == boolean && l.raw == "true" }

// stamp is a point in time in UTC; zero where none can be read.
func (l leaf) stamp() time.Time {
	if l.kind != text {
		return time.Time{}
	}
	t, err := time.Parse(time.RFC3339, l.raw)
	if err != nil || t.Year() < 1990 || t.Year() > 2200 {
		return time.Time{}
	}
	return t.UTC()
}

// A list is a JSON list, or a GraphQL connection with nodes or edges.
type list[T any] struct {
	kind  kind
	items []T
	page  pageInfo
}

type pageInfo struct {
	HasNextPage bool   `json:"hasNextPage"`
	EndCursor   string `json:"endCursor"`
}

// UnmarshalJSON never fails; what isn't a list is told by its kind.
func (l *list[T]) UnmarshalJSON(b []byte) error {
	*l = list[T]{kind: other}
	switch b[0] {
	case 'n':
		l.kind = null
	case '[':
		l.kind = text
		_ = json.Unmarshal(b, &l.items) // a wrong element stays empty
	case '{':
		var c struct {
			Nodes json.RawMessage `json:"nodes"`
			Edges []struct {
				Node T `json:"node"`
			} `json:"edges"`
			PageInfo pageInfo `json:"pageInfo"`
		}
		_ = json.Unmarshal(b, &c)
		l.page = c.PageInfo
		switch {
		case len(c.Nodes) > 0 && c.Nodes[0] == '[':
			l.kind = text
			_ = json.Unmarshal(c.Nodes, &l.items)
		case c.Edges != nil:
			l.kind = text
			for _, e := range c.Edges {
				l.items = append(l.items, e.Node)
			}
		}
	}
	return nil
}

// given tells whether the list is there, empty or not.
func (l list[T]) given() bool { return l.kind == text }

// plainID accepts an id of digits as Shopify gives them out.
func plainID(s string) string {
	if s == "" || len(s) > 20 || strings.Trim(s, "0123456789") != "" || strings.Trim(s, "0") == "" {
		return ""
	}
	return s
}

const gidPrefix = "gid://shopify/"

// splitGID takes gid://shopify/Order/1 apart; empty where it isn't one.
func splitGID(s string) (typ, id string) {
	rest, ok := strings.CutPrefix(s, gidPrefix)
	if !ok {
		return "", ""
	}
	typ, id, _ = strings.Cut(rest, "/")
	id, _, _ = strings.Cut(id, "?")
	if id = plainID(id); id == "" {
		return "", ""
	}
	return typ, id
}

// printable makes text fit to store and show: valid, without control characters, short.
func printable(s string, longest int) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 {
			return '\uFFFD'
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
	if r := []rune(s); len(r) > longest {
		s = string(r[:longest])
	}
	return s
}
