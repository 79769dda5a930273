package preview_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/carillon/carillon/internal/cli/clitest"
	"github.com/carillon/carillon/internal/cli/command"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

func forecasting(t *testing.T) *clitest.Server {
	t.Helper()
	f := clitest.NewAnsweringServer(t)
	minutes := make([]uint32, 180)
	minutes[0], minutes[90], minutes[91], minutes[150] = 4, 40, 2, 8
	f.Answer("ForecastLaunches", &carillonv1.ForecastLaunchesResponse{
		From: clitest.Time("2026-03-08T12:00:00Z"), Until: clitest.Time("2026-03-08T15:00:00Z"), LaunchesPerMinute: minutes, Launches: 54, Schedules: 44, Paused: 2,
		Peaks: []*carillonv1.ForecastPeak{{
			Minute: clitest.Time("2026-03-08T13:30:00Z"), Launches: 40, Schedules: 39,
			Contributors: []*carillonv1.ForecastContributor{{ScheduleId: "poll", Launches: 2}, {ScheduleId: "nightly", Launches: 1}},
		}},
		Flattenings: []*carillonv1.ForecastFlattening{{Kind: "jitter", JitterMs: 600_000, Schedules: 39, Peak: 6, Text: "give 39 schedules jitter_ms 600000 (10m): the busiest minute would be 2026-03-08T13:34Z with 6 launches"}},
	})
	return f
}

func TestForecastNamesPeaksAndWhatFlattensThem(t *testing.T) {
	for name, args := range map[string][]string{"forecast": {"forecast"}} {
		got := forecasting(t).Run(t, args...)
		if got.Code != command.ExitOK || got.ErrOut != "" {
			t.Fatalf("exit %d: %s", got.Code, got.ErrOut)
		}
		clitest.Golden(t, name, got.Out)
	}
}

func TestForecastAsksForWhatItsFlagsSay(t *testing.T) {
	f := forecasting(t)
	got := f.Run(t, "forecast", "--user", "ada", "--label", "team=billing", "--from", "1h", "--until", "2026-03-09T12:00:00Z", "--peaks", "3", "--contributors", "0")
	want := &carillonv1.ForecastLaunchesRequest{
		UserId: "ada", Label: "team=billing", From: clitest.Time("2026-03-08T13:00:00Z"), Until: clitest.Time("2026-03-09T12:00:00Z"),
		Peaks: clitest.Pointer(uint32(3)), Contributors: clitest.Pointer(uint32(0)),
	}
	if got.Code != command.ExitOK {
		t.Fatalf("exit %d: %s", got.Code, got.ErrOut)
	}
	requests := f.Requests()
	if diff := cmp.Diff(want, requests[len(requests)-1], protocmp.Transform()); diff != "" {
		t.Error(diff)
	}
}
