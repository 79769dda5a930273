package ledger_test

import (
	"testing"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

// A launcher finds a queue plain, and reads its rows a moment later.
func TestARunWithLimitsThatCameMeanwhileIsNotTakenForPlain(t *testing.T) {
	t.Parallel()
	plain, limited := &schedule.Run{}, &schedule.Run{}
	limited.Queue.Limits = "gpu"
	for _, tc := range []struct {
		name string
		rows []*schedule.Run
		want int
	}{
		{"all are plain", []*schedule.Run{plain, plain}, 2},
		{"one is behind a plain run", []*schedule.Run{plain, limited, plain}, 1},
		{"one is the first", []*schedule.Run{limited, plain}, 0},
	} {
		var f ledger.QueueFacts
		f.AddPlain(tc.rows, 10)
		got, more := 0, false
		for _, h := range f.Heads {
			got, more = got+len(h.Runs), more || h.More
		}
		if got != tc.want || tc.want == 1 && !more {
			t.Errorf("%s: %d runs may be admitted, more: %t; want %d", tc.name, got, more, tc.want)
		}
	}
}
