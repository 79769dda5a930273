package alert

import (
	"context"
	"strings"
	"time"

	"github.com/carillon/carillon/internal/output"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/registrar/alert/expect"
	"github.com/carillon/carillon/registrar/notify"
)

// OutputStore reads the output of runs.
type OutputStore interface {
	ListRuns(ctx context.Context, f schedule.RunFilter) ([]schedule.Run, error)
	ReadRunLog(ctx context.Context, q schedule.RunLogQuery) ([]schedule.LogPart, error)
}

const (
	tailTimeout = 2 * time.Second
	tailParts   = 8 // read from the end
)

// outputTail returns the last lines of the newest run that failed since the alert's first slot;
// empty if they cannot be read.
func (w *Watch) outputTail(ctx context.Context, n expect.Notice, now time.Time) string {
	if w.output == nil || n.Type == expect.NoticeRecovered || n.Alert.ScheduleID == "" {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, tailTimeout)
	defer cancel()
	failed, err := w.output.ListRuns(ctx, schedule.RunFilter{
		ScheduleID: n.Alert.ScheduleID, Statuses: []schedule.Status{schedule.StatusFailed}, From: n.Alert.FirstSlot, Now: now, Limit: 1,
	})
	if err != nil || len(failed) == 0 {
		w.noTail(ctx, n, err)
		return ""
	}
	parts, err := w.output.ReadRunLog(ctx, schedule.RunLogQuery{Key: failed[0].Key, Last: true, Limit: tailParts})
	if err != nil {
		w.noTail(ctx, n, err)
		return ""
	}
	var text strings.Builder
	for i := range parts {
		text.WriteString(parts[i].Text)
		if !strings.HasSuffix(parts[i].Text, "\n") {
			text.WriteByte('\n')
		}
	}
	return output.Tail(text.String(), notify.MaxTailLines, notify.MaxTailBytes)
}

func (w *Watch) noTail(ctx context.Context, n expect.Notice, err error) {
	if err != nil {
		w.log.WarnContext(ctx, "cannot read the output of a failed run for its notification", "schedule_id", n.Alert.ScheduleID, "err", err)
	}
}
