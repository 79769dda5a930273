package sim

import (
	"context"
	"slices"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// failures: a schedule fails if and only if the newest of its runs that succeeded, or failed
// without an automatic retry, has failed: the one with the latest run_at, and of several for one slot the one
// that ended last. A failure before the schedule was created does not count. A run of a
// deleted schedule counts for the one that was created under its id, if it ends after
// that: it is in the history of that id. The order of the commits decides, as the clocks
// of two processes differ.
func (w *world) failures() {
	newest := make(map[string]*history)
	for _, h := range w.watch.withJobs() {
		r := &h.row
		failed := r.Status == schedule.StatusFailed
		if h.gone || r.Status != schedule.StatusSuccess && !failed || failed && h.completed < w.watch.lives[r.ScheduleID].created {
			continue
		}
		if failed && h.next > 0 { // its retry decides
			continue
		}
		was := newest[r.ScheduleID]
		switch {
		case was == nil || r.RunAt.After(was.row.RunAt):
		case r.RunAt.Before(was.row.RunAt) || r.CompletedAt.Before(was.row.CompletedAt):
			continue
		case r.CompletedAt.Equal(was.row.CompletedAt) && failed:
			continue
		}
		newest[r.ScheduleID] = h
	}
	recent, err := w.ledger.RecentOutcomes(context.Background(), sorted(w.watch.lives), 1)
	if err != nil {
		w.violation("read outcomes: %v", err)
	}
	for _, id := range sorted(w.watch.lives) {
		f, h := recent[id].Failure, newest[id]
		fails := h != nil && h.row.Status == schedule.StatusFailed && w.watch.lives[id].row.Alive()
		switch {
		case f != nil && h != nil && w.watch.countedBefore(h, f.LastKey): // there is no row of the success that is newer
		case fails != (f != nil):
			w.violation("%s is shown as failing: %t, and its newest run says %t", id, f != nil, fails)
		case fails && f.LastKey != h.row.Key && f.LastEndedAt.Equal(h.row.CompletedAt): // both have ended at once
		case fails && (f.LastKey != h.row.Key || f.Reason != h.row.Reason):
			w.violation("%s fails with the run of %s (%s), and is shown with that of %s (%s)", id, w.at(h.row.RunAt), h.row.Reason, w.at(f.LastRunAt), f.Reason)
		}
	}
}

// countedBefore reports whether a success without a row had ended before a run did: then the end of
// that run has not found it.
func (l *ledgerWatch) countedBefore(h *history, other schedule.Key) bool {
	j, failed := l.jobs[h.row.Key], l.jobs[other]
	return j != nil && j.counted && failed != nil && h.completed <= failed.completed
}

// reign is the observed part of one term.
type reign struct {
	shard   int
	began   time.Time
	renewed time.Time // last; the takeover counts
}

// renewed records the last proof that a term lives.
func (l *ledgerWatch) renewed(epoch int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.reigns[epoch].renewed = time.Now()
}

// terms: the recorded terms of a shard follow one another without an overlap. Each
// begins with its takeover and ends between its last renewal and the TTL after it.
func (w *world) terms() {
	epochs := make(map[int64][]schedule.LeaderTerm)
	for shard := range w.profile.shards {
		rows, err := w.ledger.ListTerms(context.Background(), schedule.TermFilter{Shard: &shard, Now: time.Now(), Limit: 1 << 20})
		if err != nil {
			w.violation("list terms: %v", err)
		}
		slices.Reverse(rows)
		for i := range rows {
			epochs[rows[i].Epoch] = append(epochs[rows[i].Epoch], rows[i])
			w.term(rows[i], rows[i+1:])
		}
	}
	for epoch, r := range w.watch.reigns {
		rows := epochs[epoch]
		if len(rows) == 0 || rows[0].Shard != r.shard || rows[0].StartedAt.Sub(r.began).Abs() > time.Millisecond {
			w.violation("epoch %d began to lead shard %d at %s; recorded is %+v", epoch, r.shard, w.at(r.began), rows)
			continue
		}
		end := rows[len(rows)-1].EndedAt
		if !end.IsZero() && (r.renewed.Sub(end) > time.Microsecond || end.Sub(r.renewed) > w.profile.ttl) {
			w.violation("the term of epoch %d is recorded to end at %s; it was renewed last at %s", epoch, w.at(end), w.at(r.renewed))
		}
	}
}

// term checks one recorded term against the following ones.
func (w *world) term(row schedule.LeaderTerm, after []schedule.LeaderTerm) {
	open := row.EndedAt.IsZero()
	switch {
	case open && len(after) > 0:
		w.violation("the term of epoch %d has no end, and epoch %d leads shard %d since %s", row.Epoch, after[0].Epoch, row.Shard, w.at(after[0].StartedAt))
	case !open && len(after) > 0 && after[0].StartedAt.Before(row.EndedAt):
		w.violation("the term of epoch %d ends at %s, and epoch %d leads shard %d since %s", row.Epoch, w.at(row.EndedAt), after[0].Epoch, row.Shard, w.at(after[0].StartedAt))
	case !open && row.EndedAt.Before(row.StartedAt):
		w.violation("the term of epoch %d ends %s before it began", row.Epoch, row.StartedAt.Sub(row.EndedAt))
	case !open && !slices.Contains(schedule.EndReasons, row.End.Reason):
		w.violation("the term of epoch %d ended, and the reason is %q", row.Epoch, row.End.Reason)
	}
}
