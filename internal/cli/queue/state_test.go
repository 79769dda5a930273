package queue_test

import (
	"strings"
	"testing"

	"github.com/carillon/carillon/internal/cli/clitest"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

func TestAQueueShowsWhatKeepsItFromItsRuns(t *testing.T) {
	until := clitest.Time("2026-03-08T13:00:00Z")
	for want, q := range map[string]*carillonv1.Queue{
		"open":                  {},
		"paused, closed":        {Paused: true, Closed: true},
		"stalled until 2026":    {StalledUntil: until, StallReason: "503 from the executor"},
		"closed, stalled until": {Closed: true, StalledUntil: until},
		"unreadable definition": {Unreadable: true, StalledUntil: until},
	} {
		f := clitest.NewServer(t)
		q.QueueId = "gpu"
		f.Answer("GetQueue", &carillonv1.GetQueueResponse{Queue: q})
		got := f.Run(t, "queue", "get", "gpu")
		state := ""
		for _, line := range strings.Split(got.Out, "\n") {
			if name, value, _ := strings.Cut(line, " "); strings.TrimSuffix(name, ":") == "state" {
				state = strings.TrimSpace(value)
			}
		}
		if !strings.HasPrefix(state, want) || strings.Contains(got.Out, "503 from the executor") != (q.GetStallReason() != "") {
			t.Errorf("want %q, got %q in\n%s", want, state, got.Out)
		}
	}
}
