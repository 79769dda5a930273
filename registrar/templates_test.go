package registrar_test

import (
	"context"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/registrar"
)

// between does something once, between what a registrar reads for an entry and the entry.
type between struct {
	registrar.EnqueueStore
	once func()
}

func (b *between) Enqueue(ctx context.Context, req schedule.EnqueueRequest, decide func(schedule.EnqueueFacts) (schedule.Enqueue, error)) error {
	if do := b.once; do != nil {
		b.once = nil
		do()
	}
	return b.EnqueueStore.Enqueue(ctx, req, decide)
}

func TestAnEntryMakesATemplateAgainThatIsDeletedMeanwhile(t *testing.T) {
	t.Parallel()
	onQueues(t, func(l *line) {
		const id = "gpu:ada:resize:3"
		l.enqueue(registrar.EnqueueInput{Runs: []registrar.QueuedInput{job()}})
		made, err := l.opts.Schedules.PeekSchedule(l.Context(), id)
		if err != nil {
			l.Fatal(err)
		}
		l.now = l.now.Add(100 * 24 * time.Hour)
		b := &between{EnqueueStore: l.opts.Entries}
		l.opts.Entries = b
		l.Registrar = registrar.New(l.opts)
		b.once = func() {
			if err := l.Delete(l.Context(), id, "retention"); err != nil {
				l.Fatal(err)
			}
		}
		done := l.enqueue(registrar.EnqueueInput{Runs: []registrar.QueuedInput{job()}})
		again, err := l.opts.Schedules.PeekSchedule(l.Context(), id)
		if err != nil || b.once != nil || !again.Alive() || again.Revision == made.Revision {
			l.Errorf("the template is %+v, %v; want a new revision that is alive", again, err)
		}
		run, err := l.GetRun(l.Context(), done.Keys[0])
		if err != nil || run.ScheduleID != id || run.Revision != again.Revision {
			l.Errorf("the run is %+v, %v; want one of revision %d", run, err, again.Revision)
		}
	})
}

func TestTheUseOfATemplateIsNotedOnceADay(t *testing.T) {
	t.Parallel()
	onQueues(t, func(l *line) {
		var noted []time.Duration
		for _, after := range []time.Duration{0, time.Hour, 23 * time.Hour, 24 * time.Hour, 25 * time.Hour, 48 * time.Hour} {
			l.now = noon.Add(after)
			l.enqueue(registrar.EnqueueInput{Runs: []registrar.QueuedInput{job(), job()}, Batch: true})
			s, err := l.opts.Schedules.PeekSchedule(l.Context(), "gpu:ada:resize:3")
			if err != nil {
				l.Fatal(err)
			}
			noted = append(noted, s.UpdatedAt.Sub(noon))
		}
		day := 24 * time.Hour
		for i, want := range []time.Duration{0, 0, 0, day, day, 2 * day} {
			if noted[i] != want {
				l.Errorf("after entry %d its use is noted at %s, want %s", i+1, noted[i], want)
			}
		}
	})
}
