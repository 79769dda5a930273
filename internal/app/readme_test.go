package app_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/carillon/carillon/internal/app"
)

var update = flag.Bool("update", false, "rewrite the generated part of the README")

func TestTheReadmeListsEverySetting(t *testing.T) {
	const path = "../../README.md"
	readme, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(readme), "-update` -->\n")
	_, after, ok2 := strings.Cut(rest, "<!-- end of configuration -->")
	if !ok || !ok2 {
		t.Fatal("the README has no marks around its configuration table")
	}
	want := before + "-update` -->\n" + table() + "<!-- end of configuration -->" + after
	if want == string(readme) {
		return
	}
	if !*update {
		t.Fatal("the README's configuration table is stale: go test ./internal/app -run Readme -update")
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
