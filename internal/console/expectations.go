package console

import (
	"fmt"

	"github.com/carillon/carillon/internal/schedule"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

// expectationRow is one expectation of a schedule with its state.
type expectationRow struct {
	*carillonv1.ExpectationState
	Words               string
	Since, Met, Checked moment
	Alert               string // address of the open one
}

// Tone is the class of the state's chip.
func (p expectationRow) Tone() string {
	return map[string]string{"ok": "SUCCESS", "late": "SKIPPED", "alerting": "FAILED"}[p.GetStatus()]
}

// Chip is its state in one word.
func (p expectationRow) Chip() string {
	switch p.GetStatus() {
	case "ok":
		return "met"
	case "late":
		return "late"
	}
	return "alerting"
}

// expectations are the expectations of a schedule, each with its state.
func (v *visit) expectations(s *carillonv1.Schedule) (rows []expectationRow) {
	e := s.GetExpect()
	limits := map[string]uint32{
		string(schedule.ExpectStart): e.GetStartWithinMs(), string(schedule.ExpectFinish): e.GetFinishWithinMs(), string(schedule.ExpectSuccess): e.GetSuccessEveryMs(),
	}
	states := make(map[string]*carillonv1.ExpectationState)
	for _, state := range s.GetExpectations() {
		states[state.GetKind()] = state
	}
	for _, kind := range texts(schedule.ExpectationKinds) {
		if limits[kind] == 0 && !(kind == string(schedule.ExpectNoFailure) && alertsOnFailure(e, states[kind])) {
			continue
		}
		row := expectationRow{ExpectationState: states[kind], Words: expectationWords(kind, limits[kind])}
		if state := states[kind]; state != nil {
			row.Since, row.Met, row.Checked = v.at(state.GetLateSince()), v.at(state.GetMetAt()), v.at(state.GetJudgedAt())
			if state.GetAlertId() != "" {
				row.Alert = alertPath(state.GetAlertId())
			}
		}
		rows = append(rows, row)
	}
	return rows
}

// alertsOnFailure reports whether failed runs open an alert: the schedule says so, or
// DEFAULT_EXPECT has opened one.
func alertsOnFailure(e *carillonv1.Expectation, state *carillonv1.ExpectationState) bool {
	return e.GetOnFailure() == string(schedule.OnFailureAlert) || state.GetAlertId() != ""
}

// telling describes when an alert is opened for a missed expectation.
func telling(e *carillonv1.Expectation) string {
	text := "alerts on the first miss"
	if n := e.GetAlertAfter(); n > 1 {
		text = fmt.Sprintf("alerts after %d consecutive misses", n)
	}
	if ms := e.GetRemindEveryMs(); ms > 0 {
		text += ", reminds every " + everyWords(ms)
	}
	return text
}

func expectationWords(kind string, limitMS uint32) string {
	limit := msWords(limitMS)
	switch schedule.ExpectationKind(kind) {
	case schedule.ExpectStart:
		return "to start within " + limit + " of its slot"
	case schedule.ExpectNoFailure:
		return "no failed runs"
	case schedule.ExpectFinish:
		return "to succeed within " + limit + " of its slot"
	}
	return "to succeed at least once every " + limit
}
