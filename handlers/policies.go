package handlers

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"counterfoil/models"
	"counterfoil/models/actions"
	"counterfoil/models/casework"
	"counterfoil/views"
	"counterfoil/views/locale"
	"counterfoil/web"
)

// A ruler reads and sets what a shop decided about its follow-ups.
type ruler interface {
	File(ctx context.Context, actor models.Actor, slug string) (models.PolicyFile, error)
	SetRules(ctx context.Context, actor models.Actor, slug, version string, rules models.ActionRules) error
	SetCasePolicy(ctx context.Context, actor models.Actor, slug string, c casework.PolicyChange) (asked int64, err error)
}

// An enlivener makes kinds of follow-ups live, by two people.
type enlivener interface {
	Propose(ctx context.Context, actor models.Actor, p casework.LiveProposal) (int64, error)
	Approve(ctx context.Context, actor models.Actor, id int64) (models.Live, error)
	Reject(ctx context.Context, actor models.Actor, id int64, note string) (models.Live, error)
	Withdraw(ctx context.Context, actor models.Actor, id int64) (models.Live, error)
	Stop(ctx context.Context, actor models.Actor, slug string, kind models.ActionKind) error
}

// Policies has the pages of rules, and of where follow-ups go.
type Policies struct {
	Book  ruler
	Lives enlivener
}

func (h Policies) show(c *gin.Context) error {
	f, err := h.Book.File(c.Request.Context(), web.Actor(c), c.Query("shop"))
	if err != nil {
		return err
	}
	return h.page(c, http.StatusOK, policiesModel(f, web.Actor(c)))
}

func (h Policies) page(c *gin.Context, status int, m views.PoliciesModel) error {
	return web.Render(c, status, views.Policies(web.Page(c, locale.T(c.Request.Context(), "nav.policies"), "policies"), m))
}

// setRules saves all rules of a shop, or goes back to the product's own.
func (h Policies) setRules(c *gin.Context) error {
	ctx, actor, slug := c.Request.Context(), web.Actor(c), c.Param("slug")
	f, err := h.Book.File(ctx, actor, slug)
	if err != nil {
		return err
	}
	typed, rules, bad := typedRules(c)
	said := "policies.saved"
	if c.PostForm("defaults") == "true" {
		typed, rules, bad, said = nil, models.RulesOf(nil), nil, "policies.defaults_back"
	}
	status := http.StatusUnprocessableEntity
	if len(bad) == 0 {
		err = h.Book.SetRules(ctx, actor, slug, c.PostForm("version"), rules)
		wrong, ok := errors.AsType[*models.Error](err)
		switch {
		case err == nil:
			web.Flash(c, said)
			return web.SeeOther(c, policiesPath(slug))
		case ok && wrong.Code == models.Invalid:
			bad = wrong.Fields
		case ok && wrong.Code == models.Conflict:
			status = http.StatusConflict
			if f, err = h.Book.File(ctx, actor, slug); err != nil {
				return err
			}
		default:
			return err
		}
	}
	m := policiesModel(f, actor)
	if status == http.StatusConflict {
		m.Wrong = locale.Say("error.rules_saved_meanwhile")
	} else {
		// Still what was seen: who saved meanwhile isn't overwritten by a corrected form.
		m.Wrong, m.Version = locale.Say("policies.wrong"), c.PostForm("version")
	}
	retype(&m, f.Rules, typed, bad, status == http.StatusConflict)
	return h.page(c, status, m)
}

// A typedRule is a rule as somebody typed it.
type typedRule struct {
	active     bool
	wait, unit string
}

// typedRules reads all rules of the form. bad are the fields that can't be read.
func typedRules(c *gin.Context) (typed map[string]typedRule, rules models.ActionRules, bad map[string]string) {
	typed, bad = map[string]typedRule{}, map[string]string{}
	on := c.PostFormArray("on")
	for _, r := range models.RulesOf(nil) {
		field := casework.RuleField(r)
		t := typedRule{active: slices.Contains(on, field), wait: c.PostForm("wait:" + field), unit: c.PostForm("unit:" + field)}
		var ok bool
		r.Active = t.active
		if r.Wait, ok = typedWait(t); !ok {
			bad[field] = "error.rule_wait"
		}
		typed[field] = t
		rules = append(rules, r)
	}
	return typed, rules, bad
}

// units are those in which waiting times are typed.
var units = map[string]time.Duration{"min": time.Minute, "h": time.Hour}

func typedWait(t typedRule) (time.Duration, bool) {
	n, err := strconv.ParseUint(strings.TrimSpace(t.wait), 10, 16)
	unit, known := units[t.unit]
	wait := time.Duration(n) * unit
	return wait, err == nil && known && wait <= models.LongestWait
}

// liveForm is the page on which a person asks for a kind to be made live.
func (h Policies) liveForm(c *gin.Context) error {
	f, k, err := h.kind(c)
	if err != nil {
		return err
	}
	if k.Open != nil {
		web.FlashBad(c, "policies.asked_already")
		return web.SeeOther(c, kindPath(f.Slug, k.Kind))
	}
	m := views.LiveFormModel{Mode: k.Mode, URL: k.URL, Idempotent: k.Idempotent, Hosts: strings.Join(k.Hosts, ", "), Seen: k.Seen}
	if m.Mode == models.Watch {
		m.Mode = models.ByHTTP
	}
	return h.showLiveForm(c, http.StatusOK, f, k, m)
}

func (h Policies) showLiveForm(c *gin.Context, status int, f models.PolicyFile, k models.KindFile, m views.LiveFormModel) error {
	ctx := c.Request.Context()
	m.Shop, m.Kind, m.Signed = f.ShopName, k.Kind, k.Signed
	m.Action, m.Back = livePath(f.Slug, k.Kind), kindPath(f.Slug, k.Kind)
	m.Other = web.Actor(c).Role.OtherSide()
	key := "policies.make_live"
	if k.Mode != models.Watch {
		key = "policies.change_live"
	}
	return web.Render(c, status, views.LiveForm(web.Page(c, locale.T(ctx, key, locale.Say("action."+string(k.Kind))), "policies"), m))
}

// kind finds the kind of a shop that a request is about.
func (h Policies) kind(c *gin.Context) (models.PolicyFile, models.KindFile, error) {
	f, err := h.Book.File(c.Request.Context(), web.Actor(c), c.Param("slug"))
	if err != nil {
		return f, models.KindFile{}, err
	}
	i := slices.IndexFunc(f.Kinds, func(k models.KindFile) bool { return string(k.Kind) == c.Param("kind") })
	if i < 0 {
		return f, models.KindFile{}, models.Fail(models.NotFound, "error.not_found")
	}
	return f, f.Kinds[i], nil
}

func (h Policies) propose(c *gin.Context) error {
	f, k, err := h.kind(c)
	if err != nil {
		return err
	}
	var in struct {
		Mode       string `form:"mode"`
		URL        string `form:"url"`
		Secret     string `form:"secret"`
		Idempotent bool   `form:"idempotent"`
		Hosts      string `form:"hosts"`
		Reason     string `form:"reason"`
		Seen       string `form:"seen"`
	}
	if err := c.ShouldBind(&in); err != nil {
		return models.Fail(models.Invalid, "error.invalid").Because(err)
	}
	hosts := strings.FieldsFunc(in.Hosts, func(r rune) bool { return strings.ContainsRune(", \t;", r) })
	_, err = h.Lives.Propose(c.Request.Context(), web.Actor(c), casework.LiveProposal{Reason: in.Reason, Seen: in.Seen,
		Setup: actions.Setup{Shop: f.Slug, Kind: k.Kind, Mode: models.DestinationMode(in.Mode), URL: strings.TrimSpace(in.URL), Idempotent: in.Idempotent,
			Hosts: hosts, Secret: in.Secret}})
	m := views.LiveFormModel{Mode: models.DestinationMode(in.Mode), URL: in.URL, Idempotent: in.Idempotent, Hosts: in.Hosts, Reason: in.Reason, Seen: in.Seen,
		Errors: views.FieldErrors{}}
	wrong, ok := errors.AsType[*models.Error](err)
	switch {
	case err == nil:
		web.Flash(c, "policies.asked_now")
		return web.SeeOther(c, kindPath(f.Slug, k.Kind))
	case ok && wrong.Code == models.Invalid:
		for field, key := range wrong.Fields {
			m.Errors[field] = locale.Say(key)
		}
		if in.Secret != "" {
			m.Wrong = locale.Say("policies.secret_again")
		}
		return h.showLiveForm(c, http.StatusUnprocessableEntity, f, k, m)
	case ok && wrong.Code == models.Conflict:
		m.Wrong, m.Seen = locale.Say(wrong.Key, wrong.Args...), k.Seen
		return h.showLiveForm(c, http.StatusConflict, f, k, m)
	}
	return err
}

// request is the one that a form of a kind is about.
func (h Policies) request(c *gin.Context) (models.PolicyFile, models.KindFile, int64, error) {
	f, k, err := h.kind(c)
	if err != nil {
		return f, k, 0, err
	}
	id, err := strconv.ParseInt(c.PostForm("request"), 10, 64)
	if err != nil {
		return f, k, 0, models.Fail(models.NotFound, "error.request_unknown").Because(err)
	}
	return f, k, id, nil
}

// decided says on the kind's page what became of a request.
func decided(c *gin.Context, f models.PolicyFile, k models.KindFile, err error, said string) error {
	if err := flashed(c, err, said); err != nil {
		return err
	}
	return web.SeeOther(c, kindPath(f.Slug, k.Kind))
}

func (h Policies) approve(c *gin.Context) error {
	f, k, id, err := h.request(c)
	if err != nil {
		return err
	}
	_, err = h.Lives.Approve(c.Request.Context(), web.Actor(c), id)
	return decided(c, f, k, err, "policies.approved")
}

func (h Policies) withdraw(c *gin.Context) error {
	f, k, id, err := h.request(c)
	if err != nil {
		return err
	}
	_, err = h.Lives.Withdraw(c.Request.Context(), web.Actor(c), id)
	return decided(c, f, k, err, "policies.withdrawn")
}

func (h Policies) reject(c *gin.Context) error {
	f, k, id, err := h.request(c)
	if err != nil {
		return err
	}
	note := c.PostForm("note")
	_, err = h.Lives.Reject(c.Request.Context(), web.Actor(c), id, note)
	if wrong, ok := errors.AsType[*models.Error](err); ok && wrong.Code == models.Invalid {
		m := policiesModel(f, web.Actor(c))
		m.Wrong = locale.Say("error.invalid")
		for _, shown := range m.Kinds {
			if shown.Kind == k.Kind && shown.Open != nil {
				shown.Open.Note, shown.Open.Errors = note, views.FieldErrors{"note": locale.Say(wrong.Fields["note"])}
			}
		}
		return h.page(c, http.StatusUnprocessableEntity, m)
	}
	return decided(c, f, k, err, "policies.rejected")
}

func (h Policies) stop(c *gin.Context) error {
	f, k, err := h.kind(c)
	if err != nil {
		return err
	}
	return decided(c, f, k, h.Lives.Stop(c.Request.Context(), web.Actor(c), f.Slug, k.Kind), "policies.stopped")
}
