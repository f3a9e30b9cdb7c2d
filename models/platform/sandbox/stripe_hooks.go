package sandbox

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// A stripeEndpoint is one destination of an account's events.
type stripeEndpoint struct {
	id, url, version, secret string
	events                   []string
	off                      bool
}

const stripeEndpoints = "/v1/webhook_endpoints"

// Endpoints lists the addresses of the endpoints that were made by the API.
func (p *Stripe) Endpoints() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []string
	for _, e := range p.endpoints {
		out = append(out, e.url)
	}
	return out
}

// Disable switches the endpoints off, as Stripe does after days of failures.
func (p *Stripe) Disable() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range p.endpoints {
		e.off = true
	}
}

// Undelivered marks an event as one that an endpoint didn't take, or took again.
func (p *Stripe) Undelivered(event string, undelivered bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if o := p.objects[event]; o != nil {
		if o.fields["pending_webhooks"] = int64(0); undelivered {
			o.fields["pending_webhooks"] = int64(1)
		}
	}
}

// delivered notes how an event's delivery ended.
func (p *Stripe) delivered(n Notification, status int) {
	var e struct {
		ID string `json:"id"`
	}
	if json.Unmarshal(n.Body, &e) == nil {
		p.Undelivered(e.ID, status < 200 || status >= 300)
	}
}

func (e *stripeEndpoint) render(secret bool) map[string]any {
	status := "enabled"
	if e.off {
		status = "disabled"
	}
	out := map[string]any{"id": e.id, "object": "webhook_endpoint", "url": e.url, "status": status, "enabled_events": e.events, "api_version": e.version, "livemode": false, "metadata": map[string]any{}}
	if secret {
		out["secret"] = e.secret
	}
	return out
}

// hooks answers calls about endpoints. The caller holds the lock.
func (p *Stripe) hooks(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseForm(); err != nil {
		stripeFailure(w, http.StatusBadRequest, "invalid_request_error", "", "The form can't be read.", "")
		return
	}
	id := strings.Trim(strings.TrimPrefix(r.URL.Path, stripeEndpoints), "/")
	at := slices.IndexFunc(p.endpoints, func(e *stripeEndpoint) bool { return e.id == id })
	answer := func(v any) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(stripeJSON(v))
	}
	switch {
	case id != "" && at < 0:
		stripeFailure(w, http.StatusNotFound, "invalid_request_error", "resource_missing", "No such webhook endpoint: '"+id+"'", "id")
	case r.Method == http.MethodGet && id == "":
		data := []any{}
		for _, e := range slices.Backward(p.endpoints) {
			data = append(data, e.render(false))
		}
		answer(map[string]any{"object": "list", "url": stripeEndpoints, "has_more": false, "data": data})
	case r.Method == http.MethodGet:
		answer(p.endpoints[at].render(false))
	case r.Method == http.MethodDelete && id != "":
		p.endpoints = slices.Delete(p.endpoints, at, at+1)
		answer(map[string]any{"id": id, "object": "webhook_endpoint", "deleted": true})
	case r.Method == http.MethodPost:
		e := &stripeEndpoint{}
		if id != "" {
			e = p.endpoints[at]
		}
		if problem := e.take(r.PostForm); problem != "" {
			stripeFailure(w, http.StatusBadRequest, "invalid_request_error", "", problem, "url")
			return
		}
		if id == "" {
			p.serial++
			e.id, e.secret = fmt.Sprintf("we_3Sandbox%08d", p.serial), fmt.Sprintf("whsec_sandbox%08d", p.serial)
			p.endpoints = append(p.endpoints, e)
			p.Secrets = append(p.Secrets, e.secret)
		}
		answer(e.render(id == ""))
	default:
		stripeFailure(w, http.StatusNotFound, "invalid_request_error", "", "Unrecognized request URL.", "")
	}
}

// take takes values over from a form.
func (e *stripeEndpoint) take(form url.Values) (problem string) {
	if v := form.Get("url"); v != "" {
		if u, err := url.Parse(v); err != nil || u.Host == "" {
			return "Invalid URL: An explicit scheme (such as https) must be provided."
		}
		e.url = v
	}
	if events := form["enabled_events[]"]; len(events) > 0 {
		e.events = events
	}
	if v := form.Get("disabled"); v != "" {
		e.off = v == "true"
	}
	if v := form.Get("api_version"); v != "" && e.id == "" {
		e.version = v
	}
	if e.url == "" || len(e.events) == 0 {
		return "Missing required param: url or enabled_events."
	}
	return ""
}
