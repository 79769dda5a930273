package cli

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/carillon/carillon/internal/cli/command"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

func forecasting(t *testing.T) *fake {
	t.Helper()
	f := answering(t)
	minutes := make([]uint32, 180)
	minutes[0], minutes[90], minutes[91], minutes[150] = 4, 40, 2, 8
	f.always("ForecastLaunches", &carillonv1.ForecastLaunchesResponse{
		From: at("2026-03-08T12:00:00Z"), Until: at("2026-03-08T15:00:00Z"), LaunchesPerMinute: minutes, Launches: 54, Schedules: 44, Paused: 2,
		Peaks: []*carillonv1.ForecastPeak{{
			Minute: at("2026-03-08T13:30:00Z"), Launches: 40, Schedules: 39,
			Contributors: []*carillonv1.ForecastContributor{{ScheduleId: "poll", Launches: 2}, {ScheduleId: "nightly", Launches: 1}},
		}},
		Flattenings: []*carillonv1.ForecastFlattening{{Kind: "jitter", JitterMs: 600_000, Schedules: 39, Peak: 6, Text: "give 39 schedules jitter_ms 600000 (10m): the busiest minute would be 2026-03-08T13:34Z with 6 launches"}},
	})
	return f
}

func TestForecastNamesPeaksAndWhatFlattensThem(t *testing.T) {
	for name, args := range map[string][]string{"forecast": {"forecast"}} {
		got := forecasting(t).run(t, args...)
		if got.code != command.ExitOK || got.errs != "" {
			t.Fatalf("exit %d: %s", got.code, got.errs)
		}
		golden(t, name, got.out)
	}
}

func TestForecastAsksForWhatItsFlagsSay(t *testing.T) {
	f := forecasting(t)
	got := f.run(t, "forecast", "--user", "ada", "--label", "team=billing", "--from", "1h", "--until", "2026-03-09T12:00:00Z", "--peaks", "3", "--contributors", "0")
	want := &carillonv1.ForecastLaunchesRequest{
		UserId: "ada", Label: "team=billing", From: at("2026-03-08T13:00:00Z"), Until: at("2026-03-09T12:00:00Z"),
		Peaks: pointer(uint32(3)), Contributors: pointer(uint32(0)),
	}
	if got.code != command.ExitOK {
		t.Fatalf("exit %d: %s", got.code, got.errs)
	}
	if diff := cmp.Diff(want, f.asked[len(f.asked)-1], protocmp.Transform()); diff != "" {
		t.Error(diff)
	}
}
