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

// Two kinds of calls are read before the caller is identified: a health check needs no credentials,
// and a report token is checked against the key in the message. Each kind has a separate pool, so that
// health checks cannot block reports. The transport buffers at most 64 KiB of each waiting call, so
// the pools together need less than 100 MiB.
const (
	healthTotal, healthPerPeer = 256, 64
	reportTotal, reportPerPeer = 1024, 512
	watchTotal, watchPerPeer   = 256, 16 // health watches, which stay open

	readTimeout = 2 * time.Second // for one message
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

// isStranger reports whether a caller over the network is not identified.
func isStranger(ctx context.Context, found identified) bool {
	known := found.invalid == nil && found.id.Via != auth.ViaReport && found.id.Via != auth.ViaOpen
	return !known && !insideProcess(ctx)
}

// stranger limits reading the messages of callers that are not identified. With authentication off
// there is no limit.
func (g *Gate) stranger(ss gatedStream, method string, found identified) grpc.ServerStream {
	if g.o.Off || !isStranger(ss.ctx, found) {
		return ss
	}
	reading := g.strangers.health
	if method == carillonv1.RunService_ReportRun_FullMethodName {
		reading = g.strangers.report
	}
	return strangers{ss, reading}
}

// watch limits the open health watches of callers without credentials, also with authentication off.
// leave ends one.
func (g *Gate) watch(ctx context.Context, found identified) (leave func(), err error) {
	if !isStranger(ctx, found) {
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
	gatedStream
	reading *pool
}

func (s strangers) RecvMsg(m any) error {
	mine := s.reading.enter(peerOf(s.ctx)) // never nil in a pool that evicts
	timeout := time.NewTimer(readTimeout)
	defer timeout.Stop()
	read := make(chan error, 1)
	go func() { // ends at the latest with the call, because the timeout ends the call
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

// pool limits open calls, in total and per peer.
type pool struct {
	total, perPeer int
	// evicts: a new call ends the oldest call of a full pool. A message normally arrives together with
	// the headers, so the oldest call is probably one that sends no message.
	evicts bool

	mu    sync.Mutex
	open  *list.List // of *place, oldest first
	peers map[string]int
}

// place is a call in a pool.
type place struct {
	peer    string
	evicted chan struct{} // closed when the call has to end
	element *list.Element // nil after the call has left
}

func newPool(total, perPeer int, evicts bool) *pool {
	return &pool{total: total, perPeer: perPeer, evicts: evicts, open: list.New(), peers: make(map[string]int)}
}

// enter takes a place. A full pool with evicts ends the oldest call: of this peer if the peer's limit
// is reached, otherwise of any peer. Without evicts it returns nil.
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

// oldest returns the oldest call of one peer or of all.
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
