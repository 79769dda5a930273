package console

import (
	"slices"
	"testing"

	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

func TestAScheduleShowsItsExpectationsAndOpenAlerts(t *testing.T) {
	failing := []*carillonv1.ExpectationState{{Kind: "failure", Status: "alerting", AlertId: "a1"}}
	tests := []struct {
		name   string
		expect *carillonv1.Expectation
		states []*carillonv1.ExpectationState
		want   []string // each expectation and the address of its open alert
	}{
		{name: "none"},
		{name: "a start within a minute", expect: &carillonv1.Expectation{StartWithinMs: new(uint32(60_000))}, want: []string{"to start within 1 min of its slot "}},
		{name: "an alert on failure, not open", expect: &carillonv1.Expectation{OnFailure: new("alert")}, want: []string{"no failed runs "}},
		{name: "an alert on failure, open", expect: &carillonv1.Expectation{OnFailure: new("alert")}, states: failing, want: []string{"no failed runs /ui/alerts/a1"}},
		{name: "an alert on failure that is the server's default", states: failing, want: []string{"no failed runs /ui/alerts/a1"}},
		{
			name: "failures that are ignored", expect: &carillonv1.Expectation{OnFailure: new("ignore")},
			states: []*carillonv1.ExpectationState{{Kind: "failure", Status: "ok"}},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			for _, row := range (&visit{}).expectations(&carillonv1.Schedule{Expect: tt.expect, Expectations: tt.states}) {
				got = append(got, row.Words+" "+row.Alert)
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("shows %q, want %q", got, tt.want)
			}
		})
	}
}
