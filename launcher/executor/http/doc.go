// Package httpexecutor is step 5 of a slot's life for executors that speak
// HTTP: one POST hands a run over, one DELETE cancels it.
//
// What an answer means is decided in one place (outcome.go):
//
//	200 {"run_id", "status": "SUCCESS" | "FAILED", …}   finished already
//	202 {"run_id"}                                      accepted, a report will follow
//	4xx, but not 408, 409, 425, 429                     refused for good
//	anything else, or no answer                         unknown: the same key is sent again
//
// In the graph dialect the answer is {"ok", "runId", "traceId", "errorCode"}. 200
// means that the graph has ended; ok says how. 422 is FAILED(key_conflict). While
// a graph runs for longer than one call, the same key is sent again and answered
// 409 or 425. The errorCode (error_code) of a refusal replaces http_NNN.
//
// "Anything else" includes every 3xx. Redirects are not followed: they would send
// the token and the input to a host that is not configured. A redirect is not a
// refusal either, because a proxy may answer it for a moment only. A 200 that does
// not say how the run ended is included too.
//
// An error wraps launcher.ErrNotSent only if no byte of the request was written to
// a connection or can still be written (send.go). After the first byte the outcome
// is unknown. Nothing is written after the call's SendBy, however long dialling or
// a handshake takes.
package httpexecutor
