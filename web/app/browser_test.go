package app

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"counterfoil/models"
	"counterfoil/models/platform/sandbox"
	"counterfoil/models/staff"
)

// browser starts a headless browser of a given width and height.
func browser(t *testing.T, width, height int) context.Context {
	t.Helper()
	path := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "headless-shell"} {
		if found, err := exec.LookPath(name); err == nil {
			path = found
			break
		}
	}
	if path == "" {
		t.Fatal("no Chromium: install Debian's package chromium")
	}
	flags := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.WindowSize(width, height), chromedp.Flag("disable-background-networking", true), chromedp.Flag("disable-component-update", true),
		chromedp.Flag("no-first-run", true), chromedp.Flag("disable-sync", true), chromedp.UserDataDir(t.TempDir()))
	all, cancel := chromedp.NewExecAllocator(context.Background(), flags...)
	t.Cleanup(cancel)
	ctx, cancel := chromedp.NewContext(all)
	t.Cleanup(cancel)
	ctx, cancel = context.WithTimeout(ctx, time.Minute)
	t.Cleanup(cancel)
	do(t, ctx, chromedp.EmulateViewport(int64(width), int64(height)))
	return ctx
}

func do(t *testing.T, ctx context.Context, actions ...chromedp.Action[chromedp.Void]) {
	t.Helper()
	if err := chromedp.Do(ctx, actions...); err != nil {
		t.Fatal(err)
	}
}

// look checks what holds for every page: it isn't wider than the screen, and nothing
// was refused by the policy. With SHOTS set it keeps a picture there.
func look(t *testing.T, ctx context.Context, name string) {
	t.Helper()
	wide, err := chromedp.Run(ctx, chromedp.Evaluate[int]("document.documentElement.scrollWidth - document.documentElement.clientWidth"))
	if err != nil {
		t.Fatal(err)
	}
	if wide > 0 {
		t.Errorf("%s is %d px wider than the screen", name, wide)
	}
	folder := os.Getenv("SHOTS")
	if folder == "" {
		return
	}
	picture, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, name+".png"), picture, 0o644); err != nil {
		t.Fatal(err)
	}
}

func text(t *testing.T, ctx context.Context, selector string) string {
	t.Helper()
	s, err := chromedp.Run(ctx, chromedp.Text(selector))
	if err != nil {
		t.Fatal(selector, err)
	}
	return s
}

// TestSupportFindsAnOrderAndResyncsIt: a person signs in, finds an order by its
// number as a Chinese input method types it, sees that it can't be verified, and
// resyncs it once the platform answers; on a desk and on a phone.
func TestSupportFindsAnOrderAndResyncsIt(t *testing.T) {
	t.Parallel()
	for _, size := range [][2]int{{1280, 800}, {360, 740}} {
		t.Run(fmt.Sprint(size[0]), func(t *testing.T) {
			t.Parallel()
			r := start(t).withShopify(map[string]string{"down_after": "0s"})
			if _, err := r.app.staff.AddAccount(context.Background(), commandLine, staff.NewAccount{Email: "wing@shop.example", Name: "Wing", Role: models.Support, Password: "a-long-password"}); err != nil {
				t.Fatal(err)
			}
			id, ns, err := r.shop.CreateOrder(sandbox.ShopifyOrder{Total: "1280.00", Name: "#HK-10428"})
			if err != nil {
				t.Fatal(err)
			}
			r.postAll("hk", append(ns, must(r.shop.Pay(id))...)...)
			r.settled()
			r.shop.Down.Store(true)
			r.postAll("hk", must(r.shop.Fulfill(id, 1, "SF1"))...)
			r.wait("the order is in doubt", func() bool { o, _ := r.order(gid(id)); return o.Verification.State == "unverified" })

			ctx := browser(t, size[0], size[1])
			do(t, ctx, chromedp.Navigate(r.base+"/orders"), chromedp.WaitVisible("#email"))
			look(t, ctx, fmt.Sprintf("login-%d", size[0]))
			do(t, ctx, chromedp.SendKeys("#email", "wing@shop.example"), chromedp.SendKeys("#password", "a-long-password"),
				chromedp.Submit("#password"), chromedp.WaitVisible("main .table"))
			look(t, ctx, fmt.Sprintf("orders-%d", size[0]))
			// A search with one answer leads there.
			do(t, ctx, chromedp.Navigate(r.base+"/orders?q=ＨＫ－１０４２８"), chromedp.WaitVisible(".axes"))
			if banner := text(t, ctx, ".banner--unverified"); !strings.Contains(banner, "Data unverified") || !strings.Contains(banner, "Shopify") {
				t.Errorf("banner %q", banner)
			}
			look(t, ctx, fmt.Sprintf("order-unverified-%d", size[0]))
			bottom, err := chromedp.Run(ctx, chromedp.Evaluate[float64](`Math.max(...[".axes", ".panel--work", ".may"].map(s => document.querySelector(s).getBoundingClientRect().bottom))`))
			if err != nil {
				t.Fatal(err)
			}
			if size[0] == 1280 && bottom > 800 {
				t.Errorf("state, unresolved and what may be done end %d px down", int(bottom))
			}
			r.shop.Down.Store(false)
			do(t, ctx, chromedp.Click(`form[action$="/resync"] button`))
			r.wait("the order is verified", func() bool {
				o, _ := r.order(gid(id))
				return o.Verification.State == "verified" && o.states() == "paid none none partial active none"
			})
			o, _ := r.order(gid(id))
			do(t, ctx, chromedp.Navigate(r.base+"/orders/"+o.ID), chromedp.WaitVisible(".axes"))
			if s := text(t, ctx, ".axes__list"); !strings.Contains(s, "Partly fulfilled") || strings.Contains(s, "Unverified") {
				t.Errorf("axes %q", s)
			}
			look(t, ctx, fmt.Sprintf("order-verified-%d", size[0]))
			for _, page := range []string{"/events", "/events/1", "/rules", "/connections", "/orders?payment=voided", "/orders/999999"} {
				do(t, ctx, chromedp.Navigate(r.base+page), chromedp.WaitVisible(".main h1"))
				look(t, ctx, fmt.Sprintf("page%s-%d", strings.NewReplacer("/", "-", "?", "-", "=", "-").Replace(page), size[0]))
			}
		})
	}
}
