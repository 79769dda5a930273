package ledger

import (
	"math/bits"
	"slices"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// HeadReads returns how many of the first waiting runs of each limit set an admission reads that can
// take room runs, once it has read the limits. The sets share the room; none gets more than its limits
// have left, rounded up to a power of two, so that a few reads serve many sets. Of a set that a limit
// blocks none is read: Blocked then says what does.
func (f *QueueFacts) HeadReads(sets []schedule.Limits, room int, now time.Time) []int {
	a := admitting{v: &Visit{Now: now, Limits: f.Limits}, used: make(map[schedule.LimitRef]int)}
	reads := make([]int, len(sets))
	var open []int
	for i, set := range sets {
		refs := set.Refs()
		if b := a.blockedLimits(refs, nil); b != nil {
			if f.Blocked == nil {
				f.Blocked = make(map[string]Block)
			}
			f.Blocked[string(set)] = *b
			continue
		}
		reads[i] = f.left(refs, room, now)
		open = append(open, i)
	}
	slices.SortStableFunc(open, func(a, b int) int { return reads[a] - reads[b] })
	for n, i := range open {
		sharing := len(open) - n
		share := max(1, (room+sharing-1)/sharing)
		if reads[i] < share {
			room -= reads[i]
			reads[i] = min(share, roundedUp(reads[i]))
		} else {
			room -= share
			reads[i] = share
		}
	}
	return reads
}

// roundedUp is the next power of two.
func roundedUp(n int) int { return 1 << bits.Len(uint(n-1)) }

// left is how many more runs can start that use these limits, of up to most.
func (f *QueueFacts) left(refs []schedule.LimitRef, most int, now time.Time) int {
	for _, ref := range refs {
		l := f.Limits[ref]
		if l == nil {
			continue
		}
		if !l.Unlimited {
			most = min(most, l.Max-l.Used)
		}
		most = l.Rate.left(most, now)
	}
	return max(1, most)
}

// left is how many starts, of up to most, the rate allows now.
func (r Rate) left(most int, now time.Time) (n int) {
	if r.Starts == 0 {
		return most
	}
	for n < most {
		at := r.first(now)
		if at.After(now.Add(startAhead)) {
			break
		}
		r.start(at)
		n++
	}
	return n
}

// headAt is a head and its next run. Once all are used it stays behind its last run.
type headAt struct {
	*Head
	next int
}

func (h *headAt) run() *WaitingRun { return &h.Runs[min(h.next, len(h.Runs)-1)] }

// headQueue is a heap of heads, in the order of their next runs.
type headQueue []*headAt

func (q headQueue) Len() int           { return len(q) }
func (q headQueue) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }
func (q headQueue) Less(i, j int) bool { return CompareWaiting(q[i].run(), q[j].run()) < 0 }
func (q *headQueue) Push(any)          { panic("ledger: no head comes during an admission") }

func (q *headQueue) Pop() any {
	last := len(*q) - 1
	h := (*q)[last]
	*q = (*q)[:last]
	return h
}
