package storetest

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

var fences = []check{
	{"under a term that is not the leader's nothing is done", fenceRefuses},
	{"the leader himself is let through", fenceLetsThrough},
	{"terms of different shards do not disturb each other", fenceShardsApart},
	{"once a takeover has returned nothing is written under the older epoch", fenceAgainstOpenTransactions},
}

// fenced are the transactions that name a term.
var fenced = []struct {
	name string
	call func(r *rig, term schedule.Term) error
}{
	{"Plan", func(r *rig, term schedule.Term) error {
		req := r.planRequest()
		req.Term = term
		_, err := r.Plan(r.ctx, req, func(candidates []schedule.PlanCandidate) []schedule.PlanDecision {
			var decisions []schedule.PlanDecision
			for _, c := range candidates {
				d := keep(c)
				d.Failures++
				decisions = append(decisions, *d)
			}
			return decisions
		})
		return err
	}},
	{"Claim", func(r *rig, term schedule.Term) error {
		req := r.claimRequest()
		req.Term = term
		_, err := r.tryClaim(req)
		return err
	}},
	{"Reclaim", func(r *rig, term schedule.Term) error {
		req := r.claimRequest()
		req.Term = term
		_, err := r.Reclaim(r.ctx, req.reclaim(schedule.ManualKey(r.id("fenced"), "launching")))
		return err
	}},
	{"Settle", func(r *rig, term schedule.Term) error {
		key := schedule.ManualKey(r.id("fenced"), "flying")
		_, err := r.Settle(r.ctx, term, r.now, []schedule.Settlement{{Key: key, To: schedule.StatusStarted, RunID: "written"}})
		return err
	}},
	{"Sweep", func(r *rig, term schedule.Term) error {
		_, err := r.Sweep(r.ctx, schedule.SweepRequest{Term: term, Now: r.at(1000 * time.Hour), CancelWait: cancelWait, RetryFor: retryFor, Limit: 10})
		return err
	}},
	{"Take", func(r *rig, term schedule.Term) error {
		_, err := r.Take(r.ctx, ledger.TakeRequest{Term: term, Now: r.now, ScheduleIDs: []string{r.id("fenced consumer")}})
		return err
	}},
	{"Prune", func(r *rig, term schedule.Term) error {
		_, err := r.Prune(r.ctx, term, r.at(1000*time.Hour), 10)
		return err
	}},
}

// fencedLedger has something to do for each of them.
func (r *rig) fencedLedger() (s, consumer schedule.Schedule) {
	r.Helper()
	r.lead()
	s = r.create("fenced", planAt(r.now))
	r.bring(r.manual(s, "ended", r.at(-time.Hour)), schedule.StatusSuccess)
	r.bring(r.manual(s, "flying", r.at(-time.Hour)), schedule.StatusEnqueued, func(st *schedule.Settlement) { st.TimeoutAt = r.at(time.Hour) })
	r.bring(r.manual(s, "launching", r.at(-time.Hour)), schedule.StatusLaunching)
	r.add(r.slot(s, r.now))
	consumer = r.consumer("fenced consumer", []string{"fenced"})
	r.publish("fenced", "a")
	return s, consumer
}

func fenceRefuses(r *rig) {
	s, consumer := r.fencedLedger()
	older := r.term
	r.lead()
	holder := r.term.Holder
	terms := map[string]schedule.Term{
		"of an older epoch":  older,
		"of another holder":  {Shard: r.term.Shard, Holder: holder + "x", Epoch: r.term.Epoch},
		"of an epoch ahead":  {Shard: r.term.Shard, Holder: holder, Epoch: r.term.Epoch + 1},
		"of a shard unknown": {Shard: r.term.Shard + 100_000, Holder: holder, Epoch: r.term.Epoch},
		"that is zero":       {},
	}
	runs, row := r.runsOf(s), r.row(s)
	for name, term := range terms {
		for _, f := range fenced {
			err := f.call(r, term)
			r.hold(err != nil, "%s refuses a term %s", f.name, name)
			if term != (schedule.Term{}) {
				r.hold(errors.Is(err, schedule.ErrFenced), "%s answers ErrFenced to a term %s, got %v", f.name, name, err)
			}
			equal(r, fmt.Sprintf("inbox after %s under a term %s", f.name, name), r.inbox(consumer), []string{"a pending"})
			equal(r, fmt.Sprintf("runs after %s under a term %s", f.name, name), r.runsOf(s), runs)
			equal(r, fmt.Sprintf("schedules after %s under a term %s", f.name, name), r.row(s), row)
		}
	}
}

func fenceLetsThrough(r *rig) {
	r.fencedLedger()
	for _, f := range fenced {
		r.ok(f.call(r, r.term), f.name+" by the leader")
	}
}

func fenceShardsApart(r *rig) {
	r.lead()
	mine := r.term
	other, ok, err := r.Takeover(r.ctx, schedule.TakeoverRequest{Shard: mine.Shard + 100_000, Holder: "other", TTL: time.Hour, LockHeld: true, Now: r.now})
	r.ok(err, "take over another shard")
	r.hold(ok, "another shard has a leader of its own")
	for _, term := range []schedule.Term{mine, other} {
		_, err := r.Settle(r.ctx, term, r.now, []schedule.Settlement{{Key: schedule.ManualKey("no", "run"), To: schedule.StatusSuccess}})
		r.ok(err, "settle as the leader of a shard")
	}
}

// fenceAgainstOpenTransactions lets an old leader write as fast as it can while
// another takes over: the takeover has to wait for what is under way.
func fenceAgainstOpenTransactions(r *rig) {
	r.lead()
	s := r.create("contended")
	run := r.bring(r.slot(s, r.now), schedule.StatusStarted)
	for range 5 {
		old := r.term
		writing := make(chan struct{})
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() {
				for i := range 10_000_000 {
					_, err := r.Settle(r.ctx, old, r.now, []schedule.Settlement{{Key: run.Key, To: schedule.StatusStarted, RunID: fmt.Sprint(old.Epoch, "-", i)}})
					if i == 0 {
						writing <- struct{}{}
					}
					if errors.Is(err, schedule.ErrFenced) {
						return
					}
					if err != nil {
						r.Errorf("settle under the old term: %v", err)
						return
					}
				}
				r.Errorf("the old leader was never fenced")
			})
		}
		<-writing
		<-writing
		r.lead()
		seen := r.ledger(run.Key).RunID
		wg.Wait()
		r.hold(r.ledger(run.Key).RunID == seen, "the old leader wrote %q after the takeover had returned (%q)", r.ledger(run.Key).RunID, seen)
	}
}
