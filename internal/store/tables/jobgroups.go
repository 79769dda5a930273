package tables

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

// GroupsBusy says that other transactions hold groups whose members this one ends. It holds rows
// of runs itself, so it must not wait for them: the others may need those rows. It begins again,
// and waits for the groups before anything else.
type GroupsBusy struct{ Nos []int32 }

func (e *GroupsBusy) Error() string { return fmt.Sprintf("groups %v are held by others", e.Nos) }

// jobGroupRow is a row of queue_groups.
type jobGroupRow struct {
	schedule.JobGroup
	onComplete string
}

func jobGroupFields(r *jobGroupRow) []any {
	return []any{
		&r.No, &r.GroupID, &r.QueueNo, &r.UserID, &r.Mode, &r.OnFailure, &r.State, &r.Sealed, &r.SealAt, &r.Members, &r.StopFrom, &r.CancelRequestedAt,
		&r.Succeeded, &r.Failed, &r.Skipped, &r.Cancelled, &r.onComplete, &r.Webhook, &r.RetryOf, &r.BodyHash, &r.CreatedAt, &r.EndedAt,
	}
}

func (r *jobGroupRow) group() (*schedule.JobGroup, error) {
	g := r.JobGroup
	var err error
	if g.OnComplete, err = schedule.ParseGroupRun(r.onComplete); err != nil {
		return nil, fmt.Errorf("on_complete of group %s: %w", schedule.Quote(g.GroupID), err)
	}
	return &g, nil
}

func collectGroups(ctx context.Context, q Queries, statement string, args ...any) ([]*schedule.JobGroup, error) {
	rows, err := collect(ctx, q, jobGroupFields, statement, args...)
	if err != nil {
		return nil, err
	}
	groups := make([]*schedule.JobGroup, len(rows))
	for i := range rows {
		if groups[i], err = rows[i].group(); err != nil {
			return nil, err
		}
	}
	return groups, nil
}

// lockGroup reads a group by its id, and keeps others from it. nil: there is none.
func (d *Dialect) lockGroup(ctx context.Context, q Queries, groupID string) (*schedule.JobGroup, error) {
	found, err := collectGroups(ctx, q, sqlGetJobGroup+d.LockJobGroup, groupID)
	if err != nil {
		return nil, fmt.Errorf("lock group %s: %w", schedule.Quote(groupID), err)
	}
	if len(found) == 0 {
		return nil, nil
	}
	return found[0], nil
}

// firstMember is the open member with the smallest number; nil: none is left.
func firstMember(ctx context.Context, q Queries, groupNo int32) (*schedule.GroupMember, error) {
	var m schedule.GroupMember
	var code int16
	there, err := one(ctx, q, []any{&m.Key, &m.Seq, &code, &m.FireAt}, sqlFirstMember, groupNo)
	if err != nil {
		return nil, fmt.Errorf("look for members of group %d: %w", groupNo, err)
	}
	if !there {
		return nil, nil
	}
	m.State, _ = schedule.QueueStateOf(code)
	return &m, nil
}

// countMembers counts the members of a group that are over by how their last runs have ended.
func countMembers(ctx context.Context, q Queries, groupNo int32) (c schedule.GroupCounts, err error) {
	var code int16
	var n int32
	err = q.Each(ctx, sqlCountMembers, []any{&code, &n}, func(bad error) error {
		status, _ := schedule.StatusOf(code)
		c.Add(status, n)
		return bad
	}, groupNo)
	if err != nil {
		return c, fmt.Errorf("count the members of group %d: %w", groupNo, err)
	}
	return c, nil
}

// readGroup adds the group of the request to the facts, locked.
func (d *Dialect) readGroup(ctx context.Context, q Queries, groupID string, f *schedule.EnqueueFacts) (err error) {
	if f.Group, err = d.lockGroup(ctx, q, groupID); err != nil || f.Group == nil {
		return err
	}
	first, err := firstMember(ctx, q, f.Group.No)
	f.GroupOpen = first != nil
	return err
}

// joinGroup makes what an entry changes of a group, and numbers the runs' group.
func (d *Dialect) joinGroup(ctx context.Context, q Queries, g *schedule.JobGroup, runs []schedule.Run) error {
	if g.No == 0 {
		n, err := q.Exec(ctx, sqlInsertJobGroup, newGroupArgs(g)...)
		if err == nil && n == 0 {
			err = errEnqueued
		}
		if err != nil {
			return fmt.Errorf("insert group %s: %w", schedule.Quote(g.GroupID), err)
		}
		if _, err := one(ctx, q, []any{&g.No}, sqlJobGroupNo, g.GroupID); err != nil {
			return err
		}
	} else if err := writeGroup(ctx, q, g); err != nil {
		return err
	}
	for i := range runs {
		runs[i].Queue.GroupNo = g.No
	}
	return nil
}

func newGroupArgs(g *schedule.JobGroup) []any {
	return []any{
		g.GroupID, g.QueueNo, g.UserID, string(g.Mode), string(g.OnFailure), string(g.State), g.Sealed, g.Members,
		orNull(g.OnComplete.Text()), orNull(g.Webhook), orNull(g.RetryOf), g.BodyHash, g.CreatedAt, g.SealAt,
	}
}

func writeGroup(ctx context.Context, q Queries, g *schedule.JobGroup) error {
	_, err := q.Exec(ctx, sqlUpdateJobGroup, g.No, string(g.State), g.Sealed, g.Members, orNull(g.StopFrom), g.CancelRequestedAt,
		g.Succeeded, g.Failed, g.Skipped, g.Cancelled, g.EndedAt)
	if err != nil {
		return fmt.Errorf("write group %s: %w", schedule.Quote(g.GroupID), err)
	}
	return nil
}

// SettleGroups makes what the ends of runs make of their groups, in the transaction of the ends:
// the next member waits, later ones are cancelled, the group ends. ended is the i-th of n runs in
// history, and their retries are open. Runs without a group cost nothing.
func (d *Dialect) SettleGroups(ctx context.Context, q Queries, n int, ended func(i int) *schedule.Run, now time.Time) error {
	nos := ledger.GroupNos(n, ended)
	if len(nos) == 0 {
		return nil
	}
	groups, err := collectGroups(ctx, q, d.LockJobGroups, Rows{nos})
	if err != nil {
		return fmt.Errorf("lock groups: %w", err)
	}
	if len(groups) < len(nos) {
		var there int
		if _, err := one(ctx, q, []any{&there}, d.CountJobGroups, Rows{nos}); err != nil {
			return fmt.Errorf("count groups: %w", err)
		}
		if there > len(groups) { // a pruned group is no more
			return &GroupsBusy{nos}
		}
	}
	for _, g := range groups {
		changed := false
		for i := range n {
			if r := ended(i); r.Queue.GroupNo == g.No {
				changed = ledger.NoteMemberEnd(g, r) || changed
			}
		}
		if err := d.settleGroup(ctx, q, g, changed, now); err != nil {
			return err
		}
	}
	return nil
}

// settleGroup does what is due with a group whose row is locked. changed: it was changed since it
// was read, and is written.
func (d *Dialect) settleGroup(ctx context.Context, q Queries, g *schedule.JobGroup, changed bool, now time.Time) error {
	if g.State != schedule.GroupRunning {
		return nil
	}
	if step, ok := ledger.StepOf(g); ok {
		if _, err := d.CancelMembers(ctx, q, step, now); err != nil {
			return fmt.Errorf("cancel members of group %s: %w", schedule.Quote(g.GroupID), err)
		}
	}
	first, err := firstMember(ctx, q, g.No)
	if err != nil {
		return err
	}
	if _, ok := ledger.ReleaseMember(g, first, now); ok { // fire_at may have changed since it was read
		n, err := q.Exec(ctx, sqlReleaseMember, first.Key, now)
		if err == nil && n == 0 {
			err = errors.New("it is not chained any more")
		}
		if err != nil {
			return fmt.Errorf("let member %s wait: %w", first.Key, err)
		}
		released, err := d.waitsFrom(ctx, q, first.Key, g.QueueNo, now)
		if err != nil {
			return fmt.Errorf("note when member %s expires: %w", first.Key, err)
		}
		d.WakeQueues(q, &released)
		if err := d.drawMember(ctx, q, first.Key, g.QueueNo, now); err != nil {
			return fmt.Errorf("let member %s draw: %w", first.Key, err)
		}
	}
	if ledger.GroupEnds(g, first) {
		changed = true
		if err := d.endGroup(ctx, q, g, now); err != nil {
			return err
		}
	}
	if changed {
		return writeGroup(ctx, q, g)
	}
	return nil
}

// waitsFrom moves the end of the wait of a run that was let wait, and is locked.
func (d *Dialect) waitsFrom(ctx context.Context, q Queries, key schedule.Key, queueNo int32, now time.Time) (r schedule.Run, err error) {
	r.Queue.No = queueNo
	_, err = one(ctx, q, []any{&r.FireAt, &r.Queue.EnqueuedAt, &r.StartBy, &r.Queue.Priority, &r.Queue.FairOrder, &r.Queue.Position}, sqlMemberStart, key)
	if r.Queue.State = ledger.StateOfEntry(r.FireAt, now); err != nil || r.StartBy.IsZero() {
		return r, err
	}
	r.StartBy = ledger.WaitsFrom(&r, schedule.Later(r.FireAt, now))
	_, err = q.Exec(ctx, sqlSetStartBy, key, r.StartBy, ledger.DueAt(&r))
	return r, err
}

// endGroup ends a group that has no member left, with its message and the run that follows it.
func (d *Dialect) endGroup(ctx context.Context, q Queries, g *schedule.JobGroup, now time.Time) error {
	counts, err := countMembers(ctx, q, g.No)
	if err != nil {
		return err
	}
	ledger.EndJobGroup(g, counts, now)
	var webhook string
	if _, err := one(ctx, q, []any{&webhook}, sqlQueueWebhook, g.QueueNo); err != nil {
		return fmt.Errorf("read the webhook of queue %d: %w", g.QueueNo, err)
	}
	if m, ok := ledger.GroupMessage(g, schedule.ParseQueueWebhook(webhook)); ok {
		if err := q.ExecAll(ctx, []Call{d.insertDelivery(&m)}); err != nil {
			return fmt.Errorf("write the message about group %s: %w", schedule.Quote(g.GroupID), err)
		}
	}
	run, ok := ledger.GroupCompletion(g)
	queue, err := QueueByNo(ctx, q, g.QueueNo)
	if err != nil || !ok || !queue.Alive() {
		return err
	}
	runs := []schedule.Run{run}
	if _, err := d.placeRuns(ctx, q, runs, 0); err != nil {
		return err
	}
	if err := d.DrawFair(ctx, q, schedule.Pointers(runs), map[int32]*schedule.Queue{queue.No: queue}, now); err != nil {
		return err
	}
	if err := d.InsertQueued(ctx, q, runs, now); err != nil {
		return fmt.Errorf("enter on_complete of group %s: %w", schedule.Quote(g.GroupID), err)
	}
	return nil
}

// ChangeJobGroup lets decide change a group, in one transaction, and returns it. nil: there is
// none. decide may be called again.
func (t *Tables) ChangeJobGroup(ctx context.Context, groupID string, decide func(*schedule.JobGroup) (schedule.GroupChange, error)) (after *schedule.JobGroup, err error) {
	err = t.write(ctx, func(ctx context.Context, q Queries) error {
		now, err := t.dialect.lockGroup(ctx, q, groupID)
		if err != nil {
			return err
		}
		change, err := decide(now)
		if after = now; err != nil || change.After == nil {
			return err
		}
		after = change.After
		if err := t.dialect.settleGroup(ctx, q, after, true, change.Now); err != nil || change.Audit == nil {
			return err
		}
		return t.dialect.InsertAudit(ctx, q, []schedule.AuditEntry{*change.Audit})
	})
	if err != nil {
		return nil, fmt.Errorf("change group %s: %w", schedule.Quote(groupID), err)
	}
	return after, nil
}

// sweptAmong is how many groups of a kind one sweep looks at.
const sweptAmong = 20

// SweepJobGroups seals groups that are due, and goes on with those that have more members to cancel
// than one transaction does. more: some may be left.
func (t *Tables) SweepJobGroups(ctx context.Context, now time.Time) (more bool, err error) {
	number := func(no *int32) []any { return []any{no} }
	nos, err := collect(ctx, t.read, number, sqlStoppingGroups, sweptAmong)
	if err != nil {
		return false, fmt.Errorf("look for groups that stop: %w", err)
	}
	due, err := collect(ctx, t.read, number, sqlGroupsToSeal, now, sweptAmong)
	if err != nil {
		return false, fmt.Errorf("look for groups to seal: %w", err)
	}
	nos = append(nos, due...)
	for _, no := range nos {
		err := t.write(ctx, func(ctx context.Context, q Queries) error {
			groups, err := collectGroups(ctx, q, t.dialect.LockJobGroups, Rows{[]int32{no}})
			if err != nil || len(groups) == 0 {
				return err
			}
			return t.dialect.settleGroup(ctx, q, groups[0], ledger.SealDue(groups[0], now), now)
		})
		if err != nil {
			return false, fmt.Errorf("go on with group %d: %w", no, err)
		}
	}
	return len(nos) > 0, nil
}

// GetJobGroup returns a group with its members counted, or schedule.ErrNotFound.
func (t *Tables) GetJobGroup(ctx context.Context, groupID string) (*schedule.JobGroup, error) {
	return t.oneGroup(ctx, sqlGetJobGroup, groupID)
}

// JobGroupByNo is GetJobGroup by the number of the group.
func (t *Tables) JobGroupByNo(ctx context.Context, groupNo int32) (*schedule.JobGroup, error) {
	return t.oneGroup(ctx, sqlJobGroupByNo, groupNo)
}

func (t *Tables) oneGroup(ctx context.Context, statement string, id any) (*schedule.JobGroup, error) {
	found, err := collectGroups(ctx, t.read, statement, id)
	if err == nil && len(found) == 0 {
		err = schedule.ErrNotFound
	}
	if err == nil && found[0].State == schedule.GroupRunning {
		found[0].GroupCounts, err = countMembers(ctx, t.read, found[0].No)
	}
	if err != nil {
		return nil, fmt.Errorf("group %v: %w", id, err)
	}
	return found[0], nil
}

// ListJobGroups lists groups, newest first, with their members counted.
func (t *Tables) ListJobGroups(ctx context.Context, f schedule.GroupFilter) ([]schedule.JobGroup, error) {
	found, err := collectGroups(ctx, t.read, sqlListJobGroups, f.UserID, f.QueueNo, string(f.State), cmp.Or(f.Before, math.MaxInt32), schedule.PageSize(f.Limit))
	if err != nil {
		return nil, fmt.Errorf("list groups: %w", err)
	}
	groups := make([]schedule.JobGroup, len(found))
	for i, g := range found {
		if g.State == schedule.GroupRunning {
			if g.GroupCounts, err = countMembers(ctx, t.read, g.No); err != nil {
				return nil, err
			}
		}
		groups[i] = *g
	}
	return groups, nil
}

// JobGroupID is the id of a group by its number; "": it was pruned.
func (t *Tables) JobGroupID(ctx context.Context, groupNo int32) (id string, err error) {
	if _, err = one(ctx, t.read, []any{&id}, sqlJobGroupID, groupNo); err != nil {
		return "", fmt.Errorf("group %d: %w", groupNo, err)
	}
	return id, nil
}

// FirstMember is the open member of a group with the smallest number; nil: none is left.
func (t *Tables) FirstMember(ctx context.Context, groupNo int32) (*schedule.GroupMember, error) {
	return firstMember(ctx, t.read, groupNo)
}
