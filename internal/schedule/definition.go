package schedule

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"time"
)

// Definition is the specification of a schedule with every default resolved. It is immutable once
// stored: a change makes a new revision. The JSON form is stored in schedule_revisions.
type Definition struct {
	ScheduleID string `json:"schedule_id"`
	WorkflowID string `json:"workflow_id"`
	Version    int32  `json:"version"`
	UserID     string `json:"user_id"` // the owner

	// At most one of the three; none means manual only.
	CronExpr   string    `json:"cron_expr,omitempty"`
	IntervalMS uint32    `json:"interval_ms,omitempty"` // a multiple of 1000
	OnceAt     time.Time `json:"once_at,omitzero"`      // whole seconds

	Timezone string    `json:"timezone"`          // IANA name; only cron reads it
	StartAt  time.Time `json:"start_at,omitzero"` // inclusive
	EndAt    time.Time `json:"end_at,omitzero"`   // inclusive
	DST      DST       `json:"dst"`
	JitterMS uint32    `json:"jitter_ms"`

	OverlapPolicy   OverlapPolicy `json:"overlap_policy"`
	OverlapKey      string        `json:"overlap_key"` // default: the schedule's id
	MaxQueued       uint32        `json:"max_queued"`
	CatchupPolicy   CatchupPolicy `json:"catchup_policy"`
	CatchupWindowMS uint32        `json:"catchup_window_ms"`
	RunTimeoutMS    uint32        `json:"run_timeout_ms"`
	LaunchTimeoutMS uint32        `json:"launch_timeout_ms,omitempty"` // 0: LAUNCH_RETRY_FOR_MS
	Priority        int32         `json:"priority"`                    // higher first

	Input            json.RawMessage   `json:"input,omitempty"` // raw JSON, as sent
	ExecutionGrantID string            `json:"execution_grant_id,omitempty"`
	Labels           map[string]string `json:"labels,omitempty"`
	ManagedBy        string            `json:"managed_by,omitempty"` // the deployment or file set that owns it
	Expect           Expect            `json:"expect,omitzero"`      // expectations; an alert opens when one is not met
	Retry            RetryPolicy       `json:"retry,omitzero"`       // automatic retries

	QueueID string   `json:"queue_id,omitempty"` // the dispatch queue of its runs; empty: they are launched at fire_at
	Limits  []string `json:"limits,omitempty"`   // with a queue: what each run uses besides the limits of the queue, as LimitRef has them
	FairKey string   `json:"fair_key,omitempty"` // with a queue: what its runs count for in a fair one; empty: the owner
	Group   string   `json:"group,omitempty"`    // with a queue: the runs of one instant of all schedules with this name end together; see SlotGroup
	Webhook string   `json:"webhook,omitempty"`  // the target of the messages about its runs; empty: with a queue the queue's, else nobody is told

	MaxRunMS  uint32 `json:"max_run_ms,omitempty"` // a run fails so long after its acceptance; 0: it may take any time
	ExpiresMS uint32 `json:"expires_ms,omitempty"` // with a queue: a run that waits there for so long ends; 0: that of the queue

	Consume Consume `json:"consume,omitzero"` // events that start runs
}

// Equal reports whether two definitions are the same, so that deploying one again writes nothing.
func (d *Definition) Equal(o *Definition) bool {
	return d.ScheduleID == o.ScheduleID && d.WorkflowID == o.WorkflowID && d.Version == o.Version && d.UserID == o.UserID &&
		d.CronExpr == o.CronExpr && d.IntervalMS == o.IntervalMS && d.OnceAt.Equal(o.OnceAt) &&
		d.Timezone == o.Timezone && d.StartAt.Equal(o.StartAt) && d.EndAt.Equal(o.EndAt) &&
		d.DST == o.DST && d.JitterMS == o.JitterMS &&
		d.OverlapPolicy == o.OverlapPolicy && d.OverlapKey == o.OverlapKey && d.MaxQueued == o.MaxQueued &&
		d.CatchupPolicy == o.CatchupPolicy && d.CatchupWindowMS == o.CatchupWindowMS &&
		d.RunTimeoutMS == o.RunTimeoutMS && d.LaunchTimeoutMS == o.LaunchTimeoutMS && d.Priority == o.Priority &&
		bytes.Equal(d.Input, o.Input) && d.ExecutionGrantID == o.ExecutionGrantID &&
		maps.Equal(d.Labels, o.Labels) && d.ManagedBy == o.ManagedBy && d.Expect == o.Expect && d.Retry == o.Retry &&
		d.QueueID == o.QueueID && slices.Equal(d.Limits, o.Limits) && d.FairKey == o.FairKey && d.Group == o.Group && d.Webhook == o.Webhook &&
		d.MaxRunMS == o.MaxRunMS && d.ExpiresMS == o.ExpiresMS &&
		d.Consume.Equal(&o.Consume)
}

// Jitter, RunTimeout and CatchupWindow are the millisecond fields as durations.
func (d *Definition) Jitter() time.Duration { return millis(d.JitterMS) }

// RunTimeout is how long a run may go without a heartbeat or report.
func (d *Definition) RunTimeout() time.Duration { return millis(d.RunTimeoutMS) }

// LaunchTimeout is how long after its fire time a run may take to be accepted;
// 0: LAUNCH_RETRY_FOR_MS.
func (d *Definition) LaunchTimeout() time.Duration { return millis(d.LaunchTimeoutMS) }

// CatchupWindow is how old a missed slot may be and still be caught up.
func (d *Definition) CatchupWindow() time.Duration { return millis(d.CatchupWindowMS) }

// Interval is the distance of an interval schedule's slots.
func (d *Definition) Interval() time.Duration { return millis(d.IntervalMS) }

// QualifiedOverlapKey is "user_id/overlap_key": what locks, the in-flight
// index, the shard hash and rows use, so that owners cannot block each other.
func (d *Definition) QualifiedOverlapKey() string { return d.UserID + "/" + d.OverlapKey }

func millis(ms uint32) time.Duration { return time.Duration(ms) * time.Millisecond }

// RunsSame reports whether two definitions run the same version of a workflow.
func (d *Definition) RunsSame(o *Definition) bool {
	return d.WorkflowID == o.WorkflowID && d.Version == o.Version
}
