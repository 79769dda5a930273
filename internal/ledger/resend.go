package ledger

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// CancelAgain is how long a leader waits before it sends a cancel again that was
// not confirmed.
const CancelAgain = 5 * time.Second

// notSentFor is the pause, in microseconds, of a run that is due and could not be sent
// again: it is locked.
const notSentFor = 1_000_000

// ReclaimRequest names runs to send again; see ShardState.SendAgain.
type ReclaimRequest struct {
	Term  schedule.Term
	Now   time.Time
	Lease time.Duration // claimed_until = Now + Lease
	Keys  []schedule.Key
}

// Reclaimed is the result of a ReclaimRequest.
type Reclaimed struct {
	Launches []schedule.Launch // in the order of the keys
	Read     Changes           // all runs of the request as they are now, the launches too
}

// Resend returns a run as it is while it is sent again. ok = false: it is not sent again.
// It has been answered or is not due since it was chosen, or its cancel is requested:
// nothing of it is sent any more.
func (req *ReclaimRequest) Resend(r schedule.Run) (after schedule.Run, ok bool) {
	due := r.Status == schedule.StatusLaunching && resendAt(req.Term.Epoch, r.Epoch, micro(r.ClaimedUntil)) <= micro(req.Now)
	if !due || !r.CancelRequestedAt.IsZero() {
		return r, false
	}
	r.Epoch, r.ClaimedUntil, r.UpdatedAt = req.Term.Epoch, stored(req.Now.Add(req.Lease)), stored(req.Now)
	return r, true
}

// resendAt returns when a launch without an answer is sent again in a term: at once if
// another term sent it, else at the instant that was set for it.
func resendAt(term, epoch, nextSend int64) int64 {
	if epoch != term {
		return math.MinInt64
	}
	return nextSend
}

// Add enters runs after Resend: each is launched if its
// definition can be read. It returns the keys of the request that runs lacks, for the
// store to read again.
func (r *Reclaimed) Add(req *ReclaimRequest, runs []schedule.Run, definition func(*schedule.Run) *schedule.Definition) (missing []schedule.Key) {
	found := make(map[schedule.Key]*schedule.Run, len(runs))
	for i := range runs {
		found[runs[i].Key] = &runs[i]
	}
	for _, key := range req.Keys {
		run := found[key]
		if run == nil {
			missing = append(missing, key)
			continue
		}
		r.Read.Runs = append(r.Read.Runs, RunOf(run))
		if d := definition(run); d != nil { // else there is nothing to send, and a sweep ends it
			r.Launches = append(r.Launches, schedule.Launch{Run: *run, Definition: d, Again: true})
		}
	}
	return missing
}

// SendAgain chooses up to limit launches whose answer is overdue: those of other
// terms at once, those of this term when their claimed_until has passed. If they
// exceed the limit, owners alternate: the first launch of each owner before the
// second of any. capacity is how many more an owner may have; nil: any number.
//
// A run whose cancel is requested is not chosen: nothing of it is sent any more.
func (s *ShardState) SendAgain(now time.Time, limit int, capacity func(owner string) int) []schedule.Key {
	due := s.overdue(micro(now))
	slices.SortFunc(due, byFireAt)
	type chosen struct {
		*run
		round int // of its owner
	}
	rounds := make(map[*owner]int)
	var choice []chosen
	for _, r := range due {
		o := r.group.owner
		if r.cancelRequested {
			continue
		}
		if rounds[o]++; capacity == nil || rounds[o] <= capacity(o.id) {
			choice = append(choice, chosen{r, rounds[o]})
		}
	}
	slices.SortStableFunc(choice, func(a, b chosen) int { return cmp.Compare(a.round, b.round) })
	choice = choice[:min(max(limit, 0), len(choice))]
	slices.SortFunc(choice, func(a, b chosen) int { return byFireAt(a.run, b.run) })
	keys := make([]schedule.Key, len(choice))
	for i, c := range choice {
		keys[i] = c.key
	}
	return keys
}

// SentAgain enters the durable result for runs that SendAgain chose.
func (s *ShardState) SentAgain(now time.Time, keys []schedule.Key, read Changes) {
	s.Apply(read)
	for _, key := range keys {
		r := s.runs[key]
		if r == nil || !isLaunching(r) || r.flight.tryAt > micro(now) {
			continue
		}
		in := r.outside()
		s.again(r, &in)
		s.runs[key].flight.tryAt = micro(now) + notSentFor
	}
}

// Accepted enters launches that the executor has accepted: they are ENQUEUED or
// STARTED, and are not sent again.
func (s *ShardState) Accepted(keys []schedule.Key) {
	for _, key := range keys {
		if r := s.runs[key]; r != nil && isLaunching(r) {
			r.flight.status, r.flight.nextSend = schedule.StatusEnqueued, micro(time.Time{})
			s.sends.leave(isLaunching)
		}
	}
}

// CancelsDue chooses up to limit runs in flight whose cancel is requested and was
// not sent in the last CancelAgain, those that wait longest first. sent is when it
// was sent last; zero: never.
func (s *ShardState) CancelsDue(now time.Time, limit int, sent func(schedule.Key) time.Time) []schedule.Key {
	type request struct {
		*run
		sent int64
	}
	var due []request
	for r := range s.cancelling {
		if last := sent(r.key); now.Sub(last) >= CancelAgain {
			due = append(due, request{r, micro(last)})
		}
	}
	slices.SortFunc(due, func(a, b request) int {
		return cmp.Or(cmp.Compare(a.sent, b.sent), byFireAt(a.run, b.run))
	})
	keys := make([]schedule.Key, 0, min(max(limit, 0), len(due)))
	for _, r := range due[:cap(keys)] {
		keys = append(keys, r.key)
	}
	return keys
}

// Cancelling reports whether a run is in flight and its cancel is requested.
func (s *ShardState) Cancelling(key schedule.Key) bool {
	r := s.runs[key]
	return r != nil && r.place == placeFlight && r.cancelRequested
}

// overdue returns the launches to send again now.
func (s *ShardState) overdue(now int64) (due []*run) {
	for _, r := range s.sends.inOrder(bySend) {
		if !isLaunching(r) {
			continue
		}
		if r.flight.tryAt > now {
			break
		}
		due = append(due, r)
	}
	return due
}

func isLaunching(r *run) bool {
	return r.place == placeFlight && r.flight.status == schedule.StatusLaunching
}

// bySend orders launches by their next send. A list of them may hold runs that have
// left it: they keep their flight.
func bySend(a, b *run) int { return cmp.Compare(a.flight.tryAt, b.flight.tryAt) }
