package registrar_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/registrar"
)

// noon is the now at which every test begins.
var noon = time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)

// rig is a registrar on a page in memory, to test its decisions: the page returns the rows that a
// test inserted and records the changes.
type rig struct {
	*testing.T
	*registrar.Registrar
	page *page
	late int // ends that came after another end
}

func newRig(t *testing.T, config registrar.Config, more ...func(*registrar.Options)) *rig {
	p := &page{now: noon, deploys: make(map[string][32]byte), schedules: make(map[string]*schedule.Schedule), runs: make(map[schedule.Key]schedule.RunInput), grants: make(map[schedule.GrantRef]*schedule.Grant)}
	r := &rig{T: t, page: p}
	o := registrar.Options{
		Schedules: p, Runs: p, Workflows: p, Shares: p, Grants: p, Now: func() time.Time { return p.now }, Logger: slog.New(slog.DiscardHandler), Config: config,
		EndedLate: func() { r.late++ },
	}
	for _, change := range more {
		change(&o)
	}
	r.Registrar = registrar.New(o)
	return r
}

// page replaces the store and has no rules.
type page struct {
	now       time.Time
	schedules map[string]*schedule.Schedule
	runs      map[schedule.Key]schedule.RunInput
	grants    map[schedule.GrantRef]*schedule.Grant
	listed    schedule.GrantFilter // of the last list of grants
	inFlight  int

	beforeChange  func()            // a concurrent change before the next one
	changes       []schedule.Change // of the last call
	runChange     *schedule.RunChange
	redriven      *schedule.RedriveChange
	redriveFilter schedule.RunFilter
	workflows     []*schedule.WorkflowVersion
	deploys       map[string][32]byte
}

func (p *page) inputs(req schedule.ChangeRequest) []schedule.ChangeInput {
	ids := slices.Clone(req.ScheduleIDs)
	for _, id := range slices.Sorted(maps.Keys(p.schedules)) {
		s := p.schedules[id]
		if by := req.Managed.By; by != "" && s.Alive() && s.ManagedBy == by && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	in := make([]schedule.ChangeInput, len(ids))
	for i, id := range ids {
		if s := p.schedules[id]; s != nil {
			row := *s
			in[i].Schedule = &row
		}
		in[i].InFlight = p.inFlight
		if i < len(req.GrantRefs) {
			in[i].Grant = p.withNew(req.Grants, req.GrantRefs[i])
		}
	}
	return in
}

func (p *page) ReadSchedules(_ context.Context, req schedule.ChangeRequest) ([]schedule.ChangeInput, error) {
	p.changes = nil
	return p.inputs(req), nil
}

func (p *page) ChangeSchedules(_ context.Context, req schedule.ChangeRequest, decide func([]schedule.ChangeInput) ([]schedule.Change, error)) error {
	p.changes, p.workflows = nil, nil
	if p.beforeChange != nil {
		p.beforeChange()
	}
	if d := req.Deploy; d != nil {
		if known, there := p.deploys[d.RequestID]; there {
			return schedule.RepeatedDeploy(d, known[:])
		}
	}
	changes, err := decide(p.inputs(req))
	if err != nil {
		return err
	}
	if req.Deploy != nil {
		p.deploys[req.Deploy.RequestID] = req.Deploy.Hash
	}
	p.changes, p.workflows = changes, req.Workflows
	for i := range req.Grants {
		p.grants[req.Grants[i].Ref()] = p.withNew(req.Grants, req.Grants[i].Ref())
	}
	for _, c := range changes {
		if c.Row != nil {
			row := *c.Row
			p.schedules[c.ScheduleID] = &row
		}
		for _, run := range c.Runs {
			p.runs[run.Key] = schedule.RunInput{Run: run}
		}
	}
	return nil
}

func (p *page) PeekSchedule(ctx context.Context, id string) (*schedule.Schedule, error) {
	return p.GetSchedule(ctx, id)
}

func (p *page) GetSchedule(_ context.Context, id string) (*schedule.Schedule, error) {
	if s := p.schedules[id]; s != nil {
		return s, nil
	}
	return nil, schedule.ErrNotFound
}

func (p *page) ListSchedules(_ context.Context, f schedule.ScheduleFilter) ([]schedule.Schedule, error) {
	var out []schedule.Schedule
	for _, s := range p.schedules {
		if s.Alive() && (f.ManagedBy == "" || s.ManagedBy == f.ManagedBy) && (f.UserID == "" || s.UserID == f.UserID) {
			out = append(out, *s)
		}
	}
	return out, nil
}

func (p *page) ListEvents(context.Context, string, int64, int) ([]schedule.Event, error) {
	return nil, nil
}

func (p *page) ListRevisions(context.Context, string, int64, int) ([]schedule.Revision, error) {
	return nil, nil
}

func (p *page) ReadSlot(_ context.Context, q schedule.SlotQuery) (schedule.SlotFacts, error) {
	if s := p.schedules[q.ScheduleID]; s != nil {
		return schedule.SlotFacts{Schedule: s}, nil
	}
	return schedule.SlotFacts{}, schedule.ErrNotFound
}

func (p *page) ChangeRun(_ context.Context, key, existing schedule.Key, decide func(schedule.RunInput) (schedule.RunChange, error)) (schedule.Run, bool, error) {
	p.runChange = nil
	in, ok := p.runs[key]
	if !ok {
		return schedule.Run{}, false, schedule.ErrNotFound
	}
	if there, ok := p.runs[existing]; ok {
		in.Existing = &there.Run
	}
	change, err := decide(in)
	if err != nil {
		return schedule.Run{}, false, err
	}
	p.runChange = &change
	if change.Insert != nil {
		p.runs[change.Insert.Key] = schedule.RunInput{Run: *change.Insert}
		return *change.Insert, true, nil
	}
	return in.Run, change.Settle != nil, nil
}

// RedriveRuns hands all dead runs to decide, in the order of their keys.
func (p *page) RedriveRuns(_ context.Context, f schedule.RunFilter, decide func([]schedule.RunInput) (schedule.RedriveChange, error)) (schedule.RunPage, error) {
	p.redriveFilter, p.redriven = f, nil
	var found []schedule.RunInput
	var runs []schedule.Run
	for _, key := range slices.SortedFunc(maps.Keys(p.runs), func(a, b schedule.Key) int { return slices.Compare(a[:], b[:]) }) {
		if in := p.runs[key]; in.Run.IsDead() && len(found) < f.Limit {
			found, runs = append(found, in), append(runs, in.Run)
		}
	}
	change, err := decide(found)
	if err != nil {
		return schedule.RunPage{}, err
	}
	p.redriven = &change
	return schedule.PageOf(runs), nil
}

// CancelRuns hands all runs to decide, in the order of their keys.
func (p *page) CancelRuns(_ context.Context, f schedule.RunFilter, decide func([]schedule.Run) (schedule.CancelChange, error)) (schedule.RunPage, error) {
	var found []schedule.Run
	for _, key := range slices.SortedFunc(maps.Keys(p.runs), func(a, b schedule.Key) int { return slices.Compare(a[:], b[:]) }) {
		if len(found) < f.Limit {
			found = append(found, p.runs[key].Run)
		}
	}
	_, err := decide(found)
	return schedule.PageOf(found), err
}

func (p *page) GetRun(_ context.Context, key schedule.Key) (*schedule.Run, error) {
	if in, ok := p.runs[key]; ok {
		return &in.Run, nil
	}
	return nil, schedule.ErrNotFound
}

func (p *page) LaunchAttempts(context.Context, schedule.Key) ([]schedule.LaunchAttempt, error) {
	return nil, nil
}

func (p *page) RunResult(context.Context, schedule.Key) (*schedule.RunResult, error) { return nil, nil }

func (p *page) ListRuns(context.Context, schedule.RunFilter) ([]schedule.Run, error) { return nil, nil }

func (p *page) PutWorkflow(context.Context, *schedule.WorkflowVersion) error { return nil }

func (p *page) GetWorkflow(context.Context, string, string, int32) (*schedule.WorkflowVersion, error) {
	return nil, schedule.ErrNotFound
}

func (p *page) ListWorkflows(context.Context, schedule.WorkflowFilter) ([]schedule.WorkflowVersion, error) {
	return nil, nil
}

func (p *page) OwnsWorkflow(context.Context, string, string) (bool, error) { return false, nil }

func (p *page) WorkflowAccess(_ context.Context, uses []schedule.WorkflowUse) ([]schedule.WorkflowAccess, error) {
	return make([]schedule.WorkflowAccess, len(uses)), nil
}

func (p *page) ShareWorkflow(_ context.Context, share schedule.WorkflowShare) (schedule.WorkflowShare, error) {
	return share, nil
}

func (p *page) UnshareWorkflow(context.Context, string, string) error { return nil }

func (p *page) ListShares(context.Context, string, string, int) ([]schedule.WorkflowShare, error) {
	return nil, nil
}

// hourly is a schedule with a slot at every full hour, as its owner sends it.
func hourly(more ...func(*registrar.UpsertInput)) registrar.UpsertInput {
	in := registrar.UpsertInput{Actor: "me", Definition: schedule.Definition{
		ScheduleID: "s", WorkflowID: "w", Version: 1, UserID: "u", CronExpr: "0 * * * *", Input: json.RawMessage(`{"a": 1}`),
	}}
	for _, change := range more {
		change(&in)
	}
	return in
}

func (r *rig) upsert(in registrar.UpsertInput) registrar.UpsertResult {
	r.Helper()
	result, err := r.Upsert(r.Context(), in)
	if err != nil {
		r.Fatal(err)
	}
	return result
}

// stored is the schedule as stored.
func (r *rig) stored() *schedule.Schedule {
	r.Helper()
	s := r.page.schedules["s"]
	if s == nil {
		r.Fatal("there is no schedule s")
	}
	return s
}

// planned sets the cursor to where a planner that stopped then would have left it.
func (r *rig) planned(cursor time.Time) { r.stored().NextRunAt = cursor }

// change is the one change of the last call.
func (r *rig) change() schedule.Change {
	r.Helper()
	if len(r.page.changes) != 1 {
		r.Fatalf("%d changes were written, want one", len(r.page.changes))
	}
	return r.page.changes[0]
}

func (r *rig) wroteNothing() {
	r.Helper()
	if len(r.page.changes) != 0 {
		r.Errorf("%d changes were written, want none: %+v", len(r.page.changes), r.page.changes)
	}
}

// events are those of the last change, as short words: kind from-to count.
func (r *rig) events(want ...string) {
	r.Helper()
	var got []string
	for _, e := range r.change().Events {
		word := string(e.Kind)
		if !e.To.IsZero() {
			word = fmt.Sprintf("%s(%s) %s-%s n=%d r%d", e.Kind, e.Reason, e.From.Format("15:04:05"), e.To.Format("15:04:05"), e.Count, e.Revision)
		}
		got = append(got, word)
	}
	if !slices.Equal(got, want) {
		r.Errorf("the events are\n%q, want\n%q", got, want)
	}
}

func (r *rig) after(d time.Duration) { r.page.now = r.page.now.Add(d) }
