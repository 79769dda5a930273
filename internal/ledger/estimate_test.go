package ledger_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

var estimatedAt = time.Date(2027, 3, 1, 12, 0, 0, 0, time.UTC)

// copied is a queue for estimates.
type copied struct{ ledger.QueueCopy }

func newCopied(maxInFlight uint32) *copied {
	c := &copied{}
	c.Queue = &schedule.Queue{No: 1, QueueDefinition: schedule.QueueDefinition{QueueID: "q", MaxInFlight: maxInFlight}}
	c.Limits = make(map[schedule.LimitRef]*ledger.LimitNow)
	return c
}

func keyOf(n int) (k schedule.Key) {
	return schedule.SlotKey("run", estimatedAt.Add(time.Duration(n)*time.Second))
}

func copiedRun(n int, limits ...string) ledger.CopiedRun {
	joined := schedule.JoinLimits(limits)
	return ledger.CopiedRun{
		WaitingRun: ledger.WaitingRun{
			Key: keyOf(n), Set: string(joined), Limits: joined.Refs(), Since: estimatedAt, Order: ledger.QueueOrder{Position: int64(n)},
		},
		QueueNo: 1, Workflow: "w", State: schedule.QueueWaiting,
	}
}

func (c *copied) wait(n int, limits ...string) *ledger.CopiedRun {
	c.Runs = append(c.Runs, copiedRun(n, limits...))
	return &c.Runs[len(c.Runs)-1]
}

func (c *copied) fly(n int, elapsed time.Duration, limits ...string) *ledger.CopiedRun {
	r := copiedRun(n, limits...)
	r.State, r.Began = schedule.QueueRunning, estimatedAt.Add(-elapsed)
	for _, ref := range r.Limits {
		c.Limits[ref].Used++
	}
	c.Flights = append(c.Flights, r)
	return &c.Flights[len(c.Flights)-1]
}

func (c *copied) limit(text string, most int) *ledger.LimitNow {
	ref, _ := schedule.ParseLimitRef(text)
	c.Limits[ref] = &ledger.LimitNow{Max: most}
	return c.Limits[ref]
}

func (c *copied) took(workflow string, times ...time.Duration) {
	for _, t := range times {
		c.Ended = append(c.Ended, ledger.RunTime{QueueNo: 1, Workflow: workflow, Took: t})
	}
}

func (c *copied) of(n int) ledger.Estimate {
	return ledger.EstimateStart(&c.QueueCopy, keyOf(n), estimatedAt, nil)
}

func TestAnEstimatePlaysTheAdmissionsOfItsQueue(t *testing.T) {
	t.Parallel()
	const s = time.Second
	for name, tc := range map[string]struct {
		make     func() *copied
		p50, p90 time.Duration
		none     string // a part of why there is no time
		assumes  string
	}{
		"the next of a queue with a free place starts at once, whatever is known": {make: func() *copied {
			c := newCopied(1)
			c.wait(9)
			return c
		}},
		"of a pull queue, workers are assumed to fetch": {make: func() *copied {
			c := newCopied(1)
			c.Queue.Delivery, c.Stall = schedule.DeliveryPull, schedule.QueueStall{Level: 2} // it was pushed before
			c.took("w", 10*s)
			c.wait(1)
			c.wait(9)
			return c
		}, p50: 10 * s, p90: 10 * s, assumes: "Workers fetch its runs as soon as they may start"},
		"behind two runs of one place it waits for both": {make: func() *copied {
			c := newCopied(1)
			c.took("w", 10*s, 10*s, 10*s)
			c.wait(1)
			c.wait(2)
			c.wait(9)
			return c
		}, p50: 20 * s, p90: 20 * s, assumes: "3 runs of w"},
		"a run in flight has what is left of its time": {make: func() *copied {
			c := newCopied(1)
			c.took("w", 10*s)
			c.fly(1, 4*s)
			c.wait(9)
			return c
		}, p50: 6 * s, p90: 6 * s},
		"one that takes longer than all others has a tenth of their time left": {make: func() *copied {
			c := newCopied(1)
			c.took("w", 10*s)
			c.fly(1, 40*s)
			c.wait(9)
			return c
		}, p50: s, p90: s},
		"of runs that end after what it has taken, the median counts": {make: func() *copied {
			c := newCopied(1)
			c.took("w", 1*s, 2*s, 3*s, 20*s, 30*s, 40*s)
			c.fly(1, 10*s)
			c.wait(9)
			return c
		}, p50: 20 * s, p90: 30 * s},
		"the median and the ninth of ten": {make: func() *copied {
			c := newCopied(1)
			c.took("w", 1*s, 2*s, 3*s, 4*s, 5*s, 6*s, 7*s, 8*s, 9*s, 10*s)
			c.wait(1)
			c.wait(9)
			return c
		}, p50: 5 * s, p90: 9 * s},
		"only the last fifty count": {make: func() *copied {
			c := newCopied(1)
			for range 50 {
				c.took("w", s)
			}
			for range 100 {
				c.took("w", time.Hour)
			}
			c.wait(1)
			c.wait(9)
			return c
		}, p50: s, p90: s, assumes: "50 runs of w"},
		"each workflow has its own times": {make: func() *copied {
			c := newCopied(1)
			c.took("w", 10*s)
			c.took("slow", 100*s)
			c.wait(1).Workflow = "slow"
			c.wait(9)
			return c
		}, p50: 100 * s, p90: 100 * s},
		"a workflow without an ended run has the times of the queue": {make: func() *copied {
			c := newCopied(1)
			c.took("other", 7*s)
			c.wait(1)
			c.wait(9)
			return c
		}, p50: 7 * s, p90: 7 * s, assumes: "last 1 run of the queue"},
		"without an ended run there is no time": {make: func() *copied {
			c := newCopied(1)
			c.fly(1, 0)
			c.wait(9)
			return c
		}, none: "no run of the queue has ended"},
		"a pause with an end": {make: func() *copied {
			c := newCopied(1)
			c.Queue.Pause = schedule.Pause{Paused: true, Until: estimatedAt.Add(30 * s)}
			c.wait(9)
			return c
		}, p50: 30 * s, p90: 30 * s},
		"a pause without an end": {make: func() *copied {
			c := newCopied(1)
			c.Queue.Pause.Paused = true
			c.wait(9)
			return c
		}, none: "paused until somebody resumes it"},
		"a stall with an end": {make: func() *copied {
			c := newCopied(1)
			c.Stall.Until = estimatedAt.Add(20 * s)
			c.wait(9)
			return c
		}, p50: 20 * s, p90: 20 * s, assumes: "The executor takes work again at"},
		"an executor that cannot be reached": {make: func() *copied {
			c := newCopied(1)
			c.Stall = schedule.QueueStall{Until: estimatedAt.Add(s), Level: 3}
			c.wait(9)
			return c
		}, none: "when the executor can be reached"},
		"a delayed run waits for its start": {make: func() *copied {
			c := newCopied(1)
			r := c.wait(9)
			r.State, r.Ready = schedule.QueueDelayed, estimatedAt.Add(time.Minute)
			return c
		}, p50: time.Minute, p90: time.Minute},
		"a delayed run of a higher priority comes before it": {make: func() *copied {
			c := newCopied(1)
			c.took("w", 10*s)
			c.fly(1, 0)
			r := c.wait(2)
			r.State, r.Ready, r.Order.Priority = schedule.QueueDelayed, estimatedAt.Add(5*s), -5
			c.wait(9)
			return c
		}, p50: 20 * s, p90: 20 * s},
		"a run behind it takes no place of it": {make: func() *copied {
			c := newCopied(1)
			c.took("w", 10*s)
			c.fly(1, 0)
			c.wait(9)
			c.wait(10)
			return c
		}, p50: 10 * s, p90: 10 * s},
		"a run behind it goes while its limit is full, and takes the next place": {make: func() *copied {
			c := newCopied(2)
			c.took("w", 10*s)
			c.took("long", 60*s)
			c.limit("gpu", 1)
			c.fly(1, 0, "gpu")
			c.wait(9, "gpu")
			c.wait(10).Workflow = "long"
			return c
		}, p50: 10 * s, p90: 10 * s},
		"a run in flight from before the limit was made does not use it": {make: func() *copied {
			c := newCopied(5)
			c.limit("gpu", 1)
			c.took("w", 10*s)
			c.fly(1, 0, "gpu")
			c.limit("gpu", 1)
			c.wait(9, "gpu")
			return c
		}},
		"a limit that a run of another queue uses": {make: func() *copied {
			c := newCopied(5)
			c.limit("gpu", 1).Used = 1
			c.Ended = append(c.Ended, ledger.RunTime{QueueNo: 2, Workflow: "far", Took: 50 * s})
			other := copiedRun(1, "gpu")
			other.QueueNo, other.Workflow, other.State, other.Began = 2, "far", schedule.QueueRunning, estimatedAt.Add(-10*s)
			c.Elsewhere = append(c.Elsewhere, ledger.HeldLimit{Ref: other.Limits[0], Run: other})
			c.wait(9, "gpu")
			return c
		}, p50: 40 * s, p90: 40 * s, assumes: "No run of another queue"},
		"a limit that a run of a queue without ended runs uses": {make: func() *copied {
			c := newCopied(5)
			c.took("w", s)
			c.limit("gpu", 1).Used = 1
			other := copiedRun(1, "gpu")
			other.QueueNo, other.State, other.Began = 2, schedule.QueueRunning, estimatedAt
			c.Elsewhere = append(c.Elsewhere, ledger.HeldLimit{Ref: other.Limits[0], Run: other})
			c.wait(9, "gpu")
			return c
		}, none: "limit gpu is full, and it is not known"},
		"a limit that a reservation of another queue uses": {make: func() *copied {
			c := newCopied(5)
			c.limit("gpu", 1).Used = 1
			ref, _ := schedule.ParseLimitRef("gpu")
			c.Elsewhere = append(c.Elsewhere, ledger.HeldLimit{Ref: ref, Until: estimatedAt.Add(8 * s)})
			c.wait(9, "gpu")
			return c
		}, p50: 8 * s, p90: 8 * s},
		"a limit that allows none": {make: func() *copied {
			c := newCopied(5)
			c.took("w", s)
			c.limit("gpu", 0)
			c.wait(9, "gpu")
			return c
		}, none: "limit gpu allows no run"},
		"a limit that allows none for some time": {make: func() *copied {
			c := newCopied(5)
			c.took("w", s)
			l := c.limit("gpu", 0)
			l.After, l.Until = &ledger.LimitNow{Max: 1}, estimatedAt.Add(time.Hour)
			c.wait(1, "gpu")
			c.wait(9, "gpu")
			return c
		}, p50: time.Hour + s, p90: time.Hour + s},
		"a rate spaces the starts": {make: func() *copied {
			c := newCopied(100)
			c.took("w", time.Millisecond)
			c.Queue.Rate = schedule.RateDefinition{Starts: 1, PerMS: 10_000, Burst: 1}
			c.NextStart = estimatedAt.Add(4 * s)
			c.wait(1)
			c.wait(2)
			c.wait(9)
			return c
		}, p50: 24 * s, p90: 24 * s},
		"a rate of a limit spaces the starts of its runs only": {make: func() *copied {
			c := newCopied(100)
			c.took("w", time.Millisecond)
			c.limit("api", 100).Rate = ledger.RateOf(schedule.RateDefinition{Starts: 1, PerMS: 10_000, Burst: 1}, estimatedAt, estimatedAt)
			c.wait(1, "api")
			c.wait(2)
			c.wait(3)
			c.wait(9, "api")
			return c
		}, p50: 10 * s, p90: 10 * s},
		"reservations go first and are held for their whole time": {make: func() *copied {
			c := newCopied(1)
			c.Reserved = []schedule.Reservation{
				{ID: keyOf(100), GrantedAt: estimatedAt, EndsAt: estimatedAt.Add(5 * s)},
				{ID: keyOf(101), EndsAt: estimatedAt.Add(s), HoldMS: 7000},
			}
			c.wait(9)
			return c
		}, p50: 12 * s, p90: 12 * s, assumes: "Each reservation is held"},
		"a chained member waits for the members before it": {make: func() *copied {
			c := newCopied(9)
			c.took("w", 10*s)
			r := c.fly(1, 4*s)
			r.GroupNo, r.Seq = 3, 1
			r = c.wait(2)
			r.GroupNo, r.Seq, r.State = 3, 2, schedule.QueueChained
			r = c.wait(9)
			r.GroupNo, r.Seq, r.State = 3, 3, schedule.QueueChained
			return c
		}, p50: 16 * s, p90: 16 * s, assumes: "The members of its group"},
		"a chained member behind one with an unknown time": {make: func() *copied {
			c := newCopied(9)
			r := c.fly(1, 4*s)
			r.GroupNo, r.Seq = 3, 1
			r = c.wait(9)
			r.GroupNo, r.Seq, r.State = 3, 2, schedule.QueueChained
			return c
		}, none: "the members of its group"},
		"an aged run passes others": {make: func() *copied {
			c := newCopied(1)
			c.took("w", 10*s)
			c.Queue.PromoteAfterMS = 25_000
			for n := range 6 {
				c.wait(n).Order.Priority = -5
			}
			c.wait(9).Since = estimatedAt.Add(-20 * s)
			return c
		}, p50: 10 * s, p90: 10 * s},
		"one that is not among the copied runs": {make: func() *copied {
			c := newCopied(1)
			c.wait(1)
			c.More = true
			return c
		}, none: "more than 10000 runs"},
		"one behind runs that take years": {make: func() *copied {
			c := newCopied(1)
			c.took("w", 400*24*time.Hour)
			c.wait(1)
			c.wait(9)
			return c
		}, none: "within a year"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := tc.make().of(9)
			texts := strings.Join(got.Assumes, "\n")
			if tc.none != "" {
				if got.Known() || !strings.Contains(texts, tc.none) {
					t.Fatalf("got %s and %s, assumes %s; want no time because %q", got.P50, got.P90, texts, tc.none)
				}
				return
			}
			if got.P50.Sub(estimatedAt) != tc.p50 || got.P90.Sub(estimatedAt) != tc.p90 || !strings.Contains(texts, tc.assumes) {
				t.Errorf("got %s and %s, assumes %s; want %s and %s, %q", got.P50.Sub(estimatedAt), got.P90.Sub(estimatedAt), texts, tc.p50, tc.p90, tc.assumes)
			}
		})
	}
}

func TestAnEstimateThatTakesTooMuchWorkSaysSo(t *testing.T) {
	t.Parallel()
	c := newCopied(1)
	c.took("w", time.Second)
	for n := range 9 {
		c.wait(n)
	}
	c.wait(9)
	left := 200
	got := ledger.EstimateStart(&c.QueueCopy, keyOf(9), estimatedAt, func(steps int) bool { left -= steps; return left > 0 })
	if got.Known() || !strings.Contains(got.Assumes[0], "too much work") {
		t.Errorf("got %+v", got)
	}
}

// listed is a run of the oracle.
type listed struct {
	n, priority, ready, takes, group, seq int
	limits                                []string
	start, end                            int // -1: not yet
}

// oracle plays a queue second by second: one list, one pool of places, one count for each limit.
func oracle(runs []*listed, places int, limits map[string]int, pausedUntil int) {
	for _, r := range runs {
		r.start, r.end = -1, -1
	}
	for now := range 10_000 {
		open := func(r *listed) bool { return r.end < 0 || r.end > now }
		flying, used := 0, make(map[string]int)
		var waiting []*listed
		for _, r := range runs {
			chained := r.group > 0 && slices.ContainsFunc(runs, func(o *listed) bool { return o.group == r.group && o.seq < r.seq && open(o) })
			switch {
			case r.start < 0 && r.ready <= now && !chained:
				waiting = append(waiting, r)
			case r.start >= 0 && open(r):
				flying++
				for _, l := range r.limits {
					used[l]++
				}
			}
		}
		slices.SortFunc(waiting, func(a, b *listed) int { return cmp.Or(cmp.Compare(b.priority, a.priority), cmp.Compare(a.n, b.n)) })
		for _, r := range waiting {
			full := slices.ContainsFunc(r.limits, func(l string) bool { return used[l] >= limits[l] })
			if now < pausedUntil || flying >= places || full {
				continue
			}
			r.start, r.end = now, now+r.takes
			flying++
			for _, l := range r.limits {
				used[l]++
			}
		}
	}
}

func TestEstimatesAreThoseOfAListAndAPoolOfPlaces(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		places := rapid.IntRange(1, 4).Draw(t, "places")
		limits := map[string]int{"a": rapid.IntRange(1, 3).Draw(t, "a"), "b": rapid.IntRange(1, 3).Draw(t, "b")}
		pausedUntil := rapid.SampledFrom([]int{0, 0, 7}).Draw(t, "paused until")
		c := newCopied(uint32(places))
		c.limit("a", limits["a"])
		c.limit("b", limits["b"])
		c.Queue.Pause = schedule.Pause{Paused: true, Until: estimatedAt.Add(time.Duration(pausedUntil) * time.Second)}
		var runs []*listed
		for n := range rapid.IntRange(1, 25).Draw(t, "runs") {
			r := &listed{
				n: n, priority: rapid.IntRange(0, 2).Draw(t, "priority"), takes: rapid.IntRange(1, 9).Draw(t, "takes"),
				ready: max(0, rapid.IntRange(-20, 20).Draw(t, "ready")), group: max(0, rapid.IntRange(-4, 2).Draw(t, "group")),
				limits: rapid.SampledFrom([][]string{nil, nil, {"a"}, {"b"}, {"a", "b"}}).Draw(t, "limits"),
			}
			r.seq = n + 1
			workflow := fmt.Sprint("takes", r.takes)
			c.took(workflow, time.Duration(r.takes)*time.Second)
			copied := c.wait(n, r.limits...)
			copied.Workflow, copied.Order.Priority = workflow, int32(-r.priority)
			copied.Ready = estimatedAt.Add(time.Duration(r.ready) * time.Second)
			switch copied.GroupNo, copied.Seq = int32(r.group), int32(r.seq); {
			case slices.ContainsFunc(runs, func(o *listed) bool { return o.group == r.group && r.group > 0 }):
				copied.State = schedule.QueueChained
			case r.ready > 0:
				copied.State = schedule.QueueDelayed
			}
			runs = append(runs, r)
		}
		oracle(runs, places, limits, pausedUntil)
		for _, r := range runs {
			got := c.of(r.n)
			if want := estimatedAt.Add(time.Duration(r.start) * time.Second); !got.P50.Equal(want) || !got.P90.Equal(want) {
				t.Fatalf("run %d would start after %s, %s by the list; assumes %v", r.n, got.P50.Sub(estimatedAt), want.Sub(estimatedAt), got.Assumes)
			}
		}
	})
}

func TestARunThatIsAdmittedWhileItsQueueIsCopiedIsCopiedOnce(t *testing.T) {
	copied := func(state schedule.QueueState, keys ...byte) (runs []ledger.CopiedRun) {
		for _, k := range keys {
			r := ledger.CopiedRun{State: state}
			r.Key = schedule.Key{k}
			runs = append(runs, r)
		}
		return runs
	}
	c := ledger.QueueCopy{
		Runs:    slices.Concat(copied(schedule.QueueWaiting, 1, 2, 3), copied(schedule.QueueDelayed, 3, 4)),
		Flights: copied(schedule.QueueDispatching, 9, 1),
	}
	c.DropRepeated()
	var got []string
	for _, r := range slices.Concat(c.Runs, c.Flights) {
		got = append(got, fmt.Sprint(r.Key[0], " ", r.State))
	}
	if want := []string{"2 waiting", "3 waiting", "4 delayed", "9 dispatching", "1 dispatching"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
