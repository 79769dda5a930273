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
	// lastAgain is how far apart they are at most.
	lastAgain = 10 * time.Second
	// settled is the time after which a place is behind all entries that drew a lower one: their
	// transactions are over.
	settled = time.Second
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

	slower, sweepsSlower time.Duration // for tests
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
	s.fullAt = time.Now().Add(min(max(readAgain, readAgainShare*took), lastAgain))
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

// waitingFront is the position before which no run of a priority waited. A later one takes its
// place once it is settled.
type waitingFront struct {
	priority        int32
	position, later int64
	laterSince      time.Time // zero: none
}

// lower notes that a run waits at a position.
func (w *waitingFront) lower(position int64) {
	if w.position > position || !w.laterSince.IsZero() && w.later > position {
		w.position, w.laterSince = min(w.position, position), time.Time{}
	}
}

// move notes that no run waits before a position.
func (w *waitingFront) move(position int64, now time.Time, after time.Duration) {
	if !w.laterSince.IsZero() && now.Sub(w.laterSince) >= after {
		w.position, w.laterSince = w.later, time.Time{}
	}
	if w.laterSince.IsZero() && position > w.position {
		w.later, w.laterSince = position, now
	}
}

func (f *fronts) settled() time.Duration {
	if f.slower > 0 {
		return 0
	}
	return settled
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

// admission is a number that no run of the queue in flight is below. A visit has a greater one,
// unless the database has lost its newest transactions.
func (f *fronts) admission(queueNo int32, visit int64) int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	q := f.queue(queueNo)
	if visit <= q.admission {
		q.admission = 0
	}
	return q.admission
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
func (f *fronts) readWaiting(queueNo int32, took time.Duration, rows []*openRow, room int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	q := f.queue(queueNo)
	if !q.note(took+f.slower, len(rows)) {
		q.waiting = nil
		return
	}
	if len(rows) == room {
		// Of priorities behind the last row nothing was read.
		q.waiting = slices.DeleteFunc(q.waiting, func(w waitingFront) bool { return w.priority > rows[room-1].Queue.Priority })
	}
	first := make(map[int32]bool)
	for _, r := range rows {
		if r.Queue.FairOrder != 0 { // keys that are new enter anywhere
			q.forget()
			return
		}
		if w := q.of(r.Queue.Priority); w != nil && !first[w.priority] {
			first[w.priority] = true
			w.lower(r.Queue.Position)
			w.move(r.Queue.Position, time.Now(), f.settled())
		}
	}
}

func (q *queueFront) forget() { q.waiting, q.slowness = nil, slowness{} }

// of is the front of a priority, which is added. nil: there are too many, and all are forgotten.
func (q *queueFront) of(priority int32) *waitingFront {
	at, known := slices.BinarySearchFunc(q.waiting, priority, func(w waitingFront, p int32) int { return cmp.Compare(w.priority, p) })
	switch {
	case known:
	case len(q.waiting) == maxFronts:
		q.forget()
		return nil
	default:
		q.waiting = slices.Insert(q.waiting, at, waitingFront{priority: priority, position: math.MinInt64})
	}
	return &q.waiting[at]
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
	now, stays := time.Now(), make(map[int32]bool) // priorities
	for _, r := range rows {
		priority := r.Queue.Priority
		if stays[priority] = stays[priority] || !left[r.Key]; stays[priority] || !q.known() {
			continue
		}
		if w := q.of(priority); w != nil {
			w.move(r.Queue.Position, now, f.settled())
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
	q := f.queues[r.Queue.No]
	switch {
	case q == nil || !q.known():
	case r.Queue.FairOrder != 0:
		q.forget()
	default:
		if w := q.of(r.Queue.Priority); w != nil {
			w.lower(r.Queue.Position)
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
		f.due.note(took+f.sweepsSlower, rows)
	}
	f.dueFrom = at.Add(-dueEarlier)
}

var (
	// sqlLockWaiting reads from the front, the others from what is remembered.
	sqlLockWaiting        = lockWaiting + `true` + inQueueOrder
	sqlLockWaitingBetween = lockWaiting + `o.effective_priority > $3 AND o.effective_priority < $4` + inQueueOrder
	sqlLockWaitingFrom    = lockWaiting + `o.effective_priority = $3 AND (o.fair_order, o.position_key) >= (0, $4)` + inQueueOrder

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
			s.fronts.readWaiting(queueNo, time.Since(began), rows, room)
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
		if err := lock(sqlLockWaitingFrom, w.priority, w.position); err != nil {
			return nil, err
		}
		above = w.priority
	}
	return rows, lock(sqlLockWaitingBetween, above, int32(math.MaxInt32))
}
