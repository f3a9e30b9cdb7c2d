package reconcile

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"time"

	"counterfoil/models"
	"counterfoil/models/connect"
	"counterfoil/models/platform"
	"counterfoil/models/store"
)

// Checks tries whether a connection works: each kind of call, its secrets, its known
// test objects.
type Checks struct {
	Store *store.Store
	Book  *connect.Book
	Log   *slog.Logger
}

const (
	checkTime    = 45 * time.Second
	mostCanaries = 10
)

// Lookout checks a connection by itself after its address, secrets, token or version
// changed. It never stops on errors.
func (s *Checks) Lookout(ctx context.Context) {
	tick := time.NewTicker(2 * time.Second)
	defer tick.Stop()
	known := map[int64]string{}
	for {
		for _, c := range s.Book.All() {
			if c.Mark == "" || known[c.ID] == c.Mark {
				continue
			}
			moved := false
			err := s.Store.Tx(ctx, func(tx *store.Tx) (err error) {
				moved, err = tx.Marked(ctx, c.ID, c.Mark)
				return err
			})
			if err == nil {
				known[c.ID] = c.Mark
				if moved {
					_, err = s.run(ctx, c, c.Adapter, "", "console")
				}
			}
			if err != nil && ctx.Err() == nil {
				s.Log.Warn("connection not checked", "connection", c.Slug, "error", err)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// File is what the page of a connection's check shows.
func (s *Checks) File(ctx context.Context, actor models.Actor, slug string) (models.CheckFile, error) {
	var f models.CheckFile
	c, err := seen(ctx, s.Book, actor, slug)
	if err != nil {
		return f, err
	}
	f.Versions = c.Adapter != nil && c.Adapter.HasAPI() && versioned(c.Adapter)
	if f.Checks, err = s.Store.Checks(ctx, c.ID, 5); err != nil {
		return f, err
	}
	f.Canaries, err = s.Store.Canaries(ctx, c.ID)
	return f, err
}

// Check tries a connection now, in its own API version or in another one.
func (s *Checks) Check(ctx context.Context, actor models.Actor, slug, version string) error {
	c, err := s.mine(ctx, actor, slug)
	if err != nil {
		return err
	}
	adapter := c.Adapter
	if version = strings.TrimSpace(version); version != "" {
		refused := &models.Error{Code: models.Invalid, Key: "error.check_version", Fields: map[string]string{"version": "error.check_version"}}
		if !versioned(c.Adapter) || !versionShape.MatchString(version) {
			return refused
		}
		if adapter, err = s.Book.WithVersion(c, version); err != nil {
			return refused.Because(err)
		}
	}
	ctx, cancel := context.WithTimeout(connect.Awaited(ctx), checkTime)
	defer cancel()
	wrong, err := s.run(ctx, c, adapter, version, actor.ID())
	if err != nil {
		return err
	}
	return s.Store.Tx(ctx, func(tx *store.Tx) error {
		return tx.Audit(ctx, actor.ID(), "connection.check", connectionSubject(c.ID), "", fmt.Sprintf("version=%s wrong=%d", version, wrong))
	})
}

var versionShape = regexp.MustCompile(`^[0-9a-z][0-9a-z._-]{0,39}$`)

// versioned tells whether calls name an API version that is a setting.
func versioned(a platform.Adapter) bool {
	return slices.ContainsFunc(a.Settings(), func(s models.Setting) bool { return s.Name == "api_version" })
}

// mine finds a connection that the actor may check.
func (s *Checks) mine(ctx context.Context, actor models.Actor, slug string) (*connect.Conn, error) {
	if !actor.May(models.ConnectionsCheck) {
		return nil, models.Fail(models.Forbidden, "error.may_not_check")
	}
	c, err := seen(ctx, s.Book, actor, slug)
	if err == nil && c.Adapter == nil {
		return nil, models.Fail(models.Conflict, "error.check_broken").Because(c.Broken)
	}
	return c, err
}

// run makes one check and keeps how it went; it answers how many steps are wrong.
func (s *Checks) run(ctx context.Context, c *connect.Conn, a platform.Adapter, version, by string) (int, error) {
	var id int64
	if err := s.Store.Tx(ctx, func(tx *store.Tx) (err error) {
		id, err = tx.BeginCheck(ctx, c.ID, c.Mark, version, by)
		return err
	}); err != nil {
		return 0, err
	}
	canaries, err := s.Store.Canaries(ctx, c.ID)
	if err != nil {
		return 0, err
	}
	t := &trial{conn: c, adapter: a, now: s.Store.Now(), canaries: canaries, shapes: map[int64]models.Shape{}}
	t.run(ctx)
	if budget := c.CallBudget(); budget > 0 {
		used, err := s.Store.CallsSince(ctx, c.ID, 30)
		if err != nil {
			return 0, err
		}
		t.say(models.StepFine, "probe.calls", "", fmt.Sprint(used), fmt.Sprint(budget))
	}
	t.secrets(c)
	if version != "" {
		t.shapes = nil // another version's shape isn't the connection's
	}
	if err := s.refusals(ctx, t); err != nil {
		return 0, err
	}
	wrong := 0
	for _, step := range t.steps {
		if step.State == models.StepWrong {
			wrong++
		}
	}
	err = s.Store.Tx(ctx, func(tx *store.Tx) error {
		for _, k := range canaries {
			if shape := t.shapes[k.ID]; shape != nil && k.Shape == nil {
				if err := tx.ShapeCanary(ctx, c.ID, k.ID, shape); err != nil && models.CodeOf(err) != models.NotFound {
					return err
				}
			}
		}
		return tx.EndCheck(ctx, id, c.ID, t.steps)
	})
	return wrong, err
}

// A trial is one check under way.
type trial struct {
	conn     *connect.Conn
	adapter  platform.Adapter
	now      time.Time
	canaries []models.Canary
	shapes   map[int64]models.Shape
	steps    []models.CheckStep
}

func (t *trial) say(state models.StepState, key, do string, args ...string) {
	t.steps = append(t.steps, models.CheckStep{State: state, Key: key, Do: do, Args: args})
}

// run makes one call of each kind. After one that says that nothing can be asked the
// others would say the same.
func (t *trial) run(ctx context.Context) {
	if !t.adapter.HasAPI() {
		t.say(models.StepUnknown, "probe.no_api", "probe.no_api.do")
		return
	}
	notes, err := t.adapter.Check(ctx)
	t.call("access", err)
	for _, n := range notes {
		state, do := models.StepFine, ""
		if n.Warn {
			state, do = models.StepWrong, "probe.access.do"
		}
		t.say(state, n.Key, do, n.Args...)
	}
	if unreachable(err) {
		return
	}
	for _, kind := range t.adapter.Kinds() {
		w := platform.Window{Since: t.now.Add(-24 * time.Hour), Until: t.now, Kind: kind, Most: 1}
		if t.conn.Platform == models.ReceiptRoller {
			w.Since = t.now
		}
		b, err := t.adapter.Changed(ctx, w)
		t.call("list", err, kind)
		if unreachable(err) {
			return
		}
		t.faults(b.Observations)
	}
	t.objects(ctx)
	if sub, ok := t.adapter.(platform.Subscriber); ok {
		_, err := sub.Subscriptions(ctx)
		if out, denied := errors.AsType[*platform.Outage](err); denied && out.Denied {
			t.say(models.StepUnknown, "probe.subscriptions_denied", "probe.subscriptions_denied.do", out.Detail)
		} else {
			t.call("subscriptions", err)
		}
	}
	if l, ok := t.adapter.(platform.Limited); ok {
		for _, n := range l.Limits() {
			t.say(models.StepFine, n.Key, "", n.Args...)
		}
	}
}

// unreachable tells whether further calls would fail the same way: the platform can't
// be asked. What only one kind of object is refused for isn't.
func unreachable(err error) bool {
	out, ok := errors.AsType[*platform.Outage](err)
	return ok && !out.Denied
}

// call says how one call went.
func (t *trial) call(what string, err error, args ...string) {
	out, outage := errors.AsType[*platform.Outage](err)
	switch {
	case err == nil:
		t.say(models.StepFine, "probe.works."+what, "", args...)
	case outage && out.Denied:
		t.say(models.StepWrong, "probe.denied."+what, "probe.let_in", append(args, out.Detail)...)
	case outage && out.Throttled:
		t.say(models.StepUnknown, "probe.failed."+what, "probe.later", append(args, out.Detail)...)
	case outage:
		t.say(models.StepWrong, "probe.failed."+what, "probe.down", append(args, out.Detail)...)
	default:
		t.say(models.StepWrong, "probe.failed."+what, "probe.own", append(args, "the answer can't be used")...)
	}
}

// faults says once for each field what isn't as we rely on it.
func (t *trial) faults(all []models.Observation) {
	said := map[string]bool{}
	for _, o := range all {
		for _, f := range o.Faults {
			if key := string(f.Kind) + f.Path + f.Word; !said[key] {
				said[key] = true
				t.say(models.StepWrong, "probe.fault."+string(f.Kind), "probe.fault.do", f.Path, f.Word)
			}
		}
	}
}

// objects reads the known test objects and compares their shapes with those kept.
func (t *trial) objects(ctx context.Context) {
	if len(t.canaries) == 0 {
		t.say(models.StepUnknown, "probe.no_canary", "probe.no_canary.do")
		return
	}
	for _, k := range t.canaries[:min(len(t.canaries), mostCanaries)] {
		got, err := t.adapter.Fetch(ctx, []models.ObjectRef{k.Ref})
		if err != nil {
			t.call("read", err, k.Ref.ID)
			if unreachable(err) {
				return
			}
			continue
		}
		o := got[k.Ref]
		if o.Absence != models.Present {
			t.say(models.StepWrong, "probe.absent."+string(o.Absence), "probe.absent.do", k.Ref.ID)
			continue
		}
		t.call("read", nil, k.Ref.ID)
		t.faults([]models.Observation{o})
		t.shape(ctx, k)
	}
}

// shape compares an object's shape with the one that was kept.
func (t *trial) shape(ctx context.Context, k models.Canary) {
	shaper, ok := t.adapter.(platform.Shaper)
	if !ok {
		return
	}
	now, _, err := shaper.Shape(ctx, k.Ref)
	switch {
	case err != nil:
		t.call("shape", err, k.Ref.ID)
		return
	case now == nil:
		t.say(models.StepUnknown, "probe.shape_none", "", k.Ref.ID)
		return
	case k.Shape == nil:
		t.shapes[k.ID] = now
		t.say(models.StepFine, "probe.shape_kept", "", k.Ref.ID, fmt.Sprint(len(now)))
		return
	}
	lost, added := []string{}, []string{}
	for _, c := range k.Shape.Changes(now) {
		switch {
		case c.Is == "":
			lost = append(lost, c.Path)
		case c.Was == "":
			added = append(added, c.Path)
		default:
			lost = append(lost, c.Path+" ("+c.Was+" → "+c.Is+")")
		}
	}
	if len(lost) > 0 {
		t.say(models.StepWrong, "probe.shape_lost", "probe.shape_lost.do", k.Ref.ID, topicList(lost))
	}
	if len(added) > 0 {
		t.say(models.StepUnknown, "probe.shape_added", "probe.shape_added.do", k.Ref.ID, topicList(added))
	}
	if len(lost)+len(added) == 0 {
		t.say(models.StepFine, "probe.shape_same", "", k.Ref.ID)
	}
}

// secrets tries our own verifier with a body that each secret signs: the accepted ones
// have to pass, the retired ones mustn't.
func (t *trial) secrets(c *connect.Conn) {
	signer, ok := c.Adapter.(platform.Signer)
	if !ok {
		return
	}
	if len(c.Fingerprints) == 0 {
		t.say(models.StepWrong, "probe.no_secret", "probe.no_secret.do")
	}
	body := []byte(`{"check":"` + rand.Text() + `"}`)
	for i, fp := range c.Fingerprints {
		if m, err := c.Adapter.Verify(signer.Sign(i, body, t.now), t.now); err != nil || m.Secret != i {
			t.say(models.StepWrong, "probe.secret_refused", "probe.own", fp)
		} else {
			t.say(models.StepFine, "probe.secret", "", fp)
		}
	}
	old, ok := c.Retired.(platform.Signer)
	if !ok {
		return
	}
	for i, fp := range c.RetiredFingerprints {
		if _, err := c.Adapter.Verify(old.Sign(i, body, t.now), t.now); err == nil {
			t.say(models.StepWrong, "probe.retired_accepted", "probe.own", fp)
		} else {
			t.say(models.StepFine, "probe.retired", "", fp)
		}
	}
}

// refusals says when the platform signs with a secret that we don't have: the newest
// requests were refused for their signature, and none was taken since.
func (s *Checks) refusals(ctx context.Context, t *trial) error {
	r, err := s.Store.WrongSignatures(ctx, t.conn.ID, t.now.Add(-24*time.Hour))
	if err != nil {
		return err
	}
	switch {
	case r.Count == 0 && r.Matched.IsZero():
		t.say(models.StepUnknown, "probe.never_matched", "probe.never_matched.do")
	case r.Count == 0:
		t.say(models.StepFine, "probe.matched", "")
	case r.Cause == string(platform.CauseRetired):
		t.say(models.StepWrong, "probe.signs_retired", "probe.signs_retired.do", fmt.Sprint(r.Count), r.Detail)
	default:
		t.say(models.StepWrong, "probe.signs_otherwise", "probe.signs_otherwise.do", fmt.Sprint(r.Count))
	}
	return nil
}
