package ledger

import (
	"encoding/binary"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// RowState is the column state of open_runs: it decides which component looks at the row
// next.
type RowState int16

// The states of an open run.
const (
	RowPlanned  RowState = 1 // the leader claims it at fire_at
	RowWaiting  RowState = 2 // it waits for its overlap group
	RowInFlight RowState = 3 // LAUNCHING, ENQUEUED or STARTED
	RowInQueue  RowState = 4 // a run of a slot in a dispatch queue: it is in flight for its overlap group
	RowJob      RowState = 5 // in a dispatch queue, and no leader knows it
)

// RowStateOf returns the state of an open run.
func RowStateOf(r *schedule.Run) RowState {
	switch {
	case r.IsJob():
		return RowJob
	case r.Queue.In():
		return RowInQueue
	case r.Status != schedule.StatusPlanned:
		return RowInFlight
	case !r.WaitingSince.IsZero():
		return RowWaiting
	}
	return RowPlanned
}

// EntersExclusively is the column exclusive_flight of a run that is inserted: a run of a slot in a
// queue is in flight for its overlap group. A claim sets the column of other runs.
func EntersExclusively(r *schedule.Run) bool { return r.Exclusive && RowStateOf(r) == RowInQueue }

// DueAt returns the column due_at of an open run: never later than the next instant at
// which a component must look at it. The zero time means never: the end of another run
// moves it. Where a run in flight has an earlier due_at already, that one stays, so that
// no index changes; the sweep then looks once more than needed.
func DueAt(r *schedule.Run) time.Time {
	switch RowStateOf(r) {
	case RowInQueue, RowJob:
		return dueInQueue(r)
	case RowPlanned:
		return r.FireAt
	case RowWaiting:
		return time.Time{}
	}
	if !r.CancelRequestedAt.IsZero() {
		return r.CancelRequestedAt // the sweep knows how long a cancel may take
	}
	return r.TimeoutAt
}

// Nth is the column nth of a run: 0 for the slot's own key, else a positive number
// drawn from the end of the key: jobs of one time begin alike. Two runs of a slot can draw the same number; the end of the
// later one then takes the next free number.
func Nth(r *schedule.Run) int32 {
	if r.Key == schedule.SlotKey(r.ScheduleID, r.RunAt) {
		return 0
	}
	return int32(binary.BigEndian.Uint32(r.Key[len(r.Key)-4:])>>2) + 1
}
