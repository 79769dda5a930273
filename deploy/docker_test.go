package deploy_test

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestTheImageIsBuiltFromAllThatTheBinaryNeeds holds what Docker is not shown to
// what `go build` reads.
func TestTheImageIsBuiltFromAllThatTheBinaryNeeds(t *testing.T) {
	t.Parallel()
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	list := exec.CommandContext(t.Context(), "go", "list", "-deps", "-json=Dir,EmbedFiles,Module", "./cmd/carillon")
	list.Dir = root
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	ignored := lines(t, "docker/Dockerfile.dockerignore")
	seen := 0
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p struct {
			Dir        string
			EmbedFiles []string
			Module     struct{ Main bool }
		}
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		if !p.Module.Main {
			continue
		}
		folder, err := filepath.Rel(root, p.Dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range append(p.EmbedFiles, "x.go") {
			seen++
			if path := filepath.Join(folder, file); isIgnored(path, ignored) {
				t.Errorf("the build needs %s, which %s leaves out", path, "docker/Dockerfile.dockerignore")
			}
		}
	}
	if seen < 50 {
		t.Errorf("only %d files looked at", seen)
	}
	if !isIgnored("internal/test/storetest/testdata/x", ignored) || !isIgnored("docs/semantics.md", ignored) || isIgnored("docs/examples/x", ignored) {
		t.Error("the patterns are not read as Docker reads them")
	}
}

// isIgnored reads the few forms of pattern that the file uses: the last one that
// matches decides.
func isIgnored(path string, patterns []string) (ignored bool) {
	parts := strings.Split(path, "/")
	for _, p := range patterns {
		if p == "" || strings.HasPrefix(p, "#") {
			continue
		}
		p, again := strings.CutPrefix(p, "!")
		hit := false
		if anywhere, ok := strings.CutPrefix(p, "**/"); ok {
			hit = slices.ContainsFunc(parts, func(part string) bool { m, _ := filepath.Match(anywhere, part); return m })
		} else if depth := strings.Count(p, "/") + 1; depth <= len(parts) {
			hit, _ = filepath.Match(p, strings.Join(parts[:depth], "/"))
		}
		if hit {
			ignored = !again
		}
	}
	return ignored
}

// TestTheImageRunsTheBinaryAsNobodySpecial reads what cannot be run here.
func TestTheImageRunsTheBinaryAsNobodySpecial(t *testing.T) {
	t.Parallel()
	text := strings.Join(lines(t, "docker/Dockerfile"), "\n")
	_, final, ok := strings.Cut(text, "\nFROM scratch\n")
	if !ok {
		t.Fatal("the last stage is not empty to begin with")
	}
	for _, want := range []string{
		"USER 65532:65532\n", `ENTRYPOINT ["/usr/bin/carillon"]`, `CMD ["serve"]`, `CMD ["/usr/bin/carillon", "health"]`,
		"COPY --from=build /out/carillon /usr/bin/carillon\n", "COPY --from=build --chown=65532:65532 /out/data /data\n",
	} {
		if !strings.Contains(final, want) {
			t.Errorf("the image lacks %s", want)
		}
	}
	if !strings.Contains(text, "CGO_ENABLED=0 go build") {
		t.Error("the binary is not static, and scratch has no libraries")
	}
}
