package check

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/carillon/carillon/internal/test/chaos/record"
)

// counts is Q1 for queues that keep only failures: a run without a row has succeeded, as far as the
// executor knows (see run), and was counted once. From here on it is a job like others.
func (j *jobs) counts() {
	counted := make(map[string]int)
	for key, w := range j.entered {
		q := record.QueueNamed(w.Queue)
		if q.History != record.OnlyFailures || j.byKey[key] != nil || j.left[key].IsZero() {
			continue
		}
		counted[q.QueueID]++
		j.report.Counts.Counted++
		j.byKey[key] = &record.Job{Key: key, Queue: q.QueueID, Status: "SUCCESS", Trigger: "job", Attempt: 1, CompletedAt: j.left[key]}
	}
	minutes := make(map[string]record.Minutes)
	for _, m := range j.Minutes {
		minutes[m.Queue] = m
	}
	for _, q := range record.Queues {
		m, n := minutes[q.QueueID], counted[q.QueueID]
		if m.Ends != n || m.Starts != n {
			j.report.Counts.Lost += max(0, n-m.Ends)
			j.report.Counts.Doubled += max(0, m.Ends-n)
			j.violate("Q1", record.Run{ScheduleID: "queue " + q.QueueID, RunAt: j.checker.stopped}, "%d of its runs have ended without a row; %d starts and %d ends are counted", n, m.Starts, m.Ends)
		}
	}
}

// sequences is Q2 for ordered limits: once a run of a key has started, no other one does until its last
// attempt is over. A first attempt that goes back to the queue was not taken, and has not started.
func (j *jobs) sequences() {
	type chain struct {
		root      string
		from, end time.Time
	}
	chains := make(map[string]map[string]*chain) // by limit and root
	for key, at := range j.stays {
		for limit := range strings.SplitSeq(j.limits[key], ",") {
			if limit == "" || !record.LimitOf(limit).Ordered {
				continue
			}
			root := j.rootOf(key)
			if root == key && j.back[key].After(at) { // it has never started
				continue
			}
			if chains[limit] == nil {
				chains[limit] = make(map[string]*chain)
			}
			one := chains[limit][root]
			if one == nil {
				one = &chain{root: root, from: at}
				chains[limit][root] = one
			}
			if at.Before(one.from) {
				one.from = at
			}
			one.end = later(one.end, j.left[key])
		}
	}
	for limit, byRoot := range chains {
		sorted := slices.SortedFunc(maps.Values(byRoot), func(a, b *chain) int { return a.from.Compare(b.from) })
		for i := 1; i < len(sorted); i++ {
			before, next := sorted[i-1], sorted[i]
			if next.from.Before(before.end) {
				j.violate("Q2", j.shown(next.root), "it was admitted at %s with %s, and run %.12s had it from %s until its last attempt ended at %s",
					clock(next.from), limit, before.root, clock(before.from), clock(before.end))
			}
		}
	}
}

// rootOf is the run that a run retries, over all attempts.
func (j *jobs) rootOf(key string) string {
	for job := j.byKey[key]; job != nil && job.RetryOf != ""; job = j.byKey[key] {
		key = job.RetryOf
	}
	return key
}

// cancels is Q9 for the cancel of all runs of a queue: each that was there before and after it is
// cancelled, or its cancel is requested.
func (j *jobs) cancels() {
	for _, act := range j.acts {
		if act.Verb != record.CancelQueue {
			continue
		}
		for key, w := range j.entered {
			job := j.byKey[key]
			if w.Queue != act.Queue || job == nil || !w.Committed.Before(act.Asked) || !j.left[key].After(act.Answered) {
				continue
			}
			if job.CancelAsked.IsZero() {
				j.violate("Q9", j.shown(key), "all runs of queue %s were cancelled from %s to %s; it was there and has ended %s",
					act.Queue, clock(act.Asked), clock(act.Answered), word(job.Status, job.Reason))
			}
		}
	}
}
