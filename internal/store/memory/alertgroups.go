package memory

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// noticeID names a notice by its target and alert, or a group by its target and
// first alert.
type noticeID struct{ target, alertID string }

type notice struct {
	schedule.AlertNotice
	payload string
	pending bool // its group has not seen it
}

type group struct {
	schedule.AlertGroup
	checkAt  time.Time
	closedAt time.Time
}

func (t *tx) saveNotice(d *schedule.AlertDelivery) {
	id := noticeID{d.Target, d.AlertID}
	n, known := t.notices[id]
	if !known {
		n.AlertNotice = schedule.AlertNotice{Target: d.Target, AlertID: d.AlertID, GroupKey: d.GroupKey, ScheduleID: d.ScheduleID, OpenedAt: at(d.CreatedAt)}
	}
	// A reminder of what is not told yet: the alert is still new.
	if repeats := known && !n.Told && n.Open() && d.Type == schedule.NoticeReminder; !repeats {
		n.Type, n.NoticedAt = d.Type, at(d.CreatedAt)
	}
	n.Told, n.payload, n.pending = false, d.Payload, true
	setIn(t, t.notices, id, n)
}

// GroupAlerts puts pending notices into groups, and lets decide say what happens to
// each group that changed or that is due.
func (s *Store) GroupAlerts(ctx context.Context, q schedule.AlertGrouping, decide schedule.GroupDecision) (more bool, err error) {
	err = s.write(ctx, func(t *tx) error {
		placed := t.placeNotices(q)
		var due []group
		for _, g := range t.groups {
			if !g.checkAt.IsZero() && !g.checkAt.After(at(q.Now)) {
				due = append(due, g)
			}
		}
		slices.SortFunc(due, func(a, b group) int { return cmp.Or(a.checkAt.Compare(b.checkAt), cmp.Compare(a.GroupID, b.GroupID)) })
		due = due[:min(len(due), q.Limit)]
		for _, g := range due {
			if err := t.decideGroup(q, g, decide); err != nil {
				return err
			}
		}
		more = placed == q.Limit || len(due) == q.Limit
		return nil
	})
	return more, err
}

func (t *tx) placeNotices(q schedule.AlertGrouping) int {
	var pending []schedule.AlertNotice
	for _, n := range t.notices {
		if n.pending {
			if g, found := t.groups[noticeID{n.Target, n.GroupID}]; !found || !g.closedAt.IsZero() {
				n.GroupID = ""
			}
			pending = append(pending, n.AlertNotice)
		}
	}
	slices.SortFunc(pending, func(a, b schedule.AlertNotice) int {
		return cmp.Or(a.NoticedAt.Compare(b.NoticedAt), cmp.Compare(a.AlertID, b.AlertID))
	})
	pending = pending[:min(len(pending), q.Limit)]
	var groups []schedule.AlertGroup
	for _, g := range t.groups {
		first := t.notices[noticeID{g.Target, g.GroupID}]
		if g.closedAt.IsZero() && g.JoinedAt.After(at(q.JoinedSince)) && first.OpenedAt.After(at(q.StartedSince)) {
			groups = append(groups, g.AlertGroup)
		}
	}
	slices.SortFunc(groups, func(a, b schedule.AlertGroup) int {
		return cmp.Or(b.JoinedAt.Compare(a.JoinedAt), cmp.Compare(a.GroupID, b.GroupID))
	})
	joined, changed := schedule.PlaceNotices(pending, groups, at(q.Now))
	for _, g := range joined {
		kept := t.groups[noticeID{g.Target, g.GroupID}]
		if kept.closedAt.IsZero() {
			g.ToldAt = kept.ToldAt
		} else {
			g.ToldAt = time.Time{}
		}
		setIn(t, t.groups, noticeID{g.Target, g.GroupID}, group{AlertGroup: g})
	}
	for _, g := range changed {
		id := noticeID{g.Target, g.GroupID}
		kept := t.groups[id]
		kept.checkAt = at(q.Now)
		if next := kept.ToldAt.Add(q.Interval); !kept.ToldAt.IsZero() && next.After(kept.checkAt) {
			kept.checkAt = at(next)
		}
		setIn(t, t.groups, id, kept)
	}
	for _, p := range pending {
		id := noticeID{p.Target, p.AlertID}
		n := t.notices[id]
		n.GroupID, n.pending = p.GroupID, false
		setIn(t, t.notices, id, n)
	}
	return len(pending)
}

func (t *tx) decideGroup(q schedule.AlertGrouping, g group, decide schedule.GroupDecision) error {
	id := noticeID{g.Target, g.GroupID}
	full := g.AlertGroup
	full.Notices = t.noticesOf(id)
	verdict, err := decide(full, func(alertID string) (string, error) { return t.notices[noticeID{g.Target, alertID}].payload, nil })
	if err != nil {
		return err
	}
	g.checkAt, g.closedAt = at(verdict.CheckAt), time.Time{}
	if verdict.Closed {
		g.closedAt = at(q.Now)
	}
	if verdict.Delivery != nil {
		g.ToldAt = at(q.Now)
		t.insertDeliveries([]schedule.AlertDelivery{*verdict.Delivery})
		for _, n := range full.Notices {
			told := t.notices[noticeID{n.Target, n.AlertID}]
			told.Told = true
			setIn(t, t.notices, noticeID{n.Target, n.AlertID}, told)
		}
	}
	setIn(t, t.groups, id, g)
	return nil
}

// noticesOf are the notices of a group, the oldest alert first.
func (s *Store) noticesOf(id noticeID) (found []schedule.AlertNotice) {
	for _, n := range s.notices {
		if n.Target == id.target && n.GroupID == id.alertID {
			found = append(found, n.AlertNotice)
		}
	}
	slices.SortFunc(found, func(a, b schedule.AlertNotice) int {
		return cmp.Or(a.OpenedAt.Compare(b.OpenedAt), cmp.Compare(a.AlertID, b.AlertID))
	})
	return found
}

// tells reports whether a message is one of a group that has this alert, or an
// alert of this schedule.
func (s *Store) tells(d *schedule.AlertDelivery, alertID, scheduleID string) bool {
	for _, n := range s.noticesOf(noticeID{d.Target, d.AlertID}) {
		if n.AlertID == alertID || n.ScheduleID == scheduleID {
			return true
		}
	}
	return false
}
