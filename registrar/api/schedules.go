package api

import (
	"context"
	"math"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/carillon/carillon/internal/schedule"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
	"github.com/carillon/carillon/registrar"
)

// previewed is how many fires GetSchedule shows.
const previewed = 5

type scheduleServer struct {
	carillonv1.UnimplementedScheduleServiceServer
	write  ScheduleWriter
	read   ScheduleReader
	alerts Alerts // nil: no alerts in this process
	actor  func(context.Context) string

	backfills Backfills
	now       func() time.Time
	links     Links
}

func (s *scheduleServer) UpsertSchedule(ctx context.Context, req *carillonv1.UpsertScheduleRequest) (*carillonv1.UpsertScheduleResponse, error) {
	done, err := s.write.Upsert(ctx, upsertOf(req, s.actor(ctx)))
	if err != nil {
		return nil, err
	}
	if !done.Changed {
		// A header, because the answer of an upsert has exactly the documented members.
		_ = grpc.SetHeader(ctx, metadata.Pairs("carillon-changed", "false")) // fails only outside a call
	}
	resp := &carillonv1.UpsertScheduleResponse{ScheduleId: done.Schedule.ScheduleID, NextRunAt: timestamp(done.NextRunAt)}
	if done.Warning != "" {
		resp.Warning = &done.Warning
	}
	return resp, nil
}

func (s *scheduleServer) GetSchedule(ctx context.Context, req *carillonv1.GetScheduleRequest) (*carillonv1.GetScheduleResponse, error) {
	found, err := s.read.Get(ctx, req.GetScheduleId(), previewed)
	if err != nil {
		return nil, err
	}
	resp := &carillonv1.GetScheduleResponse{Schedule: scheduleOf(found.View), Preview: firesOf(found.Preview)}
	if s.alerts != nil && resp.GetSchedule().GetExpect() != nil {
		states, err := s.alerts.Expectations(ctx, found.Schedule.ScheduleID)
		if err != nil {
			return nil, err
		}
		resp.Schedule.Expectations = expectationsOf(states)
	}
	return resp, nil
}

func (s *scheduleServer) ListSchedules(ctx context.Context, req *carillonv1.ListSchedulesRequest) (*carillonv1.ListSchedulesResponse, error) {
	size := pageSize(req.GetPageSize())
	label, value, err := labelFilter(req.GetLabel())
	if err != nil {
		return nil, err
	}
	f := schedule.ScheduleFilter{
		UserID: req.GetUserId(), WorkflowID: req.GetWorkflowId(), ManagedBy: req.GetManagedBy(), GrantID: req.GetExecutionGrantId(), Text: req.GetQuery(),
		State: schedule.ScheduleState(req.GetState()), Failing: req.GetFailing(), LabelKey: label, LabelValue: value, Limit: size + 1,
	}
	if req.GetOrderBy() == "next_run_at" {
		if req.GetFailing() {
			return nil, schedule.Invalid("failing", true, "cannot be combined with order_by next_run_at", "leave order_by out")
		}
		return s.listUpcoming(ctx, req, f, size)
	}
	if req.NextBefore != nil {
		return nil, schedule.Invalid("next_before", req.GetNextBefore().AsTime().Format(time.RFC3339), "has no meaning for this order", "set order_by to next_run_at")
	}
	if f.After, err = schedulesPage.id(req.GetPageToken()); err != nil {
		return nil, err
	}
	rows, err := s.read.List(ctx, f)
	if err != nil {
		return nil, err
	}
	shown, more := page(rows, size, func(v *registrar.View) int { return len(v.Schedule.Input) })
	resp := &carillonv1.ListSchedulesResponse{}
	for _, v := range shown {
		resp.Schedules = append(resp.Schedules, scheduleOf(v))
	}
	if more {
		resp.NextPageToken = schedulesPage.token(shown[len(shown)-1].Schedule.ScheduleID)
	}
	return resp, nil
}

func (s *scheduleServer) listUpcoming(ctx context.Context, req *carillonv1.ListSchedulesRequest, f schedule.ScheduleFilter, size int) (*carillonv1.ListSchedulesResponse, error) {
	var err error
	f.NextBefore = fromTimestamp(req.GetNextBefore())
	if f.AfterNext, f.After, err = upcomingAfter(req.GetPageToken()); err != nil {
		return nil, err
	}
	rows, err := s.read.ListUpcoming(ctx, f)
	if err != nil {
		return nil, err
	}
	shown, more := page(rows, size, func(v *registrar.UpcomingView) int { return len(v.Schedule.Input) })
	resp := &carillonv1.ListSchedulesResponse{}
	for _, v := range shown {
		resp.Schedules = append(resp.Schedules, scheduleOf(v.View))
	}
	if more {
		last := &shown[len(shown)-1]
		resp.NextPageToken = upcomingPlace(last.At, last.Schedule.ScheduleID)
	}
	return resp, nil
}

func (s *scheduleServer) GetOverview(ctx context.Context, req *carillonv1.GetOverviewRequest) (*carillonv1.GetOverviewResponse, error) {
	n, err := s.read.Overview(ctx, schedule.FleetQuery{
		UserID: req.GetUserId(), NextBefore: fromTimestamp(req.GetNextBefore()), FailedSince: fromTimestamp(req.GetFailedSince()),
	})
	if err != nil {
		return nil, err
	}
	return &carillonv1.GetOverviewResponse{
		ActiveSchedules: uint32(n.Active), UpcomingSchedules: uint32(n.Upcoming), BehindSchedules: uint32(n.Behind),
		RunsInFlight: uint32(n.InFlight), RunsWaiting: uint32(n.Waiting), RunsLate: uint32(n.Late), RunsFailed: uint32(n.Failed),
	}, nil
}

// labelFilter reads NAME=VALUE, or NAME for any value. Without a name it would be
// no filter at all.
func labelFilter(text string) (name, value string, err error) {
	name, value, _ = strings.Cut(text, "=")
	if name == "" && text != "" {
		return "", "", schedule.Invalid("label", text, "has no name before the =", "write NAME=VALUE, or NAME for any value")
	}
	return name, value, nil
}

func (s *scheduleServer) PauseSchedule(ctx context.Context, req *carillonv1.PauseScheduleRequest) (*carillonv1.PauseScheduleResponse, error) {
	v, err := s.write.Pause(ctx, registrar.PauseInput{
		ScheduleID: req.GetScheduleId(), Note: req.GetNote(), Until: fromTimestamp(req.GetUntil()), Actor: s.actor(ctx),
		EndQueued: req.GetQueued() == "end",
	})
	if err != nil {
		return nil, err
	}
	return &carillonv1.PauseScheduleResponse{Schedule: scheduleOf(v.View), Queued: count32(int64(v.Queued)), Ended: count32(int64(v.Ended))}, nil
}

func (s *scheduleServer) ResumeSchedule(ctx context.Context, req *carillonv1.ResumeScheduleRequest) (*carillonv1.ResumeScheduleResponse, error) {
	v, err := s.write.Resume(ctx, registrar.ResumeInput{ScheduleID: req.GetScheduleId(), Note: req.GetNote(), Actor: s.actor(ctx)})
	if err != nil {
		return nil, err
	}
	return &carillonv1.ResumeScheduleResponse{Schedule: scheduleOf(v)}, nil
}

func (s *scheduleServer) SetPaused(ctx context.Context, req *carillonv1.SetPausedRequest) (*carillonv1.SetPausedResponse, error) {
	var err error
	if req.GetPaused() {
		_, err = s.write.Pause(ctx, registrar.PauseInput{ScheduleID: req.GetScheduleId(), Actor: s.actor(ctx), KeepPaused: true})
	} else {
		_, err = s.write.Resume(ctx, registrar.ResumeInput{ScheduleID: req.GetScheduleId(), Actor: s.actor(ctx)})
	}
	if err != nil {
		return nil, err
	}
	return &carillonv1.SetPausedResponse{}, nil
}

func (s *scheduleServer) DeleteSchedule(ctx context.Context, req *carillonv1.DeleteScheduleRequest) (*carillonv1.DeleteScheduleResponse, error) {
	if err := s.write.Delete(ctx, req.GetScheduleId(), s.actor(ctx)); err != nil {
		return nil, err
	}
	return &carillonv1.DeleteScheduleResponse{}, nil
}

func (s *scheduleServer) TriggerSchedule(ctx context.Context, req *carillonv1.TriggerScheduleRequest) (*carillonv1.TriggerScheduleResponse, error) {
	run, err := s.write.Trigger(ctx, registrar.TriggerInput{
		ScheduleID: req.GetScheduleId(), RequestID: req.GetRequestId(), Input: rawOf(req.GetInput()),
		OverlapPolicy: schedule.OverlapPolicy(req.GetOverlapPolicy()), Actor: s.actor(ctx),
	})
	if err != nil {
		return nil, err
	}
	return &carillonv1.TriggerScheduleResponse{Run: runOf(&run)}, nil
}

func (s *scheduleServer) PreviewSchedule(ctx context.Context, req *carillonv1.PreviewScheduleRequest) (*carillonv1.PreviewScheduleResponse, error) {
	in := registrar.PreviewInput{
		ScheduleID: req.GetScheduleId(), Spec: specOf(req),
		From: fromTimestamp(req.GetFrom()), To: fromTimestamp(req.GetTo()), Count: pageSize(req.GetPageSize()),
	}
	if err := checkPreview(req, in); err != nil {
		return nil, err
	}
	begin, err := previewPage.positive(req.GetPageToken(), schedule.MaxTime.Unix())
	if err != nil {
		return nil, err
	}
	if begin > 0 {
		in.From = time.Unix(begin, 0).UTC()
	}
	fires, next, err := s.read.Preview(ctx, in)
	if err != nil {
		return nil, err
	}
	resp := &carillonv1.PreviewScheduleResponse{Fires: firesOf(fires)}
	if !next.IsZero() {
		resp.NextPageToken = previewPage.number(next.Unix())
	}
	return resp, nil
}

// checkPreview refuses a preview without a schedule or rule, and one that changes a saved schedule
// incompletely.
func checkPreview(req *carillonv1.PreviewScheduleRequest, in registrar.PreviewInput) error {
	if in.Spec != nil {
		return nil
	}
	var c schedule.Collect
	if in.ScheduleID == "" {
		c.Note("schedule_id", "is required", "or give one of cron_expr, interval_ms and once_at")
	}
	const alone = "is not allowed for a saved schedule"
	for field, given := range map[string]bool{
		"timezone": req.Timezone != nil, "start_at": req.StartAt != nil, "end_at": req.EndAt != nil,
		"jitter_ms": req.JitterMs != nil, "dst": req.Dst != nil,
	} {
		if given {
			c.Note(field, alone, "give a rule with cron_expr, interval_ms or once_at, or schedule_id alone")
		}
	}
	return c.Err()
}

func (s *scheduleServer) ListScheduleEvents(ctx context.Context, req *carillonv1.ListScheduleEventsRequest) (*carillonv1.ListScheduleEventsResponse, error) {
	before, err := eventsPage.positive(req.GetPageToken(), math.MaxInt64)
	if err != nil {
		return nil, err
	}
	size := pageSize(req.GetPageSize())
	rows, err := s.read.Events(ctx, req.GetScheduleId(), before, size+1)
	if err != nil {
		return nil, err
	}
	shown, more := page(rows, size, small)
	resp := &carillonv1.ListScheduleEventsResponse{}
	for i := range shown {
		resp.Events = append(resp.Events, eventOf(&shown[i]))
	}
	if more {
		resp.NextPageToken = eventsPage.number(shown[len(shown)-1].ID)
	}
	return resp, nil
}

func (s *scheduleServer) ListRevisions(ctx context.Context, req *carillonv1.ListRevisionsRequest) (*carillonv1.ListRevisionsResponse, error) {
	before, err := revisionsPage.positive(req.GetPageToken(), math.MaxInt64)
	if err != nil {
		return nil, err
	}
	size := pageSize(req.GetPageSize())
	rows, err := s.read.Revisions(ctx, req.GetScheduleId(), before, size+1)
	if err != nil {
		return nil, err
	}
	shown, more := page(rows, size, func(r *schedule.Revision) int { return len(r.Definition.Input) })
	resp := &carillonv1.ListRevisionsResponse{}
	for i := range shown {
		resp.Revisions = append(resp.Revisions, revisionOf(&shown[i]))
	}
	if more {
		resp.NextPageToken = revisionsPage.number(shown[len(shown)-1].Revision)
	}
	return resp, nil
}
