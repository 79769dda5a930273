package registrar_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/auth"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/store/memory"
	"github.com/carillon/carillon/internal/topic"
	"github.com/carillon/carillon/registrar"
)

// publisher is a registrar whose owners may have so many pending events, with a consumer of ada's.
func publisher(t *testing.T, limit int) *registrar.Registrar {
	t.Helper()
	m := memory.New(memory.Options{})
	r := registrar.New(registrar.Options{
		Schedules: m, Runs: m, Grants: m, Events: m, Logger: quiet, Now: func() time.Time { return noon }, Config: registrar.Config{OwnerMaxPending: limit},
	})
	_, err := r.Upsert(t.Context(), registrar.UpsertInput{Definition: schedule.Definition{
		ScheduleID: "c", WorkflowID: "w", Version: 1, UserID: "ada", Consume: schedule.Consume{Topics: []string{"orders"}, Filter: []byte(`{"data": [{"exists": true}]}`)},
	}})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func publish(ctx context.Context, r *registrar.Registrar, topicName string, ids ...string) error {
	in := registrar.PublishInput{UserID: "ada", Topic: topicName}
	for _, id := range ids {
		in.Events = append(in.Events, topic.Event{EventID: id, Data: []byte(`{}`)})
	}
	_, _, err := r.Publish(ctx, in)
	return err
}

func TestAnOwnerWithTooManyPendingEventsPublishesNone(t *testing.T) {
	r := publisher(t, 5)
	as := func(owner string, role auth.Role) context.Context {
		return auth.NewContext(t.Context(), auth.Identity{Subject: "shop", Owner: owner, Roles: []auth.Role{role}})
	}
	ada := as("ada", auth.Publisher)
	for i := range 9 { // they have no consumer, so they are not pending
		if err := publish(ada, r, "unrouted", fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := publish(ada, r, "orders", "1", "2", "3", "4"); err != nil {
		t.Fatalf("below the limit: %v", err)
	}
	if err := publish(ada, r, "orders", "5", "6"); err != nil {
		t.Fatalf("below the limit, and with them above it: %v", err)
	}
	err := publish(ada, r, "orders", "7")
	var later *schedule.LaterError
	if !errors.As(err, &later) || later.Wait <= 0 || !strings.Contains(err.Error(), `max_pending: 6 events of owner "ada" wait for its consumers, and its limit is 5; try again in`) ||
		!strings.Contains(err.Error(), "ask the operator to raise OWNER_MAX_PENDING") {
		t.Fatalf("above the limit: %v", err)
	}
	if _, _, err := r.GetEvent(t.Context(), "ada", topic.ID{Topic: "orders", EventID: "7"}); !errors.Is(err, schedule.ErrNotFound) {
		t.Errorf("it was written: %v", err)
	}
	if err := publish(as("", auth.Compiler), r, "orders", "8"); err != nil {
		t.Errorf("a service that acts for all owners: %v", err)
	}
}
