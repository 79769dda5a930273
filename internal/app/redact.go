package app

import (
	"context"
	"errors"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/launcher"
)

// redacting removes secrets from the answers of an executor. An error page that repeats the request
// would otherwise put EXECUTOR_TOKEN or the run's report token into the ledger, where every viewer can
// read it.
type redacting struct {
	launcher.Executor
	secrets scrubber // of the configuration; making one costs more than a call
}

func newRedacting(e launcher.Executor, cfg *Config) redacting { return redacting{e, cfg.scrubber()} }

func (d redacting) Run(ctx context.Context, call launcher.Call) (schedule.Outcome, error) {
	outcome, err := d.Executor.Run(ctx, call)
	s := d.secrets.with(call.ReportToken)
	if refusal, ok := s.refusal(err); ok {
		return s.outcome(outcome), refusal
	}
	return s.outcome(outcome), s.clean(err)
}

func (d redacting) Cancel(ctx context.Context, ref schedule.CancelRequest) error {
	return d.secrets.clean(d.Executor.Cancel(ctx, ref))
}

func (d redacting) GetByKey(ctx context.Context, ref schedule.RunRef) (schedule.Outcome, error) {
	outcome, err := d.Executor.GetByKey(ctx, ref)
	return d.secrets.outcome(outcome), d.secrets.clean(err)
}

func (s scrubber) outcome(o schedule.Outcome) schedule.Outcome {
	for _, text := range []*string{&o.RunID, &o.TraceID, &o.ErrorCode, &o.ErrorMessage} {
		*text = s.Replace(*text)
	}
	return o
}

// refusal returns a copy of err without secrets if it is a Refusal.
func (s scrubber) refusal(err error) (*launcher.Refusal, bool) {
	var r *launcher.Refusal
	if !errors.As(err, &r) {
		return nil, false
	}
	return &launcher.Refusal{Code: s.Replace(r.Code), Message: s.Replace(r.Message), Reason: r.Reason}, true
}
