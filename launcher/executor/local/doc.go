// Package local is step 5 of a slot's life on one machine: an executor that runs a
// small DAG of commands and HTTP calls.
//
// # The DAG
//
//	{"workflow_id": "nightly", "version": 1, "triggers": […], "env": {"KEEP": "7"},
//	 "steps": [
//	   {"id": "fetch",  "http": {"url": "${CARILLON_URL}/readyz", "save_as": "ready.json"}, "retries": 2},
//	   {"id": "report", "needs": ["fetch"], "shell": "wc -c < \"$CARILLON_RUN_DIR/ready.json\"", "timeout_ms": 60000}]}
//
// Steps run as soon as the steps that they need have ended, independent ones
// concurrently. docs/examples/README.md describes every member; Parse is the
// grammar. Unknown members of the DAG are ignored, because other programs may keep
// data in it. Unknown members of a step are refused: a misspelt "retires" must not
// mean "no retries".
//
// # At most once
//
// A key is run at most once, also if this process is killed. These files below
// DATA_DIR/runs guarantee it. They are made durable (fsync) in this order:
//
//	open/<key>.json          the run as it was accepted; then Run answers ENQUEUED
//	<2 hex>/<key>/started    made with O_EXCL before the first command
//	<2 hex>/<key>/result.json  how it ended, renamed into place
//	                         the end is reported; then open/<key>.json goes
//
// A crash between two of these lines leaves one of three states, which Recover
// reads at the next start:
//
//	accepted, not started    no command has run: it is queued again, unless its
//	                         run timeout has passed since it was accepted
//	started, no result       some commands may have had their effect: FAILED, error
//	                         code "lost", and never run again
//	result, still open       the end may not have been reported: it is reported again
package local
