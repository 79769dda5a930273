package sqlite

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/carillon/carillon/internal/schedule"
)

// runSource is the part of a table that a list reads, with its conditions; empty:
// nothing of it.
type runSource struct {
	from string
	args []any
}

// with adds conditions, unless the source is empty.
func (s runSource) with(c *conditions) runSource {
	if s.from == "" {
		return s
	}
	return runSource{s.from + c.where.String(), slices.Concat(s.args, c.args)}
}

// listOrder has the parts of a list's statement that depend on its order.
type listOrder struct {
	foundEnded, foundOpen string // the columns of both inputs
	ended, open           string // the order of each input
	found, page           string // the order of what is found, and of the page
}

var (
	newest  = listOrder{foundEndedAt, foundOpenAt, endedNewest, endedNewest, foundNewest, pageNewest}
	oldest  = listOrder{foundEndedAt, foundOpenAt, endedOldest, endedOldest, foundOldest, pageOldest}
	updated = listOrder{foundEndedUpdated, foundOpenUpdated, endedUpdated, openUpdated, foundOldest, pageUpdated}
)

func orderOf(f *schedule.RunFilter) listOrder {
	switch {
	case !f.UpdatedAfter.IsZero():
		return updated
	case f.Ascending:
		return oldest
	}
	return newest
}

// merged finds the first rows of both sources in an order.
func (o listOrder) merged(ended, open runSource, limit int) runSource {
	var inputs []string
	var args []any
	add := func(found string, of runSource, order string) {
		if of.from != "" {
			inputs = append(inputs, `SELECT * FROM (SELECT `+found+of.from+order+`)`)
			args = append(append(args, of.args...), limit)
		}
	}
	add(o.foundEnded, ended, o.ended)
	add(o.foundOpen, open, o.open)
	if len(inputs) == 1 {
		return runSource{inputs[0], args}
	}
	return runSource{strings.Join(inputs, ` UNION ALL `) + o.found, append(args, limit)}
}

// ListRuns returns runs in order of run_at, newest first unless Ascending, or the feed of
// updated runs.
func (s *Store) ListRuns(ctx context.Context, f schedule.RunFilter) ([]schedule.Run, error) {
	f.Limit, f.Now = schedule.PageSize(f.Limit), either(f.Now, s.Now())
	runs, err := listRuns(ctx, s.readers, &f)
	if err != nil {
		return nil, fmt.Errorf("list runs: %w", err)
	}
	return runs, nil
}

func listRuns(ctx context.Context, q querier, f *schedule.RunFilter) (runs []schedule.Run, err error) {
	if !f.MayBeEnded() && !f.MayBeOpen() {
		return nil, nil
	}
	for _, query := range runsQueries(f) {
		if runs, err = readRuns(ctx, q, query.from, query.args...); err != nil || len(runs) == f.Limit {
			return runs, err
		}
	}
	return runs, nil
}

// runsQueries are the statements that answer a list. The next one is asked if the one
// before does not fill the page.
func runsQueries(f *schedule.RunFilter) []runSource {
	order := orderOf(f)
	ended, open := sourcesOf(f)
	endedAll, openAll := runConditions(f)
	if !f.Scattered() {
		page := order.merged(ended.with(endedAll), open.with(openAll), f.Limit)
		return []runSource{{`WITH page AS MATERIALIZED (` + page.from + `)` + runsOfPage + order.page, page.args}}
	}
	endedWindow, openWindow := &conditions{}, &conditions{}
	endedWindow.addWindow(f)
	openWindow.addWindow(f)
	openWindow.addNotAhead(f)
	recent := order.merged(ended.with(endedWindow), open.with(openWindow), schedule.RecentRuns)
	page := order.merged(runSource{from: endedOfRecent}.with(endedAll), runSource{from: openOfRecent}.with(openAll), f.Limit)

	owned, owner := ofUser, f.UserID
	if f.WorkflowID != "" {
		owned, owner = ofWorkflow, f.WorkflowID
	}
	ended, open = ownedBy(ended, owned+endedOfOwned, owner), ownedBy(open, owned+openOfOwned, owner)
	all := order.merged(ended.with(endedAll), open.with(openAll), f.Limit)
	return []runSource{
		{`WITH recent AS MATERIALIZED (` + recent.from + `), page AS MATERIALIZED (` + page.from + `)` + runsOfPage + order.page, append(recent.args, page.args...)},
		{`WITH page AS MATERIALIZED (` + all.from + `)` + runsOfPage + order.page, all.args},
	}
}

// ownedBy is the histories of an owner's or a workflow's schedules, if the list reads
// the table.
func ownedBy(source runSource, histories, owner string) runSource {
	if source.from == "" {
		return source
	}
	return runSource{` FROM ` + histories, []any{owner}}
}

// sourcesOf are the sources of a list, without its conditions.
func sourcesOf(f *schedule.RunFilter) (ended, open runSource) {
	trace := schedule.TraceKeys(f.TraceID)
	both := func(ofEnded, ofOpen string, args ...any) {
		ended, open = runSource{ofEnded, args}, runSource{ofOpen, args}
	}
	switch {
	case !f.UpdatedAfter.IsZero():
		both(endedOfUpdated, openOfUpdated, f.UpdatedAfter.UnixMicro())
	case f.Source() == schedule.SourceKeys:
		both(endedOfKeys, openOfKeys, f.Keys.First[:], f.Keys.Last[:])
	case f.Source() == schedule.SourceRunID:
		both(endedOfRunID, openOfRunID, f.RunID)
	case f.Source() == schedule.SourceTraceID:
		both(endedOfTraceID, openOfTraceID, f.TraceID, trace.First[:], trace.Last[:])
	case f.Source() == schedule.SourceDead:
		both(endedOfDead, "")
	case f.Source() == schedule.SourceSchedule:
		both(endedOfSchedule, openOfSchedule, f.ScheduleID)
	case f.Source() == schedule.SourceGroup:
		both(endedOfGroup, openOfGroup, int64(f.GroupNo))
	case f.Source() == schedule.SourceDue:
		both("", openOfDue, ceilMicros(f.DueBefore))
	case f.Source() == schedule.SourceInFlight:
		both("", openOfInFlight)
	case f.Source() == schedule.SourceUnscheduled:
		both(endedOfUnscheduled, openOfAll)
	case f.Source() == schedule.SourceEnded:
		both(endedOfNotSuccess, "")
	default:
		both(endedOfAll, openOfAll)
	}
	if !f.MayBeEnded() {
		ended = runSource{}
	}
	if !f.MayBeOpen() {
		open = runSource{}
	}
	return ended, open
}

// runConditions are all conditions of a list, for each table.
func runConditions(f *schedule.RunFilter) (ended, open *conditions) {
	ended, open = &conditions{}, &conditions{}
	for _, c := range []*conditions{ended, open} {
		trace := schedule.TraceKeys(f.TraceID)
		c.add(f.ScheduleID != "" && (f.Source() != schedule.SourceSchedule || !f.UpdatedAfter.IsZero()), runsSchedule, f.ScheduleID)
		c.add(f.UserID != "", runsUser, f.UserID)
		c.add(f.WorkflowID != "", runsWorkflow, f.WorkflowID)
		c.add(len(f.Statuses) > 0, runsStatuses, codes(f.Statuses))
		c.add(f.Trigger != "", runsTrigger, int64(f.Trigger.Code()))
		c.add(f.QueueNo != 0, runsQueue, int64(f.QueueNo))
		c.add(f.GroupNo != 0 && f.Source() != schedule.SourceGroup, runsGroup, int64(f.GroupNo))
		c.add(f.RunID != "", runsRunID, f.RunID)
		c.add(f.TraceID != "", runsTraceID, f.TraceID, trace.First[:], trace.Last[:])
		c.add(!f.Keys.IsZero(), runsKeys, f.Keys.First[:], f.Keys.Last[:])
		c.add(f.ErrorCode != "", runsErrorCode, f.ErrorCode)
		c.add(f.AnyOf != nil, runsAnyOf, keyList(f.AnyOf))
		c.addWindow(f)
	}
	ended.add(f.Class != "", runsClass, string(f.Class))
	ended.add(f.Reason != "", runsReason, string(f.Reason))
	ended.add(f.Dead, runsDead)
	open.add(!f.DueBefore.IsZero(), runsDue, ceilMicros(f.DueBefore))
	open.addNotAhead(f)
	if after := f.UpdatedAfter; !after.IsZero() {
		ended.add(true, runsEndedUpdated, after.UnixMicro(), f.UpdatedKey[:])
		open.add(true, runsOpenUpdated, after.UnixMicro(), f.UpdatedKey[:])
	}
	return ended, open
}

// addWindow adds the bounds of time, and the page before.
func (c *conditions) addWindow(f *schedule.RunFilter) {
	rest := runsNewest
	if f.Ascending {
		rest = runsOldest
	}
	c.add(!f.From.IsZero(), runsFrom, ceilMicros(f.From))
	c.add(!f.To.IsZero(), runsTo, ceilMicros(f.To))
	at := f.AfterRunAt.UnixMicro()
	c.add(f.UpdatedAfter.IsZero() && !f.AfterRunAt.IsZero(), rest, at, at, f.AfterKey[:])
}

// addNotAhead leaves out planned slots later than now, unless they are asked for.
func (c *conditions) addNotAhead(f *schedule.RunFilter) {
	if slices.Contains(f.Statuses, schedule.StatusPlanned) {
		return
	}
	condition := runsNoneAhead
	switch f.Source() {
	case schedule.SourceAll, schedule.SourceUnscheduled, schedule.SourceUnfinished:
		condition = runsNotAhead
	default:
	}
	if !f.UpdatedAfter.IsZero() {
		condition = runsNotAhead
	}
	c.add(true, condition, f.Now.UnixMicro())
}

// codes is a JSON array of the numbers of statuses.
func codes(statuses []schedule.Status) string {
	numbers := make([]int64, len(statuses))
	for i, status := range statuses {
		numbers[i] = int64(status.Code())
	}
	return jsonArg(numbers)
}
