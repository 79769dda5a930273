package alert

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/registrar/alert/expect"
)

// failureSentence describes the start or end of a failing schedule.
func failureSentence(n expect.Notice) string {
	a := &n.Alert
	switch {
	case n.Type == expect.NoticeRecovered && a.Resolution == schedule.ResolutionRecovered:
		return fmt.Sprintf("Schedule %s recovered: its run succeeded after %s.", a.ScheduleID, failedRuns(a.Late))
	case n.Type == expect.NoticeRecovered && a.Resolution == schedule.ResolutionDeleted:
		return fmt.Sprintf("Schedule %s was deleted after %s.", a.ScheduleID, failedRuns(a.Late))
	case n.Type == expect.NoticeRecovered:
		return fmt.Sprintf("Schedule %s no longer alerts on failures; it had %s.", a.ScheduleID, failedRuns(a.Late))
	}
	verb, row := "failed", ""
	if n.Type == expect.NoticeReminder {
		verb = "is still failing"
	}
	if a.Late > 1 {
		row = fmt.Sprintf(" (%s since the last success)", failedRuns(a.Late))
	}
	return fmt.Sprintf("Schedule %s %s%s: %s (slot %s).", a.ScheduleID, verb, row, failureWhy(a), stamp(a.LastSlot))
}

// failureWhy is the cause with the error. The error of a launch that failed begins
// with the cause already.
func failureWhy(a *schedule.Alert) string {
	cause := string(a.Cause)
	if a.Detail == "" || strings.HasPrefix(a.Detail, cause+": ") {
		return cmp.Or(a.Detail, cause)
	}
	return cause + ", " + a.Detail
}

func failedRuns(n int64) string {
	if n == 1 {
		return "1 failed run"
	}
	return fmt.Sprintf("%d failed runs", n)
}
