package postgres_test

import (
	"bytes"
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/carillon/carillon/internal/store/postgres"
)

// statements are the SQL of the package and of package tables by name, read from its source: none can be
// forgotten, and none is exported for a test. What is built of the table of columns is
// exported.
func statements(t *testing.T) map[string]string {
	t.Helper()
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	names = append(names, "../tables/sql.go", "../tables/sql_columns.go")
	files := token.NewFileSet()
	constants := &ast.File{Name: ast.NewIdent("postgres")}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		source, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		inOne := bytes.ReplaceAll(source, []byte("tables."), nil)
		file, err := parser.ParseFile(files, name, inOne, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			if d, ok := d.(*ast.GenDecl); ok && (d.Tok == token.CONST || d.Tok == token.VAR) {
				constants.Decls = append(constants.Decls, asConstants(d))
			}
		}
	}
	for name, text := range postgres.Built {
		constants.Decls = append(constants.Decls, &ast.GenDecl{Tok: token.CONST, Specs: []ast.Spec{&ast.ValueSpec{
			Names: []*ast.Ident{ast.NewIdent(name)}, Values: []ast.Expr{&ast.BasicLit{Kind: token.STRING, Value: strconv.Quote(text)}},
		}}})
	}
	// Constants of other types may name what is not here. They are left out.
	check := types.Config{Error: func(error) {}}
	pkg, _ := check.Check("postgres", files, []*ast.File{constants}, nil)
	all := make(map[string]string)
	for _, name := range pkg.Scope().Names() {
		c := pkg.Scope().Lookup(name).(*types.Const)
		if value := c.Val(); value != nil && value.Kind() == constant.String {
			all[name] = constant.StringVal(value)
		} else if strings.HasPrefix(name, "sql") {
			t.Errorf("%s cannot be evaluated: statements may name only constants of this package", name)
		}
	}
	return all
}

// asConstants turns variables into constants, without those that are built when the
// program starts.
func asConstants(d *ast.GenDecl) *ast.GenDecl {
	d.Tok = token.CONST
	d.Specs = slices.DeleteFunc(d.Specs, func(s ast.Spec) bool {
		_, built := postgres.Built[s.(*ast.ValueSpec).Names[0].Name]
		return built
	})
	return d
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
	named := regexp.MustCompile(`\b(state|status|queue_state) (=|>|<=|IN) `)
	for name, statement := range statements(t) {
		at := strings.Index(statement, "UPDATE open_runs")
		if at < 0 {
			continue
		}
		_, where, ok := strings.Cut(statement[at:], "WHERE")
		if !ok || !named.MatchString(where) {
			t.Errorf("%s does not say which state it may leave:\n%s", name, statement)
		}
	}
}
