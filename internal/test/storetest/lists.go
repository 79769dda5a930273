package storetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

var lists = []check{
	{"schedules are listed by id, byte by byte, in pages", listSchedules},
	{"schedules are filtered by owner, workflow, manager, label and state", listSchedulesFiltered},
	{"events are listed newest first, in pages", listEvents},
	{"runs are listed newest run_at first, in pages, with ties by key", listRuns},
	{"runs are filtered by schedule, owner, workflow, status, reason, trigger and time", listRunsFiltered},
	{"runs are listed oldest run_at first for who asks for that, in pages, with ties by key", listRunsAscending},
	{"the pages of a list have every run that its filter meets, once, in order", listAnyPages},
	{"rows that are only a plan are shown only to who asks for PLANNED", listRunsFuture},
	{"the feed shows runs as they change, each change after the one before", feedRuns},
}

func listSchedules(r *rig) {
	names := []string{"A", "B", "Z", "_", "a", "a-b", "a.b", "a:b", "aB", "ab", "b", "10", "9"}
	for _, name := range names {
		r.create(name)
	}
	r.create("deleted", func(s *schedule.Schedule) { s.DeletedAt = r.now })
	slices.Sort(names)
	list := func(after string, limit int) (got []string) {
		if after != "" {
			after = r.id(after)
		}
		schedules, err := r.ListSchedules(r.ctx, schedule.ScheduleFilter{UserID: r.user, Now: r.now, After: after, Limit: limit})
		r.ok(err, "list schedules")
		for _, s := range schedules {
			got = append(got, s.ScheduleID[len(r.name)+1:])
		}
		return got
	}
	equal(r, "schedules", list("", 100), names)
	var paged []string
	for {
		after := ""
		if len(paged) > 0 {
			after = paged[len(paged)-1]
		}
		page := list(after, 4)
		if len(page) == 0 {
			break
		}
		r.hold(len(page) <= 4, "a page has at most four, got %d", len(page))
		paged = append(paged, page...)
	}
	equal(r, "schedules in pages", paged, names)
}

func listSchedulesFiltered(r *rig) {
	type edit = func(*schedule.Schedule)
	label := func(pairs ...string) edit {
		return func(s *schedule.Schedule) {
			s.Labels = map[string]string{}
			for i := 0; i < len(pairs); i += 2 {
				s.Labels[pairs[i]] = pairs[i+1]
			}
		}
	}
	r.create("active", label("team", "a", "a.b/c'\"%_", awkward))
	r.create("paused", label("team", "b"), func(s *schedule.Schedule) { s.Pause.Paused = true })
	r.create("paused-till-later", func(s *schedule.Schedule) { s.Pause = schedule.Pause{Paused: true, Until: r.at(time.Microsecond)} })
	r.create("paused-till-now", label("empty", ""), func(s *schedule.Schedule) { s.Pause = schedule.Pause{Paused: true, Until: r.now} })
	r.create("exhausted", planAt(time.Time{}), func(s *schedule.Schedule) { s.WorkflowID, s.ManagedBy = r.id("other"), "set-1" })
	r.create("paused-and-exhausted", planAt(time.Time{}), func(s *schedule.Schedule) { s.Pause.Paused = true })
	r.create("working-off", planAt(time.Time{}), func(s *schedule.Schedule) { // its slots have run out, its backlog has not
		s.Backlog = schedule.Backlog{From: r.at(-time.Hour), Until: r.now, Revision: 1}
	})
	r.create("foreign", func(s *schedule.Schedule) { s.UserID = r.id("foreign") })

	all := []string{"active", "exhausted", "paused", "paused-and-exhausted", "paused-till-later", "paused-till-now", "working-off"}
	for _, c := range []struct {
		name   string
		filter schedule.ScheduleFilter
		want   []string
	}{
		{"by owner", schedule.ScheduleFilter{}, all},
		{"by another owner", schedule.ScheduleFilter{UserID: r.id("foreign")}, []string{"foreign"}},
		{"by workflow", schedule.ScheduleFilter{WorkflowID: r.id("other")}, []string{"exhausted"}},
		{"by manager", schedule.ScheduleFilter{ManagedBy: "set-1"}, []string{"exhausted"}},
		{"by workflow and state", schedule.ScheduleFilter{WorkflowID: r.id("workflow"), State: schedule.StatePaused}, []string{"paused", "paused-and-exhausted", "paused-till-later"}},
		{"paused now", schedule.ScheduleFilter{State: schedule.StatePaused}, []string{"paused", "paused-and-exhausted", "paused-till-later"}},
		{"active", schedule.ScheduleFilter{State: schedule.StateActive}, []string{"active", "paused-till-now", "working-off"}},
		{"exhausted", schedule.ScheduleFilter{State: schedule.StateExhausted}, []string{"exhausted"}},
		{"by label and value", schedule.ScheduleFilter{LabelKey: "team", LabelValue: "b"}, []string{"paused"}},
		{"by a label that all of a kind have", schedule.ScheduleFilter{LabelKey: "team", LabelValue: "a"}, []string{"active"}},
		{"by an awkward label", schedule.ScheduleFilter{LabelKey: "a.b/c'\"%_", LabelValue: awkward}, []string{"active"}},
		{"by a label of any value", schedule.ScheduleFilter{LabelKey: "team"}, []string{"active", "paused"}},
		{"by a label whose value is empty", schedule.ScheduleFilter{LabelKey: "empty"}, []string{"paused-till-now"}},
		{"by a label of another value", schedule.ScheduleFilter{LabelKey: "team", LabelValue: "c"}, nil},
		{"by a label that nobody has", schedule.ScheduleFilter{LabelKey: "nobody", LabelValue: "a"}, nil},
	} {
		if c.filter.UserID == "" {
			c.filter.UserID = r.user
		}
		c.filter.Now, c.filter.Limit = r.now, 100
		schedules, err := r.ListSchedules(r.ctx, c.filter)
		r.ok(err, "list schedules "+c.name)
		var got []string
		for _, s := range schedules {
			got = append(got, s.ScheduleID[len(r.name)+1:])
		}
		equal(r, "schedules "+c.name, got, c.want)
	}
}

func listEvents(r *rig) {
	s, other := r.create("logged"), r.create("other")
	for i := range 5 {
		r.event(s, fmt.Sprint(i))
		r.event(other, "of another")
	}
	list := func(before int64, limit int) (ids []int64, notes []string) {
		events, err := r.ListEvents(r.ctx, s.ScheduleID, before, limit)
		r.ok(err, "list events")
		for _, e := range events {
			ids, notes = append(ids, e.ID), append(notes, e.Note)
		}
		return ids, notes
	}
	_, all := list(0, 10)
	equal(r, "events", all, []string{"4", "3", "2", "1", "0"})
	ids, first := list(0, 2)
	equal(r, "the first page", first, []string{"4", "3"})
	ids, second := list(ids[1], 2)
	equal(r, "the second page", second, []string{"2", "1"})
	_, last := list(ids[1], 2)
	equal(r, "the last page", last, []string{"0"})
}

// newestFirst orders runs as lists of runs do.
func newestFirst(a, b schedule.Run) int {
	if c := b.RunAt.Compare(a.RunAt); c != 0 {
		return c
	}
	return compareKeys(b.Key, a.Key)
}

func listRuns(r *rig) {
	pageRuns(r, schedule.RunFilter{}, newestFirst)
}

func listRunsAscending(r *rig) {
	oldestFirst := func(a, b schedule.Run) int { return newestFirst(b, a) }
	pageRuns(r, schedule.RunFilter{Ascending: true}, oldestFirst)
	pageRuns(r, schedule.RunFilter{Ascending: true, UserID: r.user}, oldestFirst)
}

// pageRuns reads the runs of a schedule in pages, and looks at their order.
func pageRuns(r *rig, filter schedule.RunFilter, order func(a, b schedule.Run) int) {
	s := r.create("listed" + filter.UserID)
	var want []schedule.Run
	for i := range 9 { // three runs at each of three instants
		want = append(want, r.manual(s, fmt.Sprint(i), r.at(-time.Duration(i%3)*time.Minute)))
	}
	r.add(want...)
	r.add(r.slot(r.create("other"+filter.UserID), r.at(-time.Minute)))
	slices.SortFunc(want, order)
	var got []schedule.Run
	filter.ScheduleID, filter.Now, filter.Limit = s.ScheduleID, r.now, 2
	for {
		page, err := r.ListRuns(r.ctx, filter)
		r.ok(err, "list runs")
		if len(page) == 0 {
			break
		}
		r.hold(len(page) <= 2 && len(got) < 20, "a page has at most two, got %d", len(page))
		got = append(got, page...)
		last := page[len(page)-1]
		filter.AfterRunAt, filter.AfterKey = last.RunAt, last.Key
	}
	equal(r, "runs in pages", got, want)
}
