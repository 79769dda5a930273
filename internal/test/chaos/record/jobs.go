package record

import "time"

// The files of a run with dispatch queues.
const (
	JobsFile      = "jobs.jsonl"       // runs of queues, as the database has them at the end
	JobWritesFile = "job_writes.jsonl" // what the witnesses saw
	JobActsFile   = "job_acts.jsonl"   // what people did
	GroupsFile    = "groups.jsonl"     // job groups at the end
)

// Job is a run of a queue.
type Job struct {
	Key          string    `json:"key"`
	Queue        string    `json:"queue"`
	Group        string    `json:"group,omitempty"`
	GroupSeq     int       `json:"group_seq,omitempty"`
	Status       string    `json:"status"`
	Reason       string    `json:"reason,omitempty"`
	Trigger      string    `json:"trigger"`
	Attempt      int       `json:"attempt"`
	MaxAttempts  int       `json:"max_attempts"`
	RetryOf      string    `json:"retry_of,omitempty"`
	FailureClass string    `json:"failure_class,omitempty"`
	Dead         bool      `json:"dead,omitempty"`
	CancelAsked  time.Time `json:"cancel_requested_at,omitzero"`
	CompletedAt  time.Time `json:"completed_at,omitzero"`
}

// Group is a job group.
type Group struct {
	GroupID   string `json:"group_id"`
	Mode      string `json:"mode"`
	State     string `json:"state"`
	Members   int    `json:"members"`
	Succeeded int    `json:"succeeded"`
	Failed    int    `json:"failed"`
	Skipped   int    `json:"skipped"`
	Cancelled int    `json:"cancelled"`
}

// Kinds of lines of the witnesses.
const (
	RunWrite = "run" // of a run that is in a queue, or was
	UseWrite = "use" // of a limit that a run uses
)

// JobWrite is one write of a run in a queue, or of a limit that one uses, as a trigger of the
// database saw it.
type JobWrite struct {
	Seq       int64     `json:"seq"`
	Began     time.Time `json:"began"`     // the transaction; on SQLite the write
	Committed time.Time `json:"committed"` // on SQLite the write
	Tx        int64     `json:"tx"`        // on SQLite 0: whatever is written is seen by the next one
	Kind      string    `json:"kind"`
	Key       string    `json:"key"`
	Queue     string    `json:"queue,omitempty"`
	Before    string    `json:"before,omitempty"` // queue_state; empty: not in a queue. Of a use: empty or "used"
	After     string    `json:"after,omitempty"`
	Priority  int64     `json:"priority"` // the order, lower goes first
	Fair      int64     `json:"fair"`
	Position  int64     `json:"position"`
	Limits    string    `json:"limits,omitempty"` // of a run with commas between them; of a use the one
}

// Verbs of the acts on queues.
const (
	Enqueue     = "enqueue"
	UpdateJob   = "update job"
	CancelJob   = "cancel job"
	PauseQueue  = "pause queue"
	ResumeQueue = "resume queue"
	MakeGroup   = "make group"
	CancelGroup = "cancel group"
	Redrive     = "redrive"
)

// JobAct is one call about a queue that was answered.
type JobAct struct {
	Verb     string    `json:"verb"`
	Queue    string    `json:"queue,omitempty"`
	Group    string    `json:"group,omitempty"`
	Keys     []string  `json:"keys,omitempty"`
	Inputs   []int     `json:"inputs,omitempty"` // of each key
	Asked    time.Time `json:"asked"`
	Answered time.Time `json:"answered"`
	Refused  bool      `json:"refused,omitempty"`
	Unsure   bool      `json:"unsure,omitempty"` // an earlier request of it was not answered
	Same     bool      `json:"same,omitempty"`   // it repeats an earlier call word by word
}

// Queue is a dispatch queue of the workload.
type Queue struct {
	QueueID     string   `json:"queue_id"`
	MaxInFlight int      `json:"max_in_flight"`
	Limits      []string `json:"limits,omitempty"`
}

// Limit is a limit of the workload.
type Limit struct {
	LimitID     string `json:"limit_id"`
	Keyed       bool   `json:"keyed,omitempty"`
	MaxInFlight int    `json:"max_in_flight"`
}

// Queues are the queues of a dose with jobs. The first admits one run at a time.
var Queues = []Queue{
	{QueueID: "one", MaxInFlight: 1},
	{QueueID: "many", MaxInFlight: 6},
	{QueueID: "gpu-a", MaxInFlight: 10, Limits: []string{"gpu"}},
	{QueueID: "gpu-b", MaxInFlight: 10, Limits: []string{"gpu"}},
	{QueueID: "gpu-c", MaxInFlight: 1, Limits: []string{"gpu"}},
	{QueueID: "customers", MaxInFlight: 10},
}

// Limits are the limits of a dose with jobs.
var Limits = []Limit{
	{LimitID: "gpu", MaxInFlight: 2},
	{LimitID: "customer", Keyed: true, MaxInFlight: 1},
}
