package locale

import (
	"context"
	"strings"
	"testing"
	"time"

	"counterfoil/models"
)

var (
	zone = time.FixedZone("HKT", 8*60*60)
	now  = time.Date(2026, 11, 30, 22, 31, 12, 0, zone)
	en   = New(English, zone, now)
	zh   = New(Chinese, zone, now)
)

func TestMoney(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		minor    int64
		currency string
		want     string
	}{
		{128000, "HKD", "HK$1,280.00"}, {128000, "hkd", "HK$1,280.00"}, {128000, "TWD", "NT$1,280"}, {128050, "TWD", "NT$1,280.50"},
		{9900, "USD", "US$99.00"}, {1280, "JPY", "JP¥1,280"}, {-18000, "HKD", "-HK$180.00"}, {0, "HKD", "HK$0.00"},
		{1250, "CHF", "CHF 12.50"}, {1234567, "KWD", "KWD 1,234.567"}, {100, "XTS", "XTS 1.00"}, {5, "HKD", "HK$0.05"}, {128000, "", ""},
		{-9223372036854775808, "HKD", "-HK$92,233,720,368,547,758.08"},
	} {
		if got := en.Money(c.minor, c.currency); got != c.want {
			t.Errorf("%d %s: %q, want %q", c.minor, c.currency, got, c.want)
		}
	}
}

func TestTimes(t *testing.T) {
	t.Parallel()
	utc := func(s string) time.Time {
		v, err := time.Parse(time.RFC3339, s)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	for _, c := range []struct {
		say  func(Printer, time.Time) string
		at   time.Time
		want string
		wish string // in Chinese
	}{
		{Printer.Time, utc("2026-11-30T06:02:00Z"), "30 Nov 2026, 14:02", "2026年11月30日 14:02"},
		{Printer.Exact, utc("2026-11-30T06:02:07Z"), "30 Nov 2026, 14:02:07", "2026年11月30日 14:02:07"},
		{Printer.Clock, utc("2026-11-30T06:02:00Z"), "14:02", "14:02"},
		{Printer.Short, utc("2026-11-29T16:00:00Z"), "00:00", "00:00"},
		{Printer.Short, utc("2026-11-28T06:01:00Z"), "28 Nov, 14:01", "11月28日 14:01"},
		{Printer.Short, utc("2025-11-28T06:01:00Z"), "28 Nov 2025, 14:01", "2025年11月28日 14:01"},
		{Printer.Day, now, "Today, 30 Nov", "今日，11月30日"},
		{Printer.Day, utc("2026-11-28T06:01:00Z"), "Saturday, 28 Nov", "11月28日 星期六"},
		{Printer.Day, utc("2025-11-28T06:01:00Z"), "Friday, 28 Nov 2025", "2025年11月28日 星期五"},
		{Printer.Ago, now.Add(-2 * time.Second), "2 s ago", "2 秒前"},
		{Printer.Ago, now.Add(-3 * time.Minute), "3 min ago", "3 分鐘前"},
		{Printer.Ago, now.Add(2 * time.Hour), "in 2 h", "2 小時後"},
		{Printer.Ago, now.Add(-49 * time.Hour), "2 d ago", "2 天前"},
		{Printer.Ago, utc("2026-11-01T06:01:00Z"), "1 Nov, 14:01", "11月1日 14:01"},
		{Printer.Ago, time.Time{}, "never", "從未"},
		{Printer.Time, time.Time{}, "", ""},
	} {
		if got := c.say(en, c.at); got != c.want {
			t.Errorf("%v: %q, want %q", c.at, got, c.want)
		}
		if got := c.say(zh, c.at); got != c.wish {
			t.Errorf("%v: %q, want %q", c.at, got, c.wish)
		}
	}
}

func TestSentences(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		got, want string
	}{
		{en.T("strip.down", int64(1), models.Shopify, now), "Shopify can’t be asked since 22:31. 1 order waits."},
		{en.T("strip.down", int64(1912), models.Shopify, now), "Shopify can’t be asked since 22:31. 1,912 orders wait."},
		{en.T("order.sum", Money{Minor: 18000, Currency: "HKD"}), "HK$180.00"},
		{en.T("exception.title", Say("exception.amount_differs"), Say("axis.refund")), "Amount differs, Refund"},
		{en.T("may.resync.reads", List{Say("platform.shopify"), Say("platform.stripe")}), "Reads Shopify, Stripe and applies the same rules."},
		{en.T("value", "{0} {1}"), "{0} {1}"},
		{en.T("order.of", "one"), "one of {1}"},
		{en.T("no.such.key"), "no.such.key"},
		{zh.T("axis.payment"), "付款"},
		{New("fr", nil, now).T("axis.payment"), "Payment"},
		{T(context.Background(), "axis.payment"), "Payment"},
		{T(With(context.Background(), zh), "axis.payment"), "付款"},
		{en.Units(), "{0} s|{0} min|{0} h|{0} d"},
		{en.Number(41208), "41,208"},
		{en.Number(-999), "-999"},
	} {
		if c.got != c.want {
			t.Errorf("%q, want %q", c.got, c.want)
		}
	}
}

func TestPartsKeepTheirValues(t *testing.T) {
	t.Parallel()
	parts := en.Parts("banner.last_verified", now, Ago{now})
	if len(parts) != 5 || parts[1] != any(now) || parts[3] != any(Ago{now}) || !strings.HasPrefix(parts[0].(string), "Last verified") {
		t.Errorf("%#v", parts)
	}
}
