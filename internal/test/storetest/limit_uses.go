package storetest

import (
	"fmt"
	"sync"
	"time"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

// limitUses are admissions of runs that use limits.
var limitUses = []check{
	{"a full limit keeps its runs waiting, and the others pass", limitPasses},
	{"an admission reads no run behind a full limit, and of others no more than its limits have left", limitReads},
	{"all queues share a limit", limitShared},
	{"each key of a limit counts for itself", limitKeyed},
	{"a run that uses several limits waits for each of them", limitSeveral},
	{"a run gives its limits back with its end, whatever ends it", limitGivenBack},
	{"a run that waits again gives its limits back", limitPutBack},
	{"a failed run's next attempt uses the same limits", limitOfRetry},
	{"a lowered limit ends nothing, and admits nothing until its use is below it", limitLowered},
	{"a key has its own numbers until they end, and 0 stops it", limitOwnNumbers},
	{"a limit that does not exist binds nothing", limitGone},
	{"a sweep that is asked to deletes uses without a run, and no others", limitOrphans},
	{"a run is admitted with the limits that it has then", limitChanged},
	{"the limits of a run stay once it was admitted", limitStays},
	{"a run that waits for a limit is explained by it, with who uses it", limitExplained},
	{"of eight that admit from four queues nobody exceeds the limit that they share", limitRace},
}

// putLimit stores a limit of the rig's user.
func (r *rig) putLimit(id string, maxInFlight uint32, edits ...func(*schedule.Limit)) *schedule.Limit {
	r.Helper()
	l, err := r.ChangeLimit(r.ctx, r.id(id), func(f schedule.LimitFacts) (schedule.LimitChange, error) {
		l := schedule.Limit{LimitDefinition: schedule.LimitDefinition{LimitID: r.id(id), UserID: r.user, MaxInFlight: maxInFlight}, Revision: 1, CreatedAt: r.now, UpdatedAt: r.now}
		if f.Limit != nil {
			l.No, l.Revision = f.Limit.No, f.Limit.Revision+1
		}
		for _, edit := range edits {
			edit(&l)
		}
		return schedule.LimitChange{After: &l}, nil
	})
	r.ok(err, "put limit")
	return l
}

func (r *rig) changeLimit(id string, change schedule.LimitChange) {
	r.Helper()
	_, err := r.ChangeLimit(r.ctx, r.id(id), func(schedule.LimitFacts) (schedule.LimitChange, error) { return change, nil })
	r.ok(err, "change limit")
}

// limits are the limits of a run, by the names that the rig gave them.
func (r *rig) limits(texts ...string) schedule.Limits {
	r.Helper()
	ids := make([]string, len(texts))
	for i, text := range texts {
		ids[i] = r.id(text)
	}
	l, err := schedule.MergeLimits(ids)
	r.ok(err, "merge limits")
	return l
}

// uses makes a job use limits.
func (j *jobs) uses(texts ...string) func(*schedule.Run) {
	return func(run *schedule.Run) { run.Queue.Limits = j.limits(texts...) }
}

// putUsing puts jobs of priority 0 at the end that use limits.
func (j *jobs) putUsing(names []string, texts ...string) (runs []schedule.Run) {
	j.Helper()
	for _, name := range names {
		run := j.job(name, 0, j.uses(texts...))
		j.enqueue(0, run)
		runs = append(runs, run)
	}
	return runs
}

// used fails unless so many runs use a limit.
func (r *rig) used(l *schedule.Limit, want int) {
	r.Helper()
	uses, err := r.ListLimitUses(r.ctx, l.No, 1000)
	r.ok(err, "list uses")
	r.hold(len(uses) == want, "%d runs use limit %s, got %v", want, l.LimitID, uses)
}

func limitPasses(r *rig) {
	gpu := r.putLimit("gpu", 1)
	j := r.jobs("q", maxInFlight(100))
	j.putUsing([]string{"a", "b"}, "gpu")
	j.put("c")
	j.putUsing([]string{"d"}, "gpu")
	j.put("e")
	out := j.admission(10)
	j.hold(out.Block != nil && out.Block.What == ledger.BlockedByLimit && out.Block.Used == 1 && out.Block.Max == 1, "the limit is full, got %+v", out.Block)
	j.waits("b d")
	r.used(gpu, 1)
	j.admits(10, "")
}

func limitShared(r *rig) {
	gpu := r.putLimit("gpu", 2)
	a, b := r.jobs("a", maxInFlight(100)), r.jobs("b", maxInFlight(100))
	first := a.putUsing([]string{"a1", "a2"}, "gpu")
	b.putUsing([]string{"b1"}, "gpu")
	a.admits(10, "a1 a2")
	b.admits(10, "")
	a.end(first[0], schedule.StatusSuccess)
	b.admits(10, "b1")
	r.used(gpu, 2)
}

func limitKeyed(r *rig) {
	customer := r.putLimit("customer", 1, func(l *schedule.Limit) { l.Keyed = true })
	j := r.jobs("q", maxInFlight(100))
	a := j.putUsing([]string{"a1", "a2"}, "customer=a")
	j.putUsing([]string{"b1"}, "customer=b")
	j.admits(10, "a1 b1")
	r.used(customer, 2)
	counts, err := r.CountLimitUses(r.ctx, customer.No, 10)
	r.ok(err, "count uses")
	equal(r, "uses by key", counts, []schedule.LimitCount{{Key: "a", Used: 1}, {Key: "b", Used: 1}})
	j.end(a[0], schedule.StatusSuccess)
	j.admits(10, "a2")
}

func limitSeveral(r *rig) {
	gpu, api := r.putLimit("gpu", 1), r.putLimit("api", 1)
	j := r.jobs("q", maxInFlight(100))
	g := j.putUsing([]string{"g"}, "gpu")
	j.admits(10, "g")
	j.putUsing([]string{"both"}, "gpu", "api")
	a := j.putUsing([]string{"a"}, "api")
	j.admits(10, "a")
	j.end(g[0], schedule.StatusSuccess)
	j.admits(10, "")
	j.end(a[0], schedule.StatusSuccess)
	j.admits(10, "both")
	r.used(gpu, 1)
	r.used(api, 1)
}

func limitGivenBack(r *rig) {
	gpu := r.putLimit("gpu", 100)
	j := r.jobs("q", maxInFlight(100))
	runs := j.putUsing([]string{"succeeds", "fails", "cancelled", "timed out", "lost"}, "gpu")
	j.admits(10, "succeeds fails cancelled timed out lost")
	j.accept(runs[2])
	j.accept(runs[3])
	r.used(gpu, 5)
	j.end(runs[0], schedule.StatusSuccess)
	r.used(gpu, 4)
	j.end(runs[1], schedule.StatusFailed)
	r.used(gpu, 3)
	j.settleLaunched(schedule.Settlement{Key: runs[2].Key, To: schedule.StatusCancelled, Reason: schedule.ReasonCancelled, CompletedAt: r.now})
	r.used(gpu, 2)
	r.now = r.at(30 * 24 * time.Hour)
	j.sweepQueues()
	for _, run := range runs {
		j.hold(j.ledger(run.Key).Status.Terminal(), "%s has ended", j.names[run.Key])
	}
	r.used(gpu, 0)
}

func limitPutBack(r *rig) {
	gpu := r.putLimit("gpu", 1)
	j := r.jobs("q", maxInFlight(100))
	runs := j.putUsing([]string{"a", "b"}, "gpu")
	j.admits(10, "a")
	j.unsent(runs[0])
	r.used(gpu, 1)
	j.hold(j.putsBack(runs[0]), "it waits again")
	r.used(gpu, 0)
	j.admits(10, "a")
	r.used(gpu, 1)
}

func limitOfRetry(r *rig) {
	gpu := r.putLimit("gpu", 1)
	j := r.jobs("q", maxInFlight(100))
	runs := j.putUsing([]string{"a"}, "gpu")
	j.admits(10, "a")
	after := j.end(runs[0], schedule.StatusFailed)
	r.used(gpu, 0)
	equal(r, "limits of the ended run", after.Queue.Limits, runs[0].Queue.Limits)
	key, retried := after.RetriedBy()
	j.hold(retried, "it is retried")
	next := j.ledger(key)
	equal(r, "limits of the next attempt", next.Queue.Limits, runs[0].Queue.Limits)
	r.now = next.FireAt
	j.sweepQueues()
	j.names[next.Key] = "again"
	j.admits(10, "again")
	r.used(gpu, 1)
}

func limitLowered(r *rig) {
	gpu := r.putLimit("gpu", 3)
	j := r.jobs("q", maxInFlight(100))
	runs := j.putUsing([]string{"a", "b", "c", "d"}, "gpu")
	j.admits(10, "a b c")
	r.putLimit("gpu", 1)
	r.used(gpu, 3)
	j.end(runs[0], schedule.StatusSuccess)
	j.end(runs[1], schedule.StatusSuccess)
	j.admits(10, "")
	j.end(runs[2], schedule.StatusSuccess)
	j.admits(10, "d")
}

func limitOwnNumbers(r *rig) {
	r.putLimit("customer", 1, func(l *schedule.Limit) { l.Keyed = true })
	j := r.jobs("q", maxInFlight(100))
	r.changeLimit("customer", schedule.LimitChange{Key: &schedule.LimitKey{Key: "a", MaxInFlight: new(uint32(2)), Until: r.at(time.Minute)}})
	r.changeLimit("customer", schedule.LimitChange{Key: &schedule.LimitKey{Key: "b", MaxInFlight: new(uint32(0))}})
	a := j.putUsing([]string{"a1", "a2", "a3"}, "customer=a")
	j.putUsing([]string{"b1"}, "customer=b")
	j.admits(10, "a1 a2")
	r.now = r.at(time.Minute)
	j.end(a[0], schedule.StatusSuccess)
	j.admits(10, "")
	r.changeLimit("customer", schedule.LimitChange{DropKey: "b"})
	j.admits(10, "b1")
	j.end(a[1], schedule.StatusSuccess)
	j.admits(10, "a3")
}

func limitGone(r *rig) {
	gpu := r.putLimit("gpu", 1)
	j := r.jobs("q", maxInFlight(100))
	runs := j.putUsing([]string{"a", "b", "c"}, "gpu", "nothing")
	j.admits(10, "a")
	j.end(runs[0], schedule.StatusSuccess)
	r.used(gpu, 0)
	r.changeLimit("gpu", schedule.LimitChange{Delete: true})
	j.admits(10, "b c")
	gpu = r.putLimit("gpu", 1)
	r.used(gpu, 0)
	j.end(runs[1], schedule.StatusSuccess)
	r.used(gpu, 0)
}

func limitChanged(r *rig) {
	gpu, api := r.putLimit("gpu", 1), r.putLimit("api", 1)
	j := r.jobs("q", maxInFlight(100))
	runs := j.putUsing([]string{"a", "b", "c"}, "gpu")
	j.ok(j.changes(runs[1].Key, func(run *schedule.Run) { run.Queue.Limits = r.limits("api") }), "change limits")
	j.ok(j.changes(runs[2].Key, func(run *schedule.Run) { run.Queue.Limits = "" }), "drop limits")
	j.admits(10, "a b c")
	r.used(gpu, 1)
	r.used(api, 1)
	equal(r, "limits of the run", j.ledger(runs[1].Key).Queue.Limits, r.limits("api"))
}

func limitStays(r *rig) {
	r.putLimit("gpu", 1)
	j := r.jobs("q", maxInFlight(100))
	runs := j.putUsing([]string{"a"}, "gpu")
	j.admits(10, "a")
	change := func() error {
		return j.changes(runs[0].Key, func(run *schedule.Run) { run.Queue.Limits = "" })
	}
	j.refusesChange(change())
	j.unsent(runs[0])
	j.hold(j.putsBack(runs[0]), "it waits again")
	j.refusesChange(change())
}

func limitExplained(r *rig) {
	r.putLimit("gpu", 2)
	r.putLimit("api", 1)
	j := r.jobs("q", maxInFlight(100))
	runs := j.putUsing([]string{"a", "b", "c"}, "gpu")
	j.putUsing([]string{"x"}, "api")
	j.admits(10, "a b x")
	j.put("free")
	both := j.putUsing([]string{"both"}, "gpu", "api")[0]
	place := func(of schedule.Run) (ledger.WaitingPlace, []ledger.Block) {
		run := j.ledger(of.Key)
		p, err := j.ReadWaitingPlace(r.ctx, &run, 100, 5, r.now)
		r.ok(err, "read")
		return p, p.Blocks(r.now)
	}
	p, blocks := place(runs[2])
	gpu, api := r.limits("gpu").Refs()[0], r.limits("api").Refs()[0]
	fullGPU := ledger.Block{What: ledger.BlockedByLimit, Limit: gpu, Used: 2, Max: 2}
	equal(r, "what blocks it", blocks, []ledger.Block{fullGPU})
	j.hold(len(p.Uses[gpu]) == 2, "two runs use it, got %v", p.Uses)
	_, blocks = place(j.listed()[1])
	j.hold(len(blocks) == 0, "nothing blocks the other, got %+v", blocks)
	_, blocks = place(both)
	equal(r, "what blocks a run of two limits", blocks, []ledger.Block{{What: ledger.BlockedByLimit, Limit: api, Used: 1, Max: 1}, fullGPU})
}

func limitRace(r *rig) {
	const most, each = 3, 15
	r.putLimit("gpu", most)
	var queues []*jobs
	for q := range 4 {
		j := r.jobs(fmt.Sprint("q", q), maxInFlight(100))
		for i := range each {
			j.putUsing([]string{fmt.Sprint(q, ".", i)}, "gpu")
		}
		queues = append(queues, j)
	}
	var mu sync.Mutex
	started, flying := 0, 0
	count := func(n int) int {
		mu.Lock()
		defer mu.Unlock()
		if flying += n; flying > most {
			r.Errorf("%d runs of the limit are in flight", flying)
		}
		started += max(0, n)
		return started
	}
	r.crowd(8, func(n int) {
		j := queues[n%len(queues)]
		for r.ctx.Err() == nil && !r.Failed() && count(0) < len(queues)*each {
			out, err := j.Admit(r.ctx, j.admitRequest(2))
			if err != nil {
				r.Errorf("admit: %v", err)
				return
			}
			for range out.Dispatches {
				count(1)
			}
			for _, d := range out.Dispatches {
				count(-1)
				if _, err := r.Finish(r.ctx, []schedule.FinishRequest{{Key: d.Run.Key, Outcome: schedule.Outcome{Status: schedule.StatusSuccess}}}, r.now); err != nil {
					r.Errorf("finish: %v", err)
				}
			}
		}
	})
	r.hold(started == len(queues)*each, "every run was admitted, got %d", started)
}

func limitOrphans(r *rig) {
	p, offers := r.Store.(Poisoner)
	if !offers {
		r.Skip("the store offers no broken rows")
	}
	l := r.putLimit("gpu", 3)
	j := r.jobs("q", maxInFlight(5))
	_, granted := j.reserves("held", "gpu")
	r.hold(granted, "the reservation is granted")
	j.putUsing([]string{"a", "b"}, "gpu")
	j.admits(5, "a b")
	r.ok(p.OrphanUse(r.ctx, l.LimitID), "make an orphan")
	used := func() (n int) {
		r.Helper()
		counts, err := r.CountLimitUses(r.ctx, l.No, 10)
		r.ok(err, "count uses")
		for _, c := range counts {
			n += c.Used
		}
		return n
	}
	r.hold(used() == 4, "four are used, got %d", used())
	swept := j.sweepQueues()
	r.hold(swept.Orphans == 0 && used() == 4, "a sweep that is not asked to deletes none, got %d of %d", swept.Orphans, used())
	swept = j.sweepQueues(func(req *schedule.QueueSweep) { req.Orphans = true })
	r.hold(swept.Orphans == 1 && used() == 3, "one is deleted, got %d, and %d are left", swept.Orphans, used())
	swept = j.sweepQueues(func(req *schedule.QueueSweep) { req.Orphans = true })
	r.hold(swept.Orphans == 0, "no other one, got %d", swept.Orphans)
}
