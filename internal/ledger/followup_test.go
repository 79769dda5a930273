package ledger_test

import (
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/test/storetest"
)

// outcomes is a history in memory, with the failures that its follow-ups have written.
type outcomes struct {
	history []*schedule.Run
	failing map[string]*schedule.Failure
	asked   int // how often a newer success was looked for
}

func (o *outcomes) Failures(ended []*schedule.Run) (map[schedule.Key]*schedule.Failure, error) {
	found := make(map[schedule.Key]*schedule.Failure)
	for _, r := range ended {
		if f := o.failing[r.ScheduleID]; f != nil {
			found[r.Key] = f
		}
	}
	return found, nil
}

func (o *outcomes) Successes(failed []*schedule.Run) (map[schedule.Key]ledger.Decided, error) {
	found := make(map[schedule.Key]ledger.Decided)
	for _, r := range failed {
		o.asked++
		for _, s := range o.history {
			newest, ok := found[r.Key]
			if s.ScheduleID == r.ScheduleID && s.Status == schedule.StatusSuccess && !s.RunAt.Before(r.RunAt) &&
				(!ok || s.RunAt.After(newest.RunAt) || s.RunAt.Equal(newest.RunAt) && s.CompletedAt.After(newest.EndedAt)) {
				found[r.Key] = ledger.Decided{RunAt: s.RunAt, EndedAt: s.CompletedAt}
			}
		}
	}
	return found, nil
}

func (o *outcomes) end(t interface{ Fatal(...any) }, ended ...*schedule.Run) ledger.FollowUps {
	o.history = append(o.history, ended...)
	out, err := ledger.FollowUp(ended, o)
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range out.Recovered {
		if o.failing[id] == nil {
			t.Fatal(id, "recovers and has not failed")
		}
		delete(o.failing, id)
	}
	for _, f := range out.Began {
		if o.failing[f.ScheduleID] != nil {
			t.Fatal(f.ScheduleID, "begins to fail and has failed before")
		}
		o.failing[f.ScheduleID] = f
	}
	for _, f := range out.Continued {
		if o.failing[f.ScheduleID] == nil {
			t.Fatal(f.ScheduleID, "goes on to fail and has not failed before")
		}
		o.failing[f.ScheduleID] = f
	}
	return out
}

// endedRun is a run of schedule s, of a slot so many minutes after noon, that ended so many
// minutes after noon.
func endedRun(status schedule.Status, slot, ended int) *schedule.Run {
	return &schedule.Run{
		Key: schedule.ManualKey("s", fmt.Sprint(status, slot, ended)), ScheduleID: "s", Status: status,
		RunAt: noon.Add(time.Duration(slot) * time.Minute), CompletedAt: noon.Add(time.Duration(ended) * time.Minute),
		Reason: schedule.ReasonWorkflowFailed, ErrorCode: fmt.Sprint("code ", slot, "/", ended),
	}
}

func TestWhatFollowsAnEnd(t *testing.T) {
	failed := func(slot, ended int) *schedule.Run { return endedRun(schedule.StatusFailed, slot, ended) }
	success := func(slot, ended int) *schedule.Run { return endedRun(schedule.StatusSuccess, slot, ended) }
	skipped := func(slot, ended int) *schedule.Run { return endedRun(schedule.StatusSkipped, slot, ended) }
	for _, c := range []struct {
		name   string
		before []*schedule.Run // each in a transaction of its own
		ended  []*schedule.Run // together
		want   string          // failures, first and last slot
	}{
		{"a success where nothing fails", nil, []*schedule.Run{success(1, 1)}, "none"},
		{"a first failure", nil, []*schedule.Run{failed(1, 1)}, "1 from 1 to 1"},
		{"one more failure", []*schedule.Run{failed(1, 1)}, []*schedule.Run{failed(2, 2)}, "2 from 1 to 2"},
		{"a failure of an older slot", []*schedule.Run{failed(5, 1)}, []*schedule.Run{failed(2, 2)}, "2 from 2 to 5"},
		{"a success of a newer slot", []*schedule.Run{failed(1, 1)}, []*schedule.Run{success(2, 2)}, "none"},
		{"a success of an older slot", []*schedule.Run{failed(5, 1)}, []*schedule.Run{success(2, 2)}, "1 from 5 to 5"},
		{"a retry that succeeds", []*schedule.Run{failed(1, 1)}, []*schedule.Run{success(1, 2)}, "none"},
		{"a success that ends with the failure of its slot wins", []*schedule.Run{failed(1, 1)}, []*schedule.Run{success(1, 1)}, "none"},
		{"and wins if it comes first", []*schedule.Run{success(1, 1)}, []*schedule.Run{failed(1, 1)}, "none"},
		{"a retry that fails", []*schedule.Run{success(1, 1)}, []*schedule.Run{failed(1, 2)}, "1 from 1 to 1"},
		{"a failure before a success", []*schedule.Run{success(5, 1)}, []*schedule.Run{failed(2, 2)}, "none"},
		{"a failure before the first failure and before a success", []*schedule.Run{success(5, 1), failed(7, 2)}, []*schedule.Run{failed(2, 3)}, "1 from 7 to 7"},
		{"a run that was skipped", []*schedule.Run{failed(1, 1)}, []*schedule.Run{skipped(2, 2)}, "1 from 1 to 1"},
		{"two failures at once", nil, []*schedule.Run{failed(2, 1), failed(1, 1)}, "2 from 1 to 2"},
		{"a success and a newer failure at once", []*schedule.Run{failed(1, 1), failed(2, 1)}, []*schedule.Run{failed(4, 2), success(3, 2)}, "1 from 4 to 4"},
		{"a success and an older failure at once", []*schedule.Run{failed(1, 1)}, []*schedule.Run{failed(2, 2), success(3, 2)}, "none"},
		{"a success and an older failure at once, where nothing fails", nil, []*schedule.Run{failed(2, 2), success(3, 2)}, "none"},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := outcomes{failing: make(map[string]*schedule.Failure)}
			for _, r := range c.before {
				o.end(t, r)
			}
			o.end(t, c.ended...)
			got := "none"
			if f := o.failing["s"]; f != nil {
				got = fmt.Sprintf("%d from %d to %d", f.Failures, int(f.FirstRunAt.Sub(noon).Minutes()), int(f.LastRunAt.Sub(noon).Minutes()))
			}
			if got != c.want {
				t.Errorf("it fails: %s, want %s", got, c.want)
			}
		})
	}
}

// The newest failure is that of storetest.FailureOf, whatever the order of the ends.
func TestFollowUpsAgreeWithTheWholeHistory(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := outcomes{failing: make(map[string]*schedule.Failure)}
		var history []schedule.EndedRun
		for range rapid.IntRange(1, 12).Draw(t, "transactions") {
			var ended []*schedule.Run
			for range rapid.IntRange(1, 3).Draw(t, "ends") {
				status := rapid.SampledFrom([]schedule.Status{schedule.StatusFailed, schedule.StatusFailed, schedule.StatusSuccess, schedule.StatusCancelled}).Draw(t, "status")
				r := endedRun(status, rapid.IntRange(0, 5).Draw(t, "slot"), rapid.IntRange(0, 20).Draw(t, "end"))
				r.Key = schedule.ManualKey("s", fmt.Sprint(len(history)))
				ended = append(ended, r)
				history = append(history, schedule.EndedRun{Key: r.Key, RunAt: r.RunAt, EndedAt: r.CompletedAt, Status: status, Reason: r.Reason, ErrorCode: r.ErrorCode})
			}
			o.end(t, ended...)
			want, got := storetest.FailureOf("s", history), o.failing["s"]
			if (got == nil) != (want == nil) {
				t.Fatalf("it fails: %+v, want %+v", got, want)
			}
			if want != nil && (!got.LastRunAt.Equal(want.LastRunAt) || !got.LastEndedAt.Equal(want.LastEndedAt) || got.ErrorCode != want.ErrorCode) {
				t.Fatalf("the newest failure is %+v, want %+v", got, want)
			}
		}
	})
}

func TestASuccessIsLookedForOnlyWhereItMayBeNewer(t *testing.T) {
	o := outcomes{failing: make(map[string]*schedule.Failure)}
	for i, c := range []struct {
		ended *schedule.Run
		want  int
	}{
		{endedRun(schedule.StatusSuccess, 1, 1), 0},
		{endedRun(schedule.StatusFailed, 3, 2), 1},
		{endedRun(schedule.StatusFailed, 4, 3), 0}, // it fails already, and the slot is newer
		{endedRun(schedule.StatusFailed, 3, 4), 0},
		{endedRun(schedule.StatusFailed, 2, 5), 1},
		{endedRun(schedule.StatusCancelled, 5, 6), 0},
	} {
		before := o.asked
		if o.end(t, c.ended); o.asked-before != c.want {
			t.Errorf("end %d looked %d times, want %d", i, o.asked-before, c.want)
		}
	}
}

type unreadable struct{ outcomes }

var errAway = errors.New("the database is away")

func (*unreadable) Failures([]*schedule.Run) (map[schedule.Key]*schedule.Failure, error) {
	return nil, errAway
}

func TestAFollowUpThatCannotReadFailsTheEnd(t *testing.T) {
	out, err := ledger.FollowUp([]*schedule.Run{endedRun(schedule.StatusSuccess, 1, 1)}, new(unreadable))
	if !errors.Is(err, errAway) || !reflect.DeepEqual(out, ledger.FollowUps{}) {
		t.Errorf("got %+v, %v", out, err)
	}
}

func TestFailuresAreForgottenWithTheirSchedule(t *testing.T) {
	alive, deleted := &schedule.Schedule{}, &schedule.Schedule{DeletedAt: noon}
	for _, c := range []struct {
		name   string
		change schedule.Change
		want   bool
	}{
		{"an edit", schedule.Change{Row: alive, NewRevision: true}, false},
		{"a change of runs only", schedule.Change{}, false},
		{"a deletion", schedule.Change{Row: deleted}, true},
		{"a schedule that is created, perhaps under the id of one that was deleted", schedule.Change{Row: alive, Created: true}, true},
	} {
		if got := ledger.ForgetsFailures(&c.change); got != c.want {
			t.Errorf("%s forgets failures: %v, want %v", c.name, got, c.want)
		}
	}
}
