package sim

import "github.com/carillon/carillon/internal/schedule"

// place is where a run is in its queue.
type place int

const (
	placeDelayed place = iota
	placeWaiting
	placeChained
	placeDispatching
	placeRunning
	placeEnded
)

func placeOf(r *schedule.Run) place {
	switch {
	case ended(r.Status):
		return placeEnded
	case r.Queue.State == "running":
		return placeRunning
	case r.Queue.State == "dispatching":
		return placeDispatching
	case r.Queue.State == "waiting":
		return placeWaiting
	case r.Queue.State == "chained":
		return placeChained
	}
	return placeDelayed
}

func (p place) inFlight() bool { return p == placeDispatching || p == placeRunning }
