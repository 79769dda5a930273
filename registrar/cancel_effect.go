package registrar

import (
	"fmt"

	"github.com/carillon/carillon/internal/schedule"
)

// CancelEffect describes what happens next to a run that CancelRun returned.
func (r *Registrar) CancelEffect(run *schedule.Run) string {
	switch {
	case run.Status == schedule.StatusCancelled && run.ClaimedAt.IsZero():
		return "The run is cancelled. It was never sent to the executor."
	case run.Status == schedule.StatusCancelled:
		return "The run is cancelled."
	case r.cfg.CanCancel:
		return fmt.Sprintf("The executor is asked to cancel the run. It becomes CANCELLED when the executor confirms, or after %s without a confirmation.", r.cfg.CancelWait)
	}
	return fmt.Sprintf("The executor cannot be asked: EXECUTOR_CANCEL_URL is not set. If the run was sent, it continues at the executor, "+
		"and becomes CANCELLED here after %s unless the executor reports its end first.", r.cfg.CancelWait)
}
