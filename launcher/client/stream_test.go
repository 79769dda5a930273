package client_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/launcher/api"
	"github.com/carillon/carillon/launcher/client"
	"github.com/carillon/carillon/launcher/launchertest"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

// testTimeout is longer than any step of these tests takes.
const testTimeout = 20 * time.Second

type batchStream = grpc.BidiStreamingServer[carillonv1.RunLauncherStartBatchRequest, carillonv1.RunLauncherStartBatchResponse]

// scripted is a launcher whose streams do as they are told.
type scripted struct {
	carillonv1.UnimplementedRunLauncherServer
	stream func(batchStream) error
}

func (s scripted) StartBatch(stream batchStream) error { return s.stream(stream) }

func connectScripted(t *testing.T, stream func(batchStream) error) *client.Client {
	t.Helper()
	return connect(t, serveAs(t, func(s grpc.ServiceRegistrar) { carillonv1.RegisterRunLauncherServer(s, scripted{stream: stream}) }))
}

func answering(start *carillonv1.RunLauncherStartRequest, number uint64) *carillonv1.RunLauncherStartBatchAnswer {
	return &carillonv1.RunLauncherStartBatchAnswer{
		Number: number, IdempotencyKey: start.GetIdempotencyKey(),
		Outcome: &carillonv1.RunLauncherStartResponse{Ok: true, Status: "SUCCESS", RunId: start.GetIdempotencyKey()},
	}
}

// echo answers every start, until it has taken most.
func echo(stream batchStream, most int) error {
	for n := uint64(0); ; {
		req, err := stream.Recv()
		if err != nil {
			return nil
		}
		resp := &carillonv1.RunLauncherStartBatchResponse{}
		for _, start := range req.GetStarts() {
			if n == uint64(most) {
				return status.Error(codes.Unavailable, "enough")
			}
			resp.Answers = append(resp.Answers, answering(start, n))
			n++
		}
		if err := stream.Send(resp); err != nil {
			return err
		}
	}
}

func TestWhatTheCodesOfAnAnswerMean(t *testing.T) {
	type want struct {
		reason schedule.Reason // of a definite FAILED; else it is unknown
		busy   bool
	}
	wants := map[codes.Code]want{
		codes.AlreadyExists:   {reason: schedule.ReasonKeyConflict},
		codes.InvalidArgument: {reason: schedule.ReasonLaunchRefused},
		codes.Aborted:         {busy: true},
	}
	for code := codes.OK; code <= codes.Unauthenticated; code++ {
		for _, whole := range []bool{false, true} { // the stream ends with it
			t.Run(fmt.Sprintf("%s, of the stream %v", code, whole), func(t *testing.T) {
				c := connectScripted(t, func(stream batchStream) error {
					req, err := stream.Recv()
					if err != nil || whole {
						return status.Error(code, "so")
					}
					_ = stream.Send(&carillonv1.RunLauncherStartBatchResponse{Answers: []*carillonv1.RunLauncherStartBatchAnswer{
						{IdempotencyKey: req.GetStarts()[0].GetIdempotencyKey(), Code: uint32(code), Message: "so"},
					}})
					_, _ = stream.Recv()
					return nil
				})
				reply, err := c.Start(t.Context(), request(0))
				want := wants[code]
				if whole {
					want.reason, want.busy = "", false // it says nothing of one start
				}
				if definite := err == nil; definite != (want.reason != "") || reply.Outcome.Reason != want.reason {
					t.Errorf("Start() = %+v, %v; definite with reason %q is wanted (empty: an error)", reply, err, want.reason)
				}
				if errors.Is(err, schedule.ErrBusy) != want.busy {
					t.Errorf("Start() = %v; busy %v is wanted", err, want.busy)
				}
			})
		}
	}
}

func TestAnAnswerWithAnotherKeyIsNotTaken(t *testing.T) {
	c := connectScripted(t, func(stream batchStream) error {
		req, err := stream.Recv()
		if err != nil {
			return err
		}
		wrong := answering(req.GetStarts()[0], 0)
		wrong.IdempotencyKey = request(9).Key.String()
		_ = stream.Send(&carillonv1.RunLauncherStartBatchResponse{Answers: []*carillonv1.RunLauncherStartBatchAnswer{wrong, {Number: 77}}})
		_, _ = stream.Recv()
		return nil
	})
	if reply, err := c.Start(t.Context(), request(0)); err == nil {
		t.Errorf("Start() = %+v, want an error", reply)
	}
}

func TestAStreamThatBreaksIsFollowedByAnother(t *testing.T) {
	streams := make(chan struct{}, 10)
	c := connectScripted(t, func(stream batchStream) error {
		streams <- struct{}{}
		return echo(stream, 1)
	})
	for i := range 3 {
		if reply, err := c.Start(t.Context(), request(i)); err != nil || reply.Outcome.RunID != request(i).Key.String() {
			t.Fatalf("Start() = %+v, %v", reply, err)
		}
		if reply, err := c.Start(t.Context(), request(i)); status.Code(errors.Unwrap(err)) != codes.Unavailable {
			t.Fatalf("of what the broken stream had: %+v, %v, want UNAVAILABLE", reply, err)
		}
	}
	if len(streams) != 3 {
		t.Errorf("%d streams for three that broke", len(streams))
	}
}

func TestManyStartsShareOneStream(t *testing.T) {
	streams := make(chan struct{}, 100)
	c := connectScripted(t, func(stream batchStream) error {
		streams <- struct{}{}
		return echo(stream, 1<<30)
	})
	var wg sync.WaitGroup
	for i := range 5000 {
		wg.Go(func() {
			req := request(i)
			if i%100 == 0 {
				req.Input = make([]byte, schedule.MaxInputBytes)
			}
			if reply, err := c.Start(t.Context(), req); err != nil || reply.Outcome.RunID != req.Key.String() {
				t.Errorf("Start() = %+v, %v", reply, err)
			}
		})
	}
	wg.Wait()
	if len(streams) != 1 {
		t.Errorf("%d streams", len(streams))
	}
}

// gated is a launcher whose starts wait until their context or the gate opens.
type gated struct {
	began chan schedule.StartRequest // of those that are not quick
	ended chan error                 // of contexts that ended
	gate  chan struct{}
	quick map[schedule.Key]bool
}

func newGated(quick ...schedule.Key) *gated {
	g := &gated{began: make(chan schedule.StartRequest, 10000), ended: make(chan error, 10000), gate: make(chan struct{}), quick: make(map[schedule.Key]bool)}
	for _, k := range quick {
		g.quick[k] = true
	}
	return g
}

func (g *gated) Start(ctx context.Context, req schedule.StartRequest) (schedule.StartReply, error) {
	if !g.quick[req.Key] {
		g.began <- req
		select {
		case <-g.gate:
		case <-ctx.Done():
			g.ended <- ctx.Err()
			return schedule.StartReply{}, ctx.Err()
		}
	}
	return schedule.StartReply{Outcome: schedule.Outcome{Status: schedule.StatusSuccess, RunID: req.Key.String()}}, nil
}

func (g *gated) StartBatch(ctx context.Context, reqs []schedule.StartRequest, withdrawn <-chan int, answer func(int, schedule.StartReply, error)) {
	launchertest.Each{Start: g.Start}.StartBatch(ctx, reqs, withdrawn, answer)
}

func (g *gated) Cancel(context.Context, schedule.CancelRequest) (bool, error) { return false, nil }

func serveWith(t *testing.T, l api.Launcher, o api.Options) *client.Client {
	t.Helper()
	return connect(t, serveAs(t, func(s grpc.ServiceRegistrar) { api.Register(s, l, o) }))
}

// starting begins starts and returns a channel with their errors.
func starting(ctx context.Context, c *client.Client, reqs ...schedule.StartRequest) <-chan error {
	done := make(chan error, len(reqs))
	for _, req := range reqs {
		go func() {
			reply, err := c.Start(ctx, req)
			if err == nil && reply.Outcome.RunID != req.Key.String() {
				err = fmt.Errorf("answered with %+v", reply)
			}
			done <- err
		}()
	}
	return done
}

func within[T any](t *testing.T, from <-chan T, what string) (v T) {
	t.Helper()
	select {
	case v = <-from:
	case <-time.After(testTimeout):
		t.Fatalf("%s: nothing after %s", what, testTimeout)
	}
	return v
}

func TestTwoStartsOfOneKeyAreBothAnswered(t *testing.T) {
	g := newGated()
	done := starting(t.Context(), serveWith(t, g, api.Options{}), request(0), request(0))
	within(t, g.began, "the first")
	within(t, g.began, "the second")
	close(g.gate)
	for range 2 {
		if err := within(t, done, "an answer"); err != nil {
			t.Error(err)
		}
	}
}

func TestSlowStartsHoldUpNoOthers(t *testing.T) {
	quick := make([]schedule.StartRequest, 200)
	keys := make([]schedule.Key, len(quick))
	for i := range quick {
		quick[i] = request(1000 + i)
		keys[i] = quick[i].Key
	}
	g := newGated(keys...)
	c := serveWith(t, g, api.Options{})
	var hanging []schedule.StartRequest
	for i := range 100 {
		hanging = append(hanging, request(i))
	}
	slow := starting(t.Context(), c, hanging...)
	for range hanging {
		within(t, g.began, "a hanging one")
	}
	done := starting(t.Context(), c, quick...)
	for range quick {
		if err := within(t, done, "a quick one beside them"); err != nil {
			t.Error(err)
		}
	}
	close(g.gate)
	for range hanging {
		if err := within(t, slow, "a hanging one"); err != nil {
			t.Error(err)
		}
	}
}

// More than the launcher takes at once, in messages larger than what may be on
// its way unread: both sides are writing, and neither waits for the other.
func TestWhatIsBeyondTheBoundWaitsAndIsAnswered(t *testing.T) {
	g := newGated()
	const bound, all = 3, 400
	reqs := make([]schedule.StartRequest, all)
	for i := range reqs {
		reqs[i] = request(i)
		reqs[i].Input = make([]byte, 10_000)
	}
	done := starting(t.Context(), serveWith(t, g, api.Options{Open: bound}), reqs...)
	for range bound {
		within(t, g.began, "one within the bound")
	}
	for n := range all {
		g.gate <- struct{}{} // lets one go
		if err := within(t, done, "the answer to one"); err != nil {
			t.Error(err)
		}
		if n < all-bound {
			within(t, g.began, "the next")
		}
	}
}

func TestACancelledStartEndsOverThereToo(t *testing.T) {
	g := newGated()
	c := serveWith(t, g, api.Options{})
	other := starting(t.Context(), c, request(1))
	within(t, g.began, "the other")
	ctx, cancel := context.WithCancel(t.Context())
	done := starting(ctx, c, request(0))
	within(t, g.began, "the start")
	cancel()
	if err := within(t, done, "the caller"); status.Code(errors.Unwrap(err)) != codes.Canceled {
		t.Errorf("Start() = %v, want CANCELED", err)
	}
	if err := within(t, g.ended, "the launcher"); !errors.Is(err, context.Canceled) {
		t.Errorf("over there: %v", err)
	}
	if _, err := c.Start(ctx, request(2)); err == nil || len(g.began) != 0 {
		t.Errorf("a start that is cancelled before it begins: %v", err)
	}
	late, stop := context.WithTimeout(t.Context(), time.Millisecond)
	defer stop()
	if _, err := c.Start(late, request(3)); status.Code(errors.Unwrap(err)) != codes.DeadlineExceeded {
		t.Errorf("Start() = %v, want DEADLINE_EXCEEDED", err)
	}
	close(g.gate)
	if err := within(t, other, "the other"); err != nil {
		t.Errorf("the other start: %v", err)
	}
}
