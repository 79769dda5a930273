package api

import (
	"context"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// positions records where a watch reads, and answers what it is told.
type positions struct {
	Runs
	asked time.Time
	rows  []schedule.Run
}

func (p *positions) ListRuns(_ context.Context, f schedule.RunFilter) ([]schedule.Run, error) {
	p.asked = f.UpdatedAfter
	return p.rows, nil
}

func TestAWatchDoesNotReadAllChangesSinceTheCallAgain(t *testing.T) {
	call := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	feed := &positions{}
	w := watch{runs: feed, since: call, sent: make(map[schedule.Key]time.Time)}
	for _, poll := range []struct {
		name     string
		at       time.Duration // since the call
		rows     []schedule.Run
		position time.Duration
	}{
		{name: "the first poll begins with the call", at: 0, position: 0},
		{name: "soon after the call no change is left out", at: 5 * time.Second, position: 0},
		{name: "an hour later the last read counts, because it may be late", at: time.Hour, position: 0},
		{name: "the next one reads ten seconds again", at: time.Hour + time.Second, position: time.Hour - watchSpan, rows: []schedule.Run{{UpdatedAt: call.Add(time.Hour)}}},
		{name: "after a run that matched it is two seconds", at: time.Hour + 2*time.Second, position: time.Hour - watchOverlap},
	} {
		feed.rows = poll.rows
		if _, err := w.changed(t.Context(), call.Add(poll.at)); err != nil {
			t.Fatal(err)
		}
		if got := feed.asked.Sub(call); got != poll.position {
			t.Errorf("%s: it reads from %s after the call, want %s", poll.name, got, poll.position)
		}
	}
}
