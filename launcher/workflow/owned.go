package workflow

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/carillon/carillon/internal/batch"
	"github.com/carillon/carillon/internal/schedule"
)

// AccessStore returns, for each use, which versions the database stores.
type AccessStore interface {
	WorkflowAccess(ctx context.Context, uses []schedule.WorkflowUse) ([]schedule.WorkflowAccess, error)
}

// Holder reports whether a version is stored for exactly this owner.
type Holder interface {
	HoldsDAG(ctx context.Context, userID, workflowID string, version int32) (bool, error)
}

// Options are the parts of Owned.
type Options struct {
	Versions    Versions
	AccessStore AccessStore
	CacheBytes  int // of DAGs, kept in memory
	// Files holds versions outside the database; nil: there are none.
	Files Holder
	// FilesOnly: versions in the database are not loaded.
	FilesOnly bool
	// LacksFor is how long a missing version of an owner is not looked up in Files again.
	// Versions in the database are found at once anyway.
	LacksFor time.Duration
}

// Limits of the caches.
const (
	// givenFor: a run is sent up to 0.75 s after its DAG was loaded, so a share that was
	// taken back has no effect after a second.
	givenFor      = 250 * time.Millisecond
	maxRemembered = 100_000
	maxUses       = 1000 // uses in one query
	standingsTime = 5 * time.Second
)

// Owned loads the version that a run's owner may execute, from any store. The rule is
// schedule.WorkflowUse.LoadsFrom.
type Owned struct {
	o        Options
	dags     *Cached
	accesses *batch.Batcher[schedule.WorkflowUse, schedule.WorkflowAccess]
	given    memory // uses that load a version for all owners
	lacking  memory // uses without a version of the owner in Files
}

// NewOwned makes an Owned of its parts.
func NewOwned(o Options) *Owned {
	return &Owned{
		o: o, dags: NewCached(o.Versions, o.CacheBytes), given: memory{life: givenFor}, lacking: memory{life: o.LacksFor},
		accesses: batch.New(maxUses, func(ctx context.Context, uses []schedule.WorkflowUse) ([]schedule.WorkflowAccess, error) {
			ctx, cancel := context.WithTimeout(ctx, standingsTime)
			defer cancel()
			return o.AccessStore.WorkflowAccess(ctx, uses)
		}),
	}
}

// LoadDAG returns the DAG that a run of the owner executes, or schedule.ErrNotFound.
// Callers must not change the bytes.
func (s *Owned) LoadDAG(ctx context.Context, userID, workflowID string, version int32) ([]byte, error) {
	use := schedule.WorkflowUse{UserID: userID, WorkflowID: workflowID, Version: version}
	if dag, ok := s.dags.get(use); ok { // the owner's own, which nothing can take away or replace
		return dag, nil
	}
	asked := time.Now()
	if s.given.has(use, asked) {
		return s.dags.LoadDAG(ctx, "", workflowID, version)
	}
	access, lacking, err := s.access(ctx, use, asked)
	if err != nil {
		return nil, err
	}
	from, ok := use.LoadsFrom(access)
	if !ok {
		return nil, schedule.Explain(schedule.ErrNotFound, "there is no version %d of workflow %s", version, schedule.Quote(workflowID))
	}
	dag, err := s.dags.LoadDAG(ctx, from, workflowID, version)
	if from == userID {
		return dag, err
	}
	if err == nil { // an own version may be stored later and must be found
		s.given.put(use, asked)
		if lacking {
			s.lacking.put(use, asked)
		}
	}
	return dag, err
}

// access combines the answers of database and files. lacking: the files hold no
// version of the owner.
func (s *Owned) access(ctx context.Context, use schedule.WorkflowUse, now time.Time) (access schedule.WorkflowAccess, lacking bool, err error) {
	if use.UserID == "" {
		return access, false, nil
	}
	access, err = s.accesses.DoUntil(ctx, use)
	if err != nil {
		return access, false, err
	}
	access.Own = access.Own && !s.o.FilesOnly
	if access.Own || s.o.Files == nil || s.lacking.has(use, now) {
		return access, false, nil
	}
	access.Own, err = s.o.Files.HoldsDAG(ctx, use.UserID, use.WorkflowID, use.Version)
	return access, err == nil && !access.Own, err
}

// memory remembers uses for a short time.
type memory struct {
	life time.Duration

	mu sync.Mutex
	at map[schedule.WorkflowUse]time.Time
}

func (m *memory) has(use schedule.WorkflowUse, now time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	at, there := m.at[use]
	return there && now.Sub(at) < m.life
}

func (m *memory) put(use schedule.WorkflowUse, at time.Time) {
	if m.life == 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.at == nil || len(m.at) >= maxRemembered { // asking again is cheaper than keeping order
		m.at = make(map[schedule.WorkflowUse]time.Time)
	}
	m.at[use] = at
}

// Latest returns the newest version that a run of the owner may execute. newest returns
// the newest version that a store holds for one owner.
func Latest(ctx context.Context, userID, workflowID string, shares AccessStore, newest func(ctx context.Context, userID, workflowID string) (int32, error)) (int32, error) {
	own, err := newest(ctx, userID, workflowID)
	if err != nil && !errors.Is(err, schedule.ErrNotFound) || userID == "" {
		return own, err
	}
	use := schedule.WorkflowUse{UserID: userID, WorkflowID: workflowID}
	access, err := shares.WorkflowAccess(ctx, []schedule.WorkflowUse{use})
	if err != nil {
		return 0, err
	}
	if from, ok := use.LoadsFrom(access[0]); ok && from == "" {
		forAll, err := newest(ctx, "", workflowID)
		if err != nil && !errors.Is(err, schedule.ErrNotFound) {
			return 0, err
		}
		own = max(own, forAll)
	}
	if own == 0 {
		return 0, schedule.Explain(schedule.ErrNotFound, "there is no version of workflow %s", schedule.Quote(workflowID))
	}
	return own, nil
}
