package peers

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/carillon/carillon/internal/test/bench/database"
	"github.com/carillon/carillon/internal/test/bench/proc"
	"github.com/carillon/carillon/internal/test/bench/record"
)

// Peer is another scheduler, seen from the harness.
type Peer struct {
	db        *database.Database // nil: it keeps nothing
	scheduler *proc.Child
	null      *proc.Child // nil: the handler is the executor

	// What its tables say of the work: how many slots are done, and when the
	// last was; and by a query over its instants, how many stand how.
	settled func(context.Context, *pgxpool.Pool, record.Work) (int, time.Time, error)
	ends    string
}

// NewRiver starts River on a fresh database; withLauncher has its handler call a
// null launcher in another process.
func NewRiver(ctx context.Context, serverURL, name string, o RiverOptions, withLauncher bool) (p *Peer, err error) {
	p = &Peer{settled: riverSettled, ends: riverEnds}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.Close())
		}
	}()
	if p.db, err = database.Create(ctx, serverURL, name); err != nil {
		return p, err
	}
	if o.Watch {
		if err := p.db.Watch(ctx); err != nil {
			return p, err
		}
	}
	o.DatabaseURL = p.db.URL
	if withLauncher {
		if p.null, err = proc.Start(KindNull, KindNull, nil); err != nil {
			return p, err
		}
		if err := p.null.Call("Part.Where", proc.None{}, &o.LauncherAddr); err != nil {
			return p, err
		}
	}
	if p.scheduler, err = proc.Start(KindRiver, KindRiver, nil); err != nil {
		return p, err
	}
	return p, p.scheduler.Call("Part.Start", o, &proc.None{})
}

// NewRobfig starts robfig/cron.
func NewRobfig() (p *Peer, err error) {
	p = &Peer{}
	p.scheduler, err = proc.Start(KindRobfig, KindRobfig, nil)
	return p, err
}

// LoadRate is how many slots a second are loaded at the least.
func (p *Peer) LoadRate() int { return 20_000 }

// Tail is none: what is inserted ahead is inserted before the stream, and
// periodic slots are inserted when they are due.
func (p *Peer) Tail() time.Duration { return 0 }

// Warm has the queue work n jobs of another kind, and the database take note.
func (p *Peer) Warm(ctx context.Context, n int) error {
	if p.db == nil {
		return nil
	}
	if err := p.scheduler.Call("Part.Warm", n, &proc.None{}); err != nil {
		return err
	}
	return p.db.Rest(ctx)
}

// Sleep gives the scheduler n slots that are not due for hours.
func (p *Peer) Sleep(ctx context.Context, n int) error {
	return p.Load(ctx, record.Work{N: n, Rounds: 1, First: time.Now().Add(12 * time.Hour).Truncate(time.Second)})
}

// Load has the scheduler know its slots.
func (p *Peer) Load(ctx context.Context, work record.Work) error {
	if err := p.scheduler.Call("Part.Load", work, &proc.None{}); err != nil || p.db == nil {
		return err
	}
	return p.db.Rest(ctx)
}

// Pause stops the workers. How many there are is of the peer's own tuning.
func (p *Peer) Pause(context.Context, int) error {
	return p.scheduler.Call("Part.Pause", proc.None{}, &proc.None{})
}

// Enqueue inserts n jobs that are due at once.
func (p *Peer) Enqueue(_ context.Context, n int) error {
	return p.scheduler.Call("Part.Enqueue", n, &proc.None{})
}

// Resume starts the workers.
func (p *Peer) Resume(context.Context) error {
	return p.scheduler.Call("Part.Resume", proc.None{}, &proc.None{})
}

// Place of the job of a call in the order of entry.
func (p *Peer) Place(c record.Call) int { return int(c.Slot >> 32) }

// executor is the child that has the record.
func (p *Peer) executor() *proc.Child {
	if p.null != nil {
		return p.null
	}
	return p.scheduler
}

// Called says how often the executor was called so far.
func (p *Peer) Called() (n int, err error) {
	err = p.executor().Call("Part.Called", proc.None{}, &n)
	return n, err
}

// Calls is what the executor has seen.
func (p *Peer) Calls() ([]record.Call, error) {
	var packed []byte
	if err := p.executor().Call("Part.Calls", proc.None{}, &packed); err != nil {
		return nil, err
	}
	return record.Decode(packed)
}

// Planned returns the slots that are durable ahead of their instant; peers return none.
func (p *Peer) Planned(context.Context, record.Work) (int, error) { return 0, nil }

const (
	riverCompleted = `SELECT count(*), coalesce(max(finalized_at), to_timestamp(0)) FROM river_job
		WHERE kind = 'slot' AND scheduled_at >= $1 AND scheduled_at <= $2 AND state = 'completed'`
	riverEnds = `SELECT state::text, count(*) FROM river_job
		WHERE kind = 'slot' AND scheduled_at >= $1 AND scheduled_at <= $2 GROUP BY 1`
)

func riverSettled(ctx context.Context, pool *pgxpool.Pool, work record.Work) (n int, last time.Time, err error) {
	err = pool.QueryRow(ctx, riverCompleted, work.First, work.Last()).Scan(&n, &last)
	return n, last, err
}

// Settled counts the slots whose success is durable, and says when the last was
// written. What keeps nothing has nothing to settle.
func (p *Peer) Settled(ctx context.Context, work record.Work) (n int, last time.Time, err error) {
	if p.db == nil {
		n, err := p.Called()
		return n, time.Time{}, err
	}
	return p.settled(ctx, p.db.Pool, work)
}

// Ends counts the jobs of the work by their state.
func (p *Peer) Ends(ctx context.Context, work record.Work) (map[string]int, error) {
	out := make(map[string]int)
	if p.db == nil {
		return out, nil
	}
	rows, err := p.db.Pool.Query(ctx, p.ends, work.First, work.Last())
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var state string
		var n int
		if err := rows.Scan(&state, &n); err != nil {
			return nil, err
		}
		out[state] = n
	}
	return out, rows.Err()
}

// Scheduler are the processes that schedule and launch.
func (p *Peer) Scheduler() []*proc.Child {
	if p.null != nil {
		return []*proc.Child{p.scheduler, p.null}
	}
	return []*proc.Child{p.scheduler}
}

// Database is the database; nil where nothing is kept.
func (p *Peer) Database() *database.Database { return p.db }

// Close ends the processes and drops the database.
func (p *Peer) Close() error {
	err := errors.Join(p.scheduler.Stop(), p.null.Stop())
	if p.db != nil {
		err = errors.Join(err, p.db.Close())
	}
	return err
}
