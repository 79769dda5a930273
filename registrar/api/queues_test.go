package api_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/carillon/carillon/internal/schedule"
)

const (
	upsertQueueCall = "QueueService/UpsertQueue"
	pauseQueueCall  = "QueueService/PauseQueue"
	enqueueCall     = "QueueService/EnqueueRun"
	batchCall       = "QueueService/EnqueueRuns"
	updateCall      = "RunService/UpdateRun"
)

// queueBody and jobBody are good requests with further members.
func queueBody(members string) string {
	return `{"queue_id":"q","user_id":"u"` + members + `}`
}

func jobBody(members string) string {
	return `{"queue_id":"q","workflow_id":"w","version":1` + members + `}`
}

// badQueue, badJob and badUpdate are requests that are refused for the members.
func badQueue(name, members, field, says string) refused {
	return refused{name: "a queue with " + name, call: upsertQueueCall, rest: "PUT /v1/queues/q", body: queueBody(members), field: field, says: says}
}

func badJob(name, members, field, says string) refused {
	return refused{name: "a job with " + name, call: enqueueCall, rest: "POST /v1/queues/q/runs", body: jobBody(members), field: field, says: says}
}

func badBatch(name, runs, field, says string) refused {
	return refused{name: "a batch of " + name, call: batchCall, rest: "POST /v1/queues/q/runs:batch", body: `{"queue_id":"q","runs":[` + runs + `]}`, field: field, says: says}
}

func badUpdate(name, members, field, says string) refused {
	key := strings.Repeat("a", 64)
	return refused{name: "an update with " + name, call: updateCall, rest: "POST /v1/runs/" + key + ":update", body: `{"idempotency_key":"` + key + `"` + members + `}`, field: field, says: says}
}

func badSlot(name, members, field, says string) refused {
	return refused{name: "a reservation with " + name, call: "QueueService/ReserveSlot", rest: "POST /v1/queues/q:reserve", body: `{"queue_id":"q"` + members + `}`, field: field, says: says}
}

var refusedReservations = []refused{
	badQueue("max_reservations 0", `,"max_reservations":0`, "max_reservations", "1000"),
	badQueue("max_reservations 1001", `,"max_reservations":1001`, "max_reservations", "1000"),
	badSlot("no hold_ms", ``, "hold_ms", "3600000"),
	badSlot("hold_ms 0", `,"hold_ms":0`, "hold_ms", "3600000"),
	badSlot("hold_ms over an hour", `,"hold_ms":3600001`, "hold_ms", "3600000"),
	badSlot("wait_ms 60001", `,"hold_ms":1,"wait_ms":60001`, "wait_ms", "60000"),
	badSlot("five limits", `,"hold_ms":1,"limits":["a","b","c","d","e"]`, "limits", "4"),
	badSlot("a limit that is none", `,"hold_ms":1,"limits":["a b"]`, "limits[0]", "a b"),
	badSlot("a request id with a slash", `,"hold_ms":1,"request_id":"a/b"`, "request_id", "a/b"),
	badSlot("an unknown member", `,"hold_ms":1,"priority":1`, "priority", "is not a field"),
	{name: "a reservation id that is none", call: "QueueService/GetReservation", rest: "GET /v1/reservations/abc", body: `{"reservation_id":"abc"}`, field: "reservation_id", says: "64"},
	{
		name: "an extension by nothing", call: "QueueService/ExtendReservation", rest: "POST /v1/reservations/" + strings.Repeat("a", 64) + ":extend",
		body: `{"reservation_id":"` + strings.Repeat("a", 64) + `","hold_ms":0}`, field: "hold_ms", says: "3600000",
	},
}

var refusedUniques = []refused{
	badJob("a unique key that is none", `,"unique":{"scope":"open"}`, "unique.key", "required"),
	badJob("an empty unique key", `,"unique":{"key":""}`, "unique.key", "required"),
	badJob("a unique key of 201 characters", `,"unique":{"key":"`+strings.Repeat("é", 201)+`"}`, "unique.key", "200"),
	badJob("a unique key with a control character", `,"unique":{"key":"a\u0000b"}`, "unique.key", ""),
	badJob("a unique key with a space at its end", `,"unique":{"key":"a "}`, "unique.key", "spaces at the ends"),
	badJob("an unknown scope", `,"unique":{"key":"k","scope":"ever"}`, "unique.scope", "waiting"),
	badJob("an unknown on_duplicate", `,"unique":{"key":"k","on_duplicate":"drop"}`, "unique.on_duplicate", "refuse"),
	badJob("scope period without period_ms", `,"unique":{"key":"k","scope":"period"}`, "unique.period_ms", "required"),
	badJob("scope period of 0", `,"unique":{"key":"k","scope":"period","period_ms":0}`, "unique.period_ms", "required"),
	badJob("a period over 30 days", `,"unique":{"key":"k","scope":"period","period_ms":2592000001}`, "unique.period_ms", "2592000000"),
	badJob("a period with scope open", `,"unique":{"key":"k","period_ms":1}`, "unique.period_ms", "scope period"),
	badJob("debounce without replace", `,"unique":{"key":"k","debounce":{"quiet_ms":1000}}`, "unique.debounce", "replace"),
	badJob("debounce with refuse", `,"unique":{"key":"k","on_duplicate":"refuse","debounce":{"quiet_ms":1000}}`, "unique.debounce", "replace"),
	badJob("debounce without quiet_ms", `,"unique":{"key":"k","on_duplicate":"replace","debounce":{}}`, "unique.debounce.quiet_ms", "100"),
	badJob("quiet_ms over an hour", `,"unique":{"key":"k","on_duplicate":"replace","debounce":{"quiet_ms":3600001}}`, "unique.debounce.quiet_ms", "3600000"),
	badJob("quiet_ms over max_ms", `,"unique":{"key":"k","on_duplicate":"replace","debounce":{"quiet_ms":1000,"max_ms":999}}`, "unique.debounce.max_ms", "1000 (1s)"),
	badJob("max_ms over a day", `,"unique":{"key":"k","on_duplicate":"replace","debounce":{"quiet_ms":1000,"max_ms":86400001}}`, "unique.debounce.max_ms", "86400000"),
	badJob("debounce and delay_ms", `,"delay_ms":1,"unique":{"key":"k","on_duplicate":"replace","debounce":{"quiet_ms":1000}}`, "unique.debounce", "delay_ms"),
	badJob("a member of unique that is none", `,"unique":{"key":"k","ttl":1}`, "unique.ttl", "is not a field"),
	badJob("a unique key in a group", `,"group_id":"g","unique":{"key":"k"}`, "unique", "group"),
	badBatch("a bad unique key among good ones", `{"workflow_id":"w","version":1},{"workflow_id":"w","version":1,"unique":{"key":"k","scope":"period"}}`, "runs[1].unique.period_ms", "required"),
	{
		name: "a group with a unique key", call: "GroupService/CreateGroup", rest: "POST /v1/groups",
		body: `{"group_id":"g","queue_id":"q","runs":[{"workflow_id":"w","version":1,"unique":{"key":"k"}}]}`, field: "runs[0].unique", says: "group",
	},
	{
		name: "a group whose last run has a unique key", call: "GroupService/CreateGroup", rest: "POST /v1/groups",
		body: `{"group_id":"g","queue_id":"q","runs":[],"on_complete":{"workflow_id":"w","version":1,"unique":{"key":"k"}}}`, field: "on_complete.unique", says: "group",
	},
}

var refusedQueues = []refused{
	badQueue("max_in_flight 0", `,"max_in_flight":0`, "max_in_flight", "10000"),
	badQueue("max_in_flight 10001", `,"max_in_flight":10001`, "max_in_flight", "10001"),
	badQueue("a run timeout below a second", `,"run_timeout_ms":999`, "run_timeout_ms", "1000"),
	badQueue("a run timeout over 30 days", `,"run_timeout_ms":2592000001`, "run_timeout_ms", "2592000000"),
	badQueue("too large a max_waiting", `,"max_waiting":100000001`, "max_waiting", "100000000"),
	badQueue("a promise of no wait at all", `,"expect":{"wait_within_ms":0}`, "expect.wait_within_ms", "leave it out to promise nothing about waits"),
	badQueue("an unknown backpressure", `,"backpressure":"drop"`, "backpressure", "run"),
	badQueue("a label that is no id", `,"labels":{"a b":"x"}`, `labels["a b"]`, "a b"),
	badQueue("an unknown member", `,"fairness":"key"`, "fairness", "is not a field"),
	badQueue("an unknown fairness", `,"fair":"owner"`, "fair", "none"),
	badQueue("a weight of 0", `,"fair":"key","weights":{"a":0}`, `weights["a"]`, "100"),
	badQueue("a weight of 101", `,"fair":"key","weights":{"a":101}`, `weights["a"]`, "101"),
	badQueue("a weight of an empty key", `,"fair":"key","weights":{"":2}`, "weights", "128"),
	badQueue("weights without turns", `,"weights":{"a":2}`, "weights", "fair: key"),
	badQueue("turns and a promotion", `,"fair":"key","promote_after_ms":1000`, "promote_after_ms", "fair: key"),
	badQueue("a rate of 0 starts", `,"rate":{"starts":0,"per_ms":1000}`, "rate.starts", "1"),
	badQueue("a rate without a period", `,"rate":{"starts":1}`, "rate.per_ms", "1"),
	badQueue("a rate per more than a day", `,"rate":{"starts":1,"per_ms":86400001}`, "rate.per_ms", "86400000"),
	badQueue("a burst over the starts", `,"rate":{"starts":1,"per_ms":1000,"burst":2}`, "rate.burst", "over starts (1)"),
	badQueue("five limits", `,"limits":["a","b","c","d","e"]`, "limits", "4"),
	badQueue("two keys of one limit", `,"limits":["a=1","a=2"]`, "limits", "two keys of limit a"),
	badQueue("a managed_by that is no id", `,"managed_by":"a/b"`, "managed_by", "a/b"),
	{name: "a queue of nobody", call: upsertQueueCall, rest: "PUT /v1/queues/q", body: `{"queue_id":"q"}`, field: "user_id", says: "required"},
	{name: "a queue id with a blank", call: upsertQueueCall, rest: "PUT /v1/queues/a%20b", body: `{"queue_id":"a b","user_id":"u"}`, field: "queue_id", says: "a b"},
	{
		name: "a queue id of 129 characters", call: upsertQueueCall, rest: "PUT /v1/queues/" + strings.Repeat("q", 129),
		body: `{"queue_id":"` + strings.Repeat("q", 129) + `","user_id":"u"}`, field: "queue_id", says: "128",
	},
	{
		name: "a queue id with a control character", call: upsertQueueCall, rest: "PUT /v1/queues/a%07b",
		body: `{"queue_id":"a\u0007b","user_id":"u"}`, field: "queue_id", says: "128",
	},
	{name: "a pause until 2100", call: pauseQueueCall, rest: "POST /v1/queues/q:pause", body: `{"queue_id":"q","until":"2100-01-01T00:00:00Z"}`, field: "until", says: "2100"},
	{
		name: "a pause with too long a note", call: pauseQueueCall, rest: "POST /v1/queues/q:pause",
		body: `{"queue_id":"q","note":"` + strings.Repeat("x", 1025) + `"}`, field: "note", says: "1024",
	},
	{name: "a page of the log of another list", call: "QueueService/ListQueueEvents", rest: "GET /v1/queues/q/events?page_token=c3Mx", body: `{"queue_id":"q","page_token":"c3Mx"}`, field: "page_token", says: "next_page_token"},
	{name: "a forged page of waiting runs", call: "QueueService/ListWaiting", rest: "GET /v1/queues/q/waiting?page_token=x", body: `{"queue_id":"q","page_token":"x"}`, field: "page_token", says: "next_page_token"},
	{name: "a runs list of a queue id that is none", call: "RunService/ListRuns", rest: "GET /v1/runs?queue_id=a%20b", body: `{"queue_id":"a b"}`, field: "queue_id", says: "a b"},

	badJob("priority 1001", `,"priority":1001`, "priority", "1001"),
	badJob("priority -1001", `,"priority":-1001`, "priority", "-1001"),
	badJob("position 0", `,"position":0`, "position", "1"),
	badJob("position -1", `,"position":-1`, "position", "-1"),
	badJob("position and next", `,"position":2,"next":true`, "next", "position"),
	badJob("run_at in 1969", `,"run_at":"1969-12-31T00:00:00Z"`, "run_at", "1969"),
	badJob("run_at in 2100", `,"run_at":"2100-01-01T00:00:00Z"`, "run_at", "2100"),
	badJob("run_at and delay_ms", `,"run_at":"2099-01-01T00:00:00Z","delay_ms":1`, "delay_ms", "run_at"),
	badJob("delay_ms over 30 days", `,"delay_ms":2592000001`, "delay_ms", "2592000000"),
	badJob("wait_ms 60001", `,"wait_ms":60001`, "wait_ms", "60000"),
	badJob("max_attempts 0", `,"max_attempts":0`, "max_attempts", "1"),
	badJob("max_attempts 26", `,"max_attempts":26`, "max_attempts", "25"),
	badJob("an unknown member", `,"sticky":{}`, "sticky", "is not a field"),
	badJob("a fair key of 129 characters", `,"fair_key":"`+strings.Repeat("k", 129)+`"`, "fair_key", "128"),
	badJob("a fair key with a control character", `,"fair_key":"a\u0007"`, "fair_key", "control characters"),
	badJob("an input over 64 KiB", `,"input":"`+strings.Repeat("x", 64<<10)+`"`, "input", "65536"),
	badJob("an input 33 deep", `,"input":`+nested(33), "input", "32"),
	badJob("an input with a member twice", `,"input":{"a":1,"a":2}`, "input", "a"),
	badJob("an input with NUL", `,"input":"\u0000"`, "input", "NUL"),
	badJob("five limits", `,"limits":["a","b","c","d","e"]`, "limits", "4"),
	badJob("a limit that is none", `,"limits":["a b"]`, "limits[0]", "a b"),
	badJob("a limit key of 129 characters", `,"limits":["a=`+strings.Repeat("k", 129)+`"]`, "limits[0]", "is not the id of a limit"),
	badJob("a request id with a slash", `,"request_id":"a/b"`, "request_id", "a/b"),
	badJob("schedule and workflow", `,"schedule_id":"s"`, "workflow_id", "schedule_id"),
	badJob("an end of its wait after nothing", `,"expires_ms":0`, "expires_ms", "leave it out for that of the schedule or the queue"),
	badJob("a grant that is no id", `,"execution_grant_id":"a b"`, "execution_grant_id", "a b"),
	{name: "a job of nothing", call: enqueueCall, rest: "POST /v1/queues/q/runs", body: `{"queue_id":"q"}`, field: "schedule_id", says: "workflow_id"},
	{name: "a job of a workflow without a version", call: enqueueCall, rest: "POST /v1/queues/q/runs", body: `{"queue_id":"q","workflow_id":"w"}`, field: "version", says: "below 1"},

	badBatch("0", ``, "runs", "1"),
	badBatch("5001", strings.Repeat(`{"workflow_id":"w","version":1},`, 5000)+`{"workflow_id":"w","version":1}`, "runs", "5000"),
	badBatch("one bad among good", `{"workflow_id":"w","version":1},{"workflow_id":"w","version":1,"priority":1001},{"workflow_id":"w","version":1}`, "runs[1].priority", "1001"),
	badBatch("one with a fair key that is none among good", `{"workflow_id":"w","version":1},{"workflow_id":"w","version":1,"fair_key":"\n"}`, "runs[1].fair_key", "control characters"),
	badBatch("one without a workflow among good", `{"workflow_id":"w","version":1},{}`, "runs[1].schedule_id", "required"),
	badBatch("one with an input that is too deep", `{"workflow_id":"w","version":1,"input":`+nested(33)+`}`, "runs[0].input", "32"),

	badUpdate("nothing", ``, "input", "priority"),
	badUpdate("priority 1001", `,"priority":1001`, "priority", "1001"),
	badUpdate("run_at in 1969", `,"run_at":"1969-12-31T00:00:00Z"`, "run_at", "1969"),
	badUpdate("an input with a member twice", `,"input":{"a":1,"a":2}`, "input", "a"),
	badUpdate("an unknown member", `,"unique":{}`, "unique", "is not a field"),
	badUpdate("a limit that is none", `,"limits":["a b"]`, "limits[0]", "a b"),
	badUpdate("limits and no limits", `,"limits":["a"],"clear_limits":true`, "clear_limits", "limits"),
}

func TestAQueueIsManagedOverREST(t *testing.T) {
	r := newRig(t)
	r.must("PUT", "/v1/queues/gpu", `{"user_id":"ada","max_in_flight":2,"labels":{"team":"x"}}`)
	r.must("PUT", "/v1/queues/gpu", `{"user_id":"ada","max_in_flight":2,"labels":{"team":"x"}}`)
	for _, step := range []struct {
		method, path, body string
		want               map[string]string // members of the queue
	}{
		{"GET", "/v1/queues/gpu", "", map[string]string{
			"queue_id": "gpu", "user_id": "ada", "shared": "false", "max_in_flight": "2", "max_waiting": "100000", "backpressure": "queue", "revision": "1", "paused": "false",
			"closed": "false", "waiting": "0", "in_flight": "0", "oldest_enqueued_at": "null",
		}},
		{"POST", "/v1/queues/gpu:pause", `{"note":"driver","until":"2099-01-01T00:00:00Z"}`, map[string]string{"paused": "true", "pause_note": "driver", "paused_until": "2099-01-01T00:00:00Z"}},
		{"PUT", "/v1/queues/gpu", `{"user_id":"ada","max_waiting":0}`, map[string]string{"paused": "true", "max_in_flight": "1", "max_waiting": "0", "revision": "2"}},
		{"POST", "/v1/queues/gpu:resume", `{}`, map[string]string{"paused": "false", "pause_note": "", "paused_until": "null"}},
		{"POST", "/v1/queues/gpu:close", `{"note":"moving"}`, map[string]string{"closed": "true"}},
		{"POST", "/v1/queues/gpu:open", `{}`, map[string]string{"closed": "false"}},
	} {
		text := r.must(step.method, step.path, step.body)
		for name, want := range step.want {
			if got := member(t, text, "queue", name); got != want {
				t.Errorf("%s %s: %s is %s, want %s", step.method, step.path, name, got, want)
			}
		}
	}
	r.must("PUT", "/v1/queues/mail", `{"user_id":"ada"}`)
	first := r.must("GET", "/v1/queues?page_size=1", "")
	second := r.must("GET", "/v1/queues?page_size=1&page_token="+member(t, first, "next_page_token"), "")
	if !strings.Contains(first, `"gpu"`) || !strings.Contains(second, `"mail"`) || member(t, second, "next_page_token") != "" {
		t.Errorf("two pages: %s %s", first, second)
	}
	log := r.must("GET", "/v1/queues/gpu/events?page_size=4", "")
	log += r.must("GET", "/v1/queues/gpu/events?page_size=4&page_token="+member(t, log, "next_page_token"), "")
	at := -1
	for _, kind := range []string{"opened", "closed", "resumed", "changed", "paused", "created"} {
		next := strings.Index(log, fmt.Sprintf(`"kind":%q`, kind))
		if next <= at {
			t.Errorf("%s is not in its place of the log %s", kind, log)
		}
		at = next
	}
	r.must("DELETE", "/v1/queues/gpu", "")
	for _, gone := range []string{"GET /v1/queues/gpu", "DELETE /v1/queues/gpu?force=true", "POST /v1/queues/gpu:pause", "GET /v1/queues/gpu/waiting", "GET /v1/queues/gpu/runs", "GET /v1/queues/gpu/events"} {
		method, path, _ := strings.Cut(gone, " ")
		body := ""
		if method == http.MethodPost {
			body = "{}"
		}
		if code, text := r.rest(method, path, body); code != http.StatusNotFound || !strings.Contains(text, "gpu") {
			t.Errorf("%s after the deletion: %d %s", gone, code, text)
		}
	}
}

func TestAnotherQueueInTheBodyThanInThePathIsRefused(t *testing.T) {
	r := newRig(t)
	for _, id := range []string{"gpu", "mail"} {
		r.must("PUT", "/v1/queues/"+id, `{"user_id":"ada"}`)
	}
	for call, body := range map[string]string{
		"PUT /v1/queues/gpu":             `{"queue_id":%q,"user_id":"ada"}`,
		"POST /v1/queues/gpu:pause":      `{"queue_id":%q}`,
		"POST /v1/queues/gpu:resume":     `{"queue_id":%q}`,
		"POST /v1/queues/gpu:open":       `{"queue_id":%q}`,
		"POST /v1/queues/gpu:simulate":   `{"queue_id":%q,"durations":[{"run":{"duration_ms":1000}}]}`,
		"POST /v1/queues/gpu:cancel":     `{"filter":{"queue_id":%q}}`,
		"POST /v1/queues/gpu:redrive":    `{"filter":{"queue_id":%q},"dry_run":true}`,
		"POST /v1/queues/gpu:reserve":    `{"queue_id":%q,"hold_ms":1000}`,
		"POST /v1/queues/gpu/runs":       `{"queue_id":%q,"workflow_id":"w","version":1}`,
		"POST /v1/queues/gpu/runs:batch": `{"queue_id":%q,"runs":[{"workflow_id":"w","version":1}]}`,
	} {
		method, path, _ := strings.Cut(call, " ")
		code, text := r.rest(method, path, fmt.Sprintf(body, "mail"))
		if code != http.StatusBadRequest || !strings.Contains(text, `queue_id`) || !strings.Contains(text, "mail") || !strings.Contains(text, "gpu") {
			t.Errorf("%s with another queue: %d %s", call, code, text)
		}
		if code, text := r.rest(method, path, fmt.Sprintf(body, "gpu")); code != http.StatusOK {
			t.Errorf("%s with the same queue: %d %s", call, code, text)
		}
	}
	if text := r.must("GET", "/v1/queues/mail", ""); member(t, text, "queue", "waiting") != "0" || member(t, text, "queue", "revision") != "1" {
		t.Errorf("the other queue is %s", text)
	}
}

func TestAReservationThatIsRefusedSaysWhenToTryAgain(t *testing.T) {
	r := newRig(t)
	r.must("PUT", "/v1/queues/gpu", `{"user_id":"ada","max_reservations":1}`)
	for range 2 { // the first one is granted
		r.must("POST", "/v1/queues/gpu:reserve", `{"hold_ms":60000}`)
	}
	code, text, header := r.restAnswer("POST", "/v1/queues/gpu:reserve", `{"hold_ms":60000}`)
	if code != http.StatusTooManyRequests || header.Get("Retry-After") != "1" {
		t.Errorf("%d, Retry-After %q: %s", code, header.Get("Retry-After"), text)
	}
}

func TestAQueueOfAnotherOwnerIsNotReplaced(t *testing.T) {
	r := newRig(t)
	r.must("PUT", "/v1/queues/gpu", `{"user_id":"ada"}`)
	if code, text := r.rest("PUT", "/v1/queues/gpu", `{"user_id":"bob"}`); code != http.StatusConflict || readRefusal(t, text).Code != int(codes.AlreadyExists) {
		t.Errorf("%d %s", code, text)
	}
}

func TestJobsGoThroughREST(t *testing.T) {
	r := newRig(t)
	r.must("PUT", "/v1/queues/gpu", `{"user_id":"ada","max_waiting":20}`)
	job := func(members string) string { return `{"workflow_id":"resize","version":3` + members + `}` }
	first := r.must("POST", "/v1/queues/gpu/runs", job(`,"input":{"b":1, "a":2},"request_id":"r1"`))
	key := member(t, first, "run", "idempotency_key")
	for name, want := range map[string]string{
		"queue_id": "gpu", "queue_state": "waiting", "position": "1", "status": "ENQUEUED", "trigger": "job", "user_id": "ada", "schedule_id": "gpu:ada:resize:3", "dispatched_at": "null", "attempt": "1",
	} {
		if got := member(t, first, "run", name); got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
	again := r.must("POST", "/v1/queues/gpu/runs", job(`,"input":{"b":1, "a":2},"request_id":"r1"`))
	if member(t, again, "repeated") != "true" || member(t, again, "run", "idempotency_key") != key {
		t.Errorf("the same request again: %s", again)
	}
	if code, text := r.rest("POST", "/v1/queues/gpu/runs", job(`,"input":3,"request_id":"r1"`)); code != http.StatusUnprocessableEntity {
		t.Errorf("another body: %d %s", code, text)
	}
	next := r.must("POST", "/v1/queues/gpu/runs", job(`,"next":true,"wait_ms":30`))
	if member(t, next, "run", "position") != "1" || member(t, next, "run", "status") != "ENQUEUED" {
		t.Errorf("the next one: %s", next)
	}
	if text := r.must("GET", "/v1/runs/"+key, ""); member(t, text, "run", "position") != "2" {
		t.Errorf("the first one moved back: %s", text)
	}
	batch := r.must("POST", "/v1/queues/gpu/runs:batch", `{"runs":[`+job(`,"delay_ms":60000`)+`,`+job(`,"priority":7`)+`]}`)
	if strings.Count(batch, `"`) != 2*(4+2) { // four members, two keys
		t.Errorf("a batch: %s", batch)
	}
	waiting := r.must("GET", "/v1/queues/gpu/waiting?page_size=3", "")
	if strings.Count(waiting, `"idempotency_key"`) != 3 || member(t, waiting, "next_page_token") == "" || !strings.HasPrefix(waiting, `{"runs":[{"idempotency_key":"`) {
		t.Errorf("waiting: %s", waiting)
	}
	if rest := r.must("GET", "/v1/queues/gpu/waiting?page_size=3&page_token="+member(t, waiting, "next_page_token"), ""); !strings.Contains(rest, `"queue_state":"delayed"`) {
		t.Errorf("the rest: %s", rest)
	}
	for path, want := range map[string]int{"/v1/queues/gpu/runs": 4, "/v1/runs?queue_id=gpu&status=ENQUEUED": 4, "/v1/runs?status=ENQUEUED": 4, "/v1/runs?status=ENQUEUED&status=STARTED&user_id=ada": 4, "/v1/runs?queue_id=gpu&trigger=manual": 0} {
		if text := r.must("GET", path, ""); strings.Count(text, `"idempotency_key"`) != want {
			t.Errorf("%s: %s", path, text)
		}
	}
	if text := r.must("POST", "/v1/runs/"+key+":update", `{"priority":8,"input":{"new":true}}`); member(t, text, "run", "position") != "1" || member(t, text, "run", "priority") != "8" {
		t.Errorf("updated: %s", text)
	}
	if text := r.must("GET", "/v1/queues/gpu", ""); member(t, text, "queue", "waiting") == "0" || member(t, text, "queue", "oldest_enqueued_at") == "null" {
		t.Errorf("counted: %s", text)
	}
	if code, text := r.rest("DELETE", "/v1/queues/gpu", ""); code != http.StatusConflict || !strings.Contains(text, "3 runs wait") && !strings.Contains(text, "4 runs wait") {
		t.Errorf("a queue in use: %d %s", code, text)
	}
	r.must("POST", "/v1/queues/gpu:close", `{}`)
	if code, text := r.rest("POST", "/v1/queues/gpu/runs", job("")); code != http.StatusConflict || !strings.Contains(text, "closed") {
		t.Errorf("a closed queue: %d %s", code, text)
	}
	r.must("POST", "/v1/queues/gpu:open", `{}`)
	many := strings.TrimSuffix(strings.Repeat(job("")+",", 17), ",")
	code, text := r.rest("POST", "/v1/queues/gpu/runs:batch", `{"runs":[`+many+`]}`)
	if code != http.StatusTooManyRequests || !strings.Contains(text, "max_waiting is 20") || !strings.Contains(text, "RetryInfo") {
		t.Errorf("a full queue: %d %s", code, text)
	}
	if text := r.must("DELETE", "/v1/queues/gpu?force=true", ""); member(t, text, "cancelled") != "4" {
		t.Errorf("by force: %s", text)
	}
	if text := r.must("GET", "/v1/runs/"+key, ""); member(t, text, "run", "status") != string(schedule.StatusCancelled) || member(t, text, "run", "queue_id") != "gpu" {
		t.Errorf("its runs: %s", text)
	}
}

func TestSlotsAreReservedOverREST(t *testing.T) {
	r := newRig(t)
	r.must("PUT", "/v1/queues/gpu", `{"user_id":"ada"}`)
	first := r.must("POST", "/v1/queues/gpu:reserve", `{"hold_ms":60000,"request_id":"r1"}`)
	id := member(t, first, "reservation", "reservation_id")
	for name, want := range map[string]string{"queue_id": "gpu", "user_id": "ada", "granted": "true", "position": "0", "hold_ms": "60000"} {
		if got := member(t, first, "reservation", name); got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
	if again := r.must("POST", "/v1/queues/gpu:reserve", `{"hold_ms":60000,"request_id":"r1"}`); member(t, again, "repeated") != "true" || member(t, again, "reservation", "reservation_id") != id {
		t.Errorf("the same request again: %s", again)
	}
	if code, text := r.rest("POST", "/v1/queues/gpu:reserve", `{"hold_ms":1,"request_id":"r1"}`); code != http.StatusUnprocessableEntity {
		t.Errorf("another body: %d %s", code, text)
	}
	waits := r.must("POST", "/v1/queues/gpu:reserve", `{"hold_ms":60000,"wait_ms":30}`)
	next := member(t, waits, "reservation", "reservation_id")
	if member(t, waits, "reservation", "granted") != "false" || member(t, waits, "reservation", "position") != "1" || member(t, waits, "reservation", "granted_at") != "null" {
		t.Errorf("the second waits: %s", waits)
	}
	if text := r.must("GET", "/v1/queues/gpu/reservations", ""); strings.Count(text, `"reservation_id"`) != 2 {
		t.Errorf("listed: %s", text)
	}
	if code, text := r.rest("POST", "/v1/reservations/"+next+":extend", `{}`); code != http.StatusConflict || !strings.Contains(text, "waits for its grant") {
		t.Errorf("extended before its grant: %d %s", code, text)
	}
	granted := make(chan string)
	go func() { granted <- r.must("GET", "/v1/reservations/"+next+"?wait_ms=60000", "") }()
	r.must("POST", "/v1/reservations/"+id+":extend", `{"hold_ms":3600000}`)
	r.must("POST", "/v1/reservations/"+id+":release", `{}`)
	if text := <-granted; member(t, text, "reservation", "granted") != "true" {
		t.Errorf("after the release of the first: %s", text)
	}
	for _, gone := range []string{"GET /v1/reservations/" + id, "POST /v1/reservations/" + id + ":extend", "POST /v1/reservations/" + id + ":release"} {
		method, path, _ := strings.Cut(gone, " ")
		body := map[string]string{"POST": "{}"}[method]
		if code, text := r.rest(method, path, body); code != http.StatusNotFound || !strings.Contains(text, "it has ended") {
			t.Errorf("%s after its end: %d %s", gone, code, text)
		}
	}
	log := r.must("GET", "/v1/queues/gpu/events", "")
	if strings.Count(log, "reservation_granted") != 2 || strings.Count(log, "reservation_released") != 1 {
		t.Errorf("the log: %s", log)
	}
}

func TestThePathsOfOlderClientsWorkForJobsAndNameTheirSuccessor(t *testing.T) {
	r := newRig(t)
	job := `{"user_id":"ada","workflow_id":"resize","version":3`
	first := r.must("POST", "/jobs", job+`,"request_id":"r1"}`)
	key := member(t, first, "run", "idempotency_key")
	if member(t, first, "run", "queue_id") != "default" {
		t.Errorf("without a queue: %s", first)
	}
	if again := r.must("POST", "/v1/queues/default/runs", job+`,"request_id":"r1"}`); member(t, again, "run", "idempotency_key") != key || member(t, again, "repeated") != "true" {
		t.Errorf("the same request at the successor: %s", again)
	}
	r.must("PUT", "/v1/queues/gpu", `{"user_id":"ada"}`)
	if second := r.must("POST", "/jobs", job+`,"queue_id":"gpu"}`); member(t, second, "run", "queue_id") != "gpu" {
		t.Errorf("with a queue: %s", second)
	}
	if list := r.must("GET", "/jobs?status=ENQUEUED", ""); strings.Count(list, `"idempotency_key"`) != 2 {
		t.Errorf("listed: %s", list)
	}
	if text := r.must("GET", "/jobs/"+key, ""); member(t, text, "run", "status") != "ENQUEUED" {
		t.Errorf("read: %s", text)
	}
	if text := r.must("DELETE", "/jobs/"+key, ""); member(t, text, "run", "status") != "CANCELLED" {
		t.Errorf("deleted: %s", text)
	}
	for _, c := range []struct{ method, path, successor string }{
		{"GET", "/jobs", "/v1/runs"},
		{"POST", "/jobs", "/v1/queues/default/runs"},
		{"GET", "/jobs/" + key, "/v1/runs/" + key},
		{"DELETE", "/jobs/" + key, "/v1/runs/" + key + ":cancel"},
		{"GET", "/v1/runs", ""},
		{"GET", "/jobsx", ""},
	} {
		req, err := http.NewRequestWithContext(t.Context(), c.method, r.base+c.path, strings.NewReader(""))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		since, link := resp.Header.Get("Deprecation"), resp.Header.Get("Link")
		if c.successor == "" && since+link != "" {
			t.Errorf("%s %s is deprecated %s, see %s", c.method, c.path, since, link)
		}
		if c.successor != "" && (since != "@1795737600" || link != "<"+c.successor+`>; rel="successor-version"`) {
			t.Errorf("%s %s: deprecated %q, see %q, want %s", c.method, c.path, since, link, c.successor)
		}
	}
}

func TestABatchOverEightMiBIsRefused(t *testing.T) {
	r := newRig(t)
	r.must("PUT", "/v1/queues/gpu", `{"user_id":"ada"}`)
	one := `{"workflow_id":"w","version":1,"input":"` + strings.Repeat("x", 60<<10) + `"},`
	code, text := r.rest("POST", "/v1/queues/gpu/runs:batch", `{"runs":[`+strings.TrimSuffix(strings.Repeat(one, 140), ",")+`]}`)
	if code != http.StatusBadRequest || !strings.Contains(text, "8388608") {
		t.Errorf("%d %.300s", code, text)
	}
	code, text = r.rest("POST", "/v1/queues/gpu/runs", `{"workflow_id":"w","version":1,"input":"`+strings.Repeat("x", 300<<10)+`"}`)
	if code != http.StatusBadRequest || !strings.Contains(text, "262144") {
		t.Errorf("a single run of 300 KiB: %d %.300s", code, text)
	}
}
