package e2e_test

import (
	"fmt"
	"net/url"
	"strings"
	"sync"
	"testing"
)

// TestLongAWaitOfACommandOutlivesAKillOfTheServer, and its exit code says how the run ended.
func TestLongAWaitOfACommandOutlivesAKillOfTheServer(t *testing.T) {
	t.Parallel()
	onEachDatabase(t, func(t *testing.T, database string) {
		s := newJobSite(t, database, "DEFAULT_BACKOFF_MS=1000")
		s.do("PUT", "/v1/queues/wide", `{"user_id":"ada","max_in_flight":10}`, nil)
		for _, id := range []string{"stuck", "doomed"} {
			s.do("PUT", "/v1/queues/"+id, `{"user_id":"ada"}`, nil)
			s.do("POST", "/v1/queues/"+id+":pause", `{}`, nil)
		}
		s.do("PUT", "/v1/schedules/late", `{"user_id":"ada","workflow_id":"w","version":1,"cron_expr":"0 0 1 1 *","input":{"name":"bad trigger"}}`, nil)
		s.do("POST", "/v1/queues/wide:pause", `{}`, nil)
		stopped := s.inQueue("wide", "stopped")
		s.do("POST", "/v1/runs/"+stopped+":cancel", `{}`, nil)
		s.do("POST", "/v1/queues/wide:resume", `{}`, nil)
		goOn := s.executor.stop()
		defer goOn()

		enqueue := func(queue, name string, more ...string) []string {
			return append([]string{"enqueue", queue, "--workflow", "w", "--version", "1", "--user", "ada", "--input", fmt.Sprintf(`{"name":%q}`, name)}, more...)
		}
		commands := []struct {
			args []string
			code int
			says string
		}{
			{enqueue("wide", "good", "--wait"), 0, "SUCCESS"},
			{enqueue("wide", "bad", "--max-attempts", "2", "--wait"), 10, "ended FAILED (workflow_failed)"},
			{enqueue("stuck", "expires", "--expires", "10s", "--wait=2m"), 11, "ended SKIPPED (expired)"},
			{enqueue("doomed", "cancelled", "--wait"), 12, "ended CANCELLED (cancelled)"},
			{enqueue("stuck", "goes on", "--wait=8s"), 13, "is still in progress after 8s and goes on"},
			{[]string{"schedule", "trigger", "late", "--wait"}, 10, "ended FAILED (workflow_failed)"},
			{[]string{"run", "retry", stopped, "--wait"}, 0, "SUCCESS"},
		}
		var waits sync.WaitGroup
		for _, c := range commands {
			waits.Go(func() {
				out, errs, code := s.process.command("", c.args...)
				if code != c.code || !strings.Contains(out+errs, c.says) {
					t.Errorf("%v: exit %d, want %d %q\n%s%s", c.args, code, c.code, c.says, out, errs)
				}
			})
		}
		counts := map[string]int{"wide": 4, "stuck": 2, "doomed": 1} // the first run of wide is the one that was cancelled
		eventually(t, startBound, "every command has its run", func() error {
			for queue, want := range counts {
				if found := s.runs("/v1/queues/"+queue+"/runs", url.Values{}); len(found) != want {
					return fmt.Errorf("%s has %d runs, want %d", queue, len(found), want)
				}
			}
			if found := s.runs("/v1/schedules/late/runs", url.Values{}); len(found) != 1 {
				return fmt.Errorf("the schedule has %d runs", len(found))
			}
			return nil
		})
		s.process.kill()
		s.process.startReady()
		s.do("POST", "/v1/queues/doomed:cancel", `{}`, nil)
		goOn()
		waits.Wait()
		counts["wide"]++ // the second attempt of bad
		for queue, want := range counts {
			if found := s.runs("/v1/queues/"+queue+"/runs", url.Values{}); len(found) != want {
				t.Errorf("%s has %d runs at the end, want %d", queue, len(found), want)
			}
		}
	})
}

// inQueue puts a run into a queue.
func (s *jobSite) inQueue(queue, name string) (key string) {
	s.Helper()
	var answer struct {
		Run job `json:"run"`
	}
	s.do("POST", "/v1/queues/"+queue+"/runs", fmt.Sprintf(`{"workflow_id":"w","version":1,"user_id":"ada","input":{"name":%q}}`, name), &answer)
	return answer.Run.Key
}
