package sim

import (
	"bytes"
	"errors"
	"slices"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/registrar"
)

// entry is the request of a user to put runs into a queue. It is known before the call.
type entry struct {
	registrar.EnqueueInput
	delays []time.Duration // of each run
	placed bool            // the request names a place
	group  bool            // the runs are members of a group
	rows   []schedule.Key  // that it has made, in their order
	at     time.Duration   // when they came
	keys   []schedule.Key  // as they were answered; nil: they were not

	// Of a request with a unique key: the last verdict on it, and the run that it replaces.
	answer   []schedule.Key
	marks    schedule.Marks
	replaces schedule.Key
	start    time.Time // of that run
	done     bool      // it was replaced
}

// unique reports whether the request is for one run with a unique key.
func (e *entry) unique() bool { return e.Runs[0].Unique != nil }

// enter is the pending request of a user.
func (l *ledgerWatch) enter(e *entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entering = e
	if !slices.Contains(l.entries, e) {
		l.entries = append(l.entries, e)
	}
}

// entered compares the answer with what came of the request.
func (l *ledgerWatch) entered(e *entry, out *registrar.Enqueued, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entering = nil
	switch {
	case err != nil && e.keys != nil && isFinal(err):
		l.violation("request %s was answered before, and its repeat is refused: %v", e.RequestID, err)
	case err != nil:
		if errors.Is(err, schedule.ErrPrecondition) {
			l.coverage.situations[jobRefused].Add(1)
		}
	case !e.group && e.unique() && (e.keys == nil || out.Repeated):
		l.answeredUnique(e, out)
		if e.keys != nil {
			l.coverage.situations[jobRepeated].Add(1)
		}
		e.keys = out.Keys
	case !slices.Equal(out.Keys, e.rows), e.keys != nil && !out.Repeated:
		l.violation("request %s is answered with %v (repeated: %t), and has made %v", e.RequestID, out.Keys, out.Repeated, e.rows)
	case e.keys != nil:
		l.coverage.situations[jobRepeated].Add(1)
	default:
		e.keys = out.Keys
	}
}

func isFinal(err error) bool {
	var invalid *schedule.InvalidError
	return errors.As(err, &invalid) || errors.Is(err, schedule.ErrNotFound) || errors.Is(err, schedule.ErrPrecondition) || errors.Is(err, schedule.ErrKeyConflict)
}

// refusedEntry: the id of a request that has made runs is not good for another one.
func (l *ledgerWatch) refusedEntry(e *entry, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil {
		l.violation("the id of request %s was taken for another one", e.RequestID)
	}
}

// someEntry is a request that has made runs.
func (l *ledgerWatch) someEntry(d dice) *entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	var made []*entry
	for _, e := range l.entries {
		if len(e.rows)+len(e.keys) > 0 && !e.group {
			made = append(made, e)
		}
	}
	if len(made) == 0 {
		return nil
	}
	return pick(d, made...)
}

// someJob is a run of a queue that has not ended.
func (l *ledgerWatch) someJob(n int, d dice, waits bool) (schedule.Key, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var keys []schedule.Key
	for _, j := range l.jobOrder {
		if p := placeOf(&j.row); l.queues[j.row.Queue.No].row.QueueID == queueID(n) && p != placeEnded && (!waits || !p.inFlight()) {
			keys = append(keys, j.row.Key)
		}
	}
	if len(keys) == 0 {
		return schedule.Key{}, false
	}
	return pick(d, keys...), true
}

// updating is the pending update of a user.
func (l *ledgerWatch) updating(in *registrar.UpdateRunInput) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.update = in
}

// updated: an update that was answered has taken effect.
func (l *ledgerWatch) updated(in *registrar.UpdateRunInput, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.update = nil
	r := &l.jobs[in.Key].row
	so := in.Limits == nil
	for _, ofSchedule := range l.lives[r.ScheduleID].limitsOf { // it may be edited meanwhile
		so = so || string(r.Queue.Limits) == merged(l.queues[r.Queue.No].row.Limits, ofSchedule, in.Limits)
	}
	if err == nil && !so {
		l.violation("the update of the job %.12s was answered, and it uses %q", in.Key, r.Queue.Limits)
	}
	if err == nil && (in.Input != nil && !bytes.Equal(r.Input, in.Input) || in.Priority != nil && r.Priority != *in.Priority) {
		l.violation("the update of the job %.12s was answered, and it is %+v", in.Key, r)
	}
}

// cancellingJob: a user asks for the end of a run, or of its retry.
func (l *ledgerWatch) cancellingJob(key schedule.Key) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.jobs[key].cancelled = true
	for _, name := range []string{"/auto", "/snooze", "/again"} {
		l.retryCancels[successorKey(key, name)] = true
	}
}

// isJob reports whether a run is of a queue.
func (l *ledgerWatch) isJob(key schedule.Key) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.jobs[key] != nil
}

// withJobs are all runs.
func (l *ledgerWatch) withJobs() []*history {
	all := slices.Clone(l.order)
	for _, j := range l.jobOrder {
		all = append(all, j.history)
	}
	return all
}
