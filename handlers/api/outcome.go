package api

import (
	"time"

	"counterfoil/models"
)

// outcome is the outcome check of an order.
type outcome struct {
	Verdict models.Verdict `json:"verdict"`
	Lines   []outcomeLine  `json:"lines"`
}

type outcomeLine struct {
	About     models.OutcomeGroup `json:"about"` // instruction, goods, message, money
	Stage     string              `json:"stage"` // of an instruction or a message
	Verdict   models.Verdict      `json:"verdict"`
	Found     models.Finding      `json:"found"`
	Actions   []string            `json:"actions"`
	Entries   []string            `json:"ledger"`
	Money     *movement           `json:"money"`     // null where the line isn't about money
	Explain   bool                `json:"explain"`   // only a person's explanation takes a bad verdict away
	Explained *explanation        `json:"explained"` // the one that holds
}

type movement struct {
	Platform models.Platform `json:"platform"`
	ID       string          `json:"id"`
	Kind     models.Axis     `json:"kind"` // payment or refund
	Amount   string          `json:"amount"`
	Currency string          `json:"currency"`
	State    models.Standing `json:"state"`
	Word     string          `json:"word"` // the platform's own
	Reason   string          `json:"reason"`
	At       *time.Time      `json:"at"`
	ReadAt   *time.Time      `json:"read_at"`
	Fresh    bool            `json:"fresh"` // read after all that happened to the order
	Also     []alsoTold      `json:"also"`  // the same money as other platforms tell it
}

type alsoTold struct {
	Platform models.Platform `json:"platform"`
	ID       string          `json:"id"`
}

type explanation struct {
	Code   models.ReasonCode `json:"code"`
	Reason string            `json:"reason"`
	By     string            `json:"by"`
	At     time.Time         `json:"at"`
}

func outcomeJSON(f models.OrderFile, now time.Time) *outcome {
	o := models.CheckOutcome(f, now)
	out := &outcome{Verdict: o.Verdict, Lines: []outcomeLine{}}
	for _, l := range o.Lines {
		x := outcomeLine{About: l.Group, Stage: l.Stage, Verdict: l.Verdict, Found: l.Found, Actions: []string{}, Entries: []string{}, Explain: l.Explain}
		for _, a := range l.Actions {
			x.Actions = append(x.Actions, id(a.ID))
		}
		for _, e := range l.Entries {
			x.Entries = append(x.Entries, id(e.ID))
		}
		if l.Money != nil && l.Money.ID != "" {
			x.Money = movementJSON(*l.Money)
		}
		if e := l.Explained; e != nil {
			x.Explained = &explanation{e.Code, e.Reason, e.ByName, e.At.UTC()}
		}
		out.Lines = append(out.Lines, x)
	}
	return out
}

func movementJSON(m models.Movement) *movement {
	out := &movement{Platform: m.Platform, ID: m.ID, Kind: m.Axis, Amount: models.Decimal(m.Amount, m.Currency), Currency: m.Currency, State: m.Standing,
		Word: m.Word, Reason: m.Reason, At: instant(m.At), ReadAt: instant(m.Read), Fresh: m.Fresh, Also: []alsoTold{}}
	for _, t := range m.Also {
		out.Also = append(out.Also, alsoTold{t.Platform, t.ID})
	}
	return out
}
