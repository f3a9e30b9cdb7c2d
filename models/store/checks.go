package store

import (
	"context"
	"encoding/json"
	"time"

	"counterfoil/models"
)

// Marked keeps a connection's mark and tells whether it moved. The first mark is only
// kept: nothing changed that we know of.
func (tx *Tx) Marked(ctx context.Context, connection int64, mark string) (moved bool, err error) {
	n, err := tx.changed(ctx, `INSERT INTO connection_marks (connection_id, mark) VALUES (?, ?) ON CONFLICT DO NOTHING`, connection, mark)
	if err != nil || n > 0 {
		return false, err
	}
	n, err = tx.changed(ctx, `UPDATE connection_marks SET mark = ? WHERE connection_id = ? AND mark <> ?`, mark, connection, mark)
	return n > 0, err
}

// BeginCheck notes that a check of a connection runs.
func (tx *Tx) BeginCheck(ctx context.Context, connection int64, mark, version, by string) (int64, error) {
	var id int64
	err := tx.one(ctx, "error.connection_unknown", &id, `
INSERT INTO connection_checks (connection_id, mark, version, by, started_at) VALUES (?, ?, ?, ?, ?) RETURNING id`, connection, mark, version, by, tx.Now)
	return id, err
}

// keptChecks is how many checks of a connection are kept.
const keptChecks = 20

// EndCheck keeps how a check went.
func (tx *Tx) EndCheck(ctx context.Context, id, connection int64, steps []models.CheckStep) error {
	b, err := json.Marshal(steps)
	if err != nil {
		return err
	}
	wrong := 0
	for _, s := range steps {
		if s.State == models.StepWrong {
			wrong++
		}
	}
	if err := tx.exec(ctx, `UPDATE connection_checks SET ended_at = ?, wrong = ?, steps = ?::jsonb WHERE id = ?`, tx.Now, wrong, string(b), id); err != nil {
		return err
	}
	return tx.exec(ctx, `
DELETE FROM connection_checks WHERE connection_id = ? AND id <= (SELECT id FROM connection_checks WHERE connection_id = ? ORDER BY id DESC OFFSET ? LIMIT 1)`,
		connection, connection, keptChecks)
}

// Checks lists a connection's newest checks.
func (r reads) Checks(ctx context.Context, connection int64, limit int) ([]models.ConnectionCheck, error) {
	var rows []struct {
		ID        int64
		By        string
		Version   string
		StartedAt time.Time
		EndedAt   *time.Time
		Wrong     int
		Steps     string
	}
	if err := r.rows(ctx, &rows, `
SELECT id, by, version, started_at, ended_at, wrong, steps::text AS steps FROM connection_checks WHERE connection_id = ? ORDER BY id DESC LIMIT ?`, connection, limit); err != nil {
		return nil, err
	}
	out := make([]models.ConnectionCheck, len(rows))
	for i, x := range rows {
		out[i] = models.ConnectionCheck{ID: x.ID, By: x.By, Version: x.Version, Started: x.StartedAt.UTC(), Ended: utc(x.EndedAt), Wrong: x.Wrong}
		if err := json.Unmarshal([]byte(x.Steps), &out[i].Steps); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// Canaries lists a connection's test objects, with the first notification that came of
// each since it is awaited.
func (r reads) Canaries(ctx context.Context, connection int64) ([]models.Canary, error) {
	var rows []struct {
		ID            int64
		Account       string
		Kind          string
		Ref           string
		Shape         *string
		ShapeAt       *time.Time
		AddedAt       time.Time
		AddedBy       string
		AwaitingSince *time.Time
		AwaitedAfter  int64
		CameAt        *time.Time
		CameID        *int64
		CameTopic     *string
	}
	if err := r.rows(ctx, &rows, `
SELECT k.id, k.account, k.kind, k.ref, k.shape::text AS shape, k.shape_at, k.added_at, k.added_by, k.awaiting_since, k.awaited_after,
       e.received_at AS came_at, e.id AS came_id, e.topic AS came_topic
FROM canaries k LEFT JOIN LATERAL (
    SELECT e.id, e.received_at, e.topic FROM events e
    WHERE k.awaiting_since IS NOT NULL AND e.connection_id = k.connection_id AND e.object_kind = k.kind AND e.object_ref = k.ref AND e.id > k.awaited_after
    ORDER BY e.id LIMIT 1) e ON true
WHERE k.connection_id = ? AND k.removed_at IS NULL ORDER BY k.id`, connection); err != nil {
		return nil, err
	}
	out := make([]models.Canary, len(rows))
	for i, x := range rows {
		out[i] = models.Canary{ID: x.ID, Connection: connection, Ref: models.ObjectRef{Account: x.Account, Kind: x.Kind, ID: x.Ref}, Shaped: utc(x.ShapeAt),
			Added: x.AddedAt.UTC(), By: x.AddedBy, Awaiting: utc(x.AwaitingSince), After: x.AwaitedAfter, Came: utc(x.CameAt)}
		if x.CameID != nil {
			out[i].CameEvent, out[i].CameTopic = *x.CameID, *x.CameTopic
		}
		if x.Shape != nil {
			if err := json.Unmarshal([]byte(*x.Shape), &out[i].Shape); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

// AddCanary makes an object a known test object; false where it is one already.
func (tx *Tx) AddCanary(ctx context.Context, connection int64, ref models.ObjectRef, by string) (bool, error) {
	n, err := tx.changed(ctx, `
INSERT INTO canaries (connection_id, account, kind, ref, added_at, added_by) VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
		connection, ref.Account, ref.Kind, ref.ID, tx.Now, by)
	return n > 0, err
}

// RemoveCanary takes one away.
func (tx *Tx) RemoveCanary(ctx context.Context, connection, id int64) error {
	return tx.canary(ctx, `UPDATE canaries SET removed_at = ? WHERE id = ? AND connection_id = ? AND removed_at IS NULL`, tx.Now, id, connection)
}

// AwaitCanary begins to wait for a notification of one.
func (tx *Tx) AwaitCanary(ctx context.Context, connection, id int64) error {
	return tx.canary(ctx, `
UPDATE canaries SET awaiting_since = ?, awaited_after = COALESCE((SELECT max(id) FROM events WHERE connection_id = ?), 0)
WHERE id = ? AND connection_id = ? AND removed_at IS NULL`, tx.Now, connection, id, connection)
}

func (tx *Tx) canary(ctx context.Context, query string, args ...any) error {
	n, err := tx.changed(ctx, query, args...)
	if err == nil && n == 0 {
		return models.Fail(models.NotFound, "error.canary_unknown")
	}
	return err
}

// ShapeCanary keeps the shape of one: the first that was seen, or one that a person
// says is right now; nil forgets it, so that the next check keeps what it sees.
func (tx *Tx) ShapeCanary(ctx context.Context, connection, id int64, shape models.Shape) error {
	if shape == nil {
		return tx.canary(ctx, `UPDATE canaries SET shape = NULL, shape_at = NULL WHERE id = ? AND connection_id = ? AND removed_at IS NULL`, id, connection)
	}
	b, err := json.Marshal(shape)
	if err != nil {
		return err
	}
	return tx.canary(ctx, `UPDATE canaries SET shape = ?::jsonb, shape_at = ? WHERE id = ? AND connection_id = ? AND removed_at IS NULL`, string(b), tx.Now, id, connection)
}

// A Signatures is how a connection's requests were signed lately.
type Signatures struct {
	Count   int64     // refused for their signature since the last that was taken
	Cause   string    // likely, of the newest
	Detail  string    // of the cause
	Matched time.Time // when an accepted secret matched last
}

// WrongSignatures counts the kept refusals of a connection since a time that are newer
// than the last genuine request.
func (r reads) WrongSignatures(ctx context.Context, connection int64, since time.Time) (Signatures, error) {
	var row struct {
		Count   int64
		Cause   string
		Detail  string
		Matched *time.Time
	}
	err := r.rows(ctx, &row, `
WITH matched AS (
    SELECT greatest((SELECT max(last_matched) FROM connection_secrets WHERE connection_id = ?),
                    (SELECT received_at FROM events WHERE connection_id = ? ORDER BY id DESC LIMIT 1)) AS at),
wrong AS (
    SELECT x.cause, x.detail, x.at FROM rejections x, matched m
    WHERE x.connection_id = ? AND x.reason = 'signature_wrong' AND x.at > ? AND (m.at IS NULL OR x.at > m.at))
SELECT (SELECT count(*) FROM wrong) AS count, COALESCE((SELECT cause FROM wrong ORDER BY at DESC LIMIT 1), '') AS cause,
       COALESCE((SELECT detail FROM wrong ORDER BY at DESC LIMIT 1), '') AS detail, (SELECT at FROM matched) AS matched`, connection, connection, connection, since)
	return Signatures{Count: row.Count, Cause: row.Cause, Detail: row.Detail, Matched: utc(row.Matched)}, err
}

// KnownObject finds an object of a connection by one of its spellings; zero where our
// record has none.
func (r reads) KnownObject(ctx context.Context, connection int64, spelled []string) (models.ObjectRef, error) {
	list, err := json.Marshal(spelled)
	if err != nil {
		return models.ObjectRef{}, err
	}
	var row struct{ Account, Kind, Ref string }
	err = r.rows(ctx, &row, `
SELECT account, kind, ref FROM platform_objects p
WHERE p.connection_id = ? AND p.ref = ANY (ARRAY(SELECT jsonb_array_elements_text(?::jsonb))) ORDER BY id LIMIT 1`, connection, string(list))
	return models.ObjectRef{Account: row.Account, Kind: row.Kind, ID: row.Ref}, err
}
