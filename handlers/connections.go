package handlers

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"counterfoil/models"
	"counterfoil/views"
	"counterfoil/views/locale"
	"counterfoil/web"
)

type connectionReader interface {
	Connections(ctx context.Context, shops []int64) ([]models.ConnectionFile, error)
}

// Connections has the page of all connections.
type Connections struct {
	Book connectionReader
	// Base is the console's public address, without a slash at its end. Empty: the one
	// that the browser used.
	Base string
}

func (h Connections) list(c *gin.Context) error {
	ctx := c.Request.Context()
	files, err := h.Book.Connections(ctx, web.Actor(c).Shops)
	if err != nil {
		return err
	}
	base := h.Base
	if base == "" {
		base = "http://" + c.Request.Host
		if web.Secure(c) {
			base = "https://" + c.Request.Host
		}
	}
	return web.Render(c, http.StatusOK, views.Connections(web.Page(c, locale.T(ctx, "nav.connections"), "connections").WithoutPauses(), connectionsModel(files, base, web.Actor(c), web.Now(c))))
}

// connectionsModel works out the page of connections.
func connectionsModel(files []models.ConnectionFile, base string, actor models.Actor, now time.Time) views.ConnectionsModel {
	var m views.ConnectionsModel
	for _, f := range files {
		item := views.ConnectionModel{ConnectionFile: f, Address: strings.TrimSuffix(base, "/") + "/hooks/" + f.Slug,
			Holds: holdModels(f.Holds, f.Platform, nil, now), Offers: connectionOffers(f, actor, now)}
		for _, n := range f.Notes {
			args := make([]any, len(n.Args))
			for i, a := range n.Args {
				args[i] = a
			}
			item.Said = append(item.Said, views.NoteModel{Text: locale.Say(n.Key, args...), Warn: n.Warn, At: n.At})
		}
		m.Items = append(m.Items, item)
	}
	return m
}

// connectionOffers let a person pause or resume a connection, and the shop with all
// of its connections.
func connectionOffers(f models.ConnectionFile, actor models.Actor, now time.Time) []views.OfferModel {
	one := stop{scope: models.HoldConnection, name: f.Slug, path: "/connections/" + f.Slug}
	all := stop{scope: models.HoldShop, name: f.ShopName, path: "/shops/" + f.Shop}
	offers := []views.OfferModel{holdOffer(one, scoped(f.Holds, one.scope), actor, now)}
	if held := scoped(f.Holds, all.scope); len(held) > 0 || actor.MayHold(all.scope) {
		offers = append(offers, holdOffer(all, held, actor, now))
	}
	if o, has := linksOffer(f, actor); has {
		offers = append(offers, o)
	}
	return append(offers, checkOffers(f)...)
}
