package gate

import (
	"container/list"
	"context"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/carillon/carillon/internal/auth"
	"github.com/carillon/carillon/internal/logthrottle"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

// Two kinds of calls are read before the caller is known: a health check needs
// no credentials, and a run's own token is checked against the key in the
// message. Each kind has a pool of its own, so that health checks do not hold up
// reports. The transport keeps at most 64 KiB of each call that waits, so the
// pools keep below 100 MiB together.
const (
	healthTotal, healthPerPeer = 256, 64
	reportTotal, reportPerPeer = 1024, 512
	watchTotal, watchPerPeer   = 256, 16 // health watches, which stay open

	readTimeout = 2 * time.Second // of one message
)

// strangerPools hold the calls of callers without valid credentials.
type strangerPools struct {
	health, report, watch *pool
}

func newStrangerPools() strangerPools {
	return strangerPools{
		health: newPool(healthTotal, healthPerPeer, true),
		report: newPool(reportTotal, reportPerPeer, true),
		watch:  newPool(watchTotal, watchPerPeer, false),
	}
}

// isStranger reports whether a caller over the network has not shown who it is.
func isStranger(ctx context.Context, m met) bool {
	known := m.shown == nil && m.id.Via != auth.ViaReport && m.id.Via != auth.ViaOpen
	return !known && !insideProcess(ctx)
}

// stranger bounds the reading of a stranger's messages. With authentication off
// nobody is one.
func (g *Gate) stranger(ss entered, method string, m met) grpc.ServerStream {
	if g.o.Off || !isStranger(ss.ctx, m) {
		return ss
	}
	reading := g.strangers.health
	if method == carillonv1.RunService_ReportRun_FullMethodName {
		reading = g.strangers.report
	}
	return strangers{ss, reading}
}

// watch bounds the health watches that callers without credentials keep open,
// also with authentication off. leave ends one.
func (g *Gate) watch(ctx context.Context, m met) (leave func(), err error) {
	if !isStranger(ctx, m) {
		return func() {}, nil
	}
	mine := g.strangers.watch.enter(peerOf(ctx))
	if mine == nil {
		return nil, status.Errorf(codes.ResourceExhausted, "callers without credentials may keep %d health watches open each, and %d together; use Health/Check, or send a token", watchPerPeer, watchTotal)
	}
	return func() { g.strangers.watch.leave(mine) }, nil
}

func peerOf(ctx context.Context) string {
	if p, ok := peer.FromContext(ctx); ok {
		return logthrottle.PeerOf(p.Addr.String())
	}
	return ""
}

type strangers struct {
	entered
	reading *pool
}

func (s strangers) RecvMsg(m any) error {
	mine := s.reading.enter(peerOf(s.ctx)) // never nil in a pool that evicts
	timeout := time.NewTimer(readTimeout)
	defer timeout.Stop()
	read := make(chan error, 1)
	go func() { // it ends with the call at the latest, which ends with the timeout
		defer s.reading.leave(mine)
		read <- s.ServerStream.RecvMsg(m)
	}()
	select {
	case err := <-read:
		return err
	case <-mine.evicted:
		return status.Error(codes.Unavailable, "the message did not arrive, and other callers without credentials wait; try again")
	case <-timeout.C:
		return status.Errorf(codes.DeadlineExceeded, "the message did not arrive within %s", readTimeout)
	}
}

// pool bounds calls that are open, in all and for each peer.
type pool struct {
	total, perPeer int
	// evicts ends the oldest call of a full pool for a new one. Messages commonly
	// come with the headers of their call, so the oldest is one that sends none.
	evicts bool

	mu    sync.Mutex
	open  *list.List // of *place, oldest first
	peers map[string]int
}

// place is a call in a pool.
type place struct {
	peer    string
	evicted chan struct{} // closed when the call is to end
	element *list.Element // nil once it has left
}

func newPool(total, perPeer int, evicts bool) *pool {
	return &pool{total: total, perPeer: perPeer, evicts: evicts, open: list.New(), peers: make(map[string]int)}
}

// enter takes a place. In a full pool that evicts, the oldest call makes room:
// of the same peer at the peer's limit, else of any. In another one the answer
// is nil.
func (p *pool) enter(peer string) *place {
	p.mu.Lock()
	defer p.mu.Unlock()
	if ofPeer := p.peers[peer] >= p.perPeer; ofPeer || p.open.Len() >= p.total {
		if !p.evicts {
			return nil
		}
		oldest := p.oldest(peer, ofPeer)
		close(oldest.evicted)
		p.remove(oldest)
	}
	mine := &place{peer: peer, evicted: make(chan struct{})}
	mine.element = p.open.PushBack(mine)
	p.peers[peer]++
	return mine
}

// oldest is the oldest call, of one peer or of all.
func (p *pool) oldest(peer string, ofPeer bool) *place {
	for e := p.open.Front(); e != nil; e = e.Next() {
		if found := e.Value.(*place); !ofPeer || found.peer == peer {
			return found
		}
	}
	return nil
}

func (p *pool) leave(mine *place) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.remove(mine)
}

// remove may be called more than once.
func (p *pool) remove(mine *place) {
	if mine.element == nil {
		return
	}
	p.open.Remove(mine.element)
	mine.element = nil
	if p.peers[mine.peer]--; p.peers[mine.peer] == 0 {
		delete(p.peers, mine.peer)
	}
}
