package site

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

// Daily is a schedule that is not due today.
func (s *Site) Daily() func() *carillonv1.UpsertScheduleRequest {
	at := time.Now().UTC().Add(12 * time.Hour)
	return func() *carillonv1.UpsertScheduleRequest {
		daily := fmt.Sprintf("%d %d * * *", at.Minute(), at.Hour())
		return &carillonv1.UpsertScheduleRequest{WorkflowId: workflow, Version: 1, OverlapPolicy: &s.o.Overlap, CronExpr: &daily}
	}
}

// Upsert registers n schedules one by one on a number of connections, and returns the
// durations of the calls.
func (s *Site) Upsert(ctx context.Context, n, connections int) ([]time.Duration, error) {
	var mu sync.Mutex
	var took []time.Duration
	define := s.Daily()
	next := make(chan int)
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		defer close(next)
		for i := range n {
			select {
			case next <- i:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return nil
	})
	for range connections {
		conn, err := s.connect(ctx)
		if err != nil {
			return nil, err
		}
		g.Go(func() error {
			defer conn.Close()
			mine, err := upsertEach(ctx, conn, next, func(i int) *carillonv1.UpsertScheduleRequest {
				r := define()
				r.ScheduleId, r.UserId = fmt.Sprint("single-", i), s.owner(i)
				return r
			})
			mu.Lock()
			defer mu.Unlock()
			took = append(took, mine...)
			return err
		})
	}
	err := g.Wait()
	slices.Sort(took)
	return took, err
}

func upsertEach(ctx context.Context, conn *grpc.ClientConn, next <-chan int, define func(int) *carillonv1.UpsertScheduleRequest) (took []time.Duration, err error) {
	client := carillonv1.NewScheduleServiceClient(conn)
	for i := range next {
		began := time.Now()
		if _, err := client.UpsertSchedule(ctx, define(i)); err != nil {
			return took, err
		}
		took = append(took, time.Since(began))
	}
	return took, nil
}
