package sqlite

import (
	"context"
	"fmt"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// GroupAlerts puts pending notices into groups and lets decide handle each group that
// changed or is due. more: q.Limit was reached.
func (s *Store) GroupAlerts(ctx context.Context, q schedule.AlertGrouping, decide schedule.GroupDecision) (more bool, err error) {
	var due flag
	err = s.readers.query(ctx, sqlAnyGrouping, func(scan scan) error { return scan(&due) }, q.Now.UnixMicro())
	if err == nil && bool(due) { // mostly not: then no writer has to wait
		err = s.write(ctx, func(ctx context.Context, t tx) error {
			placed, err := placeNotices(ctx, t, q)
			if err != nil {
				return err
			}
			groups, err := readGroups(ctx, t, sqlDueGroups, q.Now.UnixMicro(), q.Limit)
			for i := 0; err == nil && i < len(groups); i++ {
				err = decideGroup(ctx, t, q, groups[i], decide)
			}
			more = placed == q.Limit || len(groups) == q.Limit
			return err
		})
	}
	if err != nil {
		return false, fmt.Errorf("group alerts: %w", err)
	}
	return more, nil
}

// placeNotices puts pending notices into groups and makes those groups due.
func placeNotices(ctx context.Context, t tx, q schedule.AlertGrouping) (placed int, err error) {
	pending, err := readNotices(ctx, t, sqlPendingNotices, q.Limit)
	if err != nil || len(pending) == 0 {
		return 0, err
	}
	groups, err := readGroups(ctx, t, sqlJoinedGroups, q.JoinedSince.UnixMicro(), q.StartedSince.UnixMicro())
	if err != nil {
		return 0, err
	}
	joined, changed := schedule.PlaceNotices(pending, groups, q.Now)
	for _, g := range joined {
		if _, err := t.exec(ctx, sqlJoinGroup, g.Target, g.GroupID, g.Key, g.JoinedAt.UnixMicro()); err != nil {
			return 0, err
		}
	}
	for _, g := range changed {
		if _, err := t.exec(ctx, sqlCheckGroup, g.Target, g.GroupID, q.Now.UnixMicro(), q.Interval.Microseconds()); err != nil {
			return 0, err
		}
	}
	for i := range pending {
		n := &pending[i]
		if _, err := t.exec(ctx, sqlPlaceNotice, n.AlertID, n.Target, n.GroupID); err != nil {
			return 0, err
		}
	}
	return len(pending), nil
}

func decideGroup(ctx context.Context, t tx, q schedule.AlertGrouping, g schedule.AlertGroup, decide schedule.GroupDecision) (err error) {
	if g.Notices, err = readNotices(ctx, t, sqlNoticesOf, g.Target, g.GroupID); err != nil {
		return err
	}
	verdict, err := decide(g, func(alertID string) (string, error) {
		var payload text
		err := t.query(ctx, sqlNoticeText, func(scan scan) error { return scan(&payload) }, g.Target, alertID)
		return string(payload), err
	})
	if err != nil {
		return err
	}
	var toldAt, closedAt time.Time
	if verdict.Closed {
		closedAt = q.Now
	}
	if verdict.Delivery != nil {
		toldAt = q.Now
		if err := insertDeliveries(ctx, t, []schedule.AlertDelivery{*verdict.Delivery}); err != nil {
			return err
		}
		if _, err := t.exec(ctx, sqlToldNotices, g.Target, g.GroupID); err != nil {
			return err
		}
	}
	_, err = t.exec(ctx, sqlSaveGroup, g.Target, g.GroupID, micros(toldAt), micros(verdict.CheckAt), micros(closedAt))
	return err
}

func readNotices(ctx context.Context, q querier, statement string, args ...any) (found []schedule.AlertNotice, err error) {
	var (
		target, alertID, group, key, scheduleID, kind text
		opened, noticed                               instant
		told                                          flag
	)
	err = q.query(ctx, statement, func(scan scan) error {
		err := scan(&target, &alertID, &group, &key, &scheduleID, &kind, &opened, &noticed, &told)
		found = append(found, schedule.AlertNotice{
			Target: string(target), AlertID: string(alertID), GroupID: string(group), GroupKey: string(key), ScheduleID: string(scheduleID),
			Type: string(kind), OpenedAt: opened.Time, NoticedAt: noticed.Time, Told: bool(told),
		})
		return err
	}, args...)
	return found, err
}

func readGroups(ctx context.Context, q querier, statement string, args ...any) (found []schedule.AlertGroup, err error) {
	var (
		target, id, key text
		joined, told    instant
	)
	err = q.query(ctx, statement, func(scan scan) error {
		err := scan(&target, &id, &key, &joined, &told)
		found = append(found, schedule.AlertGroup{Target: string(target), GroupID: string(id), Key: string(key), JoinedAt: joined.Time, ToldAt: told.Time})
		return err
	}, args...)
	return found, err
}
