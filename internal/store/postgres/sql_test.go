package postgres_test

import (
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// statements are the string constants of the sql files by name, read from their
// source: none can be forgotten, and none is exported for a test.
func statements(t *testing.T) map[string]string {
	t.Helper()
	names, err := filepath.Glob("sql*.go")
	if err != nil {
		t.Fatal(err)
	}
	files := token.NewFileSet()
	var parsed []*ast.File
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		source, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		file, err := parser.ParseFile(files, name, source, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		parsed = append(parsed, file)
	}
	pkg, err := new(types.Config).Check("postgres", files, parsed, nil)
	if err != nil {
		t.Fatalf("the sql files must stand by themselves: %v", err)
	}
	all := make(map[string]string)
	for _, name := range pkg.Scope().Names() {
		if c, ok := pkg.Scope().Lookup(name).(*types.Const); ok {
			all[name] = constant.StringVal(c.Val())
		}
	}
	return all
}

// listRunsStatements are those that ListRuns puts together, with every source.
func listRunsStatements(parts map[string]string) map[string]string {
	out := make(map[string]string)
	for _, order := range []string{"Newest", "Oldest"} {
		page := parts["runs"+order]
		for _, source := range []string{"All", "Keys", "RunID", "TraceID", "Schedule", "Unscheduled", "Ended", "Due", "InFlight", "Unfinished"} {
			out["sqlListRuns"+source+order] = parts["runsSelect"] + parts["runs"+source] + page
		}
		for _, source := range []string{"All", "Unscheduled", "Ended"} {
			out["sqlListRecentRuns"+source+order] = parts["runsSelect"] + parts["recentSelect"] + parts["runs"+source] + parts["recent"+order] + page
		}
		for _, of := range []string{"User", "Workflow"} {
			out["sqlListRunsOf"+of+order] = parts["runsSelect"] + parts["historiesSelect"] + parts["historiesOf"+of] + parts["histories"+order] + page
		}
	}
	return out
}

func TestEveryStatementPreparesOnTheMigratedSchema(t *testing.T) {
	t.Parallel()
	_, url := fresh(t)
	conn := connect(t, url)
	prepared := 0
	all := statements(t)
	for name, statement := range listRunsStatements(all) {
		all[name] = statement
	}
	for name, statement := range all {
		if !strings.HasPrefix(name, "sql") {
			continue // a part of others
		}
		prepared++
		if name == "sqlListen" {
			continue // cannot be prepared
		}
		if _, err := conn.Prepare(t.Context(), name, statement); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if prepared < 60 {
		t.Errorf("%d statements were found, want at least 60", prepared)
	}
}

func TestEveryUpdateOfAnOpenRunNamesTheStateItMayLeave(t *testing.T) {
	t.Parallel()
	named := regexp.MustCompile(`\b(state|status) (=|>|IN) `)
	for name, statement := range statements(t) {
		at := strings.Index(statement, "UPDATE open_runs")
		if at < 0 || name == "sqlNextNth" { // changes no state, and its run is locked
			continue
		}
		_, where, ok := strings.Cut(statement[at:], "WHERE")
		if !ok || !named.MatchString(where) {
			t.Errorf("%s does not say which state it may leave:\n%s", name, statement)
		}
	}
}
