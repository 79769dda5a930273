package plan_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/carillon/carillon/internal/plan"
	"github.com/carillon/carillon/internal/schedule"
)

// decideCase is one decision. The schedule is that of scheduled, every minute unless change
// differs. late are the run_at of rows planned in time, separated by commas.
type decideCase struct {
	name    string
	change  func(*schedule.Schedule)
	cursor  string
	now     string
	late    string
	backlog string               // "from until revision", e.g. "12:00:00 12:05:00 1"
	portion string               // when the backlog's next portion is due
	older   *schedule.Definition // of the backlog's revision
	want    string               // what decisionText writes, indentation aside
}

func (c decideCase) candidate() *schedule.PlanCandidate {
	s := scheduled(func(s *schedule.Schedule) {
		s.NextRunAt = clock(c.cursor)
		if c.backlog != "" {
			var from, until string
			if _, err := fmt.Sscan(c.backlog, &from, &until, &s.Backlog.Revision); err != nil {
				panic(err) // the table is mistyped
			}
			s.Backlog.From, s.Backlog.Until, s.Backlog.At = clock(from), clock(until), clock(c.portion)
		}
		if c.change != nil {
			c.change(s)
		}
		if s.CronExpr == "" && s.IntervalMS == 0 && s.OnceAt.IsZero() {
			s.CronExpr = "* * * * *"
		}
	})
	candidate := &schedule.PlanCandidate{Schedule: s, BacklogDefinition: c.older}
	for at := range strings.SplitSeq(c.late, ", ") {
		if at == "" {
			break
		}
		slot := plan.Slot{Key: schedule.SlotKey(s.ScheduleID, clock(at)), RunAt: clock(at), FireAt: clock(at)}
		candidate.Late = append(candidate.Late, plan.NewRow(&s, slot, schedule.TriggerSchedule, ""))
	}
	return candidate
}

func checkDecisions(t *testing.T, cases []decideCase) {
	t.Parallel()
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			candidate := c.candidate()
			d, err := plan.Decide(candidate, clock(c.now), config)
			if err != nil {
				t.Fatal(err)
			}
			want := strings.ReplaceAll(strings.Trim(c.want, "\n\t"), "\t", "")
			if got := strings.Join(decisionText(candidate, d), "\n"); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

// decisionText prints what fires, what does not, what remains, and where the planner continues.
func decisionText(c *schedule.PlanCandidate, d schedule.PlanDecision) []string {
	var out []string
	add := func(format string, args ...any) { out = append(out, strings.TrimSpace(fmt.Sprintf(format, args...))) }
	for _, j := range d.LateVerdicts {
		runAt := "unknown"
		for _, row := range c.Late {
			if row.Key == j.Key {
				runAt = clockText(row.RunAt)
			}
		}
		if j.Fire {
			add("late %s fires at %s as %s", runAt, clockText(j.FireAt), j.Trigger)
		} else {
			add("late %s skipped %s", runAt, j.Reason)
		}
	}
	for i := range d.Rows {
		out = append(out, rowText(&d.Rows[i], c.Schedule.Revision))
	}
	for _, e := range d.Events {
		out = append(out, eventText(e, c.Schedule.Revision))
	}
	if d.EndPause {
		add("ends the pause")
	}
	if b := d.Backlog; b.Open() {
		add("backlog %s until %s of revision %d, next portion %s", clockText(b.From), clockText(b.Until), b.Revision, clockText(b.At))
	}
	if d.Failures > 0 {
		add("failures %d", d.Failures)
	}
	add("cursor %s", clockText(d.NextRunAt))
	add("look again %s", clockText(d.PlanAt))
	return out
}

func rowText(r *schedule.Run, revision int64) string {
	text := "plan " + clockText(r.RunAt)
	if r.Trigger != schedule.TriggerSchedule {
		text = string(r.Trigger) + " " + clockText(r.RunAt)
	}
	if !r.FireAt.Equal(r.RunAt) {
		text += " at " + clockText(r.FireAt)
	}
	if r.Revision != revision {
		text += fmt.Sprint(" of revision ", r.Revision)
	}
	return text
}

func eventText(e schedule.Event, revision int64) string {
	text := "event " + string(e.Kind)
	if !e.From.IsZero() {
		text += " " + clockText(e.From)
	}
	if !e.To.IsZero() {
		text += " to " + clockText(e.To)
	}
	if e.Count > 0 {
		text += fmt.Sprint(" count ", e.Count)
	}
	if e.Reason != "" && string(e.Reason) != string(e.Kind) {
		text += " " + string(e.Reason)
	}
	if e.Revision != revision {
		text += fmt.Sprint(" of revision ", e.Revision)
	}
	if e.Note != "" {
		text += ": " + e.Note
	}
	return text
}
