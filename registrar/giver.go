package registrar

import (
	"context"
	"errors"

	"github.com/carillon/carillon/internal/auth"
	"github.com/carillon/carillon/internal/grant"
	"github.com/carillon/carillon/internal/schedule"
)

// giver checks the grants that one call creates: it collects what grant.MayGive
// decides by.
type giver struct {
	*Registrar
	owner    string
	accounts []string
	owns     map[string]bool // by workflow_id; false: it was looked up
	dryRun   bool            // a dry run does not ask the credit gate
}

func (r *Registrar) giver(ctx context.Context) *giver {
	id := auth.FromContext(ctx)
	return &giver{Registrar: r, owner: id.Owner, accounts: id.Accounts, owns: make(map[string]bool)}
}

// check refuses a grant that the caller may not create. One that exists with the
// same terms passes: nothing is given again.
func (by *giver) check(ctx context.Context, g *schedule.Grant, prefix string) error {
	if by.owner == "" {
		return nil
	}
	there, err := by.grants.GetGrant(ctx, g.Ref())
	if err == nil && there.SameTerms(g) {
		return nil
	}
	if err != nil && !errors.Is(err, schedule.ErrNotFound) {
		return err
	}
	for _, id := range grant.Named(g.Scopes) {
		if _, known := by.owns[id]; known {
			continue
		}
		if by.owns[id], err = by.shares.OwnsWorkflow(ctx, by.owner, id); err != nil {
			return err
		}
	}
	known := grant.Giver{Owner: by.owner, Accounts: by.accounts, Owns: by.owns, Vouched: true}
	// What is refused whatever the gate says is refused without asking it.
	if err := grant.MayGive(&known, g, prefix); err != nil || known.HasAccount(g.BillingAccountID) {
		return err
	}
	if known.Vouched, err = by.vouched(ctx, g); err != nil {
		return err
	}
	return grant.MayGive(&known, g, prefix)
}

// vouched asks the credit gate whether the owner of a grant may use its account,
// once for each workflow.
func (by *giver) vouched(ctx context.Context, g *schedule.Grant) (bool, error) {
	if by.credit == nil || by.dryRun {
		return by.credit != nil, nil
	}
	c := &credit{answers: make(map[CreditQuestion]CreditAnswer), open: make(map[CreditQuestion]bool)}
	for _, id := range grant.Named(g.Scopes) {
		c.open[CreditQuestion{BillingAccountID: g.BillingAccountID, UserID: g.UserID, WorkflowID: id, Grant: true}] = true
	}
	if err := by.askOpen(ctx, c); err != nil {
		return false, err
	}
	for _, a := range c.answers {
		if !a.MayGrant {
			return false, nil
		}
	}
	return true, nil
}

// mayGive checks the grants that come along with schedules.
func (r *Registrar) mayGive(ctx context.Context, all *upserts) error {
	by := r.giver(ctx)
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
