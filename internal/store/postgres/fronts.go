package postgres

import (
	"cmp"
	"context"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

// Runs leave the indexes of what waits, is in flight or is due at their fronts. While any
// transaction of the database cluster stays open, such as that of a backup, Postgres cannot
// remove the entries of runs that have ended since it began, and a read from the front passes
// all of them: after minutes, hundreds of thousands. fronts remembers where the live entries
// begin.
//
// A number of an admission is never wrong (see queueFront.admission). The others are hints: a
// run that other processes have put before them is found by the next read from the front. So
// they are only remembered while such reads are slow.
const (
	// slowRead and slowRow: a read from the front that takes longer, twice in a row, is slow.
	slowRead = 5 * time.Millisecond
	slowRow  = 40 * time.Microsecond
	// readAgain is the least time between two slow reads from the front, and they may take this
	// share of the time.
	readAgain      = time.Second
	readAgainShare = 20
	// maxFronts bounds the priorities of a queue that are remembered; with more, each read is
	// from the front.
	maxFronts = 64
	// dueEarlier is how long before the last sweep a run may have become due without its notice:
	// clocks differ, and a transaction takes time.
	dueEarlier = time.Second
	// dueSoon is how far ahead a sweep then looks; the next one is a second later at most.
	dueSoon = time.Second
)

// fronts are those that this process knows.
type fronts struct {
	mu      sync.Mutex
	queues  map[int32]*queueFront
	due     slowness // of sweeps of queues
	dueFrom time.Time
	slower  time.Duration // for tests
}

// slowness says whether reads from a front are slow.
type slowness struct {
	slow   int       // slow reads in a row
	fullAt time.Time // from when on the next one is allowed
}

// note notes a read of rows from the front, and reports whether the front is to be remembered.
func (s *slowness) note(took time.Duration, rows int) bool {
	if took <= slowRead+time.Duration(rows)*slowRow {
		*s = slowness{}
		return false
	}
	s.slow++
	s.fullAt = time.Now().Add(max(readAgain, readAgainShare*took))
	return s.known()
}

func (s *slowness) known() bool { return s.slow > 1 }

// skips reports whether the next read begins at what is remembered.
func (s *slowness) skips() bool { return s.known() && time.Now().Before(s.fullAt) }

type queueFront struct {
	slowness
	// admission: each run of the queue in flight has at least this number. It was read under the
	// lock of the queue, and later admissions draw greater ones.
	admission int64
	waiting   []waitingFront // by priority
}

// waitingFront is the place of a priority before which no run waited.
type waitingFront struct {
	priority       int32
	fair, position int64
}

func frontOf(r *schedule.Run) waitingFront {
	return waitingFront{r.Queue.Priority, r.Queue.FairOrder, r.Queue.Position}
}

func (w waitingFront) before(o waitingFront) bool {
	return cmp.Or(cmp.Compare(w.fair, o.fair), cmp.Compare(w.position, o.position)) < 0
}

func (f *fronts) queue(no int32) *queueFront {
	if f.queues == nil {
		f.queues = make(map[int32]*queueFront)
	}
	if f.queues[no] == nil {
		f.queues[no] = &queueFront{}
	}
	return f.queues[no]
}

// admission is a number that no run of the queue in flight is below.
func (f *fronts) admission(queueNo int32) int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.queue(queueNo).admission
}

// admitting notes what a visit has read under the lock of the queue.
func (f *fronts) admitting(queueNo int32, first int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.queue(queueNo).admission = first
}

// waiting is where to look for the waiting runs of a queue; false: from the front.
func (f *fronts) waiting(queueNo int32) ([]waitingFront, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	q := f.queue(queueNo)
	return slices.Clone(q.waiting), q.skips()
}

// readWaiting notes a read from the front of a queue.
func (f *fronts) readWaiting(queueNo int32, took time.Duration, rows []*openRow) {
	f.mu.Lock()
	defer f.mu.Unlock()
	q := f.queue(queueNo)
	if !q.note(took+f.slower, len(rows)) {
		q.waiting = nil
		return
	}
	for _, r := range rows {
		q.set(frontOf(&r.Run), func(waitingFront) bool { return true })
	}
}

// set sets the front of a priority, if there is none or replace says so.
func (q *queueFront) set(w waitingFront, replace func(known waitingFront) bool) {
	at, known := slices.BinarySearchFunc(q.waiting, w.priority, func(w waitingFront, p int32) int { return cmp.Compare(w.priority, p) })
	switch {
	case !known && len(q.waiting) == maxFronts:
		q.waiting, q.slowness = nil, slowness{}
	case !known:
		q.waiting = slices.Insert(q.waiting, at, w)
	case replace(q.waiting[at]):
		q.waiting[at] = w
	}
}

// admitted moves the fronts of a queue behind the runs that have left it, of those that were
// read in its order.
func (f *fronts) admitted(queueNo int32, rows []*openRow, out *ledger.Dispatched) {
	left := make(map[schedule.Key]bool, len(out.Dispatches)+len(out.Ended))
	for i := range out.Dispatches {
		left[out.Dispatches[i].Run.Key] = true
	}
	for i := range out.Ended {
		left[out.Ended[i].Key] = true
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	q := f.queue(queueNo)
	if !q.known() {
		return
	}
	stays := make(map[int32]bool) // priorities
	for _, r := range rows {
		if w := frontOf(&r.Run); !stays[w.priority] {
			q.set(w, func(known waitingFront) bool { return known.before(w) })
			stays[w.priority] = !left[r.Key]
		}
	}
}

// placed notes that a run waits at its place, if it does.
func (f *fronts) placed(r *schedule.Run) {
	if !r.Queue.In() || r.Queue.State != schedule.QueueWaiting {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if q := f.queues[r.Queue.No]; q != nil && q.known() {
		w := frontOf(r)
		at := slices.IndexFunc(q.waiting, func(o waitingFront) bool { return o.priority == w.priority })
		if at >= 0 && w.before(q.waiting[at]) {
			q.waiting[at] = w
		}
	}
}

// skipped are the queues that are not read from the front now.
func (f *fronts) skipped() (queues []int32) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for no, q := range f.queues {
		if q.skips() {
			queues = append(queues, no)
		}
	}
	return queues
}

// dueBetween is from when and until when a sweep looks for runs that are due, or will be.
func (f *fronts) dueBetween(now time.Time) (from, until pgtype.Timestamptz) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.due.skips() {
		return pgtype.Timestamptz{InfinityModifier: pgtype.NegativeInfinity, Valid: true}, pgtype.Timestamptz{InfinityModifier: pgtype.Infinity, Valid: true}
	}
	return noneOrTime(f.dueFrom), noneOrTime(now.Add(dueSoon))
}

// sweptDue notes that a sweep has found all runs that were due at an instant.
func (f *fronts) sweptDue(at time.Time, took time.Duration, rows int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.due.skips() {
		f.due.note(took, rows)
	}
	f.dueFrom = at.Add(-dueEarlier)
}

var (
	// sqlLockWaiting reads from the front, the others from what is remembered.
	sqlLockWaiting        = lockWaiting + `true` + inQueueOrder
	sqlLockWaitingBetween = lockWaiting + `o.effective_priority > $3 AND o.effective_priority < $4` + inQueueOrder
	sqlLockWaitingFrom    = lockWaiting + `o.effective_priority = $3 AND (o.fair_order, o.position_key) >= ($4, $5)` + inQueueOrder

	lockWaiting = lockOpenRuns + `o.queue_no = $1 AND o.queue_state = 2 AND `
)

const inQueueOrder = `
ORDER BY o.effective_priority, o.fair_order, o.position_key, o.idempotency_key LIMIT $2 FOR UPDATE OF o`

// QueuesWaiting returns the queues in which runs wait for their admission. Of queues that are not
// read from the front it takes it for granted.
func (s *Store) QueuesWaiting(ctx context.Context) ([]schedule.QueueNow, error) {
	return s.QueuesWaitingBut(ctx, s.fronts.skipped())
}

// lockFirst locks the first runs that wait in a queue, in its order.
func (s *Store) lockFirst(ctx context.Context, tx pgx.Tx, queueNo int32, room int) ([]*openRow, error) {
	known, skips := s.fronts.waiting(queueNo)
	if !skips {
		began := time.Now()
		rows, err := lockOpen(ctx, tx, sqlLockWaiting, queueNo, room)
		if err == nil {
			s.fronts.readWaiting(queueNo, time.Since(began), rows)
		}
		return rows, err
	}
	var rows []*openRow
	lock := func(statement string, args ...any) error {
		if len(rows) == room {
			return nil
		}
		more, err := lockOpen(ctx, tx, statement, append([]any{queueNo, room - len(rows)}, args...)...)
		rows = append(rows, more...)
		return err
	}
	above := int32(math.MinInt32)
	for _, w := range known {
		if err := lock(sqlLockWaitingBetween, above, w.priority); err != nil {
			return nil, err
		}
		if err := lock(sqlLockWaitingFrom, w.priority, w.fair, w.position); err != nil {
			return nil, err
		}
		above = w.priority
	}
	return rows, lock(sqlLockWaitingBetween, above, int32(math.MaxInt32))
}
