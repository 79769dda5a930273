package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

// use says which statements a column of a run is in.
type use uint8

const (
	ofRun   use = 1 << iota // each reader of runs
	ofRow                   // readers of runs that a rule may change
	added                   // INSERT INTO open_runs
	moves                   // UPDATE of a run in flight: a rule may change it
	history                 // INSERT INTO ended_runs
)

// runColumn is a column of open_runs, ended_runs or both.
type runColumn struct {
	name        string
	in          use
	value       func(*openRow) any // a field, or what is bound of a column that no reader scans
	open, ended string             // how each table is read; "": the column itself
}

// field is a field of a run that is scanned and bound.
type field interface {
	sql.Scanner
	arg() any
}

type columns []runColumn

// runColumns are all columns of a run that statements read or write one by one.
// SELECT lists, scans, INSERTs and UPDATEs are made of it, so their orders agree.
var runColumns = columns{
	{name: "idempotency_key", in: ofRun | added | history, value: func(r *openRow) any { return (*key)(&r.Key) }},
	{name: "sid", in: ofRow | added | history, value: func(r *openRow) any { return integer[int32]{&r.SID} }},
	{name: "nth", in: ofRow | added | history, value: func(r *openRow) any { return integer[int32]{&r.Nth} }},
	{name: "schedule_id", in: ofRun, value: func(r *openRow) any { return (*text)(&r.ScheduleID) }, open: "s.schedule_id", ended: "s.schedule_id"},
	{name: "revision", in: ofRun | added | history, value: func(r *openRow) any { return integer[int64]{&r.Revision} }},
	{name: "user_id", in: ofRun, value: func(r *openRow) any { return (*text)(&r.UserID) }, open: "v.user_id", ended: "v.user_id"},
	{name: "workflow_id", in: ofRun, value: func(r *openRow) any { return (*text)(&r.WorkflowID) }, open: "v.workflow_id", ended: "v.workflow_id"},
	{name: "version", in: ofRun, value: func(r *openRow) any { return integer[int32]{&r.Version} }, open: "v.version", ended: "v.version"},
	{name: "run_at", in: ofRun | added | history, value: func(r *openRow) any { return moment{&r.RunAt} }},
	{name: "fire_at", in: ofRun | added | history, value: func(r *openRow) any { return moment{&r.FireAt} }},
	{name: "due_at", in: added, value: func(r *openRow) any { return dueAt(&r.Run) }},
	{name: "bucket", in: added | history, value: func(r *openRow) any { return int64(schedule.Bucket(r.OverlapKey)) }},
	{name: "state", in: added, value: func(r *openRow) any { return rowState(&r.Run) }},
	{name: "exclusive_flight", in: added, value: func(r *openRow) any { return ledger.EntersExclusively(&r.Run) }},
	{name: "status", in: ofRun | added | history, value: func(r *openRow) any { return (*status)(&r.Status) }},
	{name: "reason", in: ofRun | history, value: func(r *openRow) any { return (*text)(&r.Reason) }, open: "NULL"},
	{name: "trigger", in: ofRun | added | history, value: func(r *openRow) any { return (*trigger)(&r.Trigger) }},
	{name: "overlap_key", in: ofRun | added | history, value: func(r *openRow) any { return (*text)(&r.OverlapKey) }},
	{name: "policy", in: ofRun | added | history, value: func(r *openRow) any { return (*policy)(&r.OverlapPolicy) }},
	{name: "exclusive", in: ofRun, value: func(r *openRow) any { return (*flag)(&r.Exclusive) }, open: "o.policy <> 1", ended: "e.policy <> 1"},
	{name: "max_queued", in: ofRun | added | history, value: func(r *openRow) any { return integer[uint32]{&r.MaxQueued} }},
	{name: "waiting_since", in: ofRun | added, value: func(r *openRow) any { return moment{&r.WaitingSince} }, ended: "NULL"},
	{name: "attempt", in: ofRun | added | history, value: func(r *openRow) any { return integer[int32]{&r.Attempt} }},
	{name: "max_attempts", in: ofRun | added | history, value: func(r *openRow) any { return integer[int32]{&r.MaxAttempts} }},
	{name: "start_by", in: ofRun | added, value: func(r *openRow) any { return moment{&r.StartBy} }, ended: "NULL"},
	{name: "retry_of", in: ofRun | added | history, value: func(r *openRow) any { return (*key)(&r.RetryOf) }},
	{name: "snoozes", in: ofRun | added | history, value: func(r *openRow) any { return nonzero[int32]{&r.Snoozes} }},
	{name: "interruptions", in: ofRun | added | history, value: func(r *openRow) any { return nonzero[int32]{&r.Interruptions} }},
	{name: "attempts_before", in: ofRun | added, value: func(r *openRow) any { return nonzero[int32]{&r.AttemptsBefore} }, ended: "NULL"},
	{name: "deliveries", in: ofRun | added | moves | history, value: func(r *openRow) any { return integer[int32]{&r.Deliveries} }},
	{name: "input", in: ofRun | added | history, value: func(r *openRow) any { return (*raw)(&r.Input) }},
	{name: "priority", in: ofRun | added | history, value: func(r *openRow) any { return integer[int32]{&r.Priority} }},
	{name: "requested_by", in: ofRun | added | history, value: func(r *openRow) any { return (*text)(&r.RequestedBy) }},
	{name: "run_id", in: ofRun | moves | history, value: func(r *openRow) any { return (*text)(&r.RunID) }},
	{name: "trace_id", in: ofRun | added | moves | history, value: func(r *openRow) any { return (*text)(&r.TraceID) }},
	{name: "queue_no", in: ofRun | added | history, value: func(r *openRow) any { return nonzero[int32]{&r.Queue.No} }},
	{name: "queue_state", in: ofRun | added | moves, value: func(r *openRow) any { return (*queueState)(&r.Queue.State) }, ended: "NULL"},
	{name: "effective_priority", in: ofRun | added, value: func(r *openRow) any { return queued[int32]{&r.Queue.Priority, &r.Queue} }, ended: "NULL"},
	{name: "fair_key", in: ofRun | added | history, value: func(r *openRow) any { return (*text)(&r.Queue.FairKey) }},
	{name: "fair_order", in: ofRun | added, value: func(r *openRow) any { return queued[int64]{&r.Queue.FairOrder, &r.Queue} }, ended: "NULL"},
	{name: "position_key", in: ofRun | added, value: func(r *openRow) any { return queued[int64]{&r.Queue.Position, &r.Queue} }, ended: "NULL"},
	{name: "webhook", in: ofRun | added | history, value: func(r *openRow) any { return (*text)(&r.Webhook) }},
	{name: "keep_history", in: ofRun | added, value: func(r *openRow) any { return yes{&r.Queue.KeepHistory, &r.Queue} }, ended: "NULL"},
	{name: "enqueued_at", in: ofRun | added | history, value: func(r *openRow) any { return moment{&r.Queue.EnqueuedAt} }},
	{name: "limits", in: ofRun | added | history, value: func(r *openRow) any { return (*textOrEmpty)(&r.Queue.Limits) }},
	{name: "kept_limits", in: ofRun | added, value: func(r *openRow) any { return (*text)(&r.Queue.Kept) }, ended: "NULL"},
	{name: "group_no", in: ofRun | added | history, value: func(r *openRow) any { return nonzero[int32]{&r.Queue.GroupNo} }},
	{name: "group_seq", in: ofRun | added | history, value: func(r *openRow) any { return nonzero[int32]{&r.Queue.GroupSeq} }},
	{name: "admitted_as", in: ofRun | history, value: func(r *openRow) any { return (*admittance)(&r.Queue.AdmittedAs) }},
	{name: "worker_id", in: ofRun | history, value: func(r *openRow) any { return (*text)(&r.Queue.Worker) }},
	{name: "worker_slot", in: ofRun, value: func(r *openRow) any { return nonzero[int32]{&r.Queue.WorkerSlot} }, ended: "NULL"},
	{name: "epoch", in: ofRun | added | history, value: func(r *openRow) any { return integer[int64]{&r.Epoch} }},
	{name: "claimed_at", in: ofRun | history, value: func(r *openRow) any { return moment{&r.ClaimedAt} }},
	{name: "send_after", in: ofRun | moves, value: func(r *openRow) any { return moment{&r.ClaimedUntil} }, ended: "NULL"},
	{name: "cancel_requested_at", in: ofRun | history, value: func(r *openRow) any { return moment{&r.CancelRequestedAt} }},
	{name: "cancel_reason", in: ofRun | history, value: func(r *openRow) any { return (*text)(&r.CancelReason) }},
	{name: "launched_at", in: ofRun | moves | history, value: func(r *openRow) any { return moment{&r.LaunchedAt} }},
	{name: "started_at", in: ofRun | moves | history, value: func(r *openRow) any { return moment{&r.StartedAt} }},
	{name: "completed_at", in: ofRun | history, value: func(r *openRow) any { return moment{&r.CompletedAt} }, open: "NULL"},
	{name: "timeout_at", in: ofRun | moves | history, value: func(r *openRow) any { return moment{&r.TimeoutAt} }},
	{name: "deadline_at", in: ofRun | moves, value: func(r *openRow) any { return moment{&r.DeadlineAt} }, ended: "NULL"},
	{name: "error_code", in: ofRun | moves | history, value: func(r *openRow) any { return (*text)(&r.ErrorCode) }},
	{name: "error_message", in: ofRun | moves | history, value: func(r *openRow) any { return (*text)(&r.ErrorMessage) }},
	{name: "failed_attempts", in: ofRun | added | moves | history, value: func(r *openRow) any { return integer[int32]{&r.FailedAttempts} }},
	{name: "attempt_log", in: ofRow | moves | history, value: func(r *openRow) any { return (*text)(&r.AttemptLog) }},
	{name: "late_reports", in: ofRow | history, value: func(r *openRow) any { return nonzero[int64]{&r.LateReports} }},
	{name: "exit_code", in: ofRun | history, value: func(r *openRow) any { return optional{&r.ExitCode} }},
	{name: "log_url", in: ofRun | history, value: func(r *openRow) any { return (*text)(&r.LogURL) }},
	{name: "progress", in: ofRun, value: func(r *openRow) any { return (*text)(&r.Progress) }, ended: "NULL"},
	{name: "failure_class", in: ofRun | history, value: func(r *openRow) any { return (*text)(&r.FailureClass) }, open: "NULL"},
	{name: "dead", in: ofRun | history, value: func(r *openRow) any { return optionalFlag{&r.Dead} }, open: "NULL"},
	{name: "created_at", in: ofRun | added | history, value: func(r *openRow) any { return moment{&r.CreatedAt} }},
	{name: "updated_at", in: ofRun | added | moves, value: func(r *openRow) any { return moment{&r.UpdatedAt} }, ended: "e.recorded_at"},
	{name: "recorded_at", in: history, value: func(r *openRow) any { return moment{&r.UpdatedAt} }},
	{name: "first_sent_at", in: ofRow | history, value: func(r *openRow) any { return moment{&r.FirstSentAt} }},
	{name: "holder", in: ofRow | moves, value: func(r *openRow) any { return nonzero[int32]{&r.Lease.Holder} }},
	{name: "lease_until", in: ofRow | moves, value: func(r *openRow) any { return moment{&r.Lease.Until} }},
}

var (
	columnsOfRun     = runColumns.of(ofRun)
	columnsOfRow     = runColumns.of(ofRun | ofRow)
	columnsAdded     = runColumns.of(added)
	columnsThatMove  = runColumns.of(moves)
	columnsOfHistory = runColumns.of(history)

	// Each column of a row costs. A claim needs no more of a PLANNED run, and Begin no
	// more of one in flight.
	columnsOfPlanned = runColumns.named("idempotency_key", "schedule_id", "revision", "run_at", "fire_at", "status", "trigger",
		"overlap_key", "policy", "exclusive", "max_queued", "waiting_since", "attempt", "max_attempts", "start_by", "retry_of", "snoozes", "interruptions", "input",
		"priority", "trace_id", "cancel_requested_at", "cancel_reason", "created_at", "updated_at")
	columnsOfBegin = runColumns.named("idempotency_key", "schedule_id", "revision", "run_at", "status", "trigger", "start_by", "retry_of", "input", "deliveries",
		"cancel_requested_at", "cancel_reason", "run_id", "trace_id", "queue_no", "queue_state", "holder", "lease_until")
)

// What statements select: of open_runs (o, behind ofOpen) and of ended_runs (e, behind
// ofEnded).
var (
	openRunColumns  = columnsOfRun.ofOpen()
	endedRunColumns = columnsOfRun.ofEnded()
	openRowColumns  = columnsOfRow.ofOpen()
	plannedColumns  = columnsOfPlanned.ofOpen()
	beginColumns    = columnsOfBegin.ofOpen()
)

// Owner and workflow are read off the revision, not copied per run. CROSS JOIN keeps
// SQLite from beginning with the schedules.
const (
	ofOpen  = ` CROSS JOIN schedules s ON s.sid = o.sid LEFT JOIN schedule_revisions v ON v.schedule_id = s.schedule_id AND v.revision = o.revision`
	ofEnded = ` CROSS JOIN schedules s ON s.sid = e.sid LEFT JOIN schedule_revisions v ON v.schedule_id = s.schedule_id AND v.revision = e.revision`
)

func (cs columns) of(in use) columns {
	return slices.DeleteFunc(slices.Clone(cs), func(c runColumn) bool { return c.in&in == 0 })
}

func (cs columns) named(names ...string) columns {
	found := slices.DeleteFunc(slices.Clone(cs), func(c runColumn) bool { return !slices.Contains(names, c.name) })
	if len(found) != len(names) {
		panic(fmt.Sprintf("not every one of %q is a column of a run", names))
	}
	return found
}

// list joins what each column is in a statement.
func (cs columns) list(each func(*runColumn) string) string {
	all := make([]string, len(cs))
	for i := range cs {
		all[i] = each(&cs[i])
	}
	return strings.Join(all, ", ")
}

func (cs columns) names() string { return cs.list(func(c *runColumn) string { return c.name }) }

func (cs columns) ofOpen() string {
	return cs.list(func(c *runColumn) string {
		if c.open == "" {
			return "o." + c.name
		}
		return c.open
	})
}

func (cs columns) ofEnded() string {
	return cs.list(func(c *runColumn) string {
		if c.ended == "" {
			return "e." + c.name
		}
		return c.ended
	})
}

// row is a row of parameters.
func (cs columns) row() string { return "(" + cs.list(func(*runColumn) string { return "?" }) + ")" }

// assignments set each column to a parameter.
func (cs columns) assignments() string {
	return cs.list(func(c *runColumn) string { return c.name + " = ?" })
}

// targets are what a row is scanned into.
func (cs columns) targets(r *openRow) []any {
	to := make([]any, len(cs))
	for i := range cs {
		to[i] = cs[i].value(r)
	}
	return to
}

// args adds what is bound of a row.
func (cs columns) args(to []any, r *openRow) []any {
	for i := range cs {
		v := cs[i].value(r)
		if f, ok := v.(field); ok {
			v = f.arg()
		}
		to = append(to, v)
	}
	return to
}

// openRow is a run with all that the rules of package ledger need of one that is not
// over.
type openRow struct {
	schedule.Run
	Lease       schedule.KeyLease // of its key
	FirstSentAt time.Time
	SID, Nth    int32
	AttemptLog  string
	LateReports int64

	result  *schedule.RunResult // of its end; nil: none
	commit  *schedule.Commit    // of its success; nil: none
	counted bool                // it has ended without a row of history

	moved bool // a rule has changed Run
}

// readRuns collects the runs of a statement that selects openRunColumns or endedRunColumns.
func readRuns(ctx context.Context, q querier, statement string, args ...any) (runs []schedule.Run, err error) {
	err = scanRows(ctx, q, columnsOfRun, func(r *openRow) { runs = append(runs, r.Run) }, statement, args...)
	return runs, err
}

// readOpenRows collects the runs of a statement that selects openRowColumns.
func readOpenRows(ctx context.Context, q querier, statement string, args ...any) (rows []*openRow, err error) {
	err = scanRows(ctx, q, columnsOfRow, func(r *openRow) {
		row := *r
		rows = append(rows, &row)
	}, statement, args...)
	if err != nil {
		return nil, fmt.Errorf("read open runs: %w", err)
	}
	return rows, nil
}

// scanRows hands over each row of a statement that selects the columns. It is
// overwritten by the next one.
func scanRows(ctx context.Context, q querier, of columns, each func(*openRow), statement string, args ...any) error {
	var row openRow
	targets := of.targets(&row)
	return q.query(ctx, statement, func(scan scan) error {
		err := scan(targets...)
		if err == nil {
			each(&row)
		}
		return err
	}, args...)
}

// openRowsOf reads open runs by their keys. The write lock is held, so they do not change
// before the commit.
func openRowsOf(ctx context.Context, t tx, keys []schedule.Key) (map[schedule.Key]*openRow, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	rows, err := readOpenRows(ctx, t, sqlOpenRows, keyList(keys))
	byKey := make(map[schedule.Key]*openRow, len(rows))
	for _, row := range rows {
		byKey[row.Key] = row
	}
	return byKey, err
}
