package registrar

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/carillon/carillon/internal/auth"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/schedule/describe"
)

// LimitInput is a request to register a limit.
type LimitInput struct {
	schedule.LimitDefinition
	MaxInFlight *uint32 // nil: any number
}

// ChangedLimit is a limit after a change.
type ChangedLimit struct {
	Limit   *schedule.Limit
	Warning string // more runs use it than it allows; "": they do not
}

// UpsertLimit registers a limit. It replaces the whole definition; the same one again writes
// nothing. The numbers of its keys are kept. Runs in flight go on, also if they are more than it
// allows now.
func (r *Registrar) UpsertLimit(ctx context.Context, in LimitInput) (out ChangedLimit, err error) {
	if err := ownUser(ctx, &in.UserID, "limit"); err != nil {
		return out, err
	}
	d, err := in.resolved()
	if err != nil {
		return out, err
	}
	naming, err := r.keyedInUse(ctx, &d)
	if err != nil {
		return out, err
	}
	out.Limit, err = r.limits.ChangeLimit(ctx, d.LimitID, func(f schedule.LimitFacts) (schedule.LimitChange, error) {
		now := r.now()
		after := schedule.Limit{CreatedAt: now}
		if f.Limit != nil {
			if err := upsertable(ctx, &f, &d, &naming, now); err != nil || f.Limit.LimitDefinition == d {
				return schedule.LimitChange{}, err
			}
			after = *f.Limit
		}
		after.LimitDefinition, after.UpdatedAt = d, now
		after.Revision++
		return schedule.LimitChange{After: &after, Now: now}, nil
	})
	if err == nil {
		out.Warning, err = r.overused(ctx, out.Limit)
	}
	return out, err
}

// resolved is the definition of a request with its defaults.
func (in *LimitInput) resolved() (schedule.LimitDefinition, error) {
	d := in.LimitDefinition
	d.Rate, d.MaxInFlight = d.Rate.Resolved(), 0
	if d.Ordered {
		d.MaxInFlight = 1
	}
	var c schedule.Collect
	if in.MaxInFlight != nil {
		if d.MaxInFlight = *in.MaxInFlight; d.MaxInFlight == 0 {
			c.Add("max_in_flight", d.MaxInFlight, fmt.Sprintf("is not within 1 to %d", schedule.MaxInFlightLimit), "leave it out for any number; only one key can have 0")
			d.MaxInFlight = 1 // said already
		}
	}
	d.Check(&c)
	checkOwner(&c, d.UserID)
	addPrefixed(&c, "", checkNote(d.Note))
	return d, c.Err()
}

// upsertable is nil if the definition of a limit may become another one.
func upsertable(ctx context.Context, f *schedule.LimitFacts, d *schedule.LimitDefinition, naming *naming, now time.Time) error {
	id := schedule.Quote(d.LimitID)
	if f.Limit.UserID != d.UserID {
		return schedule.Explain(schedule.ErrExists, "limit_id %s is taken by another owner: choose another id", id)
	}
	if err := mayChangeLimit(ctx, f.Limit); err != nil {
		return err
	}
	if d.Ordered && !f.Limit.Ordered && f.Limit.Keyed {
		switch {
		case f.MostUsed > 1:
			return schedule.Explain(schedule.ErrPrecondition, "cannot make limit %s ordered: one of its keys is in use by %s; set max_in_flight 1 first and wait until each key has at most 1", id, usersOf(f.MostUsed))
		case f.Over.Hold(now):
			return schedule.Explain(schedule.ErrPrecondition, "cannot make limit %s ordered: keys have a max_in_flight over 1 of their own; take it away first: `carillon limit set-key %s KEY`", id, d.LimitID)
		}
	}
	if f.Limit.Keyed == d.Keyed {
		return nil
	}
	switch {
	case f.Limit.Used > 0:
		return schedule.Explain(schedule.ErrPrecondition, "cannot change keyed of limit %s: it is in use by %s; wait until none is in flight, or register a limit with another id", id, usersOf(f.Limit.Used))
	case f.Keys.Hold(now):
		return schedule.Explain(schedule.ErrPrecondition, "cannot change keyed of limit %s: keys have their own numbers; take them away first: `carillon limit set-key %s KEY`", id, d.LimitID)
	case naming.any():
		return schedule.Explain(schedule.ErrPrecondition, "cannot change keyed of limit %s: %s; register them without it first", id, naming)
	}
	return nil
}

// keyedInUse is what names a limit, if the definition would change whether it is keyed.
func (r *Registrar) keyedInUse(ctx context.Context, d *schedule.LimitDefinition) (naming, error) {
	found, err := r.limits.GetLimit(ctx, d.LimitID)
	switch {
	case errors.Is(err, schedule.ErrNotFound):
		return naming{}, nil
	case err != nil || found.Keyed == d.Keyed:
		return naming{}, err
	}
	return r.naming(ctx, d.LimitID)
}

// naming are the queues and schedules that name a limit.
type naming struct {
	queues, schedules named
}

// named are queues or schedules that name a limit.
type named struct {
	ids    []string // that the caller may see
	others int      // of other owners
}

func (n *named) add(id string, visible bool) {
	if visible {
		n.ids = append(n.ids, id)
	} else {
		n.others++
	}
}

func (n *named) count() int { return len(n.ids) + n.others }

// text are the names, at most five: "the queues a, b and 2 more".
func (n *named) text(what string) string {
	const shown = 5
	ids, others := n.ids, n.others
	if len(ids) > shown {
		ids, others = ids[:shown], others+len(ids)-shown
	}
	quoted := make([]string, len(ids))
	for i, id := range ids {
		quoted[i] = schedule.Quote(id)
	}
	switch all := strings.Join(quoted, ", "); {
	case len(ids) == 0:
		return describe.Count(others, what) + " of other owners"
	case others > 0:
		return fmt.Sprintf("the %ss %s and %d more", what, all, others)
	case len(ids) == 1:
		return "the " + what + " " + all
	default:
		return "the " + what + "s " + all
	}
}

func (n *naming) any() bool { return n.queues.count()+n.schedules.count() > 0 }

// String is the beginning of a sentence: "the queues a and b name it".
func (n *naming) String() string {
	var parts []string
	if n.queues.count() > 0 {
		parts = append(parts, n.queues.text("queue"))
	}
	if n.schedules.count() > 0 {
		parts = append(parts, n.schedules.text("schedule"))
	}
	verb := "name"
	if n.queues.count()+n.schedules.count() == 1 {
		verb = "names"
	}
	return strings.Join(parts, " and ") + " " + verb + " it"
}

func (r *Registrar) naming(ctx context.Context, limitID string) (n naming, err error) {
	for after := ""; ; {
		page, err := r.queues.ListQueues(ctx, schedule.QueueFilter{After: after, Limit: schedule.MaxPageSize})
		if err != nil {
			return n, err
		}
		for i := range page {
			if schedule.JoinLimits(page[i].Limits, nil).Name(limitID) {
				n.queues.add(page[i].QueueID, mayRead(ctx, &page[i]))
			}
		}
		if len(page) < schedule.MaxPageSize {
			break
		}
		after = page[len(page)-1].QueueID
	}
	for after := ""; ; {
		page, err := r.limits.SchedulesWithLimit(ctx, limitID, after, schedule.MaxPageSize)
		if err != nil {
			return n, err
		}
		for _, s := range page {
			if s.Limits.Name(limitID) {
				n.schedules.add(s.ScheduleID, auth.FromContext(ctx).Sees(s.UserID))
			}
		}
		if len(page) < schedule.MaxPageSize {
			return n, nil
		}
		after = page[len(page)-1].ScheduleID
	}
}

// changeLimit changes a limit that exists and that the caller may change. A private limit of
// another owner is not found.
func (r *Registrar) changeLimit(ctx context.Context, limitID string, decide func(*schedule.LimitFacts, time.Time) (schedule.LimitChange, error)) (*schedule.Limit, error) {
	return r.limits.ChangeLimit(ctx, limitID, func(f schedule.LimitFacts) (schedule.LimitChange, error) {
		if f.Limit == nil || !mayReadLimit(ctx, f.Limit) {
			return schedule.LimitChange{}, noLimit(limitID)
		}
		if err := mayChangeLimit(ctx, f.Limit); err != nil {
			return schedule.LimitChange{}, err
		}
		return decide(&f, r.now())
	})
}

func mayReadLimit(ctx context.Context, l *schedule.Limit) bool {
	owner := auth.FromContext(ctx).Owner
	return owner == "" || owner == l.UserID || l.Shared
}

func mayChangeLimit(ctx context.Context, l *schedule.Limit) error {
	if owner := auth.FromContext(ctx).Owner; owner != "" && owner != l.UserID {
		return schedule.Explain(schedule.ErrForbidden, "limit %s is shared by another owner, who alone may change it", schedule.Quote(l.LimitID))
	}
	return nil
}

func noLimit(limitID string) error {
	return schedule.Explain(schedule.ErrNotFound, "there is no limit %s", schedule.Quote(limitID))
}

// getLimit is a limit that the caller may see.
func (r *Registrar) getLimit(ctx context.Context, limitID string) (*schedule.Limit, error) {
	l, err := r.limits.GetLimit(ctx, limitID)
	if errors.Is(err, schedule.ErrNotFound) || err == nil && !mayReadLimit(ctx, l) {
		return nil, noLimit(limitID)
	}
	return l, err
}

// ListLimits lists limits by limit_id. An owner sees its own and shared ones.
func (r *Registrar) ListLimits(ctx context.Context, f schedule.LimitFilter) ([]schedule.Limit, error) {
	if !ownOnly(ctx, &f.UserID) {
		return nil, nil
	}
	return r.limits.ListLimits(ctx, f)
}

// DeleteLimit deletes a limit with the numbers of its keys. It is refused while runs in flight use
// it, or queues or schedules name it.
func (r *Registrar) DeleteLimit(ctx context.Context, limitID string) error {
	naming, err := r.naming(ctx, limitID)
	if err != nil {
		return err
	}
	var used *schedule.Limit
	_, err = r.changeLimit(ctx, limitID, func(f *schedule.LimitFacts, now time.Time) (schedule.LimitChange, error) {
		switch used = nil; {
		case f.Limit.Used > 0:
			used = f.Limit
			return schedule.LimitChange{}, schedule.ErrPrecondition
		case naming.any():
			return schedule.LimitChange{}, schedule.Explain(schedule.ErrPrecondition, "cannot delete limit %s: %s; register them without it first", schedule.Quote(limitID), &naming)
		}
		return schedule.LimitChange{Delete: true, Now: now}, nil
	})
	if used == nil {
		return err
	}
	const named = 5
	users, unread := r.limitUsers(ctx, used, named)
	if unread != nil {
		return unread
	}
	runs := ""
	if len(users) > 0 {
		keys := make([]string, len(users))
		for i := range users {
			keys[i] = users[i].Run.Key.String()
		}
		runs = " (" + strings.Join(keys, ", ") + ")"
		if len(users) < used.Used {
			runs = " (" + strings.Join(keys, ", ") + " and others)"
		}
	}
	return schedule.Explain(schedule.ErrPrecondition, "cannot delete limit %s: it is in use by %s%s; wait until none is in flight, or end them",
		schedule.Quote(limitID), usersOf(used.Used), runs)
}

// usersOf are so many users of a limit.
func usersOf(n int) string {
	if n == 1 {
		return "1 run or reservation"
	}
	return fmt.Sprintf("%d runs or reservations", n)
}
