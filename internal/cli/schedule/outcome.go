package schedule

import (
	"fmt"
	"strings"

	"github.com/carillon/carillon/internal/cli/render"
	"github.com/carillon/carillon/internal/schedule"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

// outcomeMarks have one character per outcome, so that 20 of them fit in a column.
var outcomeMarks = map[string]string{
	string(schedule.StatusSuccess): "✓", string(schedule.StatusFailed): "✗", string(schedule.StatusSkipped): "-", string(schedule.StatusCancelled): "c",
}

// outcomeStrip shows outcomes oldest first. The API has the newest first.
func outcomeStrip(p *render.Page, outcomes []string) string {
	var b strings.Builder
	for i := len(outcomes) - 1; i >= 0; i-- {
		mark, known := outcomeMarks[outcomes[i]]
		if !known {
			mark = "?"
		}
		b.WriteString(mark)
	}
	return b.String()
}

// lastOutcome is the outcome of the newest run, or the failures in a row.
func lastOutcome(p *render.Page, s *carillonv1.Schedule) string {
	if f := s.GetFailure(); f != nil {
		return fmt.Sprintf("%s, %d in a row since %s", failedWith(f), f.GetFailures(), p.When(f.GetFirstAt()))
	}
	last := s.GetLastOutcome()
	if last == nil {
		return ""
	}
	if last.GetStatus() != string(schedule.StatusSuccess) && last.GetReason() != "" {
		return fmt.Sprintf("%s(%s)", last.GetStatus(), last.GetReason())
	}
	return last.GetStatus()
}

func failedWith(f *carillonv1.ScheduleFailure) string {
	words := schedule.Reason(f.GetReason()).WithCode(f.GetErrorCode())
	if words == "" {
		return string(schedule.StatusFailed)
	}
	return string(schedule.StatusFailed) + "(" + words + ")"
}
