package alert_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/registrar/notify"
)

// The test follows one unplanned slot through its alert to the late run, and compares each message
// with docs/alerts.md.
func TestAMessageExplainsTheAlertInOneSentence(t *testing.T) {
	s := newSite(t, engines[0])
	s.oneSchedule(t)
	s.exec(t, `UPDATE schedules SET expect = '{"start_within_ms":300000,"alert_after":1,"remind_every_ms":300000}'`)
	w := s.newWatch(t, nil, "http://127.0.0.1/hook")
	evaluate := func(at time.Duration) notify.Message {
		t.Helper()
		s.now = func() time.Time { return noon.Add(at) }
		if err := w.Evaluate(t.Context()); err != nil {
			t.Fatal(err)
		}
		found, err := s.store.ListDeliveries(t.Context(), schedule.DeliveryFilter{Limit: 1})
		if err != nil || len(found) != 1 {
			t.Fatalf("%d messages, %v", len(found), err)
		}
		var m notify.Message
		if err := json.Unmarshal([]byte(found[0].Payload), &m); err != nil || !m.Timestamp.Equal(noon.Add(at)) || string(m.Type) != found[0].Type {
			t.Errorf("%v in %s, found at %s", err, found[0].Payload, noon.Add(at))
		}
		return m
	}
	for _, tt := range []struct {
		name string
		at   time.Duration
		kind string
		text string
	}{
		{"a slot that nobody planned", 6 * time.Minute, "alert.opened", "Schedule s has not started its run of 2026-03-02 12:00:00 UTC within 5 minutes (not_planned)."},
		{"five minutes on", 12 * time.Minute, "alert.reminder", "Schedule s is still late: it has not started its run of 2026-03-02 12:00:00 UTC within 5 minutes (not_planned)."},
		{"the next is late as well, when it is reminded of", 66 * time.Minute, "alert.reminder", "Schedule s is still late: it has not started its run of 2026-03-02 13:00:00 UTC within 5 minutes (not_planned), 2 times in a row."},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if m := evaluate(tt.at); string(m.Type) != tt.kind || m.Data.Text != tt.text || m.Data.ScheduleID != "s" || m.Data.UserID != "ada" || m.Data.LimitMS != 300_000 {
				t.Errorf("told %s %+v, want %s %q", m.Type, m.Data, tt.kind, tt.text)
			} else if id := m.Data.AlertID; m.Data.URL != "https://carillon.example.org/ui/alerts/"+id || m.Data.APIURL != "https://carillon.example.org/v1/alerts/"+id {
				t.Errorf("it links to %q and %q", m.Data.URL, m.Data.APIURL)
			}
		})
	}
	s.exec(t, `UPDATE schedules SET deleted_at = 1`)
	if m := evaluate(2 * time.Hour); m.Data.Text != "Schedule s was deleted; it had not started its run of 2026-03-02 13:00:00 UTC within 5 minutes (not_planned), 2 times in a row." {
		t.Errorf("told %q", m.Data.Text)
	}
}
