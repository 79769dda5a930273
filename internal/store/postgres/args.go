package postgres

import (
	"encoding/json"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/carillon/carillon/internal/schedule"
)

// column is one field of many rows, as one array to bind.
func column[T, V any](rows []T, of func(*T) V) pgtype.FlatArray[V] {
	values := make(pgtype.FlatArray[V], len(rows))
	for i := range rows {
		values[i] = of(&rows[i])
	}
	return values
}

// The none functions bind NULL for Go's zero values.

func noneOrTime(t time.Time) pgtype.Timestamptz {
	return pgtype.Timestamptz{Time: t, Valid: !t.IsZero()}
}

func noneOrText[S ~string | ~[]byte](s S) pgtype.Text {
	return pgtype.Text{String: string(s), Valid: len(s) > 0}
}

func noneOrKey(k schedule.Key) []byte {
	if k.IsZero() {
		return nil
	}
	return k[:]
}

func noneOrInt(n int64) pgtype.Int8 { return pgtype.Int8{Int64: n, Valid: n != 0} }

// noneOrCode is NULL for a word without a code: every column of codes refuses it.
func noneOrCode(code int16) pgtype.Int2 { return pgtype.Int2{Int16: code, Valid: code != 0} }

func keyBytes(keys []schedule.Key) pgtype.FlatArray[[]byte] {
	return column(keys, func(k *schedule.Key) []byte { return k[:] })
}

// interval is d for an interval parameter.
func interval(d time.Duration) pgtype.Interval {
	return pgtype.Interval{Microseconds: d.Microseconds(), Valid: true}
}

// eventArgs are events for sqlInsertEvents.
func eventArgs(events []schedule.Event) []any {
	type event = schedule.Event
	return []any{
		column(events, func(e *event) string { return e.ScheduleID }),
		column(events, func(e *event) time.Time { return e.Time }),
		column(events, func(e *event) string { return string(e.Kind) }),
		column(events, func(e *event) pgtype.Timestamptz { return noneOrTime(e.From) }),
		column(events, func(e *event) pgtype.Timestamptz { return noneOrTime(e.To) }),
		column(events, func(e *event) int64 { return e.Count }),
		column(events, func(e *event) pgtype.Text { return noneOrText(e.Reason) }),
		column(events, func(e *event) pgtype.Text { return noneOrText(e.Actor) }),
		column(events, func(e *event) pgtype.Text { return noneOrText(e.Note) }),
		column(events, func(e *event) int64 { return e.Revision }),
	}
}

// scheduleArgs are whole rows for sqlInsertSchedules and sqlUpdateSchedules.
func scheduleArgs(rows []*schedule.Schedule) []any {
	args := append(definitionArgs(rows), stateArgs(rows)...)
	return append(args,
		column(rows, func(s *scheduleRef) pgtype.Text { return noneOrText((*s).Retry.Text()) }),
		column(rows, func(s *scheduleRef) pgtype.Text { return noneOrText((*s).QueueID) }),
		column(rows, func(s *scheduleRef) pgtype.Text { return noneOrText(schedule.JoinLimits((*s).Limits)) }),
		column(rows, func(s *scheduleRef) pgtype.Text { return noneOrText((*s).Webhook) }),
		column(rows, func(s *scheduleRef) pgtype.Int8 { return noneOrInt(int64((*s).MaxRunMS)) }),
		column(rows, func(s *scheduleRef) pgtype.Int8 { return noneOrInt(int64((*s).ExpiresMS)) }),
		column(rows, func(s *scheduleRef) pgtype.Text { return noneOrText((*s).FairKey) }),
		column(rows, func(s *scheduleRef) pgtype.Text { return noneOrText((*s).Group) }),
		column(rows, func(s *scheduleRef) pgtype.Text { return noneOrText((*s).Consume.Text()) }))
}

type scheduleRef = *schedule.Schedule

func definitionArgs(rows []scheduleRef) []any {
	return []any{
		column(rows, func(s *scheduleRef) string { return (*s).ScheduleID }),
		column(rows, func(s *scheduleRef) string { return (*s).WorkflowID }),
		column(rows, func(s *scheduleRef) int32 { return (*s).Version }),
		column(rows, func(s *scheduleRef) string { return (*s).UserID }),
		column(rows, func(s *scheduleRef) pgtype.Text { return noneOrText((*s).CronExpr) }),
		column(rows, func(s *scheduleRef) pgtype.Int8 { return noneOrInt(int64((*s).IntervalMS)) }),
		column(rows, func(s *scheduleRef) pgtype.Timestamptz { return noneOrTime((*s).OnceAt) }),
		column(rows, func(s *scheduleRef) string { return (*s).Timezone }),
		column(rows, func(s *scheduleRef) pgtype.Timestamptz { return noneOrTime((*s).StartAt) }),
		column(rows, func(s *scheduleRef) pgtype.Timestamptz { return noneOrTime((*s).EndAt) }),
		column(rows, func(s *scheduleRef) string { return string((*s).DST) }),
		column(rows, func(s *scheduleRef) int64 { return int64((*s).JitterMS) }),
		column(rows, func(s *scheduleRef) string { return string((*s).OverlapPolicy) }),
		column(rows, func(s *scheduleRef) string { return (*s).OverlapKey }),
		column(rows, func(s *scheduleRef) int64 { return int64((*s).MaxQueued) }),
		column(rows, func(s *scheduleRef) string { return string((*s).CatchupPolicy) }),
		column(rows, func(s *scheduleRef) int64 { return int64((*s).CatchupWindowMS) }),
		column(rows, func(s *scheduleRef) int64 { return int64((*s).RunTimeoutMS) }),
		column(rows, func(s *scheduleRef) int32 { return (*s).Priority }),
		column(rows, func(s *scheduleRef) pgtype.Text { return noneOrText((*s).Input) }),
		column(rows, func(s *scheduleRef) pgtype.Text { return noneOrText((*s).ExecutionGrantID) }),
		column(rows, func(s *scheduleRef) pgtype.Text { return labelsJSON((*s).Labels) }),
		column(rows, func(s *scheduleRef) pgtype.Text { return noneOrText((*s).ManagedBy) }),
		column(rows, func(s *scheduleRef) pgtype.Text { return noneOrText((*s).Expect.Text()) }),
		column(rows, func(s *scheduleRef) pgtype.Int8 { return noneOrInt(int64((*s).LaunchTimeoutMS)) }),
	}
}

func stateArgs(rows []scheduleRef) []any {
	return []any{
		column(rows, func(s *scheduleRef) int64 { return (*s).Revision }),
		column(rows, func(s *scheduleRef) time.Time { return (*s).RevisedAt }),
		column(rows, func(s *scheduleRef) pgtype.Timestamptz { return noneOrTime((*s).NextRunAt) }),
		column(rows, func(s *scheduleRef) pgtype.Timestamptz { return noneOrTime((*s).PlanAt) }),
		column(rows, func(s *scheduleRef) pgtype.Timestamptz { return noneOrTime((*s).Backlog.From) }),
		column(rows, func(s *scheduleRef) pgtype.Timestamptz { return noneOrTime((*s).Backlog.Until) }),
		column(rows, func(s *scheduleRef) pgtype.Int8 { return noneOrInt((*s).Backlog.Revision) }),
		column(rows, func(s *scheduleRef) pgtype.Timestamptz { return noneOrTime((*s).Backlog.At) }),
		column(rows, func(s *scheduleRef) int64 { return int64((*s).PlanFailures) }),
		column(rows, func(s *scheduleRef) bool { return (*s).Pause.Paused }),
		column(rows, func(s *scheduleRef) pgtype.Text { return noneOrText((*s).Pause.Note) }),
		column(rows, func(s *scheduleRef) pgtype.Text { return noneOrText((*s).Pause.By) }),
		column(rows, func(s *scheduleRef) pgtype.Timestamptz { return noneOrTime((*s).Pause.Until) }),
		column(rows, func(s *scheduleRef) int64 { return int64(schedule.Bucket((*s).QualifiedOverlapKey())) }),
		column(rows, func(s *scheduleRef) pgtype.Timestamptz { return noneOrTime((*s).LastRunAt) }),
		column(rows, func(s *scheduleRef) time.Time { return (*s).CreatedAt }),
		column(rows, func(s *scheduleRef) time.Time { return (*s).UpdatedAt }),
		column(rows, func(s *scheduleRef) pgtype.Timestamptz { return noneOrTime((*s).DeletedAt) }),
	}
}

func labelsJSON(labels map[string]string) pgtype.Text {
	if len(labels) == 0 {
		return pgtype.Text{}
	}
	raw, err := json.Marshal(labels)
	if err != nil {
		panic("labels are not JSON: " + err.Error()) // strings always are
	}
	return pgtype.Text{String: string(raw), Valid: true}
}
