package alert_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/carillon/carillon/internal/cli/clitest"
	"github.com/carillon/carillon/internal/cli/command"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

func anAlert() *carillonv1.Alert {
	return &carillonv1.Alert{
		AlertId: "al-1", ScheduleId: "nightly", WorkflowId: "report", UserId: "ada", Kind: "finish", Revision: 3, LimitMs: 3_600_000,
		Cause: "still_running", Late: 2, FirstSlot: clitest.Time("2026-03-07T02:30:00Z"), LastSlot: clitest.Time("2026-03-08T02:30:00Z"),
		Deadline: clitest.Time("2026-03-08T03:30:00Z"), OpenedAt: clitest.Time("2026-03-08T03:30:02Z"),
	}
}

func deadLetter(id string) *carillonv1.AlertDelivery {
	return &carillonv1.AlertDelivery{
		DeliveryId: id, AlertId: "al-1", ScheduleId: "nightly", UserId: "ada", Type: "alert.opened", Host: "hooks.example.org", Target: "0123",
		State: "DEAD", Attempts: 31, LastStatus: 503, LastError: "the target answered 503", CreatedAt: clitest.Time("2026-03-07T11:00:00Z"), EndedAt: clitest.Time("2026-03-08T11:00:00Z"),
	}
}

func alarmed(t *testing.T) *clitest.Server {
	t.Helper()
	f := clitest.NewAnsweringServer(t)
	f.Answer("ListAlerts", &carillonv1.ListAlertsResponse{Alerts: []*carillonv1.Alert{anAlert()}})
	f.Answer("GetAlert", &carillonv1.GetAlertResponse{Alert: anAlert()})
	acked := anAlert()
	acked.AckedAt, acked.AckedBy, acked.AckNote = clitest.Time("2026-03-08T11:59:00Z"), "ada", "on it"
	f.Answer("AcknowledgeAlert", &carillonv1.AcknowledgeAlertResponse{Alert: acked})
	f.Answer("ListAlertDeliveries", &carillonv1.ListAlertDeliveriesResponse{Deliveries: []*carillonv1.AlertDelivery{deadLetter("msg_2"), deadLetter("msg_1")}})
	f.Answers["RedeliverAlert"] = func(req proto.Message) (proto.Message, error) {
		id := req.(*carillonv1.RedeliverAlertRequest).GetDeliveryId()
		if !strings.HasPrefix(id, "msg_") {
			return nil, status.Errorf(codes.NotFound, "not found: there is no delivery %q", id)
		}
		again := deadLetter(id)
		again.State, again.Attempts, again.EndedAt, again.NextAt = "PENDING", 0, nil, clitest.Time("2026-03-08T12:00:00Z")
		return &carillonv1.RedeliverAlertResponse{Delivery: again}, nil
	}
	f.Answer("TestAlerts", &carillonv1.TestAlertsResponse{Deliveries: []*carillonv1.AlertDelivery{{DeliveryId: "msg_3", Type: "alert.test", State: "PENDING"}}})
	return f
}

func TestFlagsOfAlertsBecomeRequests(t *testing.T) {
	for _, tt := range []struct {
		name string
		args []string
		want []proto.Message
	}{
		{
			name: "every promise of an upsert has its flag",
			args: []string{
				"schedule", "upsert", "--id", "a", "--expect-start", "1m", "--expect-finish", "2h", "--expect-success", "2d", "--alert-after", "3", "--remind-every", "6h",
			},
			want: []proto.Message{&carillonv1.UpsertScheduleRequest{ScheduleId: "a", Expect: &carillonv1.Expectation{
				StartWithinMs: clitest.Pointer[uint32](60_000), FinishWithinMs: clitest.Pointer[uint32](7_200_000), SuccessEveryMs: clitest.Pointer[uint32](172_800_000),
				AlertAfter: clitest.Pointer[uint32](3), RemindEveryMs: clitest.Pointer[uint32](21_600_000),
			}}},
		},
		{
			name: "a list takes all filters",
			args: []string{"alert", "list", "--user", "ada", "--schedule", "nightly", "--kind", "finish", "--state", "open", "--limit", "7"},
			want: []proto.Message{&carillonv1.ListAlertsRequest{UserId: "ada", ScheduleId: "nightly", Kind: clitest.Pointer("finish"), State: clitest.Pointer("open"), PageSize: 7}},
		},
		{name: "get names the alert", args: []string{"alert", "get", "al-1"}, want: []proto.Message{&carillonv1.GetAlertRequest{AlertId: "al-1"}}},
		{
			name: "an acknowledgement says why", args: []string{"alert", "ack", "al-1", "--note", "on it"},
			want: []proto.Message{&carillonv1.AcknowledgeAlertRequest{AlertId: "al-1", Note: "on it"}},
		},
		{
			name: "deliveries are filtered", args: []string{"alert", "deliveries", "--alert", "al-1", "--schedule", "nightly", "--state", "DEAD", "--limit", "9"},
			want: []proto.Message{&carillonv1.ListAlertDeliveriesRequest{AlertId: "al-1", ScheduleId: "nightly", State: clitest.Pointer("DEAD"), PageSize: 9}},
		},
		{
			name: "messages are sent again in the order that is given", args: []string{"alert", "redeliver", "msg_9", "msg_8"},
			want: []proto.Message{&carillonv1.RedeliverAlertRequest{DeliveryId: "msg_9"}, &carillonv1.RedeliverAlertRequest{DeliveryId: "msg_8"}},
		},
		{
			name: "all that were given up are sent again, the oldest first", args: []string{"alert", "redeliver", "--dead", "--alert", "al-1", "--schedule", "nightly"},
			want: []proto.Message{
				&carillonv1.ListAlertDeliveriesRequest{AlertId: "al-1", ScheduleId: "nightly", State: clitest.Pointer("DEAD"), PageSize: 200},
				&carillonv1.RedeliverAlertRequest{DeliveryId: "msg_1"}, &carillonv1.RedeliverAlertRequest{DeliveryId: "msg_2"},
			},
		},
		{name: "a test goes to every target", args: []string{"alert", "test"}, want: []proto.Message{&carillonv1.TestAlertsRequest{}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := alarmed(t)
			if got := f.Run(t, tt.args...); got.Code != command.ExitOK || got.ErrOut != "" {
				t.Fatalf("exit %d: %s", got.Code, got.ErrOut)
			}
			if diff := cmp.Diff(tt.want, f.Requests(), protocmp.Transform()); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAlertsAreShownToPeople(t *testing.T) {
	for _, tt := range []struct {
		name string
		args []string
		want []string
	}{
		{"a list says what was promised and what became of it", []string{"list"}, []string{"al-1", "nightly", "finish within 1h ", "still_running", "open"}},
		{"an alert says since when, and by when", []string{"get", "al-1"}, []string{"nightly revision 3", "2026-03-07T02:30:00Z", "2026-03-08T03:30:00Z"}},
		{"an acknowledgement says whose it is", []string{"ack", "al-1"}, []string{"on it", "ada", "2026-03-08T11:59:00Z"}},
		{"a dead letter says why it was given up", []string{"deliveries"}, []string{"msg_2", "hooks.example.org", "DEAD", "31", "the target answered 503"}},
		{"what is sent again is on its way", []string{"redeliver", "msg_1"}, []string{"msg_1", "PENDING"}},
		{"a test is on its way", []string{"test"}, []string{"msg_3", "alert.test", "PENDING"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := alarmed(t).Run(t, append([]string{"alert"}, tt.args...)...)
			for _, want := range tt.want {
				if !strings.Contains(got.Out, want) {
					t.Errorf("it does not say %q:\n%s%s", want, got.Out, got.ErrOut)
				}
			}
		})
	}
}

func TestAlertCommandsRefuseWhatTheyCannotDo(t *testing.T) {
	for _, tt := range []struct {
		name string
		args []string
		code int
		says string
	}{
		{"a promise that is no duration", []string{"schedule", "upsert", "--expect-start", "soon"}, command.ExitUsage, `"soon" for "--expect-start" flag: write a duration such as 500ms`},
		{"a promise below zero", []string{"schedule", "upsert", "--expect-finish", "-3s"}, command.ExitUsage, `"-3s" for "--expect-finish" flag: write a whole number of milliseconds from 0`},
		{"a promise beyond 32 bits", []string{"schedule", "upsert", "--expect-success", "50d"}, command.ExitUsage, `"50d" for "--expect-success" flag: write a whole number of milliseconds from 0 to 1193h2m47.295s`},
		{"a part of a millisecond", []string{"schedule", "upsert", "--remind-every", "1.5ms"}, command.ExitUsage, `"1.5ms" for "--remind-every" flag`},
		{"so many that are no number", []string{"schedule", "upsert", "--alert-after", "-1"}, command.ExitUsage, `"-1" for "--alert-after" flag: write a whole number from 0 up`},
		{"an alert without a name", []string{"alert", "get"}, command.ExitUsage, "ID is required"},
		{"an acknowledgement of two", []string{"alert", "ack", "al-1", "al-2"}, command.ExitUsage, `unexpected argument "al-2"`},
		{"nothing to send again", []string{"alert", "redeliver"}, command.ExitUsage, "DELIVERY is required; --dead sends all failed notifications"},
		{"all, and one", []string{"alert", "redeliver", "--dead", "msg_1"}, command.ExitUsage, `unexpected argument "msg_1": --dead sends all failed notifications`},
		{"one, of an alert", []string{"alert", "redeliver", "msg_1", "--alert", "al-1"}, command.ExitUsage, "--alert and --schedule need --dead"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := alarmed(t)
			got := f.Run(t, tt.args...)
			if got.Code != tt.code || !strings.Contains(got.ErrOut, tt.says) || len(f.Requests()) > 0 {
				t.Errorf("exit %d after %d calls: %s; want %d and %q", got.Code, len(f.Requests()), got.ErrOut, tt.code, tt.says)
			}
		})
	}
}

func TestRedeliverSendsTheOthersWhereOneIsGone(t *testing.T) {
	f := alarmed(t)
	got := f.Run(t, "alert", "redeliver", "msg_1", "gone", "msg_2")
	if got.Code != command.ExitNotFound || !strings.Contains(got.ErrOut, `there is no delivery "gone"`) || !strings.Contains(got.Out, "msg_1") || !strings.Contains(got.Out, "msg_2") {
		t.Errorf("exit %d: %s%s", got.Code, got.ErrOut, got.Out)
	}
	if n := len(f.Requests()); n != 3 {
		t.Errorf("%d calls, want 3", n)
	}
	f = alarmed(t)
	f.Refuse("RedeliverAlert", status.Error(codes.PermissionDenied, "not yours"))
	if got := f.Run(t, "alert", "redeliver", "msg_1", "msg_2"); got.Code != command.ExitFailed || len(f.Requests()) != 1 {
		t.Errorf("after %d calls that are refused, exit %d: %s", len(f.Requests()), got.Code, got.ErrOut)
	}
}

func TestDeadLettersAreAllSentAgainAcrossPages(t *testing.T) {
	f := alarmed(t)
	f.Answers["ListAlertDeliveries"] = func(req proto.Message) (proto.Message, error) {
		r := req.(*carillonv1.ListAlertDeliveriesRequest)
		if r.GetPageToken() == "" {
			return &carillonv1.ListAlertDeliveriesResponse{Deliveries: []*carillonv1.AlertDelivery{deadLetter("msg_4"), deadLetter("msg_3")}, NextPageToken: "more"}, nil
		}
		return &carillonv1.ListAlertDeliveriesResponse{Deliveries: []*carillonv1.AlertDelivery{deadLetter("msg_2"), deadLetter("msg_1")}}, nil
	}
	if got := f.Run(t, "alert", "redeliver", "--dead", "-o", "json"); got.Code != command.ExitOK || strings.Count(got.Out, `"PENDING"`) != 4 {
		t.Errorf("exit %d: %s%s", got.Code, got.ErrOut, got.Out)
	}
	var sent []string
	for _, req := range f.Requests() {
		if r, ok := req.(*carillonv1.RedeliverAlertRequest); ok {
			sent = append(sent, r.GetDeliveryId())
		}
	}
	if want := []string{"msg_1", "msg_2", "msg_3", "msg_4"}; !slices.Equal(sent, want) {
		t.Errorf("sent %v, want %v", fmt.Sprint(sent), want)
	}
}

func TestATestOfNotificationsSaysWhatHappened(t *testing.T) {
	f := clitest.NewAnsweringServer(t)
	f.Answer("TestAlerts", &carillonv1.TestAlertsResponse{Deliveries: []*carillonv1.AlertDelivery{
		{DeliveryId: "msg_1", Target: "pager", TargetKind: "pagerduty", Host: "events.pagerduty.com", State: "PENDING"},
		{DeliveryId: "msg_2", Target: "mail", TargetKind: "email", Host: "smtp.example.org:587", State: "PENDING"},
	}})
	looks := 0
	f.Answers["ListAlertDeliveries"] = func(proto.Message) (proto.Message, error) {
		looks++
		found := []*carillonv1.AlertDelivery{
			{DeliveryId: "msg_9", State: "DEAD", LastError: "of another time"},
			{DeliveryId: "msg_1", Target: "pager", TargetKind: "pagerduty", Host: "events.pagerduty.com", State: "DELIVERED", LastStatus: 202},
			{DeliveryId: "msg_2", Target: "mail", TargetKind: "email", Host: "smtp.example.org:587", State: "PENDING"},
		}
		if looks > 1 {
			found[2].LastError, found[2].LastStatus, found[2].Attempts = "AUTH: 535 no", 535, 1
		}
		return &carillonv1.ListAlertDeliveriesResponse{Deliveries: found}, nil
	}
	got := f.Run(t, "notify", "test")
	if got.Code != command.ExitFailed || got.ErrOut != "" || looks != 2 {
		t.Errorf("exit %d after %d looks: %s", got.Code, looks, got.ErrOut)
	}
	for _, line := range [][]string{{"pager", "pagerduty", "events.pagerduty.com", "delivered", "202"}, {"mail", "email", "smtp.example.org:587", "failed, retrying", "535", "AUTH: 535 no"}} {
		for _, want := range line {
			if !strings.Contains(got.Out, want) {
				t.Errorf("it does not say %q:\n%s", want, got.Out)
			}
		}
	}
}

func TestACheckOfNotificationsShowsWhereAnAlertGoes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notify.yaml")
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const targets = "targets:\n  - {name: phone, kind: ntfy, url: https://ntfy.example/ours}\n  - {name: other, kind: ntfy, url: https://ntfy.example/other}\n"
	write(targets + "routes:\n  - {match: {severity: critical, labels: {team: data}}, to: phone}\ndefault: []\n")
	for _, tt := range []struct {
		name string
		args []string
		code int
		says string
	}{
		{"a route that matches", []string{path, "--label", "team=data,severity=critical"}, command.ExitOK, "an alert of severity critical goes to: phone"},
		{"nothing matches", []string{path}, command.ExitOK, "an alert of severity error goes to: no target"},
		{"a severity that there is not", []string{path, "--severity", "bad"}, command.ExitUsage, `--severity "bad" is not one of critical, error, warning, info`},
		{"no file", nil, command.ExitUsage, "FILE is required (or NOTIFY_FILE)"},
		{"a file that is not there", []string{path + "x"}, command.ExitFailed, "no such file"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := clitest.NewAnsweringServer(t).Run(t, append([]string{"notify", "check"}, tt.args...)...)
			if got.Code != tt.code || !strings.Contains(got.Out+got.ErrOut, tt.says) {
				t.Errorf("exit %d: %s%s", got.Code, got.Out, got.ErrOut)
			}
		})
	}
	write(targets + "default: nobody\n")
	if got := clitest.NewAnsweringServer(t).Run(t, "notify", "check", path); got.Code != command.ExitFailed || !strings.Contains(got.ErrOut, `line 4: default: no target has the name "nobody"`) {
		t.Errorf("exit %d: %s%s", got.Code, got.Out, got.ErrOut)
	}
}
