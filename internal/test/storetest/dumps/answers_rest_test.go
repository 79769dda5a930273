package dumps_test

import (
	"fmt"
	"slices"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// everySchedule writes each schedule with its revisions, events and expectations.
func (a *answers) everySchedule() {
	a.title("schedules, tombstones included")
	for i := range a.runs {
		if id := a.runs[i].ScheduleID; !slices.Contains(a.ids, id) {
			a.ids = append(a.ids, id)
		}
	}
	rows, err := a.ListSchedules(a.ctx, schedule.ScheduleFilter{Now: end, Limit: page})
	a.say("living", len(rows), err)
	for i := range rows {
		if id := rows[i].ScheduleID; !slices.Contains(a.ids, id) {
			a.ids = append(a.ids, id)
		}
	}
	slices.Sort(a.ids)
	for _, id := range a.ids {
		s, err := a.GetSchedule(a.ctx, id)
		a.say(id, s, err)
		revisions, err := a.ListRevisions(a.ctx, id, 0, page)
		a.say(id+" revisions", revisions, err)
		events, err := a.ListEvents(a.ctx, id, 0, page)
		a.say(id+" events", events, err)
		states, err := a.ListExpectations(a.ctx, id)
		a.say(id+" expectations", states, err)
	}
}

func (a *answers) listedSchedules() {
	a.title("lists of schedules")
	for _, f := range []schedule.ScheduleFilter{
		{},
		{UserID: globex},
		{UserID: teamB},
		{WorkflowID: "backup"},
		{ManagedBy: "infra"},
		{GrantID: "good"},
		{Text: "CATCHUP"},
		{Text: "team=data"},
		{State: schedule.StateActive},
		{State: schedule.StatePaused},
		{State: schedule.StateExhausted},
		{Failing: true},
		{LabelKey: "tier", LabelValue: "1"},
		{OmitDetails: true, UserID: acme},
	} {
		f.Now, f.Limit = end, page
		views, err := a.users.List(a.ctx, f)
		what := a.text(f)
		if err != nil {
			a.say(what, nil, err)
			continue
		}
		fmt.Fprintf(&a.out, "%s: %d\n", what, len(views))
		for i := range views {
			v := &views[i]
			fmt.Fprintf(&a.out, "  %s next %s last %s paused %v input %d labels %d, %d outcomes, fails: %s\n", v.Schedule.ScheduleID,
				a.text(v.NextRunAt), a.text(v.Schedule.LastRunAt), v.Paused, len(v.Schedule.Input), len(v.Schedule.Labels), len(v.Recent.Outcomes), a.text(v.Recent.Failure))
		}
	}
	for _, owner := range []string{"", acme, globex, teamB} {
		upcoming, err := a.ListUpcoming(a.ctx, schedule.ScheduleFilter{UserID: owner, Now: end, Limit: page})
		fmt.Fprintf(&a.out, "upcoming of %q: %d, %v\n", owner, len(upcoming), err)
		for _, u := range upcoming {
			fmt.Fprintf(&a.out, "  %s %s\n", u.Schedule.ScheduleID, a.text(u.NextAt))
		}
		counts, err := a.users.Overview(a.ctx, schedule.FleetQuery{UserID: owner})
		a.say(fmt.Sprintf("overview of %q", owner), counts, err)
	}
	lag, err := a.Lag(a.ctx, end)
	a.say("lag", lag, err)
}

// instants are slots with every outcome, and instants without one.
var instants = []struct {
	id string
	at time.Time
}{
	{"report", feb28(6, 0)},
	{"report", mar1(6, 0)},
	{"report", mar1(12, 0)},
	{"report", mar2(18, 0)},
	{"report", mar1(7, 0)},
	{"report", feb28(0, 0).AddDate(0, -1, 0)},
	{"nightly", mar1(1, 30)},
	{"jittered", mar1(12, 5)},
	{"jittered", mar1(18, 5)},
	{"once", feb28(9, 0)},
	{"by-hand", feb28(13, 1)},
	{"ingest", mar2(12, 15)},
	{"ingest", mar2(8, 15)},
	{"ingest", mar2(4, 15)},
	{"compact", mar1(12, 20)},
	{"compact", mar2(0, 20)},
	{"compact", mar2(6, 20)},
	{"mirror", mar1(15, 0)},
	{"stubborn-mirror", mar1(12, 0)},
	{"stubborn-mirror", mar2(6, 0)},
	{"stubborn-mirror", mar2(12, 0)},
	{"slow-to-cancel", mar1(20, 0)},
	{"sync", mar1(9, 0)},
	{"sync", mar1(12, 0)},
	{"sync", mar1(15, 0)},
	{"sync", mar2(12, 0)},
	{"billed-good", mar1(8, 0)},
	{"billed-short", mar1(16, 0)},
	{"billed-revoked", mar1(16, 0)},
	{"billed-revoked", mar2(16, 0)},
	{"billed-wide", mar1(8, 0)},
	{"failing", mar1(12, 30)},
	{"flaky", feb28(0, 45)},
	{"flaky", mar1(16, 45)},
	{"refused", mar1(0, 50)},
	{"unreachable", feb28(0, 55)},
	{"deaf", mar1(0, 57)},
	{"silent", mar1(12, 35)},
	{"catchup-none", mar1(5, 10)},
	{"catchup-fire_immediately", mar1(5, 10)},
	{"catchup-spread", mar1(4, 10)},
	{"catchup-latest", mar1(4, 10)},
	{"catchup-latest", mar1(6, 10)},
	{"paused", mar1(8, 0)},
	{"paused", mar2(16, 0)},
	{"paused-for-a-while", mar2(0, 0)},
	{"paused-for-a-while", mar2(8, 0)},
	{"deleted", mar1(16, 0)},
	{"deleted", mar1(8, 0)},
	{"revived", mar1(16, 0)},
	{"revived", mar2(0, 0)},
	{"moved", mar1(8, 20)},
	{"moved", mar2(6, 20)},
	{"filled", feb28(0, 0).AddDate(0, 0, -3)},
}

func (a *answers) slots() {
	a.title("slots, as they are read and as they are explained")
	for _, i := range instants {
		what := i.id + " at " + i.at.Format(time.RFC3339)
		facts, err := a.ReadSlot(a.ctx, schedule.SlotQuery{ScheduleID: i.id, At: i.at, Now: end})
		if err != nil {
			a.say(what, nil, err)
			continue
		}
		fmt.Fprintf(&a.out, "%s\n", what)
		a.say("  runs", facts.Runs, nil)
		a.say("  blocking", facts.Blocking, nil)
		a.say("  events", facts.Events, nil)
		for _, r := range facts.Revisions {
			fmt.Fprintf(&a.out, "  revision %d\n", r.Revision)
		}
		answer, err := a.users.Explain(a.ctx, i.id, i.at)
		a.say("  explained", answer, err)
	}
	for i := range a.runs {
		if r := &a.runs[i]; r.Trigger == schedule.TriggerManual && r.Status == schedule.StatusLaunching {
			answer, err := a.users.Explain(a.ctx, r.ScheduleID, r.RunAt)
			a.say("a retrying run, and others of its instant", answer, err)
			break
		}
	}
	last, err := a.users.ExplainLast(a.ctx, "sync")
	a.say("last slot", last, err)
}

func (a *answers) outcomes() {
	a.title("outcomes")
	recent, err := a.RecentOutcomes(a.ctx, a.ids, 5)
	a.say("recent", len(recent), err)
	for _, id := range a.ids {
		a.say(id, recent[id], nil)
	}
	for _, owner := range []string{"", acme, globex, teamB} {
		groups, err := a.FailureGroups(a.ctx, owner)
		a.say(fmt.Sprintf("failing of %q", owner), groups, err)
	}
	for _, since := range []time.Time{begin, mar1(0, 0), mar2(11, 0)} {
		// A limit below the number of runs would cut between runs of one instant.
		ended, err := a.CountEnded(a.ctx, since, page)
		a.say("ended since "+since.Format(time.RFC3339), schedule.GroupEnded(ended), err)
		calls, err := a.CountCalls(a.ctx, since, page)
		a.say("calls since "+since.Format(time.RFC3339), calls, err)
	}
}

func (a *answers) backfills() {
	a.title("backfills")
	all, err := a.ListBackfills(a.ctx, schedule.BackfillFilter{Limit: page})
	a.say("all", all, err)
	for i := range all {
		b, err := a.GetBackfill(a.ctx, all[i].BackfillID)
		a.say(all[i].RequestID, b, err)
	}
	for _, f := range []schedule.BackfillFilter{{ScheduleID: "filled", State: schedule.BackfillRunning}, {UserID: globex, State: schedule.BackfillFinished}, {UserID: acme}} {
		f.Limit = page
		some, err := a.ListBackfills(a.ctx, f)
		a.say(a.text(f), len(some), err)
	}
	var slots []time.Time
	for at := feb28(0, 0).AddDate(0, 0, -7); at.Before(end); at = at.Add(8 * time.Hour) {
		slots = append(slots, at)
	}
	for _, id := range []string{"filled", "billed-revoked", "deleted", "nobody"} {
		standings, err := a.SlotStates(a.ctx, id, slots)
		a.say("slots of "+id, standings, err)
	}
}

func (a *answers) alerts() {
	a.title("alerts and messages")
	open := true
	for _, f := range []schedule.AlertFilter{{}, {UserID: acme}, {ScheduleID: "failing"}, {Kind: schedule.ExpectStart}, {Open: &open}} {
		f.Limit = page
		alerts, err := a.ListAlerts(a.ctx, f)
		a.say(a.text(f), alerts, err)
	}
	for _, f := range []schedule.DeliveryFilter{{}, {ScheduleID: "failing-too"}, {State: schedule.DeliveryPending}, {State: schedule.DeliveryDead}} {
		f.Limit = page
		sent, err := a.ListDeliveries(a.ctx, f)
		a.say(a.text(f), sent, err)
	}
	unmet, err := a.UnmetExpectations(a.ctx)
	a.say("unmet", unmet, err)
}

func (a *answers) rest() {
	a.title("grants")
	for _, f := range []schedule.GrantFilter{{}, {State: schedule.GrantActive}, {State: schedule.GrantRevoked}, {UserID: globex, State: schedule.GrantExpired}, {BillingAccountID: "account-1"}} {
		f.Limit, f.Now = page, end
		grants, err := a.ListGrants(a.ctx, f)
		a.say(a.text(f), grants, err)
	}
	a.title("workflows")
	versions, err := a.ListWorkflows(a.ctx, schedule.WorkflowFilter{Limit: page})
	a.say("versions", versions, err)
	for _, id := range []string{"etl", "backup"} {
		shares, err := a.ListShares(a.ctx, id, "", page)
		a.say("shares of "+id, shares, err)
	}
	dag, err := a.LoadDAG(a.ctx, acme, "backup", 1)
	a.say("DAG", string(dag), err)
	a.title("audit")
	for _, f := range []schedule.AuditFilter{{}, {Subject: "ada"}, {Target: "paused"}, {Method: "PauseSchedule", From: mar1(0, 0), To: mar2(0, 0)}} {
		f.Limit = page
		entries, err := a.ListAudit(a.ctx, f)
		a.say(a.text(f), entries, err)
	}
	a.title("leaders")
	leaders, err := a.Leaders(a.ctx, end)
	a.say("now", leaders, err)
	terms, err := a.ListTerms(a.ctx, schedule.TermFilter{Limit: page, Now: end})
	a.say("terms", terms, err)
	shards, err := a.Shards(a.ctx)
	a.say("shards", shards, err)
}
