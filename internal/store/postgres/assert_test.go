package postgres_test

import (
	"github.com/carillon/carillon/internal/store/postgres"
	"github.com/carillon/carillon/launcher"
	"github.com/carillon/carillon/launcher/launchqueue"
	"github.com/carillon/carillon/registrar"
	"github.com/carillon/carillon/worker"
	"github.com/carillon/carillon/worker/leader"
)

// A store meets every interface of its users. It says so here and not in the
// package, which imports none of them.
var (
	_ worker.PlanStore        = (*postgres.Store)(nil)
	_ worker.FireStore        = (*postgres.Store)(nil)
	_ worker.BackfillStore    = (*postgres.Store)(nil)
	_ leader.LeaseStore       = (*postgres.Store)(nil)
	_ launcher.Store          = (*postgres.Store)(nil)
	_ launcher.WorkflowStore  = (*postgres.Store)(nil)
	_ launchqueue.Store       = (*postgres.Store)(nil)
	_ registrar.ScheduleStore = (*postgres.Store)(nil)
	_ registrar.RunStore      = (*postgres.Store)(nil)
	_ registrar.WorkflowStore = (*postgres.Store)(nil)
	_ registrar.BackfillStore = (*postgres.Store)(nil)
)
