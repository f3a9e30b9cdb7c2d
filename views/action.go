package views

import (
	"context"
	"strconv"
	"time"

	"counterfoil/models"
	"counterfoil/views/locale"
	"counterfoil/views/ui"
)

// An ActionsModel is one stretch of the list of follow-ups with its filters.
type ActionsModel struct {
	Tabs      []TabModel
	State     string // as asked for, kept by the filters
	Shops     []models.ShopName
	Shop      string
	Kind      models.ActionKind
	Order     int64 // 0: every order
	OrderName string
	AllOrders string // address without that filter
	Watched   []locale.Text
	Approvals []RequestLine
	MoreAsked bool // there are more requests than shown
	Rows      []ActionLine
	Newer     string
	Older     string
	NoTick    locale.Text // why the person can't tick off, where there is something to
	Filtered  bool
	Empty     string // catalogue key
	Back      string // address of this list
}

// A TabModel leads to a part of a list, with how much it has.
type TabModel struct {
	Label   locale.Text
	Href    string
	Current bool
	Count   string // empty: not counted
}

// An ActionLine is one follow-up in a list or on its order's page.
type ActionLine struct {
	ID        int64
	Kind      models.ActionKind
	Stage     locale.Text
	State     models.ActionState
	OrderID   int64
	OrderName string
	ShopName  string
	Why       locale.Text
	Since     time.Time
	Tries     int
	// Tick: the person may tick it off right here.
	Tick    bool
	Focus   bool
	Receipt string // as typed
	Errors  FieldErrors
}

// A RequestLine is an open request in a list.
type RequestLine struct {
	ID      int64
	Kind    models.RequestKind
	Action  models.ActionKind
	Subject string // what people call its order
	Shop    string
	By      string
	Role    models.Role
	Since   time.Time
	Expires time.Time
}

// An ActionPageModel is the page of one follow-up.
type ActionPageModel struct {
	ActionLine
	Conditions []ConditionModel // none where they don't matter any more
	Unmet      int
	Looks      locale.Text // when the console judges again
	Facts      []FactModel
	Requests   []RequestModel
	Forms      []ActFormModel
}

// A ConditionModel is a condition with its present answer.
type ConditionModel struct {
	Met     bool
	Text    locale.Text
	Details []DetailModel
}

// A DetailModel is one thing behind an answer, with where it can be seen.
type DetailModel struct {
	Text locale.Text
	Href string
	Link locale.Text
}

// A FactModel is a name with what is known under it.
type FactModel struct {
	Label locale.Text
	Text  locale.Text
	Told  string // a sentence of ours or the words of the other side
	More  string // what the other side wrote beside
	ID    string // to be copied
	Href  string
	Link  locale.Text
}

// A RequestModel is what somebody asked for and how it was decided.
type RequestModel struct {
	ID     int64
	Kind   models.RequestKind
	State  models.RequestState
	About  locale.Text // what it is about, on pages of its own
	Href   string      // its subject's page
	Code   string
	Reason string
	Facts  []locale.Text // who, when, how
	Note   string
	Made   string // address of what came of it
	Forms  []ActFormModel
}

// An ActFormModel is something that the person may do here, with what will happen, or
// may not, with why and who can.
type ActFormModel struct {
	Name    string
	Title   locale.Text
	Post    string
	Says    []locale.Text
	Refused locale.Text
	Fields  []FieldModel
	Do      locale.Text
	Icon    string
	Version int64  // of what the person saw; 0: not sent
	Plain   bool   // not the first thing to do here
	Other   string // address of a second button
	OtherDo locale.Text
	Wrong   locale.Text // what is wrong with none of the fields
	Errors  FieldErrors
}

// A FieldModel is a field of such a form.
type FieldModel struct {
	Name     string
	Label    locale.Text
	Value    string
	Choices  []ChoiceModel // none: a line of text
	Radio    bool
	Area     bool // several lines
	Check    bool // a box to tick; ticked where Value is true
	Hidden   bool // sent as it is
	Required bool
	Max      int
}

// A ChoiceModel is one of several values.
type ChoiceModel struct {
	Value string
	Label locale.Text
}

// ActionPath is the page of a follow-up.
func ActionPath(id int64) string { return "/actions/" + strconv.FormatInt(id, 10) }

// RequestPath is the page of a request.
func RequestPath(id int64) string { return "/requests/" + strconv.FormatInt(id, 10) }

// AtLeast is a count that may have been cut off.
func AtLeast(n int, more bool) string {
	if more {
		return strconv.Itoa(n) + "+"
	}
	return strconv.Itoa(n)
}

// watchedCount is how many follow-ups of a kind weren't sent.
func watchedCount(ctx context.Context, c models.ActionCount) string {
	if c.More {
		return locale.T(ctx, "policies.watched_over", AtLeast(c.N, true))
	}
	return locale.T(ctx, "policies.watched_n", c.N)
}

func requestName(r RequestLine) locale.Text {
	kind := locale.Say("request.kind." + string(r.Kind))
	if r.Action == "" {
		return kind
	}
	return locale.Say("request.of", kind, locale.Say("action."+string(r.Action)))
}

var actionMarks = map[models.ActionState]ui.Mark{
	models.ActionPlanned: {Icon: "wait", Tone: ui.Busy}, models.ActionWaiting: {Icon: "wait", Tone: ui.Warn}, models.ActionSending: {Icon: "send", Tone: ui.Busy},
	models.ActionManual: {Icon: "review", Tone: ui.Warn}, models.ActionDone: {Icon: "done", Tone: ui.OK}, models.ActionFailed: {Icon: "stop", Tone: ui.Bad},
	models.ActionUnclear: {Icon: "alert", Tone: ui.Bad}, models.ActionWithdrawn: {Icon: "stop", Tone: ui.Quiet}, models.ActionNotNeeded: {Icon: "none", Tone: ui.Quiet},
	models.ActionWatched: {Icon: "none", Tone: ui.Plain},
}

var requestMarks = map[models.RequestState]ui.Mark{
	models.RequestProposed: {Icon: "review", Tone: ui.Warn}, models.RequestApplied: {Icon: "done", Tone: ui.OK}, models.RequestRejected: {Icon: "stop", Tone: ui.Plain},
	models.RequestWithdrawn: {Icon: "stop", Tone: ui.Quiet}, models.RequestExpired: {Icon: "wait", Tone: ui.Quiet}, models.RequestStale: {Icon: "alert", Tone: ui.Warn},
}
