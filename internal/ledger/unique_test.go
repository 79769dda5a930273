package ledger_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

func TestAnEntryIsJudgedByTheRunThatHoldsItsKey(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	run := func(edits ...func(*schedule.Run)) *schedule.Run {
		r := &schedule.Run{Key: schedule.Key{1}, ScheduleID: "s", Status: schedule.StatusEnqueued, Queue: schedule.QueuePlace{No: 1, State: schedule.QueueWaiting}}
		for _, edit := range edits {
			edit(r)
		}
		return r
	}
	running := func(r *schedule.Run) {
		r.Status, r.Queue.State, r.ClaimedAt = schedule.StatusStarted, schedule.QueueRunning, now
	}
	putBack := func(r *schedule.Run) { r.ClaimedAt = now }
	retry := func(r *schedule.Run) { r.RetryOf = schedule.Key{9} }
	delayed := func(r *schedule.Run) { r.Queue.State, r.FireAt = schedule.QueueDelayed, now.Add(time.Hour) }
	other := func(r *schedule.Run) { r.ScheduleID = "other" }
	const refused = ledger.EntryVerdict(-1)
	for _, tt := range []struct {
		name  string
		scope schedule.UniqueScope // of the run that holds the key
		until time.Duration        // of scope period, from now
		run   *schedule.Run
		// The verdicts on return, replace and refuse.
		returns, replaces, refuses ledger.EntryVerdict
	}{
		{"a waiting run", schedule.UniqueOpen, 0, run(), ledger.EntryReturned, ledger.EntryReplaced, refused},
		{"a delayed run", schedule.UniqueOpen, 0, run(delayed), ledger.EntryReturned, ledger.EntryReplaced, refused},
		{"a running run", schedule.UniqueOpen, 0, run(running), ledger.EntryReturned, ledger.EntryReturned, refused},
		{"a run that waits again", schedule.UniqueOpen, 0, run(putBack), ledger.EntryReturned, ledger.EntryReturned, refused},
		{"a retry", schedule.UniqueOpen, 0, run(retry, delayed), ledger.EntryReturned, ledger.EntryReturned, refused},
		{"a run that is over", schedule.UniqueOpen, 0, nil, ledger.EntryNew, ledger.EntryNew, ledger.EntryNew},
		{"a run of another schedule", schedule.UniqueOpen, 0, run(other), ledger.EntryReturned, refused, refused},
		{"waiting: a waiting run", schedule.UniqueWaiting, 0, run(), ledger.EntryReturned, ledger.EntryReplaced, refused},
		{"waiting: a running run", schedule.UniqueWaiting, 0, run(running), ledger.EntryNew, ledger.EntryNew, ledger.EntryNew},
		{"waiting: a run that waits again", schedule.UniqueWaiting, 0, run(putBack), ledger.EntryNew, ledger.EntryNew, ledger.EntryNew},
		{"waiting: a retry", schedule.UniqueWaiting, 0, run(retry), ledger.EntryNew, ledger.EntryNew, ledger.EntryNew},
		{"waiting: a run that is over", schedule.UniqueWaiting, 0, nil, ledger.EntryNew, ledger.EntryNew, ledger.EntryNew},
		{"period: a waiting run", schedule.UniquePeriod, time.Second, run(), ledger.EntryReturned, ledger.EntryReplaced, refused},
		{"period: a running run", schedule.UniquePeriod, time.Second, run(running), ledger.EntryReturned, ledger.EntryReturned, refused},
		{"period: a run that is over", schedule.UniquePeriod, time.Microsecond, nil, ledger.EntryReturned, ledger.EntryReturned, refused},
		{"period: at its end", schedule.UniquePeriod, 0, run(), ledger.EntryNew, ledger.EntryNew, ledger.EntryNew},
	} {
		hash := schedule.UniqueHash("q", "u", "k")
		for on, want := range map[schedule.OnDuplicate]ledger.EntryVerdict{
			schedule.DuplicateReturn: tt.returns, schedule.DuplicateReplace: tt.replaces, schedule.DuplicateRefuse: tt.refuses,
		} {
			held := schedule.UniqueFact{UniqueHold: schedule.UniqueHold{Hash: hash, Key: "k", RunKey: schedule.Key{1}, Scope: tt.scope, Until: now.Add(tt.until)}}
			if tt.run != nil {
				row := *tt.run
				held.Run = &row
			}
			row := run(func(r *schedule.Run) { r.Key, r.Input = schedule.Key{2}, []byte(`{"new":1}`) })
			u := ledger.NewUniques(map[schedule.Key]schedule.UniqueFact{hash: held}, now)
			key, got, err := u.Enter((&schedule.Unique{Key: "k", OnDuplicate: on}).Resolved(), hash, row)
			if errors.Is(err, schedule.ErrExists) {
				got = refused
			} else if err != nil {
				t.Fatal(err)
			}
			if got != want || got == ledger.EntryNew && key != row.Key || (got == ledger.EntryReturned || got == ledger.EntryReplaced) && key != held.RunKey {
				t.Errorf("%s, %s: %d %s, want %d", tt.name, on, got, key, want)
			}
			holds, replaced := u.Changes()
			if changed := got == ledger.EntryReplaced; (len(replaced) == 1) != changed || changed && string(replaced[0].Input) != `{"new":1}` || (len(holds) == 1) != (changed || got == ledger.EntryNew) {
				t.Errorf("%s, %s: it writes %+v and %+v", tt.name, on, holds, replaced)
			}
		}
	}
}

// The key of a run that is not written yet leads to nothing.
func TestARefusalNamesNoRunOfItsOwnRequest(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	hash := schedule.UniqueHash("q", "u", "k")
	for on, scheduleID := range map[schedule.OnDuplicate]string{schedule.DuplicateRefuse: "s", schedule.DuplicateReplace: "other"} {
		run := func(n byte, id string) *schedule.Run {
			return &schedule.Run{Key: schedule.Key{n}, ScheduleID: id, Status: schedule.StatusEnqueued, Queue: schedule.QueuePlace{No: 1, State: schedule.QueueWaiting}}
		}
		u := ledger.NewUniques(nil, now)
		asked := (&schedule.Unique{Key: "k", OnDuplicate: on}).Resolved()
		if _, verdict, err := u.Enter(asked, hash, run(1, "s")); err != nil || verdict != ledger.EntryNew {
			t.Fatal(verdict, err)
		}
		_, _, err := u.Enter(asked, hash, run(2, scheduleID))
		if !errors.Is(err, schedule.ErrExists) || strings.Contains(err.Error(), (schedule.Key{1}).String()) || !strings.Contains(err.Error(), "an earlier run of this request") {
			t.Errorf("%s: %v", on, err)
		}
	}
}

func TestTheEndOfARunFreesItsKeyOrGivesItToTheNextRun(t *testing.T) {
	t.Parallel()
	dead := true
	key := schedule.Key{1}
	for _, tt := range []struct {
		name  string
		scope schedule.UniqueScope
		run   schedule.Run
		next  schedule.Key // zero: the key is free
	}{
		{"a success", schedule.UniqueOpen, schedule.Run{Status: schedule.StatusSuccess}, schedule.Key{}},
		{"a failure with a retry", schedule.UniqueOpen, schedule.Run{Status: schedule.StatusFailed, Attempt: 1, MaxAttempts: 3}, schedule.AttemptKey(key)},
		{"the last failure", schedule.UniqueOpen, schedule.Run{Status: schedule.StatusFailed, Attempt: 3, MaxAttempts: 3, Dead: &dead}, schedule.Key{}},
		{"a snooze", schedule.UniqueOpen, schedule.Run{Status: schedule.StatusSkipped, Reason: schedule.ReasonSnoozed}, schedule.SnoozeKey(key)},
		{"a cancel", schedule.UniqueOpen, schedule.Run{Status: schedule.StatusCancelled}, schedule.Key{}},
		{"waiting: a failure with a retry", schedule.UniqueWaiting, schedule.Run{Status: schedule.StatusFailed, Attempt: 1, MaxAttempts: 3}, schedule.Key{}},
		{"period: a success", schedule.UniquePeriod, schedule.Run{Status: schedule.StatusSuccess}, key},
		{"period: a failure with a retry", schedule.UniquePeriod, schedule.Run{Status: schedule.StatusFailed, Attempt: 1, MaxAttempts: 3}, schedule.AttemptKey(key)},
		{"period: a cancel", schedule.UniquePeriod, schedule.Run{Status: schedule.StatusCancelled}, schedule.Key{}},
	} {
		tt.run.Key = key
		after, keeps := ledger.UniqueAfter(schedule.UniqueHold{RunKey: key, Scope: tt.scope}, &tt.run)
		if keeps != !tt.next.IsZero() || keeps && after.RunKey != tt.next {
			t.Errorf("%s: kept %t by %s, want %s", tt.name, keeps, after.RunKey, tt.next)
		}
	}
}
