package receiptroller_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"counterfoil/models"
	"counterfoil/models/platform"
	"counterfoil/models/platform/receiptroller"
	"counterfoil/models/platform/sandbox"
)

var update = flag.Bool("update", false, "write the golden files anew")

const org, secret = "org1", "first-secret"

// noon is a time in the middle of a month, in Tokyo too.
func noon() time.Time { return time.Date(2026, 11, 15, 3, 0, 0, 0, time.UTC) }

// fast is a config whose calls needn't wait for each other.
func fast(url string) platform.Config {
	return platform.Config{Account: org, APIURL: url, Webhook: []string{secret}, APIToken: "sandbox-token", Now: noon, Settings: map[string]string{"rate": "10000"}}
}

func adapter(t testing.TB, cfg platform.Config) *receiptroller.Adapter {
	t.Helper()
	a, err := receiptroller.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// shop is a sandbox that serves on loopback.
func shop(t testing.TB) (*sandbox.ReceiptRoller, string) {
	t.Helper()
	p := sandbox.NewReceiptRoller(org, secret, noon)
	server := httptest.NewServer(p.Handler())
	t.Cleanup(server.Close)
	return p, server.URL
}

func ref(path string) models.ObjectRef {
	account, _, _ := strings.Cut(path, "/")
	return models.ObjectRef{Account: account, Kind: "receipt", ID: path}
}

// answers is an API that answers every call alike and counts them.
func answers(t testing.TB, status int, body string) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}))
	t.Cleanup(server.Close)
	return server.URL
}

func TestWords(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	for _, w := range receiptroller.Words() {
		fmt.Fprintf(&b, "%s\t%s\t%s\t%s\t%s\n", w.Field, w.Word, w.Axis, w.State, w.Note)
	}
	const file = "testdata/words.golden"
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil || b.String() != string(want) {
		t.Errorf("the table differs from %s (%v); write it anew with -update", file, err)
	}
}

func TestUnusableSettings(t *testing.T) {
	t.Parallel()
	for _, bad := range []map[string]string{
		{"signature_header": "X Y"}, {"signature_header": "X-RR-Timestamp"}, {"timestamp_header": "ü"},
		{"signed_payload": "{timestamp}"}, {"signed_payload": "{body}{body}"}, {"signed_payload": "{timestamp}.{timestamp}.{body}"}, {"signed_payload": "{id}.{body}"},
		{"signature_encoding": "rot13"}, {"timestamp_unit": "h"}, {"tolerance": "300"}, {"tolerance": "-1s"},
		{"month_zone": "Local"}, {"month_zone": "Mars/Base"}, {"currency": "yen"}, {"currency": "JPYX"},
		{"rate": "0"}, {"rate": "NaN"}, {"rate": "fast"}, {"budget": "-1"}, {"budget": "1.5"}, {"token_life": "1s"}, {"token_life": "x"},
	} {
		for name := range bad {
			_, err := receiptroller.New(platform.Config{Account: org, Settings: bad})
			if err == nil || !strings.Contains(err.Error(), name) {
				t.Errorf("%v: error %v doesn't name the setting", bad, err)
			}
		}
	}
	for name, cfg := range map[string]platform.Config{
		"no account":         {},
		"account with slash": {Account: "a/b"},
		"half a login":       {Account: org, UserName: "u"},
		"other half":         {Account: org, Password: "p"},
		"empty secret":       {Account: org, Webhook: []string{"a", ""}},
		"no scheme":          {Account: org, APIURL: "api.example"},
		"file":               {Account: org, APIURL: "file:///etc"},
		"query":              {Account: org, APIURL: "https://api.example/?a=b"},
		"user":               {Account: org, APIURL: "https://u:p@api.example"},
	} {
		if _, err := receiptroller.New(cfg); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestSettings(t *testing.T) {
	t.Parallel()
	got := map[string]models.Setting{}
	for _, s := range adapter(t, platform.Config{Account: org, Settings: map[string]string{"currency": "TWD", "sweep_every": "8h", "tolerance": " "}}).Settings() {
		got[s.Name] = s
	}
	for _, want := range []models.Setting{
		{Name: "currency", Value: "TWD", Set: true},
		{Name: "month_zone", Value: "Asia/Tokyo", Assumed: true},
		{Name: "tolerance", Value: "300s", Assumed: true},
		{Name: "signed_payload", Value: "{timestamp}.{body}", Assumed: true},
		{Name: "budget", Value: "1000"},
	} {
		if got[want.Name] != want {
			t.Errorf("got %+v, want %+v", got[want.Name], want)
		}
	}
}

func TestSpell(t *testing.T) {
	t.Parallel()
	a := adapter(t, platform.Config{Account: org})
	for typed, want := range map[string]string{
		"org1/202611/s/r":  "org1/202611/s/r",
		" r1 ":             "r1",
		"202611/s/r":       "org1/202611/s/r",
		"/org1/202611/s/r": "org1/202611/s/r",
		"https://api.receiptroller.com/org1/202611/s/receipt/r": "org1/202611/s/r",
	} {
		if got := a.Spell(typed); len(got) == 0 || got[0] != want {
			t.Errorf("%q: %q, want %q first", typed, got, want)
		}
	}
}

// budget counts what is spent and ends at most.
type budget struct{ most, spent int }

func (b *budget) Spend(_ context.Context, calls int) error {
	if b.spent+calls > b.most {
		return &platform.Outage{Throttled: true, Detail: "used up"}
	}
	b.spent += calls
	return nil
}

func TestFetchSparesCalls(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		months []int // receipts sold so many months ago
		gone   int   // missing ones of this month, asked for too
		calls  int
	}{
		{"one is asked for", []int{0}, 0, 1},
		{"a missing one is asked for", nil, 1, 1},
		{"many of a month are listed", []int{0, 0, 0, 0, 0}, 0, 1},
		{"two months are two lists", []int{0, 0, 1, 1}, 0, 2},
		{"a month with a single one is no list", []int{0, 0, 0, 1}, 0, 2},
		{"one not listed is asked for", []int{0, 0, 0}, 1, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p, url := shop(t)
			var refs []models.ObjectRef
			for _, ago := range c.months {
				r, _ := p.Issue(sandbox.Receipt{Placed: noon().AddDate(0, -ago, 0)})
				refs = append(refs, ref(r.Path()))
			}
			for i := range c.gone {
				refs = append(refs, ref("org1/202611/store1/gone"+strconv.Itoa(i)))
			}
			cfg := fast(url)
			b := &budget{most: 100}
			cfg.Budget = b
			got, err := adapter(t, cfg).Fetch(t.Context(), refs)
			if err != nil || len(got) != len(refs) {
				t.Fatalf("%d of %d, %v", len(got), len(refs), err)
			}
			gone := 0
			for r, o := range got {
				if o.Ref != r {
					t.Errorf("%s answered under %s", o.Ref.ID, r.ID)
				}
				if o.Absence == models.Gone {
					gone++
				}
			}
			if b.spent != c.calls || int(p.Calls()) != c.calls || gone != c.gone {
				t.Errorf("%d calls, %d gone; want %d and %d", b.spent, gone, c.calls, c.gone)
			}
		})
	}
}

// A month of many pages isn't read to its end for a few receipts, once its length
// is known.
func TestLongMonthIsNotListedForAFew(t *testing.T) {
	t.Parallel()
	p, url := shop(t)
	var all []string
	for range 3500 {
		r, _ := p.Issue(sandbox.Receipt{})
		all = append(all, r.Path())
	}
	a := adapter(t, fast(url))
	last := []models.ObjectRef{ref(all[3498]), ref(all[3499])}
	for _, want := range []int64{3, 5} { // a page and two receipts, then two receipts
		if _, err := a.Fetch(t.Context(), last); err != nil {
			t.Fatal(err)
		}
		if p.Calls() != want {
			t.Errorf("%d calls, want %d", p.Calls(), want)
		}
	}
	var many []models.ObjectRef
	for _, path := range all[:3500] {
		many = append(many, ref(path))
	}
	got, err := a.Fetch(t.Context(), many)
	if err != nil || len(got) != 3500 || p.Calls() != 9 {
		t.Errorf("%d receipts after %d calls, %v; want 3500 after 9", len(got), p.Calls(), err)
	}
}

// Terminals needn't belong to a store; such receipts are found through the list.
func TestReceiptWithoutStore(t *testing.T) {
	t.Parallel()
	p, url := shop(t)
	r, _ := p.Issue(sandbox.Receipt{})
	_, n, err := p.ChangeReceipt(r.ID, func(r *sandbox.Receipt) { r.Store = "" })
	if err != nil {
		t.Fatal(err)
	}
	a := adapter(t, fast(url))
	object := a.Parse(platform.Request{Header: n.Header, Body: n.Body}, noon()).Object
	if object.ID != "org1/202611//"+r.ID {
		t.Fatalf("object is %q", object.ID)
	}
	other := ref("org1/202611//other")
	got, err := a.Fetch(t.Context(), []models.ObjectRef{object, other})
	if err != nil || got[object].Absence != models.Present || got[other].Absence != models.Gone {
		t.Errorf("%q and %q, %v", got[object].Absence, got[other].Absence, err)
	}
}

func TestLogin(t *testing.T) {
	t.Parallel()
	p, url := shop(t)
	p.Token = ""
	r, _ := p.Issue(sandbox.Receipt{})
	refs := []models.ObjectRef{ref(r.Path())}
	cfg := fast(url)
	cfg.APIToken, cfg.UserName, cfg.Password = "", p.UserName, p.Password
	now := noon()
	cfg.Now = func() time.Time { return now }
	a := adapter(t, cfg)
	for _, step := range []struct {
		name   string
		do     func()
		logins int
	}{
		{"first call", func() {}, 1},
		{"token is kept", func() {}, 1},
		{"platform ended it", p.RevokeTokens, 2},
		{"shortly before its end", func() { now = noon().Add(24*time.Hour - time.Minute) }, 3},
	} {
		step.do()
		if _, err := a.Fetch(t.Context(), refs); err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		if p.Logins() != step.logins {
			t.Errorf("%s: %d logins, want %d", step.name, p.Logins(), step.logins)
		}
	}
}

// Many callers without a token make one login.
func TestOneLoginForMany(t *testing.T) {
	t.Parallel()
	p, url := shop(t)
	cfg := fast(url)
	cfg.APIToken, cfg.UserName, cfg.Password = "", p.UserName, p.Password
	a := adapter(t, cfg)
	done := make(chan error)
	for range 16 {
		go func() {
			_, err := a.Check(t.Context())
			done <- err
		}()
	}
	for range 16 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if p.Logins() != 1 {
		t.Errorf("%d logins", p.Logins())
	}
}

func TestLoginAnswers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		status int
		body   string
		denied bool
	}{
		{400, `{"type":"x","title":"y","status":400}`, true},
		{401, `{"error":"no","status":401}`, true},
		{404, ``, false},
		{200, `{}`, false},
		{200, `{"token":{}}`, false},
		{200, `<html>`, false},
	} {
		cfg := fast(answers(t, c.status, c.body))
		cfg.APIToken, cfg.UserName, cfg.Password = "", "u", "p"
		_, err := adapter(t, cfg).Check(t.Context())
		out, ok := err.(*platform.Outage)
		if !ok || out.Denied != c.denied {
			t.Errorf("%d %s: %v; want an outage, denied %v", c.status, c.body, err, c.denied)
		}
	}
}

// A login whose end has passed by our clock is used until it is turned away.
func TestLoginEndsInThePast(t *testing.T) {
	t.Parallel()
	logins := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/account/login" {
			logins++
			fmt.Fprint(w, `{"token":"t","expire":"2020-01-01T00:00:00.000Z"}`)
			return
		}
		fmt.Fprint(w, `[{"id":"org1"}]`)
	}))
	t.Cleanup(server.Close)
	cfg := fast(server.URL)
	cfg.APIToken, cfg.UserName, cfg.Password = "", "u", "p"
	a := adapter(t, cfg)
	for range 3 {
		if _, err := a.Check(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if logins != 1 {
		t.Errorf("%d logins", logins)
	}
}

func TestCheckNamesTheOrganization(t *testing.T) {
	t.Parallel()
	for body, warn := range map[string]bool{`[{"id":"org1","name":"A"}]`: false, `[{"id":"other"}]`: true, `[]`: true, `[{"id":1},null,"x",{"id":"org1"}]`: false} {
		notes, err := adapter(t, fast(answers(t, 200, body))).Check(t.Context())
		if err != nil || len(notes) != 1 || notes[0].Warn != warn {
			t.Errorf("%s: %+v, %v", body, notes, err)
		}
	}
}

func TestChanged(t *testing.T) {
	t.Parallel()
	p, url := shop(t)
	want := map[string]bool{}
	for _, ago := range []int{0, 0, 2, 3} {
		r, _ := p.Issue(sandbox.Receipt{Placed: noon().AddDate(0, -ago, 0)})
		if ago < 3 {
			want[r.Path()] = true
		}
	}
	for range 1100 {
		r, _ := p.Issue(sandbox.Receipt{Placed: noon().AddDate(0, -1, 0)})
		want[r.Path()] = true
	}
	a := adapter(t, fast(url))
	w := platform.Window{Since: noon().AddDate(0, -2, 0), Until: noon()}
	pages := 0
	for {
		b, err := a.Changed(t.Context(), w)
		if err != nil {
			t.Fatal(err)
		}
		pages++
		for i, o := range b.Observations {
			if o.Ref != b.Refs[i] || o.Basis != models.Official || o.Axes[models.Payment].State != models.PaymentPaid {
				t.Errorf("listed: %+v", o.Ref)
			}
			delete(want, o.Ref.ID)
		}
		if w.Cursor = b.Next; w.Cursor == "" {
			break
		}
	}
	if len(want) != 0 || pages != 4 {
		t.Errorf("%d not listed after %d pages, want none after 4", len(want), pages)
	}
}

func TestChangedEdges(t *testing.T) {
	t.Parallel()
	november := platform.Window{Since: noon(), Until: noon()}
	for _, c := range []struct {
		name   string
		body   string
		status int
		w      platform.Window
		found  int
		next   string
		fails  bool
	}{
		{"404 is an empty month", `{"error":"none"}`, 404, november, 0, "", false},
		{"empty month", `{"items":[],"totalItems":0,"totalPages":0}`, 200, november, 0, "", false},
		{"empty values left out", `{"totalItems":"0"}`, 200, november, 0, "", false},
		{"items gone", `{"stores":{}}`, 200, november, 0, "", true},
		{"items null", `{"items":null}`, 200, november, 0, "", true},
		{"items of another type", `{"items":{}}`, 200, november, 0, "", true},
		{"an item without id", `{"items":[{"receipt":{}}]}`, 200, november, 0, "", true},
		{"an item that isn't one", `{"items":[7]}`, 200, november, 0, "", true},
		{"refused", `{"error":"bad"}`, 400, november, 0, "", true},
		{"pages as text", `{"items":[{"receipt":{"receiptId":7}}],"totalPages":"3"}`, 200, november, 1, "202611:2", false},
		{"pages unknown", `{"items":[{"receipt":{"receiptId":"r"}}]}`, 200, november, 1, "", false},
		{"no beginning: two months", `{"items":[]}`, 200, platform.Window{Until: noon()}, 0, "202611:1", false},
		{"no end: until now", `{"items":[]}`, 200, platform.Window{Since: noon()}, 0, "", false},
		{"the month of Tokyo", `{"items":[]}`, 200, platform.Window{Since: time.Date(2026, 10, 31, 15, 0, 0, 0, time.UTC), Until: noon()}, 0, "", false},
		{"the month before in Tokyo", `{"items":[]}`, 200, platform.Window{Since: time.Date(2026, 10, 31, 14, 59, 0, 0, time.UTC), Until: noon()}, 0, "202611:1", false},
		{"backwards", `{"items":[]}`, 200, platform.Window{Since: noon(), Until: noon().AddDate(0, -2, 0)}, 0, "", false},
		{"a spoilt cursor", `{"items":[]}`, 200, platform.Window{Since: noon(), Until: noon(), Cursor: "x"}, 0, "", true},
		{"page 0", `{"items":[]}`, 200, platform.Window{Since: noon(), Until: noon(), Cursor: "202611:0"}, 0, "", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b, err := adapter(t, fast(answers(t, c.status, c.body))).Changed(t.Context(), c.w)
			if (err != nil) != c.fails || len(b.Observations) != c.found || b.Next != c.next {
				t.Errorf("%d found, next %q, %v; want %d, %q, fails %v", len(b.Observations), b.Next, err, c.found, c.next, c.fails)
			}
		})
	}
}

// A receipt that the platform files under another month than month_zone gives keeps
// the name that its events use, and the difference is told.
func TestMonthOfAnotherZone(t *testing.T) {
	t.Parallel()
	body := `{"items":[{"receipt":{"receiptId":"r","transactionType":1,"store":{"storeId":"s"},"terminalTransactionDateTime":"2026-10-31T16:00:00.000Z","paymentSummary":{"grandTotal":5}}}],"totalPages":1}`
	w := platform.Window{Since: noon().AddDate(0, -1, 0), Until: noon().AddDate(0, -1, 0)}
	b, err := adapter(t, fast(answers(t, 200, body))).Changed(t.Context(), w)
	if err != nil || len(b.Observations) != 1 {
		t.Fatal(len(b.Observations), err)
	}
	o := b.Observations[0]
	if o.Ref.ID != "org1/202611/s/r" || len(o.Faults) != 1 || o.Faults[0].Kind != models.Contradiction {
		t.Errorf("ref %q, faults %+v", o.Ref.ID, o.Faults)
	}
}

func TestFetchAnswers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, body string
		status     int
		absence    models.Absence
	}{
		{"malformed", `{"error":"bad"}`, 400, models.Unreadable},
		{"unprocessable", `{}`, 422, models.Unreadable},
		{"gone", `{"error":"no"}`, 404, models.Gone},
		{"another one", `{"receipt":{"receiptId":"other"}}`, 200, models.Unreadable},
		{"the same in capitals", `{"receipt":{"receiptId":"R"}}`, 200, models.Present},
		{"of another shape", `[]`, 200, models.Present},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := ref("org1/202611/s/r")
			got, err := adapter(t, fast(answers(t, c.status, c.body))).Fetch(t.Context(), []models.ObjectRef{r})
			if err != nil || got[r].Absence != c.absence {
				t.Errorf("%q, %v; want %q", got[r].Absence, err, c.absence)
			}
		})
	}
}

func TestReferences(t *testing.T) {
	t.Parallel()
	a := adapter(t, fast("http://127.0.0.1:1"))
	for _, id := range []string{"", "r", "a/b/c", "a/202613/s/r", "a/2026-1/s/r", "a/202611/s/", "/202611/s/r", "a/202611/s/r/x", "../202611/s/r", "a/202611/../r", "a/202611/s/.", "a/202611/s/\x00"} {
		r := models.ObjectRef{Account: org, Kind: "receipt", ID: id}
		got, err := a.Fetch(t.Context(), []models.ObjectRef{r})
		if err != nil || got[r].Absence != models.Unreadable {
			t.Errorf("%q: %q, %v", id, got[r].Absence, err)
		}
	}
}

// The address of a receipt is escaped part by part.
func TestOddIDs(t *testing.T) {
	t.Parallel()
	p, url := shop(t)
	r, _ := p.Issue(sandbox.Receipt{ID: "r ü?x=1&y#z%2f", Store: "店 1"})
	want := ref(r.Path())
	got, err := adapter(t, fast(url)).Fetch(t.Context(), []models.ObjectRef{want})
	if err != nil || got[want].Absence != models.Present {
		t.Errorf("%q, %v", got[want].Absence, err)
	}
}

func fetchBody(t *testing.T, set map[string]string, receipt map[string]any) models.Observation {
	t.Helper()
	body, err := json.Marshal(receipt)
	if err != nil {
		t.Fatal(err)
	}
	cfg := fast(answers(t, 200, string(body)))
	for k, v := range set {
		cfg.Settings[k] = v
	}
	r := ref("org1/202611/s/r")
	got, err := adapter(t, cfg).Fetch(t.Context(), []models.ObjectRef{r})
	if err != nil {
		t.Fatal(err)
	}
	return got[r]
}

func TestReading(t *testing.T) {
	t.Parallel()
	type m = map[string]any
	paid := map[models.Axis]models.State{models.Payment: models.PaymentPaid, models.Fulfillment: models.FulfillmentFulfilled}
	back := map[models.Axis]models.State{models.Payment: models.Review, models.Return: models.ReturnReceived}
	unclear := map[models.Axis]models.State{models.Payment: models.Review, models.Fulfillment: ""}
	for _, c := range []struct {
		name    string
		kind    any
		total   any
		more    m // of paymentSummary
		zone    string
		current string
		axes    map[models.Axis]models.State
		amount  int64 // -1: not stated
		fault   models.ExceptionKind
		path    string
	}{
		{name: "a sale", kind: 1, total: 1280, axes: paid, amount: 1280},
		{name: "a sale of old", kind: 0, total: 0, axes: paid, amount: 0},
		{name: "numbers as text", kind: "1", total: "1280.00", axes: paid, amount: 1280},
		{name: "a number with decimals", kind: json.Number("1.0"), total: json.Number("12.5"), current: "HKD", axes: paid, amount: 1250},
		{name: "a return", kind: 2, total: 500, axes: back, amount: -1, fault: models.Contradiction, path: "receipt.transactionType"},
		{name: "a return below nothing", kind: 2, total: -500, axes: back, amount: -1, fault: models.Contradiction, path: "receipt.transactionType"},
		{name: "an unknown type", kind: 7, total: 500, axes: unclear, amount: -1, fault: models.UnknownStatus, path: "receipt.transactionType"},
		{name: "type gone", total: 500, axes: unclear, amount: -1, fault: models.SchemaChanged, path: "receipt.transactionType"},
		{name: "type of another type", kind: m{"code": 1}, total: 500, axes: unclear, amount: -1, fault: models.SchemaChanged, path: "receipt.transactionType"},
		{name: "type as a word", kind: "sale", total: 500, axes: unclear, amount: -1, fault: models.SchemaChanged, path: "receipt.transactionType"},
		{name: "total gone", kind: 1, axes: paid, amount: -1, fault: models.SchemaChanged, path: "receipt.paymentSummary.grandTotal"},
		{name: "total of another type", kind: 1, total: m{}, axes: paid, amount: -1, fault: models.SchemaChanged, path: "receipt.paymentSummary.grandTotal"},
		{name: "total true", kind: 1, total: true, axes: paid, amount: -1, fault: models.SchemaChanged, path: "receipt.paymentSummary.grandTotal"},
		{name: "total that isn't of the currency", kind: 1, total: "12.5", axes: paid, amount: -1, fault: models.SchemaChanged, path: "receipt.paymentSummary.grandTotal"},
		{name: "total too large", kind: 1, total: strings.Repeat("9", 40), axes: paid, amount: -1, fault: models.SchemaChanged, path: "receipt.paymentSummary.grandTotal"},
		{name: "a sale below nothing", kind: 1, total: -5, axes: map[models.Axis]models.State{models.Payment: models.Review, models.Fulfillment: models.FulfillmentFulfilled}, amount: -1, fault: models.Contradiction, path: "receipt.paymentSummary.grandTotal"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			receipt := m{"receiptId": "r", "paymentSummary": m{}, "coupon": []any{m{"couponName": "x"}}, "cancelType": 0, "surprise": m{"a": []any{1}}}
			if c.kind != nil {
				receipt["transactionType"] = c.kind
			}
			if c.total != nil {
				receipt["paymentSummary"] = m{"grandTotal": c.total}
			}
			set := map[string]string{}
			if c.current != "" {
				set["currency"] = c.current
			}
			o := fetchBody(t, set, m{"receipt": receipt})
			if len(o.Axes) != len(c.axes) {
				t.Errorf("states %d axes, want %d", len(o.Axes), len(c.axes))
			}
			for axis, want := range c.axes {
				if got, ok := o.Axes[axis]; !ok || got.State != want {
					t.Errorf("%s is %q, want %q", axis, got.State, want)
				}
			}
			if stated := o.Amounts != nil; stated != (c.amount >= 0) || stated && (o.Amounts.Total != c.amount || o.Amounts.Received != c.amount || o.Amounts.Refunded != 0) {
				t.Errorf("amounts %+v, want %d", o.Amounts, c.amount)
			}
			switch {
			case c.fault == "" && len(o.Faults) > 0:
				t.Errorf("faults %+v", o.Faults)
			case c.fault != "" && (len(o.Faults) != 1 || o.Faults[0].Kind != c.fault || o.Faults[0].Path != c.path):
				t.Errorf("faults %+v, want %s at %s", o.Faults, c.fault, c.path)
			}
		})
	}
}

func TestDetails(t *testing.T) {
	t.Parallel()
	type m = map[string]any
	for _, spelt := range []string{"despoitMethod", "depositMethod"} {
		o := fetchBody(t, nil, m{"receipt": m{"receiptId": "r", "transactionId": 17, "terminalTransactionId": "T-1", "transactionType": 1, "timestamp": "x",
			"terminalTransactionDateTime": "2026-11-15 12:00:00 +09:00", "coupon": m{"couponName": "x"}, "customer": m{"customerName": "Somebody", "destinationEmail": "a@b.example"},
			"paymentSummary": m{"grandTotal": 5, spelt: "1"}}, "itemDetailLines": []any{m{"quantity": "2"}, m{"quantity": 3}}})
		if o.Number != "T-1" || !o.Placed.Equal(noon()) || !o.Store || o.Channel != "pos" || o.Items == nil || o.Items.Ordered != 5 || o.Items.Shipped != 5 {
			t.Errorf("number %q, placed %v, items %+v", o.Number, o.Placed, o.Items)
		}
		if len(o.Refs) != 2 || o.Refs[0] != "r" || o.Refs[1] != "17" {
			t.Errorf("refs %q", o.Refs)
		}
		if len(o.Parts) != 1 || o.Parts[0].Note != "depositMethod 1" || !o.Parts[0].Counts {
			t.Errorf("%s: parts %+v", spelt, o.Parts)
		}
		if text, _ := json.Marshal(o); strings.Contains(string(text), "Somebody") || strings.Contains(string(text), "example") {
			t.Error("the observation carries a person")
		}
	}
	for _, lines := range []any{nil, "x", []any{}, []any{m{"quantity": "0.5"}}, []any{m{}}, []any{m{"quantity": -1}}, []any{7}} {
		if o := fetchBody(t, nil, m{"receipt": m{"receiptId": "r", "transactionType": 1, "paymentSummary": m{"grandTotal": 5}}, "itemDetailLines": lines}); o.Items != nil {
			t.Errorf("%v: items %+v", lines, o.Items)
		}
	}
}
