package check_test

import (
	"slices"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/test/chaos/check"
	"github.com/carillon/carillon/internal/test/chaos/record"
)

const slot = "re" // a reservation

// reserved adds writes of a reservation, which ends by itself at 1.9 s, to sound jobs. Its holder had it
// from 1.1 s on.
func reserved(e *check.Evidence) {
	for i, when := range []float64{0.9, 1, 1.9} {
		enter(e, when, slot, "one", []string{"", "waiting", "running"}[i], []string{"waiting", "running", ""}[i], 0, "")
		w := &e.JobWrites[len(e.JobWrites)-1]
		w.Kind, w.Until = record.ReserveWrite, at(1.9)
	}
	e.Holders = []record.Holder{{ID: slot, Queue: "one", Hold: 900 * time.Millisecond, Asked: at(0.85), Granted: at(1.1)}}
}

// granted moves the grant and the end of the reservation.
func granted(e *check.Evidence, from, until float64) {
	for i := range e.JobWrites {
		w := &e.JobWrites[i]
		if w.Kind == record.ReserveWrite && w.Before != "" {
			when := from
			if w.After == "" {
				when = until
			}
			w.Began, w.Committed = at(when-0.01), at(when)
		}
	}
}

// counted makes the jobs those of a queue that keeps only failures.
func counted(e *check.Evidence) {
	for i := range e.JobWrites {
		e.JobWrites[i].Queue = "counted"
	}
	e.JobActs[0].Queue, e.Jobs, e.Minutes = "counted", nil, []record.Minutes{{Queue: "counted", Starts: 3, Ends: 3}}
}

// sequence makes the first two jobs a run of an ordered limit and its retry, and the third one of the
// same key.
func sequence(e *check.Evidence) {
	for i := range e.JobWrites {
		e.JobWrites[i].Limits, e.JobWrites[i].Queue = "account=a1", "accounts"
	}
	for i := range e.Jobs {
		e.Jobs[i].Queue = "accounts"
	}
	e.Jobs[0].Status, e.Jobs[0].Reason, e.Jobs[0].FailureClass = "FAILED", "workflow_failed", "transient"
	e.Jobs[1].RetryOf, e.Jobs[1].Attempt = jobA, 2
	call(e, jobA, record.End).Status, call(e, jobB, record.Call).Input = "FAILED", 1
	for i, key := range []string{jobA, jobB, jobC} {
		if key != jobB {
			use(e, admittedAt(i)+0.001, key, "account=a1", "", "used")
		}
		if key != jobA {
			use(e, admittedAt(i)+0.21, key, "account=a1", "used", "")
			continue
		}
		use(e, admittedAt(i)+0.21, jobA, "account=a1", "used", "")
		use(e, admittedAt(i)+0.21, jobB, "account=a1", "", "used")
	}
	// The uses are of the same transactions as the runs.
	for i := range e.JobWrites {
		e.JobWrites[i].Tx = e.JobWrites[i].Committed.Round(20 * time.Millisecond).UnixMilli()
		e.JobWrites[i].Committed = e.JobWrites[i].Committed.Round(20 * time.Millisecond)
	}
}

func TestSoundReservationsCountsAndSequencesPass(t *testing.T) {
	t.Parallel()
	for name, add := range map[string]func(e *check.Evidence){
		"a reservation": reserved,
		"a reservation that is over, and whose row is deleted later": func(e *check.Evidence) {
			reserved(e)
			granted(e, 1, 2.1)
		},
		"counted successes": counted,
		"a first attempt of an ordered limit goes back, and is cancelled while others of the key run": func(e *check.Evidence) {
			sequence(e)
			const other = "dd"
			states := []string{"", "waiting", "dispatching", "waiting", ""}
			for i, when := range []float64{0.5, 0.6, 0.7, 5} {
				enter(e, when, other, "accounts", states[i], states[i+1], 99, "account=a1")
			}
			use(e, 0.6, other, "account=a1", "", "used")
			use(e, 0.7, other, "account=a1", "used", "")
			for i := range e.JobWrites {
				if w := &e.JobWrites[i]; w.Key == other {
					w.Tx = w.Committed.UnixMilli()
				}
			}
		},
		"a first attempt of an ordered limit goes back, and another run of the key goes before it": func(e *check.Evidence) {
			sequence(e)
			e.Jobs[2].Queue = "accounts"
			n := e.JobWrites[0]
			for i, key := range []string{jobA, jobA} {
				n.Before, n.After = []string{"waiting", "dispatching"}[i], []string{"dispatching", "waiting"}[i]
				n.Seq, n.Tx, n.Key, n.Limits = int64(100+i), int64(100+i), key, "account=a1"
				n.Began, n.Committed = at(0.6+0.1*float64(i)-0.01), at(0.6+0.1*float64(i))
				e.JobWrites = append(e.JobWrites, n)
				u := n
				u.Kind, u.Before, u.After = record.UseWrite, []string{"", "used"}[i], []string{"used", ""}[i]
				e.JobWrites = append(e.JobWrites, u)
			}
			other, from := "dd", 0.9
			enter(e, 0.5, other, "accounts", "", "waiting", -1, "account=a1")
			enter(e, from, other, "accounts", "waiting", "dispatching", -1, "account=a1")
			use(e, from, other, "account=a1", "", "used")
			enter(e, from+0.3, other, "accounts", "dispatching", "", -1, "account=a1")
			use(e, from+0.3, other, "account=a1", "used", "")
			for i := range 5 {
				w := &e.JobWrites[len(e.JobWrites)-5+i]
				w.Tx = w.Committed.UnixMilli()
			}
			slices.SortStableFunc(e.JobWrites, func(a, b record.JobWrite) int { return a.Committed.Compare(b.Committed) })
			e.Jobs = append(e.Jobs, record.Job{Key: other, Queue: "accounts", Status: "SUCCESS", Trigger: "job", Attempt: 1, MaxAttempts: 2, CompletedAt: at(from + 0.3)})
			e.JobCalls = append(e.JobCalls,
				record.Executor{At: at(from + 0.02), Kind: record.Call, Key: other, Number: 1, Queue: "accounts", Input: 9, Body: "b"},
				record.Executor{At: at(from + 0.02), Kind: record.Begin, Key: other},
				record.Executor{At: at(from + 0.1), Kind: record.End, Key: other, Status: "SUCCESS"},
				record.Executor{At: at(from + 0.1), Kind: record.Said, Key: other})
		},
		"a sequence": sequence,
	} {
		e := soundJobs()
		add(e)
		for _, v := range check.Run(e).Violations {
			t.Errorf("%s: %s: %s", name, v.Invariant, v.Text)
		}
	}
}

// Each case breaks one promise in sound evidence.
func TestWhatIsBrokenOfReservationsCountsAndSequencesIsFound(t *testing.T) {
	for _, test := range []struct {
		name   string
		broken string
		how    func(e *check.Evidence)
	}{
		{"a run goes before a reservation", "Q12", func(e *check.Evidence) {
			reserved(e)
			for i := range e.JobWrites {
				if e.JobWrites[i].Kind == record.ReserveWrite {
					e.JobWrites[i].Until = at(30)
				}
			}
			granted(e, 5, 6)
			e.Holders = nil
		}},
		{"a reservation does not end", "Q12", func(e *check.Evidence) {
			reserved(e)
			e.JobWrites = slices.DeleteFunc(e.JobWrites, func(w record.JobWrite) bool { return w.Kind == record.ReserveWrite && w.After == "" })
			e.Holders = nil
		}},
		{"a reservation is granted for less than its time", "Q12", func(e *check.Evidence) {
			reserved(e)
			e.Holders[0].Hold = 2 * time.Second
		}},
		{"a reservation ends before its time", "Q12", func(e *check.Evidence) {
			reserved(e)
			granted(e, 1, 1.2)
		}},
		{"an extension is answered and not written", "Q12", func(e *check.Evidence) {
			reserved(e)
			e.Holders[0].Kept = at(3)
		}},
		{"a reservation is answered as granted and waits", "Q12", func(e *check.Evidence) {
			reserved(e)
			granted(e, 1.5, 1.9)
		}},
		{"a run is admitted while a reservation has the only slot", "Q3", func(e *check.Evidence) {
			reserved(e)
			for i := range e.JobWrites {
				e.JobWrites[i].Until = at(30)
			}
			granted(e, 1, 2.1)
		}},
		{"the holder of a reservation works while a run has the only slot", "Q3", func(e *check.Evidence) {
			reserved(e)
			e.Holders[0].Granted, e.Holders[0].Kept = at(1.1), at(2.3)
		}},
		{"a success is not counted", "Q1", func(e *check.Evidence) {
			counted(e)
			e.Minutes[0].Ends = 2
		}},
		{"a success is counted twice", "Q1", func(e *check.Evidence) {
			counted(e)
			e.Minutes[0].Starts = 4
		}},
		{"a run without a row has failed", "Q6", func(e *check.Evidence) {
			counted(e)
			call(e, jobB, record.End).Status = "FAILED"
		}},
		{"a run of a queue with full history has no row", "Q1", func(e *check.Evidence) { e.Jobs = e.Jobs[:2] }},
		{"a run starts while another one of its key has attempts left", "Q2", func(e *check.Evidence) {
			sequence(e)
			e.Jobs[1].RetryOf, e.Jobs[1].Attempt, e.Jobs[2].RetryOf, e.Jobs[2].Attempt = "", 1, jobA, 2
		}},
		{"a worker works on more runs than it has slots", "Q3", func(e *check.Evidence) {
			for i := range e.JobCalls {
				switch x := &e.JobCalls[i]; x.Kind {
				case record.Call:
					x.Worker = "fetcher-1"
				case record.End:
					x.At = at(10)
				}
			}
			for _, key := range []string{jobA, jobB, jobC} {
				write(e, key, 2).Committed = at(10)
			}
		}},
		{"the cancel of a queue leaves a run out", "Q9", func(e *check.Evidence) {
			e.JobActs = append(e.JobActs, record.JobAct{Verb: record.CancelQueue, Queue: "one", Asked: at(0.6), Answered: at(0.7)})
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			e := soundJobs()
			test.how(e)
			if r := check.Run(e); r.Broken()[test.broken] == 0 {
				t.Errorf("it finds %v, and no %s", r.Broken(), test.broken)
			}
		})
	}
}
