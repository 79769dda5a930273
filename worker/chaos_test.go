package worker_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/launcher"
	"github.com/carillon/carillon/registrar"
)

// chaos is a random piece of the life of a schedule: workers come
// and go, the executor does whatever executors do, people pause, deploy,
// cancel and start runs by hand.
type chaos struct {
	*rig
	rand   *rand.Rand
	s      *schedule.Schedule
	paused []span // slots in these need neither row nor range

	mu      sync.Mutex
	effects map[schedule.Key]bool // what took effect; the executor honours keys
}

type span struct{ from, until time.Time }

// CHAOS_SEEDS=400 is a long look; the default is short enough for every day.
func TestWhateverHappensEachSlotHasOneEndAndOneEffect(t *testing.T) {
	seeds, turns := 2, 6
	if n, err := strconv.Atoi(os.Getenv("CHAOS_SEEDS")); err == nil {
		seeds, turns = n, 25
	}
	for seed := range seeds {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			inBubble(t, func(r *rig) {
				c := &chaos{rig: r, rand: rand.New(rand.NewPCG(uint64(seed), 7)), effects: make(map[schedule.Key]bool)}
				c.live(turns)
			})
		})
	}
}

func (c *chaos) live(turns int) {
	c.config.Grace, c.config.RetryFor, c.config.MaxLaunches = 3*time.Second, 5*time.Second, 1+c.rand.IntN(5)
	c.s = c.every("s", time.Second, runTimeout(5*time.Second),
		overlap([]schedule.OverlapPolicy{schedule.OverlapSkip, schedule.OverlapQueue, schedule.OverlapAllow, schedule.OverlapReplace}[c.rand.IntN(4)]),
		catchup(schedule.CatchupPolicies[c.rand.IntN(len(schedule.CatchupPolicies))]))
	c.executor.will(c.answer)
	c.executor.cancel = func(schedule.CancelRequest) error {
		return []error{nil, nil, errCut, schedule.ErrNotFound, launcher.ErrUnsupported}[c.chance(5)]
	}
	stop := c.start()
	for range turns {
		time.Sleep(time.Duration(c.chance(2500)) * time.Millisecond)
		switch c.chance(8) {
		case 0, 1:
			stop()
			time.Sleep(time.Duration(c.chance(8000)) * time.Millisecond)
			stop = c.start()
		case 2:
			c.pauseForAWhile()
		case 3, 4:
			c.s.Labels = map[string]string{"build": strconv.Itoa(c.chance(1000))}
			c.upsertAgain(c.s)
		case 5:
			c.byHand()
		case 6:
			c.cancelSomething()
		}
	}
	end := time.Now().Truncate(time.Second)
	c.executor.will(c.succeed)
	if _, err := c.registrar.Pause(c.Context(), registrar.PauseInput{ScheduleID: "s"}); err != nil {
		c.Fatal(err)
	}
	time.Sleep(12 * time.Second) // longer than any bound
	stop()
	c.executor.reports.Wait()
	c.check(end)
}

func (c *chaos) pauseForAWhile() {
	from := time.Now()
	c.pause("s", time.Time{})
	time.Sleep(time.Duration(c.chance(4000)) * time.Millisecond)
	if _, err := c.registrar.Resume(c.Context(), registrar.ResumeInput{ScheduleID: "s"}); err != nil {
		c.Fatal(err)
	}
	c.paused = append(c.paused, span{from, time.Now()})
}

func (c *chaos) byHand() {
	in := registrar.TriggerInput{ScheduleID: "s", OverlapPolicy: schedule.OverlapQueue}
	if _, err := c.registrar.Trigger(c.Context(), in); err != nil {
		c.Error(err)
	}
}

func (c *chaos) cancelSomething() {
	for _, run := range c.runs("s") {
		if run.Status.InFlight() {
			if _, err := c.registrar.CancelRun(c.Context(), registrar.CancelInput{Key: run.Key}); err != nil {
				c.Error(err)
			}
			return
		}
	}
}

func (c *chaos) chance(n int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.rand.IntN(n)
}

// answer does what executors do. A key that it has seen has no second effect.
func (c *chaos) answer(ctx context.Context, call launcher.Call) (schedule.Outcome, error) {
	what := c.chance(10)
	c.mu.Lock()
	seen := c.effects[call.Key]
	c.mu.Unlock()
	if what == 4 && seen {
		what = 9 // what it took it does not refuse later
	}
	switch what {
	case 0:
		return notSent(ctx, call)
	case 1:
		return lose(ctx, call) // before it arrived
	case 2:
		_, _ = c.succeed(ctx, call)
		return lose(ctx, call)
	case 3:
		return hang(ctx, call)
	case 4:
		return schedule.Outcome{}, &launcher.Refusal{Code: "no"}
	case 5, 6:
		return c.accept(ctx, call)
	case 7:
		time.Sleep(time.Duration(c.chance(1500)) * time.Millisecond)
	}
	return c.succeed(ctx, call)
}

func (c *chaos) succeed(ctx context.Context, call launcher.Call) (schedule.Outcome, error) {
	c.mu.Lock()
	c.effects[call.Key] = true
	c.mu.Unlock()
	return success(ctx, call)
}

// accept takes the run and reports its end later, mostly.
func (c *chaos) accept(ctx context.Context, call launcher.Call) (schedule.Outcome, error) {
	took := time.Duration(c.chance(3000)) * time.Millisecond
	silent := c.chance(6) == 0
	c.mu.Lock()
	seen := c.effects[call.Key]
	c.effects[call.Key] = true
	c.mu.Unlock()
	if !seen && !silent {
		c.executor.reports.Go(func() {
			time.Sleep(took)
			c.report(call.Key, schedule.StatusSuccess)
		})
	}
	return accept(ctx, call)
}

// check looks at what is left.
func (c *chaos) check(end time.Time) {
	rows, armed := make(map[int64]int), make(map[int64]int)
	for _, run := range c.runs("s") {
		if run.Trigger.FromSpec() {
			rows[run.RunAt.Unix()]++
			if !run.ClaimedAt.IsZero() && run.ClaimedAt.Before(run.RunAt) {
				armed[run.RunAt.Unix()] = 1
			}
		}
		if !run.Status.Terminal() {
			c.Errorf("the run at +%s (%s) is still %s", run.RunAt.Sub(c.began), run.Trigger, run.Status)
		}
		effect := c.effects[run.Key]
		switch {
		case run.Status == schedule.StatusSuccess && !effect:
			c.Errorf("the run at +%s is SUCCESS and took no effect", run.RunAt.Sub(c.began))
		case effect && (run.Status == schedule.StatusSkipped || run.Reason == schedule.ReasonLaunchUnavailable || run.Reason == schedule.ReasonLaunchRefused):
			c.Errorf("the run at +%s is %s(%s) and took effect", run.RunAt.Sub(c.began), run.Status, run.Reason)
		}
		if (run.Status == schedule.StatusSuccess) != (run.Reason == "") {
			c.Errorf("the run at +%s is %s with reason %q", run.RunAt.Sub(c.began), run.Status, run.Reason)
		}
	}
	ranges := c.events("s", schedule.EventMissed, schedule.EventCoalesced, schedule.EventBacklogClosed)
	for at := c.began.Add(time.Second); !at.After(end); at = at.Add(time.Second) {
		n, least := rows[at.Unix()], 1
		for _, e := range ranges {
			if !at.Before(e.From) && !at.After(e.To) {
				n++
			}
		}
		for _, p := range c.paused {
			if !at.Before(p.from) && !at.After(p.until) {
				least = 0
			}
		}
		// A slot that was armed when its schedule was edited has its row, and lies
		// ahead of the cursor again: if nobody plans soon, a range may hold it too.
		if n < least || n > 1+armed[at.Unix()] {
			c.Errorf("the slot at +%s has %d rows or ranges (%s, %s): %s", at.Sub(c.began), n, c.s.OverlapPolicy, c.s.CatchupPolicy, c.history(at))
		}
	}
}

// history is what is known of a slot.
func (c *chaos) history(at time.Time) string {
	var out string
	for _, run := range c.runs("s") {
		if run.RunAt.Equal(at) {
			out += fmt.Sprintf("row %s(%s) of revision %d by %s, made at +%s, ended at +%s; ", run.Status, run.Reason, run.Revision, run.Trigger, run.CreatedAt.Sub(c.began), run.CompletedAt.Sub(c.began))
		}
	}
	for _, e := range c.events("s", schedule.EventMissed, schedule.EventCoalesced, schedule.EventBacklogClosed, schedule.EventBacklogOpened) {
		if !at.Before(e.From) && !at.After(e.To) {
			out += fmt.Sprintf("%s(%s) +%s to +%s n=%d at +%s: %s; ", e.Kind, e.Reason, e.From.Sub(c.began), e.To.Sub(c.began), e.Count, e.Time.Sub(c.began), e.Note)
		}
	}
	return out
}
