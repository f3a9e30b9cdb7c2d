package api

import (
	"encoding/json"
	"testing"

	"counterfoil/models"
)

// The names that programs rely on, and what is absent where nothing is known.
func TestAnExceptionAsProgramsReadIt(t *testing.T) {
	t.Parallel()
	x := models.Exception{ID: 7, Kind: models.StateDiffers, Case: models.CaseBehind, Axis: models.Payment, OrderID: 3, Connection: "hk", Ref: "gid://shopify/Order/1", PlatformState: "PAID",
		LocalState: "pending", Policy: models.PolicyWait, State: "open", Count: 2, Group: 9, OwnedBy: "Ka", First: moment, Last: moment, HealAt: moment}
	read := func(x models.Exception) map[string]any {
		b, err := json.Marshal(exceptionJSON(x, true))
		if err != nil {
			t.Fatal(err)
		}
		var m map[string]any
		if err := json.Unmarshal(b, &m); err != nil {
			t.Fatal(err)
		}
		return m
	}
	m := read(x)
	for name, want := range map[string]any{"id": "7", "kind": "state_differs", "case": "behind", "axis": "payment", "order_id": "3", "connection": "hk", "platform_ref": "gid://shopify/Order/1",
		"platform_state": "PAID", "local_state": "pending", "suggestion": "resync", "policy": "wait", "state": "open", "count": 2.0, "group": "9", "owner": "Ka",
		"first_seen": "2026-11-30T06:00:00Z", "last_seen": "2026-11-30T06:00:00Z", "heal_at": "2026-11-30T06:00:00Z", "reading": true} {
		if m[name] != want {
			t.Errorf("%s is %v, want %v", name, m[name], want)
		}
	}
	bare := read(models.Exception{ID: 8, Kind: models.Silence})
	for _, name := range []string{"axis", "order_id", "group", "owner", "closed_at", "told_at", "needs_at", "heal_at"} {
		if v, ok := bare[name]; !ok || v != nil {
			t.Errorf("%s is %v", name, v)
		}
	}
}

func TestEveryKindSuggestsSomething(t *testing.T) {
	t.Parallel()
	known := map[string]bool{suggestResync: true, suggestAction: true, suggestEvent: true, suggestConnection: true, suggestRedeliver: true, suggestOrder: true}
	for _, k := range models.ExceptionKinds {
		if s := suggestion(models.Exception{Kind: k, OrderID: 1}); !known[s] {
			t.Errorf("%s suggests %q", k, s)
		}
	}
	if s := suggestion(models.Exception{Kind: models.MissedNotification, Platform: models.ReceiptRoller, ObjectID: 1}); s != suggestRedeliver {
		t.Errorf("a missed receipt suggests %q", s)
	}
}
