package sim

import (
	"context"
	"slices"
	"time"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

// copiedInWorlds is how many waiting runs a copy has; the queues of worlds are shorter.
const copiedInWorlds = 1000

// played is the copy of a queue right before an admission. Every fourth admission has one. Where runs are
// promoted, the play looks for the oldest among the first of each priority, as the stores with SQL do; the
// ledger of worlds looks at all.
func (s store) played(req *schedule.AdmitRequest) (before ledger.QueueCopy, ok bool) {
	if req.Now.UnixMilli()%4 != 0 || s.profile.pulled {
		return before, false
	}
	before, err := s.ledger.ReadQueueCopy(context.Background(), schedule.QueueCopyRequest{QueueNo: req.QueueNo, Runs: copiedInWorlds, Now: req.Now})
	return before, err == nil && before.Queue != nil && before.Stall.Level == 0 && before.Queue.PromoteAfterMS == 0
}

// checkPlay compares an admission with what the play of estimates has for its instant. It says nothing if
// something else has changed the queue meanwhile.
func (s store) checkPlay(req *schedule.AdmitRequest, before *ledger.QueueCopy, out *ledger.Dispatched) {
	after, err := s.ledger.ReadQueueCopy(context.Background(), schedule.QueueCopyRequest{QueueNo: req.QueueNo, Runs: copiedInWorlds, Now: req.Now})
	if err != nil || after.Queue == nil || after.Queue.Revision != before.Queue.Revision || after.Queue.Pause != before.Queue.Pause ||
		len(before.Flights)+len(out.Dispatches) != len(after.Flights) || len(before.Runs)-len(out.Dispatches)-len(out.Ended) != len(after.Runs) {
		return
	}
	// By a late clock an admission neither sends nor ends a run that may not start: the next one does.
	if slices.ContainsFunc(before.Runs, func(r ledger.CopiedRun) bool { return r.State == schedule.QueueWaiting && r.Ready.After(req.Now) }) {
		return
	}
	// The use of a reservation that is over goes with the next sweep, and the play does not have it.
	if slices.ContainsFunc(before.Reserved, func(r schedule.Reservation) bool { return r.Granted() && r.Over(req.Now) }) {
		return
	}
	p := before.Play(req.Now, func(*ledger.CopiedRun) (took time.Duration, known bool) { return time.Hour, true })
	p.Until = req.Now
	p.Play()
	starts := make(map[schedule.Key]time.Time)
	for i := range p.Runs {
		if r := &p.Runs[i]; !r.InFlightBefore && !r.Started.IsZero() {
			starts[r.Key] = r.Started
		}
	}
	s.coverage.situations[estimatePlayed].Add(1)
	for i := range out.Dispatches {
		d := &out.Dispatches[i]
		if at, ok := starts[d.Run.Key]; !ok || !at.Equal(d.StartAt) {
			s.violation("the job %.12s is admitted and starts at %s; the play of the queue has %s", d.Run.Key, d.StartAt, at)
		}
	}
	all := []ledger.BlockedBy{ledger.BlockedByPause, ledger.BlockedByStall, ledger.BlockedByFull}
	if len(out.Dispatches)+len(out.Ended) == 0 && out.Block != nil && slices.Contains(all, out.Block.What) && len(starts) > 0 {
		s.violation("no run of queue %d starts, as it is %s; in the play of the queue %d start", req.QueueNo, out.Block.What, len(starts))
	}
}
