package ledger_test

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

// queueFacts are facts in which the schedules with an id that begins with "q" name a queue. reads
// counts the definitions that were asked for.
type queueFacts struct{ reads int }

func (f *queueFacts) of(ids []schedule.RevisionID) (ledger.Facts, error) {
	f.reads += len(ids)
	out := ledger.Facts{
		Definitions: make(map[schedule.RevisionID]*schedule.Definition, len(ids)),
		Queues:      map[string]*schedule.Queue{"q": {No: 1, QueueDefinition: schedule.QueueDefinition{QueueID: "q", UserID: "ada", Shared: true}}},
	}
	for _, id := range ids {
		d := &schedule.Definition{ScheduleID: id.ScheduleID, UserID: "ada"}
		if strings.HasPrefix(id.ScheduleID, "q") {
			d.QueueID = "q"
		}
		out.Definitions[id] = d
	}
	return out, nil
}

// dueRun is a slot of a schedule that fires at an instant, in an overlap group.
func dueRun(id, group string, at time.Time, policy schedule.OverlapPolicy) ledger.Run {
	return ledger.Run{
		Key: schedule.SlotKey(id, at), ScheduleID: id, Revision: 1, OverlapKey: "ada/" + group, RunAt: at, FireAt: at,
		Status: schedule.StatusPlanned, Trigger: schedule.TriggerSchedule, Policy: policy, Exclusive: policy != schedule.OverlapAllow, MaxQueued: 100,
	}
}

// passesOf judges and commits until nothing moves, and counts.
func passesOf(t *testing.T, s *ledger.ShardState, f *queueFacts, p ledger.Pass) (claims, entries, passes int, last ledger.Verdicts) {
	t.Helper()
	for passes = 1; ; passes++ {
		v, err := s.Judge(p, f.of)
		if err != nil {
			t.Fatal(err)
		}
		claims, entries = claims+len(v.Claims), entries+len(v.Entries)
		s.Commit(v, time.Minute)
		if p.Limit -= len(v.Claims); !v.Moved() && !v.Unread {
			return claims, entries, passes, v
		}
		if passes > 1000 {
			t.Fatal("it goes on without end")
		}
	}
}

func TestRunsForQueuesNeedNoFreeLaunch(t *testing.T) {
	t.Parallel()
	second := func(n int) time.Time { return noon.Add(time.Duration(n-10) * time.Second) }
	many := func(prefix string, n int, at time.Time) (runs []ledger.Run) {
		for i := range n {
			id := fmt.Sprint(prefix, i)
			runs = append(runs, dueRun(id, id, at, schedule.OverlapSkip))
		}
		return runs
	}
	for _, tc := range []struct {
		name            string
		runs            []ledger.Run
		limit           int
		claims, entries int
		left            bool
	}{
		{"no launch is free", append(many("p", 5, second(1)), dueRun("q", "q", second(2), schedule.OverlapSkip)), 0, 0, 1, true},
		{"all launches go to runs that are due before", append(many("p", 5, second(1)), dueRun("q", "q", second(2), schedule.OverlapAllow)), 3, 3, 1, true},
		{"enough launches are free", append(many("p", 5, second(1)), many("q", 5, second(2))...), 10, 5, 5, false},
		{"many of both", append(many("p", 4000, second(1)), many("q", 2500, second(2))...), 10, 10, 2500, true},
		{"nothing is launched of a group that is judged for an entry", []ledger.Run{
			dueRun("p", "shared", second(1), schedule.OverlapSkip), dueRun("q", "shared", second(2), schedule.OverlapSkip), dueRun("q2", "q2", second(2), schedule.OverlapSkip),
		}, 0, 0, 1, true},
		{"the entry of a group goes before its launch", []ledger.Run{
			dueRun("q", "shared", second(1), schedule.OverlapSkip), dueRun("p", "shared", second(2), schedule.OverlapSkip),
		}, 0, 0, 1, false},
		{"a run that is not due yet enters nothing", []ledger.Run{
			dueRun("p", "p", second(1), schedule.OverlapSkip), dueRun("q", "q", noon.Add(time.Millisecond), schedule.OverlapSkip),
		}, 0, 0, 0, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s := ledger.NewShardState(1, noon, len(tc.runs))
			s.Load(&ledger.Open{Runs: tc.runs})
			claims, entries, _, last := passesOf(t, s, new(queueFacts), passAt(noon, tc.limit))
			if claims != tc.claims || entries != tc.entries || last.Left != tc.left {
				t.Errorf("%d claims, %d entries, left %t; want %d, %d, %t", claims, entries, last.Left, tc.claims, tc.entries, tc.left)
			}
		})
	}
}

func TestAWaitingRunEntersItsQueueOnceItsGroupIsFree(t *testing.T) {
	t.Parallel()
	blocks := dueRun("p", "shared", noon.Add(-time.Minute), schedule.OverlapSkip)
	blocks.Status, blocks.Epoch = schedule.StatusStarted, 1
	waits := dueRun("q", "shared", noon.Add(-time.Second), schedule.OverlapQueue)
	other := dueRun("p2", "p2", noon.Add(-2*time.Second), schedule.OverlapSkip)
	s := ledger.NewShardState(1, noon, 3)
	s.Load(&ledger.Open{Runs: []ledger.Run{blocks, waits, other}})
	f := new(queueFacts)
	v, err := s.Judge(passAt(noon, 0), f.of)
	if err != nil || len(v.Waits) != 1 || len(v.Entries)+len(v.Claims) != 0 {
		t.Fatalf("while its group is busy: %+v, %v; want a wait", v, err)
	}
	s.Commit(v, time.Minute)
	s.Apply(ledger.Changes{Ended: []schedule.Key{blocks.Key}})
	if _, entries, _, _ := passesOf(t, s, f, passAt(noon, 0)); entries != 1 {
		t.Errorf("%d entries after the end of the other, want 1", entries)
	}
}

// A pass stays short: it enters a thousand runs, reads a thousand definitions for that, and none
// twice. Without a shortage of launches it reads none.
func TestAPassIsBoundedInEntriesAndReads(t *testing.T) {
	t.Parallel()
	var runs []ledger.Run
	for i := range 2500 {
		id := fmt.Sprint("q", i)
		runs = append(runs, dueRun(id, id, noon.Add(-time.Second), schedule.OverlapSkip))
	}
	f := new(queueFacts)
	s := ledger.NewShardState(1, noon, len(runs))
	s.Load(&ledger.Open{Runs: runs})
	if v, err := s.Judge(passAt(noon, 0), f.of); err != nil || len(v.Entries) != 1000 || !v.Left || !v.Unread {
		t.Errorf("the first pass has %d entries, left %t, unread %t, %v; want 1000 and both", len(v.Entries), v.Left, v.Unread, err)
	}
	s = ledger.NewShardState(1, noon, len(runs))
	s.Load(&ledger.Open{Runs: runs})
	f.reads = 0
	_, entries, passes, _ := passesOf(t, s, f, passAt(noon, 0))
	if entries != 2500 || passes > 5 || f.reads > 2*2500 {
		t.Errorf("%d entries in %d passes with %d reads; want 2500, in at most 5, with each read at most twice", entries, passes, f.reads)
	}
	f.reads = 0
	s = ledger.NewShardState(1, noon, 10)
	s.Load(&ledger.Open{Runs: runs[:10]})
	if passesOf(t, s, f, passAt(noon, 10)); f.reads != 10 {
		t.Errorf("%d definitions were read for ten runs with ten free launches", f.reads)
	}
}

// said is what verdicts say, without the queues that they point to.
func said(v ledger.Verdicts) string {
	var entries []schedule.Key
	for _, e := range v.Entries {
		entries = append(entries, e.Key)
	}
	return fmt.Sprint(v.Claims, entries, v.Ends, v.Waits, v.Cancels, v.Left, v.Unread)
}

// In any world: no more is launched than there are launches and than an owner may have, the same
// pass again says the same, and what enters with few launches enters with many as well.
func TestRunsForQueuesTakeNoLaunchInAnyWorld(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var runs []ledger.Run
		for i := range rapid.IntRange(1, 30).Draw(t, "runs") {
			id := rapid.SampledFrom([]string{"p", "q"}).Draw(t, "schedule") + fmt.Sprint(rapid.IntRange(0, 9).Draw(t, "n"))
			group := fmt.Sprint(rapid.SampledFrom([]string{"ada/", "bob/"}).Draw(t, "owner"), rapid.IntRange(0, 6).Draw(t, "group"))
			policy := rapid.SampledFrom(schedule.OverlapPolicies).Draw(t, "policy")
			r := dueRun(id, group, noon.Add(time.Duration(rapid.IntRange(-5000, 900).Draw(t, "at"))*time.Millisecond), policy)
			r.OverlapKey = group
			r.Key = sha256.Sum256(binary.BigEndian.AppendUint64(nil, uint64(i)))
			if policy == schedule.OverlapQueue && rapid.Bool().Draw(t, "waiting") {
				r.WaitingSince = r.FireAt
			}
			if rapid.IntRange(0, 9).Draw(t, "in flight") == 0 {
				r.Status, r.Epoch, r.WaitingSince = schedule.StatusStarted, 1, time.Time{}
			}
			runs = append(runs, r)
		}
		capacity := map[string]int{"ada": rapid.IntRange(0, 5).Draw(t, "ada"), "bob": rapid.IntRange(0, 5).Draw(t, "bob")}
		p := passAt(noon, rapid.IntRange(0, 10).Draw(t, "limit"))
		p.Capacity = func(owner string) int { return capacity[owner] }
		judge := func(p ledger.Pass) ledger.Verdicts {
			s := ledger.NewShardState(1, noon, len(runs))
			s.Load(&ledger.Open{Runs: runs})
			v, err := s.Judge(p, new(queueFacts).of)
			again, err2 := s.Judge(p, new(queueFacts).of)
			if err != nil || err2 != nil || said(v) != said(again) {
				t.Fatalf("%s, %v\nand the same pass again\n%s, %v", said(v), err, said(again), err2)
			}
			return v
		}
		few, many := judge(p), judge(passAt(noon, 1000))
		of := make(map[schedule.Key]*ledger.Run)
		for i := range runs {
			of[runs[i].Key] = &runs[i]
		}
		byOwner := make(map[string]int)
		for _, key := range few.Claims {
			byOwner[schedule.Owner(of[key].OverlapKey)]++
		}
		if len(few.Claims) > p.Limit || byOwner["ada"] > capacity["ada"] || byOwner["bob"] > capacity["bob"] {
			t.Errorf("claims by owner %v, limit %d, capacity %v", byOwner, p.Limit, capacity)
		}
		enters := make(map[schedule.Key]bool)
		for _, e := range few.Entries {
			enters[e.Key] = true
		}
		launchIn := make(map[string]bool) // groups with an open run for a launch
		for _, r := range runs {
			if strings.HasPrefix(r.ScheduleID, "p") && r.Exclusive {
				launchIn[r.OverlapKey] = true
			}
		}
		for _, e := range many.Entries {
			if r := of[e.Key]; !enters[e.Key] && !(r.Exclusive && launchIn[r.OverlapKey]) {
				t.Errorf("the run of %s at %s enters its queue only with free launches", r.ScheduleID, r.FireAt.Sub(noon))
			}
			delete(enters, e.Key)
		}
		if len(enters) > 0 {
			t.Errorf("%d runs enter only without free launches", len(enters))
		}
	})
}
