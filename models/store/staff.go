package store

import (
	"context"
	"strconv"
	"strings"
	"time"

	"counterfoil/models"
)

// An Account is a member of staff as the sign-in needs it.
type Account struct {
	ID       int64
	Email    string
	Name     string
	Role     models.Role
	Lead     bool
	Password string // argon2id, never shown
	Locale   string
	Disabled time.Time // zero while the account may be used
	Shops    []int64   // empty: every shop
}

// A Session is a signed-in browser.
type Session struct {
	Account Account
	Seen    time.Time
	Expires time.Time
}

// A Token is an API token without its secret.
type Token struct {
	ID      int64
	Name    string
	Role    models.Role
	User    *Account // whom it acts for; nil: a service
	Scopes  []models.Scope
	Shops   []int64 // empty: every shop (of the user)
	Created time.Time
	Expires time.Time
	Used    time.Time // zero: never
	Revoked time.Time // zero while it may be used
}

// accountColumns of staff u, with the shops as text.
const accountColumns = `u.id, u.email, u.name, u.role, u.lead, u.password, u.locale, u.disabled_at,
	COALESCE((SELECT string_agg(s.shop_id::text, ',' ORDER BY s.shop_id) FROM staff_shops s WHERE s.staff_id = u.id), '') AS shops`

type accountRow struct {
	ID         int64
	Email      string
	Name       string
	Role       models.Role
	Lead       bool
	Password   string
	Locale     string
	DisabledAt *time.Time
	Shops      string
}

func (r accountRow) account() Account {
	return Account{ID: r.ID, Email: r.Email, Name: r.Name, Role: r.Role, Lead: r.Lead, Password: r.Password,
		Locale: r.Locale, Disabled: utc(r.DisabledAt), Shops: idsIn(r.Shops)}
}

// AccountByEmail finds an account by its address in lower case, disabled ones too.
func (r reads) AccountByEmail(ctx context.Context, email string) (Account, error) {
	var row accountRow
	err := r.one(ctx, "error.staff_unknown", &row, `SELECT `+accountColumns+` FROM staff u WHERE u.email = ?`, email)
	return row.account(), err
}

// SessionByToken finds a session that hasn't ended, by the hash of its token.
// Whether it has expired and whether its account may be used is the caller's to judge.
func (r reads) SessionByToken(ctx context.Context, hash []byte) (Session, error) {
	var row struct {
		Account   accountRow `gorm:"embedded"`
		SeenAt    time.Time
		ExpiresAt time.Time
	}
	err := r.one(ctx, "error.session_unknown", &row, `
		SELECT `+accountColumns+`, e.seen_at, e.expires_at
		FROM sessions e
		JOIN staff u ON u.id = e.staff_id
		WHERE e.token = ? AND e.ended_at IS NULL`, hash)
	return Session{Account: row.Account.account(), Seen: row.SeenAt, Expires: row.ExpiresAt}, err
}

type tokenRow struct {
	ID        int64
	Name      string
	Role      models.Role
	StaffID   *int64
	Scopes    string
	Shops     string
	CreatedAt time.Time
	ExpiresAt time.Time
	UsedAt    *time.Time
	RevokedAt *time.Time

	UserEmail    string
	UserName     string
	UserRole     models.Role
	UserLead     bool
	UserLocale   string
	UserDisabled *time.Time
	UserShops    string
}

func (r tokenRow) token() Token {
	t := Token{ID: r.ID, Name: r.Name, Role: r.Role, Shops: idsIn(r.Shops), Created: r.CreatedAt, Expires: r.ExpiresAt,
		Used: utc(r.UsedAt), Revoked: utc(r.RevokedAt)}
	for _, s := range wordList(r.Scopes) {
		t.Scopes = append(t.Scopes, models.Scope(s))
	}
	if r.StaffID != nil {
		t.User = &Account{ID: *r.StaffID, Email: r.UserEmail, Name: r.UserName, Role: r.UserRole, Lead: r.UserLead,
			Locale: r.UserLocale, Disabled: utc(r.UserDisabled), Shops: idsIn(r.UserShops)}
	}
	return t
}

const tokenSelect = `
	SELECT t.id, t.name, t.role, t.staff_id, array_to_string(t.scopes, ',') AS scopes, array_to_string(t.shops, ',') AS shops,
		t.created_at, t.expires_at, t.used_at, t.revoked_at,
		COALESCE(u.email, '') AS user_email, COALESCE(u.name, '') AS user_name, COALESCE(u.role, '') AS user_role,
		COALESCE(u.lead, false) AS user_lead, COALESCE(u.locale, '') AS user_locale, u.disabled_at AS user_disabled,
		COALESCE((SELECT string_agg(s.shop_id::text, ',' ORDER BY s.shop_id) FROM staff_shops s WHERE s.staff_id = u.id), '') AS user_shops
	FROM api_tokens t
	LEFT JOIN staff u ON u.id = t.staff_id`

// TokenByHash finds an API token by the hash of its secret, revoked ones too.
func (r reads) TokenByHash(ctx context.Context, hash []byte) (Token, error) {
	var row tokenRow
	err := r.one(ctx, "error.token_unknown", &row, tokenSelect+` WHERE t.token = ?`, hash)
	return row.token(), err
}

// TokenByName finds an API token by its name, revoked ones too.
func (r reads) TokenByName(ctx context.Context, name string) (Token, error) {
	var row tokenRow
	err := r.one(ctx, "error.token_unknown", &row, tokenSelect+` WHERE t.name = ?`, name)
	return row.token(), err
}

// Tokens lists all API tokens by name, revoked and expired ones too.
func (r reads) Tokens(ctx context.Context) ([]Token, error) {
	var rows []tokenRow
	if err := r.rows(ctx, &rows, tokenSelect+` ORDER BY t.name`); err != nil {
		return nil, err
	}
	tokens := make([]Token, len(rows))
	for i, row := range rows {
		tokens[i] = row.token()
	}
	return tokens, nil
}

// ShopsNamed gives the ids of shops by their slugs, in no order; unknown slugs are
// left out.
func (r reads) ShopsNamed(ctx context.Context, slugs []string) ([]int64, error) {
	var ids []int64
	err := r.rows(ctx, &ids, `SELECT id FROM shops WHERE slug = ANY (string_to_array(?, ','))`, strings.Join(slugs, ","))
	return ids, err
}

// A SignInCount says how many sign-ins failed lately.
type SignInCount struct {
	Pair    int // for the account from the address
	Address int // from the address, whatever the account
	Account int // for the account, from wherever
}

// SignInSubjects are the hashes under which failed sign-ins are counted.
type SignInSubjects struct{ Pair, Address, Account string }

// LockSignIns makes sign-ins from one address follow each other, so that many at
// once can't pass the count together.
func (tx *Tx) LockSignIns(ctx context.Context, subjects SignInSubjects) error {
	return tx.exec(ctx, `SELECT pg_advisory_xact_lock(hashtextextended(?, 0))`, "sign_in:"+subjects.Address)
}

// SignInFailures counts the failures since a moment.
func (r reads) SignInFailures(ctx context.Context, subjects SignInSubjects, since time.Time) (SignInCount, error) {
	var n SignInCount
	err := r.one(ctx, "", &n, `
		SELECT count(*) FILTER (WHERE subject = ?) AS pair,
			count(*) FILTER (WHERE subject = ?) AS address,
			count(*) FILTER (WHERE subject = ?) AS account
		FROM sign_in_failures
		WHERE subject IN (?, ?, ?) AND at > ?`,
		subjects.Pair, subjects.Address, subjects.Account, subjects.Pair, subjects.Address, subjects.Account, since)
	return n, err
}

// CountSignIn counts an attempt as failed and forgets some that nobody counts any more.
func (tx *Tx) CountSignIn(ctx context.Context, subjects SignInSubjects, forget time.Time) error {
	if err := tx.exec(ctx, `INSERT INTO sign_in_failures (subject, at) VALUES (?, ?), (?, ?), (?, ?)`,
		subjects.Pair, tx.Now, subjects.Address, tx.Now, subjects.Account, tx.Now); err != nil {
		return err
	}
	return tx.exec(ctx, `
		DELETE FROM sign_in_failures
		WHERE ctid IN (SELECT ctid FROM sign_in_failures WHERE at < ? LIMIT 100 FOR UPDATE SKIP LOCKED)`, forget)
}

// ForgiveSignIn takes back an attempt that turned out to be right, with the earlier
// ones of the same person from the same address.
func (tx *Tx) ForgiveSignIn(ctx context.Context, subjects SignInSubjects, counted time.Time) error {
	return tx.exec(ctx, `DELETE FROM sign_in_failures WHERE subject = ? OR subject IN (?, ?) AND at = ?`,
		subjects.Pair, subjects.Address, subjects.Account, counted)
}

// AddSession writes a session of an account. The hash isn't the first value: gorm
// spreads bytes that follow a parenthesis.
func (tx *Tx) AddSession(ctx context.Context, hash []byte, staff int64, expires time.Time, agent string) error {
	return tx.exec(ctx, `INSERT INTO sessions (staff_id, token, created_at, seen_at, expires_at, agent) VALUES (?, ?, ?, ?, ?, ?)`,
		staff, hash, tx.Now, tx.Now, expires, agent)
}

// SeeSession notes that a session is in use.
func (tx *Tx) SeeSession(ctx context.Context, hash []byte) error {
	return tx.exec(ctx, `UPDATE sessions SET seen_at = ? WHERE token = ? AND seen_at < ?`, tx.Now, hash, tx.Now)
}

// EndSession ends a session for good and says whose it was; 0 where none was open.
func (tx *Tx) EndSession(ctx context.Context, hash []byte) (staff int64, err error) {
	var ids []int64
	err = tx.rows(ctx, &ids, `UPDATE sessions SET ended_at = ? WHERE token = ? AND ended_at IS NULL RETURNING staff_id`, tx.Now, hash)
	if err != nil || len(ids) == 0 {
		return 0, err
	}
	return ids[0], nil
}

// AddAccount writes a new account with its shops and gives its id. An address that
// exists already is a conflict.
func (tx *Tx) AddAccount(ctx context.Context, a Account) (int64, error) {
	var id int64
	err := tx.one(ctx, "", &id, `
		INSERT INTO staff (email, name, role, lead, password, locale, created_at)
		VALUES (?, ?, ?, ?, ?, ?, ?)
		RETURNING id`, a.Email, a.Name, a.Role, a.Lead, a.Password, a.Locale, tx.Now)
	if err != nil {
		return 0, err
	}
	return id, tx.exec(ctx, `INSERT INTO staff_shops (staff_id, shop_id) SELECT ?, unnest(?::bigint[])`, id, idList(a.Shops))
}

// DisableAccount closes an account and ends its sessions; false where it was closed before.
func (tx *Tx) DisableAccount(ctx context.Context, id int64) (bool, error) {
	n, err := tx.changed(ctx, `UPDATE staff SET disabled_at = ? WHERE id = ? AND disabled_at IS NULL`, tx.Now, id)
	if err != nil {
		return false, err
	}
	return n == 1, tx.exec(ctx, `UPDATE sessions SET ended_at = ? WHERE staff_id = ? AND ended_at IS NULL`, tx.Now, id)
}

// AddToken writes a new API token and gives its id. A name that exists already is a
// conflict.
func (tx *Tx) AddToken(ctx context.Context, t Token, hash []byte) (int64, error) {
	var user *int64
	if t.User != nil {
		user = &t.User.ID
	}
	scopes := make([]string, len(t.Scopes))
	for i, s := range t.Scopes {
		scopes[i] = string(s)
	}
	var id int64
	err := tx.one(ctx, "", &id, `
		INSERT INTO api_tokens (name, token, role, staff_id, scopes, shops, created_at, expires_at)
		VALUES (?, ?, ?, ?, string_to_array(?, ','), ?::bigint[], ?, ?)
		RETURNING id`, t.Name, hash, t.Role, user, strings.Join(scopes, ","), idList(t.Shops), tx.Now, t.Expires)
	return id, err
}

// UseToken notes that a token was used.
func (tx *Tx) UseToken(ctx context.Context, id int64) error {
	return tx.exec(ctx, `UPDATE api_tokens SET used_at = ? WHERE id = ? AND (used_at IS NULL OR used_at < ?)`, tx.Now, id, tx.Now)
}

// RevokeToken ends a token for good; false where it was revoked before.
func (tx *Tx) RevokeToken(ctx context.Context, id int64) (bool, error) {
	n, err := tx.changed(ctx, `UPDATE api_tokens SET revoked_at = ? WHERE id = ? AND revoked_at IS NULL`, tx.Now, id)
	return n == 1, err
}

// idsIn reads a comma-separated list of ids.
func idsIn(list string) []int64 {
	var ids []int64
	for _, w := range wordList(list) {
		if n, err := strconv.ParseInt(w, 10, 64); err == nil {
			ids = append(ids, n)
		}
	}
	return ids
}

// wordList reads a comma-separated list; an empty one has none.
func wordList(list string) []string {
	if list == "" {
		return nil
	}
	return strings.Split(list, ",")
}

// WorksHere tells whether a person has an account that is in use, in a role.
func (r reads) WorksHere(ctx context.Context, id int64, role models.Role) (bool, error) {
	var yes bool
	err := r.one(ctx, "", &yes, `SELECT EXISTS (SELECT 1 FROM staff WHERE id = ? AND role = ? AND disabled_at IS NULL)`, id, role)
	return yes, err
}
