package stripe

import (
	"strings"

	"counterfoil/models"
)

// decimals of the currencies that Stripe doesn't write with two. UGX and ISK have
// none any more, yet Stripe writes them with two that end in 00; MGA has two by
// ISO 4217 and none at Stripe. Read only.
var decimals = map[string]int{
	"BIF": 0, "CLP": 0, "DJF": 0, "GNF": 0, "JPY": 0, "KMF": 0, "KRW": 0, "MGA": 0, "PYG": 0,
	"RWF": 0, "VND": 0, "VUV": 0, "XAF": 0, "XOF": 0, "XPF": 0,
	"BHD": 3, "JOD": 3, "KWD": 3, "OMR": 3, "TND": 3,
}

// maxAmount leaves room for sums and for a factor of 100 in int64.
const maxAmount = 1_000_000_000_000_000

// currency is Stripe's spelling in capitals; not ok where it isn't three letters.
func currency(code string) (string, bool) {
	code = strings.ToUpper(code)
	return code, len(code) == 3 && strings.Trim(code, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") == ""
}

// minor turns Stripe's smallest unit into the currency's own. Not ok where the
// amount can't be written in it exactly: money is never rounded.
func minor(amount int64, code string) (int64, bool) {
	if amount > maxAmount || amount < -maxAmount {
		return 0, false
	}
	from, known := decimals[code]
	if !known {
		from = 2
	}
	to := models.Exponent(code)
	for ; from < to; from++ {
		amount *= 10
	}
	for ; from > to; from-- {
		if amount%10 != 0 {
			return 0, false
		}
		amount /= 10
	}
	return amount, true
}
