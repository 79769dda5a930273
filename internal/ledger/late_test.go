package ledger_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

func TestAVerdictOnAMissedSlot(t *testing.T) {
	slot := noon.Add(-time.Hour)
	fires := schedule.LateVerdict{Key: schedule.SlotKey("s", slot), Fire: true, FireAt: noon.Add(time.Second), Trigger: schedule.TriggerCatchup}
	stays := schedule.LateVerdict{Key: fires.Key, Fire: true}
	ends := schedule.LateVerdict{Key: fires.Key, Reason: schedule.ReasonMissed}
	for _, c := range []struct {
		name    string
		verdict schedule.LateVerdict
		edit    func(*schedule.Run)
		want    func(*schedule.Run) // nil: the verdict is void
	}{
		{"it fires after all", fires, nil, func(r *schedule.Run) {
			r.FireAt, r.Trigger, r.UpdatedAt = noon.Add(time.Second), schedule.TriggerCatchup, noon
		}},
		{"it fires as it is", stays, nil, func(r *schedule.Run) { r.UpdatedAt = noon }},
		{"it ends", ends, nil, func(r *schedule.Run) {
			r.Status, r.Reason, r.CompletedAt, r.UpdatedAt = schedule.StatusSkipped, schedule.ReasonMissed, noon, noon
		}},
		{"it waits for its group meanwhile", fires, func(r *schedule.Run) { r.WaitingSince = noon }, nil},
		{"it waits meanwhile and would end", ends, func(r *schedule.Run) { r.WaitingSince = noon }, nil},
		{"it was claimed meanwhile", fires, func(r *schedule.Run) { r.Status = schedule.StatusLaunching }, nil},
		{"it has ended meanwhile", ends, func(r *schedule.Run) { r.Status = schedule.StatusCancelled }, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := schedule.Run{Key: fires.Key, ScheduleID: "s", Status: schedule.StatusPlanned, Trigger: schedule.TriggerSchedule, RunAt: slot, FireAt: slot}
			if c.edit != nil {
				c.edit(&before)
			}
			want := before
			if c.want != nil {
				c.want(&want)
			}
			after, skip, ok := ledger.JudgeLate(before, &c.verdict, noon)
			if ok != (c.want != nil) || !reflect.DeepEqual(after, want) {
				t.Errorf("got %+v, %v, want %+v", after, ok, want)
			}
			if ended := want.Status == schedule.StatusSkipped; ended != (skip != nil) {
				t.Errorf("skip is %+v", skip)
			} else if ended && (skip.ScheduleID != "s" || !skip.RunAt.Equal(slot) || skip.Reason != schedule.ReasonMissed) {
				t.Errorf("skip is %+v", skip)
			}
		})
	}
}

func TestARunAsItsClaimLeavesIt(t *testing.T) {
	req := ledger.ClaimRequest{Term: schedule.Term{Epoch: 7}, Now: noon.Add(time.Nanosecond), Lease: 10 * time.Second, RetryFor: time.Minute}
	for _, c := range []struct {
		name    string
		fireAt  time.Time
		timeout uint32 // of the definition, in ms
		want    time.Time
	}{
		{"due: its time to launch counts from now", noon.Add(-time.Hour), 0, noon.Add(time.Minute)},
		{"claimed early: from its fire_at", noon.Add(time.Second), 0, noon.Add(time.Second + time.Minute)},
		{"with a launch timeout of its own", noon, 5000, noon.Add(5 * time.Second)},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := schedule.Run{Status: schedule.StatusPlanned, FireAt: c.fireAt, WaitingSince: noon.Add(-time.Second), Attempt: 2}
			want := schedule.Run{
				Status: schedule.StatusLaunching, FireAt: c.fireAt, Epoch: 7, ClaimedAt: noon, ClaimedUntil: noon.Add(10 * time.Second),
				TimeoutAt: c.want, UpdatedAt: noon, Attempt: 2,
			}
			if got := req.Launched(before, &schedule.Definition{LaunchTimeoutMS: c.timeout}); !reflect.DeepEqual(got, want) {
				t.Errorf("got %+v, want %+v", got, want)
			}
		})
	}
}
