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

// requestHash is sha256 over the canonical JSON of what makes two requests of
// one key the same: never attempt, epoch, trace or DAG, for a redelivery is
// the same request.
//
// It stands in the ledger: what is written here must not change by a byte.
// Every start pays for it, so the text is put together as CanonicalJSON would
// write it, with its keys in order; only strings that need escaping, which no
// caller may send, go the long way.
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

// appendMember writes a member of an object, with a comma behind it.
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

// plain reports whether a string stands in JSON as it is.
func plain(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}

func escaped(s string) []byte {
	raw, _ := json.Marshal(s)                   // of a string there is no error
	canonical, _ := schedule.CanonicalJSON(raw) // nor of JSON
	return canonical
}
