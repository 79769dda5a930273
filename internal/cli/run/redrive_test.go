package run_test

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/carillon/carillon/internal/cli/clitest"
	"github.com/carillon/carillon/internal/cli/command"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

// redrives answers one page after another. The page named "broken" fails.
func redrives(f *clitest.Server, pages map[string]*carillonv1.RedriveRunsResponse) {
	f.Answers["RedriveRuns"] = func(req proto.Message) (proto.Message, error) {
		token := req.(*carillonv1.RedriveRunsRequest).GetPageToken()
		if token == "broken" {
			return nil, status.Error(codes.Unavailable, "the database is away")
		}
		return pages[token], nil
	}
}

func TestARedriveGoesPageByPageAndAddsUp(t *testing.T) {
	of := func(id string, n uint32) *carillonv1.RedrivenSchedule {
		return &carillonv1.RedrivenSchedule{ScheduleId: id, Redriven: n}
	}
	pages := map[string]*carillonv1.RedriveRunsResponse{
		"":  {Redriven: 1000, LeftDead: 2, Schedules: []*carillonv1.RedrivenSchedule{of("a", 400), of("b", 600)}, NextPageToken: "2"},
		"2": {Redriven: 500, Schedules: []*carillonv1.RedrivenSchedule{of("a", 500)}},
	}
	for _, tt := range []struct {
		args  []string
		pages map[string]*carillonv1.RedriveRunsResponse
		code  int
		says  []string
	}{
		{[]string{"--all"}, pages, 0, []string{"1500 dead runs redriven", "2 dead runs of deleted schedules cannot be redriven"}},
		{[]string{"--all", "--dry-run"}, pages, command.ExitDiffers, []string{"1500 dead runs would be redriven"}},
		{[]string{"--all", "--dry-run"}, map[string]*carillonv1.RedriveRunsResponse{"": {}}, 0, []string{"no dead run matches"}},
		{[]string{"--schedule", "nix"}, map[string]*carillonv1.RedriveRunsResponse{"": {}}, 0, []string{"no dead run matches"}},
	} {
		f := clitest.NewServer(t)
		redrives(f, tt.pages)
		got := f.Run(t, append([]string{"run", "redrive"}, tt.args...)...)
		if got.Code != tt.code || got.ErrOut != "" {
			t.Errorf("%v: exit %d %s", tt.args, got.Code, got.ErrOut)
		}
		for _, text := range tt.says {
			if !strings.Contains(got.Out, text) {
				t.Errorf("%v: %q lacks %q", tt.args, got.Out, text)
			}
		}
		if a, b := strings.Index(got.Out, "a         900"), strings.Index(got.Out, "b         600"); tt.code == 0 && len(tt.says) == 2 && (a < 0 || b < a) {
			t.Errorf("the schedule with most runs is not first:\n%s", got.Out)
		}
	}
}

func TestARedriveOfNothingInParticularIsAMistake(t *testing.T) {
	f := clitest.NewServer(t)
	got := f.Run(t, "run", "redrive", "--renew", "--dry-run")
	if got.Code != command.ExitUsage || !strings.Contains(got.ErrOut, "or give --all") || len(f.Requests()) != 0 {
		t.Errorf("exit %d %s, %d calls", got.Code, got.ErrOut, len(f.Requests()))
	}
}

func TestARedriveThatBreaksOffSaysWhatWasDone(t *testing.T) {
	f := clitest.NewServer(t)
	redrives(f, map[string]*carillonv1.RedriveRunsResponse{"": {Redriven: 1000, NextPageToken: "broken"}})
	got := f.Run(t, "run", "redrive", "--all")
	if got.Code != command.ExitFailed || !strings.Contains(got.ErrOut, "1000 runs were redriven before: run the command again for the rest") {
		t.Errorf("exit %d %s", got.Code, got.ErrOut)
	}
	if n := len(f.Requests()); n != 2 {
		t.Errorf("%s calls", fmt.Sprint(n))
	}
}
