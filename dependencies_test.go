package carillon_test

import (
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const (
	// maxLibraries is how many modules the product may require directly. Each is
	// code that somebody else can change, and that has to be kept up to date.
	maxLibraries = 25
	// maxTestLibraries is how many more may serve tests that are next to the
	// code they test. Other test libraries belong in internal/test/thirdparty.
	maxTestLibraries = 3
)

// requirements are those of go.mod; true means marked as indirect.
func requirements(t *testing.T) map[string]bool {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "mod", "edit", "-json").Output()
	if err != nil {
		t.Fatalf("go mod edit: %v", err)
	}
	var file struct {
		Require []struct {
			Path     string
			Indirect bool
		}
	}
	if err := json.Unmarshal(out, &file); err != nil {
		t.Fatal(err)
	}
	indirect := make(map[string]bool)
	for _, r := range file.Require {
		indirect[r.Path] = r.Indirect
	}
	return indirect
}

// documented are the libraries in a table of docs/dependencies.md.
func documented(t *testing.T, heading string) []string {
	t.Helper()
	page, err := os.ReadFile("docs/dependencies.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, found := strings.Cut(string(page), "\n## "+heading+"\n")
	if !found {
		t.Fatalf("docs/dependencies.md has no section %q", heading)
	}
	table, _, _ = strings.Cut(table, "\n## ")
	var names []string
	for _, match := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\|").FindAllStringSubmatch(table, -1) {
		names = append(names, match[1])
	}
	return names
}

// moduleOf is the requirement that an import belongs to, empty for none.
func moduleOf(path string, required map[string]bool) string {
	best := ""
	for name := range required {
		if (path == name || strings.HasPrefix(path, name+"/")) && len(name) > len(best) {
			best = name
		}
	}
	return best
}

func TestDirectDependenciesAreFewAndDocumented(t *testing.T) {
	product, tests := documented(t, "In the product"), documented(t, "In tests only")
	if len(product) > maxLibraries {
		t.Errorf("docs/dependencies.md lists %d libraries of the product, more than %d: replace one, or move what only tests use to internal/test/thirdparty", len(product), maxLibraries)
	}
	if len(tests) > maxTestLibraries {
		t.Errorf("docs/dependencies.md lists %d libraries of tests, more than %d: move the tests to internal/test/thirdparty", len(tests), maxTestLibraries)
	}
	listed := append(slices.Clone(product), tests...)
	required := requirements(t)
	for name, indirect := range required {
		if !indirect && !slices.Contains(listed, name) {
			t.Errorf("go.mod requires %s, which docs/dependencies.md does not list: say there what it is for, or do without it", name)
		}
	}
	for _, name := range listed {
		if indirect, found := required[name]; indirect || !found {
			t.Errorf("docs/dependencies.md lists %s, which go.mod does not require directly", name)
		}
	}
}

// go.mod marks modules that no package imports as indirect. A build does not check
// it, and a marked import would not be counted.
func TestWhatIsImportedIsADirectRequirement(t *testing.T) {
	required := requirements(t)
	wrong := make(map[string]string)
	for _, p := range packages(t) {
		for _, path := range slices.Concat(p.Imports, p.TestImports, p.XTestImports) {
			if name := moduleOf(path, required); required[name] {
				wrong[name] = p.ImportPath
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(wrong)) {
		t.Errorf("%s imports %s, which go.mod marks as indirect: run go mod tidy", wrong[name], name)
	}
}

// testSupport are packages that only tests import, so they may use test libraries.
var testSupport = []string{module + "/internal/test/storetest", module + "/internal/cli/clitest"}

func TestTheProductImportsNoTestLibrary(t *testing.T) {
	tests, required := documented(t, "In tests only"), requirements(t)
	for _, p := range packages(t) {
		for _, path := range p.Imports {
			if name := moduleOf(path, required); slices.Contains(tests, name) && !slices.Contains(testSupport, p.ImportPath) {
				t.Errorf("%s imports %s, which is for tests only", p.ImportPath, path)
			}
		}
		if p.ImportPath != module+"/cmd/carillon" {
			continue
		}
		for _, support := range testSupport {
			if slices.Contains(p.Deps, support) {
				t.Errorf("the product contains %s", support)
			}
		}
	}
}
