package simulation

import (
	"context"
	"log/slog"

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
// run_at, then schedule. It ends early with ctx.
func (s *Simulator) Simulate(ctx context.Context, scenario registrar.Scenario) ([]registrar.SimulatedSlot, error) {
	// Whoever asks is nobody inside: the schedules there are everybody's.
	inside, cancel := context.WithCancel(context.Background())
	defer cancel()
	defer context.AfterFunc(ctx, cancel)()
	w, err := s.newWorld(inside, scenario)
	if err == nil {
		err = w.play()
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, err
	}
	return w.slots()
}
