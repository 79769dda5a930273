package api

import (
	"context"
	"sync"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

const (
	// foldFor is how long equal refusals share a row.
	foldFor = time.Minute
	// foldLook is how often Run looks for rows to write.
	foldLook = 5 * time.Second
	// maxFolds bounds the memory: some 3 MB. One caller has at most some 150:
	// calls that change something, times codes.
	maxFolds = 10_000
	// maxAppend is how many rows one transaction writes.
	maxAppend = 500
)

// refusalFold folds equal refusals: the first is written at once, those of each following minute
// in one row with their count, until a minute has none. Targets are not distinguished, or a caller
// could fill the table by naming a new one each time.
//
// The counts are in memory because rows of the trail are never updated. Each process folds
// separately. A killed process loses its unwritten counts: less than a minute, of refusals that
// have a first row.
type refusalFold struct {
	mu   sync.Mutex
	open map[refusalKey]*refusals
}

type refusalKey struct{ subject, via, method, code string }

// refusals are those since the last row of their key.
type refusals struct {
	since time.Time            // of that row
	next  *schedule.AuditEntry // nil: there was none since
}

func newRefusalFold() refusalFold { return refusalFold{open: make(map[refusalKey]*refusals)} }

func keyOfRefusal(e *schedule.AuditEntry) refusalKey {
	return refusalKey{e.Subject, e.Via, e.Method, e.Code}
}

// begins reports whether e must be written at once; otherwise it is counted.
func (f *refusalFold) begins(e *schedule.AuditEntry) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	key := keyOfRefusal(e)
	if r := f.open[key]; r != nil {
		r.add(e)
		return false
	}
	if len(f.open) < maxFolds { // otherwise it gets its own row
		f.open[key] = &refusals{since: e.Time}
	}
	return true
}

// keep takes a row that could not be written, to write it later.
func (f *refusalFold) keep(e *schedule.AuditEntry) (kept bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	r := f.open[keyOfRefusal(e)]
	if r == nil {
		if len(f.open) >= maxFolds {
			return false
		}
		r = &refusals{since: e.Time}
		f.open[keyOfRefusal(e)] = r
	}
	r.add(e)
	return true
}

func (r *refusals) add(e *schedule.AuditEntry) {
	count := max(e.Count, 1)
	if r.next == nil {
		entry := *e
		entry.Count = count
		r.next = &entry
		return
	}
	r.next.Count += count
	r.next.OtherTargets = r.next.OtherTargets || e.OtherTargets || e.Target != r.next.Target
	if e.Time.After(r.next.Time) {
		r.next.Time = e.Time
	}
}

// take returns the rows to write now: those folded for a minute, or everything.
func (f *refusalFold) take(now time.Time, everything bool) (rows []schedule.AuditEntry) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for key, r := range f.open {
		age := now.Sub(r.since)
		if !everything && age >= 0 && age < foldFor { // a clock that was set back ends the minute
			continue
		}
		if r.next == nil {
			delete(f.open, key)
			continue
		}
		rows = append(rows, *r.next)
		r.since, r.next = now, nil
	}
	return rows
}

// Run writes folded refusals until ctx ends.
func (a *Auditor) Run(ctx context.Context) {
	tick := time.NewTicker(foldLook)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			a.WriteFolded(ctx)
		case <-ctx.Done():
			return
		}
	}
}

// WriteFolded writes the refusals that have been folded for a minute.
func (a *Auditor) WriteFolded(ctx context.Context) { a.write(ctx, a.refused.take(a.now(), false)...) }

// Flush writes all folded rows at shutdown. Rows that cannot be written are logged.
func (a *Auditor) Flush(ctx context.Context) {
	rows := a.refused.take(a.now(), true)
	for len(rows) > 0 {
		n := min(len(rows), maxAppend)
		if err := a.append(ctx, rows[:n]...); err != nil {
			for i := range rows {
				a.lost(ctx, &rows[i], err)
			}
			return
		}
		rows = rows[n:]
	}
}

// write writes rows and keeps those that the store refuses for the next time.
func (a *Auditor) write(ctx context.Context, rows ...schedule.AuditEntry) {
	for len(rows) > 0 {
		n := min(len(rows), maxAppend)
		if err := a.append(ctx, rows[:n]...); err != nil {
			a.log.WarnContext(ctx, "audit rows not written yet", "rows", len(rows), "err", err)
			for i := range rows {
				if !a.refused.keep(&rows[i]) {
					a.lost(ctx, &rows[i], err)
				}
			}
			return
		}
		rows = rows[n:]
	}
}
