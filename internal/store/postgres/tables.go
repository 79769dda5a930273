package postgres

import (
	"context"
	"fmt"
	"math"
	"reflect"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/store/tables"
)

// dialect is the SQL of the tables that hold no runs.
var dialect = &tables.Dialect{
	Statements: tables.Statements{
		AlertsByID: sqlAlertsByID, DueOfTarget: sqlDueOfTarget, DueOfOthers: sqlDueOfOthers, DeliveriesByID: sqlDeliveriesByID, CheckGroup: sqlCheckGroup,
		ExpectationsOf: sqlExpectationsOf, GetBackfill: sqlGetBackfill, BackfillCounts: sqlBackfillCounts,
		LockJobGroup: forUpdate, LockJobGroups: sqlLockJobGroups, CountJobGroups: sqlCountJobGroups, GroupsByID: sqlLockSlotGroups, LockQueue: sqlLockQueue, LockQuota: sqlQuotaLock, LockShares: sqlLockShares, FairTurns: sqlFairTurns, PutShares: sqlPutShares, ShareQueue: shareQueue, LockUniques: sqlLockUniques, UniquesByHash: sqlUniquesByHash, UniquesOfRuns: sqlUniquesOfRuns, DrawPositions: sqlDrawPositions, OverlapKeys: sqlOverlapKeys, CountMinute: sqlCountMinute,
		ReadSlotStates: sqlReadSlotStates, Grants: sqlGrants, ListGrants: sqlListGrants, ListWorkflows: sqlListWorkflows,
		WorkflowAccess: sqlWorkflowAccess, LockRecords: sqlLockRecords, NoteOpenReport: sqlNoteOpenReport,
		ReadRunLog: sqlReadRunLog, ReadLastLog: sqlReadLastLog, Failing: sqlFailures, LockLimits: sqlLockLimits, QueueInFlight: sqlQueueInFlight, QueuesWaiting: sqlQueuesWaiting,
		LimitsNow: sqlLimitsNow, TakeUses: sqlTakeUses, FreeLimitUses: sqlFreeLimitUses, HeldUses: sqlHeldUses, ReadHeads: sqlReadHeads, ReadOldest: sqlReadOldest,
		CountEnded: sqlCountEnded, CountDead: sqlCountDead, CountCalls: sqlCountCalls, FirstSent: sqlFirstSent, RecentOutcomes: sqlRecentOutcomes, Lag: sqlLag, ListEvents: sqlListEvents,
		ListRevisions: sqlListRevisions,
		Unsubscribe:   sqlUnsubscribe, SubscriptionsOf: sqlSubscriptionsOf, DrawEvents: sqlDrawEvents, InsertEvents: sqlInsertEventsOfTopics, EventsByID: sqlEventsByID, InsertInbox: sqlInsertInbox,
		WakeConsumers: sqlWakeConsumers, WakeChanged: sqlWakeChanged, WakesOfSchedules: sqlWakesOfSchedules, WakesOfBuckets: sqlWakesOfBuckets, LockWakes: sqlLockWakes,
		ReadReady: sqlReadReady, ReserveEvents: sqlReserveEvents, SkipEvents: sqlSkipEvents, HandlersOf: sqlHandlersOf, SchedulesBySID: sqlSchedulesBySID, HopsOf: sqlHopsOf, AuditRuns: sqlAuditRuns, AuditBatches: sqlAuditBatches,
	},
	ListAlerts: func(f *schedule.AlertFilter) tables.Call {
		return tables.Call{Statement: sqlListAlerts, Args: []any{f.UserID, f.ScheduleID, f.Kind, f.Open, f.AfterOpened, f.AfterID, f.Limit}}
	},
	ListDeliveries: func(f *schedule.DeliveryFilter) tables.Call {
		switch {
		case f.Runs && f.State == schedule.DeliveryDead:
			return tables.Call{Statement: sqlListDeadMessages, Args: []any{f.AfterCreated, f.AfterID, f.Limit}}
		case f.Runs:
			return tables.Call{Statement: sqlListMessages, Args: []any{f.State, f.AfterCreated, f.AfterID, f.Limit}}
		}
		return tables.Call{Statement: sqlListDeliveries, Args: []any{f.AlertID, f.State, f.AfterCreated, f.AfterID, f.Limit, f.ScheduleID}}
	},
	ListAudit: func(f *schedule.AuditFilter) tables.Call {
		return tables.Call{Statement: sqlListAudit, Args: []any{f.Subject, f.Target, f.Method, f.From, f.To, f.BeforeID, f.Limit}}
	},
	ListBackfills: func(f *schedule.BackfillFilter) tables.Call {
		return tables.Call{Statement: sqlListBackfills, Args: []any{f.ScheduleID, f.UserID, f.State, f.BeforeAt, f.BeforeID, f.Limit}}
	},
	ListTerms: func(f *schedule.TermFilter) tables.Call {
		return tables.Call{Statement: sqlListTerms, Args: []any{f.Shard, f.Limit}}
	},
	WindowTerms: func(w *schedule.TermWindow) tables.Call {
		return tables.Call{Statement: sqlWindowTerms, Args: []any{w.Bucket, w.From, w.Until, schedule.MaxWindowTerms}}
	},
	InsertAudit: func(ctx context.Context, q tables.Queries, entries []schedule.AuditEntry) error {
		return insertAudit(ctx, q.(queries).conn.(pgx.Tx), entries)
	},
	InsertQueued: func(ctx context.Context, q tables.Queries, runs []schedule.Run, now time.Time) error {
		return insertQueued(ctx, q.(queries).conn.(pgx.Tx), runs, now)
	},
	LockOpen: func(ctx context.Context, q tables.Queries, keys []schedule.Key) (map[schedule.Key]*schedule.Run, error) {
		return lockNamed(ctx, q.(queries).conn.(pgx.Tx), keys)
	},
	WriteQueued: func(ctx context.Context, q tables.Queries, r *schedule.Run) (int, error) {
		return writeQueued(ctx, q.(queries).conn.(pgx.Tx), r)
	},
	WakeQueues:  func(q tables.Queries, moved ...*schedule.Run) { wakeQueues(q.(queries).conn.(pgx.Tx), moved...) },
	NoticesLock: []tables.Call{{Statement: sqlNoticesLock}},
	GroupsLock:  []tables.Call{{Statement: sqlGroupsLock}},
}

func init() { // dialect is used by what it calls
	dialect.CancelMembers = func(ctx context.Context, q tables.Queries, step ledger.MemberStep, now time.Time) (int, error) {
		return cancelMembers(ctx, q.(queries).conn.(pgx.Tx), step, now)
	}
	dialect.InsertPlanned = func(ctx context.Context, q tables.Queries, runs []schedule.Run, now time.Time) (int, error) {
		return insertRuns(ctx, q.(queries).conn.(pgx.Tx), runs, now)
	}
	dialect.NoteWoken = func(ctx context.Context, q tables.Queries, woken []tables.WokenConsumer) error {
		return noteWoken(ctx, q.(queries).conn.(pgx.Tx), woken)
	}
}

// conn is a pool or a transaction.
type conn interface {
	querier
	Exec(ctx context.Context, statement string, args ...any) (pgconn.CommandTag, error)
	SendBatch(ctx context.Context, batch *pgx.Batch) pgx.BatchResults
}

// queries runs the statements of package tables.
type queries struct{ conn conn }

func (s *Store) newTables() *tables.Tables {
	return tables.New(dialect, queries{s.pool}, func(ctx context.Context, fn func(context.Context, tables.Queries) error) error {
		return s.transact(ctx, func(tx pgx.Tx) error { return fn(ctx, queries{tx}) })
	})
}

func (q queries) Each(ctx context.Context, statement string, targets []any, visit func(bad error) error, args ...any) error {
	rows, err := q.conn.Query(ctx, statement, bound(args)...)
	if err != nil {
		return err
	}
	defer rows.Close()
	var (
		read decoding
		into []any
	)
	for rows.Next() {
		if into == nil {
			into = targetsOf(rows.FieldDescriptions(), targets, &read)
		}
		read.err = nil
		if err := rows.Scan(into...); err != nil {
			return err
		}
		if err := visit(read.err); err != nil {
			return err
		}
	}
	return rows.Err()
}

func (q queries) Exec(ctx context.Context, statement string, args ...any) (int, error) {
	tag, err := q.conn.Exec(ctx, statement, bound(args)...)
	return int(tag.RowsAffected()), err
}

func (q queries) ExecAll(ctx context.Context, calls []tables.Call) error {
	if len(calls) == 0 {
		return nil
	}
	batch := &pgx.Batch{}
	for _, c := range calls {
		batch.Queue(c.Statement, bound(c.Args)...)
	}
	return q.conn.SendBatch(ctx, batch).Close()
}

// bound are arguments as the driver takes them.
func bound(args []any) []any {
	out := make([]any, 0, len(args))
	for _, arg := range args {
		switch v := arg.(type) {
		case time.Time:
			out = append(out, noneOrTime(v))
		case schedule.Key:
			out = append(out, noneOrKey(v))
		case []schedule.Key:
			out = append(out, keyBytes(v))
		case tables.Rows:
			out = append(out, v...)
		default:
			out = append(out, v)
		}
	}
	return out
}

func targetsOf(columns []pgconn.FieldDescription, targets []any, read *decoding) []any {
	into := make([]any, len(targets))
	for i, target := range targets {
		switch to := target.(type) {
		case *time.Time:
			into[i] = instantInto{to, read, columns[i].Name}
		case *schedule.Key:
			into[i] = keyInto{to, read, columns[i].Name}
		case *[]string:
			into[i] = to
		default:
			into[i] = valueInto{reflect.ValueOf(target).Elem(), read, columns[i].Name}
		}
	}
	return into
}

// The targets of scans. NULL is Go's zero value.
type (
	instantInto struct {
		to     *time.Time
		read   *decoding
		column string
	}
	keyInto struct {
		to     *schedule.Key
		read   *decoding
		column string
	}
	valueInto struct {
		to     reflect.Value
		read   *decoding
		column string
	}
)

// ScanTimestamptz reads a time.
func (t instantInto) ScanTimestamptz(v pgtype.Timestamptz) error {
	*t.to = t.read.time(t.column, v)
	return nil
}

// ScanBytes reads a key.
func (t keyInto) ScanBytes(v []byte) error {
	*t.to = t.read.key(t.column, v)
	return nil
}

// ScanText reads a word or a document.
func (t valueInto) ScanText(v pgtype.Text) error {
	switch {
	case t.to.Kind() == reflect.String:
		t.to.SetString(v.String)
	case v.String == "":
		t.to.SetZero()
	default:
		t.to.SetBytes([]byte(v.String))
	}
	return nil
}

// ScanBool reads a condition.
func (t valueInto) ScanBool(v pgtype.Bool) error {
	t.to.SetBool(v.Bool)
	return nil
}

// ScanInt64 reads a number.
func (t valueInto) ScanInt64(v pgtype.Int8) error {
	switch {
	case t.to.CanInt():
		t.to.SetInt(v.Int64)
	case v.Int64 < 0 || v.Int64 > math.MaxUint32:
		t.read.refuse(t.column, v.Int64, fmt.Sprintf("outside 0 to %d", uint32(math.MaxUint32)))
		t.to.SetZero()
	default:
		t.to.SetUint(uint64(v.Int64))
	}
	return nil
}
