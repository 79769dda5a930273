package storetest

import (
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

var overlapGroups = []check{
	{"overlap keys of policy coalesce are listed in order, once each, by owner and page", overlapKeysListed},
	{"the living schedules of an overlap key are found, whatever their policy", overlapSchedulesFound},
	{"open runs of an overlap key are those in flight, those that wait and those that are due", overlapOpenFound},
	{"a change sees the open runs of an overlap key under its locks", overlapOpenInChange},
}

// inGroup puts a schedule into an overlap group.
func inGroup(r *rig, key string, policy schedule.OverlapPolicy) func(*schedule.Schedule) {
	return func(s *schedule.Schedule) { s.OverlapKey, s.OverlapPolicy = r.id(key), policy }
}

func (r *rig) overlapKeys(f schedule.OverlapKeyFilter) []string {
	r.Helper()
	keys, err := r.OverlapKeys(r.ctx, f)
	r.ok(err, "list overlap keys")
	return keys
}

func overlapKeysListed(r *rig) {
	r.lead()
	key := func(name string) string { return r.user + "/" + r.id(name) }
	r.create("b1", inGroup(r, "b", schedule.OverlapCoalesce))
	r.create("b2", inGroup(r, "b", schedule.OverlapCoalesce))
	r.create("a1", inGroup(r, "a", schedule.OverlapCoalesce))
	r.create("c1", inGroup(r, "c", schedule.OverlapQueue))
	gone := r.create("d1", inGroup(r, "d", schedule.OverlapCoalesce))
	r.rewrite(gone, func(s *schedule.Schedule) { s.DeletedAt = r.now })
	of := func(after string, limit int) []string {
		return r.overlapKeys(schedule.OverlapKeyFilter{UserID: r.user, After: after, Limit: limit})
	}
	equal(r, "of one owner", of("", 10), []string{key("a"), key("b")})
	equal(r, "the first page", of("", 1), []string{key("a")})
	equal(r, "the next page", of(key("a"), 10), []string{key("b")})
	equal(r, "after the last", len(of(key("b"), 10)), 0)
	equal(r, "of another owner", len(r.overlapKeys(schedule.OverlapKeyFilter{UserID: r.id("nobody"), Limit: 10})), 0)
}

func overlapSchedulesFound(r *rig) {
	r.lead()
	b, a := r.create("b", inGroup(r, "k", schedule.OverlapQueue)), r.create("a", inGroup(r, "k", schedule.OverlapCoalesce))
	r.create("other", inGroup(r, "l", schedule.OverlapCoalesce))
	find := func(limit int) []string {
		ids, err := r.SchedulesOfOverlap(r.ctx, a.QualifiedOverlapKey(), limit)
		r.ok(err, "find schedules")
		return ids
	}
	equal(r, "both", find(10), []string{a.ScheduleID, b.ScheduleID})
	equal(r, "up to a limit", find(1), []string{a.ScheduleID})
	r.rewrite(a, func(s *schedule.Schedule) { s.DeletedAt = r.now })
	equal(r, "without a deleted one", find(10), []string{b.ScheduleID})
}

func (r *rig) openOf(s schedule.Schedule, limit int) []schedule.Key {
	r.Helper()
	keys, err := r.OpenOfOverlap(r.ctx, schedule.OpenAsk{OverlapKey: s.QualifiedOverlapKey(), DueBy: r.now, Limit: limit})
	r.ok(err, "read open runs")
	return keys
}

func overlapOpenFound(r *rig) {
	r.lead()
	s := r.create("s", inGroup(r, "k", schedule.OverlapCoalesce))
	free := r.create("free", inGroup(r, "k", schedule.OverlapAllow))
	other := r.create("other", inGroup(r, "l", schedule.OverlapCoalesce))
	equal(r, "of an idle group", len(r.openOf(s, 10)), 0)
	flying, both := r.bring(r.due(s, 9), schedule.StatusStarted), r.bring(r.due(free, 8), schedule.StatusEnqueued)
	rows := r.add(r.due(s, 3), r.slot(s, r.at(time.Minute)), r.due(other, 2))
	r.sameKeys("in flight and due", r.openOf(s, 10), flying.Key, both.Key, rows[0].Key)
	r.claim()
	r.stand(rows[:1], "waiting")
	r.sameKeys("in flight and waiting", r.openOf(s, 10), flying.Key, both.Key, rows[0].Key)
	equal(r, "up to a limit", len(r.openOf(s, 2)), 2)
	r.succeed(flying)
	r.sameKeys("after an end", r.openOf(s, 10), both.Key, rows[0].Key)
}

func overlapOpenInChange(r *rig) {
	r.lead()
	s, sister := r.create("s", inGroup(r, "k", schedule.OverlapCoalesce)), r.create("sister", inGroup(r, "k", schedule.OverlapQueue))
	run := r.add(r.due(sister, 3))[0]
	ask := schedule.ChangeRequest{
		ScheduleIDs: []string{s.ScheduleID, sister.ScheduleID}, Open: schedule.OpenAsk{OverlapKey: s.QualifiedOverlapKey(), DueBy: r.now, Limit: 1},
	}
	seen := 0
	r.ok(r.ChangeSchedules(r.ctx, ask, func(found []schedule.ChangeInput) ([]schedule.Change, error) {
		seen = 0
		for _, f := range found {
			r.sameKeys("each input", f.Open, run.Key)
			seen++
		}
		return nil, nil
	}), "change")
	equal(r, "inputs", seen, 2)
	ask.Open = schedule.OpenAsk{}
	r.ok(r.ChangeSchedules(r.ctx, ask, func(found []schedule.ChangeInput) ([]schedule.Change, error) {
		for _, f := range found {
			equal(r, "nothing is asked", len(f.Open), 0)
		}
		return nil, nil
	}), "change")
}
