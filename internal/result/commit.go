package result

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/carillon/carillon/internal/publication"
	"github.com/carillon/carillon/internal/rawjson"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/topic"
)

// NewEvent is an event of a commit as it was sent.
type NewEvent struct {
	Topic   string          `json:"topic"`
	EventID string          `json:"event_id"`
	Source  string          `json:"source"`
	Type    string          `json:"type"`
	Subject string          `json:"subject"`
	Time    time.Time       `json:"time"`
	Data    json.RawMessage `json:"data"`
}

// CommitMembers are those of an executor's JSON answer, as they were sent.
type CommitMembers struct {
	State   json.RawMessage `json:"state"`
	Publish json.RawMessage `json:"publish"`
}

// Commit reads the commit of a run; nil: there is none.
func (m *CommitMembers) Commit(key schedule.Key) (*schedule.Commit, error) {
	var sent []NewEvent
	if !isNone(m.Publish) {
		if err := json.Unmarshal(m.Publish, &sent); err != nil {
			var c schedule.Collect
			c.Note("publish", "is not a list of {topic, event_id, source, type, subject, time, data}: "+err.Error(), "")
			return nil, c.Err()
		}
	}
	return CommitOf(key, m.State, sent)
}

// CommitOf checks the commit of a run, and names its events; nil: there is none. Unlike a result, a
// commit is kept as a whole or refused: a run may rely on it.
func CommitOf(key schedule.Key, state []byte, sent []NewEvent) (*schedule.Commit, error) {
	var c schedule.Collect
	var commit schedule.Commit
	if !isNone(state) {
		commit.State = state
		CheckState(&c, state)
	}
	commit.Events = committed(&c, key, sent)
	if err := c.Err(); err != nil {
		return nil, err
	}
	if commit.State == nil && len(commit.Events) == 0 {
		return nil, nil
	}
	return &commit, nil
}

// CheckState adds what is wrong with the state of a schedule.
func CheckState(c *schedule.Collect, state []byte) {
	switch problem := rawjson.Problem(state, schedule.MaxJSONDepth); {
	case len(state) > schedule.MaxState:
		c.Note("state", fmt.Sprintf("has %d bytes, more than %d", len(state), schedule.MaxState), "keep a reference instead of the content")
	case problem != "":
		c.Note("state", problem, "")
	}
}

// committed are the events of a commit with names and hashes.
func committed(c *schedule.Collect, key schedule.Key, sent []NewEvent) []schedule.CommitEvent {
	named := make([]topic.Event, len(sent))
	for i, e := range sent {
		if e.EventID == "" {
			e.EventID = fmt.Sprintf("%s:%d", key.String()[:16], i)
		}
		named[i] = topic.Event{Topic: e.Topic, EventID: e.EventID, Source: e.Source, Type: e.Type, Subject: e.Subject, Time: e.Time, Data: e.Data}
	}
	publication.Check(c, "publish", named, func(i int, name string) string { return fmt.Sprintf("publish[%d].%s", i, name) })
	events := make([]schedule.CommitEvent, len(named))
	for i := range named {
		e := &named[i]
		events[i] = schedule.CommitEvent{
			Topic: e.Topic, Source: e.Source, EventID: e.EventID, Type: e.Type, Subject: e.Subject, Time: e.Time, Data: e.Data, DataHash: e.DataHash,
		}
	}
	return events
}

// Enter adds a commit to the outcome of a run that has succeeded; err says that it breaks a rule, and
// then the run has failed. Other outcomes have no commit.
func Enter(o *schedule.Outcome, commit *schedule.Commit, err error) {
	switch {
	case o.Status != schedule.StatusSuccess:
	case err == nil:
		o.Commit = commit
	default:
		o.Status, o.Reason, o.FailureClass = schedule.StatusFailed, schedule.ReasonWorkflowFailed, schedule.ClassLogic
		o.ErrorCode = string(schedule.CodeCommitInvalid)
		o.ErrorMessage = schedule.Storable("nothing was committed: "+err.Error(), schedule.MaxErrorMessage)
	}
}
