package run_test

import (
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/carillon/carillon/internal/cli/clitest"
	"github.com/carillon/carillon/internal/cli/command"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

// cancels answers one page after another. The page named "broken" fails.
func cancels(f *clitest.Server, pages map[string]*carillonv1.CancelRunsResponse) {
	f.Answers["CancelRuns"] = func(req proto.Message) (proto.Message, error) {
		token := req.(*carillonv1.CancelRunsRequest).GetPageToken()
		if token == "broken" {
			return nil, status.Error(codes.Unavailable, "the database is away")
		}
		return pages[token], nil
	}
}

func TestACancelOfManyGoesPageByPageAndAddsUp(t *testing.T) {
	of := func(id string, n, m uint32) *carillonv1.CancelledSchedule {
		return &carillonv1.CancelledSchedule{ScheduleId: id, Cancelled: n, CancelRequested: m}
	}
	pages := map[string]*carillonv1.CancelRunsResponse{
		"":  {Cancelled: 990, CancelRequested: 10, Schedules: []*carillonv1.CancelledSchedule{of("a", 400, 0), of("b", 590, 10)}, NextPageToken: "2"},
		"2": {Cancelled: 500, Schedules: []*carillonv1.CancelledSchedule{of("a", 500, 0)}},
	}
	for _, tt := range []struct {
		args []string
		code int
		says []string
	}{
		{[]string{"run", "cancel", "--queue", "gpu"}, 0, []string{"1490 runs cancelled; the executor is asked to cancel 10 more", "a         900        0", "b         590        10"}},
		{[]string{"queue", "cancel", "gpu"}, 0, []string{"1490 runs cancelled"}},
		{[]string{"queue", "cancel", "gpu", "--dry-run"}, command.ExitDiffers, []string{"1490 runs would be cancelled at once, 10 more requested from the executor"}},
	} {
		f := clitest.NewServer(t)
		cancels(f, pages)
		got := f.Run(t, tt.args...)
		if got.Code != tt.code || got.ErrOut != "" {
			t.Errorf("%v: exit %d %s", tt.args, got.Code, got.ErrOut)
		}
		for _, text := range tt.says {
			if !strings.Contains(got.Out, text) {
				t.Errorf("%v: %q lacks %q", tt.args, got.Out, text)
			}
		}
	}
	f := clitest.NewServer(t)
	cancels(f, map[string]*carillonv1.CancelRunsResponse{"": {}})
	if got := f.Run(t, "queue", "cancel", "gpu", "--dry-run"); got.Code != 0 || !strings.Contains(got.Out, "no open run matches") {
		t.Errorf("nothing to cancel: exit %d %s", got.Code, got.Out)
	}
}

func TestACancelOfNothingInParticularIsAMistake(t *testing.T) {
	f := clitest.NewServer(t)
	got := f.Run(t, "run", "cancel", "--note", "all of them")
	if got.Code != command.ExitUsage || !strings.Contains(got.ErrOut, "a filter such as --queue") || len(f.Requests()) != 0 {
		t.Errorf("exit %d %s, %d calls", got.Code, got.ErrOut, len(f.Requests()))
	}
}

func TestACancelThatBreaksOffSaysWhatWasDone(t *testing.T) {
	f := clitest.NewServer(t)
	cancels(f, map[string]*carillonv1.CancelRunsResponse{"": {Cancelled: 1000, NextPageToken: "broken"}})
	got := f.Run(t, "run", "cancel", "--queue", "gpu")
	if got.Code != command.ExitFailed || !strings.Contains(got.ErrOut, "1000 runs were cancelled before: run the command again for the rest") {
		t.Errorf("exit %d %s", got.Code, got.ErrOut)
	}
}
