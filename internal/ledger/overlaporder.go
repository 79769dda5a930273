package ledger

import (
	"slices"

	"github.com/carillon/carillon/internal/schedule"
)

// OverlapOrder lists the runs that wait for their overlap group, or are due, in the order in which they
// would start if nothing came in between. The runs of g come in any order. Runs that would end before
// are left out.
func OverlapOrder(g schedule.OverlapGroup) (order []schedule.Key) {
	left := schedule.OverlapGroup{OverlapKey: g.OverlapKey, Now: g.Now, Waiting: slices.Clone(g.Waiting), Due: slices.Clone(g.Due)}
	slices.SortFunc(left.Waiting, func(a, b schedule.Run) int { return byFireAt(runOf(&a), runOf(&b)) })
	slices.SortFunc(left.Due, func(a, b schedule.Run) int { return byClaim(runOf(&a), runOf(&b)) })
	for len(left.Waiting)+len(left.Due) > 0 {
		over := make(map[schedule.Key]bool)
		began := len(order)
		for _, v := range JudgeOverlap(left) {
			switch v.Action {
			case schedule.VerdictClaim:
				order = append(order, v.Key)
				over[v.Key] = true
			case schedule.VerdictSkip:
				over[v.Key] = true
			}
		}
		if len(order) == began {
			return order
		}
		isOver := func(r schedule.Run) bool { return over[r.Key] }
		left.Waiting = slices.DeleteFunc(left.Waiting, isOver)
		left.Due = slices.DeleteFunc(left.Due, isOver)
	}
	return order
}
