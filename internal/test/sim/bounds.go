package sim

import (
	"slices"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// mayWait is how long a run may wait for its start, as it was stored first; 0: any time.
func mayWait(r *schedule.Run) time.Duration {
	if r.StartBy.IsZero() {
		return 0
	}
	return r.StartBy.Sub(schedule.Later(r.FireAt, r.Queue.EnqueuedAt))
}

// entersFor: a run may wait as its request says, else its schedule, else its queue.
func (l *ledgerWatch) entersFor(r *schedule.Run, own *uint32, bounds ...uint32) {
	var want time.Duration
	if own != nil {
		want = time.Duration(*own) * time.Millisecond
	}
	for _, ms := range bounds {
		if want == 0 {
			want = time.Duration(ms) * time.Millisecond
		}
	}
	if got := mayWait(r); (got - want).Abs() > time.Millisecond {
		l.violation("the job %.12s may wait for %s, not for %s", r.Key, got, want)
	}
}

// startsInTime: a run does not start later than it was to. An admission has the time of its request,
// which a process that was frozen can have made five seconds ago.
func (l *ledgerWatch) startsInTime(before *schedule.Run, now time.Time) {
	if by := before.StartBy; !by.IsZero() && now.After(by.Add(l.profile.maxSkew+5*time.Second)) {
		l.violation("the job %.12s was admitted %s after it was to start", before.Key, now.Sub(by))
	}
}

// waitsAsLong: a run that waits for its predecessor no more may wait as long as ever. The end of the
// predecessor has the time of its request.
func (l *ledgerWatch) waitsAsLong(j *job, now time.Time) {
	if left := j.row.StartBy.Sub(schedule.Later(j.row.FireAt, now)); j.mayWait > 0 && left < j.mayWait-l.profile.maxSkew-time.Second {
		l.violation("the job %.12s waits since now, for %s, and not for %s", j.row.Key, left, j.mayWait)
	}
}

// expires: the end of a wait is true.
func (l *ledgerWatch) expires(j *job, before, r *schedule.Run) bool {
	l.coverage.situations[jobExpired].Add(1)
	from := placeOf(before)
	unsent := from == placeDispatching && r.Deliveries == 0 // its key is asked for again, and it is too late by then
	return r.Status == schedule.StatusSkipped && (from == placeWaiting || from == placeDelayed || unsent) && before.Attempt == 1 && !before.StartBy.IsZero() &&
		!before.StartBy.After(time.Now().Add(l.profile.maxSkew+time.Millisecond)) && (j.admissions > 0 || mayWait(before) >= time.Second)
}

// overdue: max_run_ms of the run is over, by the clock of any process.
func (l *ledgerWatch) overdue(before *schedule.Run, now time.Time) bool {
	return !before.DeadlineAt.IsZero() && !before.DeadlineAt.After(now.Add(l.profile.maxSkew+time.Millisecond))
}

// deadlineKept: the deadline of a run does not move.
func (l *ledgerWatch) deadlineKept(before, after *schedule.Run) {
	if !before.DeadlineAt.IsZero() && !ended(after.Status) && !after.DeadlineAt.Equal(before.DeadlineAt) {
		l.violation("%s run_at %s was to be over by %s, and now by %s", after.ScheduleID, l.at(after.RunAt), before.DeadlineAt, after.DeadlineAt)
	}
}

// startsOrEnds: at the end no run waits longer than it may.
func (w *world) startsOrEnds(j *job) {
	p, by := placeOf(&j.row), j.row.StartBy
	if (p == placeWaiting || p == placeDelayed) && !by.IsZero() && time.Since(by) > w.profile.maxSkew+5*time.Second {
		w.violation("the job %.12s still waits, and was to start by %s", j.row.Key, by)
	}
}

// jobWaitsFor: a run of a queue is not over, and nothing that its user did keeps it.
func (l *ledgerWatch) jobWaitsFor(j *job) bool {
	p := placeOf(&j.row)
	return p != placeEnded && (p.inFlight() || !j.row.CancelRequestedAt.IsZero() || !l.pausedForGood(j) && !l.keyInPause(j))
}

// pausedForGood reports whether only its user lets the queue of a run go on.
func (l *ledgerWatch) pausedForGood(j *job) bool {
	pause := &l.queues[j.row.Queue.No].row.Pause
	return pause.Paused && pause.Until.IsZero()
}

// keyInPause reports whether a retry in a queue that is paused for good keeps a key of a run, or of a
// member of its group that comes first.
func (l *ledgerWatch) keyInPause(j *job) bool {
	for _, other := range l.jobOrder {
		if p := placeOf(&other.row); other == j || p == placeEnded || p.inFlight() {
			continue
		}
		for _, name := range namesOf(&j.row) {
			if slices.Contains(namesOf(&other.row), name) && l.keeps(other, name) && l.pausedForGood(other) {
				return true
			}
		}
		if placeOf(&j.row) == placeChained && other.row.Queue.GroupNo == j.row.Queue.GroupNo && other.row.Queue.GroupSeq < j.row.Queue.GroupSeq && l.keyInPause(other) {
			return true
		}
	}
	return false
}
