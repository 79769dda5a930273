package httpexecutor_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/launcher"
	httpexecutor "github.com/carillon/carillon/launcher/executor/http"
)

func TestCancelUnderstandsAnswers(t *testing.T) {
	tests := []struct {
		name     string
		status   int
		want     error // nil: confirmed
		wantText string
	}{
		{name: "200 confirms", status: 200},
		{name: "202 ends later and confirms nothing", status: 202, want: launcher.ErrCancelAccepted},
		{name: "204 confirms", status: 204},
		{name: "404 does not know it", status: 404, want: schedule.ErrNotFound},
		{name: "410 does not know it any more", status: 410, want: schedule.ErrNotFound},
		{name: "403 says nothing about the run", status: 403, wantText: "unknown outcome: the executor answered 403"},
		{name: "409 is asked again", status: 409, wantText: "answered 409"},
		{name: "500 is asked again", status: 500, wantText: "answered 500"},
		{name: "a redirect is asked again", status: 302, wantText: "redirects are not followed"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			key := schedule.SlotKey("s", runAt)
			var got string
			e := serve(t, httpexecutor.Config{Token: "secret", CancelURL: "/runs/{run_id}?k={idempotency_key}"}, func(w http.ResponseWriter, r *http.Request) {
				got = r.Method + " " + r.URL.String() + " " + r.Header.Get("Authorization") + " " + r.Header.Get("Idempotency-Key")
				w.WriteHeader(tt.status)
			})
			err := e.Cancel(t.Context(), schedule.CancelRequest{Key: key, RunID: "a/b ?"})
			if want := "DELETE /runs/a%2Fb%20%3F?k=" + key.String() + " Bearer secret " + key.String(); got != want {
				t.Errorf("request:\n%s\nwant\n%s", got, want)
			}
			switch {
			case tt.wantText != "":
				if err == nil || !strings.Contains(err.Error(), tt.wantText) || errors.Is(err, schedule.ErrNotFound) {
					t.Errorf("Cancel() = %v, want %q", err, tt.wantText)
				}
			case !errors.Is(err, tt.want):
				t.Errorf("Cancel() = %v, want %v", err, tt.want)
			}
		})
	}
}

func TestCancelWithoutAnAddressIsNotSupported(t *testing.T) {
	e := newExecutor(t, httpexecutor.Config{URL: "http://127.0.0.1:1/"})
	if err := e.Cancel(t.Context(), schedule.CancelRequest{RunID: "r"}); !errors.Is(err, launcher.ErrUnsupported) || e.CanCancel() {
		t.Errorf("Cancel() = %v, CanCancel() = %v, want ErrUnsupported", err, e.CanCancel())
	}
	if _, err := e.GetByKey(t.Context(), schedule.RunRef{}); !errors.Is(err, launcher.ErrUnsupported) {
		t.Errorf("GetByKey() = %v, want ErrUnsupported", err)
	}
}

func TestCancelNamesTheRunAndItsSlot(t *testing.T) {
	key := schedule.SlotKey("s", runAt)
	at := runAt.UTC().Format(time.RFC3339)
	for _, tt := range []struct {
		name, template string
		ref            schedule.CancelRequest
		want           string // empty: not sent
	}{
		{
			"all placeholders", "/{schedule_id}/{scheduled_for}/{idempotency_key}?run={run_id}",
			schedule.CancelRequest{Key: key, ScheduleID: "team:s", ScheduledFor: runAt, RunID: "r"},
			"/team:s/" + at + "/" + key.String() + "?run=r team:s " + at,
		},
		{
			"the slot as headers alone", "/runs/{idempotency_key}",
			schedule.CancelRequest{Key: key, ScheduleID: "s", ScheduledFor: runAt},
			"/runs/" + key.String() + " s " + at,
		},
		{
			"a worker of an earlier version does not send the slot", "/runs/{idempotency_key}",
			schedule.CancelRequest{Key: key, ScheduleID: "s"},
			"/runs/" + key.String() + " s ",
		},
		{"a URL that needs a slot that is not known", "/runs/{idempotency_key}?at={scheduled_for}", schedule.CancelRequest{Key: key, ScheduleID: "s"}, ""},
		{"a schedule that would climb in the path", "/{schedule_id}/{idempotency_key}", schedule.CancelRequest{Key: key, ScheduleID: ".."}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := ""
			e := serve(t, httpexecutor.Config{CancelURL: tt.template}, func(_ http.ResponseWriter, r *http.Request) {
				got = r.URL.String() + " " + r.Header.Get("X-Carillon-Schedule-Id") + " " + r.Header.Get("X-Carillon-Scheduled-For")
			})
			err := e.Cancel(t.Context(), tt.ref)
			if got != tt.want {
				t.Errorf("request:\n%s\nwant\n%s", got, tt.want)
			}
			if errors.Is(err, launcher.ErrNotSent) != (tt.want == "") {
				t.Errorf("Cancel() = %v", err)
			}
		})
	}
}

func TestCancelNeverAsksAboutTheWrongRun(t *testing.T) {
	e := serve(t, httpexecutor.Config{CancelURL: "/runs/{run_id}"}, func(w http.ResponseWriter, r *http.Request) {
		t.Errorf("called %s", r.URL)
		w.WriteHeader(http.StatusNotFound)
	})
	for _, id := range []string{"", ".."} {
		err := e.Cancel(t.Context(), schedule.CancelRequest{RunID: id})
		if err == nil || errors.Is(err, schedule.ErrNotFound) {
			t.Errorf("Cancel of run_id %q: %v, want an error that confirms nothing", id, err)
		}
	}
}
