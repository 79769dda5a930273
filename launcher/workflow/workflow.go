// Package workflow holds the sources of DAGs for the launcher: the database, a folder, or
// none (package bucket is another). Owned selects the version of the right owner; Cached
// is a cache.
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

// Versions returns the DAG JSON of a workflow version, byte for byte, that is stored for
// exactly this owner, or with userID "" for all owners. A missing one is
// schedule.ErrNotFound, one that is no DAG a *schedule.InvalidError. It does not check who
// may run it: see Owned.
type Versions interface {
	LoadDAG(ctx context.Context, userID, workflowID string, version int32) ([]byte, error)
}

// None holds nothing: executors get no DAG.
type None struct{}

// LoadDAG answers nothing, and that is no error.
func (None) LoadDAG(context.Context, string, string, int32) ([]byte, error) { return nil, nil }

// PathOf is the path of a version below a folder or bucket:
// WORKFLOW_ID/VERSION.json for all owners, and below owners/USER_ID for one. An
// id that could lead elsewhere is schedule.ErrNotFound.
func PathOf(userID, workflowID string, version int32) (string, error) {
	folder, ok := schedule.OwnerPath(userID)
	if !ok {
		return "", schedule.Explain(schedule.ErrNotFound, "%s cannot name an owner's folder", schedule.Quote(userID))
	}
	if !schedule.ValidID(workflowID) || workflowID == "." || workflowID == ".." || workflowID == schedule.OwnersFolder {
		return "", schedule.Explain(schedule.ErrNotFound, "%s cannot name a workflow's folder", schedule.Quote(workflowID))
	}
	name := workflowID + "/" + strconv.Itoa(int(version)) + ".json"
	if folder != "" {
		name = folder + "/" + name
	}
	return name, nil
}

// Dir is a folder with one file for each version; see PathOf. As in any store, a version
// must never change.
type Dir struct{ path string }

// NewDir makes the store of a folder.
func NewDir(path string) Dir { return Dir{path: path} }

// LoadDAG reads the version's file.
func (d Dir) LoadDAG(_ context.Context, userID, workflowID string, version int32) ([]byte, error) {
	name, err := PathOf(userID, workflowID, version)
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(d.path) // links must not lead out of it
	if err != nil {
		return nil, fmt.Errorf("open workflow folder: %w", err)
	}
	defer root.Close()
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

// HoldsDAG reports whether the version's file exists.
func (d Dir) HoldsDAG(_ context.Context, userID, workflowID string, version int32) (bool, error) {
	name, err := PathOf(userID, workflowID, version)
	if err != nil {
		return false, nil
	}
	root, err := os.OpenRoot(d.path)
	if err != nil {
		return false, fmt.Errorf("open workflow folder: %w", err)
	}
	defer root.Close()
	_, err = root.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look for workflow %s: %w", name, err)
	}
	return true, nil
}

// Cached keeps the versions that were used last. Versions never change, so its entries
// never go stale. Missing versions are not cached, because they may be stored later.
type Cached struct {
	store Versions
	limit int

	mu    sync.Mutex
	bytes int
	order *list.List // of *entry, newest first
	byKey map[schedule.WorkflowUse]*list.Element
}

type entry struct {
	key schedule.WorkflowUse // UserID is whom the version is stored for, not who runs it
	dag []byte
}

// NewCached makes a cache of up to limit bytes in front of store.
func NewCached(store Versions, limit int) *Cached {
	return &Cached{store: store, limit: limit, order: list.New(), byKey: make(map[schedule.WorkflowUse]*list.Element)}
}

// LoadDAG answers from memory or loads. Callers must not change the bytes.
func (c *Cached) LoadDAG(ctx context.Context, userID, workflowID string, version int32) ([]byte, error) {
	key := schedule.WorkflowUse{UserID: userID, WorkflowID: workflowID, Version: version}
	if dag, ok := c.get(key); ok {
		return dag, nil
	}
	dag, err := c.store.LoadDAG(ctx, userID, workflowID, version)
	if err != nil {
		return nil, err
	}
	c.put(key, dag)
	return dag, nil
}

func (c *Cached) get(key schedule.WorkflowUse) ([]byte, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.byKey[key]
	if !ok {
		return nil, false
	}
	c.order.MoveToFront(e)
	return e.Value.(*entry).dag, true
}

func (c *Cached) put(key schedule.WorkflowUse, dag []byte) {
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
