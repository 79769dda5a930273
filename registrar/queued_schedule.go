package registrar

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/carillon/carillon/internal/auth"
	"github.com/carillon/carillon/internal/grant"
	"github.com/carillon/carillon/internal/schedule"
)

// prepareEnqueue finds the owner, the schedules and the grants of the runs.
func (r *Registrar) prepareEnqueue(ctx context.Context, q *schedule.Queue, e *enqueue) error {
	limits := r.usableLimits()
	known := make(map[QueuedRef]*schedule.Schedule)
	e.schedules = make([]*schedule.Schedule, len(e.Runs))
	for i := range e.Runs {
		in := &e.Runs[i]
		if i > 0 { // the first run decides on the owner, and is checked then
			if err := r.checkRunWebhook(in, e.UserID); err != nil {
				return e.prefixed(i, err)
			}
		}
		ref := QueuedRef{in.ScheduleID, in.WorkflowID, in.Version, in.ExecutionGrantID}
		s := known[ref]
		if s == nil {
			var err error
			if s, err = r.scheduleOf(ctx, q, e, in); err != nil {
				return e.prefixed(i, err)
			}
			known[ref] = s
		}
		e.schedules[i] = s
		var c schedule.Collect
		if err := limits.check(ctx, &c, "limits", e.UserID, in.Limits); err != nil {
			return err
		}
		if err := c.Err(); err != nil {
			return e.prefixed(i, err)
		}
	}
	if e.UserID == "" { // a group without runs
		if q.Shared {
			return schedule.Invalid("user_id", "", "is required: other owners use queue "+schedule.Quote(q.QueueID)+" too", "name the owner of the group")
		}
		e.UserID = q.UserID
	}
	if !q.Shared && e.UserID != q.UserID {
		return schedule.Invalid("user_id", e.UserID, "is not the owner of queue "+schedule.Quote(q.QueueID)+", which is not shared", "share the queue, or use another one")
	}
	queueFull, err := r.queueFull(ctx, q, len(e.Runs)+len(e.rows))
	if err != nil {
		return err
	}
	ownerFull, err := r.ownerFull(ctx, e.UserID, len(e.Runs)+len(e.rows))
	e.full = func(n int) error { return cmp.Or(queueFull(n), ownerFull(n)) }
	return err
}

// neverFull is the answer where nothing bounds what waits.
func neverFull(int) error { return nil }

// queueFull returns what refuses n runs that do not fit into a queue; about more are expected.
func (r *Registrar) queueFull(ctx context.Context, q *schedule.Queue, more int) (full func(n int) error, err error) {
	limit := q.MaxWaiting
	if limit == 0 {
		return neverFull, nil
	}
	waiting, again, err := r.waitingIn(ctx, q, more)
	return func(n int) error {
		if n == 0 || waiting+n <= int(limit) {
			return nil
		}
		return schedule.RetryLater(again, "queue %s is full: %d runs wait in it, and max_waiting is %d; try again in %s, or ask its owner to raise max_waiting",
			schedule.Quote(q.QueueID), waiting, limit, again)
	}, err
}

// QueuedRef names what a run of a queue is of.
type QueuedRef struct {
	ScheduleID, WorkflowID string
	Version                int32
	ExecutionGrantID       string
}

func (in *EnqueueInput) prefixed(i int, err error) error {
	if _, ok := errors.AsType[*schedule.InvalidError](err); ok {
		var c schedule.Collect
		addPrefixed(&c, in.prefix(i), err)
		return c.Err()
	}
	if in.Batch && err != nil {
		return fmt.Errorf("%w (runs[%d])", err, i)
	}
	return err
}

// scheduleOf is the schedule of a run with a valid grant. That of a bare workflow version is
// made at its first use. The first run decides on the owner if the request names none.
func (r *Registrar) scheduleOf(ctx context.Context, q *schedule.Queue, e *enqueue, in *QueuedInput) (s *schedule.Schedule, err error) {
	if in.ScheduleID != "" {
		if s, err = living(ctx, r.schedules.PeekSchedule, in.ScheduleID); err != nil {
			if known, lookErr := r.schedules.PeekSchedule(ctx, in.ScheduleID); lookErr == nil && e.UserID == "" {
				e.UserID = known.UserID // for a repeat after its deletion
			}
			return nil, err
		}
		if e.UserID == "" {
			e.UserID = s.UserID
		}
		if s.UserID != e.UserID {
			return nil, schedule.Invalid("schedule_id", in.ScheduleID, "belongs to owner "+schedule.Quote(s.UserID)+", the request to "+schedule.Quote(e.UserID), "use one request for each owner")
		}
	} else if e.UserID == "" {
		if q.Shared {
			return nil, schedule.Invalid("user_id", "", "is required: other owners use queue "+schedule.Quote(q.QueueID)+" too", "name the owner of the run")
		}
		e.UserID = q.UserID
	}
	if !q.Shared && e.UserID != q.UserID {
		return nil, schedule.Invalid("user_id", e.UserID, "is not the owner of queue "+schedule.Quote(q.QueueID)+", which is not shared", "share the queue, or use another one")
	}
	if err := r.checkRunWebhook(in, e.UserID); err != nil {
		return nil, err
	}
	if s == nil {
		if s, err = r.templateOf(ctx, q, e.UserID, in); err != nil {
			return nil, err
		}
	}
	return s, r.checkEntryGrant(ctx, s)
}

// checkEntryGrant refuses a run that its grant would end at once.
func (r *Registrar) checkEntryGrant(ctx context.Context, s *schedule.Schedule) error {
	var g *schedule.Grant
	if ref := s.GrantRef(); ref.GrantID != "" {
		var err error
		if g, err = r.grants.GetGrant(ctx, ref); err != nil && !errors.Is(err, schedule.ErrNotFound) {
			return err
		}
	}
	reason, why := grant.Denial(g, s.GrantUse(r.cfg.RequireGrant), r.now())
	if reason == schedule.ReasonNone {
		return nil
	}
	return &schedule.InvalidError{Violations: []schedule.Violation{{
		Field: "execution_grant_id", Problem: fmt.Sprintf("%s (%s)", why, reason), Hint: "create a grant and name it",
	}}}
}

// TemplateManager is the manager of the schedules that a queue makes for bare workflow versions.
func TemplateManager(queueID string) string { return schedule.ManagedByQueue + queueID }

// templateOf is the schedule without a rule that runs of a bare workflow version belong to.
func (r *Registrar) templateOf(ctx context.Context, q *schedule.Queue, userID string, in *QueuedInput) (*schedule.Schedule, error) {
	id := templateID(q.QueueID, userID, in)
	gives := auth.FromContext(ctx).Owner == ""
	ctx = auth.NewContext(ctx, auth.Identity{Subject: auth.FromContext(ctx).Subject}) // one template for all callers
	s, err := r.schedules.PeekSchedule(ctx, id)
	switch {
	case err == nil && s.Alive() && s.ManagedBy == TemplateManager(q.QueueID) && s.UserID == userID:
		return s, nil
	case err != nil && !errors.Is(err, schedule.ErrNotFound):
		return nil, err
	}
	done, err := r.upsertAll(ctx, &upserts{template: true, templateGives: gives, inputs: []UpsertInput{{
		Definition: schedule.Definition{
			ScheduleID: id, WorkflowID: in.WorkflowID, Version: in.Version, UserID: userID, OverlapPolicy: schedule.OverlapAllow,
			ExecutionGrantID: in.ExecutionGrantID, ManagedBy: TemplateManager(q.QueueID), Expect: schedule.Expect{OnFailure: schedule.OnFailureIgnore},
		},
	}}})
	if err != nil {
		return nil, err
	}
	return done.results[0].result.Schedule, nil
}

// templates are those of the request whose use it has to note.
func (e *enqueue) templates(now time.Time) (ids []string) {
	for _, s := range e.schedules {
		if s.NotesUse(now) {
			ids = append(ids, s.ScheduleID)
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// templateID is an id that says what it is of, or a hash of that if it is too long or an owner
// has other characters.
func templateID(queueID, userID string, in *QueuedInput) string {
	id := fmt.Sprintf("%s:%s:%s:%d", queueID, userID, in.WorkflowID, in.Version)
	if in.ExecutionGrantID != "" {
		id += ":" + in.ExecutionGrantID
	}
	if schedule.ValidID(id) {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return "q-" + hex.EncodeToString(sum[:16])
}
