package schedule

import "time"

// Schedule is one row of schedules: the definition in force and the planner's position.
type Schedule struct {
	Definition

	Revision  int64     // 1 at creation, +1 at every change
	RevisedAt time.Time // when the revision in force was made

	NextRunAt time.Time // the cursor: first slot not yet planned; zero = exhausted
	PlanAt    time.Time // when the planner must look next; zero = nothing to do
	Backlog   Backlog   // missed slots not yet dealt with
	// Planned are the slots with rows since an open backlog began, oldest first: they may lie
	// inside a backlog that two outages made. Set only when the row is read to be changed or
	// planned.
	Planned []time.Time

	PlanFailures int // consecutive failures to plan; 0 = healthy

	Pause Pause

	LastRunAt time.Time // run_at of the newest slot that was launched
	CreatedAt time.Time
	UpdatedAt time.Time
	DeletedAt time.Time // zero = alive; a tombstone until retention
}

// Backlog is the half-open range [From, Until) of nominal instants that were due but not planned.
// On-time slots never wait for it: the cursor is already past it.
type Backlog struct {
	From     time.Time
	Until    time.Time
	Revision int64     // the revision in force when the range fell due
	At       time.Time // the next portion is not due before; zero = at once
}

// Open reports whether there is anything in it.
func (b Backlog) Open() bool { return !b.From.IsZero() }

// Pause is an operator's pause. Deploys never touch it.
type Pause struct {
	Paused bool
	Note   string
	By     string
	Until  time.Time // ends by itself then; zero = until resumed
}

// Active reports whether the schedule is paused at now: exactly while now < until.
func (p Pause) Active(now time.Time) bool {
	return p.Paused && (p.Until.IsZero() || now.Before(p.Until))
}

// Alive reports whether the schedule exists, i.e. is not a tombstone.
func (s *Schedule) Alive() bool { return s.DeletedAt.IsZero() }

// CeilSecond rounds up to a whole second.
func CeilSecond(t time.Time) time.Time {
	f := t.Truncate(time.Second)
	if f.Before(t) {
		f = f.Add(time.Second)
	}
	return f.UTC()
}

// Revision is one immutable row of schedule_revisions.
type Revision struct {
	ScheduleID string
	Revision   int64
	Definition Definition
	ChangedBy  string
	CreatedAt  time.Time
}
