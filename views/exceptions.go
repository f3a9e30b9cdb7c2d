package views

import (
	"strconv"
	"time"

	"counterfoil/models"
	"counterfoil/views/locale"
	"counterfoil/views/ui"
)

// An ExceptionsModel is one stretch of the list of exceptions with its filters.
type ExceptionsModel struct {
	Tabs        []TabModel
	Views       []ChipModel
	State       string // as asked for, kept by the filters
	Kind        models.ExceptionKind
	Connection  string
	Shop        string
	Urgency     models.Urgency
	Policy      models.Policy
	Owner       string // me, none; empty: anybody
	Tell        bool
	Query       string
	Shops       []models.ShopName
	Connections []string
	Title       locale.Text // of the list
	Note        locale.Text // beside it
	Head        locale.Text // where the list is one group, or what was asked for together
	HeadHref    string
	HeadLink    locale.Text
	Rows        []ExceptionLine
	Newer       string
	Older       string
	Folded      bool // the most urgent first, and groups as one line; else newest first
	Filtered    bool
	Empty       string     // catalogue key
	Many        OfferModel // to have all of them read again
	Back        string     // address of this list
}

// An ExceptionLine is one exception, or one group of them, in the list.
type ExceptionLine struct {
	ID      int64
	Href    string
	Title   locale.Text
	Is      locale.Text // what the kind means
	Urgency models.Urgency
	Members int    // more than 1: a group
	Group   string // address of its members
	OrderID int64
	Number  string
	Where   string // connection
	Shop    string
	Ref     string
	Count   int64
	Theirs  locale.Text
	Ours    locale.Text
	Mark    Mark
	Needs   bool // people; only these are marked as a row
	Step    OfferModel
	Next    locale.Text // in a sentence
	Policy  models.Policy
	Settles locale.Text // until when it settles by itself
	Tell    bool
	Told    bool
	Since   time.Time
	Owner   string
	Take    string // address of the form; empty: not offered
	Reading bool
	How     locale.Text // how it was closed
	Closed  time.Time
	Version int64
}

// An ExceptionModel is the page of one exception.
type ExceptionModel struct {
	ExceptionLine
	State    string
	ShopName string
	Truth    []TruthRow
	Facts    []FactModel
	Requests []RequestModel
	Offers   []OfferModel
	Forms    []ActFormModel
	Notes    []models.CaseNote
	NoteForm ActFormModel
	Why      locale.Text // how it was closed, by whom
	Reason   string      // in that person's words
}

// A ResyncManyModel is the page on which many exceptions are read again at once.
type ResyncManyModel struct {
	Facts   []locale.Text
	Kinds   []KindLine
	Form    ActFormModel
	Filters string // as an address
	Back    string
}

// A KindLine is how many exceptions of a kind and connection there are.
type KindLine struct {
	Kind       models.ExceptionKind
	Connection string
	N          int
}

// ExceptionPath is the page of an exception.
func ExceptionPath(id int64) string { return "/exceptions/" + strconv.FormatInt(id, 10) }

var urgencyMarks = map[models.Urgency]ui.Mark{
	models.Now: {Icon: "alert", Tone: ui.Bad}, models.Today: {Icon: "wait", Tone: ui.Warn}, models.Later: {Icon: "none", Tone: ui.Quiet},
}

var policyMarks = map[models.Policy]ui.Mark{
	models.PolicyHold: {Icon: "held", Tone: ui.Warn}, models.PolicyWait: {Icon: "wait", Tone: ui.Quiet}, models.PolicyAsk: {Icon: "review", Tone: ui.Plain},
}
