package handlers

import (
	"html"
	"log/slog"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"counterfoil/models"
	"counterfoil/models/casework"
	"counterfoil/models/seal"
	"counterfoil/models/staff"
	"counterfoil/models/store"
	"counterfoil/views"
	"counterfoil/views/locale"
)

func policiesOf(t *testing.T, s *store.Store) Policies {
	t.Helper()
	keys, err := seal.Parse(seal.New())
	if err != nil {
		t.Fatal(err)
	}
	return Policies{Book: &casework.Policies{Store: s}, Lives: &casework.Lives{Store: s, Keys: keys, Log: slog.New(slog.DiscardHandler)}}
}

var chief = models.Actor{StaffID: 4, Name: "Chan Chi Ming", Role: models.Manager}

// policyFile is a shop that decided otherwise, with a kind in each mode and somebody's
// requests.
func policyFile() models.PolicyFile {
	late := models.ActionRule{Occasion: models.OnPaid, Kind: models.Invoice, Active: true, Wait: 90 * time.Minute}
	f := models.PolicyFile{ShopName: models.ShopName{ID: 1, Slug: "hk", Name: "Harbour"}, Shops: []models.ShopName{{ID: 1, Slug: "hk", Name: "Harbour"}, {ID: 2, Slug: "tw", Name: "Pine"}},
		Rules:   models.RulesOf([]models.ActionRule{late, {Occasion: models.OnShipped, Kind: models.CustomerMessage, Active: true, Wait: 2 * time.Hour}}),
		Changes: []models.RuleChange{{ActionRule: late, At: before(time.Hour), Name: "Chang"}}, SavedBy: "Chang", Saved: before(time.Hour)}
	for i, kind := range models.ActionKinds {
		k := models.KindFile{Destination: models.Destination{Kind: kind, Mode: models.DestinationModes[i%3]}, Seen: "1f", Watched: models.ActionCount{N: i * 100, More: i == 2}}
		asked := models.Live{Request: models.Request{ID: int64(i), State: models.RequestProposed, ActionKind: kind, ShopID: 1, Reason: "ready", By: "staff:9", ByName: "Lee", ByRole: models.Admin,
			At: before(time.Hour), Expires: moment.Add(time.Hour), Decider: "Chan", Decided: before(time.Minute), Note: "not yet"}, LiveTerms: models.LiveTerms{Mode: models.ByHand}}
		if k.Mode == models.ByHTTP {
			k.URL, k.Idempotent, k.Hosts, k.Signed, k.Updated = "https://x.example/in", i > 2, []string{"10.0.0.8", "x.example"}, true, before(time.Hour)
			asked.LiveTerms = models.LiveTerms{Mode: models.ByHTTP, URL: "https://y.example", NewSecret: i > 2}
		}
		if i%2 == 0 {
			asked.Stale = i == 4
			k.Open = &asked
		}
		over := asked
		over.State = []models.RequestState{models.RequestApplied, models.RequestRejected, models.RequestWithdrawn, models.RequestExpired, models.RequestStale}[i%5]
		k.Last = &over
		f.Kinds = append(f.Kinds, k)
	}
	return f
}

// latePolicies is the page after somebody else saved, and after a note was missing.
func latePolicies() views.PoliciesModel {
	f := policyFile()
	f.Kinds[5].Open = &models.Live{Request: models.Request{ActionKind: f.Kinds[5].Kind, ShopID: 1, By: chief.ID(), ByName: chief.Name, ByRole: models.Manager}, LiveTerms: models.LiveTerms{Mode: models.ByHTTP}}
	m := policiesModel(f, chief)
	m.Wrong = locale.Say("error.rules_saved_meanwhile")
	typed := map[string]typedRule{}
	for _, r := range f.Rules {
		typed[casework.RuleField(r)] = typedRule{active: true, wait: "1", unit: "h"}
	}
	retype(&m, f.Rules, typed, map[string]string{"paid/invoice": "error.rule_wait"}, true)
	m.Kinds[0].Open.Errors = views.FieldErrors{"note": locale.Say("error.reason_text")}
	return m
}

func liveForm(wrong views.FieldErrors) views.LiveFormModel {
	return views.LiveFormModel{Shop: models.ShopName{ID: 1, Slug: "hk", Name: "Harbour"}, Kind: models.Invoice, Action: livePath("hk", models.Invoice), Back: kindPath("hk", models.Invoice),
		Other: models.Admin, Signed: wrong != nil, Mode: models.ByHTTP, Errors: wrong}
}

func wrongLive() views.FieldErrors {
	wrong := views.FieldErrors{}
	for _, field := range []string{"mode", "url", "secret", "idempotent", "hosts"} {
		wrong[field] = locale.Say("error.live_" + field)
	}
	wrong["reason"] = locale.Say("error.reason_text")
	return wrong
}

var (
	formPart  = regexp.MustCompile(`(?s)<form[^>]*method="post"[^>]*action="([^"]+)".*?</form>`)
	inputPart = regexp.MustCompile(`<input\b[^>]*>`)
	selected  = regexp.MustCompile(`(?s)<select[^>]*name="([^"]+)".*?</select>`)
	optionOf  = regexp.MustCompile(`<option value="([^"]+)" selected`)
	attribute = regexp.MustCompile(`\b(name|value|type)="([^"]*)"`)
)

// filled reads the forms of a page that lead to a path, as a browser would send them.
func filled(page, path string) []url.Values {
	var all []url.Values
	for _, f := range formPart.FindAllStringSubmatch(page, -1) {
		if html.UnescapeString(f[1]) != path {
			continue
		}
		values := url.Values{}
		for _, in := range inputPart.FindAllString(f[0], -1) {
			at := map[string]string{}
			for _, a := range attribute.FindAllStringSubmatch(in, -1) {
				at[a[1]] = html.UnescapeString(a[2])
			}
			if box := at["type"] == "checkbox" || at["type"] == "radio"; !box || strings.Contains(in, " checked") {
				values.Add(at["name"], at["value"])
			}
		}
		for _, s := range selected.FindAllStringSubmatch(f[0], -1) {
			if o := optionOf.FindStringSubmatch(s[0]); o != nil {
				values.Set(s[1], o[1])
			}
		}
		all = append(all, values)
	}
	return all
}

// form opens a page and gives its nth form that leads to a path.
func (d *desk) form(who, page, path string, nth int) url.Values {
	d.t.Helper()
	_, _, text := d.send(who, get, page, nil)
	all := filled(text, path)
	if len(all) <= nth {
		d.t.Fatalf("%s has no form to %s on %s", who, path, page)
	}
	return all[nth]
}

const rulesPath = "/policies/hk/rules"

func TestAManagerSetsRules(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.says("ng", "/policies", "Harbour", "The order is paid", "refund:{n}", "Never changed", "Save rules", `data-go="p"`)
	f := d.form("ng", "/policies?shop=hk", rulesPath, 0)
	late := d.form("ng", "/policies?shop=hk", rulesPath, 0)
	if !slices.Equal(f["on"], []string{"paid/fulfillment_instruction", "paid/invoice", "paid/customer_message", "pay_on_delivery/fulfillment_instruction", "refunded/customer_message"}) {
		t.Errorf("on are %v", f["on"])
	}
	f["on"] = []string{"paid/fulfillment_instruction", "paid/invoice", "authorized/fulfillment_instruction"}
	for _, typed := range [][2]string{{"-1", "min"}, {"1.5", "h"}, {"", "min"}, {"721", "h"}, {"5", "days"}, {"99999999", "h"}} {
		bad := url.Values{"on": f["on"]}
		for k, v := range f {
			bad[k] = v
		}
		bad.Set("wait:paid/invoice", typed[0])
		bad.Set("unit:paid/invoice", typed[1])
		_, page := d.posts("ng", rulesPath, bad, http.StatusUnprocessableEntity)
		if !strings.Contains(page, `id="paid/invoice-error"`) || !strings.Contains(page, `value="`+typed[0]+`"`) || !strings.Contains(page, "Nothing was saved") {
			t.Errorf("%v isn't refused beside the field, with what was typed", typed)
		}
		if kept := filled(page, rulesPath)[0]; !slices.Equal(kept["on"], f["on"]) || kept.Get("version") != f.Get("version") {
			t.Errorf("the form forgets what was chosen, or what was seen: %v", kept)
		}
	}
	f.Set("wait:paid/invoice", "90")
	if to, _ := d.posts("ng", rulesPath, f, http.StatusSeeOther); to != "/policies?shop=hk" {
		t.Errorf("leads to %q", to)
	}
	d.says("ng", "/policies?shop=hk", "The rules are saved.", "Last saved by Somebody", "Changed by Somebody", `value="90"`, "Back to the defaults")
	d.says("au", "/policies?shop=hk", "On", "90 min", "Changed by Somebody", "Not with the role Auditor. These can: Manager.")
	d.says("ng", "/policies?shop=hk&lang=zh-Hant", "最近由 Somebody 於", "還原為預設規則", "銀行已預留款項，尚未收款")
	d.says("ng", "/policies?shop=hk&lang=en", "Save rules")

	// Who opened the page before that loses nothing, and overwrites nothing unseen.
	late["on"] = []string{"cancelled/customer_message"}
	_, page := d.posts("ng", rulesPath, late, http.StatusConflict)
	if !strings.Contains(page, "Somebody else saved these rules after you opened the page") || !strings.Contains(page, "Saved meanwhile: On, waits 90 min.") {
		t.Error("a late form isn't told what is in force")
	}
	again := filled(page, rulesPath)[0]
	if !slices.Equal(again["on"], late["on"]) {
		t.Errorf("the late form became %v", again["on"])
	}
	d.posts("ng", rulesPath, again, http.StatusSeeOther)
	d.posts("ng", rulesPath, d.form("ng", "/policies?shop=hk", rulesPath, 1), http.StatusSeeOther)
	d.says("ng", "/policies?shop=hk", "The product’s defaults are in force again.")
	if _, _, page := d.send("ng", get, "/policies?shop=hk", nil); strings.Contains(page, "Changed by") || strings.Contains(page, `value="90"`) {
		t.Error("the product’s own rules are shown as somebody's")
	}

	for _, who := range []string{"wing", "ka", "ad", "au"} {
		if _, _, page := d.send(who, get, "/policies", nil); strings.Contains(page, "<input type=\"checkbox\"") || strings.Contains(page, `action="`+rulesPath) {
			t.Errorf("%s is offered to change rules", who)
		}
		d.posts(who, rulesPath, f, http.StatusForbidden)
	}
}

func TestAShopOfOthersHasNoPolicies(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	err := d.store.Tx(t.Context(), func(tx *store.Tx) error {
		_, err := tx.EnsureShop(t.Context(), "tw", "Pine")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.staff.AddAccount(t.Context(), models.Actor{}, staff.NewAccount{Email: "tw@shop.example", Name: "Tw", Role: models.Manager, Shops: []string{"tw"}, Password: password}); err != nil {
		t.Fatal(err)
	}
	d.says("ng", "/policies", `href="/policies?shop=hk"`, `href="/policies?shop=tw"`)
	if _, _, page := d.send("tw", get, "/policies", nil); strings.Contains(page, "Harbour") || !strings.Contains(page, "Pine") {
		t.Error("a shop of others is on the page")
	}
	for _, path := range []string{"/policies?shop=hk", "/policies?shop=none", "/policies/hk/live/invoice", "/policies/tw/live/gift"} {
		if status, _, _ := d.send("tw", get, path, nil); status != http.StatusNotFound {
			t.Errorf("%s: %d", path, status)
		}
	}
	for _, path := range []string{rulesPath, "/policies/hk/live/invoice", "/policies/hk/live/invoice/stop", "/policies/hk/live/invoice/approve", "/policies/tw/live/invoice/approve"} {
		d.posts("tw", path, d.form("ng", "/policies?shop=hk", rulesPath, 0), http.StatusNotFound)
	}
}

const livePage = "/policies/hk/live/invoice"

func TestAKindIsMadeLiveOnThePage(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.says("ng", "/policies", `href="`+livePage+`"`, "Watched, nothing is sent", "Since the beginning")
	d.says("wing", "/policies", "Not with the role Support. These can: Manager, Administrator.")
	d.says("ng", livePage, `name="secret" type="password"`, "An address of an inner network is called only on a host that is allowed", "Ask for approval: Administrator")
	f := d.form("ng", livePage, livePage, 0)
	f.Set("url", "https://key@x.example/#top")
	f.Set("hosts", "warehouse.internal, 10.0.0.8")
	f.Set("secret", "whsec_c2luay1zZWNyZXQ=")
	f.Set("reason", "the <new> warehouse")
	f.Set("idempotent", "true")
	_, page := d.posts("ng", livePage, f, http.StatusUnprocessableEntity)
	kept := filled(page, livePage)[0]
	if kept.Get("secret") != "" || strings.Contains(page, "c2lua") || !strings.Contains(page, "Type the secret again") || !strings.Contains(page, `id="url-error"`) {
		t.Error("the secret comes back, or the address isn't refused")
	}
	for _, field := range []string{"url", "hosts", "reason", "idempotent", "mode", "seen"} {
		if kept.Get(field) != f.Get(field) {
			t.Errorf("%s became %q", field, kept.Get(field))
		}
	}
	kept.Set("url", "https://x.example/in")
	if _, page = d.posts("ng", livePage, kept, http.StatusUnprocessableEntity); !strings.Contains(page, "Give the secret that signs.") {
		t.Error("it may go unsigned")
	}
	kept.Set("secret", "whsec_c2luay1zZWNyZXQ=")
	if to, _ := d.posts("ng", livePage, kept, http.StatusSeeOther); to != "/policies?shop=hk#invoice" {
		t.Errorf("leads to %q", to)
	}
	d.says("ng", "/policies", "It is live only when the other side agrees", "asks to send this by HTTP", "https://x.example/in", "warehouse.internal, 10.0.0.8", "the &lt;new&gt; warehouse",
		"You asked for this; another person must approve it: Administrator.", livePage+"/withdraw")
	d.says("wing", "/policies", "Not with the role Support. These can: Administrator.")
	if _, _, page = d.send("ng", get, "/policies", nil); strings.Contains(page, livePage+"/approve") || strings.Contains(page, `href="`+livePage+`"`) {
		t.Error("the proposer is offered to approve, or to ask again")
	}
	if status, to, _ := d.send("ad", get, livePage, nil); status != http.StatusSeeOther || to != "/policies?shop=hk#invoice" {
		t.Errorf("a second form: %d %s", status, to)
	}
	approve := d.form("ad", "/policies", livePage+"/approve", 0)
	for _, who := range []string{"ng", "wing", "ka", "au"} {
		d.posts(who, livePage+"/approve", approve, http.StatusForbidden)
	}
	reject := d.form("ad", "/policies", livePage+"/reject", 0)
	if _, page = d.posts("ad", livePage+"/reject", reject, http.StatusUnprocessableEntity); !strings.Contains(page, `id="note-error"`) {
		t.Error("a rejection needs no word")
	}
	reject.Set("note", "not before Monday")
	d.posts("ad", livePage+"/reject", reject, http.StatusSeeOther)
	d.says("ad", "/policies", "Rejected: nothing changes.")
	d.says("ng", "/policies", "rejected", "not before Monday")
	d.posts("ad", livePage+"/approve", approve, http.StatusSeeOther)
	d.says("ad", "/policies", "This was decided already.", "Watched, nothing is sent")

	d.posts("ng", livePage, kept, http.StatusSeeOther)
	d.posts("ng", livePage+"/withdraw", d.form("ng", "/policies", livePage+"/withdraw", 0), http.StatusSeeOther)
	d.says("ng", "/policies", "Withdrawn: nothing changes.")
	d.posts("ng", livePage, kept, http.StatusSeeOther)
	d.posts("ad", livePage+"/approve", d.form("ad", "/policies", livePage+"/approve", 0), http.StatusSeeOther)
	d.says("ad", "/policies", "Approved: it goes there from now on.", "Live: sent by HTTP", "Kept sealed, never shown", "Yes: tried again without a clear answer", livePage+"/stop", "approved <time")
	d.says("au", "/policies?lang=zh-Hant", "正式運作：以 HTTP 發出", "可由主管、系統管理員處理")
	if _, _, page = d.send("ad", get, "/policies", nil); strings.Contains(page, "c2lua") || strings.Contains(page, "sink-secret") {
		t.Error("the secret is on the page")
	}

	// Another address is another request, by what is there now.
	other := d.form("ad", livePage, livePage, 0)
	if other.Get("url") != "https://x.example/in" || other.Get("secret") != "" || other.Get("mode") != "http" {
		t.Errorf("the form begins with %v", other)
	}
	d.posts("ng", livePage+"/stop", nil, http.StatusSeeOther)
	d.says("ng", "/policies", "Stopped: it is only watched from now on.", "Watched, nothing is sent")
	d.posts("ng", livePage+"/stop", nil, http.StatusSeeOther)
	d.says("ng", "/policies", "It was only watched already.")
	other.Set("reason", "moved")
	if _, page = d.posts("ad", livePage, other, http.StatusConflict); !strings.Contains(page, "was changed after you opened this form") || !strings.Contains(page, `value="moved"`) {
		t.Error("an old form is taken, or forgets what was typed")
	}
	d.posts("wing", livePage+"/stop", nil, http.StatusForbidden)
}

func TestARequestIsDecidedWhereItBelongs(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	f := d.form("ad", livePage, livePage, 0)
	f.Set("mode", "manual")
	f.Set("reason", "by hand")
	d.posts("ad", livePage, f, http.StatusSeeOther)
	d.says("ng", "/policies", "asks to put this on the list of work", "Approve: make it live", "Waits for: Manager")
	if _, err := d.store.SQL().ExecContext(t.Context(), `INSERT INTO destinations (shop_id, kind, mode, updated_at) SELECT id, 'invoice', 'manual', now() FROM shops`); err != nil {
		t.Fatal(err)
	}
	d.says("ng", "/policies", "this can’t be approved any more")
	id := d.form("ng", "/policies", livePage+"/reject", 0)
	d.posts("ng", livePage+"/approve", id, http.StatusSeeOther)
	d.says("ng", "/policies", "was changed since this was asked for")
	d.posts("ng", livePage+"/approve", url.Values{"request": {"x"}}, http.StatusNotFound)
	d.posts("ng", livePage+"/approve", url.Values{"request": {"999"}}, http.StatusNotFound)
}
