package ledger

import (
	"cmp"
	"slices"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// CountedOnly reports whether the end of a run gets no row of history, only a count in
// queue_minutes: its queue keeps failures, and nobody needs the row of this success. history and
// webhook are those of its queue, webhook as schedule.QueueWebhook writes it; hold is the unique key
// that it holds, or nil; returned says that the executor returned a result.
//
// These successes keep their rows:
//
//   - of a slot, of a member of a group, and of a run that a caller waits for or that its schedule
//     needs (KeepHistory);
//   - of a run that follows another one: the rows of the attempts, snoozes and interruptions before
//     it, and of the run that was retried by hand, lead to it;
//   - of a run with a message: GetRun must answer what the message says;
//   - with a unique key of scope period: entries are answered with the run until it is over;
//   - with a result: GetRun shows it with the run;
//   - after a cancel was requested: who asked sees that the run was not cancelled.
func CountedOnly(r *schedule.Run, history schedule.History, webhook string, hold *schedule.UniqueHold, returned bool) bool {
	switch {
	case history != schedule.HistoryFailed, r.Status != schedule.StatusSuccess, !r.IsJob():
		return false
	case r.Queue.KeepHistory, r.Queue.GroupNo != 0, !r.RetryOf.IsZero(), !r.CancelRequestedAt.IsZero():
		return false
	case returned:
		return false
	case hold != nil && hold.Scope == schedule.UniquePeriod:
		return false
	case webhook == "" && r.Webhook == "":
		return true
	}
	_, told := MessageOf(r, schedule.ParseQueueWebhook(webhook))
	return !told
}

// PlaceInHistory is what history has of the place of a run in its queue.
func PlaceInHistory(p *schedule.QueuePlace) schedule.QueuePlace {
	return schedule.QueuePlace{No: p.No, EnqueuedAt: p.EnqueuedAt, Limits: p.Limits, FairKey: p.FairKey, GroupNo: p.GroupNo, GroupSeq: p.GroupSeq, Worker: p.Worker, AdmittedAs: p.AdmittedAs}
}

// MinuteCount is what ends add to a row of queue_minutes. Of names the workflow: by its name, or by
// the number of a schedule.
type MinuteCount[W cmp.Ordered] struct {
	QueueNo int32
	Minute  time.Time
	Of      W
	Ended   bool // it counts ends, and not starts
	Runs    int64
	WaitMS  int64
	RunMS   int64
}

// CountMinutes counts n ends without a row of history: each as a start in the minute of its
// admission, and as an end in that of its end. The order of the counts is that of the primary key.
func CountMinutes[W cmp.Ordered](n int, ended func(i int) (*schedule.Run, W)) []MinuteCount[W] {
	type row struct {
		queueNo int32
		minute  int64
		of      W
		ended   bool
	}
	counts := make(map[row]*MinuteCount[W])
	count := func(queueNo int32, at time.Time, of W, ended bool) *MinuteCount[W] {
		minute := at.UTC().Truncate(schedule.Minute)
		key := row{queueNo, minute.Unix(), of, ended}
		if counts[key] == nil {
			counts[key] = &MinuteCount[W]{QueueNo: queueNo, Minute: minute, Of: of, Ended: ended}
		}
		counts[key].Runs++
		return counts[key]
	}
	for i := range n {
		r, of := ended(i)
		admitted := schedule.Later(r.ClaimedAt, r.Queue.EnqueuedAt)
		waited := admitted.Sub(schedule.Later(r.Queue.EnqueuedAt, r.FireAt))
		count(r.Queue.No, admitted, of, false).WaitMS += max(0, waited.Milliseconds())
		took := r.CompletedAt.Sub(InFlightSince(r.ClaimedAt, r.LaunchedAt))
		count(r.Queue.No, r.CompletedAt, of, true).RunMS += max(0, took.Milliseconds())
	}
	sorted := make([]MinuteCount[W], 0, len(counts))
	for _, c := range counts {
		sorted = append(sorted, *c)
	}
	slices.SortFunc(sorted, func(a, b MinuteCount[W]) int {
		return cmp.Or(cmp.Compare(a.QueueNo, b.QueueNo), a.Minute.Compare(b.Minute), cmp.Compare(a.Of, b.Of), schedule.FalseFirst(a.Ended, b.Ended))
	})
	return sorted
}

// MinuteRunTimes are the run times that minutes tell, newest first: the mean of each.
func MinuteRunTimes(minutes []schedule.QueueMinute) []RunTime {
	var times []RunTime
	for i := range minutes {
		if m := &minutes[i]; m.Ended && m.Runs > 0 {
			times = append(times, RunTime{QueueNo: m.QueueNo, Workflow: m.WorkflowID, Took: m.Run / time.Duration(m.Runs)})
		}
	}
	return times
}
