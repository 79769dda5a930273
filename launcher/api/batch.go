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
	// maxStarts is how many starts one message may carry.
	maxStarts = 1000
	// maxAnswers is how many answers one message carries: of the longest error
	// messages too it stays far below what a client takes.
	maxAnswers = 256
	// longestStart is how long our own client waits for an answer: a stream that
	// is to end is closed so long before, where there is the time.
	longestStart = 75 * time.Second
)

type batchStream = grpc.BidiStreamingServer[carillonv1.RunLauncherStartBatchRequest, carillonv1.RunLauncherStartBatchResponse]

// stream is one StartBatch. Its starts have a goroutine each, as calls of Start
// have, and no other cost of a call; their answers are gathered.
//
// It cannot come to a standstill with both sides writing: what is sent beyond
// the bound of open starts is not read, but answers are always written, and a
// client reads them whatever its own sending waits for.
type stream struct {
	*server
	rpc     batchStream
	free    chan struct{} // holds a word for each start that is open
	starts  sync.WaitGroup
	answers *batch.Batcher[*carillonv1.RunLauncherStartBatchAnswer, struct{}]
	next    uint64 // number of the next start

	mu   sync.Mutex
	open map[uint64]context.CancelFunc // by number
}

// StartBatch starts what comes, and answers each when it is known. It returns
// when all is answered that was taken.
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

// receive reads in a goroutine of its own, since reading does not end with what
// opened the stream: the gate's deadline is not the connection's. It ends when
// the stream has, which is when StartBatch has returned.
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

// serve ends when the client has closed its side, or is gone, or when what
// opened the stream has expired or is accepted no longer. Ahead of these, and of
// the end of the process, the client is asked to close.
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

// revokedOf warns that the worker is accepted no longer; nil: nothing does.
func revokedOf(ctx context.Context) <-chan struct{} {
	if call := auth.CallFrom(ctx); call != nil {
		return call.Revoked
	}
	return nil
}

// expiring sends a word when a stream with a deadline is to be closed: so long
// before that what is open then can be answered, where there is the time, and
// else half of it.
func expiring(ctx context.Context) (at <-chan time.Time, stop func()) {
	deadline, bounded := ctx.Deadline()
	if !bounded {
		return nil, func() {}
	}
	left := time.Until(deadline)
	timer := time.NewTimer(left - min(longestStart, left/2))
	return timer.C, func() { timer.Stop() }
}

// take begins what one message carries. An error ends the stream.
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
		b.withdraw(number)               // from what is open: there is an answer
		_, _ = b.answers.Do(ctx, answer) // of a broken stream reading tells
		<-b.free
	})
}

// withdraw ends the waiting of a start, if it is still open.
func (b *stream) withdraw(number uint64) {
	b.mu.Lock()
	cancel := b.open[number]
	delete(b.open, number)
	b.mu.Unlock()
	if cancel != nil {
		cancel()
	}
}

// answer is Start without what the server has around its calls, of which a
// stream has none for each start: the look at the request, the count, and that a
// panic ends one start only.
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

// close asks the client to end the stream. What it sends until it has heard of
// that is still taken.
func (b *stream) close(ctx context.Context) { _, _ = b.answers.Do(ctx, nil) }

// send writes one message; nil among the answers is the word that closes.
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
