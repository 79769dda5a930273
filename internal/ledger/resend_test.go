package ledger_test

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

const ownEpoch = 7

// inFlightRun is a launch of this term whose next send is at noon.
func inFlightRun(i int, edits ...func(*ledger.Run)) ledger.Run {
	r := manyRuns(i+1, i+1, 0)[i]
	r.Status, r.Epoch, r.NextSend = schedule.StatusLaunching, ownEpoch, noon
	r.FireAt = r.FireAt.Add(time.Duration(i-100) * time.Second)
	for _, edit := range edits {
		edit(&r)
	}
	return r
}

func stateOf(runs ...ledger.Run) *ledger.ShardState {
	return ledger.Rebuild(ownEpoch, &ledger.Open{Runs: runs}, noon.Add(10*time.Second))
}

func TestWhichLaunchesAreSentAgain(t *testing.T) {
	for _, c := range []struct {
		name string
		run  func(*ledger.Run)
		at   time.Time
		want bool
	}{
		{"of this term, just before its next send", func(*ledger.Run) {}, noon.Add(-time.Microsecond), false},
		{"of this term, at its next send", func(*ledger.Run) {}, noon, true},
		{"of this term, without a next send", func(r *ledger.Run) { r.NextSend = time.Time{} }, noon.Add(-time.Hour), true},
		{"of an older term, before its next send", func(r *ledger.Run) { r.Epoch-- }, noon.Add(-time.Hour), true},
		{"of a term that a restore has brought", func(r *ledger.Run) { r.Epoch++ }, noon.Add(-time.Hour), true},
		{"that fires later: the launcher holds it until then", func(r *ledger.Run) { r.FireAt = noon.Add(time.Hour) }, noon, true},
		{"whose cancel is requested", func(r *ledger.Run) { r.CancelRequested = true }, noon, false},
		{"that the executor has accepted", func(r *ledger.Run) { r.Status = schedule.StatusEnqueued }, noon, false},
		{"that has started, under an older term", func(r *ledger.Run) { r.Status = schedule.StatusStarted; r.Epoch-- }, noon, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := inFlightRun(0, c.run)
			if got := stateOf(r).SendAgain(c.at, 10, nil); slices.Contains(got, r.Key) != c.want {
				t.Errorf("sent again: %v, want %v", !c.want, c.want)
			}
		})
	}
}

func TestOwnersAlternateWhenLaunchesAreSentAgain(t *testing.T) {
	owned := func(i int, owner string) ledger.Run {
		return inFlightRun(i, func(r *ledger.Run) { r.OverlapKey = owner + "/" + r.ScheduleID })
	}
	// Ada's launches fire first.
	s := stateOf(owned(0, "ada"), owned(1, "ada"), owned(2, "ada"), owned(3, "bob"), owned(4, "bob"), owned(5, "eve"))
	capacities := func(byOwner map[string]int) func(string) int {
		return func(owner string) int { return byOwner[owner] }
	}
	for _, c := range []struct {
		name     string
		limit    int
		capacity func(string) int
		want     []int
	}{
		{"none without capacity", 0, nil, nil},
		{"none with less than no capacity", -1, nil, nil},
		{"two owners have the first two", 2, nil, []int{0, 3}},
		{"the first of each, then the second of those that fire first", 4, nil, []int{0, 1, 3, 5}},
		{"all", 100, nil, []int{0, 1, 2, 3, 4, 5}},
		{"no more than the capacity of an owner", 100, capacities(map[string]int{"ada": 1, "bob": 0, "eve": -1}), []int{0}},
		{"the capacity that one owner must leave goes to others", 3, capacities(map[string]int{"ada": 1, "bob": 9, "eve": 0}), []int{0, 3, 4}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var want []schedule.Key
			for _, i := range c.want {
				want = append(want, inFlightRun(i).Key)
			}
			if got := s.SendAgain(noon, c.limit, c.capacity); !slices.Equal(got, want) {
				t.Errorf("got %v, want %v", got, want)
			}
		})
	}
}

func TestAnAcceptedLaunchIsNotSentAgain(t *testing.T) {
	launch, planned := inFlightRun(0), manyRuns(2, 2, 0)[1]
	s := stateOf(launch, planned)
	s.Accepted([]schedule.Key{launch.Key, launch.Key, planned.Key, {1}})
	if got := s.SendAgain(noon.Add(time.Hour), 10, nil); len(got) > 0 {
		t.Errorf("%v are sent again", got)
	}
	if r, _ := s.Run(launch.Key); r.Status != schedule.StatusEnqueued || !r.NextSend.IsZero() {
		t.Errorf("the launch is %+v, want ENQUEUED without a next send", r)
	}
	if r, _ := s.Run(planned.Key); r.Status != schedule.StatusPlanned {
		t.Errorf("the planned run is %s", r.Status)
	}
}

// A run that could not be sent rests, or each pass would ask the store for it.
func TestWhatCouldNotBeSentRestsForASecond(t *testing.T) {
	sent, locked := inFlightRun(0), inFlightRun(1)
	s := stateOf(sent, locked)
	keys := s.SendAgain(noon, 10, nil)
	sent.NextSend = noon.Add(30 * time.Second)
	s.SentAgain(noon, keys, ledger.Changes{Runs: []ledger.Run{sent, locked}})
	for _, c := range []struct {
		after time.Duration
		want  []schedule.Key
	}{
		{0, nil},
		{time.Second - time.Microsecond, nil},
		{time.Second, []schedule.Key{locked.Key}},
		{30 * time.Second, []schedule.Key{sent.Key, locked.Key}},
	} {
		if got := s.SendAgain(noon.Add(c.after), 10, nil); !slices.Equal(got, c.want) {
			t.Errorf("after %s: got %v, want %v", c.after, got, c.want)
		}
	}
	if r, _ := s.Run(locked.Key); r.NextSend != noon {
		t.Errorf("the next send of the table is %s, want it kept", r.NextSend)
	}
}

func TestWhichCancelsAreSent(t *testing.T) {
	requested := func(r *ledger.Run) { r.CancelRequested = true }
	runs := []ledger.Run{
		inFlightRun(0), inFlightRun(1, requested), inFlightRun(2, requested), inFlightRun(3, requested),
		inFlightRun(4, requested, func(r *ledger.Run) { r.Status = schedule.StatusPlanned }),
	}
	s := stateOf(runs...)
	sent := map[schedule.Key]time.Time{runs[1].Key: noon.Add(-time.Second), runs[2].Key: noon.Add(-ledger.CancelAgain)}
	due := func(after time.Duration, limit int) []schedule.Key {
		return s.CancelsDue(noon.Add(after), limit, func(key schedule.Key) time.Time { return sent[key] })
	}
	for _, c := range []struct {
		after time.Duration
		limit int
		want  []int
	}{
		{0, 10, []int{3, 2}},
		{0, 1, []int{3}},
		{0, 0, nil},
		{0, -1, nil},
		{-time.Microsecond, 10, []int{3}},
		{4 * time.Second, 10, []int{3, 2, 1}},
	} {
		want := []schedule.Key{}
		for _, i := range c.want {
			want = append(want, runs[i].Key)
		}
		if got := due(c.after, c.limit); !slices.Equal(got, want) {
			t.Errorf("after %s, limit %d: got %v, want %v", c.after, c.limit, got, want)
		}
	}
	if v := judge(s, passAt(noon, 10)); len(v.Claims) != 1 {
		t.Fatalf("%d claims, want the planned run whose cancel is requested", len(v.Claims))
	} else if s.Commit(v, time.Minute); !s.Cancelling(runs[4].Key) {
		t.Error("the cancel of a run that was claimed since is not known")
	}
	s.Apply(ledger.Changes{Ended: []schedule.Key{runs[3].Key}})
	if s.Cancelling(runs[3].Key) || s.Cancelling(runs[0].Key) || !s.Cancelling(runs[1].Key) {
		t.Error("only runs in flight whose cancel is requested are cancelled")
	}
}

func TestWhatAStoreHasSentAgain(t *testing.T) {
	var rows []schedule.Run
	var req ledger.ReclaimRequest
	for i := range 4 {
		rows = append(rows, schedule.Run{Key: schedule.Key{byte(9 - i)}, ScheduleID: fmt.Sprint(i), ClaimedUntil: noon})
		req.Keys = append(req.Keys, rows[i].Key)
	}
	slices.SortFunc(rows[:3], func(a, b schedule.Run) int { return bytes.Compare(a.Key[:], b.Key[:]) }) // the store returns them in any order
	var out ledger.Reclaimed
	missing := out.Add(&req, rows[:3], func(r *schedule.Run) *schedule.Definition {
		if r.ScheduleID == "1" {
			return nil
		}
		return new(schedule.Definition)
	})
	if want := req.Keys[3:]; !slices.Equal(missing, want) {
		t.Errorf("missing: %v, want %v", missing, want)
	}
	if len(out.Launches) != 2 || out.Launches[0].Run.ScheduleID != "0" || out.Launches[1].Run.ScheduleID != "2" || !out.Launches[0].Again {
		t.Errorf("launched: %+v, want the runs 0 and 2", out.Launches)
	}
	if len(out.Read.Runs) != 3 || out.Read.Runs[1].NextSend != noon {
		t.Errorf("read: %+v, want the next sends of all three", out.Read.Runs)
	}
}

func TestWhatWasChosenIsSentAgainOnlyIfItIsStillDue(t *testing.T) {
	req := ledger.ReclaimRequest{Term: schedule.Term{Epoch: ownEpoch}, Now: noon, Lease: 10 * time.Second}
	for _, c := range []struct {
		name string
		edit func(*schedule.Run)
		want bool
	}{
		{"its next send is due", func(*schedule.Run) {}, true},
		{"its next send is a microsecond ahead", func(r *schedule.Run) { r.ClaimedUntil = noon.Add(time.Microsecond) }, false},
		{"it has no next send", func(r *schedule.Run) { r.ClaimedUntil = time.Time{} }, true},
		{"an older term sent it, and its next send is ahead", func(r *schedule.Run) { r.Epoch, r.ClaimedUntil = ownEpoch-1, noon.Add(time.Hour) }, true},
		{"another term sent it, and its cancel is requested", func(r *schedule.Run) { r.Epoch, r.CancelRequestedAt = ownEpoch-1, noon }, false},
		{"its cancel is requested", func(r *schedule.Run) { r.CancelRequestedAt = noon.Add(-time.Minute) }, false},
		{"it is planned", func(r *schedule.Run) { r.Status = schedule.StatusPlanned }, false},
		{"it was accepted", func(r *schedule.Run) { r.Status = schedule.StatusEnqueued }, false},
		{"it has ended", func(r *schedule.Run) { r.Status = schedule.StatusSuccess }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := schedule.Run{Status: schedule.StatusLaunching, Epoch: ownEpoch, ClaimedUntil: noon, Deliveries: 1, TimeoutAt: noon.Add(time.Hour)}
			c.edit(&before)
			want := before
			if c.want {
				want.Epoch, want.ClaimedUntil, want.UpdatedAt = ownEpoch, noon.Add(10*time.Second), noon
			}
			if after, ok := req.Resend(before); ok != c.want || !reflect.DeepEqual(after, want) {
				t.Errorf("got %+v, %v, want %+v, %v", after, ok, want, c.want)
			}
		})
	}
}
