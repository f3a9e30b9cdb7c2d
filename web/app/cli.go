package app

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/alecthomas/kong"

	"counterfoil/migrations"
	"counterfoil/models"
	"counterfoil/models/connect"
	"counterfoil/models/staff"
	"counterfoil/models/store/localpg"
	"counterfoil/views/locale"
	"counterfoil/web/config"
)

// cli is the command line. What scripts rely on: names, flags, output, exit codes.
type cli struct {
	Serve       serveCmd       `cmd:"" help:"Run the console: migrations, HTTP, workers."`
	Demo        demoCmd        `cmd:"" help:"Run the console with three connected sandbox platforms, staff of every role and continuing traffic."`
	Migrate     migrateCmd     `cmd:"" help:"Bring the schema up to date, or say what would run."`
	User        userCmd        `cmd:"" help:"Members of staff."`
	Token       tokenCmd       `cmd:"" help:"API tokens."`
	Connection  connectionCmd  `cmd:"" help:"Connections to platforms."`
	Destination destinationCmd `cmd:"" help:"Where follow-ups go."`
	Reconcile   reconcileCmd   `cmd:"" help:"Compare a connection with its platform now."`
}

// terminal is where a command reads and writes.
type terminal struct {
	in       io.Reader
	out, err io.Writer
}

// Main runs one command and says the process' exit code: 0, 1 for a failure told in
// one line, 2 for a command line that can't be used.
func Main(args []string, in io.Reader, out, errOut io.Writer) int {
	var c cli
	exit := -1
	parser, err := kong.New(&c, kong.Name("counterfoil"), kong.Description("Every order's stub: what platforms said, what they say, and what we keep."),
		kong.Writers(out, errOut), kong.Exit(func(code int) { exit = code }), kong.UsageOnError())
	if err != nil {
		fmt.Fprintln(errOut, "counterfoil:", err)
		return 1
	}
	k, err := parser.Parse(args)
	if exit >= 0 {
		return exit // help was asked for
	}
	if err != nil {
		fmt.Fprintln(errOut, "counterfoil:", err)
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	k.BindTo(ctx, (*context.Context)(nil))
	if err := k.Run(terminal{in, out, errOut}); err != nil {
		fmt.Fprintln(errOut, "counterfoil:", sentence(err))
		return 1
	}
	return 0
}

// sentence tells a failure in one line: the catalogue's words where there are some.
func sentence(err error) string {
	text := err.Error()
	if e, ok := errors.AsType[*models.Error](err); ok {
		p := locale.New(locale.English, time.UTC, time.Now())
		text = p.T(e.Key, e.Args...)
		for _, key := range e.Fields {
			if s := p.T(key); !strings.Contains(text, s) {
				text += " " + s
			}
		}
		if e.Err != nil && (e.Code == models.Unavailable || e.Code == models.Internal) {
			text += " (" + e.Err.Error() + ")"
		}
	}
	return strings.Join(strings.Fields(text), " ")
}

type serveCmd struct {
	config.Database
	config.Serve
}

func (c *serveCmd) Run(ctx context.Context, t terminal) error {
	log := slog.New(slog.NewJSONHandler(t.err, nil))
	a, err := New(ctx, c.Database, c.Serve, false, options{log: log})
	if err != nil {
		return err
	}
	fmt.Fprintf(t.out, "Counterfoil listens on http://%s\n", a.Addr)
	return a.Run(ctx)
}

type migrateCmd struct {
	config.Database
	DryRun bool `help:"Say what would run, and change nothing."`
}

func (c *migrateCmd) Run(ctx context.Context, t terminal) error {
	dsn, stop := c.URL, func() {}
	if dsn == "" {
		var err error
		if dsn, stop, err = localpg.ForCommand(ctx, c.Data); err != nil {
			return err
		}
	}
	defer stop()
	pending, err := migrations.Pending(ctx, dsn)
	if err != nil {
		return err
	}
	if len(pending) == 0 {
		fmt.Fprintln(t.out, "The schema is up to date.")
		return nil
	}
	if !c.DryRun {
		if err := migrations.Up(ctx, dsn); err != nil {
			return err
		}
	}
	for _, p := range pending {
		if c.DryRun {
			fmt.Fprintln(t.out, "would run", p)
		} else {
			fmt.Fprintln(t.out, "ran", p)
		}
	}
	return nil
}

type userCmd struct {
	Add userAddCmd `cmd:"" help:"Add a member of staff. The password is read from standard input, or generated and printed once."`
}

type userAddCmd struct {
	config.Database
	Email string   `required:"" help:"Sign-in name."`
	Name  string   `required:"" help:"Name as colleagues know it."`
	Role  string   `required:"" enum:"support,manager,admin,auditor" help:"support, manager, admin or auditor."`
	Grant []string `enum:"lead" help:"Grant on the role: lead."`
	Shop  []string `help:"Shop that the person may see; may be given several times. Without: every shop."`
}

func (c *userAddCmd) Run(ctx context.Context, t terminal) error {
	password, err := firstLine(t.in)
	if err != nil {
		return err
	}
	b, err := forCommand(ctx, c.Database)
	if err != nil {
		return err
	}
	defer b.shut()
	given := password != ""
	password, err = b.staff.AddAccount(ctx, commandLine, staff.NewAccount{Email: c.Email, Name: c.Name, Role: models.Role(c.Role), Lead: len(c.Grant) > 0, Shops: c.Shop, Password: password})
	if err != nil {
		return err
	}
	if !given {
		fmt.Fprintln(t.out, password)
	}
	return nil
}

// commandLine is the actor of what is done on the command line: whoever holds the key file.
var commandLine = models.Actor{Name: "command line", Role: models.Admin}

// firstLine reads a password that is piped in. A terminal isn't asked: a password
// typed there would stand on the screen.
func firstLine(in io.Reader) (string, error) {
	if f, ok := in.(*os.File); ok {
		if info, err := f.Stat(); err != nil || info.Mode()&os.ModeCharDevice != 0 {
			return "", nil
		}
	}
	line, err := bufio.NewReader(io.LimitReader(in, 4096)).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return "", fmt.Errorf("standard input can't be read: %w", err)
	}
	return strings.TrimRight(line, "\r\n"), nil
}

type tokenCmd struct {
	Add    tokenAddCmd    `cmd:"" help:"Make an API token and print it once, alone on standard output."`
	List   tokenListCmd   `cmd:"" help:"List API tokens, without their secrets."`
	Revoke tokenRevokeCmd `cmd:"" help:"End an API token."`
}

type tokenAddCmd struct {
	config.Database
	Name    string   `required:"" help:"Name of the token."`
	Role    string   `required:"" enum:"support,manager,admin,auditor,service" help:"support, manager, admin, auditor or service."`
	User    string   `help:"E-mail of whoever the token acts for. Without: a named service, which may never approve."`
	Shop    []string `help:"Shop that the token may see; may be given several times. Without: every shop (of that person)."`
	Scope   []string `default:"read,write" help:"What the token is for: read, write, approve, resync, propose, receipt, metrics."`
	Expires string   `default:"90d" help:"Life of the token, for instance 12h or 90d."`
}

func (c *tokenAddCmd) Run(ctx context.Context, t terminal) error {
	age, err := span(c.Expires)
	if err != nil {
		return err
	}
	b, err := forCommand(ctx, c.Database)
	if err != nil {
		return err
	}
	defer b.shut()
	n := staff.NewToken{Name: c.Name, Role: models.Role(c.Role), User: c.User, Shops: c.Shop, Age: age}
	for _, s := range c.Scope {
		n.Scopes = append(n.Scopes, models.Scope(s))
	}
	secret, _, err := b.staff.AddToken(ctx, commandLine, n)
	if err != nil {
		return err
	}
	fmt.Fprintln(t.out, secret)
	return nil
}

// span reads a duration that may be given in days.
func span(s string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(s, "d"); ok {
		n, err := strconv.Atoi(days)
		if err == nil && n > 0 && n < 10_000 {
			return time.Duration(n) * 24 * time.Hour, nil
		}
	} else if d, err := time.ParseDuration(s); err == nil && d > 0 {
		return d, nil
	}
	return 0, fmt.Errorf("--expires %q is no span of time: write it like 12h or 90d", s)
}

type tokenListCmd struct{ config.Database }

func (c *tokenListCmd) Run(ctx context.Context, t terminal) error {
	b, err := forCommand(ctx, c.Database)
	if err != nil {
		return err
	}
	defer b.shut()
	tokens, err := b.staff.Tokens(ctx)
	if err != nil {
		return err
	}
	w := tabwriter.NewWriter(t.out, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "NAME\tROLE\tSCOPES\tEXPIRES\tLAST USED\tSTATE")
	for _, k := range tokens {
		scopes := make([]string, len(k.Scopes))
		for i, s := range k.Scopes {
			scopes[i] = string(s)
		}
		used, state := "never", "valid"
		if !k.Used.IsZero() {
			used = k.Used.UTC().Format(time.RFC3339)
		}
		switch {
		case !k.Revoked.IsZero():
			state = "revoked"
		case k.Expires.Before(b.now()):
			state = "ended"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", k.Name, k.Role, strings.Join(scopes, ","), k.Expires.UTC().Format(time.RFC3339), used, state)
	}
	return w.Flush()
}

type tokenRevokeCmd struct {
	config.Database
	Name string `arg:"" help:"Name of the token."`
}

func (c *tokenRevokeCmd) Run(ctx context.Context, t terminal) error {
	b, err := forCommand(ctx, c.Database)
	if err != nil {
		return err
	}
	defer b.shut()
	return b.staff.RevokeToken(ctx, commandLine, c.Name)
}

type connectionCmd struct {
	Add   connectionAddCmd   `cmd:"" help:"Connect an account, or change what is given. Secrets are read as JSON from standard input."`
	List  connectionListCmd  `cmd:"" help:"List connections, without secrets."`
	Links connectionLinksCmd `cmd:"" help:"Find which metadata key of a Stripe account's recent payments names their orders."`
}

type connectionAddCmd struct {
	config.Database
	Platform string            `help:"shopify, stripe or receiptroller."`
	Slug     string            `required:"" help:"Short name; notifications go to /hooks/SLUG."`
	Account  string            `help:"Account at the platform: shop.myshopify.com, acct_…, organization."`
	Shop     string            `help:"Shop whose orders the account's objects may describe; made if it isn't there."`
	APIURL   string            `name:"api-url" help:"Base address of the platform's API, instead of its real host."`
	Set      map[string]string `help:"Setting, as key=value; may be given several times."`
}

func (c *connectionAddCmd) Run(ctx context.Context, t terminal) error {
	secrets, err := readSecrets(t.in)
	if err != nil {
		return err
	}
	b, err := forCommand(ctx, c.Database)
	if err != nil {
		return err
	}
	defer b.shut()
	err = b.book.Add(ctx, commandLine.ID(), connect.Setup{Platform: models.Platform(c.Platform), Slug: c.Slug, Account: c.Account, Shop: c.Shop,
		APIURL: c.APIURL, Set: c.Set, Secrets: secrets})
	if err != nil {
		return err
	}
	fmt.Fprintf(t.out, "Kept. Its notifications go to /hooks/%s\n", c.Slug)
	return nil
}

func readSecrets(in io.Reader) (connect.Secrets, error) {
	var s connect.Secrets
	err := readJSON(in, &s, `{"webhook_secrets": ["…"], "api_token": "…"}`)
	return s, err
}

// readJSON reads secrets that are piped in; nothing is fine where they stay as they are.
func readJSON(in io.Reader, into any, example string) error {
	if f, ok := in.(*os.File); ok {
		if info, err := f.Stat(); err != nil || info.Mode()&os.ModeCharDevice != 0 {
			return nil
		}
	}
	text, err := io.ReadAll(io.LimitReader(in, 1<<20))
	if err != nil {
		return fmt.Errorf("standard input can't be read: %w", err)
	}
	if len(strings.TrimSpace(string(text))) == 0 {
		return nil
	}
	dec := json.NewDecoder(strings.NewReader(string(text)))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		return fmt.Errorf(`secrets on standard input must be JSON like %s: %w`, example, err)
	}
	return nil
}

type connectionListCmd struct {
	config.Database
	JSON bool `name:"json" help:"As JSON."`
}

// listed is one connection as scripts read it.
type listed struct {
	Slug     string            `json:"slug"`
	Platform models.Platform   `json:"platform"`
	Account  string            `json:"account"`
	Shop     string            `json:"shop"`
	APIURL   string            `json:"api_url"`
	API      models.APIState   `json:"api"`
	Settings map[string]string `json:"settings"`
	Secrets  []listedSecret    `json:"secrets"`
}

type listedSecret struct {
	Fingerprint string     `json:"fingerprint"`
	LastMatched *time.Time `json:"last_matched"`
	Retired     bool       `json:"retired"`
}

func (c *connectionListCmd) Run(ctx context.Context, t terminal) error {
	b, err := forCommand(ctx, c.Database)
	if err != nil {
		return err
	}
	defer b.shut()
	files, err := connect.Reads{Store: b.store, Book: b.book}.Connections(ctx, nil)
	if err != nil {
		return err
	}
	items := []listed{}
	for _, f := range files {
		l := listed{Slug: f.Slug, Platform: f.Platform, Account: f.Account, Shop: f.Shop, APIURL: f.APIURL, API: f.API, Settings: f.Settings, Secrets: []listedSecret{}}
		for _, s := range f.Secrets {
			x := listedSecret{Fingerprint: s.Fingerprint, Retired: !s.Retired.IsZero()}
			if !s.LastMatched.IsZero() {
				x.LastMatched = &s.LastMatched
			}
			l.Secrets = append(l.Secrets, x)
		}
		items = append(items, l)
	}
	if c.JSON {
		enc := json.NewEncoder(t.out)
		enc.SetIndent("", "  ")
		return enc.Encode(map[string]any{"items": items})
	}
	w := tabwriter.NewWriter(t.out, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "SLUG\tPLATFORM\tACCOUNT\tSHOP\tAPI\tSECRETS")
	for _, l := range items {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%d\n", l.Slug, l.Platform, l.Account, l.Shop, l.API, len(l.Secrets))
	}
	return w.Flush()
}
