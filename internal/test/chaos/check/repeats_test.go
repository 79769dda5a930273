package check_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/test/chaos/check"
	"github.com/carillon/carillon/internal/test/chaos/record"
)

// byHand is sha256("s/m/r-1"), by sha256sum.
const byHand = "d9286fc0fa83a8258a9a497d34fba40cafd4f068df040933bd92309a9c59b6e5"

// said is sound evidence in which everything was said twice.
func said() *check.Evidence {
	e := sound()
	e.Settings.MaxCatchup, e.Settings.Tick, e.Settings.Lookahead, e.Settings.Shards = 2, 500*time.Millisecond, 4*time.Second, 1
	shown := record.ShownState{Revision: 1, UpdatedAt: at(0.45)}
	upsert, remove := e.Acts[0], e.Acts[1]
	again := upsert
	again.Same, again.Asked, again.Answered, again.Was, again.Is = true, at(2.5), at(2.7), &shown, &shown
	trigger := record.Act{Verb: record.Trigger, ScheduleID: "s", RequestID: "r-1", Asked: at(1.25), Answered: at(1.26), Key: byHand}
	twice := trigger
	twice.Same, twice.Asked, twice.Answered = true, at(1.27), at(1.28)
	gone := remove
	gone.Same, gone.Asked, gone.Answered = true, at(slots+0.7), at(slots+0.8)
	e.Acts = []record.Act{upsert, trigger, twice, again, remove, gone}
	e.Revised = []record.Revision{{ScheduleID: "s", Revision: 1, CreatedAt: at(0.45)}}
	e.Events = []record.Event{
		{ID: 1, ScheduleID: "s", Kind: "created", Time: at(0.45)},
		{ID: 2, ScheduleID: "s", Kind: "triggered", Time: at(1.25)},
		{ID: 3, ScheduleID: "s", Kind: "deleted", Time: at(slots + 0.55)},
	}
	for i := range e.Runs {
		e.Runs[i].Bucket, e.Runs[i].Epoch = bucket, 1
	}
	for i := range e.Writes {
		e.Writes[i].ScheduleID, e.Writes[i].Bucket = "s", bucket
	}
	e.Runs = append(e.Runs, record.Run{
		Key: byHand, ScheduleID: "s", Revision: 1, RunAt: at(1.25), FireAt: at(1.25), Status: "SKIPPED", Reason: "overlap", Trigger: "manual",
		OverlapKey: "ada/s", Overlap: "allow", Bucket: bucket, CompletedAt: at(1.26),
	})
	return e
}

// bucket is that of ada/s: the first two bytes of its sha256, by sha256sum, mod 1024.
const bucket = 1019

func TestWhatIsSaidTwiceAndDoneOncePasses(t *testing.T) {
	t.Parallel()
	r := check.Run(said())
	for _, v := range r.Violations {
		t.Errorf("%s: %s", v.Invariant, v.Text)
	}
	if r.Counts.Repeats != 3 {
		t.Errorf("%d repetitions counted, want 3", r.Counts.Repeats)
	}
}

// Each case does something twice, or to the wrong shard.
func TestWhatIsDoneTwiceIsFound(t *testing.T) {
	for _, test := range []struct {
		name   string
		broken string
		how    func(e *check.Evidence)
	}{
		{"a repeated upsert changes updated_at", "I13", func(e *check.Evidence) {
			e.Acts[3].Is = &record.ShownState{Revision: 1, UpdatedAt: at(2.6)}
		}},
		{"a repeated upsert makes a revision", "I13", func(e *check.Evidence) {
			e.Acts[3].Revision = 2
			e.Revised = append(e.Revised, record.Revision{ScheduleID: "s", Revision: 2, CreatedAt: at(2.6)})
		}},
		{"the database has a revision that nobody heard of", "I13", func(e *check.Evidence) {
			e.Revised = append(e.Revised, record.Revision{ScheduleID: "s", Revision: 2, CreatedAt: at(2.6)})
		}},
		{"a revision is gone", "I13", func(e *check.Evidence) { e.Revised[0].Revision = 7 }},
		{"a repeated upsert removes a planned row", "I13", func(e *check.Evidence) {
			e.Writes = append(e.Writes, record.Write{At: at(2.6), Writer: "registrar", ScheduleID: "s", Key: "k", Before: "PLANNED"})
		}},
		{"a repeated upsert moves a planned row", "I13", func(e *check.Evidence) {
			e.Writes = append(e.Writes, record.Write{At: at(2.6), Writer: "registrar", ScheduleID: "s", Key: "k", Before: "PLANNED", After: "PLANNED"})
		}},
		{"a repeated trigger makes another run", "I13", func(e *check.Evidence) { e.Acts[2].Key = keys[1] }},
		{"a repeated trigger makes a second row", "I13", func(e *check.Evidence) {
			second := e.Runs[slots]
			second.Key = "another"
			e.Runs = append(e.Runs, second)
		}},
		{"a trigger has no row", "I13", func(e *check.Evidence) { e.Runs = e.Runs[:slots] }},
		{"a repeated trigger is in the log again", "I13", func(e *check.Evidence) { e.Events = append(e.Events, e.Events[1]) }},
		{"a repeated deletion is refused", "I13", func(e *check.Evidence) { e.Acts[5].Refused = "404: there is no schedule" }},
		{"a repeated request makes another schedule", "I13", func(e *check.Evidence) {
			e.Acts[0].RequestID, e.Acts[3].RequestID, e.Acts[3].ScheduleID = "q", "q", "s-2"
		}},
		{"a run is claimed under another shard's epoch", "I9", func(e *check.Evidence) {
			e.Settings.Shards = 4
			e.Terms = append(e.Terms, record.Term{Seq: 2, At: at(0.1), Shard: (bucket*4/1024 + 1) % 4, Holder: "b", Epoch: 2, Writer: "worker-2"})
			e.Runs[2].Epoch = 2
		}},
		{"a run lies in another bucket than its overlap key", "I9", func(e *check.Evidence) { e.Runs[2].Bucket++ }},
		{"an epoch of one shard is older than one of another before it", "I7", func(e *check.Evidence) {
			e.Settings.Shards = 4
			e.Terms = append(e.Terms, record.Term{Seq: 2, At: at(0.1), Shard: 2, Epoch: 3}, record.Term{Seq: 3, At: at(0.2), Shard: 3, Epoch: 2})
		}},
		{"one shard stands still while another goes on", "I12", func(e *check.Evidence) {
			e.Settings.Shards = 2
			e.Faults[0].Began = at(30)
			other := e.Runs[0]
			other.Key, other.Bucket = "other", (bucket+512)%1024
			e.Runs = append(e.Runs, other)
			for i := range 28 {
				e.Executor = append(e.Executor, record.Executor{At: at(float64(i) + 1), Kind: record.Call, Key: "other", Number: 1})
			}
			e.Executor = append(e.Executor, record.Executor{At: at(29), Kind: record.Call, Key: keys[4], Number: 1})
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			e := said()
			test.how(e)
			r := check.Run(e)
			if r.Broken()[test.broken] == 0 {
				t.Errorf("it finds %v, and no %s", r.Broken(), test.broken)
			}
		})
	}
}

// backlog is sound evidence with missed slots of another schedule, caught up
// two in a tick.
func backlog() *check.Evidence {
	e := said()
	d := record.Definition{ScheduleID: "late", CronExpr: "* * * * * *", OverlapPolicy: "allow", UserID: "ada", CatchupPolicy: "fire_immediately"}
	e.Acts = append(e.Acts, record.Act{Verb: record.Upsert, ScheduleID: "late", Asked: at(-100.1), Answered: at(-100), Definition: &d, Revision: 1})
	for i := range 6 {
		fireAt := 1.1 + float64(i/2)/2
		e.Runs = append(e.Runs, record.Run{
			Key: fmt.Sprint("late-", i), ScheduleID: "late", Revision: 1, RunAt: at(float64(i) - 90), FireAt: at(fireAt), Status: "SUCCESS", Trigger: "catchup",
			OverlapKey: "ada/late", Overlap: "allow", Epoch: 1, LaunchedAt: at(fireAt), CompletedAt: at(fireAt + 0.1),
		})
		e.Executor = append(e.Executor, record.Executor{
			At: at(fireAt + 0.01), Kind: record.Call, Key: fmt.Sprint("late-", i), Number: 1, ScheduleID: "late", ScheduledFor: at(float64(i) - 90), Trigger: "catchup", Epoch: 1,
		})
	}
	for i := range slots {
		e.Runs[i].Overlap = "allow"
	}
	return e
}

func TestABacklogIsWorkedOffInPortions(t *testing.T) {
	for _, test := range []struct {
		name   string
		broken bool
		how    func(e *check.Evidence)
	}{
		{"two in a tick, and all else on time", false, func(*check.Evidence) {}},
		{"three in a tick", true, func(e *check.Evidence) { e.Runs[slots+1+2].FireAt = at(1.1) }},
		{"three in a tick in which the leader changed", false, func(e *check.Evidence) {
			e.Runs[slots+1+2].FireAt = at(1.1)
			e.Terms = append(e.Terms, record.Term{Seq: 2, At: at(1.2), Holder: "b", Epoch: 2, Writer: "worker-2"})
		}},
		{"three in the first tick of a leader", true, func(e *check.Evidence) {
			e.Runs[slots+1+2].FireAt = at(1.1)
			e.Terms = append(e.Terms, record.Term{Seq: 2, At: at(1), Holder: "b", Epoch: 2, Writer: "worker-2"})
		}},
		{"all spread ones within one lookahead", true, func(e *check.Evidence) { e.Acts[len(e.Acts)-1].Definition.CatchupPolicy = "spread" }},
		{"what is on time waits", true, func(e *check.Evidence) { e.Executor[4].At = at(3.2) }},
		{"what is on time waits for the end of a fault", false, func(e *check.Evidence) {
			e.Executor[4].At = at(3.2)
			e.Faults = append(e.Faults, record.Fault{Kind: "kill", Leader: true, Began: at(2.1), Calm: at(3)})
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			e := backlog()
			test.how(e)
			if r := check.Run(e); (r.Broken()["I11"] > 0) != test.broken {
				t.Errorf("it finds %v; broken is %t", r.Broken(), test.broken)
			}
		})
	}
}
