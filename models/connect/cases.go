package connect

import (
	"context"

	"counterfoil/models"
)

// Exceptions lists exceptions.
func (r Reads) Exceptions(ctx context.Context, q models.CaseQuery) (models.Page[models.CaseRow], error) {
	return r.Store.Exceptions(ctx, q)
}

// CaseCount counts the open lines of a query.
func (r Reads) CaseCount(ctx context.Context, q models.CaseQuery) (models.CaseCount, error) {
	return r.Store.CaseCount(ctx, q)
}

// ExceptionFile reads an exception with everything its page shows.
func (r Reads) ExceptionFile(ctx context.Context, id int64) (models.ExceptionFile, error) {
	f, err := r.Store.ExceptionFile(ctx, id)
	if err != nil {
		return f, err
	}
	if f.Object != nil {
		objects := []models.Object{*f.Object}
		r.describe(objects)
		f.Object, f.Deep = &objects[0], objects[0].Deep
	}
	for _, c := range r.Book.All() {
		if c.Slug == f.Connection {
			f.API, f.APISince = c.APIState, c.APISince
		}
	}
	if f.OrderID == 0 {
		return f, nil
	}
	file, err := r.OrderFile(ctx, f.OrderID)
	if err != nil {
		return f, err
	}
	f.File = &file
	for _, o := range file.Objects {
		if f.Deep == "" && o.Slug == f.Connection {
			f.Deep = o.Deep
		}
	}
	return f, nil
}
