package e2e_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestLongEveryEventOfABusyTimeIsExplained: publishers, a consumer that fails at times, one that is
// paused, one that is deleted meanwhile, and kills. After that no event is unrecorded, and the audit of each
// topic finds nothing.
func TestLongEveryEventOfABusyTimeIsExplained(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, database string) {
		c := &consumer{wait: 10 * time.Millisecond, answer: func(name string) string {
			if strings.HasSuffix(name, "3") || name == "bad" {
				return "FAILED"
			}
			return ""
		}}
		p, api := consumerSite(t, database, c)
		for _, id := range []string{"paused", "gone"} {
			api.do("PUT", "/v1/schedules/"+id, `{"user_id": "ada", "workflow_id": "w", "version": 1, "consume": {"topics": ["orders.*"], "max_events": 3}}`, nil)
			api.do("POST", "/v1/schedules/"+id+":pause", `{}`, nil)
		}
		const publishers, each = 3, 40
		var wg sync.WaitGroup
		for n := range publishers {
			wg.Go(func() {
				for i := range each {
					for {
						status, _, err := api.call("POST", fmt.Sprintf("/v1/topics/orders.%d/events", n), fmt.Sprintf(`{"user_id": "ada", "event_id": "%d/%d", "data": {}}`, n, i))
						if err == nil && status == http.StatusOK {
							break
						}
						time.Sleep(50 * time.Millisecond) // before it repeats
					}
				}
			})
		}
		for round := range 3 {
			want := c.handled() + 15
			eventually(t, startBound, "events are handled", func() error {
				if got := c.handled(); got < want && got < publishers*each {
					return fmt.Errorf("%d of %d are", got, want)
				}
				return nil
			})
			api.explained(publishers, each)
			p.kill()
			p.startReady()
			if round == 1 {
				api.do("DELETE", "/v1/schedules/gone", nil, nil)
			}
		}
		wg.Wait()
		eventually(t, startBound, "all events have ended, without those of the paused consumer", func() error {
			verdicts := api.explained(publishers, each)
			for _, verdict := range []string{"held_by_run", "waits overlap_busy", "waits due", "waits backoff"} {
				if verdicts[verdict] > 0 {
					return fmt.Errorf("%v", verdicts)
				}
			}
			if verdicts["waits paused"] != publishers*each || verdicts["consumed"] == 0 || verdicts["skipped deleted"] == 0 {
				return fmt.Errorf("not all words are there: %v", verdicts)
			}
			return nil
		})
		// It is alone in its batch.
		api.do("POST", "/v1/topics/orders.0/events", `{"user_id": "ada", "event_id": "bad", "data": {}}`, nil)
		eventually(t, startBound, "the event of a run that fails is dead", func() error {
			if verdicts := api.explainedAs("orders.0", "bad"); !slices.Equal(verdicts, []string{"dead failed", "waits paused"}) {
				return fmt.Errorf("%q", verdicts)
			}
			return nil
		})
		for n, want := range []int{each + 1, each, each} {
			audit, stderr, code := p.command("", "topic", "audit", fmt.Sprintf("orders.%d", n), "--user", "ada")
			if code != 0 || !strings.Contains(audit, fmt.Sprintf(": %d events", want)) {
				t.Errorf("the audit ends with %d:\n%s%s", code, audit, stderr)
			}
		}
	})
}

// explained counts the verdicts of all events that are published; none is unrecorded.
func (r *rest) explained(publishers, each int) map[string]int {
	r.t.Helper()
	verdicts := make(map[string]int)
	for n := range publishers {
		for i := range each {
			for _, verdict := range r.explainedAs(fmt.Sprintf("orders.%d", n), fmt.Sprintf("%d/%d", n, i)) {
				verdicts[verdict]++
			}
		}
	}
	return verdicts
}

// explainedAs are the verdicts about an event, by consumer; nil: it is not published.
func (r *rest) explainedAs(topic, id string) (verdicts []string) {
	r.t.Helper()
	var answer struct {
		Handlers []struct{ Verdict, Reason string }
	}
	path := "/v1/topics/" + topic + "/events/" + url.PathEscape(id) + ":explain?user_id=ada"
	status, body, err := r.call("GET", path, "")
	if err != nil || status == http.StatusNotFound {
		return nil
	}
	if err := json.Unmarshal(body, &answer); err != nil || status != http.StatusOK {
		r.t.Fatalf("GET %s: %d %s", path, status, body)
	}
	for _, h := range answer.Handlers {
		verdicts = append(verdicts, strings.TrimSuffix(h.Verdict+" "+h.Reason, " "))
		if h.Verdict == "unrecorded" {
			r.t.Errorf("event %s: %s", id, body)
		}
	}
	return verdicts
}
