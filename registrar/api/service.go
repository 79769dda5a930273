package api

import (
	"context"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/topic"
	"github.com/carillon/carillon/registrar"
	"github.com/carillon/carillon/registrar/explain"
)

// The interfaces that the servers need; *registrar.Registrar implements all but Workers, which a
// store does. Every call may return a *schedule.InvalidError or one of schedule's sentinels, see
// statusOf.

// ScheduleWriter changes schedules.
type ScheduleWriter interface {
	Upsert(ctx context.Context, in registrar.UpsertInput) (registrar.UpsertResult, error)
	// Patch is an Upsert of the current schedule with changes.
	Patch(ctx context.Context, p registrar.PatchInput) (registrar.UpsertResult, error)
	Pause(ctx context.Context, in registrar.PauseInput) (registrar.Paused, error)
	Resume(ctx context.Context, in registrar.ResumeInput) (registrar.View, error)
	Delete(ctx context.Context, scheduleID, actor string) error
	Trigger(ctx context.Context, in registrar.TriggerInput) (schedule.Run, error)
	ApplySchedules(ctx context.Context, in registrar.ApplyInput) (registrar.ApplyResult, error)
}

// ScheduleReader reads schedules.
type ScheduleReader interface {
	// Get adds the next n fires.
	Get(ctx context.Context, scheduleID string, n int) (registrar.GetResult, error)
	// ScheduleID is the stored id of the schedule that the caller means by id.
	ScheduleID(ctx context.Context, id string) (string, error)
	// List is ordered by schedule_id; the registrar sets f.Now.
	List(ctx context.Context, f schedule.ScheduleFilter) ([]registrar.View, error)
	// ListUpcoming is ordered by the next slot, then schedule_id.
	ListUpcoming(ctx context.Context, f schedule.ScheduleFilter) ([]registrar.UpcomingView, error)
	// Overview counts schedules and runs.
	Overview(ctx context.Context, q schedule.FleetQuery) (schedule.FleetCounts, error)
	// FailureGroups are the failing schedules of an owner, "" = all.
	FailureGroups(ctx context.Context, userID string) ([]schedule.FailureGroup, error)
	// Preview returns where the next page starts; zero: no further page.
	Preview(ctx context.Context, in registrar.PreviewInput) (fires []registrar.Fire, next time.Time, err error)
	// ForecastLaunches counts launches minute by minute.
	ForecastLaunches(ctx context.Context, in registrar.LaunchesInput) (*registrar.LaunchesForecast, error)
	Explain(ctx context.Context, scheduleID string, at time.Time) (explain.Answer, error)
	// ExplainLast explains the newest slot that is due, whatever its outcome.
	ExplainLast(ctx context.Context, scheduleID string) (explain.Answer, error)
	// ExplainReading explains a local time in the schedule's zone.
	ExplainReading(ctx context.Context, scheduleID, local string) (explain.Answer, error)
	// Simulate plays a scenario on a virtual clock.
	Simulate(ctx context.Context, in registrar.SimulateInput) (*registrar.Simulation, error)
	// Events is newest first; beforeID = 0 begins at the end.
	Events(ctx context.Context, scheduleID string, beforeID int64, limit int) ([]schedule.Event, error)
	// Revisions is newest first; before = 0 begins at the end.
	Revisions(ctx context.Context, scheduleID string, before int64, limit int) ([]schedule.Revision, error)
}

// Workflows stores workflow versions.
type Workflows interface {
	PutWorkflow(ctx context.Context, in registrar.WorkflowInput) (*schedule.WorkflowVersion, error)
	// GetWorkflow is the version that runs of the owner userID load; "": see the API.
	GetWorkflow(ctx context.Context, userID, workflowID string, version int32) (*schedule.WorkflowVersion, error)
	// ListWorkflows is newest version first: those that runs of the owner userID load, "" = all.
	ListWorkflows(ctx context.Context, userID string, f schedule.WorkflowFilter) ([]schedule.WorkflowVersion, error)
	// DeployWorkflow has one result for each of in.Triggers, in their order.
	DeployWorkflow(ctx context.Context, in registrar.DeployInput) ([]registrar.UpsertResult, error)
	ShareWorkflow(ctx context.Context, in registrar.ShareInput) (schedule.WorkflowShare, error)
	UnshareWorkflow(ctx context.Context, in registrar.ShareInput) (stillShared bool, err error)
	// ListShares is ordered by user_id.
	ListShares(ctx context.Context, workflowID, after string, limit int) ([]schedule.WorkflowShare, error)
}

// Grants stores execution grants.
type Grants interface {
	CreateGrant(ctx context.Context, in registrar.GrantInput) (*schedule.Grant, error)
	GetGrant(ctx context.Context, ref schedule.GrantRef) (*schedule.Grant, error)
	// ListGrants is ordered by grant_id, then user_id; the registrar sets f.Now.
	ListGrants(ctx context.Context, f schedule.GrantFilter) ([]schedule.Grant, error)
	RevokeGrant(ctx context.Context, in registrar.RevokeInput) (*schedule.Grant, error)
}

// Queues stores dispatch queues and puts runs into them.
type Queues interface {
	UpsertQueue(ctx context.Context, in registrar.QueueInput) (*schedule.Queue, error)
	GetQueue(ctx context.Context, queueID string) (*schedule.Queue, error)
	SchedulesOfQueue(ctx context.Context, queueID string) ([]string, error)
	QueueShares(ctx context.Context, q *schedule.Queue) ([]schedule.QueueShare, error)
	QueueWorkers(ctx context.Context, q *schedule.Queue) (workers []schedule.QueueWorker, runs map[string][]schedule.Key, err error)
	// ListQueues is ordered by queue_id.
	ListQueues(ctx context.Context, f schedule.QueueFilter) ([]schedule.Queue, error)
	DeleteQueue(ctx context.Context, in registrar.DeleteQueueInput) (registrar.DeletedQueue, error)
	PauseQueue(ctx context.Context, in registrar.PauseQueueInput) (registrar.PausedQueue, error)
	ResumeQueue(ctx context.Context, queueID, note, actor string) (*schedule.Queue, error)
	CloseQueue(ctx context.Context, queueID, note, actor string) (*schedule.Queue, error)
	OpenQueue(ctx context.Context, queueID, note, actor string) (*schedule.Queue, error)
	// ListQueueEvents is newest first; before = 0 begins at the end.
	ListQueueEvents(ctx context.Context, queueID string, before int64, limit int) ([]schedule.QueueEvent, error)
	// QueueCounts are at most a second old, and counted up to limit.
	QueueCounts(ctx context.Context, q *schedule.Queue, limit int) (schedule.QueueCounts, error)
	QueuePromises(ctx context.Context, q *schedule.Queue, c schedule.QueueCounts) ([]schedule.QueuePromise, error)
	QueuePace(ctx context.Context, q *schedule.Queue) (starts, ends float64, err error)
	Enqueue(ctx context.Context, in registrar.EnqueueInput) (registrar.Enqueued, error)
	ListWaiting(ctx context.Context, in registrar.WaitingInput) (registrar.WaitingPage, error)
	// SimulateQueue plays a queue on a virtual clock.
	SimulateQueue(ctx context.Context, in registrar.SimulateQueueInput) (*registrar.QueueSimulation, error)
	Reserve(ctx context.Context, in registrar.ReserveInput) (registrar.ReservationNow, error)
	// GetReservation: waits keeps a waiting reservation from being withdrawn.
	GetReservation(ctx context.Context, id schedule.Key, waits bool) (registrar.ReservationNow, error)
	// ListReservations is in order of arrival.
	ListReservations(ctx context.Context, queueID string) ([]registrar.ReservationNow, error)
	// ExtendReservation: a nil holdMS is that of the reservation.
	ExtendReservation(ctx context.Context, id schedule.Key, holdMS *uint32) (registrar.ReservationNow, error)
	ReleaseReservation(ctx context.Context, id schedule.Key, actor string) (registrar.ReservationNow, error)
	UpdateRun(ctx context.Context, in registrar.UpdateRunInput) (*schedule.Run, error)
	MoveRuns(ctx context.Context, in registrar.MoveInput) (*schedule.Run, error)
	// Position is the place of a waiting run in its queue and priority; 0: none, or far behind.
	Position(ctx context.Context, run *schedule.Run) (int, error)
	// OpenAmong reports which of the runs are not over, also of other owners: the caller was given the
	// keys.
	OpenAmong(ctx context.Context, keys []schedule.Key) ([]bool, error)
	// QueueIDOf is the queue of a run; "": none.
	QueueIDOf(ctx context.Context, run *schedule.Run) (string, error)
}

// Events publishes events and reads their states.
type Events interface {
	Publish(ctx context.Context, in registrar.PublishInput) ([]topic.Event, []topic.Published, error)
	GetEvent(ctx context.Context, userID string, id topic.ID) (*topic.Event, []topic.Entry, error)
	// ExplainEvent is about the one consumer that is named, or all.
	ExplainEvent(ctx context.Context, userID string, id topic.ID, consumer string) (explain.EventAnswer, error)
	// ListTopicEvents lists the newest first.
	ListTopicEvents(ctx context.Context, f topic.EventFilter) ([]topic.Event, error)
	ListTopics(ctx context.Context, f topic.NameFilter) ([]topic.Stats, error)
	GetTopic(ctx context.Context, name topic.Name) (topic.Stats, error)
	// AuditTopic returns the range that was audited.
	AuditTopic(ctx context.Context, f topic.AuditFilter) (a *topic.Audit, of topic.AuditFilter, cut bool, err error)
	// ListInbox lists the oldest event first.
	ListInbox(ctx context.Context, f topic.InboxFilter) (registrar.Inbox, error)
	// GetState is what runs of a schedule have kept for the next one.
	GetState(ctx context.Context, scheduleID string) (schedule.State, error)
	SetState(ctx context.Context, in registrar.StateInput) (schedule.State, error)
}

// Limits stores limits and the numbers of their keys.
type Limits interface {
	UpsertLimit(ctx context.Context, in registrar.LimitInput) (registrar.ChangedLimit, error)
	// GetLimit has up to keys keys after one.
	GetLimit(ctx context.Context, limitID, after string, keys int) (registrar.LimitDetail, error)
	// ListLimits is ordered by limit_id.
	ListLimits(ctx context.Context, f schedule.LimitFilter) ([]schedule.Limit, error)
	DeleteLimit(ctx context.Context, limitID string) error
	SetLimitKey(ctx context.Context, in registrar.LimitKeyInput) (registrar.ChangedLimitKey, error)
}

// Groups makes, changes and reads groups of runs of queues.
type Groups interface {
	CreateGroup(ctx context.Context, in registrar.GroupInput) (registrar.ChangedGroup, error)
	AddToGroup(ctx context.Context, in registrar.AddInput) (registrar.ChangedGroup, error)
	SealGroup(ctx context.Context, groupID string) (*schedule.JobGroup, error)
	GetGroup(ctx context.Context, groupID string) (*schedule.JobGroup, error)
	// ListGroups is newest first.
	ListGroups(ctx context.Context, f schedule.GroupFilter) ([]schedule.JobGroup, error)
	CancelGroup(ctx context.Context, groupID string) (*schedule.JobGroup, error)
	RetryGroup(ctx context.Context, in registrar.RetryGroupInput) (registrar.ChangedGroup, error)
}

// Overlaps shows and starts overlap groups.
type Overlaps interface {
	// ListOverlapGroups is ordered by user_id/overlap_key.
	ListOverlapGroups(ctx context.Context, f schedule.OverlapKeyFilter) ([]registrar.OverlapGroup, error)
	GetOverlapGroup(ctx context.Context, userID, overlapKey string) (registrar.OverlapGroup, error)
	RunOverlapGroup(ctx context.Context, in registrar.RunOverlapInput) (runs []schedule.Run, repeated bool, err error)
}

// Runs is the ledger.
type Runs interface {
	// RunKey is the key that text is, or begins.
	RunKey(ctx context.Context, text string) (schedule.Key, error)
	RunOfID(ctx context.Context, id string) (schedule.Key, error)
	GetRun(ctx context.Context, key schedule.Key) (*schedule.Run, error)
	// LaunchAttempts are the last attempts to launch a run, oldest first.
	LaunchAttempts(ctx context.Context, run *schedule.Run) ([]schedule.LaunchAttempt, error)
	RunResult(ctx context.Context, run *schedule.Run) (*schedule.RunResult, error)
	// FirstSent is zero for a run that was sent once.
	FirstSent(ctx context.Context, run *schedule.Run) (time.Time, error)
	// ListRuns: the registrar sets f.Now.
	ListRuns(ctx context.Context, f schedule.RunFilter) ([]schedule.Run, error)
	// RunLog returns a part of a run's output, and the run as read before it.
	RunLog(ctx context.Context, q schedule.RunLogQuery) (*schedule.Run, []schedule.LogPart, error)
	Report(ctx context.Context, in registrar.ReportInput) (run schedule.Run, moved bool, err error)
	CancelRun(ctx context.Context, in registrar.CancelInput) (schedule.Run, error)
	CancelEffect(run *schedule.Run) string
	CancelRuns(ctx context.Context, in registrar.CancelRunsInput) (registrar.CancelledRuns, error)
	ExplainRun(ctx context.Context, key schedule.Key) (explain.RunAnswer, error)
	RetryRun(ctx context.Context, in registrar.RetryInput) (schedule.Run, error)
	RedriveRuns(ctx context.Context, in registrar.RedriveInput) (registrar.RedriveResult, error)
	// WebhookMessages returns the messages about the ends of runs, by their keys.
	WebhookMessages(ctx context.Context, runs []schedule.Run) (map[schedule.Key]schedule.AlertDelivery, error)
	RedeliverWebhooks(ctx context.Context, in registrar.RedeliverInput) (registrar.Redelivered, error)
}

// Workers reads the rows that processes write about themselves.
type Workers interface {
	// Instances were seen within a duration, ordered by id.
	Instances(ctx context.Context, within time.Duration) ([]schedule.Instance, error)
	// Leaders are all shards that were ever led, by number.
	Leaders(ctx context.Context, now time.Time) ([]schedule.Leadership, error)
	// Shards returns the recorded number of shards; 0: none is recorded.
	Shards(ctx context.Context) (int, error)
	// ListTerms returns terms, newest first.
	ListTerms(ctx context.Context, f schedule.TermFilter) ([]schedule.LeaderTerm, error)
	// AskToResign returns schedule.ErrNotFound if the shard has no leader.
	AskToResign(ctx context.Context, shard int, now time.Time) (schedule.Leadership, error)
}
