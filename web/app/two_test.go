package app

import (
	"math/rand/v2"
	"testing"
)

// begin starts the program, as one process or as several.
type begin func(t testing.TB) *rig

// oneAndTwo plays a scenario against one process, and against two that share a
// database and of which either may get any request.
func oneAndTwo(t *testing.T, scenario func(t *testing.T, start begin)) {
	t.Parallel()
	for name, start := range map[string]begin{"one process": start, "two processes": startTwo} {
		t.Run(name, func(t *testing.T) { scenario(t, start) })
	}
}

// startTwo is a rig of two processes.
func startTwo(t testing.TB) *rig {
	t.Helper()
	r := start(t)
	other := r.beside()
	bases := []string{r.base, other.base}
	r.doors = func() string { return bases[rand.IntN(len(bases))] }
	return r
}
