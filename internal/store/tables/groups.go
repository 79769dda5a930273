package tables

import (
	"context"
	"fmt"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

func noticeFields(n *schedule.AlertNotice) []any {
	return []any{&n.Target, &n.AlertID, &n.GroupID, &n.GroupKey, &n.ScheduleID, &n.Type, &n.OpenedAt, &n.NoticedAt, &n.Told}
}

func groupFields(g *schedule.AlertGroup) []any {
	return []any{&g.Target, &g.GroupID, &g.Key, &g.JoinedAt, &g.ToldAt}
}

// GroupAlerts puts pending notices into groups and lets decide handle each group that
// changed or is due. more: q.Limit was reached.
func (t *Tables) GroupAlerts(ctx context.Context, grouping schedule.AlertGrouping, decide schedule.GroupDecision) (more bool, err error) {
	due := false // usually none is due: then it takes no write lock
	_, err = one(ctx, t.read, []any{&due}, sqlAnyGrouping, grouping.Now)
	if err == nil && due {
		err = t.write(ctx, func(ctx context.Context, q Queries) error {
			if err := q.ExecAll(ctx, t.dialect.GroupsLock); err != nil {
				return err
			}
			placed, err := t.placeNotices(ctx, q, &grouping)
			if err != nil {
				return err
			}
			groups, err := collect(ctx, q, groupFields, sqlDueGroups, grouping.Now, grouping.Limit)
			for i := 0; err == nil && i < len(groups); i++ {
				err = t.decideGroup(ctx, q, &grouping, groups[i], decide)
			}
			more = placed == grouping.Limit || len(groups) == grouping.Limit
			return err
		})
	}
	if err != nil {
		return false, fmt.Errorf("group alerts: %w", err)
	}
	return more, nil
}

// placeNotices puts pending notices into groups and makes those groups due.
func (t *Tables) placeNotices(ctx context.Context, q Queries, grouping *schedule.AlertGrouping) (placed int, err error) {
	pending, err := collect(ctx, q, noticeFields, sqlPendingNotices, grouping.Limit)
	if err != nil || len(pending) == 0 {
		return 0, err
	}
	groups, err := collect(ctx, q, groupFields, sqlJoinedGroups, everSince(grouping.JoinedSince), everSince(grouping.StartedSince))
	if err != nil {
		return 0, err
	}
	joined, changed := schedule.PlaceNotices(pending, groups, grouping.Now)
	var calls []Call
	for i := range joined {
		g := &joined[i]
		calls = append(calls, Call{sqlJoinGroup, []any{g.Target, g.GroupID, g.Key, g.JoinedAt}})
	}
	for i := range changed {
		g := &changed[i]
		calls = append(calls, Call{t.dialect.CheckGroup, []any{g.Target, g.GroupID, grouping.Now, grouping.Interval.Microseconds()}})
	}
	for i := range pending {
		n := &pending[i]
		calls = append(calls, Call{sqlPlaceNotice, []any{n.AlertID, n.Target, n.GroupID}})
	}
	return len(pending), q.ExecAll(ctx, calls)
}

func (t *Tables) decideGroup(ctx context.Context, q Queries, grouping *schedule.AlertGrouping, g schedule.AlertGroup, decide schedule.GroupDecision) (err error) {
	if g.Notices, err = collect(ctx, q, noticeFields, sqlNoticesOf, g.Target, g.GroupID); err != nil {
		return err
	}
	verdict, err := decide(g, func(alertID string) (payload string, err error) {
		_, err = one(ctx, q, []any{&payload}, sqlNoticeText, g.Target, alertID)
		return payload, err
	})
	if err != nil {
		return err
	}
	var (
		toldAt, closedAt time.Time
		calls            []Call
	)
	if verdict.Closed {
		closedAt = grouping.Now
	}
	if verdict.Delivery != nil {
		toldAt = grouping.Now
		calls = append(calls, t.dialect.insertDelivery(verdict.Delivery), Call{sqlToldNotices, []any{g.Target, g.GroupID}})
	}
	return q.ExecAll(ctx, append(calls, Call{sqlSaveGroup, []any{g.Target, g.GroupID, toldAt, verdict.CheckAt, closedAt}}))
}

// everSince is a bound before all groups if t is zero, which would be NULL.
func everSince(t time.Time) time.Time {
	if t.IsZero() {
		return time.Unix(0, 0)
	}
	return t
}
