package workflow

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/carillon/carillon/internal/batch"
	"github.com/carillon/carillon/internal/schedule"
)

// Standings say what the database stores of the versions that runs name, in the
// order of the uses.
type Standings interface {
	WorkflowStandings(ctx context.Context, uses []schedule.WorkflowUse) ([]schedule.WorkflowStanding, error)
}

// Holder says whether a version is stored for exactly this owner.
type Holder interface {
	HoldsDAG(ctx context.Context, userID, workflowID string, version int32) (bool, error)
}

// Options are the parts of Owned.
type Options struct {
	Versions   Versions
	Standings  Standings
	CacheBytes int // of DAGs, kept in memory
	// Files holds versions outside the database; nil: there are none.
	Files Holder
	// FilesOnly says that what the database stores is not loaded.
	FilesOnly bool
	// LacksFor is how long Files is not asked again for an owner's own version that
	// it did not hold. Versions that the database stores are found at once anyway.
	LacksFor time.Duration
}

// Limits of what is remembered.
const (
	// givenFor: a run is sent up to 0.75 s after it has loaded, so that a share that
	// was taken back is of no use after a second.
	givenFor      = 250 * time.Millisecond
	maxRemembered = 100_000
	maxStandings  = 1000 // uses in one query
	standingsTime = 5 * time.Second
)

// Owned loads for a run what its owner may execute: schedule.WorkflowUse.LoadsFrom is the
// rule, for every store.
type Owned struct {
	o         Options
	dags      *Cached
	standings *batch.Batcher[schedule.WorkflowUse, schedule.WorkflowStanding]
	given     memory // uses that load what is stored for all owners
	lacking   memory // uses of which Files holds no version of the owner's own
}

// NewOwned makes an Owned of its parts.
func NewOwned(o Options) *Owned {
	return &Owned{
		o: o, dags: NewCached(o.Versions, o.CacheBytes), given: memory{life: givenFor}, lacking: memory{life: o.LacksFor},
		standings: batch.New(maxStandings, func(ctx context.Context, uses []schedule.WorkflowUse) ([]schedule.WorkflowStanding, error) {
			ctx, cancel := context.WithTimeout(ctx, standingsTime)
			defer cancel()
			return o.Standings.WorkflowStandings(ctx, uses)
		}),
	}
}

// LoadDAG is the DAG that a run of the owner executes; schedule.ErrNotFound
// where there is none that it may. Callers must not change the bytes.
func (s *Owned) LoadDAG(ctx context.Context, userID, workflowID string, version int32) ([]byte, error) {
	use := schedule.WorkflowUse{UserID: userID, WorkflowID: workflowID, Version: version}
	if dag, ok := s.dags.get(use); ok { // the owner's own, which nothing can take away or replace
		return dag, nil
	}
	asked := time.Now()
	if s.given.has(use, asked) {
		return s.dags.LoadDAG(ctx, "", workflowID, version)
	}
	standing, lacking, err := s.standing(ctx, use, asked)
	if err != nil {
		return nil, err
	}
	from, ok := use.LoadsFrom(standing)
	if !ok {
		return nil, schedule.Explain(schedule.ErrNotFound, "there is no version %d of workflow %s", version, schedule.Quote(workflowID))
	}
	dag, err := s.dags.LoadDAG(ctx, from, workflowID, version)
	if from == userID {
		return dag, err
	}
	if err == nil { // else an own version may come any moment, and must be found
		s.given.put(use, asked)
		if lacking {
			s.lacking.put(use, asked)
		}
	}
	return dag, err
}

// standing puts together what the database and the files say. lacking: the files
// were asked, and hold no version of the owner's own.
func (s *Owned) standing(ctx context.Context, use schedule.WorkflowUse, now time.Time) (standing schedule.WorkflowStanding, lacking bool, err error) {
	if use.UserID == "" {
		return standing, false, nil
	}
	standing, err = s.standings.DoUntil(ctx, use)
	if err != nil {
		return standing, false, err
	}
	standing.Own = standing.Own && !s.o.FilesOnly
	if standing.Own || s.o.Files == nil || s.lacking.has(use, now) {
		return standing, false, nil
	}
	standing.Own, err = s.o.Files.HoldsDAG(ctx, use.UserID, use.WorkflowID, use.Version)
	return standing, err == nil && !standing.Own, err
}

// memory holds what was found out of uses, for a short time.
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

// Latest is the newest version that a run of the owner may execute; versions
// are what a store holds for one owner.
func Latest(ctx context.Context, userID, workflowID string, shares Standings, newest func(ctx context.Context, userID, workflowID string) (int32, error)) (int32, error) {
	own, err := newest(ctx, userID, workflowID)
	if err != nil && !errors.Is(err, schedule.ErrNotFound) || userID == "" {
		return own, err
	}
	use := schedule.WorkflowUse{UserID: userID, WorkflowID: workflowID}
	standing, err := shares.WorkflowStandings(ctx, []schedule.WorkflowUse{use})
	if err != nil {
		return 0, err
	}
	if from, ok := use.LoadsFrom(standing[0]); ok && from == "" {
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
