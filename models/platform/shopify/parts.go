package shopify

import (
	"slices"
	"strings"
	"time"

	"counterfoil/models"
)

// What notifications and answers share: one thing behind an axis. Words may come in
// either spelling; the part shows them as they came.

// moved makes a part of a transaction. It is false where the transaction moves
// nothing: change given back, a suggestion.
func (a *Adapter) moved(kind, status, id string, amount leaf, currency string) (models.Part, bool) {
	k := strings.ToUpper(kind)
	if k == "CHANGE" || k == "SUGGESTED_REFUND" || k == "" {
		return models.Part{}, false
	}
	p := models.Part{Axis: models.Payment, ID: id, Word: kind + "/" + status, Currency: currency}
	word := k + "/" + strings.ToUpper(status)
	if k == "REFUND" {
		p.Axis, p.Word = models.Refund, status
	}
	v, err := amount.minor(currency)
	if err == nil {
		p.Amount = v
	}
	p.State, _ = a.words.state(fieldTransaction, word, false)
	p.Counts = err == nil && (p.State == models.PaymentPaid || p.State == models.RefundPartial && p.Axis == models.Refund)
	return p, true
}

// refundRecord is a refund as the shop wrote it down. Whether money went back is
// said by its transactions, which are parts of their own.
func refundRecord(id string, at time.Time, amount int64, currency string) models.Part {
	return models.Part{Axis: models.Refund, ID: id, State: models.RefundNone, Word: models.RecordedWord, Amount: amount, Currency: currency, At: at}
}

func (a *Adapter) shipped(status, id, tracking, carrier string, at time.Time) models.Part {
	p := models.Part{Axis: models.Fulfillment, ID: id, Word: status, At: at, Note: strings.TrimSpace(carrier + " " + tracking)}
	p.State, _ = a.words.state(fieldShipment, strings.ToUpper(status), false)
	p.Counts = p.State == models.FulfillmentFulfilled
	return p
}

func (a *Adapter) returned(status, id string, at time.Time, name string) models.Part {
	p := models.Part{Axis: models.Return, ID: id, Word: status, At: at, Note: name}
	p.State, _ = a.words.state(fieldReturnPart, strings.ToUpper(status), false)
	p.Counts = p.State == models.ReturnReceived
	return p
}

// partID is the GID of a part; bodies before 2019 have only the number.
func partID(typ string, id, gid leaf) string {
	if t, n := splitGID(gid.raw); t != "" {
		return gidPrefix + t + "/" + n
	}
	if n := id.digits(); n != "" {
		return gidPrefix + typ + "/" + n
	}
	return ""
}

// unclear holds an axis for review.
func unclear(axis models.Axis, word string) models.Statement {
	s := models.Statement{Word: word, Unclear: true}
	if axis == models.Payment || axis == models.Refund {
		s.State = models.Review
	}
	return s
}

// refundWord shows the words of all refund transactions in one.
func refundWord(words []string) string {
	words = slices.Clone(words)
	slices.Sort(words)
	return strings.Join(slices.Compact(words), ", ")
}

// names are an order's number as people say it, and its further references.
func names(name leaf, legacy string) (number string, refs []string) {
	number = printable(name.decimal(), 60)
	if legacy != "" {
		refs = append(refs, legacy)
	}
	if number != "" {
		refs = append(refs, number)
		if bare := strings.TrimPrefix(number, "#"); bare != number && plainID(bare) != "" {
			refs = append(refs, bare)
		}
	}
	return number, refs
}

// method is how the order is paid, from the names of its gateways.
func method(gateways []leaf) string {
	first := ""
	for _, g := range gateways {
		name := strings.ToLower(g.word())
		switch {
		case strings.Contains(name, "cash on delivery"), strings.Contains(name, "(cod)"), name == "cod":
			return "cash_on_delivery"
		case name == "manual":
			first = name
		case first == "" && name != "":
			first = strings.Join(strings.Fields(name), "_")
		}
	}
	return first
}
