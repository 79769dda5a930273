package alert_test

import (
	"context"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/safehttp"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/registrar/alert"
)

func TestTwoRegistrarsSendEachMessageOnce(t *testing.T) {
	for _, e := range engines {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			const tests = 60
			s, r := newSite(t, e), newReceiver(t)
			s.oneSchedule(t)
			s.now = func() time.Time { return noon.Add(6 * time.Minute) }
			policy, err := safehttp.ParsePolicy("loopback")
			if err != nil {
				t.Fatal(err)
			}
			client := policy.NewClient(safehttp.Options{})
			t.Cleanup(client.CloseIdleConnections)
			var desks []*alert.Desk
			for range 2 {
				w := s.newWatch(t, client, r.URL+"/hook")
				ctx, end := context.WithCancel(t.Context())
				done := make(chan struct{})
				go func() { defer close(done); _ = w.Run(ctx) }()
				t.Cleanup(func() { end(); <-done })
				desks = append(desks, alert.NewDesk(s.store, w))
			}
			for i := range tests {
				ask(t, desks[i%2])
			}
			for range tests + 1 {
				select {
				case <-r.arrived:
				case <-time.After(30 * time.Second):
					t.Fatal("not all of them arrive")
				}
			}
			settled(t, desks[0], func(schedule.AlertDelivery) bool {
				left, err := desks[0].Deliveries(t.Context(), schedule.DeliveryFilter{State: schedule.DeliveryPending, Limit: 1})
				return err == nil && len(left) == 0
			})
			r.mu.Lock()
			defer r.mu.Unlock()
			seen := make(map[string]int)
			for _, id := range r.ids {
				seen[id]++
			}
			if len(r.ids) != tests+1 || len(seen) != tests+1 || len(r.bad) > 0 {
				t.Errorf("%d messages came under %d ids, want %d of each; with wrong signatures %v", len(r.ids), len(seen), tests+1, r.bad)
			}
		})
	}
}
