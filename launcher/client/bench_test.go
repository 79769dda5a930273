package client_test

import (
	"context"
	"encoding/binary"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/launcher"
	"github.com/carillon/carillon/launcher/api"
)

// granting grants every key and keeps nothing.
type granting struct{ launcher.Store }

func (granting) Begin(_ context.Context, reqs []schedule.BeginRequest, now time.Time) ([]schedule.BeginResult, error) {
	out := make([]schedule.BeginResult, len(reqs))
	for i := range reqs {
		out[i].Permission, out[i].Request.Key, out[i].Request.Lease.Until = schedule.Granted, reqs[i].Key, now.Add(reqs[i].Lease)
	}
	return out, nil
}

func (granting) Finish(_ context.Context, done []schedule.FinishRequest, _ time.Time) ([]schedule.Finished, error) {
	out := make([]schedule.Finished, len(done))
	for i := range done {
		out[i] = schedule.Finished{Outcome: done[i].Outcome, Settled: true}
	}
	return out, nil
}

type noDAG struct{}

func (noDAG) LoadDAG(context.Context, string, string, int32) ([]byte, error) { return nil, nil }

type succeeding struct{ launcher.Executor }

func (succeeding) Run(context.Context, launcher.Call) (schedule.Outcome, error) {
	return schedule.Outcome{Status: schedule.StatusSuccess}, nil
}

// BenchmarkBatches is the CPU of starts that are sent, called and answered in batches of
// 1,000 for one instant, the store's part left out.
func BenchmarkBatches(b *testing.B) {
	l := launcher.New(launcher.Options{Store: granting{}, Workflows: noDAG{}, Executor: succeeding{}})
	c := connect(b, serveAs(b, func(s grpc.ServiceRegistrar) { api.Register(s, l, api.Options{Open: 20000}) }))
	const batch, batches = 1000, 8
	began, starts := cpu(b), 0
	for b.Loop() {
		at := time.Now().Add(300 * time.Millisecond)
		done := make(chan struct{}, batches)
		for n := range batches {
			reqs := make([]schedule.StartRequest, batch)
			for i := range reqs {
				reqs[i] = request(0)
				reqs[i].Input, reqs[i].TraceParent, reqs[i].SendUntil = nil, "", time.Time{}
				reqs[i].ScheduledFor, reqs[i].FireAt = at, at
				binary.BigEndian.PutUint64(reqs[i].Key[:], uint64(starts+n*batch+i))
			}
			go func() {
				c.StartAll(b.Context(), reqs, func(_ int, _ schedule.StartReply, err error) {
					if err != nil {
						b.Error(err)
					}
				})
				done <- struct{}{}
			}()
		}
		for range batches {
			<-done
		}
		starts += batch * batches
	}
	b.ReportMetric(float64((cpu(b)-began).Microseconds())/float64(starts), "cpu-us/start")
}

func cpu(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
