package app_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/app"
	"github.com/carillon/carillon/internal/schedule"
)

func TestTheDoctorReportsFailedNotifications(t *testing.T) {
	t.Parallel()
	cfg := onDatabase(t, "sqlite:"+filepath.Join(t.TempDir(), "carillon.db"))
	store := emptyStore(t, cfg)
	said := func() (said string) {
		for _, f := range app.Examine(t.Context(), cfg, nil) {
			if f.Check == "notifications" {
				said += string(f.Health) + " " + f.Says
			}
		}
		return said
	}
	if got := said(); got != "ok none failed in the last 24 hours" {
		t.Errorf("with none: %q", got)
	}
	now := store.Now()
	send := func(id, alertID string, s schedule.DeliverySettlement) {
		t.Helper()
		d := schedule.AlertDelivery{DeliveryID: id, AlertID: alertID, Type: "alert.opened", Target: "ops", TargetKind: "email", Host: "smtp.example.org:587", Payload: "{}", CreatedAt: now}
		if err := store.InsertDeliveries(t.Context(), []schedule.AlertDelivery{d}); err != nil {
			t.Fatal(err)
		}
		if _, err := store.ClaimDeliveries(t.Context(), schedule.DeliveryClaim{Now: now, Lease: time.Minute, Limit: 1}); err != nil {
			t.Fatal(err)
		}
		s.DeliveryID, s.Attempts, s.Round = id, 1, 1
		if moved, err := store.SettleDelivery(t.Context(), s); err != nil || !moved {
			t.Fatal(moved, err)
		}
	}
	send("a", "al-1", schedule.DeliverySettlement{State: schedule.DeliveryDead, Error: "550 no", Now: now.Add(-25 * time.Hour)})
	if got := said(); !strings.HasPrefix(got, "ok ") {
		t.Errorf("with one of yesterday: %q", got)
	}
	send("b", "al-1", schedule.DeliverySettlement{State: schedule.DeliveryPending, NextAt: now.Add(time.Hour), Error: "451 later", Now: now})
	if got := said(); got != "warn 1 notification did not arrive yet and will be retried, to ops (email smtp.example.org:587): 451 later" {
		t.Errorf("with one that waits: %q", got)
	}
	send("d", "", schedule.DeliverySettlement{State: schedule.DeliveryDead, Error: "a test", Now: now})
	send("c", "al-1", schedule.DeliverySettlement{State: schedule.DeliveryDead, Error: "535 wrong", Now: now})
	if got := said(); got != "warn 1 notification failed in the last 24 hours, to ops (email smtp.example.org:587): 535 wrong" {
		t.Errorf("with one that failed: %q", got)
	}
}

func TestTheDoctorReportsFailedWebhooks(t *testing.T) {
	t.Parallel()
	cfg := onDatabase(t, "sqlite:"+filepath.Join(t.TempDir(), "carillon.db"))
	store := emptyStore(t, cfg)
	said := func() (said string) {
		for _, f := range app.Examine(t.Context(), cfg, nil) {
			if f.Check == "webhooks" || f.Check == "notifications" && !strings.HasPrefix(f.Says, "none failed") {
				said += string(f.Health) + " " + f.Says
			}
		}
		return said
	}
	now := store.Now()
	for i, want := range []string{
		"ok no message about the end of a run failed in the last 24 hours",
		"warn 1 message about the ends of runs failed in the last 24 hours; the newest to billing: the target answered 501",
		"warn 2 messages about the ends of runs failed in the last 24 hours; the newest to billing: the target answered 502",
	} {
		key := schedule.Key{byte(i + 1)}
		d := schedule.AlertDelivery{
			DeliveryID: schedule.WebhookID(key), RunKey: key, UserID: "ada", Type: "run.failed", Target: schedule.WebhookTarget("billing"), TargetKind: "webhook",
			CreatedAt: now.Add(time.Duration(i-10) * time.Minute),
		}
		if err := store.InsertDeliveries(t.Context(), []schedule.AlertDelivery{d}); err != nil {
			t.Fatal(err)
		}
		if _, err := store.ClaimDeliveries(t.Context(), schedule.DeliveryClaim{Now: now, Lease: time.Minute, Limit: 1}); err != nil {
			t.Fatal(err)
		}
		ended := now
		if i == 0 {
			ended = now.Add(-25 * time.Hour)
		}
		moved, err := store.SettleDelivery(t.Context(), schedule.DeliverySettlement{
			DeliveryID: d.DeliveryID, Attempts: 1, Round: 1, State: schedule.DeliveryDead, Error: fmt.Sprintf("the target answered %d", 500+i), Now: ended,
		})
		if err != nil || !moved {
			t.Fatal(moved, err)
		}
		if got := said(); got != want {
			t.Errorf("after %d: %q, want %q", i+1, got, want)
		}
	}
}
