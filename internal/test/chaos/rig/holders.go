package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/carillon/carillon/internal/test/chaos/record"
)

// holders reserve slots of queues. Some of them are gone while they wait, or while they have the slot.
type holders struct {
	people  *people
	journal *record.Writer
	random  *rand.Rand
	number  int
}

// reservedQueues are the ones in which slots are reserved.
var reservedQueues = []string{"one", "gpu-a", "one", "many"}

func newHolders(p *people, seed uint64) (*holders, error) {
	journal, err := record.NewWriter(p.site.folder, record.HoldersFile)
	return &holders{people: p, journal: journal, random: rand.New(rand.NewPCG(seed, 0x4e5e))}, err
}

// work reserves one slot after the other until ctx ends.
func (h *holders) work(ctx, working context.Context) error {
	for ctx.Err() == nil {
		sleep(ctx, time.Duration(h.random.Int64N(int64(2*time.Second))))
		if ctx.Err() != nil {
			break
		}
		if err := h.reserve(ctx, working); err != nil {
			return err
		}
	}
	return nil
}

// reservation is what the API says of one.
type reservation struct {
	Reservation struct {
		ID      string `json:"reservation_id"`
		Granted bool   `json:"granted"`
	} `json:"reservation"`
}

// reserve is the life of one reservation, until its end or that of its holder.
func (h *holders) reserve(ctx, working context.Context) error {
	h.number++
	one := record.Holder{Queue: reservedQueues[h.random.IntN(len(reservedQueues))], Hold: time.Second + time.Duration(h.random.IntN(2000))*time.Millisecond}
	patience, work, extends := h.random.IntN(12), time.Duration(h.random.IntN(1500))*time.Millisecond, h.random.IntN(3)
	dies := h.random.IntN(4) == 0
	var got reservation
	body := map[string]any{"user_id": "ada", "hold_ms": one.Hold.Milliseconds(), "request_id": fmt.Sprint("holder-", h.number)}
	var err error
	one.Asked, _, err = h.people.call(working, http.MethodPost, "/v1/queues/"+one.Queue+":reserve", body, &got)
	if errors.Is(err, errRefused) { // it has ended while the request was repeated
		return nil
	}
	if err != nil {
		return err
	}
	one.ID = got.Reservation.ID
	for ; !got.Reservation.Granted && patience > 0 && ctx.Err() == nil; patience-- {
		if err := h.ask(working, &one, http.MethodGet, "?wait_ms=1000", &got); err != nil {
			return h.over(one, err)
		}
	}
	if !got.Reservation.Granted {
		return h.over(one, nil) // its holder is gone while it waits
	}
	one.Granted = time.Now()
	for range extends {
		sleep(ctx, work)
		if err := h.ask(working, &one, http.MethodPost, ":extend", &got); err != nil {
			return h.over(one, err)
		}
	}
	sleep(ctx, work)
	if dies {
		return h.over(one, nil)
	}
	one.Released = time.Now()
	return h.over(one, h.ask(working, &one, http.MethodPost, ":release", &got))
}

// ask makes one call about a reservation. An extension lasts from when it was asked for at least.
func (h *holders) ask(ctx context.Context, one *record.Holder, method, path string, into *reservation) error {
	asked, _, err := h.people.call(ctx, method, "/v1/reservations/"+one.ID+path, nil, into)
	if err == nil && path == ":extend" {
		one.Kept = asked.Add(one.Hold)
	}
	return err
}

// over writes a reservation down. One that has ended by itself is refused.
func (h *holders) over(one record.Holder, err error) error {
	if errors.Is(err, errRefused) {
		err = nil
	}
	return errors.Join(err, h.journal.Write(one))
}
