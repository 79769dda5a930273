package check

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/carillon/carillon/internal/test/chaos/record"
)

// Violation is a broken promise. Invariants are those of docs/reliability.md.
type Violation struct {
	Invariant  string
	At         time.Time
	ScheduleID string
	Key        string
	Text       string
	Context    []string // what happened around it
}

// Report is what the checker found.
type Report struct {
	Violations []Violation
	Counts     Counts
	Figures    []Figure
	Ended      map[string]int // rows by "STATUS(reason)"
	Struck     map[string]int // faults by kind
	Hands      map[int]int    // by shard, how often it went to another process
}

// Counts are the sums of a run. Those of broken promises are also violations.
type Counts struct {
	Slots       int `json:"slots"`       // that there should have been
	Optional    int `json:"optional"`    // that fell while a change took place
	Rows        int `json:"rows"`        //
	Recorded    int `json:"recorded"`    // slots in a recorded range instead of a row
	Keys        int `json:"keys"`        // that the executor was called with
	Redelivered int `json:"redelivered"` // calls beyond the first of a key
	Lost        int `json:"lost"`        // neither row nor range
	Doubled     int `json:"doubled"`     // two effects, or two rows
	Early       int `json:"early"`       // calls before fire_at
	WrongSkips  int `json:"wrong_skips"` // SKIPPED without cause
	Faults      int `json:"faults"`      //
	Kills       int `json:"leader_kills"`
	Pauses      int `json:"leader_pauses"`
	Terms       int `json:"terms"`
	Hands       int `json:"hands"`              // how often a shard went to another process
	CaughtUp    int `json:"caught_up"`          // missed slots that were caught up
	Meanwhile   int `json:"meanwhile"`          // slots of probes that fell due meanwhile
	Jobs        int `json:"jobs,omitempty"`     // runs of dispatch queues
	JobKeys     int `json:"job_keys,omitempty"` // that the executor was called with
	ByGRPC      int `json:"by_grpc,omitempty"`  // calls of such runs by gRPC
	Fetched     int `json:"fetched,omitempty"`  // and those that workers fetched
	Counted     int `json:"counted,omitempty"`  // successes without a row
	Reserved    int `json:"reserved,omitempty"` // reservations that were granted
	Repeats     int `json:"repeats"`            // calls of the API that were repeated word by word
}

// checker holds the evidence, sorted.
type checker struct {
	*Evidence
	report  *Report
	lives   map[string]*life
	effects map[string]*effect
	rows    map[string][]record.Run // by schedule
	ledger  map[string]record.Run   // by key
	ranges  map[string][]record.Event
	events  map[string][]record.Event
	endings map[string]time.Time // when the end of a key was committed
	planned map[string]time.Time // when a witness saw that it was inserted last
	claimed map[string]time.Time // and claimed
	rose    time.Duration
	fell    time.Duration
	stall   time.Duration
	stopped time.Time
}

// Run runs every check.
func Run(e *Evidence) *Report {
	c := newChecker(e)
	c.conservation()
	for _, id := range slices.Sorted(maps.Keys(c.rows)) {
		for _, r := range c.rows[id] {
			c.row(r)
		}
	}
	c.lateEnough()
	c.executor()
	c.calls()
	c.once()
	c.overlap()
	c.writes()
	c.terms()
	c.launches()
	c.failures()
	c.reigns()
	c.liveness()
	c.repeats()
	c.catchup()
	c.jobChecks()
	c.hygiene()
	c.figures()
	for i := range c.report.Violations {
		c.report.Violations[i].Context = c.context(c.report.Violations[i])
	}
	slices.SortStableFunc(c.report.Violations, func(a, b Violation) int { return a.At.Compare(b.At) })
	return c.report
}

func newChecker(e *Evidence) *checker {
	c := &checker{
		Evidence: e, report: &Report{Ended: make(map[string]int), Hands: make(map[int]int), Struck: make(map[string]int)}, effects: effects(e.Executor),
		rows: make(map[string][]record.Run), ledger: make(map[string]record.Run),
		ranges: make(map[string][]record.Event), events: make(map[string][]record.Event), endings: make(map[string]time.Time),
		planned: make(map[string]time.Time), claimed: make(map[string]time.Time),
	}
	c.Writes = withoutMoves(e.Writes)
	for _, w := range c.Writes {
		switch {
		case rank[w.After] == terminal && rank[w.Before] != terminal:
			c.endings[w.Key] = committed(w)
		case w.Before == "" && w.After == "PLANNED":
			c.planned[w.Key] = w.At
		case w.Before == "PLANNED" && w.After == "LAUNCHING":
			c.claimed[w.Key] = w.At
		}
	}
	for _, f := range e.Faults {
		switch f.Kind {
		case record.Clock:
			c.rose, c.fell, c.stall = max(c.rose, f.Rose), max(c.fell, f.Fell), max(c.stall, f.Stall)
		case record.Stopped:
			c.stopped = f.Began
		}
	}
	c.lives = lives(e.Acts, c.rose+c.fell)
	for _, r := range e.Runs {
		c.rows[r.ScheduleID] = append(c.rows[r.ScheduleID], r)
		c.ledger[r.Key] = r
		c.report.Ended[word(r.Status, r.Reason)]++
	}
	for _, rows := range c.rows {
		slices.SortStableFunc(rows, func(a, b record.Run) int { return a.RunAt.Compare(b.RunAt) })
	}
	for _, event := range e.Events {
		c.events[event.ScheduleID] = append(c.events[event.ScheduleID], event)
		if slices.Contains([]string{"missed", "coalesced", "backlog_closed"}, event.Kind) {
			c.ranges[event.ScheduleID] = append(c.ranges[event.ScheduleID], event)
		}
	}
	c.report.Counts.Rows, c.report.Counts.Keys = len(e.Runs), len(c.effects)
	return c
}

// word is how a run has ended.
func word(status, reason string) string {
	if reason == "" {
		return status
	}
	return status + "(" + reason + ")"
}

func (c *checker) violate(invariant string, r record.Run, format string, args ...any) {
	c.report.Violations = append(c.report.Violations, Violation{
		Invariant: invariant, At: r.RunAt, ScheduleID: r.ScheduleID, Key: r.Key, Text: fmt.Sprintf(format, args...),
	})
}

// broken are outages: from a fault until slots flow again.
func (c *checker) broken(from, until time.Time) time.Duration {
	total := time.Duration(0)
	for _, f := range c.Faults {
		if f.Kind == record.Clock || f.Kind == record.Stopped {
			continue
		}
		begin, end := later(from, f.Began), until
		if calm := later(f.Calm, f.Ended); !calm.IsZero() && calm.Before(end) {
			end = calm
		}
		total += max(0, end.Sub(begin))
	}
	return total
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// conservation is I1: every slot is exactly one row, or lies in exactly one
// range that the schedule's log records; and there is no other row.
func (c *checker) conservation() {
	for _, id := range slices.Sorted(maps.Keys(c.lives)) {
		l := c.lives[id]
		if len(l.spans) == 0 {
			continue
		}
		rows := make(map[int64][]record.Run)
		for _, r := range c.rows[id] {
			if r.Trigger == "schedule" || r.Trigger == "catchup" {
				rows[r.RunAt.Unix()] = append(rows[r.RunAt.Unix()], r)
			}
		}
		end := later(c.stopped, l.spans[len(l.spans)-1].from).Add(time.Minute)
		for at := ceilSecond(l.spans[0].from.Add(-time.Second)); at.Before(end); at = at.Add(time.Second) {
			c.slot(l, at, rows[at.Unix()])
			delete(rows, at.Unix())
		}
		for _, strays := range rows {
			for _, r := range strays {
				c.violate("I1", r, "there is a row far outside of the schedule's life")
			}
		}
	}
}

func (c *checker) slot(l *life, at time.Time, rows []record.Run) {
	s, sure := l.at(at)
	ranges := c.covering(l.id, at)
	if !sure {
		c.report.Counts.Optional++
		return // a row or none: either side of the change may have had it
	}
	if s.def == nil || !names(s.def, l.anchor, at) {
		for _, r := range rows {
			if !c.claimedBefore(l, r) {
				c.violate("I3", r, "there is no such slot")
			}
		}
		return
	}
	c.report.Counts.Slots++
	c.report.Counts.Recorded += len(ranges)
	switch n := len(rows) + len(ranges); {
	case n == 0:
		c.report.Counts.Lost++
		c.violate("I1", record.Run{RunAt: at, ScheduleID: l.id, Key: slotKey(l.id, at)}, "the slot is lost: it has no row and lies in no recorded range")
	case len(rows) > 1:
		c.report.Counts.Doubled++
		c.violate("I1", rows[0], "the slot has %d rows", len(rows))
	case len(ranges) > 1, len(rows) == 1 && len(ranges) == 1 && !l.changedNear(at, 3*time.Second):
		// A row inside a recorded range is a known limit after an edit (docs/decisions.md, Known limits).
		c.violate("I1", record.Run{RunAt: at, ScheduleID: l.id, Key: slotKey(l.id, at)}, "the slot has %d rows and lies in %d recorded ranges", len(rows), len(ranges))
	}
}

// arming is how far ahead a slot may be claimed, and how long the check that
// was made then is good.
const arming = time.Second

// claimedBefore: the slot was claimed before the change that took it away, for
// jitter had brought it forward or it was armed.
func (c *checker) claimedBefore(l *life, r record.Run) bool {
	for i, s := range l.spans {
		if s.def == nil || i+1 == len(l.spans) {
			continue
		}
		gone := l.spans[i+1].from
		if gone.Before(r.RunAt) && names(s.def, l.anchor, r.RunAt) && !r.FireAt.After(gone.Add(arming+slack+c.rose)) {
			return true
		}
	}
	return false
}

func (c *checker) covering(id string, slot time.Time) []record.Event {
	var found []record.Event
	for _, e := range c.ranges[id] {
		if !slot.Before(e.From) && !slot.After(e.To) {
			found = append(found, e)
		}
	}
	return found
}

// lateEnough: slots recorded as missed were later than the grace.
func (c *checker) lateEnough() {
	for id, ranges := range c.ranges {
		for _, e := range ranges {
			if late := e.Time.Sub(e.To); e.Kind != "backlog_closed" && late <= c.Settings.Grace-tolerance {
				c.report.Counts.WrongSkips += int(e.Count)
				c.violate("I1", record.Run{RunAt: e.To, ScheduleID: id}, "%d slots until %s are %s after %s, within the grace of %s",
					e.Count, clock(e.To), e.Kind, late, c.Settings.Grace)
			}
		}
	}
}

// Add adds the counts of another run.
func (n *Counts) Add(m Counts) {
	n.Slots, n.Optional, n.Rows, n.Recorded = n.Slots+m.Slots, n.Optional+m.Optional, n.Rows+m.Rows, n.Recorded+m.Recorded
	n.Keys, n.Redelivered, n.Faults, n.Terms = n.Keys+m.Keys, n.Redelivered+m.Redelivered, n.Faults+m.Faults, n.Terms+m.Terms
	n.Lost, n.Doubled, n.Early, n.WrongSkips = n.Lost+m.Lost, n.Doubled+m.Doubled, n.Early+m.Early, n.WrongSkips+m.WrongSkips
	n.Kills, n.Pauses, n.Hands = n.Kills+m.Kills, n.Pauses+m.Pauses, n.Hands+m.Hands
	n.Jobs, n.JobKeys = n.Jobs+m.Jobs, n.JobKeys+m.JobKeys
	n.ByGRPC, n.Fetched, n.Counted, n.Reserved = n.ByGRPC+m.ByGRPC, n.Fetched+m.Fetched, n.Counted+m.Counted, n.Reserved+m.Reserved
	n.CaughtUp, n.Meanwhile, n.Repeats = n.CaughtUp+m.CaughtUp, n.Meanwhile+m.Meanwhile, n.Repeats+m.Repeats
}
