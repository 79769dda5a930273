package registrar

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// ApplyInput is the content of a file set.
type ApplyInput struct {
	Set       string
	Schedules []UpsertInput // also those of the triggers of Workflows; each with its id
	Fields    []string      // e.g. "schedules[2].", one for each of Schedules
	Workflows []WorkflowInput
	Prune     bool // delete schedules of the set that are not in Schedules
	// AllowEmpty lets Prune delete all schedules of the set. An empty set is more often a wrong
	// path than intended.
	AllowEmpty bool
	Adopt      bool // take over schedules of another set or a deployment
	DryRun     bool // write nothing, report the effect on fire times
	RequestID  string
	Actor      string
}

// WorkflowInput is one workflow version to store.
type WorkflowInput struct {
	WorkflowID string
	Version    int32
	UserID     string // whom it is stored for; empty: the caller, or, where that is no owner, all owners
	DAG        json.RawMessage
	Field      string // e.g. "workflows[0].", prefix of fields in errors
}

// ApplyResult is the result of an apply or dry run.
type ApplyResult struct {
	Changes   []ScheduleChange // in the order of Schedules, then deletions by id
	Workflows []WorkflowChange
	Left      []string // other schedules of the set, kept without Prune
	Changed   bool
	Repeated  bool      // nothing was written: the request id is known
	Forecast  *Forecast // of a dry run
}

// ScheduleChange is the effect of an apply on one schedule.
type ScheduleChange struct {
	ScheduleID  string
	Action      Action
	Revision    int64 // after it
	NextRunAt   time.Time
	Paused      bool
	AdoptedFrom string // who managed it before, where that changes
	Fields      []FieldChange
	Fires       *FireChange // of a dry run
}

// FieldChange is one field of a definition before and after, as text.
type FieldChange struct{ Field, From, To string }

// WorkflowChange is the effect of an apply on one workflow version: create or unchanged.
type WorkflowChange struct {
	WorkflowID string
	Version    int32
	Action     Action
}

// ApplySchedules makes the stored schedules of a set equal to the call in one transaction: it
// creates, changes and, with Prune, deletes. Unchanged schedules are not written. Applies of one
// set are serialized. Operators' pauses and resumes survive.
func (r *Registrar) ApplySchedules(ctx context.Context, in ApplyInput) (ApplyResult, error) {
	all, err := r.applied(in)
	if err != nil {
		return ApplyResult{}, err
	}
	out := ApplyResult{}
	if err := all.scopeToCaller(ctx); err != nil {
		return out, err
	}
	if out.Workflows, err = r.compareWorkflows(ctx, all.workflows); err != nil {
		return out, err
	}
	if in.DryRun {
		return r.dryRun(ctx, all, out)
	}
	done, err := r.upsertAll(ctx, all)
	if err != nil {
		return out, err
	}
	out.Repeated = done.repeated
	out.report(done.results, r.now())
	return out, nil
}

// applied is the input as upserts, once it makes sense as a whole.
func (r *Registrar) applied(in ApplyInput) (*upserts, error) {
	var c schedule.Collect
	checkID(&c, "set", in.Set)
	if len(in.Schedules) > schedule.MaxApplied {
		c.Note("schedules", fmt.Sprintf("are %d including those of the DAGs' triggers, more than %d", len(in.Schedules), schedule.MaxApplied), "split them into several sets")
	}
	if in.Prune && !in.AllowEmpty && len(in.Schedules)+len(in.Workflows) == 0 {
		c.Note("prune", "would delete the whole set, because the request is empty", "set allow_empty to do that")
	}
	managedBy := managedBySet + in.Set
	in.Schedules = slices.Clone(in.Schedules) // the caller's are not ours to fill in
	first := make(map[string]int, len(in.Schedules))
	for i := range in.Schedules {
		d := &in.Schedules[i].Definition
		if d.ScheduleID == "" {
			c.Note(in.Fields[i]+"schedule_id", "is required in a set", idHint)
		} else if j, there := first[d.ScheduleID]; there {
			c.Add(in.Fields[i]+"schedule_id", d.ScheduleID, "is the id of "+in.Fields[j][:len(in.Fields[j])-1]+" too", "ids must differ")
		}
		first[d.ScheduleID] = i
		if d.ManagedBy != "" && d.ManagedBy != managedBy {
			c.Add(in.Fields[i]+"managed_by", d.ManagedBy, "contradicts the set, which sets it to "+schedule.Quote(managedBy), "leave it out")
		}
		if in.Schedules[i].RequestID != "" {
			c.Add(in.Fields[i]+"request_id", in.Schedules[i].RequestID, "is not allowed in a set", "leave it out")
		}
		if in.Schedules[i].Adopt {
			c.Add(in.Fields[i]+"adopt", true, "is not allowed for one schedule of a set", "set adopt for the whole call")
		}
		d.ManagedBy = managedBy
	}
	all := &upserts{
		inputs: in.Schedules, fields: in.Fields, managed: schedule.Managed{By: managedBy},
		prune: in.Prune, adopt: in.Adopt, requestID: in.RequestID, actor: in.Actor, dryRun: in.DryRun,
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return all, r.readWorkflows(in.Workflows, all)
}

// readWorkflows checks the DAGs and refuses two of one version.
func (r *Registrar) readWorkflows(in []WorkflowInput, all *upserts) error {
	first := make(map[schedule.WorkflowUse]int, len(in))
	for i, w := range in {
		v, err := r.workflowVersion(w)
		if err != nil {
			named := upserts{fields: []string{w.Field}}
			return named.prefixed(0, err)
		}
		id := schedule.WorkflowUse{UserID: w.UserID, WorkflowID: w.WorkflowID, Version: w.Version}
		if j, there := first[id]; there {
			return schedule.Invalid(w.Field+"version", w.Version, fmt.Sprintf("of workflow %s is workflows[%d] too", w.WorkflowID, j), "name each version once")
		}
		first[id] = i
		all.workflows = append(all.workflows, v)
	}
	return nil
}

// compareWorkflows reports which versions are stored already, and refuses one that is stored with
// another DAG.
func (r *Registrar) compareWorkflows(ctx context.Context, versions []*schedule.WorkflowVersion) ([]WorkflowChange, error) {
	var out []WorkflowChange
	for _, w := range versions {
		change := WorkflowChange{WorkflowID: w.WorkflowID, Version: w.Version, Action: ActionUnchanged}
		stored, err := r.workflows.GetWorkflow(ctx, w.UserID, w.WorkflowID, w.Version)
		switch {
		case errors.Is(err, schedule.ErrNotFound):
			change.Action = ActionCreate
		case err != nil:
			return nil, err
		case stored.Hash != w.Hash:
			return nil, schedule.Explain(schedule.ErrExists,
				"version %d of workflow %s is stored with another DAG; give the new one a new version", w.Version, w.WorkflowID)
		}
		out = append(out, change)
	}
	return out, nil
}

// dryRun decides as an apply would, and compares the fires before and after.
func (r *Registrar) dryRun(ctx context.Context, all *upserts, out ApplyResult) (ApplyResult, error) {
	if err := r.prepare(ctx, all); err != nil {
		return out, err
	}
	req, err := all.request(r.now())
	if err != nil {
		return out, err
	}
	found, err := r.unscoped.ReadSchedules(ctx, req)
	if err != nil {
		return out, err
	}
	now := r.now()
	results, _, err := all.decide(found, now)
	if err != nil {
		return out, err
	}
	if err := r.checkQuotas(ctx, results); err != nil {
		return out, err
	}
	out.report(results, now)
	out.Forecast, err = r.forecast(ctx, results, out.Changes, now)
	return out, err
}

// report fills in the outcome of each schedule, and whether anything changed.
func (out *ApplyResult) report(results []changeResult, now time.Time) {
	for i := range results {
		d := &results[i]
		switch d.action {
		case "":
		case actionLeft:
			out.Left = append(out.Left, d.before.ScheduleID)
		default:
			out.Changes = append(out.Changes, d.change(now))
			out.Changed = out.Changed || d.action != ActionUnchanged
		}
	}
	for _, w := range out.Workflows {
		out.Changed = out.Changed || w.Action != ActionUnchanged
	}
	out.Changed = out.Changed && !out.Repeated
}

func (d *changeResult) change(now time.Time) ScheduleChange {
	if d.action == ActionDelete {
		return ScheduleChange{
			ScheduleID: d.before.ScheduleID, Action: d.action, Revision: d.before.Revision, Paused: d.before.Pause.Active(now),
		}
	}
	s := d.result.Schedule
	out := ScheduleChange{
		ScheduleID: s.ScheduleID, Action: d.action, Revision: s.Revision, NextRunAt: d.result.NextRunAt,
		Paused: s.Pause.Active(now), AdoptedFrom: d.adoptedFrom,
	}
	if d.action == ActionChange {
		out.Fields = fieldChanges(&d.before.Definition, &s.Definition)
	}
	return out
}
