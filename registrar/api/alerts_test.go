package api_test

// promising is a definition with this in its expect.
func expecting(expect string, changes ...string) string {
	return upsert(append([]string{"expect", "{" + expect + "}"}, changes...)...)
}

func triggerPromising(expect string) string {
	return `{"workflow_id":"w","version":1,"user_id":"u","dag":{"triggers":[{"type":"schedule_based","cron_expr":"@hourly","expect":{` + expect + `}}]}}`
}

const deployRest = "POST /v1/workflows/w:deploy"

// refusedExpectations are invalid expectations and invalid requests about alerts.
var refusedExpectations = []refused{
	{name: "a start within less than a second", body: expecting(`"start_within_ms":999`), field: "expect.start_within_ms", says: "999 must be greater than or equal to 1000"},
	{name: "a start within no time", body: expecting(`"start_within_ms":0`), field: "expect.start_within_ms", says: "0 must be"},
	{name: "a start within more than 14 days", body: expecting(`"start_within_ms":1209600001`), field: "expect.start_within_ms", says: "1209600001 must be greater than or equal to 1000 and less than or equal to 1209600000"},
	{name: "a finish within more than 14 days", body: expecting(`"finish_within_ms":1209600001`), field: "expect.finish_within_ms", says: "1209600000"},
	{name: "a success within more than 45 days", body: expecting(`"success_every_ms":3888000001`), field: "expect.success_every_ms", says: "3888000000"},
	{name: "an alert after none", body: expecting(`"start_within_ms":60000,"alert_after":0`), field: "expect.alert_after", says: "0 must be greater than or equal to 1"},
	{name: "an alert after more than 1000", body: expecting(`"start_within_ms":60000,"alert_after":1001`), field: "expect.alert_after", says: "1001 must be greater than or equal to 1 and less than or equal to 1000"},
	{name: "a reminder every second", body: expecting(`"start_within_ms":60000,"remind_every_ms":1000`), field: "expect.remind_every_ms", says: "1000 must be greater than or equal to 300000"},
	{name: "a reminder every 46 days", body: expecting(`"start_within_ms":60000,"remind_every_ms":3974400000`), field: "expect.remind_every_ms", says: "3888000000"},
	{name: "a promise that is no number", body: expecting(`"start_within_ms":"soon"`), field: "expect.start_within_ms", says: "soon"},
	{name: "a promise below zero", body: expecting(`"finish_within_ms":-1`), field: "expect.finish_within_ms", says: "-1"},
	{name: "a promise that is not a field", body: expecting(`"start_within":60000`), field: "expect.start_within", says: "not a field"},
	{name: "how to alert, but no promise", body: expecting(`"alert_after":3`), field: "expect", says: "has no expectation; set start_within_ms, finish_within_ms, success_every_ms or on_failure"},
	{name: "an expect without anything in it", body: expecting(""), field: "expect", says: "has no expectation; set start_within_ms, finish_within_ms, success_every_ms or on_failure, or leave expect out"},
	{name: "a trigger with an expect without anything in it", call: deployCall, rest: deployRest, body: triggerPromising(""), field: "dag.triggers[0].expect", says: "has no expectation"},
	{name: "messages about an invalid schedule id", call: "AlertService/ListAlertDeliveries", rest: "GET /v1/alert-deliveries?schedule_id=a%20b", body: `{"schedule_id":"a b"}`, field: "schedule_id", says: "a b"},
	{name: "a start within the jitter", body: expecting(`"start_within_ms":30000`, "jitter_ms", "30000"), field: "expect.start_within_ms", says: "30000 (30s) is not over jitter_ms 30000 (30s)"},
	{name: "a finish within the jitter", body: expecting(`"finish_within_ms":20000`, "jitter_ms", "30000"), field: "expect.finish_within_ms", says: "20000 (20s) is not over jitter_ms 30000 (30s)"},
	{name: "a finish before the start", body: expecting(`"start_within_ms":60000,"finish_within_ms":59000`), field: "expect.finish_within_ms", says: "59000 (59s) is below start_within_ms 60000 (1m)"},
	{
		name: "a success more often than the rule has a slot", body: expecting(`"success_every_ms":300000`),
		field: "expect.success_every_ms", says: "300000 (5m) is not over the time from the slot of ",
	},
	{
		name: "a success more often than the longest gap of the year", body: expecting(`"success_every_ms":172800000`, "cron_expr", `"0 9 * * MON-FRI"`),
		field: "expect.success_every_ms", says: "(72h); allow for the longest gap",
	},
	{
		name: "a success every while of a single run", body: expecting(`"success_every_ms":60000`, "cron_expr", "-", "once_at", `"2098-01-01T00:00:00Z"`),
		field: "expect.success_every_ms", says: "60000 (1m) does not apply to a single run; set finish_within_ms",
	},
	{
		name: "start_within of a manual schedule", body: expecting(`"start_within_ms":60000`, "cron_expr", "-"),
		field: "expect.start_within_ms", says: "60000 (1m) is measured from run_at, which a manual schedule does not have",
	},
	{
		name: "finish_within of a manual schedule", body: expecting(`"finish_within_ms":60000`, "cron_expr", "-"),
		field: "expect.finish_within_ms", says: "set success_every_ms, or cron_expr, interval_ms or once_at",
	},
	{
		name: "a trigger that promises too little time", call: deployCall, rest: deployRest, body: triggerPromising(`"start_within_ms":10`),
		field: "dag.triggers[0].expect.start_within_ms", says: "10 ",
	},
	{
		name: "a trigger that promises a success more often than it fires", call: deployCall, rest: deployRest, body: triggerPromising(`"success_every_ms":60000`),
		field: "dag.triggers[0].expect.success_every_ms", says: "60000 (1m) is not over the time from the slot of",
	},
	{
		name: "a trigger with a promise that is not a field", call: deployCall, rest: deployRest, body: triggerPromising(`"starts":1`),
		field: "dag.triggers[0].expect.starts", says: "not a field",
	},
	{name: "alerts of a kind that there is not", call: "AlertService/ListAlerts", rest: "GET /v1/alerts?kind=late", body: `{"kind":"late"}`, field: "kind", says: `"late" must be in list [start, finish, success, failure]`},
	{name: "alerts in a state that there is not", call: "AlertService/ListAlerts", rest: "GET /v1/alerts?state=OPEN", body: `{"state":"OPEN"}`, field: "state", says: `"OPEN" must be in list [open, closed]`},
	{name: "alerts of an invalid id", call: "AlertService/ListAlerts", rest: "GET /v1/alerts?schedule_id=a%20b", body: `{"schedule_id":"a b"}`, field: "schedule_id", says: "a b"},
	{name: "too many alerts", call: "AlertService/ListAlerts", rest: "GET /v1/alerts?page_size=201", body: `{"page_size":201}`, field: "page_size", says: "201 must be less than or equal to 200"},
	{name: "messages in a state that there is not", call: "AlertService/ListAlertDeliveries", rest: "GET /v1/alert-deliveries?state=dead", body: `{"state":"dead"}`, field: "state", says: `"dead" must be in list [PENDING, DELIVERED, DEAD]`},
	{name: "too many messages", call: "AlertService/ListAlertDeliveries", rest: "GET /v1/alert-deliveries?page_size=201", body: `{"page_size":201}`, field: "page_size", says: "200"},
	{name: "a message that is no id", call: "AlertService/RedeliverAlert", rest: "POST /v1/alert-deliveries/a%20b:redeliver", body: `{"delivery_id":"a b"}`, field: "delivery_id", says: "a b"},
}
