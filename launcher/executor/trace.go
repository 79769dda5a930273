package executor

import (
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"

	"github.com/carillon/carillon/internal/schedule"
)

// TraceID is the W3C trace id of a run.
func TraceID(key schedule.Key) string { return key.TraceID() }

// TraceParent is a W3C traceparent header for a call without a span of ours: the
// run's trace id and a random span id, sampled. So an executor's spans are in the
// trace of the run.
func TraceParent(key schedule.Key) string {
	var span [8]byte
	binary.NativeEndian.PutUint64(span[:], rand.Uint64()) // a span id is no secret
	return "00-" + TraceID(key) + "-" + hex.EncodeToString(span[:]) + "-01"
}
