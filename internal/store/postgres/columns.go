package postgres

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

// use says which statements a column of a run is in.
type use uint8

const (
	ofRun   use = 1 << iota // each reader of runs
	ofRow                   // readers of runs that a rule may change
	added                   // INSERT and COPY into open_runs
	moves                   // UPDATE of a run in flight: a rule may change it
	history                 // COPY into ended_runs
)

// runColumn is a column of open_runs, ended_runs or both. columntypes.go has one function
// for each type.
type runColumn struct {
	name        string // in open_runs, or else in ended_runs
	in          use
	sqlType     string
	open, ended string // its name in each table; "": it has none

	target func(*openRow) any      // what it is scanned into; nil: it is written only
	array  func([]*openRow) any    // what many rows bind
	copy   func(*copied, *openRow) // adds it to a row of COPY
}

type columns []runColumn

// runColumns are all columns of a run that statements read or write one by one. SELECT
// lists, scans, INSERTs, UPDATEs and COPY are made of it, so their orders agree. The
// schedule comes from a join; see scheduleOfOpen.
var runColumns = columns{
	key("idempotency_key", ofRun|ofRow|added|history, func(r *openRow) *schedule.Key { return &r.Key }),
	int4("sid", ofRow|added|history, func(r *openRow) *int32 { return &r.SID }),
	int4("nth", ofRow|added|history, func(r *openRow) *int32 { return &r.Nth }),
	int2("bucket", ofRow|added|history, func(r *openRow) *int16 { return &r.Bucket }),
	int4("revision", ofRun|ofRow|added|history, func(r *openRow) *int64 { return &r.Revision }),
	instant("run_at", ofRun|ofRow|added|history, func(r *openRow) *time.Time { return &r.RunAt }),
	instant("fire_at", ofRun|ofRow|added|history, func(r *openRow) *time.Time { return &r.FireAt }),
	computed("due_at", added, "timestamptz", func(r *openRow) pgtype.Timestamptz { return timeOr(ledger.DueAt(&r.Run), pgtype.Infinity) }, (*copied).noneOrTime),
	computed("state", added, "smallint", func(r *openRow) int16 { return int16(ledger.RowStateOf(&r.Run)) }, (*copied).int2),
	computed("exclusive_flight", added, "boolean", func(r *openRow) bool { return ledger.EntersExclusively(&r.Run) }, (*copied).boolean),
	code("status", ofRun|ofRow|added|history, func(r *openRow) *schedule.Status { return &r.Status }, schedule.StatusOf),
	text("reason", ofRun|history, func(r *openRow) *schedule.Reason { return &r.Reason }).onlyEnded(),
	code("trigger", ofRun|ofRow|added|history, func(r *openRow) *schedule.Trigger { return &r.Trigger }, schedule.TriggerOf),
	text("overlap_key", ofRun|ofRow|added|history, func(r *openRow) *string { return &r.OverlapKey }),
	code("policy", ofRun|ofRow|added|history, func(r *openRow) *schedule.OverlapPolicy { return &r.OverlapPolicy }, schedule.OverlapPolicyOf),
	int4("max_queued", ofRun|ofRow|added|history, func(r *openRow) *uint32 { return &r.MaxQueued }),
	instant("waiting_since", ofRun|ofRow|added, func(r *openRow) *time.Time { return &r.WaitingSince }).onlyOpen(),
	int4("attempt", ofRun|ofRow|added|history, func(r *openRow) *int32 { return &r.Attempt }),
	int4("max_attempts", ofRun|ofRow|added|history, func(r *openRow) *int32 { return &r.MaxAttempts }),
	instant("start_by", ofRun|ofRow|added, func(r *openRow) *time.Time { return &r.StartBy }).onlyOpen(),
	key("retry_of", ofRun|ofRow|added|history, func(r *openRow) *schedule.Key { return &r.RetryOf }),
	nonzero("snoozes", ofRun|ofRow|added|history, func(r *openRow) *int32 { return &r.Snoozes }),
	nonzero("interruptions", ofRun|ofRow|added|history, func(r *openRow) *int32 { return &r.Interruptions }),
	nonzero("attempts_before", ofRun|ofRow|added, func(r *openRow) *int32 { return &r.AttemptsBefore }).onlyOpen(),
	int4("deliveries", ofRun|ofRow|added|moves|history, func(r *openRow) *int32 { return &r.Deliveries }),
	text("input", ofRun|ofRow|added|history, func(r *openRow) *json.RawMessage { return &r.Input }),
	int4("priority", ofRun|ofRow|added|history, func(r *openRow) *int32 { return &r.Priority }),
	text("requested_by", ofRun|ofRow|added|history, func(r *openRow) *string { return &r.RequestedBy }),
	text("run_id", ofRun|ofRow|moves|history, func(r *openRow) *string { return &r.RunID }),
	text("trace_id", ofRun|ofRow|added|moves|history, func(r *openRow) *string { return &r.TraceID }),
	queued("queue_no", ofRun|ofRow|added|history, func(r *openRow) *int32 { return &r.Queue.No }),
	codeOrNone("queue_state", ofRun|ofRow|added|moves, func(r *openRow) *schedule.QueueState { return &r.Queue.State }, schedule.QueueStateOf).onlyOpen(),
	queued("effective_priority", ofRun|ofRow|added, func(r *openRow) *int32 { return &r.Queue.Priority }).onlyOpen(),
	text("fair_key", ofRun|ofRow|added|history, func(r *openRow) *string { return &r.Queue.FairKey }),
	queued("fair_order", ofRun|ofRow|added, func(r *openRow) *int64 { return &r.Queue.FairOrder }).onlyOpen(),
	queued("position_key", ofRun|ofRow|added, func(r *openRow) *int64 { return &r.Queue.Position }).onlyOpen(),
	text("webhook", ofRun|ofRow|added|history, func(r *openRow) *string { return &r.Webhook }),
	instant("enqueued_at", ofRun|ofRow|added|history, func(r *openRow) *time.Time { return &r.Queue.EnqueuedAt }),
	textOrEmpty("limits", ofRun|ofRow|added|history, func(r *openRow) *schedule.Limits { return &r.Queue.Limits }),
	text("kept_limits", ofRun|ofRow|added, func(r *openRow) *schedule.Limits { return &r.Queue.Kept }).onlyOpen(),
	nonzero("group_no", ofRun|ofRow|added|history, func(r *openRow) *int32 { return &r.Queue.GroupNo }),
	nonzero("group_seq", ofRun|ofRow|added|history, func(r *openRow) *int32 { return &r.Queue.GroupSeq }),
	yes("keep_history", ofRun|ofRow|added, func(r *openRow) *bool { return &r.Queue.KeepHistory }).onlyOpen(),
	codeOrNone("admitted_as", ofRun|ofRow|history, func(r *openRow) *schedule.Admittance { return &r.Queue.AdmittedAs }, schedule.AdmittanceOf),
	text("worker_id", ofRun|ofRow|history, func(r *openRow) *string { return &r.Queue.Worker }),
	nonzero("worker_slot", ofRun|ofRow, func(r *openRow) *int32 { return &r.Queue.WorkerSlot }).onlyOpen(),
	int8("epoch", ofRun|ofRow|added|history, func(r *openRow) *int64 { return &r.Epoch }),
	instant("claimed_at", ofRun|ofRow|history, func(r *openRow) *time.Time { return &r.ClaimedAt }),
	instant("send_after", ofRun|ofRow|moves, func(r *openRow) *time.Time { return &r.ClaimedUntil }).onlyOpen(),
	instant("cancel_requested_at", ofRun|ofRow|history, func(r *openRow) *time.Time { return &r.CancelRequestedAt }),
	text("cancel_reason", ofRun|ofRow|history, func(r *openRow) *schedule.Reason { return &r.CancelReason }),
	instant("launched_at", ofRun|ofRow|moves|history, func(r *openRow) *time.Time { return &r.LaunchedAt }),
	instant("started_at", ofRun|ofRow|moves|history, func(r *openRow) *time.Time { return &r.StartedAt }),
	instant("completed_at", ofRun|history, func(r *openRow) *time.Time { return &r.CompletedAt }).onlyEnded(),
	instant("timeout_at", ofRun|ofRow|moves|history, func(r *openRow) *time.Time { return &r.TimeoutAt }),
	instant("deadline_at", ofRun|ofRow|moves, func(r *openRow) *time.Time { return &r.DeadlineAt }).onlyOpen(),
	text("error_code", ofRun|ofRow|moves|history, func(r *openRow) *string { return &r.ErrorCode }),
	text("error_message", ofRun|ofRow|moves|history, func(r *openRow) *string { return &r.ErrorMessage }),
	int4("failed_attempts", ofRun|ofRow|added|moves|history, func(r *openRow) *int32 { return &r.FailedAttempts }),
	document("attempt_log", ofRow|moves|history, func(r *openRow) *string { return &r.AttemptLog }),
	nonzero("late_reports", ofRow|history, func(r *openRow) *int32 { return &r.LateReports }),
	optional("exit_code", ofRun|ofRow|history, func(r *openRow) **int32 { return &r.ExitCode }),
	text("log_url", ofRun|ofRow|history, func(r *openRow) *string { return &r.LogURL }),
	text("progress", ofRun|ofRow, func(r *openRow) *schedule.Progress { return &r.Progress }).onlyOpen(),
	text("failure_class", ofRun|history, func(r *openRow) *schedule.FailureClass { return &r.FailureClass }).onlyEnded(),
	flag("dead", ofRun|history, func(r *openRow) **bool { return &r.Dead }).onlyEnded(),
	instant("created_at", ofRun|ofRow|added|history, func(r *openRow) *time.Time { return &r.CreatedAt }),
	instant("updated_at", ofRun|ofRow|added|moves|history, func(r *openRow) *time.Time { return &r.UpdatedAt }).endedAs("recorded_at"),
	instant("first_sent_at", ofRow|history, func(r *openRow) *time.Time { return &r.FirstSentAt }),
	nonzero("holder", ofRow|moves, func(r *openRow) *int32 { return &r.Lease.Holder }),
	instant("lease_until", ofRow|moves, func(r *openRow) *time.Time { return &r.Lease.Until }),
}

var (
	columnsOfRun     = runColumns.of(ofRun)
	columnsOfRow     = runColumns.of(ofRow)
	columnsAdded     = runColumns.of(added)
	columnsThatMove  = runColumns.of(moves)
	columnsOfHistory = runColumns.of(history)

	// What a claim does not know of a planned run, and what Begin reads: each column of a
	// row costs.
	columnsOfPlanned = runColumns.named("idempotency_key", "revision", "run_at", "fire_at", "trigger", "overlap_key", "policy", "max_queued",
		"attempt", "max_attempts", "start_by", "retry_of", "snoozes", "interruptions", "deliveries", "input", "priority", "trace_id", "failed_attempts", "timeout_at", "created_at")
	columnsOfBegin = runColumns.named("idempotency_key", "sid", "revision", "run_at", "status", "trigger", "start_by", "retry_of", "input", "deliveries",
		"cancel_requested_at", "cancel_reason", "run_id", "trace_id", "queue_no", "queue_state", "holder", "lease_until")
)

// What statements select. The schedule comes first, the columns of the revision come last.
var (
	openColumns    = ` ` + scheduleOfOpen + `, ` + openFieldsOf("o")
	endedColumns   = ` s.schedule_id, ` + endedFieldsOf("e")
	rowColumns     = ` ` + columnsOfRow.list(func(c *runColumn) string { return c.read("o", c.open) })
	plannedColumns = ` ` + columnsOfPlanned.list(func(c *runColumn) string { return c.read("o", c.open) })
	beginColumns   = ` ` + columnsOfBegin.list(func(c *runColumn) string { return c.read("o", c.open) })

	// openFields and endedFields are both tables in one shape, which lists merge.
	openFields  = `r.sid, ` + openFieldsOf("r")
	endedFields = `r.sid, ` + endedFieldsOf("r")
	listColumns = ` s.schedule_id, ` + columnsOfRun.list(func(c *runColumn) string { return "r." + c.name }) + ownerColumns
)

const (
	// scheduleOfOpen is a subquery, not a join: a plan that was made while schedules were
	// few would read all of them, and the open runs of each.
	scheduleOfOpen = `(SELECT s.schedule_id FROM schedules s WHERE s.sid = o.sid)`

	// ownerColumns are of the revision. Hot statements leave them out: the cached
	// definition has them.
	ownerColumns = `, d.user_id, d.workflow_id, d.version`

	fromOpen = `
FROM open_runs o`
	joinOpenRevision = `
LEFT JOIN schedule_revisions d ON d.schedule_id = ` + scheduleOfOpen + ` AND d.revision = o.revision`

	fromEnded = `
FROM ended_runs e JOIN schedules s ON s.sid = e.sid`
	joinEndedRevision = `
LEFT JOIN schedule_revisions d ON d.schedule_id = s.schedule_id AND d.revision = e.revision`
)

func openFieldsOf(table string) string {
	return columnsOfRun.list(func(c *runColumn) string { return c.read(table, c.open) })
}

func endedFieldsOf(table string) string {
	return columnsOfRun.list(func(c *runColumn) string { return c.read(table, c.ended) })
}

// read is the column in a SELECT list, under its name.
func (c *runColumn) read(table, column string) string {
	value := table + "." + column
	switch {
	case column == "":
		value = "NULL::" + c.sqlType
	case c.sqlType == "jsonb":
		value += "::text"
	}
	return value + " AS " + c.name
}

func (c runColumn) onlyOpen() runColumn  { c.ended = ""; return c }
func (c runColumn) onlyEnded() runColumn { c.open = ""; return c }

func (c runColumn) endedAs(name string) runColumn { c.ended = name; return c }

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

// unnest makes a row of each element of the arrays that follow the first $parameters.
func (cs columns) unnest(parameters int) string {
	n := parameters
	return `unnest(` + cs.list(func(c *runColumn) string {
		n++
		// The arrays of jsonb are of text, which assign converts.
		return fmt.Sprintf("$%d::%s[]", n, strings.Replace(c.sqlType, "jsonb", "text", 1))
	}) + `) AS u(` + cs.names() + `)`
}

// assign sets each column to that of u.
func (cs columns) assign() string {
	return cs.list(func(c *runColumn) string {
		value := c.name + " = u." + c.name
		if c.sqlType == "jsonb" {
			value += "::jsonb"
		}
		return value
	})
}

// targets are what a row is scanned into.
func (cs columns) targets(r *openRow) []any {
	to := make([]any, len(cs))
	for i := range cs {
		to[i] = cs[i].target(r)
	}
	return to
}

// arrays adds the arguments of unnest.
func (cs columns) arrays(args []any, rows []*openRow) []any {
	for i := range cs {
		args = append(args, cs[i].array(rows))
	}
	return args
}

// copied adds a row to a COPY of the columns.
func (cs columns) copied(c *copied, r *openRow) {
	c.row(len(cs))
	for i := range cs {
		cs[i].copy(c, r)
	}
}
