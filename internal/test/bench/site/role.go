// Package site deploys Carillon as a user meets it: registrar, worker and
// launcher as processes of their own, each built by internal/app from its real
// configuration, over gRPC on loopback. Only the executor is the harness' own: it
// answers SUCCESS at once and notes when it was called. It is in the launcher's process,
// and for work in queues a process of its own.
package site

import (
	"context"
	"encoding/binary"
	"os"
	"time"

	"github.com/spf13/pflag"

	"github.com/carillon/carillon/internal/app"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/test/bench/proc"
	"github.com/carillon/carillon/internal/test/bench/record"
	"github.com/carillon/carillon/launcher"
)

// Kind is the kind of child that Serve is.
const Kind = "carillon"

// Role is one process of Carillon; its methods answer the harness.
type Role struct {
	app *app.App
	log record.Log
}

// Serve is `carillon serve --migrate` with the executor exchanged, until the
// harness closes our input.
func Serve(ctx context.Context) error {
	app.TuneMemory()
	flags := pflag.NewFlagSet(Kind, pflag.ContinueOnError)
	app.Flags(flags, nil)
	cfg, err := app.Load(flags, nil)
	if err != nil {
		return err
	}
	r := &Role{}
	o := app.Options{Logger: app.NewLogger(os.Stderr, cfg), Migrate: true}
	if cfg.Executor != "grpc" { // a sink
		o.Executor = &nullExecutor{log: &r.log}
	}
	r.app, err = app.New(ctx, cfg, o)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- r.app.Run(ctx) }()
	err = proc.Serve(r)
	stop()
	if runErr := <-ended; runErr != nil {
		err = runErr
	}
	if closeErr := r.app.Close(); err == nil {
		err = closeErr
	}
	return err
}

// Addresses of a process.
type Addresses struct{ HTTP, GRPC string }

// Where says where the process listens.
func (r *Role) Where(_ proc.None, out *Addresses) error {
	*out = Addresses{r.app.HTTPAddr(), r.app.GRPCAddr()}
	return nil
}

// Called says how often the executor was called.
func (r *Role) Called(_ proc.None, out *int) error {
	*out = r.log.Len()
	return nil
}

// Calls is the record of the executor.
func (r *Role) Calls(_ proc.None, out *[]byte) error {
	*out = record.Encode(r.log.Calls())
	return nil
}

// Forget clears the record.
func (r *Role) Forget(proc.None, *proc.None) error {
	r.log.Forget()
	return nil
}

// nullExecutor answers SUCCESS at once.
type nullExecutor struct{ log *record.Log }

// Run notes when it was called, before anything else.
func (e *nullExecutor) Run(_ context.Context, call launcher.Call) (schedule.Outcome, error) {
	now := time.Now().UnixNano()
	// Without jitter and catch-up the slot's instant is the one that it may not
	// be fired before.
	e.log.Note(record.Call{Slot: binary.BigEndian.Uint64(call.Key[len(call.Key)-8:]), Due: call.ScheduledFor.UnixNano(), At: now})
	return schedule.Outcome{Status: schedule.StatusSuccess}, nil
}

// Cancel and GetByKey are never asked for here.
func (*nullExecutor) Cancel(context.Context, schedule.CancelRequest) error {
	return launcher.ErrUnsupported
}

// GetByKey knows no key.
func (*nullExecutor) GetByKey(context.Context, schedule.RunRef) (schedule.Outcome, error) {
	return schedule.Outcome{}, launcher.ErrUnsupported
}
