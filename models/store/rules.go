package store

import (
	"context"
	"encoding/json"
	"strconv"
	"time"

	"counterfoil/models"
)

type ruleRow struct {
	Occasion  models.Occasion
	Kind      models.ActionKind
	Active    bool
	Wait      int64 // seconds
	UpdatedAt time.Time
	Switched  *time.Time
	Name      string
}

func (r ruleRow) rule() models.ActionRule {
	return models.ActionRule{Occasion: r.Occasion, Kind: r.Kind, Active: r.Active, Wait: time.Duration(r.Wait) * time.Second}
}

// ActionRules are a shop's rules, the product's own where nobody decided otherwise.
func (r reads) ActionRules(ctx context.Context, shop int64) (models.ActionRules, error) {
	var rows []ruleRow
	if err := r.rows(ctx, &rows, `SELECT occasion, kind, active, wait FROM action_rules WHERE shop_id = ?`, shop); err != nil {
		return nil, err
	}
	decided := make([]models.ActionRule, len(rows))
	for i, row := range rows {
		decided[i] = row.rule()
	}
	return models.RulesOf(decided), nil
}

// RuleChanges says of each rule that a shop decided otherwise who did, and when.
func (r reads) RuleChanges(ctx context.Context, shop int64) ([]models.RuleChange, error) {
	var rows []ruleRow
	err := r.rows(ctx, &rows, `
SELECT r.occasion, r.kind, r.active, r.wait, r.updated_at, COALESCE(s.name, r.updated_by) AS name
FROM action_rules r LEFT JOIN staff s ON r.updated_by = 'staff:' || s.id WHERE r.shop_id = ?`, shop)
	var changes []models.RuleChange
	for _, row := range rows {
		if rule := row.rule(); rule != rule.Default() {
			changes = append(changes, models.RuleChange{ActionRule: rule, At: row.UpdatedAt.UTC(), Name: row.Name})
		}
	}
	return changes, err
}

// RuleSwitches says of each rule that a shop switched on or off when it did so last.
func (r reads) RuleSwitches(ctx context.Context, shop int64) ([]models.RuleSwitch, error) {
	var rows []ruleRow
	err := r.rows(ctx, &rows, `
SELECT occasion, kind, active, wait, switched_at AS switched FROM action_rules WHERE shop_id = ? AND switched_at IS NOT NULL ORDER BY occasion, kind`, shop)
	var list []models.RuleSwitch
	for _, row := range rows {
		list = append(list, models.RuleSwitch{ActionRule: row.rule(), At: utc(row.Switched)})
	}
	return list, err
}

// RulesSaved is who saved the rules of a shop last, and when; nobody, with a zero time.
func (r reads) RulesSaved(ctx context.Context, shop int64) (string, time.Time, error) {
	var rows []struct {
		Name string
		At   time.Time
	}
	// By audit_subject.
	err := r.rows(ctx, &rows, `
SELECT COALESCE(s.name, a.actor) AS name, a.at FROM audit a LEFT JOIN staff s ON a.actor = 'staff:' || s.id
WHERE a.subject = ? AND a.verb = 'rules.set' ORDER BY a.id DESC LIMIT 1`, "shop:"+strconv.FormatInt(shop, 10))
	if err != nil || len(rows) == 0 {
		return "", time.Time{}, err
	}
	return rows[0].Name, rows[0].At.UTC(), nil
}

// SetActionRules keeps of a shop's rules those that aren't the product's own, and those
// that once weren't: what was planned before they were switched back is judged by that.
// What stays as it was keeps who decided it. The shop is locked.
func (tx *Tx) SetActionRules(ctx context.Context, shop int64, rules models.ActionRules, by string) error {
	type row struct {
		Occasion models.Occasion   `json:"occasion"`
		Kind     models.ActionKind `json:"kind"`
		Active   bool              `json:"active"`
		Wait     int64             `json:"wait"`
		Own      bool              `json:"own"`      // the product's own
		Switched bool              `json:"switched"` // on or off, unlike the product's own
	}
	list := make([]row, len(rules))
	for i, r := range rules {
		list[i] = row{r.Occasion, r.Kind, r.Active, int64(r.Wait / time.Second), r == r.Default(), r.Active != r.Default().Active}
	}
	b, err := json.Marshal(list)
	if err != nil {
		return err
	}
	return tx.exec(ctx, `
INSERT INTO action_rules AS r (shop_id, occasion, kind, active, wait, updated_at, updated_by, switched_at)
SELECT s.id, g.occasion, g.kind, g.active, g.wait, s.now, s.actor, CASE WHEN g.switched THEN s.now END
FROM (SELECT ?::bigint AS id, ?::timestamptz AS now, ?::text AS actor) s,
     jsonb_to_recordset(?::jsonb) AS g (occasion text, kind text, active boolean, wait bigint, own boolean, switched boolean)
WHERE NOT g.own OR EXISTS (SELECT 1 FROM action_rules h WHERE h.shop_id = s.id AND h.occasion = g.occasion AND h.kind = g.kind)
ON CONFLICT (shop_id, occasion, kind) DO UPDATE SET active = EXCLUDED.active, wait = EXCLUDED.wait, updated_at = EXCLUDED.updated_at, updated_by = EXCLUDED.updated_by,
    switched_at = CASE WHEN r.active = EXCLUDED.active THEN r.switched_at ELSE EXCLUDED.updated_at END
WHERE (r.active, r.wait) IS DISTINCT FROM (EXCLUDED.active, EXCLUDED.wait)`, shop, tx.Now, by, string(b))
}
