package api_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/carillon/carillon/internal/app/simulate"
	"github.com/carillon/carillon/registrar"
	"github.com/carillon/carillon/worker"
)

func withSimulator(o *registrar.Options) { o.Simulator = simulate.New(worker.Config{}) }

// simulatedAnswer is the part of a simulation that the tests read.
type simulatedAnswer struct {
	Slots []struct {
		ScheduleID string `json:"schedule_id"`
		Status     string
		Reason     string
	}
	Sums      struct{ Slots, Launched, Succeeded, Skipped int }
	Schedules []struct {
		ScheduleID string `json:"schedule_id"`
		Launched   int
	}
}

const hour = `"from":"2027-03-01T00:00:00Z","until":"2027-03-01T01:00:00Z"`

func TestASavedScheduleIsSimulatedWithOtherPolicies(t *testing.T) {
	t.Parallel()
	r := newRig(t, withSimulator)
	r.must("PUT", "/v1/schedules/poll", `{"workflow_id":"w","version":1,"user_id":"ada","cron_expr":"*/10 * * * *","paused":true}`)
	for policy, launched := range map[string]int{"skip": 3, "allow": 6, "queue": 4} {
		var a simulatedAnswer
		text := r.must("POST", "/v1/schedules:simulate", fmt.Sprintf(`{%s,"schedules":[{"schedule_id":"poll","overlap_policy":%q,"run":{"duration_ms":900000}}]}`, hour, policy))
		if err := json.Unmarshal([]byte(text), &a); err != nil {
			t.Fatal(err)
		}
		if len(a.Slots) != 6 || a.Sums.Launched != launched || len(a.Schedules) != 1 || a.Schedules[0].ScheduleID != "poll" {
			t.Errorf("%s: %s, want 6 slots of which %d are launched", policy, text, launched)
		}
	}
	if rows := r.must("GET", "/v1/schedules/poll/runs", ""); !strings.Contains(rows, `"runs":[]`) {
		t.Errorf("a simulation left runs behind: %s", rows)
	}
}

func TestASimulatedExecutorOutageGoesByTheLaunchTimeout(t *testing.T) {
	t.Parallel()
	r := newRig(t, withSimulator)
	r.must("PUT", "/v1/schedules/poll", `{"workflow_id":"w","version":1,"user_id":"ada","cron_expr":"*/10 * * * *","overlap_policy":"allow","launch_timeout_ms":60000}`)
	const away = `"executor_outages":[{"from":"2027-03-01T00:05:00Z","until":"2027-03-01T00:35:00Z"}]`
	for name, c := range map[string]struct {
		field    string
		launched int
	}{
		"the saved one":            {``, 3},
		"a longer one":             {`,"launch_timeout_ms":1200000`, 5},
		"LAUNCH_RETRY_FOR_MS by 0": {`,"launch_timeout_ms":0`, 4},
	} {
		var a simulatedAnswer
		text := r.must("POST", "/v1/schedules:simulate", fmt.Sprintf(`{%s,%s,"schedules":[{"schedule_id":"poll"%s}]}`, hour, away, c.field))
		if err := json.Unmarshal([]byte(text), &a); err != nil {
			t.Fatal(err)
		}
		if a.Sums.Launched != c.launched {
			t.Errorf("%s: %d launched, want %d: %s", name, a.Sums.Launched, c.launched, text)
		}
	}
}

func TestASimulationRefusesTooMuchWork(t *testing.T) {
	t.Parallel()
	r := newRig(t, withSimulator)
	for name, c := range map[string]struct {
		body, says string
		code       int
	}{
		"no schedule":       {`{` + hour + `}`, "schedules", http.StatusBadRequest},
		"no window":         {`{"schedules":[{"cron_expr":"* * * * *"}]}`, "from", http.StatusBadRequest},
		"too many slots":    {`{"from":"2027-03-01T00:00:00Z","until":"2027-03-09T00:00:00Z","schedules":[{"cron_expr":"* * * * *"}]}`, "makes a window with 11520 slots, more than 10000", http.StatusBadRequest},
		"too long a window": {`{"from":"2027-03-01T00:00:00Z","until":"2029-03-09T00:00:00Z","schedules":[{"cron_expr":"0 0 1 1 *"}]}`, "more than 366 days", http.StatusBadRequest},
		"an executor outage that ends before it begins": {`{` + hour + `,"executor_outages":[{"from":"2027-03-01T00:50:00Z","until":"2027-03-01T00:40:00Z"}],"schedules":[{"cron_expr":"* * * * *"}]}`, "executor_outages[0].until", http.StatusBadRequest},
		"a launch timeout of a millisecond":             {`{` + hour + `,"schedules":[{"cron_expr":"* * * * *","launch_timeout_ms":1}]}`, "schedules[0].launch_timeout_ms", http.StatusBadRequest},
		"an outage outside":                             {`{` + hour + `,"outages":[{"from":"2027-03-01T00:50:00Z","until":"2027-03-01T01:10:00Z"}],"schedules":[{"cron_expr":"* * * * *"}]}`, "outages[0].from", http.StatusBadRequest},
		"pauses that overlap":                           {`{` + hour + `,"schedules":[{"cron_expr":"* * * * *","pauses":[{"from":"2027-03-01T00:10:00Z","until":"2027-03-01T00:30:00Z"},{"from":"2027-03-01T00:20:00Z","until":"2027-03-01T00:40:00Z"}]}]}`, "schedules[0].pauses[1].from", http.StatusBadRequest},
		"a bad expression":                              {`{` + hour + `,"schedules":[{"cron_expr":"* * * * *"},{"cron_expr":"61 * * * *"}]}`, "schedules[1].cron_expr", http.StatusBadRequest},
		"the same id twice":                             {`{` + hour + `,"schedules":[{"schedule_id":"a","cron_expr":"* * * * *"},{"schedule_id":"a","cron_expr":"* * * * *"}]}`, "is named twice", http.StatusBadRequest},
		"p95 below the half":                            {`{` + hour + `,"schedules":[{"cron_expr":"* * * * *","run":{"duration_ms":5000,"p95_ms":4000}}]}`, "schedules[0].run.p95_ms", http.StatusBadRequest},
		"nobody's schedule":                             {`{` + hour + `,"schedules":[{"schedule_id":"nobody"}]}`, `there is no schedule \"nobody\"`, http.StatusNotFound},
	} {
		code, text := r.rest("POST", "/v1/schedules:simulate", c.body)
		if code != c.code || !strings.Contains(text, c.says) {
			t.Errorf("%s: %d %s, want %d that says %q", name, code, text, c.code, c.says)
		}
	}
}
