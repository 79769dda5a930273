// Package mutant builds the product with seeded bugs, without touching the tree. A suite
// that does not find such a bug proves less than it says.
//
// It takes no step in a slot's life.
package mutant

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Edit is a file, a piece of its text that occurs once in it, and what replaces that.
type Edit [3]string

// Overlay writes the changed files into folder, and returns a file for the option
// -overlay of go build, which says what they replace. Names of files are relative to root.
func Overlay(root, folder string, edits []Edit) (string, error) {
	replaced := make(map[string]string)
	for i, e := range edits {
		name, old, broken := e[0], e[1], e[2]
		path, err := filepath.Abs(filepath.Join(root, name))
		if err != nil {
			return "", err
		}
		from, again := replaced[path]
		if !again {
			from = path
		}
		text, err := os.ReadFile(from)
		if err != nil {
			return "", err
		}
		if n := strings.Count(string(text), old); n != 1 {
			return "", fmt.Errorf("%s has this %d times, not once; bring the list of seeded bugs up to date:\n%s", name, n, old)
		}
		to := filepath.Join(folder, fmt.Sprintf("%d.go", i))
		if err := os.WriteFile(to, []byte(strings.Replace(string(text), old, broken, 1)), 0o600); err != nil {
			return "", err
		}
		replaced[path] = to
	}
	listing, err := json.Marshal(map[string]any{"Replace": replaced})
	if err != nil {
		return "", err
	}
	overlay := filepath.Join(folder, "overlay.json")
	return overlay, os.WriteFile(overlay, listing, 0o600)
}
