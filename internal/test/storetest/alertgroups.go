package storetest

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// notice is a message to people about the alert of that name.
func (r *rig) notice(name, key, kind string, at time.Time) schedule.AlertDelivery {
	d := r.message(name, at)
	d.ScheduleID, d.Target, d.Type, d.GroupKey = r.id("schedule-"+name), r.id("people"), kind, r.id(key)
	return d
}

// grouped makes one pass, tells every group that has something to tell, and returns
// what it was given, one line for each group: its first alert, its alerts that are
// new to it, and those that it told before.
func (r *rig) grouped(now, joinedSince time.Time) (lines []string) {
	r.Helper()
	return r.groupedBy(schedule.AlertGrouping{Now: now, JoinedSince: joinedSince, Limit: 100})
}

func (r *rig) groupedBy(q schedule.AlertGrouping) (lines []string) {
	r.Helper()
	now := q.Now
	more, err := r.GroupAlerts(r.ctx, q,
		func(g schedule.AlertGroup, payload func(string) (string, error)) (v schedule.GroupVerdict, err error) {
			var fresh, told []string
			open := false
			for i := range g.Notices {
				n := &g.Notices[i]
				open = open || n.Open()
				word := strings.TrimPrefix(n.AlertID, r.id("alert-")) + " " + strings.TrimPrefix(n.Type, "alert.")
				if n.Told {
					told = append(told, word)
					continue
				}
				fresh = append(fresh, word)
				text, err := payload(n.AlertID)
				if err != nil || text != `{"a": 1}` {
					r.Errorf("the message of %s is %q, %v", n.AlertID, text, err)
				}
			}
			if g.Target != r.id("people") || len(told) > 0 && g.ToldAt.IsZero() {
				r.Errorf("the group is %+v", g)
			}
			lines = append(lines, strings.TrimPrefix(g.GroupID, r.id("alert-"))+": "+strings.Join(fresh, ", ")+" after "+strings.Join(told, ", "))
			if fresh != nil {
				d := r.message("of-"+g.GroupID+now.String(), now)
				d.AlertID, d.Target = g.GroupID, g.Target
				v.Delivery, v.Closed = &d, !open
			}
			return v, nil
		})
	r.ok(err, "group alerts")
	r.hold(!more, "that is all")
	slices.Sort(lines)
	return lines
}

func noticesGrouped(r *rig) {
	long := r.at(-time.Hour)
	r.write(nil, r.notice("a", "x", "alert.opened", r.now), r.notice("b", "x", "alert.opened", r.now), r.notice("c", "y", "alert.opened", r.now))
	r.hold(len(r.claimMessages(r.at(time.Hour))) == 0, "a notice is no message yet")
	equal(r, "one group for each key", r.grouped(r.now, long), []string{"a: a opened, b opened after ", "c: c opened after "})
	equal(r, "nothing changed", r.grouped(r.at(time.Second), long), nil)
	r.write(nil, r.notice("b", "x", "alert.recovered", r.at(time.Minute)), r.notice("d", "x", "alert.opened", r.at(time.Minute)))
	equal(r, "an alert closes and another joins", r.grouped(r.at(time.Minute), long), []string{"a: b recovered, d opened after a opened"})
	r.write(nil, r.notice("a", "x", "alert.recovered", r.at(time.Hour)), r.notice("d", "x", "alert.recovered", r.at(time.Hour)))
	equal(r, "the last ones close", r.grouped(r.at(time.Hour), long), []string{"a: a recovered, d recovered after b recovered"})
	r.write(nil, r.notice("e", "x", "alert.opened", r.at(time.Hour)))
	equal(r, "a closed group takes no more", r.grouped(r.at(time.Hour), long), []string{"e: e opened after "})

	sent := r.claimMessages(r.at(2 * time.Hour))
	r.hold(len(sent) == 5, "each decision is one message: %+v", sent)
	of := func(f schedule.DeliveryFilter) int {
		f.Limit = 100
		found, err := r.ListDeliveries(r.ctx, f)
		r.ok(err, "list deliveries")
		return len(found)
	}
	r.hold(of(schedule.DeliveryFilter{AlertID: r.id("alert-d")}) == 3, "an alert lists the messages of its group")
	r.hold(of(schedule.DeliveryFilter{ScheduleID: r.id("schedule-d")}) == 3, "so does its schedule")
	r.hold(of(schedule.DeliveryFilter{AlertID: r.id("alert-c")}) == 1, "another group has its own")
}

func noticesAlone(r *rig) {
	long := r.at(-time.Hour)
	r.write(nil, r.notice("a", "x", "alert.opened", r.now), r.notice("b", "x", "alert.reminder", r.now), r.notice("c", "x", "alert.recovered", r.now))
	equal(r, "told before groups were, or to another target", r.grouped(r.now, long), []string{"a: a opened after ", "b: b reminder after ", "c: c recovered after "})
	r.write(nil, r.notice("b", "x", "alert.recovered", r.at(time.Second)))
	equal(r, "its end is told as its beginning was", r.grouped(r.at(time.Second), long), []string{"b: b recovered after "})
	r.write(nil, r.notice("c", "x", "alert.opened", r.at(time.Second)))
	equal(r, "an alert that opens again joins as a new one", r.grouped(r.at(time.Second), long), []string{"a: c opened after a opened"})
}

func groupsAge(r *rig) {
	r.write(nil, r.notice("a", "x", "alert.opened", r.now))
	equal(r, "the first", r.grouped(r.now, r.at(-time.Hour)), []string{"a: a opened after "})
	r.write(nil, r.notice("b", "x", "alert.opened", r.at(time.Hour)))
	equal(r, "another, much later", r.grouped(r.at(time.Hour), r.at(time.Minute)), []string{"b: b opened after "})
	r.write(nil, r.notice("c", "x", "alert.opened", r.at(time.Hour)))
	equal(r, "the newest group takes the next", r.grouped(r.at(time.Hour), r.at(-time.Minute)), []string{"b: c opened after b opened"})
	r.write(nil, r.notice("d", "x", "alert.opened", r.at(2*time.Hour)))
	started := schedule.AlertGrouping{Now: r.at(2 * time.Hour), JoinedSince: r.now, StartedSince: r.at(time.Hour), Limit: 100}
	equal(r, "another joined just now, but the group began too long ago", r.groupedBy(started), []string{"d: d opened after "})
	r.write(nil, r.notice("e", "x", "alert.opened", r.at(2*time.Hour)))
	equal(r, "the group after it takes the next", r.groupedBy(started), []string{"d: e opened after d opened"})
}

func groupsWait(r *rig) {
	pass := func(at time.Duration) []string {
		return r.groupedBy(schedule.AlertGrouping{Now: r.at(at), Interval: time.Minute, Limit: 100})
	}
	r.write(nil, r.notice("a", "x", "alert.opened", r.now))
	equal(r, "the first message", pass(0), []string{"a: a opened after "})
	r.write(nil, r.notice("b", "x", "alert.opened", r.at(time.Second)))
	equal(r, "another alert, too soon", pass(time.Second), nil)
	equal(r, "nor just before the interval is over", pass(59*time.Second), nil)
	equal(r, "then", pass(time.Minute), []string{"a: b opened after a opened"})
	r.write(nil, r.notice("c", "x", "alert.opened", r.at(time.Hour)))
	equal(r, "and at once if it is over", pass(time.Hour), []string{"a: c opened after a opened, b opened"})
}

func remindersRepeat(r *rig) {
	long := r.at(-time.Hour)
	noticed := func(now time.Time, tell bool) (found []string) {
		_, err := r.GroupAlerts(r.ctx, schedule.AlertGrouping{Now: now, JoinedSince: long, Limit: 10}, func(g schedule.AlertGroup, _ func(string) (string, error)) (v schedule.GroupVerdict, err error) {
			for _, n := range g.Notices {
				found = append(found, n.Type+n.NoticedAt.Sub(r.now).String())
			}
			if tell {
				d := r.message("of-"+g.GroupID+now.String(), now)
				d.AlertID, d.Target = g.GroupID, g.Target
				v.Delivery = &d
			}
			return v, nil
		})
		r.ok(err, "group alerts")
		return found
	}
	pass := func(kind string, minute int, tell bool) []string {
		now := r.at(time.Duration(minute) * time.Minute)
		r.write(nil, r.notice("a", "x", kind, now))
		return noticed(now, tell)
	}
	equal(r, "a new alert", pass("alert.opened", 0, false), []string{"alert.opened0s"})
	equal(r, "a reminder before it is told: it is still new", pass("alert.reminder", 5, true), []string{"alert.opened0s"})
	equal(r, "a reminder", pass("alert.reminder", 10, false), []string{"alert.reminder10m0s"})
	equal(r, "another before it is told", pass("alert.reminder", 15, false), []string{"alert.reminder10m0s"})
	equal(r, "its end", pass("alert.recovered", 20, false), []string{"alert.recovered20m0s"})
}

func groupingFails(r *rig) {
	r.write(nil, r.notice("a", "x", "alert.opened", r.now))
	broken := errors.New("broken")
	_, err := r.GroupAlerts(r.ctx, schedule.AlertGrouping{Now: r.now, Limit: 10}, func(schedule.AlertGroup, func(string) (string, error)) (schedule.GroupVerdict, error) {
		return schedule.GroupVerdict{}, broken
	})
	r.hold(errors.Is(err, broken), "it fails with %v", err)
	for _, wait := range []time.Duration{0, time.Minute} { // asked for twice, told when it is time
		seen := 0
		_, err = r.GroupAlerts(r.ctx, schedule.AlertGrouping{Now: r.at(wait), Limit: 10}, func(g schedule.AlertGroup, _ func(string) (string, error)) (schedule.GroupVerdict, error) {
			seen = len(g.Notices)
			return schedule.GroupVerdict{CheckAt: r.at(time.Minute)}, nil
		})
		r.ok(err, "group alerts")
		r.hold(seen == 1, "the notice is there: %d", seen)
	}
}

func groupsPruned(r *rig) {
	r.lead()
	old := r.at(-48 * time.Hour)
	open, closed := r.alert("alert-c"), r.alert("alert-d")
	closed.ClosedAt, closed.Resolution = r.at(-47*time.Hour), schedule.ResolutionRecovered
	r.write([]schedule.Alert{open, closed}, r.notice("a", "x", "alert.opened", old), r.notice("b", "x", "alert.opened", old),
		r.notice("c", "y", "alert.opened", old), r.notice("d", "z", "alert.opened", old))
	r.grouped(old, r.at(-72*time.Hour))
	told := func(name string) int {
		found, err := r.ListDeliveries(r.ctx, schedule.DeliveryFilter{ScheduleID: r.id("schedule-" + name), Limit: 100})
		r.ok(err, "list deliveries")
		return len(found)
	}
	r.hold(told("c") == 1 && told("d") == 1, "the groups of c and d are told: %d, %d", told("c"), told("d"))
	r.write(nil, r.notice("a", "x", "alert.recovered", old), r.notice("b", "x", "alert.recovered", old))
	equal(r, "one group is closed", r.grouped(old, r.at(-72*time.Hour)), []string{"a: a recovered, b recovered after "})
	r.pruneAll(r.at(-47 * time.Hour))
	r.hold(told("d") == 1, "an alert that was closed without a notice is kept as long as others")
	r.pruneAll(r.at(-24 * time.Hour))
	r.hold(told("c") == 1 && told("d") == 0, "then its group goes, and that of an open alert stays: %d, %d", told("d"), told("c"))
	r.write(nil, r.notice("a", "x", "alert.reminder", r.now), r.notice("c", "y", "alert.reminder", r.now))
	equal(r, "the open one is known, the closed one is not", r.grouped(r.now, old), []string{"a: a reminder after ", "c: c reminder after "})
	r.write(nil, r.notice("a", "x", "alert.recovered", r.now))
	equal(r, "nor are its alerts", r.grouped(r.now, old), []string{"a: a recovered after "})
}
