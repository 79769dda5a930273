package callstream_test

import (
	"context"
	"errors"
	"io"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"

	"github.com/carillon/carillon/internal/callstream"
)

// peer answers each call with its own text, on streams that it counts.
type peer struct {
	opened, closed, written atomic.Int64
}

type (
	message struct{ calls []*string }
	answers struct{ answers []*numbered }
	// numbered is an answer.
	numbered struct {
		number uint64
		text   string
	}
)

// one is a stream of a peer.
type one struct {
	grpc.ClientStream
	peer *peer
	ctx  context.Context
	next uint64
	in   chan *answers
}

func (o *one) Send(m *message) error {
	said := new(answers)
	for _, c := range m.calls {
		o.peer.written.Add(1)
		said.answers = append(said.answers, &numbered{o.next, *c})
		o.next++
	}
	o.in <- said
	return nil
}

func (o *one) Recv() (*answers, error) {
	select {
	case a, open := <-o.in:
		if !open {
			return nil, io.EOF
		}
		return a, nil
	case <-o.ctx.Done():
		return nil, o.ctx.Err()
	}
}

func (o *one) CloseSend() error {
	o.peer.closed.Add(1)
	close(o.in)
	return nil
}

func (p *peer) stream(maxAge time.Duration) *callstream.Stream[string, message, answers, numbered] {
	return callstream.New(callstream.RPC[string, message, answers, numbered]{
		Peer: "the peer", MaxAge: maxAge,
		Open: func(ctx context.Context, _ ...grpc.CallOption) (grpc.BidiStreamingClient[message, answers], error) {
			p.opened.Add(1)
			return &one{peer: p, ctx: ctx, in: make(chan *answers, 10)}, nil
		},
		Message: func(calls []*string, _ []uint64) *message { return &message{calls} },
		Size:    func(c *string) int { return len(*c) },
		Answers: func(a *answers) ([]*numbered, bool) { return a.answers, false },
		Number:  func(n *numbered) uint64 { return n.number },
		Fits:    func(c *string, n *numbered) bool { return *c == n.text },
	})
}

func ask(t *testing.T, s *callstream.Stream[string, message, answers, numbered], text string) {
	t.Helper()
	s.Call(t.Context(), time.Time{}, []*string{&text}, func(_ int, a callstream.Answer[numbered]) {
		if a.Err != nil || a.Msg.text != text {
			t.Errorf("%q was answered with %+v", text, a)
		}
	})
}

func TestAStreamIsClosedWhenItIsOld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &peer{}
		s := p.stream(time.Minute)
		ask(t, s, "a")
		time.Sleep(59 * time.Second)
		ask(t, s, "b")
		if p.opened.Load() != 1 || p.closed.Load() != 0 {
			t.Errorf("after 59 s: %d opened and %d closed, want the first one", p.opened.Load(), p.closed.Load())
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if p.closed.Load() != 1 {
			t.Error("an idle stream was not closed at its age")
		}
		ask(t, s, "c")
		if p.opened.Load() != 2 {
			t.Errorf("%d streams, want a second one", p.opened.Load())
		}
		s.Close()
		s.Wait()
		if p.closed.Load() != 2 {
			t.Errorf("%d streams closed at the end, want both", p.closed.Load())
		}
	})
}

func TestAStreamWithoutAnAgeStaysOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &peer{}
		s := p.stream(0)
		ask(t, s, "a")
		time.Sleep(24 * time.Hour)
		ask(t, s, "b")
		if p.opened.Load() != 1 {
			t.Errorf("%d streams, want one", p.opened.Load())
		}
		s.Close()
		s.Wait()
	})
}

func TestACallThatIsLateIsNotWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &peer{}
		s := p.stream(0)
		text := "late"
		s.Call(t.Context(), time.Now(), []*string{&text}, func(_ int, a callstream.Answer[numbered]) {
			if !errors.Is(a.Err, callstream.ErrLate) || a.Written {
				t.Errorf("%+v, want ErrLate of a call that was not written", a)
			}
		})
		if n := p.written.Load(); n != 0 {
			t.Errorf("%d calls were written", n)
		}
		s.Close()
		s.Wait()
	})
}
