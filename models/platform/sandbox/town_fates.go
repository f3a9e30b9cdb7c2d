package sandbox

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"counterfoil/models"
)

// A fate is what happens to the notifications of an act on their way.
type fate int

const (
	arrives    fate = iota
	twice           // each is delivered again
	shuffled        // in another order
	late            // some acts later
	lost            // never
	forged          // somebody sends altered copies too
	strange         // somebody signs copies with another connection's secret
	unknown         // a topic that nobody has met comes with them
	unknowable      // so does one that names nothing
)

// pastFate deals out what a newcomer should find: some of everything that repairs
// itself or is refused, at fixed acts, and copies and disorder here and there.
func (t *Town) pastFate() (fate, int) {
	switch t.turn {
	case 12, 90:
		return forged, 0
	case 20, 120:
		return strange, 0
	case 30, 100:
		return unknown, 0
	case 40:
		return unknowable, 0
	case 50, 70, 130:
		return late, 6
	}
	switch n := t.rng.IntN(100); {
	case n < 8:
		return twice, 0
	case n < 16:
		return shuffled, 0
	}
	return arrives, 0
}

// presentFate is how notifications fare from then on.
func (t *Town) presentFate() (fate, int) {
	switch n := t.rng.IntN(100); {
	case n < 8:
		return twice, 0
	case n < 15:
		return shuffled, 0
	case n < 19:
		return late, 3 + t.rng.IntN(8)
	case n < 21:
		return lost, 0
	case n < 23:
		return forged, 0
	case n < 25:
		return strange, 0
	case n < 27:
		return unknown, 0
	case n < 28:
		return unknowable, 0
	}
	return arrives, 0
}

// A parcel is what comes later: held up, or not taken when it came.
type parcel struct {
	turn  int
	from  *post
	ns    []Notification
	tries int
}

// A platform tries so often to deliver what isn't taken, so many acts apart.
const (
	maxTries   = 8
	retryTurns = 4
)

// send delivers an act's notifications as fate will have it, and whatever else is due.
func (t *Town) send(ctx context.Context, b beat, ns []Notification) {
	p := b.from
	switch b.fate {
	case twice:
		p.Duplicate.Store(1)
		t.deliver(ctx, p, ns, 0)
		p.Duplicate.Store(0)
	case shuffled:
		t.rng.Shuffle(len(ns), func(i, j int) { ns[i], ns[j] = ns[j], ns[i] })
		t.deliver(ctx, p, ns, 0)
	case late:
		t.waiting = append(t.waiting, parcel{turn: t.turn + b.turns, from: p, ns: ns})
	case lost:
		p.Drop.Store(true)
		t.deliver(ctx, p, ns, 0)
		p.Drop.Store(false)
	case forged:
		p.Forge.Store(true)
		t.deliver(ctx, p, ns[:min(1, len(ns))], maxTries)
		p.Forge.Store(false)
		t.deliver(ctx, p, ns, 0)
	case strange:
		t.flush(ctx, p, t.signedByOthers(p, ns[:min(1, len(ns))]))
		t.deliver(ctx, p, ns, 0)
	case unknown:
		t.deliver(ctx, p, append(ns, t.unknownTopic(p, ns)...), 0)
	case unknowable:
		t.deliver(ctx, t.counter.post, []Notification{t.namesNothing()}, 0)
		t.deliver(ctx, p, ns, 0)
	default:
		t.deliver(ctx, p, ns, 0)
	}
	due := t.waiting
	t.waiting = nil
	for _, x := range due {
		if x.turn > t.turn {
			t.waiting = append(t.waiting, x)
			continue
		}
		t.deliver(ctx, x.from, x.ns, x.tries)
	}
}

// deliver sends notifications now, signed with the present time. What isn't taken is
// tried again later, as the platforms do.
func (t *Town) deliver(ctx context.Context, p *post, ns []Notification, tries int) {
	signed := make([]Notification, len(ns))
	for i, n := range ns {
		signed[i] = n
		if p.anew != nil {
			signed[i] = p.anew(n)
		}
	}
	refused := t.flush(ctx, p, signed)
	if len(refused) > 0 && tries < maxTries {
		t.waiting = append(t.waiting, parcel{turn: t.turn + retryTurns<<tries, from: p, ns: refused, tries: tries + 1})
	}
}

// flush sends notifications as they are and answers those that the receiver didn't
// take or didn't answer.
func (t *Town) flush(ctx context.Context, p *post, ns []Notification) []Notification {
	p.box.Put(ns...)
	sent, err := p.box.Flush(ctx)
	if err != nil {
		return nil // the town is leaving
	}
	var refused []Notification
	for _, s := range sent {
		if !s.Lost && (s.Status == 0 || s.Status >= http.StatusInternalServerError) {
			refused = append(refused, s.Notification)
		}
	}
	return refused
}

// signedByOthers signs the same bodies with the secret of another connection of the
// same platform, or of the town's other shop.
func (t *Town) signedByOthers(p *post, ns []Notification) []Notification {
	var out []Notification
	for _, n := range ns {
		switch p.Platform {
		case models.Shopify:
			other := t.twMain.post
			if p == other {
				other = t.hkMain.post
			}
			h := n.Header.Clone()
			h.Set("X-Shopify-Hmac-Sha256", shopSigned(other.Webhook[0], n.Body))
			n.Header = h
		case models.Stripe:
			other := t.web
			if p == t.web.post {
				other = t.hkTill
			}
			n.Header = other.Sign(n.Body)
		case models.ReceiptRoller:
			r := &ReceiptRoller{Secret: t.hkTill.Secrets[0]}
			n = r.Sign(n.Topic, n.Header.Get("X-RR-Event-Id"), n.Body, t.clock())
		}
		out = append(out, n)
	}
	return out
}

// unknownTopic is a topic that no version has brought yet, about the same object.
func (t *Town) unknownTopic(p *post, ns []Notification) []Notification {
	for _, n := range ns {
		switch p {
		case t.hkMain.post, t.twMain.post:
			var body struct {
				ID  int64  `json:"id"`
				GID string `json:"admin_graphql_api_id"`
			}
			if json.Unmarshal(n.Body, &body) != nil || body.GID != ShopifyGID(body.ID) {
				continue
			}
			shop := t.hkMain
			if p == t.twMain.post {
				shop = t.twMain
			}
			return []Notification{shop.Notify("orders/delivery_promise_changed", shopBody(map[string]any{"id": body.ID, "admin_graphql_api_id": body.GID}))}
		case t.counter.post:
			return []Notification{t.namesNothing()}
		}
	}
	return nil
}

// namesNothing is a notification about something that isn't an order.
func (t *Town) namesNothing() Notification {
	at := t.clock()
	id := fmt.Sprintf("evt_tier_%d_%d", t.seed%1000, t.turn)
	body := encode(map[string]any{"event_id": id, "type": "member.tier_changed", "occurred_at": stamp(at), "data": map[string]any{"memberId": "m1042", "tier": "gold"}})
	return t.counter.Sign("member.tier_changed", id, body, at)
}

// A spell is a time in which a platform can't be asked as usual.
type spell struct {
	over int // at which act
	end  func()
	next int
}

// weather begins and ends spells: a platform that is down, cuts the line, throttles or
// answers slowly for a minute or two, and good times between.
func (t *Town) weather() {
	perMinute := max(1, int(time.Minute/max(t.Pace, time.Millisecond)))
	s := &t.spell
	switch {
	case s.next == 0:
		s.next = t.turn + 2*perMinute
	case s.end != nil && t.turn >= s.over:
		s.end()
		*s = spell{next: t.turn + (4+t.rng.IntN(5))*perMinute}
	case s.end == nil && t.turn >= s.next:
		p := t.posts[t.rng.IntN(len(t.posts))]
		s.over = t.turn + perMinute + t.rng.IntN(perMinute+1)
		switch t.rng.IntN(5) {
		case 0, 1:
			p.Down.Store(true)
			s.end = func() { p.Down.Store(false) }
		case 2:
			p.Dead.Store(true)
			s.end = func() { p.Dead.Store(false) }
		case 3:
			p.Throttle.Store(true)
			s.end = func() { p.Throttle.Store(false) }
		default:
			p.Slow.Store(int64(1500 * time.Millisecond))
			s.end = func() { p.Slow.Store(0) }
		}
	}
}
