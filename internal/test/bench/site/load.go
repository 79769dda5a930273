package site

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/carillon/carillon/internal/test/bench/record"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

// workflow is what all schedules start.
const workflow = "bench"

// setSize is how many schedules one call of ApplySchedules takes.
const setSize = 5000

// LoadRate is how many schedules a second a deployment registers: half of what
// it did when it was warmed up, for the harness to plan the instant by.
func (s *Site) LoadRate() int { return max(500, s.rate/2) }

// Warm runs n slots, so that connections are open, statements prepared and statistics
// realistic; then it clears the record.
func (s *Site) Warm(ctx context.Context, n int) error {
	ahead := 3*time.Second + time.Duration(n)*time.Second/time.Duration(s.LoadRate())
	work := record.Work{N: n, Rounds: 1, First: time.Now().Add(ahead).Truncate(time.Second)}
	once := func() *carillonv1.UpsertScheduleRequest {
		return &carillonv1.UpsertScheduleRequest{WorkflowId: workflow, Version: 1, OverlapPolicy: &s.o.Overlap, OnceAt: timestamppb.New(work.First)}
	}
	began := time.Now()
	if err := s.Register(ctx, "warm-", n, once); err != nil {
		return err
	}
	s.rate = int(float64(n) / time.Since(began).Seconds())
	for look := time.NewTicker(100 * time.Millisecond); ; <-look.C {
		settled, _, err := s.Settled(ctx, work)
		if err != nil {
			return err
		}
		if settled == n {
			look.Stop()
			return s.Forget()
		}
		if late := time.Since(work.First); late > time.Minute {
			look.Stop()
			return fmt.Errorf("warming up: %d of %d slots have ended, %s after they were due", settled, n, late.Round(time.Second))
		}
	}
}

// Load registers the schedules of the work through the registrar's API, and
// ends the registrar where it is a process of its own: it has no part in what
// follows.
func (s *Site) Load(ctx context.Context, work record.Work) error {
	if err := s.Fill(ctx, "s", work); err != nil || s.db == nil {
		return err
	}
	if err := s.EndRegistrar(); err != nil {
		return err
	}
	return s.db.Rest(ctx)
}

// Fill registers the schedules of the work, named prefix0 and so on.
func (s *Site) Fill(ctx context.Context, prefix string, work record.Work) error {
	return s.Register(ctx, prefix, work.N, s.definition(work))
}

// EndRegistrar ends the registrar where it is a process of its own.
func (s *Site) EndRegistrar() error {
	err := s.registrar.Stop()
	s.registrar = nil
	return err
}

// Tail is how long the slots of a stream go on after it: as far as the worker
// plans ahead, so that it plans while the stream is measured.
func (s *Site) Tail() time.Duration {
	if given, err := strconv.Atoi(os.Getenv("LOOKAHEAD_MS")); err == nil {
		return time.Duration(given) * time.Millisecond
	}
	return time.Minute
}

// definition of a schedule that falls due at the instants of the work.
func (s *Site) definition(work record.Work) func() *carillonv1.UpsertScheduleRequest {
	return func() *carillonv1.UpsertScheduleRequest {
		r := &carillonv1.UpsertScheduleRequest{WorkflowId: workflow, Version: 1, OverlapPolicy: &s.o.Overlap}
		switch first := work.First.UTC(); {
		case work.Rounds > 1:
			every := uint32(1000)
			r.IntervalMs, r.StartAt, r.EndAt = &every, timestamppb.New(first), timestamppb.New(work.End())
		case s.o.Spec == "once":
			r.OnceAt = timestamppb.New(first)
		default:
			daily := fmt.Sprintf("%d %d %d * * *", first.Second(), first.Minute(), first.Hour())
			r.CronExpr = &daily
		}
		return r
	}
}

// Register makes n schedules of the owners in turn, named prefix0 and so on, in
// sets of at most 5,000.
func (s *Site) Register(ctx context.Context, prefix string, n int, define func() *carillonv1.UpsertScheduleRequest) error {
	i := -1
	return s.registerEach(ctx, prefix, n, func() *carillonv1.UpsertScheduleRequest {
		i++
		r := define()
		r.UserId = s.owner(i)
		return r
	})
}

// registerEach is Register for schedules that name their owner.
func (s *Site) registerEach(ctx context.Context, prefix string, n int, define func() *carillonv1.UpsertScheduleRequest) error {
	conn, err := s.connect(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	client := carillonv1.NewScheduleServiceClient(conn)
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(2)
	for from := 0; from < n; from += setSize {
		set := &carillonv1.ApplySchedulesRequest{Set: fmt.Sprint(prefix, "-", from)}
		for i := from; i < min(n, from+setSize); i++ {
			r := define()
			r.ScheduleId = fmt.Sprint(prefix, i)
			set.Schedules = append(set.Schedules, r)
		}
		g.Go(func() error {
			_, err := client.ApplySchedules(ctx, set)
			return err
		})
	}
	return g.Wait()
}

func (s *Site) owner(i int) string { return fmt.Sprint("owner-", i%s.o.Owners) }

// connect reaches the registrar, and stores the workflow.
func (s *Site) connect(ctx context.Context) (*grpc.ClientConn, error) {
	conn, err := grpc.NewClient(s.addr, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(64<<20), grpc.WaitForReady(true)))
	if err != nil {
		return nil, err
	}
	_, err = carillonv1.NewWorkflowServiceClient(conn).PutWorkflowVersion(ctx, &carillonv1.PutWorkflowVersionRequest{
		WorkflowId: workflow, Version: 1, Dag: []byte(`{"steps":[]}`),
	})
	if err != nil {
		return nil, fmt.Errorf("store the workflow: %w", err)
	}
	return conn, nil
}

// Planned counts the slots of the work that are durable rows before they are due.
func (s *Site) Planned(ctx context.Context, work record.Work) (n int, err error) {
	n, _, err = s.ledger(ctx, work, "PLANNED")
	return n, err
}

// Settled counts the slots of the work whose SUCCESS is durable, and says when
// the last was written. Where the queue keeps only failures, jobs are counted by the minute, and the
// last is not known.
func (s *Site) Settled(ctx context.Context, work record.Work) (n int, last time.Time, err error) {
	if n, last, err = s.ledger(ctx, work, "SUCCESS"); err != nil || s.o.History != "failed" {
		return n, last, err
	}
	counted, err := s.countedJobs(ctx)
	if counted > 0 {
		last = time.Time{}
	}
	return n + counted, last, err
}
