package registrar_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/auth"
	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/registrar"
)

func slot(edits ...func(*registrar.ReserveInput)) registrar.ReserveInput {
	in := registrar.ReserveInput{QueueID: "gpu", HoldMS: 60_000, Actor: "carl"}
	for _, edit := range edits {
		edit(&in)
	}
	return in
}

func (l *line) reserve(in registrar.ReserveInput) registrar.ReservationNow {
	l.Helper()
	done, err := l.Reserve(l.Context(), in)
	if err != nil {
		l.Fatal(err)
	}
	return done
}

// looks is a reservation as somebody sees it who waits for it, or not.
func (l *line) looks(id schedule.Key, waits bool) registrar.ReservationNow {
	l.Helper()
	found, err := l.GetReservation(l.Context(), id, waits)
	if err != nil {
		l.Fatal(err)
	}
	return found
}

func (l *line) hasNoReservation(id schedule.Key) {
	l.Helper()
	if _, err := l.GetReservation(l.Context(), id, false); !errors.Is(err, schedule.ErrNotFound) {
		l.Errorf("the reservation is there: %v", err)
	}
}

// admission admits runs of gpu.
func (l *line) admission() ledger.Dispatched {
	l.Helper()
	q, err := l.GetQueue(l.Context(), "gpu")
	if err != nil {
		l.Fatal(err)
	}
	out, err := l.admits(l.Context(), schedule.AdmitRequest{QueueNo: q.No, Now: l.now, Free: 10, Lease: func(schedule.Key) time.Duration { return time.Minute }, RetryFor: time.Hour})
	if err != nil {
		l.Fatal(err)
	}
	return out
}

func TestASlotIsReservedWaitedForExtendedAndReleased(t *testing.T) {
	onQueues(t, func(l *line) {
		first := l.reserve(slot())
		if !first.Granted() || first.Position != 0 || first.UserID != "ada" || first.RequestedBy != "carl" || !first.EndsAt.Equal(noon.Add(time.Minute)) {
			l.Fatalf("got %+v", first)
		}
		second, third := l.reserve(slot()), l.reserve(slot())
		if second.Granted() || second.Position != 1 || third.Position != 2 || !second.EndsAt.Equal(noon.Add(30*time.Second)) {
			l.Fatalf("got %+v and %+v", second, third)
		}
		l.now = noon.Add(20 * time.Second)
		l.looks(third.ID, true)
		l.looks(second.ID, false) // only a look
		extended, err := l.ExtendReservation(l.Context(), first.ID, nil)
		if err != nil || !extended.EndsAt.Equal(l.now.Add(time.Minute)) {
			l.Fatalf("extended: %+v, %v", extended, err)
		}
		l.now = noon.Add(40 * time.Second)
		l.hasNoReservation(second.ID)
		if got := l.looks(third.ID, true); got.Position != 1 || !got.EndsAt.Equal(l.now.Add(30*time.Second)) {
			l.Errorf("the one behind it moves up, got %+v", got)
		}
		before, err := l.ReleaseReservation(l.Context(), first.ID, "carl")
		if err != nil || before.ID != first.ID {
			l.Fatalf("released: %+v, %v", before, err)
		}
		l.hasNoReservation(first.ID)
		if _, err := l.ReleaseReservation(l.Context(), first.ID, ""); !errors.Is(err, schedule.ErrNotFound) {
			l.Errorf("released again: %v", err)
		}
		if got := l.looks(third.ID, false); !got.Granted() || !got.EndsAt.Equal(l.now.Add(time.Minute)) {
			l.Errorf("the next one is granted with the release, got %+v", got)
		}
		l.now = l.now.Add(time.Minute)
		l.hasNoReservation(third.ID)
		if _, err := l.ExtendReservation(l.Context(), third.ID, nil); !errors.Is(err, schedule.ErrNotFound) {
			l.Errorf("extended after its end: %v", err)
		}
		if list, err := l.ListReservations(l.Context(), "gpu"); err != nil || len(list) != 0 {
			l.Errorf("listed %+v, %v", list, err)
		}
	})
}

// A reservation calls no executor: a call that waits for it grants it, also where no launcher is.
func TestAWaitingReservationIsGrantedWithoutALauncher(t *testing.T) {
	onQueues(t, func(l *line) {
		held := l.reserve(slot())
		waits := l.reserve(slot(func(in *registrar.ReserveInput) { in.HoldMS = 1000 }))
		l.now = noon.Add(25 * time.Second)
		l.looks(waits.ID, true)
		l.now = noon.Add(50 * time.Second)
		l.looks(waits.ID, true)
		l.now = held.EndsAt
		if got := l.looks(waits.ID, true); !got.Granted() || !got.GrantedAt.Equal(l.now) || !got.EndsAt.Equal(l.now.Add(time.Second)) {
			l.Errorf("got %+v", got)
		}
		l.hasNoReservation(held.ID)
	})
}

func TestAReservationGoesBeforeTheRunsOfItsQueue(t *testing.T) {
	onQueues(t, func(l *line) {
		running := l.one()
		if out := l.admission(); len(out.Dispatches) != 1 {
			l.Fatalf("admitted %+v", out)
		}
		waiting := l.one(withPriority(1000))
		r := l.reserve(slot())
		if r.Granted() {
			l.Fatal("a run is in flight, and the queue takes one")
		}
		explained := func(want ...string) {
			l.Helper()
			a, err := l.ExplainRun(l.Context(), waiting)
			if err != nil {
				l.Fatal(err)
			}
			text := strings.Join(a.Lines, "\n")
			for _, w := range want {
				if !strings.Contains(text, w) {
					l.Errorf("%q is not in:\n%s", w, text)
				}
			}
			if !slices.Equal(blocksOf(a), []ledger.BlockedBy{ledger.BlockedByFull, "reserved"}) {
				l.Errorf("blocked by %v", blocksOf(a))
			}
		}
		explained("1 of 1 slots are taken by runs in flight and reservations", "1 reservation waits for the next slot and goes before all runs")
		if _, err := l.CancelRun(l.Context(), registrar.CancelInput{Key: running}); err != nil {
			l.Fatal(err)
		}
		if got := l.looks(r.ID, true); got.Granted() {
			l.Fatal("a cancel that the executor has not confirmed frees nothing")
		}
		held := l.reserve(slot(func(in *registrar.ReserveInput) { in.QueueID = schedule.DefaultQueueID }))
		if !held.Granted() || held.UserID != schedule.OperatorOwner {
			l.Errorf("the queue default is made at its first use, got %+v", held)
		}
	})
}

func TestARunThatWaitsForAReservedSlotIsToldByWhomAndUntilWhen(t *testing.T) {
	onQueues(t, func(l *line) {
		l.reserve(slot())
		run := l.one()
		if out := l.admission(); len(out.Dispatches) != 0 {
			l.Fatalf("admitted %+v", out)
		}
		a, err := l.ExplainRun(l.Context(), run)
		if err != nil {
			l.Fatal(err)
		}
		if text := strings.Join(a.Lines, "\n"); !strings.Contains(text, "A slot of the queue is reserved by carl until "+noon.Add(time.Minute).Format(time.RFC3339)) {
			l.Errorf("got:\n%s", text)
		}
	})
}

func TestTheSameRequestReservesOnce(t *testing.T) {
	onQueues(t, func(l *line) {
		again := func(in *registrar.ReserveInput) { in.RequestID = "r1" }
		first, second := l.reserve(slot(again)), l.reserve(slot(again))
		if second.ID != first.ID || first.Repeated || !second.Repeated {
			l.Errorf("got %+v and %+v", first, second)
		}
		if _, err := l.Reserve(l.Context(), slot(again, func(in *registrar.ReserveInput) { in.HoldMS = 1 })); !errors.Is(err, schedule.ErrKeyConflict) {
			l.Errorf("another request: %v", err)
		}
		if _, err := l.Enqueue(l.Context(), registrar.EnqueueInput{QueueID: "gpu", UserID: "ada", RequestID: "r1", Runs: []registrar.QueuedInput{job()}}); !errors.Is(err, schedule.ErrKeyConflict) {
			l.Errorf("a run under the same id: %v", err)
		}
		if _, err := l.ReleaseReservation(l.Context(), first.ID, ""); err != nil {
			l.Fatal(err)
		}
		if _, err := l.Reserve(l.Context(), slot(again)); !errors.Is(err, schedule.ErrNotFound) || !strings.Contains(err.Error(), "has ended") {
			l.Errorf("after its end: %v", err)
		}
	})
}

func TestReservationsAreRefused(t *testing.T) {
	onQueues(t, func(l *line) {
		for _, c := range []struct {
			name string
			edit func(*registrar.ReserveInput)
			kind error // nil: a refused field
			says string
		}{
			{"of a queue that does not exist", func(in *registrar.ReserveInput) { in.QueueID = "nobody" }, schedule.ErrNotFound, "nobody"},
			{"for no time", func(in *registrar.ReserveInput) { in.HoldMS = 0 }, nil, "hold_ms"},
			{"for over an hour", func(in *registrar.ReserveInput) { in.HoldMS = 3_600_001 }, nil, "3600000"},
			{"with an unknown limit", func(in *registrar.ReserveInput) { in.Limits = []string{"none"} }, nil, "does not exist"},
			{"with five limits", func(in *registrar.ReserveInput) { in.Limits = []string{"a", "b", "c", "d", "e"} }, nil, "limits"},
			{"with a request id that is none", func(in *registrar.ReserveInput) { in.RequestID = "a/b" }, nil, "a/b"},
		} {
			if _, err := l.Reserve(l.Context(), slot(c.edit)); err == nil || !strings.Contains(err.Error(), c.says) {
				l.Errorf("%s: %v", c.name, err)
			} else if _, invalid := errors.AsType[*schedule.InvalidError](err); invalid != (c.kind == nil) || !invalid && !errors.Is(err, c.kind) {
				l.Errorf("%s: %v is another kind", c.name, err)
			}
		}
		q := gpuQueue()
		q.MaxReservations = 2
		if _, err := l.UpsertQueue(l.Context(), q); err != nil {
			l.Fatal(err)
		}
		for range 3 {
			l.reserve(slot())
		}
		if _, err := l.Reserve(l.Context(), slot()); !errors.Is(err, schedule.ErrExhausted) || !strings.Contains(err.Error(), "2 reservations that wait") {
			l.Errorf("a third that waits: %v", err)
		}
		if err := second(l.DeleteQueue(l.Context(), registrar.DeleteQueueInput{QueueID: "gpu"})); !errors.Is(err, schedule.ErrPrecondition) || !strings.Contains(err.Error(), "1 granted reservation, 2 waiting one") {
			l.Errorf("the deletion of a queue with reservations: %v", err)
		}
		if _, err := l.CloseQueue(l.Context(), "gpu", "", ""); err != nil {
			l.Fatal(err)
		}
		if _, err := l.Reserve(l.Context(), slot()); !errors.Is(err, schedule.ErrPrecondition) || !strings.Contains(err.Error(), "closed") {
			l.Errorf("of a closed queue: %v", err)
		}
		if err := second(l.DeleteQueue(l.Context(), registrar.DeleteQueueInput{QueueID: "gpu", Force: true})); err != nil {
			l.Fatal(err)
		}
		if _, err := l.UpsertQueue(l.Context(), gpuQueue()); err != nil {
			l.Fatal(err)
		}
		if list, err := l.ListReservations(l.Context(), "gpu"); err != nil || len(list) != 0 {
			l.Errorf("after a deletion by force: %+v, %v", list, err)
		}
	})
}

func TestAnOwnerHasItsOwnReservations(t *testing.T) {
	onQueues(t, func(l *line) {
		ada, bob := as(t, "ada", auth.User), as(t, "bob", auth.User)
		if _, err := l.Reserve(bob, slot()); !errors.Is(err, schedule.ErrNotFound) {
			l.Errorf("of a foreign private queue: %v", err)
		}
		q := gpuQueue()
		q.Shared = true
		if _, err := l.UpsertQueue(l.Context(), q); err != nil {
			l.Fatal(err)
		}
		own, err := l.Reserve(bob, slot())
		if err != nil || own.UserID != "bob" {
			l.Fatalf("got %+v, %v", own, err)
		}
		foreign, err := l.Reserve(ada, slot())
		if err != nil || foreign.Position != 1 {
			l.Fatalf("got %+v, %v", foreign, err)
		}
		for name, err := range map[string]error{
			"read":     second(l.GetReservation(bob, foreign.ID, true)),
			"extended": second(l.ExtendReservation(bob, foreign.ID, nil)),
			"released": second(l.ReleaseReservation(bob, foreign.ID, "")),
		} {
			if !errors.Is(err, schedule.ErrNotFound) {
				l.Errorf("%s by another owner: %v", name, err)
			}
		}
		if list, err := l.ListReservations(bob, "gpu"); err != nil || len(list) != 1 || list[0].ID != own.ID {
			l.Errorf("listed %+v, %v", list, err)
		}
		if _, err := l.ExtendReservation(ada, foreign.ID, nil); !errors.Is(err, schedule.ErrPrecondition) || !strings.Contains(err.Error(), "waits for its grant") {
			l.Errorf("extended before its grant: %v", err)
		}
		if _, err := l.Reserve(bob, slot(func(in *registrar.ReserveInput) { in.UserID = "ada" })); err == nil {
			l.Error("for another owner")
		}
	})
}
