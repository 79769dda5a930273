package check_test

import (
	"slices"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/test/chaos/check"
	"github.com/carillon/carillon/internal/test/chaos/record"
)

var noon = time.Date(2026, 3, 8, 12, 0, 0, 0, time.UTC)

func at(seconds float64) time.Time { return noon.Add(time.Duration(seconds * float64(time.Second))) }

const slots = 5

// sound is the evidence of a life in which nothing went wrong: one schedule of
// every second, registered half a second before the first slot and deleted half
// a second after the last.
func sound() *check.Evidence {
	d := record.Definition{ScheduleID: "s", CronExpr: "* * * * * *", OverlapPolicy: "skip", UserID: "ada"}
	e := &check.Evidence{
		Settings: record.Settings{Grace: time.Minute, RunTimeout: 30 * time.Second, LeaderTTL: 2 * time.Second, Workers: 3},
		Acts: []record.Act{
			{Verb: record.Upsert, ScheduleID: "s", Asked: at(0.4), Answered: at(0.5), Definition: &d, Revision: 1, CreatedAt: at(0.45)},
			{Verb: record.Delete, ScheduleID: "s", Asked: at(slots + 0.5), Answered: at(slots + 0.6)},
		},
		Faults: []record.Fault{{Kind: record.Stopped, Began: at(slots + 0.4)}},
		Terms:  []record.Term{{Seq: 1, At: at(0), Holder: "a", Epoch: 1, Writer: "worker-1"}},
	}
	for i := range slots {
		runAt := float64(i + 1)
		key := keys[i]
		e.Runs = append(e.Runs, record.Run{
			Key: key, ScheduleID: "s", Revision: 1, RunAt: at(runAt), FireAt: at(runAt), Status: "SUCCESS", Trigger: "schedule",
			OverlapKey: "ada/s", Overlap: "skip", Deliveries: 1, Epoch: 1, LaunchedAt: at(runAt), CompletedAt: at(runAt + 0.2),
		})
		e.Executor = append(e.Executor,
			record.Executor{At: at(runAt + 0.01), Kind: record.Call, Key: key, Number: 1, ScheduleID: "s", ScheduledFor: at(runAt), Trigger: "schedule", Epoch: 1, Body: "b"},
			record.Executor{At: at(runAt + 0.01), Kind: record.Begin, Key: key},
			record.Executor{At: at(runAt + 0.1), Kind: record.End, Key: key, Status: "SUCCESS"},
			record.Executor{At: at(runAt + 0.1), Kind: record.Said, Key: key})
		write := func(off float64, before, after string) {
			e.Writes = append(e.Writes, record.Write{
				Seq: int64(len(e.Writes)), At: at(runAt + off), Writer: "worker-1", Key: key, Before: before, After: after, Epoch: 1, Holder: "worker-1", Leader: 1,
			})
		}
		write(-0.4, "", "PLANNED")
		write(0, "PLANNED", "LAUNCHING")
		write(0.2, "LAUNCHING", "SUCCESS")
	}
	return e
}

// keys are sha256("s:<epoch>") of the five seconds after noon, by sha256sum.
var keys = []string{
	"2bd794fb9c5486ec1f6a604a877d33b5861d154724bdea3a0c0723754e50ab76",
	"56428cfa2fa56eb1fabf204974368e6f7760d250620e900814961138745a8af2",
	"c2e818eca022593a06eaa6501ae0d68a20c77a237f838822ccf9b18426634654",
	"c4f54a6294e8070868f37fe58b1900b53dbadab74cc3ac875ace4bb094cecb82",
	"312d96ba61b036a21b43ac720e400526b306bbed22cf08779566640d5c3b4901",
}

// twoOpen has the second call of a key come while the first is open.
func twoOpen(e *check.Evidence) {
	again := e.Executor[4]
	again.At, again.Number = at(2.5), 2
	e.Executor = append(e.Executor, again,
		record.Executor{At: at(2.7), Kind: record.Closed, Key: keys[1], Number: 1}, record.Executor{At: at(2.6), Kind: record.Closed, Key: keys[1], Number: 2})
	e.Runs[1].Deliveries, e.Runs[1].CompletedAt = 2, at(2.8)
}

func TestTwoCallsOfAKeyMayBeOpenAfterALostLease(t *testing.T) {
	t.Parallel()
	for kind, want := range map[string]bool{"stop": false, "lost presence": false, "kill": true, "killed launcher": true} {
		e := sound()
		twoOpen(e)
		e.Faults = append(e.Faults, record.Fault{Kind: kind, Began: at(2.2), Ended: at(2.3), Calm: at(2.4)})
		found := slices.ContainsFunc(check.Run(e).Violations, func(v check.Violation) bool { return v.Invariant == "I18" })
		if found != want {
			t.Errorf("after the fault %q: two open calls are a violation: %v, want %v", kind, found, want)
		}
	}
}

func TestWhatIsSoundPasses(t *testing.T) {
	t.Parallel()
	r := check.Run(sound())
	for _, v := range r.Violations {
		t.Errorf("%s: %s", v.Invariant, v.Text)
	}
	if r.Counts.Slots != slots || r.Counts.Keys != slots {
		t.Errorf("counted %+v, want %d slots and keys", r.Counts, slots)
	}
}

// The leader of shard 0 makes the partitions, also for the runs of other shards.
func TestAPartitionThatTakesRowsOverPasses(t *testing.T) {
	t.Parallel()
	e := sound()
	for _, r := range e.Runs {
		e.Writes = append(e.Writes, record.Write{Seq: int64(len(e.Writes)), At: at(slots), Writer: "worker-2", Key: r.Key, After: r.Status, Epoch: 1, Holder: "worker-1", Leader: 1})
	}
	for _, v := range check.Run(e).Violations {
		t.Errorf("%s: %s", v.Invariant, v.Text)
	}
}

// An edit put the second slot down when the third was armed.
func TestWhatAnEditPutsDownComesAfterWhatWasArmed(t *testing.T) {
	t.Parallel()
	e := sound()
	for i := range e.Runs {
		e.Runs[i].Overlap = "queue"
	}
	e.Runs[1].LaunchedAt, e.Runs[1].CompletedAt = at(3.3), at(3.4)
	for i := range 4 {
		e.Executor[4+i].At = at(3.3)
	}
	planned := 3
	for i, off := range []float64{3.1, 3.2, 3.4} {
		e.Writes[planned+i].At = at(off)
	}
	for _, v := range check.Run(e).Violations {
		t.Errorf("%s: %s", v.Invariant, v.Text)
	}
}

// The second slot falls due as the fault begins, and is the latest before the next
// fault; what fell due before it, or after the next, is not its doing.
func TestTheLatestSlotAroundAFaultIsTold(t *testing.T) {
	t.Parallel()
	e := sound()
	for i := range e.Runs {
		e.Runs[i].ScheduleID = check.Probe + "s"
	}
	e.Faults = []record.Fault{{Kind: "SIGTERM", Began: at(2), Leader: true, Epoch: 1}, {Kind: "kill", Began: at(4), Leader: true, Epoch: 1}, e.Faults[0]}
	for i, late := range []float64{0.9, 0.3, 0.2, 0.8, 0.1} {
		e.Executor[4*i].At = e.Runs[i].FireAt.Add(time.Duration(late * float64(time.Second)))
	}
	told := make(map[string][]time.Duration)
	for _, f := range check.Run(e).Figures {
		told[f.Name] = f.Values
	}
	for kind, want := range map[string]time.Duration{"SIGTERM": 300 * time.Millisecond, "kill": 800 * time.Millisecond} {
		if got := told["latest slot after "+kind]; !slices.Equal(got, []time.Duration{want}) {
			t.Errorf("the latest slot after %s was told to be %v late, want %v", kind, got, want)
		}
	}
}

// cancelled lets the second run fail three seconds after its slot, with a cancel
// before.
func cancelled(e *check.Evidence, reason string, asked time.Time) {
	e.Settings.RunTimeout = 4 * time.Second
	e.Runs[1].Status, e.Runs[1].Reason, e.Runs[1].CancelAsked, e.Runs[1].CompletedAt = "FAILED", reason, asked, at(5)
}

// A launch without an answer is not repeated after a cancel, so it may be lost.
func TestACancelExplainsALostRun(t *testing.T) {
	t.Parallel()
	e := sound()
	cancelled(e, "lost", at(2.2))
	if n := check.Run(e).Broken()["I12"]; n > 0 {
		t.Errorf("%d violations of I12", n)
	}
}

// The launcher that ended the fourth run was stopped between that write and its commit.
func TestARunIsInFlightUntilItsEndIsCommitted(t *testing.T) {
	t.Parallel()
	e := sound()
	skipFifth(e)
	const end = 3*3 + 2
	e.Writes[end].Committed = at(8.5)
	for _, v := range check.Run(e).Violations {
		t.Errorf("%s: %s", v.Invariant, v.Text)
	}
	e.Writes[end].Committed = at(4.2)
	if check.Run(e).Broken()["I6"] == 0 {
		t.Error("a slot is skipped four seconds after the end of the run before it, and nothing is found")
	}
}

// The leader that skipped the fifth slot was stopped before its commit, and meanwhile the fourth run ended.
func TestASkipIsJudgedWhenItIsBegun(t *testing.T) {
	t.Parallel()
	e := sound()
	skipFifth(e)
	e.Runs[3].CompletedAt = at(8.9)
	e.Writes = append(e.Writes, record.Write{
		Seq: int64(len(e.Writes)), At: at(9), Committed: at(20), Writer: "worker-1", Key: keys[4], Before: "PLANNED", After: "SKIPPED", Epoch: 1, Holder: "worker-1", Leader: 1,
	})
	for _, v := range check.Run(e).Violations {
		t.Errorf("%s: %s", v.Invariant, v.Text)
	}
}

// skipFifth has the last slot skipped four seconds late, for an overlap.
func skipFifth(e *check.Evidence) {
	e.Runs[4].Status, e.Runs[4].Reason, e.Runs[4].CompletedAt = "SKIPPED", "overlap", at(9)
	e.Runs[4].Deliveries = 0
	e.Executor = slices.DeleteFunc(e.Executor, func(x record.Executor) bool { return x.Key == keys[4] })
	e.Writes = slices.DeleteFunc(e.Writes, func(w record.Write) bool { return w.Key == keys[4] })
}

// Each case breaks one promise in sound evidence.
func TestWhatIsBrokenIsFound(t *testing.T) {
	for _, test := range []struct {
		name   string
		broken string
		how    func(e *check.Evidence)
	}{
		{"a slot has neither row nor range", "I1", func(e *check.Evidence) {
			e.Runs = slices.Delete(e.Runs, 2, 3)
			e.Executor = slices.DeleteFunc(e.Executor, func(x record.Executor) bool { return x.Key == keys[2] })
		}},
		{"a slot has a row and lies in a range", "I1", func(e *check.Evidence) {
			e.Acts[0].Asked, e.Acts[0].Answered = at(-9), at(-8.9)
			e.Acts[1].Asked, e.Acts[1].Answered = at(20), at(20.1)
			e.Events = []record.Event{{ScheduleID: "s", Kind: "missed", From: at(3), To: at(3), Count: 1, Time: at(100)}}
		}},
		{"a row has not ended", "I1", func(e *check.Evidence) { e.Runs[1].Status = "ENQUEUED" }},
		{"a slot is missed within the grace", "I1", func(e *check.Evidence) {
			e.Runs = slices.Delete(e.Runs, 2, 3)
			e.Events = []record.Event{{ScheduleID: "s", Kind: "missed", From: at(3), To: at(3), Count: 1, Time: at(5)}}
		}},
		{"a row is not of any slot", "I3", func(e *check.Evidence) {
			d := *e.Acts[0].Definition
			d.CronExpr = "*/2 * * * * *"
			e.Acts[0].Definition = &d
		}},
		{"a key takes effect twice", "I2", func(e *check.Evidence) {
			e.Executor = append(e.Executor, record.Executor{At: at(3), Kind: record.Begin, Key: keys[1]})
		}},
		{"a redelivery is another request", "I2", func(e *check.Evidence) {
			e.Executor = append(e.Executor, record.Executor{At: at(2.05), Kind: record.Call, Key: keys[1], Number: 2, ScheduledFor: at(2), Body: "c"})
		}},
		{"the executor knows nothing of a success", "I2", func(e *check.Evidence) {
			e.Executor = slices.DeleteFunc(e.Executor, func(x record.Executor) bool { return x.Key == keys[1] && x.Kind == record.End })
		}},
		{"a skipped run was sent", "I3", func(e *check.Evidence) { e.Runs[1].Status, e.Runs[1].Reason = "SKIPPED", "paused" }},
		{"something is sent long after the answer to a deletion", "I3", func(e *check.Evidence) {
			e.Executor = append(e.Executor, record.Executor{At: at(slots + 3), Kind: record.Call, Key: keys[4], Number: 2, ScheduledFor: at(slots), Body: "b"})
		}},
		{"a call comes early", "I4", func(e *check.Evidence) { e.Executor[4].At = at(1.99) }},
		{"fire_at is not where the jitter puts it", "I4", func(e *check.Evidence) {
			d := *e.Acts[0].Definition
			d.JitterMS = 400
			e.Acts[0].Definition = &d
			e.Acts[0].Asked, e.Acts[0].Answered = at(-9), at(-8.9)
			e.Acts[1].Asked, e.Acts[1].Answered = at(20), at(20.1)
		}},
		{"two runs of one key are in flight together", "I5", func(e *check.Evidence) { e.Executor[7].At = at(3.5) }},
		{"a queue changes its order", "I5", func(e *check.Evidence) {
			for i := range e.Runs {
				e.Runs[i].Overlap = "queue"
			}
			for i := range 4 { // the second is sent after the third
				e.Executor[4+i].At = at(3.3)
			}
		}},
		{"a slot is skipped while nothing is in flight", "I6", func(e *check.Evidence) {
			e.Runs[4].Status, e.Runs[4].Reason, e.Runs[4].CompletedAt = "SKIPPED", "overlap", at(9)
		}},
		{"a run goes back", "I7", func(e *check.Evidence) { e.Writes[5].Before, e.Writes[5].After = "STARTED", "ENQUEUED" }},
		{"a run that has ended is changed", "I7", func(e *check.Evidence) { e.Writes[5].Before = "FAILED" }},
		{"an epoch comes twice", "I7", func(e *check.Evidence) {
			e.Terms = append(e.Terms, record.Term{Seq: 2, At: at(3), Holder: "b", Epoch: 1, Writer: "worker-2"})
		}},
		{"a run is sent before it is LAUNCHING", "I8", func(e *check.Evidence) { e.Writes[4].At = at(2.1) }},
		{"the executor hears of something that has no row", "I8", func(e *check.Evidence) {
			e.Executor = append(e.Executor, record.Executor{At: at(3), Kind: record.Call, Key: "unheard of", Number: 1, ScheduleID: "s", ScheduledFor: at(3)})
		}},
		{"two calls of a key are open together", "I18", func(e *check.Evidence) { twoOpen(e) }},
		{"the view has a run twice", "I19", func(e *check.Evidence) { e.Twice = []record.Twice{{At: at(3), Key: keys[1]}} }},
		{"a worker writes after another has begun an epoch", "I9", func(e *check.Evidence) { e.Writes[4].Holder = "worker-2" }},
		{"nothing is launched for long", "I12", func(e *check.Evidence) {
			e.Settings.LeaderTTL = time.Second
			e.Acts[1].Asked, e.Acts[1].Answered = at(30.5), at(30.6)
			e.Faults[0].Began = at(30)
			e.Executor = append(e.Executor, record.Executor{At: at(29), Kind: record.Call, Key: keys[4], Number: 1, ScheduledFor: at(5), Body: "b"})
		}},
		{"a run is given up for no reason", "I12", func(e *check.Evidence) {
			e.Runs[1].Status, e.Runs[1].Reason, e.Runs[1].CompletedAt = "FAILED", "lost", at(2.3)
		}},
		{"a run is given up for no reason, and cancelled shortly before", "I12", func(e *check.Evidence) {
			cancelled(e, "lost", at(4.5))
		}},
		{"a cancelled run is accepted and times out", "I12", func(e *check.Evidence) {
			cancelled(e, "timeout", at(2.2))
		}},
		{"the executor was called, and there are no deliveries", "I15", func(e *check.Evidence) { e.Runs[1].Deliveries = 0 }},
		{"there are more deliveries than calls", "I15", func(e *check.Evidence) { e.Runs[1].Deliveries = 9 }},
		{"a run that was sent is launch_unavailable", "I15", func(e *check.Evidence) { e.Runs[1].Status, e.Runs[1].Reason = "FAILED", "launch_unavailable" }},
		{"a launch is given up before its time", "I15", func(e *check.Evidence) {
			e.Runs[1].Status, e.Runs[1].Reason, e.Runs[1].CompletedAt = "FAILED", "lost", at(2.3)
		}},
		{"a launch is given up late", "I15", func(e *check.Evidence) {
			e.Runs[1].Status, e.Runs[1].Reason, e.Runs[1].CompletedAt = "FAILED", "lost", at(3600)
		}},
		{"a schedule that is well is shown as failing", "I16", func(e *check.Evidence) {
			e.Failing = []record.Failing{{ScheduleID: "s", Failing: true}}
		}},
		{"two recorded terms overlap", "I17", func(e *check.Evidence) {
			e.Reigns = []record.Reign{{Epoch: 1, StartedAt: at(-9), EndedAt: at(3)}, {Epoch: 2, StartedAt: at(2)}}
		}},
		{"an epoch has no recorded term", "I17", func(e *check.Evidence) { e.Reigns = []record.Reign{{Epoch: 7, StartedAt: at(-9)}} }},
		{"a process panics", "I14", func(e *check.Evidence) { e.Alarms = []string{"worker-1.log: panic: oh"} }},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			e := sound()
			test.how(e)
			r := check.Run(e)
			if r.Broken()[test.broken] == 0 {
				t.Errorf("it finds %v, and no %s", r.Broken(), test.broken)
			}
		})
	}
}
