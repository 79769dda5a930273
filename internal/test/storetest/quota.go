package storetest

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

var quotas = []check{
	{"an owner gets no more schedules than the limit says, and nothing of what is over is written", quotaRefuses},
	{"of many that create at once exactly as many succeed as there are places", quotaRaces},
}

// creation is a new schedule as a registrar would write it.
func (r *rig) creation(name string, edits ...func(*schedule.Schedule)) schedule.Change {
	s := r.schedule(name, edits...)
	return schedule.Change{Row: &s, Created: true, NewRevision: true, ChangedBy: s.UserID}
}

func quotaRefuses(r *rig) {
	limited := schedule.ChangeRequest{OwnerLimit: 2}
	other := func(s *schedule.Schedule) { s.UserID = r.id("other") }
	r.ok(r.tryChange(limited, r.creation("first"), r.creation("second")), "create as many as may be")
	r.ok(r.tryChange(limited, r.creation("elsewhere", other)), "create for another owner")
	err := r.tryChange(limited, r.creation("third"), r.creation("elsewhere-too", other))
	if !errors.Is(err, schedule.ErrExhausted) {
		r.Fatalf("the third of two ends with %v, want ErrExhausted", err)
	}
	for _, name := range []string{"third", "elsewhere-too"} {
		if _, err := r.GetSchedule(r.ctx, r.id(name)); !errors.Is(err, schedule.ErrNotFound) {
			r.Errorf("%s was written, though the change was refused: %v", name, err)
		}
	}

	first := r.stored("first")
	first.Priority = 7
	r.ok(r.tryChange(schedule.ChangeRequest{OwnerLimit: 1}, schedule.Change{Row: &first}), "edit under a limit that was lowered")
	first.DeletedAt = r.now
	r.ok(r.tryChange(limited, schedule.Change{Row: &first}, r.creation("third")), "replace one by another in one change")
	first.DeletedAt = time.Time{}
	if err := r.tryChange(limited, schedule.Change{Row: &first, Created: true}); !errors.Is(err, schedule.ErrExhausted) {
		r.Errorf("a tombstone comes back over the limit: %v", err)
	}
	r.ok(r.tryChange(schedule.ChangeRequest{}, r.creation("fourth")), "create without a limit")
}

// stored is a schedule as it is kept.
func (r *rig) stored(name string) schedule.Schedule {
	r.Helper()
	s, err := r.GetSchedule(r.ctx, r.id(name))
	r.ok(err, "get schedule")
	return *s
}

func quotaRaces(r *rig) {
	const places, crowd, each = 20, 6, 8
	var created atomic.Int64
	r.crowd(crowd, func(i int) {
		for j := range each {
			err := r.tryChange(schedule.ChangeRequest{OwnerLimit: places}, r.creation(fmt.Sprint("raced-", i, "-", j)))
			switch {
			case err == nil:
				created.Add(1)
			case !errors.Is(err, schedule.ErrExhausted):
				r.Errorf("create: %v", err)
			}
		}
	})
	rows, err := r.ListSchedules(r.ctx, schedule.ScheduleFilter{UserID: r.user, Now: r.now, Limit: 1000})
	r.ok(err, "list schedules")
	if len(rows) != places || created.Load() != places {
		r.Errorf("%d were created and %d are there, want %d", created.Load(), len(rows), places)
	}
}
