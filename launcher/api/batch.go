package api

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/carillon/carillon/internal/auth"
	"github.com/carillon/carillon/internal/batch"
	"github.com/carillon/carillon/internal/callstream"
	"github.com/carillon/carillon/internal/schedule"
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

// stream is one StartBatch. Answers are gathered into messages.
//
// It cannot deadlock with both sides writing: starts beyond the limit are not
// read, but answers are always written, and a client always reads them.
type stream struct {
	*server
	rpc     batchStream
	free    chan struct{}  // has one element for each open start
	open    sync.WaitGroup // starts without an answer, and answers that are not written
	answers *batch.Queue[*carillonv1.RunLauncherStartBatchAnswer]
	next    uint64 // number of the next start

	mu     sync.Mutex
	groups map[*group]struct{}
}

// group is starts that were handed to the launcher together and are not all answered.
type group struct {
	numbers   []uint64 // rising
	keys      []string
	began     time.Time
	withdrawn chan int
	answered  chan struct{} // closed when all are
}

// StartBatch starts the runs of each message and sends each answer when it is
// known. It returns after all accepted starts are answered.
func (s *server) StartBatch(rpc batchStream) error {
	ctx, cancel := context.WithCancel(rpc.Context())
	defer cancel()
	b := &stream{server: s, rpc: rpc, free: make(chan struct{}, s.o.Open), groups: make(map[*group]struct{})}
	b.answers = batch.NewQueue(maxAnswers, b.send)
	defer b.open.Wait()
	// Package gate sets the deadline of a token on the context, not on the connection.
	return b.serve(ctx, callstream.Receive(ctx, b.rpc.Recv))
}

// serve ends when the client closes its side or disconnects, or when the token or
// certificate of the stream expires or is revoked. Before the latter, and before
// the process ends, it asks the client to close.
func (b *stream) serve(ctx context.Context, messages <-chan callstream.Received[carillonv1.RunLauncherStartBatchRequest]) error {
	expiring, stop := expiring(ctx)
	defer stop()
	ending, revoked := b.o.Ending, revokedOf(ctx)
	for {
		select {
		case m := <-messages:
			if errors.Is(m.Err, io.EOF) {
				return nil
			}
			if m.Err != nil {
				return m.Err
			}
			if err := b.take(ctx, m.Msg); err != nil {
				return err
			}
		case <-ending:
			ending = nil
			b.close()
		case <-expiring:
			expiring = nil
			b.close()
		case <-revoked:
			revoked = nil
			b.close()
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
	for starts := req.GetStarts(); len(starts) > 0; {
		n, err := b.reserve(ctx, len(starts))
		if err != nil {
			return err
		}
		b.begin(ctx, starts[:n])
		starts = starts[n:]
	}
	for _, number := range req.GetWithdrawn() {
		b.withdraw(number)
	}
	return nil
}

// reserve takes as many of the open starts as are free, at least one and at most n.
func (b *stream) reserve(ctx context.Context, n int) (taken int, err error) {
	select {
	case b.free <- struct{}{}:
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	for taken = 1; taken < n; taken++ {
		select {
		case b.free <- struct{}{}:
		default:
			return taken, nil
		}
	}
	return taken, nil
}

// begin hands starts to the launcher, and does what interceptors do for unary calls: it
// validates the requests and counts the calls.
func (b *stream) begin(ctx context.Context, starts []*carillonv1.RunLauncherStartRequest) {
	g := &group{began: time.Now(), withdrawn: make(chan int), answered: make(chan struct{})}
	reqs := make([]schedule.StartRequest, 0, len(starts))
	b.open.Add(len(starts))
	for _, msg := range starts {
		number, key := b.next, msg.GetIdempotencyKey()
		b.next++
		req, err := b.read(msg)
		if err != nil {
			b.answer(number, key, g.began, nil, err)
			continue
		}
		reqs, g.numbers, g.keys = append(reqs, req), append(g.numbers, number), append(g.keys, key)
	}
	b.mu.Lock()
	b.groups[g] = struct{}{}
	b.mu.Unlock()
	b.open.Go(func() {
		b.launcher.StartBatch(ctx, reqs, g.withdrawn, func(i int, reply schedule.StartReply, err error) {
			resp, err := responseOf(reply, err)
			b.answer(g.numbers[i], g.keys[i], g.began, resp, err)
		})
		close(g.answered)
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.groups, g)
	})
}

func (b *stream) read(msg *carillonv1.RunLauncherStartRequest) (schedule.StartRequest, error) {
	if !plain(msg) {
		if err := b.o.Check(msg); err != nil {
			return schedule.StartRequest{}, err
		}
	}
	return wire.StartRequest(msg)
}

// answer counts a start and writes its answer.
func (b *stream) answer(number uint64, key string, began time.Time, resp *carillonv1.RunLauncherStartResponse, err error) {
	answer := &carillonv1.RunLauncherStartBatchAnswer{Number: number, IdempotencyKey: key, Outcome: resp}
	if err != nil {
		st := status.Convert(err)
		answer.Code, answer.Message, answer.Failure = uint32(st.Code()), st.Message(), wire.FailureOf(st)
	}
	b.o.Observe(codes.Code(answer.GetCode()), time.Since(began))
	b.answers.Add(answer)
}

// withdraw has a start give up that is not answered yet.
func (b *stream) withdraw(number uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for g := range b.groups {
		if i, found := slices.BinarySearch(g.numbers, number); found {
			select {
			case g.withdrawn <- i:
			case <-g.answered:
			}
			return
		}
	}
}

// close asks the client to end the stream. Starts that the client sends before it
// reads this are still accepted.
func (b *stream) close() {
	b.open.Add(1)
	b.answers.Add(nil)
}

// send writes one message. A nil answer sets Closing. A broken stream is noticed by receive.
func (b *stream) send(answers []*carillonv1.RunLauncherStartBatchAnswer) {
	msg := &carillonv1.RunLauncherStartBatchResponse{Answers: make([]*carillonv1.RunLauncherStartBatchAnswer, 0, len(answers))}
	for _, a := range answers {
		if a == nil {
			msg.Closing = true
			continue
		}
		msg.Answers = append(msg.Answers, a)
	}
	_ = b.rpc.Send(msg)
	for range msg.Answers {
		<-b.free
	}
	b.open.Add(-len(answers))
}
