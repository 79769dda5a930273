package migrated

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/carillon/carillon/internal/store/sqlite"
)

// SQLite writes a migrated database to path, unless the file exists, and
// returns path.
func SQLite(t testing.TB, path string) string {
	t.Helper()
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return path
	}
	content, err := template()
	if err != nil {
		t.Fatalf("prepare the template database: %v", err)
	}
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, content, 0o600)); err != nil {
		t.Fatal(err)
	}
	return path
}

// template is a migrated database file.
var template = sync.OnceValues(func() (content []byte, err error) {
	dir, err := os.MkdirTemp("", "carillon-template-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	path := filepath.Join(dir, "carillon.db")
	store, err := sqlite.Open(context.Background(), "sqlite:"+path, sqlite.Options{Logger: slog.New(slog.DiscardHandler), MaxConns: 1})
	if err != nil {
		return nil, err
	}
	_, err = store.Migrate(context.Background())
	// Closing the only connection copies the log into the file.
	if err := errors.Join(err, store.Close()); err != nil {
		return nil, err
	}
	return os.ReadFile(path)
})
