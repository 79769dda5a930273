package executor

import (
	"crypto/rand"
	"encoding/hex"

	"github.com/carillon/carillon/internal/schedule"
)

// TraceID is the W3C trace id of a run.
func TraceID(key schedule.Key) string { return key.TraceID() }

// TraceParent is a W3C traceparent header for one call of a run that nobody here
// has a span for: its trace id and a new random span id, sampled, so that an
// executor that traces finds its part under the run's trace id all the same.
func TraceParent(key schedule.Key) string {
	var span [8]byte
	_, _ = rand.Read(span[:]) // crypto/rand never fails (it ends the program)
	return "00-" + TraceID(key) + "-" + hex.EncodeToString(span[:]) + "-01"
}
