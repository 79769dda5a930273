package workflow_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/store/memory"
	"github.com/carillon/carillon/internal/store/postgres"
	"github.com/carillon/carillon/internal/store/sqlite"
	"github.com/carillon/carillon/internal/test/services/migrated"
	"github.com/carillon/carillon/launcher/workflow"
	"github.com/carillon/carillon/launcher/workflow/bucket"
)

// database is what a test needs of one.
type database interface {
	workflow.Versions
	workflow.AccessStore
	PutWorkflow(ctx context.Context, w *schedule.WorkflowVersion) error
	ShareWorkflow(ctx context.Context, share schedule.WorkflowShare) (schedule.WorkflowShare, error)
	UnshareWorkflow(ctx context.Context, workflowID, userID string) error
}

// databases open either one, empty.
var databases = map[string]func(t *testing.T) database{
	"SQLite": func(t *testing.T) database {
		s, err := sqlite.Open(t.Context(), "sqlite:"+migrated.SQLite(t, filepath.Join(t.TempDir(), "carillon.db")), sqlite.Options{Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		return s
	},
	"Postgres": func(t *testing.T) database {
		s, err := postgres.Open(t.Context(), migrated.Postgres(t), postgres.Options{Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		return s
	},
}

// place is where versions are stored: put stores one, and runs load from it.
type place struct {
	*workflow.Owned
	put func(userID, workflowID, dag string)
}

// places are the stores that WORKFLOW_STORE names.
var places = map[string]func(t *testing.T, db database) place{
	"db": func(t *testing.T, db database) place {
		return place{workflow.NewOwned(workflow.Options{Versions: db, AccessStore: db, CacheBytes: 1 << 20}), putInto(t, db.PutWorkflow)}
	},
	"dir": func(t *testing.T, db database) place {
		path := t.TempDir()
		dir := workflow.NewDir(path)
		return place{
			workflow.NewOwned(workflow.Options{Versions: dir, AccessStore: db, CacheBytes: 1 << 20, Files: dir, FilesOnly: true}),
			func(userID, workflowID, dag string) {
				name, err := workflow.PathOf(userID, workflowID, 1)
				if err != nil {
					t.Fatal(err)
				}
				write(t, filepath.Join(path, name), dag)
			},
		}
	},
	"blob, put through the API": func(t *testing.T, db database) place {
		b := openBucket(t)
		return place{overBucket(b, db), putInto(t, func(ctx context.Context, w *schedule.WorkflowVersion) error {
			return errors.Join(db.PutWorkflow(ctx, w), b.PutDAG(ctx, w))
		})}
	},
	"blob, put into the bucket": func(t *testing.T, db database) place {
		b := openBucket(t)
		return place{overBucket(b, db), putInto(t, b.PutDAG)}
	},
	"blob, which the database is ahead of": func(t *testing.T, db database) place {
		return place{overBucket(openBucket(t), db), putInto(t, db.PutWorkflow)}
	},
}

func overBucket(b *bucket.Store, db database) *workflow.Owned {
	return workflow.NewOwned(workflow.Options{
		Versions: workflow.Fallback{First: b, Second: db}, AccessStore: db, CacheBytes: 1 << 20, Files: b, LacksFor: time.Minute,
	})
}

func openBucket(t *testing.T) *bucket.Store {
	t.Helper()
	b, err := bucket.Open(t.Context(), "file://"+t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	return b
}

func putInto(t *testing.T, put func(context.Context, *schedule.WorkflowVersion) error) func(userID, workflowID, dag string) {
	return func(userID, workflowID, dag string) {
		t.Helper()
		hash, err := schedule.CanonicalHash([]byte(dag))
		if err == nil {
			err = put(t.Context(), &schedule.WorkflowVersion{
				WorkflowID: workflowID, UserID: userID, Version: 1, DAG: json.RawMessage(dag), Hash: hash, CreatedAt: time.Now(),
			})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func share(t *testing.T, db database, workflowID, userID string) {
	t.Helper()
	if _, err := db.ShareWorkflow(t.Context(), schedule.WorkflowShare{WorkflowID: workflowID, UserID: userID, GivenAt: time.Now()}); err != nil {
		t.Fatal(err)
	}
}

func TestARunLoadsItsOwnersCodeWhereverItIsStored(t *testing.T) {
	for engine, open := range databases {
		for store, build := range places {
			t.Run(engine+", "+store, func(t *testing.T) {
				t.Parallel()
				db := open(t)
				p := build(t, db)
				for _, w := range []struct{ user, workflow, dag string }{
					{"mallory", "report", `{"by":"mallory"}`},
					{"ada", "own", `{"by":"ada"}`},
					{"mallory", "own", `{"by":"mallory"}`},
					{"", "own", `{"by":"all"}`},
					{"", "given", `{"by":"all"}`},
					{"mallory", "given", `{"by":"mallory"}`},
					{"", "open", `{"by":"all"}`},
				} {
					p.put(w.user, w.workflow, w.dag)
				}
				share(t, db, "given", "ada")
				share(t, db, "own", "ada")
				share(t, db, "report", "ada") // it is not stored for all owners
				share(t, db, "open", schedule.AllOwners)
				for _, c := range []struct{ name, user, workflow, want string }{
					{"another owner's code", "ada", "report", ""},
					{"its own before what it was given", "ada", "own", `{"by":"ada"}`},
					{"what it was given", "ada", "given", `{"by":"all"}`},
					{"what somebody else was given", "bob", "given", ""},
					{"its own under the name of what others were given", "mallory", "given", `{"by":"mallory"}`},
					{"what all owners were given", "bob", "open", `{"by":"all"}`},
					{"what there is not", "ada", "none", ""},
					{"what is stored for all, for a run that no owner has", "", "given", `{"by":"all"}`},
					{"another owner's, for a run that no owner has", "", "report", ""},
				} {
					for range 2 { // from the store and from memory
						dag, err := p.LoadDAG(t.Context(), c.user, c.workflow, 1)
						if string(dag) != c.want || errors.Is(err, schedule.ErrNotFound) != (c.want == "") {
							t.Errorf("%s: %q, %v; want %q", c.name, dag, err, c.want)
						}
					}
				}
				p.put("ada", "none", `{"by":"ada"}`)
				if dag, err := p.LoadDAG(t.Context(), "ada", "none", 1); string(dag) != `{"by":"ada"}` {
					t.Errorf("what was not found and is stored now: %q, %v", dag, err)
				}
			})
		}
	}
}

func TestWhatIsFoundOutOfAShareHoldsForAQuarterOfASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := memory.New(memory.Options{Clock: time.Now})
		put := putInto(t, db.PutWorkflow)
		o := workflow.NewOwned(workflow.Options{Versions: db, AccessStore: db, CacheBytes: 1 << 20})
		loads := func(want string) {
			t.Helper()
			dag, err := o.LoadDAG(t.Context(), "ada", "report", 1)
			if string(dag) != want || errors.Is(err, schedule.ErrNotFound) != (want == "") {
				t.Errorf("%q, %v; want %q", dag, err, want)
			}
		}
		put("", "report", `{"by":"all"}`)
		loads("")
		share(t, db, "report", "ada")
		loads(`{"by":"all"}`) // what was not found is not remembered
		if err := db.UnshareWorkflow(t.Context(), "report", "ada"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(200 * time.Millisecond)
		loads(`{"by":"all"}`) // which makes it no younger
		time.Sleep(50 * time.Millisecond)
		loads("")
		share(t, db, "report", "ada")
		loads(`{"by":"all"}`)
		put("ada", "report", `{"by":"ada"}`)
		time.Sleep(250 * time.Millisecond)
		loads(`{"by":"ada"}`)
		if err := db.UnshareWorkflow(t.Context(), "report", "ada"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		loads(`{"by":"ada"}`) // nobody can take an owner's own away
	})
}

// asked counts what a burst costs the database.
type asked struct {
	database
	accesses atomic.Int64
}

func (a *asked) WorkflowAccess(ctx context.Context, uses []schedule.WorkflowUse) ([]schedule.WorkflowAccess, error) {
	a.accesses.Add(1)
	return a.database.WorkflowAccess(ctx, uses)
}

func TestABurstOfRunsCostsNoQueryEach(t *testing.T) {
	const runs = 10_000
	for name, owner := range map[string]func(i int) string{
		"of one owner":   func(int) string { return "ada" },
		"of many owners": func(i int) string { return fmt.Sprint("owner-", i) },
	} {
		t.Run(name, func(t *testing.T) {
			db := &asked{database: databases["SQLite"](t)}
			o := workflow.NewOwned(workflow.Options{Versions: db, AccessStore: db, CacheBytes: 1 << 20})
			putInto(t, db.PutWorkflow)("", "report", `{"by":"all"}`)
			share(t, db, "report", schedule.AllOwners)
			var wg sync.WaitGroup
			for i := range runs {
				wg.Go(func() {
					if dag, err := o.LoadDAG(t.Context(), owner(i), "report", 1); err != nil || string(dag) != `{"by":"all"}` {
						t.Errorf("%q, %v", dag, err)
					}
				})
			}
			wg.Wait()
			if n := db.accesses.Load(); n > runs/10 {
				t.Errorf("%d runs cost %d queries", runs, n)
			}
			t.Logf("%d runs cost %d queries", runs, db.accesses.Load())
		})
	}
}
