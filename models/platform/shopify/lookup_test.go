package shopify

import (
	"context"
	"slices"
	"testing"

	"counterfoil/models"
	"counterfoil/models/platform"
	"counterfoil/models/platform/sandbox"
)

var _ platform.Finder = (*Adapter)(nil)

func TestAnOrderIsFoundByItsNumber(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id, _ := w.order(sandbox.ShopifyOrder{Name: "#1042"})
	w.order(sandbox.ShopifyOrder{Name: "#10421"})
	plain, _ := w.order(sandbox.ShopifyOrder{Name: "HK-77"})
	for typed, want := range map[string][]models.ObjectRef{
		"#1042": {w.ref(id)}, "1042": {w.ref(id)}, " 1042 ": {w.ref(id)}, "HK-77": {w.ref(plain)}, "hk-77": nil, "104": nil, "#9": nil,
	} {
		got, err := w.Find(context.Background(), typed)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%q finds %v, want %v (%v)", typed, got, want, err)
		}
	}
}

// What isn't a number costs no call: the platform's own ids, addresses, and what could
// end the search's quotes.
func TestOnlyNumbersAreLookedUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	before := w.shop.Calls()
	for _, typed := range []string{"", "#", "gid://shopify/Order/820982911946154508", "820982911946154508", "https://admin.shopify.com/store/x/orders/1", "1' OR name:'2", `1"`, `1\`, "no digits", "1:2"} {
		if got, err := w.Find(context.Background(), typed); err != nil || got != nil {
			t.Errorf("%q finds %v (%v)", typed, got, err)
		}
	}
	if n := w.shop.Calls() - before; n != 0 {
		t.Errorf("%d calls", n)
	}
}
