package registrar

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/carillon/carillon/internal/auth"
	"github.com/carillon/carillon/internal/failpoint"
	"github.com/carillon/carillon/internal/schedule"
)

// MaxEnqueued bounds the runs of one request.
const MaxEnqueued = 5000

// maxPosition bounds the place that a request may name.
const maxPosition = 1_000_000

// QueuedInput is one run that is put into a queue: of a schedule, or of a workflow version.
type QueuedInput struct {
	ScheduleID       string
	WorkflowID       string
	Version          int32
	ExecutionGrantID string
	Input            json.RawMessage // nil: the schedule's
	Priority         *int32          // nil: the schedule's
	RunAt            time.Time       // zero: at once
	DelayMS          *uint32
	MaxAttempts      *uint32 // nil: the schedule's; without a policy DefaultMaxAttempts
	// Limits that the run uses besides those of its queue. A request without any keeps the hash
	// that it had before there were limits.
	Limits []string `json:",omitempty"`
	// Webhook is the target of the message about its end; "": the queue's. A request without it
	// keeps the hash of older releases.
	Webhook string `json:",omitempty"`
	// FairKey is what the run counts for in a fair queue; "": the schedule's, or the owner.
	FairKey string `json:",omitempty"`
	// ExpiresMS bounds its wait; nil: as its schedule says, else the queue.
	ExpiresMS *uint32 `json:",omitempty"`
	// Unique asks that no other run has its key; nil: it has none.
	Unique *schedule.Unique `json:",omitempty"`
}

// EnqueueInput is a request to put runs into a queue, all or none.
type EnqueueInput struct {
	QueueID   string
	UserID    string // of the runs; "": see EnqueueRunRequest
	RequestID string // "": a repeat makes further runs
	Position  *uint32
	Next      bool
	Runs      []QueuedInput
	Batch     bool   // name refused runs by their index
	Waits     bool   `json:"-"`          // the caller waits for the ends: they get rows of history
	GroupID   string `json:",omitempty"` // of the group that all runs join
	Actor     string `json:"-"`

	newGroup  bool // the runs are the first members of a group: there may be none
	completes bool // the last run enters at the end of the group
}

// Enqueued is what a request has put into a queue, or had put before.
type Enqueued struct {
	Keys     []schedule.Key
	Marks    schedule.Marks // of the keys
	Repeated bool
}

// Enqueue puts runs into a queue. The same request again, also after the end of the runs,
// returns the same keys; another one under its id is schedule.ErrKeyConflict.
func (r *Registrar) Enqueue(ctx context.Context, in EnqueueInput) (Enqueued, error) {
	e := &enqueue{EnqueueInput: in, joins: in.GroupID}
	if in.GroupID != "" {
		e.join = e.joinGroup
	}
	return r.enter(ctx, e, func(*schedule.Queue) error { return nil })
}

// enter puts the runs of a request into its queue. also checks more, once its owner is known.
func (r *Registrar) enter(ctx context.Context, e *enqueue, also func(*schedule.Queue) error) (Enqueued, error) {
	in := &e.EnqueueInput
	if err := checkEnqueue(ctx, in); err != nil {
		return Enqueued{}, err
	}
	if r.entries == nil {
		return Enqueued{}, schedule.ErrUnsupported
	}
	queue, err := r.enterableQueue(ctx, in.QueueID)
	if err != nil {
		return Enqueued{}, err
	}
	if err := r.boundQueues(ctx); err != nil {
		return Enqueued{}, err
	}
	e.hash, e.attempts, e.bounded, e.owner = in.hash(), r.cfg.DefaultMaxAttempts, r.bounded, auth.FromContext(ctx).Owner
	e.reader = func(q *schedule.Queue) bool { return mayRead(ctx, q) }
	for range templateTries {
		if err = r.enterOnce(ctx, queue, e, also); !errors.Is(err, schedule.ErrTemplateGone) {
			break
		}
	}
	if err != nil {
		return Enqueued{}, err
	}
	return e.out, nil
}

// templateTries bounds how often an entry begins again because retention has deleted a template that
// it was about to use. It makes the template again, which is then too young for retention.
const templateTries = 3

func (r *Registrar) enterOnce(ctx context.Context, queue *schedule.Queue, e *enqueue, also func(*schedule.Queue) error) error {
	err := r.prepareEnqueue(ctx, queue, e)
	if err == nil {
		err = also(queue)
	}
	if err != nil {
		done, found, lookErr := r.enqueuedBefore(ctx, e) // its schedule or grant may be gone now
		switch {
		case lookErr != nil:
			return lookErr
		case found:
			e.out = done
			return nil
		}
		return err
	}
	req := schedule.EnqueueRequest{
		QueueID: queue.QueueID, UserID: e.UserID, RequestID: e.RequestID, Position: e.place(), GroupID: e.joins, Uniques: e.uniqueHashes(),
		Now: r.now(),
	}
	req.Templates = e.templates(req.Now)
	call := auth.CallFrom(ctx)
	var rows []schedule.Run
	if err := r.entries.Enqueue(ctx, req, func(f schedule.EnqueueFacts) (schedule.Enqueue, error) {
		out, err := e.decide(f, r.now())
		rows = out.Runs
		if out.Group != nil && call != nil && call.Audited {
			out.Audit = entry(call, out.Group.GroupID, out.Now)
			out.Audit.UserID = out.Group.UserID
		}
		return out, err
	}); err != nil {
		return err
	}
	failpoint.Hit(failpoint.Enqueued)
	if call != nil && e.joins != "" {
		call.Recorded = call.Audited
	}
	if !e.out.Repeated {
		for i := range e.out.Marks {
			if e.out.Marks.Duplicate(i) {
				r.duplicate(e.out.Marks.Replaced(i))
			}
		}
		r.counts.entered(rows)
		r.owners.entered(e.UserID, len(rows))
		r.log.DebugContext(ctx, "runs enqueued", "queue_id", queue.QueueID, "runs", len(rows), "user_id", e.UserID)
	}
	return nil
}

// enqueue is a request with what was read for it.
type enqueue struct {
	EnqueueInput
	// Of a group: its id, whether the request has made it before, and what the request makes of it. rows are
	// its runs instead of those that the request describes.
	joins string
	made  func(schedule.EnqueueFacts) (bool, error)
	join  func(schedule.EnqueueFacts, *schedule.Enqueue) error
	rows  []schedule.Run

	owner     string // of the caller; "": it sees all
	hash      [32]byte
	reader    func(*schedule.Queue) bool            // whether the caller may see the queue
	schedules []*schedule.Schedule                  // of each run
	attempts  uint32                                // of a run whose schedule has no retry policy
	bounded   func(schedule.Limits) schedule.Limits // adds the limit of all queues
	full      func(n int) error                     // whether the queue has too many waiting runs for n more
	out       Enqueued
}

func (in *EnqueueInput) place() int {
	if in.Next {
		return 1
	}
	return int(value(in.Position, 0))
}

// hash is over the request as it was sent.
func (in *EnqueueInput) hash() [32]byte {
	asked := *in
	asked.Batch = false
	text, err := json.Marshal(asked)
	if err != nil { // an input that is no JSON was refused before
		panic("hash the request: " + err.Error())
	}
	return sha256.Sum256(text)
}

// prefix is put before the fields of the i-th run.
func (in *EnqueueInput) prefix(i int) string {
	if in.completes && i == len(in.Runs)-1 {
		return "on_complete."
	}
	if !in.Batch {
		return ""
	}
	return fmt.Sprintf("runs[%d].", i)
}

func checkEnqueue(ctx context.Context, in *EnqueueInput) error {
	if owner := auth.FromContext(ctx).Owner; owner != "" {
		if in.UserID == "" {
			in.UserID = owner
		}
		if in.UserID != owner {
			return notOwn(in.UserID)
		}
	}
	var c schedule.Collect
	checkID(&c, "queue_id", in.QueueID)
	if in.UserID != "" {
		checkOwner(&c, in.UserID)
	}
	if in.RequestID != "" {
		checkID(&c, "request_id", in.RequestID)
	}
	if p := in.Position; p != nil && (*p < 1 || *p > maxPosition) {
		c.Add("position", *p, fmt.Sprintf("is not within 1 to %d", maxPosition), "1 is next")
	} else if p != nil && in.Next {
		c.Note("next", "is set together with position", "keep one")
	}
	if in.GroupID != "" {
		checkID(&c, "group_id", in.GroupID)
	}
	if n := len(in.Runs); n < 1 && !in.newGroup || n > MaxEnqueued && !(in.completes && n == MaxEnqueued+1) {
		c.Note("runs", fmt.Sprintf("has %d runs, not 1 to %d", n, MaxEnqueued), "use several requests")
		return c.Err()
	}
	for i := range in.Runs {
		in.Runs[i].check(&c, in.prefix(i))
		if in.Runs[i].Unique != nil && (in.GroupID != "" || in.newGroup) {
			c.Note(in.prefix(i)+"unique", "is set for a run of a group", "a group has each of its runs; put the run into the queue without a group")
		}
	}
	return c.Err()
}

// check adds what is wrong with a run by itself.
func (in *QueuedInput) check(all *schedule.Collect, prefix string) {
	var c schedule.Collect
	switch {
	case in.ScheduleID != "" && in.WorkflowID != "":
		c.Note("workflow_id", "is set together with schedule_id", "keep one")
	case in.ScheduleID != "":
		checkID(&c, "schedule_id", in.ScheduleID)
		if in.Version != 0 {
			c.Add("version", in.Version, "is set together with schedule_id", "a schedule names its version")
		}
		if in.ExecutionGrantID != "" {
			c.Add("execution_grant_id", in.ExecutionGrantID, "is set together with schedule_id", "a schedule names its grant")
		}
	case in.WorkflowID == "":
		c.Note("schedule_id", "is required, or workflow_id with version", idHint)
	default:
		checkID(&c, "workflow_id", in.WorkflowID)
		if in.Version < 1 {
			c.Add("version", in.Version, "is below 1", "workflow versions start at 1")
		}
		if in.ExecutionGrantID != "" {
			checkID(&c, "execution_grant_id", in.ExecutionGrantID)
		}
	}
	checkInput(&c, in.Input)
	checkPriority(&c, in.Priority)
	if at := in.RunAt; !at.IsZero() && (at.Before(schedule.MinTime) || !at.Before(schedule.MaxTime)) {
		c.Add("run_at", at.Format(time.RFC3339), "is outside 1970 to 2099", "")
	}
	if d := in.DelayMS; d != nil && !in.RunAt.IsZero() {
		c.Note("delay_ms", "is set together with run_at", "keep one")
	} else if d != nil && time.Duration(*d)*time.Millisecond > schedule.MaxDelay {
		c.Add("delay_ms", *d, "is over "+schedule.Milliseconds(schedule.MaxDelay), "use run_at")
	}
	if n := in.MaxAttempts; n != nil && (*n < 1 || *n > schedule.MaxRetryAttempts) {
		c.Add("max_attempts", *n, fmt.Sprintf("is not within 1 to %d", schedule.MaxRetryAttempts), "1 is without retries")
	}
	if ms := in.ExpiresMS; ms != nil && *ms == 0 {
		c.Add("expires_ms", *ms, "is below 1000", "leave it out for that of the schedule or the queue")
	} else if ms != nil {
		schedule.CheckExpires(&c, *ms)
	}
	schedule.CheckLimitRefs(&c, "limits", in.Limits)
	in.checkUnique(&c)
	schedule.CheckFairKey(&c, "fair_key", in.FairKey)
	addPrefixed(all, prefix, c.Err())
}

func checkPriority(c *schedule.Collect, p *int32) {
	if p != nil && (*p < -schedule.MaxPriority || *p > schedule.MaxPriority) {
		c.Add("priority", *p, fmt.Sprintf("is not within -%d to %d", schedule.MaxPriority, schedule.MaxPriority), "")
	}
}

// addPrefixed adds the violations of an error with a prefix.
func addPrefixed(c *schedule.Collect, prefix string, err error) {
	if invalid, ok := errors.AsType[*schedule.InvalidError](err); ok {
		for _, v := range invalid.Violations {
			c.Note(prefix+v.Field, v.Problem, v.Hint)
		}
	}
}

// enterableQueue is the queue of a request. The queue "default" is made at its first use.
func (r *Registrar) enterableQueue(ctx context.Context, queueID string) (*schedule.Queue, error) {
	q, err := r.GetQueue(ctx, queueID)
	if queueID != schedule.DefaultQueueID || !errors.Is(err, schedule.ErrNotFound) {
		return q, err
	}
	_, err = r.queues.ChangeQueue(ctx, queueID, func(q *schedule.Queue) (schedule.QueueChange, error) {
		if q.Alive() {
			return schedule.QueueChange{}, nil
		}
		now := r.now()
		after := schedule.Queue{CreatedAt: now}
		if q != nil {
			after.No, after.Revision = q.No, q.Revision
		}
		after.QueueDefinition = schedule.QueueDefinition{
			QueueID: queueID, UserID: schedule.OperatorOwner, Shared: true, MaxWaiting: schedule.DefaultMaxWaiting,
		}.Resolved(r.cfg.DefaultMaxInFlight)
		after.Revision++
		return queueChange(&after, schedule.QueueCreated, "", "made at its first use", now), nil
	})
	if err != nil {
		return nil, err
	}
	return r.GetQueue(ctx, queueID)
}

// enqueuedBefore answers a repeated request whose schedule, grant or owner is gone now. An error
// means that it is not known whether there is an answer.
func (r *Registrar) enqueuedBefore(ctx context.Context, e *enqueue) (Enqueued, bool, error) {
	if e.RequestID == "" || e.UserID == "" {
		return Enqueued{}, false, nil
	}
	req := schedule.EnqueueRequest{QueueID: e.QueueID, UserID: e.UserID, RequestID: e.RequestID}
	err := r.entries.Enqueue(ctx, req, func(f schedule.EnqueueFacts) (schedule.Enqueue, error) {
		_, err := e.earlier(f)
		return schedule.Enqueue{}, err
	})
	if errors.Is(err, schedule.ErrKeyConflict) {
		return Enqueued{}, false, nil // what is wrong with the request says more
	}
	return e.out, err == nil && e.out.Repeated, err
}
