package stripe

import (
	"context"
	"errors"
	"net/url"
	"strings"

	"counterfoil/models"
	"counterfoil/models/platform"
)

// Keys of the notes that Check makes.
const (
	noteMode       = "stripe.access.mode"         // args: live or test
	noteUnchecked  = "stripe.access.mode_unknown" // the key shows no mode and none is set
	noteOther      = "stripe.access.mode_differs" // args: mode that is set, mode of the key
	noteRestricted = "stripe.access.restricted"   // args: what the key must be allowed to read
	noteDenied     = "stripe.access.permission"   // args: the permission that Stripe names
	noteVersion    = "stripe.access.version"      // args: API version in force
)

// needs is what a restricted key must be allowed to read.
const needs = "Charges and Refunds, PaymentIntents, Disputes, Checkout Sessions, Invoices, Events"

// Check asks for one payment intent. Where the key is refused the notes say why, and
// the error is the outage.
func (a *Adapter) Check(ctx context.Context) ([]models.Note, error) {
	now := a.now()
	var notes []models.Note
	note := func(warn bool, key string, args ...string) {
		notes = append(notes, models.Note{Key: key, Args: args, Warn: warn, At: now})
	}
	byKey := keyMode(a.cfg.APIToken)
	switch {
	case a.mode == "":
		note(true, noteUnchecked)
	case byKey != "" && byKey != a.mode:
		note(true, noteOther, a.mode, byKey)
	default:
		note(false, noteMode, a.mode)
	}
	if strings.HasPrefix(a.cfg.APIToken, "rk_") {
		note(false, noteRestricted, needs)
	}
	var page list[intent]
	ans, err := a.answer(ctx, "", "/v1/payment_intents", url.Values{"limit": {"1"}}, &page)
	if err != nil {
		if out, ok := errors.AsType[*platform.Outage](err); ok && out.Denied {
			f, _ := failed(ans)
			note(true, noteDenied, either(permissionPattern.FindString(f.Message), out.Detail))
		}
		return notes, err
	}
	version := clean(either(ans.Header.Get("Stripe-Version"), a.version))
	note(version != a.version, noteVersion, version)
	return notes, nil
}
