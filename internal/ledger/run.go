package ledger

import (
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// Run is an open run with the columns that a leader needs to judge it.
type Run struct {
	Key             schedule.Key
	ScheduleID      string
	Revision        int64
	OverlapKey      string // user_id/overlap_key
	RunAt, FireAt   time.Time
	Status          schedule.Status // PLANNED, LAUNCHING, ENQUEUED or STARTED
	WaitingSince    time.Time       // PLANNED, and waits for its overlap group since then; zero: it does not
	Trigger         schedule.Trigger
	Automatic       bool      // an automatic retry: it waits during a pause and for its overlap group
	StartBy         time.Time // an automatic retry that starts no later; zero: no limit
	Policy          schedule.OverlapPolicy
	Exclusive       bool // at most one such run of an overlap group is in flight
	MaxQueued       uint32
	Priority        int32
	Epoch           int64     // of the leader that claimed it
	NextSend        time.Time // LAUNCHING: not sent again before (claimed_until)
	CancelRequested bool
	Queued          bool // in its dispatch queue: launchers send it and its cancel
}

// RunOf is a row of the ledger as a Run.
func RunOf(r *schedule.Run) Run {
	return Run{
		Key: r.Key, ScheduleID: r.ScheduleID, Revision: r.Revision, OverlapKey: r.OverlapKey, RunAt: r.RunAt, FireAt: r.FireAt,
		Status: r.Status, Trigger: r.Trigger, Automatic: r.IsAutomaticRetry(), StartBy: r.StartBy,
		Policy: r.OverlapPolicy, Exclusive: r.Exclusive,
		MaxQueued: r.MaxQueued, Priority: r.Priority, Epoch: r.Epoch, NextSend: r.ClaimedUntil, CancelRequested: !r.CancelRequestedAt.IsZero(),
		Queued: r.Queue.In(), WaitingSince: r.WaitingSince,
	}
}

// NoteRetry notes which run this one retries.
func (r *Run) NoteRetry(retryOf schedule.Key) {
	of := schedule.Run{Key: r.Key, Trigger: r.Trigger, RetryOf: retryOf}
	r.Automatic = of.IsAutomaticRetry()
}

// run is a Run in memory. Times are microseconds since 1970, as the stores
// keep them. Half a million of them may be in the window, so it is small.
type run struct {
	key             schedule.Key
	runAt, fireAt   int64
	startBy         int64 // 0: no limit
	waitingSince    int64 // 0: it does not wait for its group
	group           *group
	schedule        *scheduleRuns
	next, previous  *run // of the same schedule
	policy          schedule.OverlapPolicy
	trigger         schedule.Trigger
	flight          *flight // nil: it was never in flight
	revision        int64
	priority        int32
	maxQueued       uint32
	place           place
	queue           queueNamed // by its definition
	exclusive       bool
	afterOthers     bool // in claim order: catch-up and backfill
	automatic       bool
	queued          bool
	seen            bool // a leader looked at it in time: it can no longer be missed
	cancelRequested bool
}

// flight has the fields of a run in flight.
type flight struct {
	status    schedule.Status
	epoch     int64
	nextSend  int64 // Run.NextSend
	tryAt     int64 // LAUNCHING: when a pass tries to send it again
	checkedAt int64 // when the tables last showed that it is in flight
}

// outside is the run as it was loaded.
func (r *run) outside() Run {
	out := Run{
		Key: r.key, ScheduleID: r.schedule.id, Revision: r.revision, OverlapKey: r.group.key,
		RunAt: time.UnixMicro(r.runAt).UTC(), FireAt: time.UnixMicro(r.fireAt).UTC(),
		Status: schedule.StatusPlanned, Trigger: r.trigger, Automatic: r.automatic, Policy: r.policy, Exclusive: r.exclusive,
		MaxQueued: r.maxQueued, Priority: r.priority, CancelRequested: r.cancelRequested, Queued: r.queued,
	}
	if r.startBy != 0 {
		out.StartBy = time.UnixMicro(r.startBy).UTC()
	}
	if r.waitingSince != 0 {
		out.WaitingSince = time.UnixMicro(r.waitingSince).UTC()
	}
	if r.place == placeFlight {
		out.Status, out.Epoch, out.NextSend = r.flight.status, r.flight.epoch, time.UnixMicro(r.flight.nextSend).UTC()
	}
	return out
}

// definition names the definition that the run was planned under.
func (r *run) definition() schedule.RevisionID {
	return schedule.RevisionID{ScheduleID: r.schedule.id, Revision: r.revision}
}

// late reports whether the run is missed: as UnseenSlots.Missed, but that the state knows
// which runs a leader has seen.
func (r *run) late(cut int64) bool {
	return !r.seen && r.trigger == schedule.TriggerSchedule && pastGrace(r.runAt, r.fireAt, cut)
}

// isHeld reports whether the run waits for the end of a pause. A deletion ends it, and so
// does the end of its catch-up window.
func (r *run) isHeld(now int64) bool {
	s := r.schedule
	return (r.automatic || r.trigger == schedule.TriggerEvent) && s.stopped && !s.deleted && !r.isPast(now) && s.pause.Active(time.UnixMicro(now))
}

// isPast reports whether an automatic retry would start too late.
func (r *run) isPast(now int64) bool { return r.startBy != 0 && max(r.fireAt, now) > r.startBy }

// replaces reports whether the run cancels what is in flight.
func (r *run) replaces() bool { return r.policy == schedule.OverlapReplace }

// isRetry reports whether the run retries another one, automatically or by hand.
func (r *run) isRetry() bool { return r.trigger == schedule.TriggerRetry }
