package storetest

import (
	"time"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

// Seam is a read of a transaction that reads in several statements: others may commit before it.
type Seam string

// The seams of queues.
const (
	SeamWaiting Seam = "waiting" // an admission reads the first runs of a plain queue
	SeamDue     Seam = "due"     // a sweep of queues reads what is due
)

// Seamed is a store that others can change within its transactions.
type Seamed interface {
	// Before calls do once, before the nth of these reads from now on. over ends that.
	Before(at Seam, nth int, do func()) (over func())
}

// meanwhile calls act, and do before the nth of its reads. A store without seams has done it before.
func (r *rig) meanwhile(at Seam, nth int, do, act func(between bool)) {
	r.Helper()
	s, seamed := r.Store.(Seamed)
	if !seamed {
		do(false)
		act(false)
		return
	}
	fired := false
	over := s.Before(at, nth, func() {
		fired = true
		do(true)
	})
	act(true)
	over()
	r.hold(fired, "there is a read %d of what is %s", nth, at)
}

func admitLimitedMeanwhile(r *rig) {
	gpu := r.putLimit("gpu", 1)
	j := r.jobs("q", maxInFlight(10))
	j.put("plain")
	limited, behind := j.job("limited", 5, j.uses("gpu")), j.job("behind", 0, j.uses("gpu"))
	r.meanwhile(SeamWaiting, 1, func(bool) { j.enqueue(0, limited); j.enqueue(0, behind) }, func(between bool) {
		if between {
			j.admits(10, "")
		}
	})
	admitted := j.admits(10, "limited plain")
	r.used(gpu, 1)
	j.end(admitted[0], schedule.StatusSuccess)
	j.admits(10, "behind")
	r.used(gpu, 1)
}

// A store may remember the priorities that it has read.
func admitBehind(r *rig) {
	j := r.jobs("q", maxInFlight(1))
	j.put("a", "b", "c")
	j.enqueue(0, j.job("behind", -5), j.job("last", -6))
	for _, name := range []string{"a", "b", "c", "behind", "last"} {
		j.end(j.admits(10, name)[0], schedule.StatusSuccess)
	}
}

// Postgres repeats the transaction of an end that history refuses, as for two runs of one instant
// with the same number, which nobody but a hand at the table makes of jobs.
func sweepRepeated(r *rig) {
	j := r.jobs("q")
	ended := j.put("ended")[0]
	j.end(j.admits(1, "ended")[0], schedule.StatusSuccess)
	expires := j.job("expires", 0, startBy(r.at(time.Minute)))
	first, second := j.job("first", 0, delayed(r.at(time.Minute))), j.job("second", 0, delayed(r.at(time.Minute)))
	for _, run := range []schedule.Run{expires, first, second} {
		j.enqueue(0, run)
	}
	if p, ok := r.Store.(Prober); ok {
		if _, seamed := r.Store.(Seamed); seamed {
			_, err := p.Probe(r.ctx, `UPDATE open_runs SET nth = (SELECT nth FROM ended_runs WHERE idempotency_key = $1) WHERE idempotency_key = $2`, ended.Key[:], expires.Key[:])
			r.ok(err, "give it the number of the other run")
		}
	}
	r.now = r.at(time.Minute)
	var swept ledger.SweptQueues
	r.meanwhile(SeamDue, 3, func(bool) { // each attempt reads what is due of slots, and of jobs
		r.cancelMany(schedule.RunFilter{AnyOf: []schedule.Key{first.Key}}, ledger.CancelOrder{Named: true})
	}, func(bool) { swept = j.sweepQueues() })
	r.hold(len(swept.Ended) == 1 && swept.Ended[0].Run.Key == expires.Key && swept.Ready, "one ends, and another is ready, got %+v", swept)
	got := r.ledger(expires.Key)
	r.hold(got.Status == schedule.StatusSkipped && got.Reason == schedule.ReasonExpired, "it ends SKIPPED(expired), got %s(%s)", got.Status, got.Reason)
	r.hold(r.ledger(first.Key).Status == schedule.StatusCancelled, "the run that the first attempt would have moved is cancelled")
	j.waits("second")
	equal(r, "after it", j.sweepQueues(), ledger.SweptQueues{})
}
