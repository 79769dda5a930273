package schedule

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/carillon/carillon/internal/cli/render"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

func TestOutcomesAreShownOldestFirstInOneCharacterEach(t *testing.T) {
	p := &render.Page{}
	for _, c := range []struct {
		outcomes []string // newest first, as the API has them
		want     string
	}{
		{nil, ""},
		{[]string{"FAILED", "FAILED", "SUCCESS", "SKIPPED", "CANCELLED", "SUCCESS"}, "✓c-✓✗✗"},
		{[]string{"SOMETHING_NEW"}, "?"},
	} {
		if got := outcomeStrip(p, c.outcomes); got != c.want {
			t.Errorf("%v is shown as %q, want %q", c.outcomes, got, c.want)
		}
	}
}

func TestTheLastOutcomeNamesHowAScheduleFails(t *testing.T) {
	p := &render.Page{Now: time.Date(2026, 3, 8, 12, 0, 0, 0, time.UTC)}
	since := timestamppb.New(p.Now.Add(-time.Hour))
	for _, c := range []struct {
		name string
		s    *carillonv1.Schedule
		want string
	}{
		{"never ran", &carillonv1.Schedule{}, ""},
		{"succeeded", &carillonv1.Schedule{LastOutcome: &carillonv1.ScheduleOutcome{Status: "SUCCESS", Reason: "accepted"}}, "SUCCESS"},
		{"skipped", &carillonv1.Schedule{LastOutcome: &carillonv1.ScheduleOutcome{Status: "SKIPPED", Reason: "overlap"}}, "SKIPPED(overlap)"},
		{"fails, though the newest run was skipped", &carillonv1.Schedule{
			LastOutcome: &carillonv1.ScheduleOutcome{Status: "SKIPPED", Reason: "overlap"},
			Failure:     &carillonv1.ScheduleFailure{Failures: 3, Reason: "workflow_failed", ErrorCode: "exit", FirstAt: since},
		}, "FAILED(workflow_failed: exit), 3 in a row since 2026-03-08T11:00:00Z"},
	} {
		if got := lastOutcome(p, c.s); !strings.HasPrefix(got, c.want) || c.want == "" && got != "" {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
