//go:build unix

package bucket_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/launcher/workflow/bucket"
)

func TestFilesAreClosedToOtherUsers(t *testing.T) {
	dir := t.TempDir()
	defer syscall.Umask(syscall.Umask(0)) // takes nothing away by itself
	b, err := bucket.Open(t.Context(), "file://"+dir)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	dag := []byte(`{"steps":[]}`)
	hash, err := schedule.CanonicalHash(dag)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.PutDAG(t.Context(), &schedule.WorkflowVersion{WorkflowID: "w", Version: 1, DAG: dag, Hash: hash}); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]os.FileMode{"w": os.ModeDir | 0o700, "w/1.json": 0o600} {
		stat, err := os.Stat(filepath.Join(dir, path))
		if err != nil || stat.Mode() != want {
			t.Errorf("%s: %v, %v; want %v", path, stat.Mode(), err, want)
		}
	}
}
