package store_test

import (
	"testing"
	"time"

	"counterfoil/models"
	"counterfoil/models/store"
)

func TestATimeOffIsRememberedOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	alive := func(process string) {
		t.Helper()
		if err := b.Tx(t.Context(), func(tx *store.Tx) error { return tx.Alive(t.Context(), process) }); err != nil {
			t.Fatal(err)
		}
	}
	off := func() []models.OffTime {
		t.Helper()
		list, err := b.OffTimes(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
	back := func(process, by string) {
		t.Helper()
		if _, err := b.SQL().Exec(`UPDATE console_life SET seen_at = now() - $1::interval WHERE process = $2`, by, process); err != nil {
			t.Fatal(err)
		}
	}
	alive("a") // the first start of all is no time off
	alive("b")
	back("a", "5 hours")
	alive("a") // the other one lived
	if n := len(off()); n != 0 {
		t.Fatalf("%d times off while somebody lived", n)
	}
	back("a", "5 hours")
	back("b", "6 hours")
	alive("c")
	alive("a")
	list := off()
	if len(list) != 1 || list[0].Until.Sub(list[0].Since).Round(time.Minute) != 5*time.Hour {
		t.Errorf("off %+v", list)
	}
}
