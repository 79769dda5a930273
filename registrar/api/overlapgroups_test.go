package api_test

import "strings"

const (
	getOverlapCall = "OverlapGroupService/GetOverlapGroup"
	runOverlapCall = "OverlapGroupService/RunOverlapGroup"
)

var refusedOverlaps = []refused{
	{name: "an overlap group of nobody", call: getOverlapCall, rest: "GET /v1/overlap-groups/wf", body: `{"overlap_key":"wf"}`, field: "user_id", says: "required"},
	{name: "an overlap key with a blank", call: getOverlapCall, rest: "GET /v1/overlap-groups/a%20b?user_id=u", body: `{"overlap_key":"a b","user_id":"u"}`, field: "overlap_key", says: "a b"},
	{
		name: "an overlap key of 129 characters", call: getOverlapCall, rest: "GET /v1/overlap-groups/" + strings.Repeat("k", 129) + "?user_id=u",
		body: `{"overlap_key":"` + strings.Repeat("k", 129) + `","user_id":"u"}`, field: "overlap_key", says: "128",
	},
	{name: "a start of the overlap group of nobody", call: runOverlapCall, rest: "POST /v1/overlap-groups/wf:run", body: `{"overlap_key":"wf"}`, field: "user_id", says: "required"},
	{name: "a start with a request id with a blank", call: runOverlapCall, rest: "POST /v1/overlap-groups/wf:run", body: `{"overlap_key":"wf","user_id":"u","request_id":"a b"}`, field: "request_id", says: "a b"},
	{
		name: "a start with a request id of 129 characters", call: runOverlapCall, rest: "POST /v1/overlap-groups/wf:run",
		body: `{"overlap_key":"wf","user_id":"u","request_id":"` + strings.Repeat("r", 129) + `"}`, field: "request_id", says: "128",
	},
	{name: "a start with an unknown member", call: runOverlapCall, rest: "POST /v1/overlap-groups/wf:run", body: `{"overlap_key":"wf","user_id":"u","input":{}}`, field: "input", says: "is not a field"},
	{name: "a page of 201 overlap groups", call: "OverlapGroupService/ListOverlapGroups", rest: "GET /v1/overlap-groups?page_size=201", body: `{"page_size":201}`, field: "page_size", says: "200"},
	{name: "a page of overlap groups of another list", call: "OverlapGroupService/ListOverlapGroups", rest: "GET /v1/overlap-groups?page_token=c3Mx", body: `{"page_token":"c3Mx"}`, field: "page_token", says: "next_page_token"},
}
