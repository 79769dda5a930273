package registrar

import (
	"context"
	"errors"
	"slices"

	"github.com/carillon/carillon/internal/auth"
	"github.com/carillon/carillon/internal/grant"
	"github.com/carillon/carillon/internal/schedule"
)

// grantChecker checks the grants that one call creates: it collects the facts for grant.MayGive.
type grantChecker struct {
	*Registrar
	owner    string
	accounts []string
	owns     map[string]bool // by workflow_id
	asked    credit          // of the gate
	dryRun   bool            // do not ask the gate
}

func (r *Registrar) grantChecker(ctx context.Context) *grantChecker {
	id := auth.FromContext(ctx)
	return &grantChecker{Registrar: r, owner: id.Owner, accounts: id.Accounts, owns: make(map[string]bool), asked: credit{answers: make(map[CreditQuestion]CreditAnswer)}}
}

// check refuses a grant that the caller may not create. One that exists with the same terms
// passes: it gives nothing new.
//
// The cost is bounded: the first refused grant ends the call, so only the caller's workflows and
// those of one grant are looked up.
func (by *grantChecker) check(ctx context.Context, g *schedule.Grant, prefix string) error {
	if by.owner == "" {
		return nil
	}
	for _, id := range grant.Named(g.Scopes) {
		if _, known := by.owns[id]; known {
			continue
		}
		owns, err := by.shares.OwnsWorkflow(ctx, by.owner, id)
		if err != nil {
			return err
		}
		by.owns[id] = owns
	}
	known := grant.Giver{Owner: by.owner, Accounts: by.accounts, Owns: by.owns}
	refused := grant.MayGive(&known, g, prefix)
	if refused == nil {
		return nil
	}
	there, err := by.grants.GetGrant(ctx, g.Ref())
	if err == nil && there.SameTerms(g) {
		return nil
	}
	if err != nil && !errors.Is(err, schedule.ErrNotFound) {
		return err
	}
	// Ask the gate only if its answer decides.
	if known.Vouched = true; grant.MayGive(&known, g, prefix) != nil {
		return refused
	}
	if yes, err := by.vouched(ctx, g); yes || err != nil {
		return err
	}
	return refused
}

// vouched asks the credit gate whether the owner of a grant may use its account, once for each
// workflow.
func (by *grantChecker) vouched(ctx context.Context, g *schedule.Grant) (bool, error) {
	if by.credit == nil || by.dryRun {
		return by.credit != nil, nil
	}
	by.asked.open = make(map[CreditQuestion]bool)
	var questions []CreditQuestion
	for _, id := range grant.Named(g.Scopes) {
		q := CreditQuestion{BillingAccountID: g.BillingAccountID, UserID: g.UserID, WorkflowID: id, Grant: true}
		questions = append(questions, q)
		if _, known := by.asked.answers[q]; !known {
			by.asked.open[q] = true
		}
	}
	if err := by.askOpen(ctx, &by.asked); err != nil {
		return false, err
	}
	return !slices.ContainsFunc(questions, func(q CreditQuestion) bool { return !by.asked.answers[q].MayGrant }), nil
}

// mayGive checks the grants that are created with schedules.
func (r *Registrar) mayGive(ctx context.Context, all *upserts) error {
	by := r.grantChecker(ctx)
	by.dryRun = all.dryRun
	for _, w := range all.workflows { // this call stores them
		if w.UserID == by.owner {
			by.owns[w.WorkflowID] = true
		}
	}
	next := 0
	for i := range all.inputs {
		if all.inputs[i].Grant == nil {
			continue
		}
		prefix := "grant."
		if all.fields != nil {
			prefix = all.fields[i] + prefix
		}
		if err := by.check(ctx, &all.grants[next], prefix); err != nil {
			return err
		}
		next++
	}
	return nil
}
