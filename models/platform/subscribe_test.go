package platform

import (
	"fmt"
	"testing"
)

func TestJudgeSubscriptions(t *testing.T) {
	t.Parallel()
	const ours, address = "/hooks/hk", "https://c.example/hooks/hk"
	right := Subscription{Address: address, Topics: []string{"a", "b"}, Format: "json", Version: "2026-10"}
	with := func(change func(*Subscription)) Subscription {
		s := right
		change(&s)
		return s
	}
	for name, c := range map[string]struct {
		list []Subscription
		want string
	}{
		"right":               {[]Subscription{right}, "map[]"},
		"none":                {nil, "map[a:absent b:absent]"},
		"one topic":           {[]Subscription{with(func(s *Subscription) { s.Topics = []string{"a"} })}, "map[b:absent]"},
		"all topics":          {[]Subscription{with(func(s *Subscription) { s.Topics = []string{"*"} })}, "map[]"},
		"off":                 {[]Subscription{with(func(s *Subscription) { s.Off = true })}, "map[a:off b:off]"},
		"off, and another on": {[]Subscription{with(func(s *Subscription) { s.Off = true }), right}, "map[]"},
		"another host":        {[]Subscription{with(func(s *Subscription) { s.Address = "https://old.example/hooks/hk" })}, "map[a:elsewhere b:elsewhere]"},
		"somebody else's":     {[]Subscription{with(func(s *Subscription) { s.Address = "https://c.example/hooks/other" })}, "map[a:absent b:absent]"},
		"XML":                 {[]Subscription{with(func(s *Subscription) { s.Format = "XML" })}, "map[a:format b:format]"},
		"another version":     {[]Subscription{with(func(s *Subscription) { s.Version = "2026-07" })}, "map[a:version b:version]"},
		"version not stated":  {[]Subscription{with(func(s *Subscription) { s.Version = "" })}, "map[]"},
		"a slash at the end":  {[]Subscription{with(func(s *Subscription) { s.Address += "/" })}, "map[]"},
	} {
		if got := fmt.Sprint(JudgeSubscriptions([]string{"a", "b"}, c.list, ours, address, "2026-10")); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}
