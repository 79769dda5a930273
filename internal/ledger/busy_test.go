package ledger_test

import (
	"testing"
	"time"

	"github.com/carillon/carillon/internal/ledger"
)

func TestABackfillWaitsForAGroupThatIsOrSoonWillBeTaken(t *testing.T) {
	then := time.Date(2026, 3, 2, 12, 0, 0, 250_000_000, time.UTC)
	for _, c := range []struct {
		name  string
		group ledger.GroupNow
		want  bool
	}{
		{"nothing is open", ledger.GroupNow{}, false},
		{"a run is in flight or waits", ledger.GroupNow{Occupied: true}, true},
		{"a slot fires at the last instant that counts", ledger.GroupNow{NextFireAt: then}, true},
		{"a slot fires later", ledger.GroupNow{NextFireAt: then.Add(time.Microsecond)}, false},
		{"a slot is overdue", ledger.GroupNow{NextFireAt: then.Add(-time.Hour)}, true},
		{"a run is in flight, and the next slot is far off", ledger.GroupNow{Occupied: true, NextFireAt: then.Add(time.Hour)}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := c.group.BusyUntil(then); got != c.want {
				t.Errorf("busy: %v, want %v", got, c.want)
			}
		})
	}
}
