package handlers

import (
	"net/http"

	"github.com/gin-gonic/gin"

	"counterfoil/models"
	"counterfoil/models/platform"
	"counterfoil/views"
	"counterfoil/views/locale"
	"counterfoil/web"
)

// Rules has the page that prints every rule, and every word of the platforms.
type Rules struct {
	Words map[models.Platform][]platform.Word
}

func (h Rules) show(c *gin.Context) error {
	return web.Render(c, http.StatusOK, views.Rules(web.Page(c, locale.T(c.Request.Context(), "nav.rules"), "rules"), rulesModel(h.Words)))
}

// rulesModel groups the one table of rules by axis and the words by platform.
func rulesModel(words map[models.Platform][]platform.Word) views.RulesModel {
	var m views.RulesModel
	for _, a := range models.Axes {
		group := views.AxisRules{Axis: a}
		for _, r := range models.Rules {
			if r.Axis == a {
				group.Rules = append(group.Rules, r)
			}
		}
		m.Axes = append(m.Axes, group)
	}
	for _, p := range models.Platforms {
		if len(words[p]) == 0 {
			continue
		}
		table := views.PlatformWords{Platform: p}
		for _, w := range words[p] {
			table.Words = append(table.Words, views.WordRow(w))
		}
		m.Words = append(m.Words, table)
	}
	return m
}
