package app_test

import (
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
