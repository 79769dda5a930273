package graphapi

import (
	"cmp"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/launcher"
)

// answered is the body of every answer.
type answered struct {
	OK        bool    `json:"ok"`
	RunID     string  `json:"runId"`
	TraceID   *string `json:"traceId"` // null: none is known
	ErrorCode string  `json:"errorCode,omitempty"`
	Message   string  `json:"message,omitempty"`
}

// answer is the answer about a run; see the package comment.
func answer(w http.ResponseWriter, o schedule.Outcome) {
	body := answered{OK: o.OK(), RunID: o.RunID, Message: o.ErrorMessage}
	if o.TraceID != "" {
		body.TraceID = &o.TraceID
	}
	if !body.OK {
		body.ErrorCode = cmp.Or(o.ErrorCode, string(o.Reason), string(schedule.CodeOther))
	}
	write(w, statusOf(o), body)
}

func statusOf(o schedule.Outcome) int {
	if o.Status == schedule.StatusEnqueued {
		return http.StatusAccepted
	}
	switch o.Reason {
	case schedule.ReasonGrantExpired, schedule.ReasonGrantRevoked, schedule.ReasonGrantDenied:
		return http.StatusForbidden
	case schedule.ReasonWorkflowNotFound:
		return http.StatusNotFound
	case schedule.ReasonKeyConflict:
		return http.StatusUnprocessableEntity
	}
	return http.StatusOK
}

// answerError answers that the same key may be sent again. The error is only logged:
// it may contain what a caller should not see.
func answerError(w http.ResponseWriter, err error) {
	var unclear *schedule.InvalidError
	switch {
	case errors.Is(err, launcher.ErrBusy):
		again(w, http.StatusConflict, "in_progress", "another call of this key is open; send it again for its outcome")
	case errors.Is(err, launcher.ErrOutcomeUnknown), errors.Is(err, launcher.ErrWithheld):
		again(w, http.StatusServiceUnavailable, string(schedule.CodeOutcomeUnknown), "the executor has not answered definitely; send the same key again")
	case errors.As(err, &unclear):
		refuse(w, http.StatusBadRequest, "invalid_request", unclear.Error())
	default:
		again(w, http.StatusServiceUnavailable, "unavailable", "the run could not be started now; send the same key again")
	}
}

// again is a temporary refusal.
func again(w http.ResponseWriter, status int, code, message string) {
	w.Header().Set("Retry-After", "1")
	refuse(w, status, code, message)
}

func refuse(w http.ResponseWriter, status int, code, message string) {
	write(w, status, answered{ErrorCode: code, Message: message})
}

func write(w http.ResponseWriter, status int, body answered) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // the caller is gone; a repeat gets the same answer
}
