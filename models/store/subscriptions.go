package store

import (
	"context"
	"maps"
	"slices"
	"time"

	"counterfoil/models"
)

// A SubscriptionLook is what is known of a connection's subscriptions.
type SubscriptionLook struct {
	ConnectionID int64
	Address      string
	RegisteredAt *time.Time
	RegisteredBy string
	LookedAt     *time.Time
	Error        string
	NextAt       time.Time
}

// SubscriptionLook reads what is known of a connection's subscriptions; nothing yet is
// no error.
func (r reads) SubscriptionLook(ctx context.Context, connection int64) (SubscriptionLook, error) {
	look := SubscriptionLook{ConnectionID: connection}
	err := r.rows(ctx, &look, `
SELECT connection_id, address, registered_at, registered_by, looked_at, error, next_at FROM subscription_looks WHERE connection_id = ?`, connection)
	return look, err
}

// SubscriptionFaults lists the topics that aren't as they should be.
func (r reads) SubscriptionFaults(ctx context.Context, connection int64) ([]models.SubscriptionTopic, error) {
	var rows []models.SubscriptionTopic
	err := r.rows(ctx, &rows, `SELECT topic, fault, since FROM subscription_faults WHERE connection_id = ? ORDER BY topic`, connection)
	for i := range rows {
		rows[i].Since = rows[i].Since.UTC()
	}
	return rows, err
}

// ClaimLook lets one of all processes look at a connection's subscriptions: when its
// time has come, after an outage of the platform ended, or where a process has just
// started; the others wait for a while.
func (tx *Tx) ClaimLook(ctx context.Context, connection int64, started bool, lease time.Duration) (bool, error) {
	if err := tx.exec(ctx, `
INSERT INTO subscription_looks (connection_id, next_at) VALUES (?, now()) ON CONFLICT DO NOTHING`, connection); err != nil {
		return false, err
	}
	n, err := tx.changed(ctx, `
UPDATE subscription_looks l SET next_at = now() + make_interval(secs => ?)
FROM connections c WHERE l.connection_id = ? AND c.id = l.connection_id AND c.api_failing IS NULL
  AND (l.next_at <= now() OR l.next_at > now() + interval '10 minutes' AND (c.api_since > l.looked_at OR ? AND l.looked_at < now() - interval '2 minutes'))`,
		lease.Seconds(), connection, started)
	return n > 0, err
}

// LookSoon makes the next look at a connection's subscriptions due.
func (tx *Tx) LookSoon(ctx context.Context, connection int64) error {
	return tx.exec(ctx, `
INSERT INTO subscription_looks (connection_id, next_at) VALUES (?, now()) ON CONFLICT (connection_id) DO UPDATE SET next_at = now()`, connection)
}

// LookFailed keeps why a look couldn't be made.
func (tx *Tx) LookFailed(ctx context.Context, connection int64, why string, next time.Duration) error {
	return tx.exec(ctx, `UPDATE subscription_looks SET error = ?, next_at = now() + make_interval(secs => ?) WHERE connection_id = ?`, why, next.Seconds(), connection)
}

// Looked keeps what a look showed and answers the topics that were wrong at an earlier
// look already, at least so long ago.
func (tx *Tx) Looked(ctx context.Context, connection int64, wrong map[string]models.SubscriptionFault, patience, next time.Duration) ([]string, error) {
	if err := tx.exec(ctx, `
UPDATE subscription_looks SET looked_at = ?, error = '', next_at = now() + make_interval(secs => ?) WHERE connection_id = ?`, tx.Now, next.Seconds(), connection); err != nil {
		return nil, err
	}
	before, err := tx.SubscriptionFaults(ctx, connection)
	if err != nil {
		return nil, err
	}
	var lasting []string
	for _, was := range before {
		if wrong[was.Topic] == "" {
			if err := tx.exec(ctx, `DELETE FROM subscription_faults WHERE connection_id = ? AND topic = ?`, connection, was.Topic); err != nil {
				return nil, err
			}
		} else if !tx.Now.Before(was.Since.Add(patience)) {
			lasting = append(lasting, was.Topic)
		}
	}
	for _, topic := range slices.Sorted(maps.Keys(wrong)) {
		if err := tx.exec(ctx, `
INSERT INTO subscription_faults (connection_id, topic, fault, since) VALUES (?, ?, ?, ?)
ON CONFLICT (connection_id, topic) DO UPDATE SET fault = EXCLUDED.fault`, connection, topic, wrong[topic], tx.Now); err != nil {
			return nil, err
		}
	}
	return lasting, nil
}

// Registered keeps where the console registered a connection's notifications.
func (tx *Tx) Registered(ctx context.Context, connection int64, address, by string) error {
	return tx.exec(ctx, `
INSERT INTO subscription_looks (connection_id, address, registered_at, registered_by, next_at) VALUES (?, ?, ?, ?, now())
ON CONFLICT (connection_id) DO UPDATE SET address = EXCLUDED.address, registered_at = EXCLUDED.registered_at, registered_by = EXCLUDED.registered_by, next_at = now()`,
		connection, address, tx.Now, by)
}

// ForgetFaults drops what was wrong with subscriptions that nobody looks after here.
func (tx *Tx) ForgetFaults(ctx context.Context, connection int64) error {
	return tx.exec(ctx, `DELETE FROM subscription_faults WHERE connection_id = ?`, connection)
}
