package e2e_test

import (
	"fmt"
	"testing"
	"time"
)

// TestLongSlotsEnterTheirQueueWhileNoLaunchIsFree: plain runs that hang hold all launches and more of
// them are due, and the process dies meanwhile. The slots of another schedule go into its queue at
// their instants.
func TestLongSlotsEnterTheirQueueWhileNoLaunchIsFree(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, database string) {
		s := newJobSite(t, database, "MAX_LAUNCHES=2", "LAUNCH_RETRY_FOR_MS=600000")
		goOn := s.executor.stop()
		defer goOn()
		s.do("POST", "/v1/queues/q:pause", `{}`, nil)
		for i := range 4 {
			s.do("PUT", fmt.Sprintf("/v1/schedules/slow-%d", i), fmt.Sprintf(
				`{"workflow_id":"w","version":1,"user_id":%q,"interval_ms":1000,"overlap_policy":"allow","input":{"name":"slow"}}`, []string{"ada", "bob"}[i%2]), nil)
		}
		eventually(t, startBound, "plain runs hold every launch, and others are due", func() error {
			if n := len(s.executor.got()); n < 2 {
				return fmt.Errorf("%d calls are open", n)
			}
			return s.planned("slow-0", "slow-1", "slow-2", "slow-3")
		})
		s.slot("nightly", "queued", "allow")
		s.entersInTime("nightly")
		s.process.kill()
		s.process.startReady()
		s.entersInTime("nightly")
	})
}

// planned fails unless a run of these schedules has been due for a second and was not launched.
func (s *jobSite) planned(ids ...string) error {
	s.Helper()
	for _, id := range ids {
		for _, r := range s.timesOf(id) {
			if r.Status == "PLANNED" && time.Since(r.FireAt) > time.Second {
				return nil
			}
		}
	}
	return fmt.Errorf("every run that is due was launched")
}

// entersInTime waits until slots of a schedule enter, and then for three more of them. Those
// must be in the queue within a second.
func (s *jobSite) entersInTime(id string) {
	s.Helper()
	began := time.Now()
	var since time.Time // the fire_at of the first one that entered
	eventually(s.T, startBound, "slots of "+id+" enter their queue", func() error {
		entered := 0
		for _, r := range s.timesOf(id) {
			if r.Status != "ENQUEUED" || !r.FireAt.After(began) || !r.FireAt.After(since) {
				continue
			}
			if late := r.WaitingSince.Sub(r.FireAt); !since.IsZero() && late > time.Second {
				s.Fatalf("the slot of %s entered its queue %s late", clock(r.FireAt), late)
			}
			if since.IsZero() {
				since = r.FireAt
				break
			}
			entered++
		}
		if entered < 3 {
			return fmt.Errorf("%d have", entered)
		}
		return nil
	})
}

// timedRun is a run as lists have it, with its instants.
type timedRun struct {
	Status       string    `json:"status"`
	FireAt       time.Time `json:"fire_at"`
	WaitingSince time.Time `json:"waiting_since"`
}

func (s *jobSite) timesOf(id string) []timedRun {
	s.Helper()
	var answer struct {
		Runs []timedRun `json:"runs"`
	}
	s.do("GET", "/v1/runs?schedule_id="+id+"&page_size=200", nil, &answer)
	return answer.Runs
}
