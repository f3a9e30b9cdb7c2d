package shopify

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"counterfoil/models"
)

// needed are the scopes that all axes rest on; of alternatives one is enough.
var needed = [][]string{
	{"read_orders"},
	{"read_fulfillments"},
	{"read_returns"},
	{"read_merchant_managed_fulfillment_orders", "read_assigned_fulfillment_orders", "read_third_party_fulfillment_orders"},
	{"read_shopify_payments_disputes"},
}

// Check asks which scopes we have, and says what isn't covered, how far back orders
// can be read and which version answers. A missing scope is never "nothing there".
func (a *Adapter) Check(ctx context.Context) ([]models.Note, error) {
	r, err := a.ask(ctx, accessQuery, nil, 10)
	if err != nil {
		return nil, err
	}
	var data struct {
		Shop struct {
			Domain leaf `json:"myshopifyDomain"`
		} `json:"shop"`
		App struct {
			Scopes list[struct {
				Handle leaf `json:"handle"`
			}] `json:"accessScopes"`
		} `json:"currentAppInstallation"`
		Versions list[struct {
			Handle    leaf `json:"handle"`
			Supported leaf `json:"supported"`
		}] `json:"publicApiVersions"`
	}
	_ = json.Unmarshal(r.Data, &data)
	var notes []models.Note
	say := func(warn bool, key string, args ...string) {
		notes = append(notes, models.Note{Key: key, Args: args, Warn: warn, At: a.cfg.Now().UTC()})
	}

	if shop := data.Shop.Domain.word(); shop != "" && !strings.EqualFold(shop, a.cfg.Account) {
		say(true, "note.shopify.other_shop", shop)
	}
	scopes := a.token.granted(ctx)
	if data.App.Scopes.given() {
		scopes = nil
		for _, s := range data.App.Scopes.items {
			scopes = append(scopes, s.Handle.word())
		}
		a.token.learned(scopes)
	}
	if scopes == nil {
		say(true, "note.shopify.scopes_unknown", r.Errors.detail())
	} else {
		for _, enough := range needed {
			if !slices.ContainsFunc(enough, func(s string) bool { return covers(scopes, s) }) {
				say(true, "note.shopify.scope_missing", enough[0])
			}
		}
		if !covers(scopes, "read_all_orders") {
			say(false, "note.shopify.window", "60")
		}
	}
	switch r.version {
	case "":
	case a.version:
		say(false, "note.shopify.version", r.version)
	default:
		say(true, "note.shopify.version_other", a.version, r.version)
	}
	if data.Versions.given() && !slices.ContainsFunc(data.Versions.items, func(v struct {
		Handle    leaf `json:"handle"`
		Supported leaf `json:"supported"`
	}) bool {
		return v.Handle.raw == a.version && v.Supported.yes()
	}) {
		say(true, "note.shopify.version_ended", a.version)
	}
	if len(a.cfg.Webhook) == 0 && len(a.secrets) > 0 {
		say(false, "note.shopify.client_secret_signs")
	}
	return notes, nil
}

// covers tells whether a scope is granted; the right to write includes the right to read.
func covers(granted []string, scope string) bool {
	return slices.Contains(granted, scope) || slices.Contains(granted, strings.Replace(scope, "read_", "write_", 1))
}
