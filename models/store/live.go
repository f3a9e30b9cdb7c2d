package store

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"counterfoil/models"
)

// LiveSubject is what requests are about that want a kind of a shop live.
func LiveSubject(shop int64, kind models.ActionKind) string {
	return fmt.Sprintf("live:%d:%s", shop, kind)
}

// Seen is a short name of a destination with its secret, for whoever decides on it later.
func (d DestinationRow) Seen() string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %q %t %q %x %d", d.Kind, d.Mode, d.URL, d.Idempotent, d.Hosts, d.Secret, d.Updated.UnixMicro()))
	return hex.EncodeToString(sum[:8])
}

// A NewLive is a request as it is proposed.
type NewLive struct {
	Shop   int64
	Kind   models.ActionKind
	Reason string
	Terms  models.LiveTerms
	Secret []byte // sealed; nil: the one that is there stays
	Seen   string
	Actor  models.Actor
}

// InsertLive writes a request. One for each kind of a shop is open at most; the shop
// is locked.
func (tx *Tx) InsertLive(ctx context.Context, n NewLive) (int64, error) {
	terms, err := json.Marshal(n.Terms)
	if err != nil {
		return 0, err
	}
	var id int64
	err = tx.one(ctx, "", &id, `
INSERT INTO requests (kind, subject, shop_id, action_kind, reason, terms, secret, seen, proposed_by, proposer_name, proposer_role, proposed_at, expires_at)
VALUES ('live', ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id`, LiveSubject(n.Shop, n.Kind), n.Shop, n.Kind, n.Reason, string(terms), n.Secret, n.Seen,
		n.Actor.ID(), n.Actor.Name, n.Actor.Role, tx.Now, tx.Now.Add(models.LiveFor))
	return id, err
}

type liveRow struct {
	ID           int64
	State        models.RequestState
	Subject      string
	ShopID       int64
	Shop         string
	ActionKind   models.ActionKind
	Reason       string
	Terms        string
	Secret       []byte
	Seen         string
	Needs        int
	ProposedBy   string
	ProposerName string
	ProposerRole models.Role
	ProposedAt   time.Time
	ExpiresAt    time.Time
	DecidedBy    string
	DeciderName  string
	DecidedAt    *time.Time
	Note         string
}

const liveColumns = `
SELECT r.id, r.state, r.subject, r.shop_id, s.slug AS shop, r.action_kind, r.reason, r.terms, r.secret, r.seen, r.needs,
       r.proposed_by, r.proposer_name, r.proposer_role, r.proposed_at, r.expires_at,
       r.decided_by, r.decider_name, r.decided_at, r.note
FROM requests r JOIN shops s ON s.id = r.shop_id WHERE r.kind = 'live' AND `

func (r liveRow) live() (models.Live, error) {
	l := models.Live{Request: models.Request{ID: r.ID, Kind: models.RequestLive, State: r.State, Subject: r.Subject, ShopID: r.ShopID, Shop: r.Shop,
		ActionKind: r.ActionKind, Reason: r.Reason, Terms: r.Terms, Seen: r.Seen, Needs: r.Needs, By: r.ProposedBy, ByName: r.ProposerName,
		ByRole: r.ProposerRole, At: r.ProposedAt.UTC(), Expires: r.ExpiresAt.UTC(), DecidedBy: r.DecidedBy, Decider: r.DeciderName, Decided: utc(r.DecidedAt),
		Note: r.Note}}
	return l, json.Unmarshal([]byte(r.Terms), &l.LiveTerms)
}

// Live looks at a request without locking it.
func (r reads) Live(ctx context.Context, id int64) (models.Live, error) {
	l, _, err := r.liveWhere(ctx, "r.id = ?", id)
	return l, err
}

// LockLive locks a request, after its shop, and gives its sealed secret.
func (tx *Tx) LockLive(ctx context.Context, id int64) (models.Live, []byte, error) {
	return tx.liveWhere(ctx, "r.id = ? FOR UPDATE OF r", id)
}

func (r reads) liveWhere(ctx context.Context, cond string, args ...any) (models.Live, []byte, error) {
	var row liveRow
	if err := r.one(ctx, "error.request_unknown", &row, liveColumns+cond, args...); err != nil {
		return models.Live{}, nil, err
	}
	l, err := row.live()
	return l, row.Secret, err
}

// OpenLives lists what waits for the other side in a shop and isn't over.
func (r reads) OpenLives(ctx context.Context, shop int64, now time.Time) ([]models.Live, error) {
	return r.livesWhere(ctx, "r.state = 'proposed' AND r.shop_id = ? AND r.expires_at > ? ORDER BY r.id", shop, now)
}

// LastLives lists what was asked for last of each kind in a shop, and is over.
func (r reads) LastLives(ctx context.Context, shop int64) ([]models.Live, error) {
	return r.livesWhere(ctx, `r.id IN (SELECT max(id) FROM requests WHERE kind = 'live' AND shop_id = ? AND state <> 'proposed' GROUP BY action_kind) ORDER BY r.id`, shop)
}

func (r reads) livesWhere(ctx context.Context, cond string, args ...any) ([]models.Live, error) {
	var rows []liveRow
	if err := r.rows(ctx, &rows, liveColumns+cond, args...); err != nil {
		return nil, err
	}
	list := make([]models.Live, len(rows))
	for i, row := range rows {
		var err error
		if list[i], err = row.live(); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// ShopNames lists the given shops (empty: all) by name.
func (r reads) ShopNames(ctx context.Context, shops []int64) ([]models.ShopName, error) {
	var list []models.ShopName
	err := r.rows(ctx, &list, `SELECT id, slug, COALESCE(NULLIF(name, ''), slug) AS name FROM shops WHERE ?::bigint[] = '{}' OR id = ANY (?::bigint[]) ORDER BY slug`, idList(shops), idList(shops))
	return list, err
}

// WatchedSince counts by kind what would have been sent from a shop since a moment, up
// to a cap.
func (r reads) WatchedSince(ctx context.Context, shop int64, since time.Time, limit int) (map[models.ActionKind]models.ActionCount, error) {
	kinds := make([]string, len(models.ActionKinds))
	for i, k := range models.ActionKinds {
		kinds[i] = string(k)
	}
	var rows []struct {
		Kind models.ActionKind
		N    int
	}
	// By actions_watched.
	err := r.rows(ctx, &rows, `
SELECT k.kind, (SELECT count(*) FROM (
    SELECT 1 FROM actions a WHERE a.shop_id = ? AND a.kind = k.kind AND a.state = 'watched' AND a.planned_at >= ? LIMIT ?) x) AS n
FROM unnest(string_to_array(?, ' ')) AS k (kind)`, shop, since, limit+1, strings.Join(kinds, " "))
	counts := map[models.ActionKind]models.ActionCount{}
	for _, row := range rows {
		if row.N > 0 {
			counts[row.Kind] = models.ActionCount{N: min(row.N, limit), More: row.N > limit}
		}
	}
	return counts, err
}
