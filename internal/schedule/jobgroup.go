package schedule

import (
	"encoding/json"
	"time"
)

// GroupMode says in which order the members of a group start.
type GroupMode string

// The modes.
const (
	GroupParallel   GroupMode = "parallel"   // each as its queue says
	GroupSequential GroupMode = "sequential" // each after the end of the one before it
)

// GroupFailure says what a group does once a member has ended for good other than SUCCESS.
type GroupFailure string

// What it does.
const (
	GroupStop     GroupFailure = "stop"     // it cancels members that were never admitted; of a sequential group the later ones
	GroupContinue GroupFailure = "continue" // it goes on
)

// GroupState is where a group is.
type GroupState string

// The states. A group ends once, and then stays as it is.
const (
	GroupRunning   GroupState = "RUNNING"
	GroupCompleted GroupState = "COMPLETED" // every member has succeeded
	GroupPartial   GroupState = "PARTIAL"   // some have not
	GroupCancelled GroupState = "CANCELLED" // by a caller
)

// GroupStates is the closed set.
var GroupStates = []GroupState{GroupRunning, GroupCompleted, GroupPartial, GroupCancelled}

// Bounds of groups.
const (
	MaxGroupMembers = 10_000
	// MaxGroupStep is how many members one transaction cancels. The sweep goes on.
	MaxGroupStep = 1000
)

// JobGroup is runs of one dispatch queue that end together. It has nothing to do with overlap
// groups, or with groups of alerts.
type JobGroup struct {
	No        int32 // given by the store, never used again
	GroupID   string
	QueueNo   int32
	QueueID   string // of the queue; the registrar sets it
	UserID    string // the owner, of all members
	Mode      GroupMode
	OnFailure GroupFailure
	State     GroupState
	Sealed    bool      // it takes no more members
	SealAt    time.Time // it is sealed then, unless it is before; zero: somebody seals it
	Members   int32     // the number of the last one
	// StopFrom, unless 0: a member has failed, and members from this number on are cancelled
	// unless they were admitted.
	StopFrom          int32
	CancelRequestedAt time.Time
	GroupCounts       // once it has ended; before that they are counted
	OnComplete        *GroupRun
	Webhook           string // a name in WEBHOOK_TARGETS_FILE; "": that of the queue
	RetryOf           string // the group before it: it has the members of that one that did not succeed
	BodyHash          Key    // of the request that made it
	CreatedAt         time.Time
	EndedAt           time.Time // zero: it is RUNNING
}

// GroupCounts counts members by how their last runs have ended.
type GroupCounts struct{ Succeeded, Failed, Skipped, Cancelled int32 }

// Over is how many members have ended.
func (c GroupCounts) Over() int32 { return c.Succeeded + c.Failed + c.Skipped + c.Cancelled }

// Add counts members that ended with a status.
func (c *GroupCounts) Add(s Status, n int32) {
	switch s {
	case StatusSuccess:
		c.Succeeded += n
	case StatusFailed:
		c.Failed += n
	case StatusSkipped:
		c.Skipped += n
	case StatusCancelled:
		c.Cancelled += n
	}
}

// Stopping reports whether members are left to be cancelled, or may be.
func (g *JobGroup) Stopping() bool {
	return g.State == GroupRunning && (g.StopFrom > 0 || !g.CancelRequestedAt.IsZero())
}

// EndKey is the key of the run that enters the queue at the end of the group, and of the message
// about the end. A group that is made again under its id, after retention, has another one.
func (g *JobGroup) EndKey() Key {
	return JobKey(g.CreatedAt, "", g.UserID, "/group/"+g.GroupID, int(g.No))
}

// GroupRun is the run that enters the queue of a group at its end. Its JSON form is stored.
type GroupRun struct {
	ScheduleID  string          `json:"schedule_id"`
	Revision    int64           `json:"revision"`
	OverlapKey  string          `json:"overlap_key"` // qualified
	MaxQueued   uint32          `json:"max_queued,omitempty"`
	Input       json.RawMessage `json:"input,omitempty"`
	Priority    int32           `json:"priority,omitempty"`
	MaxAttempts int32           `json:"max_attempts"`
	Limits      Limits          `json:"limits,omitempty"`
	Webhook     string          `json:"webhook,omitempty"`
	FairKey     string          `json:"fair_key,omitempty"`
	RequestedBy string          `json:"requested_by,omitempty"` // who made the group
	// What the caller has asked for, to show it.
	WorkflowID string `json:"workflow_id"`
	Version    int32  `json:"version"`
}

// Text is the stored form; "" of nil.
func (r *GroupRun) Text() string {
	if r == nil {
		return ""
	}
	raw, err := json.Marshal(r)
	if err != nil {
		panic("a run of a group is not JSON: " + err.Error()) // its input was checked
	}
	return string(raw)
}

// ParseGroupRun reads the stored form; nil: there is none.
func ParseGroupRun(text string) (*GroupRun, error) {
	if text == "" {
		return nil, nil
	}
	r := new(GroupRun)
	err := json.Unmarshal([]byte(text), r)
	return r, err
}

// GroupChange is what a request makes of a group, in one transaction. If nothing of it is left
// afterwards, and it is sealed, it ends.
type GroupChange struct {
	After *JobGroup // nil: nothing changes
	Audit *AuditEntry
	Now   time.Time
}

// GroupFilter selects groups, newest first.
type GroupFilter struct {
	UserID  string // of this owner; "": all
	QueueNo int32  // of this queue; 0: all
	State   GroupState
	Before  int32 // numbers below it; 0: from the newest on
	Limit   int
}

// GroupMember is an open member of a group.
type GroupMember struct {
	Key    Key
	Seq    int32
	State  QueueState
	FireAt time.Time
}
