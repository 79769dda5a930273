package storetest

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

var races = []check{
	{"four workers never overlap under skip, nor skip without cause", func(r *rig) { r.raceClaims(schedule.OverlapSkip) }},
	{"four workers fire a queue in order, each run once", func(r *rig) { r.raceClaims(schedule.OverlapQueue) }},
	{"four workers never overlap under replace", func(r *rig) { r.raceClaims(schedule.OverlapReplace) }},
	{"four workers never overlap under coalesce, and end only what a newer slot has replaced", func(r *rig) { r.raceClaims(schedule.OverlapCoalesce) }},
	{"four workers claim each run under allow once", raceClaimsUnderAllow},
	{"what is launched after a pause has returned is not of its schedule", racePauseAndClaim},
	{"two who send again do not send the same run", raceReclaims},
	{"of two reports that contradict each other one moves the run", raceReports},
	{"of many who create one schedule exactly one sees none", raceCreations},
	{"changes of many schedules in any order lose nothing and do not lock up", raceChanges},
	{"two planners plan each slot once", racePlanners},
	{"an edit that keeps the cursor never sets it back, nor last_run_at", raceEditAndProgress},
	{"an edit and a plan that race leave only rows of the edit's revision", raceEditAndPlan},
}

// crowd runs n at once and waits for them.
func (r *rig) crowd(n int, each func(i int)) {
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { each(i) })
	}
	wg.Wait()
	if r.Failed() {
		r.FailNow()
	}
}

// flights keeps count of what is in flight as the workers see it: between the
// claim that launched a run and the settlement that ended it.
type flights struct {
	sync.Mutex
	r        *rig
	flying   map[string]int // by overlap key
	launched map[schedule.Key]int
	order    map[string][]time.Time // fire_at of what was launched, by overlap key
}

func (f *flights) launch(run schedule.Run) {
	f.Lock()
	defer f.Unlock()
	f.flying[run.OverlapKey]++
	if n := f.flying[run.OverlapKey]; n > 1 {
		f.r.Errorf("%d runs of %s are in flight together", n, run.OverlapKey)
	}
	f.launched[run.Key]++
	f.order[run.OverlapKey] = append(f.order[run.OverlapKey], run.FireAt)
}

// end notes that run is about to be settled: its key is free for others from
// within the settlement on, a moment before that returns.
func (f *flights) end(run schedule.Run) {
	f.Lock()
	defer f.Unlock()
	f.flying[run.OverlapKey]--
}

// raceClaims has four workers of one term claim the rows of few overlap keys
// and end them at once.
func (r *rig) raceClaims(policy schedule.OverlapPolicy) {
	r.lead()
	const perKey = 15
	var rows []schedule.Run
	for i := range 3 {
		s := r.create(fmt.Sprint("raced-", i), withPolicy(policy))
		for j := range perKey {
			rows = append(rows, r.slot(s, r.at(-time.Duration(perKey-j)*time.Second)))
		}
	}
	f := &flights{
		r: r, flying: map[string]int{}, launched: map[schedule.Key]int{}, order: map[string][]time.Time{},
	}
	portions := make(chan []schedule.Run, len(rows))
	for i := range perKey {
		portion := []schedule.Run{rows[i], rows[perKey+i], rows[2*perKey+i]}
		if policy == schedule.OverlapQueue { // all at once, or their order would be chance
			r.add(portion...)
			continue
		}
		portions <- portion // one by one, so that claims and ends interleave
	}
	close(portions)
	r.crowd(4, func(int) {
		for range 400 {
			portion, more := <-portions
			for _, run := range portion {
				if err := r.tryChange(schedule.ChangeRequest{}, schedule.Change{ScheduleID: run.ScheduleID, Runs: []schedule.Run{run}}); err != nil {
					r.Errorf("add: %v", err)
				}
			}
			if launches := r.work(f); launches == 0 && !more {
				return
			}
		}
		r.Errorf("a worker finds no end")
	})
	r.settleDown(f)
	r.accountFor(f, policy, rows)
}

// work claims some, ends what it has claimed, and says how many that were.
func (r *rig) work(f *flights) int {
	req := r.claimRequest()
	req.Limit = 2
	result, err := r.tryClaim(req)
	if err != nil {
		r.Errorf("claim: %v", err)
		return 0
	}
	for _, l := range result.Launches {
		f.launch(l.Run)
	}
	for _, l := range result.Launches {
		f.end(l.Run)
		to := schedule.Settlement{Key: l.Run.Key, To: schedule.StatusSuccess}
		if moved, err := r.Settle(r.ctx, r.term, r.now, []schedule.Settlement{to}); err != nil || moved[0].To == "" {
			r.Errorf("settle: moved %v, %v", moved, err)
		}
	}
	return len(result.Launches)
}

// settleDown works alone until nothing is left.
func (r *rig) settleDown(f *flights) {
	for range 100 {
		if r.work(f) == 0 {
			return
		}
	}
	r.Fatalf("rows are left that nobody can claim")
}

func (r *rig) accountFor(f *flights, policy schedule.OverlapPolicy, rows []schedule.Run) {
	r.Helper()
	for key, n := range f.launched {
		r.hold(n == 1, "%s is launched once, got %d times", key, n)
	}
	if policy == schedule.OverlapQueue {
		for key, order := range f.order {
			r.hold(slices.IsSortedFunc(order, time.Time.Compare), "the queue of %s is fired in order, got %v", key, order)
		}
	}
	skips := map[schedule.OverlapPolicy]schedule.Reason{schedule.OverlapSkip: schedule.ReasonOverlap, schedule.OverlapReplace: schedule.ReasonCoalesced, schedule.OverlapCoalesce: schedule.ReasonCoalesced}
	for _, run := range rows {
		got := r.ledger(run.Key)
		switch {
		case f.launched[run.Key] == 1:
			r.hold(got.Status == schedule.StatusSuccess, "what was launched has succeeded, got %s", got.Status)
		case skips[policy] != schedule.ReasonNone:
			r.hold(got.Status == schedule.StatusSkipped && got.Reason == skips[policy], "what was not is SKIPPED(%s), got %s(%s)", skips[policy], got.Status, got.Reason)
		default:
			r.Fatalf("under %s every row is launched, one is %s(%s)", policy, got.Status, got.Reason)
		}
	}
}

func raceClaimsUnderAllow(r *rig) {
	r.lead()
	s := r.create("many")
	var rows []schedule.Run
	for i := range 60 {
		rows = append(rows, r.manual(s, fmt.Sprint(i), r.now))
	}
	r.add(rows...)
	var mu sync.Mutex
	launched := map[schedule.Key]int{}
	r.crowd(4, func(int) {
		for range 2000 {
			req := r.claimRequest()
			req.Limit = 3
			result, err := r.tryClaim(req)
			if err != nil {
				r.Errorf("claim: %v", err)
				return
			}
			mu.Lock()
			for _, l := range result.Launches {
				launched[l.Run.Key]++
			}
			all := len(launched) == len(rows)
			mu.Unlock()
			if all {
				return
			}
		}
		r.Errorf("rows are left that nobody can claim")
	})
	for key, n := range launched {
		r.hold(n == 1, "%s is claimed once, got %d times", key, n)
	}
}
