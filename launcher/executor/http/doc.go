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
// In the graph dialect the answer is {"ok", "runId", "traceId", "errorCode"}: 200
// has ended, well or not, 422 is FAILED(key_conflict). A graph that runs for
// longer than one call may take is asked for with the same key until its answer
// is there, so that API answers 409 or 425 meanwhile. The errorCode (error_code)
// of a refusal is kept in place of http_NNN.
//
// "Anything else" includes every 3xx: redirects are not followed (they would
// carry the token and the input to a place that nobody configured), and one
// may come from a proxy that is there for a minute only, so it is no refusal.
// It includes a 200 that does not say how the run ended.
//
// An error wraps launcher.ErrNotSent only if nothing of the request was
// written to a connection, and nothing can be any more (send.go). From its
// first byte on the outcome counts as unknown. Nothing is written after the
// call's SendBy, however long dialling or a handshake takes.
package httpexecutor
