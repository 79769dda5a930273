package e2e_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/test/services"
)

// promises are those of the queue as REST tells them: "FIELD kept" or "FIELD broken".
func (s *jobSite) promises() string {
	s.Helper()
	var answer struct {
		Queue struct {
			Promises []struct {
				Field string `json:"field"`
				Kept  bool   `json:"kept"`
			} `json:"promises"`
		} `json:"queue"`
	}
	s.do("GET", "/v1/queues/q", nil, &answer)
	var all []string
	for _, p := range answer.Queue.Promises {
		word := " broken"
		if p.Kept {
			word = " kept"
		}
		all = append(all, p.Field+word)
	}
	return strings.Join(all, ", ")
}

func (s *jobSite) promised(what, want string) {
	s.Helper()
	eventually(s.T, startBound, what, func() error {
		if got := s.promises(); got != want {
			return fmt.Errorf("%q, want %q", got, want)
		}
		return nil
	})
}

func TestAQueueSaysWhetherItsPromisesAreKeptWithAKill(t *testing.T) {
	t.Parallel()
	onBothStores(t, func(s *jobSite) {
		for field, value := range map[string]string{"wait_within_ms": "999", "dead_at_most": "100001"} {
			status, body, err := s.call("PUT", "/v1/queues/q", fmt.Sprintf(`{"max_in_flight":1,"user_id":"ada","expect":{%q:%s}}`, field, value))
			if err != nil || status != 400 || !strings.Contains(string(body), field) {
				s.Errorf("%s %s: %d %s, %v", field, value, status, body, err)
			}
		}
		s.do("PUT", "/v1/queues/q", `{"max_in_flight":1,"user_id":"ada","expect":{"wait_within_ms":2000,"dead_at_most":0}}`, nil)
		goOn := s.executor.stop()
		defer goOn()
		s.enqueue("first", "")
		s.await("first")
		s.enqueue("bad", `,"max_attempts":1`)
		s.promised("a run waits for too long", "wait_within_ms broken, dead_at_most kept")
		goOn()
		s.promised("it has failed for good", "wait_within_ms kept, dead_at_most broken")
		s.process.kill()
		s.process.startReady()
		s.promised("the run is dead after a restart", "wait_within_ms kept, dead_at_most broken")
	})
}

func TestRetriesInAQueueWaitAsTheSettingsSay(t *testing.T) {
	t.Parallel()
	test := func(s *jobSite) {
		s.enqueue("bad", `,"max_attempts":2`)
		type run struct {
			Attempt     int       `json:"attempt"`
			FireAt      time.Time `json:"fire_at"`
			CompletedAt time.Time `json:"completed_at"`
		}
		var first, second run
		eventually(s.T, 2*startBound, "both attempts have ended", func() error {
			var answer struct {
				Runs []run `json:"runs"`
			}
			s.do("GET", "/v1/runs?queue_id=q", nil, &answer)
			ended := 0
			for _, r := range answer.Runs {
				if r.Attempt == 1 {
					first = r
				} else {
					second = r
				}
				if !r.CompletedAt.IsZero() {
					ended++
				}
			}
			if ended != 2 {
				return fmt.Errorf("%d have", ended)
			}
			return nil
		})
		if wait := second.FireAt.Sub(first.CompletedAt); wait < 2700*time.Millisecond || wait > 3300*time.Millisecond {
			s.Errorf("the retry has waited %s, and the setting is 3 s", wait)
		}
		var answer struct {
			Queue struct {
				Retry struct {
					BackoffMS    int `json:"backoff_ms"`
					MaxBackoffMS int `json:"max_backoff_ms"`
				} `json:"retry"`
			} `json:"queue"`
		}
		s.do("PUT", "/v1/queues/q", `{"max_in_flight":1,"user_id":"ada","retry":{"max_attempts":5}}`, &answer)
		if got := answer.Queue.Retry; got.BackoffMS != 3000 || got.MaxBackoffMS != 4000 {
			s.Errorf("a policy of the queue is completed to %+v", got)
		}
	}
	env := []string{"DEFAULT_BACKOFF_MS=3000", "DEFAULT_MAX_BACKOFF_MS=4000"}
	t.Run("SQLite", func(t *testing.T) { t.Parallel(); test(newJobSite(t, "", env...)) })
	t.Run("Postgres", func(t *testing.T) { t.Parallel(); test(newJobSite(t, services.Postgres(t, nil), env...)) })
}
