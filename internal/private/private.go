// Package private protects folders and files of this process from other users of the machine: DATA_DIR,
// the SQLite files and the files of the local executor.
package private

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
)

// Folder creates a folder for this process only. An existing folder with access for others is closed if
// it is empty or contains a name that begins with one of ours. Otherwise it is refused, because it may
// be shared on purpose.
func Folder(path string, ours ...string) error {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return err
	}
	stat, err := os.Stat(path)
	if err != nil || !open(stat) {
		return err
	}
	known, err := holds(path, ours)
	if err != nil {
		return err
	}
	if !known || stat.Mode()&fs.ModeSticky != 0 {
		return fmt.Errorf("%s is open to other users (mode %04o) and was not made by carillon; name a folder inside it, which is then made, or run chmod 700 %s", path, stat.Mode().Perm(), path)
	}
	return tighten(path, stat)
}

// File removes the permissions of others from a file or folder of ours. A missing one is not an error.
func File(path string) error {
	stat, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil || !open(stat) {
		return err
	}
	return tighten(path, stat)
}

// holds reports whether a folder is empty or has one of our entries.
func holds(path string, ours []string) (bool, error) {
	entries, err := os.ReadDir(path)
	if err != nil {
		return false, err
	}
	return len(entries) == 0 || slices.ContainsFunc(entries, func(e fs.DirEntry) bool {
		return slices.ContainsFunc(ours, func(name string) bool { return strings.HasPrefix(e.Name(), name) })
	}), nil
}
