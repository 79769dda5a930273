package registrar

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/carillon/carillon/internal/failpoint"
	"github.com/carillon/carillon/internal/schedule"
)

// Action is what a deploy does to one schedule or workflow version.
type Action string

// The actions.
const (
	ActionCreate    Action = "create"
	ActionChange    Action = "change"
	ActionDelete    Action = "delete"
	ActionUnchanged Action = "unchanged"
	actionLeft      Action = "left" // the set has it, the deploy does not name it, and may not prune
)

// upserts is a set of upserts that is done as a whole or not at all.
type upserts struct {
	inputs    []UpsertInput
	fields    []string // what to put before the field names of the i-th input; may be nil
	workflows []*schedule.WorkflowVersion
	managed   schedule.Managed // whose the schedules are; zero: nobody's
	prune     bool             // what managed has and inputs do not name is deleted
	adopt     bool             // what somebody else manages may be taken over
	requestID string           // with managed; empty: a repeat is not recognised
	actor     string
	gives     bool // the caller is no owner: who gets a schedule gets its workflow
	dryRun    bool

	names        []string // ids under which the inputs are stored, see names.go
	definitions  []schedule.Definition
	grants       []schedule.Grant // that inputs bring along
	requireGrant bool
	credit       *credit // nil: there is no gate
}

// deed is what became of one schedule, or would.
type deed struct {
	action      Action
	before      *schedule.Schedule // nil: there was none alive
	result      UpsertResult       // after it; of create, change and unchanged
	adoptedFrom string             // who managed it
}

// done is what became of all.
type done struct {
	deeds    []deed // one for each input, then those of managed that it does not name
	repeated bool   // nothing was written: it was done before
}

func (r *Registrar) upsertAll(ctx context.Context, all *upserts) (done, error) {
	if err := r.prepare(ctx, all); err != nil {
		return done{}, err
	}
	for tries := 1; ; tries++ {
		out, err := r.upsertPrepared(ctx, all)
		if !errors.Is(err, schedule.ErrExists) || tries == nameTries || !r.renamed(ctx, all) {
			return out, err
		}
	}
}

func (r *Registrar) upsertPrepared(ctx context.Context, all *upserts) (done, error) {
	req, err := all.request(r.now())
	if err != nil {
		return done{}, err
	}
	req.OwnerLimit = r.cfg.OwnerMaxSchedules
	if err := r.checkMirror(ctx, all.workflows...); err != nil {
		return done{}, err
	}
	if r.credit != nil {
		all.credit = &credit{answers: make(map[CreditQuestion]CreditAnswer)}
	}
	var out done
	for range creditTries {
		err = r.all.schedules.ChangeSchedules(ctx, req, func(found []schedule.ChangeInput) ([]schedule.Change, error) {
			var changes []schedule.Change
			var err error
			out.deeds, changes, err = all.decide(found, r.now())
			return changes, err
		})
		if !errors.Is(err, errUnasked) {
			break
		}
		if askErr := r.askOpen(ctx, all.credit); askErr != nil {
			return done{}, askErr
		}
	}
	switch {
	case errors.Is(err, schedule.ErrRepeated):
		out, err = r.standing(ctx, all)
	case err == nil:
		failpoint.Hit(failpoint.Upserted)
		r.logUpserts(ctx, out.deeds)
	}
	if err != nil {
		return done{}, err
	}
	return out, r.copyToMirror(ctx, all.workflows...)
}

// prepare resolves the definitions and lists what is wrong with any of them.
func (r *Registrar) prepare(ctx context.Context, all *upserts) error {
	if err := all.own(ctx); err != nil {
		return err
	}
	const enough = 100
	all.definitions, all.grants, all.requireGrant = make([]schedule.Definition, len(all.inputs)), nil, r.cfg.RequireGrant
	if err := r.nameAll(ctx, all); err != nil {
		return err
	}
	var found schedule.InvalidError
	for i, in := range all.inputs {
		in.Definition.ScheduleID = all.names[i]
		all.definitions[i] = r.resolve(in)
		ungranted := r.nameGrant(all, i)
		var invalid *schedule.InvalidError
		switch err := all.prefixed(i, both(r.validate(&all.definitions[i]), ungranted)); {
		case errors.As(err, &invalid):
			found.Violations = append(found.Violations, invalid.Violations...)
		case err != nil:
			return err
		}
		if len(found.Violations) > enough {
			break
		}
	}
	if len(found.Violations) > 0 {
		return &found
	}
	return r.mayGive(ctx, all)
}

// nameAll finds the ids under which the schedules are stored.
func (r *Registrar) nameAll(ctx context.Context, all *upserts) error {
	asked := make([]string, len(all.inputs))
	for i := range all.inputs {
		d := &all.inputs[i].Definition
		asked[i] = orDefault(d.ScheduleID, deriveID(d.UserID, all.inputs[i].RequestID))
	}
	names, at, err := r.newNames(ctx, asked)
	all.names = names
	return all.prefixed(at, err)
}

// prefixed names the fields of the i-th input as its caller knows them.
func (all *upserts) prefixed(i int, err error) error {
	var invalid *schedule.InvalidError
	if all.fields == nil || !errors.As(err, &invalid) {
		return err
	}
	out := &schedule.InvalidError{}
	for _, v := range invalid.Violations {
		v.Field = all.fields[i] + v.Field
		out.Violations = append(out.Violations, v)
	}
	return out
}

func (all *upserts) request(now time.Time) (schedule.ChangeRequest, error) {
	req := schedule.ChangeRequest{Managed: all.managed, Workflows: all.workflows, Grants: all.grants}
	for i := range all.definitions {
		req.ScheduleIDs = append(req.ScheduleIDs, all.definitions[i].ScheduleID)
		req.GrantRefs = append(req.GrantRefs, all.definitions[i].GrantRef())
	}
	if all.requestID == "" || all.managed.By == "" {
		return req, nil
	}
	hash, err := all.hash()
	if err != nil {
		return req, err
	}
	req.Deploy = &schedule.Deploy{RequestID: all.requestID, Hash: hash, Now: now}
	return req, nil
}

// hash is over all that the deploy asks for, as it was sent.
func (all *upserts) hash() (sum [32]byte, err error) {
	asked := struct {
		Inputs       []UpsertInput
		Workflows    []string
		Prune, Adopt bool
	}{Prune: all.prune, Adopt: all.adopt}
	for _, in := range all.inputs {
		in.Actor, in.RequestID = "", ""
		asked.Inputs = append(asked.Inputs, in)
	}
	for _, w := range all.workflows {
		asked.Workflows = append(asked.Workflows, fmt.Sprintf("%s %s@%d %x", w.UserID, w.WorkflowID, w.Version, w.Hash))
	}
	text, err := json.Marshal(asked)
	if err != nil {
		return sum, fmt.Errorf("hash the deploy: %w", err)
	}
	return sha256.Sum256(text), nil
}

// decide is the pure part: what all of it makes of what is there.
func (all *upserts) decide(found []schedule.ChangeInput, now time.Time) ([]deed, []schedule.Change, error) {
	if err := all.refuseTaken(found); err != nil {
		return nil, nil, err
	}
	if all.credit != nil {
		all.credit.open = make(map[CreditQuestion]bool)
	}
	deeds := make([]deed, len(found))
	var changes []schedule.Change
	for i := range all.inputs {
		current := found[i].Schedule
		if want := all.inputs[i].IfRevision; want != 0 && (current == nil || !current.Alive() || current.Revision != want) {
			return nil, nil, stale(&all.definitions[i], want, current)
		}
		definition := all.definition(i, current)
		if err := all.checkGrant(found[i], i, &definition, now); err != nil {
			return nil, nil, all.prefixed(i, err)
		}
		change, result, err := upsert(current, definition, all.input(i, current), now)
		if err != nil {
			return nil, nil, all.prefixed(i, err)
		}
		if err := all.paid(found[i], i); err != nil {
			return nil, nil, err
		}
		deeds[i] = deed{action: ActionUnchanged, result: result}
		if current != nil && current.Alive() {
			deeds[i].before = current
			if all.managed.By != "" && current.ManagedBy != all.managed.By {
				deeds[i].adoptedFrom = current.ManagedBy
			}
		}
		if !result.Changed {
			continue
		}
		if deeds[i].action = ActionChange; result.Created {
			deeds[i].action = ActionCreate
		}
		change.GivesWorkflow = all.gives && (deeds[i].before == nil || !definition.RunsSame(&current.Definition))
		changes = append(changes, change)
	}
	for i := len(all.inputs); i < len(found); i++ {
		s := found[i].Schedule
		if s == nil || !s.Alive() || s.ManagedBy != all.managed.By {
			continue // gone, or somebody else's, since it was looked for
		}
		deeds[i] = deed{action: actionLeft, before: s}
		if all.prune {
			deeds[i].action = ActionDelete
			changes = append(changes, remove(s, all.actor, now))
		}
	}
	return deeds, changes, all.unasked()
}

// definition is what the i-th upsert asks for. An input in another layout is the
// same input: files are formatted, and YAML has a layout of its own.
func (all *upserts) definition(i int, current *schedule.Schedule) schedule.Definition {
	d := all.definitions[i]
	if current != nil && schedule.SameJSON(d.Input, current.Input) {
		d.Input = current.Input
	}
	if all.managed.By == "" && !all.inputs[i].Adopt && ownedBy(current, &d) {
		d.ManagedBy = cmp.Or(d.ManagedBy, current.ManagedBy)
	}
	return d
}

// input is the i-th upsert. In a deploy, paused is how a schedule begins; what
// an operator has decided since stays.
func (all *upserts) input(i int, current *schedule.Schedule) UpsertInput {
	in := all.inputs[i]
	if all.managed.By != "" && current != nil && current.Alive() {
		in.Paused = nil
	}
	return in
}

// standing answers a repeat with what there is, and writes nothing.
func (r *Registrar) standing(ctx context.Context, all *upserts) (done, error) {
	req, err := all.request(r.now())
	if err != nil {
		return done{}, err
	}
	req.Managed = schedule.Managed{}
	found, err := r.all.schedules.ReadSchedules(ctx, req)
	if err != nil {
		return done{}, err
	}
	out := done{repeated: true, deeds: make([]deed, len(found))}
	for i, in := range found {
		out.deeds[i] = deed{action: ActionUnchanged, result: UpsertResult{Schedule: &schedule.Schedule{Definition: all.definitions[i]}}}
		if s := in.Schedule; s != nil && s.Alive() && s.UserID == all.definitions[i].UserID {
			out.deeds[i].before = s
			out.deeds[i].result = UpsertResult{Schedule: s, NextRunAt: nextRunAt(s, r.now())}
		}
	}
	return out, nil
}
