package ledger

import "slices"

// bucketWidth is the length of a bucket of the window, in microseconds. Only the first
// bucket is kept in order.
const bucketWidth = 250_000

// window holds the planned runs that fire later than the early claim reaches, in
// buckets of time.
type window struct {
	buckets map[int64]*lane
	starts  []int64 // the numbers of the buckets, in order
	runs    int
}

func inWindow(r *run) bool { return r.place == placeWindow }

func (w *window) add(r *run) {
	n := r.fireAt / bucketWidth
	b := w.buckets[n]
	if b == nil {
		b = new(lane)
		w.buckets[n] = b
		at, _ := slices.BinarySearch(w.starts, n)
		w.starts = slices.Insert(w.starts, at, n)
	}
	b.add(r)
	w.runs++
}

// leave is called after a run has left the window.
func (w *window) leave(r *run) {
	w.runs--
	w.buckets[r.fireAt/bucketWidth].leave(inWindow)
}

// next is the first run that fires later than now; nil if there is none.
func (w *window) next(now int64) *run {
	for _, start := range w.starts {
		for _, r := range w.buckets[start].inOrder(byFireAt) {
			if inWindow(r) && r.fireAt > now {
				return r
			}
		}
	}
	return nil
}

// until takes the runs out that fire at then or before, in order of fire_at, and
// hands each to enter.
func (w *window) until(then int64, enter func(*run)) {
	for len(w.starts) > 0 && w.starts[0]*bucketWidth <= then {
		b := w.buckets[w.starts[0]]
		runs := b.inOrder(byFireAt)
		n := 0
		for n < len(runs) && runs[n].fireAt <= then {
			n++
		}
		b.runs, b.sorted = runs[n:], len(runs)-n
		for _, r := range runs[:n] {
			if inWindow(r) {
				w.runs--
				enter(r)
			} else {
				b.left--
			}
		}
		if len(b.runs) > 0 {
			return
		}
		delete(w.buckets, w.starts[0])
		w.starts = w.starts[1:]
	}
}
