package receiptroller

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"counterfoil/models"
	"counterfoil/models/platform"
)

// perPage is the most that a list answers at once.
const perPage = 1000

// Fetch reads receipts as they stand now. Calls are scarce, so several receipts of
// one month are looked up in the month's list where that costs fewer of them.
func (a *Adapter) Fetch(ctx context.Context, refs []models.ObjectRef) (map[models.ObjectRef]models.Observation, error) {
	seen := make(map[models.ObjectRef]models.Observation, len(refs))
	groups := map[month]map[models.ObjectRef]target{}
	var order []month
	for _, ref := range refs {
		t, ok := parseRef(ref)
		if !ok {
			seen[ref] = a.absent(ref, models.Unreadable, "not the reference of a receipt")
			continue
		}
		if groups[t.month] == nil {
			groups[t.month] = map[models.ObjectRef]target{}
			order = append(order, t.month)
		}
		groups[t.month][ref] = t
	}
	for _, m := range order {
		if err := a.fetchMonth(ctx, m, groups[m], seen); err != nil {
			return nil, err
		}
	}
	return seen, nil
}

// absent is an observation without an object.
func (a *Adapter) absent(ref models.ObjectRef, why models.Absence, detail string) models.Observation {
	return models.Observation{Ref: ref, Basis: models.Official, Absence: why, Detail: detail, Read: a.now()}
}

// fetchMonth reads receipts of one month and takes them out of rest.
func (a *Adapter) fetchMonth(ctx context.Context, m month, rest map[models.ObjectRef]target, seen map[models.ObjectRef]models.Observation) error {
	if err := a.fetchListed(ctx, m, rest, seen); err != nil {
		return err
	}
	for ref, t := range rest {
		if t.store == "" {
			// Only the list could have had it, and it was read to its end.
			seen[ref] = a.absent(ref, models.Gone, "not in the list of its month")
			continue
		}
		o, err := a.fetchOne(ctx, ref, t)
		if err != nil {
			return err
		}
		seen[ref] = o
	}
	return nil
}

// fetchListed looks receipts up in their month's list, page by page, as long as the
// pages left cost fewer calls than asking for each receipt. Receipts without a store
// have no address of their own; for them the list is read to its end.
func (a *Adapter) fetchListed(ctx context.Context, m month, rest map[models.ObjectRef]target, seen map[models.ObjectRef]models.Observation) error {
	for page := 1; len(rest) > 0; page++ {
		storeless := 0
		for _, t := range rest {
			if t.store == "" {
				storeless++
			}
		}
		left := max(1, a.pagesOf(m)-page+1)
		if storeless == 0 && left >= len(rest) {
			return nil
		}
		l, err := a.list(ctx, m, page)
		if err != nil {
			return err
		}
		listed := make(map[[2]string]receipt, len(l.receipts))
		for _, r := range l.receipts {
			listed[[2]string{r.store.text, r.id.text}] = r
		}
		for ref, t := range rest {
			if r, ok := listed[[2]string{t.store, t.id}]; ok {
				seen[ref] = a.official(ref, r, l.read)
				delete(rest, ref)
			}
		}
		if l.last {
			return nil
		}
	}
	return nil
}

// fetchOne asks for one receipt at its own address.
func (a *Adapter) fetchOne(ctx context.Context, ref models.ObjectRef, t target) (models.Observation, error) {
	read := a.now()
	path := "/" + url.PathEscape(t.org) + "/" + t.yyyymm + "/" + url.PathEscape(t.store) + "/receipt/" + url.PathEscape(t.id)
	answer, err := a.call(ctx, http.MethodGet, path, nil)
	switch {
	case err != nil:
		return models.Observation{}, err
	case answer.Status == http.StatusNotFound:
		return a.absent(ref, models.Gone, "status 404"), nil
	case answer.Status != http.StatusOK:
		return a.absent(ref, models.Unreadable, fmt.Sprintf("status %d", answer.Status)), nil
	case !json.Valid(answer.Body):
		return models.Observation{}, &platform.Outage{Detail: "the answer isn't JSON"}
	}
	r := readReceipt(placeOf("", answer.Body))
	if r.id.text != "" && !strings.EqualFold(r.id.text, t.id) {
		return a.absent(ref, models.Unreadable, "the answer is about another receipt"), nil
	}
	o := a.official(ref, r, read)
	if r.id.text == "" {
		o.Faults = append(o.Faults, models.Fault{Kind: models.SchemaChanged, Path: r.id.path})
	}
	return o, nil
}

// A listing is one page of a month's list.
type listing struct {
	receipts []receipt
	last     bool
	read     time.Time // when the reading began
}

// list reads one page of a month. A month without receipts is empty or 404.
func (a *Adapter) list(ctx context.Context, m month, page int) (listing, error) {
	l := listing{read: a.now()}
	at, err := time.Parse("200601", m.yyyymm)
	if err != nil {
		return l, fmt.Errorf("receiptroller: month list: %w", err)
	}
	body, err := json.Marshal(map[string]any{"year": at.Year(), "month": int(at.Month()), "currentPage": page, "itemsPerPage": perPage, "sort": "transactionId asc"})
	if err != nil {
		return l, fmt.Errorf("receiptroller: month list: %w", err)
	}
	answer, err := a.call(ctx, http.MethodPost, "/"+url.PathEscape(m.org)+"/receipts", body)
	switch {
	case err != nil:
		return l, err
	case answer.Status == http.StatusNotFound:
		l.last = true
		return l, nil
	case answer.Status != http.StatusOK:
		return l, fmt.Errorf("receiptroller: month list: status %d", answer.Status)
	case !json.Valid(answer.Body):
		return l, &platform.Outage{Detail: "the answer isn't JSON"}
	}
	return a.readList(l, m, page, answer.Body)
}

// readList reads a page. A receipt that can't be named fails it: passing one over
// would make a sweep call a month clean that isn't.
func (a *Adapter) readList(l listing, m month, page int, body []byte) (listing, error) {
	outer := placeOf("", body)
	raw, _ := outer.raw("items")
	total, counted := find([]place{outer}, "totalItems").whole()
	var items []json.RawMessage
	if raw != nil && json.Unmarshal(raw, &items) != nil || items == nil && !(counted && total == 0) {
		return l, errors.New("receiptroller: month list: items is gone or of another type")
	}
	for i, item := range items {
		r := readReceipt(placeOf("", item))
		if !usable(r.id.text) || r.store.wrong || r.store.text != "" && !usable(r.store.text) {
			return l, fmt.Errorf("receiptroller: month list: items[%d].receipt has no usable receiptId or storeId", i)
		}
		l.receipts = append(l.receipts, r)
	}
	pages, known := find([]place{outer}, "totalPages").whole()
	l.last = len(items) == 0 || known && int64(page) >= pages || !known && len(items) < perPage
	if known && pages > 0 && pages < 1e6 {
		a.mu.Lock()
		a.pages[m] = int(pages)
		a.mu.Unlock()
	}
	return l, nil
}

// pagesOf is how many pages a month's list had when last seen, 0 where unknown.
func (a *Adapter) pagesOf(m month) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.pages[m]
}

// Changed lists the receipts of every month that the window touches, one page of a
// month's list at a time. The platform tells of no changes: whoever compares finds
// them. A window without a beginning is the month of its end and the one before.
func (a *Adapter) Changed(ctx context.Context, w platform.Window) (platform.Batch, error) {
	if w.Kind != "" && w.Kind != receiptKind {
		return platform.Batch{}, fmt.Errorf("receiptroller: %q can't be listed", w.Kind)
	}
	at, last, page, err := a.position(w)
	if err != nil {
		return platform.Batch{}, err
	}
	if at.After(last) {
		return platform.Batch{}, nil
	}
	m := month{org: a.account, yyyymm: at.Format("200601")}
	l, err := a.list(ctx, m, page)
	if err != nil {
		return platform.Batch{}, err
	}
	var b platform.Batch
	for _, r := range l.receipts {
		o := a.official(a.listedRef(m, r), r, l.read)
		if placed := r.placed.time(a.zone); !placed.IsZero() && placed.In(a.zone).Format("200601") != m.yyyymm {
			// The month that the platform counts isn't the one that month_zone gives.
			o.Faults = append(o.Faults, models.Fault{Kind: models.Contradiction, Path: r.placed.path, Word: m.yyyymm})
		}
		b.Refs = append(b.Refs, o.Ref)
		b.Observations = append(b.Observations, o)
	}
	switch next := at.AddDate(0, 1, 0); {
	case !l.last:
		b.Next = cursor(at, page+1)
	case !next.After(last):
		b.Next = cursor(next, 1)
	}
	return b, nil
}

// listedRef names a listed receipt as its events do, by the month of its sale, so
// that both mean one object; without a readable time by the month of the list.
func (a *Adapter) listedRef(m month, r receipt) models.ObjectRef {
	t := target{month: m, store: r.store.text, id: r.id.text}
	if placed := r.placed.time(a.zone); !placed.IsZero() {
		t.yyyymm = placed.In(a.zone).Format("200601")
	}
	return t.ref()
}

// cursor names a page of a month, e.g. 202611:2.
func cursor(at time.Time, page int) string { return at.Format("200601") + ":" + strconv.Itoa(page) }

// position is where in a window to go on: the month to list, the window's last
// month, and the page.
func (a *Adapter) position(w platform.Window) (at, last time.Time, page int, err error) {
	until := w.Until
	if until.IsZero() {
		until = a.now()
	}
	last = a.monthOf(until)
	at, page = last.AddDate(0, -1, 0), 1
	if !w.Since.IsZero() {
		at = a.monthOf(w.Since)
	}
	if w.Cursor == "" {
		return at, last, page, nil
	}
	name, number, _ := strings.Cut(w.Cursor, ":")
	at, err = time.Parse("200601", name)
	if err == nil {
		page, err = strconv.Atoi(number)
	}
	if err != nil || page < 1 {
		return at, last, page, fmt.Errorf("receiptroller: the cursor can't be read")
	}
	return at, last, page, nil
}

// monthOf is the first day of the month that a time lies in, by the platform's zone.
func (a *Adapter) monthOf(t time.Time) time.Time {
	t = t.In(a.zone)
	return time.Date(t.Year(), t.Month(), 1, 0, 0, 0, 0, time.UTC)
}

// Check asks which organizations our access covers, and says whether this one is
// among them.
func (a *Adapter) Check(ctx context.Context) ([]models.Note, error) {
	answer, err := a.call(ctx, http.MethodGet, "/account/organizations", nil)
	if err != nil {
		return nil, err
	}
	var list []json.RawMessage
	if answer.Status != http.StatusOK || json.Unmarshal(answer.Body, &list) != nil {
		return nil, &platform.Outage{Detail: fmt.Sprintf("list of organizations: status %d", answer.Status)}
	}
	for _, raw := range list {
		p := []place{placeOf("", raw)}
		if find(p, "id", "organizationId").text == a.account {
			return []models.Note{{Key: "note.receiptroller.organization", Args: []string{a.account}, At: a.now()}}, nil
		}
	}
	return []models.Note{{Key: "note.receiptroller.organization_missing", Args: []string{a.account}, Warn: true, At: a.now()}}, nil
}
