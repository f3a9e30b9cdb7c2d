package views

import (
	"cmp"
	"strings"
	"time"

	"counterfoil/models"
	"counterfoil/views/locale"
)

// HoldSaid says who paused what, since when and why.
func HoldSaid(h models.Hold) locale.Text {
	by, reason := cmp.Or(h.ByName, h.By), strings.TrimRight(h.Reason, " .。")
	if h.Scope == models.HoldOrder {
		return locale.Say("hold.by", by, h.Since, reason)
	}
	return locale.Say("hold.by_all", by, h.Since, reason, h.Name)
}

// HoldNext says when a pause is looked at again.
func HoldNext(h models.Hold, now time.Time) locale.Text {
	switch {
	case h.Until.IsZero():
		return locale.Text{}
	case h.Resumes:
		return locale.Say("hold.resumes", h.Until)
	case h.Asks(now):
		return locale.Say("hold.due", h.Until)
	}
	return locale.Say("hold.review", h.Until)
}
