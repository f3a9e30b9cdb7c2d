package app_test

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

const (
	root   = "../.."
	module = "counterfoil/"
)

// layers lists the packages from the innermost: a package imports from layers before
// its own only. "…" stands for everything below a folder.
var layers = [][]string{
	{"models"},
	{"models/store", "models/seal", "models/platform", "views/locale", "static", "migrations", "web/config"},
	{"models/platform/shopify", "models/platform/stripe", "models/platform/receiptroller", "models/platform/sandbox", "models/queue", "models/staff", "models/store/localpg", "views/ui"},
	{"models/connect"},
	{"models/ledger", "models/actions", "views"},
	{"models/casework"},
	{"models/inbox"},
	{"models/reconcile"},
	{"models/drill"},
	{"web"},
	{"handlers/…"},
	{"handlers"},
	{"web/app"},
	{""},
}

// testsOnly are helpers that only tests may import.
var testsOnly = []string{"models/store/storetest", "models/platform/platformtest"}

// homes says where a library may be imported, below the given folders where "…" stands.
var homes = map[string][]string{
	"gorm.io/":                  {"models/store"},
	"github.com/riverqueue/":    {"models/queue", "handlers/jobs", "migrations", "web/app"},
	"github.com/gin-gonic/gin":  {"web/…", "handlers/…"},
	"github.com/pressly/goose/": {"migrations"},
	"github.com/alecthomas/":    {"web/…"},
	"github.com/jackc/pgx/":     {"models/store/…", "migrations", "models/queue", "web/app"},
	"github.com/a-h/templ":      {"views/…", "web/…", "handlers/…"},
	"github.com/stripe/":        {"models/platform/stripe"},
	"html/template":             {},
	"text/template":             {},
}

// longFiles may be longer than others.
var longFiles = map[string]string{
	"models/platform/sandbox/shopify_api.go":     "the answers of one API",
	"models/platform/sandbox/shopify_orders.go":  "the orders of one shop",
	"models/platform/sandbox/town_plots.go":      "a list of stories",
	"models/platform/sandbox/shopify_graphql.go": "one query language",
}

const (
	noteLines = 400
	maxLines  = 500
)

// A source is one Go file.
type source struct {
	path  string // from the root
	dir   string // package folder from the root
	test  bool
	made  bool // generated
	lines int
	tree  *ast.File
	set   *token.FileSet
}

func (s source) at(n ast.Node) string {
	return fmt.Sprintf("%s:%d", s.path, s.set.Position(n.Pos()).Line)
}

var sources = sync.OnceValues(func() ([]source, error) {
	var all []source
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() && path != root && (strings.HasPrefix(name, ".") || name == "testdata" || name == "data" || name == "bin") {
			return fs.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(name, ".go") {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		set := token.NewFileSet()
		tree, err := parser.ParseFile(set, path, text, parser.ParseComments)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		dir := ""
		if i := strings.LastIndexByte(rel, '/'); i >= 0 {
			dir = rel[:i]
		}
		all = append(all, source{path: rel, dir: dir, test: strings.HasSuffix(name, "_test.go"), made: ast.IsGenerated(tree), lines: bytes.Count(text, []byte("\n")), tree: tree, set: set})
		return nil
	})
	return all, err
})

func load(t *testing.T) []source {
	t.Helper()
	all, err := sources()
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 50 {
		t.Fatalf("only %d files were found", len(all))
	}
	return all
}

// within tells whether a folder is one of a list.
func within(dir string, list []string) bool {
	return slices.ContainsFunc(list, func(p string) bool {
		base, deep := strings.CutSuffix(p, "/…")
		return dir == base || deep && strings.HasPrefix(dir, base+"/")
	})
}

func layer(dir string) int {
	for i, l := range layers {
		if slices.Contains(l, dir) {
			return i
		}
	}
	return slices.IndexFunc(layers, func(l []string) bool { return within(dir, l) })
}

func imports(s source) []string {
	var out []string
	for _, i := range s.tree.Imports {
		path, _ := strconv.Unquote(i.Path.Value)
		out = append(out, path)
	}
	return out
}

func TestImportsPointOneWay(t *testing.T) {
	t.Parallel()
	for _, s := range load(t) {
		if s.test || slices.Contains(testsOnly, s.dir) {
			continue
		}
		own := layer(s.dir)
		if own < 0 {
			t.Errorf("%s: its package has no layer yet", s.path)
			continue
		}
		for _, path := range imports(s) {
			dir, ours := strings.CutPrefix(path, module)
			if !ours {
				if own == 0 && strings.Contains(strings.Split(path, "/")[0], ".") {
					t.Errorf("%s imports %s: the rules need the standard library only", s.path, path)
				}
				continue
			}
			if slices.Contains(testsOnly, dir) {
				t.Errorf("%s imports %s, which is for tests", s.path, dir)
			} else if l := layer(dir); l < 0 || l >= own {
				t.Errorf("%s (layer %d) imports %s (layer %d)", s.path, own, dir, l)
			}
		}
	}
}

func TestLibrariesStayAtHome(t *testing.T) {
	t.Parallel()
	for _, s := range load(t) {
		if s.test || slices.Contains(testsOnly, s.dir) {
			continue
		}
		for _, path := range imports(s) {
			for library, at := range homes {
				if strings.HasPrefix(path, library) && !within(s.dir, at) {
					t.Errorf("%s imports %s, which belongs to %v", s.path, path, at)
				}
			}
		}
	}
}

var gormHook = regexp.MustCompile(`^(Before|After)(Save|Create|Update|Delete|Find)$`)

// What has bitten others: each of these works, and then does more than it says.
func TestBans(t *testing.T) {
	t.Parallel()
	for _, s := range load(t) {
		if s.made {
			continue
		}
		gin, gorm := slices.Contains(imports(s), "github.com/gin-gonic/gin"), s.dir == "models/store"
		ast.Inspect(s.tree, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				if n.Recv == nil && n.Name.Name == "init" {
					t.Errorf("%s: func init hides what happens at the start", s.at(n))
				}
				if n.Recv != nil && gormHook.MatchString(n.Name.Name) {
					t.Errorf("%s: %s is a hook of gorm", s.at(n), n.Name.Name)
				}
			case *ast.SelectorExpr:
				name := n.Sel.Name
				pkg, _ := n.X.(*ast.Ident)
				switch {
				case name == "AutoMigrate":
					t.Errorf("%s: the schema changes by migrations only", s.at(n))
				case name == "Save" && gorm && !s.test:
					t.Errorf("%s: Save writes every column, also those that another one changed", s.at(n))
				case gin && (strings.HasPrefix(name, "Bind") || name == "MustBindWith") && pkg != nil && pkg.Name == "c":
					t.Errorf("%s: %s answers by itself, ShouldBind doesn't", s.at(n), name)
				case gin && name == "HTML" && pkg != nil && pkg.Name == "c":
					t.Errorf("%s: pages are templ components", s.at(n))
				case name == "Sleep" && pkg != nil && pkg.Name == "time":
					t.Errorf("%s: wait for what is to happen, with a deadline", s.at(n))
				}
			}
			return true
		})
	}
}

// once are the variables of packages that are filled after the start, each once and
// safely.
var once = []string{"models/store/storetest.shared"}

// The tables that packages have are read and never written, so that nothing depends
// on what ran before.
func TestPackagesHaveNoState(t *testing.T) {
	t.Parallel()
	vars := map[string]map[string]bool{} // folder → names
	for _, s := range load(t) {
		if s.test {
			continue
		}
		for _, d := range s.tree.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok || g.Tok != token.VAR {
				continue
			}
			for _, spec := range g.Specs {
				v := spec.(*ast.ValueSpec)
				if slices.Contains(once, s.dir+"."+v.Names[0].Name) {
					continue
				}
				embedded := g.Doc != nil && slices.ContainsFunc(g.Doc.List, func(c *ast.Comment) bool { return strings.HasPrefix(c.Text, "//go:embed ") })
				for _, name := range v.Names {
					if name.Name == "_" {
						continue
					}
					if vars[s.dir] == nil {
						vars[s.dir] = map[string]bool{}
					}
					vars[s.dir][name.Name] = true
					if len(v.Values) == 0 && !embedded {
						t.Errorf("%s: %s has no value, so somebody must set it later", s.at(name), name.Name)
					}
				}
				for _, e := range append([]ast.Expr{v.Type}, v.Values...) {
					if holdsState(e) {
						t.Errorf("%s: %s can hold state", s.at(v), v.Names[0].Name)
					}
				}
			}
		}
	}
	for _, s := range load(t) {
		if s.made {
			continue
		}
		written := func(e ast.Expr) {
			if dir, name := variable(s, e); vars[dir][name] {
				t.Errorf("%s: %s of %q is written", s.at(e), name, dir)
			}
		}
		ast.Inspect(s.tree, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.AssignStmt:
				if n.Tok != token.DEFINE {
					for _, e := range n.Lhs {
						written(e)
					}
				}
			case *ast.IncDecStmt:
				written(n.X)
			case *ast.UnaryExpr:
				if n.Op == token.AND {
					written(n.X)
				}
			case *ast.CallExpr:
				if f, ok := n.Fun.(*ast.Ident); ok && len(n.Args) > 0 && (f.Name == "delete" || f.Name == "clear" || f.Name == "copy" && f.Obj == nil) {
					written(n.Args[0])
				}
			}
			return true
		})
	}
}

// holdsState tells whether a declaration makes something that changes by being used:
// locks, counters, channels, pointers.
func holdsState(e ast.Expr) bool {
	if e == nil {
		return false
	}
	found := false
	ast.Inspect(e, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit, *ast.FuncType:
			return false
		case *ast.ChanType:
			found = true
		case *ast.SelectorExpr:
			if p, ok := n.X.(*ast.Ident); ok && (p.Name == "sync" || p.Name == "atomic") {
				found = true
			}
		case *ast.CallExpr:
			if f, ok := n.Fun.(*ast.Ident); ok && (f.Name == "new" || f.Name == "make") {
				found = true
			}
		}
		return !found
	})
	return found
}

// variable finds the variable of a package that an expression begins with.
func variable(s source, e ast.Expr) (dir, name string) {
	for {
		switch x := e.(type) {
		case *ast.IndexExpr:
			e = x.X
		case *ast.StarExpr:
			e = x.X
		case *ast.ParenExpr:
			e = x.X
		case *ast.SelectorExpr:
			if p, ok := x.X.(*ast.Ident); ok && p.Obj == nil {
				for _, path := range imports(s) {
					if d, ours := strings.CutPrefix(path, module); ours && d[strings.LastIndexByte(d, '/')+1:] == p.Name {
						return d, x.Sel.Name
					}
				}
			}
			e = x.X
		case *ast.Ident:
			if x.Obj == nil || s.tree.Scope.Lookup(x.Name) == x.Obj {
				return s.dir, x.Name
			}
			return "", ""
		default:
			return "", ""
		}
	}
}

func TestFilesStayReadable(t *testing.T) {
	t.Parallel()
	for _, s := range load(t) {
		switch {
		case s.made || s.test || s.lines <= noteLines:
		case s.lines <= maxLines || longFiles[s.path] != "":
			t.Logf("%s has %d lines", s.path, s.lines)
		default:
			t.Errorf("%s has %d lines: it is about more than one thing", s.path, s.lines)
		}
	}
}

func TestTopLevel(t *testing.T) {
	t.Parallel()
	entries, err := os.ReadDir(root)
	if err != nil {
		t.Fatal(err)
	}
	required := []string{"web", "handlers", "models", "views", "static", "migrations", "go.mod", "go.sum", "main.go"}
	// What .gitignore names may lie there.
	allowed := append([]string{"README.md", "Makefile", "data", "bin", "shots", "counterfoil"}, required...)
	have := map[string]bool{}
	for _, e := range entries {
		have[e.Name()] = true
		if name := e.Name(); !strings.HasPrefix(name, ".") && !slices.Contains(allowed, name) && !strings.HasSuffix(name, ".test") && !strings.HasSuffix(name, ".out") {
			t.Errorf("%s has no place at the top", name)
		}
	}
	for _, name := range required {
		if !have[name] {
			t.Errorf("%s is missing at the top", name)
		}
	}
	for _, s := range load(t) {
		if s.dir == "" && s.path != "main.go" {
			t.Errorf("%s: only main.go is at the top", s.path)
		}
	}
}
