package launcher_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/launcher"
)

func (r *rig) cancel(key schedule.Key) (bool, error) {
	return r.launcher.Cancel(r.Context(), schedule.CancelRequest{
		Key: key, ScheduleID: "s", WorkflowID: "w", Reason: schedule.ReasonReplaced,
	})
}

func TestCancelClosesAKeyThatWasNeverSent(t *testing.T) {
	inBubble(t, reports, func(r *rig) {
		req := r.request()
		if confirmed, err := r.cancel(req.Key); err != nil || !confirmed {
			r.Errorf("confirmed %t, %v; want it confirmed", confirmed, err)
		}
		r.isOutcome(r.must(req), schedule.StatusCancelled, schedule.ReasonReplaced)
		if confirmed, err := r.cancel(req.Key); err != nil || !confirmed {
			r.Errorf("asked again: confirmed %t, %v; want it confirmed again", confirmed, err)
		}
		r.wantCalls(0, 0)
	})
}

func TestCancelOfAKeyThatWasSent(t *testing.T) {
	errDown := errors.New("down")
	for _, tc := range []struct {
		name      string
		before    func(context.Context, launcher.Call) (schedule.Outcome, error)
		says      error // of the executor; ignored where it is not asked
		confirmed bool
		err       error
	}{
		{"accepted, and the executor confirms", accept, nil, true, nil},
		{"accepted, and the executor no longer knows it", accept, schedule.ErrNotFound, true, nil},
		{"accepted, and the executor ends it later", accept, launcher.ErrCancelAccepted, false, nil},
		{"accepted, and the executor cannot cancel", accept, launcher.ErrUnsupported, false, launcher.ErrUnsupported},
		{"accepted, and the executor does not answer", accept, errDown, false, errDown},
		{"unknown, and the executor confirms", lost, nil, true, nil},
		{"unknown, and the executor does not know it: it may still be on its way", lost, schedule.ErrNotFound, false, nil},
		{"finished already", answers(schedule.Outcome{Status: schedule.StatusSuccess}, nil), nil, false, nil},
		{"refused already", answers(schedule.Outcome{}, &launcher.Refusal{Code: "no"}), nil, false, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			inBubble(t, reports, func(r *rig) {
				r.executor.run = tc.before
				r.executor.cancel = func(schedule.CancelRequest) error { return tc.says }
				req := r.request()
				_, _ = r.start(req)
				confirmed, err := r.cancel(req.Key)
				if confirmed != tc.confirmed || !errors.Is(err, tc.err) {
					r.Errorf("confirmed %t, %v; want %t, %v", confirmed, err, tc.confirmed, tc.err)
				}
			})
		})
	}
}

func TestCancelTellsTheExecutorItsOwnRunID(t *testing.T) {
	inBubble(t, reports, func(r *rig) {
		var asked schedule.CancelRequest
		r.executor.cancel = func(ref schedule.CancelRequest) error { asked = ref; return nil }
		req := r.request()
		reply := r.must(req)
		_, _ = r.cancel(req.Key)
		if asked.RunID == "" || asked.RunID != reply.Outcome.RunID {
			r.Errorf("the cancel names run_id %q, want %q", asked.RunID, reply.Outcome.RunID)
		}
	})
}

func TestWhileACallIsOpenAnUnknownKeyConfirmsNothing(t *testing.T) {
	inBubble(t, reports, func(r *rig) {
		r.executor.cancel = func(schedule.CancelRequest) error { return schedule.ErrNotFound }
		r.executor.run = func(ctx context.Context, call launcher.Call) (schedule.Outcome, error) {
			time.Sleep(5 * time.Second)
			return accept(ctx, call)
		}
		req := r.request()
		done := make(chan struct{})
		go func() { defer close(done); r.must(req) }()
		time.Sleep(time.Second)
		if confirmed, err := r.cancel(req.Key); confirmed || err != nil {
			r.Errorf("confirmed %t, %v while the call is still on its way", confirmed, err)
		}
		<-done
		if confirmed, err := r.cancel(req.Key); !confirmed || err != nil {
			r.Errorf("confirmed %t, %v; once it was accepted, not knowing it means that it is gone", confirmed, err)
		}
	})
}
