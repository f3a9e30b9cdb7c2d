package views

import (
	"time"

	"counterfoil/models"
	"counterfoil/views/locale"
)

// An OutcomeModel is the outcome check of an order.
type OutcomeModel struct {
	Sums    []VerdictSum // what isn't good, the worst first; one that says all is good
	Groups  []OutcomeGroupModel
	Check   OfferModel  // reads everything fresh
	Earlier []ToldModel // explanations of what stood differently then
}

// A VerdictSum counts the lines of one verdict.
type VerdictSum struct {
	Verdict models.Verdict
	Text    locale.Text
}

// An OutcomeGroupModel is what the check says of one kind of thing.
type OutcomeGroupModel struct {
	Group models.OutcomeGroup
	Lines []OutcomeLineModel
}

// An OutcomeLineModel is one thing that was checked.
type OutcomeLineModel struct {
	Verdict models.Verdict
	Name    locale.Text // the stage; empty for money and goods
	Sum     *locale.Money
	Found   locale.Text
	ID      string // the platform's, to be copied
	Facts   []locale.Text
	Links   []EvidenceLink
	Told    *ToldModel // the explanation that holds
	Explain string     // the page on which the person explains it
	Refused locale.Text
}

// An EvidenceLink leads to what proves a line.
type EvidenceLink struct {
	Text locale.Text
	Href string
	Out  bool // at the platform, in a new window
}

// A ToldModel is what a person said of a payment or refund.
type ToldModel struct {
	Part   string
	Sum    locale.Money
	State  models.Standing
	Code   models.ReasonCode
	Reason string
	By     string
	At     time.Time
}

// An ExplainModel is the page on which somebody explains a payment or refund.
type ExplainModel struct {
	Crumb  string
	Back   string
	Action string
	Line   OutcomeLineModel
	Part   string
	Seen   string // the sum and the standing that are explained
	Moved  bool   // they aren't those of the page before
	Codes  []models.ReasonCode

	// As typed, with what is wrong.
	Code   models.ReasonCode
	Reason string
	Errors FieldErrors
}
