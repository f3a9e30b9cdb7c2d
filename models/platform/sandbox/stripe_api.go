package sandbox

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// stripePaths says where each kind of object is read. Read only.
var stripePaths = map[string]string{
	"payment_intent": "/v1/payment_intents", "charge": "/v1/charges", "refund": "/v1/refunds", "dispute": "/v1/disputes",
	"checkout.session": "/v1/checkout/sessions", "invoice": "/v1/invoices", "invoice_payment": "/v1/invoice_payments",
	"event": "/v1/events", "v2.core.event": "/v2/core/events",
}

// stripeFilters says which fields each list can be filtered by. Read only.
var stripeFilters = map[string][]string{
	"payment_intent": {"customer"}, "charge": {"customer", "payment_intent", "transfer_group"}, "refund": {"charge", "payment_intent"},
	"dispute": {"charge", "payment_intent"}, "checkout.session": {"customer", "payment_intent", "payment_link", "status", "subscription"},
	"invoice": {"customer", "status"}, "invoice_payment": {"invoice", "status"}, "event": {"type", "types[]", "delivery_success"},
}

// stripeExpand says which fields can be expanded. Read only.
var stripeExpand = map[string][]string{
	"payment_intent": {"latest_charge"}, "charge": {"payment_intent", "refunds"}, "refund": {"charge", "payment_intent"},
	"dispute": {"charge", "payment_intent"}, "checkout.session": {"payment_intent"}, "invoice_payment": {"invoice"},
}

func stripeFailure(w http.ResponseWriter, status int, kind, code, message, param string) {
	e := map[string]any{"type": kind, "message": message, "doc_url": "https://stripe.com/docs/error-codes/" + code}
	if code != "" {
		e["code"] = code
	}
	if param != "" {
		e["param"] = param
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(stripeJSON(map[string]any{"error": e}))
}

// serve answers one call.
func (p *Stripe) serve(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.requests++
	p.paths = append(p.paths, r.URL.RequestURI())
	version := r.Header.Get("Stripe-Version")
	if version == "" {
		version = StripeVersion
	}
	w.Header().Set("Request-Id", fmt.Sprintf("req_sandbox%06d", p.requests))
	w.Header().Set("Stripe-Version", version)
	if r.Header.Get("Authorization") != "Bearer "+p.Key {
		stripeFailure(w, http.StatusUnauthorized, "invalid_request_error", "", "Invalid API Key provided.", "")
		return
	}
	account, ok := p.caller(r.Header)
	if !ok {
		stripeFailure(w, http.StatusForbidden, "invalid_request_error", "account_invalid", "The provided key does not have access to this account.", "")
		return
	}
	for prefix, permission := range p.denied {
		if permission != "" && strings.HasPrefix(r.URL.Path, prefix) {
			stripeFailure(w, http.StatusForbidden, "invalid_request_error", "",
				"The provided key does not have the required permissions for this endpoint. Having the '"+permission+"' permission would allow this request to continue.", "")
			return
		}
	}
	if r.URL.Path == stripeEndpoints || strings.HasPrefix(r.URL.Path, stripeEndpoints+"/") {
		p.hooks(w, r)
		return
	}
	if r.Method != http.MethodGet {
		stripeFailure(w, http.StatusNotFound, "invalid_request_error", "", "The sandbox is read through the API, and changed through its methods.", "")
		return
	}
	for kind, path := range stripePaths {
		rest, found := strings.CutPrefix(r.URL.Path, path)
		switch {
		case !found:
		case rest == "" && kind != "v2.core.event":
			p.list(w, kind, account, version, r.URL.Query())
			return
		case strings.HasPrefix(rest, "/") && !strings.Contains(rest[1:], "/"):
			p.one(w, kind, account, version, rest[1:], r.URL.Query())
			return
		}
	}
	stripeFailure(w, http.StatusNotFound, "invalid_request_error", "", "Unrecognized request URL.", "")
}

// caller is the account that a call speaks for.
func (p *Stripe) caller(h http.Header) (string, bool) {
	account := h.Get("Stripe-Account")
	if c := h.Get("Stripe-Context"); c != "" {
		account = c[strings.LastIndex(c, "/")+1:]
	}
	if account == "" || account == p.Account {
		return p.Account, true
	}
	return account, p.accounts[account]
}

func (p *Stripe) one(w http.ResponseWriter, kind, account, version, id string, q url.Values) {
	o := p.objects[id]
	if o == nil || o.kind != kind || o.account != account {
		stripeFailure(w, http.StatusNotFound, "invalid_request_error", "resource_missing", "No such "+kind+": '"+id+"'", "id")
		return
	}
	if p.broken[id] {
		stripeFailure(w, http.StatusBadRequest, "invalid_request_error", "not_supported", "This object can't be read.", "")
		return
	}
	for key := range q {
		if key != "expand[]" {
			stripeUnknown(w, key)
			return
		}
	}
	body := p.render(o, version, true)
	for _, path := range q["expand[]"] {
		if !p.expand(body, kind, version, path) {
			stripeFailure(w, http.StatusBadRequest, "invalid_request_error", "", "This property cannot be expanded ("+path+").", "expand")
			return
		}
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(stripeJSON(body))
}

func stripeUnknown(w http.ResponseWriter, param string) {
	stripeFailure(w, http.StatusBadRequest, "invalid_request_error", "parameter_unknown", "Received unknown parameter: "+param, param)
}

// list answers newest first, as Stripe does.
func (p *Stripe) list(w http.ResponseWriter, kind, account, version string, q url.Values) {
	var expands []string
	limit, after, before := 10, "", ""
	var tests []func(o *stripeObject) bool
	for key, values := range q {
		v := values[0]
		switch {
		case key == "limit":
			n, err := strconv.Atoi(v)
			if err != nil || n < 1 || n > 100 {
				stripeFailure(w, http.StatusBadRequest, "invalid_request_error", "parameter_invalid_integer", "Invalid integer: "+v, key)
				return
			}
			limit = n
		case key == "starting_after":
			after = v
		case key == "ending_before":
			before = v
		case key == "expand[]":
			expands = values
		case strings.HasPrefix(key, "created"):
			n, err := strconv.ParseInt(v, 10, 64)
			if err != nil {
				stripeFailure(w, http.StatusBadRequest, "invalid_request_error", "parameter_invalid_integer", "Invalid integer: "+v, key)
				return
			}
			tests = append(tests, func(o *stripeObject) bool { return stripeCreated(key, o.created, n) })
		case key == "types[]" && len(values) > 20:
			stripeFailure(w, http.StatusBadRequest, "invalid_request_error", "", "At most 20 types.", key)
			return
		case !slices.Contains(stripeFilters[kind], key):
			stripeUnknown(w, key)
			return
		default:
			tests = append(tests, func(o *stripeObject) bool { return stripeMatches(o, key, values) })
		}
	}
	var found []*stripeObject
	for _, o := range slices.Backward(p.order) {
		if o.kind == kind && o.account == account && !slices.ContainsFunc(tests, func(test func(*stripeObject) bool) bool { return !test(o) }) {
			found = append(found, o)
		}
	}
	page, more, ok := stripePage(found, limit, after, before)
	if !ok {
		stripeFailure(w, http.StatusBadRequest, "invalid_request_error", "resource_missing", "No such "+kind+": '"+after+before+"'", "starting_after")
		return
	}
	data := make([]map[string]any, len(page))
	for i, o := range page {
		data[i] = p.render(o, version, true)
		for _, path := range expands {
			if inner, ok := strings.CutPrefix(path, "data."); !ok || !p.expand(data[i], kind, version, inner) {
				stripeFailure(w, http.StatusBadRequest, "invalid_request_error", "", "This property cannot be expanded ("+path+").", "expand")
				return
			}
		}
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(stripeJSON(map[string]any{"object": "list", "url": stripePaths[kind], "has_more": more, "data": data}))
}

// stripePage cuts a page out of what was found, newest first.
func stripePage(found []*stripeObject, limit int, after, before string) (page []*stripeObject, more, ok bool) {
	index := func(id string) int { return slices.IndexFunc(found, func(o *stripeObject) bool { return o.id == id }) }
	switch {
	case after != "":
		i := index(after)
		if i < 0 {
			return nil, false, false
		}
		found = found[i+1:]
	case before != "":
		i := index(before)
		if i < 0 {
			return nil, false, false
		}
		// The page that lies right before, so walking on goes from old to new.
		start := max(0, i-limit)
		return found[start:i], start > 0, true
	}
	return found[:min(limit, len(found))], len(found) > limit, true
}

func stripeCreated(key string, created, n int64) bool {
	switch key {
	case "created[gt]":
		return created > n
	case "created[gte]":
		return created >= n
	case "created[lt]":
		return created < n
	case "created[lte]":
		return created <= n
	}
	return created == n
}

func stripeMatches(o *stripeObject, key string, values []string) bool {
	if key == "delivery_success" {
		return (number(o, "pending_webhooks") == 0) == (values[0] == "true")
	}
	field, _ := o.fields[strings.TrimSuffix(key, "s[]")].(string)
	for _, v := range values {
		if field == v || strings.HasSuffix(v, "*") && strings.HasPrefix(field, strings.TrimSuffix(v, "*")) {
			return true
		}
	}
	return false
}

// expand replaces an id by its object, along a path; false where that can't be.
func (p *Stripe) expand(body map[string]any, kind, version, path string) bool {
	field, rest, deeper := strings.Cut(path, ".")
	if !slices.Contains(stripeExpand[kind], field) {
		return false
	}
	if kind == "charge" && field == "refunds" {
		body["refunds"] = p.refunds(fmt.Sprint(body["id"]), version)
		return !deeper
	}
	id, isID := body[field].(string)
	inner, _ := body[field].(map[string]any)
	if isID {
		if p.objects[id] == nil {
			return false
		}
		inner = p.render(p.objects[id], version, true)
		body[field] = inner
	}
	if inner == nil || !deeper {
		return true
	}
	return p.expand(inner, fmt.Sprint(inner["object"]), version, rest)
}

// refunds lists the ten newest refunds of a charge.
func (p *Stripe) refunds(charge, version string) map[string]any {
	data := []map[string]any{}
	more := false
	for _, o := range slices.Backward(p.order) {
		if o.kind != "refund" || o.fields["charge"] != charge {
			continue
		}
		if len(data) == 10 {
			more = true
			break
		}
		data = append(data, p.render(o, version, true))
	}
	return map[string]any{"object": "list", "url": "/v1/charges/" + charge + "/refunds", "has_more": more, "data": data}
}

// render shows an object in a version. asked tells a reading from an event's snapshot.
func (p *Stripe) render(o *stripeObject, version string, asked bool) map[string]any {
	body := maps.Clone(o.fields)
	if m, ok := body["metadata"].(map[string]string); ok {
		body["metadata"] = maps.Clone(m)
	}
	body["id"], body["object"], body["created"], body["livemode"] = o.id, o.kind, o.created, p.Live
	if o.kind == "v2.core.event" {
		body["created"] = time.Unix(o.created, 0).UTC().Format("2006-01-02T15:04:05.000Z")
	}
	charges := version < "2022-11-15"
	if o.kind == "charge" && charges {
		body["refunds"] = p.refunds(o.id, version)
	}
	if o.kind != "payment_intent" {
		return body
	}
	latest, _ := body["latest_charge"].(string)
	if asked && p.hidden[o.id] > 0 {
		p.hidden[o.id]--
		latest = ""
		body["latest_charge"] = nil
	}
	if charges {
		data := []map[string]any{}
		if latest != "" {
			data = append(data, p.render(p.objects[latest], version, asked))
		}
		delete(body, "latest_charge")
		body["charges"] = map[string]any{"object": "list", "data": data, "has_more": false, "total_count": len(data),
			"url": "/v1/charges?payment_intent=" + o.id}
	}
	return body
}
