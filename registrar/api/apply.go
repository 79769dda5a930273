package api

import (
	"context"
	"errors"
	"fmt"

	"github.com/carillon/carillon/internal/plan"
	"github.com/carillon/carillon/internal/schedule"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
	"github.com/carillon/carillon/registrar"
)

func (s *scheduleServer) ApplySchedules(ctx context.Context, req *carillonv1.ApplySchedulesRequest) (*carillonv1.ApplySchedulesResponse, error) {
	in, err := applyOf(req, s.actor(ctx))
	if err != nil {
		return nil, err
	}
	done, err := s.write.ApplySchedules(ctx, in)
	if err != nil {
		return nil, err
	}
	resp := &carillonv1.ApplySchedulesResponse{Left: done.Left, Changed: done.Changed, DoneBefore: done.Repeated}
	for i := range done.Changes {
		resp.Changes = append(resp.Changes, changeOf(&done.Changes[i]))
	}
	for _, w := range done.Workflows {
		resp.Workflows = append(resp.Workflows, &carillonv1.WorkflowChange{
			WorkflowId: w.WorkflowID, Version: w.Version, Action: string(w.Action),
		})
	}
	if f := done.Forecast; f != nil {
		resp.Forecast = &carillonv1.LaunchForecast{Until: timestamp(f.Until), Before: peakOf(f.Before), After: peakOf(f.After)}
	}
	return resp, nil
}

// applyOf is a set as the registrar takes it: triggers of its DAGs become schedules. Violations
// are listed with their place in the call.
func applyOf(req *carillonv1.ApplySchedulesRequest, actor string) (registrar.ApplyInput, error) {
	in := registrar.ApplyInput{
		Set: req.GetSet(), Prune: req.GetPrune(), AllowEmpty: req.GetAllowEmpty(), Adopt: req.GetAdopt(), DryRun: req.GetDryRun(),
		RequestID: req.GetRequestId(), Actor: actor,
	}
	for i, s := range req.GetSchedules() {
		in.Schedules = append(in.Schedules, upsertOf(s, actor))
		in.Fields = append(in.Fields, fmt.Sprintf("schedules[%d].", i))
	}
	var found schedule.InvalidError
	for i, w := range req.GetWorkflows() {
		prefix := fmt.Sprintf("workflows[%d].", i)
		upserts, fields, err := scheduleTriggers(w, prefix, "set:"+req.GetSet())
		var invalid *schedule.InvalidError
		switch {
		case errors.As(err, &invalid):
			found.Violations = append(found.Violations, invalid.Violations...)
		case err != nil:
			return in, err
		}
		if w.GetRequestId() != "" || w.GetAdopt() {
			found.Violations = append(found.Violations, schedule.Violation{
				Field: prefix + "request_id", Problem: "and adopt are not allowed for one workflow of a set", Hint: "set them for the whole call",
			})
		}
		in.Workflows = append(in.Workflows, registrar.WorkflowInput{
			WorkflowID: w.GetWorkflowId(), Version: w.GetVersion(), UserID: w.GetUserId(), DAG: w.GetDag(), Field: prefix,
		})
		for _, u := range upserts {
			in.Schedules = append(in.Schedules, upsertOf(u, actor))
		}
		in.Fields = append(in.Fields, fields...)
	}
	if len(found.Violations) > 0 {
		return in, &found
	}
	return in, nil
}

func changeOf(c *registrar.ScheduleChange) *carillonv1.ScheduleChange {
	out := &carillonv1.ScheduleChange{
		ScheduleId: c.ScheduleID, Action: string(c.Action), Revision: count32(c.Revision), NextRunAt: timestamp(c.NextRunAt),
		Paused: c.Paused, AdoptedFrom: c.AdoptedFrom,
	}
	for _, f := range c.Fields {
		out.Fields = append(out.Fields, &carillonv1.FieldChange{Field: f.Field, From: f.From, To: f.To})
	}
	if f := c.Fires; f != nil {
		out.Fires = &carillonv1.FireChange{
			Added: count32(int64(f.Added)), Removed: count32(int64(f.Removed)),
			FirstAdded: firesOf(f.FirstAdded), FirstRemoved: firesOf(f.FirstRemoved), CountedUntil: timestamp(f.Until),
		}
	}
	return out
}

func peakOf(l plan.Launches) *carillonv1.LaunchPeak {
	return &carillonv1.LaunchPeak{Launches: count32(int64(l.Total)), Peak: count32(int64(l.Peak)), PeakAt: timestamp(l.PeakAt)}
}
