package api

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/gin-gonic/gin"

	"counterfoil/models"
	"counterfoil/web"
)

// Orders lists orders, newest first. The rows of a list have every key of an order;
// objects and ledger are empty in them.
func (a API) Orders(c *gin.Context) error {
	in := newInput(c)
	q := models.OrderQuery{
		Shops: web.Actor(c).Shops, Connection: in.text("connection"), Ref: in.text("ref"), Text: in.text("q"),
		Verification: word(in, "verification", models.Checks), Unresolved: in.flag("unresolved"), Paused: in.flag("paused"), Whole: true,
		Cursor: in.text("cursor"), Limit: in.limit(), States: map[models.Axis]models.State{},
	}
	for _, axis := range models.Axes {
		if s := word(in, string(axis), models.States[axis]); s != "" {
			q.States[axis] = s
		}
	}
	if err := in.err(); err != nil {
		return err
	}
	page, err := a.Book.Orders(c.Request.Context(), q)
	if err != nil {
		return err
	}
	now := web.Now(c)
	out := list[order]{Items: make([]order, len(page.Items)), Next: page.Next}
	for i, row := range page.Items {
		out.Items[i] = rowJSON(row, now)
	}
	return ok(c, out)
}

// Order shows one order; an empty shell answers with the order that it became part of.
func (a API) Order(c *gin.Context) error {
	file, err := a.orderFile(c)
	if err != nil {
		return err
	}
	return ok(c, fileJSON(file, web.Now(c)))
}

// maxMerges is how far shells are followed; one leads to an order, not to a shell.
const maxMerges = 4

func (a API) orderFile(c *gin.Context) (models.OrderFile, error) {
	id, err := pathID(c, "error.order_unknown")
	if err != nil {
		return models.OrderFile{}, err
	}
	return a.readOrder(c.Request.Context(), web.Actor(c), id)
}

// readOrder reads an order that the actor may see.
func (a API) readOrder(ctx context.Context, actor models.Actor, id int64) (models.OrderFile, error) {
	for range maxMerges {
		file, err := a.Book.OrderFile(ctx, id)
		if err != nil {
			return file, err
		}
		if !actor.Sees(file.ShopID) {
			return models.OrderFile{}, models.Fail(models.NotFound, "error.order_unknown")
		}
		if file.MergedInto == 0 {
			return file, nil
		}
		id = file.MergedInto
	}
	return models.OrderFile{}, fmt.Errorf("api: order %d leads through too many shells", id)
}

// resynced is the answer to a resync.
type resynced struct {
	Result string `json:"result"`
	Order  *order `json:"order"` // null where nothing led to an order
}

// ResyncOrder reads one order's official objects again.
func (a API) ResyncOrder(c *gin.Context) error {
	file, err := a.orderFile(c)
	if err != nil {
		return err
	}
	result, err := a.Resync.Order(c.Request.Context(), web.Actor(c), file.ID)
	if err != nil {
		return err
	}
	return a.answerResync(c, result, file.ID)
}

// ResyncRef reads what a platform has under a reference whose order isn't known yet.
func (a API) ResyncRef(c *gin.Context) error {
	slug := c.Param("slug")
	if !storable(slug) {
		return models.Fail(models.NotFound, "error.connection_unknown")
	}
	var body struct {
		Ref string `json:"ref"`
	}
	in := newInput(c)
	if err := c.ShouldBindJSON(&body); err != nil && !errors.Is(err, io.EOF) {
		in.refuse("body", "error.json")
	} else if body.Ref == "" || !storable(body.Ref) {
		in.refuse("ref", "error.text")
	}
	if err := in.err(); err != nil {
		return err
	}
	result, id, err := a.Resync.Ref(c.Request.Context(), web.Actor(c), slug, body.Ref)
	if err != nil {
		return err
	}
	return a.answerResync(c, result, id)
}

func (a API) answerResync(c *gin.Context, result string, id int64) error {
	if id == 0 {
		return ok(c, resynced{Result: result})
	}
	file, err := a.readOrder(c.Request.Context(), web.Actor(c), id)
	if err != nil {
		return err
	}
	shown := fileJSON(file, web.Now(c))
	return ok(c, resynced{result, &shown})
}
