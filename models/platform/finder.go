package platform

import (
	"context"

	"counterfoil/models"
)

// A Finder is an adapter whose platform can be asked for an order by the number that
// people know it by.
type Finder interface {
	Adapter
	// Find answers the objects that have what a person typed as their number; none where
	// it can't be a number, or no object has it. The error is as Fetch's.
	Find(ctx context.Context, typed string) ([]models.ObjectRef, error)
}
