// Package workflow is where the launcher loads DAGs from besides the database:
// a folder, or nowhere (a bucket is a package of its own below); and a cache in
// front of any of them.
package workflow

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"sync"

	"github.com/carillon/carillon/internal/schedule"
)

// Store gives the DAG JSON of a workflow version, as it was sent;
// schedule.ErrNotFound when it does not hold it, a *schedule.InvalidError when
// what it holds is no DAG.
type Store interface {
	LoadDAG(ctx context.Context, workflowID string, version int32) ([]byte, error)
}

// None holds nothing: executors get no DAG.
type None struct{}

// LoadDAG answers nothing, and that is no error.
func (None) LoadDAG(context.Context, string, int32) ([]byte, error) { return nil, nil }

// Dir is a folder with one file for each version: WORKFLOW_ID/VERSION.json.
// Like any store it must never change a version that it holds.
type Dir struct{ path string }

// NewDir makes the store of a folder.
func NewDir(path string) Dir { return Dir{path: path} }

// LoadDAG reads the version's file.
func (d Dir) LoadDAG(_ context.Context, workflowID string, version int32) ([]byte, error) {
	if !schedule.ValidID(workflowID) || workflowID == "." || workflowID == ".." {
		return nil, schedule.Explain(schedule.ErrNotFound, "%s is not a workflow id", schedule.Quote(workflowID))
	}
	root, err := os.OpenRoot(d.path) // links must not lead out of it
	if err != nil {
		return nil, fmt.Errorf("open workflow folder: %w", err)
	}
	defer root.Close()
	name := workflowID + "/" + strconv.Itoa(int(version)) + ".json"
	file, err := root.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, schedule.Explain(schedule.ErrNotFound, "there is no %s in the workflow folder", name)
	}
	if err != nil {
		return nil, fmt.Errorf("open workflow %s: %w", name, err)
	}
	defer file.Close()
	dag, err := io.ReadAll(io.LimitReader(file, schedule.MaxDAGBytes+1))
	if err != nil {
		return nil, fmt.Errorf("read workflow %s: %w", name, err)
	}
	return Checked(name, dag)
}

// Cached keeps the versions that were asked for last. Versions never change,
// so nothing in it grows old; what was not found is not kept, since it may
// come.
type Cached struct {
	store Store
	limit int

	mu    sync.Mutex
	bytes int
	order *list.List // of *entry, newest first
	byKey map[entryKey]*list.Element
}

type entryKey struct {
	workflowID string
	version    int32
}

type entry struct {
	key entryKey
	dag []byte
}

// NewCached keeps up to limit bytes of what store gives.
func NewCached(store Store, limit int) *Cached {
	return &Cached{store: store, limit: limit, order: list.New(), byKey: make(map[entryKey]*list.Element)}
}

// LoadDAG answers from memory or loads. Callers must not change the bytes.
func (c *Cached) LoadDAG(ctx context.Context, workflowID string, version int32) ([]byte, error) {
	key := entryKey{workflowID, version}
	if dag, ok := c.get(key); ok {
		return dag, nil
	}
	dag, err := c.store.LoadDAG(ctx, workflowID, version)
	if err != nil {
		return nil, err
	}
	c.put(key, dag)
	return dag, nil
}

func (c *Cached) get(key entryKey) ([]byte, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.byKey[key]
	if !ok {
		return nil, false
	}
	c.order.MoveToFront(e)
	return e.Value.(*entry).dag, true
}

func (c *Cached) put(key entryKey, dag []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.byKey[key]; ok {
		return // another call was faster
	}
	c.byKey[key] = c.order.PushFront(&entry{key, dag})
	c.bytes += len(dag)
	for c.bytes > c.limit && c.order.Len() > 0 {
		oldest := c.order.Back()
		e := c.order.Remove(oldest).(*entry)
		delete(c.byKey, e.key)
		c.bytes -= len(e.dag)
	}
}
