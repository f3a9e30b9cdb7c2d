package shopify

import (
	"fmt"
	"net/http/httptest"
	"testing"
	"time"

	"counterfoil/models"
	"counterfoil/models/platform"
	"counterfoil/models/platform/sandbox"
)

// Looking at many orders costs a fifth of reading them whole, and only those that
// changed without our knowing are left to be read whole.
func TestLeanReadings(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 12, 1, 3, 0, 0, 0, time.UTC)
	shop := sandbox.NewShopify(sandbox.ShopifyConfig{Token: "t", Now: func() time.Time { return now }})
	server := httptest.NewServer(shop)
	t.Cleanup(server.Close)
	a, err := New(platform.Config{Account: "example-shop.myshopify.com", APIURL: server.URL, APIToken: "t", Settings: map[string]string{"rate": "10000"}, Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	if a.lean.points != 7 || (mostPoints-2)/a.lean.points != 142 {
		t.Errorf("a lean order costs %d points", a.lean.points)
	}
	var ids []int64
	for range 150 {
		id, _, err := shop.CreateOrder(sandbox.ShopifyOrder{})
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	refs := make([]models.ObjectRef, len(ids))
	for i, id := range ids {
		refs[i] = a.order(fmt.Sprint(id))
	}
	shop.SetPoints(1e6, 100)
	whole, err := a.Fetch(t.Context(), refs)
	if err != nil {
		t.Fatal(err)
	}
	now = now.Add(time.Minute)
	if _, err := shop.Pay(ids[7]); err != nil {
		t.Fatal(err)
	}
	calls, seen, differ := shop.Calls(), 0, []models.ObjectRef{}
	w := platform.Window{Since: now.Add(-time.Hour), Until: now.Add(time.Hour), Lean: true}
	expected := int64(0)
	for {
		b, err := a.Changed(t.Context(), w)
		if err != nil {
			t.Fatal(err)
		}
		expected += b.Expected
		for _, o := range b.Observations {
			seen++
			if !a.Agrees(whole[o.Ref], o) {
				differ = append(differ, o.Ref)
			}
		}
		if w.Cursor = b.Next; w.Cursor == "" {
			break
		}
	}
	if seen != 150 || expected != 150 || len(differ) != 1 || differ[0] != refs[7] {
		t.Errorf("%d of %d seen, %v differ", seen, expected, differ)
	}
	if n := shop.Calls() - calls; n != 3 {
		t.Errorf("%d calls, want two pages and a count", n)
	}
}
