package storetest

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

func endRace(r *rig) {
	const groups, members = 20, 4
	j := r.jobs("q", maxInFlight(1000), tells("billing"))
	for g := range groups {
		var names []string
		for m := range members {
			names = append(names, fmt.Sprint("g", g, "m", m))
		}
		j.group(fmt.Sprint("g", g), schedule.GroupParallel, strings.Join(names, " "), completes(j))
	}
	runs := j.admission(groups * members).Dispatches
	r.hold(len(runs) == groups*members, "all are admitted, got %d", len(runs))
	r.crowd(members, func(n int) {
		for g := range groups {
			key := j.keyNamed(fmt.Sprint("g", g, "m", n))
			if _, err := r.Finish(r.ctx, []schedule.FinishRequest{{Key: key, Outcome: schedule.Outcome{Status: schedule.StatusSuccess}}}, r.now); err != nil {
				r.Errorf("finish: %v", err)
			}
		}
	})
	for g := range groups {
		after := j.isGroup(fmt.Sprint("g", g), schedule.GroupCompleted, members, 0, 0, 0)
		r.hold(len(j.groupTold(after)) == 1, "group %d has one message", g)
	}
	r.hold(len(j.listed()) == groups, "one run follows each, got %d", len(j.listed()))
}

func endStorm(r *rig) {
	j := r.jobs("q", maxInFlight(1000))
	const groups = 6
	for g := range groups {
		j.group(fmt.Sprint("g", g), []schedule.GroupMode{schedule.GroupParallel, schedule.GroupSequential}[g%2], "", unsealed)
	}
	var mu sync.Mutex
	r.crowd(5, func(n int) {
		for round := range 12 {
			id := fmt.Sprint("g", round%groups)
			switch n {
			case 0, 1: // ends what is admitted
				j.endAdmitted(10)
			case 2, 3: // adds members
				mu.Lock()
				runs := j.membersOf(fmt.Sprintf("n%dr%da n%dr%db n%dr%dc", n, round, n, round, n, round))
				mu.Unlock()
				err := j.Enqueue(r.ctx, schedule.EnqueueRequest{QueueID: j.queue.QueueID, UserID: j.user, GroupID: r.id(id)}, func(f schedule.EnqueueFacts) (schedule.Enqueue, error) {
					if f.Group.Sealed {
						return schedule.Enqueue{}, nil
					}
					after, runs := *f.Group, slices.Clone(runs)
					ledger.EnterGroup(&after, runs, f.GroupOpen)
					return schedule.Enqueue{Runs: runs, Group: &after, Now: r.now}, nil
				})
				if err != nil {
					r.Errorf("add: %v", err)
				}
			case 4:
				_, err := r.ChangeJobGroup(r.ctx, r.id(id), func(g *schedule.JobGroup) (schedule.GroupChange, error) {
					switch {
					case round < groups || g.State != schedule.GroupRunning:
						return schedule.GroupChange{}, nil
					case round%3 == 0:
						g.CancelRequestedAt = r.now
					}
					g.Sealed = true
					return schedule.GroupChange{After: g, Now: r.now}, nil
				})
				if err != nil {
					r.Errorf("change: %v", err)
				}
			}
		}
	})
	for j.endAdmitted(100) > 0 { // the rest
	}
	for g := range groups {
		now := j.groupNow(fmt.Sprint("g", g))
		r.hold(now.State != schedule.GroupRunning && now.Over() == now.Members, "group %d has ended with all members counted, got %+v", g, now)
	}
	r.hold(len(j.listed()) == 0, "nothing waits")
}

// endAdmitted admits runs, ends them as SUCCESS, and counts them.
func (j *jobs) endAdmitted(free int) int {
	out, err := j.Admit(j.ctx, j.admitRequest(free))
	if err != nil {
		j.Errorf("admit: %v", err)
	}
	var done []schedule.FinishRequest
	for _, d := range out.Dispatches {
		done = append(done, schedule.FinishRequest{Key: d.Run.Key, Outcome: schedule.Outcome{Status: schedule.StatusSuccess}})
	}
	if _, err := j.Finish(j.ctx, done, j.now); err != nil {
		j.Errorf("finish: %v", err)
	}
	return len(done)
}
