package httpexecutor

import (
	"encoding/json"

	"github.com/carillon/carillon/internal/topic"
	"github.com/carillon/carillon/launcher"
)

// handlerBody is what a run gets of earlier ones: the events that it has taken, and the state of its
// schedule.
type handlerBody struct {
	Mode          string          `json:"mode,omitempty"`
	Cause         string          `json:"cause,omitempty"`
	RootKey       string          `json:"root_key,omitempty"` // the first attempt with these events
	State         json.RawMessage `json:"state,omitempty"`
	StateRevision int64           `json:"state_revision,omitempty"`
}

func handlerOf(call *launcher.Call) *handlerBody {
	if call.Events == nil && call.State.Value == nil {
		return nil
	}
	body := &handlerBody{State: call.State.Value, StateRevision: call.State.Revision}
	if call.Events != nil {
		body.Mode, body.Cause, body.RootKey = "batch", "event", call.Events.Root.String()
	}
	return body
}

func digestOf(b *topic.Batch) string {
	if b == nil {
		return ""
	}
	return b.Digest.String()
}
