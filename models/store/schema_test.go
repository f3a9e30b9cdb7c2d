package store_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"counterfoil/models"
	"counterfoil/models/store"
	"counterfoil/models/store/storetest"
)

// A bench is a store with one shop and one connection, and its bare SQL.
type bench struct {
	*store.Store
	t    testing.TB
	shop int64
	conn int64
}

func newBench(t testing.TB) *bench {
	t.Helper()
	s, err := store.Open(t.Context(), storetest.New(t), store.Options{AuditKey: []byte("audit"), MaxConns: 12})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	b := &bench{Store: s, t: t}
	b.conn = b.connection("hk")
	return b
}

func (b *bench) connection(slug string) int64 {
	b.t.Helper()
	var id int64
	err := b.Tx(b.t.Context(), func(tx *store.Tx) (err error) {
		if b.shop, err = tx.EnsureShop(b.t.Context(), "hk", "Hong Kong"); err != nil {
			return err
		}
		id, err = tx.SaveConnection(b.t.Context(), store.ConnectionRow{Slug: slug, Platform: models.Shopify, Account: slug + ".myshopify.com", ShopID: b.shop, Settings: "{}", APIState: models.APIUp})
		return err
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return id
}

// one asks for a single value.
func one[T any](b *bench, query string, args ...any) T {
	b.t.Helper()
	var v T
	if err := b.SQL().QueryRowContext(b.t.Context(), query, args...).Scan(&v); err != nil {
		b.t.Fatalf("%s: %v", query, err)
	}
	return v
}

// run executes statements in one transaction and gives the error of the first that
// fails, or that of the commit.
func (b *bench) run(statements ...string) error {
	b.t.Helper()
	tx, err := b.SQL().BeginTx(b.t.Context(), nil)
	if err != nil {
		b.t.Fatal(err)
	}
	defer tx.Rollback()
	for _, s := range statements {
		if _, err := tx.ExecContext(b.t.Context(), s); err != nil {
			return err
		}
	}
	return tx.Commit()
}

func (b *bench) must(statements ...string) {
	b.t.Helper()
	if err := b.run(statements...); err != nil {
		b.t.Fatalf("%s: %v", strings.Join(statements, "; "), err)
	}
}

// sqlState is the code of a database error.
func sqlState(err error) string {
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		return pg.Code
	}
	return ""
}

const (
	restricted = "23001"
	notUnique  = "23505"
	notAllowed = "23514"
)

// text makes strings of any list of words.
func text[T ~string](list []T) []string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = string(s)
	}
	slices.Sort(out)
	return out
}

var quoted = regexp.MustCompile(`'([^']*)'`)

// Every list of words that a CHECK allows is the list that the code knows.
func TestChecksAreTheConstants(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	people := slices.DeleteFunc(slices.Clone(models.Roles), func(r models.Role) bool { return r == models.Service })
	want := map[string][]string{
		"connections_platform_check":      text(models.Platforms),
		"connections_api_state_check":     text(models.APIStates),
		"api_health_state_check":          text(models.APIStates),
		"orders_platform_check":           text(models.Platforms),
		"orders_verification_check":       text(models.Checks),
		"events_state_check":              text(models.EventStates),
		"ledger_axis_check":               text(models.Axes),
		"ledger_cause_kind_check":         text(models.CauseKinds),
		"exceptions_kind_check":           text(models.ExceptionKinds),
		"exceptions_policy_check":         text([]models.Policy{models.PolicyHold, models.PolicyWait, models.PolicyAsk}),
		"exceptions_state_check":          {"closed", "open"},
		"exceptions_urgency_check":        text(models.Urgencies),
		"case_policies_policy_check":      text([]models.Policy{models.PolicyHold, models.PolicyWait, models.PolicyAsk}),
		"subscription_faults_fault_check": text(models.SubscriptionFaults),
		"sweeps_reason_check":             text(models.SweepReasons),
		"sweeps_state_check":              text(models.SweepStates),
		"staff_role_check":                text(people),
		"api_tokens_role_check":           text(models.Roles),
		"holds_scope_check":               text(models.HoldScopes),
		"actions_kind_check":              text(models.ActionKinds),
		"actions_state_check":             text(models.ActionStates),
		"destinations_kind_check":         text(models.ActionKinds),
		"destinations_mode_check":         text(models.DestinationModes),
		"action_rules_occasion_check":     text(models.Occasions),
		"action_rules_kind_check":         text(models.ActionKinds),
		"requests_kind_check":             text(models.RequestKinds),
		"requests_state_check":            text(models.RequestStates),
		"requests_action_kind_check":      text(models.ActionKinds),
		"explanations_standing_check":     text(models.Standings),
	}
	for _, axis := range models.Axes {
		want["orders_"+string(axis)+"_check"] = text(models.States[axis])
	}
	rows, err := b.SQL().QueryContext(t.Context(), `
SELECT conname, pg_get_constraintdef(oid) FROM pg_constraint WHERE contype = 'c' AND conrelid <> 0 AND conrelid::regclass::text !~ '^river' AND pg_get_constraintdef(oid) ~ 'ARRAY\['`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var name, def string
		if err := rows.Scan(&name, &def); err != nil {
			t.Fatal(err)
		}
		var have []string
		for _, m := range quoted.FindAllStringSubmatch(def, -1) {
			have = append(have, m[1])
		}
		slices.Sort(have)
		list, known := want[name]
		if !known {
			t.Errorf("%s: no list of the code belongs to it: %s", name, def)
		} else if !slices.Equal(have, list) {
			t.Errorf("%s:\nschema %v\n  code %v", name, have, list)
		}
		delete(want, name)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	for name := range want {
		t.Errorf("%s is missing in the schema", name)
	}
}

const entryColumns = `order_id, axis, from_state, to_state, currency, total_before, paid_before, refunded_before, total, paid, refunded, cause_kind, cause_id, cause, actor, at`

// entry is a ledger entry of an order, with the sums after it.
func entry(order int64, axis, to string, total, paid, refunded int) string {
	return fmt.Sprintf(`INSERT INTO ledger (%s) VALUES (%d, '%s', '', '%s', 'HKD', 0, 0, 0, %d, %d, %d, 'import', '1', '{}', 'console', now())`,
		entryColumns, order, axis, to, total, paid, refunded)
}

// order makes an order with its first entries: paid 100 of 100.
func (b *bench) order(ref string) int64 {
	b.t.Helper()
	tx, err := b.SQL().BeginTx(b.t.Context(), nil)
	if err != nil {
		b.t.Fatal(err)
	}
	defer tx.Rollback()
	var id int64
	if err := tx.QueryRowContext(b.t.Context(), insertOrder(b, ref)+` RETURNING id`).Scan(&id); err != nil {
		b.t.Fatal(err)
	}
	for _, axis := range models.Axes {
		state := models.Resting[axis]
		if axis == models.Payment {
			state = models.PaymentPaid
		}
		if _, err := tx.ExecContext(b.t.Context(), entry(id, string(axis), string(state), 100, 100, 0)); err != nil {
			b.t.Fatal(err)
		}
	}
	if err := tx.Commit(); err != nil {
		b.t.Fatal(err)
	}
	return id
}

func insertOrder(b *bench, ref string) string {
	return fmt.Sprintf(`INSERT INTO orders (shop_id, connection_id, platform, account, platform_ref, currency, total, paid, payment, refund, dispute, fulfillment, cancellation, return)
VALUES (%d, %d, 'shopify', 'hk', '%s', 'HKD', 100, 100, 'paid', 'none', 'none', 'unfulfilled', 'active', 'none')`, b.shop, b.conn, ref)
}

func TestOrdersChangeOnlyWithTheirLedger(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	id := b.order("1")
	set := func(column, value string) string {
		return fmt.Sprintf(`UPDATE orders SET %s = %s WHERE id = %d`, column, value, id)
	}
	other := map[models.Axis]string{models.Payment: "partially_paid", models.Refund: "partial", models.Dispute: "open", models.Fulfillment: "held", models.Cancellation: "requested", models.Return: "requested"}
	for _, axis := range models.Axes {
		if err := b.run(set(string(axis), "'"+other[axis]+"'")); sqlState(err) != restricted {
			t.Errorf("%s changed without an entry: %v", axis, err)
		}
	}
	for column, value := range map[string]string{"total": "101", "paid": "99", "refunded": "1", "currency": "'USD'"} {
		if err := b.run(set(column, value)); sqlState(err) != restricted {
			t.Errorf("%s changed without an entry: %v", column, err)
		}
	}

	// An entry of another axis, another state, another order or other sums is none.
	second := b.order("2")
	for name, statements := range map[string][]string{
		"another axis":  {entry(id, "refund", "partial", 100, 100, 0), set("dispute", "'open'")},
		"another state": {entry(id, "dispute", "won", 100, 100, 0), set("dispute", "'open'")},
		"another order": {entry(second, "dispute", "open", 100, 100, 0), set("dispute", "'open'")},
		"other sums":    {entry(id, "payment", "paid", 100, 90, 0), set("paid", "80")},
		"one of two":    {entry(id, "dispute", "open", 100, 100, 0), set("dispute", "'open'"), set("fulfillment", "'held'")},
	} {
		if err := b.run(statements...); sqlState(err) != restricted {
			t.Errorf("%s: %v", name, err)
		}
	}

	// An entry of an earlier transaction doesn't count, nor one of a transaction before
	// a savepoint that was taken back.
	b.must(entry(id, "dispute", "open", 100, 100, 0))
	if err := b.run(set("dispute", "'open'")); sqlState(err) != restricted {
		t.Errorf("an entry of an earlier transaction counted: %v", err)
	}
	if err := b.run("SAVEPOINT s", entry(id, "dispute", "open", 100, 100, 0), "ROLLBACK TO s", set("dispute", "'open'")); sqlState(err) != restricted {
		t.Errorf("an entry that was taken back counted: %v", err)
	}

	// The entry may come after the change; unrelated columns need none.
	for _, axis := range models.Axes {
		b.must(set(string(axis), "'"+other[axis]+"'"), entry(id, string(axis), other[axis], 100, 100, 0))
	}
	b.must(entry(id, "payment", "partially_paid", 120, 90, 0), set("(total, paid)", "(120, 90)"))
	b.must(set("number", "'#1'"), set("axes", `'{"payment": {"check": "review"}}'`), set("verification", "'review'"), set("outstanding", "5"), set("said", "'{}'"), set("version", "9"))
	if got := one[string](b, `SELECT payment || '/' || return || '/' || total || '/' || paid FROM orders WHERE id = $1`, id); got != "partially_paid/requested/120/90" {
		t.Errorf("the order is %s", got)
	}
}

func TestNewOrdersNeedTheirLedger(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	if err := b.run(insertOrder(b, "1")); sqlState(err) != restricted {
		t.Errorf("an order without entries was made: %v", err)
	}
	announce := fmt.Sprintf(`INSERT INTO orders (shop_id, connection_id, platform, account, platform_ref, announced) VALUES (%d, %d, 'shopify', 'hk', '2', true)`, b.shop, b.conn)
	b.must(announce)
	id := one[int64](b, `SELECT id FROM orders WHERE platform_ref = '2'`)
	const read = `UPDATE orders SET announced = false, payment = 'paid', refund = 'none', dispute = 'none', fulfillment = 'unfulfilled', cancellation = 'active', return = 'none' WHERE id = %d`
	if err := b.run(fmt.Sprintf(read, id)); sqlState(err) != restricted {
		t.Errorf("an announced order got axes without entries: %v", err)
	}
	entries := []string{fmt.Sprintf(read, id)}
	for axis, state := range map[string]string{"payment": "paid", "refund": "none", "dispute": "none", "fulfillment": "unfulfilled", "cancellation": "active", "return": "none"} {
		entries = append(entries, entry(id, axis, state, 0, 0, 0))
	}
	for i := 1; i < len(entries); i++ {
		if err := b.run(slices.Delete(slices.Clone(entries), i, i+1)...); sqlState(err) != restricted {
			t.Errorf("without %q: %v", entries[i], err)
		}
	}
	b.must(entries...)
	if err := b.run(fmt.Sprintf(`UPDATE orders SET announced = true, payment = NULL, refund = NULL, dispute = NULL, fulfillment = NULL, cancellation = NULL, return = NULL WHERE id = %d`, id)); sqlState(err) != restricted {
		t.Errorf("a read order became announced again: %v", err)
	}
	for name, statement := range map[string]string{
		"announced with an axis":      `UPDATE orders SET announced = true WHERE id = %d`,
		"read without an axis":        `UPDATE orders SET dispute = NULL WHERE id = %d`,
		"a state of another axis":     `UPDATE orders SET dispute = 'full' WHERE id = %d`,
		"a verification that isn't":   `UPDATE orders SET verification = 'maybe' WHERE id = %d`,
		"a platform that nobody runs": `UPDATE orders SET platform = 'etsy' WHERE id = %d`,
	} {
		if err := b.run(fmt.Sprintf(statement, id)); sqlState(err) != notAllowed {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestLedgerAndAuditAreAppendOnly(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.order("1")
	if err := b.Tx(t.Context(), func(tx *store.Tx) error { return tx.Audit(t.Context(), "staff:1", "order.hold", "order:1", "", "held") }); err != nil {
		t.Fatal(err)
	}
	for _, table := range []string{"ledger", "audit"} {
		for _, statement := range []string{"UPDATE %s SET actor = 'nobody'", "DELETE FROM %s", "TRUNCATE %s CASCADE"} {
			if err := b.run(fmt.Sprintf(statement, table)); sqlState(err) != restricted {
				t.Errorf(statement+": %v", table, err)
			}
		}
		if one[int64](b, `SELECT count(*) FROM `+table) == 0 {
			t.Errorf("%s is empty", table)
		}
	}
	if err := b.run(`TRUNCATE orders CASCADE`); sqlState(err) != restricted {
		t.Errorf("the ledger went with its orders: %v", err)
	}
}

func (b *bench) insertEvent(connection int64, key byte) string {
	return fmt.Sprintf(`INSERT INTO events (connection_id, key, account, topic, digest, content, size) VALUES (%d, decode('%032x', 'hex'), 'hk', 'orders/paid', '', '', 1)`, connection, key)
}

func TestWhatExistsOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	second := b.connection("tw")
	object := func(connection int64, account, kind, ref string) string {
		return fmt.Sprintf(`INSERT INTO platform_objects (connection_id, account, kind, ref) VALUES (%d, '%s', '%s', '%s')`, connection, account, kind, ref)
	}
	announced := func(connection int64, ref string) string {
		return fmt.Sprintf(`INSERT INTO orders (shop_id, connection_id, platform, account, platform_ref, announced) VALUES (%d, %d, 'shopify', 'hk', '%s', true)`, b.shop, connection, ref)
	}
	exception := func(connection any, subject, kind, axis, state string) string {
		return fmt.Sprintf(`INSERT INTO exceptions (connection_id, subject, kind, axis, policy, state, first_seen, last_seen) VALUES (%v, '%s', '%s', %s, 'ask', '%s', now(), now())`, connection, subject, kind, axis, state)
	}
	for name, c := range map[string]struct {
		twice string
		also  []string
	}{
		"event":                       {b.insertEvent(b.conn, 1), []string{b.insertEvent(b.conn, 2), b.insertEvent(second, 1)}},
		"object":                      {object(b.conn, "hk", "order", "1"), []string{object(second, "hk", "order", "1"), object(b.conn, "tw", "order", "1"), object(b.conn, "hk", "return", "1"), object(b.conn, "hk", "order", "2")}},
		"order":                       {announced(b.conn, "1"), []string{announced(second, "1"), announced(b.conn, "2")}},
		"exception":                   {exception(b.conn, "order:1", "move_refused", "'payment'", "open"), []string{exception(b.conn, "order:1", "move_refused", "'refund'", "open"), exception(b.conn, "order:2", "move_refused", "'payment'", "open"), exception(b.conn, "order:1", "unknown_status", "'payment'", "open"), exception(second, "order:1", "move_refused", "'payment'", "open"), exception(b.conn, "order:1", "move_refused", "'payment'", "closed"), exception(b.conn, "order:1", "move_refused", "'payment'", "closed")}},
		"exception without an axis":   {exception(b.conn, "topic:x", "unmatched", "NULL", "open"), []string{exception(b.conn, "topic:x", "unmatched", "'payment'", "open"), exception(b.conn, "topic:x", "unmatched", "NULL", "closed")}},
		"exception of no connection":  {exception("NULL", "drill:1", "drill_failed", "NULL", "open"), []string{exception("NULL", "drill:2", "drill_failed", "NULL", "open")}},
		"connection":                  {`INSERT INTO connections (slug, platform, account, shop_id) SELECT 'x', 'stripe', 'a', id FROM shops`, nil},
		"staff":                       {`INSERT INTO staff (email, name, role, password) VALUES ('a@b.example', 'A', 'admin', '')`, nil},
		"event that waits for a name": {`INSERT INTO wanted (shop_id, ref, event_id) SELECT s.id, '#1', (SELECT min(id) FROM events) FROM shops s`, nil},
	} {
		if name == "event that waits for a name" {
			b.must(b.insertEvent(b.conn, 9))
		}
		b.must(c.twice)
		if err := b.run(c.twice); sqlState(err) != notUnique {
			t.Errorf("%s twice: %v", name, err)
		}
		b.must(c.also...)
	}
	if err := b.run(`INSERT INTO events (connection_id, key, account, topic, digest, content, size) SELECT id, 'short', 'hk', 'x', '', '', 1 FROM connections`); sqlState(err) != notAllowed {
		t.Errorf("a key of five bytes: %v", err)
	}
	if err := b.run(`INSERT INTO staff (email, name, role, password) VALUES ('A@b.example', 'A', 'admin', '')`); sqlState(err) != notAllowed {
		t.Errorf("an address in capitals: %v", err)
	}
	if err := b.run(`INSERT INTO api_tokens (name, token, role, scopes, expires_at) VALUES ('x', '', 'service', '{read,approve}', now())`); sqlState(err) != notAllowed {
		t.Errorf("a service that approves: %v", err)
	}
}

// OpenCase meets the one open exception and counts.
func TestOpenCaseCounts(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, axis := range []models.Axis{models.Payment, ""} {
		c := store.Case{ConnectionID: b.conn, Subject: "order:1", Problem: models.Problem{Kind: models.MoveRefused, Axis: axis}}
		for range 3 {
			if err := b.Tx(t.Context(), func(tx *store.Tx) error { return tx.OpenCase(t.Context(), c) }); err != nil {
				t.Fatal(err)
			}
		}
	}
	if got := one[string](b, `SELECT string_agg(COALESCE(axis, '-') || count, ' ' ORDER BY axis) FROM exceptions`); got != "payment3 -3" {
		t.Errorf("exceptions: %s", got)
	}
	closeAll := func(tx *store.Tx) error {
		return tx.CloseCases(t.Context(), "order:1", []models.ExceptionKind{models.MoveRefused}, []string{"move_refused/payment"}, "reading")
	}
	if err := b.Tx(t.Context(), closeAll); err != nil {
		t.Fatal(err)
	}
	if got := one[string](b, `SELECT string_agg(COALESCE(axis, '-') || state, ' ' ORDER BY axis) FROM exceptions`); got != "paymentopen -closed" {
		t.Errorf("exceptions: %s", got)
	}
}

func TestPayloadWeeks(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	partitions := func() int64 {
		return one[int64](b, `SELECT count(*) FROM pg_inherits WHERE inhparent = 'payloads'::regclass`)
	}
	if n := partitions(); n != 6 { // this week, four ahead, and the rest
		t.Fatalf("%d partitions", n)
	}
	keep := func(id int, at string) {
		b.must(fmt.Sprintf(`INSERT INTO payloads (event_id, kept_at, digest, sealed) VALUES (%d, %s, 'd', 's')`, id, at))
	}
	keep(1, `now()`)
	keep(2, `now() + interval '6 weeks'`)
	keep(3, `now() - interval '3 weeks'`)
	rest := func() int64 { return one[int64](b, `SELECT count(*) FROM payloads_rest`) }
	if n := rest(); n != 2 {
		t.Fatalf("%d payloads in the rest", n)
	}
	for range 2 {
		b.must(`SELECT payload_weeks(4)`)
	}
	if p, n := partitions(), rest(); p != 6 || n != 2 {
		t.Errorf("again: %d partitions, %d in the rest", p, n)
	}
	b.must(`SELECT payload_weeks(8)`)
	if p, n := partitions(), rest(); p != 10 || n != 1 {
		t.Errorf("further ahead: %d partitions, %d in the rest", p, n)
	}
	if n := one[int64](b, `SELECT count(*) FROM payloads WHERE event_id = 2`); n != 1 {
		t.Errorf("a payload became %d", n)
	}
	storage := one[string](b, `
SELECT string_agg(DISTINCT a.attstorage::text || ' ' || array_to_string(c.reloptions, ','), '; ') FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'sealed' WHERE i.inhparent = 'payloads'::regclass`)
	if storage != "e toast_tuple_target=8160" {
		t.Errorf("partitions store payloads as %q", storage)
	}
	// Everybody at once.
	done := make(chan error, 4)
	for range cap(done) {
		go func() {
			_, err := b.SQL().ExecContext(t.Context(), `SELECT payload_weeks(10)`)
			done <- err
		}()
	}
	for range cap(done) {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// deadlocks are those of this database since it was made.
func (b *bench) deadlocks() int64 {
	b.t.Helper()
	conn, err := b.SQL().Conn(b.t.Context())
	if err != nil {
		b.t.Fatal(err)
	}
	defer conn.Close()
	var n sql.NullInt64
	if _, err := conn.ExecContext(b.t.Context(), `SELECT pg_stat_clear_snapshot()`); err != nil {
		b.t.Fatal(err)
	}
	if err := conn.QueryRowContext(b.t.Context(), `SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()`).Scan(&n); err != nil {
		b.t.Fatal(err)
	}
	return n.Int64
}

// within gives up after a while instead of hanging.
func within(t testing.TB, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}
