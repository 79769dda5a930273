package queue

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"

	"github.com/carillon/carillon/internal/cli/client"
	"github.com/carillon/carillon/internal/cli/command"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

// Exit codes of reserve besides those of the command.
const (
	exitNoSlot     = 75  // EX_TEMPFAIL
	exitNoCommand  = 127 // as shells have it
	defaultHold    = 30 * time.Second
	longestLook    = time.Minute
	releaseTimeout = 5 * time.Second
)

// NewReserveCommand is reserve.
func NewReserveCommand(c *command.CLI) *cobra.Command {
	o := client.New(c)
	r := &reserving{o: o, process: c}
	cmd := &cobra.Command{
		Use:   "reserve QUEUE -- COMMAND [ARGUMENT...]",
		Short: "Run a command in the next slot of a dispatch queue",
		Long: "Reserves the next slot of a queue, ahead of all runs that wait in it, runs a command here, and releases the slot\n" +
			"when the command ends. Nothing that runs is stopped for it. While the command runs the reservation is extended;\n" +
			"if this process dies, the slot is free after --hold, also if the command goes on.\n\n" +
			"The exit code is that of the command, 128 + N if signal N ended it, 127 if it cannot be started, and 75 if no\n" +
			"slot was free within --wait. SIGINT, SIGTERM, SIGHUP and SIGQUIT are sent on to the command. If the reservation\n" +
			"is lost meanwhile, a message on standard error says so, and the command goes on.",
		Example: "  carillon reserve gpu -- python train.py\n" +
			"  carillon reserve gpu --wait 5m --limit licence -- make deploy",
		Args: queueAndCommand,
		RunE: o.Ask(func(ctx context.Context, l *client.Link, args []string) error {
			r.l, r.queue, r.errOut = l, args[0], o.ErrOut
			return r.run(ctx, args[1:])
		}),
	}
	f := cmd.Flags()
	f.DurationVar(&r.wait, "wait", 0, "give up if no slot is free within a `DURATION` (default: wait)")
	f.DurationVar(&r.hold, "hold", defaultHold, "`DURATION` after which the slot is free if this process dies; at most 1h")
	f.StringSliceVar(&r.limits, "limit", nil, "`LIMIT` that the command uses: its id, or ID=KEY; may be repeated")
	f.StringVar(&r.user, "user", "", "`ID` of the owner (default: that of the queue)")
	o.ServerFlags(cmd)
	o.CompleteArg(cmd, client.QueueIDs)
	return o.CompleteFlags(cmd)
}

// reserving is one reservation and its command.
type reserving struct {
	o          *client.Client
	process    *command.CLI // the command gets its files
	errOut     io.Writer    // for messages
	l          *client.Link
	queue      string
	user       string
	limits     []string
	wait, hold time.Duration
}

func (r *reserving) say(format string, args ...any) {
	_, _ = fmt.Fprintf(r.errOut, "carillon: "+format+"\n", args...)
}

func (r *reserving) run(ctx context.Context, words []string) error {
	path, err := exec.LookPath(words[0])
	if err != nil {
		return &codeError{fmt.Errorf("cannot start %s: %w", words[0], err), exitNoCommand}
	}
	reservation, err := r.reserve(ctx)
	if err != nil {
		return err
	}
	r.l.Progress.End()
	return r.runIn(context.WithoutCancel(ctx), reservation, path, words)
}

// codeError is an error with an exit code of its own.
type codeError struct {
	error
	code int
}

func (e *codeError) ExitCode() int { return e.code }
func (e *codeError) Unwrap() error { return e.error }

// reserve waits for a slot. Whatever ends the wait gives the reservation back.
func (r *reserving) reserve(ctx context.Context) (*carillonv1.Reservation, error) {
	if r.hold < time.Millisecond || r.hold > time.Hour {
		return nil, fmt.Errorf("--hold %s is not within 1ms to 1h", r.hold)
	}
	if r.wait < 0 {
		return nil, fmt.Errorf("--wait %s is negative", r.wait)
	}
	deadline := time.Now().Add(r.wait)
	var have *carillonv1.Reservation
	for told := false; ; {
		next, err := r.look(ctx, have, deadline)
		switch {
		case err != nil && have != nil && codeOf(err) == codes.NotFound:
			r.say("the reservation was withdrawn while the server could not be reached; waiting at the end of the line again")
			have = nil
			continue
		case err != nil:
			r.giveBack(ctx, have)
			return nil, err
		}
		if have = next; have.GetGranted() {
			return have, nil
		}
		if r.wait > 0 && !time.Now().Before(deadline) {
			r.giveBack(ctx, have)
			return nil, &codeError{fmt.Errorf("no slot of queue %s was free within %s: the command was not started", r.queue, r.wait), exitNoSlot}
		}
		if !told {
			r.say("waiting for a slot of queue %s, position %d", r.queue, have.GetPosition())
			told = true
		}
	}
}

// look asks for a reservation, or waits a part of the time for its grant. A server that does not answer is asked again, as
// long as other commands wait for one.
func (r *reserving) look(ctx context.Context, have *carillonv1.Reservation, deadline time.Time) (found *carillonv1.Reservation, err error) {
	requestID := rand.Text()
	var outage time.Time
	for {
		wait := min(longestLook, r.l.Timeout()/2)
		if r.wait > 0 {
			wait = min(wait, max(0, time.Until(deadline)))
		}
		if have == nil {
			var resp *carillonv1.ReserveSlotResponse
			resp, err = client.Call(ctx, r.l, r.l.Queues().ReserveSlot, &carillonv1.ReserveSlotRequest{
				QueueId: r.queue, UserId: r.user, Limits: r.limits, HoldMs: uint32(r.hold.Milliseconds()), RequestId: requestID,
			})
			found = resp.GetReservation()
		} else {
			var resp *carillonv1.GetReservationResponse
			resp, err = client.Call(ctx, r.l, r.l.Queues().GetReservation, &carillonv1.GetReservationRequest{ReservationId: have.GetReservationId(), WaitMs: uint32(wait.Milliseconds())})
			found = resp.GetReservation()
		}
		now := time.Now()
		switch full := have != nil && client.Exhausted(err); { // no place to wait: look again
		case !full && !client.Unanswered(err) || ctx.Err() != nil:
			return found, err
		case full && r.wait > 0 && now.After(deadline):
			return have, nil
		case full:
			outage = now
		}
		if outage.IsZero() {
			outage = now
		}
		if now.Sub(outage) > client.OutageTimeout || r.wait > 0 && now.After(deadline) {
			return nil, err
		}
		if err := sleep(ctx, client.MaxPause/2); err != nil {
			return nil, err
		}
	}
}

// giveBack ends a reservation that waits; nil: there is none.
func (r *reserving) giveBack(ctx context.Context, have *carillonv1.Reservation) {
	if have == nil {
		return
	}
	short, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
	defer cancel()
	// It is withdrawn in half a minute anyway.
	_, _ = client.Call(short, r.l, r.l.Queues().ReleaseReservation, &carillonv1.ReleaseReservationRequest{ReservationId: have.GetReservationId()})
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

func codeOf(err error) codes.Code {
	if refused, ok := errors.AsType[*client.CallError](err); ok {
		return cmp.Or(refused.Code, codes.Unknown)
	}
	return codes.Unknown
}
