package executor

import (
	"crypto/rand"
	"encoding/hex"

	"github.com/carillon/carillon/internal/schedule"
)

// TraceID is the W3C trace id of a run.
func TraceID(key schedule.Key) string { return key.TraceID() }

// TraceParent is a W3C traceparent header for a call without a span of ours: the
// run's trace id and a random span id, sampled. So an executor's spans are in the
// trace of the run.
func TraceParent(key schedule.Key) string {
	var span [8]byte
	_, _ = rand.Read(span[:]) // crypto/rand never fails (it ends the program)
	return "00-" + TraceID(key) + "-" + hex.EncodeToString(span[:]) + "-01"
}
