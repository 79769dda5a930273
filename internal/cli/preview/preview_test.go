package preview_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/carillon/carillon/internal/cli/clitest"
	"github.com/carillon/carillon/internal/cli/command"
	"github.com/carillon/carillon/internal/schedule/cronexpr"
)

func TestPreviewNamesWhatDaylightSavingDoes(t *testing.T) {
	for _, tt := range []struct {
		name string
		args []string
		want []string // local time and note, of those with a note
	}{
		{
			name: "a fixed time in a gap runs at its end",
			args: []string{"--cron", "30 2 * * *", "--tz", "America/New_York", "--from", "2024-03-09T00:00:00Z"},
			want: []string{"2024-03-10T03:00:00-04:00 EDT in place of 02:30: the clock goes from 02:00 to 03:00"},
		},
		{
			name: "the literal policy skips it",
			args: []string{"--cron", "30 2 * * *", "--tz", "America/New_York", "--from", "2024-03-09T00:00:00Z", "--dst", "literal"},
			want: []string{"2024-03-11T02:30:00-04:00 EDT 02:30 did not exist: the clock went from 02:00 to 03:00"},
		},
		{
			name: "a fixed time in a fold runs in the first pass",
			args: []string{"--cron", "30 1 * * *", "--tz", "America/New_York", "--from", "2024-11-02T00:00:00Z"},
			want: []string{"2024-11-03T01:30:00-04:00 EDT first 01:30: the clock goes back from 02:00 to 01:00"},
		},
		{
			name: "the literal policy runs it in both",
			args: []string{"--cron", "30 1 * * *", "--tz", "America/New_York", "--from", "2024-11-02T00:00:00Z", "--dst", "literal"},
			want: []string{
				"2024-11-03T01:30:00-04:00 EDT first 01:30: the clock goes back from 02:00 to 01:00",
				"2024-11-03T01:30:00-05:00 EST second 01:30: the clock went back from 02:00 to 01:00",
			},
		},
		{
			name: "a gap of half an hour",
			args: []string{"--cron", "15 2 * * *", "--tz", "Australia/Lord_Howe", "--from", "2024-10-05T00:00:00Z", "-n", "3"},
			want: []string{"2024-10-06T02:30:00+11:00 +11 in place of 02:15: the clock goes from 02:00 to 02:30"},
		},
		{
			name: "a time that the gap does not touch has no note",
			args: []string{"--cron", "0 3 * * *", "--tz", "America/New_York", "--from", "2024-03-09T00:00:00Z"},
		},
		{
			name: "a day without a change has no note",
			args: []string{"--cron", "30 1 * * *", "--tz", "America/New_York", "--from", "2024-06-01T00:00:00Z", "-n", "30"},
		},
		{
			name: "an hourly rule says which hour did not exist",
			args: []string{"--cron", "0 * * * *", "--tz", "Europe/Berlin", "--from", "2024-03-31T00:00:00Z", "-n", "4"},
			want: []string{"2024-03-31T03:00:00+02:00 CEST 02:00 did not exist: the clock went from 02:00 to 03:00"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := clitest.Run(t, clitest.Env{}, append([]string{"preview", "-o", "json"}, tt.args...)...)
			var document struct {
				Fires []struct{ Local, Note string }
			}
			if err := json.Unmarshal([]byte(got.Out), &document); err != nil {
				t.Fatalf("%v: %s", err, got.ErrOut)
			}
			var noted []string
			for _, f := range document.Fires {
				if f.Note != "" {
					noted = append(noted, f.Local+" "+f.Note)
				}
			}
			if diff := cmp.Diff(tt.want, noted); diff != "" {
				t.Errorf("notes (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPreviewWithoutAServer(t *testing.T) {
	for _, tt := range []struct {
		name string
		args []string
		want []string
	}{
		{name: "five runs from now on", args: []string{"--cron", "0 12 * * *"}, want: []string{
			"2026-03-09T12:00:00Z", "2026-03-10T12:00:00Z", "2026-03-11T12:00:00Z", "2026-03-12T12:00:00Z", "2026-03-13T12:00:00Z",
		}},
		{name: "the window is closed at its beginning and open at its end", args: []string{
			"--cron", "0 12 * * *", "--from", "2026-01-01T12:00:00Z", "--to", "2026-01-03T12:00:00Z",
		}, want: []string{"2026-01-01T12:00:00Z", "2026-01-02T12:00:00Z"}},
		{name: "start and end of the rule are both inside", args: []string{
			"--cron", "0 12 * * *", "--start-at", "2026-04-01T12:00:00Z", "--end-at", "2026-04-02T12:00:00Z",
		}, want: []string{"2026-04-01T12:00:00Z", "2026-04-02T12:00:00Z"}},
		{name: "an interval counts from now", args: []string{"--every", "90s", "-n", "2"}, want: []string{"2026-03-08T12:01:30Z", "2026-03-08T12:03:00Z"}},
		{name: "an interval counts from its start", args: []string{"--every", "1h", "--start-at", "2026-03-08T15:30:00Z", "-n", "2"}, want: []string{"2026-03-08T15:30:00Z", "2026-03-08T16:30:00Z"}},
		{name: "a single run", args: []string{"--at", "2026-03-08T12:00:01Z"}, want: []string{"2026-03-08T12:00:01Z"}},
		{name: "a single run that is over", args: []string{"--at", "2026-03-08T12:00:00Z"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := clitest.Run(t, clitest.Env{}, append([]string{"preview", "-o", "json"}, tt.args...)...)
			var document struct{ Times []string }
			if err := json.Unmarshal([]byte(got.Out), &document); err != nil {
				t.Fatalf("%v: %s", err, got.ErrOut)
			}
			if diff := cmp.Diff(tt.want, append([]string(nil), document.Times...)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestPreviewJitterStaysWithinItsBoundsAndDependsOnTheID(t *testing.T) {
	seen := make(map[string]bool)
	for _, id := range []string{"a", "b", "a"} {
		got := clitest.Run(t, clitest.Env{}, "preview", "-o", "json", "--cron", "0 * * * *", "--jitter", "5m", "--id", id, "-n", "100")
		var document struct {
			Fires []struct {
				RunAt  time.Time `json:"run_at"`
				FireAt time.Time `json:"fire_at"`
			}
		}
		if err := json.Unmarshal([]byte(got.Out), &document); err != nil {
			t.Fatalf("%v: %s", err, got.ErrOut)
		}
		for _, f := range document.Fires {
			if off := f.FireAt.Sub(f.RunAt).Abs(); off > 5*time.Minute {
				t.Errorf("%s fires %s off", f.RunAt, off)
			}
		}
		seen[got.Out] = true
	}
	if len(seen) != 2 {
		t.Errorf("%d different previews of two ids, one of them twice", len(seen))
	}
}

func TestPreviewRefuses(t *testing.T) {
	for _, tt := range []struct {
		name string
		args []string
		want string
	}{
		{name: "every field at once", args: []string{"--cron", "61 * * * *", "--tz", "Mars/Base", "--dst", "maybe"}, want: "invalid request:\n  --dst: \"maybe\" is not a policy; write vixie or literal\n  --cron: cron minute \"61\""},
		{name: "what never fires", args: []string{"--cron", "0 0 31 2 *"}, want: "--cron: " + cronexpr.ErrNeverFires.Error()},
		{name: "an empty expression", args: []string{"--cron", ""}, want: "--cron: "},
		{name: "half a second", args: []string{"--every", "500ms"}, want: "--every: 500ms is not a multiple of 1s; write whole seconds"},
		{name: "nothing between runs", args: []string{"--every", "0s"}, want: "--every: 0s is not a multiple of 1s; write whole seconds"},
		{name: "more jitter than there may be", args: []string{"--cron", "@daily", "--jitter", "2h"}, want: "--jitter: 2h is over 1h"},
		{name: "an id that is none", args: []string{"--cron", "@daily", "--id", "a b"}, want: "--id: \"a b\" is not an id"},
		{name: "a window that ends before it begins", args: []string{"--cron", "@daily", "--to", "2026-03-08T11:00:00Z"}, want: "--to is not later than the start of the window"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := clitest.Run(t, clitest.Env{}, append([]string{"preview"}, tt.args...)...)
			if got.Code != command.ExitFailed || !strings.Contains(got.ErrOut, tt.want) {
				t.Errorf("exit %d: %s", got.Code, got.ErrOut)
			}
		})
	}
	t.Run("a saved one is asked of a server, however that is spoken to", func(t *testing.T) {
		token := filepath.Join(t.TempDir(), "token")
		if err := os.WriteFile(token, []byte("cat_x"), 0o600); err != nil {
			t.Fatal(err)
		}
		got := clitest.Run(t, clitest.Env{}, "preview", "--schedule", "s", "--server", clitest.NewServer(t).Address, "--token-file", token)
		if got.Code != command.ExitFailed || !strings.Contains(got.ErrOut, "does not know this call") {
			t.Errorf("exit %d: %s", got.Code, got.ErrOut)
		}
	})
	t.Run("a window without a run is no error", func(t *testing.T) {
		got := clitest.Run(t, clitest.Env{}, "preview", "--cron", "@daily", "--to", "2026-03-08T13:00:00Z")
		if got.Code != command.ExitOK || got.Out != "no next run\n" {
			t.Errorf("exit %d: %s%s", got.Code, got.Out, got.ErrOut)
		}
	})
}

func TestPreviewTable(t *testing.T) {
	got := clitest.Run(t, clitest.Env{}, "preview", "--cron", "30 2 * * *", "--tz", "America/New_York", "-n", "2")
	clitest.Golden(t, "preview_cron", got.Out)
}
