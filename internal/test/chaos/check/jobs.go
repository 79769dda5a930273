package check

import (
	"maps"
	"slices"
	"time"

	"github.com/carillon/carillon/internal/test/chaos/record"
)

// jobs are the runs of dispatch queues, sorted. Their invariants are the Q of
// docs/reliability.md.
type jobs struct {
	*checker
	effects   map[string]*effect
	byKey     map[string]*record.Job
	followers map[string][]*record.Job // runs by the one that they retry
	acts      []record.JobAct          // as they were asked for: none overlaps another
	left      map[string]time.Time     // when a run left its queue for good
	admitted  map[string]time.Time     // when its first admission was committed
	stays     map[string]time.Time     // and its last one
	back      map[string]time.Time     // when it last went back to the queue
	entered   map[string]record.JobWrite
	limits    map[string]string // of each run, as the witness saw them last
	slots     []heldSlot        // of reservations
}

// jobChecks checks what people did with queues.
func (c *checker) jobChecks() {
	if !c.Settings.Jobs {
		return
	}
	j := c.newJobs()
	j.counts()
	c.report.Counts.Jobs, c.report.Counts.JobKeys = len(c.Jobs), len(j.effects)
	j.kept()
	for _, key := range slices.Sorted(maps.Keys(j.byKey)) {
		j.run(j.byKey[key])
		j.followed(j.byKey[key])
	}
	j.sent()
	j.stopped()
	j.inputs()
	j.cancels()
	j.groups()
	j.replay()
	j.sequences()
	j.holders()
	j.effectsWithin()
	c.openCalls(j.effects, func(key string) record.Run { return j.shown(key) })
}

func (c *checker) newJobs() *jobs {
	j := &jobs{
		checker: c, effects: effects(c.JobCalls), byKey: make(map[string]*record.Job), followers: make(map[string][]*record.Job),
		acts: slices.Clone(c.JobActs), left: make(map[string]time.Time), admitted: make(map[string]time.Time), stays: make(map[string]time.Time), back: make(map[string]time.Time),
		entered: make(map[string]record.JobWrite), limits: make(map[string]string),
	}
	slices.SortStableFunc(j.acts, func(a, b record.JobAct) int { return a.Asked.Compare(b.Asked) })
	for i := range c.Jobs {
		job := &c.Jobs[i]
		j.byKey[job.Key] = job
		if job.RetryOf != "" {
			j.followers[job.RetryOf] = append(j.followers[job.RetryOf], job)
		}
		c.report.Ended["job "+word(job.Status, job.Reason)]++
	}
	for _, w := range c.JobWrites {
		if w.Kind != record.RunWrite {
			continue
		}
		if w.After == "" {
			j.left[w.Key] = w.Committed
			continue
		}
		j.limits[w.Key] = w.Limits
		if w.Before == "" {
			j.entered[w.Key] = w
		}
		if inFlight(w.Before) && !inFlight(w.After) {
			j.back[w.Key] = w.Committed
		}
		if inFlight(w.After) && !inFlight(w.Before) {
			j.stays[w.Key] = w.Committed
			if j.admitted[w.Key].IsZero() {
				j.admitted[w.Key] = w.Committed
			}
		}
	}
	return j
}

// inFlight: the run counts in max_in_flight and uses its limits.
func inFlight(state string) bool { return state == "dispatching" || state == "running" }

// shown is how a run appears in the report.
func (j *jobs) shown(key string) record.Run {
	if job := j.byKey[key]; job != nil {
		return record.Run{Key: key, ScheduleID: "queue " + job.Queue, RunAt: job.CompletedAt}
	}
	return record.Run{Key: key}
}

// kept is Q1: what was acknowledged is there, and has ended; and a repeated request has made
// nothing more.
func (j *jobs) kept() {
	first := make(map[int]string) // key by the input of its request
	for _, act := range j.acts {
		if act.Verb != record.Enqueue {
			continue
		}
		if len(act.Keys) != len(act.Inputs) {
			j.violate("Q1", record.Run{ScheduleID: "queue " + act.Queue, RunAt: act.Asked}, "%d runs were enqueued, and %d keys answered", len(act.Inputs), len(act.Keys))
			continue
		}
		for i, key := range act.Keys {
			if was, known := first[act.Inputs[i]]; known && was != key {
				j.report.Counts.Doubled++
				j.violate("Q1", j.shown(key), "the repeated request got this key instead of %.12s", was)
			}
			first[act.Inputs[i]] = key
			if j.byKey[key] == nil {
				j.report.Counts.Lost++
				j.violate("Q1", record.Run{Key: key, ScheduleID: "queue " + act.Queue, RunAt: act.Answered}, "the run was acknowledged, and is lost")
			}
		}
	}
	for key, job := range j.byKey {
		if rank[job.Status] != terminal {
			j.violate("Q1", j.shown(key), "it has not ended: %s", job.Status)
		}
	}
}

// run is Q6 and Q10: what the row says is what the executor knows.
func (j *jobs) run(job *record.Job) {
	e, r := j.effects[job.Key], j.shown(job.Key)
	ended := e != nil && e.status != ""
	switch {
	case job.Status == "SKIPPED" && job.Reason == "snoozed":
		if !ended || e.status != "SNOOZE" {
			j.violate("Q6", r, "the executor did not let it snooze")
		}
	case job.Status == "SKIPPED":
		j.violate("Q6", r, "nothing in the workload skips a run: %s", job.Reason)
	case job.Status == "SUCCESS" && (!ended || e.status != "SUCCESS"):
		j.violate("Q6", r, "the executor does not know of this success")
	case job.Reason == "workflow_failed" && (!ended || e.status != "FAILED") && (e == nil || !e.cancelled):
		j.violate("Q6", r, "the executor does not know of this failure")
	case job.Reason == "launch_refused" && (e == nil || !e.refused):
		j.violate("Q6", r, "the executor did not refuse it")
	case job.Status == "CANCELLED" && job.Group == "" && !j.cancelled(job):
		j.violate("Q9", r, "nobody asked for its cancel")
	}
	if slices.Contains([]string{"timeout", "lost", "launch_unavailable"}, job.Reason) {
		j.givenUp(job)
	}
}

// givenUp is Q5: only an outage explains that a run has no answer, or its cancel. A worker that fetches
// is given up sooner.
func (j *jobs) givenUp(job *record.Job) {
	q := record.QueueNamed(job.Queue)
	if beat := time.Duration(q.HeartbeatMS) * time.Millisecond; job.Reason == "lost" && q.Delivery == record.Pull {
		if j.broken(j.admitted[job.Key], job.CompletedAt)+j.rose+j.stall < beat/2 {
			j.violate("Q5", j.shown(job.Key), "its worker fetches, and it was given up as lost")
		}
		return
	}
	if !j.explained(j.admitted[job.Key], job.CompletedAt, job.CancelAsked, job.Reason) {
		j.violate("Q5", j.shown(job.Key), "it was given up as %s without an outage that explains it", job.Reason)
	}
}

// cancelled reports whether somebody asked for the cancel of a run, or of one that it retries.
func (j *jobs) cancelled(job *record.Job) bool {
	for ; job != nil; job = j.byKey[job.RetryOf] {
		if slices.ContainsFunc(j.acts, func(act record.JobAct) bool {
			switch act.Verb {
			case record.CancelJob:
				return act.Keys[0] == job.Key && (!act.Refused || act.Unsure)
			case record.CancelQueue:
				return act.Queue == job.Queue && j.entered[job.Key].Began.Before(act.Answered) && j.left[job.Key].After(act.Asked)
			}
			return false
		}) {
			return true
		}
	}
	return false
}

// retried are the failure classes that are retried by default.
var retried = []string{"transient", "timeout", "lost", "deadline"}

// followed is Q7: who follows a run.
func (j *jobs) followed(job *record.Job) {
	followers, r := j.followers[job.Key], j.shown(job.Key)
	want := 0
	failed := job.Status == "FAILED"
	again := failed && slices.Contains(retried, job.FailureClass) && job.Attempt < job.MaxAttempts && job.CancelAsked.IsZero() && job.Group == ""
	switch {
	case job.Reason == "snoozed", failed && !job.Dead:
		want = 1
	case failed && again:
		j.violate("Q7", r, "attempt %d of %d has failed with class %s, and is dead", job.Attempt, job.MaxAttempts, job.FailureClass)
	}
	if len(followers) != want {
		if len(followers) > 1 {
			j.report.Counts.Doubled++
		}
		j.violate("Q7", r, "it is %s(%s), dead %t, and %d runs follow it; want %d", job.Status, job.Reason, job.Dead, len(followers), want)
		return
	}
	if failed && !again && !job.Dead && job.Group == "" && job.Queue != redrivenQueue {
		j.violate("Q7", r, "attempt %d of %d with class %s is retried", job.Attempt, job.MaxAttempts, job.FailureClass)
	}
	for _, next := range followers {
		attempt := job.Attempt
		if failed {
			attempt++
		}
		if next.Attempt != attempt || next.Queue != job.Queue || next.GroupSeq != job.GroupSeq {
			j.violate("Q7", r, "it is attempt %d in queue %s; run %.12s, which follows it, is attempt %d in queue %s", job.Attempt, job.Queue, next.Key, next.Attempt, next.Queue)
		}
	}
}

// redrivenQueue is the one where people redrive dead runs.
const redrivenQueue = "one"

// sent is the rest of Q6: each call is of a run that was admitted before, changed nothing, and
// none took effect twice.
func (j *jobs) sent() {
	for key, e := range j.effects {
		j.report.Counts.Redelivered += len(e.calls) - 1
		r := j.shown(key)
		if e.begun > 1 {
			j.report.Counts.Doubled++
			j.violate("Q6", r, "it took effect %d times", e.begun)
		}
		if j.byKey[key] == nil {
			j.violate("Q6", r, "the executor was called, and there is no run")
			continue
		}
		if at := j.admitted[key]; at.IsZero() || e.first().Before(at.Add(-tolerance-j.fell)) {
			j.violate("Q6", r, "the executor was called at %s, and it was admitted at %s", clock(e.first()), clock(at))
		}
		for _, got := range e.calls {
			switch {
			case got.Via == record.ByGRPC:
				j.report.Counts.ByGRPC++
			case got.Worker != "":
				j.report.Counts.Fetched++
			}
		}
		for i, got := range e.calls[1:] {
			if got.Body != e.calls[0].Body {
				j.violate("Q6", r, "call %d is another request than the first", i+2)
			}
		}
		// A worker that fetched it and then stood still begins late.
		late := record.QueueNamed(j.byKey[key].Queue).Delivery == record.Pull && j.leasesLost(j.admitted[key], e.first())
		if at := j.left[key]; !late && !at.IsZero() && e.first().After(at.Add(sloppiness+j.rose+j.stall)) {
			j.violate("Q6", r, "its first call came at %s, after its end at %s", clock(e.first()), clock(at))
		}
	}
}

// stopped is Q9: a second after the answer to a pause or a cancel nothing is handed over.
func (j *jobs) stopped() {
	allowed := time.Second + slack + j.rose + j.fell + j.stall
	for i, act := range j.acts {
		if act.Refused {
			continue
		}
		switch act.Verb {
		case record.PauseQueue:
			until := j.Faults[len(j.Faults)-1].Began.Add(time.Hour)
			for _, later := range j.acts[i+1:] {
				if later.Verb == record.ResumeQueue && later.Queue == act.Queue {
					until = later.Asked
					break
				}
			}
			for key, e := range j.effects {
				if job := j.byKey[key]; job != nil && job.Queue == act.Queue && e.first().After(act.Answered.Add(allowed)) && e.first().Before(until) && !j.leasesLost(act.Asked, e.first()) {
					j.violate("Q9", j.shown(key), "its first call came at %s; the queue was paused at %s until %s", clock(e.first()), clock(act.Answered), clock(until))
				}
			}
		case record.CancelQueue:
			for key, e := range j.effects {
				w, known := j.entered[key]
				if known && w.Queue == act.Queue && w.Committed.Before(act.Asked) && e.first().After(act.Answered.Add(allowed)) && !j.leasesLost(act.Asked, e.first()) {
					j.violate("Q9", j.shown(key), "its first call came at %s, after the answer to the cancel of its queue at %s", clock(e.first()), clock(act.Answered))
				}
			}
		case record.CancelJob:
			e := j.effects[act.Keys[0]]
			if e != nil && e.first().After(act.Answered.Add(allowed)) && !j.leasesLost(act.Asked, e.first()) {
				j.violate("Q9", j.shown(act.Keys[0]), "its first call came at %s, after the answer to its cancel at %s", clock(e.first()), clock(act.Answered))
			}
		}
	}
}

// inputs is Q10, INV-001: the executor gets the input of the last change that was accepted, and
// a retry that of the run before it.
func (j *jobs) inputs() {
	given := make(map[string][]int) // what it may be
	for _, act := range j.acts {
		for i, key := range act.Keys {
			switch {
			case act.Verb == record.Enqueue && !act.Same:
				given[key] = []int{act.Inputs[i]}
			case act.Verb == record.UpdateJob && act.Unsure:
				given[key] = append(slices.Clone(given[key]), act.Inputs[i])
			case act.Verb == record.UpdateJob && !act.Refused:
				given[key] = []int{act.Inputs[i]}
			}
		}
	}
	for key, e := range j.effects {
		root := key
		for job := j.byKey[root]; job != nil && job.RetryOf != ""; job = j.byKey[root] {
			root = job.RetryOf
		}
		want, known := given[root]
		if known && !slices.Contains(want, e.calls[0].Input) {
			j.violate("Q10", j.shown(key), "the executor got the input %d, and the run has one of %v", e.calls[0].Input, want)
		}
	}
}
