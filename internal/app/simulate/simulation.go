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

// Simulator simulates a worker with one configuration.
type Simulator struct {
	config   worker.Config
	worker   *worker.Metrics // required, not exported
	launcher *launcher.Metrics
}

var quiet = slog.New(slog.DiscardHandler)

// New makes a Simulator of a worker's configuration.
func New(config worker.Config) *Simulator {
	config.RequireGrant = false // a scenario has no grants
	return &Simulator{config: config, worker: worker.NewMetrics(nil), launcher: launcher.NewMetrics(nil, "simulated")}
}

// Simulate runs a scenario and returns the outcome of every slot, by run_at, then schedule. It ends
// early with ctx or work.ErrSpent.
func (s *Simulator) Simulate(ctx context.Context, scenario registrar.Scenario, budget *work.Budget) ([]registrar.SimulatedSlot, error) {
	// Without the caller's identity: the registrar of the simulation must see the schedules of all owners.
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
