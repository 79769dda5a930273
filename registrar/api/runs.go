package api

import (
	"context"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/carillon/carillon/internal/auth"
	"github.com/carillon/carillon/internal/schedule"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
	"github.com/carillon/carillon/registrar"
)

type runServer struct {
	carillonv1.UnimplementedRunServiceServer
	runs   Runs
	queues Queues
	groups Groups
	actor  func(context.Context) string
	now    func() time.Time
	links  Links

	ending <-chan struct{}
}

func (s *runServer) GetRun(ctx context.Context, req *carillonv1.GetRunRequest) (*carillonv1.GetRunResponse, error) {
	key, err := s.runs.RunKey(ctx, req.GetIdempotencyKey())
	if err != nil {
		return nil, err
	}
	run, err := s.runs.GetRun(ctx, key)
	if err != nil {
		return nil, err
	}
	return s.shown(ctx, run)
}

// shown is the answer of GetRun.
func (s *runServer) shown(ctx context.Context, run *schedule.Run) (*carillonv1.GetRunResponse, error) {
	attempts, err := s.runs.LaunchAttempts(ctx, run)
	if err != nil {
		return nil, err
	}
	first, err := s.runs.FirstSent(ctx, run)
	if err != nil {
		return nil, err
	}
	resp := &carillonv1.GetRunResponse{Run: runOf(run)}
	resp.Run.Launch = launchOf(run, attempts)
	if !first.IsZero() {
		resp.FirstSentAt = proto.String(first.Format(time.RFC3339Nano))
	}
	returned, err := s.runs.RunResult(ctx, run)
	if err != nil {
		return nil, err
	}
	addResult(resp.GetRun(), returned)
	s.links.add(resp.Run)
	if err := s.addWebhookStates(ctx, []schedule.Run{*run}, []*carillonv1.Run{resp.GetRun()}); err != nil {
		return nil, err
	}
	return resp, setPosition(ctx, s.queues, run, resp.GetRun())
}

// runFilter is the common part of ListRuns, WatchRuns and ExportRuns.
type runFilter interface {
	GetScheduleId() string
	GetUserId() string
	GetWorkflowId() string
	GetStatus() []string
	GetReason() string
	GetTrigger() string
	GetFrom() *timestamppb.Timestamp
	GetTo() *timestamppb.Timestamp
}

func filterOf(req runFilter) schedule.RunFilter {
	f := schedule.RunFilter{
		ScheduleID: req.GetScheduleId(), UserID: req.GetUserId(), WorkflowID: req.GetWorkflowId(),
		Reason: schedule.Reason(req.GetReason()), Trigger: schedule.Trigger(req.GetTrigger()),
		From: fromTimestamp(req.GetFrom()), To: fromTimestamp(req.GetTo()),
	}
	for _, status := range req.GetStatus() {
		f.Statuses = append(f.Statuses, schedule.Status(status))
	}
	return f
}

func (s *runServer) ListRuns(ctx context.Context, req *carillonv1.ListRunsRequest) (*carillonv1.ListRunsResponse, error) {
	f := filterOf(req)
	f.RunID, f.TraceID, f.DueBefore = req.GetRunId(), req.GetTraceId(), fromTimestamp(req.GetDueBefore())
	f.Dead, f.ErrorCode, f.Class = req.GetDead(), req.GetErrorCode(), schedule.FailureClass(req.GetFailureClass())
	size := pageSize(req.GetPageSize())
	f.Limit = size + 1
	var err error
	if f.QueueNo, err = s.queueNo(ctx, req.GetQueueId()); err != nil {
		return nil, err
	}
	if f.GroupNo, err = s.groupNo(ctx, req.GetGroupId()); err != nil {
		return nil, err
	}
	if f.AfterRunAt, f.AfterKey, err = runAfter(req.GetPageToken()); err != nil {
		return nil, err
	}
	rows, err := s.runs.ListRuns(ctx, f)
	if err != nil {
		return nil, err
	}
	shown, more := page(rows, size, small)
	resp := &carillonv1.ListRunsResponse{}
	for i := range shown {
		run := runOf(&shown[i])
		s.links.add(run)
		resp.Runs = append(resp.Runs, run)
	}
	if err := s.addWebhookStates(ctx, shown, resp.GetRuns()); err != nil {
		return nil, err
	}
	if more {
		last := &shown[len(shown)-1]
		resp.NextPageToken = runPlace(last.RunAt, last.Key)
	}
	return resp, nil
}

func (s *runServer) ReportRun(ctx context.Context, req *carillonv1.ReportRunRequest) (*carillonv1.ReportRunResponse, error) {
	key, err := schedule.ParseKey(req.GetIdempotencyKey())
	if err != nil {
		return nil, err
	}
	returned, problem := resultOf(req)
	commit, err := commitOf(key, req)
	if err != nil {
		return nil, err
	}
	run, moved, err := s.runs.Report(ctx, registrar.ReportInput{
		Key: key, Status: schedule.Status(req.GetStatus()), RunID: req.GetRunId(),
		ErrorCode: req.GetErrorCode(), ErrorMessage: req.GetErrorMessage(), FailureClass: schedule.FailureClass(req.GetFailureClass()),
		Output: req.GetOutput(), ExitCode: req.ExitCode, LogURL: req.GetLogUrl(), Result: returned, Commit: commit, Progress: progressOf(req.GetProgress()),
		DelayMS: int64(req.GetDelayMs()), Token: reportToken(ctx),
	})
	if err != nil {
		return nil, err
	}
	return &carillonv1.ReportRunResponse{Run: runOf(&run), Moved: moved, ResultProblem: problem}, nil
}

// reportHeader carries the run's token of an executor that uses Authorization for its identity.
const reportHeader = "x-carillon-report-token"

// reportToken is the run's token, if the caller sends one. Without authentication, Authorization
// can hold no other.
func reportToken(ctx context.Context) string {
	if md, _ := metadata.FromIncomingContext(ctx); len(md.Get(reportHeader)) > 0 {
		return md.Get(reportHeader)[0]
	}
	switch auth.FromContext(ctx).Via {
	case "", auth.ViaOpen, auth.ViaReport:
		return bearer(ctx)
	}
	return ""
}

func bearer(ctx context.Context) string {
	md, _ := metadata.FromIncomingContext(ctx)
	for _, value := range md.Get("authorization") {
		if scheme, token, ok := strings.Cut(value, " "); ok && strings.EqualFold(scheme, "bearer") {
			return strings.TrimSpace(token)
		}
	}
	return ""
}

func (s *runServer) CancelRun(ctx context.Context, req *carillonv1.CancelRunRequest) (*carillonv1.CancelRunResponse, error) {
	key, err := s.runs.RunKey(ctx, req.GetIdempotencyKey())
	if err != nil {
		return nil, err
	}
	run, err := s.runs.CancelRun(ctx, registrar.CancelInput{Key: key, Note: req.GetNote(), Actor: s.actor(ctx)})
	if err != nil {
		return nil, err
	}
	return &carillonv1.CancelRunResponse{Run: runOf(&run), Effect: s.runs.CancelEffect(&run)}, nil
}

func (s *runServer) RetryRun(ctx context.Context, req *carillonv1.RetryRunRequest) (*carillonv1.RetryRunResponse, error) {
	key, err := s.retried(ctx, req)
	if err != nil {
		return nil, err
	}
	run, err := s.runs.RetryRun(ctx, registrar.RetryInput{
		Renew: req.GetRenew(),
		Key:   key, RequestID: req.GetRequestId(), OverlapPolicy: schedule.OverlapPolicy(req.GetOverlapPolicy()), Actor: s.actor(ctx),
	})
	if err != nil {
		return nil, err
	}
	return &carillonv1.RetryRunResponse{Run: runOf(&run)}, nil
}

// retried is the key of the run that a request names.
func (s *runServer) retried(ctx context.Context, req *carillonv1.RetryRunRequest) (schedule.Key, error) {
	named, byID := req.GetIdempotencyKey(), req.GetRunId()
	switch {
	case named != "" && byID != "":
		return schedule.Key{}, schedule.Invalid("run_id", byID, "is given with idempotency_key", "give one of the two")
	case named == "" && byID == "":
		return schedule.Key{}, schedule.Invalid("idempotency_key", "", "is required", "")
	case byID != "":
		return s.runs.RunOfID(ctx, byID)
	}
	return s.runs.RunKey(ctx, named)
}

// groupNo is the number of the group that a filter names; 0: it names none.
func (s *runServer) groupNo(ctx context.Context, groupID string) (int32, error) {
	if groupID == "" {
		return 0, nil
	}
	if s.groups == nil {
		return 0, status.Error(codes.Unimplemented, "this server has no groups of runs")
	}
	g, err := s.groups.GetGroup(ctx, groupID)
	if err != nil {
		return 0, err
	}
	return g.No, nil
}

// queueNo is the number of the queue that a filter names; 0: it names none.
func (s *runServer) queueNo(ctx context.Context, queueID string) (int32, error) {
	if queueID == "" {
		return 0, nil
	}
	if s.queues == nil {
		return 0, status.Error(codes.Unimplemented, "this server has no dispatch queues")
	}
	q, err := s.queues.GetQueue(ctx, queueID)
	if err != nil {
		return 0, err
	}
	return q.No, nil
}
