package api_test

import (
	"net/http"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
)

const (
	upsertLimitCall = "LimitService/UpsertLimit"
	limitKeyCall    = "LimitService/SetLimitKey"
)

// badLimit and badKey are requests that are refused for the members.
func badLimit(name, members, field, says string) refused {
	return refused{name: "a limit with " + name, call: upsertLimitCall, rest: "PUT /v1/limits/gpu", body: `{"limit_id":"gpu","user_id":"u"` + members + `}`, field: field, says: says}
}

func badKey(name, members, field, says string) refused {
	return refused{name: "a key of a limit with " + name, call: limitKeyCall, rest: "PUT /v1/limits/gpu/keys/a7", body: `{"limit_id":"gpu","key":"a7"` + members + `}`, field: field, says: says}
}

var refusedLimits = []refused{
	badLimit("max_in_flight 0", `,"max_in_flight":0`, "max_in_flight", "10000"),
	badLimit("max_in_flight 10001", `,"max_in_flight":10001`, "max_in_flight", "10001"),
	badLimit("max_in_flight -1", `,"max_in_flight":-1`, "max_in_flight", "-1"),
	badLimit("no numbers", ``, "max_in_flight", "rate"),
	badLimit("a rate of 0 starts", `,"rate":{"starts":0,"per_ms":1000}`, "rate.starts", "1"),
	badLimit("an empty rate", `,"rate":{}`, "rate.starts", "1"),
	badLimit("a rate of too many starts", `,"rate":{"starts":1000001,"per_ms":1000}`, "rate.starts", "1000001"),
	badLimit("a rate in no time", `,"rate":{"starts":1}`, "rate.per_ms", "1"),
	badLimit("a rate over a day", `,"rate":{"starts":1,"per_ms":86400001}`, "rate.per_ms", "86400001"),
	badLimit("a burst over the starts", `,"rate":{"starts":2,"per_ms":1000,"burst":3}`, "rate.burst", "over starts (2)"),
	badLimit("an unknown member", `,"max_in_flight":1,"sorted":true`, "sorted", "is not a field"),
	badLimit("ordered without keys", `,"ordered":true`, "ordered", "each key"),
	badLimit("ordered with max 2", `,"keyed":true,"ordered":true,"max_in_flight":2`, "max_in_flight", "is not 1"),
	badLimit("an unknown member of its rate", `,"rate":{"starts":1,"per_s":1}`, "rate.per_s", "is not a field"),
	badLimit("too long a note", `,"max_in_flight":1,"note":"`+strings.Repeat("x", 1025)+`"`, "note", "1024"),
	{name: "a limit of nobody", call: upsertLimitCall, rest: "PUT /v1/limits/gpu", body: `{"limit_id":"gpu","max_in_flight":1}`, field: "user_id", says: "required"},
	{name: "a limit id with a blank", call: upsertLimitCall, rest: "PUT /v1/limits/a%20b", body: `{"limit_id":"a b","user_id":"u","max_in_flight":1}`, field: "limit_id", says: "a b"},
	{
		name: "a limit id of 129 characters", call: upsertLimitCall, rest: "PUT /v1/limits/" + strings.Repeat("l", 129),
		body: `{"limit_id":"` + strings.Repeat("l", 129) + `","user_id":"u","max_in_flight":1}`, field: "limit_id", says: "128",
	},
	{
		name: "a limit id with a control character", call: upsertLimitCall, rest: "PUT /v1/limits/a%07b",
		body: `{"limit_id":"a\u0007b","user_id":"u","max_in_flight":1}`, field: "limit_id", says: "128",
	},
	badKey("max_in_flight 10001", `,"max_in_flight":10001`, "max_in_flight", "10001"),
	badKey("a rate of 0 starts", `,"rate":{"starts":0,"per_ms":1000}`, "rate.starts", "1"),
	badKey("an end in 2100", `,"max_in_flight":0,"until":"2100-01-01T00:00:00Z"`, "until", "2100"),
	badKey("an end without numbers", `,"until":"2099-01-01T00:00:00Z"`, "until", "without numbers"),
	badKey("a note without numbers", `,"note":"why"`, "note", "without numbers"),
	badKey("an unknown member", `,"max_in_flight":0,"paused":true`, "paused", "is not a field"),
	{name: "a key of a limit with a blank", call: limitKeyCall, rest: "PUT /v1/limits/gpu/keys/a%20b", body: `{"limit_id":"gpu","key":"a b","max_in_flight":0}`, field: "key", says: "@ / +"},
	{
		name: "a key of a limit with a control character", call: limitKeyCall, rest: "PUT /v1/limits/gpu/keys/a%07b",
		body: `{"limit_id":"gpu","key":"a\u0007b","max_in_flight":0}`, field: "key", says: "128",
	},
	{
		name: "a key of a limit of 129 characters", call: limitKeyCall, rest: "PUT /v1/limits/gpu/keys/" + strings.Repeat("k", 129),
		body: `{"limit_id":"gpu","key":"` + strings.Repeat("k", 129) + `","max_in_flight":0}`, field: "key", says: "128",
	},
	{name: "a page of limits of another list", call: "LimitService/ListLimits", rest: "GET /v1/limits?page_token=c3Mx", body: `{"page_token":"c3Mx"}`, field: "page_token", says: "next_page_token"},
	{name: "a forged page of keys", call: "LimitService/GetLimit", rest: "GET /v1/limits/gpu?page_token=x", body: `{"limit_id":"gpu","page_token":"x"}`, field: "page_token", says: "next_page_token"},
	{name: "a page of 201 limits", call: "LimitService/ListLimits", rest: "GET /v1/limits?page_size=201", body: `{"page_size":201}`, field: "page_size", says: "200"},
}

func TestALimitIsManagedOverREST(t *testing.T) {
	r := newRig(t)
	r.must("PUT", "/v1/limits/customer", `{"user_id":"ada","keyed":true,"max_in_flight":2,"note":"per contract"}`)
	for _, step := range []struct {
		method, path, body, within string
		want                       map[string]string
	}{
		{"PUT", "/v1/limits/customer", `{"user_id":"ada","keyed":true,"max_in_flight":2,"note":"per contract"}`, "limit", map[string]string{
			"limit_id": "customer", "user_id": "ada", "shared": "false", "keyed": "true", "max_in_flight": "2", "rate": "null", "note": "per contract", "revision": "1", "used": "0",
		}},
		{"PUT", "/v1/limits/customer", `{"user_id":"ada","keyed":true,"rate":{"starts":10,"per_ms":1000}}`, "limit", map[string]string{
			"max_in_flight": "", "rate": `{"starts":10,"per_ms":1000,"burst":1}`, "revision": "2",
		}},
		{"PUT", "/v1/limits/order", `{"user_id":"ada","keyed":true,"ordered":true}`, "limit", map[string]string{"keyed": "true", "ordered": "true", "max_in_flight": "1"}},
		{"GET", "/v1/limits/order", "", "limit", map[string]string{"ordered": "true"}},
		{"GET", "/v1/limits/customer", "", "limit", map[string]string{"limit_id": "customer", "revision": "2", "ordered": "false"}},
		{"PUT", "/v1/limits/customer/keys/a7", `{"max_in_flight":0,"note":"unpaid","until":"2099-01-01T00:00:00Z"}`, "key", map[string]string{
			"key": "a7", "max_in_flight": "0", "rate": "null", "note": "unpaid", "until": "2099-01-01T00:00:00Z", "used": "0",
		}},
		{"PUT", "/v1/limits/customer/keys/mail%2Fx@y+z", `{"rate":{"starts":2,"per_ms":60000,"burst":2}}`, "key", map[string]string{
			"key": "mail/x@y+z", "max_in_flight": "", "rate": `{"starts":2,"per_ms":60000,"burst":2}`, "until": "null",
		}},
		{"PUT", "/v1/limits/customer/keys/mail/x", `{"max_in_flight":3}`, "key", map[string]string{"key": "mail/x", "max_in_flight": "3"}},
	} {
		text := r.must(step.method, step.path, step.body)
		for name, want := range step.want {
			if got := member(t, text, step.within, name); got != want {
				t.Errorf("%s %s: %s is %s, want %s", step.method, step.path, name, got, want)
			}
		}
	}
	first := r.must("GET", "/v1/limits/customer?page_size=2", "")
	second := r.must("GET", "/v1/limits/customer?page_size=2&page_token="+member(t, first, "next_page_token"), "")
	if !strings.Contains(first, `"a7"`) || !strings.Contains(first, `"mail/x"`) || !strings.Contains(second, `"mail/x@y+z"`) || member(t, second, "next_page_token") != "" {
		t.Errorf("two pages: %s %s", first, second)
	}
	r.must("PUT", "/v1/limits/customer/keys/mail/x", `{}`)
	if text := r.must("GET", "/v1/limits/customer", ""); strings.Contains(text, `"mail/x"`) {
		t.Errorf("its numbers are still there: %s", text)
	}
	r.must("PUT", "/v1/limits/gpu", `{"user_id":"ada","max_in_flight":1}`)
	first = r.must("GET", "/v1/limits?page_size=1", "")
	second = r.must("GET", "/v1/limits?page_size=2&page_token="+member(t, first, "next_page_token"), "")
	if !strings.Contains(first, `"customer"`) || !strings.Contains(second, `"order"`) || member(t, second, "next_page_token") != "" {
		t.Errorf("two pages: %s %s", first, second)
	}
	if code, text := r.rest("PUT", "/v1/limits/gpu/keys/a7", `{"max_in_flight":0}`); code != http.StatusBadRequest || readRefusal(t, text).Code != int(codes.InvalidArgument) {
		t.Errorf("a key of a limit without keys: %d %s", code, text)
	}
	if code, text := r.rest("PUT", "/v1/limits/gpu", `{"user_id":"bob","max_in_flight":1}`); code != http.StatusConflict || readRefusal(t, text).Code != int(codes.AlreadyExists) {
		t.Errorf("of another owner: %d %s", code, text)
	}
	r.must("PUT", "/v1/queues/mail", `{"user_id":"ada","limits":["gpu"]}`)
	if code, text := r.rest("DELETE", "/v1/limits/gpu", ""); code != http.StatusConflict || readRefusal(t, text).Code != int(codes.FailedPrecondition) {
		t.Errorf("named by a queue: %d %s", code, text)
	}
	r.must("DELETE", "/v1/limits/customer", "")
	for _, gone := range []string{"GET /v1/limits/customer", "DELETE /v1/limits/customer", "PUT /v1/limits/customer/keys/a7"} {
		method, path, _ := strings.Cut(gone, " ")
		body := ""
		if method == http.MethodPut {
			body = "{}"
		}
		if code, text := r.rest(method, path, body); code != http.StatusNotFound || !strings.Contains(text, "customer") {
			t.Errorf("%s after the deletion: %d %s", gone, code, text)
		}
	}
}
