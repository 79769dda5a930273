package schedule

import (
	"encoding/json"
	"time"
)

// MaxState is the size of a schedule's state in bytes.
const MaxState = 64 << 10

// Commit is what a run changes with its success. It is written in the transaction of the end: all of it,
// or none if the run ends otherwise.
type Commit struct {
	State  json.RawMessage // replaces that of the schedule; nil leaves it
	Events []CommitEvent   // to publish, in their order
}

// CommitEvent is an event that a run publishes to a topic of its owner.
type CommitEvent struct {
	Topic    string
	Source   string
	EventID  string // empty: named by the run and its place
	Type     string
	Subject  string
	Time     time.Time
	Data     json.RawMessage
	DataHash Key // sha256 of the canonical data
}

// State is what the last committed run of a schedule has kept for the next one.
type State struct {
	Value    json.RawMessage // nil: none was kept yet
	Revision int64           // counts the changes
	Run      Key             // the run that has kept it; zero: a person has set it
	At       time.Time
}
