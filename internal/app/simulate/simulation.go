package simulate

import (
	"cmp"
	"context"
	"log/slog"

	"github.com/carillon/carillon/internal/work"
	"github.com/carillon/carillon/launcher"
	"github.com/carillon/carillon/registrar"
	"github.com/carillon/carillon/worker"
)

// Simulator plays scenarios as a worker with one configuration would.
type Simulator struct {
	config worker.Config
	// What every simulation counts into, and nobody reads.
	worker   *worker.Metrics
	launcher *launcher.Metrics
}

var quiet = slog.New(slog.DiscardHandler)

// New makes a Simulator of workers with that configuration.
func New(config worker.Config) *Simulator {
	config.RequireGrant = false // a scenario has no grants
	return &Simulator{config: config, worker: worker.NewMetrics(nil), launcher: launcher.NewMetrics(nil, "simulated")}
}

// Simulate plays a scenario to its end and says what became of every slot, by
// run_at, then schedule. It ends early with ctx, and with work.ErrSpent.
func (s *Simulator) Simulate(ctx context.Context, scenario registrar.Scenario, budget *work.Budget) ([]registrar.SimulatedSlot, error) {
	// Whoever asks is nobody inside: the schedules there are everybody's.
	inside, cancel := context.WithCancel(context.Background())
	defer cancel()
	defer context.AfterFunc(ctx, cancel)()
	w, err := s.newWorld(inside, scenario, budget.Meter(ctx))
	if err == nil {
		err = w.play()
	}
	var slots []registrar.SimulatedSlot
	if err == nil {
		slots, err = w.slots()
	}
	if ended := cmp.Or(budget.Err(), ctx.Err()); ended != nil {
		return nil, ended
	}
	return slots, err
}
