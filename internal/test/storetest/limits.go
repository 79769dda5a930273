package storetest

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// limitChecks are what a store keeps of limits.
var limitChecks = []check{
	{"a limit comes back as it was given", limitRoundTrip},
	{"a change of a limit that changes nothing writes nothing", limitUnchanged},
	{"a refused change of a limit writes nothing", limitRefused},
	{"a limit that is not there is not found", limitMissing},
	{"a change of a limit brings its audit entry", limitAudited},
	{"the numbers of a key come back, are replaced and go", limitKeyNumbers},
	{"keys are listed in order, page by page", limitKeyPages},
	{"numbers that have ended go with the next change", limitKeysEnd},
	{"a deleted limit has no keys when its id is used again", limitDeleted},
	{"limits are listed in order, of an owner with the shared ones, page by page", limitLists},
	{"the schedules that name a limit are listed, page by page", limitSchedules},
	{"the runs in flight that use a limit are counted by key, and known", limitUsers},
	{"of many that change one limit at once each sees what the others have made", limitWriters},
	{"of many that create and delete one limit at once no change is lost", limitLifeRace},
}

// aLimit is a limit of the rig's owner. Nothing is stored yet.
func (r *rig) aLimit(name string, edits ...func(*schedule.Limit)) schedule.Limit {
	l := schedule.Limit{
		LimitDefinition: schedule.LimitDefinition{
			LimitID: r.id(name), UserID: r.user, Shared: true, Keyed: true, MaxInFlight: 3,
			Rate: schedule.RateDefinition{Starts: 10, PerMS: 60_000, Burst: 2}, Note: "one GPU",
		},
		Revision: 1, CreatedAt: r.at(-time.Hour), UpdatedAt: r.at(-time.Minute),
	}
	for _, edit := range edits {
		edit(&l)
	}
	return l
}

// setLimit changes a limit without looking at it.
func (r *rig) setLimit(limitID string, change schedule.LimitChange) *schedule.Limit {
	r.Helper()
	after, err := r.ChangeLimit(r.ctx, limitID, func(schedule.LimitFacts) (schedule.LimitChange, error) { return change, nil })
	r.ok(err, "change limit")
	return after
}

// keepLimit stores a limit, and returns it with its number.
func (r *rig) keepLimit(l schedule.Limit) schedule.Limit {
	r.Helper()
	after := r.setLimit(l.LimitID, schedule.LimitChange{After: &l})
	r.hold(after != nil, "there is a limit after the change")
	found, err := r.GetLimit(r.ctx, l.LimitID)
	r.ok(err, "get limit")
	equal(r, "the answer to a change and what is read then", *after, *found)
	return *found
}

// limitFacts is what a change would be decided by.
func (r *rig) limitFacts(limitID string) (facts schedule.LimitFacts) {
	r.Helper()
	_, err := r.ChangeLimit(r.ctx, limitID, func(f schedule.LimitFacts) (schedule.LimitChange, error) {
		facts = f
		return schedule.LimitChange{}, nil
	})
	r.ok(err, "facts of a limit")
	return facts
}

func limitRoundTrip(r *rig) {
	for _, l := range []schedule.Limit{
		r.aLimit("full"),
		r.aLimit("bare", func(l *schedule.Limit) {
			l.Shared, l.Keyed, l.MaxInFlight, l.Rate, l.Note = false, false, 1, schedule.RateDefinition{}, ""
		}),
		r.aLimit("rate", func(l *schedule.Limit) { l.MaxInFlight = 0 }),
	} {
		got := r.keepLimit(l)
		r.hold(got.No > 0, "it has a number")
		l.No = got.No
		equal(r, "limit", got, l)
		r.inUTC("Limit", got)
		l.Revision, l.MaxInFlight, l.Rate, l.Note, l.UpdatedAt = 2, 7, schedule.RateDefinition{Starts: 1, PerMS: 86_400_000, Burst: 1}, "another", r.now
		equal(r, "after a change", r.keepLimit(l), l)
	}
}

func limitUnchanged(r *rig) {
	l := r.keepLimit(r.aLimit("l"))
	after, err := r.ChangeLimit(r.ctx, l.LimitID, func(f schedule.LimitFacts) (schedule.LimitChange, error) {
		f.Limit.MaxInFlight = 9 // its own copy
		return schedule.LimitChange{}, nil
	})
	r.ok(err, "change")
	r.hold(after != nil && r.limitFacts(l.LimitID).Limit.MaxInFlight == 3, "nothing is written")
}

func limitRefused(r *rig) {
	_, err := r.ChangeLimit(r.ctx, r.id("l"), func(f schedule.LimitFacts) (schedule.LimitChange, error) {
		r.hold(f.Limit == nil, "there is none")
		l := r.aLimit("l")
		return schedule.LimitChange{After: &l}, errRefused
	})
	r.hold(errors.Is(err, errRefused), "the refusal comes back: %v", err)
	_, err = r.GetLimit(r.ctx, r.id("l"))
	r.hold(errors.Is(err, schedule.ErrNotFound), "nothing is written: %v", err)
}

func limitMissing(r *rig) {
	_, err := r.GetLimit(r.ctx, r.id("nobody"))
	r.hold(errors.Is(err, schedule.ErrNotFound), "got %v", err)
	r.hold(r.setLimit(r.id("nobody"), schedule.LimitChange{}) == nil, "there is none after a change of nothing")
}

func limitAudited(r *rig) {
	l, entry := r.aLimit("l"), r.entry("limit", r.now)
	r.setLimit(l.LimitID, schedule.LimitChange{After: &l, Audit: &entry})
	equal(r, "trail", r.trail(schedule.AuditFilter{Target: entry.Target}), []schedule.AuditEntry{entry})
}

func limitKeyNumbers(r *rig) {
	l, other := r.keepLimit(r.aLimit("l")), r.keepLimit(r.aLimit("other"))
	none, five := uint32(0), uint32(5)
	key := func(k schedule.LimitKey) {
		r.Helper()
		r.setLimit(l.LimitID, schedule.LimitChange{Key: &k})
		got, err := r.GetLimitKey(r.ctx, l.No, k.Key)
		r.ok(err, "get key")
		r.hold(got != nil, "the key has its own numbers")
		equal(r, "key", *got, k)
	}
	key(schedule.LimitKey{Key: "a7", MaxInFlight: &none, Note: "unpaid", Until: r.at(time.Hour)})
	key(schedule.LimitKey{Key: "a7", MaxInFlight: &five})
	key(schedule.LimitKey{Key: "b@x/1+2", Rate: schedule.RateDefinition{Starts: 2, PerMS: 1000, Burst: 2}})
	equal(r, "the limit itself", r.limitFacts(l.LimitID).Limit, &l)
	missing, err := r.GetLimitKey(r.ctx, other.No, "a7")
	r.ok(err, "get key of another limit")
	r.hold(missing == nil, "another limit has none, got %+v", missing)
	r.setLimit(l.LimitID, schedule.LimitChange{DropKey: "a7"})
	r.setLimit(l.LimitID, schedule.LimitChange{DropKey: "a7"})
	missing, err = r.GetLimitKey(r.ctx, l.No, "a7")
	r.ok(err, "get a key that is gone")
	r.hold(missing == nil, "its numbers are gone, got %+v", missing)
	r.hold(r.limitFacts(l.LimitID).Keys.Count == 1, "one key is left")
}

func limitKeyPages(r *rig) {
	l := r.keepLimit(r.aLimit("l"))
	one := uint32(1)
	for _, key := range []string{"c", "a", "B", "d", "e"} {
		r.setLimit(l.LimitID, schedule.LimitChange{Key: &schedule.LimitKey{Key: key, MaxInFlight: &one}})
	}
	var got []string
	for after := ""; ; after = got[len(got)-1] {
		page, err := r.ListLimitKeys(r.ctx, l.No, after, 2)
		r.ok(err, "list keys")
		for i := range page {
			got = append(got, page[i].Key)
		}
		if len(page) < 2 {
			break
		}
	}
	equal(r, "keys", got, []string{"B", "a", "c", "d", "e"})
}

func limitKeysEnd(r *rig) {
	l := r.keepLimit(r.aLimit("l"))
	one := uint32(1)
	set := func(key string, until time.Time, endedBy time.Time) {
		r.setLimit(l.LimitID, schedule.LimitChange{Key: &schedule.LimitKey{Key: key, MaxInFlight: &one, Until: until}, Now: endedBy})
	}
	facts := r.limitFacts(l.LimitID)
	r.hold(facts.Keys.Count == 0 && facts.Keys.End.IsZero(), "no key has numbers, got %+v", facts)
	set("first", r.at(time.Minute), time.Time{})
	set("second", r.at(time.Hour), time.Time{})
	facts = r.limitFacts(l.LimitID)
	r.hold(facts.Keys.Count == 2 && facts.Keys.End.Equal(r.at(time.Hour)), "the last one ends in an hour, got %+v", facts)
	r.inUTC("Keys.End", facts.Keys.End)
	set("third", time.Time{}, r.at(time.Minute-time.Microsecond))
	facts = r.limitFacts(l.LimitID)
	r.hold(facts.Keys.Count == 3 && facts.Keys.End.IsZero(), "one has no end, got %+v", facts)
	r.setLimit(l.LimitID, schedule.LimitChange{Now: r.at(time.Hour)})
	r.hold(r.limitFacts(l.LimitID).Keys.Count == 3, "a change of nothing deletes nothing")
	r.setLimit(l.LimitID, schedule.LimitChange{DropKey: "none", Now: r.at(time.Minute)})
	keys, err := r.ListLimitKeys(r.ctx, l.No, "", 10)
	r.ok(err, "list keys")
	r.hold(len(keys) == 2 && keys[0].Key == "second" && keys[1].Key == "third", "the first one has ended, got %+v", keys)
}

func limitDeleted(r *rig) {
	l, other := r.keepLimit(r.aLimit("l")), r.keepLimit(r.aLimit("other"))
	one := uint32(1)
	for _, id := range []string{l.LimitID, other.LimitID} {
		r.setLimit(id, schedule.LimitChange{Key: &schedule.LimitKey{Key: "a7", MaxInFlight: &one}})
	}
	r.hold(r.setLimit(l.LimitID, schedule.LimitChange{Delete: true}) == nil, "none is left")
	_, err := r.GetLimit(r.ctx, l.LimitID)
	r.hold(errors.Is(err, schedule.ErrNotFound), "it is gone: %v", err)
	keys, err := r.ListLimitKeys(r.ctx, l.No, "", 10)
	r.ok(err, "list keys")
	r.hold(len(keys) == 0, "its keys are gone, got %+v", keys)
	again := r.keepLimit(r.aLimit("l"))
	r.hold(again.No > l.No && r.limitFacts(l.LimitID).Keys.Count == 0, "another limit has its id, got %+v after %+v", again, l)
	r.hold(r.limitFacts(other.LimitID).Keys.Count == 1, "another limit keeps its keys")
}

func limitLists(r *rig) {
	mine, other := r.id("me"), r.id("other")
	for name, own := range map[string]struct {
		user   string
		shared bool
	}{"a": {mine, false}, "b": {other, false}, "c": {other, true}, "d": {mine, true}} {
		r.keepLimit(r.aLimit(name, func(l *schedule.Limit) { l.UserID, l.Shared = own.user, own.shared }))
	}
	list := func(f schedule.LimitFilter) (ours []string) {
		r.Helper()
		for {
			page, err := r.ListLimits(r.ctx, f)
			r.ok(err, "list")
			for i := range page {
				for _, name := range []string{"a", "b", "c", "d"} {
					if page[i].LimitID == r.id(name) {
						ours = append(ours, name)
					}
				}
			}
			if len(page) < f.Limit {
				return ours
			}
			f.After = page[len(page)-1].LimitID
		}
	}
	equal(r, "the owner's limits and the shared ones", list(schedule.LimitFilter{UserID: mine, Limit: 2}), []string{"a", "c", "d"})
	equal(r, "all limits", list(schedule.LimitFilter{Limit: 3}), []string{"a", "b", "c", "d"})
}

func limitUsers(r *rig) {
	l := r.keepLimit(r.aLimit("customer", func(l *schedule.Limit) { l.MaxInFlight, l.Rate = 2, schedule.RateDefinition{} }))
	idle := r.keepLimit(r.aLimit("idle"))
	j := r.jobs("q", maxInFlight(100))
	for _, job := range []struct{ name, key string }{{"a", "x"}, {"b", "y"}, {"c", "y"}, {"d", "y"}} {
		run := j.job(job.name, 0, func(run *schedule.Run) { run.Queue.Limits = schedule.Limits(l.LimitID + "=" + job.key) })
		j.enqueue(0, run)
	}
	j.enqueue(0, j.job("free", 0))
	runs := j.admits(10, "a b c free")
	uses := func() (texts []string) {
		r.Helper()
		found, err := r.ListLimitUses(r.ctx, l.No, 10)
		r.ok(err, "list uses")
		for _, u := range found {
			texts = append(texts, u.Key+":"+j.names[u.UsedBy])
		}
		return texts
	}
	counts := func(limit int) []schedule.LimitCount {
		r.Helper()
		found, err := r.CountLimitUses(r.ctx, l.No, limit)
		r.ok(err, "count uses")
		return found
	}
	got := uses()
	r.hold(len(got) == 3 && got[0] == "x:a" && (fmt.Sprint(got[1:]) == "[y:b y:c]" || fmt.Sprint(got[1:]) == "[y:c y:b]"), "three runs use it, got %q", got)
	equal(r, "counts, the most used first", counts(10), []schedule.LimitCount{{Key: "y", Used: 2}, {Key: "x", Used: 1}})
	equal(r, "the first count", counts(1), []schedule.LimitCount{{Key: "y", Used: 2}})
	r.hold(r.limitFacts(l.LimitID).Limit.Used == 3 && r.limitFacts(idle.LimitID).Limit.Used == 0, "a change knows how many use it")
	found, err := r.GetLimit(r.ctx, l.LimitID)
	r.ok(err, "get")
	r.hold(found.Used == 3, "used by three, got %d", found.Used)
	listed, err := r.ListLimits(r.ctx, schedule.LimitFilter{UserID: r.user, Limit: 200})
	r.ok(err, "list")
	for i := range listed {
		r.hold(listed[i].Used == map[string]int{l.LimitID: 3}[listed[i].LimitID], "as it is listed, got %+v", listed[i])
	}
	j.end(runs[0], schedule.StatusSuccess)
	j.end(runs[1], schedule.StatusFailed)
	equal(r, "after two ends", uses(), []string{"y:c"})
}

func limitWriters(r *rig) {
	const writers = 8
	var wg sync.WaitGroup
	errs := make([]error, writers)
	for i := range writers {
		wg.Go(func() {
			_, errs[i] = r.ChangeLimit(r.ctx, r.id("l"), func(f schedule.LimitFacts) (schedule.LimitChange, error) {
				l := r.aLimit("l")
				if f.Limit != nil {
					l = *f.Limit
					l.Revision++
				}
				return schedule.LimitChange{After: &l}, nil
			})
		})
	}
	wg.Wait()
	r.ok(errors.Join(errs...), "change at once")
	found, err := r.GetLimit(r.ctx, r.id("l"))
	r.ok(err, "get")
	r.hold(found.Revision == writers, "revision %d after %d changes", found.Revision, writers)
}

// limitLifeRace: two changes that begin with the same revision of the same limit would be one too
// many, as when one of them waits for the lock of a limit that is deleted and created meanwhile.
func limitLifeRace(r *rig) {
	const writers, each = 8, 20
	type state struct {
		no       int32
		revision int64
	}
	var mu sync.Mutex
	began := make(map[state]int)
	write := func() error {
		for range each {
			var before state
			_, err := r.ChangeLimit(r.ctx, r.id("l"), func(f schedule.LimitFacts) (schedule.LimitChange, error) {
				if f.Limit == nil {
					l := r.aLimit("l")
					before = state{}
					return schedule.LimitChange{After: &l}, nil
				}
				before = state{f.Limit.No, f.Limit.Revision}
				if f.Limit.Revision == 3 {
					return schedule.LimitChange{Delete: true}, nil
				}
				l := *f.Limit
				l.Revision++
				return schedule.LimitChange{After: &l}, nil
			})
			if err != nil {
				return err
			}
			mu.Lock()
			began[before]++
			mu.Unlock()
		}
		return nil
	}
	var wg sync.WaitGroup
	errs := make([]error, writers)
	for i := range writers {
		wg.Go(func() { errs[i] = write() })
	}
	wg.Wait()
	r.ok(errors.Join(errs...), "change at once")
	for s, n := range began {
		r.hold(s.no == 0 || n == 1, "%d changes began with revision %d of limit %d", n, s.revision, s.no)
	}
}

func limitSchedules(r *rig) {
	gpu, other := r.id("gpu"), r.id("gpu.2")
	queue := func(limits ...string) func(*schedule.Schedule) {
		return func(s *schedule.Schedule) { s.QueueID, s.Limits = r.id("q"), limits }
	}
	r.create("a", queue(gpu))
	r.create("b", queue("cpu", gpu+"=a7"))
	r.create("c", queue(other, "cpu"))
	r.create("d", queue())
	r.create("e")
	deleted := r.create("f", queue(gpu))
	deleted.DeletedAt = r.now
	r.change(schedule.Change{Row: &deleted})
	var got []schedule.LimitedSchedule
	for after := ""; ; {
		page, err := r.SchedulesWithLimit(r.ctx, gpu, after, 1)
		r.ok(err, "list schedules with a limit")
		if len(page) == 0 {
			break
		}
		after = page[0].ScheduleID
		if page[0].Limits.Name(gpu) {
			got = append(got, page[0])
		}
	}
	equal(r, "the schedules that name it", got, []schedule.LimitedSchedule{
		{ScheduleID: r.id("a"), UserID: r.user, Limits: schedule.Limits(gpu)},
		{ScheduleID: r.id("b"), UserID: r.user, Limits: schedule.JoinLimits([]string{"cpu", gpu + "=a7"}, nil)},
	})
}
