package worker_test

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/registrar"
)

// hostClock is the machine's clock in a bubble, which can be set.
type hostClock struct {
	mu     sync.Mutex
	offset time.Duration
	steps  chan [2]time.Time
}

func (c *hostClock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Add(c.offset)
}

func (c *hostClock) set(by time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.offset += by
}

func (c *hostClock) use(r *rig) {
	c.steps = make(chan [2]time.Time, 1)
	r.options.HostClock = c.now
	r.options.OnClockStep = func(from, to time.Time) { c.steps <- [2]time.Time{from, to} }
}

func every(expr string) registrar.UpsertInput {
	return registrar.UpsertInput{Definition: schedule.Definition{
		ScheduleID: "s", WorkflowID: "w", Version: 1, UserID: "u", CronExpr: expr, OverlapPolicy: schedule.OverlapAllow,
	}}
}

// fired counts the slots that reached the executor, none of them twice.
func fired(r *rig) int {
	seen := make(map[schedule.Key]int)
	for _, call := range r.executor.calls("s") {
		if seen[call.Key]++; seen[call.Key] > 1 {
			r.Errorf("the slot at %s fired twice", call.ScheduledFor)
		}
	}
	return len(seen)
}

func TestAClockThatIsSetBackAnHourFiresNoSlotAgainAndLosesNone(t *testing.T) {
	clock := &hostClock{}
	inBubble(t, func(r *rig) {
		if _, err := r.registrar.Upsert(r.Context(), every("*/10 * * * * *")); err != nil {
			r.Fatal(err)
		}
		stop := r.start()
		time.Sleep(31 * time.Second)
		before := fired(r)
		clock.set(-time.Hour)
		step := <-clock.steps
		if err := r.store.Rewind(r.Context(), step[0], step[1]); err != nil {
			r.Fatal(err)
		}
		time.Sleep(30 * time.Second) // the past hour has slots of its own now
		stop()
		if after := fired(r) - before; after < 2 || after > 4 {
			r.Errorf("%d slots fired in half a minute after the step; want 3", after)
		}
		events, err := r.registrar.Events(r.Context(), "s", 0, 50)
		if err != nil {
			r.Fatal(err)
		}
		if !slices.ContainsFunc(events, func(e schedule.Event) bool { return e.Kind == schedule.EventClockStepped }) {
			r.Error("no event says that the clock was set back")
		}
	}, clock.use)
}

func TestAClockThatIsSetBackAFewSecondsHoldsNowStill(t *testing.T) {
	clock := &hostClock{}
	inBubble(t, func(r *rig) {
		if _, err := r.registrar.Upsert(r.Context(), every("* * * * * *")); err != nil {
			r.Fatal(err)
		}
		stop := r.start()
		time.Sleep(8 * time.Second)
		clock.set(-5 * time.Second)
		time.Sleep(8 * time.Second)
		stop()
		// Eight seconds, then five in which now does not change, then three.
		if n := fired(r); n < 9 || n > 12 {
			r.Errorf("%d slots fired; want about 11", n)
		}
	}, clock.use)
}
