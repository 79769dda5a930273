package launcher_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/store/sqlite"
	"github.com/carillon/carillon/launcher"
)

// timedOut is a store whose runs have ended before each answer.
type timedOut struct{ *sqlite.Store }

func (timedOut) Finish(_ context.Context, done []schedule.FinishRequest, _ time.Time) ([]schedule.Finished, error) {
	finished := make([]schedule.Finished, len(done))
	for i := range finished {
		finished[i].Outcome = schedule.Outcome{Status: schedule.StatusFailed, Reason: schedule.ReasonTimeout}
	}
	return finished, nil
}

func TestAnAnswerWithAnotherEndThanTheFirstIsCounted(t *testing.T) {
	for answer, want := range map[schedule.Status]int{schedule.StatusSuccess: 1, schedule.StatusFailed: 0, schedule.StatusEnqueued: 0} {
		t.Run(string(answer), func(t *testing.T) {
			inBubble(t, launcher.Config{}, func(r *rig) {
				late := 0
				r.executor.run = func(context.Context, launcher.Call) (schedule.Outcome, error) {
					return schedule.Outcome{Status: answer, Reason: map[schedule.Status]schedule.Reason{schedule.StatusFailed: schedule.ReasonWorkflowFailed}[answer]}, nil
				}
				r.launcher = launcher.New(launcher.Options{
					Store: timedOut{r.store}, Workflows: r.workflows, Executor: r.executor, Now: r.store.Now, Logger: slog.New(slog.DiscardHandler), Config: launcher.Config{Feedback: true},
					EndedLate: func() { late++ },
				})
				r.isOutcome(r.must(r.request()), schedule.StatusFailed, schedule.ReasonTimeout)
				if late != want {
					t.Errorf("%d late ends are counted, want %d", late, want)
				}
			})
		})
	}
}
