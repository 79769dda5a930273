package sqlite_test

import (
	"github.com/carillon/carillon/internal/store/sqlite"
	"github.com/carillon/carillon/launcher"
	"github.com/carillon/carillon/launcher/launchqueue"
	"github.com/carillon/carillon/registrar"
	"github.com/carillon/carillon/worker"
	"github.com/carillon/carillon/worker/leader"
)

// A store meets every interface of its users. It says so here and not in the
// package, which imports none of them.
var (
	_ worker.PlanStore        = (*sqlite.Store)(nil)
	_ worker.FireStore        = (*sqlite.Store)(nil)
	_ worker.BackfillStore    = (*sqlite.Store)(nil)
	_ leader.LeaseStore       = (*sqlite.Store)(nil)
	_ launcher.Store          = (*sqlite.Store)(nil)
	_ launcher.WorkflowStore  = (*sqlite.Store)(nil)
	_ launchqueue.Store       = (*sqlite.Store)(nil)
	_ registrar.ScheduleStore = (*sqlite.Store)(nil)
	_ registrar.RunStore      = (*sqlite.Store)(nil)
	_ registrar.WorkflowStore = (*sqlite.Store)(nil)
	_ registrar.BackfillStore = (*sqlite.Store)(nil)
)
