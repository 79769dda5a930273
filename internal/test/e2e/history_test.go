package e2e_test

import (
	"fmt"
	"math"
	"net/url"
	"strings"
	"testing"
	"time"
)

// ends is how many runs of the queue have ended in the last minutes. The answer has their mean.
func (s *jobSite) ends() int {
	s.Helper()
	var answer struct {
		Queue struct {
			History string  `json:"history"`
			Ends    float64 `json:"ends_per_minute"`
		} `json:"queue"`
	}
	s.do("GET", "/v1/queues/q", nil, &answer)
	now := time.Now()
	since := now.UTC().Truncate(time.Minute).Add(-4 * time.Minute)
	return int(math.Round(answer.Queue.Ends * now.Sub(since).Minutes()))
}

// TestAQueueOfFailuresCountsEachSuccessOnceWithKills: the process is killed while runs of a queue
// with history: failed end. Afterwards each run has a row, or is counted.
func TestAQueueOfFailuresCountsEachSuccessOnceWithKills(t *testing.T) {
	t.Parallel()
	onBothStores(t, func(s *jobSite) {
		s.do("PUT", "/v1/queues/q", `{"max_in_flight":4,"user_id":"ada","history":"failed"}`, nil)
		s.executor.mu.Lock()
		s.executor.takes = func(int) time.Duration { return 30 * time.Millisecond }
		s.executor.mu.Unlock()
		const good, bad = 120, 10
		keys := make(map[string]string)
		for i := range good {
			name := fmt.Sprint("good", i)
			keys[name] = s.enqueue(name, "").Key
			if i%(good/bad) == 0 {
				name = fmt.Sprint("bad", i)
				keys[name] = s.enqueue(name, `,"max_attempts":1`).Key
			}
		}
		for _, n := range []int{20, 50, 80} {
			eventually(s.T, startBound, fmt.Sprint(n, " runs have started"), func() error {
				if got := len(s.executor.got()); got < n {
					return fmt.Errorf("%d have", got)
				}
				return nil
			})
			s.process.kill()
			s.process.startReady()
		}
		eventually(s.T, 3*startBound, "all runs have ended", func() error {
			if got := s.ends(); got < good+bad {
				return fmt.Errorf("%d have", got)
			}
			return nil
		})
		gone := 0
		for name, key := range keys {
			status, body, err := s.call("GET", "/v1/runs/"+key, nil)
			switch {
			case err != nil:
				s.Fatal(err)
			case status == 404 && strings.HasPrefix(name, "bad"):
				s.Errorf("the failed run %s has no row", name)
			case status == 404 && !strings.Contains(string(body), "keeps only failures"):
				s.Errorf("the answer for %s is no hint: %s", name, body)
			case status == 404:
				gone++
			case status != 200:
				s.Errorf("GET of %s: %d %s", name, status, body)
			case strings.HasPrefix(name, "good"):
				s.Errorf("the success %s has a row: %s", name, body)
			}
			if n := s.executor.effects(key); n < 1 {
				s.Errorf("the executor has not got %s", name)
			}
		}
		rows := len(s.runs("/v1/queues/q/runs", url.Values{}))
		if got := s.ends(); gone != good || rows != bad || got != gone+rows {
			s.Errorf("%d runs have no row, %d have one, and %d ends are counted, want %d, %d and their sum", gone, rows, got, good, bad)
		}
	})
}

func (b *workbench) effects(key string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.keys[key]
}

// TestARunOfAQueueOfFailuresIsAnsweredAfterItsEnd: repeats, waits, reports and bad words.
func TestARunOfAQueueOfFailuresIsAnsweredAfterItsEnd(t *testing.T) {
	t.Parallel()
	onBothStores(t, func(s *jobSite) {
		status, body, err := s.call("PUT", "/v1/queues/q", `{"max_in_flight":1,"user_id":"ada","history":"none"}`)
		if err != nil || status != 400 || !strings.Contains(string(body), "history") || !strings.Contains(string(body), "failed") {
			s.Errorf("an unknown history: %d %s %v", status, body, err)
		}
		s.do("PUT", "/v1/queues/q", `{"max_in_flight":1,"user_id":"ada","history":"failed"}`, nil)
		first := s.enqueue("first", "")
		eventually(s.T, startBound, "it has ended", func() error {
			if status, body, err := s.call("GET", "/v1/runs/"+first.Key, nil); err != nil || status != 404 {
				return fmt.Errorf("%d %s %w", status, body, err)
			}
			return nil
		})
		again := s.enqueue("first", "")
		if again.Key != first.Key || again.Status != "SUCCESS" || again.QueueID != "q" {
			s.Errorf("the same request again has %+v, and had %+v", again, first)
		}
		for _, call := range []string{":report", ":cancel", ":retry"} {
			status, body, err := s.call("POST", "/v1/runs/"+first.Key+call, map[string]string{":report": `{"status":"SUCCESS"}`, ":cancel": `{}`, ":retry": `{"request_id":"r"}`}[call])
			if err != nil || status != 404 || !strings.Contains(string(body), "keeps only failures") {
				s.Errorf("%s after the end: %d %s %v", call, status, body, err)
			}
		}
		waited := s.enqueue("waited", `,"wait_ms":20000`)
		if waited.Status != "SUCCESS" || s.run(waited.Key).Status != "SUCCESS" {
			s.Errorf("the run that was waited for is %+v", waited)
		}
		s.do("PUT", "/v1/schedules/hourly", `{"user_id":"ada","workflow_id":"w","version":1,"interval_ms":3600000}`, nil)
		var answer struct {
			Run job `json:"run"`
		}
		s.do("POST", "/v1/queues/q/runs", `{"schedule_id":"hourly","request_id":"of-a-schedule","input":{"name":"of-a-schedule"}}`, &answer)
		eventually(s.T, startBound, "the run of a schedule with slots keeps its row", func() error {
			if run := s.run(answer.Run.Key); run.Status != "SUCCESS" {
				return fmt.Errorf("it is %s", run.Status)
			}
			return nil
		})
	})
}
