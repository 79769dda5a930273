package queue_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/carillon/carillon/internal/cli/clitest"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

// names are the calls that a server got, in order, repeats as one.
func names(f *clitest.Server) (all []string) {
	for _, req := range f.Requests() {
		name := strings.TrimSuffix(string(req.ProtoReflect().Descriptor().Name()), "Request")
		if len(all) == 0 || all[len(all)-1] != name {
			all = append(all, name)
		}
	}
	return all
}

func TestReserveEndsAsItsCommandDoesAndReleasesTheSlot(t *testing.T) {
	for _, tt := range []struct {
		name    string
		command []string
		code    int
		out     string
	}{
		{name: "it succeeds", command: []string{"sh", "-c", "echo done; cat"}, out: "done\ninput"},
		{name: "it fails", command: []string{"sh", "-c", "exit 3"}, code: 3},
		{name: "a signal ends it", command: []string{"sh", "-c", "kill -TERM $$"}, code: 143},
		{name: "it knows its reservation", command: []string{"sh", "-c", `echo "$CARILLON_RESERVATION_ID"`}, out: clitest.KeyA + "\n"},
		{name: "its own flags are not ours", command: []string{"echo", "--wait", "-n"}, out: "--wait -n\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := clitest.NewAnsweringServer(t)
			got := clitest.Run(t, clitest.Env{In: "input", Vars: map[string]string{"CARILLON_SERVER": f.Address}}, append([]string{"reserve", "gpu", "--limit", "licence", "--hold", "1m", "--"}, tt.command...)...)
			if got.Code != tt.code || got.Out != tt.out || got.ErrOut != "" {
				t.Errorf("exit %d, out %q, err %q", got.Code, got.Out, got.ErrOut)
			}
			if calls := fmt.Sprint(names(f)); calls != "[ReserveSlot ReleaseReservation]" {
				t.Errorf("calls: %s", calls)
			}
			req := f.Requests()[0].(*carillonv1.ReserveSlotRequest)
			if req.GetQueueId() != "gpu" || req.GetHoldMs() != 60_000 || req.GetRequestId() == "" || fmt.Sprint(req.GetLimits()) != "[licence]" {
				t.Errorf("asked for %v", req)
			}
		})
	}
}

func TestReserveExtendsWhileItsCommandRuns(t *testing.T) {
	f := clitest.NewAnsweringServer(t)
	ready := filepath.Join(t.TempDir(), "extended")
	var extended atomic.Int32
	f.Answers["ExtendReservation"] = func(proto.Message) (proto.Message, error) {
		if extended.Add(1) == 3 {
			clitest.WriteFile(t, ready, "")
		}
		return &carillonv1.ExtendReservationResponse{}, nil
	}
	got := f.Run(t, "reserve", "gpu", "--hold", "30ms", "--", "sh", "-c", "until [ -e "+ready+" ]; do sleep 0.01; done; exit 7")
	if got.Code != 7 || got.ErrOut != "" || fmt.Sprint(names(f)) != "[ReserveSlot ExtendReservation ReleaseReservation]" {
		t.Errorf("exit %d, err %q, calls %v", got.Code, got.ErrOut, names(f))
	}
}

func TestReserveSaysWhenItHasLostTheReservation(t *testing.T) {
	gone := status.Error(codes.NotFound, "there is no reservation")
	t.Run("while the command runs", func(t *testing.T) {
		f := clitest.NewAnsweringServer(t)
		ready := filepath.Join(t.TempDir(), "lost")
		f.Answers["ExtendReservation"] = func(proto.Message) (proto.Message, error) {
			clitest.WriteFile(t, ready, "")
			return nil, gone
		}
		got := f.Run(t, "reserve", "gpu", "--hold", "30ms", "--", "sh", "-c", "until [ -e "+ready+" ]; do sleep 0.01; done; sleep 0.1; exit 7")
		if got.Code != 7 || strings.Count(got.ErrOut, "is lost") != 1 || !strings.Contains(got.ErrOut, "the command goes on") {
			t.Errorf("exit %d, err %q", got.Code, got.ErrOut)
		}
		if fmt.Sprint(names(f)) != "[ReserveSlot ExtendReservation]" {
			t.Errorf("calls %v", names(f))
		}
	})
	t.Run("at the release", func(t *testing.T) {
		f := clitest.NewAnsweringServer(t)
		f.Refuse("ReleaseReservation", gone)
		if got := f.Run(t, "reserve", "gpu", "--", "true"); got.Code != 0 || !strings.Contains(got.ErrOut, "was lost before the command ended") {
			t.Errorf("exit %d, err %q", got.Code, got.ErrOut)
		}
	})
	t.Run("no server answers", func(t *testing.T) {
		f := clitest.NewAnsweringServer(t)
		ready := filepath.Join(t.TempDir(), "asked")
		var asked atomic.Int32
		f.Answers["ExtendReservation"] = func(proto.Message) (proto.Message, error) {
			if asked.Add(1) == 10 {
				clitest.WriteFile(t, ready, "")
			}
			return nil, status.Error(codes.Unavailable, "away")
		}
		got := f.Run(t, "reserve", "gpu", "--hold", "30ms", "--", "sh", "-c", "until [ -e "+ready+" ]; do sleep 0.01; done")
		if got.Code != 0 || strings.Count(got.ErrOut, "could not be extended") != 1 {
			t.Errorf("exit %d, err %q", got.Code, got.ErrOut)
		}
	})
}

func TestReserveWaitsForItsSlot(t *testing.T) {
	waits := &carillonv1.Reservation{ReservationId: clitest.KeyA, QueueId: "gpu", Position: 2}
	t.Run("until it is granted", func(t *testing.T) {
		f := clitest.NewAnsweringServer(t)
		f.Answer("ReserveSlot", &carillonv1.ReserveSlotResponse{Reservation: waits})
		if got := f.Run(t, "reserve", "gpu", "--", "echo", "x"); got.Code != 0 || got.Out != "x\n" || got.ErrOut != "carillon: waiting for a slot of queue gpu, position 2\n" {
			t.Errorf("exit %d, out %q, err %q", got.Code, got.Out, got.ErrOut)
		}
		if fmt.Sprint(names(f)) != "[ReserveSlot GetReservation ReleaseReservation]" {
			t.Errorf("calls %v", names(f))
		}
	})
	t.Run("no longer than --wait", func(t *testing.T) {
		f := clitest.NewAnsweringServer(t)
		f.Answer("ReserveSlot", &carillonv1.ReserveSlotResponse{Reservation: waits})
		f.Answer("GetReservation", &carillonv1.GetReservationResponse{Reservation: waits})
		got := f.Run(t, "reserve", "gpu", "--wait", "20ms", "--", "echo", "x")
		if got.Code != 75 || got.Out != "" || !strings.Contains(got.ErrOut, "no slot of queue gpu was free within 20ms: the command was not started") {
			t.Errorf("exit %d, out %q, err %q", got.Code, got.Out, got.ErrOut)
		}
		if calls := names(f); calls[len(calls)-1] != "ReleaseReservation" {
			t.Errorf("calls %v", calls)
		}
	})
	t.Run("at the end of the line if it was withdrawn", func(t *testing.T) {
		f := clitest.NewAnsweringServer(t)
		var asked atomic.Int32
		f.Answers["ReserveSlot"] = func(proto.Message) (proto.Message, error) {
			if asked.Add(1) == 1 {
				return &carillonv1.ReserveSlotResponse{Reservation: waits}, nil
			}
			return &carillonv1.ReserveSlotResponse{Reservation: &carillonv1.Reservation{ReservationId: clitest.KeyB, Granted: true}}, nil
		}
		f.Refuse("GetReservation", status.Error(codes.NotFound, "gone"))
		if got := f.Run(t, "reserve", "gpu", "--", "echo", "x"); got.Code != 0 || got.Out != "x\n" || !strings.Contains(got.ErrOut, "withdrawn") {
			t.Errorf("exit %d, out %q, err %q", got.Code, got.Out, got.ErrOut)
		}
	})
}

func TestReserveStartsNothingWithoutASlot(t *testing.T) {
	f := clitest.NewAnsweringServer(t)
	f.Refuse("ReserveSlot", status.Error(codes.NotFound, "there is no queue gpu"))
	for _, tt := range []struct {
		name string
		args []string
		code int
		says string
	}{
		{name: "the queue does not exist", args: []string{"gpu", "--", "echo", "x"}, code: 4, says: "there is no queue gpu"},
		{name: "the command does not exist", args: []string{"gpu", "--", "no-such-command-here"}, code: 127, says: "cannot start no-such-command-here"},
		{name: "no command", args: []string{"gpu"}, code: 2, says: "COMMAND is required, after --"},
		{name: "no queue", args: []string{"--", "echo"}, code: 2, says: "QUEUE is required"},
		{name: "no dashes", args: []string{"gpu", "echo"}, code: 2, says: `unexpected argument "echo"; write -- before the command`},
		{name: "held for too long", args: []string{"gpu", "--hold", "2h", "--", "echo"}, code: 1, says: "--hold 2h0m0s is not within 1ms to 1h"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := f.Run(t, append([]string{"reserve"}, tt.args...)...); got.Code != tt.code || got.Out != "" || !strings.Contains(got.ErrOut, tt.says) {
				t.Errorf("exit %d, out %q, err %q", got.Code, got.Out, got.ErrOut)
			}
		})
	}
}
