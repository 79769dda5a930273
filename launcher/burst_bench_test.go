package launcher_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/launcher"
)

// granting grants every key and keeps nothing.
type granting struct{ launcher.Store }

func (granting) Begin(_ context.Context, reqs []schedule.BeginRequest, now time.Time) ([]schedule.BeginResult, error) {
	out := make([]schedule.BeginResult, len(reqs))
	for i := range reqs {
		out[i].Permission = schedule.Granted
		out[i].Request.Key = reqs[i].Key
		out[i].Request.Lease.Until = now.Add(reqs[i].Lease)
	}
	return out, nil
}

func (granting) Finish(_ context.Context, done []schedule.FinishRequest, _ time.Time) ([]schedule.Finished, error) {
	out := make([]schedule.Finished, len(done))
	for i := range done {
		out[i].Outcome = done[i].Outcome
	}
	return out, nil
}

func (granting) Extend(_ context.Context, open []schedule.LeaseExtension, now time.Time) ([]time.Time, error) {
	out := make([]time.Time, len(open))
	for i := range open {
		out[i] = now.Add(open[i].Lease)
	}
	return out, nil
}

type noDAG struct{}

func (noDAG) LoadDAG(context.Context, string, string, int32) ([]byte, error) { return nil, nil }

// noting answers after a while and notes how late it was called.
type noting struct {
	launcher.Executor
	takes time.Duration
	n     atomic.Int64
	late  []time.Duration
}

func (e *noting) Run(_ context.Context, call launcher.Call) (schedule.Outcome, error) {
	e.late[e.n.Add(1)-1] = time.Since(call.FireAt)
	if e.takes > 0 {
		time.Sleep(e.takes)
	}
	return schedule.Outcome{Status: schedule.StatusSuccess}, nil
}

// BenchmarkInstant is how late the executor is called for 10,000 starts that were
// armed for one instant, the store's part left out.
func BenchmarkInstant(b *testing.B) {
	b.Run("answered_at_once", func(b *testing.B) { instant(b, 0) })
	b.Run("answered_after_5ms", func(b *testing.B) { instant(b, 5*time.Millisecond) })
}

func instant(b *testing.B, takes time.Duration) {
	const burst = 10000
	var p50, p99 []float64
	for b.Loop() {
		e := &noting{takes: takes, late: make([]time.Duration, burst)}
		l := launcher.New(launcher.Options{Store: granting{}, Workflows: noDAG{}, Executor: e})
		at := time.Now().Add(1200 * time.Millisecond)
		var wg sync.WaitGroup
		for i := range burst {
			req := schedule.StartRequest{
				Key: sha256.Sum256(fmt.Append(nil, i)), ScheduleID: "s", WorkflowID: "w", Version: 1, UserID: fmt.Sprint("u", i%10), Attempt: 1,
				ScheduledFor: at, FireAt: at, Trigger: schedule.TriggerSchedule, RunTimeout: time.Minute,
			}
			wg.Go(func() {
				if _, err := l.Start(b.Context(), req); err != nil {
					b.Error(err)
				}
			})
		}
		wg.Wait()
		slices.Sort(e.late)
		p50 = append(p50, float64(e.late[burst/2].Microseconds())/1000)
		p99 = append(p99, float64(e.late[burst*99/100].Microseconds())/1000)
	}
	slices.Sort(p50)
	slices.Sort(p99)
	b.ReportMetric(p50[len(p50)/2], "p50-ms")
	b.ReportMetric(p99[len(p99)/2], "p99-ms")
}
