// Package tables reads and writes the tables that hold no runs: alerts and their messages,
// backfills, grants, workflows, logs, terms. Postgres and SQLite need the same Go for them
// and have their own SQL. A store embeds a Tables and gives it a Dialect.
package tables

import (
	"context"
	"math"
	"time"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

// Queries runs statements, in a transaction or outside of one.
//
// Arguments and targets are Go's types; a Dialect has no others. A zero time, a zero key,
// a nil slice and nil are NULL; NULL is scanned as the zero value.
type Queries interface {
	// Each calls visit for each row, scanned into targets. bad says that a column holds
	// what its target cannot.
	Each(ctx context.Context, statement string, targets []any, visit func(bad error) error, args ...any) error
	// Exec returns how many rows a statement has changed.
	Exec(ctx context.Context, statement string, args ...any) (int, error)
	// ExecAll runs statements in one round trip where the database allows it.
	ExecAll(ctx context.Context, calls []Call) error
}

// Call is a statement with its arguments.
type Call struct {
	Statement string
	Args      []any
}

// Rows are arguments of many rows, one slice for each column.
type Rows []any

// Dialect is the SQL of a database.
type Dialect struct {
	Statements

	// Lists whose statements depend on the filter: SQLite finds an index only for the
	// conditions that it sees.
	ListAlerts     func(*schedule.AlertFilter) Call
	ListDeliveries func(*schedule.DeliveryFilter) Call
	ListAudit      func(*schedule.AuditFilter) Call
	ListBackfills  func(*schedule.BackfillFilter) Call
	ListTerms      func(*schedule.TermFilter) Call
	WindowTerms    func(*schedule.TermWindow) Call
	InsertAudit    func(context.Context, Queries, []schedule.AuditEntry) error
	InsertQueued   func(context.Context, Queries, []schedule.Run, time.Time) error
	// LockOpen reads the open runs among some, and keeps others from them.
	LockOpen func(context.Context, Queries, []schedule.Key) (map[schedule.Key]*schedule.Run, error)
	// WriteQueued writes what may change of a run that waits in a queue, and counts the rows: none if
	// it was admitted.
	WriteQueued func(context.Context, Queries, *schedule.Run) (int, error)
	// CancelMembers cancels open members of a group as the step says, without those that others have
	// locked, and counts them. It does not settle the group.
	CancelMembers func(context.Context, Queries, ledger.MemberStep, time.Time) (int, error)
	// InsertPlanned inserts planned runs whose keys are new, notes them for their leader, and counts them.
	InsertPlanned func(context.Context, Queries, []schedule.Run, time.Time) (int, error)
	// NoteWoken notes for their leaders that consumers have a wake row, and wakes these after the commit.
	NoteWoken func(context.Context, Queries, []WokenConsumer) error
	// WakeQueues wakes those who admit runs, after the commit. placed are runs that may wait before
	// others from now on.
	WakeQueues  func(q Queries, placed ...*schedule.Run)
	NoticesLock []Call // keeps evaluations and groupings of alerts apart
	GroupsLock  []Call
}

// Tables are the methods of a store for tables that hold no runs.
type Tables struct {
	dialect *Dialect
	read    Queries
	write   func(context.Context, func(context.Context, Queries) error) error
}

// New returns the tables of a database. write runs a function in a transaction, and may
// run it again.
func New(d *Dialect, read Queries, write func(context.Context, func(context.Context, Queries) error) error) *Tables {
	return &Tables{dialect: d, read: read, write: write}
}

// Statements are named after the methods that run them.
type Statements struct {
	AlertsByID, DueOfTarget, DueOfOthers, DeliveriesByID, CheckGroup, ExpectationsOf, GetBackfill string
	BackfillCounts, ReadSlotStates, Grants, ListGrants, ListWorkflows, WorkflowAccess             string
	LockRecords, NoteOpenReport, ReadRunLog, ReadLastLog, Failing                                 string
	CountEnded, CountDead, CountCalls, ListEvents, ListRevisions, FirstSent, RecentOutcomes, Lag  string
	LockQueue                                                                                     string // "": a write transaction is alone
	LockQuota                                                                                     string // of the owners in $1; "": a write transaction is alone
	ShareQueue                                                                                    string // ends the statement that reads a queue for an entry: nobody changes it meanwhile
	LockLimits                                                                                    string // of the ids in $1; "": a write transaction is alone
	LimitsNow                                                                                     string // of rows of limit_id and key: their numbers, uses and rates
	LockShares                                                                                    string // rows of queue_no, priority and fair key, in this order; returns them with what they have drawn
	FairTurns                                                                                     string // of such rows: the clock, and the last fair_order of a run that waits
	PutShares                                                                                     string // such rows with what they have drawn
	TakeUses, FreeLimitUses, HeldUses                                                             string
	QueuesWaiting                                                                                 string // it does not ask of the queues in $1
	QueueInFlight                                                                                 string // of queue $1: how many runs, the lowest number of admission from $2 on, and whether there are reservations
	ReadHeads                                                                                     string // up to $2 waiting runs of queue $1 for each of the limits in $3
	ReadOldest                                                                                    string // the same for each row of limits and priority
	LockJobGroup                                                                                  string // ends the statement that reads a group, to lock it
	LockJobGroups                                                                                 string // groups by number, in this order, without those that others have locked
	CountJobGroups                                                                                string // by number
	GroupsByID                                                                                    string // groups by id, in the order of their numbers; it waits for those that others have locked
	LockUniques                                                                                   string // of the numbers in $1, in this order; "": a write transaction is alone
	UniquesByHash                                                                                 string // of queue $1, those of the hashes in $2
	UniquesOfRuns                                                                                 string // those that the runs of the keys in $1 hold
	CountMinute                                                                                   string // adds to a row of queue_minutes; $3 is the number of a schedule
	OverlapKeys                                                                                   string // of policy coalesce, of an owner or with "" of all, after $2, $3 of them
	Unsubscribe                                                                                   string // the schedules in $1; returns those that had a subscription
	SubscriptionsOf                                                                               string // of owner $1 to the topics in $2, and those to prefixes
	DrawEvents                                                                                    string // up to $1 numbers above all earlier ones, one at least
	InsertEvents                                                                                  string // of owner $1 at $2, those of the rows in $3 that are new; returns them
	EventsByID                                                                                    string // of owner $1, by rows of topic, source and event_id
	InsertInbox                                                                                   string // at $1, for rows of sid and seq
	WakeConsumers                                                                                 string // rows of sid, bucket and fire_at; locks all, writes those that are new or earlier, and returns these
	WakeChanged                                                                                   string // for rows of schedule_id, bucket and fire_at
	WakesOfSchedules, WakesOfBuckets                                                              string
	LockWakes                                                                                     string // of the schedules in $1, in the order of their numbers, without those that others have locked
	ReadReady                                                                                     string // for rows of sid: up to $2 pending entries of each, oldest first
	ReserveEvents                                                                                 string // of consumer $1 at $2 for the run $3, the rows of seq and round in $4 that are pending
	SkipEvents                                                                                    string // the same, with a reason for the run
	SchedulesBySID                                                                                string // for rows of sid
	HopsOf                                                                                        string // of the keys of runs in $1, the greatest one of their events
	HandlersOf                                                                                    string // of the keys in $1, those of consumers
	AuditRuns, AuditBatches                                                                       string // of the keys in $1: their ends and records; the consumed entries that name them
	DrawPositions                                                                                 string // $1 values above all earlier ones; returns the first
}

// collect returns the rows of a statement. fields returns the targets of a row.
func collect[T any](ctx context.Context, q Queries, fields func(*T) []any, statement string, args ...any) (found []T, err error) {
	var row T
	err = q.Each(ctx, statement, fields(&row), func(bad error) error {
		found = append(found, row)
		return bad
	}, args...)
	return found, err
}

// one scans the only row of a statement, and reports whether there is one.
func one(ctx context.Context, q Queries, targets []any, statement string, args ...any) (there bool, err error) {
	err = q.Each(ctx, statement, targets, func(bad error) error {
		there = true
		return bad
	}, args...)
	return there, err
}

// orNull is NULL for the zero value.
func orNull[T comparable](v T) any {
	var zero T
	if v == zero {
		return nil
	}
	return v
}

// orLast returns before, or an id above all others if there is no page before.
func orLast(before int64) int64 {
	if before <= 0 {
		return math.MaxInt64
	}
	return before
}
