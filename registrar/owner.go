package registrar

import (
	"context"
	"errors"

	"github.com/carillon/carillon/internal/auth"
	"github.com/carillon/carillon/internal/schedule"
)

// An owner sees and changes only its own rows; for it, others do not exist. The stores below
// enforce that by the identity of the call. Only calls that create schedules use the unscoped
// store, because owners share the namespace of ids: see names.go.

// scopedSchedules limits a caller with an owner to that owner's schedules.
type scopedSchedules struct{ ScheduleStore }

func (s scopedSchedules) GetSchedule(ctx context.Context, scheduleID string) (*schedule.Schedule, error) {
	return ownSchedule(ctx, s.ScheduleStore.GetSchedule, scheduleID)
}

func (s scopedSchedules) PeekSchedule(ctx context.Context, scheduleID string) (*schedule.Schedule, error) {
	return ownSchedule(ctx, s.ScheduleStore.PeekSchedule, scheduleID)
}

// ownSchedule is a schedule that the caller may see.
func ownSchedule(ctx context.Context, get func(context.Context, string) (*schedule.Schedule, error), scheduleID string) (*schedule.Schedule, error) {
	owner := auth.FromContext(ctx).Owner
	there := func(id string) (*schedule.Schedule, error) { // nil: there is no such row
		found, err := get(ctx, id)
		if errors.Is(err, schedule.ErrNotFound) {
			return nil, nil
		}
		return found, err
	}
	found, err := there(scheduleID)
	switch {
	case err != nil:
		return nil, err
	case found != nil && (owner == "" || found.UserID == owner && found.Alive()):
		return found, nil
	case owner == "":
		return nil, notFound(scheduleID)
	}
	rows := []*schedule.Schedule{found}
	for _, name := range namesOf(owner, scheduleID)[1:] {
		if found, err = there(name); err != nil {
			return nil, err
		}
		rows = append(rows, found)
	}
	own := ownName(owner, rows)
	for _, row := range rows {
		if row != nil && row.ScheduleID == own {
			return row, nil
		}
	}
	return nil, notFound(scheduleID) // must not reveal whether another owner has it
}

func (s scopedSchedules) ListSchedules(ctx context.Context, f schedule.ScheduleFilter) ([]schedule.Schedule, error) {
	if !ownOnly(ctx, &f.UserID) {
		return nil, nil
	}
	return s.ScheduleStore.ListSchedules(ctx, f)
}

// ownOnly narrows a filter to the caller's owner; false: it names another one.
func ownOnly(ctx context.Context, userID *string) bool {
	id := auth.FromContext(ctx)
	if id.Owner == "" {
		return true
	}
	if *userID == "" {
		*userID = id.Owner
	}
	return *userID == id.Owner
}

func (s scopedSchedules) ListEvents(ctx context.Context, scheduleID string, beforeID int64, limit int) ([]schedule.Event, error) {
	scheduleID, err := s.owned(ctx, scheduleID)
	if err != nil {
		return nil, err
	}
	return s.ScheduleStore.ListEvents(ctx, scheduleID, beforeID, limit)
}

func (s scopedSchedules) ListRevisions(ctx context.Context, scheduleID string, before int64, limit int) ([]schedule.Revision, error) {
	scheduleID, err := s.owned(ctx, scheduleID)
	if err != nil {
		return nil, err
	}
	return s.ScheduleStore.ListRevisions(ctx, scheduleID, before, limit)
}

func (s scopedSchedules) ReadSlot(ctx context.Context, q schedule.SlotQuery) (schedule.SlotFacts, error) {
	var err error
	if q.ScheduleID, err = s.owned(ctx, q.ScheduleID); err != nil {
		return schedule.SlotFacts{}, err
	}
	return s.ScheduleStore.ReadSlot(ctx, q)
}

// owned returns the stored id of a schedule of the caller. A row that cannot be
// read counts as another owner's.
func (s scopedSchedules) owned(ctx context.Context, scheduleID string) (string, error) {
	if auth.FromContext(ctx).Owner == "" {
		return scheduleID, nil
	}
	found, err := s.GetSchedule(ctx, scheduleID)
	if err != nil {
		return "", err
	}
	return found.ScheduleID, nil
}

// stored replaces the ids of a change request by the stored ids.
func (s scopedSchedules) stored(ctx context.Context, req schedule.ChangeRequest) (schedule.ChangeRequest, error) {
	ids := make([]string, len(req.ScheduleIDs))
	for i, id := range req.ScheduleIDs {
		var err error
		if ids[i], err = s.storedID(ctx, id); err != nil {
			return req, err
		}
	}
	req.ScheduleIDs = ids
	return req, nil
}

func (s scopedSchedules) ChangeSchedules(ctx context.Context, req schedule.ChangeRequest, decide func([]schedule.ChangeInput) ([]schedule.Change, error)) error {
	id := auth.FromContext(ctx)
	if id.Owner == "" {
		return s.ScheduleStore.ChangeSchedules(ctx, req, decide)
	}
	req, err := s.stored(ctx, req)
	if err != nil {
		return err
	}
	return s.ScheduleStore.ChangeSchedules(ctx, req, func(found []schedule.ChangeInput) ([]schedule.Change, error) {
		return decide(ownInputs(id, found))
	})
}

func (s scopedSchedules) ReadSchedules(ctx context.Context, req schedule.ChangeRequest) ([]schedule.ChangeInput, error) {
	req, err := s.stored(ctx, req)
	if err != nil {
		return nil, err
	}
	found, err := s.ScheduleStore.ReadSchedules(ctx, req)
	return ownInputs(auth.FromContext(ctx), found), err
}

// ownInputs leaves empty places for the rows of others.
func ownInputs(id auth.Identity, found []schedule.ChangeInput) []schedule.ChangeInput {
	for i := range found {
		if s := found[i].Schedule; s != nil && !id.Sees(s.UserID) {
			found[i] = schedule.ChangeInput{}
		}
	}
	return found
}

// scopedRuns limits a caller with an owner to that owner's runs.
type scopedRuns struct{ RunStore }

func (s scopedRuns) ChangeRun(ctx context.Context, key, existing schedule.Key, decide func(schedule.RunInput) (schedule.RunChange, error)) (schedule.Run, bool, error) {
	id := auth.FromContext(ctx)
	run, moved, err := s.RunStore.ChangeRun(ctx, key, existing, func(found schedule.RunInput) (schedule.RunChange, error) {
		if !id.Sees(found.Run.UserID) {
			return schedule.RunChange{}, noRun(key)
		}
		return decide(found)
	})
	if errors.Is(err, schedule.ErrNotFound) {
		err = noRun(key)
	}
	return run, moved, err
}

func (s scopedRuns) RedriveRuns(ctx context.Context, f schedule.RunFilter, decide func([]schedule.RunInput) (schedule.RedriveChange, error)) (schedule.RunPage, error) {
	if !ownOnly(ctx, &f.UserID) {
		return schedule.RunPage{}, nil
	}
	return s.RunStore.RedriveRuns(ctx, f, decide)
}

func (s scopedRuns) CancelRuns(ctx context.Context, f schedule.RunFilter, decide func([]schedule.Run) (schedule.CancelChange, error)) (schedule.RunPage, error) {
	if !ownOnly(ctx, &f.UserID) {
		return schedule.RunPage{}, nil
	}
	return s.RunStore.CancelRuns(ctx, f, decide)
}

func (s scopedRuns) GetRun(ctx context.Context, key schedule.Key) (*schedule.Run, error) {
	found, err := s.RunStore.GetRun(ctx, key)
	if errors.Is(err, schedule.ErrNotFound) || err == nil && !auth.FromContext(ctx).Sees(found.UserID) {
		return nil, noRun(key)
	}
	return found, err
}

func (s scopedRuns) LaunchAttempts(ctx context.Context, key schedule.Key) ([]schedule.LaunchAttempt, error) {
	if _, err := s.GetRun(ctx, key); err != nil {
		return nil, err
	}
	return s.RunStore.LaunchAttempts(ctx, key)
}

func (s scopedRuns) RunResult(ctx context.Context, key schedule.Key) (*schedule.RunResult, error) {
	if _, err := s.GetRun(ctx, key); err != nil {
		return nil, err
	}
	return s.RunStore.RunResult(ctx, key)
}

func (s scopedRuns) ListRuns(ctx context.Context, f schedule.RunFilter) ([]schedule.Run, error) {
	if !ownOnly(ctx, &f.UserID) {
		return nil, nil
	}
	return s.RunStore.ListRuns(ctx, f)
}

// noRun says that no run has a key. That of a job may have had one: which queue it was in is not
// known any more.
func noRun(key schedule.Key) error {
	if key.MayBeOfJob() {
		return schedule.Explain(schedule.ErrNotFound, "there is no run %s; if it was put into a queue with history: failed, it may have succeeded: such a queue keeps only failures, and counts successes by the minute", key)
	}
	return schedule.Explain(schedule.ErrNotFound, "there is no run %s", key)
}

// scopeToCaller sets the owner of a set of upserts to the caller where it is empty, and refuses
// another owner.
func (all *upserts) scopeToCaller(ctx context.Context) error {
	id := auth.FromContext(ctx)
	if all.gives = id.Owner == ""; all.gives {
		return nil
	}
	for i := range all.inputs {
		d := &all.inputs[i].Definition
		if d.UserID == "" {
			d.UserID = id.Owner
		}
		if d.UserID != id.Owner {
			return all.prefixed(i, notOwn(d.UserID))
		}
	}
	if all.managed.By != "" {
		if all.managed.UserID == "" {
			all.managed.UserID = id.Owner
		}
		if all.managed.UserID != id.Owner {
			return notOwn(all.managed.UserID)
		}
	}
	for _, w := range all.workflows {
		if w.UserID == "" {
			w.UserID = id.Owner
		}
		if w.UserID != id.Owner {
			return notOwn(w.UserID)
		}
	}
	return nil
}

// ownUser makes a caller with an owner the owner of what it registers, and refuses others.
func ownUser(ctx context.Context, userID *string, what string) error {
	owner := auth.FromContext(ctx).Owner
	if owner == "" || *userID == owner {
		return nil
	}
	if *userID != "" {
		return schedule.Invalid("user_id", *userID, "is another user", "leave it out for your own "+what)
	}
	*userID = owner
	return nil
}

func notOwn(userID string) error {
	return schedule.Invalid("user_id", userID, "is not the caller", "leave it out")
}
