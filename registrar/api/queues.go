package api

import (
	"cmp"
	"context"
	"math"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/carillon/carillon/internal/schedule"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
	"github.com/carillon/carillon/registrar"
)

type queueServer struct {
	carillonv1.UnimplementedQueueServiceServer
	queues Queues
	runs   Runs
	actor  func(context.Context) string
	now    func() time.Time
	ending <-chan struct{}
	links  Links
	waits  *waits
}

// How far the runs of a queue are counted.
const (
	countedOfOne  = 100_000
	countedInList = 10_000
)

func (s *queueServer) UpsertQueue(ctx context.Context, req *carillonv1.UpsertQueueRequest) (*carillonv1.UpsertQueueResponse, error) {
	q, err := s.queues.UpsertQueue(ctx, registrar.QueueInput{
		QueueDefinition: schedule.QueueDefinition{
			QueueID: req.GetQueueId(), UserID: req.GetUserId(), Shared: req.GetShared(), MaxInFlight: req.GetMaxInFlight(),
			RunTimeoutMS: req.GetRunTimeoutMs(), MaxRunMS: req.GetMaxRunMs(), ExpiresMS: req.GetExpiresMs(), Retry: queueRetryIn(req.GetRetry()),
			Backpressure: schedule.Backpressure(req.GetBackpressure()), Labels: req.GetLabels(), ManagedBy: req.GetManagedBy(),
			Rate: rateFrom(req.GetRate()), Limits: req.GetLimits(), PromoteAfterMS: req.GetPromoteAfterMs(),
			MaxReservations: req.GetMaxReservations(), Delivery: schedule.Delivery(req.GetDelivery()), Workers: req.GetWorkers(), HeartbeatMS: req.GetHeartbeatMs(),
			Fair: schedule.Fairness(req.GetFair()), Weights: req.GetWeights(),
			Webhook: req.GetWebhook(), WebhookEvents: webhookEvents(req.GetWebhookEvents()), History: schedule.History(req.GetHistory()), Expect: queueExpectIn(req.GetExpect()),
		},
		MaxWaiting: req.MaxWaiting, Actor: s.actor(ctx),
	})
	if err == nil {
		q, err = s.queues.GetQueue(ctx, q.QueueID) // with its number
	}
	shown, err := s.shown(ctx, q, err)
	if err != nil {
		return nil, err
	}
	return &carillonv1.UpsertQueueResponse{Queue: shown}, nil
}

func (s *queueServer) GetQueue(ctx context.Context, req *carillonv1.GetQueueRequest) (*carillonv1.GetQueueResponse, error) {
	q, err := s.queues.GetQueue(ctx, req.GetQueueId())
	shown, err := s.shown(ctx, q, err)
	if err != nil {
		return nil, err
	}
	if shown.Schedules, err = s.queues.SchedulesOfQueue(ctx, q.QueueID); err != nil {
		return nil, err
	}
	shares, err := s.queues.QueueShares(ctx, q)
	for _, share := range shares {
		shown.Shares = append(shown.Shares, &carillonv1.QueueShare{
			FairKey: share.Key, Weight: q.Weight(share.Key), Waiting: count32(int64(share.Waiting)), First: count32(int64(share.First)),
		})
	}
	if err == nil {
		shown.Fetching, err = s.workersOf(ctx, q)
	}
	return &carillonv1.GetQueueResponse{Queue: shown}, err
}

// shown is a queue with its counts; an error is passed on.
func (s *queueServer) shown(ctx context.Context, q *schedule.Queue, err error) (*carillonv1.Queue, error) {
	if err != nil {
		return nil, err
	}
	return s.counted(ctx, q, countedOfOne)
}

func (s *queueServer) counted(ctx context.Context, q *schedule.Queue, limit int) (*carillonv1.Queue, error) {
	c, err := s.queues.QueueCounts(ctx, q, limit)
	if err != nil {
		return nil, err
	}
	out := queueOf(q, s.now())
	out.Waiting, out.Delayed, out.Chained, out.InFlight, out.OldestEnqueuedAt = uint32(c.Waiting), uint32(c.Delayed), uint32(c.Chained), uint32(c.InFlight), timestamp(c.WaitingSince)
	out.Reserved, out.Reserving = uint32(c.Reserved), uint32(c.Reserving)
	if out.StartsPerMinute, out.EndsPerMinute, err = s.queues.QueuePace(ctx, q); err != nil {
		return nil, err
	}
	if out.Promises, err = s.promises(ctx, q, c); err != nil {
		return nil, err
	}
	if c.Stall.Until.After(s.now()) {
		out.StalledUntil, out.StallReason = timestamp(c.Stall.Until), c.Stall.Reason
	}
	return out, nil
}

func (s *queueServer) ListQueues(ctx context.Context, req *carillonv1.ListQueuesRequest) (*carillonv1.ListQueuesResponse, error) {
	after, err := queuesPage.id(req.GetPageToken())
	if err != nil {
		return nil, err
	}
	size := pageSize(req.GetPageSize())
	rows, err := s.queues.ListQueues(ctx, schedule.QueueFilter{UserID: req.GetUserId(), After: after, Limit: size + 1})
	if err != nil {
		return nil, err
	}
	shown, more := page(rows, size, small)
	resp := &carillonv1.ListQueuesResponse{}
	for i := range shown {
		q, err := s.counted(ctx, &shown[i], countedInList)
		if err != nil {
			return nil, err
		}
		resp.Queues = append(resp.Queues, q)
	}
	if more {
		resp.NextPageToken = queuesPage.token(shown[len(shown)-1].QueueID)
	}
	return resp, nil
}

func (s *queueServer) DeleteQueue(ctx context.Context, req *carillonv1.DeleteQueueRequest) (*carillonv1.DeleteQueueResponse, error) {
	done, err := s.queues.DeleteQueue(ctx, registrar.DeleteQueueInput{QueueID: req.GetQueueId(), Force: req.GetForce(), Note: req.GetNote(), Actor: s.actor(ctx)})
	if err != nil {
		return nil, err
	}
	return &carillonv1.DeleteQueueResponse{Cancelled: uint32(done.Cancelled), CancelRequested: uint32(done.Requested)}, nil
}

func (s *queueServer) PauseQueue(ctx context.Context, req *carillonv1.PauseQueueRequest) (*carillonv1.PauseQueueResponse, error) {
	paused, err := s.queues.PauseQueue(ctx, registrar.PauseQueueInput{
		QueueID: req.GetQueueId(), Note: req.GetNote(), Until: fromTimestamp(req.GetUntil()), CancelWaiting: req.GetCancelWaiting(), Actor: s.actor(ctx),
	})
	shown, err := s.shown(ctx, paused.Queue, err)
	if err != nil {
		return nil, err
	}
	return &carillonv1.PauseQueueResponse{Queue: shown, Cancelled: uint32(paused.Cancelled)}, nil
}

func (s *queueServer) ResumeQueue(ctx context.Context, req *carillonv1.ResumeQueueRequest) (*carillonv1.ResumeQueueResponse, error) {
	q, err := s.queues.ResumeQueue(ctx, req.GetQueueId(), req.GetNote(), s.actor(ctx))
	shown, err := s.shown(ctx, q, err)
	if err != nil {
		return nil, err
	}
	return &carillonv1.ResumeQueueResponse{Queue: shown}, nil
}

func (s *queueServer) CloseQueue(ctx context.Context, req *carillonv1.CloseQueueRequest) (*carillonv1.CloseQueueResponse, error) {
	q, err := s.queues.CloseQueue(ctx, req.GetQueueId(), req.GetNote(), s.actor(ctx))
	shown, err := s.shown(ctx, q, err)
	if err != nil {
		return nil, err
	}
	return &carillonv1.CloseQueueResponse{Queue: shown}, nil
}

func (s *queueServer) OpenQueue(ctx context.Context, req *carillonv1.OpenQueueRequest) (*carillonv1.OpenQueueResponse, error) {
	q, err := s.queues.OpenQueue(ctx, req.GetQueueId(), req.GetNote(), s.actor(ctx))
	shown, err := s.shown(ctx, q, err)
	if err != nil {
		return nil, err
	}
	return &carillonv1.OpenQueueResponse{Queue: shown}, nil
}

func (s *queueServer) ListQueueEvents(ctx context.Context, req *carillonv1.ListQueueEventsRequest) (*carillonv1.ListQueueEventsResponse, error) {
	before, err := queueLogPage.positive(req.GetPageToken(), math.MaxInt64)
	if err != nil {
		return nil, err
	}
	size := pageSize(req.GetPageSize())
	rows, err := s.queues.ListQueueEvents(ctx, req.GetQueueId(), before, size+1)
	if err != nil {
		return nil, err
	}
	shown, more := page(rows, size, small)
	resp := &carillonv1.ListQueueEventsResponse{}
	for i := range shown {
		e := &shown[i]
		resp.Events = append(resp.Events, &carillonv1.QueueEvent{Time: timestamp(e.Time), Kind: string(e.Kind), Actor: e.Actor, Note: e.Note, Revision: count32(e.Revision)})
	}
	if more {
		resp.NextPageToken = queueLogPage.number(shown[len(shown)-1].ID)
	}
	return resp, nil
}

// queuedWork is the part of a request that describes one run.
type queuedWork interface {
	GetScheduleId() string
	GetWorkflowId() string
	GetVersion() int32
	GetExecutionGrantId() string
	GetInput() []byte
	GetRunAt() *timestamppb.Timestamp
	GetLimits() []string
	GetWebhook() string
	GetUnique() *carillonv1.UniqueKey
	GetFairKey() string
}

func queuedInput(w queuedWork, priority *int32, delay, attempts, expires *uint32) registrar.QueuedInput {
	in := registrar.QueuedInput{
		ScheduleID: w.GetScheduleId(), WorkflowID: w.GetWorkflowId(), Version: w.GetVersion(), ExecutionGrantID: w.GetExecutionGrantId(),
		Priority: priority, RunAt: fromTimestamp(w.GetRunAt()), DelayMS: delay, MaxAttempts: attempts, Limits: w.GetLimits(),
		Webhook: w.GetWebhook(), FairKey: w.GetFairKey(), ExpiresMS: expires, Unique: uniqueIn(w.GetUnique()),
	}
	if input := w.GetInput(); len(input) > 0 {
		in.Input = input
	}
	return in
}

func (s *queueServer) EnqueueRun(ctx context.Context, req *carillonv1.EnqueueRunRequest) (*carillonv1.EnqueueRunResponse, error) {
	wait := time.Duration(req.GetWaitMs()) * time.Millisecond
	free, err := place(s.waits.ends, wait)
	if err != nil {
		return nil, err
	}
	defer free()
	done, err := s.queues.Enqueue(ctx, registrar.EnqueueInput{
		QueueID: cmp.Or(req.GetQueueId(), schedule.DefaultQueueID), UserID: req.GetUserId(), RequestID: req.GetRequestId(), Position: req.Position, Next: req.GetNext(),
		Runs: []registrar.QueuedInput{queuedInput(req, req.Priority, req.DelayMs, req.MaxAttempts, req.ExpiresMs)}, GroupID: req.GetGroupId(), Waits: wait > 0,
		Actor: s.actor(ctx),
	})
	if err != nil {
		return nil, err
	}
	resp := &carillonv1.EnqueueRunResponse{Repeated: done.Repeated, Duplicate: done.Marks.Duplicate(0), Replaced: done.Marks.Replaced(0)}
	run, err := s.ended(ctx, cmp.Or(req.GetQueueId(), schedule.DefaultQueueID), done.Keys[0], wait)
	if err != nil {
		return nil, err
	}
	if resp.Run, err = s.placed(ctx, run); err != nil {
		return nil, err
	}
	return resp, nil
}

// placed is a run with its place in its queue.
func (s *queueServer) placed(ctx context.Context, run *schedule.Run) (*carillonv1.Run, error) {
	out := runOf(run)
	s.links.add(out)
	return out, setPosition(ctx, s.queues, run, out)
}

// setPosition sets the position of a run.
func setPosition(ctx context.Context, queues Queues, run *schedule.Run, out *carillonv1.Run) error {
	if queues == nil {
		return nil
	}
	n, err := queues.Position(ctx, run)
	out.Position = uint32(n)
	return err
}

func (s *queueServer) EnqueueRuns(ctx context.Context, req *carillonv1.EnqueueRunsRequest) (*carillonv1.EnqueueRunsResponse, error) {
	in := registrar.EnqueueInput{
		QueueID: req.GetQueueId(), UserID: req.GetUserId(), RequestID: req.GetRequestId(), Position: req.Position, Next: req.GetNext(), Batch: true, Actor: s.actor(ctx),
	}
	for _, run := range req.GetRuns() {
		in.Runs = append(in.Runs, queuedInput(run, run.Priority, run.DelayMs, run.MaxAttempts, run.ExpiresMs))
	}
	done, err := s.queues.Enqueue(ctx, in)
	if err != nil {
		return nil, err
	}
	resp := &carillonv1.EnqueueRunsResponse{Repeated: done.Repeated, IdempotencyKeys: make([]string, len(done.Keys))}
	for i, key := range done.Keys {
		resp.IdempotencyKeys[i] = key.String()
		if done.Marks.Duplicate(i) {
			resp.Duplicates = append(resp.Duplicates, uint32(i))
		}
		if done.Marks.Replaced(i) {
			resp.Replaced = append(resp.Replaced, uint32(i))
		}
	}
	return resp, nil
}

func (s *queueServer) ListWaiting(ctx context.Context, req *carillonv1.ListWaitingRequest) (*carillonv1.ListWaitingResponse, error) {
	offset, err := waitingPage.positive(req.GetPageToken(), math.MaxInt32)
	if err != nil {
		return nil, err
	}
	rows, err := s.queues.ListWaiting(ctx, registrar.WaitingInput{QueueID: req.GetQueueId(), Offset: int(offset), Limit: pageSize(req.GetPageSize())})
	if err != nil {
		return nil, err
	}
	resp := &carillonv1.ListWaitingResponse{}
	for i := range rows.Runs {
		run := runOf(&rows.Runs[i])
		run.Position = uint32(rows.Positions[i])
		s.links.add(run)
		resp.Runs = append(resp.Runs, run)
	}
	if rows.Next > 0 {
		resp.NextPageToken = waitingPage.number(int64(rows.Next))
	}
	return resp, nil
}

func (s *runServer) UpdateRun(ctx context.Context, req *carillonv1.UpdateRunRequest) (*carillonv1.UpdateRunResponse, error) {
	if s.queues == nil {
		return nil, status.Error(codes.Unimplemented, "this server has no dispatch queues")
	}
	key, err := s.runs.RunKey(ctx, req.GetIdempotencyKey())
	if err != nil {
		return nil, err
	}
	in := registrar.UpdateRunInput{Key: key, Priority: req.Priority, RunAt: fromTimestamp(req.GetRunAt())}
	if input := req.GetInput(); len(input) > 0 {
		in.Input = input
	}
	switch {
	case req.GetClearLimits() && len(req.GetLimits()) > 0:
		return nil, schedule.Invalid("clear_limits", true, "is set together with limits", "keep one")
	case req.GetClearLimits():
		in.Limits = []string{}
	case len(req.GetLimits()) > 0:
		in.Limits = req.GetLimits()
	}
	run, err := s.queues.UpdateRun(ctx, in)
	if err != nil {
		return nil, err
	}
	out := runOf(run)
	s.links.add(out)
	return &carillonv1.UpdateRunResponse{Run: out}, setPosition(ctx, s.queues, run, out)
}

func queueOf(q *schedule.Queue, now time.Time) *carillonv1.Queue {
	out := &carillonv1.Queue{
		QueueId: q.QueueID, UserId: q.UserID, Shared: q.Shared, MaxInFlight: q.MaxInFlight, RunTimeoutMs: q.RunTimeoutMS, MaxRunMs: q.MaxRunMS, ExpiresMs: q.ExpiresMS, Retry: retryOut(q.Retry), MaxWaiting: q.MaxWaiting,
		Backpressure: string(q.Backpressure), Labels: q.Labels, ManagedBy: q.ManagedBy, Revision: count32(q.Revision),
		Paused: q.Pause.Active(now), Closed: q.Closed, CreatedAt: timestamp(q.CreatedAt), UpdatedAt: timestamp(q.UpdatedAt), Unreadable: q.Unreadable,
		Rate: rateOf(q.Rate), Limits: q.Limits, PromoteAfterMs: q.PromoteAfterMS, MaxReservations: q.MaxReservations,
		Webhook: q.Webhook, Fair: string(q.Fair), Weights: q.Weights, Delivery: string(q.Delivery), Workers: q.Workers, HeartbeatMs: q.HeartbeatMS, History: string(q.History), Expect: queueExpectOut(q.Expect),
	}
	if q.Webhook != "" || len(q.WebhookEvents) > 0 {
		for _, e := range q.WebhookOf().Events {
			out.WebhookEvents = append(out.WebhookEvents, string(e))
		}
	}
	if out.Paused {
		out.PauseNote, out.PausedBy, out.PausedUntil = q.Pause.Note, q.Pause.By, timestamp(q.Pause.Until)
	}
	return out
}

func webhookEvents(words []string) []schedule.WebhookEvent {
	events := make([]schedule.WebhookEvent, len(words))
	for i, word := range words {
		events[i] = schedule.WebhookEvent(word)
	}
	return events
}
