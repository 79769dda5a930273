package alert_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/carillon/carillon/internal/auth/reload"
	"github.com/carillon/carillon/internal/safehttp"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/registrar/alert"
	"github.com/carillon/carillon/registrar/notify"
)

// notifyFile is a NOTIFY_FILE that a test changes.
type notifyFile struct {
	t    *testing.T
	path string
	at   time.Time // of the last change: a file system may not tell two changes apart
}

func newNotifyFile(t *testing.T, text string) *notifyFile {
	f := &notifyFile{t: t, path: filepath.Join(t.TempDir(), "notify.yaml"), at: time.Now().Add(-time.Hour)}
	f.write(text)
	return f
}

func (f *notifyFile) write(text string) {
	f.t.Helper()
	f.at = f.at.Add(time.Second)
	if err := os.WriteFile(f.path, []byte(text), 0o600); err != nil {
		f.t.Fatal(err)
	}
	if err := os.Chtimes(f.path, f.at, f.at); err != nil {
		f.t.Fatal(err)
	}
}

// routes reads the file whenever it has changed.
func (f *notifyFile) routes() func() *notify.Routes {
	f.t.Helper()
	policy, err := safehttp.ParsePolicy("loopback")
	if err != nil {
		f.t.Fatal(err)
	}
	clock := time.Now()
	file, err := reload.Open(slog.New(slog.DiscardHandler), func() time.Time { clock = clock.Add(time.Minute); return clock },
		func() (*notify.Routes, error) { return notify.Read(f.path, nil, policy) }, f.path)
	if err != nil {
		f.t.Fatal(err)
	}
	return file.Get
}

const twoTargets = `targets:
  - {name: old, kind: ntfy, url: "http://127.0.0.1:1/old"}
  - {name: new, kind: ntfy, url: "http://127.0.0.1:1/new"}
  - {name: boss, kind: ntfy, url: "http://127.0.0.1:1/boss"}
routes:
  - {match: {labels: {team: data}, severity: critical}, to: %s}
default: [boss]
`

// told are the newest messages as type and target.
func (s *site) told(t *testing.T) (told []string) {
	t.Helper()
	found, err := s.store.ListDeliveries(t.Context(), schedule.DeliveryFilter{Limit: 100})
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range found {
		told = append(told, d.Type+" "+d.Target+" "+d.TargetKind)
	}
	slices.Sort(told)
	return told
}

// A PagerDuty incident stays open until its target receives the end of the alert.
func TestNotifiedTargetsGetTheEndOfAnAlertAfterARouteChange(t *testing.T) {
	for _, e := range engines {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, e)
			s.oneSchedule(t)
			s.exec(t, `UPDATE schedules SET labels = '{"team":"data","severity":"critical"}', expect = '{"start_within_ms":300000,"alert_after":1,"remind_every_ms":300000}'`)
			f := newNotifyFile(t, fmt.Sprintf(twoTargets, "old"))
			w := alert.New(alert.Options{
				Expectations: s.store, Outbox: s.store, Routes: f.routes(), Now: func() time.Time { return s.now() },
				Logger: slog.New(slog.DiscardHandler), Registry: prometheus.NewRegistry(),
			})
			want := []string(nil)
			evaluate := func(at time.Duration, more ...string) {
				t.Helper()
				s.now = func() time.Time { return noon.Add(at) }
				if err := w.Evaluate(t.Context()); err != nil {
					t.Fatal(err)
				}
				s.now = func() time.Time { return noon.Add(at + 5*time.Second) } // group_wait
				if err := w.Group(t.Context()); err != nil {
					t.Fatal(err)
				}
				want = append(want, more...)
				slices.Sort(want)
				if told := s.told(t); !slices.Equal(told, want) {
					t.Errorf("after %s told %v, want %v", at, told, want)
				}
			}
			evaluate(6*time.Minute, "alert.opened old ntfy")
			f.write(fmt.Sprintf(twoTargets, "new"))
			evaluate(12*time.Minute, "alert.reminder new ntfy")
			f.write("targets: [") // an operator at work: the last good file counts
			evaluate(18*time.Minute, "alert.reminder new ntfy")
			f.write(fmt.Sprintf(twoTargets, "boss"))
			s.exec(t, `UPDATE schedules SET deleted_at = created_at`)
			evaluate(time.Hour, "alert.recovered old ntfy", "alert.recovered new ntfy")
		})
	}
}

func TestATargetThatIsAddedWhileTheProcessRunsIsServedAndCounted(t *testing.T) {
	t.Parallel()
	receiver := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(receiver.Close)
	s := newSite(t, engines[0])
	f := newNotifyFile(t, "targets: []")
	policy, err := safehttp.ParsePolicy("loopback")
	if err != nil {
		t.Fatal(err)
	}
	registry := prometheus.NewRegistry()
	client := policy.NewClient(safehttp.Options{})
	w := alert.New(alert.Options{
		Expectations: s.store, Outbox: s.store, Routes: f.routes(), Client: client, Now: time.Now, Logger: slog.New(slog.DiscardHandler), Registry: registry,
	})
	desk := alert.NewDesk(s.store, w)
	if _, err := desk.Test(t.Context(), ""); err == nil {
		t.Error("a test without targets says nothing")
	}
	ctx, end := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); _ = w.Run(ctx) }()
	t.Cleanup(func() { end(); <-done; client.CloseIdleConnections() })
	f.write(fmt.Sprintf("targets:\n  - {name: phone, kind: ntfy, url: %q}\n  - {name: other, kind: ntfy, url: %q}", receiver.URL+"/ours", receiver.URL+"/other"))
	if _, err := desk.Test(t.Context(), "fax"); err == nil || err.Error() != `not found: there is no notification target "fax"; there are: phone, other` {
		t.Errorf("a target that there is not: %v", err)
	}
	sent, err := desk.Test(t.Context(), "phone")
	if err != nil || len(sent) != 1 || sent[0].Target != "phone" || sent[0].TargetKind != "ntfy" {
		t.Fatalf("sent %+v, %v", sent, err)
	}
	settled(t, desk, func(d schedule.AlertDelivery) bool { return d.State == schedule.DeliveryDelivered })
	end()
	<-done
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	counted := make(map[string]float64)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() != "carillon_alert_deliveries_total" || m.GetCounter().GetValue() == 0 {
				continue
			}
			labels := ""
			for _, l := range m.GetLabel() {
				labels += l.GetName() + "=" + l.GetValue() + " "
			}
			counted[labels] = m.GetCounter().GetValue()
		}
	}
	if len(counted) != 1 || counted["outcome=delivered target_kind=ntfy "] != 1 {
		t.Errorf("counted %v", counted)
	}
}
