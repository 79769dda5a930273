package registrar_test

import (
	"strings"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/auth"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/registrar"
)

// fair makes the queue fair.
func (l *line) fair(weights map[string]uint32) {
	l.Helper()
	q := gpuQueue()
	q.Fair, q.Weights = schedule.FairKey, weights
	if _, err := l.UpsertQueue(l.Context(), q); err != nil {
		l.Fatal(err)
	}
}

func countsFor(key string) func(*registrar.QueuedInput) {
	return func(in *registrar.QueuedInput) { in.FairKey = key }
}

func TestKeysOfAFairQueueTakeTurns(t *testing.T) {
	onQueues(t, func(l *line) {
		l.fair(map[string]uint32{"b": 2})
		for range 3 {
			l.one(countsFor("a"))
		}
		l.now = l.now.Add(time.Second)
		last := l.one(countsFor("a"))
		l.now = l.now.Add(time.Second)
		b := l.one(countsFor("b"))
		l.one(countsFor("b"))
		if run := l.run(b); run.Queue.FairKey != "b" {
			l.Errorf("the run shows the key %q", run.Queue.FairKey)
		}
		q, err := l.GetQueue(l.Context(), "gpu")
		if err != nil {
			l.Fatal(err)
		}
		shares, err := l.QueueShares(l.Context(), q)
		if err != nil || len(shares) != 2 || shares[0] != (schedule.QueueShare{Key: "a", Waiting: 4, First: 2}) || shares[1] != (schedule.QueueShare{Key: "b", Waiting: 2, First: 1}) {
			l.Errorf("the shares are %+v, %v", shares, err)
		}
		if why := strings.Join(l.explained(last).Lines, "\n"); !strings.Contains(why, `its key "a" has the weight 1, and 3 runs of the key and 2 runs of other keys start first; 2 of them entered later`) {
			l.Errorf("the explanation of the last run of a is\n%s", why)
		}
		foreign := as(l.T, "bob", auth.User)
		if shares, err = l.QueueShares(foreign, q); err != nil || len(shares) != 0 {
			l.Errorf("another owner sees %+v, %v", shares, err)
		}
	})
}

func TestARunOfAnotherPriorityLeavesItsTurn(t *testing.T) {
	onQueues(t, func(l *line) {
		l.fair(nil)
		l.one(countsFor("a"))
		moved := l.one(countsFor("a"))
		l.one(countsFor("b"), withPriority(5))
		five := int32(5)
		if _, err := l.UpdateRun(l.Context(), registrar.UpdateRunInput{Key: moved, Priority: &five}); err != nil {
			l.Fatal(err)
		}
		if n, err := l.Position(l.Context(), l.run(moved)); err != nil || n != 1 {
			l.Errorf("its position is %d, %v: it entered first, and its key has had no turn of this priority", n, err)
		}
	})
}

func TestAScheduleWithoutAQueueHasNoFairKey(t *testing.T) {
	onQueues(t, func(l *line) {
		in := registrar.UpsertInput{Definition: schedule.Definition{ScheduleID: "s", UserID: "ada", WorkflowID: "w", Version: 1, FairKey: "k"}}
		_, err := l.Upsert(l.Context(), in)
		if err == nil || !strings.Contains(err.Error(), "fair_key: is set without queue_id") {
			l.Errorf("it is not refused: %v", err)
		}
	})
}
