package app

import (
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"counterfoil/models/platform/sandbox"
)

// BenchmarkBurst sends four notifications for each of 600 orders over 64 connections.
// One operation is a whole burst; answers are counted from the first byte sent.
func BenchmarkBurst(b *testing.B) {
	const orders, senders = 600, 64
	r := start(b).withShopify(nil)
	r.shop.SetPoints(20_000, 1000) // as on the plan of large shops
	r.waits = time.Minute
	client := http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: senders}}
	defer client.CloseIdleConnections()
	var answers []time.Duration
	var processed time.Duration
	for b.Loop() {
		b.StopTimer()
		var all []sandbox.Notification
		for range orders {
			id, ns, err := r.shop.CreateOrder(sandbox.ShopifyOrder{Total: "100.00"})
			if err != nil {
				b.Fatal(err)
			}
			all = append(all, ns...)
			all = append(all, must(r.shop.Touch(id))...)
			all = append(all, must(r.shop.Pay(id))...)
			all = append(all, must(r.shop.Touch(id))...)
		}
		b.StartTimer()
		began := time.Now()
		todo := make(chan sandbox.Notification)
		var mu sync.Mutex
		var wg sync.WaitGroup
		for range senders {
			wg.Go(func() {
				for n := range todo {
					sent := time.Now()
					status, _ := r.sendBy(&client, "hk", n.Header, n.Body)
					took := time.Since(sent)
					if status != http.StatusOK {
						b.Errorf("%s answered %d", n.Topic, status)
					}
					mu.Lock()
					answers = append(answers, took)
					mu.Unlock()
				}
			})
		}
		for _, n := range all {
			todo <- n
		}
		close(todo)
		wg.Wait()
		b.StopTimer()
		r.settled()
		processed += time.Since(began)
		b.StartTimer()
	}
	slices.Sort(answers)
	at := func(share float64) float64 {
		return float64(answers[int(share*float64(len(answers)-1))].Microseconds()) / 1000
	}
	b.ReportMetric(float64(len(answers))/b.Elapsed().Seconds(), "events/s")
	b.ReportMetric(at(0.5), "p50-ms")
	b.ReportMetric(at(0.99), "p99-ms")
	b.ReportMetric(at(1), "max-ms")
	b.ReportMetric(processed.Seconds()/float64(b.N), "processed-s/op")
}
