package casework

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"counterfoil/models"
	"counterfoil/models/store"
)

// A Filer reads orders with everything that the outcome check needs.
type Filer interface {
	OrderFile(ctx context.Context, id int64) (models.OrderFile, error)
}

// Explanations keeps what people say of a second payment or refund.
type Explanations struct {
	Store *store.Store
	Files Filer
}

// An Explain is what somebody says of one payment or refund of an order.
type Explain struct {
	Order  int64
	Part   string // the platform's id of the payment or refund
	Code   models.ReasonCode
	Reason string
	// Amount, Currency and Standing are what the person saw; what moved meanwhile isn't
	// explained by it.
	Amount   int64
	Currency string
	Standing models.Standing
}

// Explain says why a payment or a refund that is there twice is right, or what went
// wrong. Leads and managers may, for orders of their shops.
func (s *Explanations) Explain(ctx context.Context, actor models.Actor, in Explain) (models.OutcomeLine, error) {
	line, file, err := s.Find(ctx, actor, in.Order, in.Part)
	if err != nil {
		return line, err
	}
	if !actor.May(models.OrdersExplain) {
		return line, models.Fail(models.Forbidden, "error.may_not_explain")
	}
	in.Reason = strings.TrimSpace(in.Reason)
	if err := in.check(); err != nil {
		return line, err
	}
	e := models.Explanation{OrderID: file.ID, Part: line.Money.ID, Amount: in.Amount, Currency: in.Currency, Standing: in.Standing, Code: in.Code, Reason: in.Reason,
		By: actor.ID(), ByName: actor.Name}
	if !e.Explains(*line.Money) {
		return line, models.Fail(models.Conflict, "error.explained_moved")
	}
	return line, s.Store.Tx(ctx, func(tx *store.Tx) error {
		// Whatever is read meanwhile needs no lock: the explanation doesn't fit it then.
		id, err := tx.Explain(ctx, e)
		if err != nil {
			return err
		}
		return tx.Audit(ctx, actor.ID(), "outcome.explain", "order:"+strconv.FormatInt(file.ID, 10), "",
			fmt.Sprintf("explanation %d of %s %s %s code %s", id, e.Part, models.Decimal(e.Amount, e.Currency), e.Currency, e.Code))
	})
}

// Find finds a payment or a refund that asks for an explanation, if the actor sees its
// order.
func (s *Explanations) Find(ctx context.Context, actor models.Actor, order int64, part string) (models.OutcomeLine, models.OrderFile, error) {
	file, err := s.Files.OrderFile(ctx, order)
	if err != nil {
		return models.OutcomeLine{}, file, err
	}
	if !actor.Sees(file.ShopID) {
		return models.OutcomeLine{}, models.OrderFile{}, models.Fail(models.NotFound, "error.order_unknown")
	}
	line, ok := models.CheckOutcome(file, s.Store.Now()).Explainable(part)
	if !ok {
		return line, file, models.Fail(models.NotFound, "error.part_unknown")
	}
	return line, file, nil
}

// check refuses what can't be kept.
func (in Explain) check() error {
	bad := map[string]string{}
	if !slices.Contains(models.ReasonCodes, in.Code) {
		bad["code"] = "error.reason_code"
	}
	if !sentence(in.Reason) {
		bad["reason"] = "error.reason_text"
	}
	if len(bad) == 0 {
		return nil
	}
	return &models.Error{Code: models.Invalid, Key: "error.invalid", Fields: bad}
}
