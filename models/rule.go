package models

import "time"

// An Occasion is what may plan actions.
type Occasion string

const (
	OnPaid          Occasion = "paid"            // the payment became paid
	OnAuthorized    Occasion = "authorized"      // the bank reserved it: for shops that capture when they ship
	OnPayOnDelivery Occasion = "pay_on_delivery" // an order that is paid on delivery appeared
	OnRefunded      Occasion = "refunded"        // the refunded sum grew
	OnShipped       Occasion = "shipped"
	OnCancelled     Occasion = "cancelled"
)

// Occasions lists all occasions; the schema has the same list.
var Occasions = []Occasion{OnPaid, OnAuthorized, OnPayOnDelivery, OnRefunded, OnShipped, OnCancelled}

// An ActionRule says whether an occasion plans a kind of action, and how long that
// waits at least.
type ActionRule struct {
	Occasion Occasion
	Kind     ActionKind
	Active   bool
	Wait     time.Duration
}
