package registrar

import (
	"context"
	"fmt"
	"time"

	"github.com/carillon/carillon/internal/auth"
	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

// Limits of one simulation of a queue. It has at most MaxSimulatedSlots runs.
const (
	MaxQueueSimulation     = 30 * 24 * time.Hour
	DefaultQueueSimulation = time.Hour
	MaxProposedLimits      = 20
	MaxArrivals            = 20
	MaxRunsAtOnce          = 1000
	MaxSimulatedDurations  = 50
	longestWaits           = 10
)

// SimulateQueueInput requests a simulation of a queue.
type SimulateQueueInput struct {
	QueueID      string
	MaxInFlight  *uint32 // nil: as it is saved, like the others
	Rate         *schedule.RateDefinition
	PromoteAfter *uint32
	Resumed      bool // a pause counts as ended
	Limits       []ProposedLimit
	Empty        bool // without what is in the queue
	Arrivals     []Arrivals
	Durations    []AssumedDuration
	For          time.Duration // 0: DefaultQueueSimulation
	Compare      bool
	Seed         uint32
}

// ProposedLimit are numbers of a limit that are not saved; nil: as they are saved.
type ProposedLimit struct {
	Limit       string // limit_id, for all keys, or limit_id=key
	MaxInFlight *uint32
	Rate        *schedule.RateDefinition
}

// Arrivals are runs that enter a queue again and again.
type Arrivals struct {
	Name       string
	Every      time.Duration
	Runs       int
	Random     bool
	Priority   int32
	Limits     []string
	WorkflowID string
	Run        *AssumedRun // nil: as the last runs of WorkflowID
}

// AssumedDuration is how long runs of a workflow take; "": of all that no other one names.
type AssumedDuration struct {
	WorkflowID string
	Run        AssumedRun
}

// QueueSimulation is the result of a simulation.
type QueueSimulation struct {
	From, Until time.Time
	Proposed    SimulatedQueue
	Saved       *SimulatedQueue
	Assumes     []string
}

// SimulatedQueue is one play of a queue.
type SimulatedQueue struct {
	MaxInFlight uint32
	Sums        ledger.PlaySums
	// ArrivalsOf names the arrivals of runs that are in no queue.
	ArrivalsOf map[schedule.Key]string
}

// SimulateQueue plays a queue with proposed settings. Nothing is written.
func (r *Registrar) SimulateQueue(ctx context.Context, in SimulateQueueInput) (*QueueSimulation, error) {
	if r.copies == nil {
		return nil, schedule.Explain(schedule.ErrUnsupported, "this process cannot simulate queues")
	}
	if in.For == 0 {
		in.For = DefaultQueueSimulation
	}
	if err := checkQueueSimulation(&in); err != nil {
		return nil, err
	}
	q, err := r.GetQueue(ctx, in.QueueID)
	if err != nil {
		return nil, err
	}
	if after := in.PromoteAfter; after != nil && *after > 0 && q.Fair == schedule.FairKey {
		return nil, schedule.Invalid("definition.promote_after_ms", *after, "is set for a queue with fair: key: old runs of one key would pass the turns of the others", "leave it out")
	}
	s := &queueScenario{in: &in, queue: q, now: r.now(), names: make(map[schedule.Key]string)}
	limits, err := r.limitsOfScenario(ctx, s)
	if err != nil {
		return nil, err
	}
	s.copied, err = r.copies.ReadQueueCopy(ctx, schedule.QueueCopyRequest{QueueNo: q.No, Runs: MaxSimulatedSlots, Limits: limits, Now: s.now})
	if err == nil && s.copied.Queue == nil {
		err = noQueue(in.QueueID)
	}
	if err == nil {
		err = s.prepare(limits)
	}
	if err != nil {
		return nil, err
	}
	budget, done := r.budget("simulate_queue")
	defer done()
	s.sees = auth.FromContext(ctx).Sees
	out := &QueueSimulation{From: s.now, Until: s.now.Add(in.For), Assumes: s.assumes()}
	if in.Compare {
		saved, err := s.play(ctx, budget, false)
		if err != nil {
			return nil, err
		}
		out.Saved = saved
	}
	proposed, err := s.play(ctx, budget, true)
	if err != nil {
		return nil, err
	}
	out.Proposed = *proposed
	for _, one := range []*SimulatedQueue{out.Saved, &out.Proposed} {
		if one != nil {
			one.Sums.Limits, err = r.readableUsage(ctx, one.Sums.Limits)
		}
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

func checkQueueSimulation(in *SimulateQueueInput) error {
	var c schedule.Collect
	if in.For < time.Millisecond || in.For > MaxQueueSimulation {
		c.Add("for_ms", in.For.Milliseconds(), "is not within 1 to "+schedule.Milliseconds(MaxQueueSimulation), "")
	}
	if n := in.MaxInFlight; n != nil && (*n < 1 || *n > schedule.MaxInFlightLimit) {
		c.Add("definition.max_in_flight", *n, "is not within 1 to 10000", "")
	}
	checkProposedRate(&c, "definition.rate", &in.Rate)
	if after := in.PromoteAfter; after != nil && time.Duration(*after)*time.Millisecond > schedule.MaxDelay {
		c.Add("definition.promote_after_ms", *after, "is over "+schedule.Milliseconds(schedule.MaxDelay), "0 is never")
	}
	for field, n := range map[string][2]int{"limits": {len(in.Limits), MaxProposedLimits}, "arrivals": {len(in.Arrivals), MaxArrivals}, "durations": {len(in.Durations), MaxSimulatedDurations}} {
		if n[0] > n[1] {
			c.Add(field, n[0], fmt.Sprintf("is more than %d", n[1]), "")
			return c.Err()
		}
	}
	for i := range in.Limits {
		l, at := &in.Limits[i], fmt.Sprintf("limits[%d].", i)
		if _, ok := schedule.ParseLimitRef(l.Limit); !ok {
			c.Add(at+"limit", l.Limit, "is not the id of a limit, or id=key of a keyed one", "")
		}
		if n := l.MaxInFlight; n != nil && *n > schedule.MaxInFlightLimit {
			c.Add(at+"max_in_flight", *n, "is over 10000", "")
		}
		checkProposedRate(&c, at+"rate", &l.Rate)
		if l.MaxInFlight == nil && l.Rate == nil {
			c.Note(at+"max_in_flight", "is not set, and rate is not", "set what is proposed")
		}
	}
	named := make(map[string]bool)
	for i := range in.Arrivals {
		a, at := &in.Arrivals[i], fmt.Sprintf("arrivals[%d].", i)
		checkArrivals(&c, at, a, i)
		if named[a.Name] {
			c.Add(at+"name", a.Name, "is used twice", "")
		}
		named[a.Name] = true
	}
	named = make(map[string]bool)
	for i := range in.Durations {
		d, at := &in.Durations[i], fmt.Sprintf("durations[%d].", i)
		switch {
		case named[d.WorkflowID] && d.WorkflowID == "":
			c.Note(at+"workflow_id", "is left out twice", "only one duration is for all other workflows; name one here")
		case named[d.WorkflowID]:
			c.Add(at+"workflow_id", d.WorkflowID, "is named twice", "")
		}
		named[d.WorkflowID] = true
		checkAssumed(&c, at+"run.", &d.Run)
	}
	return c.Err()
}

func checkArrivals(c *schedule.Collect, at string, a *Arrivals, i int) {
	a.Name = orDefault(a.Name, fmt.Sprintf("arrivals-%d", i+1))
	if a.Every < time.Millisecond || a.Every > 24*time.Hour {
		c.Add(at+"every_ms", a.Every.Milliseconds(), "is not within 1 to 86400000", "")
	}
	if a.Runs == 0 {
		a.Runs = 1
	}
	if a.Runs < 1 || a.Runs > MaxRunsAtOnce {
		c.Add(at+"runs", a.Runs, "is not within 1 to 1000", "")
	}
	if a.Priority < -schedule.MaxPriority || a.Priority > schedule.MaxPriority {
		c.Add(at+"priority", a.Priority, "is not within -1000 to 1000", "")
	}
	schedule.CheckLimitRefs(c, at+"limits", a.Limits)
	if a.Run != nil {
		checkAssumed(c, at+"run.", a.Run)
	}
}

func checkProposedRate(c *schedule.Collect, field string, rate **schedule.RateDefinition) {
	if *rate != nil {
		resolved := (*rate).Resolved()
		resolved.Check(c, field)
		*rate = &resolved
	}
}

// checkAssumed is for runs that all succeed.
func checkAssumed(c *schedule.Collect, at string, run *AssumedRun) {
	if run.Duration < 0 || run.Duration > schedule.MaxRunTimeout {
		c.Add(at+"duration_ms", run.Duration.Milliseconds(), "is not within 0 to 30 days", "")
	}
	if run.P95 != 0 && (run.P95 <= run.Duration || run.Duration == 0 || run.P95 > schedule.MaxRunTimeout) {
		c.Add(at+"p95_ms", run.P95.Milliseconds(), "is not more than duration_ms, the median", "leave it out if all runs take the same time")
	}
	if run.FailurePercent != 0 {
		c.Add(at+"failure_percent", run.FailurePercent, "is not 0", "all runs of a simulated queue succeed")
	}
}

// limitsOfScenario checks the limits that a request names, and returns those of each of its arrivals.
func (r *Registrar) limitsOfScenario(ctx context.Context, s *queueScenario) (limits []schedule.Limits, err error) {
	var c schedule.Collect
	usable := r.usableLimits()
	id := auth.FromContext(ctx)
	owner := orDefault(id.Owner, s.queue.UserID)
	for i := range s.in.Arrivals {
		field := fmt.Sprintf("arrivals[%d].limits", i)
		if err := usable.check(ctx, &c, field, owner, s.in.Arrivals[i].Limits); err != nil {
			return nil, err
		}
		limits = append(limits, r.bounded(mergeLimits(&c, field, s.queue, s.in.Arrivals[i].Limits)))
	}
	for i := range s.in.Limits {
		p := &s.in.Limits[i]
		ref, _ := schedule.ParseLimitRef(p.Limit)
		l, err := usable.read(ctx, ref.ID)
		if err != nil {
			return nil, err
		}
		at := fmt.Sprintf("limits[%d].limit", i)
		switch {
		case l == nil || !l.Shared && !id.Sees(l.UserID):
			c.Add(at, p.Limit, "does not exist, or is another owner's", "")
		case !l.Keyed && ref.Key != "":
			c.Add(at, p.Limit, "has a key", "the limit has none: name "+ref.ID)
		case l.Ordered && p.MaxInFlight != nil && *p.MaxInFlight > 1:
			c.Add(fmt.Sprintf("limits[%d].max_in_flight", i), *p.MaxInFlight, "is not 0 or 1, and the limit is ordered", "")
		}
		s.proposed = append(s.proposed, ref)
	}
	return limits, c.Err()
}

// readableUsage leaves out limits that the caller may not see.
func (r *Registrar) readableUsage(ctx context.Context, all []ledger.LimitUsage) (readable []ledger.LimitUsage, err error) {
	usable, id := r.usableLimits(), auth.FromContext(ctx)
	for _, u := range all {
		l, err := usable.read(ctx, u.Ref.ID)
		if err != nil {
			return nil, err
		}
		if l != nil && (l.Shared || id.Sees(l.UserID)) {
			readable = append(readable, u)
		}
	}
	return readable, nil
}
