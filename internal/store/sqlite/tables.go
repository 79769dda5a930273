package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/store/tables"
)

// dialect is the SQL of the tables that hold no runs.
var dialect = &tables.Dialect{
	Statements: tables.Statements{
		AlertsByID: sqlAlertsByID, DueOfTarget: sqlDueOfTarget, DueOfOthers: sqlDueOfOthers, DeliveriesByID: sqlDeliveriesByID, CheckGroup: sqlCheckGroup,
		ExpectationsOf: sqlExpectationsOf, GetBackfill: sqlGetBackfill, BackfillCounts: sqlBackfillCounts,
		LockJobGroups: sqlLockJobGroups, CountJobGroups: sqlCountJobGroups, GroupsByID: sqlLockSlotGroups, UniquesByHash: sqlUniquesByHash, UniquesOfRuns: sqlUniquesOfRuns,
		LockShares: sqlLockShares, FairTurns: sqlFairTurns, PutShares: sqlPutShares,
		DrawPositions: sqlDrawPositions, OverlapKeys: sqlOverlapKeys, CountMinute: sqlCountMinute, ReadSlotStates: sqlReadSlotStates, Grants: sqlGrants, ListGrants: sqlListGrants, ListWorkflows: sqlListWorkflows,
		WorkflowAccess: sqlWorkflowAccess, LockRecords: sqlLockRecords, NoteOpenReport: sqlNoteOpenReport,
		ReadRunLog: sqlReadRunLog, ReadLastLog: sqlReadLastLog, Failing: sqlFailures,
		LimitsNow: sqlLimitsNow, QueueInFlight: sqlQueueInFlight, QueuesWaiting: sqlQueuesWaiting, TakeUses: sqlTakeUses, FreeLimitUses: sqlFreeLimitUses, HeldUses: sqlHeldUses, ReadHeads: sqlReadHeads, ReadOldest: sqlReadOldest,
		CountEnded: sqlCountEnded, CountDead: sqlCountDead, CountCalls: sqlCountCalls, FirstSent: sqlFirstSent, RecentOutcomes: sqlRecentOutcomes, Lag: sqlLag, ListEvents: sqlListEvents,
		ListRevisions: sqlListRevisions,
		Unsubscribe:   sqlUnsubscribe, SubscriptionsOf: sqlSubscriptionsOf, DrawEvents: sqlDrawEvents, InsertEvents: sqlInsertEventsOfTopics, EventsByID: sqlEventsByID, InsertInbox: sqlInsertInbox,
		WakeConsumers: sqlWakeConsumers, WakeChanged: sqlWakeChanged, WakesOfSchedules: sqlWakesOfSchedules, WakesOfBuckets: sqlWakesOfBuckets, LockWakes: sqlLockWakes,
		ReadReady: sqlReadReady, ReserveEvents: sqlReserveEvents, SkipEvents: sqlSkipEvents, HandlersOf: sqlHandlersOf, SchedulesBySID: sqlSchedulesBySID, HopsOf: sqlHopsOf, AuditRuns: sqlAuditRuns, AuditBatches: sqlAuditBatches,
	},
	ListAlerts: func(f *schedule.AlertFilter) tables.Call {
		var q conditions
		q.add(f.UserID != "", sqlAlertUser, f.UserID)
		q.add(f.ScheduleID != "", sqlAlertSchedule, f.ScheduleID)
		q.add(f.Kind != "", sqlAlertKind, f.Kind)
		q.add(f.Open != nil && *f.Open, sqlAlertOpen)
		q.add(f.Open != nil && !*f.Open, sqlAlertClosed)
		q.add(!f.AfterOpened.IsZero(), sqlAlertsAfter, f.AfterOpened, f.AfterID)
		return q.list(sqlListAlerts, sqlAlertsOrder, f.Limit)
	},
	ListDeliveries: func(f *schedule.DeliveryFilter) tables.Call {
		var q conditions
		q.add(f.Runs, sqlDeliveryRuns)
		q.add(!f.Runs, sqlDeliveryAlerts)
		q.add(f.AlertID != "", sqlDeliveryAlert, f.AlertID, f.AlertID)
		q.add(f.ScheduleID != "", sqlDeliveryOf, f.ScheduleID, f.ScheduleID)
		q.add(f.State != "", sqlDeliveryState, f.State)
		q.add(!f.AfterCreated.IsZero(), sqlDeliveriesAfter, f.AfterCreated, f.AfterID)
		return q.list(sqlListDeliveries, sqlDeliveriesOrder, f.Limit)
	},
	ListAudit: func(f *schedule.AuditFilter) tables.Call {
		q := conditions{args: []any{f.BeforeID}}
		q.add(f.Subject != "", sqlAuditSubject, f.Subject)
		q.add(f.Target != "", sqlAuditTarget, f.Target)
		q.add(f.Method != "", sqlAuditMethod, f.Method)
		q.add(!f.From.IsZero(), sqlAuditFrom, f.From)
		q.add(!f.To.IsZero(), sqlAuditTo, f.To)
		return q.list(sqlListAudit, sqlAuditOrder, f.Limit)
	},
	ListBackfills: func(f *schedule.BackfillFilter) tables.Call {
		var q conditions
		base := sqlListBackfills
		switch {
		case f.ScheduleID != "":
			base, q.args = sqlListBackfillsSchedule, append(q.args, f.ScheduleID)
			q.add(f.UserID != "", sqlBackfillsUser, f.UserID)
		case f.UserID != "":
			base, q.args = sqlListBackfillsUser, append(q.args, f.UserID)
		}
		q.add(f.State != "", sqlBackfillsState, f.State)
		q.add(!f.BeforeAt.IsZero(), sqlBackfillsBefore, f.BeforeAt, f.BeforeID)
		return q.list(base, sqlBackfillsOrder, f.Limit)
	},
	ListTerms: func(f *schedule.TermFilter) tables.Call {
		return tables.Call{Statement: sqlListTerms, Args: []any{f.Now, f.Shard, f.Limit}}
	},
	WindowTerms: func(w *schedule.TermWindow) tables.Call {
		return tables.Call{Statement: sqlWindowTerms, Args: []any{w.Now, w.Bucket, w.From, w.Until, schedule.MaxWindowTerms}}
	},
	InsertAudit: func(ctx context.Context, q tables.Queries, entries []schedule.AuditEntry) error {
		for i := range entries {
			if err := q.(queries).querier.(tx).insertAudit(ctx, &entries[i], entries[i].Time); err != nil {
				return err
			}
		}
		return nil
	},
	InsertQueued: func(ctx context.Context, q tables.Queries, runs []schedule.Run, now time.Time) error {
		t := q.(queries).querier.(tx)
		if _, err := insertPlaced(ctx, t, runs, now); err != nil {
			return err
		}
		return noteRedriven(ctx, t, slices.DeleteFunc(slices.Clone(runs), func(r schedule.Run) bool { return r.RetryOf.IsZero() })) // of a group
	},
	LockOpen: func(ctx context.Context, q tables.Queries, keys []schedule.Key) (map[schedule.Key]*schedule.Run, error) {
		rows, err := openRowsOf(ctx, q.(queries).querier.(tx), keys)
		runs := make(map[schedule.Key]*schedule.Run, len(rows))
		for key, r := range rows {
			runs[key] = &r.Run
		}
		return runs, err
	},
	WriteQueued: func(ctx context.Context, q tables.Queries, r *schedule.Run) (int, error) {
		return writeQueued(ctx, q.(queries).querier.(tx), r)
	},
	WakeQueues: func(q tables.Queries, _ ...*schedule.Run) { *q.(queries).querier.(tx).queues = true },
}

func init() { // dialect is used by what it calls
	dialect.CancelMembers = func(ctx context.Context, q tables.Queries, step ledger.MemberStep, now time.Time) (int, error) {
		return cancelMembers(ctx, q.(queries).querier.(tx), step, now)
	}
	dialect.InsertPlanned = func(ctx context.Context, q tables.Queries, runs []schedule.Run, now time.Time) (int, error) {
		return insertRuns(ctx, q.(queries).querier.(tx), runs, now)
	}
	dialect.NoteWoken = func(_ context.Context, q tables.Queries, woken []tables.WokenConsumer) error {
		for i := range woken {
			q.(queries).querier.(tx).changed.consumer(woken[i].ScheduleID, schedule.Bucket(woken[i].OverlapKey))
		}
		return nil
	}
}

// queries runs the statements of package tables. Only a transaction has Exec.
type queries struct{ querier }

func (s *Store) newTables() *tables.Tables {
	return tables.New(dialect, queries{s.readers}, func(ctx context.Context, fn func(context.Context, tables.Queries) error) error {
		return s.write(ctx, func(ctx context.Context, t tx) error { return fn(ctx, queries{t}) })
	})
}

func (q queries) Each(ctx context.Context, statement string, targets []any, visit func(bad error) error, args ...any) error {
	var read bad
	into := make([]any, len(targets))
	for i, target := range targets {
		into[i] = targetOf(target, &read)
	}
	return q.query(ctx, statement, func(scan scan) error {
		read.err = nil
		if err := scan(into...); err != nil {
			return err
		}
		return visit(read.err)
	}, bound(args)...)
}

func (q queries) Exec(ctx context.Context, statement string, args ...any) (int, error) {
	n, err := q.querier.(tx).exec(ctx, statement, bound(args)...)
	return int(n), err
}

func (q queries) ExecAll(ctx context.Context, calls []tables.Call) error {
	for _, c := range calls {
		if _, err := q.Exec(ctx, c.Statement, c.Args...); err != nil {
			return err
		}
	}
	return nil
}

// bound are arguments as the driver takes them.
func bound(args []any) []any {
	out := make([]any, len(args))
	for i, arg := range args {
		switch v := arg.(type) {
		case time.Time:
			out[i] = micros(v)
		case []time.Time:
			out[i] = instants(v)
		case schedule.Key:
			out[i] = keyArg(v)
		case []schedule.Key:
			out[i] = keyList(v)
		case []string:
			out[i] = nil
			if v != nil {
				out[i] = list(v)
			}
		case tables.Rows:
			out[i] = zipped(v)
		default:
			out[i] = v
		}
	}
	return out
}

// zipped is a JSON array with an array for each row.
func zipped(columns tables.Rows) string {
	rows := make([][]any, reflect.ValueOf(columns[0]).Len())
	for i := range rows {
		for _, column := range columns {
			rows[i] = append(rows[i], reflect.ValueOf(column).Index(i).Interface())
		}
	}
	return jsonArg(rows)
}

// bad is the first value of a row that its target cannot hold.
type bad struct{ err error }

func (b *bad) refuse(err error) {
	if b.err == nil {
		b.err = err
	}
}

func targetOf(target any, read *bad) any {
	switch to := target.(type) {
	case *time.Time:
		return moment{to}
	case *schedule.Key:
		return (*key)(to)
	case *json.RawMessage:
		return (*raw)(to)
	case *bool:
		return (*flag)(to)
	case *schedule.Status:
		return (*status)(to)
	case *schedule.OverlapPolicy:
		return (*policy)(to)
	case *[]string:
		return words{to, read}
	}
	return value{reflect.ValueOf(target).Elem(), read}
}

// value is a text or a number.
type value struct {
	to   reflect.Value
	read *bad
}

var _ sql.Scanner = value{}

// Scan reads NULL as zero.
func (t value) Scan(v any) error {
	switch v := v.(type) {
	case nil:
		t.to.SetZero()
		return nil
	case string:
		if t.to.Kind() == reflect.String {
			t.to.SetString(v)
			return nil
		}
	case int64:
		switch {
		case t.to.CanInt():
			if t.to.OverflowInt(v) {
				t.read.refuse(fmt.Errorf("%d is outside of %s", v, t.to.Type()))
			}
			t.to.SetInt(v)
			return nil
		case t.to.CanUint():
			if v < 0 || t.to.OverflowUint(uint64(v)) {
				t.read.refuse(fmt.Errorf("%d is outside of %s", v, t.to.Type()))
			}
			t.to.SetUint(uint64(v))
			return nil
		}
	}
	return errColumn
}

// words are a JSON array of strings.
type words struct {
	to   *[]string
	read *bad
}

// Scan reads NULL as nil.
func (w words) Scan(v any) error {
	*w.to = nil
	var t text
	if err := t.Scan(v); err != nil || t == "" {
		return err
	}
	if err := json.Unmarshal([]byte(t), w.to); err != nil {
		w.read.refuse(err)
	}
	return nil
}
