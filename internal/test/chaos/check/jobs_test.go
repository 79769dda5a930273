package check_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/carillon/carillon/internal/test/chaos/check"
	"github.com/carillon/carillon/internal/test/chaos/record"
)

const (
	jobA = "aa"
	jobB = "bb"
	jobC = "cc"
)

// admittedAt is when the n-th of three jobs was admitted, in seconds; each is over 200 ms later.
func admittedAt(n int) float64 { return 2 + 0.5*float64(n) }

// soundJobs adds three jobs to sound evidence. They wait from the first second on in the queue
// "one", which admits one at a time, and run one after the other.
func soundJobs() *check.Evidence {
	e := sound()
	e.Settings.Jobs = true
	e.JobActs = []record.JobAct{{Verb: record.Enqueue, Queue: "one", Keys: []string{jobA, jobB, jobC}, Inputs: []int{1, 2, 3}, Asked: at(0.4), Answered: at(0.5)}}
	for i, key := range []string{jobA, jobB, jobC} {
		enter(e, 0.45, key, "one", "", "waiting", i, "")
	}
	for i, key := range []string{jobA, jobB, jobC} {
		from := admittedAt(i)
		e.Jobs = append(e.Jobs, record.Job{Key: key, Queue: "one", Status: "SUCCESS", Trigger: "job", Attempt: 1, MaxAttempts: 3, CompletedAt: at(from + 0.2)})
		enter(e, from, key, "one", "waiting", "dispatching", i, "")
		e.JobCalls = append(e.JobCalls,
			record.Executor{At: at(from + 0.02), Kind: record.Call, Key: key, Number: 1, Queue: "one", Input: i + 1, Body: "b"},
			record.Executor{At: at(from + 0.02), Kind: record.Begin, Key: key},
			record.Executor{At: at(from + 0.1), Kind: record.End, Key: key, Status: "SUCCESS"},
			record.Executor{At: at(from + 0.1), Kind: record.Said, Key: key})
		enter(e, from+0.2, key, "one", "dispatching", "", i, "")
	}
	return e
}

// enter adds a write of a run by a transaction of its own.
func enter(e *check.Evidence, when float64, key, queue, before, after string, position int, limits string) {
	n := int64(len(e.JobWrites) + 1)
	e.JobWrites = append(e.JobWrites, record.JobWrite{
		Seq: n, Tx: n, Began: at(when - 0.01), Committed: at(when), Kind: record.RunWrite, Key: key, Queue: queue,
		Before: before, After: after, Position: int64(position), Limits: limits,
	})
}

// use adds a write of a limit.
func use(e *check.Evidence, when float64, key, limit, before, after string) {
	n := int64(len(e.JobWrites) + 1)
	e.JobWrites = append(e.JobWrites, record.JobWrite{
		Seq: n, Tx: n, Began: at(when - 0.01), Committed: at(when), Kind: record.UseWrite, Key: key, Before: before, After: after, Limits: limit,
	})
}

// write is the n-th write of a run.
func write(e *check.Evidence, key string, n int) *record.JobWrite {
	for i := range e.JobWrites {
		if w := &e.JobWrites[i]; w.Key == key && w.Kind == record.RunWrite {
			if n--; n < 0 {
				return w
			}
		}
	}
	panic(fmt.Sprintf("%s has not so many writes", key))
}

func call(e *check.Evidence, key, kind string) *record.Executor {
	at := slices.IndexFunc(e.JobCalls, func(x record.Executor) bool { return x.Key == key && x.Kind == kind })
	return &e.JobCalls[at]
}

func TestSoundJobsPass(t *testing.T) {
	t.Parallel()
	r := check.Run(soundJobs())
	for _, v := range r.Violations {
		t.Errorf("%s: %s", v.Invariant, v.Text)
	}
	if r.Counts.Jobs != 3 || r.Counts.JobKeys != 3 {
		t.Errorf("counted %+v, want 3 jobs and keys", r.Counts)
	}
}

// The third job goes before the second one, whose limit is full until later.
func TestAJobWithAFullLimitIsPassedOver(t *testing.T) {
	t.Parallel()
	for freed, want := range map[float64]bool{
		2.9:  false,
		2.45: false, // just before the admission began: it may not have seen that
		2.3:  true,
		0:    true, // it was never used
	} {
		e := soundJobs()
		for i := range 3 {
			write(e, jobB, i).Limits = "customer=c1"
		}
		*write(e, jobB, 1), *write(e, jobC, 1) = *write(e, jobC, 1), *write(e, jobB, 1)
		*write(e, jobB, 2), *write(e, jobC, 2) = *write(e, jobC, 2), *write(e, jobB, 2)
		order := []string{jobA, jobC, jobB}
		for i, key := range order {
			for n, off := range []float64{0, 0.2} {
				w := write(e, key, n+1)
				w.Began, w.Committed = at(admittedAt(i)+off-0.01), at(admittedAt(i)+off)
			}
		}
		if freed > 0 {
			use(e, 1, "other", "customer=c1", "", "used")
			use(e, freed, "other", "customer=c1", "used", "")
		}
		if found := check.Run(e).Broken()["Q2"] > 0; found != want {
			t.Errorf("freed at %v: a violation of the order is found: %t, want %t", freed, found, want)
		}
	}
}

// Each case breaks one promise in sound evidence.
func TestWhatIsBrokenOfJobsIsFound(t *testing.T) {
	for _, test := range []struct {
		name   string
		broken string
		how    func(e *check.Evidence)
	}{
		{"an acknowledged run is gone", "Q1", func(e *check.Evidence) {
			e.Jobs = slices.Delete(e.Jobs, 1, 2)
			e.JobCalls = slices.DeleteFunc(e.JobCalls, func(x record.Executor) bool { return x.Key == jobB })
		}},
		{"a repeated request makes another run", "Q1", func(e *check.Evidence) {
			again := e.JobActs[0]
			again.Same, again.Keys = true, []string{jobA, jobC, jobB}
			e.JobActs = append(e.JobActs, again)
		}},
		{"a run has not ended", "Q1", func(e *check.Evidence) { e.Jobs[2].Status = "ENQUEUED" }},
		{"a run that came later goes first", "Q2", func(e *check.Evidence) { write(e, jobC, 0).Position, write(e, jobC, 1).Position = -1, -1 }},
		{"two runs are in flight where one may be", "Q3", func(e *check.Evidence) {
			write(e, jobA, 2).Committed = at(admittedAt(1) + 0.1)
		}},
		{"two runs are at work where one may be", "Q3", func(e *check.Evidence) {
			call(e, jobA, record.End).At = at(admittedAt(1) + 0.1)
			write(e, jobA, 2).Committed, write(e, jobA, 2).Tx = at(admittedAt(1)+0.2), 100
		}},
		{"a limit of one is used twice", "Q3", func(e *check.Evidence) {
			use(e, 1, "x", "customer=c1", "", "used")
			use(e, 1.1, "y", "customer=c1", "", "used")
			use(e, 1.2, "x", "customer=c1", "used", "")
			use(e, 1.2, "y", "customer=c1", "used", "")
		}},
		{"a use is left behind", "Q3", func(e *check.Evidence) { use(e, 1, "x", "gpu", "", "used") }},
		{"a run is admitted without its use", "Q3", func(e *check.Evidence) {
			for i := range 2 {
				write(e, jobB, i).Limits = "gpu"
			}
		}},
		{"a run is given up for no reason", "Q5", func(e *check.Evidence) {
			e.Jobs[1].Status, e.Jobs[1].Reason, e.Jobs[1].FailureClass, e.Jobs[1].Dead = "FAILED", "lost", "lost", true
		}},
		{"a run takes effect twice", "Q6", func(e *check.Evidence) {
			e.JobCalls = append(e.JobCalls, record.Executor{At: at(4), Kind: record.Begin, Key: jobB})
		}},
		{"a run is sent before it is admitted", "Q6", func(e *check.Evidence) { call(e, jobB, record.Call).At = at(1) }},
		{"a run is sent after its end", "Q6", func(e *check.Evidence) { call(e, jobB, record.Call).At = at(20) }},
		{"the executor knows nothing of a success", "Q6", func(e *check.Evidence) { call(e, jobB, record.End).Status = "FAILED" }},
		{"a redelivery is another request", "Q6", func(e *check.Evidence) {
			e.JobCalls = append(e.JobCalls, record.Executor{At: at(2.55), Kind: record.Call, Key: jobB, Number: 2, Queue: "one", Input: 2, Body: "c"})
		}},
		{"a failed run is not retried", "Q7", func(e *check.Evidence) {
			e.Jobs[1].Status, e.Jobs[1].Reason, e.Jobs[1].FailureClass, e.Jobs[1].Dead = "FAILED", "timeout", "timeout", true
		}},
		{"a failed run has no follower and is not dead", "Q7", func(e *check.Evidence) {
			e.Jobs[1].Status, e.Jobs[1].Reason, e.Jobs[1].FailureClass = "FAILED", "timeout", "timeout"
		}},
		{"a run that has succeeded is retried", "Q7", func(e *check.Evidence) { e.Jobs[2].RetryOf = jobB }},
		{"two runs follow one", "Q7", func(e *check.Evidence) {
			e.Jobs[0].Status, e.Jobs[0].Reason, e.Jobs[0].FailureClass = "FAILED", "timeout", "timeout"
			for i := 1; i < 3; i++ {
				e.Jobs[i].RetryOf, e.Jobs[i].Attempt = jobA, 2
			}
		}},
		{"a retry does not count its attempt", "Q7", func(e *check.Evidence) {
			e.Jobs[0].Status, e.Jobs[0].Reason, e.Jobs[0].FailureClass, e.Jobs[1].RetryOf = "FAILED", "timeout", "timeout", jobA
		}},
		{"a group is lost", "Q8", func(e *check.Evidence) {
			e.JobActs = append(e.JobActs, record.JobAct{Verb: record.MakeGroup, Group: "g", Inputs: []int{9}})
		}},
		{"a group is completed with a failure", "Q8", func(e *check.Evidence) {
			grouped(e)
			e.Jobs[2].Status, e.Jobs[2].Reason, e.Jobs[2].FailureClass, e.Jobs[2].Dead = "FAILED", "timeout", "timeout", true
		}},
		{"a group has not ended", "Q8", func(e *check.Evidence) {
			grouped(e)
			e.Groups[0].State = "RUNNING"
		}},
		{"a sequential group sends two members together", "Q8", func(e *check.Evidence) {
			grouped(e)
			call(e, jobC, record.Call).At = at(admittedAt(1) + 0.1)
		}},
		{"a group stops although its member succeeds in the end", "Q8", func(e *check.Evidence) {
			grouped(e)
			e.Groups[0].State, e.Groups[0].Succeeded, e.Groups[0].Cancelled = "PARTIAL", 1, 1
			e.Jobs[2].Status, e.Jobs[2].Reason = "CANCELLED", "predecessor_failed"
			e.JobCalls = slices.DeleteFunc(e.JobCalls, func(x record.Executor) bool { return x.Key == jobC })
		}},
		{"a run is sent after the answer to a pause", "Q9", func(e *check.Evidence) {
			e.JobActs = append(e.JobActs, record.JobAct{Verb: record.PauseQueue, Queue: "one", Asked: at(0.6), Answered: at(0.7)})
		}},
		{"a run is sent after the answer to its cancel", "Q9", func(e *check.Evidence) {
			e.JobActs = append(e.JobActs, record.JobAct{Verb: record.CancelJob, Keys: []string{jobC}, Asked: at(0.6), Answered: at(0.7)})
		}},
		{"a run is cancelled by nobody", "Q9", func(e *check.Evidence) { e.Jobs[2].Status, e.Jobs[2].Reason = "CANCELLED", "cancelled" }},
		{"the executor gets the input of before a change", "Q10", func(e *check.Evidence) {
			e.JobActs = append(e.JobActs, record.JobAct{Verb: record.UpdateJob, Keys: []string{jobC}, Inputs: []int{7}, Asked: at(0.6), Answered: at(0.7)})
		}},
		{"a running run waits again", "Q10", func(e *check.Evidence) {
			write(e, jobA, 1).After, write(e, jobA, 2).Before, write(e, jobA, 2).After = "running", "running", "waiting"
		}},
		{"two calls of a job are open together", "I18", func(e *check.Evidence) {
			e.JobCalls = append(e.JobCalls,
				record.Executor{At: at(2.55), Kind: record.Call, Key: jobB, Number: 2, Queue: "one", Input: 2, Body: "b"},
				record.Executor{At: at(3), Kind: record.Closed, Key: jobB, Number: 1})
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			e := soundJobs()
			test.how(e)
			r := check.Run(e)
			if r.Broken()[test.broken] == 0 {
				t.Errorf("it finds %v, and no %s", r.Broken(), test.broken)
			}
		})
	}
}

// grouped puts the last two jobs into a sequential group.
func grouped(e *check.Evidence) {
	e.JobActs = append(e.JobActs, record.JobAct{Verb: record.MakeGroup, Group: "g", Inputs: []int{2, 3}, Asked: at(0.4), Answered: at(0.5)})
	e.Groups = []record.Group{{GroupID: "g", Mode: "sequential", State: "COMPLETED", Members: 2, Succeeded: 2}}
	for i := 1; i < 3; i++ {
		e.Jobs[i].Group, e.Jobs[i].GroupSeq = "g", i
	}
}

func TestASoundGroupPasses(t *testing.T) {
	t.Parallel()
	e := soundJobs()
	grouped(e)
	for _, v := range check.Run(e).Violations {
		t.Errorf("%s: %s", v.Invariant, v.Text)
	}
}

// What cannot be known is no violation: the answer to a change was lost, and its repetition refused.
func TestAChangeWithoutAnAnswerMayHaveTakenPlace(t *testing.T) {
	t.Parallel()
	for _, input := range []int{3, 7} {
		e := soundJobs()
		e.JobActs = append(e.JobActs, record.JobAct{
			Verb: record.UpdateJob, Keys: []string{jobC}, Inputs: []int{7}, Asked: at(0.6), Answered: at(0.7), Refused: true, Unsure: true,
		})
		call(e, jobC, record.Call).Input = input
		for _, v := range check.Run(e).Violations {
			t.Errorf("the executor got %d: %s: %s", input, v.Invariant, v.Text)
		}
	}
}
