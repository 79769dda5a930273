package record

import (
	"slices"
	"strings"
	"time"
)

// The files of a run with dispatch queues.
const (
	JobsFile      = "jobs.jsonl"       // runs of queues, as the database has them at the end
	JobWritesFile = "job_writes.jsonl" // what the witnesses saw
	JobActsFile   = "job_acts.jsonl"   // what people did
	GroupsFile    = "groups.jsonl"     // job groups at the end
	MinutesFile   = "minutes.jsonl"    // what was counted of runs that have no row
	HoldersFile   = "holders.jsonl"    // reservations, as their holders saw them

	// WorkerFiles are the logs of workers that fetch runs, with the worker's name instead of the star.
	WorkerFiles = "worker-*.log.jsonl"
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

// Minutes are the sums of queue_minutes of one queue.
type Minutes struct {
	Queue  string `json:"queue"`
	Starts int    `json:"starts"`
	Ends   int    `json:"ends"`
}

// Holder is a reservation, as the client that asked for it saw it.
type Holder struct {
	ID       string        `json:"id"`
	Queue    string        `json:"queue"`
	Hold     time.Duration `json:"hold"`
	Asked    time.Time     `json:"asked"`
	Granted  time.Time     `json:"granted,omitzero"`  // an answer said so
	Kept     time.Time     `json:"kept,omitzero"`     // an answer said that it lasts as long at least
	Released time.Time     `json:"released,omitzero"` // it was asked for
}

// Kinds of lines of the witnesses.
const (
	RunWrite     = "run"     // of a run that is in a queue, or was
	UseWrite     = "use"     // of a limit that a run or a reservation uses
	ReserveWrite = "reserve" // of a reservation: waiting, then running
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
	Until     time.Time `json:"until,omitzero"`   // when a reservation ends by itself
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
	CancelQueue = "cancel queue" // all runs that are in it
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
	History     string   `json:"history,omitempty"`
	Delivery    string   `json:"delivery,omitempty"`
	HeartbeatMS int      `json:"heartbeat_ms,omitempty"`
}

// Limit is a limit of the workload.
type Limit struct {
	LimitID     string `json:"limit_id"`
	Keyed       bool   `json:"keyed,omitempty"`
	Ordered     bool   `json:"ordered,omitempty"`
	MaxInFlight int    `json:"max_in_flight"`
}

// Pull is the delivery of queues that workers fetch from. Only doses with such workers use them.
const Pull = "pull"

// WorkerSlots is how many runs a worker works on at once.
const WorkerSlots = 2

// OrderedQueue has the runs of an ordered limit; many of them fail at first.
const OrderedQueue = "accounts"

// OnlyFailures is the history of queues that count most successes.
const OnlyFailures = "failed"

// QueueNamed returns a queue of the workload.
func QueueNamed(id string) Queue {
	at := slices.IndexFunc(Queues, func(q Queue) bool { return q.QueueID == id })
	return Queues[at]
}

// LimitOf returns the limit of a use, such as customer=c1.
func LimitOf(use string) Limit {
	id, _, _ := strings.Cut(use, "=")
	at := slices.IndexFunc(Limits, func(l Limit) bool { return l.LimitID == id })
	return Limits[at]
}

// Queues are the queues of a dose with jobs. The first admits one run at a time.
var Queues = []Queue{
	{QueueID: "one", MaxInFlight: 1},
	{QueueID: "many", MaxInFlight: 6},
	{QueueID: "gpu-a", MaxInFlight: 10, Limits: []string{"gpu"}},
	{QueueID: "gpu-b", MaxInFlight: 10, Limits: []string{"gpu"}},
	{QueueID: "gpu-c", MaxInFlight: 1, Limits: []string{"gpu"}},
	{QueueID: "customers", MaxInFlight: 10},
	{QueueID: OrderedQueue, MaxInFlight: 8},
	{QueueID: "counted", MaxInFlight: 4, History: OnlyFailures},
	{QueueID: "pulled", MaxInFlight: 5, Delivery: Pull, HeartbeatMS: 3000},
}

// Limits are the limits of a dose with jobs.
var Limits = []Limit{
	{LimitID: "gpu", MaxInFlight: 2},
	{LimitID: "customer", Keyed: true, MaxInFlight: 1},
	{LimitID: "account", Keyed: true, Ordered: true, MaxInFlight: 1},
}
