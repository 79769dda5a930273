package sim

import (
	"github.com/carillon/carillon/internal/schedule"
)

// The checker's own rules of fair queues.

// turnTaken: while a run is the first of its key that waits, no other key has more than its turns.
// What was blocked, placed by hand or has waited before is not counted.
func (l *ledgerWatch) turnTaken(i int, j *job) {
	q := &l.queues[j.row.Queue.No].row
	if q.Fair != "key" {
		return
	}
	key := j.row.Queue.FairKey
	counts := !j.uneven && j.admissions == 1 && j.row.Queue.FairOrder > 0
	first := make(map[string]bool)
	for _, w := range l.waitingIn(q.No) {
		own := w.row.Queue.FairKey
		switch {
		case w.row.Priority != j.row.Priority || w.behind != j.behind:
			continue
		case own == key:
			w.turns = nil
			continue
		case l.blocked(w, i):
			w.uneven = true
		case counts && w.position < j.position && w.row.Queue.FairOrder > 0:
			l.coverage.situations[turnTaken].Add(1)
		}
		if w.turns == nil {
			w.turns = make(map[string]int)
		}
		if counts {
			w.turns[key]++
		}
		isFirst := !first[own]
		if first[own] = true; !isFirst || w.uneven || w.row.Queue.FairOrder == 0 {
			continue
		}
		if n, most := w.turns[key], weightOf(q, key)/weightOf(q, own)+1; n > most {
			l.violation("%d runs of key %s started while the job %.12s of key %s waited, not at most %d (weights %d and %d)",
				n, key, w.row.Key, own, most, weightOf(q, key), weightOf(q, own))
		}
	}
}

// keptTurn: a retry has the turn of the run before it, unless that one had none.
func (l *ledgerWatch) keptTurn(of *job, r *schedule.Run) bool {
	if of.fairOrder == 0 || l.queues[r.Queue.No].row.Fair != "key" {
		return of.row.Queue.FairKey == r.Queue.FairKey || of.row.Queue.FairKey == ""
	}
	return of.row.Queue.FairKey == r.Queue.FairKey && of.fairOrder == r.Queue.FairOrder
}

func weightOf(q *schedule.Queue, key string) int { return max(1, int(q.Weights[key])) }

// unevenKey: a run that waits has left the turns of its key. Those behind it do not move up.
func (l *ledgerWatch) unevenKey(before *schedule.Run) {
	for _, w := range l.jobOrder {
		if w.row.Queue.No == before.Queue.No && w.row.Queue.FairKey == before.Queue.FairKey {
			w.uneven = true
		}
	}
}

// unevenQueue: the rules of a queue have changed.
func (l *ledgerWatch) unevenQueue(no int32) {
	for _, w := range l.jobOrder {
		if w.row.Queue.No == no {
			w.uneven = true
		}
	}
}

// fairKeys are those of runs; "" is that of the owner.
var fairKeys = []string{"", "k1", "k1", "k1", "k2", "k3"}

// makeFair lets the keys of a queue take turns.
func makeFair(def *schedule.QueueDefinition, d dice) {
	def.Fair, def.PromoteAfterMS = schedule.FairKey, 0
	if d.of(1).perMille(500) {
		def.Weights = map[string]uint32{"k1": uint32(d.of(2).within(1, 5)), "k2": uint32(d.of(3).within(1, 5))}
	}
}
