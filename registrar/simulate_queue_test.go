package registrar_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/auth"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/store/memory"
	"github.com/carillon/carillon/registrar"
)

func (l *line) simulate(in registrar.SimulateQueueInput) *registrar.QueueSimulation {
	l.Helper()
	in.QueueID = orElse(in.QueueID, "gpu")
	done, err := l.SimulateQueue(l.Context(), in)
	if err != nil {
		l.Fatal(err)
	}
	return done
}

func orElse(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

func takes(d time.Duration) []registrar.AssumedDuration {
	return []registrar.AssumedDuration{{Run: registrar.AssumedRun{Duration: d}}}
}

func number(n uint32) *uint32 { return &n }

func TestTwoPlacesForOneHalveThePredictedEnd(t *testing.T) {
	onQueues(t, func(l *line) {
		for range 10 {
			l.one()
		}
		in := registrar.SimulateQueueInput{MaxInFlight: number(2), Durations: takes(30 * time.Second), Compare: true}
		got := l.simulate(in)
		if got.Saved.Sums.LastEnd.Sub(noon) != 300*time.Second || got.Proposed.Sums.LastEnd.Sub(noon) != 150*time.Second {
			l.Errorf("with one place it ends after %s, with two after %s; want 5 minutes and half of them", got.Saved.Sums.LastEnd.Sub(noon), got.Proposed.Sums.LastEnd.Sub(noon))
		}
		saved, proposed := got.Saved.Sums, got.Proposed.Sums
		if saved.Runs != 10 || saved.Started != 10 || saved.Ended != 10 || saved.Most != 1 || proposed.Most != 2 || saved.Share != 1 || proposed.Share != 1 {
			l.Errorf("saved %+v, proposed %+v", saved, proposed)
		}
		if saved.P50 != 120*time.Second || saved.Max != 270*time.Second || proposed.Max != 120*time.Second || saved.PerMinute != 2 || proposed.PerMinute != 4 {
			l.Errorf("waits of saved %+v, proposed %+v", saved.WaitSums, proposed.WaitSums)
		}
		if got := l.waiting(); len(got) != 10 {
			l.Errorf("after the simulation %d runs wait", len(got))
		}
		if q, err := l.GetQueue(l.Context(), "gpu"); err != nil || q.MaxInFlight != 1 || q.Revision != 1 {
			l.Errorf("the queue after the simulation: %+v, %v", q, err)
		}
	})
}

func TestArrivalsAndLimitsAreSimulated(t *testing.T) {
	onQueues(t, func(l *line) {
		putLimit(t, l.limits, "customer", func(lim *schedule.Limit) { lim.Keyed = true })
		in := registrar.SimulateQueueInput{
			MaxInFlight: number(10), Durations: takes(10 * time.Second), For: time.Minute,
			Arrivals: []registrar.Arrivals{{Name: "a", Every: 5 * time.Second, Limits: []string{"customer=a"}}, {Every: 30 * time.Second, Runs: 2, Limits: []string{"customer=b"}}},
		}
		got := l.simulate(in).Proposed
		// Of a, 11 enter and one starts every ten seconds from the fifth on; of the others 2 enter, one after the other.
		if got.Sums.Runs != 13 || got.Sums.Started != 8 || got.Sums.Waiting != 5 || got.Sums.Most != 2 || !got.Sums.LastEnd.IsZero() {
			l.Errorf("got %+v", got.Sums)
		}
		a := got.Sums.Keys["customer=a"]
		if a.Runs != 11 || a.Started != 6 || a.Max != 25*time.Second {
			l.Errorf("of a: %+v", a)
		}
		longest := got.Sums.Longest
		if len(longest) != 10 || longest[0].Wait != 25*time.Second || got.ArrivalsOf[longest[0].Run.Key] != "a" || got.ArrivalsOf[longest[9].Run.Key] == "" {
			l.Errorf("the longest waits are %+v", longest)
		}
		if use := got.Sums.Limits; len(use) != 2 || use[0].Ref.Key != "a" || use[0].Most != 1 || use[0].Max != 1 {
			l.Errorf("the use of the limits is %+v", use)
		}
		in.Limits = []registrar.ProposedLimit{{Limit: "customer", MaxInFlight: number(2)}, {Limit: "customer=b", MaxInFlight: number(0)}}
		if got := l.simulate(in).Proposed.Sums; got.Keys["customer=a"].Started != 11 || got.Keys["customer=b"].Started != 0 {
			l.Errorf("with two of a and none of b: %+v", got.Keys)
		}
	})
}

func TestASimulatedQueueIsEmptyIfAsked(t *testing.T) {
	onQueues(t, func(l *line) {
		l.one()
		if _, err := l.PauseQueue(l.Context(), registrar.PauseQueueInput{QueueID: "gpu", Actor: "bob"}); err != nil {
			l.Fatal(err)
		}
		in := registrar.SimulateQueueInput{Durations: takes(time.Second)}
		if got := l.simulate(in); got.Proposed.Sums.Started != 0 || got.Proposed.Sums.Waiting != 1 || !strings.Contains(strings.Join(got.Assumes, "\n"), "stays paused") {
			l.Errorf("paused: %+v", got)
		}
		in.Resumed = true
		if got := l.simulate(in).Proposed.Sums; got.Started != 1 {
			l.Errorf("as if it was resumed: %+v", got)
		}
		in.Resumed, in.Empty = false, true
		if got := l.simulate(in).Proposed.Sums; got.Runs != 0 || !got.LastEnd.IsZero() {
			l.Errorf("empty: %+v", got)
		}
	})
}

// It could not be saved.
func TestAFairQueueIsSimulatedWithoutPromotions(t *testing.T) {
	onQueues(t, func(l *line) {
		l.fair(nil)
		in := registrar.SimulateQueueInput{QueueID: "gpu", Durations: takes(time.Second), PromoteAfter: number(1000)}
		if _, err := l.SimulateQueue(l.Context(), in); err == nil || !strings.Contains(err.Error(), "definition.promote_after_ms: 1000 (1s) is set for a queue with fair: key") {
			l.Errorf("with a promotion: %v", err)
		}
		in.PromoteAfter = number(0)
		if _, err := l.SimulateQueue(l.Context(), in); err != nil {
			l.Errorf("without one: %v", err)
		}
	})
}

func TestTheSameSeedGivesTheSameSimulation(t *testing.T) {
	onQueues(t, func(l *line) {
		in := registrar.SimulateQueueInput{
			Empty: true, Seed: 1, Durations: []registrar.AssumedDuration{{Run: registrar.AssumedRun{Duration: time.Second, P95: 20 * time.Second}}},
			Arrivals: []registrar.Arrivals{{Every: 3 * time.Second, Random: true}},
		}
		one, two := l.simulate(in).Proposed.Sums, l.simulate(in).Proposed.Sums
		in.Seed = 2
		other := l.simulate(in).Proposed.Sums
		if one.WaitSums != two.WaitSums || one.WaitSums == other.WaitSums {
			l.Errorf("seed 1: %+v and %+v, seed 2: %+v", one.WaitSums, two.WaitSums, other.WaitSums)
		}
		if one.Runs < 1000 || one.Runs > 1400 || one.P50 >= one.P90 || one.P90 > one.Max {
			l.Errorf("1200 runs are expected in an hour, and other waits than %+v", one.WaitSums)
		}
	})
}

func TestABadSimulationOfAQueueIsRefused(t *testing.T) {
	onQueues(t, func(l *line) {
		putLimits(t, l.limits)
		for name, c := range map[string]struct {
			in          registrar.SimulateQueueInput
			field, says string
		}{
			"too many runs":             {registrar.SimulateQueueInput{Arrivals: []registrar.Arrivals{{Every: time.Millisecond}}}, "for_ms", "more than 10000 runs"},
			"too long":                  {registrar.SimulateQueueInput{For: days(31)}, "for_ms", "2592000000"},
			"no place":                  {registrar.SimulateQueueInput{MaxInFlight: number(0)}, "definition.max_in_flight", "10000"},
			"a rate of more at once":    {registrar.SimulateQueueInput{Rate: &schedule.RateDefinition{Starts: 1, PerMS: 1, Burst: 2}}, "definition.rate.burst", "over starts"},
			"no time between arrivals":  {registrar.SimulateQueueInput{Arrivals: []registrar.Arrivals{{}}}, "arrivals[0].every_ms", "86400000"},
			"two arrivals of one name":  {registrar.SimulateQueueInput{Arrivals: []registrar.Arrivals{{Name: "a", Every: time.Minute}, {Name: "a", Every: time.Minute}}}, "arrivals[1].name", "twice"},
			"a priority of 1001":        {registrar.SimulateQueueInput{Arrivals: []registrar.Arrivals{{Every: time.Minute, Priority: 1001}}}, "arrivals[0].priority", "1000"},
			"a failure":                 {registrar.SimulateQueueInput{Durations: []registrar.AssumedDuration{{Run: registrar.AssumedRun{FailurePercent: 5}}}}, "durations[0].run.failure_percent", "succeed"},
			"two times of one workflow": {registrar.SimulateQueueInput{Durations: []registrar.AssumedDuration{{}, {}}}, "durations[1].workflow_id", "twice"},
			"a foreign limit":           {registrar.SimulateQueueInput{Arrivals: []registrar.Arrivals{{Every: time.Minute, Limits: []string{"gpu2"}}}}, "arrivals[0].limits[0]", "another owner"},
			"an unknown limit":          {registrar.SimulateQueueInput{Limits: []registrar.ProposedLimit{{Limit: "none", MaxInFlight: number(1)}}}, "limits[0].limit", "does not exist"},
			"a limit without numbers":   {registrar.SimulateQueueInput{Limits: []registrar.ProposedLimit{{Limit: "gpu"}}}, "limits[0].max_in_flight", "not set"},
			"a key of an unkeyed limit": {registrar.SimulateQueueInput{Limits: []registrar.ProposedLimit{{Limit: "gpu=a", MaxInFlight: number(1)}}}, "limits[0].limit", "has a key"},
		} {
			c.in.QueueID = "gpu"
			if len(c.in.Durations) == 0 {
				c.in.Durations = takes(time.Second)
			}
			_, err := l.SimulateQueue(l.Context(), c.in)
			invalid, ok := errors.AsType[*schedule.InvalidError](err)
			if !ok || invalid.Violations[0].Field != c.field || !strings.Contains(err.Error(), c.says) {
				l.Errorf("%s: got %v, want %s refused with %q", name, err, c.field, c.says)
			}
		}
		if _, err := l.SimulateQueue(l.Context(), registrar.SimulateQueueInput{QueueID: "none"}); !errors.Is(err, schedule.ErrNotFound) {
			l.Errorf("a queue that does not exist: %v", err)
		}
		l.one()
		if _, err := l.SimulateQueue(l.Context(), registrar.SimulateQueueInput{QueueID: "gpu"}); !errors.Is(err, schedule.ErrPrecondition) || !strings.Contains(err.Error(), "give durations") {
			l.Errorf("without a known run time: %v", err)
		}
	})
}

// days is so many days.
func days(n int) time.Duration { return time.Duration(n) * 24 * time.Hour }

// An owner sees how full a shared queue gets, but neither runs nor limits of others.
func TestASimulationShowsAnOwnerItsOwnRuns(t *testing.T) {
	t.Parallel()
	m := memory.New(memory.Options{})
	r := registrar.New(registrar.Options{
		Schedules: m, Runs: m, Grants: m, Queues: m, Entries: m, Copies: m, Limits: m, Now: func() time.Time { return noon }, Logger: quiet,
	})
	q := gpuQueue()
	q.Shared = true
	if _, err := r.UpsertQueue(t.Context(), q); err != nil {
		t.Fatal(err)
	}
	putLimits(t, m)
	for owner, limit := range map[string]string{"ada": "customer=a", "eve": "gpu2"} {
		if _, err := r.Enqueue(t.Context(), registrar.EnqueueInput{QueueID: "gpu", UserID: owner, Runs: []registrar.QueuedInput{job(using(limit))}}); err != nil {
			t.Fatal(err)
		}
	}
	ada := auth.NewContext(t.Context(), auth.Identity{Subject: "ada", Owner: "ada", Roles: []auth.Role{auth.User}})
	got, err := r.SimulateQueue(ada, registrar.SimulateQueueInput{QueueID: "gpu", Durations: takes(time.Second)})
	if err != nil {
		t.Fatal(err)
	}
	s := got.Proposed.Sums
	if s.Runs != 2 || len(s.Longest) != 1 || len(s.Keys) != 1 || len(s.Limits) != 1 || s.Limits[0].Ref.ID != "customer" {
		t.Errorf("ada sees %+v", s)
	}
	private := gpuQueue()
	private.QueueID, private.UserID = "hers", "eve"
	if _, err := r.UpsertQueue(t.Context(), private); err != nil {
		t.Fatal(err)
	}
	if _, err := r.SimulateQueue(ada, registrar.SimulateQueueInput{QueueID: "hers"}); !errors.Is(err, schedule.ErrNotFound) {
		t.Errorf("a private queue of eve: %v", err)
	}
}

func TestTheStartOfARunAndOfASlotAheadIsEstimated(t *testing.T) {
	onQueues(t, func(l *line) {
		first, second, third := l.one(), l.one(), l.one()
		start := func(key schedule.Key) (after time.Duration, text string) {
			l.Helper()
			a, err := l.ExplainRun(l.Context(), key)
			if err != nil || a.WouldStart == nil {
				l.Fatalf("explained: %+v, %v", a, err)
			}
			return a.WouldStart.P50.Sub(l.now), strings.Join(append(a.Lines, a.WouldStart.Assumes...), "\n")
		}
		if after, text := start(first); after != 0 || strings.Contains(text, "would start") {
			l.Errorf("the next starts after %s: %s", after, text)
		}
		if _, text := start(second); !strings.Contains(text, "No estimate of its start") || !strings.Contains(text, "no run of the queue has ended") {
			l.Errorf("without an ended run: %s", text)
		}
		l.admit(1)
		l.now = l.now.Add(30 * time.Second)
		if _, _, err := l.Report(l.Context(), registrar.ReportInput{Key: first, Status: schedule.StatusSuccess}); err != nil {
			l.Fatal(err)
		}
		l.admit(1)
		l.now = l.now.Add(10 * time.Second)
		if after, text := start(third); after != 20*time.Second || !strings.Contains(text, "It would start at about 2026-03-02T12:01:00Z, after 20 seconds, if nothing comes before it") {
			l.Errorf("behind a run of 30 seconds that began 10 seconds ago: after %s: %s", after, text)
		}
		impatient := job(func(in *registrar.QueuedInput) { in.ExpiresMS = most(5_000) })
		out, err := l.Enqueue(l.Context(), registrar.EnqueueInput{QueueID: "gpu", UserID: "ada", Runs: []registrar.QueuedInput{impatient}})
		if err != nil {
			l.Fatal(err)
		}
		if _, text := start(out.Keys[0]); !strings.Contains(text, "It will have expired by then") {
			l.Errorf("a run that may wait for 5 seconds: %s", text)
		}
		if _, err := l.CancelRun(l.Context(), registrar.CancelInput{Key: out.Keys[0]}); err != nil {
			l.Fatal(err)
		}
		rule := registrar.UpsertInput{Definition: schedule.Definition{ScheduleID: "nightly", WorkflowID: "w", Version: 1, UserID: "ada", CronExpr: "* * * * *", QueueID: "gpu"}}
		if _, err := l.Upsert(l.Context(), rule); err != nil {
			l.Fatal(err)
		}
		slot := l.now.Truncate(time.Minute).Add(time.Minute)
		a, err := l.Explain(l.Context(), "nightly", slot)
		if err != nil || a.WouldStart == nil {
			l.Fatalf("the slot is explained as %+v, %v", a, err)
		}
		// third is in flight from 12:01:00 to 12:01:30.
		if text := strings.Join(a.Sentences(), "\n"); a.WouldStart.P50.Sub(slot) != 30*time.Second || !strings.Contains(text, "after 30 seconds") {
			l.Errorf("the slot at %s starts at %s: %s", slot, a.WouldStart.P50, text)
		}
	})
}

// Runs of the schedule's owner wait already: in a fair queue they are those of its key.
func TestASlotAheadTakesTheTurnOfItsKey(t *testing.T) {
	for _, c := range []struct {
		fairKey string
		after   time.Duration
	}{{"", 90 * time.Second}, {"mine", 60 * time.Second}} {
		t.Run("fair_key "+c.fairKey, func(t *testing.T) {
			onQueues(t, func(l *line) {
				first := l.one()
				l.admit(1)
				l.now = l.now.Add(30 * time.Second)
				if _, _, err := l.Report(l.Context(), registrar.ReportInput{Key: first, Status: schedule.StatusSuccess}); err != nil {
					l.Fatal(err)
				}
				l.fair(nil)
				l.now = l.now.Truncate(time.Minute).Add(59 * time.Second)
				for range 3 {
					l.one()
				}
				rule := registrar.UpsertInput{Definition: schedule.Definition{
					ScheduleID: "nightly", WorkflowID: "w", Version: 1, UserID: "ada", CronExpr: "* * * * *", QueueID: "gpu", FairKey: c.fairKey,
				}}
				if _, err := l.Upsert(l.Context(), rule); err != nil {
					l.Fatal(err)
				}
				slot := l.now.Add(time.Second)
				a, err := l.Explain(l.Context(), "nightly", slot)
				if err != nil || a.WouldStart == nil {
					l.Fatalf("the slot is explained as %+v, %v", a, err)
				}
				if got := a.WouldStart.P50.Sub(l.now); got != c.after {
					l.Errorf("it starts %s from now, want %s: %s", got, c.after, strings.Join(a.Sentences(), "; "))
				}
			})
		})
	}
}

func TestTheRunsOfAPullQueueAreFetchedInASimulation(t *testing.T) {
	onQueues(t, func(l *line) {
		for range 3 {
			l.one()
		}
		q := gpuQueue()
		q.Delivery = schedule.DeliveryPull
		if _, err := l.UpsertQueue(l.Context(), q); err != nil {
			l.Fatal(err)
		}
		got := l.simulate(registrar.SimulateQueueInput{Durations: takes(30 * time.Second)})
		if sums := got.Proposed.Sums; sums.Started != 3 || sums.LastEnd.Sub(noon) != 90*time.Second {
			l.Errorf("%d runs started, the last ended after %s; want 3 and 90 seconds", sums.Started, sums.LastEnd.Sub(noon))
		}
		if !strings.Contains(strings.Join(got.Assumes, "\n"), "Workers fetch its runs as soon as they may start") {
			l.Errorf("it assumes %q", got.Assumes)
		}
	})
}
