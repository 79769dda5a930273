package memory

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

// members are the open members of a group, by number.
func (s *Store) members(groupNo int32) (runs []*schedule.Run) {
	for _, r := range s.live.queued.rows {
		if r.Queue.GroupNo == groupNo {
			runs = append(runs, r)
		}
	}
	slices.SortFunc(runs, func(a, b *schedule.Run) int {
		return cmp.Or(cmp.Compare(a.Queue.GroupSeq, b.Queue.GroupSeq), slices.Compare(a.Key[:], b.Key[:]))
	})
	return runs
}

func (s *Store) firstMember(groupNo int32) *schedule.GroupMember {
	left := s.members(groupNo)
	if len(left) == 0 {
		return nil
	}
	r := left[0]
	return &schedule.GroupMember{Key: r.Key, Seq: r.Queue.GroupSeq, State: r.Queue.State, FireAt: r.FireAt}
}

// countMembers follows the retries of each member to its last run.
func (s *Store) countMembers(groupNo int32) (c schedule.GroupCounts) {
	open, last := make(map[int32]bool), make(map[int32]*schedule.Run)
	for _, r := range s.runs {
		seq := r.Queue.GroupSeq
		switch {
		case r.Queue.GroupNo != groupNo:
		case !r.Status.Terminal():
			open[seq] = true
		case last[seq] == nil || laterOf(r, last[seq]):
			last[seq] = r
		}
	}
	for seq, r := range last {
		if !open[seq] {
			c.Add(r.Status, 1)
		}
	}
	return c
}

// laterOf reports whether a run of a member comes after another one.
func laterOf(a, b *schedule.Run) bool {
	return cmp.Or(cmp.Compare(a.Attempt, b.Attempt), cmp.Compare(a.Snoozes, b.Snoozes), cmp.Compare(a.Interruptions, b.Interruptions),
		a.CompletedAt.Compare(b.CompletedAt), slices.Compare(b.Key[:], a.Key[:])) > 0
}

func (s *Store) groupOf(groupNo int32) *schedule.JobGroup {
	for _, g := range s.jobGroups {
		if g.No == groupNo {
			return g
		}
	}
	return nil
}

// putGroup writes a group, and returns it as it is stored.
func (t *tx) putGroup(g schedule.JobGroup) *schedule.JobGroup {
	if g.No == 0 {
		t.lastGroupNo++
		g.No = t.lastGroupNo
	}
	g.CreatedAt, g.EndedAt, g.CancelRequestedAt, g.SealAt = at(g.CreatedAt), at(g.EndedAt), at(g.CancelRequestedAt), at(g.SealAt)
	before := t.jobGroups[g.GroupID]
	putUndone(t, t.jobGroups, g.GroupID, &g, true)
	if t.opts.Watch.Group != nil {
		after := g
		t.told = append(t.told, func() { t.opts.Watch.Group(before, &after) })
	}
	return &g
}

// settleGroups makes what the ends of the transaction make of their groups.
func (t *tx) settleGroups() {
	ended := slices.DeleteFunc(slices.Clone(t.ended), func(r *schedule.Run) bool { return t.byGroup[r.Key] })
	for _, no := range ledger.GroupNos(len(ended), func(i int) *schedule.Run { return ended[i] }) {
		found := t.groupOf(no)
		if found == nil { // pruned
			continue
		}
		g := *found
		changed := false
		now := time.Time{}
		for _, r := range ended {
			if r.Queue.GroupNo == no {
				changed = ledger.NoteMemberEnd(&g, r) || changed
				now = schedule.Later(now, r.UpdatedAt)
			}
		}
		t.settleGroup(&g, changed, now)
	}
}

// settleGroup does what is due with a group. changed: it is written.
func (t *tx) settleGroup(g *schedule.JobGroup, changed bool, now time.Time) {
	if g.State != schedule.GroupRunning {
		return
	}
	if step, ok := ledger.StepOf(g); ok {
		t.cancelMembers(step, now)
	}
	first := t.firstMember(g.No)
	if state, ok := ledger.ReleaseMember(g, first, now); ok {
		row := t.runs[first.Key]
		t.change(row, func(r *schedule.Run) {
			r.StartBy = ledger.WaitsFrom(r, schedule.Later(r.FireAt, now))
			r.Queue.State, r.UpdatedAt = state, at(now)
		})
		t.draw(row, now)
		t.queued = true
	}
	if ledger.GroupEnds(g, first) {
		changed = true
		ledger.EndJobGroup(g, t.countMembers(g.No), now)
		var webhook schedule.QueueWebhook
		if q := t.queueOf(g.QueueNo); q != nil {
			webhook = q.WebhookOf()
		}
		if m, ok := ledger.GroupMessage(g, webhook); ok {
			t.insertDeliveries([]schedule.AlertDelivery{m})
		}
		if run, ok := ledger.GroupCompletion(g); ok && t.queueOf(g.QueueNo).Alive() {
			runs := []schedule.Run{run}
			t.placeRuns(runs, 0)
			t.drawFair(now, &runs[0])
			t.insert(runs[0], now)
			t.queued = true
		}
	}
	if changed {
		t.putGroup(*g)
	}
}

// cancelMembers cancels members as a step says.
func (t *tx) cancelMembers(step ledger.MemberStep, now time.Time) {
	t.queued = true
	n := 0
	for _, r := range t.members(step.GroupNo) {
		if n == step.Limit {
			break
		}
		end, request := step.Cancel(r, now)
		switch {
		case end != nil && t.settle(end, now):
			if t.byGroup == nil {
				t.byGroup = make(map[schedule.Key]bool)
			}
			t.byGroup[r.Key] = true
			n++
		case request != "" && t.askCancel(r, request, now):
			n++
		}
	}
}

// ChangeJobGroup lets decide change a group, in one transaction. nil: there is none.
func (s *Store) ChangeJobGroup(ctx context.Context, groupID string, decide func(*schedule.JobGroup) (schedule.GroupChange, error)) (after *schedule.JobGroup, err error) {
	err = s.write(ctx, func(t *tx) error {
		var now *schedule.JobGroup
		if found := t.jobGroups[groupID]; found != nil {
			copied := *found
			now = &copied
		}
		change, err := decide(now)
		if after = now; err != nil || change.After == nil {
			return err
		}
		row := *change.After
		t.settleGroup(&row, true, change.Now)
		t.audit(change.Audit, change.Now)
		after = &row
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("change group %s: %w", schedule.Quote(groupID), err)
	}
	return after, nil
}

// sweepGroups seals groups that are due, and goes on with those that have more members to cancel.
// more: some are left.
func (t *tx) sweepGroups(now time.Time) (more bool) {
	for _, g := range t.groupsByNo() {
		if row := *g; ledger.SealDue(&row, now) {
			t.settleGroup(&row, true, now)
			more = true
			continue
		}
		step, ok := ledger.StepOf(g)
		if !ok || !slices.ContainsFunc(t.members(g.No), func(r *schedule.Run) bool {
			end, request := step.Cancel(r, now)
			return end != nil || request != ""
		}) {
			continue
		}
		row := *g
		t.settleGroup(&row, false, now)
		more = true
	}
	return more
}

func (s *Store) groupsByNo() []*schedule.JobGroup {
	groups := make([]*schedule.JobGroup, 0, len(s.jobGroups))
	for _, g := range s.jobGroups {
		groups = append(groups, g)
	}
	slices.SortFunc(groups, func(a, b *schedule.JobGroup) int { return cmp.Compare(a.No, b.No) })
	return groups
}

// counted is a group with its members counted.
func (s *Store) counted(g *schedule.JobGroup) *schedule.JobGroup {
	row := *g
	if row.State == schedule.GroupRunning {
		row.GroupCounts = s.countMembers(g.No)
	}
	return &row
}

// GetJobGroup returns a group with its members counted, or schedule.ErrNotFound.
func (s *Store) GetJobGroup(ctx context.Context, groupID string) (g *schedule.JobGroup, err error) {
	err = s.read(ctx, func() error {
		found := s.jobGroups[groupID]
		if found == nil {
			return fmt.Errorf("group %s: %w", schedule.Quote(groupID), schedule.ErrNotFound)
		}
		g = s.counted(found)
		return nil
	})
	return g, err
}

// JobGroupByNo is GetJobGroup by the number of the group.
func (s *Store) JobGroupByNo(ctx context.Context, groupNo int32) (g *schedule.JobGroup, err error) {
	err = s.read(ctx, func() error {
		found := s.groupOf(groupNo)
		if found == nil {
			return fmt.Errorf("group %d: %w", groupNo, schedule.ErrNotFound)
		}
		g = s.counted(found)
		return nil
	})
	return g, err
}

// ListJobGroups lists groups, newest first, with their members counted.
func (s *Store) ListJobGroups(ctx context.Context, f schedule.GroupFilter) (groups []schedule.JobGroup, err error) {
	err = s.read(ctx, func() error {
		for _, g := range slices.Backward(s.groupsByNo()) {
			switch {
			case len(groups) == schedule.PageSize(f.Limit), f.UserID != "" && g.UserID != f.UserID, f.QueueNo != 0 && g.QueueNo != f.QueueNo,
				f.State != "" && g.State != f.State, f.Before != 0 && g.No >= f.Before:
			default:
				groups = append(groups, *s.counted(g))
			}
		}
		return nil
	})
	return groups, err
}

// JobGroupID is the id of a group by its number; "": it was pruned.
func (s *Store) JobGroupID(ctx context.Context, groupNo int32) (id string, err error) {
	err = s.read(ctx, func() error {
		if g := s.groupOf(groupNo); g != nil {
			id = g.GroupID
		}
		return nil
	})
	return id, err
}

// FirstMember is the open member of a group with the smallest number; nil: none is left.
func (s *Store) FirstMember(ctx context.Context, groupNo int32) (m *schedule.GroupMember, err error) {
	err = s.read(ctx, func() error {
		m = s.firstMember(groupNo)
		return nil
	})
	return m, err
}
