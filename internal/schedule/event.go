package schedule

import "time"

// EventKind names what happened to a schedule; a closed set.
type EventKind string

// The kinds of schedule_events.
const (
	EventCreated        EventKind = "created"
	EventChanged        EventKind = "changed"
	EventPaused         EventKind = "paused"
	EventResumed        EventKind = "resumed"
	EventPauseEnded     EventKind = "pause_ended" // paused_until was reached
	EventDeleted        EventKind = "deleted"
	EventTriggered      EventKind = "triggered"
	EventRetried        EventKind = "retried"
	EventMissed         EventKind = "missed"    // a range of slots that never had rows; reason says why
	EventCoalesced      EventKind = "coalesced" // a range of slots; only the newest fires
	EventBacklogOpened  EventKind = "backlog_opened"
	EventBacklogClosed  EventKind = "backlog_closed" // dropped before it was worked off
	EventExhausted      EventKind = "exhausted"      // no slot is left
	EventPlanFailed     EventKind = "plan_failed"    // quarantined, tried again with backoff
	EventPlanRecovered  EventKind = "plan_recovered"
	EventReportIgnored  EventKind = "report_ignored" // a report that changed nothing
	EventCancelAsked    EventKind = "cancel_asked"
	EventCancelTimedOut EventKind = "cancel_timed_out" // an overlap is possible
	EventClockStepped   EventKind = "clock_stepped"

	EventBackfillAsked     EventKind = "backfill_asked"
	EventBackfillPaused    EventKind = "backfill_paused"
	EventBackfillResumed   EventKind = "backfill_resumed"
	EventBackfillCancelled EventKind = "backfill_cancelled" // by a user, or for the reason
	EventBackfillFinished  EventKind = "backfill_finished"
)

// Event is one row of schedule_events, the append-only log of a schedule.
type Event struct {
	ID         int64 // given by the store, grows
	ScheduleID string
	Time       time.Time
	Kind       EventKind
	From       time.Time // first instant of a range, or zero
	To         time.Time // last instant of a range, inclusive, or zero
	Count      int64     // slots in the range
	Reason     Reason
	Actor      string
	Note       string
	Revision   int64
}
