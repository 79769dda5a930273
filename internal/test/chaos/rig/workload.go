package main

import (
	"fmt"
	"time"

	"github.com/carillon/carillon/internal/test/chaos/check"
	"github.com/carillon/carillon/internal/test/chaos/record"
)

// workload is what every dose registers: the probes, whose jitter spreads them
// over every second; every policy and kind of spec; and schedules that people
// change all the time.
func workload(now time.Time, probes int, runTimeout time.Duration) []record.Definition {
	soon := now.UTC().Truncate(time.Second)
	var all []record.Definition
	policies := []string{"none", "fire_immediately", "spread", "latest"}
	owners := []string{"ada", "bob", "cyd"}
	for i := range probes {
		all = append(all, record.Definition{
			ScheduleID: fmt.Sprintf("%s%02d", check.Probe, i), CronExpr: "* * * * * *", OverlapPolicy: "allow",
			JitterMS: 1000, CatchupPolicy: policies[i%len(policies)], UserID: owners[i%len(owners)],
		})
	}
	all = append(all, []record.Definition{
		{ScheduleID: "replace-1s", CronExpr: "* * * * * *", OverlapPolicy: "replace"},
		{ScheduleID: "replace-2s", CronExpr: "*/2 * * * * *", OverlapPolicy: "replace", CatchupPolicy: "fire_immediately"},
		{ScheduleID: "replace-every-3s", IntervalMS: 3000, OverlapPolicy: "replace", CatchupPolicy: "latest"},
		{ScheduleID: "replace-5s", CronExpr: "*/5 * * * * *", OverlapPolicy: "replace", JitterMS: 1000},
		{ScheduleID: "allow-2s-jitter", CronExpr: "*/2 * * * * *", OverlapPolicy: "allow", JitterMS: 700},
		{ScheduleID: "allow-3s-jitter-latest", CronExpr: "*/3 * * * * *", OverlapPolicy: "allow", JitterMS: 5000, CatchupPolicy: "latest"},
		{ScheduleID: "allow-odd", CronExpr: "1-59/2 * * * * *", OverlapPolicy: "allow", Timezone: "Asia/Kolkata"},
		{ScheduleID: "allow-list", CronExpr: "0,7,11-13,30-44/3,58 * * * * *", OverlapPolicy: "allow", Timezone: "Asia/Kathmandu"},
		{ScheduleID: "allow-every-2s", IntervalMS: 2000, OverlapPolicy: "allow"},
		{ScheduleID: "allow-every-3s-from", IntervalMS: 3000, StartAt: soon.Add(7 * time.Second), OverlapPolicy: "allow", CatchupPolicy: "latest"},
		{ScheduleID: "allow-until", CronExpr: "* * * * * *", OverlapPolicy: "allow", EndAt: soon.Add(15 * time.Second)},
		{ScheduleID: "once", OnceAt: soon.Add(9 * time.Second), OverlapPolicy: "allow", CatchupPolicy: "latest"},
		{ScheduleID: "skip-1s", CronExpr: "* * * * * *", OverlapPolicy: "skip"},
		{ScheduleID: "skip-1s-caught-up", CronExpr: "* * * * * *", CatchupPolicy: "fire_immediately"},
		{ScheduleID: "skip-2s", CronExpr: "*/2 * * * * *", OverlapPolicy: "skip", Timezone: "Asia/Tokyo"},
		{ScheduleID: "skip-2s-jitter", CronExpr: "*/2 * * * * *", OverlapPolicy: "skip", JitterMS: 900},
		{ScheduleID: "skip-every-3s", IntervalMS: 3000, OverlapPolicy: "skip", CatchupPolicy: "latest"},
		{ScheduleID: "skip-5s", CronExpr: "*/5 * * * * *", OverlapPolicy: "skip", CatchupPolicy: "spread"},
		{ScheduleID: "skip-shared-a", CronExpr: "*/2 * * * * *", OverlapPolicy: "skip", OverlapKey: "shared"},
		{ScheduleID: "queue-shared-b", CronExpr: "*/5 * * * * *", OverlapPolicy: "queue", OverlapKey: "shared"},
		{ScheduleID: "queue-1s", CronExpr: "* * * * * *", OverlapPolicy: "queue", CatchupPolicy: "latest"},
		{ScheduleID: "queue-1s-one", CronExpr: "* * * * * *", OverlapPolicy: "queue", MaxQueued: 1, CatchupPolicy: "spread"},
		{ScheduleID: "queue-2s", CronExpr: "*/2 * * * * *", OverlapPolicy: "queue", CatchupPolicy: "fire_immediately"},
		{ScheduleID: "queue-every-3s", IntervalMS: 3000, OverlapPolicy: "queue"},
		{ScheduleID: "queue-5s-jitter", CronExpr: "*/5 * * * * *", OverlapPolicy: "queue", JitterMS: 2000},
	}...)
	for i, overlap := range []string{"allow", "skip", "queue", "allow"} {
		for _, kind := range []string{edited, paused, dropped} {
			all = append(all, record.Definition{ScheduleID: fmt.Sprintf("%s-%d", kind, i), CronExpr: "* * * * * *", OverlapPolicy: overlap})
		}
	}
	all = append(all, record.Definition{ScheduleID: triggered, CronExpr: "*/7 * * * * *", OverlapPolicy: "allow"})
	all = append(all, record.Definition{CronExpr: "*/3 * * * * *", OverlapPolicy: "allow"}) // without an id: known by its request
	for i := range all {
		d := &all[i]
		d.WorkflowID, d.Version, d.RunTimeoutMS = "oracle", 1, int(runTimeout.Milliseconds())
		if d.UserID == "" {
			d.UserID = "ada"
		}
		d.Input = map[string]any{"n": i, "text": "ä<&>\u2028"}
	}
	return all
}

// Whose schedules these ids begin is changed in one way each.
const (
	edited    = "edited"
	paused    = "paused"
	dropped   = "dropped"
	triggered = "triggered"
)

// rewritten is the definition with another spec, for an edit.
func rewritten(d record.Definition, pick int) record.Definition {
	d.CronExpr = []string{"* * * * * *", "*/2 * * * * *", "1-59/2 * * * * *", "0-29,40-50/2 * * * * *", "*/3 * * * * *"}[pick%5]
	d.JitterMS = []int{0, 400, 900}[pick%3]
	d.Input = map[string]any{"edit": pick}
	return d
}
