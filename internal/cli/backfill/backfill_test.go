package backfill

import (
	"bytes"
	"strings"
	"testing"

	"github.com/carillon/carillon/internal/cli/command"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

func TestProgressSaysOnlyWhatThereIs(t *testing.T) {
	for _, tc := range []struct {
		name string
		g    *carillonv1.BackfillProgress
		want string
	}{
		{name: "nothing yet", g: &carillonv1.BackfillProgress{Total: 7, Remaining: 7}, want: "0 of 7 done"},
		{
			name: "a bit of everything",
			g:    &carillonv1.BackfillProgress{Total: 20, Succeeded: 4, Failed: 3, Skipped: 2, Cancelled: 1, PassedOver: 5, InFlight: 1},
			want: "15 of 20 done, 1 in flight, 3 failed, 2 skipped, 1 cancelled, 5 not selected",
		},
		{name: "a cancelled one", g: &carillonv1.BackfillProgress{Total: 7, Succeeded: 2, NotRun: 5}, want: "2 of 7 done, 5 not run"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := progressText(&carillonv1.Backfill{Progress: tc.g}); got != tc.want {
				t.Errorf("%q, want %q", got, tc.want)
			}
		})
	}
}

func TestWhatIsNoTerminalGetsALineAndNoBar(t *testing.T) {
	var to bytes.Buffer
	b := &carillonv1.Backfill{BackfillId: "b1", State: "running", Progress: &carillonv1.BackfillProgress{Total: 7, Succeeded: 3, Remaining: 4}}
	shown := newProgress(&command.CLI{ErrOut: &to}, nil, b)
	shown.show(b)
	shown.show(b) // so soon after the first it says nothing new
	shown.end()
	if got, want := to.String(), "backfill b1: running, 3 of 7 done\n"; got != want || strings.Contains(got, "\x1b") {
		t.Errorf("it wrote %q, want %q", got, want)
	}
}
