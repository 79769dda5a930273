package e2e_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// sends posts an event with headers: "ce-id: a".
func (r *rest) sends(path, body string, headers ...string) (answer string) {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), http.MethodPost, r.base()+path, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		req.Header.Set(name, value)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		r.t.Fatalf("POST %s: %d %s %v", path, resp.StatusCode, text, err)
	}
	return string(text)
}

func (r *rest) consumed(scheduleID string, want ...string) {
	r.t.Helper()
	eventually(r.t, startBound, fmt.Sprintf("%s has consumed %v", scheduleID, want), func() error {
		states, counts := r.inboxOf(scheduleID)
		for _, id := range want {
			if states[id] != "consumed" {
				return fmt.Errorf("%s is %q", id, states[id])
			}
		}
		if len(states) != len(want) || counts["consumed"] != len(want) {
			return fmt.Errorf("its inbox is %v", states)
		}
		return nil
	})
}

// TestLongCloudEventsStartRuns: three modes, and a duplicate of each by its source and id.
func TestLongCloudEventsStartRuns(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, database string) {
		c := &consumer{}
		_, api := consumerSite(t, database, c)
		const structured = `{"specversion": "1.0", "id": "structured", "source": "/shop", "type": "orders.paid", "data": {"n": 2}}`
		send := func() (accepted int) {
			for _, answer := range []string{
				api.sends("/v1/events?user_id=ada", `{"n": 1}`, "content-type: application/json", "ce-specversion: 1.0", "ce-id: binary", "ce-source: /shop", "ce-type: orders.paid"),
				api.sends("/v1/events?user_id=ada", structured, "content-type: application/cloudevents+json"),
				api.sends("/v1/events?user_id=ada&topic=orders.batch", "["+strings.ReplaceAll(structured, "structured", "one")+","+strings.ReplaceAll(structured, "structured", "two")+"]",
					"content-type: application/cloudevents-batch+json"),
			} {
				var got struct{ Accepted int }
				if err := json.Unmarshal([]byte(answer), &got); err != nil {
					t.Fatal(err)
				}
				accepted += got.Accepted
			}
			return accepted
		}
		if n := send(); n != 4 {
			t.Errorf("%d events were accepted", n)
		}
		api.consumed("c", "binary", "structured", "one", "two")
		if n := send(); n != 0 {
			t.Errorf("%d events were accepted again", n)
		}
		api.consumed("c", "binary", "structured", "one", "two")
		for _, id := range []string{"binary", "structured", "one", "two"} {
			if n := c.keysOf(id); n != 1 {
				t.Errorf("%s was in %d runs", id, n)
			}
		}
	})
}

// TestLongTwoOwnersWithOneTopicNeverMeet, and a filter leaves out the events of others.
func TestLongTwoOwnersWithOneTopicNeverMeet(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, database string) {
		c := &consumer{}
		_, api := consumerSite(t, database, c)
		api.do("PUT", "/v1/schedules/bobs", `{"user_id": "bob", "workflow_id": "w", "version": 1, "consume": {"topics": ["orders.eu"]}}`, nil)
		api.do("PUT", "/v1/schedules/large", `{"user_id": "bob", "workflow_id": "w", "version": 1, "consume": {"topics": ["orders.*"], "filter": {"data": {"n": [{"numeric": [">", 5]}]}}}}`, nil)
		for i := range 10 {
			for _, owner := range []string{"ada", "bob"} {
				var got struct{ Results []struct{ Fanout int } }
				api.do("POST", "/v1/topics/orders.eu/events", fmt.Sprintf(`{"user_id": %q, "event_id": "%s-%d", "data": {"n": %d}}`, owner, owner, i, i), &got)
				want := 1
				if owner == "bob" && i > 5 {
					want = 2
				}
				if got.Results[0].Fanout != want {
					t.Errorf("event %d of %s has fanout %d", i, owner, got.Results[0].Fanout)
				}
			}
		}
		ids := func(owner string, from int) (all []string) {
			for i := from; i < 10; i++ {
				all = append(all, fmt.Sprintf("%s-%d", owner, i))
			}
			return all
		}
		api.consumed("c", ids("ada", 0)...)
		api.consumed("bobs", ids("bob", 0)...)
		api.consumed("large", ids("bob", 6)...)
		if status, _, err := api.call("GET", "/v1/topics/orders.eu/events/ada-1?user_id=bob", nil); err != nil || status != http.StatusNotFound {
			t.Errorf("bob sees an event of ada: %d %v", status, err)
		}
	})
}
