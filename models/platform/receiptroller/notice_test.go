package receiptroller_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"counterfoil/models"
	"counterfoil/models/platform"
	"counterfoil/models/platform/receiptroller"
	"counterfoil/models/platform/sandbox"
)

// hash is HMAC-SHA256, written out so that tests don't lean on what they test.
func hash(key, text string) []byte {
	m := hmac.New(sha256.New, []byte(key))
	m.Write([]byte(text))
	return m.Sum(nil)
}

func TestSigningAsSet(t *testing.T) {
	t.Parallel()
	const body = `{"event_id":"e"}`
	s, ms := strconv.FormatInt(noon().Unix(), 10), strconv.FormatInt(noon().UnixMilli(), 10)
	for _, c := range []struct {
		name    string
		set     map[string]string
		headers map[string]string
		reason  platform.Reason // empty: accepted
	}{
		{"as assumed", nil, map[string]string{"X-RR-Signature": hex.EncodeToString(hash(secret, s+"."+body)), "X-RR-Timestamp": s}, ""},
		{"capitals", nil, map[string]string{"x-rr-signature": strings.ToUpper(hex.EncodeToString(hash(secret, s+"."+body))), "x-rr-timestamp": s}, ""},
		{"base64", map[string]string{"signature_encoding": "base64"}, map[string]string{"X-RR-Signature": base64.StdEncoding.EncodeToString(hash(secret, s+"."+body)), "X-RR-Timestamp": s}, ""},
		{"base64 without its end", map[string]string{"signature_encoding": "base64"}, map[string]string{"X-RR-Signature": base64.RawStdEncoding.EncodeToString(hash(secret, s+"."+body)), "X-RR-Timestamp": s}, ""},
		{"hex where base64 is set", map[string]string{"signature_encoding": "base64"}, map[string]string{"X-RR-Signature": hex.EncodeToString(hash(secret, s+"."+body)), "X-RR-Timestamp": s}, platform.SignatureMissing},
		{"prefix", map[string]string{"signature_prefix": "sha256="}, map[string]string{"X-RR-Signature": "sha256=" + hex.EncodeToString(hash(secret, s+"."+body)), "X-RR-Timestamp": s}, ""},
		{"prefix missing", map[string]string{"signature_prefix": "sha256="}, map[string]string{"X-RR-Signature": hex.EncodeToString(hash(secret, s+"."+body)), "X-RR-Timestamp": s}, platform.SignatureMissing},
		{"milliseconds", map[string]string{"timestamp_unit": "ms"}, map[string]string{"X-RR-Signature": hex.EncodeToString(hash(secret, ms+"."+body)), "X-RR-Timestamp": ms}, ""},
		{"seconds where milliseconds are set", map[string]string{"timestamp_unit": "ms"}, map[string]string{"X-RR-Signature": hex.EncodeToString(hash(secret, s+"."+body)), "X-RR-Timestamp": s}, platform.TimeOff},
		{"other headers", map[string]string{"signature_header": "X-Sig", "timestamp_header": "X-Time"}, map[string]string{"X-Sig": hex.EncodeToString(hash(secret, s+"."+body)), "X-Time": s}, ""},
		{"body first", map[string]string{"signed_payload": "v1:{body}:{timestamp};"}, map[string]string{"X-RR-Signature": hex.EncodeToString(hash(secret, "v1:"+body+":"+s+";")), "X-RR-Timestamp": s}, ""},
		{"body alone", map[string]string{"signed_payload": "{body}"}, map[string]string{"X-RR-Signature": hex.EncodeToString(hash(secret, body))}, ""},
		{"body alone, framed", map[string]string{"signed_payload": "a{body}b"}, map[string]string{"X-RR-Signature": hex.EncodeToString(hash(secret, "a"+body+"b"))}, ""},
		{"no time stamp", nil, map[string]string{"X-RR-Signature": hex.EncodeToString(hash(secret, "."+body))}, platform.TimeMissing},
		{"unreadable time stamp, signed", nil, map[string]string{"X-RR-Signature": hex.EncodeToString(hash(secret, "soon."+body)), "X-RR-Timestamp": "soon"}, platform.TimeMissing},
		{"unreadable time stamp, forged", nil, map[string]string{"X-RR-Signature": hex.EncodeToString(hash("x", "soon."+body)), "X-RR-Timestamp": "soon"}, platform.SignatureWrong},
		{"time stamp out of this world", nil, map[string]string{"X-RR-Signature": hex.EncodeToString(hash(secret, "9999999999999999."+body)), "X-RR-Timestamp": "9999999999999999"}, platform.TimeMissing},
		{"a day late", nil, map[string]string{"X-RR-Signature": hex.EncodeToString(hash(secret, strconv.FormatInt(noon().Unix()-86400, 10)+"."+body)), "X-RR-Timestamp": strconv.FormatInt(noon().Unix()-86400, 10)}, platform.TimeOff},
		{"a day late, by leave", map[string]string{"tolerance": "24h"}, map[string]string{"X-RR-Signature": hex.EncodeToString(hash(secret, strconv.FormatInt(noon().Unix()-86400, 10)+"."+body)), "X-RR-Timestamp": strconv.FormatInt(noon().Unix()-86400, 10)}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			a := adapter(t, platform.Config{Account: org, Webhook: []string{"old", secret}, Settings: c.set})
			h := http.Header{}
			for k, v := range c.headers {
				h.Set(k, v)
			}
			m, err := a.Verify(platform.Request{Header: h, Body: []byte(body)}, noon())
			if c.reason == "" {
				if err != nil || m.Secret != 1 {
					t.Errorf("%+v, %v", m, err)
				}
				return
			}
			no, ok := errors.AsType[*platform.Refusal](err)
			if !ok || no.Reason != c.reason {
				t.Errorf("%v, want %s", err, c.reason)
			}
		})
	}
}

func TestLikelyCause(t *testing.T) {
	t.Parallel()
	a := adapter(t, platform.Config{Account: org, Webhook: []string{secret}})
	_, n := sandbox.NewReceiptRoller(org, secret, noon).Issue(sandbox.Receipt{})
	for _, c := range []struct {
		name  string
		body  string
		cause platform.Cause
	}{
		{"written anew", strings.ReplaceAll(string(n.Body), `":`, `": `), platform.CauseReencoded},
		{"cut short", string(n.Body[:len(n.Body)-9]), platform.CauseCutShort},
		{"empty", "", platform.CauseCutShort},
		{"forged", strings.Replace(string(n.Body), "1280", "9280", 1), platform.CauseUnknown},
		{"nonsense", "}{", platform.CauseUnknown},
	} {
		_, err := a.Verify(platform.Request{Header: n.Header, Body: []byte(c.body)}, noon())
		no, ok := errors.AsType[*platform.Refusal](err)
		if !ok || no.Reason != platform.SignatureWrong || no.Cause != c.cause {
			t.Errorf("%s: %v, want cause %s", c.name, err, c.cause)
		}
	}
}

const whole = `"organizationId":"org1","storeId":"s","receiptId":"r","terminalTransactionDateTime":"2026-11-15T03:00:00.000Z"`

func TestNotice(t *testing.T) {
	t.Parallel()
	const id = "org1/202611/s/r"
	for _, c := range []struct {
		name, body string
		set        map[string]string
		header     string // X-RR-Event-Id
		topic      string
		object     string // id of the object, empty: none
		account    string
		known      bool
		anonymous  bool
		conflict   bool
		said       string // id of the reported observation's object, empty: none
		version    int64
	}{
		{name: "at the top", body: `{"event_id":"e","type":"receipt.issued","data":{` + whole + `}}`, topic: "receipt.issued", object: id, known: true, said: id},
		{name: "inside receipt", body: `{"event_id":"e","type":"receipt.issued","data":{"receipt":{` + whole + `}}}`, topic: "receipt.issued", object: id, known: true, said: id},
		{name: "store apart", body: `{"event_id":"e","type":"receipt.issued","data":{"receipt":{"receiptId":"r","store":{"storeId":"s"},"terminalTransactionDateTime":"2026-11-15T03:00:00Z"}}}`, topic: "receipt.issued", object: id, known: true, said: id},
		{name: "snake case", body: `{"event_id":"e","type":"receipt.issued","data":{"organization_id":"org1","store_id":"s","receipt_id":"r","terminal_transaction_date_time":"2026-11-15 12:00:00"}}`, topic: "receipt.issued", object: id, known: true, said: id},
		{name: "ids as numbers", body: `{"event_id":12,"type":"receipt.issued","data":{"storeId":3,"receiptId":4,"terminalTransactionDateTime":"2026-11-15T03:00:00Z"}}`, topic: "receipt.issued", object: "org1/202611/3/4", known: true, said: "org1/202611/3/4"},
		{name: "new year in Tokyo", body: `{"event_id":"e","type":"receipt.issued","data":{"storeId":"s","receiptId":"r","terminalTransactionDateTime":"2026-12-31T15:00:00Z"}}`, topic: "receipt.issued", object: "org1/202701/s/r", known: true, said: "org1/202701/s/r"},
		{name: "not yet in Taipei", set: map[string]string{"month_zone": "Asia/Taipei"}, body: `{"event_id":"e","type":"receipt.issued","data":{"storeId":"s","receiptId":"r","terminalTransactionDateTime":"2026-12-31T15:00:00Z"}}`, topic: "receipt.issued", object: "org1/202612/s/r", known: true, said: "org1/202612/s/r"},
		{name: "another organization", body: `{"event_id":"e","type":"receipt.issued","data":{"organizationId":"org2","storeId":"s","receiptId":"r","terminalTransactionDateTime":"2026-11-15T03:00:00Z"}}`, topic: "receipt.issued", object: "org2/202611/s/r", account: "org2", known: true, said: "org2/202611/s/r"},
		{name: "version", body: `{"event_id":"e","type":"receipt.issued","version":"7","data":{` + whole + `}}`, topic: "receipt.issued", object: id, known: true, said: id, version: 7},
		{name: "version in the data", body: `{"event_id":"e","type":"receipt.issued","data":{"version":8,` + whole + `}}`, topic: "receipt.issued", object: id, known: true, said: id, version: 8},
		{name: "no store", body: `{"event_id":"e","type":"receipt.issued","data":{"receiptId":"r","terminalTransactionDateTime":"2026-11-15T03:00:00Z"}}`, topic: "receipt.issued", known: true, said: "r"},
		{name: "no time", body: `{"event_id":"e","type":"receipt.refunded","data":{"receiptId":"r","storeId":"s"}}`, topic: "receipt.refunded", known: true, said: "r"},
		{name: "an empty time", body: `{"event_id":"e","type":"receipt.issued","data":{"receiptId":"r","storeId":"s","terminalTransactionDateTime":"0001-01-01T00:00:00"}}`, topic: "receipt.issued", known: true, said: "r"},
		{name: "a slash in an id", body: `{"event_id":"e","type":"receipt.issued","data":{"receiptId":"r","storeId":"s/../x","terminalTransactionDateTime":"2026-11-15T03:00:00Z"}}`, topic: "receipt.issued", known: true, said: "r"},
		{name: "nothing named", body: `{"event_id":"e","type":"receipt.issued"}`, topic: "receipt.issued"},
		{name: "event_type", body: `{"event_id":"e","event_type":"receipt.issued","data":{` + whole + `}}`, topic: "receipt.issued", object: id, known: true, said: id},
		{name: "event", body: `{"event_id":"e","event":"receipt.issued","data":{` + whole + `}}`, topic: "receipt.issued", object: id, known: true, said: id},
		{name: "type_field", set: map[string]string{"type_field": "kind"}, body: `{"event_id":"e","kind":"receipt.issued","type":"x","data":{` + whole + `}}`, topic: "receipt.issued", object: id, known: true, said: id},
		{name: "no data", body: `{"event_id":"e","type":"receipt.issued",` + whole + `}`, topic: "receipt.issued", object: id, known: true, said: id},
		{name: "header agrees", header: "e", body: `{"event_id":"e","type":"receipt.issued","data":{` + whole + `}}`, topic: "receipt.issued", object: id, known: true, said: id},
		{name: "header differs", header: "f", body: `{"event_id":"e","type":"receipt.issued","data":{` + whole + `}}`, topic: "receipt.issued", object: id, known: true, said: id, conflict: true},
		{name: "id in the header alone", header: "f", body: `{"type":"receipt.issued","data":{` + whole + `}}`, topic: "receipt.issued", object: id, known: true, said: id, anonymous: true},
		{name: "another receipt topic", body: `{"event_id":"e","type":"receipt.archived","data":{` + whole + `}}`, topic: "receipt.archived", object: id},
		{name: "unknown topic with a receipt", body: `{"event_id":"e","type":"loyalty.used","data":{` + whole + `}}`, topic: "loyalty.used", object: id},
		{name: "unknown topic without", body: `{"event_id":"e","type":"loyalty.used","data":{}}`, topic: "loyalty.used"},
		{name: "product", body: `{"event_id":"e","type":"product.created","data":{"product_id":"p",` + whole + `}}`, topic: "product.created", known: true},
		{name: "inventory by name", body: `{"event_id":"e","type":"inventory.updated","data":{}}`, topic: "inventory.updated", known: true},
		{name: "inventory by content", body: `{"event_id":"e","type":"stock","data":{"product_id":"p","quantity":3}}`, topic: "stock", known: true},
		{name: "no kind", body: `{"event_id":"e","data":{"product_id":"p","quantity":3}}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			a := adapter(t, platform.Config{Account: org, Settings: c.set})
			h := http.Header{}
			if c.header != "" {
				h.Set("X-RR-Event-Id", c.header)
			}
			n := a.Parse(platform.Request{Header: h, Body: []byte(c.body)}, noon())
			if n.Topic != c.topic || n.Known != c.known || n.Anonymous != c.anonymous || (n.Conflict != "") != c.conflict || n.Account != c.account || n.Version != c.version {
				t.Errorf("%+v", n)
			}
			if n.Object.ID != c.object || c.object != "" && (n.Object.Kind != "receipt" || n.Object.Account == "") || c.object == "" && n.Object != (models.ObjectRef{}) {
				t.Errorf("object %+v, want %q", n.Object, c.object)
			}
			if (n.Said != nil) != (c.said != "") || n.Said != nil && (n.Said.Ref.ID != c.said || n.Said.Basis != models.Reported) {
				t.Errorf("said %+v, want %q", n.Said, c.said)
			}
			if !n.Floor.IsZero() || n.Content != sha256.Sum256([]byte(c.body)) {
				t.Error("floor or content")
			}
		})
	}
}

func TestSaid(t *testing.T) {
	t.Parallel()
	type axes = map[models.Axis]models.State
	paid := axes{models.Payment: models.PaymentPaid, models.Fulfillment: models.FulfillmentFulfilled}
	amounts := func(total, received, refunded int64) *models.Amounts {
		return &models.Amounts{Currency: "JPY", Total: total, Received: received, Refunded: refunded}
	}
	for _, c := range []struct {
		name, topic, data string
		axes              axes
		amounts           *models.Amounts
		fault             models.ExceptionKind
	}{
		{"issued, bare", "receipt.issued", ``, paid, nil, ""},
		{"issued, with its total", "receipt.issued", `,"paymentSummary":{"grandTotal":"500"}`, paid, amounts(500, 500, 0), ""},
		{"issued, a sale", "receipt.issued", `,"transactionType":"1","grandTotal":500`, paid, amounts(500, 500, 0), ""},
		{"issued, a return", "receipt.issued", `,"transactionType":2,"grandTotal":500`, axes{models.Payment: models.Review, models.Return: models.ReturnReceived}, nil, models.Contradiction},
		{"issued, unknown type", "receipt.issued", `,"transactionType":9,"grandTotal":500`, axes{models.Payment: models.Review, models.Fulfillment: ""}, nil, models.UnknownStatus},
		{"issued, type unreadable", "receipt.issued", `,"transactionType":[]`, axes{models.Payment: models.Review, models.Fulfillment: ""}, nil, models.SchemaChanged},
		{"issued, total unreadable", "receipt.issued", `,"grandTotal":{}`, paid, nil, models.SchemaChanged},
		{"issued, below nothing", "receipt.issued", `,"grandTotal":-1`, axes{models.Payment: models.Review, models.Fulfillment: models.FulfillmentFulfilled}, nil, models.Contradiction},
		{"refunded, bare", "receipt.refunded", ``, axes{models.Refund: models.RefundFull}, nil, ""},
		{"refunded, with its total", "receipt.refunded", `,"grandTotal":500`, axes{models.Refund: models.RefundFull}, amounts(500, 500, 500), ""},
		{"refunded in part", "receipt.refunded", `,"grandTotal":500,"refundedAmount":"200"`, axes{models.Refund: models.RefundPartial}, amounts(500, 500, 200), ""},
		{"refunded in part, elsewhere", "receipt.refunded", `,"payment_summary":{"grand_total":500},"refund":{"refund_amount":200}`, axes{models.Refund: models.RefundPartial}, amounts(500, 500, 200), ""},
		{"refunded whole", "receipt.refunded", `,"grandTotal":500,"refundAmount":500`, axes{models.Refund: models.RefundFull}, amounts(500, 500, 500), ""},
		{"refunded, total unknown", "receipt.refunded", `,"refundAmount":500`, axes{models.Refund: models.RefundFull}, nil, ""},
		{"refunded, amount unreadable", "receipt.refunded", `,"grandTotal":500,"refundAmount":"half"`, axes{models.Refund: models.Review}, nil, models.SchemaChanged},
		{"refunded nothing", "receipt.refunded", `,"grandTotal":500,"refundAmount":0`, axes{models.Refund: models.Review}, nil, models.Contradiction},
		{"refunded, a sale", "receipt.refunded", `,"transactionType":1`, axes{models.Refund: models.RefundFull}, nil, ""},
		{"refunded, a return", "receipt.refunded", `,"transactionType":2,"grandTotal":5`, axes{models.Refund: models.RefundFull, models.Payment: models.Review, models.Return: models.ReturnReceived}, nil, models.Contradiction},
		{"another topic, a return", "receipt.archived", `,"transactionType":2`, axes{models.Payment: models.Review, models.Return: models.ReturnReceived}, nil, models.Contradiction},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			body := `{"event_id":"e","type":"` + c.topic + `","occurred_at":"2026-11-15T03:00:00.250Z","version":4,"data":{` + whole + c.data + `}}`
			o := adapter(t, platform.Config{Account: org}).Parse(platform.Request{Body: []byte(body)}, noon()).Said
			if o == nil {
				t.Fatal("nothing said")
			}
			at := noon().Add(250 * time.Millisecond)
			if !o.Changed.Equal(at) || o.Version != 4 || !o.Store || o.Channel != "pos" || len(o.Axes) != len(c.axes) {
				t.Errorf("%+v", o)
			}
			for axis, want := range c.axes {
				if got, ok := o.Axes[axis]; !ok || got.State != want || !got.At.Equal(at) {
					t.Errorf("%s is %+v, want %q", axis, got, want)
				}
			}
			if (o.Amounts == nil) != (c.amounts == nil) || o.Amounts != nil && *o.Amounts != *c.amounts {
				t.Errorf("amounts %+v, want %+v", o.Amounts, c.amounts)
			}
			if (len(o.Faults) > 0) != (c.fault != "") || c.fault != "" && o.Faults[0].Kind != c.fault {
				t.Errorf("faults %+v, want %q", o.Faults, c.fault)
			}
		})
	}
}

func TestSaidWithoutTime(t *testing.T) {
	t.Parallel()
	o := adapter(t, platform.Config{Account: org}).Parse(platform.Request{Body: []byte(`{"event_id":"e","type":"receipt.issued","data":{` + whole + `}}`)}, noon()).Said
	if len(o.Faults) != 1 || o.Faults[0].Path != "occurred_at" {
		t.Errorf("faults %+v", o.Faults)
	}
}

// What payloads report of one receipt comes to the same in every order.
func TestReportedOrder(t *testing.T) {
	t.Parallel()
	now := noon()
	p := sandbox.NewReceiptRoller(org, secret, func() time.Time { now = now.Add(time.Second); return now })
	a := adapter(t, platform.Config{Account: org})
	r, issued := p.Issue(sandbox.Receipt{})
	refunded, err := p.Refund(r.ID, 300)
	if err != nil {
		t.Fatal(err)
	}
	for name, order := range map[string][]sandbox.Notification{"in order": {issued, refunded}, "out of order": {refunded, issued}, "repeated": {refunded, issued, refunded, issued}} {
		var all *models.Observation
		for _, n := range order {
			merged := models.MergeSaid(all, *a.Parse(platform.Request{Header: n.Header, Body: n.Body}, noon()).Said)
			all = &merged
		}
		if all.Axes[models.Payment].State != models.PaymentPaid || all.Axes[models.Refund].State != models.RefundPartial || all.Axes[models.Fulfillment].State != models.FulfillmentFulfilled {
			t.Errorf("%s: %+v", name, all.Axes)
		}
		if all.Amounts == nil || all.Amounts.Refunded != 300 || all.Amounts.Received != 1280 {
			t.Errorf("%s: amounts %+v", name, all.Amounts)
		}
	}
}

func fuzzed(f *testing.F) *receiptroller.Adapter {
	f.Helper()
	a, err := receiptroller.New(platform.Config{Account: org, Webhook: []string{secret}})
	if err != nil {
		f.Fatal(err)
	}
	return a
}

// No request passes that the secret didn't sign.
func FuzzVerify(f *testing.F) {
	a := fuzzed(f)
	_, n := sandbox.NewReceiptRoller(org, secret, noon).Issue(sandbox.Receipt{})
	f.Add(n.Header.Get("X-RR-Signature"), n.Header.Get("X-RR-Timestamp"), n.Body)
	f.Add("", "", []byte(nil))
	f.Add(strings.Repeat("0", 64), "1", []byte("{}"))
	f.Fuzz(func(t *testing.T, signature, stamp string, body []byte) {
		h := http.Header{"X-Rr-Signature": {signature}, "X-Rr-Timestamp": {stamp}}
		_, err := a.Verify(platform.Request{Header: h, Body: body}, noon())
		if err == nil {
			if sum, bad := hex.DecodeString(strings.TrimSpace(signature)); bad != nil || !hmac.Equal(sum, hash(secret, stamp+"."+string(body))) {
				t.Error("accepted what the secret didn't sign")
			}
			return
		}
		if _, ok := errors.AsType[*platform.Refusal](err); !ok {
			t.Errorf("%T is no refusal", err)
		}
	})
}

// Whatever a body holds, a notice is well formed.
func FuzzParse(f *testing.F) {
	a := fuzzed(f)
	p := sandbox.NewReceiptRoller(org, secret, noon)
	_, n := p.Issue(sandbox.Receipt{})
	f.Add(n.Body)
	f.Add(p.ProductUpdated("p").Body)
	f.Add(p.InventoryChanged("p", 3).Body)
	f.Add([]byte(`{"event_id":"e","type":"receipt.refunded","data":{` + whole + `,"refundedAmount":-1,"transactionType":2}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		n := a.Parse(platform.Request{Body: body}, noon())
		if n.Anonymous != (n.EventID == "") {
			t.Error("anonymous with an id, or the other way round")
		}
		if !n.Object.Zero() && strings.Count(n.Object.ID, "/") != 3 {
			t.Errorf("object %q", n.Object.ID)
		}
		if n.Said == nil {
			return
		}
		if n.Said.Ref.Zero() || n.Said.Basis != models.Reported {
			t.Errorf("said of %+v", n.Said.Ref)
		}
		for axis, s := range n.Said.Axes {
			if s.State != "" && !axis.Has(s.State) {
				t.Errorf("%q is no state of %s", s.State, axis)
			}
		}
	})
}
