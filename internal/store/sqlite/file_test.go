package sqlite_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/store/sqlite"
	"github.com/carillon/carillon/schema"
)

func TestDSNsThatAreRefusedSayWhatToDo(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	for _, c := range []struct{ name, dsn, want string }{
		{"another database", "postgres://user:secret@host/db", `"postgres:…" does not begin with sqlite:`},
		{"nothing", "", "does not begin with sqlite:"},
		{"no path", "sqlite:", "names no file"},
		{"no path after slashes", "sqlite://", "names no file"},
		{"memory", "sqlite::memory:", "lose them with the process"},
		{"memory with slashes", "sqlite://:memory:", "lose them with the process"},
		{"memory by parameter", "sqlite:x.db?mode=memory", "has parameters"},
		{"a folder", "sqlite:" + folder, "names a folder"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, err := sqlite.Open(t.Context(), c.dsn, sqlite.Options{})
			var invalid *schedule.InvalidError
			if !errors.As(err, &invalid) || !strings.Contains(err.Error(), c.want) || invalid.Violations[0].Hint == "" {
				t.Errorf("got %v, want it to say %q and what to do", err, c.want)
			}
			if err != nil && strings.Contains(err.Error(), "secret") {
				t.Errorf("the message shows a password: %v", err)
			}
		})
	}
}

func TestPathsThatAreTaken(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, scheme, path string }{
		{"with sqlite:", "sqlite:", "a.db"},
		{"with sqlite://", "sqlite://", "a.db"},
		{"in a folder that is not there yet", "sqlite:", "deep/er/a.db"},
		{"with signs that URLs give a meaning", "sqlite:", "100% of #1 & more; ü.db"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "new", c.path)
			s, err := sqlite.Open(t.Context(), c.scheme+path, sqlite.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			}()
			if _, err := s.Migrate(t.Context()); err != nil {
				t.Fatal(err)
			}
			entries, err := os.ReadDir(filepath.Dir(path))
			if err != nil || len(entries) != 3 {
				t.Fatalf("want the file, its log and its index, got %v, %v", entries, err)
			}
			for _, entry := range entries {
				if mode(t, filepath.Join(filepath.Dir(path), entry.Name())) != 0o600 {
					t.Errorf("%s can be read by others", entry.Name())
				}
			}
			if mode(t, filepath.Dir(path)) != 0o700 {
				t.Errorf("the folder can be read by others")
			}
		})
	}
}

func mode(t *testing.T, path string) os.FileMode {
	t.Helper()
	stat, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return stat.Mode().Perm()
}

func TestMigrateIsDoneOnceAndChecked(t *testing.T) {
	t.Parallel()
	s, err := sqlite.Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "a.db"), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	if err := s.CheckSchema(t.Context()); !errors.Is(err, schema.ErrUnknownSchema) {
		t.Errorf("an empty file has an unknown schema, got %v", err)
	}
	for i, want := range []bool{true, false} {
		applied, err := s.Migrate(t.Context())
		if err != nil || (applied > 0) != want {
			t.Errorf("migration %d: applied %d, %v", i+1, applied, err)
		}
	}
	if err := s.CheckSchema(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestFilesThatOthersCouldReadAreClosed(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a.db")
	first, err := sqlite.Open(t.Context(), "sqlite:"+path, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := first.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	names := []string{path, path + "-wal", path + "-shm"} // all three are there while it is open
	for _, name := range names {
		if err := os.Chmod(name, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	second, err := sqlite.Open(t.Context(), "sqlite:"+path, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	for _, name := range names {
		if stat, err := os.Stat(name); err != nil || stat.Mode() != 0o600 {
			t.Errorf("%s: %v, %v; want mode 0600", name, stat.Mode(), err)
		}
	}
}
