package app

import (
	"context"
	"testing"

	"counterfoil/models"
	"counterfoil/models/platform/sandbox"
	"counterfoil/models/store"
)

// BenchmarkCarry carries the invoices and messages of 600 paid orders to a sink on
// loopback. One operation is all of them, from their alarms to the last result.
func BenchmarkCarry(b *testing.B) {
	const orders = 600
	r := start(b).withShopify(nil)
	r.shop.SetPoints(20_000, 1000)
	s := newSink(b)
	for range orders {
		id, ns, err := r.shop.CreateOrder(sandbox.ShopifyOrder{Total: "100.00"})
		if err != nil {
			b.Fatal(err)
		}
		r.postAll("hk", append(ns, must(r.shop.Pay(id))...)...)
	}
	r.settled()
	r.live("hk", s, true, models.Invoice, models.CustomerMessage)
	var ids []int64
	rows, err := r.app.store.SQL().Query(`SELECT id FROM actions WHERE kind <> 'fulfillment_instruction' ORDER BY id`)
	if err != nil {
		b.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var id int64
		if err := rows.Scan(&id); err != nil {
			b.Fatal(err)
		}
		ids = append(ids, id)
	}
	if len(ids) != 2*orders || rows.Err() != nil {
		b.Fatal(len(ids), rows.Err())
	}
	for b.Loop() {
		b.StopTimer()
		s.mu.Lock()
		s.calls = nil // the sink looks through them at each call
		s.mu.Unlock()
		err := r.app.store.Tx(context.Background(), func(tx *store.Tx) error {
			_, err := tx.SQL().Exec(`UPDATE actions SET state = 'planned', due_at = now(), tries = 0, body = NULL, done_at = NULL WHERE id = ANY ($1)`, ids)
			if err != nil {
				return err
			}
			return r.app.queue.WakeActions(context.Background(), tx, ids)
		})
		if err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
		r.wait("all are carried", func() bool {
			var n int
			r.scan(&n, `SELECT count(*) FROM actions WHERE due_at IS NOT NULL`)
			return n == 0
		})
		if s.count() != len(ids) {
			b.Errorf("%d calls for %d actions", s.count(), len(ids))
		}
	}
	b.ReportMetric(float64(b.N*len(ids))/b.Elapsed().Seconds(), "actions/s")
}
