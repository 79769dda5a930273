package e2e_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// guardInput: "Cannot modify params after dispatch".
func guardInput(s *guardSite) {
	s.queue("inv1", `,"max_in_flight":1`)
	goOn := s.executor.stop()
	defer goOn()
	running := s.put("inv1", "value", "")
	s.called("value")
	waits := s.put("inv1", "before", "")
	s.do("POST", "/v1/runs/"+waits+":update", `{"input":{"name":"after"},"priority":3}`, nil)
	for _, change := range []string{`{"input":{"name":"new_value"}}`, `{"priority":3}`, `{"clear_limits":true}`, `{"run_at":"` + rfc(time.Now().Add(time.Hour)) + `"}`} {
		if answer := s.refuses("POST", "/v1/runs/"+running+":update", change); !strings.Contains(answer, "Cannot modify params after dispatch") {
			s.Errorf("%s: %s", change, answer)
		}
	}
	s.has(s.shown("/v1/runs/"+running, "run"), map[string]any{"priority": 0})
	goOn()
	s.becomes(running, "SUCCESS")
	s.has(s.becomes(waits, "SUCCESS"), map[string]any{"priority": 3})
	s.called("after")
	if got := s.executor.got(); slices.Contains(got, "before") || slices.Contains(got, "new_value") {
		s.Errorf("the executor got %v", got)
	}
}

// guardEnded: "Cannot modify immutable fields".
func guardEnded(s *guardSite) {
	s.queue("inv2", "")
	key := s.put("inv2", "ended", "")
	before := s.becomes(key, "SUCCESS")
	for _, member := range []string{"status", "finished_at", "schedule_id", "run_at_planned", "attempt", "exit_code"} {
		if answer := s.refuses("POST", "/v1/runs/"+key+":update", `{"`+member+`":1}`); !strings.Contains(answer, member) {
			s.Errorf("a change of %s is answered with %s", member, answer)
		}
	}
	s.refuses("POST", "/v1/runs/"+key+":update", `{"input":{"name":"another"}}`)
	s.refuses("POST", "/v1/runs/"+key+":move", `{"to":"first"}`)
	if status, answer, _ := s.call("POST", "/v1/runs/"+key+":report", `{"status":"FAILED","run_id":"r","error_code":"late"}`); status != 200 || !strings.Contains(string(answer), `"status":"SUCCESS"`) {
		s.Errorf("a report after the end is answered with %d %s, want the run as it ended", status, answer)
	}
	after := s.shown("/v1/runs/"+key, "run")
	if !maps.EqualFunc(before, after, func(a, b any) bool { return fmt.Sprint(a) == fmt.Sprint(b) }) {
		s.Errorf("the run was\n%v\nand is\n%v", before, after)
	}
}

// guardWorker: "Worker rejects new work if already running".
func guardWorker(s *guardSite) {
	s.queue("inv3", `,"delivery":"pull","max_in_flight":10`)
	var keys []string
	for n := range 3 {
		keys = append(keys, s.put("inv3", fmt.Sprint("pulled", n), ""))
	}
	fetch := func(members string) (got []string) {
		s.Helper()
		var answer fetched
		s.do("POST", "/v1/queues/inv3:fetch", `{"worker_id":"w"`+members+`}`, &answer)
		for _, run := range answer.Runs {
			got = append(got, run.Key)
		}
		return got
	}
	wants := func(when string, got []string, want ...string) {
		s.Helper()
		if !slices.Equal(got, want) {
			s.Errorf("%s the worker gets %v, want %v", when, got, want)
		}
	}
	wants("at first", fetch(""), keys[0])
	wants("while it runs one", fetch(listing(keys[0])))
	s.refuses("POST", "/v1/queues/inv3:fetch", `{"worker_id":"w","wait_ms":1000`+listing(keys[0])+`}`)
	s.has(s.shown("/v1/runs/"+keys[1], "run"), map[string]any{"queue_state": "waiting"})
	wants("with three slots", fetch(`,"slots":3`+listing(keys[0])), keys[1:]...)
	for _, key := range keys {
		s.do("POST", "/v1/runs/"+key+":report", `{"status":"SUCCESS"}`, nil)
		s.becomes(key, "SUCCESS")
	}
	if got := s.executor.got(); slices.Contains(got, "pulled0") {
		s.Errorf("the executor got %v", got)
	}
}

// guardOrder: the order itself is TestJobsRunInTheOrderOfTheirQueue.
func guardOrder(s *guardSite) {
	s.queue("inv4", "")
	s.do("POST", "/v1/queues/inv4:pause", `{}`, nil)
	low, high := s.put("inv4", "low", ""), s.put("inv4", "high", `,"priority":1`)
	s.refuses("POST", "/v1/queues/inv4/runs", `{"workflow_id":"w","version":1,"user_id":"ada","priority":1001}`)
	if answer := s.refuses("POST", "/v1/runs/"+low+":move", `{"to":"before","relative_to":"`+high+`"}`); !strings.Contains(answer, "update the priority instead") {
		s.Errorf("a move before a run of a higher priority: %s", answer)
	}
	s.do("POST", "/v1/queues/inv4:resume", `{}`, nil)
	s.becomes(low, "SUCCESS")
	s.becomes(high, "SUCCESS")
}

// guardSchedule: "Jobs store params as snapshot, not reference".
func guardSchedule(s *guardSite) {
	s.queue("inv5", "")
	s.do("POST", "/v1/queues/inv5:pause", `{}`, nil)
	define := func(name string) {
		s.do("PUT", "/v1/schedules/inv5", fmt.Sprintf(`{"workflow_id":"w","version":1,"user_id":"ada","cron_expr":"0 0 1 1 *","queue_id":"inv5","input":{"name":%q}}`, name), nil)
	}
	define("snapshot")
	var entered struct {
		Run job `json:"run"`
	}
	s.do("POST", "/v1/queues/inv5/runs", `{"schedule_id":"inv5"}`, &entered)
	var triggered struct {
		Run job `json:"run"`
	}
	s.do("POST", "/v1/schedules/inv5:trigger", `{}`, &triggered)
	define("changed")
	s.refuses("POST", "/v1/schedules/inv5:pause", `{"queued":"drop"}`)
	s.pauses("inv5", `{}`)
	s.do("DELETE", "/v1/schedules/inv5", nil, nil)
	s.do("POST", "/v1/queues/inv5:resume", `{}`, nil)
	for _, key := range []string{entered.Run.Key, triggered.Run.Key} {
		s.has(s.becomes(key, "SUCCESS"), map[string]any{"schedule_id": "inv5"})
	}
	if got := s.executor.got(); slices.Contains(got, "changed") {
		s.Errorf("the executor got %v", got)
	}
	s.called("snapshot")
}

// guardGroup: a group is RUNNING until all its members have ended.
func guardGroup(s *guardSite) {
	s.queue("inv6", `,"max_in_flight":1`)
	goOn := s.executor.stop()
	defer goOn()
	s.do("POST", "/v1/groups", `{"group_id":"inv6","queue_id":"inv6","user_id":"ada","sealed":true,"runs":[{"workflow_id":"w","version":1,"input":{"name":"one"}},{"workflow_id":"w","version":1,"run_at":"`+
		rfc(time.Now().Add(2*time.Second))+`","input":{"name":"two"}}]}`, nil)
	add := `{"runs":[{"workflow_id":"w","version":1}]}`
	if answer := s.refuses("POST", "/v1/groups/inv6:add", add); !strings.Contains(answer, "it is sealed") {
		s.Errorf("a member of a sealed group: %s", answer)
	}
	goOn()
	eventually(s.T, startBound, "the first member has ended", func() error {
		if g := s.group("inv6"); g.Succeeded == 0 {
			return fmt.Errorf("the group is %+v", g)
		}
		return nil
	})
	if g := s.group("inv6"); g.Succeeded == 1 && g.State != "RUNNING" {
		s.Errorf("with one member that has not ended the group is %+v", g)
	}
	eventually(s.T, startBound, "the group ends", func() error {
		if g := s.group("inv6"); g.State != "COMPLETED" || g.Succeeded != 2 {
			return fmt.Errorf("the group is %+v", g)
		}
		return nil
	})
	for _, call := range []string{":add", ":cancel"} {
		body := map[string]string{":add": add, ":cancel": `{}`}[call]
		if answer := s.refuses("POST", "/v1/groups/inv6"+call, body); !strings.Contains(answer, "it ended COMPLETED") {
			s.Errorf("%s of a group that has ended: %s", call, answer)
		}
	}
}
