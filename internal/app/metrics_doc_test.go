package app_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The table of docs/operations.md has exactly the metrics that the source registers. The deploy tests
// compare the dashboard with a real scrape, which lacks the metrics of unconfigured features.
func TestEveryMetricIsDocumented(t *testing.T) {
	t.Parallel()
	const root = "../.."
	text, err := os.ReadFile(filepath.Join(root, "docs", "operations.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n## Metrics\n")
	section, _, _ = strings.Cut(section, "\n## ")
	name := regexp.MustCompile(`carillon_[a-z0-9_]+`)
	documented := make(map[string]bool)
	for line := range strings.Lines(section) {
		if cell, _, ok := strings.Cut(strings.TrimPrefix(line, "| "), " |"); ok {
			for _, found := range name.FindAllString(cell, -1) {
				documented[found] = true
			}
		}
	}
	registered := metricsIn(t, root)
	if len(registered) < 50 {
		t.Fatalf("the source has %d metrics, want at least 50: this test misreads it", len(registered))
	}
	for metric, file := range registered {
		if !documented[metric] {
			t.Errorf("the table of metrics in docs/operations.md lacks %s of %s", metric, file)
		}
	}
	for metric := range documented {
		if registered[metric] == "" {
			t.Errorf("docs/operations.md names %s, which no source file registers", metric)
		}
	}
}

// metricsIn finds the names of metrics, with their positions, in files that use the Prometheus client.
func metricsIn(t *testing.T, root string) map[string]string {
	t.Helper()
	literal := regexp.MustCompile(`"(carillon_[a-z0-9_]+)"`)
	all := make(map[string]string)
	for _, folder := range []string{"cmd", "internal", "launcher", "registrar", "worker"} {
		err := filepath.WalkDir(filepath.Join(root, folder), func(path string, d fs.DirEntry, err error) error {
			if d != nil && d.IsDir() && d.Name() == "test" {
				return fs.SkipDir
			}
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			source, err := os.ReadFile(path)
			if err != nil || !strings.Contains(string(source), `"github.com/prometheus/client_golang/prometheus"`) {
				return err
			}
			for _, found := range literal.FindAllStringSubmatch(string(source), -1) {
				all[found[1]] = path
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return all
}
