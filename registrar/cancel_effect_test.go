package registrar_test

import (
	"strings"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/registrar"
)

func TestCancelSaysWhatHappensNext(t *testing.T) {
	for _, tt := range []struct {
		name      string
		run       schedule.Run
		canCancel bool
		want      string
	}{
		{"a planned run ended at once", schedule.Run{Status: schedule.StatusCancelled}, true, "The run is cancelled. It was never sent"},
		{"a planned run ends at once without a cancel URL too", schedule.Run{Status: schedule.StatusCancelled}, false, "The run is cancelled. It was never sent"},
		{"a run that was cancelled before", schedule.Run{Status: schedule.StatusCancelled, Deliveries: 1}, true, "The run is cancelled."},
		{"an executor that can cancel is asked", schedule.Run{Status: schedule.StatusEnqueued, Deliveries: 1}, true, "The executor is asked to cancel the run. It becomes CANCELLED when the executor confirms, or after 7s"},
		{"an executor that cannot cancel is not asked", schedule.Run{Status: schedule.StatusEnqueued, Deliveries: 1}, false, "The executor cannot be asked: EXECUTOR_CANCEL_URL is not set."},
		{"the record ends after the wait without a cancel URL", schedule.Run{Status: schedule.StatusStarted, Deliveries: 1}, false, "becomes CANCELLED here after 7s"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, registrar.Config{CanCancel: tt.canCancel, CancelWait: 7 * time.Second})
			if got := r.CancelEffect(&tt.run); !strings.Contains(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
