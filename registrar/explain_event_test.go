package registrar_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/auth"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/store/memory"
	"github.com/carillon/carillon/internal/topic"
	"github.com/carillon/carillon/registrar"
	"github.com/carillon/carillon/registrar/explain"
)

// topicRig is a registrar with topics, on a store in memory.
type topicRig struct {
	*testing.T
	*registrar.Registrar
	now time.Time
}

func newTopicRig(t *testing.T) *topicRig {
	store := memory.New(memory.Options{})
	w := &topicRig{T: t, now: noon}
	w.Registrar = registrar.New(registrar.Options{
		Schedules: store, Runs: store, Workflows: store, Shares: store, Grants: store, Overlaps: store, Events: store,
		Now: func() time.Time { return w.now }, Config: registrar.Config{OwnerMaxSchedules: 100, Retention: 30 * 24 * time.Hour},
	})
	return w
}

func (w *topicRig) consumer(id, owner string, topics ...string) {
	w.Helper()
	_, err := w.Upsert(w.Context(), registrar.UpsertInput{Definition: schedule.Definition{
		ScheduleID: id, UserID: owner, WorkflowID: "w", Version: 1, Consume: schedule.Consume{Topics: topics},
	}})
	if err != nil {
		w.Fatal(err)
	}
}

func (w *topicRig) publish(owner, topicName, id string) {
	w.Helper()
	in := registrar.PublishInput{UserID: owner, Topic: topicName, Events: []topic.Event{{EventID: id, Data: []byte("{}")}}}
	if _, _, err := w.Publish(w.Context(), in); err != nil {
		w.Fatal(err)
	}
}

func (w *topicRig) verdicts(consumer string) (verdicts []string) {
	w.Helper()
	a, err := w.ExplainEvent(w.Context(), "ada", topic.ID{Topic: "orders", EventID: "o-1"}, consumer)
	if err != nil {
		w.Fatal(err)
	}
	for i := range a.Consumers {
		c := &a.Consumers[i]
		verdicts = append(verdicts, c.ScheduleID+" "+string(c.Verdict)+" "+c.Reason)
	}
	return verdicts
}

func TestAnEventIsExplainedForEachConsumer(t *testing.T) {
	w := newTopicRig(t)
	w.consumer("a", "ada", "orders")
	w.consumer("b", "ada", "orders", "orders.*")
	w.consumer("other", "ada", "bills")
	w.consumer("bobs", "bob", "orders")
	w.now = noon.Add(time.Hour)
	w.publish("ada", "orders", "o-1")
	if _, err := w.Pause(w.Context(), registrar.PauseInput{ScheduleID: "b"}); err != nil {
		w.Fatal(err)
	}
	if got, want := w.verdicts(""), []string{"a waits due", "b waits paused"}; !slices.Equal(got, want) {
		t.Errorf("it says %q, want %q", got, want)
	}
	if got, want := w.verdicts("other"), []string{"other not_subscribed "}; !slices.Equal(got, want) {
		t.Errorf("it says %q, want %q", got, want)
	}
	w.now = w.now.Add(time.Hour)
	w.consumer("late", "ada", "orders")
	if got, want := w.verdicts("late"), []string{"late not_subscribed "}; !slices.Equal(got, want) {
		t.Errorf("it says %q, want %q", got, want)
	}
}

func TestAnEventIsExplainedToItsOwnerOnly(t *testing.T) {
	w := newTopicRig(t)
	w.consumer("a", "ada", "orders")
	w.consumer("bobs", "bob", "orders")
	w.publish("ada", "orders", "o-1")
	bob := auth.NewContext(t.Context(), auth.Identity{Subject: "bob", Owner: "bob"})
	id := topic.ID{Topic: "orders", EventID: "o-1"}
	for name, ask := range map[string]func() (explain.EventAnswer, error){
		"its own topic of that name":    func() (explain.EventAnswer, error) { return w.ExplainEvent(bob, "", id, "") },
		"a consumer of another owner":   func() (explain.EventAnswer, error) { return w.ExplainEvent(w.Context(), "ada", id, "bobs") },
		"a consumer that does not live": func() (explain.EventAnswer, error) { return w.ExplainEvent(w.Context(), "ada", id, "none") },
	} {
		if a, err := ask(); !errors.Is(err, schedule.ErrNotFound) {
			t.Errorf("%s: %+v, %v", name, a, err)
		}
	}
}
