package e2e_test

import (
	"fmt"
	"slices"
	"testing"
)

// slot registers a schedule of every second with runs that enter queue q.
func (s *jobSite) slot(id, name, overlap string) {
	s.Helper()
	s.do("PUT", "/v1/schedules/"+id, fmt.Sprintf(
		`{"workflow_id":"w","version":1,"user_id":"ada","interval_ms":1000,"overlap_policy":%q,"queue_id":"q","input":{"name":%q}}`, overlap, name), nil)
}

// slotRun is a run as lists have it.
type slotRun struct {
	Key     string `json:"idempotency_key"`
	Status  string `json:"status"`
	Reason  string `json:"reason"`
	QueueID string `json:"queue_id"`
	State   string `json:"queue_state"`
}

func (s *jobSite) runsOf(id string) []slotRun {
	s.Helper()
	var answer struct {
		Runs []slotRun `json:"runs"`
	}
	s.do("GET", "/v1/runs?schedule_id="+id+"&page_size=200", nil, &answer)
	return answer.Runs
}

// awaitWaiting waits until one run of a schedule waits in the queue, and others were skipped.
func (s *jobSite) awaitWaiting(id string) (waiting slotRun) {
	s.Helper()
	eventually(s.T, startBound, "one run of "+id+" waits, and the next is skipped", func() error {
		skipped := 0
		waiting = slotRun{}
		runs := s.runsOf(id)
		for _, r := range runs {
			switch {
			case r.State == "waiting":
				waiting = r
			case r.Reason == "overlap":
				skipped++
			}
		}
		if waiting.QueueID != "q" || waiting.Status != "ENQUEUED" || skipped == 0 {
			return fmt.Errorf("its runs are %+v", runs)
		}
		return nil
	})
	return waiting
}

func (s *jobSite) pauses(id, body string) (queued, ended int) {
	s.Helper()
	var answer struct {
		Queued int `json:"queued"`
		Ended  int `json:"ended"`
	}
	s.do("POST", "/v1/schedules/"+id+":pause", body, &answer)
	return answer.Queued, answer.Ended
}

// TestASlotInAQueueIsIndependentOfItsSchedule: what waits in a queue runs as it was, although its
// schedule is edited, paused and deleted.
func TestASlotInAQueueIsIndependentOfItsSchedule(t *testing.T) {
	onBothStores(t, func(s *jobSite) {
		s.do("POST", "/v1/queues/q:pause", `{}`, nil)
		s.slot("nightly", "old", "skip")
		waiting := s.awaitWaiting("nightly")
		s.slot("nightly", "new", "skip")
		if queued, ended := s.pauses("nightly", `{}`); queued != 1 || ended != 0 {
			s.Errorf("the pause counts %d and ends %d", queued, ended)
		}
		s.do("DELETE", "/v1/schedules/nightly", nil, nil)
		s.slot("other", "never", "skip")
		put := s.awaitWaiting("other")
		if queued, ended := s.pauses("other", `{"queued":"end"}`); queued != 0 || ended != 1 {
			s.Errorf("the pause with end counts %d and ends %d", queued, ended)
		}
		if status, answer, _ := s.call("POST", "/v1/schedules/other:pause", `{"queued":"drop"}`); status != 400 {
			s.Errorf("another word is answered %d %s", status, answer)
		}
		s.do("POST", "/v1/queues/q:resume", `{}`, nil)
		s.await("old")
		eventually(s.T, startBound, "both are over", func() error {
			runs := append(s.runsOf("nightly"), s.runsOf("other")...)
			for _, want := range []slotRun{{waiting.Key, "SUCCESS", "", "q", ""}, {put.Key, "SKIPPED", "paused", "q", ""}} {
				if !slices.Contains(runs, want) {
					return fmt.Errorf("%+v is not among %+v", want, runs)
				}
			}
			return nil
		})
	})
}

// TestLongKillsLoseNoSlotOfAQueue: three schedules share a queue of one, and the only process dies
// three times.
func TestLongKillsLoseNoSlotOfAQueue(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, database string) {
		g := newGauge(0)
		p, api := limitSite(t, database, g)
		s := &jobSite{T: t, rest: api, process: p}
		s.do("PUT", "/v1/queues/q", `{"max_in_flight":1,"user_id":"ada"}`, nil)
		overlaps := map[string]string{"a": "skip", "b": "queue", "c": "allow"}
		for id, overlap := range overlaps {
			s.slot(id, "x"+id, overlap)
		}
		started := func() (n int) {
			g.mu.Lock()
			defer g.mu.Unlock()
			return len(g.calls)
		}
		for range 3 {
			before := started()
			eventually(t, startBound, "ten more runs have started", func() error {
				if n := started(); n < before+10 {
					return fmt.Errorf("%d have", n-before)
				}
				return nil
			})
			p.kill()
			p.startReady()
		}
		for id := range overlaps {
			s.pauses(id, `{}`)
		}
		eventually(t, 2*startBound, "every run is over, and none has failed", func() error {
			for id := range overlaps {
				for _, r := range s.runsOf(id) {
					if over := r.Status == "SUCCESS" && r.QueueID == "q" || r.Status == "SKIPPED" && slices.Contains([]string{"overlap", "missed", "paused"}, r.Reason); !over {
						return fmt.Errorf("of %s one is %+v", id, r)
					}
				}
			}
			return nil
		})
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.most["x"] != 1 {
			t.Errorf("%d runs at once, want 1", g.most["x"])
		}
	})
}
