package sqlite

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/carillon/carillon/internal/private"
	"github.com/carillon/carillon/internal/schedule"
)

// prepareFile reads the DSN and creates missing folder and file, readable by their owner
// only. SQLite gives its -wal and -shm files the mode of the main file; files that are
// open to other users are closed.
func prepareFile(dsn string) (path string, err error) {
	name, err := parseDSN(dsn)
	if err != nil {
		return "", err
	}
	if path, err = filepath.Abs(name); err != nil {
		return "", fmt.Errorf("find %s: %w", name, err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return "", fmt.Errorf("make the folder of %s: %w", path, err)
	}
	// A file that is there is not opened: closing it again would drop the locks
	// that other connections of this process hold on it.
	stat, err := os.Stat(path)
	switch {
	case err == nil && stat.IsDir():
		return "", schedule.Invalid("database_url", dsn, "names a folder", "name a file in it, as in sqlite:"+filepath.Join(name, "carillon.db"))
	case err == nil:
		for _, suffix := range []string{"", "-wal", "-shm"} {
			if err := private.File(path + suffix); err != nil {
				return "", fmt.Errorf("close the database to other users: %w", err)
			}
		}
		return path, nil
	case !errors.Is(err, os.ErrNotExist):
		return "", fmt.Errorf("look at %s: %w", path, err)
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if errors.Is(err, os.ErrExist) {
		return path, nil // another process created it in between
	}
	if err != nil {
		return "", fmt.Errorf("make %s: %w", path, err)
	}
	return path, file.Close()
}

// parseDSN takes sqlite:PATH and sqlite://PATH.
func parseDSN(dsn string) (path string, err error) {
	const hint = "write sqlite:PATH, as in sqlite:./.carillon/carillon.db"
	path, ok := strings.CutPrefix(dsn, "sqlite:")
	if !ok {
		return "", schedule.Invalid("database_url", redact(dsn), "does not begin with sqlite:", hint)
	}
	path = strings.TrimPrefix(path, "//")
	switch {
	case path == "":
		return "", schedule.Invalid("database_url", dsn, "names no file", hint)
	case strings.Contains(path, ":memory:"):
		return "", schedule.Invalid("database_url", dsn, "would keep slots in memory only and lose them with the process", hint)
	case strings.ContainsAny(path, "?\x00"):
		return "", schedule.Invalid("database_url", dsn, "has parameters, and SQLite is set up by carillon itself", hint)
	}
	return path, nil
}

// redact keeps the password of another database's DSN out of messages.
func redact(dsn string) string {
	scheme, _, ok := strings.Cut(dsn, ":")
	if !ok {
		return dsn
	}
	return scheme + ":…"
}

// driverDSN returns the driver's DSN. Pragmas are per connection.
func driverDSN(path string, pragmas ...string) string {
	query := url.Values{"_txlock": {"immediate"}, "_pragma": append([]string{
		// First, so that the others wait for a lock too.
		"busy_timeout(5000)",
		"foreign_keys(1)",
		"synchronous(FULL)", // a commit that returned survives a power cut
		"temp_store(MEMORY)",
	}, pragmas...)}
	return (&url.URL{Scheme: "file", Path: path, RawQuery: query.Encode()}).String()
}
