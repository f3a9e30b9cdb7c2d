package views

import (
	"time"

	"counterfoil/models"
	"counterfoil/views/locale"
)

// An OrderModel is an order as its page shows it, worked out for one moment.
type OrderModel struct {
	models.Order
	Name       string // number, else the platform's reference
	Connection string // slug
	ShopName   string
	Deep       []DeepLink

	Holds    []HoldModel
	Doubts   []DoubtModel // axes that aren't verified, together where one reason explains them
	Axes     []AxisModel  // empty while announced
	Stated   int          // axes that a platform decides
	Verified int          // how many of those are
	Checked  time.Time    // oldest reading behind the verified ones
	Unsure   time.Time    // oldest reading behind the others; zero: never read
	Checking bool

	Work  []CaseModel
	Offer []OfferModel
	Truth []TruthRow
	Said  []SaidModel // what was said while announced
	Flow  []StepModel // newest first
	// Actions are its follow-ups, Watched says which of them are only planned.
	Actions []ActionLine
	Watched []locale.Text
	Parts   []PartGroup
	Files   []ObjectModel

	Outcome OutcomeModel // empty while announced
}

// A DeepLink leads to the platform's own page.
type DeepLink struct {
	Platform models.Platform
	Href     string
}

// A DoubtModel is one reason why axes aren't verified.
type DoubtModel struct {
	Axes     []models.Axis
	Reason   locale.Text
	Platform models.Platform
	At       time.Time // last official reading, zero: never
	Review   bool      // a person decides
}

// An AxisModel is one axis in the strip.
type AxisModel struct {
	Axis  models.Axis
	State models.State
	Shown models.Shown
	Stub  locale.Text // a sum or a count beside the state
	Old   bool        // the state is only the last known one
}

// A CaseModel is something unresolved: what, why, what next and who.
type CaseModel struct {
	Icon    string
	Urgency string // now, today, later; empty where nobody has to act
	Title   locale.Text
	Href    string
	Why     locale.Text
	Sides   locale.Text // both sides' states
	Next    locale.Text
	Who     []string // roles of whoever acts, empty: the console
	Since   time.Time
	Count   int64
	Step    OfferModel // what the person may do about it right here
}

// An OfferModel is something that the person may do, or may not and why.
type OfferModel struct {
	Label   locale.Text
	Icon    string
	Post    string // address of a form, which asks once where Confirm is given
	Confirm locale.Text
	Page    string // a page of ours
	Href    string // the platform's own page
	Primary bool
	Note    locale.Text // what will happen
	Refused locale.Text // why it can't be pressed, and who can
}

// A Mark says how the platforms' side stands to our record.
type Mark string

const (
	Agrees  Mark = "eq"
	Differ  Mark = "ne"
	Unknown Mark = "q"
)

// A TruthRow is one axis or one sum on three sides.
type TruthRow struct {
	Label locale.Text
	Said  []Claim
	Now   []Claim
	Ours  Claim
	Mark  Mark
}

// A Claim is what one side says about one axis or sum.
type Claim struct {
	Axis     models.Axis  // with State
	State    models.State // empty where the claim is a sum or a sentence
	Sum      *locale.Money
	Word     string      // the platform's own spelling
	Text     locale.Text // instead of a state or a sum: not stated, can't be asked
	By       models.Platform
	At       time.Time
	AtPrefix string // catalogue key said before At
	Stale    bool   // last known only
	Differs  bool
	Last     *Claim // what it was when last read, below a Text
}

// A SaidModel is one axis or sum that a notification stated.
type SaidModel struct {
	Label locale.Text
	Claim Claim
}

// A StepModel is one line of the timeline.
type StepModel struct {
	At    time.Time
	Icon  string
	Kind  string // ledger, event, case
	Axis  models.Axis
	From  models.State
	To    models.State
	Set   []AxisState // the first reading, which set them all
	Sums  []SumChange
	Text  locale.Text
	Href  string      // of Link
	Link  string      // topic or id
	Name  locale.Text // instead of Link, where it is called by words
	Cause locale.Text
	// CauseHref leads to the event that caused the step.
	CauseHref string
	CauseLink string
	Actor     string
	Warn      bool
}

// An AxisState is a state on its axis.
type AxisState struct {
	Axis  models.Axis
	State models.State
}

// A SumChange is a sum that a ledger entry changed.
type SumChange struct {
	Label         locale.Text
	Before, After locale.Money
}

// A PartGroup is the parts behind one axis.
type PartGroup struct {
	Axis  models.Axis
	Parts []PartModel
}

// A PartModel is one payment, refund, dispute, shipment or return.
type PartModel struct {
	models.Part
	Platform models.Platform
	Official bool
}

// An ObjectModel is a platform object that the order rests on.
type ObjectModel struct {
	Platform   models.Platform
	Connection string
	Kind       string
	ID         string
	Href       string
	LinkedBy   models.LinkHow
	Fetched    time.Time
	Reported   time.Time
	Absence    models.Absence
	Detail     string
}
