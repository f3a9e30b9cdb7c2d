package actions

import (
	"context"
	"math/rand/v2"
	"strings"
	"time"
	"unicode/utf8"

	"counterfoil/models"
	"counterfoil/models/store"
)

const (
	// maxTries is how often a destination is called before a person has to look: some
	// two hours.
	maxTries = 30
	// caseAfter is how many tries fail before people are told.
	caseAfter  = 3
	longestGap = 5 * time.Minute
	// longestAfter is the longest pause that a destination may ask for.
	longestAfter = time.Hour
)

// backoff doubles from a second, with a little noise so that not all come at once.
func backoff(try int) time.Duration {
	d := min(time.Second<<min(max(try-1, 0), 10), longestGap)
	return d + time.Duration(rand.Int64N(int64(d/4)+1))
}

// ending says how an action goes on after a try. What may have had its effect is sent
// again only where the same key twice has one effect; doubt is that of the tries before,
// which no later one takes away.
func ending(a answer, idempotent, doubt bool, try int) store.Ending {
	e := store.Ending{Error: a.err, Receipt: a.receipt, After: max(backoff(try), min(a.after, longestAfter))}
	e.Doubt = doubt || a.reached && (!a.refused || a.unsure && !idempotent)
	switch {
	case a.done:
		return store.Ending{State: models.ActionDone, Receipt: a.receipt}
	case a.refused && !e.Doubt:
		e.State = models.ActionFailed
	case a.refused:
		e.State = models.ActionUnclear
	case !e.Doubt:
		e.State = models.ActionWaiting
	case !idempotent:
		e.State = models.ActionUnclear
	default:
		e.State = models.ActionSending
	}
	if e.State.Open() && try >= maxTries {
		if e.State = models.ActionFailed; a.silent && a.reached {
			e.State = models.ActionUnclear
		}
	}
	return e
}

// send calls the destination of a claimed action and stores how that went. The program
// may be told to stop meanwhile: what was begun is finished.
func (s *Actions) send(ctx context.Context, c claim) error {
	ctx = context.WithoutCancel(ctx)
	if time.Now().Round(0).Sub(c.began) > prompt {
		// This process stood still for a while: others may have decided meanwhile.
		if a, err := s.Store.Action(ctx, c.id); err != nil || a.State != models.ActionSending || a.Tries != c.try {
			return err
		}
	}
	a := s.sender.post(ctx, parcel{key: key(c.id), url: c.destination.URL, hosts: c.destination.Hosts, once: !c.destination.Idempotent,
		secret: c.secret, body: c.body, at: s.Store.Now(), until: c.began.Add(lease - callTime)})
	return s.settle(ctx, c, a)
}

// prompt is how soon after its claim a call begins, where nothing is in the way.
const prompt = time.Second

const (
	settleTries = 6
	settlePause = 500 * time.Millisecond
)

// settle stores the result of a try. While the database is away it is tried again for
// some time: the answer is known to this process only.
func (s *Actions) settle(ctx context.Context, c claim, a answer) error {
	for try := 1; ; try++ {
		err := s.Store.Tx(ctx, func(tx *store.Tx) error {
			load, err := tx.LockAction(ctx, c.id)
			if err != nil {
				return err
			}
			stands := load.Tries == c.try && (load.State == models.ActionSending || load.State == models.ActionUnclear)
			if load.State == models.ActionDone || !a.done && !stands {
				return nil // a success settles whatever stands; a failure only its own try
			}
			e := ending(a, c.destination.Idempotent, c.doubt, c.try-c.round)
			e.Untold = !c.told && !a.reached && (a.silent || a.refused)
			return s.end(ctx, tx, load, e, "sent")
		})
		if err == nil || models.CodeOf(err) == models.NotFound || try == settleTries {
			return err
		}
		<-time.After(settlePause << try)
	}
}

// end writes how an action goes on, and opens and closes its cases.
func (s *Actions) end(ctx context.Context, tx *store.Tx, load store.Load, e store.Ending, how string) error {
	e.Error, e.Receipt = storable(e.Error, maxAnswer), storable(e.Receipt, maxReceipt)
	if err := tx.EndAction(ctx, load.ID, e); err != nil || e.State == models.ActionDone && load.Error == "" {
		return err // what never failed has no case
	}
	order, err := tx.Order(ctx, load.OrderID)
	if err == nil && order.MergedInto != 0 {
		order, err = tx.Order(ctx, order.MergedInto)
	}
	if err != nil {
		return err
	}
	c := store.Case{ConnectionID: order.ConnectionID, Subject: store.ActionSubject(load.ID), OrderID: order.ID, Ref: order.Ref,
		Problem: models.Problem{Case: string(load.Kind), LocalState: string(e.State), Detail: headline(e.Error)}}
	switch {
	case e.State == models.ActionUnclear:
		c.Problem.Kind = models.ActionUnclearKind
	case e.State == models.ActionFailed, e.State.Open() && (load.Round > 0 || load.Tries >= caseAfter):
		c.Problem.Kind = models.ActionFailedKind
	}
	if err := tx.CloseActionCases(ctx, load.ID, order.ConnectionID, c.Problem.Kind, how); err != nil || c.Problem.Kind == "" {
		return err
	}
	return tx.OpenCase(ctx, c)
}

// headline is an error without what the destination wrote, which may be about a person.
func headline(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return storable(line, 200)
}

// storable makes foreign text fit for a column: no NUL, no broken UTF-8, bounded.
func storable(s string, limit int) string {
	s = strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
	if len(s) <= limit {
		return s
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return s[:limit]
}
