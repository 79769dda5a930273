package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/carillon/carillon/internal/auth"
	"github.com/carillon/carillon/internal/batch"
	"github.com/carillon/carillon/launcher/wire"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

const (
	// maxStarts caps the starts in one message.
	maxStarts = 1000
	// maxAnswers caps the answers in one message. Even with the longest error
	// messages it stays far below the client's limit.
	maxAnswers = 256
	// longestStart is how long Carillon's client waits for an answer. A stream with
	// a deadline is closed that long before it, if there is time.
	longestStart = 75 * time.Second
)

type batchStream = grpc.BidiStreamingServer[carillonv1.RunLauncherStartBatchRequest, carillonv1.RunLauncherStartBatchResponse]

// stream is one StartBatch. Each start has a goroutine, like a call of Start, but
// no other cost of a call. Answers are gathered into messages.
//
// It cannot deadlock with both sides writing: starts beyond the limit are not
// read, but answers are always written, and a client always reads them.
type stream struct {
	*server
	rpc     batchStream
	free    chan struct{} // has one element for each open start
	starts  sync.WaitGroup
	answers *batch.Batcher[*carillonv1.RunLauncherStartBatchAnswer, struct{}]
	next    uint64 // number of the next start

	mu   sync.Mutex
	open map[uint64]context.CancelFunc // by number
}

// StartBatch starts the runs of each message and sends each answer when it is
// known. It returns after all accepted starts are answered.
func (s *server) StartBatch(rpc batchStream) error {
	ctx, cancel := context.WithCancel(rpc.Context())
	defer cancel()
	b := &stream{server: s, rpc: rpc, free: make(chan struct{}, s.o.Open), open: make(map[uint64]context.CancelFunc)}
	b.answers = batch.New(maxAnswers, b.send)
	defer b.starts.Wait()
	return b.serve(ctx, b.receive(ctx))
}

type received struct {
	req *carillonv1.RunLauncherStartBatchRequest
	err error
}

// receive reads in a goroutine of its own, because Recv does not end when the
// stream's token expires: package gate sets that deadline on the context, not on
// the connection. The goroutine ends after StartBatch has returned.
func (b *stream) receive(ctx context.Context) <-chan received {
	messages := make(chan received)
	go func() {
		for {
			req, err := b.rpc.Recv()
			select {
			case messages <- received{req, err}:
			case <-ctx.Done():
				return
			}
			if err != nil {
				return
			}
		}
	}()
	return messages
}

// serve ends when the client closes its side or disconnects, or when the token or
// certificate of the stream expires or is revoked. Before the latter, and before
// the process ends, it asks the client to close.
func (b *stream) serve(ctx context.Context, messages <-chan received) error {
	expiring, stop := expiring(ctx)
	defer stop()
	ending, revoked := b.o.Ending, revokedOf(ctx)
	for {
		select {
		case m := <-messages:
			if errors.Is(m.err, io.EOF) {
				return nil
			}
			if m.err != nil {
				return m.err
			}
			if err := b.take(ctx, m.req); err != nil {
				return err
			}
		case <-ending:
			ending = nil
			b.close(ctx)
		case <-expiring:
			expiring = nil
			b.close(ctx)
		case <-revoked:
			revoked = nil
			b.close(ctx)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// revokedOf returns a channel that is closed when the worker's access is revoked;
// nil: never.
func revokedOf(ctx context.Context) <-chan struct{} {
	if call := auth.CallFrom(ctx); call != nil {
		return call.Revoked
	}
	return nil
}

// expiring fires when a stream with a deadline should be closed: longestStart
// before the deadline, so that open starts can be answered, or after half of the
// time that is left.
func expiring(ctx context.Context) (at <-chan time.Time, stop func()) {
	deadline, bounded := ctx.Deadline()
	if !bounded {
		return nil, func() {}
	}
	left := time.Until(deadline)
	timer := time.NewTimer(left - min(longestStart, left/2))
	return timer.C, func() { timer.Stop() }
}

// take begins the starts of one message. An error ends the stream.
func (b *stream) take(ctx context.Context, req *carillonv1.RunLauncherStartBatchRequest) error {
	for name, n := range map[string]int{"starts": len(req.GetStarts()), "withdrawn": len(req.GetWithdrawn())} {
		if n > maxStarts {
			return status.Errorf(codes.InvalidArgument, "%s has %d entries, more than %d: send them in several messages", name, n, maxStarts)
		}
	}
	for _, start := range req.GetStarts() {
		select {
		case b.free <- struct{}{}:
			b.begin(ctx, start)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	for _, number := range req.GetWithdrawn() {
		b.withdraw(number)
	}
	return nil
}

func (b *stream) begin(ctx context.Context, start *carillonv1.RunLauncherStartRequest) {
	ctx, cancel := context.WithCancel(ctx)
	number := b.next
	b.next++
	b.mu.Lock()
	b.open[number] = cancel
	b.mu.Unlock()
	b.starts.Go(func() {
		answer := b.answer(ctx, start)
		answer.Number = number
		b.withdraw(number)               // no longer open
		_, _ = b.answers.Do(ctx, answer) // a broken stream is noticed by receive
		<-b.free
	})
}

// withdraw cancels the context of a start that is still open.
func (b *stream) withdraw(number uint64) {
	b.mu.Lock()
	cancel := b.open[number]
	delete(b.open, number)
	b.mu.Unlock()
	if cancel != nil {
		cancel()
	}
}

// answer calls Start and does what interceptors do for unary calls: it validates
// the request, counts the call and recovers from a panic.
func (b *stream) answer(ctx context.Context, req *carillonv1.RunLauncherStartRequest) (answer *carillonv1.RunLauncherStartBatchAnswer) {
	answer = &carillonv1.RunLauncherStartBatchAnswer{IdempotencyKey: req.GetIdempotencyKey()}
	began := time.Now()
	defer func() {
		if p := recover(); p != nil {
			b.o.Logger.ErrorContext(ctx, "call panicked", "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			answer.Code, answer.Message = uint32(codes.Internal), "internal error; see the server log"
		}
		b.o.Observe(codes.Code(answer.GetCode()), time.Since(began))
	}()
	var err error
	if !plain(req) {
		err = b.o.Check(req)
	}
	if err == nil {
		answer.Outcome, err = b.Start(ctx, req)
	}
	if err != nil {
		st := status.Convert(err)
		answer.Code, answer.Message = uint32(st.Code()), st.Message()
		answer.Failure = wire.FailureOf(st)
	}
	return answer
}

// close asks the client to end the stream. Starts that the client sends before it
// reads this are still accepted.
func (b *stream) close(ctx context.Context) { _, _ = b.answers.Do(ctx, nil) }

// send writes one message. A nil answer sets Closing.
func (b *stream) send(_ context.Context, answers []*carillonv1.RunLauncherStartBatchAnswer) ([]struct{}, error) {
	msg := &carillonv1.RunLauncherStartBatchResponse{Answers: make([]*carillonv1.RunLauncherStartBatchAnswer, 0, len(answers))}
	for _, a := range answers {
		if a == nil {
			msg.Closing = true
			continue
		}
		msg.Answers = append(msg.Answers, a)
	}
	if err := b.rpc.Send(msg); err != nil {
		return nil, err
	}
	return make([]struct{}, len(answers)), nil
}
