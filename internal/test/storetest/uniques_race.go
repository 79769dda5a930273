package storetest

import (
	"bytes"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

func uniqueRace(r *rig) {
	j := r.jobs("q")
	const crowd, keys = 8, 6
	var answers sync.Map
	var mu sync.Mutex
	r.crowd(crowd, func(n int) {
		for k := range keys {
			mu.Lock()
			run := j.job(fmt.Sprint(n, "/", k), 0)
			mu.Unlock()
			key, verdict, err := j.tryOnly(schedule.EnqueueRequest{}, asks(fmt.Sprint("k", k)), run)
			if err != nil {
				r.Errorf("enter: %v", err)
			}
			first, there := answers.LoadOrStore(k, key)
			if there && first != key {
				r.Errorf("key %d is answered with %s and %s", k, first, key)
			}
			if (verdict == ledger.EntryNew) != (key == run.Key) {
				r.Errorf("verdict %d with %s", verdict, key)
			}
		}
	})
	r.hold(len(j.listed()) == keys, "one run waits for each key, got %d", len(j.listed()))
}

// uniqueStorm ends and admits runs, and cancels some, while others enter under their keys.
func uniqueStorm(r *rig) {
	j := r.jobs("q", maxInFlight(1000))
	const keys = 3
	var mu sync.Mutex
	r.crowd(6, func(n int) {
		for round := range 25 {
			asked := asks(fmt.Sprint("k", round%keys), []func(*schedule.Unique){replaces, ofScope(schedule.UniqueOpen)}[n%2])
			switch {
			case n == 0: // admits and ends
				j.endAdmitted(10)
			case n == 1: // admits, and fails what it has admitted: retries wait
				j.failAdmitted(2)
			case n == 2 && round%5 == 0:
				for _, run := range j.listed() {
					_, _, err := j.ChangeRun(r.ctx, run.Key, schedule.Key{}, func(in schedule.RunInput) (schedule.RunChange, error) {
						end, request, _ := ledger.RequestCancel(&in.Run, schedule.ReasonCancelled, r.now)
						return schedule.RunChange{Settle: end, AskCancel: request, Now: r.now}, nil
					})
					if err != nil {
						r.Errorf("cancel: %v", err)
					}
				}
			default:
				mu.Lock()
				run := j.job(fmt.Sprint(n, "/", round), 0)
				run.Input = []byte(fmt.Sprintf(`{"n":%d}`, round))
				mu.Unlock()
				if _, _, err := j.tryOnly(schedule.EnqueueRequest{}, asked, run); err != nil {
					r.Errorf("enter: %v", err)
				}
			}
		}
	})
	open := make(map[string]int)
	left := j.listed()
	for i := range left {
		h, err := j.UniqueOf(r.ctx, left[i].Key)
		r.ok(err, "unique key")
		r.hold(h != nil, "run %s holds a key", left[i].Key)
		open[h.Key]++
		r.hold(open[h.Key] == 1, "one open run has key %s", h.Key)
	}
	for len(j.listed()) > 0 {
		r.now = r.at(24 * time.Hour)
		j.sweepQueues()
		j.endAdmitted(100)
	}
	for k := range keys {
		j.enters(asks(fmt.Sprint("k", k)), fmt.Sprint("last", k))
	}
}

func (j *jobs) failAdmitted(free int) {
	out, err := j.Admit(j.ctx, j.admitRequest(free))
	if err != nil {
		j.Errorf("admit: %v", err)
	}
	for _, d := range out.Dispatches {
		failed := schedule.Outcome{Status: schedule.StatusFailed, Reason: schedule.ReasonWorkflowFailed}
		if _, err := j.Finish(j.ctx, []schedule.FinishRequest{{Key: d.Run.Key, Outcome: failed}}, j.now); err != nil {
			j.Errorf("finish: %v", err)
		}
	}
}

// uniqueFairRace replaces many runs of one fair key by each entry, at the same time and with the
// priorities in orders that conflict. Each draws in its new priority, and no two draw the same.
func uniqueFairRace(r *rig) {
	j := r.jobs("q", fairQueue)
	const crowd, keys, rounds = 6, 4, 5
	var mu sync.Mutex
	batch := func(n int, priority func(k int) int32) {
		req := schedule.EnqueueRequest{QueueID: j.queue.QueueID, UserID: j.user}
		var runs []schedule.Run
		var hashes []schedule.Key
		mu.Lock() // a job notes its name
		for k := range keys {
			runs = append(runs, j.job(fmt.Sprint(n, "/", k), priority(k)))
			runs[k].Queue.FairKey = "x"
			hashes = append(hashes, schedule.UniqueHash(j.queue.QueueID, j.user, fmt.Sprint(n, "/", k)))
		}
		mu.Unlock()
		req.Uniques = slices.SortedFunc(slices.Values(hashes), func(a, b schedule.Key) int { return bytes.Compare(a[:], b[:]) })
		err := j.Enqueue(j.ctx, req, func(f schedule.EnqueueFacts) (out schedule.Enqueue, err error) {
			out.BodyHash, out.Now = bodyHash, j.now
			u, rows := ledger.NewUniques(f.Uniques, j.now), slices.Clone(runs)
			for k := range rows {
				key, verdict, err := u.Enter(asks(fmt.Sprint(n, "/", k), replaces), hashes[k], &rows[k])
				if err != nil {
					return out, err
				}
				if out.Keys = append(out.Keys, key); verdict == ledger.EntryNew {
					out.Runs = append(out.Runs, rows[k])
				}
			}
			out.Uniques, out.Replaced = u.Changes()
			return out, nil
		})
		if err != nil {
			r.Errorf("enter: %v", err)
		}
	}
	r.crowd(crowd, func(n int) {
		for round := range rounds {
			batch(n, func(k int) int32 { return int32(10*round + []int{k, keys - 1 - k}[n%2]) })
		}
	})
	type place struct {
		priority int32
		order    int64
	}
	drawn := make(map[place]bool)
	for _, run := range j.listed() {
		p := place{run.Queue.Priority, run.Queue.FairOrder}
		r.hold(p.order > 0 && !drawn[p], "run %s has a turn of its own, got %+v", run.Key, p)
		drawn[p] = true
	}
	r.hold(len(drawn) == crowd*keys, "all runs wait, got %d", len(drawn))
}
