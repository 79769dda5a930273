package ledger_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

func TestAnAdmissionReadsNoMoreRunsOfALimitSetThanItsLimitsHaveLeft(t *testing.T) {
	t.Parallel()
	ref := func(id string) schedule.LimitRef { return schedule.LimitRef{ID: id} }
	limits := map[schedule.LimitRef]*ledger.LimitNow{
		ref("full"): {Max: 3, Used: 3}, ref("over"): {Max: 3, Used: 5}, ref("zero"): {}, ref("five"): {Max: 7, Used: 2}, ref("one"): {Max: 1}, ref("wide"): {Max: 10_000},
		ref("any"):     {Unlimited: true},
		ref("resting"): {Unlimited: true, Rate: ledger.Rate{Starts: 1, Burst: 1, Per: time.Second, Next: noon.Add(time.Second)}},
		ref("slow"):    {Unlimited: true, Rate: ledger.Rate{Starts: 8, Burst: 1, Per: time.Second, Next: noon}},
		ref("gone"):    nil,
	}
	delete(limits, ref("gone"))
	for _, tc := range []struct {
		name    string
		sets    []schedule.Limits
		room    int
		want    []int
		blocked []string
	}{
		{"a full limit", []schedule.Limits{"full"}, 700, []int{0}, []string{"full"}},
		{"a full limit among others", []schedule.Limits{"five,full", "full,wide", "over", "zero"}, 700, []int{0, 0, 0, 0}, []string{"five,full", "full,wide", "over", "zero"}},
		{"a limit with five left is read up to the next power of two", []schedule.Limits{"five"}, 700, []int{8}, nil},
		{"the least of several limits counts", []schedule.Limits{"five,one,wide"}, 700, []int{1}, nil},
		{"a wide limit has the room", []schedule.Limits{"wide"}, 700, []int{700}, nil},
		{"so has a limit that is gone, one without a number, and none", []schedule.Limits{"", "any", "gone"}, 700, []int{234, 233, 233}, nil},
		{"what one set does not need is for the others", []schedule.Limits{"one", "", "full"}, 700, []int{1, 699, 0}, []string{"full"}},
		{"more sets than room", []schedule.Limits{"", "any", "wide"}, 1, []int{1, 1, 1}, nil},
		{"a rate without a start now", []schedule.Limits{"resting", ""}, 100, []int{0, 100}, []string{"resting"}},
		{"a rate with three starts within the next quarter of a second", []schedule.Limits{"slow"}, 100, []int{4}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			f := ledger.QueueFacts{Limits: limits}
			if got := f.HeadReads(tc.sets, tc.room, noon); !slices.Equal(got, tc.want) {
				t.Errorf("reads %v, want %v", got, tc.want)
			}
			var blocked []string
			for set := range f.Blocked {
				blocked = append(blocked, set)
			}
			if slices.Sort(blocked); !slices.Equal(blocked, tc.blocked) {
				t.Errorf("blocked are %v, want %v", blocked, tc.blocked)
			}
		})
	}
}

// An admission from the heads that were read, read again while it asks for more, starts what one
// starts that has read every run.
func TestBoundedReadsStartWhatACompleteReadStarts(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		ids := []string{"a", "b", "c"}
		used, most := map[string]int{}, map[string]int{}
		for _, id := range ids {
			most[id] = rapid.IntRange(0, 6).Draw(t, "max of "+id)
			used[id] = rapid.IntRange(0, 7).Draw(t, "used of "+id)
		}
		limits := func() map[schedule.LimitRef]*ledger.LimitNow {
			now := make(map[schedule.LimitRef]*ledger.LimitNow)
			for i, id := range ids {
				now[schedule.LimitRef{ID: id}] = &ledger.LimitNow{No: int32(i + 1), Max: most[id], Used: used[id]}
			}
			return now
		}
		bySet := make(map[schedule.Limits][]ledger.WaitingRun)
		for i := range rapid.IntRange(0, 60).Draw(t, "runs") {
			r := schedule.Run{Key: schedule.JobKey(noon, "q", "u", fmt.Sprint(i), 0)}
			r.Queue.Limits = schedule.Limits(rapid.SampledFrom([]string{"", "a", "b", "a,b", "b,c", "a,b,c"}).Draw(t, "limits"))
			r.Queue.Position, r.Queue.Priority = int64(i), int32(rapid.IntRange(-1, 1).Draw(t, "priority"))
			bySet[r.Queue.Limits] = append(bySet[r.Queue.Limits], ledger.Waiting(&r))
		}
		var sets []schedule.Limits
		for set, runs := range bySet {
			sets = append(sets, set)
			slices.SortFunc(runs, func(a, b ledger.WaitingRun) int { return ledger.CompareWaiting(&a, &b) })
		}
		slices.Sort(sets)
		free := rapid.IntRange(1, 12).Draw(t, "free")
		q := schedule.Queue{No: 1}
		q.MaxInFlight = uint32(rapid.IntRange(1, 20).Draw(t, "max_in_flight"))
		facts := func() ledger.QueueFacts { return ledger.QueueFacts{Queue: &q, Limits: limits()} }

		complete := facts()
		for _, set := range sets {
			complete.Heads = append(complete.Heads, ledger.Head{Runs: bySet[set]})
		}
		want := ledger.ChooseRuns(&schedule.AdmitRequest{Now: noon, Free: free}, &complete)

		left, inFlight := free, 0
		var got []schedule.Key
		for range 100 {
			f := facts()
			f.InFlight = inFlight
			room, read := f.Room(&schedule.AdmitRequest{Now: noon, Free: left}), 0
			if room == 0 {
				break
			}
			for i, n := range f.HeadReads(sets, room, noon) {
				if n = min(n, len(bySet[sets[i]])); n > 0 {
					f.Heads = append(f.Heads, ledger.Head{Runs: bySet[sets[i]][:n], More: n < len(bySet[sets[i]])})
				}
				read += n
			}
			if read > 2*room+len(sets) {
				t.Fatalf("%d runs are read for %d that can start", read, room)
			}
			c := ledger.ChooseRuns(&schedule.AdmitRequest{Now: noon, Free: left}, &f)
			for _, a := range c.Runs {
				got = append(got, a.Run.Key)
				for _, l := range a.Run.Limits {
					used[l.ID]++
				}
				set := schedule.Limits(a.Run.Set)
				bySet[set] = slices.DeleteFunc(slices.Clone(bySet[set]), func(r ledger.WaitingRun) bool { return r.Key == a.Run.Key })
			}
			left, inFlight = left-len(c.Runs), inFlight+len(c.Runs)
			sets = slices.DeleteFunc(sets, func(s schedule.Limits) bool { return len(bySet[s]) == 0 })
			if !c.Unread {
				break
			}
		}
		if !slices.Equal(got, want.Keys()) {
			t.Errorf("bounded reads start %d runs, a complete read %d, or others", len(got), len(want.Keys()))
		}
	})
}
