package postgres

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/carillon/carillon/internal/schedule"
)

// readOnly begins a transaction that reads. Its statements are planned once: to plan
// one that reads all partitions takes longer than to run it.
var readOnly = pgx.TxOptions{BeginQuery: `BEGIN READ ONLY; SET LOCAL plan_cache_mode = force_generic_plan`}

// reading runs fn in a transaction of readOnly.
func (s *Store) reading(ctx context.Context, fn func(tx pgx.Tx) error) error {
	return pgx.BeginTxFunc(ctx, s.pool, readOnly, fn)
}

// runSource is the part of each table that a list reads; empty: nothing of it.
type runSource struct{ ended, open string }

var runSources = map[schedule.RunSource]runSource{
	schedule.SourceKeys:        {endedOfKeys, openOfKeys},
	schedule.SourceRunID:       {endedOfRunID, openOfRunID},
	schedule.SourceTraceID:     {endedOfTraceID, openOfTraceID},
	schedule.SourceDead:        {endedDead, ""},
	schedule.SourceSchedule:    {endedOfSchedule, openOfSchedule},
	schedule.SourceGroup:       {endedOfGroup, openOfGroup},
	schedule.SourceDue:         {"", openDue},
	schedule.SourceInFlight:    {"", openInFlight},
	schedule.SourceUnfinished:  {"", openRuns},
	schedule.SourceUnscheduled: {endedUnscheduled, openUnscheduled},
	schedule.SourceEnded:       {endedNotSuccess, ""},
	schedule.SourceAll:         {endedRuns, openRuns},
}

// listOrder is the condition on the page before with the order, and the order alone.
type listOrder struct{ page, order string }

var (
	newest  = listOrder{newestPage, newestFirst}
	oldest  = listOrder{oldestPage, oldestFirst}
	updated = listOrder{updatedPage, updatedFirst}
)

// hidden keeps the planner from using the index of run_at: it assumes that two
// parameters as bounds leave 0.5 % of the rows. If the order needs another index, or
// none, it would then read the whole table in random order.
func hidden(filter string) string { return `CASE WHEN ` + filter + ` THEN true ELSE false END` }

// merged is the first rows of a source in an order, as r. Only ended_runs is read in
// the order of an index.
func (o listOrder) merged(source runSource, filter, limit string) string {
	ended, open := filter+o.page, hidden(filter+o.page)
	if o == updated {
		ended = hidden(filter) + o.page
		open = ended
	}
	var inputs []string
	for _, input := range []struct{ table, where string }{{source.ended, ended}, {source.open, open}} {
		if input.table != "" {
			inputs = append(inputs, `(SELECT * FROM `+input.table+` r WHERE `+input.where+o.order+` LIMIT `+limit+`)`)
		}
	}
	if len(inputs) == 1 {
		return inputs[0] + ` r`
	}
	return `(SELECT * FROM (` + strings.Join(inputs, ` UNION ALL `) + `) r` + o.order + ` LIMIT ` + limit + `) r`
}

// list is the first page of a source.
func (o listOrder) list(source runSource) string {
	return o.columns(o.merged(source, listFilter, "$12"))
}

// recent is the page of what $26 rows of a source have of an owner or a workflow.
func (o listOrder) recent(source runSource) string {
	return o.columns(`(SELECT * FROM ` + o.merged(source, listWindow, "$26") + ` WHERE ` + listFilter + o.order + ` LIMIT $12) r`)
}

// histories is the page of the schedules of an owner or a workflow.
func (o listOrder) histories(owned string) string {
	each := o.merged(runSource{endedOfOwned, openOfOwned}, listFilter, "$12")
	return o.columns(`(SELECT r.* FROM ` + owned + ` CROSS JOIN LATERAL ` + each + o.order + ` LIMIT $12) r`)
}

func (o listOrder) columns(of string) string {
	return `SELECT` + listColumns + ` FROM ` + of + joinSchedule + o.order
}

// ListRuns returns runs in order of run_at, newest first unless Ascending, or the feed of
// updated runs.
func (s *Store) ListRuns(ctx context.Context, f schedule.RunFilter) (runs []schedule.Run, err error) {
	err = s.reading(ctx, func(tx pgx.Tx) error {
		runs, err = listRuns(ctx, tx, &f)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list runs: %w", err)
	}
	return runs, nil
}

func listRuns(ctx context.Context, tx pgx.Tx, f *schedule.RunFilter) ([]schedule.Run, error) {
	order, source := orderOf(f), sourceOf(f)
	if source == (runSource{}) {
		return nil, nil
	}
	if !f.Scattered() {
		return collectRuns(ctx, tx, order.list(source), runFilterArgs(f)...)
	}
	runs, err := collectRuns(ctx, tx, order.recent(source), append(runFilterArgs(f), schedule.RecentRuns)...)
	if err != nil || len(runs) == f.Limit {
		return runs, err
	}
	owned := ownedByUser
	if f.WorkflowID != "" {
		owned = ownedByWorkflow
	}
	return collectRuns(ctx, tx, order.histories(owned), runFilterArgs(f)...)
}

// sourceOf leaves out a table that cannot have the list's runs. The feed reads history
// by recorded_at.
func sourceOf(f *schedule.RunFilter) runSource {
	source := runSources[f.Source()]
	if !f.MayBeEnded() {
		source.ended = ""
	}
	if !f.MayBeOpen() {
		source.open = ""
	}
	if source.ended != "" && !f.UpdatedAfter.IsZero() {
		source.ended = endedRuns
	}
	return source
}

func orderOf(f *schedule.RunFilter) listOrder {
	switch {
	case !f.UpdatedAfter.IsZero():
		return updated
	case f.Ascending:
		return oldest
	}
	return newest
}

// runFilterArgs are $1 to $25 of a list's statement.
func runFilterArgs(f *schedule.RunFilter) []any {
	statuses := make([]int16, len(f.Statuses))
	for i, status := range f.Statuses {
		statuses[i] = status.Code()
	}
	place, key := timeOr(f.AfterRunAt, pgtype.Infinity), f.AfterKey
	switch {
	case !f.UpdatedAfter.IsZero():
		place, key = noneOrTime(f.UpdatedAfter), f.UpdatedKey
	case f.Ascending:
		place = timeOr(f.AfterRunAt, pgtype.NegativeInfinity)
	}
	trace := schedule.TraceKeys(f.TraceID)
	var first, last []byte // NULL
	if !f.Keys.IsZero() {
		first, last = f.Keys.First[:], f.Keys.Last[:]
	}
	var anyOf any // NULL
	if f.AnyOf != nil {
		anyOf = keyBytes(f.AnyOf)
	}
	return []any{
		f.ScheduleID, f.UserID, f.WorkflowID, statuses, string(f.Reason), f.Trigger.Code(),
		timeOr(f.From, pgtype.NegativeInfinity), timeOr(f.To, pgtype.Infinity), f.Now, place, key[:], f.Limit,
		f.RunID, f.TraceID, trace.First[:], trace.Last[:], noneOrTime(f.DueBefore), first, last, f.Dead,
		f.ErrorCode, string(f.Class), anyOf, f.QueueNo, f.GroupNo,
	}
}

// timeOr is an infinity for the zero time.
func timeOr(t time.Time, none pgtype.InfinityModifier) pgtype.Timestamptz {
	if t.IsZero() {
		return pgtype.Timestamptz{InfinityModifier: none, Valid: true}
	}
	return pgtype.Timestamptz{Time: t, Valid: true}
}
