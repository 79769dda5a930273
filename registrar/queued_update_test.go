package registrar_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/registrar"
)

// TestAfterItsDispatchOnlyOrderAndStartOfARunChange: and only while it waits again.
func TestAfterItsDispatchOnlyOrderAndStartOfARunChange(t *testing.T) {
	onQueues(t, func(l *line) {
		key := l.one(withInput("1"))
		nine := int32(9)
		refused := func(when string, in registrar.UpdateRunInput) {
			in.Key = key
			if _, err := l.UpdateRun(l.Context(), in); !errors.Is(err, schedule.ErrPrecondition) || !strings.Contains(err.Error(), "Cannot modify params after dispatch") {
				l.Errorf("%s %+v: %v", when, in, err)
			}
		}
		l.admit(5)
		refused("in flight", registrar.UpdateRunInput{Input: json.RawMessage("2")})
		refused("in flight", registrar.UpdateRunInput{Priority: &nine})
		refused("in flight", registrar.UpdateRunInput{RunAt: noon.Add(time.Hour)})

		launcher := l.opts.Entries.(interface {
			Release(context.Context, []schedule.KeyRelease, time.Time) error
			PutBack(context.Context, []schedule.PutBack, []schedule.StallChange, time.Time) ([]bool, error)
		})
		if err := launcher.Release(l.Context(), []schedule.KeyRelease{{Key: key, Held: l.now.Add(time.Minute)}}, l.now); err != nil {
			l.Fatal(err)
		}
		if put, err := launcher.PutBack(l.Context(), []schedule.PutBack{{Key: key, Reason: "busy"}}, nil, l.now); err != nil || !slices.Equal(put, []bool{true}) {
			l.Fatalf("put back: %v, %v", put, err)
		}
		refused("while it waits again", registrar.UpdateRunInput{Input: json.RawMessage("2")})
		refused("while it waits again", registrar.UpdateRunInput{Limits: []string{}})
		refused("while it waits again", registrar.UpdateRunInput{Priority: &nine, Input: json.RawMessage("2")})
		before := l.run(key)
		if _, err := l.UpdateRun(l.Context(), registrar.UpdateRunInput{Key: key, Priority: &nine, RunAt: noon.Add(time.Hour)}); err != nil {
			l.Fatal(err)
		}
		after := l.run(key)
		if after.Priority != 9 || !after.FireAt.Equal(noon.Add(time.Hour)) || after.Queue.State != schedule.QueueDelayed {
			l.Errorf("it has priority %d, starts at %s and is %s", after.Priority, after.FireAt, after.Queue.State)
		}
		if !after.RunAt.Equal(before.RunAt) || !after.ClaimedAt.Equal(before.ClaimedAt) || string(after.Input) != "1" { // run_at is part of the request
			l.Errorf("it was %+v and is %+v", before, after)
		}
	})
}
