package launcher

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// requestHash is sha256 over the canonical JSON of a request. Two requests of one
// key are the same if their hashes are. Attempt, epoch, trace and DAG are left
// out: they may differ in a redelivery of the same request.
//
// The hash is stored, so the text must not change by a byte. Every start pays for
// it: the text is written directly, with members in the order of CanonicalJSON,
// and only strings that need escaping take the slow path.
func requestHash(req schedule.StartRequest) ([32]byte, error) {
	input := []byte("null")
	if len(req.Input) > 0 {
		if !json.Valid(req.Input) {
			return [32]byte{}, errors.New("input is not JSON")
		}
		var err error
		if input, err = schedule.CanonicalJSON(req.Input); err != nil {
			return [32]byte{}, fmt.Errorf("input is not JSON: %w", err)
		}
	}
	text := make([]byte, 0, 512+len(input))
	text = append(text, '{')
	text = appendMember(text, "execution_grant_id", req.ExecutionGrantID)
	text = append(text, `"input":`...)
	text = append(append(text, input...), ',')
	text = appendMember(text, "schedule_id", req.ScheduleID)
	text = appendMember(text, "scheduled_for", req.ScheduledFor.UTC().Format(time.RFC3339Nano))
	text = appendMember(text, "trigger", string(req.Trigger))
	text = appendMember(text, "user_id", req.UserID)
	text = append(text, `"version":`...)
	text = append(strconv.AppendInt(text, int64(req.Version), 10), ',')
	text = appendMember(text, "workflow_id", req.WorkflowID)
	text[len(text)-1] = '}' // instead of the last comma
	return sha256.Sum256(text), nil
}

// appendMember appends a member of an object and a comma.
func appendMember(text []byte, name, value string) []byte {
	text = append(text, '"')
	text = append(text, name...)
	text = append(text, `":`...)
	if plain(value) {
		text = append(append(append(text, '"'), value...), '"')
	} else {
		text = append(text, escaped(value)...)
	}
	return append(text, ',')
}

// plain reports whether a string needs no escaping in JSON.
func plain(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}

func escaped(s string) []byte {
	raw, _ := json.Marshal(s)                   // a string never fails
	canonical, _ := schedule.CanonicalJSON(raw) // valid JSON never fails
	return canonical
}
