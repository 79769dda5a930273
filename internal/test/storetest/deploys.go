package storetest

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

var deploys = []check{
	{"what a deployment manages comes behind what is named, by id", deployManaged},
	{"reading shows what a change would see, and writes nothing", deployRead},
	{"several workflows are stored together, or none", deployWorkflows},
	{"a deploy that is known writes nothing, and another under its id is refused", deployKnown},
	{"a deploy that was refused is not remembered", deployRefused},
	{"what is remembered of deploys goes with retention", deployPruned},
	{"deploys of one set come one after the other, each whole", deployRace},
}

// managed is a schedule that by manages.
func (r *rig) managed(name, by string, edits ...func(*schedule.Schedule)) schedule.Schedule {
	r.Helper()
	return r.create(name, append(edits, func(s *schedule.Schedule) { s.ManagedBy = by })...)
}

func namesIn(in []schedule.ChangeInput) []string {
	ids := make([]string, len(in))
	for i := range in {
		if in[i].Schedule != nil {
			ids[i] = in[i].Schedule.ScheduleID
		}
	}
	return ids
}

func deployManaged(r *rig) {
	by := "set:" + r.id("billing")
	for _, name := range []string{"c", "a", "b"} {
		r.managed(name, by)
	}
	r.managed("gone", by, func(s *schedule.Schedule) { s.DeletedAt = r.now })
	r.managed("theirs", "set:other")
	r.managed("bobs", by, func(s *schedule.Schedule) { s.UserID = r.id("bob") })
	r.create("nobodys")
	for _, c := range []struct {
		name string
		req  schedule.ChangeRequest
		want []string
	}{
		{"behind what is named", schedule.ChangeRequest{ScheduleIDs: []string{r.id("new"), r.id("b")}, Managed: schedule.Managed{By: by}}, []string{"", r.id("b"), r.id("a"), r.id("bobs"), r.id("c")}},
		{"of one owner", schedule.ChangeRequest{Managed: schedule.Managed{By: by, UserID: r.user}}, []string{r.id("a"), r.id("b"), r.id("c")}},
		{"of nobody", schedule.ChangeRequest{ScheduleIDs: []string{r.id("a")}}, []string{r.id("a")}},
		{"of one who manages nothing", schedule.ChangeRequest{Managed: schedule.Managed{By: "set:" + r.id("none")}}, nil},
	} {
		err := r.ChangeSchedules(r.ctx, c.req, func(in []schedule.ChangeInput) ([]schedule.Change, error) {
			equal(r, c.name, namesIn(in), c.want)
			return nil, nil
		})
		r.ok(err, "look")
		read, err := r.ReadSchedules(r.ctx, c.req)
		r.ok(err, "read")
		equal(r, c.name+", read", namesIn(read), c.want)
	}
	err := r.ChangeSchedules(r.ctx, schedule.ChangeRequest{Managed: schedule.Managed{By: by}}, func(in []schedule.ChangeInput) ([]schedule.Change, error) {
		row := *in[0].Schedule
		row.DeletedAt = r.now
		return []schedule.Change{{ScheduleID: row.ScheduleID, Row: &row, Now: r.now}}, nil
	})
	r.ok(err, "change what is managed")
	r.hold(!func() bool {
		s := r.row(schedule.Schedule{Definition: schedule.Definition{ScheduleID: r.id("a")}})
		return s.Alive()
	}(), "it is changed")
}

func deployRead(r *rig) {
	s := r.create("read")
	run := r.slot(s, r.now)
	r.bring(run, schedule.StatusStarted)
	w := r.version("read", 1, `{}`)
	in, err := r.ReadSchedules(r.ctx, schedule.ChangeRequest{
		ScheduleIDs: []string{r.id("none"), s.ScheduleID}, CountInFlight: true, Workflows: []*schedule.WorkflowVersion{&w},
		Managed: schedule.Managed{By: "set:" + r.id("x")}, Deploy: &schedule.Deploy{RequestID: "r", Now: r.now},
	})
	r.ok(err, "read")
	r.hold(len(in) == 2 && in[0].Schedule == nil && in[1].InFlight == 1, "one input per id, with what is in flight, got %+v", in)
	equal(r, "schedules", in[1].Schedule.Definition, r.row(s).Definition)
	_, err = r.GetWorkflow(r.ctx, w.UserID, w.WorkflowID, 1)
	r.hold(errors.Is(err, schedule.ErrNotFound), "no workflow is stored, got %v", err)
}

func deployWorkflows(r *rig) {
	one, two := r.version("two", 1, `{"a": 1}`), r.version("one", 1, `{"a": 2}`)
	put := func(versions ...*schedule.WorkflowVersion) error {
		return r.tryChange(schedule.ChangeRequest{Workflows: versions})
	}
	r.ok(put(&one, &two), "put two")
	for _, w := range []schedule.WorkflowVersion{one, two} {
		equal(r, "workflow versions", r.getWorkflow(w), w)
	}
	fresh, other := r.version("fresh", 1, `{}`), r.version("two", 1, `{"a": 3}`)
	err := put(&fresh, &other)
	r.hold(errors.Is(err, schedule.ErrExists), "another DAG under a stored version is refused, got %v", err)
	_, err = r.GetWorkflow(r.ctx, fresh.UserID, fresh.WorkflowID, 1)
	r.hold(errors.Is(err, schedule.ErrNotFound), "and nothing beside it is stored, got %v", err)
}

// deployed makes one change under a request id, and says whether decide was asked.
func (r *rig) deployed(managed schedule.Managed, requestID, content string) (asked bool, err error) {
	err = r.ChangeSchedules(r.ctx, schedule.ChangeRequest{
		Managed: managed, Deploy: &schedule.Deploy{RequestID: requestID, Hash: sha256.Sum256([]byte(content)), Now: r.now},
	}, func([]schedule.ChangeInput) ([]schedule.Change, error) {
		asked = true
		return nil, nil
	})
	return asked, err
}

func deployKnown(r *rig) {
	set := schedule.Managed{By: "set:" + r.id("x")}
	for _, c := range []struct {
		name    string
		managed schedule.Managed
		request string
		content string
		want    error
	}{
		{"the first", set, "r1", "a", nil},
		{"its repeat", set, "r1", "a", schedule.ErrRepeated},
		{"another under its id", set, "r1", "b", schedule.ErrKeyConflict},
		{"the next", set, "r2", "b", nil},
		{"the first, once more", set, "r1", "a", schedule.ErrRepeated},
		{"the same of another set", schedule.Managed{By: "set:" + r.id("y")}, "r1", "b", nil},
		{"the same of another owner", schedule.Managed{By: set.By, UserID: r.user}, "r1", "b", nil},
	} {
		asked, err := r.deployed(c.managed, c.request, c.content)
		r.hold(errors.Is(err, c.want) && asked == (c.want == nil), "%s: %v, got %v, decide asked %v", c.name, c.want, err, asked)
	}
}

func deployRefused(r *rig) {
	set := schedule.Managed{By: "set:" + r.id("x")}
	no := &refusal{"no"}
	d := &schedule.Deploy{RequestID: "r", Hash: sha256.Sum256([]byte("a")), Now: r.now}
	err := r.ChangeSchedules(r.ctx, schedule.ChangeRequest{Managed: set, Deploy: d}, func([]schedule.ChangeInput) ([]schedule.Change, error) { return nil, no })
	r.hold(errors.Is(err, no), "the refusal comes back, got %v", err)
	asked, err := r.deployed(set, "r", "b")
	r.hold(asked && err == nil, "its id is free, got %v", err)
}

func deployPruned(r *rig) {
	r.lead()
	set := schedule.Managed{By: "set:" + r.id("x")}
	for i := range 3 {
		_, err := r.deployed(set, fmt.Sprint("old-", i), "a")
		r.ok(err, "deploy")
	}
	r.now = r.at(48 * time.Hour)
	_, err := r.deployed(set, "young", "a")
	r.ok(err, "deploy")
	r.hold(r.prune(r.at(-24*time.Hour), 2) == 2, "at most two go at once")
	r.hold(r.pruneAll(r.at(-24*time.Hour)) == 1, "the last one goes then")
	asked, err := r.deployed(set, "old-0", "b")
	r.hold(asked && err == nil, "the id of an old deploy is free, got %v", err)
	_, err = r.deployed(set, "young", "a")
	r.hold(errors.Is(err, schedule.ErrRepeated), "a young one is known, got %v", err)
}

// deployRace has jobs that each make the set what only they want. What one finds
// is what another left, whole.
func deployRace(r *rig) {
	by := "set:" + r.id("raced")
	jobs := [][]string{{"a", "b", "c"}, {"c", "d"}, {"b", "d", "e"}, {"f"}}
	states := []string{""}
	for _, names := range jobs {
		var ids []string
		for _, name := range names {
			ids = append(ids, r.id(name))
		}
		states = append(states, strings.Join(ids, " "))
	}
	var mu sync.Mutex
	mixtures := make(map[string]bool)
	r.crowd(len(jobs), func(job int) {
		wanted := strings.Fields(states[job+1])
		for range 8 {
			err := r.ChangeSchedules(r.ctx, schedule.ChangeRequest{ScheduleIDs: wanted, Managed: schedule.Managed{By: by}}, func(in []schedule.ChangeInput) ([]schedule.Change, error) {
				changes, found := r.become(wanted, by, in)
				if !slices.Contains(states, found) {
					mu.Lock()
					defer mu.Unlock()
					mixtures[found] = true
				}
				return changes, nil
			})
			if err != nil {
				r.Errorf("job %d: %v", job, err)
			}
		}
	})
	r.hold(len(mixtures) == 0, "a deploy finds what another one left, got %v", mixtures)
}

// become makes the managed schedules what is wanted, and says what was there.
func (r *rig) become(wanted []string, by string, in []schedule.ChangeInput) (changes []schedule.Change, found string) {
	var alive []string
	for i := range in {
		var row schedule.Schedule
		there := in[i].Schedule != nil && in[i].Schedule.Alive()
		if there {
			alive = append(alive, in[i].Schedule.ScheduleID)
		}
		switch {
		case i >= len(wanted):
			row = *in[i].Schedule
			row.DeletedAt = r.now
		case there:
			continue
		default:
			row = r.schedule(strings.TrimPrefix(wanted[i], r.name+"."))
			row.ManagedBy = by
			if in[i].Schedule != nil {
				row.Revision = in[i].Schedule.Revision + 1
			}
		}
		changes = append(changes, schedule.Change{ScheduleID: row.ScheduleID, Row: &row, NewRevision: i < len(wanted), ChangedBy: r.user, Now: r.now})
	}
	slices.Sort(alive)
	return changes, strings.Join(alive, " ")
}
