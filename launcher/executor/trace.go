package executor

import (
	"crypto/rand"
	"encoding/hex"

	"github.com/carillon/carillon/internal/schedule"
)

// TraceID is the W3C trace id of a run: the first half of its key, so that
// every delivery of one run, by whichever launcher, lies in one trace.
func TraceID(key schedule.Key) string { return hex.EncodeToString(key[:16]) }

// TraceParent is a W3C traceparent header for one call of a run: its trace id
// and a new random span id, sampled.
func TraceParent(key schedule.Key) string {
	var span [8]byte
	_, _ = rand.Read(span[:]) // crypto/rand never fails (it ends the program)
	return "00-" + TraceID(key) + "-" + hex.EncodeToString(span[:]) + "-01"
}
