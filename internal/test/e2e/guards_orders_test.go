package e2e_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// guardDatabase: "ACID transactions, embedded (no server)", with a write-ahead log.
func guardDatabase(s *guardSite) {
	s.refusesStart("DATABASE_URL=mysql://db/carillon")
	_, err := os.Stat(filepath.Join(s.process.dir, "data", "carillon.db-wal"))
	if s.database == "" && err != nil {
		s.Errorf("no database is named, and there is no SQLite file with a log: %v", err)
	}
}

// guardOneMachine: one process has every role.
func guardOneMachine(s *guardSite) {
	s.refusesStart("LEADER_LOCK=postgres")
	s.queue("con1", "")
	s.becomes(s.put("con1", "alone", ""), "SUCCESS")
}

// guardReservation: "If no job is running, execute immediately".
func guardReservation(s *guardSite) {
	s.queue("dec4", `,"max_in_flight":1`)
	var first struct {
		Reservation reservation `json:"reservation"`
	}
	s.do("POST", "/v1/queues/dec4:reserve", `{"hold_ms":60000,"request_id":"direct"}`, &first)
	if !first.Reservation.Granted {
		s.Errorf("no run is in flight, and the reservation is %+v", first.Reservation)
	}
	waits := s.put("dec4", "queued", `,"priority":1000`)
	if answer := s.refuses("POST", "/v1/queues/dec4:reserve", `{"hold_ms":0}`); !strings.Contains(answer, "hold_ms") {
		s.Errorf("a reservation for no time: %s", answer)
	}
	s.do("POST", "/v1/queues/dec4:close", `{}`, nil)
	s.refuses("POST", "/v1/queues/dec4:reserve", `{"hold_ms":1000}`)
	s.has(s.shown("/v1/runs/"+waits, "run"), map[string]any{"queue_state": "waiting"})
	s.do("POST", "/v1/reservations/"+first.Reservation.ID+":release", `{}`, nil)
	s.becomes(waits, "SUCCESS")
}

// guardPosition: "Insert at position N shifts positions N+ by 1".
func guardPosition(s *guardSite) {
	s.queue("dec5", "")
	s.do("POST", "/v1/queues/dec5:pause", `{}`, nil)
	keys := make(map[string]string)
	for _, name := range []string{"p1", "p2", "p3"} {
		keys[name] = s.put("dec5", name, "")
	}
	positions := func(want map[string]int) {
		s.Helper()
		for name, position := range want {
			s.has(s.shown("/v1/runs/"+keys[name], "run"), map[string]any{"position": position})
		}
	}
	positions(map[string]int{"p1": 1, "p2": 2, "p3": 3})
	keys["new"] = s.put("dec5", "new", `,"position":2`)
	positions(map[string]int{"p1": 1, "new": 2, "p2": 3, "p3": 4})
	s.do("POST", "/v1/runs/"+keys["p3"]+":move", `{"to":"first","then":["`+keys["p2"]+`"]}`, nil)
	positions(map[string]int{"p3": 1, "p2": 2, "p1": 3, "new": 4})
	for _, bad := range []string{`"position":0`, `"position":-1`, `"position":1,"next":true`} {
		if answer := s.refuses("POST", "/v1/queues/dec5/runs", `{"workflow_id":"w","version":1,"user_id":"ada",`+bad+`}`); !strings.Contains(answer, "position") {
			s.Errorf("%s: %s", bad, answer)
		}
	}
	s.refuses("POST", "/v1/runs/"+keys["p1"]+":move", `{"to":"position","position":0}`)
	positions(map[string]int{"p3": 1, "p2": 2, "p1": 3, "new": 4})
	s.do("POST", "/v1/queues/dec5:resume", `{}`, nil)
	for _, key := range keys {
		s.becomes(key, "SUCCESS")
	}
}

// guardTrigger: "Trigger creates our Job".
func guardTrigger(s *guardSite) {
	for _, expr := range []string{"61 * * * *", "0 2 30 2 *", "every monday"} {
		if answer := s.refuses("PUT", "/v1/schedules/dec3", fmt.Sprintf(`{"workflow_id":"w","version":1,"user_id":"ada","cron_expr":%q}`, expr)); !strings.Contains(answer, expr) {
			s.Errorf("%s: %s", expr, answer)
		}
	}
	s.queue("dec3", "")
	s.do("PUT", "/v1/schedules/dec3", `{"workflow_id":"w","version":1,"user_id":"ada","cron_expr":"* * * * * *","queue_id":"dec3","input":{"name":"triggered"}}`, nil)
	s.called("triggered")
	s.pauses("dec3", `{}`)
	for _, r := range s.runsOf("dec3") {
		if r.Status == "SUCCESS" {
			s.has(s.shown("/v1/runs/"+r.Key, "run"), map[string]any{"trigger": "schedule", "queue_id": "dec3", "schedule_id": "dec3"})
			return
		}
	}
	s.Error("no run of the schedule has succeeded")
}

// guardTimezone: "Schedule.timezone defaults to UTC", "Timezone changes apply to next trigger, not current".
func guardTimezone(s *guardSite) {
	const path = "/v1/schedules/dec10"
	define := func(more string) map[string]any {
		s.Helper()
		s.do("PUT", path, `{"workflow_id":"w","version":1,"user_id":"ada","cron_expr":"0 3 * * *","queue_id":"dec10"`+more+`}`, nil)
		return s.shown(path, "schedule")
	}
	next := func(schedule map[string]any, hour int) {
		s.Helper()
		at, err := time.Parse(time.RFC3339Nano, fmt.Sprint(schedule["next_run_at"]))
		if err != nil || at.UTC().Hour() != hour || time.Until(at) > 25*time.Hour {
			s.Errorf("the next run is at %v, want %d:00 UTC (%v)", schedule["next_run_at"], hour, err)
		}
	}
	s.queue("dec10", "")
	s.do("POST", "/v1/queues/dec10:pause", `{}`, nil)
	inUTC := define("")
	s.has(inUTC, map[string]any{"timezone": "UTC"})
	next(inUTC, 3)
	var current struct {
		Run job `json:"run"`
	}
	s.do("POST", path+":trigger", `{}`, &current)
	before := s.hasEntered(current.Run.Key)
	inTokyo := define(`,"timezone":"Asia/Tokyo"`)
	s.has(inTokyo, map[string]any{"timezone": "Asia/Tokyo"})
	next(inTokyo, 18)
	s.has(s.shown("/v1/runs/"+current.Run.Key, "run"), map[string]any{"run_at": before["run_at"], "revision": before["revision"], "queue_state": "waiting"})
	s.refuses("PUT", path, `{"workflow_id":"w","version":1,"user_id":"ada","cron_expr":"0 3 * * *","timezone":"Mars/Base"}`)
	next(s.shown(path, "schedule"), 18)
	s.do("POST", "/v1/queues/dec10:resume", `{}`, nil)
	s.becomes(current.Run.Key, "SUCCESS")
}

// guardDefaultQueue: "maximum 1 job running at any time".
func guardDefaultQueue(s *guardSite) {
	s.executor.mu.Lock()
	s.executor.most = 0
	s.executor.takes = func(int) time.Duration { return 50 * time.Millisecond }
	s.executor.mu.Unlock()
	var keys []string
	for n := range 5 {
		keys = append(keys, s.put("default", fmt.Sprint("global", n), ""))
	}
	for _, key := range keys {
		s.becomes(key, "SUCCESS")
	}
	s.executor.mu.Lock()
	s.executor.takes = nil
	if s.executor.most != 1 {
		s.Errorf("%d runs at the same time", s.executor.most)
	}
	s.executor.mu.Unlock()
	s.has(s.shown("/v1/queues/default", "queue"), map[string]any{"max_in_flight": 1, "user_id": "operator", "shared": true})
	for _, most := range []int{0, 10001} {
		s.refuses("PUT", "/v1/queues/default", fmt.Sprintf(`{"user_id":"operator","max_in_flight":%d}`, most))
	}
}

// guardLimit: "Default concurrency limit of 1 for jobs using Ollama", over two queues.
func guardLimit(s *guardSite) {
	s.do("PUT", "/v1/limits/ollama", `{"user_id":"ada","max_in_flight":1}`, nil)
	goOn := s.executor.stop()
	defer goOn()
	var keys []string
	for _, id := range []string{"con2a", "con2b"} {
		s.queue(id, `,"max_in_flight":10,"limits":["ollama"]`)
		keys = append(keys, s.put(id, id, ""))
		if id == "con2a" {
			s.called(id)
		}
	}
	free := s.put("con2b", "remote", `,"limits":[]`)
	s.has(s.shown("/v1/runs/"+keys[1], "run"), map[string]any{"queue_state": "waiting"})
	s.refuses("POST", "/v1/queues/con2a/runs", `{"workflow_id":"w","version":1,"user_id":"ada","limits":["no-such-limit"]}`)
	if status, answer, _ := s.call("DELETE", "/v1/limits/ollama", nil); status != http.StatusConflict {
		s.Errorf("a limit in use is deleted: %d %s", status, answer)
	}
	goOn()
	for _, key := range append(keys, free) {
		s.becomes(key, "SUCCESS")
	}
}

// guardGrace has the refusal; TestOnSigtermRunningJobsComplete has the case.
func guardGrace(s *guardSite) { s.refusesStart("SHUTDOWN_GRACE_MS=-1") }

// guardOldPaths: "legacy /jobs/* endpoints must remain functional", with deprecation warnings.
func guardOldPaths(s *guardSite) {
	s.do("POST", "/v1/queues/default:pause", `{}`, nil)
	defer s.do("POST", "/v1/queues/default:resume", `{}`, nil)
	var made struct {
		Run job `json:"run"`
	}
	s.do("POST", "/jobs", `{"workflow_id":"w","version":1,"user_id":"ada"}`, &made)
	if made.Run.QueueID != "default" || made.Run.State != "waiting" {
		s.Errorf("POST /jobs answers %+v", made.Run)
	}
	for _, c := range []struct{ method, path, successor string }{
		{"GET", "/jobs", "/v1/runs"},
		{"GET", "/jobs/" + made.Run.Key, "/v1/runs/" + made.Run.Key},
		{"DELETE", "/jobs/" + made.Run.Key, "/v1/runs/" + made.Run.Key + ":cancel"},
	} {
		req, err := http.NewRequestWithContext(s.Context(), c.method, s.base()+c.path, nil)
		if err != nil {
			s.Fatal(err)
		}
		resp, err := s.client.Do(req)
		if err != nil {
			s.Fatal(err)
		}
		_ = resp.Body.Close()
		link := "<" + c.successor + `>; rel="successor-version"`
		if resp.StatusCode != http.StatusOK || !strings.HasPrefix(resp.Header.Get("Deprecation"), "@") || resp.Header.Get("Link") != link {
			s.Errorf("%s %s: %s, Deprecation %q, Link %q, want %s", c.method, c.path, resp.Status, resp.Header.Get("Deprecation"), resp.Header.Get("Link"), link)
		}
	}
	s.becomes(made.Run.Key, "CANCELLED")
	s.refuses("GET", "/jobs/xyz", "")
	if status, _, _ := s.call("DELETE", "/jobs/"+strings.Repeat("f", 64), nil); status != http.StatusNotFound {
		s.Errorf("a job that there is not is cancelled: %d", status)
	}
}
