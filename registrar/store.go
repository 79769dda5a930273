package registrar

import (
	"context"
	"encoding/json"
	"time"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/topic"
)

// ScheduleStore stores schedules, their revisions and their events.
type ScheduleStore interface {
	// ChangeSchedules locks the named schedules in sorted order, passes them to decide (one input
	// per id, in the order of req.ScheduleIDs, then one for each of req.Managed) and writes the
	// changes, all in one transaction. An error of decide writes nothing and is returned
	// unchanged. It wakes the worker if it inserts runs. decide is pure and may be called again if
	// the transaction is retried.
	ChangeSchedules(ctx context.Context, req schedule.ChangeRequest, decide func([]schedule.ChangeInput) ([]schedule.Change, error)) error
	// ReadSchedules reads the input of ChangeSchedules without locks.
	ReadSchedules(ctx context.Context, req schedule.ChangeRequest) ([]schedule.ChangeInput, error)
	// GetSchedule is the row, tombstones included; schedule.ErrNotFound.
	GetSchedule(ctx context.Context, scheduleID string) (*schedule.Schedule, error)
	// PeekSchedule is GetSchedule for those who do not need LastRunAt, which may be older: to
	// look for the newest run costs more than the rest.
	PeekSchedule(ctx context.Context, scheduleID string) (*schedule.Schedule, error)
	// ListSchedules returns schedules in order of schedule_id, without tombstones.
	ListSchedules(ctx context.Context, f schedule.ScheduleFilter) ([]schedule.Schedule, error)
	// ListEvents is newest first; beforeID = 0 begins at the end.
	ListEvents(ctx context.Context, scheduleID string, beforeID int64, limit int) ([]schedule.Event, error)
	// ListRevisions is newest first; before = 0 begins at the end.
	ListRevisions(ctx context.Context, scheduleID string, before int64, limit int) ([]schedule.Revision, error)
	// ReadSlot is all that is known of one instant, read in one transaction;
	// schedule.ErrNotFound.
	ReadSlot(ctx context.Context, q schedule.SlotQuery) (schedule.SlotFacts, error)
}

// FleetStore answers queries over all schedules and runs by index: none of them reads every row of
// the ledger.
type FleetStore interface {
	// ListUpcoming lists active schedules in the order of NextAt, then schedule_id.
	ListUpcoming(ctx context.Context, f schedule.ScheduleFilter) ([]schedule.Upcoming, error)
	// CountFleet counts schedules and runs.
	CountFleet(ctx context.Context, q schedule.FleetQuery) (schedule.FleetCounts, error)
}

// RunStore stores the ledger.
type RunStore interface {
	// ChangeRun locks one run (its schedule first), passes it to decide and writes the change in
	// one transaction. It returns the run afterwards (the inserted one if any) and whether
	// anything moved. existing names a key that decide also needs (zero: none).
	// schedule.ErrNotFound for an unknown key. It wakes the worker.
	ChangeRun(ctx context.Context, key, existing schedule.Key, decide func(schedule.RunInput) (schedule.RunChange, error)) (schedule.Run, bool, error)
	// RedriveRuns reads the dead runs of a filter (Dead and Ascending are implied), oldest run_at
	// first and at most f.Limit, locks their schedules, passes those that are still dead to decide
	// (without InFlight and Existing) and writes the change, in one transaction. Of two callers
	// only one gets a run. It returns what it has read. An error of decide writes nothing and is
	// returned unchanged. It wakes the worker.
	RedriveRuns(ctx context.Context, f schedule.RunFilter, decide func([]schedule.RunInput) (schedule.RedriveChange, error)) (schedule.RunPage, error)
	// CancelRuns reads the open runs of a filter, newest run_at first and at most f.Limit, locks them,
	// passes those that are still open to decide and writes the change, in one transaction. It
	// returns what it has read. An error of decide writes nothing and is returned unchanged. It wakes
	// the worker.
	CancelRuns(ctx context.Context, f schedule.RunFilter, decide func([]schedule.Run) (schedule.CancelChange, error)) (schedule.RunPage, error)
	GetRun(ctx context.Context, key schedule.Key) (*schedule.Run, error)
	// LaunchAttempts are the last failed attempts to launch a run
	// (schedule.KeptAttempts), oldest first; none of an unknown key.
	LaunchAttempts(ctx context.Context, key schedule.Key) ([]schedule.LaunchAttempt, error)
	// RunResult is what the executor returned with the end of a run; nil: nothing, or its retention
	// is over.
	RunResult(ctx context.Context, key schedule.Key) (*schedule.RunResult, error)
	ListRuns(ctx context.Context, f schedule.RunFilter) ([]schedule.Run, error)
}

// OutcomeStore summarizes the ended runs of schedules.
type OutcomeStore interface {
	// RecentOutcomes is the newest n ended runs of each schedule, newest run_at
	// first, and whether it fails (schedule.Failure).
	RecentOutcomes(ctx context.Context, scheduleIDs []string, n int) (map[string]schedule.Recent, error)
	// FailureGroups are the failing schedules of an owner ("": all) by reason and error code, the
	// largest group first.
	FailureGroups(ctx context.Context, userID string) ([]schedule.FailureGroup, error)
	// CountEnded counts runs that ended since an instant, by schedule and by how they
	// ended; of very many the newest limit.
	CountEnded(ctx context.Context, since time.Time, limit int) ([]schedule.EndedCount, error)
	// CountDead counts dead runs with a run_at not before an instant by schedule, the most runs
	// first; of very many the newest limit.
	CountDead(ctx context.Context, since time.Time, limit int) ([]schedule.DeadCount, error)
	// CountCalls counts the executor calls of runs by result, the most calls first. It reads the
	// runs updated since an instant, newest first, at most limit of them; if there are more, Since
	// is the update of the oldest one read. Of each run it counts the stored failed attempts
	// (schedule.KeptAttempts).
	CountCalls(ctx context.Context, since time.Time, limit int) (schedule.CallCounts, error)
}

// LogStore stores the output of runs.
type LogStore interface {
	// ReadRunLog is in the order of Seq; none of an unknown run.
	ReadRunLog(ctx context.Context, q schedule.RunLogQuery) ([]schedule.LogPart, error)
}

// BackfillStore stores backfills; the worker feeds them.
type BackfillStore interface {
	// ChangeBackfill locks one backfill after its schedule, passes them (nil if missing) to decide
	// and writes the change in one transaction. It returns the backfill afterwards. An error of
	// decide writes nothing and is returned unchanged. It wakes the worker.
	ChangeBackfill(ctx context.Context, ref schedule.BackfillRef, decide func(schedule.BackfillInput) (schedule.BackfillChange, error)) (*schedule.Backfill, error)
	// GetBackfill has the current counts; schedule.ErrNotFound.
	GetBackfill(ctx context.Context, backfillID string) (*schedule.Backfill, error)
	// ListBackfills returns backfills, newest first.
	ListBackfills(ctx context.Context, f schedule.BackfillFilter) ([]schedule.Backfill, error)
	// SlotStates summarize the rows of slots, in the order of the slots.
	SlotStates(ctx context.Context, scheduleID string, slots []time.Time) ([]schedule.SlotState, error)
}

// GrantStore stores execution grants. Grants are never deleted, and only a revocation changes one.
type GrantStore interface {
	// CreateGrant stores a grant. The same terms under an id that its owner has
	// are no write; other terms are schedule.ErrExists.
	CreateGrant(ctx context.Context, g *schedule.Grant) error
	// GetGrant returns schedule.ErrNotFound for an unknown grant.
	GetGrant(ctx context.Context, ref schedule.GrantRef) (*schedule.Grant, error)
	// ListGrants is ordered by grant_id, then user_id.
	ListGrants(ctx context.Context, f schedule.GrantFilter) ([]schedule.Grant, error)
	// RevokeGrant ends a grant permanently and returns it; the first revocation is
	// kept. After it returns, no claim and no Begin allows a run with it.
	// schedule.ErrNotFound.
	RevokeGrant(ctx context.Context, r schedule.GrantRevocation) (*schedule.Grant, error)
}

// QueueStore stores dispatch queues and their logs.
type QueueStore interface {
	// ChangeQueue lets decide change a queue, in one transaction and under its lock: no
	// admission that begins later reads what was before. decide gets nil if no queue ever
	// had the id, and may be called again. An error of decide writes nothing.
	ChangeQueue(ctx context.Context, queueID string, decide func(*schedule.Queue) (schedule.QueueChange, error)) (after *schedule.Queue, err error)
	// GetQueue returns a queue, also a deleted one; schedule.ErrNotFound.
	GetQueue(ctx context.Context, queueID string) (*schedule.Queue, error)
	// ListQueues is ordered by queue_id, without deleted ones.
	ListQueues(ctx context.Context, f schedule.QueueFilter) ([]schedule.Queue, error)
	// SchedulesOfQueue returns up to limit living schedules that name the queue, by schedule_id:
	// of an owner, or with "" of all.
	SchedulesOfQueue(ctx context.Context, queueID, userID string, limit int) ([]string, error)
	// ListQueueEvents is the log of a queue, newest first. before, if not 0, is the id of
	// the last event of the page before.
	ListQueueEvents(ctx context.Context, queueID string, before int64, limit int) ([]schedule.QueueEvent, error)
}

// LimitStore stores limits.
type LimitStore interface {
	// ChangeLimit lets decide change a limit, in one transaction and under its lock: no admission
	// that begins later reads what was before. decide may be called again. An error of decide writes
	// nothing. It returns the limit after the change; nil: there is none.
	ChangeLimit(ctx context.Context, limitID string, decide func(schedule.LimitFacts) (schedule.LimitChange, error)) (*schedule.Limit, error)
	// GetLimit returns schedule.ErrNotFound for an unknown limit.
	GetLimit(ctx context.Context, limitID string) (*schedule.Limit, error)
	// ListLimits is ordered by limit_id.
	ListLimits(ctx context.Context, f schedule.LimitFilter) ([]schedule.Limit, error)
	// ListLimitKeys are the keys above after that have their own numbers, in order.
	ListLimitKeys(ctx context.Context, limitNo int32, after string, limit int) ([]schedule.LimitKey, error)
	// GetLimitKey are the numbers of one key, also ended ones; nil: it has none of its own.
	GetLimitKey(ctx context.Context, limitNo int32, key string) (*schedule.LimitKey, error)
	// CountLimitUses counts the runs in flight that use a limit, by key, the most used first.
	CountLimitUses(ctx context.Context, limitNo int32, limit int) ([]schedule.LimitCount, error)
	// SchedulesWithLimit returns up to limit living schedules with this id in the text of their
	// limits, by schedule_id, those above after. The id may be part of another id or of a key.
	SchedulesWithLimit(ctx context.Context, limitID, after string, limit int) ([]schedule.LimitedSchedule, error)
	// ListLimitUses are runs in flight that use a limit, by key.
	ListLimitUses(ctx context.Context, limitNo int32, limit int) ([]schedule.LimitUse, error)
}

// EventStore stores the events of topics, and what consumers have of them.
type EventStore interface {
	// Publish writes events, and for each consumer that they match an inbox entry and a wake row, in one
	// transaction: all or none. The i-th answer is for the i-th event. One that exists is left as it is.
	Publish(ctx context.Context, p *topic.Publication) ([]topic.Published, error)
	// GetEvent returns an event with its data, and its entries, by schedule_id and round;
	// schedule.ErrNotFound.
	GetEvent(ctx context.Context, userID string, id topic.ID) (*topic.Event, []topic.Entry, error)
	// Consumptions are the entries of an event with what decides on each, by schedule_id and round, all
	// of one instant.
	Consumptions(ctx context.Context, seq int64) ([]topic.Consumption, error)
	// ListTopicEvents lists the events of a topic with their data, the newest first.
	ListTopicEvents(ctx context.Context, f topic.EventFilter) ([]topic.Event, error)
	// ListInbox lists entries of a consumer, in the order of the events.
	ListInbox(ctx context.Context, f topic.InboxFilter) ([]topic.InboxEntry, error)
	// CountInbox counts the entries of a consumer by state.
	CountInbox(ctx context.Context, scheduleID string) (map[topic.State]int, error)
	// CountPendingOf counts the pending entries of an owner's consumers, up to limit.
	CountPendingOf(ctx context.Context, userID string, limit int) (int, error)
	// GetState returns the state of a schedule; the zero value: it has none.
	GetState(ctx context.Context, scheduleID string) (schedule.State, error)
	// SetState replaces the state of a schedule if it has the revision; the zero value: it has another.
	SetState(ctx context.Context, scheduleID string, revision int64, state json.RawMessage, now time.Time) (schedule.State, error)
	TopicStore
}

// TopicStore reads topics, and audits their events.
type TopicStore interface {
	// EventsOf returns what a run of a consumer has taken, in the order of the events; nil: it is none.
	EventsOf(ctx context.Context, key schedule.Key) (*topic.Batch, error)
	// ListTopics lists topics that have events, or a consumer that names them, by owner and name.
	ListTopics(ctx context.Context, f topic.NameFilter) ([]topic.Name, error)
	// ReadTopic reads the numbers of a topic; those of one that does not exist are zero.
	ReadTopic(ctx context.Context, name topic.Name, ask topic.StatsAsk) (topic.Stats, error)
	// AuditEvents passes the events of a range with their entries to visit, by publish time; an event
	// with several entries comes once for each. cut: there are more events than f.Limit.
	AuditEvents(ctx context.Context, f topic.AuditFilter, visit func(*topic.AuditRow)) (cut bool, err error)
	// AuditRuns are what runs have taken by their records, and by the consumed entries that name them.
	AuditRuns(ctx context.Context, keys []schedule.Key) ([]topic.AuditRun, error)
	// StrayEntries are up to limit numbers of entries of a consumer, from one number to another, whose
	// event does not exist.
	StrayEntries(ctx context.Context, scheduleID string, first, last int64, limit int) ([]int64, error)
}

// ReservationStore stores reservations of dispatch queues.
type ReservationStore interface {
	// ChangeReservations changes the reservations of a queue as decide says, in one transaction and
	// under the lock of the queue, and grants what the queue has room for. decide gets the queue, nil
	// if none ever had the id, and what an earlier request with this id has made; it may be called
	// again, and its error writes nothing. It returns the queue after the change.
	ChangeReservations(ctx context.Context, req schedule.ReserveRequest, decide func(ledger.QueueFacts, *schedule.EnqueueRecord) (schedule.ReserveChange, error)) (ledger.QueueFacts, ledger.Reserved, error)
	// GetReservation returns schedule.ErrNotFound once it has ended.
	GetReservation(ctx context.Context, id schedule.Key) (*schedule.Reservation, error)
	// ReadReservations is the queue with its reservations, as an admission would find them; Queue is
	// nil if there is none.
	ReadReservations(ctx context.Context, queueNo int32, now time.Time) (ledger.QueueFacts, error)
}

// EnqueueStore stores the runs of dispatch queues.
type EnqueueStore interface {
	// Enqueue puts runs into a queue as decide says, in one transaction: all or none. It gives
	// them their positions. decide may be called again; its error writes nothing and is returned
	// unchanged.
	Enqueue(ctx context.Context, req schedule.EnqueueRequest, decide func(schedule.EnqueueFacts) (schedule.Enqueue, error)) error
	// CountQueue counts the open runs of a queue, each kind up to limit.
	CountQueue(ctx context.Context, queueNo int32, limit int) (schedule.QueueCounts, error)
	// CountWaitingOf counts the runs of an owner that wait in queues, delayed and chained ones
	// included, up to limit. It reads the open runs of the owner, and of nobody else.
	CountWaitingOf(ctx context.Context, userID string, limit int) (int, error)
	// CountQueueDead counts the dead runs of a queue, up to limit.
	CountQueueDead(ctx context.Context, queueNo int32, limit int) (int, error)
	// QueuePace counts the starts and ends of a queue in the last minutes. Rows of ended
	// runs are counted up to limit; with more of them, the newest ones stand for all.
	QueuePace(ctx context.Context, queueNo int32, now time.Time, limit int) (schedule.QueuePace, error)
	// QueueShares are up to limit keys with runs among the first counted ones that wait in a fair
	// queue, the one with the most runs first.
	QueueShares(ctx context.Context, queueNo int32, counted, limit int) ([]schedule.QueueShare, error)
	// ListWaiting lists the runs of a queue that are not admitted, in its order.
	ListWaiting(ctx context.Context, f schedule.WaitingFilter) ([]schedule.Run, error)
	// PositionOf is the place of a waiting run in its queue and priority, 1 for the next, and
	// limit if it is not before that. 0: it does not wait.
	PositionOf(ctx context.Context, r *schedule.Run, limit int) (int, error)
	// OpenAmong are those of the runs that are not over.
	OpenAmong(ctx context.Context, keys []schedule.Key) (map[schedule.Key]bool, error)
	// QueueWorkers are the workers that have fetched runs of a queue in the last day, the last one
	// first, and the runs that they have.
	QueueWorkers(ctx context.Context, queueNo int32) (workers []schedule.QueueWorker, runs map[string][]schedule.Key, err error)
	// ReadWaitingPlace is what explains a run that waits in a queue: its queue and limits as an
	// admission finds them, how many runs of higher priorities wait, up to counted, and up to users
	// runs in flight, of the queue and of each limit.
	ReadWaitingPlace(ctx context.Context, r *schedule.Run, counted, users int, now time.Time) (ledger.WaitingPlace, error)
	// UniqueOf is the unique key that a run holds; nil: none.
	UniqueOf(ctx context.Context, key schedule.Key) (*schedule.UniqueHold, error)
	// QueueID is the id of a queue by its number, also of a deleted one; "": there is none.
	QueueID(ctx context.Context, queueNo int32) (string, error)
	// ChangeQueued changes a run that is not over, as decide says, in one transaction, and returns
	// it. schedule.ErrNotFound.
	ChangeQueued(ctx context.Context, key schedule.Key, decide func(*schedule.Run) (schedule.QueuedChange, error)) (*schedule.Run, error)
	// MoveQueued moves waiting and delayed runs of a queue, all or none: schedule.ErrMoveStale if
	// one of them, or the anchor, is not as it was read.
	MoveQueued(ctx context.Context, m schedule.QueueMove) error
}

// CopyStore copies queues for those that look ahead.
type CopyStore interface {
	// ReadQueueCopy copies a queue with its open runs, at most so many of those that are not admitted,
	// and the run times of its last runs. Queue is nil if there is none.
	ReadQueueCopy(ctx context.Context, req schedule.QueueCopyRequest) (ledger.QueueCopy, error)
}

// OverlapStore reads overlap groups.
type OverlapStore interface {
	// OverlapKeys are the overlap keys of living schedules with policy coalesce, as
	// user_id/overlap_key, in order.
	OverlapKeys(ctx context.Context, f schedule.OverlapKeyFilter) ([]string, error)
	// SchedulesOfOverlap returns up to limit living schedules with an overlap key, by schedule_id.
	SchedulesOfOverlap(ctx context.Context, overlapKey string, limit int) ([]string, error)
	// OpenOfOverlap are the open runs of an overlap key that are in flight, wait for it, or are due,
	// in no order.
	OpenOfOverlap(ctx context.Context, ask schedule.OpenAsk) ([]schedule.Key, error)
}

// JobGroupStore stores groups of runs of queues. EnqueueStore adds groups, and members to them.
type JobGroupStore interface {
	// ChangeJobGroup locks a group, passes it to decide (nil if missing), writes the change and
	// does what is due then: members are cancelled, the group ends. All in one transaction. It
	// returns the group afterwards. An error of decide writes nothing and is returned unchanged;
	// decide may be called again.
	ChangeJobGroup(ctx context.Context, groupID string, decide func(*schedule.JobGroup) (schedule.GroupChange, error)) (*schedule.JobGroup, error)
	// GetJobGroup returns a group with its members counted; schedule.ErrNotFound.
	GetJobGroup(ctx context.Context, groupID string) (*schedule.JobGroup, error)
	// JobGroupByNo is GetJobGroup by number.
	JobGroupByNo(ctx context.Context, groupNo int32) (*schedule.JobGroup, error)
	// ListJobGroups lists groups, newest first, with their members counted.
	ListJobGroups(ctx context.Context, f schedule.GroupFilter) ([]schedule.JobGroup, error)
	// JobGroupID is the id of a group by its number; "": it was pruned.
	JobGroupID(ctx context.Context, groupNo int32) (string, error)
	// FirstMember is the open member with the smallest number; nil: none is left.
	FirstMember(ctx context.Context, groupNo int32) (*schedule.GroupMember, error)
}

// WorkflowStore stores workflow versions.
type WorkflowStore interface {
	// PutWorkflow stores a version for its UserID. The same version of that owner
	// with the same hash is no write; with another hash it is schedule.ErrExists.
	PutWorkflow(ctx context.Context, w *schedule.WorkflowVersion) error
	// GetWorkflow is the version stored for exactly this owner, or with userID "" for all owners;
	// schedule.ErrNotFound.
	GetWorkflow(ctx context.Context, userID, workflowID string, version int32) (*schedule.WorkflowVersion, error)
	// ListWorkflows returns versions without their DAGs, newest first.
	ListWorkflows(ctx context.Context, f schedule.WorkflowFilter) ([]schedule.WorkflowVersion, error)
}

// ShareStore stores which owners may use workflows that are stored for all owners.
type ShareStore interface {
	// OwnsWorkflow reports whether an owner has stored a version of the workflow, or has
	// a share of it.
	OwnsWorkflow(ctx context.Context, userID, workflowID string) (bool, error)
	// WorkflowAccess say which versions exist for each use, in the order of the uses.
	WorkflowAccess(ctx context.Context, uses []schedule.WorkflowUse) ([]schedule.WorkflowAccess, error)
	// ShareWorkflow gives a workflow to an owner or to schedule.AllOwners, and returns the share.
	// A repeat writes nothing.
	ShareWorkflow(ctx context.Context, share schedule.WorkflowShare) (schedule.WorkflowShare, error)
	// UnshareWorkflow takes one share back; schedule.ErrNotFound.
	UnshareWorkflow(ctx context.Context, workflowID, userID string) error
	// ListShares returns shares in order of user_id, schedule.AllOwners first.
	ListShares(ctx context.Context, workflowID, after string, limit int) ([]schedule.WorkflowShare, error)
}

// SendStore stores when runs were sent.
type SendStore interface {
	// FirstSent returns when the first call of a key that may have reached the executor
	// was recorded; zero: there was none.
	FirstSent(ctx context.Context, key schedule.Key) (time.Time, error)
}

// InstanceStore knows the processes.
type InstanceStore interface {
	// Instances were seen within a duration, ordered by id.
	Instances(ctx context.Context, within time.Duration) ([]schedule.Instance, error)
}

// TermStore stores leadership terms.
type TermStore interface {
	// WindowTerms returns the terms that led a hash bucket in a window, oldest first.
	WindowTerms(ctx context.Context, w schedule.TermWindow) ([]schedule.LeaderTerm, error)
}

// AuditStore stores the audit trail. Changes bring their own entries (schedule.Change,
// schedule.RunChange).
type AuditStore interface {
	AppendAudit(ctx context.Context, entries []schedule.AuditEntry) error
	// ListAudit returns rows, newest first.
	ListAudit(ctx context.Context, f schedule.AuditFilter) ([]schedule.AuditEntry, error)
}

// WorkflowMirror copies every version to where launchers load them from.
type WorkflowMirror interface {
	// CheckDAG returns schedule.ErrExists if the version has another DAG.
	CheckDAG(ctx context.Context, w *schedule.WorkflowVersion) error
	// PutDAG writes the version; the same again is no write, another one
	// schedule.ErrExists.
	PutDAG(ctx context.Context, w *schedule.WorkflowVersion) error
}
