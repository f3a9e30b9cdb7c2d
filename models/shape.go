package models

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// A Shape is which paths an object has and of which type each is, never its values:
// "refunds[].amount" → "number". What is null tells nothing of its type.
type Shape map[string]string

// shapeless are objects whose keys people choose; the keys may tell what they mean.
var shapeless = map[string]bool{"metadata": true, "note_attributes": true, "noteAttributes": true, "customAttributes": true}

const (
	deepestShape = 20
	widestShape  = 3000
)

// ShapeOf reads the shape of a JSON text.
func ShapeOf(raw []byte) (Shape, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, fmt.Errorf("models: shape: %w", err)
	}
	s := Shape{}
	s.add("", v, 0)
	return s, nil
}

func (s Shape) add(path string, v any, depth int) {
	kind := "null"
	switch x := v.(type) {
	case map[string]any:
		kind = "object"
		if depth < deepestShape && !shapeless[path[strings.LastIndexByte(path, '.')+1:]] {
			for name, inner := range x {
				s.add(strings.TrimPrefix(path+"."+name, "."), inner, depth+1)
			}
		}
	case []any:
		kind = "list"
		if depth < deepestShape {
			for _, inner := range x {
				s.add(path+"[]", inner, depth+1)
			}
		}
	case string:
		kind = "text"
	case bool:
		kind = "boolean"
	case json.Number:
		kind = "number"
	}
	if path == "" || len(s) >= widestShape {
		return
	}
	switch was, seen := s[path]; {
	case !seen, was == "null":
		s[path] = kind
	case kind != "null" && was != kind:
		s[path] = "mixed"
	}
}

// A ShapeChange is one path that isn't what it was.
type ShapeChange struct {
	Path string `json:"path"`
	Was  string `json:"was,omitempty"` // empty: it wasn't there
	Is   string `json:"is,omitempty"`  // empty: it is gone
}

// Changes lists what differs in a later shape, by path. What may only be empty now (an
// element of an empty list, a field of what is null) hasn't changed.
func (s Shape) Changes(later Shape) []ShapeChange {
	var out []ShapeChange
	for _, path := range slices.Sorted(maps.Keys(s)) {
		was := s[path]
		is, there := later[path]
		switch {
		case !there && later.silent(path):
		case !there:
			out = append(out, ShapeChange{Path: path, Was: was})
		case is != was && is != "null" && was != "null":
			out = append(out, ShapeChange{Path: path, Was: was, Is: is})
		}
	}
	for _, path := range slices.Sorted(maps.Keys(later)) {
		if _, was := s[path]; !was && !s.silent(path) {
			out = append(out, ShapeChange{Path: path, Is: later[path]})
		}
	}
	return out
}

// silent tells whether a shape says nothing of a path: what it lies in is null, gone
// itself, or a list without elements.
func (s Shape) silent(path string) bool {
	if strings.HasSuffix(path, "[]") {
		return true // its list is judged by itself
	}
	i := strings.LastIndexByte(path, '.')
	if i < 0 {
		return false
	}
	kind, there := s[path[:i]]
	return !there || kind == "null"
}
