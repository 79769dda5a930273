package registrar

import (
	"encoding/json"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// UpsertInput is a definition as a user sends it. Unset fields take defaults; numbers with a
// meaningful zero are pointers.
type UpsertInput struct {
	Definition      schedule.Definition
	JitterMS        *uint32
	MaxQueued       *uint32
	CatchupWindowMS *uint32
	RunTimeoutMS    *uint32
	Priority        *int32
	Paused          *bool // nil keeps the stored state
	// Grant, if set, is created with the schedule or not at all, and is the one
	// that it names. Its owner is the schedule's.
	Grant *GrantInput
	// Adopt takes over a schedule that has another manager. omitempty: the hash
	// of a deploy covers this struct, and must not change for deploys of an
	// earlier version.
	Adopt bool `json:",omitempty"`
	// IfRevision refuses the upsert with schedule.ErrStale unless the schedule
	// exists and has this revision; 0: any.
	IfRevision int64 `json:"-"` // not part of the hash of a deploy
	RequestID  string
	Actor      string
}

// UpsertResult is the result of an upsert.
type UpsertResult struct {
	Schedule  *schedule.Schedule
	NextRunAt time.Time // next slot after now; zero when paused or exhausted
	Created   bool
	Changed   bool // a new revision was made
	// Warning is for the caller of a single upsert that succeeded; mostly empty.
	Warning string
}

// View is a schedule with the values derived from it now.
type View struct {
	Schedule  *schedule.Schedule
	NextRunAt time.Time // next slot after now; zero when paused or exhausted
	Paused    bool      // now
	Recent    schedule.Recent
}

// Fire is one moment at which a schedule fires.
type Fire struct {
	RunAt  time.Time
	FireAt time.Time // RunAt with its jitter
	Local  string    // RunAt in the schedule's zone, with its offset
	Note   string    // effect of daylight saving; usually empty
}

// GetResult is a schedule with its next fires.
type GetResult struct {
	View
	Preview []Fire
}

// GrantInput is a grant as a user sends it.
type GrantInput struct {
	GrantID           string // empty: derived, so that the same request finds the same grant
	UserID            string
	BillingAccountID  string
	Scopes            []string
	AllowAllWorkflows bool      // required by the scope graph:execute:*
	ExpiresAt         time.Time // zero: no end
	RequestID         string
	Actor             string
}

// RevokeInput revokes a grant.
type RevokeInput struct {
	Grant schedule.GrantRef // see GetGrant
	Note  string
	Actor string
}

// PauseInput pauses a schedule.
type PauseInput struct {
	ScheduleID string
	Note       string
	Until      time.Time // zero: until resumed
	Actor      string
	KeepPaused bool // a schedule that is paused already keeps its note and end
	EndQueued  bool // its runs that wait in queues end too
}

// Paused is a paused schedule.
type Paused struct {
	View
	Queued int // its runs that wait in queues, at most 1000 are counted
	Ended  int // its runs that waited in queues
}

// ResumeInput ends a pause.
type ResumeInput struct {
	ScheduleID string
	Note       string
	Actor      string
}

// TriggerInput requests one manual run.
type TriggerInput struct {
	ScheduleID    string
	RequestID     string                 // empty: generated
	Input         json.RawMessage        // nil: the schedule's
	OverlapPolicy schedule.OverlapPolicy // empty: the schedule's
	Actor         string
}

// PreviewInput requests fires: of the rule in Spec, which may be unsaved and lack owner and
// workflow (its jitter depends on ScheduleID), or of the saved schedule ScheduleID if Spec is nil.
type PreviewInput struct {
	ScheduleID string
	Spec       *UpsertInput
	From       time.Time // run_at not before; zero: after now
	To         time.Time // run_at before; zero: no end
	Count      int
}

// DeployInput is a workflow version with the schedules of its DAG, stored all or nothing. Ids,
// owner and managed_by of Triggers are filled in; violations of the i-th are named Fields[i] +
// field.
type DeployInput struct {
	WorkflowID string
	Version    int32
	UserID     string
	DAG        json.RawMessage
	Triggers   []UpsertInput
	Fields     []string // e.g. "dag.triggers[2].", one for each of Triggers
	Adopt      bool     // also schedules of another deployment or a set
	RequestID  string   // empty: a repeat is a new deploy
	Actor      string
}

// ReportInput is an executor's report on a run.
type ReportInput struct {
	Key          schedule.Key
	Status       schedule.Status // STARTED, SUCCESS, FAILED or SNOOZE
	RunID        string
	ErrorCode    string
	ErrorMessage string
	FailureClass schedule.FailureClass // of FAILED; "": by the reason
	DelayMS      int64                 // of SNOOZE
	Output       string                // output so far, or its end
	ExitCode     *int32
	LogURL       string
	Result       *schedule.RunResult      // of an end; nil: none
	Commit       *schedule.Commit         // of a success; nil: none
	Progress     *schedule.ProgressValues // of STARTED; nil: not said
	Token        string                   // as sent; empty: none
	byToken      bool                     // Token was shown, and is the run's
	outputCut    int                      // bytes that were cut from the front of Output
}

// CancelInput cancels a run.
type CancelInput struct {
	Key   schedule.Key
	Note  string
	Actor string
}

// CancelRunsInput cancels the open runs of a filter, or one page of them.
type CancelRunsInput struct {
	Filter  schedule.RunFilter
	Waiting bool // only runs that wait in a dispatch queue
	Note    string
	DryRun  bool
	Page    CancelPlace
	Actor   string
}

// CancelPlace is where a cancel of many runs continues. The zero value is its begin.
type CancelPlace struct {
	RunAt time.Time
	Key   schedule.Key
}

// CancelledRuns is what one page of a cancel has done, or with DryRun would do.
type CancelledRuns struct {
	Cancelled int // ended
	Requested int // in flight: the executor is asked
	Schedules []CancelledSchedule
	Sample    []schedule.Run // the first of them, as they were
	Next      *CancelPlace   // nil: none is left
}

// CancelledSchedule is how many runs of one schedule were cancelled.
type CancelledSchedule struct {
	ScheduleID           string
	Cancelled, Requested int
}

// RetryInput requests a new attempt of an ended run.
type RetryInput struct {
	Key           schedule.Key
	RequestID     string                 // empty: generated
	OverlapPolicy schedule.OverlapPolicy // empty: the schedule's
	Renew         bool                   // give it automatic retries
	Actor         string
}

// RedriveInput asks for a redrive of dead runs, or of one page of them.
type RedriveInput struct {
	Filter        schedule.RunFilter
	All           bool // an empty filter is meant
	Renew         bool
	RatePerMinute uint32
	DryRun        bool
	RequestID     string // empty: generated
	Page          RedrivePlace
	Actor         string
}

// RedrivePlace is where a redrive continues. The zero value is its begin.
type RedrivePlace struct {
	Began     time.Time
	Before    int // runs that the pages before have redriven
	RunAt     time.Time
	Key       schedule.Key
	RequestID string
}

// RedriveResult is what one page of a redrive has done.
type RedriveResult struct {
	Redriven  int // new runs, or with DryRun the runs that would be redriven
	Left      int // stay dead: their schedule is deleted
	Schedules []RedrivenSchedule
	Sample    []schedule.Run // the first new runs, or with DryRun the first dead ones
	RequestID string
	Next      *RedrivePlace // nil: none is left
}

// RedrivenSchedule is how many runs of one schedule were redriven.
type RedrivenSchedule struct {
	ScheduleID string
	Runs       int
}
