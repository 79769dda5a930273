package api

import (
	"context"

	"github.com/carillon/carillon/internal/schedule"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
	"github.com/carillon/carillon/registrar"
)

func (s *runServer) CancelRuns(ctx context.Context, req *carillonv1.CancelRunsRequest) (*carillonv1.CancelRunsResponse, error) {
	var place registrar.CancelPlace
	var err error
	if place.RunAt, place.Key, err = cancelPage.runAfter(req.GetPageToken()); err != nil {
		return nil, err
	}
	filter, err := openFilter(req.GetFilter())
	if err != nil {
		return nil, err
	}
	filter.Limit = int(req.GetPageSize())
	if filter.QueueNo, err = s.queueNo(ctx, req.GetFilter().GetQueueId()); err != nil {
		return nil, err
	}
	done, err := s.runs.CancelRuns(ctx, registrar.CancelRunsInput{
		Filter: filter, Note: req.GetNote(), DryRun: req.GetDryRun(), Page: place, Actor: s.actor(ctx),
	})
	if err != nil {
		return nil, err
	}
	resp := &carillonv1.CancelRunsResponse{Cancelled: uint32(done.Cancelled), CancelRequested: uint32(done.Requested)}
	for _, of := range done.Schedules {
		resp.Schedules = append(resp.Schedules, &carillonv1.CancelledSchedule{
			ScheduleId: of.ScheduleID, Cancelled: uint32(of.Cancelled), CancelRequested: uint32(of.Requested),
		})
	}
	for i := range done.Sample {
		run := runOf(&done.Sample[i])
		s.links.add(run)
		resp.Sample = append(resp.Sample, run)
	}
	if done.Next != nil {
		resp.NextPageToken = cancelPage.runPlace(done.Next.RunAt, done.Next.Key)
	}
	return resp, nil
}

func openFilter(f *carillonv1.OpenRunFilter) (schedule.RunFilter, error) {
	out := schedule.RunFilter{
		ScheduleID: f.GetScheduleId(), UserID: f.GetUserId(), WorkflowID: f.GetWorkflowId(),
		From: fromTimestamp(f.GetFrom()), To: fromTimestamp(f.GetTo()),
	}
	var err error
	out.AnyOf, err = keysIn(f.GetKeys())
	return out, err
}

// keysIn are the keys in a filter; nil: it names none.
func keysIn(texts []string) (keys []schedule.Key, err error) {
	for _, text := range texts {
		key, err := schedule.ParseKey(text)
		if err != nil {
			return nil, err
		}
		keys = append(keys, key)
	}
	return keys, nil
}
