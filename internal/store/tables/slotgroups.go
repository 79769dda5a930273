package tables

import (
	"context"
	"fmt"
	"time"

	"github.com/carillon/carillon/internal/ledger"
)

// LockSlotGroups locks the groups that the entries of a claim may join, and makes those that are not
// there. The claim calls it before it locks rows of runs, which holders of groups wait for. Groups
// are made in the order of their ids, and locked in that of their numbers, as everywhere. Entries
// without a group cost nothing.
func (d *Dialect) LockSlotGroups(ctx context.Context, q Queries, entries []ledger.Entry, now time.Time) (*ledger.SlotGroups, error) {
	wanted := ledger.WantedGroups(entries, now)
	if len(wanted) == 0 {
		return ledger.NewSlotGroups(nil, now), nil
	}
	calls, ids := make([]Call, len(wanted)), make([]string, len(wanted))
	for i, g := range wanted {
		calls[i], ids[i] = Call{sqlInsertJobGroup, newGroupArgs(g)}, g.GroupID
	}
	if err := q.ExecAll(ctx, calls); err != nil {
		return nil, fmt.Errorf("make groups of slots: %w", err)
	}
	groups, err := collectGroups(ctx, q, d.GroupsByID, ids)
	if err != nil {
		return nil, fmt.Errorf("lock groups of slots: %w", err)
	}
	return ledger.NewSlotGroups(groups, now), nil
}

// WriteSlotGroups writes what the entries of a claim have made of groups.
func (d *Dialect) WriteSlotGroups(ctx context.Context, q Queries, s *ledger.SlotGroups) error {
	changed, unused := s.Changed()
	calls := make([]Call, 0, len(changed)+len(unused))
	for _, g := range changed {
		calls = append(calls, Call{sqlSetMembers, []any{g.No, g.Members}})
	}
	for _, g := range unused {
		calls = append(calls, Call{sqlDropUnusedGroup, []any{g.No}})
	}
	if err := q.ExecAll(ctx, calls); err != nil {
		return fmt.Errorf("write groups of slots: %w", err)
	}
	return insertQueueEvents(ctx, q, s.Events())
}
