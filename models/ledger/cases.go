package ledger

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"time"

	"counterfoil/models"
	"counterfoil/models/store"
)

// readingKinds are the exceptions that the next good reading settles by itself.
var readingKinds = []models.ExceptionKind{models.MoveRefused, models.UnknownStatus, models.PlatformsDisagree, models.AmountDiffers,
	models.SchemaChanged, models.GoneOnPlatform, models.Contradiction, models.PaidTwice, models.Overdue, models.ActionDiffers}

// seeAgain is when an object is read once more that shows a difference for the first time.
const seeAgain = time.Minute

// contradict finds what doesn't fit together of an order, before its actions follow it.
// Most readings need nothing but the order for that.
func (l *Ledger) contradict(ctx context.Context, tx *store.Tx, r Reading, before, after models.Order, objects []models.ObjectView) (models.Sight, []models.Problem, error) {
	s := models.Sight{Before: before, After: after, Objects: objects, Quiet: r.Cause.Kind == models.CauseImport}
	if before.Items != after.Items || before.State(models.Fulfillment) != after.State(models.Fulfillment) {
		list, err := tx.Instructions(ctx, after.ID)
		if err != nil {
			return s, nil, err
		}
		for _, x := range list {
			s.Instructions = append(s.Instructions, x.Action)
		}
		if len(list) > 0 {
			d, err := tx.Destination(ctx, after.ShopID, models.FulfillmentInstruction)
			if err != nil {
				return s, nil, err
			}
			s.Live = d.Mode == models.ByHTTP
		}
	}
	return s, models.Contradict(s), nil
}

// cases opens what is wrong and closes what this reading shows to be right again; what
// is held back stays as it is.
func (l *Ledger) cases(ctx context.Context, tx *store.Tx, r Reading, s models.Sight, problems, held []models.Problem, missing bool, object int64) error {
	o := s.After
	subject := "order:" + strconv.FormatInt(o.ID, 10)
	var still []string
	var once []models.Problem
	for _, p := range problems {
		p = p.Of(o)
		if i := slices.Index(still, caseName(p)); i < 0 {
			still, once = append(still, caseName(p)), append(once, p)
		} else if p.Policy() == models.PolicyHold && once[i].Policy() != models.PolicyHold {
			once[i] = p // of several in one case, one that pauses decides
		}
	}
	for _, p := range held {
		still = append(still, caseName(p))
	}
	for _, d := range o.Duties(time.Time{}, time.UTC) {
		still = append(still, string(models.Overdue)+"/"+string(d.Axis))
		if d.Case == models.CaseOverdueUnshipped {
			still = append(still, string(models.ActionDiffers)+"/"+string(d.Axis))
		}
	}
	if missing {
		still = append(still, string(models.GoneOnPlatform)+"/")
	}
	how := cmp.Or(r.How, "reading")
	if err := tx.CloseCases(ctx, subject, readingKinds, still, how); err != nil {
		return err
	}
	if s.Settled() {
		if err := tx.CloseCase(ctx, subject, models.Contradiction, models.CaseChangedAfterInstruction, how); err != nil {
			return err
		}
	}
	for _, p := range once {
		if err := tx.OpenCase(ctx, store.Case{ConnectionID: o.ConnectionID, Subject: subject, OrderID: o.ID, Ref: o.Ref, Problem: p}); err != nil {
			return err
		}
	}
	if len(once) == 0 || object == 0 || r.Seen == nil || r.Conn.CallBudget() > 0 {
		return nil // where calls are few, the next sweep is the second look
	}
	return tx.SeeAgain(ctx, subject, object, seeAgain)
}
