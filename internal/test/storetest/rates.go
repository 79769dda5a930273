package storetest

import (
	"strings"
	"time"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

// rates are admissions under the rates of queues and limits, and of runs that wait for long.
var rates = []check{
	{"runs of a queue with a rate start evenly spaced", rateOfQueue},
	{"runs of several queues share the rate of a limit", rateOfLimit},
	{"a burst may start at once after a pause", rateBurst},
	{"a run that waits for long passes higher priorities, every second start at most", promoted},
	{"a slow rate that is replaced does not hold starts for long", rateReplaced},
}

func rate(starts, perMS, burst uint32) schedule.RateDefinition {
	return schedule.RateDefinition{Starts: starts, PerMS: perMS, Burst: burst}
}

// startTimes are when the admitted runs of a queue start, from the rig's now on.
func (j *jobs) startTimes() (out []time.Duration, block *ledger.Block) {
	j.Helper()
	a := j.admission(100)
	for _, d := range a.Dispatches {
		out = append(out, d.StartAt.Sub(j.now))
	}
	return out, a.Block
}

func rateOfQueue(r *rig) {
	j := r.jobs("q", maxInFlight(100), func(q *schedule.Queue) { q.Rate = rate(10, 1000, 1) })
	j.put("a", "b", "c", "d", "e")
	starts, block := j.startTimes()
	equal(r, "starts", starts, []time.Duration{0, 100 * time.Millisecond, 200 * time.Millisecond})
	j.hold(block != nil && block.What == ledger.BlockedByRate && block.Limit.ID == "" && block.Until.Equal(r.at(300*time.Millisecond)), "the rate keeps the others, got %+v", block)
	starts, _ = j.startTimes()
	j.hold(len(starts) == 0, "no other one starts, got %v", starts)
	r.now = r.at(300 * time.Millisecond)
	starts, _ = j.startTimes()
	equal(r, "later starts", starts, []time.Duration{0, 100 * time.Millisecond})
}

func rateOfLimit(r *rig) {
	r.putLimit("api", 0, func(l *schedule.Limit) { l.Rate = rate(2, 1000, 1) })
	a, b := r.jobs("a", maxInFlight(100)), r.jobs("b", maxInFlight(100))
	a.putUsing([]string{"a1"}, "api")
	b.putUsing([]string{"b1", "b2"}, "api")
	b.put("free")
	starts, _ := a.startTimes()
	equal(r, "starts of the first queue", starts, []time.Duration{0})
	r.now = r.at(300 * time.Millisecond)
	starts, block := b.startTimes()
	equal(r, "starts of the second queue", starts, []time.Duration{200 * time.Millisecond, 0})
	j := r.limits("api").Refs()[0]
	r.hold(block != nil && block.What == ledger.BlockedByRate && block.Limit == j && block.Until.Equal(r.at(700*time.Millisecond)), "the rate of the limit keeps the last one, got %+v", block)
}

func rateBurst(r *rig) {
	j := r.jobs("q", maxInFlight(100), func(q *schedule.Queue) { q.Rate = rate(10, 10_000, 3) })
	j.put("a", "b", "c", "d", "e")
	starts, _ := j.startTimes()
	equal(r, "starts", starts, []time.Duration{0, 0, 0})
	r.now = r.at(time.Second)
	starts, _ = j.startTimes()
	equal(r, "after a second", starts, []time.Duration{0})
}

func promoted(r *rig) {
	r.putLimit("gpu", 1)
	j := r.jobs("q", maxInFlight(100), func(q *schedule.Queue) { q.PromoteAfterMS = 60_000 })
	for _, name := range []string{"l1", "l2", "l3"} {
		j.enqueue(0, j.job(name, -5))
	}
	j.enqueue(0, j.job("g1", -5, j.uses("gpu")), j.job("g2", -5, j.uses("gpu")))
	r.now = r.at(59 * time.Second)
	for _, name := range []string{"h1", "h2", "h3", "h4", "h5"} {
		j.enqueue(0, j.job(name, 5))
	}
	j.admits(1, "h1")
	r.now = r.at(time.Second)
	names := ""
	for names != "l1 h2 l2 h3 l3 h4 g1 h5" && len(names) < 100 {
		for _, d := range j.admission(8).Dispatches {
			names = strings.TrimSpace(names + " " + j.names[d.Run.Key])
		}
		if len(j.listed()) == 1 {
			break
		}
	}
	equal(r, "the order of the starts", names, "l1 h2 l2 h3 l3 h4 g1 h5")
	j.waits("g2")
}

func rateReplaced(r *rig) {
	slow := func(q *schedule.Queue) { q.Rate = rate(1, 24*3600*1000, 1) }
	j := r.jobs("q", maxInFlight(100), slow)
	j.put("a", "b")
	starts, _ := j.startTimes()
	equal(r, "starts", starts, []time.Duration{0})
	q := j.queue
	q.Rate = rate(10, 1000, 1)
	r.putQueue(q)
	r.now = r.at(time.Second)
	starts, _ = j.startTimes()
	equal(r, "starts of the faster rate", starts, []time.Duration{0})
}
