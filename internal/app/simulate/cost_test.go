package simulate_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/app/simulate"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/work"
	"github.com/carillon/carillon/registrar"
	"github.com/carillon/carillon/worker"
)

// dear is a scenario of 10,000 slots that is made to cost as much as it can.
type dear struct {
	name      string
	schedules int
	cron      string
	overlap   schedule.OverlapPolicy
	sharedKey bool
	took      time.Duration
	jitter    time.Duration
	catchup   schedule.CatchupPolicy
	outages   []registrar.Span
	pauses    []registrar.Span
}

// spans are n spans of the given length, one after each period.
func spans(period, long time.Duration, n int) (out []registrar.Span) {
	for i := range n {
		at := midnight.Add(time.Duration(i) * period)
		out = append(out, registrar.Span{From: at, Until: at.Add(long)})
	}
	return out
}

const everySecond = "* * * * * *"

var dearScenarios = []dear{
	{name: "a thousand runs of one schedule wait", schedules: 1, overlap: schedule.OverlapQueue, took: 1100 * time.Millisecond},
	{name: "a thousand runs wait and the queue is always full", schedules: 1, overlap: schedule.OverlapQueue, took: 2 * time.Second},
	{name: "a thousand runs of each of ten schedules wait", schedules: 10, overlap: schedule.OverlapQueue, took: 1100 * time.Millisecond},
	{name: "fifty schedules wait for one key", schedules: 50, sharedKey: true, overlap: schedule.OverlapQueue, took: 100 * time.Millisecond},
	{name: "fifty schedules wait for one key that is free fifty times a second", schedules: 50, sharedKey: true, overlap: schedule.OverlapQueue, took: 20 * time.Millisecond},
	{name: "fifty schedules wait for hours", schedules: 50, cron: "* * * * *", overlap: schedule.OverlapQueue, took: 90 * time.Second},
	{name: "no run ever ends", schedules: 50, overlap: schedule.OverlapAllow, took: 720 * time.Hour},
	{name: "no run of one schedule ever ends", schedules: 1, overlap: schedule.OverlapAllow, took: 720 * time.Hour},
	{name: "every run replaces the one before", schedules: 1, overlap: schedule.OverlapReplace, took: 1500 * time.Millisecond},
	{name: "every second run is skipped", schedules: 1, overlap: schedule.OverlapSkip, took: 1500 * time.Millisecond},
	{name: "an hour of jitter", schedules: 50, cron: "* * * * *", overlap: schedule.OverlapAllow, took: time.Hour, jitter: time.Hour},
	{name: "a hundred outages, all caught up", schedules: 1, overlap: schedule.OverlapQueue, took: 1100 * time.Millisecond, catchup: schedule.CatchupFireImmediately, outages: spans(100*time.Second, 90*time.Second, 100)},
	{name: "a hundred outages of fifty schedules, all caught up", schedules: 50, overlap: schedule.OverlapAllow, took: time.Hour, catchup: schedule.CatchupFireImmediately, outages: spans(2*time.Second, 1500*time.Millisecond, 100)},
	{name: "a hundred outages, spread", schedules: 50, overlap: schedule.OverlapQueue, took: time.Second, catchup: schedule.CatchupSpread, outages: spans(2*time.Second, 1500*time.Millisecond, 100)},
	{name: "a hundred pauses", schedules: 1, overlap: schedule.OverlapQueue, took: 1100 * time.Millisecond, pauses: spans(100*time.Second, 1900*time.Millisecond, 100)},
	{name: "a hundred pauses of fifty schedules", schedules: 50, overlap: schedule.OverlapQueue, took: 300 * time.Millisecond, pauses: spans(2*time.Second, 1900*time.Millisecond, 100)},
}

func (d dear) scenario() registrar.Scenario {
	step := time.Second
	if d.cron != "" {
		step = time.Minute
	} else {
		d.cron = everySecond
	}
	out := registrar.Scenario{From: midnight, Outages: d.outages}
	out.Until = midnight.Add(registrar.MaxSimulatedSlots / time.Duration(d.schedules) * step)
	for i := range d.schedules {
		s := everyMinute(fmt.Sprint("s", i), d.overlap, d.took)
		s.Pauses = d.pauses
		s.Schedule.CronExpr, s.Schedule.MaxQueued, s.Schedule.JitterMS = d.cron, schedule.MaxQueuedLimit, uint32(d.jitter.Milliseconds())
		s.Schedule.CatchupWindowMS, s.Schedule.RunTimeoutMS = uint32(schedule.MaxCatchupWindow.Milliseconds()), uint32(schedule.MaxRunTimeout.Milliseconds())
		if d.catchup != "" {
			s.Schedule.CatchupPolicy = d.catchup
		}
		if d.sharedKey {
			s.Schedule.OverlapKey = "shared"
		}
		out.Schedules = append(out.Schedules, s)
	}
	return out
}

// The work is counted, not timed: a machine that is busy changes nothing.
func TestTheDearestScenariosStayWithinTheWorkOfOneCall(t *testing.T) {
	t.Parallel()
	for _, d := range dearScenarios {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			budget := work.New(work.PerCall)
			slots, err := simulate.New(worker.Config{}).Simulate(t.Context(), d.scenario(), budget)
			t.Logf("%.1f million steps", float64(budget.Spent())/1e6)
			// One pass may overspend before the simulation looks at its budget.
			if over := budget.Spent() - work.PerCall; over > work.PerCall/100 {
				t.Errorf("%d steps more than one call may do", over)
			}
			if err != nil || len(slots) != registrar.MaxSimulatedSlots {
				t.Errorf("%d slots, %v; want all %d", len(slots), err, registrar.MaxSimulatedSlots)
			}
		})
	}
}

// endsAfter is a context that is cancelled once it has been looked at n times.
type endsAfter struct {
	context.Context
	left int
}

func (c *endsAfter) Err() error {
	if c.left--; c.left < 0 {
		return context.Canceled
	}
	return nil
}

func TestASimulationThatNobodyWaitsForEndsInTheMiddle(t *testing.T) {
	t.Parallel()
	budget := work.New(work.PerCall)
	ctx := &endsAfter{Context: t.Context(), left: 10}
	_, err := simulate.New(worker.Config{}).Simulate(ctx, dearScenarios[0].scenario(), budget)
	if !errors.Is(err, context.Canceled) || budget.Spent() > work.PerCall/10 {
		t.Errorf("%v after %d steps, want a cancelled simulation after a part of them", err, budget.Spent())
	}
}
