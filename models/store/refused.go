package store

import (
	"context"
	"strconv"
	"time"

	"counterfoil/models"
)

// A Refusal is how a connection's door refuses requests lately, by the evidence that is
// kept of them: at most some a minute, so that strangers can't make more of it.
type Refusal struct {
	Recent int64     // in the last ten minutes
	All    int64     // since the exception opened, or in the last ten minutes
	First  time.Time // of those
	Last   time.Time
	Good   time.Time // when a secret matched last; zero: never
	Case   string    // of the open exception; empty: none is open
}

// Refused tells how a connection's door refuses.
func (r reads) Refused(ctx context.Context, connection int64, now time.Time) (Refusal, error) {
	var row struct {
		Recent int64
		All    int64
		First  *time.Time
		Last   *time.Time
		Good   *time.Time
		Open   bool
		Name   *string
	}
	err := r.one(ctx, "error.connection_unknown", &row, `
SELECT count(*) FILTER (WHERE j.at > ?) AS recent, count(j.id) AS all, min(j.at) AS first, max(j.at) AS last, x.id IS NOT NULL AS open, x.case_name AS name,
       (SELECT max(s.last_matched) FROM connection_secrets s WHERE s.connection_id = c.id) AS good
FROM connections c
LEFT JOIN exceptions x ON x.connection_id = c.id AND x.subject = 'connection:' || c.id AND x.kind = ? AND x.state = 'open'
LEFT JOIN rejections j ON j.connection_id = c.id AND j.at > COALESCE(x.first_seen, ?) - interval '10 minutes'
WHERE c.id = ? GROUP BY c.id, x.id, x.case_name`, now.Add(-10*time.Minute), models.SignatureFailures, now, connection)
	out := Refusal{Recent: row.Recent, All: row.All, First: utc(row.First), Last: utc(row.Last), Good: utc(row.Good)}
	if row.Open {
		out.Case = *row.Name
	}
	return out, err
}

// EndRefusals closes the exception of a connection's refusals with their span and count;
// false: somebody else did.
func (tx *Tx) EndRefusals(ctx context.Context, connection int64, how, note string) (bool, error) {
	n, err := tx.changed(ctx, `
UPDATE exceptions SET state = 'closed', closed_at = ?, closed_how = ?, closed_note = ?, version = version + 1
WHERE connection_id = ? AND subject = ? AND kind = ? AND state = 'open'`, tx.Now, how, note, connection, "connection:"+strconv.FormatInt(connection, 10), models.SignatureFailures)
	return n > 0, err
}
