package storetest

import (
	"errors"
	"fmt"
	"sync"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

func reserveExplained(r *rig) {
	j := r.jobs("q", maxInFlight(2))
	held, _ := j.reserves("held")
	run := j.put("a", "b")[1]
	j.admits(10, "a")
	waits, _ := j.reserves("waits")
	place, err := j.ReadWaitingPlace(j.ctx, &run, 100, 5, j.now)
	j.ok(err, "read the place")
	equal(r, "reservations", place.Reserved, []schedule.Reservation{held, waits})
	blocks := place.Blocks(j.now)
	j.hold(len(blocks) == 1 && blocks[0].What == ledger.BlockedByFull && blocks[0].Used == 2, "the queue is full, got %+v", blocks)
}

func reserveRace(r *rig) {
	const most = 3
	j := r.jobs("q", maxInFlight(most))
	for i := range 20 {
		j.put(fmt.Sprint("x", i))
	}
	var wg sync.WaitGroup
	fail := make(chan error, 100)
	inFlight := func() error {
		counts, err := j.CountQueue(j.ctx, j.queue.No, 100)
		if err == nil && counts.InFlight+counts.Reserved > most {
			err = fmt.Errorf("%d runs and %d reservations are in flight", counts.InFlight, counts.Reserved)
		}
		return err
	}
	for n := range 4 {
		wg.Go(func() {
			for i := range 5 {
				a := j.reservation(fmt.Sprint(n, "/", i))
				_, _, err := j.ChangeReservations(j.ctx, schedule.ReserveRequest{QueueID: j.queue.QueueID, UserID: j.user}, func(ledger.QueueFacts, *schedule.EnqueueRecord) (schedule.ReserveChange, error) {
					return schedule.ReserveChange{Add: &a, Now: j.now}, nil
				})
				fail <- errors.Join(err, inFlight())
				_, _, err = j.ChangeReservations(j.ctx, schedule.ReserveRequest{QueueID: j.queue.QueueID, UserID: j.user}, func(ledger.QueueFacts, *schedule.EnqueueRecord) (schedule.ReserveChange, error) {
					return schedule.ReserveChange{Release: []schedule.Key{a.ID}, Now: j.now}, nil
				})
				fail <- errors.Join(err, inFlight())
			}
		})
	}
	wg.Go(func() {
		for range 10 {
			_, err := j.Admit(j.ctx, j.admitRequest(1))
			fail <- errors.Join(err, inFlight())
			_, err = j.SweepQueues(j.ctx, schedule.QueueSweep{SweepRequest: schedule.SweepRequest{Now: j.now, CancelWait: cancelWait, RetryFor: retryFor, Limit: 10}})
			fail <- err
		}
	})
	wg.Wait()
	close(fail)
	for err := range fail {
		j.ok(err, "in the race")
	}
}
