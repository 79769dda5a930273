package storetest

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

var shares = []check{
	{"a share comes back as it was put, and the first one stays", shareKept},
	{"shares are listed by owner, in pages, all owners first", shareList},
	{"what runs load follows what is stored and given", shareStandings},
	{"an owner owns the workflows that it has stored a version of, or was given", shareOwns},
	{"a change gives the workflow that its schedule runs, once", shareGiven},
	{"a change gives no workflow of which the owner has this version itself", shareNotNeeded},
	{"a change that is refused gives nothing", shareRefused},
	{"many changes that give one workflow at once give it once", shareRace},
}

func (r *rig) share(workflow, user string) schedule.WorkflowShare {
	if user != schedule.AllOwners {
		user = r.id(user)
	}
	return schedule.WorkflowShare{WorkflowID: r.id(workflow), UserID: user, GivenBy: r.id("compiler"), GivenAt: odd(1)}
}

func (r *rig) sharesOf(workflow string) []schedule.WorkflowShare {
	r.Helper()
	got, err := r.ListShares(r.ctx, r.id(workflow), "", 100)
	r.ok(err, "list shares")
	return got
}

func (r *rig) put(name, user string, version int32, dag string) schedule.WorkflowVersion {
	r.Helper()
	w := r.version(name, version, dag)
	if w.UserID = ""; user != "" {
		w.UserID = r.id(user)
	}
	r.ok(r.PutWorkflow(r.ctx, &w), "put workflow")
	return w
}

func shareKept(r *rig) {
	want := r.share("report", "ada")
	for range 2 {
		got, err := r.ShareWorkflow(r.ctx, want)
		r.ok(err, "share")
		equal(r, "shares", got, storedShare(want))
	}
	later := want
	later.GivenBy, later.GivenAt = r.id("bob"), odd(2)
	got, err := r.ShareWorkflow(r.ctx, later)
	r.ok(err, "share again")
	equal(r, "shares", got, storedShare(want))
	nobodys := r.share("report", "carl")
	nobodys.GivenBy = ""
	got, err = r.ShareWorkflow(r.ctx, nobodys)
	r.ok(err, "share by nobody known")
	equal(r, "shares", got, storedShare(nobodys))
	r.ok(r.UnshareWorkflow(r.ctx, want.WorkflowID, want.UserID), "unshare")
	equal(r, "shares", r.sharesOf("report"), []schedule.WorkflowShare{storedShare(nobodys)})
	for _, user := range []string{want.UserID, schedule.AllOwners, r.id("never")} {
		err := r.UnshareWorkflow(r.ctx, want.WorkflowID, user)
		r.hold(errors.Is(err, schedule.ErrNotFound), "unshare %s: ErrNotFound, got %v", user, err)
	}
}

func storedShare(s schedule.WorkflowShare) schedule.WorkflowShare {
	s.GivenAt = s.GivenAt.UTC().Truncate(time.Microsecond)
	return s
}

func shareList(r *rig) {
	var want []schedule.WorkflowShare
	for _, user := range []string{schedule.AllOwners, "ada", "bob", "carl"} {
		want = append(want, storedShare(r.share("report", user)))
	}
	early := r.share("report", "eve")
	early.UserID = "!eve" // sorts before schedule.AllOwners
	want = slices.Insert(want, 1, storedShare(early))
	for _, i := range []int{2, 0, 4, 3, 1} {
		_, err := r.ShareWorkflow(r.ctx, want[i])
		r.ok(err, "share")
	}
	_, err := r.ShareWorkflow(r.ctx, r.share("other", "dora"))
	r.ok(err, "share another")
	equal(r, "shares", r.sharesOf("report"), want)
	page, err := r.ListShares(r.ctx, r.id("report"), want[0].UserID, 2)
	r.ok(err, "list shares")
	equal(r, "the second page", page, want[1:3])
}

func shareStandings(r *rig) {
	r.put("report", "ada", 1, `{"a": 1}`)
	r.put("report", "", 1, `{"a": 2}`)
	for _, s := range []schedule.WorkflowShare{r.share("report", "bob"), r.share("open", schedule.AllOwners)} {
		_, err := r.ShareWorkflow(r.ctx, s)
		r.ok(err, "share")
	}
	type standing = schedule.WorkflowAccess
	var uses []schedule.WorkflowUse
	var want []standing
	for _, c := range []struct {
		user, workflow string
		version        int32
		want           standing
	}{
		{"ada", "report", 1, standing{Own: true}},
		{"ada", "report", 2, standing{}},
		{"bob", "report", 1, standing{Given: true}},
		{"bob", "report", 9, standing{Given: true}},
		{"carl", "report", 1, standing{}},
		{"ada", "open", 1, standing{Given: true}},
		{"carl", "open", 1, standing{Given: true}},
		{"ada", "none", 1, standing{}},
		{"ada", "report", 1, standing{Own: true}}, // again
	} {
		uses = append(uses, schedule.WorkflowUse{UserID: r.id(c.user), WorkflowID: r.id(c.workflow), Version: c.version})
		want = append(want, c.want)
	}
	got, err := r.WorkflowAccess(r.ctx, uses)
	r.ok(err, "look what runs load")
	equal(r, "standings", got, want)
}

func shareOwns(r *rig) {
	r.put("stored", "ada", 3, `{}`)
	r.put("given", "", 1, `{}`)
	for _, s := range []schedule.WorkflowShare{r.share("given", "ada"), r.share("open", schedule.AllOwners)} {
		_, err := r.ShareWorkflow(r.ctx, s)
		r.ok(err, "share")
	}
	for _, c := range []struct {
		user, workflow string
		want           bool
	}{
		{"ada", "stored", true},
		{"bob", "stored", false},
		{"ada", "given", true},
		{"bob", "given", false},
		{"ada", "open", true},
		{"bob", "open", true},
		{"ada", "none", false},
	} {
		got, err := r.OwnsWorkflow(r.ctx, r.id(c.user), r.id(c.workflow))
		r.ok(err, "ask whose it is")
		r.hold(got == c.want, "%s owns %s: %v, got %v", c.user, c.workflow, c.want, got)
	}
}

// giving is a change that makes a schedule of the owner, and gives its workflow.
func (r *rig) giving(name, user, workflow string, version int32) schedule.Change {
	s := r.schedule(name, func(s *schedule.Schedule) {
		s.UserID, s.WorkflowID, s.Version = r.id(user), r.id(workflow), version
	})
	return schedule.Change{ScheduleID: s.ScheduleID, Row: &s, NewRevision: true, ChangedBy: r.id("compiler"), SharesWorkflow: true, Now: odd(1)}
}

func shareGiven(r *rig) {
	r.ok(r.tryChange(schedule.ChangeRequest{}, r.giving("a", "ada", "report", 1), r.giving("b", "ada", "report", 2), r.giving("c", "bob", "report", 1)), "register")
	want := []schedule.WorkflowShare{storedShare(r.share("report", "ada")), storedShare(r.share("report", "bob"))}
	equal(r, "shares", r.sharesOf("report"), want)
	later := r.giving("d", "ada", "report", 3)
	later.ChangedBy, later.Now = r.id("other"), odd(2)
	r.ok(r.tryChange(schedule.ChangeRequest{}, later), "register again")
	equal(r, "shares", r.sharesOf("report"), want)
	silent := r.giving("e", "carl", "report", 1)
	silent.SharesWorkflow = false
	r.ok(r.tryChange(schedule.ChangeRequest{}, silent), "register without giving")
	equal(r, "shares", r.sharesOf("report"), want)
	_, err := r.ShareWorkflow(r.ctx, r.share("open", schedule.AllOwners))
	r.ok(err, "share with all owners")
	r.ok(r.tryChange(schedule.ChangeRequest{}, r.giving("f", "ada", "open", 1)), "register what everybody has")
	equal(r, "shares", r.sharesOf("open"), []schedule.WorkflowShare{storedShare(r.share("open", schedule.AllOwners))})
}

func shareNotNeeded(r *rig) {
	r.put("report", "ada", 1, `{}`)
	r.ok(r.tryChange(schedule.ChangeRequest{}, r.giving("a", "ada", "report", 1)), "register")
	equal(r, "shares", r.sharesOf("report"), nil)
	w := r.version("deployed", 1, `{}`)
	w.UserID = r.id("ada")
	r.ok(r.tryChange(schedule.ChangeRequest{Workflows: []*schedule.WorkflowVersion{&w}}, r.giving("b", "ada", "deployed", 1)), "deploy")
	equal(r, "shares", r.sharesOf("deployed"), nil)
	r.ok(r.tryChange(schedule.ChangeRequest{}, r.giving("c", "ada", "report", 2)), "register a version that is not its own")
	equal(r, "shares", r.sharesOf("report"), []schedule.WorkflowShare{storedShare(r.share("report", "ada"))})
}

func shareRefused(r *rig) {
	no := &refusal{"no"}
	change := r.giving("a", "ada", "report", 1)
	err := r.ChangeSchedules(r.ctx, schedule.ChangeRequest{ScheduleIDs: []string{change.ScheduleID}}, func([]schedule.ChangeInput) ([]schedule.Change, error) {
		return []schedule.Change{change}, no
	})
	r.hold(errors.Is(err, no), "the refusal comes back, got %v", err)
	equal(r, "shares", r.sharesOf("report"), nil)
}

func shareRace(r *rig) {
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := range 4 {
				first, second := r.giving(fmt.Sprint("x", i, j), "ada", "one", 1), r.giving(fmt.Sprint("y", i, j), "ada", "two", 1)
				if (i+j)%2 == 0 {
					first, second = second, first
				}
				if err := r.tryChange(schedule.ChangeRequest{}, first, second); err != nil {
					r.Errorf("register: %v", err)
				}
			}
		})
	}
	wg.Wait()
	r.hold(len(r.sharesOf("one")) == 1 && len(r.sharesOf("two")) == 1, "each is given once, got %v and %v", r.sharesOf("one"), r.sharesOf("two"))
}

func workflowOwners(r *rig) {
	ada, bob, all := r.put("mixed", "ada", 1, `{"a": 1}`), r.put("mixed", "bob", 1, `{"a": 2}`), r.put("mixed", "", 1, `{"a": 3}`)
	for _, w := range []schedule.WorkflowVersion{ada, bob, all} {
		equal(r, "workflow versions", r.getWorkflow(w), w)
		dag, err := r.LoadDAG(r.ctx, w.UserID, w.WorkflowID, 1)
		r.ok(err, "load DAG")
		r.same("DAG", dag, w.DAG)
	}
	next := r.put("mixed", "", 2, `{"a": 4}`)
	bare := func(versions ...schedule.WorkflowVersion) []schedule.WorkflowVersion {
		for i := range versions {
			versions[i].DAG = nil
		}
		return versions
	}
	before := func(w schedule.WorkflowVersion) func(*schedule.WorkflowFilter) {
		return func(f *schedule.WorkflowFilter) { f.Before.Version, f.Before.UserID = w.Version, w.UserID }
	}
	for _, c := range []struct {
		name string
		edit func(*schedule.WorkflowFilter)
		want []schedule.WorkflowVersion
	}{
		{"everybody's, the one for all owners last", func(*schedule.WorkflowFilter) {}, bare(next, bob, ada, all)},
		{"one owner's", func(f *schedule.WorkflowFilter) { f.UserIDs = []string{ada.UserID} }, bare(ada)},
		{"one owner's and those for all", func(f *schedule.WorkflowFilter) { f.UserIDs = []string{ada.UserID, ""} }, bare(next, ada, all)},
		{"those for all", func(f *schedule.WorkflowFilter) { f.UserIDs = []string{""} }, bare(next, all)},
		{"nobody's", func(f *schedule.WorkflowFilter) { f.UserIDs = []string{} }, nil},
		{"one version", func(f *schedule.WorkflowFilter) { f.Version = 1 }, bare(bob, ada, all)},
		{"behind one owner's", before(ada), bare(all)},
		{"behind the newest", before(next), bare(bob, ada, all)},
		{"behind the last", before(all), nil},
	} {
		f := schedule.WorkflowFilter{WorkflowID: ada.WorkflowID, Limit: 10}
		c.edit(&f)
		got, err := r.ListWorkflows(r.ctx, f)
		r.ok(err, "list workflows")
		equal(r, c.name, got, c.want)
	}
	_, err := r.GetWorkflow(r.ctx, r.id("carl"), ada.WorkflowID, 1)
	r.hold(errors.Is(err, schedule.ErrNotFound), "another owner has none, got %v", err)
}
