package storetest

import (
	"fmt"
	"sync"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

func orderedFacts(r *rig) {
	r.putLimit("customer", 3, func(l *schedule.Limit) { l.Keyed = true })
	j := r.jobs("q", maxInFlight(100))
	id := r.id("customer")
	j.putUsing([]string{"a1", "a2"}, "customer=a")
	j.putUsing([]string{"b1"}, "customer=b")
	facts := r.limitFacts(id)
	j.hold(facts.MostUsed == 0 && facts.Over == schedule.LimitKeyFacts{}, "nothing is used, got %+v", facts)
	j.admits(10, "a1 a2 b1")
	for n, key := range []string{"none", "one", "two", "three"} {
		r.changeLimit("customer", schedule.LimitChange{Key: &schedule.LimitKey{Key: key, MaxInFlight: new(uint32(n)), Until: r.at(time.Duration(n+1) * time.Hour)}})
	}
	facts = r.limitFacts(id)
	j.hold(facts.MostUsed == 2 && facts.Over.Count == 2 && facts.Over.End.Equal(r.at(4*time.Hour)), "two keys are over 1, and one has two uses, got %+v", facts)
	r.changeLimit("customer", schedule.LimitChange{Key: &schedule.LimitKey{Key: "two", MaxInFlight: new(uint32(2))}})
	facts = r.limitFacts(id)
	j.hold(facts.Over.Count == 2 && facts.Over.End.IsZero() && facts.Over.Hold(r.at(100*time.Hour)), "one has no end, got %+v", facts)
	l := r.putLimit("customer", 1, ordered)
	j.hold(l.Ordered && l.Keyed, "it is ordered, got %+v", l)
	found, err := r.GetLimit(r.ctx, id)
	r.ok(err, "read")
	j.hold(found.Ordered, "it is read so, got %+v", found)
}

func orderedRace(r *rig) {
	const keys, each = 3, 8
	r.putLimit("customer", 1, ordered)
	var queues []*jobs
	for q := range 2 {
		j := r.jobs(fmt.Sprint("q", q), maxInFlight(100))
		for i := range keys * each {
			j.putUsing([]string{fmt.Sprint(q, ".", i)}, fmt.Sprint("customer=", i%keys))
		}
		queues = append(queues, j)
	}
	var mu sync.Mutex
	begun := make(map[schedule.Limits]schedule.Key) // the first attempt of the run that has the key
	first := make(map[schedule.Key]schedule.Key)
	done := 0
	r.crowd(8, func(n int) {
		j := queues[n%len(queues)]
		for r.ctx.Err() == nil && !r.Failed() {
			mu.Lock()
			over := done == 2*keys*each
			mu.Unlock()
			if over {
				return
			}
			out, err := j.Admit(r.ctx, j.admitRequest(3))
			if err != nil {
				r.Errorf("admit: %v", err)
				return
			}
			for i := range out.Dispatches {
				run := out.Dispatches[i].Run
				outcome := schedule.Outcome{Status: schedule.StatusSuccess}
				mu.Lock()
				if first[run.Key] = run.Key; !run.RetryOf.IsZero() {
					first[run.Key] = first[run.RetryOf]
				}
				if has, taken := begun[run.Queue.Limits]; taken && has != first[run.Key] {
					r.Errorf("%s starts between two attempts of %s", run.Key, has)
				}
				begun[run.Queue.Limits] = first[run.Key]
				if run.Snoozes < 2 {
					outcome = aSnooze(0)
				} else {
					delete(begun, run.Queue.Limits)
					done++
				}
				mu.Unlock()
				if _, err := r.Finish(r.ctx, []schedule.FinishRequest{{Key: run.Key, Outcome: outcome}}, r.now); err != nil {
					r.Errorf("finish: %v", err)
				}
			}
		}
	})
	r.hold(done == 2*keys*each, "every run has ended, got %d", done)
}
