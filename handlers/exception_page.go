package handlers

import (
	"strconv"
	"time"

	"counterfoil/models"
	"counterfoil/views"
	"counterfoil/views/locale"
)

// caseIn is everything that the page of an exception is worked out from.
type caseIn struct {
	file   models.ExceptionFile
	actor  models.Actor
	people []models.Colleague
	now    time.Time
	typed  typedCase
}

func exceptionModel(in caseIn) views.ExceptionModel {
	f, x := in.file, in.file.Exception
	m := views.ExceptionModel{ExceptionLine: exceptionLine(models.CaseRow{Exception: x, Members: 1}, in.actor, in.now), State: x.State, Notes: f.Notes, Truth: caseTruth(f), Facts: caseFacts(f, in.now)}
	for _, r := range f.Asked {
		m.Requests = append(m.Requests, requestModel(r, in.actor, "", in.now, typed{}))
	}
	m.NoteForm = fill(views.ActFormModel{Name: "note", Title: locale.Say("case_do.note"), Post: m.Href + "/note", Do: locale.Say("case_do.note"), Icon: "note", Plain: true,
		Fields: []views.FieldModel{{Name: "note", Label: locale.Say("case_do.note_field"), Area: true, Required: true, Max: 2000}}, Refused: without(in.actor, models.ExceptionsWork)}, in.typed.typed, x.ID)
	if x.State != "open" {
		m.Why, m.Reason = locale.Say("cases.closed_how", x.Closed, closedHow(x)), x.Note
		if x.ClosedBy != "" {
			m.Why = locale.Say("cases.closed_by", x.Closed, closedHow(x), x.ClosedBy)
		}
		m.Offers = caseOffers(f, in.actor, in.now)
		return m
	}
	m.Offers = caseOffers(f, in.actor, in.now)
	m.Forms = caseForms(in)
	return m
}

// caseOffers are the suggested next step first, then where else to look.
func caseOffers(f models.ExceptionFile, actor models.Actor, now time.Time) []views.OfferModel {
	var list []views.OfferModel
	x := f.Exception
	open := x.State == "open"
	redeliver := x.Kind == models.MissedNotification && x.Platform == models.ReceiptRoller
	if step := caseStep(x, actor); open && (step.Post != "" || step.Page != "") {
		if step.Post != "" && f.API == models.APINone {
			step.Refused = locale.Say("may.refused.no_api")
		}
		if redeliver {
			step.Primary = false
		}
		list = append(list, step)
	}
	if redeliver && open {
		o := views.OfferModel{Label: locale.Say("case_step.redeliver"), Icon: "out", Href: orDash(f.Deep, receiptPortal), Note: locale.Say("case_step.redeliver.is")}
		if days := redeliverable(f, now); days > 0 {
			o.Note = locale.Say("case_step.redeliver.days", days)
		}
		list = append([]views.OfferModel{o}, list...)
	}
	if x.OrderID != 0 && (len(list) == 0 || list[0].Page != orderPath(x.OrderID)) {
		list = append(list, views.OfferModel{Label: locale.Say("case_step.order"), Icon: "row", Page: orderPath(x.OrderID), Note: locale.Say("case_step.order.is")})
	}
	if f.Deep != "" && !redeliver {
		list = append(list, views.OfferModel{Label: locale.Say("may.open", x.Platform), Icon: "out", Href: f.Deep, Note: locale.Say("may.open.is", x.Platform)})
	}
	return list
}

// redeliverFor is how long ReceiptRoller sends a delivery again, in days.
const redeliverFor = 30

// redeliverable is how many of those days are left: until the day that the exception
// names, else counted from the change that nobody announced.
func redeliverable(f models.ExceptionFile, now time.Time) int {
	if last, err := time.Parse(time.DateOnly, f.Detail); err == nil {
		return int(last.Sub(now.UTC().Truncate(24*time.Hour)) / (24 * time.Hour))
	}
	since := f.First
	if f.Found != nil && !f.Found.Changed.IsZero() {
		since = f.Found.Changed
	}
	return redeliverFor - int(now.Sub(since)/(24*time.Hour))
}

// receiptPortal is where ReceiptRoller's deliveries are sent again.
const receiptPortal = "https://receiptroller.com"

// caseTruth puts the three sides beside each other: what a sweep saw of the object takes
// the place of what was read before, and only what the exception is about is shown.
func caseTruth(f models.ExceptionFile) []views.TruthRow {
	var file models.OrderFile
	switch {
	case f.File != nil:
		file = *f.File
	case f.Object != nil:
		file = models.OrderFile{Health: map[int64]models.Health{f.Object.Connection: {State: f.API, Since: f.APISince}}}
	default:
		return nil
	}
	objects := append([]models.Object{}, file.Objects...)
	if f.Object != nil && !hasObject(objects, f.Object.ID) {
		objects = append(objects, *f.Object)
	}
	for i := range objects {
		if f.Found != nil && objects[i].ID == f.Found.Object {
			seen := *f.Found.Seen
			seen.Basis, seen.Read = models.Official, f.Found.Last
			objects[i].Official, objects[i].Fetched = &seen, f.Found.Last
			if file.Currency == "" && seen.Amounts != nil {
				file.Currency = seen.Amounts.Currency
			}
		}
	}
	file.Objects = objects
	var rows []views.TruthRow
	for _, r := range truthRows(file, objectSayings(objects), false) {
		about := r.Ours.Sum != nil && (f.Kind == models.AmountDiffers || f.Kind == models.PaidTwice || f.OrderID == 0) || r.Ours.Sum == nil && (f.Axis == "" || r.Ours.Axis == f.Axis)
		if !about || len(r.Said) == 0 && len(r.Now) == 0 && r.Ours.State == "" && r.Ours.Sum == nil {
			continue
		}
		if f.OrderID == 0 {
			r.Ours = views.Claim{Text: locale.Say("truth.no_record")}
		}
		rows = append(rows, r)
	}
	return rows
}

func hasObject(objects []models.Object, id int64) bool {
	for _, o := range objects {
		if o.ID == id {
			return true
		}
	}
	return false
}

// caseFacts are what else is known of an exception.
func caseFacts(f models.ExceptionFile, now time.Time) []views.FactModel {
	x := f.Exception
	var list []views.FactModel
	add := func(key string, text locale.Text) {
		list = append(list, views.FactModel{Label: locale.Say("case_fact." + key), Text: text})
	}
	value := func(v any) locale.Text { return locale.Say("value", v) }
	theirs, ours, _ := sides(x)
	if !theirs.Empty() {
		add("theirs", theirs)
	}
	if !ours.Empty() {
		add("ours", ours)
	}
	add("policy", locale.Say("policy."+string(x.Policy)+".is"))
	if s := settles(x, now); !s.Empty() {
		add("settles", s)
	}
	if !x.Healed.IsZero() {
		add("healed", value(locale.Ago{Time: x.Healed}))
	}
	add("first", value(x.First))
	add("last", locale.Say("case_fact.last_seen", x.Last, locale.Say("work.seen", x.Count)))
	if f.Found != nil && !f.Found.Changed.IsZero() {
		add("changed", value(f.Found.Changed))
	}
	if x.Topic != "" {
		add("topic", value(x.Topic))
	}
	if x.Detail != "" {
		add("detail", value(x.Detail))
	}
	if x.Ref != "" {
		list = append(list, views.FactModel{Label: locale.Say("case_fact.ref"), ID: x.Ref})
	}
	if x.Connection != "" {
		list = append(list, views.FactModel{Label: locale.Say("list.connection"), Href: "/connections#" + x.Connection, Link: value(x.Connection)})
	}
	if x.Group != 0 {
		list = append(list, views.FactModel{Label: locale.Say("case_fact.group"), Href: "/exceptions?group=" + strconv.FormatInt(x.Group, 10), Link: locale.Say("cases.group", f.Members)})
	}
	if x.FirstTo != "" {
		add("desk", locale.Say("role."+string(x.FirstTo)))
	}
	switch {
	case x.OwnedBy != "":
		add("owner", locale.Say("case_fact.owned", x.OwnedBy, locale.Ago{Time: x.Owned}))
	default:
		add("owner", locale.Say("cases.nobody"))
	}
	switch {
	case x.Tell && x.Told.IsZero():
		add("tell", locale.Say("cases.tell"))
	case x.Tell:
		add("tell", locale.Say("case_fact.told", x.ToldBy, x.Told))
	}
	if a := f.Accepted; a != nil {
		add("accepted", locale.Say("case_fact.accepted", a.At, a.Until))
	}
	return list
}

// caseForms are what the person may do with an open exception, or may not, with why and
// who can.
func caseForms(in caseIn) []views.ActFormModel {
	x, a := in.file.Exception, in.actor
	var forms []views.ActFormModel
	add := func(m views.ActFormModel, ok bool, why string) {
		m.Post, m.Plain, m.Version, m.Title = views.ExceptionPath(x.ID)+"/"+m.Name, true, x.Version, locale.Say("case_do."+m.Name)
		if m.Do.Empty() {
			m.Do = m.Title
		}
		if !ok {
			m.Refused = locale.Say(why)
		}
		m = fill(m, in.typed.typed, x.ID)
		for i, f := range m.Fields {
			if f.Name == "to" {
				m.Fields[i].Value = in.typed.to
			}
		}
		forms = append(forms, m)
	}
	says := func(key string, args ...any) []locale.Text { return []locale.Text{locale.Say(key, args...)} }
	if x.Owner == 0 || x.Owner == a.StaffID {
		if x.Owner == 0 {
			ok, why := a.MayTake(x)
			add(views.ActFormModel{Name: "take", Says: says("case_do.take.is"), Icon: "pen"}, ok, why)
		}
	}
	if ok, why := a.MayAssign(x); ok || a.May(models.ExceptionsWork) {
		m := views.ActFormModel{Name: "assign", Icon: "send"}
		if ok {
			to := views.FieldModel{Name: "to", Label: locale.Say("case_do.assign_field"), Required: true}
			for _, p := range in.people {
				if p.ID != x.Owner && (p.Role != models.Admin || x.Technical()) {
					to.Choices = append(to.Choices, views.ChoiceModel{Value: strconv.FormatInt(p.ID, 10), Label: locale.Say("case_do.colleague", p.Name, locale.Say("role."+roleOf(p)))})
				}
			}
			if len(to.Choices) == 0 {
				ok, why = false, "case_do.assign_none"
			} else {
				m.Fields = []views.FieldModel{to}
			}
		}
		add(m, ok, why)
	}
	if x.Owner != 0 {
		ok, why := a.MayGiveBack(x)
		add(views.ActFormModel{Name: "back", Says: says("case_do.back.is", x.OwnedBy), Icon: "x"}, ok, why)
	}
	if x.Untold() {
		ok, why := a.MayTell()
		add(views.ActFormModel{Name: "told", Says: says("case_do.told.is"), Icon: "phone"}, ok, why)
	}
	reason := []views.FieldModel{reasonField()}
	untold := x.Untold()
	first := func(ok bool, why string) (bool, string) {
		if ok && untold {
			return false, "error.case_tell_first"
		}
		return ok, why
	}
	ok, why := first(a.MaySolve(x))
	add(views.ActFormModel{Name: "close", Says: says("case_do.close.is"), Icon: "tick", Fields: reason}, ok, why)
	asked := openRequest(in.file.Asked)
	ok, why = first(a.MayDismiss(x))
	dismiss := views.ActFormModel{Name: "dismiss", Says: says("case_do.dismiss.is"), Icon: "x", Fields: []views.FieldModel{reasonField()}}
	if ok && a.Together(x) {
		dismiss.Says = says("case_do.dismiss.together")
		dismiss.Do = locale.Say("case_do.dismiss_ask")
		if asked {
			ok, why = false, "action.open_request"
		}
	}
	add(dismiss, ok, why)
	if x.Acceptable() {
		ok, why = first(a.MayAccept())
		if ok && asked {
			ok, why = false, "action.open_request"
		}
		add(views.ActFormModel{Name: "accept", Says: says("case_do.accept.is"), Icon: "ok", Fields: []views.FieldModel{reasonField()}, Do: locale.Say("case_do.accept_ask")}, ok, why)
	}
	return forms
}

func roleOf(p models.Colleague) string {
	if p.Lead {
		return "lead"
	}
	return string(p.Role)
}
