package plan

import (
	"fmt"
	"slices"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// Config bounds what one decision plans.
type Config struct {
	Lookahead  time.Duration // how far ahead slots become rows
	Stride     time.Duration // how much further a schedule with a due slot is planned, at most
	MaxRows    int           // limit of on-time slots in one decision, earliest first; 0: no limit
	Grace      time.Duration // how late a slot may be and still fire normally
	Tick       time.Duration // time between portions of fire_immediately
	MaxCatchup int           // missed slots per schedule and tick
}

// Decide plans one schedule at now:
//
//  1. It ends a pause that has reached its end, and moves the cursor there.
//  2. Slots from the cursor on that are later than the grace are missed. The catch-up
//     policy decides on them, with late rows and backlog.
//  3. On-time slots up to the horizon become rows.
//  4. The cursor moves to the first slot not considered.
//
// An error leaves the schedule unchanged; see Quarantine.
func Decide(c *schedule.PlanCandidate, now time.Time, cfg Config) (schedule.PlanDecision, error) {
	if c.Unreadable != nil {
		return schedule.PlanDecision{}, c.Unreadable
	}
	p, err := newPlanner(c, now, cfg)
	if err != nil {
		return schedule.PlanDecision{}, err
	}
	if p.s.Pause.Active(now) {
		p.out.PlanAt = p.s.Pause.Until
		return p.out, nil
	}
	p.endPause()
	p.catchUp(c)
	p.planAhead()
	p.lookNext()
	if p.s.PlanFailures > 0 {
		p.event(schedule.Event{Kind: schedule.EventPlanRecovered, Count: int64(p.s.PlanFailures)})
	}
	return p.out, nil
}

// planner is the state of one decision.
type planner struct {
	s   *schedule.Schedule
	tt  *Timetable // of the revision in force
	now time.Time
	cfg Config
	out schedule.PlanDecision
}

func newPlanner(c *schedule.PlanCandidate, now time.Time, cfg Config) (*planner, error) {
	s := &c.Schedule
	tt, err := NewTimetable(&s.Definition, s.CreatedAt, s.RevisedAt)
	if err != nil {
		return nil, fmt.Errorf("read schedule %s revision %d: %w", s.ScheduleID, s.Revision, err)
	}
	return &planner{s: s, tt: tt, now: now, cfg: cfg, out: schedule.PlanDecision{
		ScheduleID: s.ScheduleID, NextRunAt: s.NextRunAt, Backlog: s.Backlog,
	}}, nil
}

// event adds an event. Its revision defaults to the one in force.
func (p *planner) event(e schedule.Event) {
	e.ScheduleID, e.Time = p.s.ScheduleID, p.now
	if e.Revision == 0 {
		e.Revision = p.s.Revision
	}
	p.out.Events = append(p.out.Events, e)
}

// endPause moves the cursor to the first slot at or after paused_until: slots during the pause are
// not missed. Slots since then follow grace and catch-up.
func (p *planner) endPause() {
	if !p.s.Pause.Paused {
		return
	}
	p.out.EndPause = true
	p.out.NextRunAt, _ = p.tt.From(p.s.Pause.Until)
	p.event(schedule.Event{Kind: schedule.EventPauseEnded, From: p.s.Pause.Until, Actor: p.s.Pause.By, Note: p.s.Pause.Note})
}

// planAhead turns the slots from the cursor to the horizon into rows. Jitter may bring a slot
// forward, so the horizon is extended by the jitter. A schedule with a due slot is planned a
// stride further: moving the cursor costs as much as a row, so dense schedules move it once for
// many slots. Slots beyond MaxRows are due for the next decision at once.
func (p *planner) planAhead() {
	horizon := p.now.Add(p.cfg.Lookahead + p.s.Jitter())
	at, ok := p.out.NextRunAt, !p.out.NextRunAt.IsZero()
	if ok && !at.After(horizon) {
		horizon = horizon.Add(p.stride(at))
	}
	var slots []Slot
	for ok && !at.After(horizon) && (len(slots) < p.cfg.MaxRows || p.cfg.MaxRows == 0) {
		slots = append(slots, p.tt.Slot(at))
		at, ok = p.tt.Next(at)
	}
	p.out.Rows = slices.Grow(p.out.Rows, len(slots)) // rows are large
	for _, slot := range slots {
		p.out.Rows = append(p.out.Rows, newRow(&p.s.Definition, p.s.Revision, slot, schedule.TriggerSchedule))
	}
	if !ok {
		at = time.Time{}
		if !p.s.NextRunAt.IsZero() {
			p.event(schedule.Event{Kind: schedule.EventExhausted})
		}
	}
	p.out.NextRunAt = at
}

// stride is between half of cfg.Stride and all of it, derived from the first slot. Schedules that
// were registered together therefore drift apart, which avoids inserting bursts of rows.
func (p *planner) stride(first time.Time) time.Duration {
	half := p.cfg.Stride / 2
	return half + time.Duration(schedule.SlotKey(p.s.ScheduleID, first).Fraction(uint64(half)+1))
}

// lookNext sets when the planner must come back.
func (p *planner) lookNext() {
	if !p.out.NextRunAt.IsZero() {
		p.out.PlanAt = p.out.NextRunAt.Add(-p.s.Jitter() - p.cfg.Lookahead)
	}
	if !p.out.Backlog.Open() {
		return
	}
	portion := latest(p.out.Backlog.At, p.now)
	if p.out.PlanAt.IsZero() || portion.Before(p.out.PlanAt) {
		p.out.PlanAt = portion
	}
}

// newRow is a slot as a PLANNED run.
func newRow(d *schedule.Definition, revision int64, slot Slot, trigger schedule.Trigger) schedule.Run {
	row := schedule.Run{
		Key: slot.Key, ScheduleID: d.ScheduleID, Revision: revision,
		UserID: d.UserID, WorkflowID: d.WorkflowID, Version: d.Version,
		RunAt: slot.RunAt, FireAt: slot.FireAt, Status: schedule.StatusPlanned, Trigger: trigger,
		OverlapKey: d.QualifiedOverlapKey(), OverlapPolicy: d.OverlapPolicy,
		Exclusive: d.OverlapPolicy.Exclusive(), MaxQueued: d.MaxQueued,
		Attempt: 1, MaxAttempts: d.Retry.Attempts(), Priority: d.Priority,
	}
	if d.QueueID == "" { // one that enters a queue is told of from then on
		row.Webhook = d.Webhook
	}
	return row
}

// NewRow is a run of the revision in force that is not a slot of the spec: manual, retry or
// backfill.
func NewRow(s *schedule.Schedule, slot Slot, trigger schedule.Trigger, policy schedule.OverlapPolicy) schedule.Run {
	row := newRow(&s.Definition, s.Revision, slot, trigger)
	if policy != "" {
		row.OverlapPolicy, row.Exclusive = policy, policy.Exclusive()
	}
	return row
}

// Quarantine is the decision on a schedule that cannot be planned: it stays unchanged and is
// retried with backoff, so that the others are planned.
func Quarantine(c *schedule.PlanCandidate, now time.Time, cause error) schedule.PlanDecision {
	failures := c.Schedule.PlanFailures + 1
	return schedule.PlanDecision{
		ScheduleID: c.Schedule.ScheduleID,
		PlanAt:     now.Add(quarantine(failures)),
		Failures:   failures,
		Events: []schedule.Event{{
			ScheduleID: c.Schedule.ScheduleID, Time: now, Kind: schedule.EventPlanFailed,
			Count: int64(failures), Note: cause.Error(), Revision: c.Schedule.Revision,
		}},
	}
}

// quarantine is 10 s for the first two failures, then a minute, doubling to an hour.
func quarantine(failures int) time.Duration {
	if failures < 3 {
		return 10 * time.Second
	}
	return min(time.Hour, time.Minute<<min(failures-3, 6))
}
