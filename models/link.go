package models

// Fits tells whether a payment's sum is what an order asks or what is still open of
// it, in its currency: the only payments that a link counts for which a buyer can type.
func (o Order) Fits(a *Amounts) bool {
	return a != nil && o.Currency != "" && a.Currency == o.Currency && (a.Total == o.Total || a.Total == o.Total-o.Received)
}
