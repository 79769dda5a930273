package alert

import (
	"context"
	"slices"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/registrar/alert/expect"
	"github.com/carillon/carillon/registrar/explain"
)

// Explainer finds the cause of a slot's outcome; *registrar.Registrar implements it.
type Explainer interface {
	Explain(ctx context.Context, scheduleID string, at time.Time) (explain.Answer, error)
}

// explainTimeout bounds the explanation of one slot, because its expectation is locked meanwhile.
// Without an answer the alert keeps the plain cause.
const explainTimeout = 2 * time.Second

// explain follows the cause of an alert to its root, whenever a slot was added to
// it: not "overlap", but why the run was in flight that blocked the slot; not
// "not_planned", but why no worker led.
func (w *Watch) explain(ctx context.Context, c *schedule.ExpectationCase, out *expect.Outcome) {
	for i := range out.Alerts {
		a := &out.Alerts[i]
		old := c.Alert != nil && c.Alert.LastSlot.Equal(a.LastSlot)
		if w.explainer == nil || old || !slices.Contains(slotKinds, a.Kind) {
			continue
		}
		asking, cancel := context.WithTimeout(ctx, explainTimeout)
		answer, err := w.explainer.Explain(asking, a.ScheduleID, a.LastSlot)
		cancel()
		a.Detail = ""
		if err == nil {
			cause, sentence := answer.Cause()
			if cause == "" && a.Cause == schedule.CauseTooLate {
				cause, sentence = answer.LateCause()
			}
			if cause != "" {
				a.Cause, a.Detail = cause, schedule.Storable(sentence, schedule.MaxAlertDetail)
			}
		}
		for n := range out.Notices {
			if notice := &out.Notices[n].Alert; notice.AlertID == a.AlertID {
				notice.Cause, notice.Detail = a.Cause, a.Detail
			}
		}
	}
}

// slotKinds are the kinds with alerts about a slot.
var slotKinds = []schedule.ExpectationKind{schedule.ExpectStart, schedule.ExpectFinish}
