package storetest

import (
	"errors"
	"slices"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// grants are what a store keeps of execution grants.
var grants = []check{
	{"a grant comes back as it was given", grantRoundTrip},
	{"the same terms again are no write, other terms are refused", grantAgain},
	{"an id that is not there is not found", grantMissing},
	{"two owners may use the same id, and neither changes the grant of the other", grantOfTwoOwners},
	{"the first revocation stays, whatever comes after", grantRevokedOnce},
	{"grants are listed by owner, account and state, page by page", grantLists},
	{"a grant is stored with its schedules or not at all", grantWithSchedule},
	{"a change sees the grants that it asks for", grantSeenByChange},
	{"retention leaves grants alone", grantKept},
}

// grant is a grant of the rig's owner for its workflow, without end. Nothing is
// stored yet.
func (r *rig) grant(name string, edits ...func(*schedule.Grant)) schedule.Grant {
	g := schedule.Grant{
		GrantID: r.id(name), UserID: r.user, BillingAccountID: r.id("account"),
		Scopes: []string{"graph:execute:" + r.id("workflow")}, CreatedBy: "ada", CreatedAt: r.at(-time.Hour),
	}
	for _, edit := range edits {
		edit(&g)
	}
	return g
}

// give stores a grant.
func (r *rig) give(name string, edits ...func(*schedule.Grant)) schedule.Grant {
	r.Helper()
	g := r.grant(name, edits...)
	r.ok(r.CreateGrant(r.ctx, &g), "create grant")
	return g
}

func expiring(at time.Time) func(*schedule.Grant) {
	return func(g *schedule.Grant) { g.ExpiresAt = at }
}

func scoped(scopes ...string) func(*schedule.Grant) {
	return func(g *schedule.Grant) { g.Scopes = scopes }
}

// on is an edit of a schedule that names a grant.
func on(g schedule.Grant) func(*schedule.Schedule) {
	return func(s *schedule.Schedule) { s.ExecutionGrantID = g.GrantID }
}

func (r *rig) revoke(g schedule.Grant) schedule.Grant {
	r.Helper()
	after, err := r.RevokeGrant(r.ctx, schedule.GrantRevocation{Grant: g.Ref(), At: r.now, By: "op", Note: "why"})
	r.ok(err, "revoke grant")
	return *after
}

func (r *rig) grantRow(of schedule.Grant) schedule.Grant {
	r.Helper()
	g, err := r.GetGrant(r.ctx, of.Ref())
	r.ok(err, "get grant")
	return *g
}

func grantRoundTrip(r *rig) {
	least := r.give("least", func(g *schedule.Grant) { g.CreatedBy = "" })
	equal(r, "grants with the least in them", r.grantRow(least), least)
	most := r.give("most", func(g *schedule.Grant) {
		g.Scopes = []string{"graph:execute:*", "graph:execute:a", "graph:execute:b:*"}
		g.ExpiresAt = r.at(time.Hour).Add(1234567 * time.Nanosecond)
		g.CreatedBy = "ädä \"and\" co"
	})
	equal(r, "grants with the most in them", r.grantRow(most), stored(most))
	want := stored(most)
	want.RevokedAt, want.RevokedBy, want.RevokeNote = r.now, "op", "why"
	equal(r, "revoked grants as they are answered", r.revoke(most), want)
	equal(r, "revoked grants as they are stored", r.grantRow(most), want)
}

func grantAgain(r *rig) {
	g := r.give("again", expiring(r.at(time.Hour)))
	again := g
	again.CreatedBy, again.CreatedAt = "somebody else", r.now
	r.ok(r.CreateGrant(r.ctx, &again), "create the same grant again")
	equal(r, "grants that were sent twice", r.grantRow(g), g)
	for name, edit := range map[string]func(*schedule.Grant){
		"another account": func(g *schedule.Grant) { g.BillingAccountID = r.id("other") },
		"more scopes":     scoped("graph:execute:*"),
		"no end":          expiring(time.Time{}),
	} {
		other := g
		edit(&other)
		err := r.CreateGrant(r.ctx, &other)
		r.hold(errors.Is(err, schedule.ErrExists), "%s under the same id is ErrExists, got %v", name, err)
	}
	equal(r, "grants after others tried", r.grantRow(g), g)
}

func grantOfTwoOwners(r *rig) {
	mine := r.give("shared", expiring(r.at(time.Hour)))
	theirs := r.give("shared", func(g *schedule.Grant) {
		g.UserID, g.BillingAccountID, g.Scopes = r.id("other"), r.id("elsewhere"), []string{"graph:execute:*"}
	})
	byID := schedule.GrantFilter{GrantID: mine.GrantID, Now: r.now, Limit: 10}
	found, err := r.ListGrants(r.ctx, byID)
	r.ok(err, "list grants by id")
	want := []schedule.Grant{mine, theirs}
	if theirs.UserID < mine.UserID {
		slices.Reverse(want)
	}
	equal(r, "grants of one id, ordered by owner", found, want)
	byID.After, byID.Limit = want[0].Ref(), 1
	found, err = r.ListGrants(r.ctx, byID)
	r.ok(err, "list the second page of grants by id")
	equal(r, "the second page of grants of one id", found, want[1:])
	byID.After, byID.UserID = schedule.GrantRef{}, mine.UserID
	found, err = r.ListGrants(r.ctx, byID)
	r.ok(err, "list grants by id and owner")
	equal(r, "grants of one id and owner", found, []schedule.Grant{mine})

	req := schedule.ChangeRequest{ScheduleIDs: []string{r.id("a"), r.id("b")}, GrantRefs: []schedule.GrantRef{mine.Ref(), theirs.Ref()}}
	r.ok(r.ChangeSchedules(r.ctx, req, func(found []schedule.ChangeInput) ([]schedule.Change, error) {
		equal(r, "the grants that a change sees", []schedule.Grant{*found[0].Grant, *found[1].Grant}, []schedule.Grant{mine, theirs})
		return nil, nil
	}), "change nothing")
	revoked := r.revoke(theirs)
	equal(r, "the grant whose id another owner has revoked", r.grantRow(mine), mine)
	equal(r, "the revoked one", r.grantRow(theirs), revoked)
}

func grantMissing(r *rig) {
	_, err := r.GetGrant(r.ctx, schedule.GrantRef{UserID: r.user, GrantID: r.id("nowhere")})
	r.hold(errors.Is(err, schedule.ErrNotFound), "GetGrant answers ErrNotFound, got %v", err)
	_, err = r.RevokeGrant(r.ctx, schedule.GrantRevocation{Grant: schedule.GrantRef{UserID: r.user, GrantID: r.id("nowhere")}, At: r.now})
	r.hold(errors.Is(err, schedule.ErrNotFound), "RevokeGrant answers ErrNotFound, got %v", err)
}

func grantRevokedOnce(r *rig) {
	g := r.give("once")
	first := r.revoke(g)
	r.now = r.at(time.Minute)
	second, err := r.RevokeGrant(r.ctx, schedule.GrantRevocation{Grant: g.Ref(), At: r.now, By: "another"})
	r.ok(err, "revoke again")
	equal(r, "the first revocation and the second", *second, first)
	r.ok(r.CreateGrant(r.ctx, &g), "create the same grant again")
	equal(r, "revoked grants that were created again", r.grantRow(g), first)
}

func grantLists(r *rig) {
	active := r.give("a-active", expiring(r.at(time.Microsecond)))
	expired := r.give("b-expired", expiring(r.now))
	revoked := r.revoke(r.give("c-revoked", expiring(r.now)))
	other := r.give("d-other", func(g *schedule.Grant) { g.UserID, g.BillingAccountID = r.id("other"), r.id("elsewhere") })
	list := func(f schedule.GrantFilter) []schedule.Grant {
		f.Now = r.now
		if f.Limit == 0 {
			f.Limit = 100
		}
		found, err := r.ListGrants(r.ctx, f)
		r.ok(err, "list grants")
		return found
	}
	mine := schedule.GrantFilter{UserID: r.user}
	equal(r, "an owner's grants", list(mine), []schedule.Grant{active, expired, revoked})
	equal(r, "grants of an account", list(schedule.GrantFilter{BillingAccountID: r.id("elsewhere")}), []schedule.Grant{other})
	for state, want := range map[schedule.GrantState]schedule.Grant{
		schedule.GrantActive: active, schedule.GrantExpired: expired, schedule.GrantRevoked: revoked,
	} {
		f := mine
		f.State = state
		equal(r, "grants that are "+string(state), list(f), []schedule.Grant{want})
		r.hold(want.State(r.now) == state, "%s is what a grant calls itself, got %s", state, want.State(r.now))
	}
	f := mine
	f.Limit = 2
	first := list(f)
	f.After = first[1].Ref()
	equal(r, "two pages of grants", append(first, list(f)...), []schedule.Grant{active, expired, revoked})
}

func grantWithSchedule(r *rig) {
	g := r.grant("together")
	s := r.schedule("together", on(g))
	change := func(g schedule.Grant, s *schedule.Schedule, refuse error) error {
		req := schedule.ChangeRequest{ScheduleIDs: []string{s.ScheduleID}, Grants: []schedule.Grant{g}, GrantRefs: []schedule.GrantRef{g.Ref()}}
		return r.ChangeSchedules(r.ctx, req, func(found []schedule.ChangeInput) ([]schedule.Change, error) {
			if found[0].Grant == nil || !found[0].Grant.SameTerms(&g) {
				r.Errorf("the change does not see the grant that it brings along: %+v", found[0].Grant)
			}
			return []schedule.Change{{ScheduleID: s.ScheduleID, Row: s, NewRevision: true, Now: r.now}}, refuse
		})
	}
	no := errors.New("no")
	r.hold(errors.Is(change(g, &s, no), no), "what decide answers comes back")
	_, err := r.GetGrant(r.ctx, g.Ref())
	r.hold(errors.Is(err, schedule.ErrNotFound), "the grant of a schedule that was refused is not there, got %v", err)
	r.ok(change(g, &s, nil), "create schedule and grant")
	equal(r, "grants that came with their schedule", r.grantRow(g), g)
	equal(r, "grant ids of schedules", r.row(s).ExecutionGrantID, g.GrantID)

	other := g
	other.Scopes = []string{"graph:execute:*"}
	second := r.schedule("second", on(g))
	err = change(other, &second, nil)
	r.hold(errors.Is(err, schedule.ErrExists), "other terms under a known id are ErrExists, got %v", err)
	r.missing("second")
}

func grantSeenByChange(r *rig) {
	g := r.give("seen")
	req := schedule.ChangeRequest{
		ScheduleIDs: []string{r.id("b"), r.id("a"), r.id("c"), r.id("d")},
		GrantRefs:   []schedule.GrantRef{g.Ref(), {UserID: r.user}, {UserID: r.user, GrantID: r.id("nowhere")}},
	}
	r.ok(r.ChangeSchedules(r.ctx, req, func(found []schedule.ChangeInput) ([]schedule.Change, error) {
		if found[0].Grant == nil || found[1].Grant != nil || found[2].Grant != nil || found[3].Grant != nil {
			r.Errorf("of four only the first names a grant that exists, got %+v", found)
		}
		return nil, nil
	}), "change nothing")
}

func grantKept(r *rig) {
	r.lead()
	g := r.revoke(r.give("kept", expiring(r.at(-time.Minute))))
	r.pruneAll(r.at(1000 * time.Hour))
	found, err := r.ListGrants(r.ctx, schedule.GrantFilter{UserID: r.user, Now: r.now, Limit: 10})
	r.ok(err, "list grants")
	r.hold(slices.ContainsFunc(found, func(o schedule.Grant) bool { return o.GrantID == g.GrantID }), "an old grant is still there")
}
