package sandbox

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// A small reader of GraphQL queries: operations, variables, arguments, aliases,
// fragments. Directives aren't known.

type gqlField struct {
	alias, name string
	args        map[string]any // literals; a variable is a gqlVar
	sel         []gqlNode
}

// A gqlNode is a field, or a fragment's fields on a type.
type gqlNode struct {
	field *gqlField
	on    string // of a fragment; empty: the type around it
	sel   []gqlNode
}

type gqlVar string

type gqlReader struct {
	tokens    []string
	at        int
	fragments map[string]gqlNode
	depth     int
	root      string // Query or Mutation
}

const gqlDeepest = 32

// parseQuery reads a document with one query or mutation and answers its fields, and
// the type that has them.
func parseQuery(doc string) ([]gqlNode, string, error) {
	r := &gqlReader{tokens: gqlTokens(doc), fragments: map[string]gqlNode{}, root: "Query"}
	query, err := r.document()
	return query, r.root, err
}

func (r *gqlReader) document() ([]gqlNode, error) {
	var query []gqlNode
	for r.at < len(r.tokens) {
		switch t := r.next(); t {
		case "{":
			r.at--
			sel, err := r.selection()
			if err != nil {
				return nil, err
			}
			query = sel
		case "query", "mutation":
			if t == "mutation" {
				r.root = "Mutation"
			}
			for r.peek() != "{" && r.at < len(r.tokens) {
				if r.next() == "(" {
					r.skip("(", ")")
				}
			}
			sel, err := r.selection()
			if err != nil {
				return nil, err
			}
			query = sel
		case "fragment":
			name := r.next()
			if r.next() != "on" {
				return nil, errors.New("expected on")
			}
			on := r.next()
			sel, err := r.selection()
			if err != nil {
				return nil, err
			}
			r.fragments[name] = gqlNode{on: on, sel: sel}
		default:
			return nil, fmt.Errorf("unexpected %q", t)
		}
	}
	if query == nil {
		return nil, errors.New("no query")
	}
	return r.spread(query, 0)
}

// spread puts named fragments in their places.
func (r *gqlReader) spread(sel []gqlNode, depth int) ([]gqlNode, error) {
	if depth > gqlDeepest {
		return nil, errors.New("nested too deeply")
	}
	out := make([]gqlNode, 0, len(sel))
	for _, n := range sel {
		if name, named := strings.CutPrefix(n.on, "..."); named {
			f, ok := r.fragments[name]
			if !ok {
				return nil, fmt.Errorf("fragment %s is not defined", name)
			}
			n = f
		}
		var err error
		if n.field != nil {
			n.field.sel, err = r.spread(n.field.sel, depth+1)
		} else {
			n.sel, err = r.spread(n.sel, depth+1)
		}
		if err != nil {
			return nil, err
		}
		out = append(out, n)
	}
	return out, nil
}

func (r *gqlReader) peek() string {
	if r.at < len(r.tokens) {
		return r.tokens[r.at]
	}
	return ""
}

func (r *gqlReader) next() string {
	t := r.peek()
	r.at++
	return t
}

func (r *gqlReader) skip(open, shut string) {
	for deep := 1; deep > 0 && r.at < len(r.tokens); {
		switch r.next() {
		case open:
			deep++
		case shut:
			deep--
		}
	}
}

func (r *gqlReader) selection() ([]gqlNode, error) {
	if r.depth++; r.depth > gqlDeepest {
		return nil, errors.New("nested too deeply")
	}
	defer func() { r.depth-- }()
	if r.next() != "{" {
		return nil, errors.New("expected {")
	}
	var out []gqlNode
	for {
		switch t := r.next(); t {
		case "":
			return nil, errors.New("unexpected end")
		case "}":
			return out, nil
		case "...":
			n := gqlNode{}
			switch r.peek() {
			case "on":
				r.at++
				n.on = r.next()
			case "{":
			default:
				out = append(out, gqlNode{on: "..." + r.next()})
				continue
			}
			sel, err := r.selection()
			if err != nil {
				return nil, err
			}
			n.sel = sel
			out = append(out, n)
		default:
			f, err := r.fieldNamed(t)
			if err != nil {
				return nil, err
			}
			out = append(out, gqlNode{field: f})
		}
	}
}

func (r *gqlReader) fieldNamed(name string) (*gqlField, error) {
	f := &gqlField{alias: name, name: name, args: map[string]any{}}
	if !gqlName(name) {
		return nil, fmt.Errorf("unexpected %q", name)
	}
	if r.peek() == ":" {
		r.at++
		f.name = r.next()
	}
	if r.peek() == "(" {
		r.at++
		for r.peek() != ")" {
			key := r.next()
			if !gqlName(key) || r.next() != ":" {
				return nil, errors.New("bad argument")
			}
			v, err := r.value()
			if err != nil {
				return nil, err
			}
			f.args[key] = v
		}
		r.at++
	}
	if r.peek() == "{" {
		sel, err := r.selection()
		if err != nil {
			return nil, err
		}
		f.sel = sel
	}
	return f, nil
}

func (r *gqlReader) value() (any, error) {
	t := r.next()
	switch {
	case t == "":
		return nil, errors.New("unexpected end")
	case t == "$":
		return gqlVar(r.next()), nil
	case t == "[":
		list := []any{}
		for r.peek() != "]" {
			v, err := r.value()
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		r.at++
		return list, nil
	case t[0] == '"':
		return strconv.Unquote(t)
	case t == "true", t == "false":
		return t == "true", nil
	case t == "null":
		return nil, nil
	case t[0] == '-' || t[0] >= '0' && t[0] <= '9':
		return strconv.ParseFloat(t, 64)
	case gqlName(t):
		return t, nil // an enum
	}
	return nil, fmt.Errorf("unexpected %q", t)
}

func gqlName(s string) bool {
	for i, c := range s {
		if c != '_' && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return s != ""
}

// gqlTokens cuts a document into names, numbers, strings and signs.
func gqlTokens(doc string) []string {
	var out []string
	for i := 0; i < len(doc); {
		c := doc[i]
		switch {
		case c == ' ' || c == '\n' || c == '\t' || c == '\r' || c == ',':
			i++
		case c == '#':
			for i < len(doc) && doc[i] != '\n' {
				i++
			}
		case strings.HasPrefix(doc[i:], "..."):
			out = append(out, "...")
			i += 3
		case c == '"':
			j := i + 1
			for j < len(doc) && doc[j] != '"' {
				if doc[j] == '\\' {
					j++
				}
				j++
			}
			j = min(j+1, len(doc))
			out = append(out, doc[i:j])
			i = j
		case strings.IndexByte("{}()[]:$!=@|&", c) >= 0:
			out = append(out, string(c))
			i++
		default:
			j := i
			for j < len(doc) && strings.IndexByte(" \n\t\r,{}()[]:$!=@|&\"#", doc[j]) < 0 && !strings.HasPrefix(doc[j:], "...") {
				j++
			}
			out = append(out, doc[i:j])
			i = j
		}
	}
	return out
}
