package postgres

import (
	"bytes"
	"cmp"
	"slices"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// turn is what the order of claims goes by.
type turn struct {
	key      schedule.Key
	fireAt   time.Time
	runAt    time.Time
	priority int32
	behind   bool // catch-up and backfill: after what is on time
}

func turnOf(r *schedule.Run) *turn {
	return &turn{
		key: r.Key, fireAt: r.FireAt, runAt: r.RunAt, priority: r.Priority,
		behind: r.Trigger.AfterOthers(),
	}
}

// claimOrderAt is claimOrder of sql_claim.go.
func claimOrderAt(now time.Time) func(a, b *turn) int {
	return func(a, b *turn) int {
		return cmp.Or(byClass(now, a, b), cmp.Compare(b.priority, a.priority),
			a.fireAt.Compare(b.fireAt), a.runAt.Compare(b.runAt), bytes.Compare(a.key[:], b.key[:]))
	}
}

// byClass has first what is due and on time, then what is made up for, last what
// is only armed.
func byClass(now time.Time, a, b *turn) int {
	return cmp.Or(schedule.Last(a.fireAt.After(now), b.fireAt.After(now)), schedule.Last(a.behind, b.behind))
}

// inTurns are at most limit of the candidates, which are in the order of claims:
// the first of each owner before the second of any, and of each no more than he
// has room for. What is stranded has turns of its own, and takes nobody's room.
func inTurns(candidates []candidate, room map[string]int, limit int, now time.Time) []candidate {
	type line struct {
		owner    string
		stranded bool
	}
	type placed struct {
		candidate
		place int
	}
	lengths := make(map[line]int)
	kept := make([]placed, 0, len(candidates))
	for _, c := range candidates {
		l := line{schedule.Owner(c.overlapKey), c.stranded}
		lengths[l]++
		if lengths[l] <= room[l.owner] || c.stranded {
			kept = append(kept, placed{c, lengths[l]})
		}
	}
	slices.SortStableFunc(kept, func(a, b placed) int {
		return cmp.Or(byClass(now, &a.turn, &b.turn), cmp.Compare(a.place, b.place))
	})
	chosen := make([]candidate, 0, limit)
	for i := range kept[:min(len(kept), limit)] {
		chosen = append(chosen, kept[i].candidate)
	}
	return chosen
}
