package registrar_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/auth"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/registrar"
)

func TestWaitingRunsMove(t *testing.T) {
	onQueues(t, func(l *line) {
		a, b, c, d := l.one(withInput(`"a"`)), l.one(withInput(`"b"`)), l.one(withInput(`"c"`)), l.one(withInput(`"d"`))
		moves := func(want string, in registrar.MoveInput, keys ...schedule.Key) {
			l.Helper()
			in.Keys = keys
			run, err := l.MoveRuns(l.Context(), in)
			if err != nil {
				l.Fatal(err)
			}
			var order []string
			for _, w := range l.waiting() {
				order = append(order, w[1:2])
			}
			if got := strings.Join(order, ""); got != want || run.Key != keys[0] {
				l.Errorf("%s %d: %s, want %s", in.To, in.Position, got, want)
			}
		}
		moves("dabc", registrar.MoveInput{To: "first"}, d)
		moves("bcda", registrar.MoveInput{To: "last"}, d, a)
		moves("bdca", registrar.MoveInput{To: "before", Anchor: c}, d)
		moves("cabd", registrar.MoveInput{To: "after", Anchor: a}, b, d)
		moves("cdab", registrar.MoveInput{To: "position", Position: 2}, d)
		moves("dabc", registrar.MoveInput{To: "position", Position: 1000}, c)
	})
}

func TestAMoveIsRefusedInWords(t *testing.T) {
	onQueues(t, func(l *line) {
		a, b, urgent, over := l.one(), l.one(), l.one(withPriority(7)), l.one()
		if _, err := l.CancelRun(l.Context(), registrar.CancelInput{Key: over}); err != nil {
			l.Fatal(err)
		}
		other := gpuQueue()
		other.QueueID = "other"
		if _, err := l.UpsertQueue(l.Context(), other); err != nil {
			l.Fatal(err)
		}
		elsewhere := l.enqueue(registrar.EnqueueInput{QueueID: "other", Runs: []registrar.QueuedInput{job()}}).Keys[0]
		later := l.one(func(in *registrar.QueuedInput) { in.RunAt = noon.Add(time.Hour) })
		keys := func(keys ...schedule.Key) []schedule.Key { return keys }
		for _, c := range []struct {
			name string
			in   registrar.MoveInput
			want string // in the error
			is   error  // nil: an invalid request
		}{
			{"to nowhere", registrar.MoveInput{Keys: keys(a)}, `to: "" is not one of first, last, before, after, position`, nil},
			{"position 0", registrar.MoveInput{Keys: keys(a), To: "position"}, "position: 0 is not within 1 to 1000000", nil},
			{"a position with first", registrar.MoveInput{Keys: keys(a), To: "first", Position: 2}, "position: 2 is for to = position only", nil},
			{"before nothing", registrar.MoveInput{Keys: keys(a), To: "before"}, "relative_to: is required with to = before", nil},
			{"relative to itself", registrar.MoveInput{Keys: keys(b, a), To: "after", Anchor: a}, "relative_to: \"" + a.String() + "\" is one of the runs that move", nil},
			{"an anchor with last", registrar.MoveInput{Keys: keys(a), To: "last", Anchor: b}, "is for to = before and after only", nil},
			{"a run twice", registrar.MoveInput{Keys: keys(a, b, a), To: "first"}, "then: \"" + a.String() + "\" is named twice", nil},
			{"too many runs", registrar.MoveInput{Keys: make([]schedule.Key, 1001), To: "first"}, "makes 1001 runs in all, more than 1000", nil},
			{"of two priorities", registrar.MoveInput{Keys: keys(a, urgent), To: "first"}, "has priority 7, and run " + a.String() + " priority 0", schedule.ErrPrecondition},
			{"before one of another priority", registrar.MoveInput{Keys: keys(a), To: "before", Anchor: urgent}, "has priority 7", schedule.ErrPrecondition},
			{"of two queues", registrar.MoveInput{Keys: keys(a, elsewhere), To: "first"}, `is in queue "other", and run `, schedule.ErrPrecondition},
			{"before a run of another queue", registrar.MoveInput{Keys: keys(a), To: "before", Anchor: elsewhere}, `is not in queue "gpu"`, schedule.ErrPrecondition},
			{"a run that is over", registrar.MoveInput{Keys: keys(over), To: "first"}, "cannot move: run " + over.String() + " was cancelled", schedule.ErrPrecondition},
			{"after a run that is over", registrar.MoveInput{Keys: keys(a), To: "after", Anchor: over}, "was cancelled", schedule.ErrPrecondition},
			{"before a delayed run", registrar.MoveInput{Keys: keys(a), To: "before", Anchor: later}, "does not wait, it is delayed", schedule.ErrPrecondition},
			{"a run that does not exist", registrar.MoveInput{Keys: keys(schedule.ManualKey("x", "y")), To: "first"}, "not found", schedule.ErrNotFound},
			{"an anchor that does not exist", registrar.MoveInput{Keys: keys(a), To: "after", Anchor: schedule.ManualKey("x", "y")}, "not found", schedule.ErrNotFound},
		} {
			_, err := l.MoveRuns(l.Context(), c.in)
			invalid, isInvalid := errors.AsType[*schedule.InvalidError](err)
			if err == nil || !strings.Contains(err.Error(), c.want) || c.is != nil && !errors.Is(err, c.is) || c.is == nil && !isInvalid {
				l.Errorf("%s: %v (%v), want %s", c.name, err, invalid, c.want)
			}
		}
		eve := auth.NewContext(l.Context(), auth.Identity{Subject: "eve", Owner: "eve", Roles: []auth.Role{auth.User}})
		if _, err := l.MoveRuns(eve, registrar.MoveInput{Keys: keys(a), To: "first"}); !errors.Is(err, schedule.ErrNotFound) {
			l.Errorf("another owner's run: %v", err)
		}
	})
}
