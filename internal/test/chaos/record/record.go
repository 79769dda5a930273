// Package record is what a run of the chaos rig leaves behind: JSON lines that
// the executor, the people who work with the deployment, and the rig write while
// it goes on, and the dump of the database at its end. The checker reads nothing
// else.
//
// It takes no step in a slot's life.
package record

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// The files of one run, in its folder.
const (
	SettingsFile = "settings.json"
	ExecutorFile = "executor.jsonl"
	JournalFile  = "journal.jsonl"
	FaultsFile   = "faults.jsonl"
	RunsFile     = "runs.jsonl"
	EventsFile   = "events.jsonl"
	WritesFile   = "writes.jsonl"
	TermsFile    = "terms.jsonl"
	// RevisionsFile are the revisions that the database keeps of each schedule.
	RevisionsFile = "revisions.jsonl"
	FailingFile   = "failing.jsonl"
	ReignsFile    = "leader_terms.jsonl"
	TwiceFile     = "twice.jsonl"
	LogsFolder    = "logs"
)

// Faults of the executor.
const (
	ExecutorDown   = "executor down"   // refuses connections
	ExecutorBroken = "executor broken" // answers 500 with HTML
	ExecutorHung   = "executor hung"   // takes requests and does not answer
)

// Countable are the faults in which a call is either made or not: the killed process
// may have counted one that it did not make.
var Countable = []string{ExecutorDown, ExecutorBroken, ExecutorHung, "kill", "kill at a failpoint", "killed launcher"}

// LosesLeases are the faults in which a process that lives can lose its keys to another:
// it stands still, has no database, or has lost its presence lock.
var LosesLeases = []string{
	"stop", "stop at a failpoint", "stopped launcher", "stopped pull worker", "black hole to store", "reset connections", "slow store",
	"terminated session", "terminated sessions", "lost presence", "crash of a backend", "restart of Postgres",
}

// Twice is a run that the view had twice.
type Twice struct {
	At  time.Time `json:"at"`
	Key string    `json:"key"`
}

// Settings are what the checker must know of how the product was set up.
type Settings struct {
	Seed        uint64        `json:"seed"`
	Dose        string        `json:"dose"`
	Store       string        `json:"store"`
	Lock        string        `json:"lock"`
	Queue       string        `json:"queue"`
	Workers     int           `json:"workers"`
	Grace       time.Duration `json:"grace"`
	RunTimeout  time.Duration `json:"run_timeout"`
	LeaderTTL   time.Duration `json:"leader_ttl"`
	MaxCatchup  int           `json:"max_catchup"`
	Tick        time.Duration `json:"tick"`
	Lookahead   time.Duration `json:"lookahead"`
	Shards      int           `json:"shards"` // 0 means one
	CancelWait  time.Duration `json:"cancel_wait"`
	CallTimeout time.Duration `json:"call_timeout"`
	Jobs        bool          `json:"jobs,omitempty"` // people also put runs into dispatch queues
}

// Kinds of lines in the executor's log.
const (
	Call   = "call"   // a request came in
	Begin  = "begin"  // its effect begins: once per key, however often it is sent
	End    = "end"    // its work is over
	Said   = "said"   // the first definite word on its end leaves for the product
	Refuse = "refuse" // it will never run, and that is said
	Cancel = "cancel" // it has no effect from now on, and that is said
	Closed = "closed" // the caller of a request has its answer, or is gone
	Wrong  = "wrong"  // the executor saw something that breaks the contract
)

// Executor is a line of the executor's log. Calls carry the request.
type Executor struct {
	At           time.Time `json:"at"`
	Kind         string    `json:"kind"`
	Key          string    `json:"key,omitempty"`
	Number       int       `json:"number,omitempty"` // of the key's calls, from 1
	ScheduleID   string    `json:"schedule_id,omitempty"`
	ScheduledFor time.Time `json:"scheduled_for,omitzero"`
	Trigger      string    `json:"trigger,omitempty"`
	Epoch        int64     `json:"epoch,omitempty"`
	Body         string    `json:"body,omitempty"` // hash of all that a redelivery must repeat
	Status       string    `json:"status,omitempty"`
	Text         string    `json:"text,omitempty"`
	Queue        string    `json:"queue,omitempty"`  // of a run in a dispatch queue
	Input        int       `json:"input,omitempty"`  // what such a run was given
	Worker       string    `json:"worker,omitempty"` // that fetched it
	Via          string    `json:"via,omitempty"`    // ByGRPC; empty: HTTP
}

// ByGRPC marks calls by gRPC.
const ByGRPC = "grpc"

// Definition is what the workload registers.
type Definition struct {
	ScheduleID    string    `json:"schedule_id"`
	WorkflowID    string    `json:"workflow_id"`
	Version       int       `json:"version"`
	UserID        string    `json:"user_id"`
	CronExpr      string    `json:"cron_expr,omitzero"`
	IntervalMS    int       `json:"interval_ms,omitzero"`
	OnceAt        time.Time `json:"once_at,omitzero"`
	Timezone      string    `json:"timezone,omitzero"`
	StartAt       time.Time `json:"start_at,omitzero"`
	EndAt         time.Time `json:"end_at,omitzero"`
	JitterMS      int       `json:"jitter_ms,omitzero"`
	OverlapPolicy string    `json:"overlap_policy,omitzero"`
	OverlapKey    string    `json:"overlap_key,omitzero"`
	MaxQueued     int       `json:"max_queued,omitzero"`
	CatchupPolicy string    `json:"catchup_policy,omitzero"`
	RunTimeoutMS  int       `json:"run_timeout_ms,omitzero"`
	Input         any       `json:"input,omitzero"`
}

// Verbs of the journal.
const (
	Upsert  = "upsert"
	Pause   = "pause"
	Resume  = "resume"
	Delete  = "delete"
	Trigger = "trigger"
)

// Act is one call of the API that was answered 200: the change took place some
// time between the first request and the answer. A repeated one may also have
// been refused, which the checker minds.
type Act struct {
	Verb       string      `json:"verb"`
	ScheduleID string      `json:"schedule_id"`
	Asked      time.Time   `json:"asked"`
	Answered   time.Time   `json:"answered"`
	Definition *Definition `json:"definition,omitempty"` // of an upsert
	Same       bool        `json:"same,omitempty"`       // it repeats an earlier call word by word
	Revision   int         `json:"revision,omitempty"`   // as answered to an upsert
	CreatedAt  time.Time   `json:"created_at,omitzero"`  // as answered to an upsert
	Until      time.Time   `json:"until,omitzero"`       // of a pause that ends by itself
	Key        string      `json:"key,omitempty"`        // of the run of a trigger
	RequestID  string      `json:"request_id,omitempty"` // where one was sent
	Was        *ShownState `json:"was,omitempty"`        // just before a repetition
	Is         *ShownState `json:"is,omitempty"`         // and just after it
	Refused    string      `json:"refused,omitempty"`    // the answer to a repetition, if it was not 200
}

// ShownState is a schedule as the API showed it.
type ShownState struct {
	Revision  int       `json:"revision"`
	UpdatedAt time.Time `json:"updated_at"`
}

// Kinds of lines in the fault timeline, in addition to the names of faults.
const (
	Clock   = "clock"   // how far the wall clock was set against the monotonic one
	Stopped = "stopped" // the workload ended: nothing new is due from here on
)

// Fault is one fault, or another thing that happened to the machine.
type Fault struct {
	Kind   string    `json:"kind"`
	Target string    `json:"target,omitempty"`
	Point  string    `json:"point,omitempty"` // the failpoint that was reached
	Leader bool      `json:"leader,omitempty"`
	Began  time.Time `json:"began"`            // it struck
	Ended  time.Time `json:"ended,omitzero"`   // what is broken works again
	Calm   time.Time `json:"calm,omitzero"`    // slots flow again; the next fault comes after it
	Epoch  int64     `json:"epoch,omitempty"`  // the greatest one when it struck
	Shards []int     `json:"shards,omitempty"` // that the target led

	Rose  time.Duration `json:"rose,omitempty"`  // clock: the most that it went ahead
	Fell  time.Duration `json:"fell,omitempty"`  // clock: and back
	Stall time.Duration `json:"stall,omitempty"` // clock: the longest that the machine kept us waiting for our turn
}

// Run is a row of the ledger.
type Run struct {
	Key          string    `json:"key"`
	ScheduleID   string    `json:"schedule_id"`
	Revision     int       `json:"revision"`
	RunAt        time.Time `json:"run_at"`
	FireAt       time.Time `json:"fire_at"`
	Status       string    `json:"status"`
	Reason       string    `json:"reason,omitempty"`
	Trigger      string    `json:"trigger"`
	OverlapKey   string    `json:"overlap_key"`
	Overlap      string    `json:"overlap_policy"`
	Deliveries   int       `json:"deliveries"`
	Epoch        int64     `json:"epoch"`
	Bucket       int       `json:"bucket"`
	WaitingSince time.Time `json:"waiting_since,omitzero"`
	CreatedAt    time.Time `json:"created_at"`
	LaunchedAt   time.Time `json:"launched_at,omitzero"`
	StartedAt    time.Time `json:"started_at,omitzero"`
	CompletedAt  time.Time `json:"completed_at,omitzero"`
	CancelAsked  time.Time `json:"cancel_requested_at,omitzero"`
}

// Revision is a definition that the database keeps.
type Revision struct {
	ScheduleID string    `json:"schedule_id"`
	Revision   int       `json:"revision"`
	CreatedAt  time.Time `json:"created_at"`
}

// Event is an entry of a schedule's log.
type Event struct {
	ID         int64     `json:"event_id"`
	ScheduleID string    `json:"schedule_id"`
	Time       time.Time `json:"time"`
	Kind       string    `json:"kind"`
	From       time.Time `json:"from,omitzero"`
	To         time.Time `json:"to,omitzero"`
	Count      int64     `json:"count,omitempty"`
}

// Write is one write of a run's row, as a trigger of the database saw it.
type Write struct {
	Seq     int64     `json:"seq"`
	At      time.Time `json:"at"`
	Writer  string    `json:"writer"` // application name of the connection
	Key     string    `json:"key"`
	Trigger string    `json:"trigger"`
	Before  string    `json:"before,omitempty"` // status; empty when the row is new
	After   string    `json:"after,omitempty"`  // empty when it was deleted
	Epoch   int64     `json:"epoch"`            // the row's
	Holder  string    `json:"holder,omitempty"` // who had begun the newest epoch of the row's shard, as this transaction saw it
	Leader  int64     `json:"leader"`           // and that epoch

	ScheduleID string `json:"schedule_id,omitempty"`
	Bucket     int    `json:"bucket"` // of the row

	Committed time.Time `json:"committed,omitzero"` // the transaction; zero on SQLite, which has one writer
}

// Failing says whether the product shows a schedule as failing.
type Failing struct {
	ScheduleID string    `json:"schedule_id"`
	CreatedAt  time.Time `json:"created_at"`
	Failing    bool      `json:"failing"`
}

// Reign is a row of leader_terms.
type Reign struct {
	Shard     int       `json:"shard"`
	Epoch     int64     `json:"epoch"`
	StartedAt time.Time `json:"started_at"`
	EndedAt   time.Time `json:"ended_at,omitzero"`
}

// Term is one rise of the epoch, as a trigger of the database saw it.
type Term struct {
	Seq    int64     `json:"seq"`
	At     time.Time `json:"at"`
	Shard  int       `json:"shard"`
	Holder string    `json:"holder"`
	Epoch  int64     `json:"epoch"`
	Before int64     `json:"before"`
	Writer string    `json:"writer"`
}

// Read reads a file of JSON lines. One that does not exist has no lines; a last
// line without an end was cut off by a kill and does not count.
func Read[T any](folder, name string) ([]T, error) {
	file, err := os.Open(filepath.Join(folder, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var all []T
	for lines := bufio.NewReader(file); ; {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", name, err)
		}
		var one T
		if err := json.Unmarshal(line, &one); err != nil {
			return nil, fmt.Errorf("read %s, line %d: %w", name, len(all)+1, err)
		}
		all = append(all, one)
	}
}
