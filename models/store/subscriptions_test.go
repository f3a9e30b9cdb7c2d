package store_test

import (
	"slices"
	"testing"
	"time"

	"counterfoil/models"
	"counterfoil/models/store"
)

// One process looks at a time: when the hour is over, after an outage, after a start.
// Only what an earlier look showed already lasts.
func TestLooksAtSubscriptions(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	claim := func(started bool) (mine bool) {
		t.Helper()
		if err := b.Tx(t.Context(), func(tx *store.Tx) (err error) {
			mine, err = tx.ClaimLook(t.Context(), b.conn, started, time.Minute)
			return err
		}); err != nil {
			t.Fatal(err)
		}
		return mine
	}
	look := func(wrong map[string]models.SubscriptionFault) (lasting []string) {
		t.Helper()
		if err := b.Tx(t.Context(), func(tx *store.Tx) (err error) {
			lasting, err = tx.Looked(t.Context(), b.conn, wrong, 5*time.Minute, time.Hour)
			return err
		}); err != nil {
			t.Fatal(err)
		}
		return lasting
	}
	if !claim(false) || claim(false) || claim(true) {
		t.Fatal("the first look is somebody's, and nobody else's")
	}
	wrong := map[string]models.SubscriptionFault{"a": models.SubscriptionAbsent, "b": models.SubscriptionOff}
	if got := look(wrong); len(got) != 0 {
		t.Errorf("the first look lasts: %v", got)
	}
	if claim(false) || claim(true) {
		t.Error("it is looked again at once")
	}
	b.must(`UPDATE subscription_looks SET looked_at = now() - interval '10 minutes'`)
	if !claim(true) {
		t.Error("a start isn't followed by a look")
	}
	b.must(`UPDATE subscription_faults SET since = since - interval '6 minutes' WHERE topic = 'a'`)
	if got := look(wrong); !slices.Equal(got, []string{"a"}) {
		t.Errorf("lasting: %v", got)
	}
	b.must(`UPDATE connections SET api_since = now() + interval '1 second'`)
	if !claim(false) || claim(false) {
		t.Error("the end of an outage is followed by one look")
	}
	b.must(`UPDATE connections SET api_failing = now()`, `UPDATE subscription_looks SET next_at = now()`)
	if claim(false) {
		t.Error("a platform that can't be asked is asked")
	}
	look(map[string]models.SubscriptionFault{"b": models.SubscriptionElsewhere})
	if n := one[int](b, `SELECT count(*) FROM subscription_faults WHERE topic = 'b' AND fault = 'elsewhere'`); n != 1 || one[int](b, `SELECT count(*) FROM subscription_faults`) != 1 {
		t.Error("what is right again is kept, or a fault isn't")
	}
}

// Hours are counted once, however often and by however many somebody counts.
func TestHoursAreCounted(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.must(`INSERT INTO events (connection_id, key, account, topic, digest, content, size, received_at)
SELECT id, decode(lpad(to_hex(n), 32, '0'), 'hex'), 'a', 't', '', '', 1, timestamptz '2026-12-01 01:59:59+00' + n * interval '1 minute' FROM connections, generate_series(0, 9) n`)
	for range 3 {
		if err := b.Tx(t.Context(), func(tx *store.Tx) error {
			_, err := tx.CountHours(t.Context())
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	if n := one[int](b, `SELECT events FROM event_hours WHERE hour = '2026-12-01 01:00+00'`); n != 1 {
		t.Errorf("%d before the hour", n)
	}
	if n := one[int](b, `SELECT events FROM event_hours WHERE hour = '2026-12-01 02:00+00'`); n != 9 {
		t.Errorf("%d after it", n)
	}
}
