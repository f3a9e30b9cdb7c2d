package store

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"counterfoil/models"
)

// idList writes ids as a Postgres array literal; gorm would spread a slice.
func idList(ids []int64) string {
	parts := make([]string, len(ids))
	for i, id := range ids {
		parts[i] = strconv.FormatInt(id, 10)
	}
	return "{" + strings.Join(parts, ",") + "}"
}

// ConnectionFiles lists the connections of the given shops (empty: all) with
// everything their page shows, except what only an adapter knows.
func (r reads) ConnectionFiles(ctx context.Context, shops []int64) ([]models.ConnectionFile, error) {
	var rows []ConnectionRow
	if err := r.rows(ctx, &rows, connectionColumns+` WHERE (?::bigint[] = '{}' OR c.shop_id = ANY (?::bigint[])) ORDER BY c.slug`, idList(shops), idList(shops)); err != nil {
		return nil, err
	}
	files := make([]models.ConnectionFile, 0, len(rows))
	at := map[int64]int{}
	for _, row := range rows {
		f := models.ConnectionFile{ID: row.ID, Slug: row.Slug, Platform: row.Platform, Account: row.Account, ShopID: row.ShopID,
			Shop: row.Shop, ShopName: row.ShopName, APIURL: row.APIURL, API: row.APIState, APISince: row.APISince.UTC(), APIError: row.APIError,
			Rejected: row.Rejected, Test: row.Demo}
		_ = json.Unmarshal([]byte(row.Settings), &f.Settings)
		_ = json.Unmarshal([]byte(row.Notes), &f.Notes)
		if row.APIFailing != nil && f.APISince.Before(row.APIFailing.UTC()) && f.API == models.APIUp {
			f.APISince = row.APIFailing.UTC()
		}
		at[row.ID] = len(files)
		files = append(files, f)
	}
	ids := make([]int64, len(files))
	for i, f := range files {
		ids[i] = f.ID
	}
	histories, err := r.healthHistories(ctx, ids)
	if err != nil {
		return nil, err
	}
	for i := range files {
		files[i].History = histories[files[i].ID]
	}
	var secrets []SecretRow
	if err := r.rows(ctx, &secrets, `SELECT id, connection_id, fingerprint, added_at, retired_at, last_matched FROM connection_secrets ORDER BY connection_id, added_at, id`); err != nil {
		return nil, err
	}
	for _, s := range secrets {
		if i, ok := at[s.ConnectionID]; ok {
			files[i].Secrets = append(files[i].Secrets, models.SecretView{Fingerprint: s.Fingerprint, Added: s.AddedAt.UTC(), Retired: utc(s.RetiredAt), LastMatched: utc(s.LastMatched)})
		}
	}
	var rejected []struct {
		ConnectionID int64
		At           time.Time
		RequestID    string
		Reason       string
		Cause        string
		Detail       string
		Size         int64
		Hash         string
		Headers      string
	}
	if err := r.rows(ctx, &rejected, `
SELECT x.connection_id, x.at, x.request_id, x.reason, x.cause, x.detail, x.size, x.hash, array_to_string(x.headers, ' ') AS headers
FROM connections c CROSS JOIN LATERAL (SELECT * FROM rejections WHERE connection_id = c.id ORDER BY id DESC LIMIT 20) x`); err != nil {
		return nil, err
	}
	for _, x := range rejected {
		if i, ok := at[x.ConnectionID]; ok {
			files[i].Rejections = append(files[i].Rejections, models.Rejection{At: x.At.UTC(), RequestID: x.RequestID, Reason: x.Reason, Cause: x.Cause, Detail: x.Detail, Size: x.Size, Hash: x.Hash, Headers: strings.Fields(x.Headers)})
		}
	}
	var topics []struct {
		ConnectionID int64
		Topic        string
		Known        bool
		Count        int64
		LastAt       time.Time
	}
	if err := r.rows(ctx, &topics, `SELECT connection_id, topic, known, count, last_at FROM topics ORDER BY known, count DESC, topic`); err != nil {
		return nil, err
	}
	for _, x := range topics {
		if i, ok := at[x.ConnectionID]; ok {
			files[i].Topics = append(files[i].Topics, models.TopicCount{Topic: x.Topic, Known: x.Known, Count: x.Count, Last: x.LastAt.UTC()})
		}
	}
	var sums []struct {
		ID        int64
		Events24  int64
		LastEvent *time.Time
		Oldest    *time.Time
		Calls30   int64
		OpenExc   int64
		OldestExc *time.Time
		LastSweep *time.Time
		Reached   *time.Time
	}
	if err := r.rows(ctx, &sums, `
SELECT c.id,
       (SELECT count(*) FROM (SELECT e.received_at FROM events e WHERE e.connection_id = c.id ORDER BY e.id DESC LIMIT 10000) x
           WHERE x.received_at > now() - interval '24 hours') AS events24,
       (SELECT e.received_at FROM events e WHERE e.connection_id = c.id ORDER BY e.id DESC LIMIT 1) AS last_event,
       (SELECT min(e.received_at) FROM events e WHERE e.connection_id = c.id AND e.due_at IS NOT NULL) AS oldest,
       (SELECT COALESCE(sum(k.calls), 0) FROM connection_calls k WHERE k.connection_id = c.id AND k.day > (now() AT TIME ZONE 'UTC')::date - 30) AS calls30,
       (SELECT count(*) FROM exceptions x WHERE x.connection_id = c.id AND x.state = 'open') AS open_exc,
       (SELECT min(x.first_seen) FROM exceptions x WHERE x.connection_id = c.id AND x.state = 'open') AS oldest_exc,
       (SELECT max(s.ended_at) FROM sweeps s WHERE s.connection_id = c.id AND s.state = 'done') AS last_sweep,
       (SELECT min(p.at) FROM checkpoints p WHERE p.connection_id = c.id) AS reached
FROM connections c`); err != nil {
		return nil, err
	}
	for _, x := range sums {
		if i, ok := at[x.ID]; ok {
			files[i].Events24, files[i].LastEvent, files[i].Oldest, files[i].Calls30 = x.Events24, utc(x.LastEvent), utc(x.Oldest), x.Calls30
			files[i].OpenExc, files[i].OldestExc = x.OpenExc, utc(x.OldestExc)
			files[i].LastSweep = utc(x.LastSweep)
			if x.Reached != nil {
				files[i].Checkpoint = x.Reached.UTC().Format(time.RFC3339)
			}
		}
	}
	holds, err := r.holdsWhere(ctx, `h.scope <> 'order'`)
	for _, h := range holds {
		for i, f := range files {
			if h.Scope == models.HoldConnection && h.Subject == f.ID || h.Scope == models.HoldShop && h.Subject == f.ShopID {
				files[i].Holds = append(files[i].Holds, h)
			}
		}
	}
	return files, err
}

// utc reads a nullable time; zero where there is none.
func utc(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.UTC()
}

// nullTime writes a zero time as NULL.
func nullTime(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}
