package registrar_test

import (
	"testing"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/registrar"
)

// promise is the promise of the queue about waits, as a reader sees it.
func (l *line) promise() (p schedule.QueuePromise, counts schedule.QueueCounts) {
	l.Helper()
	q, err := l.GetQueue(l.Context(), "gpu")
	if err != nil {
		l.Fatal(err)
	}
	if counts, err = l.QueueCounts(l.Context(), q, 1000); err != nil {
		l.Fatal(err)
	}
	promises, err := l.QueuePromises(l.Context(), q, counts)
	if err != nil || len(promises) != 1 {
		l.Fatalf("promises: %+v, %v", promises, err)
	}
	return promises[0], counts
}

// A count of a queue is used for a second or longer.
func TestAKeptPromiseIsNotShownAsBrokenByAnOldCount(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		starts bool
		want   bool // it is kept, once the runs are counted again
	}{
		{"the run that waited has started in time", true, true},
		{"the run still waits", false, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			onQueues(t, func(l *line) {
				in := gpuQueue()
				in.Expect.WaitWithinMS = 60_000
				if _, err := l.UpsertQueue(l.Context(), in); err != nil {
					l.Fatal(err)
				}
				l.enqueue(registrar.EnqueueInput{Runs: []registrar.QueuedInput{job()}})
				l.now = noon.Add(59 * time.Second)
				if p, _ := l.promise(); !p.Kept {
					l.Fatalf("after 59 s it is %+v", p)
				}
				q, err := l.GetQueue(l.Context(), "gpu")
				if err != nil {
					l.Fatal(err)
				}
				if tc.starts {
					out, err := l.admits(l.Context(), schedule.AdmitRequest{
						QueueNo: q.No, Now: l.now, Free: 1, Lease: func(schedule.Key) time.Duration { return time.Second }, RetryFor: time.Minute,
					})
					if err != nil || len(out.Dispatches) != 1 {
						l.Fatalf("admitted %+v, %v", out, err)
					}
				}
				l.now = noon.Add(61 * time.Second)
				for end := time.Now().Add(10 * time.Second); ; {
					p, counts := l.promise()
					again := counts.At.Equal(l.now)
					if !p.Kept && tc.want || again && p.Kept != tc.want {
						l.Fatalf("it is %+v, with counts of %s", p, counts.At)
					}
					if again {
						break
					}
					if time.Now().After(end) {
						l.Fatal("the runs were not counted again")
					}
				}
			})
		})
	}
}
