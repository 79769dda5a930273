package app_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	link    = regexp.MustCompile(`\]\(([^)#\s]*)(?:#([^)\s]*))?\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.*)$`)
	outside = regexp.MustCompile(`[^\w\- ]`)
)

// A renamed document or section breaks the links of others.
func TestNoLinkOfTheDocumentsIsBroken(t *testing.T) {
	t.Parallel()
	root := filepath.Join("..", "..")
	documents := []string{filepath.Join(root, "README.md"), filepath.Join(root, "docs", "examples", "README.md")}
	more, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil || len(more) == 0 {
		t.Fatalf("no documents: %v", err)
	}
	for _, document := range append(documents, more...) {
		text, err := os.ReadFile(document)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range link.FindAllStringSubmatch(string(text), -1) {
			path, section := found[1], found[2]
			if strings.Contains(path, "://") {
				continue
			}
			target := document
			if path != "" {
				target = filepath.Join(filepath.Dir(document), path)
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s: %s leads nowhere", document, found[0])
			} else if section != "" && !sections(t, target)[section] {
				t.Errorf("%s: %s: there is no such section", document, found[0])
			}
		}
	}
}

// sections are the anchors of the headings of a Markdown page.
func sections(t *testing.T, document string) map[string]bool {
	t.Helper()
	text, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	names := make(map[string]bool)
	for _, found := range heading.FindAllStringSubmatch(string(text), -1) {
		name := outside.ReplaceAllString(strings.ToLower(found[1]), "")
		names[strings.ReplaceAll(strings.TrimSpace(name), " ", "-")] = true
	}
	return names
}

// Too many or too long records are not read.
func TestDecisionsAreFewAndShort(t *testing.T) {
	t.Parallel()
	const (
		most   = 30
		length = 15 * 120 // 15 lines
	)
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "decisions.md"))
	if err != nil {
		t.Fatal(err)
	}
	records := strings.Split(string(text), "\n## ")[1:]
	if len(records) > most {
		t.Errorf("docs/decisions.md has %d records, at most %d are allowed", len(records), most)
	}
	for _, record := range records {
		if len(record) > length {
			title, _, _ := strings.Cut(record, "\n")
			t.Errorf("the record %q has %d bytes, at most %d are allowed", title, len(record), length)
		}
	}
}
