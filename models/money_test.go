package models

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestMoney(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text, currency string
		minor          int64
		back           string
	}{
		{"20.0", "HKD", 2000, "20.00"}, {"1280.00", "HKD", 128000, "1280.00"}, {"1280", "HKD", 128000, "1280.00"}, {"0.05", "hkd", 5, "0.05"},
		{".5", "HKD", 50, "0.50"}, {"-3", "HKD", -300, "-3.00"}, {" 7.10 ", "USD", 710, "7.10"}, {"1.2300", "HKD", 123, "1.23"}, {"-0.01", "HKD", -1, "-0.01"},
		{"1200", "JPY", 1200, "1200"}, {"1200.0", "JPY", 1200, "1200"}, {"0", "KRW", 0, "0"}, {"1.5", "KWD", 1500, "1.500"}, {"0.001", "BHD", 1, "0.001"},
		{"999999999999999.99", "HKD", 99999999999999999, "999999999999999.99"}, {"00000000000000000000012.00", "HKD", 1200, "12.00"},
	} {
		got, err := Minor(c.text, c.currency)
		if err != nil || got != c.minor {
			t.Errorf("%q of %s = %d, %v", c.text, c.currency, got, err)
		}
		if back := Decimal(c.minor, c.currency); back != c.back {
			t.Errorf("%d of %s = %q", c.minor, c.currency, back)
		}
	}
	for _, c := range [][2]string{{"", "HKD"}, {"  ", "HKD"}, {"-", "HKD"}, {".", "HKD"}, {"", "JPY"}, {"20.001", "HKD"}, {"1.5", "JPY"}, {"0.0001", "KWD"},
		{"1,280.00", "HKD"}, {"1e3", "HKD"}, {"+3", "HKD"}, {"--3", "HKD"}, {"1.2.3", "HKD"}, {"HK$20", "HKD"}, {"１２", "HKD"}, {"NaN", "HKD"},
		{"1000000000000000.00", "HKD"}, {"99999999999999999999", "JPY"}} {
		if got, err := Minor(c[0], c[1]); err == nil {
			t.Errorf("%q of %s was read as %d", c[0], c[1], got)
		}
	}
	if got := Decimal(math.MinInt64, "HKD"); got != "-92233720368547758.08" {
		t.Errorf("the smallest number is written as %s", got)
	}
}

func TestMoneyThereAndBack(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		minor := rapid.Int64Range(-99999999999999999, 99999999999999999).Draw(t, "minor")
		currency := rapid.SampledFrom([]string{"HKD", "TWD", "JPY", "KWD"}).Draw(t, "currency")
		got, err := Minor(Decimal(minor, currency), currency)
		if err != nil || got != minor {
			t.Fatalf("%d of %s came back as %d, %v", minor, currency, got, err)
		}
	})
}

func TestRefForms(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		typed string
		want  []string
	}{
		{"1042", []string{"1042"}}, {"#1042", []string{"#1042", "1042"}}, {"＃１０４２", []string{"#1042", "1042"}}, {"１０４２", []string{"1042"}},
		{"　#1042 ", []string{"#1042", "1042"}}, {"ＨＫ－７", []string{"HK-7"}}, {"#", []string{"#"}}, {"", nil}, {"  ", nil},
		{"gid://shopify/Order/1", []string{"gid://shopify/Order/1"}}, {"訂單７", []string{"訂單7"}}, {string(make([]byte, 256)), nil},
	} {
		if got := RefForms(c.typed); !slices.Equal(got, c.want) {
			t.Errorf("%q: %q", c.typed, got)
		}
	}
}
