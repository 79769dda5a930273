// Package deploy_test checks that the files of deploy/ match the binary: dashboards
// and alerts its metrics, manifests its settings, alerts their runbooks.
package deploy_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/carillon/carillon/internal/test/services/leaks"
)

func TestMain(m *testing.M) { leaks.Main(m) }

// prometheusProgram is the Prometheus binary, with promtool in the same folder.
func prometheusProgram(t *testing.T) string {
	t.Helper()
	if path := os.Getenv("TEST_PROMETHEUS"); path != "" {
		return path
	}
	if path, err := exec.LookPath("prometheus"); err == nil {
		return path
	}
	if os.Getenv("REQUIRE_SERVICES") == "1" {
		t.Fatal("TEST_PROMETHEUS is not set: run under internal/tools/withservices")
	}
	t.Skip("SKIPPED: no Prometheus here; run under internal/tools/withservices, or set TEST_PROMETHEUS")
	return ""
}

func promtool(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	return exec.CommandContext(t.Context(), filepath.Join(filepath.Dir(prometheusProgram(t)), "promtool"), args...)
}

func readYAML(t *testing.T, path string, into any) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(text, into); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}
