package ledger_test

import (
	"slices"
	"testing"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

func TestARunLeavesItsOrderedLimitsToTheRunThatFollowsIt(t *testing.T) {
	ended, next := schedule.Key{1}, schedule.Key{2}
	use := func(id, key string, no int32, ordered bool) ledger.HeldUse {
		return ledger.HeldUse{LimitUse: ledger.LimitUse{LimitNo: no, Key: key, UsedBy: ended}, LimitID: id, Ordered: ordered}
	}
	for name, c := range map[string]struct {
		limits schedule.Limits
		uses   []ledger.HeldUse
		kept   schedule.Limits
	}{
		"an ordered limit":                       {"a=1", []ledger.HeldUse{use("a", "1", 1, true)}, "a=1"},
		"two of them, and not the others":        {"a=1,b=2,gpu", []ledger.HeldUse{use("b", "2", 2, true), use("gpu", "", 3, false), use("a", "1", 1, true)}, "a=1,b=2"},
		"not one that it does not use":           {"a=1,b=2", []ledger.HeldUse{use("b", "2", 2, true)}, "b=2"},
		"not one that is not ordered":            {"a=1", []ledger.HeldUse{use("a", "1", 1, false)}, ""},
		"not one that the next run does not use": {"gpu", []ledger.HeldUse{use("a", "1", 1, true)}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			run := schedule.Run{Key: next, Queue: schedule.QueuePlace{No: 1, Limits: c.limits}}
			passes := ledger.PassUses(c.uses, func(schedule.Key) *schedule.Run { return &run })
			var passed []string
			for _, p := range passes {
				if p.To != next || p.UsedBy != ended {
					t.Errorf("passed from %s to %s", p.UsedBy, p.To)
				}
				for _, u := range c.uses {
					if u.LimitNo == p.LimitNo {
						passed = append(passed, u.LimitID+"="+p.Key)
					}
				}
			}
			if slices.Sort(passed); run.Queue.Kept != c.kept || !slices.Equal(passed, c.kept.Texts()) {
				t.Errorf("it keeps %q, and has the uses of %q; want %q", run.Queue.Kept, passed, c.kept)
			}
		})
	}
	if got := ledger.PassUses([]ledger.HeldUse{use("a", "1", 1, true)}, func(schedule.Key) *schedule.Run { return nil }); len(got) > 0 {
		t.Errorf("a run that nothing follows leaves %v", got)
	}
}

func TestARunThatWaitsAgainFreesWhatItDoesNotKeep(t *testing.T) {
	for name, c := range map[string]struct {
		run   schedule.Run
		freed string
		all   bool
	}{
		"a first attempt frees everything": {schedule.Run{Status: schedule.StatusEnqueued, Queue: schedule.QueuePlace{Limits: "a=1,gpu"}}, "", true},
		"a retry keeps its key":            {schedule.Run{Status: schedule.StatusEnqueued, Queue: schedule.QueuePlace{Limits: "a=1,gpu", Kept: "a=1"}}, "gpu", false},
		"the end frees everything":         {schedule.Run{Status: schedule.StatusFailed, Queue: schedule.QueuePlace{Limits: "a=1,gpu", Kept: "a=1"}}, "", true},
	} {
		freed, all := ledger.FreedUses(&c.run)
		text := ""
		for _, ref := range freed {
			text += ref.String()
		}
		if text != c.freed || all != c.all {
			t.Errorf("%s: freed %q, all %v", name, text, all)
		}
	}
}
