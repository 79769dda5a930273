package graphapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"slices"

	"github.com/carillon/carillon/internal/rawjson"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/launcher"
)

// MaxKey caps the bytes of an Idempotency-Key.
const MaxKey = 256

// maxBody is the largest input with the rest of the body.
const maxBody = schedule.MaxInputBytes + 4<<10

// refusal is the answer to an invalid request.
type refusal struct {
	status  int
	code    string
	message string
}

func invalid(format string, args ...any) *refusal {
	return &refusal{http.StatusBadRequest, "invalid_request", fmt.Sprintf(format, args...)}
}

// read reads the request, or returns what is wrong with it.
func read(w http.ResponseWriter, r *http.Request) (launcher.GraphRun, *refusal) {
	run := launcher.GraphRun{WorkflowID: r.PathValue("workflow_id")}
	if !schedule.ValidID(run.WorkflowID) {
		return run, invalid("workflow_id %s is not 1 to 128 of A–Z a–z 0–9 . _ : -", schedule.Quote(run.WorkflowID))
	}
	keys := r.Header.Values("Idempotency-Key")
	if len(keys) != 1 || keys[0] == "" || len(keys[0]) > MaxKey {
		return run, invalid("Idempotency-Key is needed once, with 1 to %d bytes, such as schedule_id:run_at", MaxKey)
	}
	run.Key = keys[0]
	// A form of another site, which a browser could be made to send, has another type.
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return run, &refusal{http.StatusUnsupportedMediaType, "invalid_request", "send Content-Type: application/json"}
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if large, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return run, &refusal{http.StatusRequestEntityTooLarge, "request_too_large", fmt.Sprintf("the body has more than %d bytes", large.Limit)}
	}
	if err != nil {
		return run, invalid("the body broke off")
	}
	return run, readBody(body, &run)
}

func readBody(body []byte, run *launcher.GraphRun) *refusal {
	if problem := rawjson.Problem(body, schedule.MaxJSONDepth+1); problem != "" {
		return invalid("the body %s", problem)
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(body, &members); err != nil || members == nil {
		return invalid("the body is not a JSON object")
	}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		var err error
		switch raw := members[name]; name {
		case "executionGrantId":
			err = json.Unmarshal(raw, &run.ExecutionGrantID)
		case "userId":
			err = json.Unmarshal(raw, &run.UserID)
		case "version":
			if err = json.Unmarshal(raw, &run.Version); err == nil && run.Version < 1 && string(raw) != "null" {
				return invalid("version %s is below 1; leave it out for the newest", raw)
			}
		case "input":
			if run.Input = raw; len(raw) > schedule.MaxInputBytes {
				return invalid("input has %d bytes, more than %d", len(raw), schedule.MaxInputBytes)
			}
		default:
			return invalid("%s is no member of this request: executionGrantId, input, userId, version", schedule.Quote(name))
		}
		if err != nil {
			return invalid("%s %s is of another type", name, schedule.Quote(string(members[name])))
		}
	}
	if id := run.ExecutionGrantID; id != "" && !schedule.ValidID(id) {
		return invalid("executionGrantId %s is not 1 to 128 of A–Z a–z 0–9 . _ : -", schedule.Quote(id))
	}
	if id := run.UserID; id != "" && !schedule.ValidOwner(id) {
		return invalid("userId %s is not an owner id; %s", schedule.Quote(id), schedule.OwnerHint)
	}
	return nil
}
