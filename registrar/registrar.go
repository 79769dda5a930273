package registrar

import (
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/carillon/carillon/internal/output"
	"github.com/carillon/carillon/internal/schedule"
)

// Config holds an operator's settings for all schedules.
type Config struct {
	DefaultOverlap  schedule.OverlapPolicy
	DefaultCatchup  schedule.CatchupPolicy
	DefaultJitterMS uint32
	RunTimeoutMS    uint32 // for schedules that name none; 0: an hour
	// DefaultMaxInFlight is max_in_flight of queues that name none; 0: 1.
	DefaultMaxInFlight uint32
	// QueuesMaxInFlight bounds the runs in flight of all dispatch queues together, as the limit
	// schedule.AllQueuesLimit; 0: nothing does.
	QueuesMaxInFlight uint32
	// DefaultMaxAttempts is max_attempts of jobs where neither they nor their schedule say it;
	// 0: 3.
	DefaultMaxAttempts uint32
	// DefaultBackoffMS and DefaultMaxBackoffMS are what the retry policy of a queue leaves out; 0:
	// as schedule.DefaultRetry has them.
	DefaultBackoffMS, DefaultMaxBackoffMS uint32
	// OwnerMaxSchedules is how many living schedules one owner may have; 0: any
	// number.
	OwnerMaxSchedules int
	// OwnerMaxQueues is how many living queues a caller of role user may have, and OwnerMaxWaiting
	// how many runs that wait in queues; 0: any number.
	OwnerMaxQueues, OwnerMaxWaiting int
	// OwnerMaxPending is how many events may be pending for the consumers of an owner when a caller
	// that acts for it publishes; 0: any number.
	OwnerMaxPending int
	// CanCancel says that the executor supports cancels; without it overlap_policy replace is
	// refused at upsert.
	CanCancel bool
	// CancelWait is how long the worker waits for the executor to confirm a cancel.
	CancelWait time.Duration
	// RequireGrant refuses schedules without an execution grant.
	RequireGrant bool
	// CreditDownOpen accepts schedules while the credit gate gives no answer; otherwise they are
	// refused.
	CreditDownOpen bool
	// Retention is how long ended runs are kept; 0: without end. Explain reports it
	// for older slots.
	Retention time.Duration
	// KeepResults is how long the results of runs are kept after their end; 0: 7 days.
	KeepResults time.Duration
	// ReportSecret signs report tokens; nil accepts reports without looking.
	ReportSecret []byte
	// ReportLate is how long after its run's end a report token is accepted; 0:
	// as long as the run is kept.
	ReportLate time.Duration
	// Mask masks secrets in reports. nil: known forms only.
	Mask *output.Masker
}

// Options are a Registrar's parts.
type Options struct {
	Schedules ScheduleStore
	Fleet     FleetStore // nil: lists by next_run_at and overviews are refused
	Runs      RunStore
	Logs      LogStore     // nil: no run has a log
	Outcomes  OutcomeStore // nil: lists have no outcomes
	Backfills BackfillStore
	Workflows WorkflowStore
	Shares    ShareStore
	Grants    GrantStore
	Queues    QueueStore
	Entries   EnqueueStore  // nil: nothing can be put into queues
	Copies    CopyStore     // nil: no start of a run is estimated, and SimulateQueue is refused
	Limits    LimitStore    // nil: no limit exists
	Events    EventStore    // nil: there are no topics
	Groups    JobGroupStore // nil: there are no groups of runs
	Overlaps  OverlapStore  // nil: overlap groups are not shown
	// Reservations: nil: nothing can be reserved.
	Reservations ReservationStore
	Terms        TermStore      // nil: Explain has no leaders
	Instances    InstanceStore  // nil: ExplainRun has no launchers
	Sends        SendStore      // nil: only the last call of a run is known
	Credit       CreditGate     // nil: no credit checks
	Mirror       WorkflowMirror // nil: none
	Simulator    Simulator      // nil: Simulate is refused
	Outbox       OutboxStore    // nil: runs have no messages
	// WakeOutbox has the outbox looked at soon. Optional.
	WakeOutbox func()
	// Webhook returns the owners that may use a name in WEBHOOK_TARGETS_FILE, none: every owner;
	// ok = false: the file does not have it. nil: there is no such file.
	Webhook func(name string) (owners []string, ok bool)
	Now     func() time.Time // default time.Now
	Logger  *slog.Logger     // default slog.Default
	// LimitReports refuses a report of a run that reports too often; its error is the answer. It
	// is called after the token check, so that only the run's executor uses up the limit. nil: no
	// limit.
	LimitReports func(schedule.Key) error
	// Ended hears of each run that a report, or a cancel, brought to its end here.
	// Optional.
	Ended func(status schedule.Status, reason schedule.Reason)
	// EndedLate hears of each report of an end after another end of the run. Optional.
	EndedLate func()
	// Duplicate hears of each entry that finds another run under its unique key. Optional.
	Duplicate func(replaced bool)
	// Worked hears how many steps of package work each call that looks ahead has
	// spent. Optional.
	Worked func(call string, steps int)
	Config Config
}

// Registrar registers, changes, answers and takes reports.
type Registrar struct {
	schedules scopedSchedules // only those that the caller may see, see owner.go
	fleet     FleetStore
	runs      RunStore
	logs      LogStore
	recent    OutcomeStore
	backfills BackfillStore
	workflows WorkflowStore
	shares    ShareStore
	unscoped  ScheduleStore // of all owners, for calls that create schedules
	grants    GrantStore
	queues    QueueStore
	entries   EnqueueStore
	copies    CopyStore
	limits    LimitStore
	events    EventStore
	// reservations of all owners; nil: there are none
	reservations ReservationStore
	counts       queueCounts
	owners       ownerCounts
	pending      ownerCounts // of events
	queueIDs     sync.Map    // of queue_no; an id never changes
	groups       JobGroupStore
	overlaps     OverlapStore
	groupIDs     sync.Map     // of group_no, likewise
	namedGroups  atomic.Int32 // how many groupIDs has
	bound        atomic.Bool  // the limit of all queues is as it is configured
	ledger       RunStore     // of all owners, without audit entries
	terms        TermStore
	sends        SendStore
	instances    InstanceStore
	credit       CreditGate
	mirror       WorkflowMirror
	simulator    Simulator
	webhook      func(string) ([]string, bool)
	outbox       OutboxStore
	wakeOutbox   func()
	now          func() time.Time
	log          *slog.Logger
	ended        func(status schedule.Status, reason schedule.Reason)
	endedLate    func()
	duplicate    func(replaced bool)
	worked       func(call string, steps int)
	limit        func(schedule.Key) error
	cfg          Config
}

// New makes a Registrar of its parts.
func New(o Options) *Registrar {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Ended == nil {
		o.Ended = func(schedule.Status, schedule.Reason) {}
	}
	if o.Duplicate == nil {
		o.Duplicate = func(bool) {}
	}
	if o.EndedLate == nil {
		o.EndedLate = func() {}
	}
	if o.LimitReports == nil {
		o.LimitReports = func(schedule.Key) error { return nil }
	}
	if o.WakeOutbox == nil {
		o.WakeOutbox = func() {}
	}
	if o.Worked == nil {
		o.Worked = func(string, int) {}
	}
	if o.Config.DefaultOverlap == "" {
		o.Config.DefaultOverlap = schedule.OverlapSkip
	}
	if o.Config.DefaultCatchup == "" {
		o.Config.DefaultCatchup = schedule.CatchupNone
	}
	if o.Config.RunTimeoutMS == 0 {
		o.Config.RunTimeoutMS = uint32(schedule.DefaultRunTimeout.Milliseconds())
	}
	if o.Config.DefaultMaxInFlight == 0 {
		o.Config.DefaultMaxInFlight = 1
	}
	if o.Config.DefaultMaxAttempts == 0 {
		o.Config.DefaultMaxAttempts = 3
	}
	schedules, runs := auditedSchedules{o.Schedules}, auditedRuns{o.Runs}
	r := &Registrar{
		schedules: scopedSchedules{schedules}, backfills: scopedBackfills{auditedBackfills{o.Backfills}}, logs: o.Logs, workflows: o.Workflows, shares: o.Shares, grants: o.Grants, terms: o.Terms, sends: o.Sends, credit: o.Credit, mirror: o.Mirror,
		now: func() time.Time { return o.Now().UTC().Truncate(time.Microsecond) },
		log: o.Logger.With("component", "registrar"), ended: o.Ended, endedLate: o.EndedLate, duplicate: o.Duplicate, worked: o.Worked, limit: o.LimitReports, cfg: o.Config,
	}
	r.webhook, r.outbox, r.wakeOutbox = o.Webhook, o.Outbox, o.WakeOutbox
	r.simulator, r.fleet, r.recent, r.queues, r.entries, r.ledger = o.Simulator, o.Fleet, o.Outcomes, auditedQueues{o.Queues}, o.Entries, o.Runs
	r.copies, r.events = o.Copies, o.Events
	if o.Limits != nil {
		r.limits = auditedLimits{o.Limits}
	}
	if o.Reservations != nil {
		r.reservations = auditedReservations{o.Reservations}
	}
	r.instances, r.groups, r.overlaps = o.Instances, o.Groups, o.Overlaps
	r.runs = scopedRuns{namedRuns{runs, r.queueID, r.groupID, r.uniqueOf}}
	r.unscoped = schedules
	return r
}
