package stripe

import (
	"encoding/json"
	"maps"
	"slices"
	"testing"
)

// What split finds must be what decoding finds.
func FuzzSplit(f *testing.F) {
	for _, s := range []string{`{"a": "\\\"", "b\u0063": [{"x": "]"}, 1e-3 ], "" :{} , "d":null,"a":true}`, ` { } `, `[]`, `"{"`, `{"a":-0}`, "{\"\xff\":1}"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if !json.Valid(b) {
			return
		}
		var want map[string]json.RawMessage
		_ = json.Unmarshal(b, &want)
		got := split(b)
		if len(got) != len(want) {
			t.Fatalf("fields %q, want %q", slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))
		}
		for name, raw := range want {
			if mine, ok := got[name]; !ok || string(mine) != string(raw) {
				t.Errorf("field %q is %q, want %q", name, mine, raw)
			}
		}
	})
}
