package e2e_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// statement is one command of the README, with the output that a comment below
// it promises.
type statement struct {
	section string
	text    string
	promise string // "…" matches anything; empty: none
}

// readme reads the sh blocks of README.md, command by command.
func readme(t *testing.T) []statement {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root(), "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	var all []statement
	section, inBlock := "", false
	var block []string
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		switch {
		case inBlock && line == "```":
			inBlock = false
			all = append(all, statements(section, block)...)
		case inBlock:
			block = append(block, line)
		case line == "```sh":
			inBlock, block = true, nil
		case strings.HasPrefix(line, "## "):
			section = strings.TrimPrefix(line, "## ")
		}
	}
	return all
}

// statements splits a block: a command ends with its line unless a quotation
// or a here-document is open. A comment on a line of its own promises what the
// command before it prints.
func statements(section string, block []string) []statement {
	var all []statement
	var open []string
	for _, line := range block {
		if comment, found := strings.CutPrefix(line, "# "); found && len(open) == 0 && len(all) > 0 {
			all[len(all)-1].promise = comment
			continue
		}
		open = append(open, line)
		if text := strings.Join(open, "\n"); complete(text) {
			all = append(all, statement{section: section, text: text})
			open = nil
		}
	}
	return all
}

var hereDocument = regexp.MustCompile(`<<'(\w+)'`)

func complete(text string) bool {
	if here := hereDocument.FindStringSubmatch(text); here != nil {
		return strings.HasSuffix(text, "\n"+here[1])
	}
	return strings.Count(text, "'")%2 == 0
}

// keeps reports whether output is what a promise says.
func keeps(output, promise string) bool {
	parts := strings.Split(promise, "…")
	for i := range parts {
		parts[i] = regexp.QuoteMeta(parts[i])
	}
	// JSON may have spaces that the promise leaves out, never other ones.
	return regexp.MustCompile("^" + strings.Join(parts, ".*") + "$").MatchString(strings.TrimSpace(output))
}
