package sandbox

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// A ReceiptRoller is the platform of one organization: its REST API, and the
// notifications that it signs. Its fields are set before the first use. All methods
// may be called at once.
type ReceiptRoller struct {
	*Switches
	Outbox *Outbox // sends what Put is given; the methods here only sign

	Organization string
	Secret       string // signs notifications
	UserName     string
	Password     string
	Token        string         // always accepted, beside those that a login gives; empty: none
	Zone         *time.Location // in which months are counted
	// Bare notifications name the receipt without carrying it.
	Bare bool

	now      func() time.Time
	calls    atomic.Int64
	mu       sync.Mutex
	receipts []*Receipt
	tokens   map[string]time.Time // until when each is accepted
	logins   int
	events   int
}

// A Receipt is one receipt as the shop's terminal made it. Amounts are whole units
// of the currency.
type Receipt struct {
	ID       string
	Number   string // the terminal's own
	Store    string
	Terminal string
	Type     int // transactionType: 0 or 1 a sale, 2 a return
	Placed   time.Time
	Made     time.Time
	Lines    []ReceiptLine
	Version  int64

	organization string
	month        string
	serial       int
}

// A ReceiptLine is one line of a receipt.
type ReceiptLine struct {
	Product  string
	Price    int64
	Quantity int64
}

// Total is what the receipt's lines come to.
func (r Receipt) Total() int64 {
	var sum int64
	for _, l := range r.Lines {
		sum += l.Price * l.Quantity
	}
	return sum
}

// copied is a receipt that later changes don't reach.
func (r Receipt) copied() Receipt {
	r.Lines = slices.Clone(r.Lines)
	return r
}

// Path is the receipt's reference: organization, month, store and id.
func (r Receipt) Path() string {
	return r.organization + "/" + r.month + "/" + r.Store + "/" + r.ID
}

// NewReceiptRoller makes the platform of an organization with a fixed login and
// token. now is its clock.
func NewReceiptRoller(organization, secret string, now func() time.Time) *ReceiptRoller {
	s := &Switches{}
	return &ReceiptRoller{
		Switches: s, Outbox: &Outbox{Switches: s},
		Organization: organization, Secret: secret,
		UserName: "console@shop.example", Password: "sandbox-password", Token: "sandbox-token",
		Zone: time.FixedZone("Asia/Tokyo", 9*60*60), now: now, tokens: map[string]time.Time{},
	}
}

// Calls is how many calls of the API were made.
func (p *ReceiptRoller) Calls() int64 { return p.calls.Load() }

// Logins is how many of them fetched a token.
func (p *ReceiptRoller) Logins() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.logins
}

// RevokeTokens ends every token that a login gave.
func (p *ReceiptRoller) RevokeTokens() {
	p.mu.Lock()
	defer p.mu.Unlock()
	clear(p.tokens)
}

// Issue makes a receipt and its notification. What sale leaves empty is filled in:
// store, terminal, type 1, the time, one line.
func (p *ReceiptRoller) Issue(sale Receipt) (Receipt, Notification) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.add(sale)
	return r.copied(), p.notify("receipt.issued", r.Version, p.carry(*r, nil))
}

// Return makes a receipt of type 2 over the lines of an earlier one. Nothing in it
// names the sale.
func (p *ReceiptRoller) Return(id string) (Receipt, Notification, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	sale, err := p.find(id)
	if err != nil {
		return Receipt{}, Notification{}, err
	}
	r := p.add(Receipt{Store: sale.Store, Terminal: sale.Terminal, Type: 2, Lines: sale.Lines})
	return r.copied(), p.notify("receipt.issued", r.Version, p.carry(*r, nil)), nil
}

// Refund tells of a refund; amount 0 is the whole receipt, without an amount. The
// API states nothing of it.
func (p *ReceiptRoller) Refund(id string, amount int64) (Notification, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r, err := p.find(id)
	if err != nil {
		return Notification{}, err
	}
	r.Version++
	more := map[string]any{}
	if amount > 0 {
		more["refundedAmount"] = amount
	}
	return p.notify("receipt.refunded", r.Version, p.carry(*r, more)), nil
}

// ChangeReceipt edits a receipt in place and issues it again. Drop the notification
// to have a change that nobody was told of.
func (p *ReceiptRoller) ChangeReceipt(id string, change func(*Receipt)) (Receipt, Notification, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r, err := p.find(id)
	if err != nil {
		return Receipt{}, Notification{}, err
	}
	change(r)
	r.Version++
	return r.copied(), p.notify("receipt.issued", r.Version, p.carry(*r, nil)), nil
}

// ProductUpdated tells of a changed product.
func (p *ReceiptRoller) ProductUpdated(product string) Notification {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.notify("product.updated", 0, map[string]any{"product_id": product})
}

// InventoryChanged tells of a product's stock.
func (p *ReceiptRoller) InventoryChanged(product string, quantity int64) Notification {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.notify("inventory.changed", 0, map[string]any{"product_id": product, "quantity": quantity})
}

// Again signs a notification anew, as each try of the platform does: same event,
// same bytes, another time stamp.
func (p *ReceiptRoller) Again(n Notification) Notification {
	return p.sign(n.Topic, n.Header.Get("X-RR-Event-Id"), n.Body, p.now())
}

// Sign signs any body at any time, for what a real platform wouldn't send.
func (p *ReceiptRoller) Sign(topic, eventID string, body []byte, at time.Time) Notification {
	return p.sign(topic, eventID, body, at)
}

func (p *ReceiptRoller) find(id string) (*Receipt, error) {
	for _, r := range p.receipts {
		if r.ID == id {
			return r, nil
		}
	}
	return nil, fmt.Errorf("sandbox: no receipt %s", id)
}

// add files a receipt under the month of its sale.
func (p *ReceiptRoller) add(sale Receipt) *Receipt {
	r := sale.copied()
	r.serial = len(p.receipts) + 1
	r.organization = p.Organization
	if r.ID == "" {
		r.ID = fmt.Sprintf("rcp%06d", r.serial)
	}
	if r.Number == "" {
		r.Number = fmt.Sprintf("T1-%06d", r.serial)
	}
	if r.Store == "" {
		r.Store = "store1"
	}
	if r.Terminal == "" {
		r.Terminal = "terminal1"
	}
	if r.Type == 0 {
		r.Type = 1
	}
	if r.Placed.IsZero() {
		r.Placed = p.now()
	}
	if r.Made.IsZero() {
		r.Made = p.now()
	}
	if len(r.Lines) == 0 {
		r.Lines = []ReceiptLine{{Product: "tea", Price: 640, Quantity: 2}}
	}
	r.Version = 1
	r.month = r.Placed.In(p.Zone).Format("200601")
	p.receipts = append(p.receipts, &r)
	return &r
}

// carry is what a notification says of a receipt: all of it, or where it is.
func (p *ReceiptRoller) carry(r Receipt, more map[string]any) map[string]any {
	data := map[string]any{}
	if p.Bare {
		data = map[string]any{"organizationId": r.organization, "storeId": r.Store, "receiptId": r.ID, "terminalTransactionDateTime": stamp(r.Placed)}
	} else {
		for k, v := range p.reply(r) {
			data[k] = v
		}
	}
	for k, v := range more {
		data[k] = v
	}
	return data
}

func (p *ReceiptRoller) notify(topic string, version int64, data map[string]any) Notification {
	p.events++
	id := fmt.Sprintf("evt_%s_%06d", p.Organization, p.events)
	at := p.now()
	event := map[string]any{"event_id": id, "type": topic, "occurred_at": stamp(at), "data": data}
	if version > 0 {
		event["version"] = version
	}
	return p.sign(topic, id, encode(event), at)
}

func (p *ReceiptRoller) sign(topic, id string, body []byte, at time.Time) Notification {
	seconds := strconv.FormatInt(at.Unix(), 10)
	mac := hmac.New(sha256.New, []byte(p.Secret))
	mac.Write([]byte(seconds + "."))
	mac.Write(body)
	h := http.Header{}
	h.Set("Content-Type", "application/json")
	h.Set("X-RR-Event-Id", id)
	h.Set("X-RR-Timestamp", seconds)
	h.Set("X-RR-Signature", hex.EncodeToString(mac.Sum(nil)))
	return Notification{Topic: topic, Header: h, Body: body}
}

// stamp writes a time as the API does.
func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// encode writes plain maps, which always succeed.
func encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		return []byte("null")
	}
	return b
}

// Handler is the platform's API, with the switches in front.
func (p *ReceiptRoller) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /account/login", p.login)
	mux.HandleFunc("GET /account/me", p.known(func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusOK, map[string]any{"id": "user1", "userName": p.UserName, "email": p.UserName})
	}))
	mux.HandleFunc("GET /account/organizations", p.known(func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusOK, []any{map[string]any{"id": p.Organization, "name": "Sandbox shop"}})
	}))
	mux.HandleFunc("POST /{org}/receipts", p.known(p.list))
	mux.HandleFunc("GET /{org}/{month}/{store}/receipt/{id}", p.known(p.one))
	throttled := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusTooManyRequests, map[string]any{"error": "Too many requests.", "status": http.StatusTooManyRequests})
	})
	return p.Guard(&p.calls, throttled, mux)
}

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(encode(v)) // the caller has gone if this fails
}

// login gives a token until the time that is asked for, an hour by default.
func (p *ReceiptRoller) login(w http.ResponseWriter, r *http.Request) {
	var in struct {
		UserName, Password string
		Expire             *time.Time
	}
	if json.NewDecoder(r.Body).Decode(&in) != nil {
		answer(w, http.StatusBadRequest, map[string]any{"error": "The request can't be read.", "status": http.StatusBadRequest})
		return
	}
	if in.UserName != p.UserName || in.Password != p.Password {
		answer(w, http.StatusUnauthorized, map[string]any{"error": "Wrong user name or password.", "status": http.StatusUnauthorized})
		return
	}
	expire := p.now().Add(time.Hour)
	if in.Expire != nil {
		expire = *in.Expire
	}
	p.mu.Lock()
	p.logins++
	token := fmt.Sprintf("login-%d", p.logins)
	p.tokens[token] = expire
	p.mu.Unlock()
	answer(w, http.StatusOK, map[string]any{"token": token, "expire": stamp(expire)})
}

// known lets in whoever holds a token, and only to this organization.
func (p *ReceiptRoller) known(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		p.mu.Lock()
		until, fetched := p.tokens[token]
		p.mu.Unlock()
		fixed := p.Token != "" && token == p.Token
		org := r.PathValue("org")
		switch {
		case !fixed && !(fetched && p.now().Before(until)):
			answer(w, http.StatusUnauthorized, map[string]any{"error": "Unauthorized.", "status": http.StatusUnauthorized})
		case org != "" && org != p.Organization:
			answer(w, http.StatusForbidden, map[string]any{"error": "No access to this organization."})
		default:
			next(w, r)
		}
	}
}

// list answers one month, its only filter by date.
func (p *ReceiptRoller) list(w http.ResponseWriter, r *http.Request) {
	var in struct {
		StoreID, TerminalID, Sort              string
		Year, Month, CurrentPage, ItemsPerPage int
	}
	if json.NewDecoder(r.Body).Decode(&in) != nil || in.Sort != "" && in.Sort != "transactionId asc" && in.Sort != "transactionId desc" {
		answer(w, http.StatusBadRequest, map[string]any{"error": "The request can't be read."})
		return
	}
	size := min(in.ItemsPerPage, 1000)
	if size <= 0 {
		size = 1000
	}
	page := max(in.CurrentPage, 1)
	month := fmt.Sprintf("%04d%02d", in.Year, in.Month)
	p.mu.Lock()
	var found []map[string]any
	for _, rc := range p.receipts {
		if rc.month == month && (in.StoreID == "" || in.StoreID == rc.Store) && (in.TerminalID == "" || in.TerminalID == rc.Terminal) {
			found = append(found, p.reply(*rc))
		}
	}
	p.mu.Unlock()
	if len(found) == 0 {
		answer(w, http.StatusNotFound, map[string]any{"error": "No receipts."})
		return
	}
	if in.Sort == "transactionId desc" {
		slices.Reverse(found)
	}
	from := min((page-1)*size, len(found))
	answer(w, http.StatusOK, map[string]any{
		"items": found[from:min(from+size, len(found))], "currentPage": page, "itemsPerPage": size,
		"totalItems": len(found), "totalPages": (len(found) + size - 1) / size, "keyword": "", "sort": in.Sort,
	})
}

// one answers a single receipt; all four parts of its address must fit.
func (p *ReceiptRoller) one(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	rc, err := p.find(r.PathValue("id"))
	var reply map[string]any
	if err == nil && rc.month == r.PathValue("month") && rc.Store == r.PathValue("store") {
		reply = p.reply(*rc)
	}
	p.mu.Unlock()
	if reply == nil {
		answer(w, http.StatusNotFound, map[string]any{"error": "Not found."})
		return
	}
	answer(w, http.StatusOK, reply)
}

// reply is a receipt as the API shows it, with its spelling of some names, its
// numbers that are strings in lines, and without what is empty.
func (p *ReceiptRoller) reply(r Receipt) map[string]any {
	var lines []map[string]any
	for i, l := range r.Lines {
		lines = append(lines, map[string]any{
			"lineId": strconv.Itoa(i + 1), "itemType": 0, "salesType": 0, "productId": l.Product, "productName": l.Product,
			"price": strconv.FormatInt(l.Price, 10), "salesPrice": strconv.FormatInt(l.Price, 10), "quantity": strconv.FormatInt(l.Quantity, 10), "taxRate": "10%",
		})
	}
	return map[string]any{
		"receipt": map[string]any{
			"organizationId": r.organization, "receiptId": r.ID, "transactionId": fmt.Sprintf("%012d", r.serial),
			"transactionType": r.Type, "cancelType": 0, "terminalTransactionId": r.Number,
			"terminalTransactionDateTime": stamp(r.Placed), "timestamp": stamp(r.Made), "terminalId": r.Terminal,
			"roundingPosition": 0, "roundingMethod": 1,
			"store":          map[string]any{"storeId": r.Store, "storeCode": r.Store, "storeName": r.Store, "storeRegisgrationName": "Sandbox", "storeRegisgrationCode": "T0000000000000"},
			"staff":          map[string]any{"staffId": "staff1"},
			"coupon":         map[string]any{"couponName": "none", "couponPointsUsed": "0"},
			"paymentSummary": map[string]any{"grandTotal": r.Total(), "subTotal": r.Total(), "despoitMethod": 1, "deposit": r.Total(), "change": 0},
		},
		"itemDetailLines": lines,
		"subscriptions":   []any{map[string]any{"lineId": "1", "unitInCharge": "call", "maxCall": "1000", "called": 0, "isExipred": false, "exipireHandled": false}},
	}
}
