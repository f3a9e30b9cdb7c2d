package models

import "time"

// An OffTime is a span in which no process of the console was alive.
type OffTime struct {
	Since time.Time
	Until time.Time
}

// OffAfter is how long the console may be silent before it counts as off.
const OffAfter = time.Minute

// Retries is for how long a platform goes on sending a notification that nobody took.
func Retries(p Platform) time.Duration {
	return map[Platform]time.Duration{Shopify: 4 * time.Hour, Stripe: 72 * time.Hour, ReceiptRoller: 32 * time.Hour}[p]
}

// Lost is the part of the time off whose notifications a platform doesn't send again:
// their last try was made before the console came back.
func (o OffTime) Lost(p Platform) (since, until time.Time, any bool) {
	until = o.Until.Add(-Retries(p))
	return o.Since, until, until.After(o.Since)
}
