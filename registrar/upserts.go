package registrar

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/carillon/carillon/internal/failpoint"
	"github.com/carillon/carillon/internal/schedule"
)

// Action is the effect of a deploy on one schedule or workflow version.
type Action string

// The actions.
const (
	ActionCreate    Action = "create"
	ActionChange    Action = "change"
	ActionDelete    Action = "delete"
	ActionUnchanged Action = "unchanged"
	actionLeft      Action = "left" // the set has it, the deploy does not name it, and may not prune
)

// upserts is a set of upserts in one transaction.
type upserts struct {
	inputs    []UpsertInput
	fields    []string // prefix of the field names of input i; may be nil
	workflows []*schedule.WorkflowVersion
	managed   schedule.Managed // the manager of the schedules; zero: none
	prune     bool             // delete schedules of managed that inputs do not name
	adopt     bool             // schedules of other managers may be taken over
	requestID string           // with managed; empty: a repeat is not recognised
	actor     string
	gives     bool // the caller is not an owner: the owner of a schedule also gets its workflow
	dryRun    bool
	// template: a queue makes the schedule, outside of quotas and for every caller alike.
	// templateGives is gives of its caller.
	template, templateGives bool

	names        []string // ids under which the inputs are stored, see names.go
	definitions  []schedule.Definition
	grants       []schedule.Grant // included in the inputs
	requireGrant bool
	credit       *credit // nil: no credit gate
}

// changeResult is the result of a change for one schedule, or of its dry run.
type changeResult struct {
	action      Action
	before      *schedule.Schedule // nil: none was alive
	result      UpsertResult       // of create, change and unchanged
	adoptedFrom string             // the manager before
}

// done has the results of all upserts.
type done struct {
	results  []changeResult // one for each input, then those of managed that it does not name
	repeated bool           // a repeated request: nothing was written
}

func (r *Registrar) upsertAll(ctx context.Context, all *upserts) (done, error) {
	if err := r.prepare(ctx, all); err != nil {
		return done{}, err
	}
	if all.template {
		all.gives = all.templateGives
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
	if !all.template {
		req.OwnerLimit = r.cfg.OwnerMaxSchedules
	}
	if err := r.checkMirror(ctx, all.workflows...); err != nil {
		return done{}, err
	}
	if r.credit != nil {
		all.credit = &credit{answers: make(map[CreditQuestion]CreditAnswer)}
	}
	var out done
	for range creditTries {
		err = r.unscoped.ChangeSchedules(ctx, req, func(found []schedule.ChangeInput) ([]schedule.Change, error) {
			var changes []schedule.Change
			var err error
			out.results, changes, err = all.decide(found, r.now())
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
		out, err = r.answerRepeat(ctx, all)
	case err == nil:
		failpoint.Hit(failpoint.Upserted)
		r.logUpserts(ctx, out.results)
	}
	if err != nil {
		return done{}, err
	}
	return out, r.copyToMirror(ctx, all.workflows...)
}

// prepare resolves the definitions and collects all their errors.
func (r *Registrar) prepare(ctx context.Context, all *upserts) error {
	if err := all.scopeToCaller(ctx); err != nil {
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
		ungranted := both(r.nameGrant(all, i), all.reserved(i))
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
	if err := r.checkFeatures(ctx, all); err != nil {
		return err
	}
	if err := r.checkQueues(ctx, all); err != nil {
		return err
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

// prefixed adds the prefix of the i-th input to the fields of an error.
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

// hash is over the whole deploy as sent.
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

// decide is the pure part: it derives the changes from the stored schedules.
func (all *upserts) decide(found []schedule.ChangeInput, now time.Time) ([]changeResult, []schedule.Change, error) {
	if err := all.refuseTaken(found); err != nil {
		return nil, nil, err
	}
	if all.credit != nil {
		all.credit.open = make(map[CreditQuestion]bool)
	}
	results := make([]changeResult, len(found))
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
		results[i] = changeResult{action: ActionUnchanged, result: result}
		if current != nil && current.Alive() {
			results[i].before = current
			if all.managed.By != "" && current.ManagedBy != all.managed.By {
				results[i].adoptedFrom = current.ManagedBy
			}
		}
		if !result.Changed {
			continue
		}
		if results[i].action = ActionChange; result.Created {
			results[i].action = ActionCreate
		}
		change.SharesWorkflow = all.gives && (results[i].before == nil || !definition.RunsSame(&current.Definition))
		changes = append(changes, change)
	}
	for i := len(all.inputs); i < len(found); i++ {
		s := found[i].Schedule
		if s == nil || !s.Alive() || s.ManagedBy != all.managed.By {
			continue // deleted, or adopted by another manager, since it was listed
		}
		results[i] = changeResult{action: actionLeft, before: s}
		if all.prune {
			results[i].action = ActionDelete
			changes = append(changes, remove(s, all.actor, now))
		}
	}
	return results, changes, all.unasked()
}

// definition is the requested definition of upsert i. An input that differs only in layout keeps
// the stored text, because formatters and YAML change the layout.
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

// input is upsert i. In a deploy, paused applies only to new schedules, so that a deploy keeps the
// decision of an operator.
func (all *upserts) input(i int, current *schedule.Schedule) UpsertInput {
	in := all.inputs[i]
	if all.managed.By != "" && current != nil && current.Alive() {
		in.Paused = nil
	}
	return in
}

// answerRepeat answers a repeated request from the stored schedules and writes nothing.
func (r *Registrar) answerRepeat(ctx context.Context, all *upserts) (done, error) {
	req, err := all.request(r.now())
	if err != nil {
		return done{}, err
	}
	req.Managed = schedule.Managed{}
	found, err := r.unscoped.ReadSchedules(ctx, req)
	if err != nil {
		return done{}, err
	}
	out := done{repeated: true, results: make([]changeResult, len(found))}
	for i, in := range found {
		out.results[i] = changeResult{action: ActionUnchanged, result: UpsertResult{Schedule: &schedule.Schedule{Definition: all.definitions[i]}}}
		if s := in.Schedule; s != nil && s.Alive() && s.UserID == all.definitions[i].UserID {
			out.results[i].before = s
			out.results[i].result = UpsertResult{Schedule: s, NextRunAt: nextRunAt(s, r.now())}
		}
	}
	return out, nil
}

// reserved refuses the manager of a queue's schedules, which count in no quota, for others.
func (all *upserts) reserved(i int) error {
	d := &all.definitions[i]
	if all.template || !strings.HasPrefix(d.ManagedBy, schedule.ManagedByQueue) {
		return nil
	}
	return schedule.Invalid("managed_by", d.ManagedBy, "is reserved for schedules that a queue makes", "create a schedule of your own and enqueue runs with its schedule_id")
}
