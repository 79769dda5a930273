//go:build unix

package private_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/carillon/carillon/internal/private"
)

func TestAFolderIsClosedToOthersOrRefused(t *testing.T) {
	for _, c := range []struct {
		name  string
		mode  os.FileMode // 0: there is none
		holds string      // a file in it
		owner int         // -1: this process's user; others need root
		want  os.FileMode
		says  string // the refusal
	}{
		{"none yet", 0, "", -1, 0o700, ""},
		{"an empty one that is open", 0o755, "", -1, 0o700, ""},
		{"one of ours that is open", 0o777, "carillon.db-wal", -1, 0o700, ""},
		{"one of ours that its group reads", 0o750, "runs", -1, 0o700, ""},
		{"one that its group may only enter", 0o710, "other", -1, 0o710, ""},
		{"a closed one with other things", 0o700, "other", -1, 0o700, ""},
		{"an open one with other things", 0o755, "other", -1, 0o755, "is open to other users (mode 0755) and was not made by carillon; name a folder inside it"},
		{"one that all write to", os.ModeSticky | 0o777, "carillon.db", -1, os.ModeSticky | 0o777, "was not made by carillon"},
		{"an open one of another user", 0o755, "carillon.db", 65534, 0o755, "belongs to user 65534, but this process runs as user 0"},
		{"a closed one of another user", 0o700, "carillon.db", 65534, 0o700, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.owner >= 0 && os.Geteuid() != 0 {
				t.Skip("only root can give a folder away")
			}
			dir := filepath.Join(t.TempDir(), "data")
			if c.mode != 0 {
				made := []error{os.Mkdir(dir, 0o700), os.Chown(dir, c.owner, -1)}
				if c.holds != "" {
					made = append(made, os.WriteFile(filepath.Join(dir, c.holds), nil, 0o600))
				}
				for _, err := range append(made, os.Chmod(dir, c.mode)) {
					if err != nil {
						t.Fatal(err)
					}
				}
			}
			err := private.Folder(dir, "carillon.db", "runs")
			if c.says == "" && err != nil || c.says != "" && (err == nil || !strings.Contains(err.Error(), dir+" ") || !strings.Contains(err.Error(), c.says)) {
				t.Errorf("error %v; want it to say %q", err, c.says)
			}
			stat, err := os.Stat(dir)
			if err != nil || stat.Mode() != os.ModeDir|c.want {
				t.Errorf("mode %v, %v; want %v", stat.Mode(), err, c.want)
			}
		})
	}
}

func TestAFileIsClosedToOthers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := private.File(path); err != nil {
		t.Errorf("one that is not there: %v", err)
	}
	for _, mode := range []os.FileMode{0o644, 0o666, 0o640, 0o600} {
		if err := os.WriteFile(path, nil, mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil { // whatever the umask
			t.Fatal(err)
		}
		if err := private.File(path); err != nil {
			t.Errorf("mode %o: %v", mode, err)
		}
		if stat, err := os.Stat(path); err != nil || stat.Mode() != 0o600 {
			t.Errorf("mode %o became %v, %v; want 0600", mode, stat.Mode(), err)
		}
	}
}
