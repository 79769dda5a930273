package api

import (
	"github.com/carillon/carillon/internal/schedule"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

// expectIn sets the default of alert_after. An empty expect is refused, unlike an absent one.
func expectIn(e *carillonv1.Expectation) schedule.Expect {
	if e == nil {
		return schedule.Expect{}
	}
	return schedule.Expect{
		StartWithinMS: e.GetStartWithinMs(), FinishWithinMS: e.GetFinishWithinMs(), SuccessEveryMS: e.GetSuccessEveryMs(),
		AlertAfter: max(e.GetAlertAfter(), 1), RemindEveryMS: e.GetRemindEveryMs(), OnFailure: schedule.OnFailure(e.GetOnFailure()),
	}
}

// expectOut is nil without expectations.
func expectOut(e schedule.Expect) *carillonv1.Expectation {
	if e == (schedule.Expect{}) {
		return nil
	}
	set := func(n uint32) *uint32 {
		if n == 0 {
			return nil
		}
		return &n
	}
	out := &carillonv1.Expectation{
		StartWithinMs: set(e.StartWithinMS), FinishWithinMs: set(e.FinishWithinMS), SuccessEveryMs: set(e.SuccessEveryMS),
		AlertAfter: set(e.AlertAfter), RemindEveryMs: set(e.RemindEveryMS),
	}
	if e.OnFailure != "" {
		word := string(e.OnFailure)
		out.OnFailure = &word
	}
	return out
}

func expectationsOf(states []schedule.ExpectationState) []*carillonv1.ExpectationState {
	out := make([]*carillonv1.ExpectationState, len(states))
	for i, e := range states {
		out[i] = &carillonv1.ExpectationState{
			Kind: string(e.Kind), Status: string(e.Status), Late: count32(e.Late), LateSince: timestamp(e.LateSince),
			MetAt: timestamp(e.MetAt), AlertId: e.AlertID, JudgedAt: timestamp(e.JudgedAt),
		}
	}
	return out
}
