package storetest

import (
	"time"

	"github.com/carillon/carillon/internal/schedule"
	eventtopic "github.com/carillon/carillon/internal/topic"
)

// consumption is what one consumer has of an event.
func (r *rig) consumption(seq int64, s schedule.Schedule) eventtopic.Consumption {
	r.Helper()
	found, err := r.Consumptions(r.ctx, seq)
	r.ok(err, "read the entries of an event")
	for i := range found {
		if found[i].ScheduleID == s.ScheduleID {
			return found[i]
		}
	}
	r.Fatalf("%s has no entry of event %d", s.ScheduleID, seq)
	return eventtopic.Consumption{}
}

func eventConsumptions(r *rig) {
	e := r.events()
	s := r.consumer("c", []string{"orders"}, func(s *schedule.Schedule) {
		s.Consume.MaxEvents = 1
		s.Retry = schedule.RetryPolicy{MaxAttempts: 2, BackoffMS: 1000}.Resolved()
	})
	r.consumer("d", []string{"orders"})
	out := r.publish("orders", "a", "b")
	first, second := out[0].Seq, out[1].Seq
	published := r.now
	c := r.consumption(first, s)
	r.hold(c.State == eventtopic.Pending && c.WakeAt.Equal(published) && c.Own.IsZero() && c.Entry.Run.IsZero() && c.OverlapKey == s.QualifiedOverlapKey(),
		"a pending entry has the wake row, got %+v", c)
	r.now = r.at(time.Second)
	var run schedule.Run
	for _, l := range e.look() {
		if l.Run.ScheduleID == s.ScheduleID {
			run = l.Run
		}
	}
	c = r.consumption(first, s)
	r.hold(c.State == eventtopic.Reserved && c.Entry.Run == run.Key && c.RunOpen && c.TakenAt.Equal(r.now) && c.Own == run.Key && c.WakeAt.IsZero(),
		"a reserved entry has its run, got %+v", c)
	c = r.consumption(second, s)
	r.hold(c.State == eventtopic.Pending && c.Own == run.Key && c.WakeAt.IsZero() && !c.RunOpen, "one that the run has left waits for it, got %+v", c)
	r.now = r.at(time.Second)
	r.fails(run)
	c = r.consumption(first, s)
	next := schedule.AttemptKey(run.Key)
	r.hold(c.Entry.Run == next && c.RunOpen && c.TakenAt.Equal(r.now) && c.Own == next && c.Attempts == 1, "the next attempt has it, got %+v", c)
	r.now = r.at(time.Minute)
	for _, l := range e.look() {
		r.succeed(l.Run)
	}
	c = r.consumption(first, s)
	r.hold(c.State == eventtopic.Consumed && !c.RunOpen && c.Own.IsZero() && c.WakeAt.Equal(r.now), "the end has written the wake row, got %+v", c)
	found, err := r.Consumptions(r.ctx, second+1000)
	r.hold(err == nil && len(found) == 0, "an event that is not there has no entries: %v", err)
}

// topicsOf are the topics of an owner from one on, one page after the other.
func (r *rig) topicsOf(userID string, limit int) (names []string) {
	r.Helper()
	f := eventtopic.NameFilter{UserID: userID, Limit: limit}
	for {
		found, err := r.ListTopics(r.ctx, f)
		r.ok(err, "list topics")
		for i := range found {
			r.hold(found[i].UserID == userID, "it is the owner's, got %+v", found[i])
			names = append(names, found[i].Topic)
		}
		if len(found) < limit {
			return names
		}
		f.After = found[len(found)-1]
	}
}

func eventTopics(r *rig) {
	e := r.events()
	s := r.consumer("c", []string{"orders", "orders.*", "quiet"})
	other := r.consumer("d", []string{"orders"})
	r.publish("orders", "a", "b")
	r.publish("orders.eu", "c")
	r.publish("unread", "d")
	equal(r, "topics", r.topicsOf(r.user, 2), []string{"orders", "orders.eu", "quiet", "unread"})
	equal(r, "another owner's", r.topicsOf(r.user+"2", 2), nil)
	all, err := r.ListTopics(r.ctx, eventtopic.NameFilter{After: eventtopic.Name{UserID: r.user, Topic: "orders"}, Limit: 1})
	r.ok(err, "list all")
	equal(r, "of all owners after one", all, []eventtopic.Name{{UserID: r.user, Topic: "orders.eu"}})
	read := func(name string, most int) eventtopic.Stats {
		out, err := r.ReadTopic(r.ctx, eventtopic.Name{UserID: r.user, Topic: name}, eventtopic.StatsAsk{Now: r.now, Most: most})
		r.ok(err, "read topic")
		return out
	}
	published := r.now
	r.now = r.at(2 * time.Hour)
	r.publish("orders", "e")
	orders := eventtopic.Name{UserID: r.user, Topic: "orders"}
	equal(r, "numbers", read("orders", 10), eventtopic.Stats{
		Name: orders, LastHour: 1, LastDay: 3, LastAt: r.now, Consumers: []eventtopic.ConsumerStats{
			{ScheduleID: s.ScheduleID, By: "orders", Pending: 3, OldestAt: published}, {ScheduleID: other.ScheduleID, By: "orders", Pending: 3, OldestAt: published},
		},
	})
	equal(r, "by a prefix", read("orders.eu", 10).Consumers, []eventtopic.ConsumerStats{{ScheduleID: s.ScheduleID, By: "orders.*", Pending: 1, OldestAt: published}})
	none, quiet := read("none", 2), read("quiet", 2)
	r.hold(read("orders", 2).AtLeast && !read("unread", 2).AtLeast && !none.Any() && quiet.Any(), "what exists, and what was counted")
	for _, l := range e.look() {
		r.fails(l.Run)
	}
	out := read("orders", 10).Consumers[0]
	r.hold(out.Pending == 0 && out.Dead == 3 && out.OldestAt.IsZero(), "dead ones are counted, got %+v", out)
}

func eventAudit(r *rig) {
	e := r.events()
	s := r.consumer("c", []string{"orders", "bills"})
	r.publish("bills", "x")
	r.publish("orders", "a", "b")
	r.publish("unread", "d")
	run := e.one()
	audit := func(f eventtopic.AuditFilter) (*eventtopic.Audit, []schedule.Key, bool) {
		a := eventtopic.NewAudit(r.now.AddDate(0, 0, -30))
		cut, err := r.AuditEvents(r.ctx, f, a.Add)
		r.ok(err, "audit")
		return a, a.End(), cut
	}
	f := eventtopic.AuditFilter{UserID: r.user, Topic: "orders", From: r.now, Until: r.at(time.Second), Limit: 10}
	a, keys, cut := audit(f)
	r.hold(a.Events == 2 && a.Fanout == 2 && a.Entries[s.ScheduleID][eventtopic.Reserved] == 2 && len(keys) == 0 && !cut && a.Broken == 0, "reserved ones, got %+v", a)
	r.publish("orders", "c")
	r.succeed(run)
	a, keys, cut = audit(f)
	r.hold(a.Events == 3 && a.Entries[s.ScheduleID][eventtopic.Consumed] == 2 && a.Entries[s.ScheduleID][eventtopic.Pending] == 1 && a.Broken == 0 && !cut, "consumed ones, got %+v", a)
	equal(r, "runs", keys, []schedule.Key{run.Key})
	runs, err := r.AuditRuns(r.ctx, append(keys, schedule.ManualKey("no", "run")))
	r.ok(err, "audit runs")
	r.hold(len(runs) == 2 && runs[0].Known && runs[0].Status == schedule.StatusSuccess && !runs[0].Open && runs[0].Count == 3 && len(runs[0].Batch) == 3 && runs[0].Digest == eventtopic.Digest(runs[0].Batch),
		"the run has consumed what it has taken, also of other topics, got %+v", runs)
	r.hold(!runs[1].Known && runs[1].Status == "" && !runs[1].Open && len(runs[1].Batch) == 0, "a run that is not there, got %+v", runs[1])
	a.CheckRuns(runs[:1])
	equal(r, "violations", a.Violations, nil)
	f.Limit = 2
	a, _, cut = audit(f)
	r.hold(a.Events == 2 && cut, "a cut, got %+v", a)
	f = eventtopic.AuditFilter{From: r.now, Until: r.at(time.Second), Limit: 1000}
	a, _, _ = audit(f)
	r.hold(a.Events >= 5, "all topics, got %d events", a.Events)
	f.Until = r.now
	a, _, _ = audit(f)
	equal(r, "an empty range", a.Events, 0)
	stray, err := r.StrayEntries(r.ctx, s.ScheduleID, 0, 1<<40, 10)
	r.hold(err == nil && len(stray) == 0, "no entry is without its event: %v %v", stray, err)
}
