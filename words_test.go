package carillon_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// unplain are words that users had to look up, with what to write instead.
var unplain = []struct {
	found *regexp.Regexp
	write string
}{
	{regexp.MustCompile(`these fields are refused`), "invalid request"},
	{regexp.MustCompile(`as it stands`), "cannot retry: the run succeeded"},
	{regexp.MustCompile(`goes on; next run`), "resumed; next run"},
	{regexp.MustCompile(`launched no time after`), "Launched on time."},
	{regexp.MustCompile(`In its way`), "Blocked by"},
	{regexp.MustCompile(`is not what "|is not what %q asks for`), "does not match"},
	{regexp.MustCompile(`\b[Ss]ee(n|s)? to (it|this|by)\b|nobody has said`), "acknowledge"},
	{regexp.MustCompile(`[Pp]romises? (broken|is kept|are kept)|Every promise`), "open alerts"},
	{regexp.MustCompile(`given up|is well again`), "failed; recovered"},
	{regexp.MustCompile(`Its life|Its last runs|Slots around it|\bBecame\b|>Record<|>Facts<`), "Timeline; Recent runs; Nearby slots; Outcome; Details"},
	{regexp.MustCompile(`\bticked\b|Every state|>Took<|>By<`), "selected; All states; Duration; Trigger"},
	{regexp.MustCompile(`}} (t?here)\b|>Here\b`), "the zone's name"},
	{regexp.MustCompile(`Out of reach`), "Database unavailable"},
	{regexp.MustCompile(`\b(un)?fit\b|\bLASTED\b|\bLATE\b|\bLEADS\b|"(lasted|leads)"`), "healthy; DURATION; DELAY; LEADER OF"},
	{regexp.MustCompile(`fires until|\d+ come\b|%d come\b`), "next 30 days: 0 runs removed, 30 added"},
	{regexp.MustCompile(`nothing changes,|as the files say`), "no changes"},
	{regexp.MustCompile(`whose are|what is to be|argument too many|there is no command`), "--user is required; unexpected argument; unknown command"},
	{regexp.MustCompile(`Each takes|of a hundred|Most that wait`), "Run duration; Failure rate %; Max queued"},
	{regexp.MustCompile(`\basked for\b|until before|[Cc]ancel asked`), "requested; until (exclusive); cancel requested; attempts"},
	{regexp.MustCompile(`what is not said|default the machine|the machine's\)|may everything|\b[Ee]verybody\b`), "unset fields take defaults; system CAs; everyone"},
	{regexp.MustCompile(`outbox not read|not judged|carillon has ended|"door"`), "cannot read notifications; cannot evaluate; carillon stopped; protocol and auth"},
	{regexp.MustCompile(`\bfor ever\b|\banew\b|made? up for|makes up for|put down|[Ww]hoever|so long before|\b[Nn]obody\b|\bbeside\b|\bof which\b|\bto be had\b|\bstands? (there|twice|behind)\b`), "plain English"},
}

// plainEnough are files whose texts no user reads: tests' own packages, tools,
// and the code that proto files generate.
var plainEnough = regexp.MustCompile(`_test\.go$|\.pb\.(gw\.)?go$|^internal/(test|tools|failpoint|store)/|test/[a-z_]+\.go$`)

// TestUsersReadPlainEnglish keeps words that only this project uses out of what
// users read: texts in the code, pages of the console, output of the command
// line, rules and dashboards, documents, and comments of the API.
func TestUsersReadPlainEnglish(t *testing.T) {
	checked := 0
	err := filepath.WalkDir(".", func(path string, d os.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (strings.HasPrefix(d.Name(), ".") && path != "." || d.Name() == "node_modules"):
			return filepath.SkipDir
		case d.IsDir() || plainEnough.MatchString(filepath.ToSlash(path)):
			return nil
		}
		for line, text := range usersTexts(t, path) {
			checked++
			for _, word := range unplain {
				found := word.found.FindString(text)
				if found != "" {
					t.Errorf("%s:%d: %q; write %q", path, line, found, word.write)
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if checked < 5000 {
		t.Errorf("%d texts were looked at, want those of the whole product", checked)
	}
}

// notYet are folders and files that are not checked.
var notYet = regexp.MustCompile(`^(schema|proto)/`)

// archaic are constructions that a comment can always avoid.
var archaic = regexp.MustCompile(`(?i)\b(for ever|anew|made up for|put down|whoever|to be had|of which|but for the|has become of|becomes? of|became of|c[ao]me of it|as it stands|stands (beside|below|behind|for the real)|herds?)\b`)

// ownWords are parts of names that only this project used.
var ownWords = regexp.MustCompile(`(?i)^(herds?|keeper|discreet|troubled?|wordings?|farewell|patience|hungry|stranded|cramped|crowded|deeds?|company|lone)$`)

// activity ends the name of a file that is named for an activity, not for what it
// holds.
var activity = regexp.MustCompile(`^(beginn|grant|settl|judg|plann|claim|send|lead|logg|end|retry|fail)ing(_test)?\.go$`)

// TestCommentsAndNamesAreTheFieldsOwn keeps archaic constructions out of comments,
// and words of this project only out of names of files and declarations.
func TestCommentsAndNamesAreTheFieldsOwn(t *testing.T) {
	part := regexp.MustCompile(`[A-Z]?[a-z]+|[A-Z]+`)
	for _, path := range goFiles(t) {
		slash := filepath.ToSlash(path)
		if notYet.MatchString(slash) || strings.Contains(slash, ".pb.") || slash == "words_test.go" {
			continue
		}
		if activity.MatchString(filepath.Base(path)) {
			t.Errorf("%s is named for an activity; name it for what it holds", path)
		}
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, path, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, comment := range file.Comments {
			if found := archaic.FindString(strings.ReplaceAll(comment.Text(), "\n", " ")); found != "" {
				t.Errorf("%s: %q; write plain English", files.Position(comment.Pos()), found)
			}
		}
		for _, name := range declared(file) {
			for _, word := range part.FindAllString(name.Name, -1) {
				if ownWords.MatchString(word) {
					t.Errorf("%s: %s: use the field's word for %q", files.Position(name.Pos()), name.Name, word)
				}
			}
		}
	}
}

// goFiles are the Go files of all modules.
func goFiles(t *testing.T) (paths []string) {
	t.Helper()
	err := filepath.WalkDir(".", func(path string, d os.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && strings.HasPrefix(d.Name(), ".") && path != ".":
			return filepath.SkipDir
		case strings.HasSuffix(path, ".go"):
			paths = append(paths, path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return paths
}

// declared are the names of functions, types, fields, parameters, constants and
// variables of packages.
func declared(file *ast.File) (names []*ast.Ident) {
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			names = append(names, n.Name)
		case *ast.TypeSpec:
			names = append(names, n.Name)
		case *ast.ValueSpec:
			names = append(names, n.Names...)
		case *ast.Field:
			names = append(names, n.Names...)
		}
		return true
	})
	return names
}

// usersTexts are the texts of a file that users may read, by line.
func usersTexts(t *testing.T, path string) map[int]string {
	t.Helper()
	switch slash := filepath.ToSlash(path); {
	case strings.HasSuffix(slash, ".go"):
		return literals(t, path)
	case strings.HasPrefix(slash, "internal/console/templates/"), strings.HasPrefix(slash, "deploy/prometheus/rules"), strings.HasPrefix(slash, "deploy/grafana/"),
		strings.HasPrefix(slash, "internal/cli/") && strings.HasSuffix(slash, ".golden") && !strings.Contains(slash, "_json") && !strings.Contains(slash, "_yaml"):
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		lines := make(map[int]string)
		for i, line := range strings.Split(string(text), "\n") {
			lines[i+1] = line
		}
		return lines
	case strings.HasPrefix(slash, "docs/") && strings.HasSuffix(slash, ".md"), slash == "README.md", strings.HasPrefix(slash, "proto/") && strings.HasSuffix(slash, ".proto"):
		return sentences(t, path)
	}
	return nil
}

// code is what documents quote: names, values and output, which other tests hold
// to the product.
var code = regexp.MustCompile("`[^`]*`")

// sentences are the lines of a document or the comments of a proto file, without
// code.
func sentences(t *testing.T, path string) map[int]string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	proto := strings.HasSuffix(path, ".proto")
	lines := make(map[int]string)
	fenced := false
	for i, line := range strings.Split(string(text), "\n") {
		_, comment, found := strings.Cut(line, "//")
		switch {
		case proto && found:
			lines[i+1] = comment
		case strings.HasPrefix(line, "```"):
			fenced = !fenced
		case !proto && !fenced:
			lines[i+1] = code.ReplaceAllString(line, "")
		}
	}
	return lines
}

// sqlText begins like a statement, which users do not read.
var sqlText = regexp.MustCompile(`^\s*(--|SELECT|UPDATE|INSERT|DELETE|WITH|CREATE|AND|WHERE|FROM)\b`)

// literals are the strings of a Go file but for its imports, statements and
// struct tags of JSON.
func literals(t *testing.T, path string) map[int]string {
	t.Helper()
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	texts := make(map[int]string)
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ImportSpec:
			return false
		case *ast.BasicLit:
			text, err := strconv.Unquote(n.Value)
			if n.Kind != token.STRING || err != nil || sqlText.MatchString(text) || strings.HasPrefix(text, "json:") {
				return true
			}
			// Quoted, so that a whole text can be told from a part of one.
			texts[files.Position(n.Pos()).Line] += " " + `"` + text + `"`
		}
		return true
	})
	return texts
}
