package launcher_test

import (
	"encoding/hex"
	"encoding/json"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/launcher"
)

// theLongWay is the hash as it is defined: of the canonical JSON of a map.
func theLongWay(req schedule.StartRequest) ([32]byte, error) {
	input := req.Input
	if len(input) == 0 {
		input = json.RawMessage("null")
	}
	raw, err := json.Marshal(map[string]any{
		"schedule_id": req.ScheduleID, "workflow_id": req.WorkflowID, "version": req.Version, "user_id": req.UserID,
		"scheduled_for": req.ScheduledFor.UTC().Format(time.RFC3339Nano), "trigger": req.Trigger,
		"execution_grant_id": req.ExecutionGrantID, "input": input,
	})
	if err != nil {
		return [32]byte{}, err
	}
	return schedule.CanonicalHash(raw)
}

func TestTheHashOfARequestIsAsDefined(t *testing.T) {
	inputs := []string{
		"", "null", "{}", ` { "b" : [1e3, 1.0, 12345678901234567890], "a": {"z":"<&>","y":"é\u00e9\u2028\ud800"} } `,
		`"` + "\xff" + `"`, `{"a":1,"a":2}`, `{"a":}`, `{}}`, `1 2`, `[`, "\x00",
	}
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.StringMatching(`[A-Za-z0-9._:-]{0,20}`), rapid.String(), rapid.StringMatching("[\\x00-\\x{ff}\"\\\\<>&\\x{2028}]{0,6}"),
			rapid.Just("\xff\xfe"))
		req := schedule.StartRequest{
			ScheduleID: text.Draw(t, "schedule"), WorkflowID: text.Draw(t, "workflow"), UserID: text.Draw(t, "user"), ExecutionGrantID: text.Draw(t, "grant"),
			Version: rapid.Int32().Draw(t, "version"), Trigger: schedule.Trigger(text.Draw(t, "trigger")),
			ScheduledFor: time.Unix(rapid.Int64Range(0, 4e9).Draw(t, "s"), rapid.Int64Range(0, 1e9-1).Draw(t, "ns")),
			Input:        json.RawMessage(rapid.SampledFrom(inputs).Draw(t, "input")),
		}
		want, refused := theLongWay(req)
		got, err := launcher.RequestHash(req)
		if (err != nil) != (refused != nil) {
			t.Fatalf("error %v, by definition %v", err, refused)
		}
		if got != want {
			t.Fatalf("%x, by definition %x", got, want)
		}
	})
}

// The ledger holds hashes of earlier releases: a repeat must find its own.
func TestTheHashOfARequestStays(t *testing.T) {
	req := schedule.StartRequest{
		ScheduleID: "nightly", WorkflowID: "report", Version: 3, UserID: "ada", ScheduledFor: time.Date(2026, 3, 8, 14, 0, 0, 0, time.UTC),
		Trigger: schedule.TriggerSchedule, ExecutionGrantID: "g", Input: json.RawMessage(`{"to": "é", "n": 1.50}`),
	}
	got, err := launcher.RequestHash(req)
	if want := "3679360d51126e9ae754b5e3bf2230df7bbe083d35b29d23663508300708dc20"; err != nil || hex.EncodeToString(got[:]) != want {
		t.Errorf("%x, %v, want %s", got, err, want)
	}
}

func BenchmarkRequestHash(b *testing.B) {
	req := schedule.StartRequest{
		ScheduleID: "nightly", WorkflowID: "report", Version: 3, UserID: "ada", ScheduledFor: time.Date(2026, 3, 8, 14, 0, 0, 0, time.UTC),
		Trigger: schedule.TriggerSchedule, Input: json.RawMessage(`{}`),
	}
	for b.Loop() {
		if _, err := launcher.RequestHash(req); err != nil {
			b.Fatal(err)
		}
	}
}
