package apply

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/carillon/carillon/internal/cli/command"
)

// maxFiles is above the number of files that one apply needs.
const maxFiles = 10_000

// filesOfSet replaces folders with their files, ordered by name, each once. Named
// files are always read. In a folder, only regular files that are not hidden are read:
// a symbolic link could lead anywhere.
func filesOfSet(c *command.CLI, names []string) ([]string, error) {
	var out []string
	seen := make(map[string]bool)
	add := func(name string) {
		if clean := filepath.Clean(name); !seen[clean] {
			seen[clean] = true
			out = append(out, name)
		}
	}
	for _, name := range names {
		if stat, err := os.Stat(name); name == "-" || err != nil || !stat.IsDir() {
			add(name) // reading reports a missing file
			continue
		}
		inside, err := filesInFolder(name)
		if err != nil {
			return nil, err
		}
		if len(inside) == 0 {
			return nil, fmt.Errorf("no *.yaml, *.yml or *.json in the folder %s", name)
		}
		for _, file := range inside {
			add(file)
		}
		if len(out) > maxFiles {
			return nil, fmt.Errorf("more than %d files in %s: split them into several sets", maxFiles, name)
		}
	}
	return out, nil
}

func filesInFolder(folder string) ([]string, error) {
	var out []string
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		switch hidden := strings.HasPrefix(entry.Name(), ".") && path != folder; {
		case err != nil:
			return err
		case entry.IsDir() && hidden:
			return filepath.SkipDir
		case hidden || !entry.Type().IsRegular():
			return nil
		}
		switch filepath.Ext(path) {
		case ".yaml", ".yml", ".json":
			out = append(out, path)
		}
		if len(out) > maxFiles {
			return filepath.SkipAll
		}
		return nil
	})
	return out, err
}
