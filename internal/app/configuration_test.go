package app_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/carillon/carillon/internal/app"
)

var update = flag.Bool("update", false, "rewrite the table of settings in docs/configuration.md")

// readmeLines bounds the README. Details belong in docs/.
const readmeLines = 150

func TestTheReadmeIsShort(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	if lines := strings.Count(string(readme), "\n"); lines > readmeLines {
		t.Errorf("README.md has %d lines, at most %d are allowed: move details to docs/", lines, readmeLines)
	}
}

func TestConfigurationListsEverySetting(t *testing.T) {
	t.Parallel()
	const path = "../../docs/configuration.md"
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(page), "-update` -->\n")
	_, after, ok2 := strings.Cut(rest, "<!-- end of configuration -->")
	if !ok || !ok2 {
		t.Fatal("docs/configuration.md has no marks around its table")
	}
	want := before + "-update` -->\n" + table() + "<!-- end of configuration -->" + after
	if want == string(page) {
		return
	}
	if !*update {
		t.Fatal("the table in docs/configuration.md is stale: go test ./internal/app -run TestConfigurationListsEverySetting -update")
	}
	if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
}

func table() string {
	var b strings.Builder
	b.WriteString("| name | default | meaning |\n| --- | --- | --- |\n")
	for _, s := range app.Settings() {
		name := "`" + s.Name + "`"
		if s.Secret {
			name += " *"
		}
		value := s.Default
		if value != "" {
			value = "`" + value + "`"
		}
		help := s.Help
		if s.Bounds != "" {
			help += " (" + s.Bounds + ")"
		}
		fmt.Fprintf(&b, "| %s | %s | %s |\n", name, value, help)
	}
	return b.String()
}
