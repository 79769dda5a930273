package queue

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/carillon/carillon/internal/cli/client"
	"github.com/carillon/carillon/internal/cli/command"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

// runIn runs the command while the reservation is extended, and releases it afterwards.
func (r *reserving) runIn(ctx context.Context, have *carillonv1.Reservation, path string, words []string) error {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	defer signal.Stop(signals)
	r.errOut = shared(r.process.ErrOut)
	cmd := &exec.Cmd{
		Path: path, Args: words, Stdin: r.process.In, Stdout: r.process.Out, Stderr: r.errOut,
		Env: append(os.Environ(), "CARILLON_RESERVATION_ID="+have.GetReservationId()),
	}
	h := &holding{reserving: r, id: have.GetReservationId(), until: time.Now().Add(r.hold)}
	if err := cmd.Start(); err != nil {
		h.release(ctx)
		return &codeError{err, exitNoCommand}
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	err := h.keep(ctx, cmd.Process, signals, ended)
	h.release(ctx)
	return exitOf(err)
}

// shared is a writer for messages and for what the command writes. A file is one already, and the
// command gets it as it is.
func shared(w io.Writer) io.Writer {
	if _, file := w.(*os.File); file {
		return w
	}
	return &lockedWriter{to: w}
}

type lockedWriter struct {
	mu sync.Mutex
	to io.Writer
}

func (w *lockedWriter) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.to.Write(b)
}

// exitOf is nil, or an error with the exit code of the command, which has said what is wrong.
func exitOf(err error) error {
	exit, ok := errors.AsType[*exec.ExitError](err)
	if !ok {
		return err
	}
	code := exit.ExitCode()
	if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		code = 128 + int(status.Signal())
	}
	return command.Exit(code)
}

// holding is a granted reservation.
type holding struct {
	*reserving
	id    string
	until time.Time // by this clock; the server's end is not before
	lost  bool
	doubt bool // its end has passed without an answer of a server
}

// keep extends the reservation and sends signals on until the command ends.
func (h *holding) keep(ctx context.Context, process *os.Process, signals <-chan os.Signal, ended <-chan error) error {
	every := max(h.hold/3, time.Millisecond)
	ticker := time.NewTimer(every)
	defer ticker.Stop()
	extended := make(chan bool, 1)
	var extending sync.WaitGroup
	defer extending.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for {
		select {
		case err := <-ended:
			return err
		case sig := <-signals:
			if !h.fromTerminal(sig) {
				_ = process.Signal(sig) // it may have ended just now
			}
		case <-ticker.C:
			extending.Go(func() { extended <- h.extend(ctx) })
		case answered := <-extended:
			switch {
			case h.lost: // known, and said
			case answered:
				ticker.Reset(every)
			default:
				ticker.Reset(min(every, time.Second))
			}
		}
	}
}

// fromTerminal reports whether the terminal has sent the signal to the command, too.
func (h *holding) fromTerminal(sig os.Signal) bool {
	in, ok := h.process.In.(*os.File)
	if !ok || sig != os.Interrupt && sig != syscall.SIGQUIT {
		return false
	}
	info, err := in.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && in.Name() != os.DevNull
}

// extend moves the end of the reservation, and reports whether a server answered. It says when
// the reservation is lost.
func (h *holding) extend(ctx context.Context) (answered bool) {
	began := time.Now()
	_, err := client.Call(ctx, h.l, h.l.Queues().ExtendReservation, &carillonv1.ExtendReservationRequest{ReservationId: h.id})
	switch {
	case ctx.Err() != nil: // the command has ended
	case err == nil:
		h.until = began.Add(h.hold)
		if h.doubt {
			h.say("the reservation of queue %s is extended again", h.queue)
			h.doubt = false
		}
		return true
	case codeOf(err) == codes.NotFound:
		h.lost = true
		h.say("the reservation of queue %s is lost: it was released, or not extended for %s; the command goes on, and something else may have its slot", h.queue, h.hold)
		return true
	case time.Now().After(h.until) && !h.doubt:
		h.doubt = true
		h.say("the reservation of queue %s could not be extended for %s: %v; the command goes on, and something else may have its slot", h.queue, h.hold, err)
	}
	return false
}

// release gives the slot back.
func (h *holding) release(ctx context.Context) {
	if h.lost {
		return
	}
	short, cancel := context.WithTimeout(ctx, releaseTimeout)
	defer cancel()
	for {
		_, err := client.Call(short, h.l, h.l.Queues().ReleaseReservation, &carillonv1.ReleaseReservationRequest{ReservationId: h.id})
		switch {
		case err == nil:
			return
		case codeOf(err) == codes.NotFound:
			h.say("the reservation of queue %s was lost before the command ended: something else may have had its slot meanwhile", h.queue)
			return
		case !client.Unanswered(err) || sleep(short, time.Second/4) != nil:
			h.say("cannot release the reservation of queue %s: %v; the slot is free in at most %s", h.queue, err, h.hold)
			return
		}
	}
}
