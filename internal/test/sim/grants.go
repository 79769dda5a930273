package sim

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/launcher"
	"github.com/carillon/carillon/registrar"
)

// grantsOfOwner is the initial number of grants of each owner; schedules may add more.
const grantsOfOwner = 3

// grantLife is the state of one grant, and when its revocation became binding.
type grantLife struct {
	row   schedule.Grant
	quiet time.Duration // 0 = no revocation was answered
}

// revisionID names a revision of a schedule.
type revisionID struct {
	id       string
	revision int64
}

// grantInput draws the terms of a grant, which are always the same for one name.
func (w *world) grantInput(owner, id string) registrar.GrantInput {
	d := w.dice.of(forGrants)
	for _, c := range []byte(owner + id) {
		d = d.of(uint64(c))
	}
	in := registrar.GrantInput{
		GrantID: id, UserID: owner, BillingAccountID: "a", Scopes: []string{pick(d.of(1), "graph:execute:w", "graph:execute:*")},
	}
	in.AllowAllWorkflows = in.Scopes[0] == "graph:execute:*"
	if d.of(2).perMille(400) {
		in.ExpiresAt = w.began.Add(d.of(3).span(2*time.Second, w.profile.faulty)).UTC().Truncate(time.Millisecond)
	}
	return in
}

// grantName is the same for every owner: their grants must be separate.
func grantName(n int) string { return fmt.Sprintf("g-%d", n) }

// makeGrants makes the initial grants.
func (w *world) makeGrants() {
	for n := range 2 * grantsOfOwner {
		owner := fmt.Sprint("u", n%2)
		_ = w.insist(func(ctx context.Context) error {
			_, err := w.registrar.CreateGrant(ctx, w.grantInput(owner, grantName(n/2)))
			return err
		})
	}
}

// drawGrant makes a definition name a grant, add one, or have none.
func (w *world) drawGrant(a *wish, d dice) {
	if !w.profile.grants || d.of(1).perMille(400) {
		return
	}
	owner := a.definition.UserID
	if d.of(2).perMille(600) {
		a.definition.ExecutionGrantID = grantName(d.of(3).below(grantsOfOwner))
		return
	}
	in := w.grantInput(owner, fmt.Sprintf("b-%s-%d", a.id, d.of(3).below(2)))
	a.grant = &in
}

// revoke ends a grant, if there is one that has not ended.
func (w *world) revoke(d dice) {
	ref, ok := w.watch.someGrant(d)
	if !ok {
		return
	}
	w.log.say(w.elapsed(), "user: revoke %s", ref)
	err := w.insist(func(ctx context.Context) error {
		_, err := w.registrar.RevokeGrant(ctx, registrar.RevokeInput{Grant: ref})
		return err
	})
	w.log.say(w.elapsed(), "user: revoke %s: %v", ref, err)
	if err == nil {
		w.watch.mu.Lock()
		defer w.watch.mu.Unlock()
		w.watch.grants[ref].quiet = w.elapsed()
	}
}

func (l *ledgerWatch) someGrant(d dice) (ref schedule.GrantRef, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var alive []schedule.GrantRef
	for ref, g := range l.grants {
		if g.quiet == 0 {
			alive = append(alive, ref)
		}
	}
	if len(alive) == 0 {
		return ref, false
	}
	slices.SortFunc(alive, func(a, b schedule.GrantRef) int {
		return cmp.Or(cmp.Compare(a.UserID, b.UserID), cmp.Compare(a.GrantID, b.GrantID))
	})
	return pick(d, alive...), true
}

// grant sees every write of a grant: only its revocation changes it, once.
func (l *ledgerWatch) grant(before, after *schedule.Grant) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if before == nil {
		l.grants[after.Ref()] = &grantLife{row: *after}
		return
	}
	if !before.RevokedAt.IsZero() || after.RevokedAt.IsZero() || !before.SameTerms(after) {
		l.violation("grant %s was %+v and became %+v", after.GrantID, before, after)
	}
	l.grants[after.Ref()].row = *after
}

// permitted checks a call of the executor against the grant of its run: the grant is of
// the owner, was not revoked more than a second ago, has not expired more than a second
// ago, and does not end before the slot.
func (l *ledgerWatch) permitted(at time.Duration, call *launcher.Call, run *schedule.Run) {
	named := l.named[revisionID{run.ScheduleID, run.Revision}]
	g := l.grants[schedule.GrantRef{UserID: call.UserID, GrantID: named}]
	late, problem := time.Second+5*time.Millisecond, ""
	switch {
	case call.ExecutionGrantID != named:
		problem = "with the grant " + call.ExecutionGrantID
	case named == "" && l.profile.requireGrant:
		problem = "though it has no grant"
	case named == "":
	case g == nil || g.row.UserID != call.UserID:
		problem = "on a grant that is not its owner's"
	case g.quiet > 0 && at > g.quiet+late:
		problem = fmt.Sprintf("%s after its grant's revocation was answered", at-g.quiet)
	case !g.row.ExpiresAt.IsZero() && !run.FireAt.Before(g.row.ExpiresAt):
		problem = "though its grant ended before its fire_at"
	case !g.row.ExpiresAt.IsZero() && l.began.Add(at).Sub(g.row.ExpiresAt) > late+l.profile.maxSkew:
		problem = fmt.Sprintf("%s after its grant's end", l.began.Add(at).Sub(g.row.ExpiresAt))
	}
	if problem != "" {
		l.violation("the executor was called for %s run_at %s on grant %q, %s", run.ScheduleID, l.at(run.RunAt), named, problem)
	}
}

// ungranted: the grant reason of a skipped row is true.
func (l *ledgerWatch) ungranted(now time.Time, r *schedule.Run) bool {
	named := l.named[revisionID{r.ScheduleID, r.Revision}]
	g := l.grants[schedule.GrantRef{UserID: r.UserID, GrantID: named}]
	switch {
	case r.Status != schedule.StatusSkipped:
		return false
	case r.Reason == schedule.ReasonGrantDenied:
		return named == "" && l.profile.requireGrant
	case g == nil:
		return false
	case r.Reason == schedule.ReasonGrantRevoked:
		return !g.row.RevokedAt.IsZero()
	}
	return !g.row.ExpiresAt.IsZero() && !now.Before(g.row.ExpiresAt)
}

// CreateGrant and RevokeGrant are calls of the registrar that can fail.
func (a apiStore) CreateGrant(ctx context.Context, g *schedule.Grant) error {
	return a.away.tell(ctx, siteGrants, 0, func() error { return a.Store.CreateGrant(context.WithoutCancel(ctx), g) })
}

// RevokeGrant see CreateGrant.
func (a apiStore) RevokeGrant(ctx context.Context, r schedule.GrantRevocation) (after *schedule.Grant, err error) {
	err = a.away.tell(ctx, siteGrants, 1, func() (err error) {
		after, err = a.Store.RevokeGrant(context.WithoutCancel(ctx), r)
		return err
	})
	if err != nil {
		return nil, err
	}
	return after, nil
}
