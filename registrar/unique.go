package registrar

import (
	"bytes"
	"crypto/rand"
	"slices"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

// checkUnique adds what is wrong with the unique key of a run, and resolves its defaults.
func (in *QueuedInput) checkUnique(c *schedule.Collect) {
	if in.Unique == nil {
		return
	}
	in.Unique = in.Unique.Resolved()
	in.Unique.Check(c, "unique")
	if in.Unique.Debounce != nil && (!in.RunAt.IsZero() || in.DelayMS != nil) {
		c.Note("unique.debounce", "is set together with run_at or delay_ms", "debounce says when the run starts")
	}
}

// uniqueHashes are the hashes of the unique keys of a request.
func (e *enqueue) uniqueHashes() (hashes []schedule.Key) {
	for i := range e.Runs {
		if u := e.Runs[i].Unique; u != nil {
			hashes = append(hashes, schedule.UniqueHash(e.QueueID, e.UserID, u.Key))
		}
	}
	slices.SortFunc(hashes, func(a, b schedule.Key) int { return bytes.Compare(a[:], b[:]) })
	return slices.Compact(hashes)
}

// enterRuns adds the rows of the request, and its answer. Runs with one unique key are judged one
// after the other, as if each had a request of its own.
func (e *enqueue) enterRuns(f schedule.EnqueueFacts, limits []schedule.Limits, out *schedule.Enqueue) error {
	uniques := ledger.NewUniques(f.Uniques, out.Now)
	rows := make([]*schedule.Run, 0, len(e.Runs))
	e.out.Keys = make([]schedule.Key, len(e.Runs))
	marks, any := make([]byte, len(e.Runs)), false
	for i := range e.Runs {
		requestID := orDefault(e.RequestID, "/"+rand.Text()) // no request id has a slash
		if e.newGroup {
			requestID = "/members/" + e.joins // a group is made once
		}
		row := e.row(f.Queue, limits[i], i, schedule.JobKey(out.Now, e.QueueID, e.UserID, requestID, i), out.Now)
		key, verdict := row.Key, ledger.EntryNew
		if u := e.Runs[i].Unique; u != nil {
			var err error
			if key, verdict, err = uniques.Enter(u, schedule.UniqueHash(e.QueueID, e.UserID, u.Key), &row); err != nil {
				return e.prefixed(i, err)
			}
		}
		e.out.Keys[i] = key
		switch verdict {
		case ledger.EntryNew:
			rows, marks[i] = append(rows, &row), schedule.MarkNew
		case ledger.EntryReturned:
			any, marks[i] = true, schedule.MarkDuplicate
		case ledger.EntryReplaced:
			any, marks[i] = true, schedule.MarkReplaced
		}
	}
	out.Runs = make([]schedule.Run, len(rows))
	for i, row := range rows {
		out.Runs[i] = *row
	}
	if any {
		e.out.Marks = schedule.Marks(marks)
	}
	out.Uniques, out.Replaced = uniques.Changes()
	return nil
}
