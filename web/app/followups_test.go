package app

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"counterfoil/models"
	"counterfoil/models/actions"
	"counterfoil/models/platform/sandbox"
	"counterfoil/models/staff"
)

// TestAWorklistIsTickedOffByKeyboard: what a shop does by hand is listed, and ticked off
// with a receipt and the Enter key, on a desk and on a phone; the order shows it.
func TestAWorklistIsTickedOffByKeyboard(t *testing.T) {
	t.Parallel()
	for _, size := range [][2]int{{1280, 800}, {360, 740}} {
		t.Run(fmt.Sprint(size[0]), func(t *testing.T) {
			t.Parallel()
			r := start(t).withShopify(nil)
			r.destination(actions.Setup{Shop: "hk", Kind: models.FulfillmentInstruction, Mode: models.ByHand})
			r.destination(actions.Setup{Shop: "hk", Kind: models.Invoice, Mode: models.ByHand})
			if _, err := r.app.staff.AddAccount(context.Background(), commandLine, staff.NewAccount{Email: "wing@shop.example", Name: "Wing", Role: models.Support, Password: "a-long-password"}); err != nil {
				t.Fatal(err)
			}
			id, ns, err := r.shop.CreateOrder(sandbox.ShopifyOrder{Total: "1280.00", Name: "#HK-10428"})
			if err != nil {
				t.Fatal(err)
			}
			r.postAll("hk", append(ns, must(r.shop.Pay(id))...)...)
			manual := func() int {
				var list struct{ Items []seenAction }
				if code := r.call(http.MethodGet, "/api/v1/actions?state=manual", &list); code != http.StatusOK {
					t.Fatal(code)
				}
				return len(list.Items)
			}
			r.wait("two things are to be done by hand", func() bool { return manual() == 2 })

			ctx := browser(t, size[0], size[1])
			do(t, ctx, chromedp.Navigate(r.base+"/actions"), chromedp.WaitVisible("#email"), chromedp.SendKeys("#email", "wing@shop.example"),
				chromedp.SendKeys("#password", "a-long-password"), chromedp.Submit("#password"), chromedp.WaitVisible(`main input[name="receipt"]`))
			look(t, ctx, fmt.Sprintf("actions-%d", size[0]))
			do(t, ctx, chromedp.SendKeys(`main input[name="receipt"]`, "INV-1"+kb.Enter), chromedp.WaitVisible(".banner--ok"))
			if said := text(t, ctx, ".banner--ok"); !strings.Contains(said, "Ticked off: #HK-10428.") {
				t.Errorf("the page says %q", said)
			}
			r.wait("the next line has the keyboard", func() bool {
				at, err := chromedp.Run(ctx, chromedp.Evaluate[string](`document.activeElement.name || ""`))
				return err == nil && at == "receipt"
			})
			do(t, ctx, chromedp.SendKeys(`main input[name="receipt"]`, "SF-1"+kb.Enter), chromedp.WaitVisible(".empty"))
			if n := manual(); n != 0 {
				t.Errorf("%d are still to be done", n)
			}
			look(t, ctx, fmt.Sprintf("actions-none-%d", size[0]))
			o, _ := r.order(gid(id))
			do(t, ctx, chromedp.Navigate(r.base+"/orders/"+o.ID), chromedp.WaitVisible("#h-actions"))
			if said := text(t, ctx, `section[aria-labelledby="h-actions"]`); !strings.Contains(said, "Receipt SF-1") || !strings.Contains(said, "Receipt INV-1") || !strings.Contains(said, "Watched only: Customer message") {
				t.Errorf("the order says %q", said)
			}
			if said := text(t, ctx, ".flow"); !strings.Contains(said, "Follow-up done: Invoice, whole order") {
				t.Errorf("the timeline says %q", said)
			}
			look(t, ctx, fmt.Sprintf("order-actions-%d", size[0]))
			do(t, ctx, chromedp.Click(`section[aria-labelledby="h-actions"] a`), chromedp.WaitVisible("#h-path"))
			look(t, ctx, fmt.Sprintf("action-%d", size[0]))
			do(t, ctx, chromedp.Navigate(r.base+"/orders/"+o.ID+"/replacement"), chromedp.WaitVisible("#replacement"))
			look(t, ctx, fmt.Sprintf("replacement-%d", size[0]))
		})
	}
}
