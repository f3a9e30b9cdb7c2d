// Package platformtest holds the promises that every platform adapter keeps, as one
// suite. Tests alone may import it.
package platformtest

import (
	"testing"
	"time"

	"counterfoil/models"
	"counterfoil/models/platform"
	"counterfoil/models/platform/sandbox"
)

// A Fixture is what one platform brings to the suite.
type Fixture struct {
	// Make builds the adapter.
	Make platform.Maker
	// Config of a connection that can call its Server: account, credentials, settings.
	// The suite fills in address, secrets and clock.
	Config platform.Config
	// Now is the clock of the suite, the adapter and the server.
	Now time.Time
	// Secrets are two webhook secrets of the platform's form.
	Secrets [2]string
	// Genuine is a notification about the server's existing object, as the platform
	// signs it with a secret at a time. Its body is JSON.
	Genuine func(secret string, at time.Time) platform.Request
	// Unknown is a genuine notification on a topic that nobody has met.
	Unknown func(secret string, at time.Time) platform.Request
	// Timed: the platform signs a time.
	Timed bool
	// Signature is the name of the header with the signature.
	Signature string
	// Serve starts the platform for one test.
	Serve func(t testing.TB) Server
	// Wrong spoils the credentials of a config that otherwise fits the server.
	Wrong func(platform.Config) platform.Config
	// Absence of the server's missing object; Gone where empty.
	Absence models.Absence
	// Words is the adapter's table.
	Words []platform.Word
}

// A Server is a platform that runs for one test.
type Server struct {
	URL string
	*sandbox.Switches
	// Existing can be fetched and is listed among what changed in Window.
	Existing models.ObjectRef
	// Missing has the form of a reference and no object.
	Missing models.ObjectRef
	// Window in which Existing changed.
	Since, Until time.Time
}

// Run checks every promise. Its parts run in parallel.
func Run(t *testing.T, f Fixture) {
	t.Helper()
	if f.Absence == models.Present {
		f.Absence = models.Gone
	}
	s := suite{f}
	for _, part := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"Identity", s.identity},
		{"Settings", s.settings},
		{"Words", s.words},
		{"GoodSignature", s.goodSignature},
		{"Tampered", s.tampered},
		{"Rotation", s.rotation},
		{"NoSecret", s.noSecret},
		{"Clock", s.clock},
		{"ParseIsPure", s.parseIsPure},
		{"ParseGarbage", s.parseGarbage},
		{"UnknownTopic", s.unknownTopic},
		{"FetchExisting", s.fetchExisting},
		{"FetchMissing", s.fetchMissing},
		{"FetchForeignKind", s.fetchForeignKind},
		{"Throttled", s.throttled},
		{"Down", s.down},
		{"Dead", s.dead},
		{"Denied", s.denied},
		{"NoAccess", s.noAccess},
		{"BudgetUsedUp", s.budgetUsedUp},
		{"Redirect", s.redirect},
		{"TooLarge", s.tooLarge},
		{"NotJSON", s.notJSON},
		{"Cancel", s.cancel},
		{"Changed", s.changed},
		{"Check", s.check},
		{"AtOnce", s.atOnce},
		{"Signs", s.signs},
		{"Shapes", s.shapes},
		{"Subscribes", s.subscribes},
		{"Leans", s.leans},
		{"Logs", s.logs},
		{"Most", s.most},
	} {
		t.Run(part.name, func(t *testing.T) {
			t.Parallel()
			part.run(t)
		})
	}
}

type suite struct{ f Fixture }

// config is the fixture's, with the suite's secret and clock.
func (s suite) config(url string) platform.Config {
	cfg := s.f.Config
	cfg.APIURL = url
	cfg.Now = func() time.Time { return s.f.Now }
	if len(cfg.Webhook) == 0 {
		cfg.Webhook = []string{s.f.Secrets[0]}
	}
	return cfg
}

func (s suite) make(t testing.TB, cfg platform.Config) platform.Adapter {
	t.Helper()
	a, err := s.f.Make(cfg)
	if err != nil {
		t.Fatalf("make: %v", err)
	}
	return a
}

// offline is an adapter for what needs no server.
func (s suite) offline(t testing.TB, secrets ...string) platform.Adapter {
	t.Helper()
	cfg := s.config("http://127.0.0.1:1")
	if len(secrets) > 0 {
		cfg.Webhook = secrets
	}
	return s.make(t, cfg)
}

// withBody is a request with another body under the same headers.
func withBody(r platform.Request, body []byte) platform.Request {
	return platform.Request{Header: r.Header.Clone(), Body: body}
}

func (s suite) identity(t *testing.T) {
	a := s.offline(t)
	if a.Platform() == "" {
		t.Error("the platform has no name")
	}
	if len(a.Kinds()) == 0 {
		t.Error("nothing can be listed")
	}
	if a.Together() < 1 {
		t.Errorf("Together is %d", a.Together())
	}
	if !a.HasAPI() || len(a.Reads()) == 0 {
		t.Error("the fixture's credentials give no access, or nothing can be read")
	}
	server := s.f.Serve(t)
	found := false
	for _, spelling := range a.Spell(" " + server.Existing.ID + " ") {
		found = found || spelling == server.Existing.ID
	}
	if !found {
		t.Errorf("Spell of a reference doesn't hold the reference")
	}
	if n := len(a.Spell("  ")); n != 0 {
		t.Errorf("Spell of nothing gives %d spellings", n)
	}
}

func (s suite) settings(t *testing.T) {
	seen := map[string]models.Setting{}
	for _, set := range s.offline(t).Settings() {
		if set.Name == "" {
			t.Error("a setting has no name")
		}
		if _, twice := seen[set.Name]; twice {
			t.Errorf("setting %s is listed twice", set.Name)
		}
		if set.Set && set.Assumed {
			t.Errorf("setting %s is both set and assumed", set.Name)
		}
		seen[set.Name] = set
	}
	if len(seen) == 0 {
		t.Error("no settings are listed")
	}
	for name, value := range s.f.Config.Settings {
		if got, listed := seen[name]; listed && (!got.Set || got.Value != value) {
			t.Errorf("setting %s is listed as %q, set %v; want %q, true", name, got.Value, got.Set, value)
		}
	}
}

// words: an empty state stands for "a person looks at it" on axes without review.
func (s suite) words(t *testing.T) {
	if len(s.f.Words) == 0 {
		t.Fatal("the table is empty")
	}
	for _, w := range s.f.Words {
		watched := w.State == "" && len(models.States[w.Axis]) > 0 && !w.Axis.Has(models.Review)
		if w.Field == "" || !w.Axis.Has(w.State) && !watched {
			t.Errorf("word %q of %q: %q is no state of %q", w.Word, w.Field, w.State, w.Axis)
		}
	}
}
