package sandbox

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// graphql answers one query, as the Admin API does: checked against the schema,
// priced before it runs, refused where the points don't suffice, with errors beside
// the data that could be read.
func (s *Shopify) graphql(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	served := r.PathValue("version")
	if !slices.Contains(s.serves, served) && served != "unstable" {
		served = s.serves[0]
	}
	w.Header().Set("X-Shopify-API-Version", served)
	if !s.knows(r.Header.Get("X-Shopify-Access-Token")) {
		shopJSON(w, http.StatusUnauthorized, map[string]any{"errors": "[API] Invalid API key or access token (unrecognized login or wrong password)"})
		return
	}
	var in struct {
		Query     string         `json:"query"`
		Variables map[string]any `json:"variables"`
	}
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<20)).Decode(&in); err != nil {
		shopJSON(w, http.StatusBadRequest, map[string]any{"errors": map[string]any{"query": "Required parameter missing or invalid"}})
		return
	}
	query, root, err := parseQuery(in.Query)
	if err != nil {
		shopJSON(w, http.StatusOK, map[string]any{"errors": []any{map[string]any{"message": "Parse error: " + err.Error()}}})
		return
	}
	e := &gqlRun{s: s, vars: in.Variables, version: served}
	e.check(query, root, []any{strings.ToLower(root)})
	if len(e.errors) > 0 {
		shopJSON(w, http.StatusOK, map[string]any{"errors": e.errors})
		return
	}
	requested := float64(e.price(query, root))
	s.refill()
	switch {
	case requested > s.largest:
		shopJSON(w, http.StatusOK, map[string]any{"errors": []any{map[string]any{
			"message":    fmt.Sprintf("Query cost is %v, which exceeds the single query max cost limit (%v).", requested, s.largest),
			"extensions": map[string]any{"code": "MAX_COST_EXCEEDED", "cost": requested, "maxCost": s.largest}}}})
		return
	case requested > s.points:
		s.writeThrottled(w, requested, s.points)
		return
	}
	data, ok := e.object(query, root, map[string]any{}, nil)
	actual := max(1, float64(e.spent))
	s.points -= min(actual, requested)
	ext := map[string]any{"cost": s.cost(requested, actual, s.points)}
	if len(e.search) > 0 {
		ext["search"] = e.search
	}
	out := map[string]any{"data": data, "extensions": ext}
	if !ok {
		out["data"] = nil
	}
	if len(e.errors) > 0 {
		out["errors"] = e.errors
	}
	shopJSON(w, http.StatusOK, out)
}

// allowed tells whether one of the scopes is granted.
func (s *Shopify) allowed(scopes string) bool {
	for _, scope := range strings.Split(scopes, "|") {
		if scope == "" || slices.Contains(s.cfg.Scopes, scope) || slices.Contains(s.cfg.Scopes, strings.Replace(scope, "read_", "write_", 1)) {
			return true
		}
	}
	return false
}

// A gqlRun is one query under way.
type gqlRun struct {
	s      *Shopify
	vars   map[string]any
	errors []any
	search []any
	spent  int
	// version that is spoken.
	version string
}

func (e *gqlRun) arg(f *gqlField, name string) any {
	if v, ok := f.args[name].(gqlVar); ok {
		return e.vars[string(v)]
	}
	return f.args[name]
}

// count is the page that a field asks for; 0: none was asked.
func (e *gqlRun) count(f *gqlField) int {
	if n, ok := e.arg(f, "first").(float64); ok && n > 0 {
		return min(int(n), 250)
	}
	return 0
}

func (e *gqlRun) fail(path []any, message string, extensions map[string]any) {
	e.errors = append(e.errors, map[string]any{"message": message, "path": slices.Clone(path), "extensions": extensions})
}

// field looks a field up in the schema as it is now.
func (e *gqlRun) field(typ string, f *gqlField) (schemaField, bool) {
	d, ok := e.s.schema[typ][f.name]
	if e.s.removed[typ+"."+f.name] {
		return schemaField{}, false
	}
	return d, ok
}

// check looks every field up.
func (e *gqlRun) check(sel []gqlNode, typ string, path []any) {
	for _, n := range sel {
		if n.field == nil {
			on := n.on
			if on == "" {
				on = typ
			}
			e.check(n.sel, on, append(path, "... on "+on))
			continue
		}
		f := n.field
		if f.name == "__typename" {
			continue
		}
		d, ok := e.field(typ, f)
		if !ok {
			e.fail(append(path, f.alias), fmt.Sprintf("Field '%s' doesn't exist on type '%s'", f.name, typ),
				map[string]any{"code": "undefinedField", "typeName": typ, "fieldName": f.name})
			continue
		}
		if d.conn {
			if e.count(f) == 0 {
				e.fail(append(path, f.alias), "you must provide one of first or last", map[string]any{"code": "BAD_REQUEST"})
			}
			for _, c := range f.sel {
				if c.field == nil {
					continue
				}
				switch c.field.name {
				case "nodes":
					e.check(c.field.sel, d.typ, append(path, f.alias, "nodes"))
				case "edges":
					for _, x := range c.field.sel {
						if x.field != nil && x.field.name == "node" {
							e.check(x.field.sel, d.typ, append(path, f.alias, "edges", "node"))
						}
					}
				case "pageInfo":
					e.check(c.field.sel, "PageInfo", append(path, f.alias, "pageInfo"))
				}
			}
			continue
		}
		if d.typ != "" {
			e.check(f.sel, d.typ, append(path, f.alias))
		}
		if f.name == "nodes" && typ == "Query" || f.name == "node" || f.name == "order" && typ == "Query" || f.name == "return" || f.name == "fulfillmentOrder" && typ == "Query" {
			e.checkIDs(f, append(path, f.alias))
		}
	}
}

var anyGID = regexp.MustCompile(`^gid://shopify/[A-Za-z]+/[^/\s]+$`)

func (e *gqlRun) checkIDs(f *gqlField, path []any) {
	for _, id := range e.ids(f) {
		if !anyGID.MatchString(id) {
			e.fail(path, fmt.Sprintf("Invalid global id '%s'", id), map[string]any{"code": "argumentLiteralsIncompatible"})
		}
	}
}

func (e *gqlRun) ids(f *gqlField) []string {
	if id, ok := e.arg(f, "id").(string); ok {
		return []string{id}
	}
	var ids []string
	list, _ := e.arg(f, "ids").([]any)
	for _, v := range list {
		ids = append(ids, fmt.Sprint(v))
	}
	return ids
}

// price is what a selection costs by the published rules: a plain value nothing,
// an object 1, a connection 2 and its page. Of alternatives the dearest counts.
func (e *gqlRun) price(sel []gqlNode, typ string) int {
	sum, dearest := 0, 0
	for _, n := range sel {
		if n.field == nil {
			on := n.on
			if on == "" {
				on = typ
			}
			dearest = max(dearest, e.price(n.sel, on))
			continue
		}
		f := n.field
		d, _ := e.field(typ, f)
		switch {
		case d.typ == "":
		case typ == "Mutation":
			sum += 10
		case d.conn:
			each := 0
			for _, c := range f.sel {
				if c.field != nil && (c.field.name == "nodes" || c.field.name == "edges") {
					inner := c.field.sel
					if c.field.name == "edges" && len(inner) > 0 && inner[0].field != nil {
						inner = inner[0].field.sel
					}
					each = 1 + e.price(inner, d.typ)
				}
			}
			sum += 2 + e.count(f)*each
		case typ == "Query" && f.name == "nodes":
			sum += len(e.ids(f)) * (1 + e.price(f.sel, d.typ))
		case d.list:
			sum += max(1, e.count(f)) * (1 + e.price(f.sel, d.typ))
		default:
			sum += 1 + e.price(f.sel, d.typ)
		}
	}
	return sum + dearest
}

// object reads a selection of an object. It is false where something that can't be
// null failed: then the object is null, or whatever is around it.
func (e *gqlRun) object(sel []gqlNode, typ string, v map[string]any, path []any) (map[string]any, bool) {
	out := map[string]any{}
	for _, n := range sel {
		if n.field == nil {
			if n.on != "" && n.on != typ {
				continue
			}
			more, ok := e.object(n.sel, typ, v, path)
			if !ok {
				return nil, false
			}
			for k, x := range more {
				out[k] = x
			}
			continue
		}
		f := n.field
		if f.name == "__typename" {
			out[f.alias] = typ
			continue
		}
		d, _ := e.field(typ, f)
		p := append(slices.Clone(path), f.alias)
		if !e.s.allowed(d.scope) {
			e.denied(f.name, d.scope, p)
			if !d.may {
				return nil, false
			}
			out[f.alias] = nil
			continue
		}
		var raw any
		switch typ {
		case "Query":
			raw = e.root(f, p)
		case "Mutation":
			raw = e.mutation(f)
			e.spent += 10
		default:
			raw = v[f.name]
		}
		x, ok := e.value(f, d, raw, p)
		if !ok && !d.may {
			return nil, false
		}
		out[f.alias] = x
	}
	return out, true
}

func (e *gqlRun) denied(field, scopes string, path []any) {
	need := "`" + strings.ReplaceAll(scopes, "|", "` or `") + "` access scope."
	e.fail(path, "Access denied for "+field+" field. Required access: "+need, map[string]any{"code": "ACCESS_DENIED",
		"documentation": "https://shopify.dev/api/usage/access-scopes", "requiredAccess": need})
}

// value completes one field.
func (e *gqlRun) value(f *gqlField, d schemaField, raw any, path []any) (any, bool) {
	if thunk, ok := raw.(func() any); ok {
		raw = thunk()
	}
	switch {
	case d.typ == "":
		return raw, true
	case d.conn:
		page, ok := raw.(shopifyPage)
		if !ok {
			all, _ := raw.([]any)
			n := min(e.count(f), len(all))
			page = shopifyPage{items: all[:n], next: n < len(all)}
		}
		return e.connection(f, d, page, path)
	case d.list:
		all, _ := raw.([]any)
		if n := e.count(f); n > 0 && n < len(all) {
			all = all[:n]
		}
		out := []any{}
		for i, x := range all {
			v, ok := e.one(f.sel, d.typ, x, append(slices.Clone(path), i))
			if !ok && !d.may {
				return nil, false
			}
			out = append(out, v)
		}
		return out, true
	}
	return e.one(f.sel, d.typ, raw, path)
}

// one completes an object; what stands for Node knows its own type.
func (e *gqlRun) one(sel []gqlNode, typ string, raw any, path []any) (any, bool) {
	v, ok := raw.(map[string]any)
	if !ok {
		return nil, true
	}
	if id, ok := v["id"].(string); ok {
		if code := e.s.broken[id]; code != "" {
			e.fail(path, "Internal error. Looks like something went wrong on our end.", map[string]any{"code": code, "requestId": "00000000-0000-4000-8000-000000000000"})
			return nil, false
		}
		if typ == "Node" {
			typ, _, _ = strings.Cut(strings.TrimPrefix(id, "gid://shopify/"), "/")
		}
	}
	e.spent++
	out, ok := e.object(sel, typ, v, path)
	if !ok {
		return nil, false
	}
	return out, true
}

// A shopifyPage is a stretch of a connection.
type shopifyPage struct {
	items   []any
	cursors []string
	next    bool
	prev    bool
}

func (e *gqlRun) connection(f *gqlField, d schemaField, page shopifyPage, path []any) (any, bool) {
	e.spent += 2
	out := map[string]any{}
	cursor := func(i int) any {
		if i >= 0 && i < len(page.cursors) {
			return page.cursors[i]
		}
		return nil
	}
	for _, c := range f.sel {
		if c.field == nil {
			continue
		}
		switch name := c.field.name; name {
		case "nodes", "edges":
			list := []any{}
			sel := c.field.sel
			if name == "edges" {
				for _, x := range sel {
					if x.field != nil && x.field.name == "node" {
						sel = x.field.sel
					}
				}
			}
			for i, x := range page.items {
				v, ok := e.one(sel, d.typ, x, append(slices.Clone(path), name, i))
				if !ok {
					return nil, false
				}
				if name == "edges" {
					v = map[string]any{"node": v, "cursor": cursor(i)}
				}
				list = append(list, v)
			}
			out[c.field.alias] = list
		case "pageInfo":
			info, _ := e.object(c.field.sel, "PageInfo", map[string]any{"hasNextPage": page.next, "hasPreviousPage": page.prev,
				"startCursor": cursor(0), "endCursor": cursor(len(page.cursors) - 1)}, path)
			out[c.field.alias] = info
		}
	}
	return out, true
}

// root finds what a field of the query names.
func (e *gqlRun) root(f *gqlField, path []any) any {
	s := e.s
	switch f.name {
	case "nodes":
		out := []any{}
		for i, id := range e.ids(f) {
			out = append(out, e.byGID(id, append(slices.Clone(path), i)))
		}
		return out
	case "node", "order", "return", "fulfillmentOrder":
		if ids := e.ids(f); len(ids) > 0 {
			return e.byGID(ids[0], path)
		}
	case "orders":
		return e.list(f, path)
	case "shop":
		return map[string]any{"id": "gid://shopify/Shop/1", "name": "Example", "myshopifyDomain": s.cfg.Account, "currencyCode": s.cfg.Currency}
	case "currentAppInstallation":
		scopes := []any{}
		for _, x := range s.cfg.Scopes {
			scopes = append(scopes, map[string]any{"handle": x, "description": ""})
		}
		return map[string]any{"id": "gid://shopify/AppInstallation/1", "accessScopes": scopes}
	case "ordersCount":
		query, _ := e.arg(f, "query").(string)
		match, n := e.searching(query, path), 0
		for _, o := range s.orders {
			if s.sees(o) && match(o) {
				n++
			}
		}
		return map[string]any{"count": n, "precision": "EXACT"}
	case "webhookSubscriptions":
		all := []any{}
		for _, h := range s.hooks {
			all = append(all, s.hookFields(h))
		}
		return all
	case "publicApiVersions":
		versions := []any{}
		for _, v := range s.serves {
			versions = append(versions, map[string]any{"handle": v, "supported": true, "displayName": v})
		}
		return versions
	}
	return nil
}

// byGID finds an object; an unknown id is null without an error.
func (e *gqlRun) byGID(gid string, path []any) any {
	s := e.s
	typ, _, _ := strings.Cut(strings.TrimPrefix(gid, "gid://shopify/"), "/")
	need := map[string]string{"Order": "read_orders", "Return": "read_returns", "FulfillmentOrder": s.schema["Query"]["fulfillmentOrder"].scope}[typ]
	if !s.allowed(need) {
		e.denied(strings.ToLower(typ[:1])+typ[1:], need, path)
		return nil
	}
	if typ == "Order" {
		id, _ := strconv.ParseInt(gid[strings.LastIndexByte(gid, '/')+1:], 10, 64)
		return s.visible(s.orders[id])
	}
	for _, o := range s.orders {
		if gid == o.request.gid() {
			return s.graphRequest(o)
		}
		for _, r := range o.returns {
			if gid == r.gid() {
				return s.graphReturn(o, r)
			}
		}
	}
	return nil
}

// list is a page of orders, sorted by microseconds that the fields don't show.
func (e *gqlRun) list(f *gqlField, path []any) any {
	s := e.s
	query, _ := e.arg(f, "query").(string)
	match := e.searching(query, path)
	by, reverse := "PROCESSED_AT", e.arg(f, "reverse") == true
	if k, ok := e.arg(f, "sortKey").(string); ok {
		by = k
	}
	key := func(o *shopOrder) int64 {
		switch by {
		case "UPDATED_AT":
			return o.updated.UnixMicro()
		case "ID":
			return o.id
		}
		return o.created.UnixMicro()
	}
	var all []*shopOrder
	for _, o := range s.orders {
		if s.sees(o) && match(o) {
			all = append(all, o)
		}
	}
	slices.SortFunc(all, func(a, b *shopOrder) int {
		d := key(a) - key(b)
		if d == 0 {
			d = a.id - b.id
		}
		if reverse {
			d = -d
		}
		return int(min(1, max(-1, d)))
	})
	page := shopifyPage{}
	if after, ok := e.arg(f, "after").(string); ok && after != "" {
		var c shopifyCursor
		raw, err := base64.StdEncoding.DecodeString(after)
		if err != nil || json.Unmarshal(raw, &c) != nil {
			e.fail(path, "Invalid cursor for current pagination sort.", map[string]any{"code": "BAD_REQUEST"})
			return shopifyPage{}
		}
		rest := slices.IndexFunc(all, func(o *shopOrder) bool {
			if reverse {
				return key(o) < c.Value || key(o) == c.Value && o.id < c.ID
			}
			return key(o) > c.Value || key(o) == c.Value && o.id > c.ID
		})
		page.prev = true
		if rest < 0 {
			rest = len(all)
		}
		all = all[rest:]
	}
	if n := e.count(f); n < len(all) {
		all, page.next = all[:n], true
	}
	for _, o := range all {
		raw, _ := json.Marshal(shopifyCursor{ID: o.id, Value: key(o)})
		page.items = append(page.items, s.graph(o))
		page.cursors = append(page.cursors, base64.StdEncoding.EncodeToString(raw))
	}
	return page
}

type shopifyCursor struct {
	ID    int64 `json:"last_id"`
	Value int64 `json:"last_value"`
}

var shopSearchTerm = regexp.MustCompile(`^(-?)([a-z_]+):(>=|<=|>|<|)(.*)$`)

// searching reads a search. A field that it doesn't know matches everything, and
// only a warning says so.
func (e *gqlRun) searching(query string, path []any) func(*shopOrder) bool {
	var groups [][]func(*shopOrder) bool
	var warnings []map[string]any
	group := []func(*shopOrder) bool{}
	for _, word := range shopSearchWords(query) {
		switch word {
		case "AND":
			continue
		case "OR":
			groups = append(groups, group)
			group = nil
			continue
		}
		m := shopSearchTerm.FindStringSubmatch(word)
		if m == nil {
			group = append(group, func(o *shopOrder) bool { return strings.Contains(o.name, word) })
			continue
		}
		test := shopSearchField(m[2], m[3], strings.Trim(m[4], `'"`))
		if test == nil {
			warnings = append(warnings, map[string]any{"field": m[2], "message": "Invalid search field for this query.", "code": "invalid_field"})
			continue
		}
		not := m[1] == "-"
		group = append(group, func(o *shopOrder) bool { return test(o) != not })
	}
	groups = append(groups, group)
	if len(warnings) > 0 {
		e.search = append(e.search, map[string]any{"path": path, "query": query, "warnings": warnings})
	}
	return func(o *shopOrder) bool {
		for _, all := range groups {
			ok := true
			for _, test := range all {
				ok = ok && test(o)
			}
			if ok {
				return true
			}
		}
		return false
	}
}

// shopSearchWords cuts a search at blanks outside quotes; parentheses aren't told apart.
func shopSearchWords(query string) []string {
	var quote rune
	return strings.FieldsFunc(query, func(r rune) bool {
		switch {
		case quote != 0:
			if r == quote {
				quote = 0
			}
			return false
		case r == '\'' || r == '"':
			quote = r
			return false
		}
		return r == ' ' || r == '(' || r == ')'
	})
}

func shopSearchField(field, op, value string) func(*shopOrder) bool {
	switch field {
	case "updated_at", "created_at", "processed_at":
		t, err := time.Parse(time.RFC3339, value)
		if err != nil {
			return nil
		}
		return func(o *shopOrder) bool {
			at := o.created
			if field == "updated_at" {
				at = o.updated
			}
			switch op {
			case ">=":
				return !at.Before(t)
			case ">":
				return at.After(t)
			case "<=":
				return !at.After(t)
			case "<":
				return at.Before(t)
			}
			return at.Truncate(time.Second).Equal(t)
		}
	case "return_status":
		return func(o *shopOrder) bool { return strings.EqualFold(fmt.Sprint(o.returned()), value) }
	case "financial_status":
		return func(o *shopOrder) bool { return strings.EqualFold(fmt.Sprint(o.financial()), value) }
	case "fulfillment_status":
		return func(o *shopOrder) bool { return strings.EqualFold(fmt.Sprint(o.fulfillment()), value) }
	case "test":
		return func(o *shopOrder) bool { return fmt.Sprint(o.test) == value }
	case "id":
		return func(o *shopOrder) bool { return fmt.Sprint(o.id) == value }
	case "name":
		return func(o *shopOrder) bool { return o.name == value }
	}
	return nil
}
