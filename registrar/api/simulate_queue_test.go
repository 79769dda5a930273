package api_test

import (
	"net/http"
	"strings"
	"testing"
)

func badSimulation(name, members, field, says string) refused {
	return refused{name: "a simulation of a queue with " + name, call: "QueueService/SimulateQueue", rest: "POST /v1/queues/q:simulate", body: `{"queue_id":"q"` + members + `}`, field: field, says: says}
}

var refusedQueueSimulations = []refused{
	badSimulation("for_ms 0", `,"for_ms":0`, "for_ms", "2592000000"),
	badSimulation("for_ms over 30 days", `,"for_ms":2592000001`, "for_ms", "2592000000"),
	badSimulation("an unknown backlog", `,"backlog":"all"`, "backlog", "none"),
	badSimulation("max_in_flight 0", `,"definition":{"max_in_flight":0}`, "definition.max_in_flight", "10000"),
	badSimulation("a rate of 0 starts", `,"definition":{"rate":{"starts":0,"per_ms":1}}`, "definition.rate.starts", "1"),
	badSimulation("a proposed limit of nothing", `,"limits":[{"max_in_flight":1}]`, "limits[0].limit", "required"),
	badSimulation("a limit that is none", `,"limits":[{"limit":"a b","max_in_flight":1}]`, "limits[0].limit", "a b"),
	badSimulation("arrivals at once", `,"arrivals":[{"every_ms":0}]`, "arrivals[0].every_ms", "86400000"),
	badSimulation("1001 runs at once", `,"arrivals":[{"every_ms":1000,"runs":1001}]`, "arrivals[0].runs", "1000"),
	badSimulation("21 arrivals", `,"arrivals":[`+strings.Repeat(`{"every_ms":1000},`, 20)+`{"every_ms":1000}]`, "arrivals", "20"),
	badSimulation("a duration of nothing", `,"durations":[{}]`, "durations[0].run", "required"),
	badSimulation("a duration over 30 days", `,"durations":[{"run":{"duration_ms":2592000001}}]`, "durations[0].run.duration_ms", "2592000000"),
	badSimulation("an unknown member", `,"definition":{"max_waiting":5}`, "definition.max_waiting", "is not a field"),
}

func TestAQueueIsSimulatedOverREST(t *testing.T) {
	r := newRig(t)
	r.must("PUT", "/v1/queues/q", `{"user_id":"u","max_in_flight":1}`)
	for range 4 {
		r.must("POST", "/v1/queues/q/runs", jobBody(""))
	}
	if code, text := r.rest("POST", "/v1/queues/q:simulate", `{}`); code != http.StatusConflict || !strings.Contains(text, "give durations") {
		t.Errorf("without a known run time: %d %s", code, text)
	}
	text := r.must("POST", "/v1/queues/q:simulate", `{"definition":{"max_in_flight":2},"durations":[{"run":{"duration_ms":60000}}],"compare":true,
		"arrivals":[{"name":"more","every_ms":600000,"priority":-1}],"for_ms":3000000}`)
	for want, path := range map[string][]string{
		"8": {"proposed", "runs"}, "2": {"proposed", "max_in_flight"}, "1": {"saved", "max_in_flight"}, "60": {"proposed", "wait_max_ms"}, "180": {"saved", "wait_max_ms"},
	} {
		got := member(t, text, path...)
		if n := len(got) - 3; strings.HasSuffix(path[1], "_ms") && n > 0 {
			got = got[:n] // they have waited for some milliseconds
		}
		if got != want {
			t.Errorf("%s is %s, want %s", strings.Join(path, "."), got, want)
		}
	}
	if !strings.Contains(text, `"assumes":["Every run succeeds`) {
		t.Errorf("it assumes nothing: %s", text)
	}
	waiting := r.must("GET", "/v1/queues/q/waiting", "")
	if strings.Count(waiting, `"idempotency_key"`) != 4 {
		t.Errorf("after the simulation: %s", waiting)
	}
	key := member(t, r.must("POST", "/v1/queues/q/runs", jobBody("")), "run", "idempotency_key")
	if text := r.must("GET", "/v1/runs/"+key+":explain", ""); member(t, text, "would_start", "p50") != "null" || !strings.Contains(text, "No estimate of its start") {
		t.Errorf("the last one is explained: %s", text)
	}
	if code, text := r.rest("POST", "/v1/queues/none:simulate", `{}`); code != http.StatusNotFound {
		t.Errorf("a queue that does not exist: %d %s", code, text)
	}
}
