package topic

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// Limits of audits.
const (
	MaxAudited    = 100_000 // events of one audit
	MaxViolations = 100     // that are listed
)

// AuditFilter selects the events of an audit.
type AuditFilter struct {
	UserID, Topic string // both empty: of all owners and topics
	From, Until   time.Time
	Limit         int
}

// AuditRow is an event with one of its entries, read in one statement.
type AuditRow struct {
	Event Event // without data
	Entry Entry // SID is 0: the event has none
	// RunOpen reports of a reserved entry whether its run is not over, and Lost of a pending one that
	// nothing would look at it.
	RunOpen, Lost bool
}

// AuditRun is what a run has taken, by its record and by the consumed entries that name it.
type AuditRun struct {
	Key    schedule.Key
	Status schedule.Status // empty: the run is not kept
	Open   bool            // it is not over
	Known  bool            // there is a record of its batch
	Count  int
	Digest schedule.Key
	Batch  []Offered // of the entries, in their order
}

// Audit compares the events of a range with what their consumers have of them, from rows alone.
type Audit struct {
	Events, Fanout int
	Entries        map[string]map[State]int // of round 1, by consumer
	Pruned         int                      // entries of old events that were deleted
	Last           time.Time                // publish time of the last event; zero: none
	Violations     []Violation              // the first ones
	Broken         int                      // all of them
	FirstSeq       int64
	LastSeq        int64

	keptSince time.Time
	event     *Event // of the last row
	entries   int    // of the event, of round 1
	runs      map[schedule.Key]time.Time
}

// Violation is a broken promise of an audit.
type Violation struct {
	Topic, EventID, ScheduleID string
	Run                        schedule.Key
	What                       string
}

// NewAudit begins an audit. Entries that ended before keptSince may be deleted.
func NewAudit(keptSince time.Time) *Audit {
	return &Audit{Entries: make(map[string]map[State]int), keptSince: keptSince, runs: make(map[schedule.Key]time.Time)}
}

// Add takes the next row. Those of one event follow each other.
func (a *Audit) Add(r *AuditRow) {
	if a.event == nil || a.event.Seq != r.Event.Seq {
		a.endEvent()
		e := r.Event
		a.event, a.entries = &e, 0
		a.Events, a.Fanout, a.Last = a.Events+1, a.Fanout+e.Fanout, e.PublishedAt
		a.FirstSeq, a.LastSeq = cmp.Or(min(a.FirstSeq, e.Seq), e.Seq), max(a.LastSeq, e.Seq)
	}
	if r.Entry.SID == 0 {
		return
	}
	e := &r.Entry
	if e.Round == 1 {
		a.entries++
		if a.Entries[e.ScheduleID] == nil {
			a.Entries[e.ScheduleID] = make(map[State]int)
		}
		a.Entries[e.ScheduleID][e.State]++
	}
	switch {
	case e.State == Pending && r.Lost:
		a.broken(e, "is pending, and nothing would look at it: there is no wake row and no open run")
	case e.State == Reserved && !r.RunOpen:
		a.broken(e, "is reserved by a run that is over")
	case e.State == Consumed && e.Run.IsZero():
		a.broken(e, "is consumed, and names no run")
	case e.State == Consumed && !e.EndedAt.Before(a.keptSince):
		a.runs[e.Run] = e.EndedAt
	}
}

// endEvent compares the entries of the last event with how many it was published to.
func (a *Audit) endEvent() {
	if a.event == nil {
		return
	}
	missing := a.event.Fanout - a.entries
	if missing > 0 && a.event.PublishedAt.Before(a.keptSince) {
		a.Pruned += missing
		return
	}
	if missing != 0 {
		a.note(Violation{What: fmt.Sprintf("was published to %d consumers, and has %d entries", a.event.Fanout, a.entries)})
	}
}

func (a *Audit) broken(e *Entry, what string) {
	a.note(Violation{ScheduleID: e.ScheduleID, Run: e.Run, What: what})
}

// note adds a violation of the last event.
func (a *Audit) note(v Violation) {
	v.Topic, v.EventID = a.event.Topic, a.event.EventID
	a.add(v)
}

func (a *Audit) add(v Violation) {
	if a.Broken++; len(a.Violations) < MaxViolations {
		a.Violations = append(a.Violations, v)
	}
}

// End ends the rows. It returns the runs that consumed entries name.
func (a *Audit) End() []schedule.Key {
	a.endEvent()
	a.event = nil
	keys := make([]schedule.Key, 0, len(a.runs))
	for key := range a.runs {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(x, y schedule.Key) int { return slices.Compare(x[:], y[:]) })
	return keys
}

// CheckRuns compares runs with the consumed entries that name them. They are those of End.
func (a *Audit) CheckRuns(found []AuditRun) {
	for i := range found {
		r := &found[i]
		switch {
		case r.Open:
			a.add(Violation{Run: r.Key, What: "has consumed events, and is not over"})
		case r.Status != "" && r.Status != schedule.StatusSuccess:
			a.add(Violation{Run: r.Key, What: fmt.Sprintf("has consumed events, and ended %s", r.Status)})
		case !r.Known:
			a.add(Violation{Run: r.Key, What: "has consumed events, and no record of its batch"})
		case r.Count != len(r.Batch):
			a.add(Violation{Run: r.Key, What: fmt.Sprintf("has taken %d events, and consumed %d", r.Count, len(r.Batch))})
		case r.Digest != Digest(r.Batch):
			a.add(Violation{Run: r.Key, What: "has consumed other events than it has taken: events_digest differs"})
		}
	}
}

// Stray notes an entry whose event does not exist.
func (a *Audit) Stray(scheduleID string, seq int64) {
	a.add(Violation{ScheduleID: scheduleID, What: fmt.Sprintf("has an entry of event %d, which does not exist", seq)})
}
