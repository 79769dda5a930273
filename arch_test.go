package carillon_test

import (
	"encoding/json"
	"errors"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/carillon/carillon"

// goPackage is what `go list -json` says of a package.
type goPackage struct {
	ImportPath   string
	Dir          string
	GoFiles      []string
	Imports      []string // of GoFiles
	TestImports  []string
	XTestImports []string
	Deps         []string
}

func packages(t *testing.T) []goPackage {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,Dir,GoFiles,Imports,TestImports,XTestImports,Deps", "./...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var all []goPackage
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p goPackage
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
}

// forbidden says which package may not import, or depend on, what, and why.
var forbidden = []struct {
	under  string // packages at or below this path
	never  []string
	deep   bool // also through others
	reason string
}{
	{
		"internal/schedule",
		[]string{module + "/internal/store", module + "/worker", module + "/registrar", module + "/launcher", "database/sql", "net/http"},
		true,
		"the domain knows no component, store or transport",
	},
	{
		"internal/plan",
		[]string{"database/sql", "net/http", "log/slog", "context", "os"},
		false,
		"decisions are pure: no I/O, no clock, no log",
	},
	{
		"internal/ledger",
		[]string{
			"database/sql", "net", "log/slog", "context", "os", module + "/internal/plan",
			module + "/internal/store", module + "/worker", module + "/registrar", module + "/launcher",
		},
		false,
		"what may happen to a run is decided by pure functions: no I/O, no clock, no log",
	},
	{
		"internal/plan",
		[]string{module + "/internal/ledger"},
		false,
		"which slots exist does not depend on what becomes of them",
	},
	{
		"internal/grant",
		[]string{module + "/internal/store", module + "/internal/plan", module + "/worker", module + "/registrar", module + "/launcher", "database/sql", "net/http", "log/slog"},
		true,
		"judging a grant is pure: the stores ask it inside their transactions",
	},
	{
		"registrar/explain",
		[]string{"database/sql", "net/http", "log/slog", "context", "os"},
		false,
		"an explanation is a pure function of facts: no I/O, no clock, no log",
	},
	{
		"internal/store/postgres",
		[]string{module + "/worker", module + "/registrar", module + "/launcher", module + "/internal/plan"},
		false,
		"stores import only schedule, grant, ledger and schema",
	},
	{
		"internal/store/sqlite",
		[]string{module + "/worker", module + "/registrar", module + "/launcher", module + "/internal/plan"},
		false,
		"stores import only schedule, grant, ledger and schema",
	},
	{
		"internal/test/chaos",
		[]string{
			module + "/worker", module + "/registrar", module + "/launcher", module + "/internal/app", module + "/internal/plan",
			module + "/internal/schedule", module + "/internal/store", module + "/schema",
		},
		true,
		"the chaos rig and its checker know the product only from outside",
	},
	{
		"docs/examples/compiler",
		[]string{module + "/internal", module + "/worker", module + "/registrar", module + "/launcher", module + "/schema"},
		false,
		"the author of a compiler has the published client only",
	},
	{
		"docs/examples/receiver",
		[]string{module + "/internal", module + "/proto", module + "/worker", module + "/registrar", module + "/launcher", module + "/schema", "google.golang.org"},
		false,
		"whoever takes our alerts has the standard library only",
	},
	{"internal/cli", []string{module + "/internal/store", module + "/worker", module + "/launcher"}, false, "a command calls a server; components meet in internal/app only"},
	{"worker", []string{module + "/internal/grant"}, false, "a worker passes ids: only package grant knows what scopes look like"},
	{"worker", []string{module + "/registrar", module + "/launcher"}, false, "components meet in internal/app only"},
	{"registrar", []string{module + "/worker", module + "/launcher"}, false, "components meet in internal/app only"},
	{"launcher/launchqueue", []string{module + "/worker", module + "/registrar", module + "/internal/store"}, false, "components meet in internal/app only"},
	{"launcher", []string{module + "/worker", module + "/registrar"}, false, "components meet in internal/app only"},
}

func TestImportsGoOneWay(t *testing.T) {
	for _, p := range packages(t) {
		path := strings.TrimPrefix(p.ImportPath, module+"/")
		for _, rule := range forbidden {
			if path != rule.under && !strings.HasPrefix(path, rule.under+"/") {
				continue
			}
			imports := p.Imports
			if rule.deep {
				imports = p.Deps
			}
			for _, never := range rule.never {
				if slices.ContainsFunc(imports, func(i string) bool { return i == never || strings.HasPrefix(i, never+"/") }) && !samePackage(p.ImportPath, never) {
					t.Errorf("%s imports %s: %s", path, never, rule.reason)
				}
			}
		}
	}
}

func samePackage(path, never string) bool { return path == never || strings.HasPrefix(path, never+"/") }

// importers are the only packages that may import a library, and why.
var importers = map[string]struct {
	allowed []string
	reason  string
}{
	"github.com/adhocore/gronx":    {[]string{"internal/schedule/cronexpr"}, "one package knows what gronx may be asked"},
	"github.com/jackc/pgx/v5":      {[]string{"internal/store/postgres", "internal/pgsession", "worker/leader/pglock", "launcher/presence", "internal/test/services", "internal/test/chaos/rig"}, "one store speaks Postgres, the locks of leaders and instances have their own connections, and the chaos rig looks at it from outside"},
	"github.com/redis/go-redis/v9": {[]string{"launcher/launchqueue", "internal/app", "worker/leader/redislock", "internal/test/services"}, "the launch queue, and the leader lock"},
	"modernc.org/sqlite":           {[]string{"internal/store/sqlite", "internal/test/chaos/rig"}, "one store speaks SQLite, and the chaos rig looks at it from outside"},
	"github.com/golang-jwt/jwt":    {[]string{"internal/auth/signed"}, "one package checks signed tokens"},
	"github.com/pressly/goose":     {[]string{"schema"}, "one package changes the schema"},
	"buf.build/go/protovalidate":   {[]string{"registrar/api"}, "requests are validated where they come in"},
	"golang.org/x/time":            {[]string{"internal/auth/ratelimit", "internal/connlimit"}, "one package limits callers, one connections"},
	"github.com/spf13/cobra":       {[]string{"internal/cli", "internal/test/chaos/rig"}, "the command line alone"},
	"gocloud.dev":                  {[]string{"launcher/workflow/bucket"}, "one package speaks to object stores"},
	"go.opentelemetry.io":          {[]string{"internal/tracing"}, "one package knows how a run is followed; the others have no span but its"},
}

func TestLibrariesHaveTheirOneImporter(t *testing.T) {
	for _, p := range packages(t) {
		path := strings.TrimPrefix(p.ImportPath, module+"/")
		for library, rule := range importers {
			uses := slices.ContainsFunc(p.Imports, func(i string) bool { return i == library || strings.HasPrefix(i, library+"/") })
			if uses && !slices.ContainsFunc(rule.allowed, func(a string) bool { return path == a || strings.HasPrefix(path, a+"/") }) {
				t.Errorf("%s imports %s: %s", path, library, rule.reason)
			}
		}
	}
}

func TestEveryPackageSaysWhatItIs(t *testing.T) {
	for _, p := range packages(t) {
		if len(p.GoFiles) == 0 || strings.Contains(p.ImportPath, "/proto/") {
			continue
		}
		documented := false
		for _, name := range p.GoFiles {
			file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, name), nil, parser.ParseComments|parser.PackageClauseOnly)
			if err != nil {
				t.Fatal(err)
			}
			documented = documented || file.Doc != nil
		}
		if !documented {
			t.Errorf("%s has no package comment", p.ImportPath)
		}
	}
}

// A newcomer finds each package, or the one that it is a part of, in the table
// of docs/architecture.md.
func TestEveryPackageIsOnTheMap(t *testing.T) {
	page, err := os.ReadFile("docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "\n## Packages\n")
	named := make(map[string]bool)
	for line := range strings.Lines(table) {
		if cells := strings.Split(line, "|"); len(cells) > 2 {
			for _, quoted := range regexp.MustCompile("`[^`]+`").FindAllString(cells[1], -1) {
				named[strings.Trim(quoted, "`")] = true
			}
		}
	}
	for _, p := range packages(t) {
		path := strings.TrimPrefix(p.ImportPath, module+"/")
		found := path == module // the root has tests only
		for at := path; at != "." && !found; at = filepath.Dir(at) {
			found = named[at]
		}
		if !found {
			t.Errorf("%s stands in no row of docs/architecture.md, Packages; say there what it is", path)
		}
	}
	for path := range named {
		if _, err := os.Stat(path); err != nil {
			t.Errorf("docs/architecture.md names a package that is not there: %v", err)
		}
	}
}

func TestNoFileGrowsPastOneIdea(t *testing.T) {
	const limit = 400
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (strings.HasPrefix(d.Name(), ".") && path != "." || d.Name() == "proto" || d.Name() == "testdata") {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, path, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		if lines := set.Position(file.End()).Line; lines > limit {
			t.Errorf("%s has %d lines, more than %d: split it along the life of a slot", path, lines, limit)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
