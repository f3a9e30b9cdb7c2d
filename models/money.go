package models

import (
	"fmt"
	"strings"
)

// exponents of the currencies that don't have two decimals (ISO 4217).
var exponents = map[string]int{
	"BIF": 0, "CLP": 0, "DJF": 0, "GNF": 0, "ISK": 0, "JPY": 0, "KMF": 0, "KRW": 0, "PYG": 0,
	"RWF": 0, "UGX": 0, "UYI": 0, "VND": 0, "VUV": 0, "XAF": 0, "XOF": 0, "XPF": 0,
	"BHD": 3, "IQD": 3, "JOD": 3, "KWD": 3, "LYD": 3, "OMR": 3, "TND": 3,
}

// Exponent is the number of decimals of a currency's minor unit.
func Exponent(currency string) int {
	if e, ok := exponents[strings.ToUpper(currency)]; ok {
		return e
	}
	return 2
}

// Decimal writes an amount of minor units as a decimal string: 128000 HKD is "1280.00".
func Decimal(minor int64, currency string) string {
	e := Exponent(currency)
	sign := ""
	u := uint64(minor)
	if minor < 0 {
		sign, u = "-", uint64(-(minor+1))+1
	}
	digits := fmt.Sprintf("%0*d", e+1, u)
	if e == 0 {
		return sign + digits
	}
	return sign + digits[:len(digits)-e] + "." + digits[len(digits)-e:]
}

// maxDigits keeps amounts inside int64 with room for sums.
const maxDigits = 17

// Minor reads a plain decimal ("20.0", "1280.00", "-3") as minor units of a
// currency. Digits beyond the currency's decimals must be zero: money is never
// rounded silently.
func Minor(decimal, currency string) (int64, error) {
	s := strings.TrimSpace(decimal)
	neg := strings.HasPrefix(s, "-")
	s = strings.TrimPrefix(s, "-")
	whole, frac, _ := strings.Cut(s, ".")
	empty := whole == "" && frac == ""
	e := Exponent(currency)
	for len(frac) < e {
		frac += "0"
	}
	extra := frac[e:]
	digits := strings.TrimLeft(whole+frac[:e], "0")
	if empty || strings.Trim(extra, "0") != "" || len(digits) > maxDigits || strings.Trim(whole+frac, "0123456789") != "" {
		return 0, fmt.Errorf("models: %q is not an amount of %s", decimal, currency)
	}
	var n int64
	for _, d := range digits {
		n = n*10 + int64(d-'0')
	}
	if neg {
		n = -n
	}
	return n, nil
}
