package storetest

import (
	"errors"
	"fmt"
	"strings"

	"github.com/carillon/carillon/internal/schedule"
)

func groupListed(r *rig) {
	j, other := r.jobs("q"), r.jobs("other")
	for n := range 3 {
		j.group(fmt.Sprint("g", n), schedule.GroupParallel, "", unsealed)
	}
	other.group("o", schedule.GroupParallel, "", func(g *schedule.JobGroup) { g.UserID = "somebody " + r.user })
	for _, c := range []struct {
		f    schedule.GroupFilter
		want string
	}{
		{schedule.GroupFilter{QueueNo: j.queue.No}, "g2 g1 g0"},
		{schedule.GroupFilter{QueueNo: j.queue.No, Limit: 2}, "g2 g1"},
		{schedule.GroupFilter{QueueNo: j.queue.No, Before: j.groupNow("g1").No}, "g0"},
		{schedule.GroupFilter{UserID: "somebody " + r.user}, "o"},
		{schedule.GroupFilter{UserID: r.user, State: schedule.GroupCompleted}, ""},
		{schedule.GroupFilter{QueueNo: other.queue.No, State: schedule.GroupCompleted}, "o"},
		{schedule.GroupFilter{UserID: "nobody"}, ""},
	} {
		found, err := r.ListJobGroups(r.ctx, c.f)
		r.ok(err, "list groups")
		var ids []string
		for i := range found {
			ids = append(ids, strings.TrimPrefix(found[i].GroupID, r.id("")))
		}
		r.hold(strings.Join(ids, " ") == c.want, "%+v lists %q, got %q", c.f, c.want, ids)
	}
}

func groupRuns(r *rig) {
	j := r.jobs("q")
	g := j.group("g", schedule.GroupSequential, "a b")
	j.put("x")
	a := j.plays("a", schedule.StatusSuccess)
	runs, err := r.ListRuns(r.ctx, schedule.RunFilter{GroupNo: g.No, Limit: 10, Now: r.now})
	r.ok(err, "list runs")
	j.hold(len(runs) == 2, "two runs, got %q", j.named(runs))
	runs, err = r.ListRuns(r.ctx, schedule.RunFilter{GroupNo: g.No, UserID: "nobody", Limit: 10, Now: r.now})
	j.hold(err == nil && len(runs) == 0, "none of another owner, got %d, %v", len(runs), err)
	want := a.Queue
	j.hold(want.GroupNo == g.No && want.GroupSeq == 1, "history has the group, got %+v", want)
	j.everyView(a.Key, func(view string, run schedule.Run) { equal(r, view+": place", run.Queue, want) })
	rows, err := r.probe(fmt.Sprintf("SELECT group_id, group_seq FROM schedule_runs WHERE group_id = '%s' ORDER BY group_seq", r.id("g")))
	if err == nil && rows != nil {
		equal(r, "the view", rows, [][]string{{r.id("g"), "1"}, {r.id("g"), "2"}})
	}
}

func groupFixed(r *rig) {
	j := r.jobs("q")
	j.group("g", schedule.GroupParallel, "a")
	j.admits(1, "a")
	_, err := r.probe(fmt.Sprintf("UPDATE open_runs SET group_no = 99 WHERE queue_no = %d", j.queue.No))
	j.hold(err != nil && strings.Contains(err.Error(), "Cannot modify params after dispatch"), "another group is refused, got %v", err)
}

func groupNothing(r *rig) {
	j := r.jobs("q")
	err := j.Enqueue(j.ctx, schedule.EnqueueRequest{QueueID: j.queue.QueueID, UserID: j.user, GroupID: r.id("g")}, func(f schedule.EnqueueFacts) (schedule.Enqueue, error) {
		r.hold(f.Group == nil && !f.GroupOpen, "there is none, got %+v", f)
		return schedule.Enqueue{Now: j.now}, nil
	})
	r.ok(err, "enter nothing")
	_, err = r.GetJobGroup(r.ctx, r.id("g"))
	r.hold(errors.Is(err, schedule.ErrNotFound), "no group: %v", err)
}
