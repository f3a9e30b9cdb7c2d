package store

import (
	"context"
	"time"

	"counterfoil/models"
)

// OutcomeFacts reads what the outcome check of an order needs beside its file.
func (r reads) OutcomeFacts(ctx context.Context, o models.Order) (models.OutcomeFacts, error) {
	var f models.OutcomeFacts
	var err error
	if f.Merged, err = r.actionsWhere(ctx, "a.order_id IN (SELECT id FROM orders WHERE merged_into = ?) ORDER BY a.id DESC", o.ID); err != nil {
		return f, err
	}
	var asked []int64
	err = r.rows(ctx, &asked, `
SELECT made_id FROM requests WHERE order_id IN (`+orderAndShells+`) AND state = 'applied' AND made_id IS NOT NULL
UNION SELECT a.id FROM actions a JOIN requests q ON q.id = a.request_id WHERE a.order_id IN (`+orderAndShells+`) AND q.state = 'applied'`, o.ID, o.ID, o.ID, o.ID)
	if err != nil {
		return f, err
	}
	f.Asked = map[int64]bool{}
	for _, id := range asked {
		f.Asked[id] = true
	}
	if f.Switched, err = r.RuleSwitches(ctx, o.ShopID); err != nil {
		return f, err
	}
	f.Explained, err = r.explanations(ctx, o.ID)
	return f, err
}

// orderAndShells are the ids of an order and of the shells that became part of it.
const orderAndShells = `SELECT ?::bigint UNION ALL SELECT id FROM orders WHERE merged_into = ?`

func (r reads) explanations(ctx context.Context, order int64) ([]models.Explanation, error) {
	var rows []struct {
		ID        int64
		OrderID   int64
		Part      string
		Amount    int64
		Currency  string
		Standing  models.Standing
		Code      models.ReasonCode
		Reason    string
		Actor     string
		ActorName string
		At        time.Time
	}
	err := r.rows(ctx, &rows, `SELECT * FROM explanations WHERE order_id IN (`+orderAndShells+`) ORDER BY id`, order, order)
	if err != nil {
		return nil, err
	}
	var out []models.Explanation
	for _, x := range rows {
		out = append(out, models.Explanation{ID: x.ID, OrderID: x.OrderID, Part: x.Part, Amount: x.Amount, Currency: x.Currency, Standing: x.Standing,
			Code: x.Code, Reason: x.Reason, By: x.Actor, ByName: x.ActorName, At: x.At.UTC()})
	}
	return out, nil
}

// Explain keeps why a payment or a refund is right, or what went wrong.
func (tx *Tx) Explain(ctx context.Context, e models.Explanation) (int64, error) {
	var id int64
	err := tx.one(ctx, "", &id, `
INSERT INTO explanations (order_id, part, amount, currency, standing, code, reason, actor, actor_name, at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id`, e.OrderID, e.Part, e.Amount, e.Currency, e.Standing, e.Code, e.Reason, e.By, e.ByName, tx.Now)
	return id, err
}
