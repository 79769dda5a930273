package site

import (
	"context"
	"fmt"
	"sync"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

// aheadSchedules are what a neighbour forecasts: none of them fires for two hours.
const aheadSchedules = 500

// Ahead is the results of the calls of LookAhead.
type Ahead struct{ Answered, Refused, Failed int }

// RegisterAhead registers the schedules of a neighbour who looks ahead.
func (s *Site) RegisterAhead(ctx context.Context) error {
	every, begin := "* * * * * *", timestamppb.New(time.Now().Add(2*time.Hour).Truncate(time.Second))
	define := func() *carillonv1.UpsertScheduleRequest {
		return &carillonv1.UpsertScheduleRequest{WorkflowId: workflow, Version: 1, CronExpr: &every, StartAt: begin}
	}
	return s.Register(ctx, "ahead-", aheadSchedules, define)
}

// LookAhead keeps a number of expensive calls open until ctx ends: simulations of a
// thousand waiting runs, forecasts of a day, dry runs of a set. It repeats a refused call
// after the time that the refusal names.
func (s *Site) LookAhead(ctx context.Context, open int) (out Ahead, err error) {
	conn, err := s.connect(ctx)
	if err != nil {
		return out, err
	}
	defer conn.Close()
	client := carillonv1.NewScheduleServiceClient(conn)
	var mu sync.Mutex
	var calls sync.WaitGroup
	for i := range open {
		calls.Go(func() {
			for ctx.Err() == nil {
				err := lookAhead(ctx, client, i)
				mu.Lock()
				switch status.Code(err) {
				case codes.OK:
					out.Answered++
				case codes.ResourceExhausted:
					out.Refused++
				case codes.Canceled, codes.DeadlineExceeded:
				default:
					out.Failed++
				}
				mu.Unlock()
				if err != nil {
					pause(ctx, retryDelay(err))
				}
			}
		})
	}
	calls.Wait()
	return out, nil
}

func lookAhead(ctx context.Context, client carillonv1.ScheduleServiceClient, i int) (err error) {
	switch i % 3 {
	case 0:
		_, err = client.SimulateSchedules(ctx, dearSimulation())
	case 1:
		_, err = client.ForecastLaunches(ctx, &carillonv1.ForecastLaunchesRequest{})
	default:
		_, err = client.ApplySchedules(ctx, dearDryRun())
	}
	return err
}

// dearSimulation queues a run each second, up to the most that may wait.
func dearSimulation() *carillonv1.SimulateSchedulesRequest {
	every, queue, queued, duration := "* * * * * *", "queue", uint32(1000), uint32(1100)
	begin := time.Now().Truncate(time.Second)
	return &carillonv1.SimulateSchedulesRequest{
		From: timestamppb.New(begin), Until: timestamppb.New(begin.Add(10_000 * time.Second)),
		Schedules: []*carillonv1.SimulatedSchedule{{
			CronExpr: &every, OverlapPolicy: &queue, MaxQueued: &queued, Run: &carillonv1.AssumedRun{DurationMs: &duration},
		}},
	}
}

func dearDryRun() *carillonv1.ApplySchedulesRequest {
	every := "*/5 * * * * *"
	in := &carillonv1.ApplySchedulesRequest{Set: "ahead-dry", DryRun: true}
	for i := range aheadSchedules {
		in.Schedules = append(in.Schedules, &carillonv1.UpsertScheduleRequest{
			ScheduleId: fmt.Sprint("dry-", i), WorkflowId: workflow, Version: 1, UserId: "ahead", CronExpr: &every,
		})
	}
	return in
}

// retryDelay is when a refused call may be made again.
func retryDelay(err error) time.Duration {
	for _, detail := range status.Convert(err).Details() {
		if again, ok := detail.(*errdetails.RetryInfo); ok {
			return again.GetRetryDelay().AsDuration()
		}
	}
	return 50 * time.Millisecond
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
