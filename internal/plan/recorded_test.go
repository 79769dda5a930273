package plan_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/plan"
	"github.com/carillon/carillon/internal/schedule"
)

var update = flag.Bool("update", false, "write the decisions of the planner to testdata/plans")

// recordedPlan is a file of testdata/plans: the planner's input and its decision. A change of
// behaviour shows as a diff of these files; `go test ./internal/plan -run Recorded -update`
// rewrites them.
type recordedPlan struct {
	Why    string    `json:"why"`
	Now    time.Time `json:"now"`
	Config struct {
		LookaheadMS int `json:"lookahead_ms"`
		GraceMS     int `json:"grace_ms"`
		TickMS      int `json:"tick_ms"`
		MaxCatchup  int `json:"max_catchup"`
	} `json:"config"`
	Schedule recordedSchedule     `json:"schedule"`
	Older    *schedule.Definition `json:"older,omitempty"`
	Late     []time.Time          `json:"late,omitempty"` // run_at of rows planned in time
	Decision *recordedDecision    `json:"decision"`
}

type recordedSchedule struct {
	Definition schedule.Definition `json:"definition"`
	Revision   int64               `json:"revision"`
	RevisedAt  time.Time           `json:"revised_at"`
	CreatedAt  time.Time           `json:"created_at"`
	NextRunAt  time.Time           `json:"next_run_at,omitzero"`
	Backlog    *recordedBacklog    `json:"backlog,omitempty"`
	Paused     bool                `json:"paused,omitempty"`
	Until      time.Time           `json:"paused_until,omitzero"`
}

type recordedBacklog struct {
	From     time.Time `json:"from"`
	Until    time.Time `json:"until"`
	Revision int64     `json:"revision"`
	At       time.Time `json:"at,omitzero"`
}

type recordedDecision struct {
	Rows      []recordedRow    `json:"rows"`
	Late      []recordedRow    `json:"late,omitempty"`
	Events    []recordedEvent  `json:"events,omitempty"`
	Backlog   *recordedBacklog `json:"backlog,omitempty"`
	EndPause  bool             `json:"end_pause,omitempty"`
	NextRunAt time.Time        `json:"next_run_at,omitzero"`
	PlanAt    time.Time        `json:"plan_at,omitzero"`
}

type recordedRow struct {
	Key      string           `json:"key"`
	RunAt    time.Time        `json:"run_at,omitzero"`
	FireAt   time.Time        `json:"fire_at,omitzero"`
	Trigger  schedule.Trigger `json:"trigger,omitempty"`
	Revision int64            `json:"revision,omitempty"`
	Skipped  schedule.Reason  `json:"skipped,omitempty"`
}

type recordedEvent struct {
	Kind     schedule.EventKind `json:"kind"`
	From     time.Time          `json:"from,omitzero"`
	To       time.Time          `json:"to,omitzero"`
	Count    int64              `json:"count,omitempty"`
	Reason   schedule.Reason    `json:"reason,omitempty"`
	Revision int64              `json:"revision"`
	Note     string             `json:"note,omitempty"`
}

func TestRecordedPlans(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/plans/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no recorded plans (%v)", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			before, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			after, err := replay(before)
			if err != nil {
				t.Fatal(err)
			}
			switch {
			case bytes.Equal(before, after):
			case *update:
				if err := os.WriteFile(file, after, 0o600); err != nil {
					t.Fatal(err)
				}
			default:
				t.Errorf("the planner decides otherwise; run the test with -update and read the difference\n%s", after)
			}
		})
	}
}

func replay(file []byte) ([]byte, error) {
	var r recordedPlan
	in := json.NewDecoder(bytes.NewReader(file))
	in.DisallowUnknownFields()
	if err := in.Decode(&r); err != nil {
		return nil, err
	}
	millis := func(ms int) time.Duration { return time.Duration(ms) * time.Millisecond }
	d, err := plan.Decide(r.candidate(), r.Now, plan.Config{
		Lookahead: millis(r.Config.LookaheadMS), Grace: millis(r.Config.GraceMS),
		Tick: millis(r.Config.TickMS), MaxCatchup: r.Config.MaxCatchup,
	})
	if err != nil {
		return nil, err
	}
	r.Decision = record(&d)
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	err = enc.Encode(r)
	return out.Bytes(), err
}

func (r *recordedPlan) candidate() *schedule.PlanCandidate {
	in := r.Schedule
	s := schedule.Schedule{
		Definition: in.Definition, Revision: in.Revision, RevisedAt: in.RevisedAt, CreatedAt: in.CreatedAt,
		NextRunAt: in.NextRunAt, Pause: schedule.Pause{Paused: in.Paused, Until: in.Until},
	}
	if b := in.Backlog; b != nil {
		s.Backlog = schedule.Backlog(*b)
	}
	c := &schedule.PlanCandidate{Schedule: s, BacklogDefinition: r.Older}
	for _, at := range r.Late {
		slot := plan.Slot{Key: schedule.SlotKey(s.ScheduleID, at), RunAt: at, FireAt: at}
		c.Late = append(c.Late, plan.NewRow(&s, slot, schedule.TriggerSchedule, ""))
	}
	return c
}

func record(d *schedule.PlanDecision) *recordedDecision {
	out := &recordedDecision{EndPause: d.EndPause, NextRunAt: d.NextRunAt, PlanAt: d.PlanAt, Rows: []recordedRow{}}
	for i := range d.Rows {
		r := &d.Rows[i]
		out.Rows = append(out.Rows, recordedRow{Key: r.Key.String(), RunAt: r.RunAt, FireAt: r.FireAt, Trigger: r.Trigger, Revision: r.Revision})
	}
	for _, j := range d.LateVerdicts {
		out.Late = append(out.Late, recordedRow{Key: j.Key.String(), FireAt: j.FireAt, Trigger: j.Trigger, Skipped: j.Reason})
	}
	for _, e := range d.Events {
		out.Events = append(out.Events, recordedEvent{Kind: e.Kind, From: e.From, To: e.To, Count: e.Count, Reason: e.Reason, Revision: e.Revision, Note: e.Note})
	}
	if d.Backlog.Open() {
		b := recordedBacklog(d.Backlog)
		out.Backlog = &b
	}
	return out
}
