package app

import (
	"context"

	"counterfoil/models"
)

// unasked answers the pages of follow-ups while nothing keeps requests: there are none,
// and whoever makes one is told that it can't be kept now.
type unasked struct{}

var errUnasked = models.Fail(models.Unavailable, "error.not_kept")

func (unasked) Propose(context.Context, models.Actor, models.Ask) (models.Request, error) {
	return models.Request{}, errUnasked
}

func (unasked) Decide(context.Context, models.Actor, int64, bool, string) (models.Request, error) {
	return models.Request{}, errUnasked
}

func (unasked) Withdraw(context.Context, models.Actor, int64) error { return errUnasked }

func (unasked) Retry(context.Context, models.Actor, int64, string) (models.Action, error) {
	return models.Action{}, errUnasked
}

func (unasked) Requests(context.Context, models.RequestQuery) (models.Page[models.Request], error) {
	return models.Page[models.Request]{}, nil
}

func (unasked) Request(context.Context, int64) (models.Request, error) {
	return models.Request{}, models.Fail(models.NotFound, "error.not_found")
}
