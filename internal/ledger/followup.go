package ledger

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// EndReader reads the tables in the transaction that ends runs, once the ends are in
// history.
type EndReader interface {
	// Failures are how the schedules of the runs fail so far, by the run's key. A run whose
	// schedule does not fail has no entry. No other transaction may change what was read.
	Failures(ended []*schedule.Run) (map[schedule.Key]*schedule.Failure, error)
	// Successes are the newest successes of the runs' schedules that are of the run's slot or
	// a later one, by the run's key. Of two of one slot the one that ended last is the newest.
	Successes(failed []*schedule.Run) (map[schedule.Key]Decided, error)
}

// Decided is a run that succeeded or failed: it shows how its schedule is doing.
type Decided struct{ RunAt, EndedAt time.Time }

// compare orders decided runs by slot, and the runs of one slot by their ends.
func (d Decided) compare(other Decided) int {
	return cmp.Or(d.RunAt.Compare(other.RunAt), d.EndedAt.Compare(other.EndedAt))
}

func decidedBy(r *schedule.Run) Decided { return Decided{r.RunAt, r.CompletedAt} }

// FollowUps is what the ends of one transaction cause. It is written in the same
// transaction.
type FollowUps struct {
	Recovered []string            // schedules whose failures so far are over; deleted first
	Began     []*schedule.Failure // of schedules that did not fail, or whose failures are over
	Continued []*schedule.Failure // one more failure, or several
}

// FollowUp returns what follows ends that are in history. ended are the runs as they have
// ended; of a success it reads only the key and the times.
//
// A success ends the failures of its schedule, unless one of them is newer. A failure
// counts unless a success is newer, or an automatic retry follows it: that one decides.
// schedule.Failure says the same of a whole history.
// A run of a deleted schedule counts for the one that lives under its id when the end is
// committed: it is in the history of that id.
func FollowUp(ended []*schedule.Run, read EndReader) (FollowUps, error) {
	decided := slices.DeleteFunc(slices.Clone(ended), func(r *schedule.Run) bool {
		_, retried := r.RetriedBy()
		return r.Status != schedule.StatusSuccess && (r.Status != schedule.StatusFailed || retried)
	})
	if len(decided) == 0 {
		return FollowUps{}, nil
	}
	failures, err := read.Failures(decided)
	if err != nil {
		return FollowUps{}, fmt.Errorf("read failures: %w", err)
	}
	streaks := make(map[string]*streak)
	for _, f := range failures {
		if streaks[f.ScheduleID] == nil {
			now := *f
			streaks[f.ScheduleID] = &streak{now: &now, known: true}
		}
	}
	var failed []*schedule.Run
	for _, r := range decided {
		if r.Status == schedule.StatusFailed {
			failed = append(failed, r)
		} else if f := failures[r.Key]; f != nil {
			streaks[f.ScheduleID].succeed(decidedBy(r))
		}
	}
	return followStreaks(failed, streaks, read)
}

// followStreaks adds failures to the streaks that are left after the successes.
func followStreaks(failed []*schedule.Run, streaks map[string]*streak, read EndReader) (out FollowUps, err error) {
	slices.SortFunc(failed, func(a, b *schedule.Run) int {
		return cmp.Or(decidedBy(a).compare(decidedBy(b)), slices.Compare(a.Key[:], b.Key[:]))
	})
	var unsure []*schedule.Run
	for _, r := range failed {
		if streaks[r.ScheduleID] == nil {
			streaks[r.ScheduleID] = new(streak)
		}
		if s := streaks[r.ScheduleID]; s.now == nil || r.RunAt.Before(s.now.FirstRunAt) {
			unsure = append(unsure, r) // a success may be newer
		}
	}
	successes := make(map[schedule.Key]Decided)
	if len(unsure) > 0 {
		if successes, err = read.Successes(unsure); err != nil {
			return out, fmt.Errorf("look for newer successes: %w", err)
		}
	}
	for _, r := range failed {
		if success, ok := successes[r.Key]; !ok || success.compare(decidedBy(r)) < 0 {
			streaks[r.ScheduleID].fail(r)
		}
	}
	for id, s := range streaks {
		s.addTo(&out, id)
	}
	out.sort()
	return out, nil
}

// streak is how one schedule fails, in the course of a FollowUp.
type streak struct {
	now   *schedule.Failure // nil: it does not fail
	known bool              // the tables have one
	over  bool              // that one is over
	more  bool              // it has changed
}

func (s *streak) succeed(d Decided) {
	if s.now != nil && d.compare(Decided{s.now.LastRunAt, s.now.LastEndedAt}) >= 0 {
		s.now, s.over = nil, true
	}
}

func (s *streak) fail(r *schedule.Run) {
	if s.now == nil {
		s.now = &schedule.Failure{ScheduleID: r.ScheduleID, FirstRunAt: r.RunAt, FirstEndedAt: r.CompletedAt}
	}
	f := s.now
	s.more = true
	f.Failures++
	if r.RunAt.Before(f.FirstRunAt) {
		f.FirstRunAt, f.FirstEndedAt = r.RunAt, r.CompletedAt
	}
	if decidedBy(r).compare(Decided{f.LastRunAt, f.LastEndedAt}) >= 0 {
		f.LastRunAt, f.LastEndedAt, f.LastKey, f.Reason, f.ErrorCode = r.RunAt, r.CompletedAt, r.Key, r.Reason, r.ErrorCode
	}
}

func (s *streak) addTo(out *FollowUps, scheduleID string) {
	if s.over {
		out.Recovered = append(out.Recovered, scheduleID)
	}
	switch {
	case !s.more:
	case s.known && !s.over:
		out.Continued = append(out.Continued, s.now)
	default:
		out.Began = append(out.Began, s.now)
	}
}

// sort puts schedules in the order in which they are locked.
func (f *FollowUps) sort() {
	byID := func(a, b *schedule.Failure) int { return cmp.Compare(a.ScheduleID, b.ScheduleID) }
	slices.Sort(f.Recovered)
	slices.SortFunc(f.Began, byID)
	slices.SortFunc(f.Continued, byID)
}

// StillFails reports whether failures go on, given the newest success of their schedule
// since the newest of them. Two transactions that end two runs of a schedule at the same
// time do not see each other, so failures can outlive a success.
func StillFails(f *schedule.Failure, success Decided) bool {
	return success.compare(Decided{f.LastRunAt, f.LastEndedAt}) < 0
}

// ForgetsFailures reports whether a change of a schedule ends its failures: they do not
// outlive a deletion, and what is created under its id begins without.
func ForgetsFailures(c *schedule.Change) bool { return c.Row != nil && (c.Created || !c.Row.Alive()) }
