package registrar

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/work"
)

// queueScenario is a queue that is simulated.
type queueScenario struct {
	in       *SimulateQueueInput
	queue    *schedule.Queue
	now      time.Time
	copied   ledger.QueueCopy
	proposed []schedule.LimitRef // of in.Limits
	times    *ledger.RunTimes
	arrived  map[schedule.Key]*Arrivals
	names    map[schedule.Key]string
	sees     func(owner string) bool
}

// prepare makes the runs of a scenario.
func (s *queueScenario) prepare(limits []schedule.Limits) error {
	c := &s.copied
	if s.in.Empty {
		*c = ledger.QueueCopy{QueueFacts: ledger.QueueFacts{Queue: c.Queue, Limits: c.Limits}, Ended: c.Ended}
		for _, l := range c.Limits {
			l.Used, l.Rate.Next = 0, time.Time{}
		}
	}
	if c.More {
		return schedule.Invalid("backlog", "now", fmt.Sprintf("has more than %d runs that wait", MaxSimulatedSlots), "simulate with backlog none")
	}
	queue := *c.Queue
	c.Queue = &queue
	if s.in.Resumed || s.in.Empty {
		queue.Pause = schedule.Pause{}
	}
	s.times = ledger.NewRunTimes(c.Ended)
	if err := s.arrive(limits); err != nil {
		return err
	}
	for _, runs := range [][]ledger.CopiedRun{c.Runs, c.Flights} {
		for i := range runs {
			if _, known := s.takes(&runs[i]); !known {
				return schedule.Explain(schedule.ErrPrecondition, "cannot simulate: it is not known how long runs of workflow %s take, as no run of queue %s has ended; give durations",
					schedule.Quote(runs[i].Workflow), schedule.Quote(s.queue.QueueID))
			}
		}
	}
	return nil
}

// arrive adds the runs of the arrivals.
func (s *queueScenario) arrive(limits []schedule.Limits) error {
	c, position := &s.copied, int64(0)
	for i := range c.Runs {
		position = max(position, c.Runs[i].Order.Position)
	}
	s.arrived = make(map[schedule.Key]*Arrivals)
	for i := range s.in.Arrivals {
		a := &s.in.Arrivals[i]
		at := s.now
		for n := 0; ; n++ {
			gap := a.Every
			if a.Random {
				gap = time.Duration(-math.Log(1-s.random(a.Name, n)) * float64(a.Every))
			}
			if at = at.Add(gap); !at.Before(s.now.Add(s.in.For)) {
				break
			}
			for k := range a.Runs {
				if len(c.Runs) == MaxSimulatedSlots {
					return schedule.Invalid("for_ms", s.in.For.Milliseconds(), fmt.Sprintf("makes a simulation of more than %d runs", MaxSimulatedSlots),
						"simulate a shorter time, or fewer arrivals")
				}
				run := schedule.Run{
					Key: schedule.JobKey(at, s.queue.QueueID, a.Name, fmt.Sprint("simulated/", i, "/", n), k), UserID: s.queue.UserID,
					Queue: schedule.QueuePlace{
						No: s.queue.No, Priority: schedule.QueuePriority(a.Priority), EnqueuedAt: at, Limits: limits[i],
						// Those that enter at the same time go in the order of the request.
						Position: position + 1 + int64(at.Sub(s.now)/time.Microsecond)*MaxArrivals + int64(i),
					},
				}
				s.arrived[run.Key], s.names[run.Key] = a, a.Name
				c.Runs = append(c.Runs, ledger.CopiedRun{
					WaitingRun: ledger.Waiting(&run), QueueNo: s.queue.No, FairKey: s.queue.UserID, Workflow: a.WorkflowID, State: schedule.QueueDelayed, Ready: at,
				})
			}
		}
	}
	return nil
}

// takes is how long a run takes, or how much longer one in flight.
func (s *queueScenario) takes(r *ledger.CopiedRun) (time.Duration, bool) {
	q := s.random(string(r.Key[:]), -1)
	assumed := s.assumedOf(r)
	if assumed == nil {
		return s.times.Of(r, s.now, q)
	}
	took := assumed.at(q)
	if r.State.Admitted() {
		took = max(took-s.now.Sub(r.Began), took/10)
	}
	return took, true
}

func (s *queueScenario) assumedOf(r *ledger.CopiedRun) (found *AssumedRun) {
	if a := s.arrived[r.Key]; a != nil && a.Run != nil {
		return a.Run
	}
	if r.QueueNo != s.queue.No {
		return nil
	}
	for i := range s.in.Durations {
		switch d := &s.in.Durations[i]; {
		case d.WorkflowID != "" && d.WorkflowID == r.Workflow:
			return &d.Run
		case d.WorkflowID == "":
			found = &d.Run
		}
	}
	return found
}

// p95Deviations is how many standard deviations the 95th percentile is above the median.
const p95Deviations = 1.6448536269514722

// at is the duration that a share q of the runs does not exceed.
func (a *AssumedRun) at(q float64) time.Duration {
	if a.P95 == 0 {
		return a.Duration
	}
	sigma := math.Log(float64(a.P95)/float64(a.Duration)) / p95Deviations
	took := float64(a.Duration) * math.Exp(sigma*math.Sqrt2*math.Erfinv(2*q-1))
	return time.Duration(min(took, float64(schedule.MaxRunTimeout)))
}

// random is a number above 0 and below 1 that depends on the seed and a name.
func (s *queueScenario) random(name string, n int) float64 {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d/%d/%s", s.in.Seed, n, name))
	return (float64(binary.BigEndian.Uint64(sum[:])>>12) + 0.5) / (1 << 52)
}

// play plays the scenario once, with the proposed settings or the saved ones.
func (s *queueScenario) play(ctx context.Context, budget *work.Budget, proposed bool) (*SimulatedQueue, error) {
	p := s.copied.Play(s.now, s.takes)
	if proposed {
		s.propose(&p.Facts)
	}
	p.Until, p.Spend = s.now.Add(s.in.For), budget.Meter(ctx)
	p.Play()
	if p.Spent {
		if err := budget.Err(); !errors.Is(err, work.ErrSpent) {
			return nil, err
		}
		return nil, schedule.Invalid("for_ms", s.in.For.Milliseconds(), spentProblem, "simulate a shorter time, or fewer arrivals")
	}
	if p.Stuck {
		p.Now = p.Until
	}
	out := &SimulatedQueue{MaxInFlight: p.Facts.Queue.MaxInFlight, ArrivalsOf: s.names}
	out.Sums = p.Sums(s.now, longestWaits, func(i int) bool { return s.names[p.Runs[i].Key] != "" || s.sees(p.Runs[i].Owner) })
	return out, nil
}

// propose gives a queue its proposed settings.
func (s *queueScenario) propose(f *ledger.QueueFacts) {
	q := *f.Queue
	if n := s.in.MaxInFlight; n != nil {
		q.MaxInFlight = *n
	}
	if s.in.Rate != nil {
		q.Rate = *s.in.Rate
	}
	if after := s.in.PromoteAfter; after != nil {
		q.PromoteAfterMS = *after
	}
	f.Queue = &q
	for _, keyed := range []bool{false, true} { // what is proposed for a key counts more
		for i := range s.in.Limits {
			of, p := s.proposed[i], &s.in.Limits[i]
			for ref, l := range f.Limits {
				if keyed == (of.Key != "") && ref.ID == of.ID && (of.Key == "" || of.Key == ref.Key) {
					p.apply(l, s.now)
				}
			}
		}
	}
}

func (p *ProposedLimit) apply(l *ledger.LimitNow, now time.Time) {
	if p.MaxInFlight != nil {
		l.Max, l.Unlimited = int(*p.MaxInFlight), false
	}
	if p.Rate != nil {
		l.Rate = ledger.RateOf(*p.Rate, l.Rate.Next, now)
	}
	if l.After != nil {
		after := *l.After
		p.apply(&after, now)
		l.After = &after
	}
}

// assumes is what a simulation takes for granted.
func (s *queueScenario) assumes() (texts []string) {
	c := &s.copied
	if c.Queue.Pulled() {
		texts = append(texts, "Every run succeeds, and nothing else enters the queue", "Workers fetch its runs as soon as they may start")
	} else {
		texts = append(texts, "Every run succeeds, nothing else enters the queue, and launchers have free calls")
	}
	if len(c.Elsewhere) > 0 {
		texts = append(texts, "No run of another queue that still waits takes a limit")
	}
	if !c.Queue.Pulled() && (c.Stall.Level > 0 || c.Stall.Until.After(s.now)) {
		texts = append(texts, "The executor takes work again at "+schedule.Later(c.Stall.Until, s.now).Format(time.RFC3339))
	}
	if c.Queue.IsFair() && len(s.in.Arrivals) > 0 {
		texts = append(texts, "The arrivals count for the owner of the queue when keys take turns")
	}
	if len(c.Reserved) > 0 {
		texts = append(texts, "Each reservation is held for its whole time")
	}
	if c.Queue.Pause.Active(s.now) && c.Queue.Pause.Until.IsZero() {
		texts = append(texts, "The queue stays paused; resumed plays it as if the pause ended now")
	}
	return texts
}
