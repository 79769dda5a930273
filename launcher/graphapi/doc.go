// Package graphapi serves the internal graph run API, a second entry to step 5 of a
// slot's life: other schedulers start runs through the launcher's idempotency keys.
//
//	POST /api/internal/graphs/{workflow_id}/runs
//	Authorization: Bearer INTERNAL_API_TOKEN
//	Idempotency-Key: any text of 1 to 256 bytes, such as schedule_id:run_at
//	{"executionGrantId": "…", "userId": "…", "input": {}, "version": 3}
//
// userId is the owner of the grant. It is required only if several owners have a
// grant of that id.
//
// The answer is {"ok", "runId", "traceId", "errorCode"} with
//
//	200  it has ended, well or not: ok says how
//	202  the executor goes on with it
//	400  the request is not understood                 (invalid_request)
//	401  the token is missing or another               (unauthenticated)
//	403  the grant does not allow it                   (grant_…)
//	404  no such workflow version                      (workflow_not_found)
//	409  another call of this key is open: ask again   (in_progress)
//	422  the key was used for another request          (key_conflict)
//	503  no definite answer: send the same key again   (outcome_unknown, unavailable)
//
// 200, 202, 403 and 404 are recorded: the same request is answered the same
// from then on, and the executor is not called again.
package graphapi
