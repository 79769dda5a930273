package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/carillon/carillon/internal/schedule"
)

// GroupAlerts puts pending notices into groups and lets decide handle each group that
// changed or is due. more: q.Limit was reached.
func (s *Store) GroupAlerts(ctx context.Context, q schedule.AlertGrouping, decide schedule.GroupDecision) (more bool, err error) {
	var due bool
	err = s.pool.QueryRow(ctx, sqlAnyGrouping, q.Now).Scan(&due)
	if err == nil && due {
		err = s.transact(ctx, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, sqlGroupsLock); err != nil {
				return err
			}
			placed, err := placeNotices(ctx, tx, q)
			if err != nil {
				return err
			}
			groups, err := collectGroups(ctx, tx, sqlDueGroups, q.Now, q.Limit)
			for i := 0; err == nil && i < len(groups); i++ {
				err = decideGroup(ctx, tx, q, groups[i], decide)
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
func placeNotices(ctx context.Context, tx pgx.Tx, q schedule.AlertGrouping) (placed int, err error) {
	pending, err := collectNotices(ctx, tx, sqlPendingNotices, q.Limit)
	if err != nil || len(pending) == 0 {
		return 0, err
	}
	groups, err := collectGroups(ctx, tx, sqlJoinedGroups, q.JoinedSince, q.StartedSince)
	if err != nil {
		return 0, err
	}
	joined, changed := schedule.PlaceNotices(pending, groups, q.Now)
	target, id := func(g *schedule.AlertGroup) string { return g.Target }, func(g *schedule.AlertGroup) string { return g.GroupID }
	key := func(g *schedule.AlertGroup) string { return g.Key }
	if _, err := tx.Exec(ctx, sqlJoinGroups, column(joined, target), column(joined, id), column(joined, key), q.Now); err != nil {
		return 0, err
	}
	if _, err := tx.Exec(ctx, sqlCheckGroups, column(changed, target), column(changed, id), q.Now, q.Interval.Microseconds()); err != nil {
		return 0, err
	}
	_, err = tx.Exec(ctx, sqlPlaceNotices, column(pending, func(n *schedule.AlertNotice) string { return n.AlertID }),
		column(pending, func(n *schedule.AlertNotice) string { return n.Target }), column(pending, func(n *schedule.AlertNotice) string { return n.GroupID }))
	return len(pending), err
}

func decideGroup(ctx context.Context, tx pgx.Tx, q schedule.AlertGrouping, g schedule.AlertGroup, decide schedule.GroupDecision) (err error) {
	if g.Notices, err = collectNotices(ctx, tx, sqlNoticesOf, g.Target, g.GroupID); err != nil {
		return err
	}
	verdict, err := decide(g, func(alertID string) (payload string, err error) {
		err = tx.QueryRow(ctx, sqlNoticeText, g.Target, alertID).Scan(&payload)
		return payload, err
	})
	if err != nil {
		return err
	}
	var toldAt, closedAt time.Time
	if verdict.Closed {
		closedAt = q.Now
	}
	batch := &pgx.Batch{}
	if verdict.Delivery != nil {
		toldAt = q.Now
		queueDelivery(batch, verdict.Delivery)
		batch.Queue(sqlToldNotices, g.Target, g.GroupID)
	}
	batch.Queue(sqlSaveGroup, g.Target, g.GroupID, noneOrTime(toldAt), noneOrTime(verdict.CheckAt), noneOrTime(closedAt))
	return tx.SendBatch(ctx, batch).Close()
}

// queueDelivery adds a message to the outbox or to the pending notices.
func queueDelivery(batch *pgx.Batch, d *schedule.AlertDelivery) {
	if d.GroupKey == "" {
		batch.Queue(sqlInsertDelivery, deliveryArgs(d)...)
		return
	}
	batch.Queue(sqlSaveNotice, d.AlertID, d.Target, d.GroupKey, d.ScheduleID, d.Type, d.Payload, d.CreatedAt)
}

func collectNotices(ctx context.Context, q querier, statement string, args ...any) (found []schedule.AlertNotice, err error) {
	var (
		n               schedule.AlertNotice
		opened, noticed pgtype.Timestamptz
	)
	targets := []any{&n.Target, &n.AlertID, &n.GroupID, &n.GroupKey, &n.ScheduleID, &n.Type, &opened, &noticed, &n.Told}
	err = each(ctx, q, targets, func() error {
		var d decoding
		n.OpenedAt, n.NoticedAt = d.time("opened_at", opened), d.time("noticed_at", noticed)
		found = append(found, n)
		return d.err
	}, statement, args...)
	return found, err
}

func collectGroups(ctx context.Context, q querier, statement string, args ...any) (found []schedule.AlertGroup, err error) {
	var (
		g            schedule.AlertGroup
		joined, told pgtype.Timestamptz
	)
	err = each(ctx, q, []any{&g.Target, &g.GroupID, &g.Key, &joined, &told}, func() error {
		var d decoding
		g.JoinedAt, g.ToldAt = d.time("joined_at", joined), d.time("told_at", told)
		found = append(found, g)
		return d.err
	}, statement, args...)
	return found, err
}
