package site

import (
	"context"
	"errors"
	"net"
	"strconv"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	"github.com/carillon/carillon/internal/test/bench/proc"
	"github.com/carillon/carillon/internal/test/bench/record"
	"github.com/carillon/carillon/launcher/executor/runbatch"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

// KindSink is the kind of child that ServeSink is.
const KindSink = "sink"

// sink is an executor in a process of its own. It stores nothing, and gives the same answer to all,
// after a time.
type sink struct {
	carillonv1.UnimplementedExecutorServer
	log    record.Log
	busy   atomic.Int64           // ns of each call; 0: answer at once
	answer atomic.Pointer[string] // nil: SUCCESS
}

// Run notes when the call arrived.
func (s *sink) Run(ctx context.Context, r *carillonv1.ExecutorRunRequest) (*carillonv1.ExecutorRunResponse, error) {
	now := time.Now()
	slot, err := slotOfKey(r.GetIdempotencyKey())
	if err != nil {
		return nil, err
	}
	s.log.Note(record.Call{Slot: slot, Due: r.GetScheduledFor().AsTime().UnixNano(), At: now.UnixNano()})
	if busy := time.Duration(s.busy.Load()); busy > 0 {
		pause(ctx, time.Until(now.Add(busy)))
	}
	status := "SUCCESS"
	if other := s.answer.Load(); other != nil {
		status = *other
	}
	return &carillonv1.ExecutorRunResponse{Status: status}, nil
}

// RunBatch is Run for many runs.
func (s *sink) RunBatch(rpc runbatch.Stream) error { return runbatch.Serve(rpc, s.Run, nil) }

// slotOfKey names a slot by the end of its key: keys of jobs begin with their time.
func slotOfKey(key string) (uint64, error) {
	return strconv.ParseUint(key[max(0, len(key)-16):], 16, 64)
}

// sinkPart answers the harness for a sink.
type sinkPart struct {
	*sink
	addr string
}

// ServeSink serves a sink until the harness closes our input.
func ServeSink(context.Context) error {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	s := &sink{}
	server := grpc.NewServer(grpc.MaxConcurrentStreams(20_000))
	carillonv1.RegisterExecutorServer(server, s)
	served := make(chan error, 1)
	go func() { served <- server.Serve(lis) }()
	err = proc.Serve(&sinkPart{s, lis.Addr().String()})
	server.Stop()
	return errors.Join(err, <-served)
}

// Where says where it listens.
func (p *sinkPart) Where(_ proc.None, out *string) error {
	*out = p.addr
	return nil
}

// Busy sets how long each call takes from now on.
func (p *sinkPart) Busy(long time.Duration, _ *proc.None) error {
	p.busy.Store(long.Nanoseconds())
	return nil
}

// Answer sets the answer from now on: ENQUEUED, the harness reports the ends, SUCCESS or FAILED.
func (p *sinkPart) Answer(status string, _ *proc.None) error {
	p.answer.Store(&status)
	return nil
}

// Called says how often it was called.
func (p *sinkPart) Called(_ proc.None, out *int) error {
	*out = p.log.Len()
	return nil
}

// Calls is its record.
func (p *sinkPart) Calls(_ proc.None, out *[]byte) error {
	*out = record.Encode(p.log.Calls())
	return nil
}

// Forget clears the record.
func (p *sinkPart) Forget(proc.None, *proc.None) error {
	p.log.Forget()
	return nil
}
