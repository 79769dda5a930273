package workflow_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/launcher/workflow"
)

func TestAFolderGivesTheVersionsThatItHolds(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "report", "3.json"), `{"steps": []}`)
	write(t, filepath.Join(dir, "owners", "ada", "report", "3.json"), `{"ada": 1}`)
	write(t, filepath.Join(dir, "owners", "auth0%7Cbob", "report", "3.json"), `{"bob": 1}`)
	write(t, filepath.Join(dir, "owners", "a%2Fb", "report", "3.json"), `{"slash": 1}`)
	write(t, filepath.Join(dir, "owners", "3.json"), `{}`)
	write(t, filepath.Join(dir, "half", "1.json"), `{"steps": [`)
	write(t, filepath.Join(dir, "list", "1.json"), `[]`)
	write(t, filepath.Join(dir, "big", "1.json"), strings.Repeat("x", schedule.MaxDAGBytes+1))
	write(t, filepath.Join(filepath.Dir(dir), "secret", "1.json"), `{}`)
	if err := os.Symlink(filepath.Join(filepath.Dir(dir), "secret"), filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name     string
		user     string // "": stored for all owners
		id       string
		version  int32
		want     string
		notFound bool
		invalid  bool
	}{
		{name: "a version that is there", id: "report", version: 3, want: `{"steps": []}`},
		{name: "an owner's own", user: "ada", id: "report", version: 3, want: `{"ada": 1}`},
		{name: "an owner whose id is escaped", user: "auth0|bob", id: "report", version: 3, want: `{"bob": 1}`},
		{name: "an owner whose id looks like a path", user: "a/b", id: "report", version: 3, want: `{"slash": 1}`},
		{name: "another owner's own", user: "bob", id: "report", version: 3, notFound: true},
		{name: "an owner that is the folder above", user: "..", id: "report", version: 3, notFound: true},
		{name: "an owner that is this folder", user: ".", id: "report", version: 3, notFound: true},
		{name: "an owner that leads to another's folder", user: "x/../ada", id: "report", version: 3, notFound: true},
		{name: "a workflow that is the folder of owners", id: "owners", version: 3, notFound: true},
		{name: "another version", id: "report", version: 4, notFound: true},
		{name: "another workflow", id: "other", version: 3, notFound: true},
		{name: "the folder above", id: "..", version: 1, notFound: true},
		{name: "a path", id: "../secret", version: 1, notFound: true},
		{name: "a link that leads out", id: "link", version: 1},
		{name: "a file over the limit", id: "big", version: 1, invalid: true},
		{name: "half a file", id: "half", version: 1, invalid: true},
		{name: "no object", id: "list", version: 1, invalid: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			dag, err := workflow.NewDir(dir).LoadDAG(t.Context(), c.user, c.id, c.version)
			if _, invalid := errors.AsType[*schedule.InvalidError](err); invalid != c.invalid {
				t.Errorf("err = %v, want it invalid: %v", err, c.invalid)
			}
			if string(dag) != c.want || (err == nil) != (c.want != "") || errors.Is(err, schedule.ErrNotFound) != c.notFound {
				t.Errorf("got %q, %v", dag, err)
			}
		})
	}
}

func TestASecondStoreIsAskedForWhatTheFirstDoesNotHold(t *testing.T) {
	away := errors.New("away")
	for _, c := range []struct {
		name          string
		first, second answer
		want          answer
	}{
		{name: "the first holds it", first: answer{"1", nil}, second: answer{"2", nil}, want: answer{"1", nil}},
		{name: "the second holds it", first: answer{"", schedule.ErrNotFound}, second: answer{"2", nil}, want: answer{"2", nil}},
		{name: "neither does", first: answer{"", schedule.ErrNotFound}, second: answer{"", schedule.ErrNotFound}, want: answer{"", schedule.ErrNotFound}},
		{name: "the first is away, and may hold another", first: answer{"", away}, second: answer{"2", nil}, want: answer{"", away}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dag, err := workflow.Fallback{First: c.first, Second: c.second}.LoadDAG(t.Context(), "", "w", 1)
			if string(dag) != c.want.dag || !errors.Is(err, c.want.err) {
				t.Errorf("got %q, %v, want %v", dag, err, c.want)
			}
		})
	}
}

// answer is a store that always says the same.
type answer struct {
	dag string
	err error
}

func (a answer) LoadDAG(context.Context, string, string, int32) ([]byte, error) {
	return []byte(a.dag), a.err
}

func TestACacheAsksOnceAndForgetsTheOldestFirst(t *testing.T) {
	store := &counting{}
	cached := workflow.NewCached(store, 25) // two of ten bytes, not three
	load := func(id string) {
		if dag, err := cached.LoadDAG(t.Context(), "", id, 1); err != nil || len(dag) != 10 {
			t.Fatalf("%q, %v", dag, err)
		}
	}
	for _, id := range []string{"a", "b", "a", "c", "a", "b"} {
		load(id)
	}
	if got := strings.Join(store.asked, ""); got != "abcb" {
		t.Errorf("the store was asked for %s; want a, b, c and, forgotten meanwhile, b", got)
	}
	for range 2 {
		if _, err := cached.LoadDAG(t.Context(), "", "missing", 1); !errors.Is(err, schedule.ErrNotFound) {
			t.Error(err)
		}
	}
	if got := strings.Join(store.asked, ""); got != "abcbmissingmissing" {
		t.Errorf("what was not found must be asked for again; asked %s", got)
	}
}

type counting struct{ asked []string }

func (c *counting) LoadDAG(_ context.Context, _, id string, _ int32) ([]byte, error) {
	c.asked = append(c.asked, id)
	if id == "missing" {
		return nil, schedule.ErrNotFound
	}
	return []byte("0123456789"), nil
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
