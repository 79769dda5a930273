package e2e_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestTheListOfGuardsIsComplete: each rule has its tests, its refusal and its place in the docs, and
// all of them exist.
func TestTheListOfGuardsIsComplete(t *testing.T) {
	guarantees := section(t, "queues.md", "## Guarantees")
	var want []string
	for prefix, last := range map[string]int{"INV": 6, "DEC": 12, "CON": 4} {
		for n := 1; n <= last; n++ {
			want = append(want, fmt.Sprintf("%s-%03d", prefix, n))
		}
	}
	listed := make(map[string]int)
	for _, g := range guards {
		listed[g.id]++
		if g.rule == "" || len(g.unit) == 0 || g.check == nil || g.refusal.says == "" {
			t.Errorf("%s has no rule, no unit test, no case or no refusal", g.id)
		}
		for _, name := range g.unit {
			folder, function, _ := cutLast(name, ".")
			if !hasTest(t, folder, function) {
				t.Errorf("%s: folder %s has no test %s", g.id, folder, function)
			}
		}
		for _, name := range g.cases {
			if !hasTest(t, "internal/test/e2e", name) {
				t.Errorf("%s: this folder has no test %s", g.id, name)
			}
		}
		page, anchor, _ := strings.Cut(g.anchor, "#")
		if !anchors(t, page)[anchor] {
			t.Errorf("%s: docs/%s has no heading #%s", g.id, page, anchor)
		}
		if !strings.Contains(guarantees, "| "+g.id+" |") {
			t.Errorf("%s has no line in the section Guarantees of docs/queues.md", g.id)
		}
		line, _, _ := strings.Cut(guarantees[max(0, strings.Index(guarantees, "| "+g.id+" |")):], "\n")
		if link := "(" + strings.TrimPrefix(g.anchor, "queues.md") + ")"; !strings.Contains(line, link) {
			t.Errorf("%s: its line in docs/queues.md does not link to %s", g.id, link)
		}
	}
	for _, id := range want {
		if listed[id] != 1 {
			t.Errorf("%s is listed %d times", id, listed[id])
		}
	}
	if len(guards) != len(want) {
		t.Errorf("%d rules are listed, want %d", len(guards), len(want))
	}
}

func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}

// hasTest reports whether the files of a folder declare a function.
func hasTest(t *testing.T, folder, function string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root(), folder, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range parsed.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && f.Name.Name == function {
				return true
			}
		}
	}
	return false
}

func readPage(t *testing.T, page string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root(), "docs", page))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

var heading = regexp.MustCompile(`(?m)^#+ (.*)$`)

// anchors are the headings of a page as links name them.
func anchors(t *testing.T, page string) map[string]bool {
	t.Helper()
	found := make(map[string]bool)
	for _, h := range heading.FindAllStringSubmatch(readPage(t, page), -1) {
		name := regexp.MustCompile(`[^a-z0-9 _-]`).ReplaceAllString(strings.ToLower(h[1]), "")
		found[strings.ReplaceAll(name, " ", "-")] = true
	}
	return found
}

// section is the text under a heading, up to the next one of its level.
func section(t *testing.T, page, title string) string {
	t.Helper()
	_, text, found := strings.Cut(readPage(t, page), "\n"+title+"\n")
	if !found {
		t.Fatalf("docs/%s has no section %q", page, title)
	}
	text, _, _ = strings.Cut(text, "\n## ")
	return text
}
