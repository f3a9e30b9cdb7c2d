package handlers

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"

	"github.com/gin-gonic/gin"

	"counterfoil/models"
	"counterfoil/models/casework"
	"counterfoil/views"
	"counterfoil/views/locale"
	"counterfoil/web"
)

// An explainer keeps what people say of a second payment or refund.
type explainer interface {
	Find(ctx context.Context, actor models.Actor, order int64, part string) (models.OutcomeLine, models.OrderFile, error)
	Explain(ctx context.Context, actor models.Actor, in casework.Explain) (models.OutcomeLine, error)
}

// Explain has the page on which people explain a second payment or refund.
type Explain struct{ Casework explainer }

func (h Explain) form(c *gin.Context) error {
	return h.show(c, http.StatusOK, c.Query("part"), views.ExplainModel{})
}

// show draws the page with what was typed and what is wrong with it.
func (h Explain) show(c *gin.Context, status int, part string, m views.ExplainModel) error {
	id, err := idParam(c)
	if err != nil {
		return err
	}
	actor := web.Actor(c)
	line, f, err := h.Casework.Find(c.Request.Context(), actor, id, part)
	if err != nil {
		return err
	}
	m.Line = outcomeLine(f, line, actor)
	m.Line.Explain = ""
	m.Crumb, m.Back, m.Action = orderName(f.Order), orderPath(f.ID)+"#outcome", orderPath(f.ID)+"/explain"
	m.Part, m.Seen, m.Codes = part, seenText(line.Money.Telling), models.ReasonCodes
	return web.Render(c, status, views.Explain(web.Page(c, locale.T(c.Request.Context(), "outcome.explain.title"), "orders"), m))
}

// seenText is what an explanation is bound to, as a form carries it.
func seenText(t models.Telling) string {
	return strconv.FormatInt(t.Amount, 10) + " " + t.Currency + " " + string(t.Standing)
}

// seenOf reads it back. What can't be read is nothing that anybody saw.
func seenOf(s string) (amount int64, currency string, standing models.Standing) {
	parts := strings.Split(s, " ")
	if len(parts) != 3 {
		return 0, "", ""
	}
	amount, err := strconv.ParseInt(parts[0], 10, 64)
	if err != nil {
		return 0, "", ""
	}
	return amount, parts[1], models.Standing(parts[2])
}

func (h Explain) explain(c *gin.Context) error {
	id, err := idParam(c)
	if err != nil {
		return err
	}
	var typed struct {
		Part   string            `form:"part"`
		Seen   string            `form:"seen"`
		Code   models.ReasonCode `form:"code"`
		Reason string            `form:"reason"`
	}
	if err := c.ShouldBind(&typed); err != nil {
		return models.Fail(models.Invalid, "error.invalid").Because(err)
	}
	in := casework.Explain{Order: id, Part: typed.Part, Code: typed.Code, Reason: typed.Reason}
	in.Amount, in.Currency, in.Standing = seenOf(typed.Seen)
	_, err = h.Casework.Explain(c.Request.Context(), web.Actor(c), in)
	m := views.ExplainModel{Code: in.Code, Reason: in.Reason, Errors: views.FieldErrors{}}
	wrong, ok := errors.AsType[*models.Error](err)
	switch {
	case ok && wrong.Code == models.Invalid:
		for field, key := range wrong.Fields {
			m.Errors[field] = locale.Say(key)
		}
		return h.show(c, http.StatusUnprocessableEntity, in.Part, m)
	case ok && wrong.Code == models.Conflict:
		m.Moved = true
		return h.show(c, http.StatusConflict, in.Part, m)
	case err != nil:
		return err
	}
	web.Flash(c, "outcome.explained")
	return web.SeeOther(c, orderPath(id)+"#outcome")
}
