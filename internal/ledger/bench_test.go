package ledger_test

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

var noon = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)

// same are facts of a ledger in which every definition is the same.
func same(ids []schedule.RevisionID) (ledger.Facts, error) {
	f := ledger.Facts{Definitions: make(map[schedule.RevisionID]*schedule.Definition, len(ids))}
	for _, id := range ids {
		f.Definitions[id] = new(schedule.Definition)
	}
	return f, nil
}

// judge is a pass whose facts are the same.
func judge(s *ledger.ShardState, p ledger.Pass) ledger.Verdicts {
	v, err := s.Judge(p, same)
	if err != nil {
		panic(err)
	}
	return v
}

// manyRuns are planned runs of as many schedules, so many of them due at noon and
// the others in the ten seconds after it, then runs in flight.
func manyRuns(planned, due, inFlight int) []ledger.Run {
	runs := make([]ledger.Run, 0, planned+inFlight)
	for i := range planned + inFlight {
		id := fmt.Sprintf("schedule-%d", i)
		fireAt := noon
		if i >= due {
			fireAt = noon.Add(time.Second + time.Duration(i%9000)*time.Millisecond)
		}
		r := ledger.Run{
			Key: sha256.Sum256(binary.BigEndian.AppendUint64(nil, uint64(i))), ScheduleID: id, Revision: 1, OverlapKey: fmt.Sprintf("owner-%d/%s", i%100, id),
			RunAt: fireAt, FireAt: fireAt, Status: schedule.StatusPlanned, Trigger: schedule.TriggerSchedule, Policy: schedule.OverlapSkip, Exclusive: true, MaxQueued: 100,
		}
		if i >= planned {
			r.Status, r.Epoch = schedule.StatusLaunching, 1
		}
		runs = append(runs, r)
	}
	return runs
}

// BenchmarkRebuild enters 600,000 runs, rows already read.
func BenchmarkRebuild(b *testing.B) {
	runs := manyRuns(500_000, 5000, 100_000)
	var before, after runtime.MemStats
	for b.Loop() {
		runtime.GC()
		runtime.ReadMemStats(&before)
		s := ledger.NewShardState(1, noon, len(runs))
		s.Load(&ledger.Open{Runs: runs})
		runtime.GC()
		runtime.ReadMemStats(&after)
		runtime.KeepAlive(s)
	}
	b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/float64(len(runs)), "B/run")
}

// BenchmarkPass judges and enters 5,000 due runs of one instant, with 500,000 in
// the window and 100,000 in flight.
func BenchmarkPass(b *testing.B) {
	for _, due := range []int{5000, 100_000} {
		b.Run(fmt.Sprintf("5000 of %d due", due), func(b *testing.B) {
			p := ledger.Pass{Now: noon, ClaimAhead: 950 * time.Millisecond, Grace: time.Minute, Limit: 5000, Capacity: func(string) int { return 5000 }}
			runs := manyRuns(500_000, due, 100_000)
			s := ledger.NewShardState(1, noon, len(runs))
			s.Load(&ledger.Open{Runs: runs})
			ended := make([]schedule.Key, 0, 5000)
			at := 0
			for b.Loop() {
				v := judge(s, p)
				if len(v.Claims) != 5000 {
					b.Fatalf("%d claims", len(v.Claims))
				}
				s.Commit(v, time.Minute)
				b.StopTimer()
				ended = append(ended[:0], v.Claims...)
				s.Apply(ledger.Changes{Ended: ended})
				fresh := make([]ledger.Run, len(ended))
				for i := range fresh { // as many come as went
					fresh[i] = runs[0]
					fresh[i].Key = sha256.Sum256(binary.BigEndian.AppendUint64(nil, uint64(1<<40+at)))
					fresh[i].ScheduleID = fmt.Sprintf("later-%d", at)
					fresh[i].OverlapKey = fmt.Sprintf("owner-%d/later-%d", at%100, at)
					at++
				}
				s.Load(&ledger.Open{Runs: fresh})
				b.StartTimer()
			}
		})
	}
}
