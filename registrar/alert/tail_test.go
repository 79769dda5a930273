package alert_test

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/registrar/alert"
	"github.com/carillon/carillon/registrar/notify"
)

func TestAFailuresMessageHasTheLastLinesOfItsRun(t *testing.T) {
	t.Parallel()
	for _, e := range engines {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, e)
			now := time.Now().Truncate(time.Second)
			s.now = func() time.Time { return now }
			row := hourly("nightly", now.Add(-48*time.Hour))
			row.Expect = schedule.Expect{}
			err := s.store.ChangeSchedules(t.Context(), schedule.ChangeRequest{ScheduleIDs: []string{"nightly"}}, func([]schedule.ChangeInput) ([]schedule.Change, error) {
				return []schedule.Change{{ScheduleID: "nightly", Row: &row, NewRevision: true, Now: now}}, nil
			})
			if err != nil {
				t.Fatal(err)
			}
			output := s.store.(interface {
				alert.OutputStore
				logAppender
			})
			w := alert.New(alert.Options{
				Expectations: s.store, Outbox: s.store, Output: output, Routes: routesTo(t, "http://127.0.0.1:9/hook"), Client: http.DefaultClient, Now: s.now,
				Logger: slog.New(slog.DiscardHandler), Registry: prometheus.NewRegistry(), OnFailure: schedule.OnFailureAlert,
			})
			slot := now.Add(-24 * time.Hour)
			var parts []schedule.LogPart
			for i := range int64(10) {
				parts = append(parts, schedule.LogPart{Seq: i + 1, Step: "copy", WrittenAt: now, Text: strings.Repeat("copied\n", 5)})
			}
			parts = append(parts, schedule.LogPart{Seq: 11, Step: "copy", WrittenAt: now, Text: "No space left on device\n"})
			if err := output.AppendRunLog(t.Context(), schedule.RunLogAppend{Key: schedule.SlotKey("nightly", slot), Parts: parts}); err != nil {
				t.Fatal(err)
			}
			s.end(t, slot, schedule.Settlement{To: schedule.StatusFailed, Reason: schedule.ReasonWorkflowFailed, ErrorCode: "exit"}, &row)
			now = now.Add(2 * time.Second)
			if err := w.Evaluate(t.Context()); err != nil {
				t.Fatal(err)
			}
			sent, err := s.store.ListDeliveries(t.Context(), schedule.DeliveryFilter{Limit: 10})
			if err != nil || len(sent) != 1 {
				t.Fatalf("%d messages, %v", len(sent), err)
			}
			want := `"output_tail":"` + strings.Repeat(`copied\n`, notify.MaxTailLines-1) + `No space left on device"`
			if !strings.Contains(sent[0].Payload, want) {
				t.Errorf("the message lacks %s: %s", want, sent[0].Payload)
			}
		})
	}
}

type logAppender interface {
	AppendRunLog(ctx context.Context, a schedule.RunLogAppend) error
}
