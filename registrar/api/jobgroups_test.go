package api_test

import (
	"strings"
	"testing"
)

// badGroup is a request for a group that is refused for the members.
func badGroup(name, members, field, says string) refused {
	return refused{name: "a group with " + name, call: "GroupService/CreateGroup", rest: "POST /v1/groups", body: `{"group_id":"g","queue_id":"gpu"` + members + `}`, field: field, says: says}
}

var refusedGroups = []refused{
	badGroup("an unknown mode", `,"mode":"serial"`, "mode", "parallel"),
	badGroup("an unknown on_failure", `,"on_failure":"skip"`, "on_failure", "stop"),
	badGroup("an unknown member", `,"stop":true`, "stop", "is not a field"),
	badGroup("a run with an unknown member", `,"runs":[{"schedule_id":"s","limit":"gpu"}]`, "runs[0].limit", "is not a field"),
	badGroup("a run with two ids", `,"runs":[{"schedule_id":"s","workflow_id":"w","version":1}]`, "runs[0].workflow_id", "together"),
	badGroup("a follow-up run without an id", `,"on_complete":{"priority":1}`, "on_complete.schedule_id", "required"),
	badGroup("a follow-up run with a bad priority", `,"on_complete":{"schedule_id":"s","priority":1001}`, "on_complete.priority", "1001"),
	badGroup("a webhook with a blank", `,"webhook":"a b"`, "webhook", "a b"),
	{
		name: "a group of a queue id of 129 characters", call: "GroupService/CreateGroup", rest: "POST /v1/groups",
		body: `{"group_id":"g","queue_id":"` + strings.Repeat("q", 129) + `"}`, field: "queue_id", says: "128",
	},
	{name: "a group without an id", call: "GroupService/CreateGroup", rest: "POST /v1/groups", body: `{"queue_id":"gpu"}`, field: "group_id", says: "required"},
	{name: "a group id with a blank", call: "GroupService/CreateGroup", rest: "POST /v1/groups", body: `{"group_id":"a b"}`, field: "group_id", says: "a b"},
	{name: "no members to add", call: "GroupService/AddToGroup", rest: "POST /v1/groups/g:add", body: `{"group_id":"g","runs":[]}`, field: "runs", says: "1"},
	{name: "a list of groups in an unknown state", call: "GroupService/ListGroups", rest: "GET /v1/groups?state=ENDED", body: `{"state":"ENDED"}`, field: "state", says: "PARTIAL"},
	{name: "a page of groups of another list", call: "GroupService/ListGroups", rest: "GET /v1/groups?page_token=c3Mx", body: `{"page_token":"c3Mx"}`, field: "page_token", says: "next_page_token"},
	{name: "a retry of a group without a new id", call: "GroupService/RetryGroup", rest: "POST /v1/groups/g:retry", body: `{"group_id":"g"}`, field: "new_group_id", says: "required"},
	{name: "a run that joins a group with a bad id", call: "QueueService/EnqueueRun", rest: "POST /v1/queues/gpu/runs", body: `{"queue_id":"gpu","schedule_id":"s","group_id":"a b"}`, field: "group_id", says: "a b"},
}

func TestAGroupIsManagedOverREST(t *testing.T) {
	r := newRig(t)
	r.must("PUT", "/v1/queues/gpu", `{"user_id":"ada","max_in_flight":2}`)
	body := `{"group_id":"g","queue_id":"gpu","mode":"sequential","runs":[{"workflow_id":"w","version":1},{"workflow_id":"w","version":1}],"on_complete":{"workflow_id":"w","version":2}}`
	for _, step := range []struct {
		method, path, body, within string
		want                       map[string]string
	}{
		{"POST", "/v1/groups", body, "group", map[string]string{
			"group_id": "g", "queue_id": "gpu", "user_id": "ada", "mode": "sequential", "on_failure": "stop", "state": "RUNNING", "sealed": "false", "members": "2",
			"succeeded": "0", "on_complete_workflow_id": "w", "on_complete_key": "", "ended_at": "null", "stopped": "false",
		}},
		{"POST", "/v1/groups", body, "", map[string]string{"repeated": "true", "idempotency_keys": "[]"}},
		{"POST", "/v1/groups/g:add", `{"runs":[{"workflow_id":"w","version":1}]}`, "group", map[string]string{"members": "3"}},
		{"POST", "/v1/groups/g:seal", `{}`, "group", map[string]string{"sealed": "true"}},
		{"GET", "/v1/queues/gpu", "", "queue", map[string]string{"waiting": "1", "chained": "2"}},
		{"POST", "/v1/groups/g:cancel", `{}`, "group", map[string]string{"state": "CANCELLED", "cancelled": "3"}},
		{"POST", "/v1/groups/g:retry", `{"new_group_id":"h","renew":true}`, "group", map[string]string{"group_id": "h", "retry_of": "g", "members": "3", "state": "RUNNING"}},
		{"GET", "/v1/groups/g", "", "group", map[string]string{"state": "CANCELLED"}},
	} {
		answer := r.must(step.method, step.path, step.body)
		for name, want := range step.want {
			path := []string{step.within, name}
			if step.within == "" {
				path = path[1:]
			}
			if got := member(t, answer, path...); got != want {
				t.Errorf("%s %s: %s is %q, want %q", step.method, step.path, name, got, want)
			}
		}
	}
}
