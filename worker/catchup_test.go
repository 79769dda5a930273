package worker_test

import (
	"testing"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/registrar"
)

// accounted holds the slots of a schedule with one every step to the promise:
// each has exactly one row, or lies in exactly one recorded range.
func (r *rig) accounted(id string, step, until time.Duration) {
	r.Helper()
	rows := make(map[int64]int)
	for _, run := range r.runs(id) {
		if run.Trigger.FromSpec() {
			rows[run.RunAt.Unix()]++
		}
	}
	ranges := r.events(id, schedule.EventMissed, schedule.EventCoalesced, schedule.EventBacklogClosed)
	for after := step; after <= until; after += step {
		at, n := r.at(after), rows[r.at(after).Unix()]
		for _, e := range ranges {
			if !at.Before(e.From) && !at.After(e.To) {
				n++
			}
		}
		if n != 1 {
			r.Errorf("the slot of %s at +%s has %d rows or ranges, want exactly one", id, after, n)
		}
	}
}

// count are the runs with a status and a trigger.
func count(runs []schedule.Run, status schedule.Status, trigger schedule.Trigger) (n int) {
	for _, run := range runs {
		if run.Status == status && run.Trigger == trigger {
			n++
		}
	}
	return n
}

// outage lets a worker plan the first slot of a schedule with one a minute, and then
// stops it for an hour. The newest slot is within the grace.
func (r *rig) outage(more ...func(*registrar.UpsertInput)) {
	r.config.MaxCatchup = 25
	r.every("s", time.Minute, append(more, overlap(schedule.OverlapAllow))...)
	r.until(55 * time.Second)
	r.work(time.Second)
	r.until(time.Hour + 55*time.Second)
}

func TestAfterAnOutageTheCatchupPolicyDecides(t *testing.T) {
	for _, tc := range []struct {
		policy  schedule.CatchupPolicy
		work    time.Duration
		caught  int // slots that were caught up
		skipped schedule.Reason
		events  int64
		kind    schedule.EventKind
	}{
		{schedule.CatchupNone, time.Second, 0, schedule.ReasonMissed, 58, schedule.EventMissed},
		{schedule.CatchupLatest, time.Second, 1, schedule.ReasonCoalesced, 57, schedule.EventCoalesced},
		{schedule.CatchupFireImmediately, 3500 * time.Millisecond, 59, "", 0, schedule.EventMissed},
		{schedule.CatchupSpread, 9900 * time.Millisecond, 25, "", 0, schedule.EventMissed},
	} {
		t.Run(string(tc.policy), func(t *testing.T) {
			inBubble(t, func(r *rig) {
				r.outage(catchup(tc.policy))
				r.work(tc.work)
				runs := r.runs("s")
				if n := count(runs, schedule.StatusSuccess, schedule.TriggerCatchup); n != tc.caught {
					r.Errorf("%d slots were made up for, want %d", n, tc.caught)
				}
				r.is(r.slot("s", time.Hour), schedule.StatusSuccess, schedule.ReasonNone)
				if on := r.slot("s", time.Hour); on.Trigger != schedule.TriggerSchedule {
					r.Errorf("the slot within the grace has trigger %s", on.Trigger)
				}
				if tc.skipped != "" {
					r.is(r.slot("s", time.Minute), schedule.StatusSkipped, tc.skipped)
				}
				var n int64
				for _, e := range r.events("s", tc.kind) {
					n += e.Count
				}
				if n != tc.events {
					r.Errorf("events count %d slots as %s, want %d", n, tc.kind, tc.events)
				}
				if tc.policy != schedule.CatchupSpread { // whose range is still open
					r.accounted("s", time.Minute, time.Hour)
				}
			})
		})
	}
}

func TestFireImmediatelyFiresOldestFirstSoManyATick(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.outage(catchup(schedule.CatchupFireImmediately))
		r.work(3500 * time.Millisecond)
		perSecond := make(map[int]int)
		var last time.Time
		for _, call := range r.executor.calls("s") {
			if call.Trigger != schedule.TriggerCatchup {
				continue
			}
			perSecond[int(call.at.Sub(r.at(time.Hour+55*time.Second)).Seconds())]++
			if second := call.at.Truncate(time.Second); second.Before(last) {
				r.Errorf("a portion came back")
			} else {
				last = second
			}
		}
		for second, n := range perSecond {
			if n > 25 {
				r.Errorf("%d slots were made up for in second %d, MAX_CATCHUP_PER_TICK is 25", n, second)
			}
		}
	})
}

func TestSpreadSpacesAPortionEvenly(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.outage(catchup(schedule.CatchupSpread))
		r.work(9900 * time.Millisecond)
		var last time.Time
		for _, call := range r.executor.calls("s") {
			if call.Trigger != schedule.TriggerCatchup {
				continue
			}
			if gap := call.at.Sub(last); !last.IsZero() && (gap < 395*time.Millisecond || gap > 405*time.Millisecond) {
				r.Errorf("%s between two slots of a portion, want a lookahead of 10 s / 25", gap)
			}
			last = call.at
		}
	})
}

func TestWhatIsOlderThanTheCatchupWindowIsOnlyRecorded(t *testing.T) {
	inBubble(t, func(r *rig) {
		window := uint32((10 * time.Minute).Milliseconds())
		r.outage(catchup(schedule.CatchupFireImmediately), func(in *registrar.UpsertInput) { in.CatchupWindowMS = &window })
		r.work(3 * time.Second)
		if n := count(r.runs("s"), schedule.StatusSuccess, schedule.TriggerCatchup); n != 9 {
			r.Errorf("%d slots were made up for, want the 9 of the last ten minutes that were missed", n)
		}
		r.is(r.slot("s", time.Minute), schedule.StatusSkipped, schedule.ReasonMissed)
		r.accounted("s", time.Minute, time.Hour)
	})
}

func TestAnOutageWithinTheGraceLosesNothingUnderAnyPolicy(t *testing.T) {
	for _, policy := range schedule.CatchupPolicies {
		t.Run(string(policy), func(t *testing.T) {
			inBubble(t, func(r *rig) {
				r.every("s", 5*time.Second, overlap(schedule.OverlapAllow), catchup(policy))
				r.work(time.Second)
				r.until(50 * time.Second)
				r.work(time.Second)
				if n := count(r.runs("s"), schedule.StatusSuccess, schedule.TriggerSchedule); n != 10 {
					r.Errorf("%d slots fired, want all 10: %v", n, r.runs("s"))
				}
				r.accounted("s", 5*time.Second, 50*time.Second)
			})
		})
	}
}
