package storetest

import (
	"errors"
	"fmt"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// templates are how the schedules go that queues make for bare workflow versions.
var templates = []check{
	{"a template goes with its revisions once nothing has used it for as long as retention", templatePruned},
	{"a template stays while a run, or a group that is not over, names it", templateUsed},
	{"at most limit templates go at once, the oldest first", templateChunks},
	{"an entry notes that it uses a template, and finds one that is gone", templateNoted},
	{"no template is deleted under an entry or a trigger that uses it", templateRace},
}

// template stores a schedule that a queue has made so long ago.
func (r *rig) template(name string, ago time.Duration) schedule.Schedule {
	r.Helper()
	return r.create(name, func(s *schedule.Schedule) {
		s.CronExpr, s.NextRunAt, s.PlanAt, s.ManagedBy = "", time.Time{}, time.Time{}, schedule.ManagedByQueue+"q"
		s.UpdatedAt = r.at(-ago)
	})
}

func (r *rig) isGone(s schedule.Schedule) bool {
	r.Helper()
	_, err := r.GetSchedule(r.ctx, s.ScheduleID)
	if err != nil && !errors.Is(err, schedule.ErrNotFound) {
		r.Fatalf("get schedule: %v", err)
	}
	return err != nil
}

const day = 24 * time.Hour

func templatePruned(r *rig) {
	r.lead()
	unused, young := r.template("unused", 100*day), r.template("young", 89*day)
	plain := r.create("plain", func(s *schedule.Schedule) { s.UpdatedAt = r.at(-100 * day) })
	r.prune(r.at(-90*day), 1000)
	r.hold(r.isGone(unused), "it is gone")
	revisions, err := r.ListRevisions(r.ctx, unused.ScheduleID, 0, 10)
	r.ok(err, "list revisions")
	r.hold(len(revisions) == 0, "so are its revisions, got %d", len(revisions))
	r.hold(!r.isGone(young) && !r.isGone(plain), "a younger one stays, and a schedule that somebody made")
	again := r.template("unused", 0)
	equal(r, "the template that is made again", r.row(again).Revision, again.Revision)
}

func templateUsed(r *rig) {
	j := r.jobs("q")
	r.lead()
	open, ended, completes := r.template("open", 200*day), r.template("ended", 200*day), r.template("completes", 200*day)
	j.enqueue(0, j.jobOf(open, "open"))
	over := r.bring(r.slot(ended, r.now), schedule.StatusSuccess)
	j.group("g", schedule.GroupParallel, "member", func(g *schedule.JobGroup) {
		g.OnComplete = &schedule.GroupRun{ScheduleID: completes.ScheduleID, Revision: 1, OverlapKey: completes.QualifiedOverlapKey()}
	})
	r.prune(r.at(-90*day), 1000)
	r.hold(!r.isGone(open) && !r.isGone(ended) && !r.isGone(completes), "all stay")
	r.now = r.at(100 * day)
	r.prune(r.at(-90*day), 1000)
	r.gone(over)
	r.prune(r.at(-90*day), 1000)
	r.hold(!r.isGone(open) && r.isGone(ended), "one whose last run was pruned goes, and one with an open run stays")
	got := r.ledger(j.keyNamed("open"))
	r.hold(got.UserID == open.UserID && got.Queue.State == schedule.QueueWaiting, "its run is as it was, got %+v", got)
}

func templateChunks(r *rig) {
	r.lead()
	var made []schedule.Schedule
	for i := range 5 {
		made = append(made, r.template(fmt.Sprint("t", i), time.Duration(100+i)*day))
	}
	left := func() (n int) {
		for _, s := range made {
			if !r.isGone(s) {
				n++
			}
		}
		return n
	}
	for _, want := range []int{3, 1, 0} {
		r.prune(r.at(-90*day), 2)
		equal(r, "templates that are left", left(), want)
		r.hold(want < 1 || !r.isGone(made[0]), "the youngest goes last")
	}
	r.hold(r.prune(r.at(-90*day), 2) == 0, "nothing is left to delete")
}

func templateNoted(r *rig) {
	j := r.jobs("q")
	r.lead()
	used := r.template("used", 100*day)
	enter := func(id string) error {
		return j.tryEnqueue(schedule.EnqueueRequest{Templates: []string{id}, Now: r.now}, j.jobOf(used, "job of "+id))
	}
	r.hold(used.NotesUse(r.now), "an old template is to be noted")
	r.ok(enter(used.ScheduleID), "enter")
	got := r.row(used)
	r.hold(got.UpdatedAt.Equal(r.now) && got.Revision == used.Revision && !got.NotesUse(r.at(time.Hour)), "its use is noted, and not again within the hour, got %+v", got)
	r.rewrite(used, func(s *schedule.Schedule) { s.DeletedAt = r.now })
	for _, id := range []string{used.ScheduleID, r.id("none")} {
		before := len(j.listed())
		err := enter(id)
		r.hold(errors.Is(err, schedule.ErrTemplateGone) && len(j.listed()) == before, "a deleted template is found gone, and nothing is written: got %v", err)
	}
}

func templateRace(r *rig) {
	j := r.jobs("q", func(q *schedule.Queue) { q.MaxWaiting = 0 })
	r.lead()
	kept, gone := 0, 0
	for i := range 40 {
		s := r.template(fmt.Sprint("t", i), 100*day)
		run := j.jobOf(s, fmt.Sprint("job", i))
		byHand := r.manual(s, "hand", r.now)
		var used error
		r.crowd(2, func(n int) {
			switch {
			case n == 0:
				if _, err := r.Prune(r.ctx, r.term, r.at(-90*day), 1000); err != nil {
					r.Errorf("prune: %v", err)
				}
			case i%2 == 0:
				used = j.tryEnqueue(schedule.EnqueueRequest{Templates: []string{s.ScheduleID}, Now: r.now}, run)
			default:
				used = r.ChangeSchedules(r.ctx, schedule.ChangeRequest{ScheduleIDs: []string{s.ScheduleID}}, func(found []schedule.ChangeInput) ([]schedule.Change, error) {
					if found[0].Schedule == nil {
						return nil, schedule.ErrNotFound
					}
					return []schedule.Change{{ScheduleID: s.ScheduleID, Runs: []schedule.Run{byHand}, Now: r.now}}, nil
				})
			}
		})
		switch {
		case used == nil && r.isGone(s):
			r.Fatalf("round %d: the template of an open run is gone", i)
		case used == nil:
			kept++
			key := run.Key
			if i%2 == 1 {
				key = byHand.Key
			}
			r.hold(r.ledger(key).UserID == s.UserID, "its run is readable")
		case errors.Is(used, schedule.ErrTemplateGone), errors.Is(used, schedule.ErrNotFound):
			gone++
			r.hold(r.isGone(s), "round %d: it was there, and an entry found it gone", i)
		default:
			r.Fatalf("round %d: %v", i, used)
		}
	}
	r.Logf("%d templates were used first, %d deleted first", kept, gone)
}
