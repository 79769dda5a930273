package e2e_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// fences are the code blocks of a document by the words behind their opening
// backticks; those of one kind are one script.
func fences(t *testing.T, document string) map[string]string {
	t.Helper()
	all := make(map[string]string)
	kind, inside := "", false
	for line := range strings.Lines(fileText(t, document)) {
		words, fence := strings.CutPrefix(strings.TrimSpace(line), "```")
		switch {
		case fence && !inside:
			kind, inside = words, true
		case fence:
			inside = false
		case inside:
			all[kind] += line
		}
	}
	return all
}

func fileText(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root(), path))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

const (
	deployingDocument = "docs/deploying-workflows.md"
	compilerExample   = "docs/examples/compiler"
)

// TestTheExamplesOfDeployingWorkflows runs the commands that the document gives to the
// author of a compiler.
func TestTheExamplesOfDeployingWorkflows(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a process for each example")
	}
	t.Parallel()
	for _, tool := range []string{"sh", "curl"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("the document's commands need %s: %v", tool, err)
		}
	}
	scripts := fences(t, deployingDocument)
	for _, tt := range []struct {
		name, script string
		shows        []string
	}{
		{name: "curl", script: scripts["sh curl"], shows: []string{
			`"fire_at"`, `"sha256"`, `"changed":true`, `"adopted_from":"workflow:langgraph:digest"`, `"done_before":true`, `"status":"SUCCESS"`,
		}},
		{name: "command line", script: scripts["sh cli"], shows: []string{
			"1 to create", "1 created", "applied before", "no differences", "SUCCESS",
		}},
		{name: "go", script: "compiler\ncompiler", shows: []string{
			"would create langgraph:digest.hourly: 0 runs removed, 720 added", "released: changed true, done before false",
			"langgraph:digest version 1 ended SUCCESS", "released: changed false, done before true",
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			g := secured(t)
			g.bring(compilerExample + "/digest.json")
			out, err := g.run(tt.script)
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			for _, part := range tt.shows {
				if !strings.Contains(out, part) {
					t.Errorf("it does not show %q:\n%s", part, out)
				}
			}
		})
	}
}

// secured is a compiler's place of work: a server that asks for a token, and
// the environment that the document begins with.
func secured(t *testing.T) *guide {
	t.Helper()
	p := newProcess(t, "carillon dev", []string{"dev", "--examples=false"}, nil)
	made, errs, code := p.command("", "token", "new", "--subject", "compiler", "--role", "compiler")
	token := regexp.MustCompile(`carillon_[A-Z0-9]+`).FindString(made)
	_, tokens, found := strings.Cut(made, "AUTH_TOKENS_FILE:\n")
	if code != 0 || token == "" || !found {
		t.Fatalf("token new: %d %s%s", code, made, errs)
	}
	path := filepath.Join(p.dir, "tokens.yaml")
	if err := os.WriteFile(path, []byte(tokens), 0o600); err != nil {
		t.Fatal(err)
	}
	p.env = append(p.env, "AUTH_TOKENS_FILE="+path, "LOCAL_EXECUTOR_ROLES=compiler")
	p.startReady()
	g := newGuide(t, p)
	g.exports = []string{"export CARILLON_URL=http://" + p.httpAddr + " CARILLON_TOKEN=" + token + ` PATH="$PWD/bin:$PATH"`}
	cmd := exec.Command("go", "build", "-o", filepath.Join(p.dir, "bin", "compiler"), "./"+compilerExample)
	cmd.Dir = root()
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build the example: %v\n%s", err, out)
	}
	return g
}

// bring copies a file of the repository to the guide's folder.
func (g *guide) bring(path string) {
	g.t.Helper()
	text, err := os.ReadFile(filepath.Join(root(), path))
	if err == nil {
		err = os.WriteFile(filepath.Join(g.dir, filepath.Base(path)), text, 0o600)
	}
	if err != nil {
		g.t.Fatal(err)
	}
}

func TestTheDocumentShowsTheExamplesAsTheyAre(t *testing.T) {
	t.Parallel()
	shown := fences(t, deployingDocument)
	if program := fileText(t, compilerExample+"/main.go"); shown["go"] == "" || !strings.Contains(program, strings.TrimSpace(shown["go"])) {
		t.Errorf("%s shows Go code that is not in %s/main.go", deployingDocument, compilerExample)
	}
	if dag := fileText(t, compilerExample+"/digest.json"); shown["json"] != dag {
		t.Errorf("%s shows another DAG than %s/digest.json", deployingDocument, compilerExample)
	}
}

// TestTheTourOfSchedulesInFiles runs the commands for people, and then those for
// CI, on the files that the repository has for them. A command's comment says how
// it ends.
func TestTheTourOfSchedulesInFiles(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a process")
	}
	t.Parallel()
	p := newProcess(t, "carillon dev", []string{"dev"}, nil)
	p.startReady()
	g := newGuide(t, p)
	g.exports = []string{`export PATH="$PWD/bin:$PATH" CI_PIPELINE_ID=77`}
	schedules := filepath.Join(g.dir, "docs", "examples", "schedules")
	if err := errors.Join(os.CopyFS(schedules, os.DirFS(filepath.Join(root(), "docs/examples/schedules"))), os.CopyFS(filepath.Join(g.dir, "schedules"), os.DirFS(schedules))); err != nil {
		t.Fatal(err)
	}
	scripts := fences(t, deployingDocument)
	tour := statements("tour", strings.Split(strings.TrimSpace(scripts["sh tour"]), "\n"))
	ci := statements("ci", strings.Split(strings.TrimSpace(strings.ReplaceAll(scripts["sh ci"], "billing-bot", "me")), "\n"))
	if len(tour) < 10 || len(ci) != 3 {
		t.Fatalf("%s has %d commands for people and %d for CI", deployingDocument, len(tour), len(ci))
	}
	for _, s := range append(tour, ci...) {
		_, comment, _ := strings.Cut(s.text, "#")
		want := 0
		if strings.Contains(comment, "exits with 3") {
			want = 3
		}
		out, err := g.run(s.text)
		var exit *exec.ExitError
		code := 0
		if errors.As(err, &exit) {
			code = exit.ExitCode()
		} else if err != nil {
			t.Fatal(err)
		}
		if code != want {
			t.Errorf("%s\nends with %d, want %d:\n%s", s.text, code, want, out)
		}
		for promise, shows := range map[string]string{"no changes": "no changes", "still paused": "state       paused"} {
			if strings.Contains(comment, promise) && !strings.Contains(out, shows) {
				t.Errorf("%s\ndoes not show %q:\n%s", s.text, shows, out)
			}
		}
	}
}
