package schedule_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

func TestAStatusOnlyMovesForward(t *testing.T) {
	// By hand from the documented picture: rank grows with every step.
	rank := map[schedule.Status]int{
		schedule.StatusPlanned: 0, schedule.StatusLaunching: 1, schedule.StatusEnqueued: 2, schedule.StatusStarted: 3,
		schedule.StatusSuccess: 4, schedule.StatusFailed: 4, schedule.StatusSkipped: 4, schedule.StatusCancelled: 4,
	}
	for _, from := range schedule.Statuses {
		for _, to := range schedule.Statuses {
			if from.CanBecome(to) && rank[from] >= rank[to] {
				t.Errorf("%s may become %s, which is no step forward", from, to)
			}
		}
		if from.Terminal() != (rank[from] == 4) {
			t.Errorf("%s: terminal is %v", from, from.Terminal())
		}
	}
	for _, c := range []struct {
		from, to schedule.Status
		may      bool
	}{
		{schedule.StatusLaunching, schedule.StatusSuccess, true},
		{schedule.StatusEnqueued, schedule.StatusFailed, true},
		{schedule.StatusPlanned, schedule.StatusSkipped, true},
		{schedule.StatusLaunching, schedule.StatusSkipped, true},
		{schedule.StatusEnqueued, schedule.StatusSkipped, false},
		{schedule.StatusStarted, schedule.StatusCancelled, true},
		{schedule.StatusStarted, schedule.StatusEnqueued, false},
		{schedule.StatusPlanned, schedule.StatusEnqueued, false},
	} {
		if c.from.CanBecome(c.to) != c.may {
			t.Errorf("%s to %s: may is %v, want %v", c.from, c.to, !c.may, c.may)
		}
	}
}

func TestEveryReasonHasTheEndItIsGivenFor(t *testing.T) {
	for _, r := range schedule.Reasons {
		if end := schedule.Ending(r); !end.Terminal() {
			t.Errorf("%s ends in %q", r, end)
		}
	}
	if schedule.Ending("weather") != "" || schedule.Ending(schedule.ReasonNone) != "" {
		t.Error("an unknown reason has an ending")
	}
}

func TestAPauseHoldsExactlyUntilItsEnd(t *testing.T) {
	until := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name  string
		pause schedule.Pause
		now   time.Time
		holds bool
	}{
		{"none", schedule.Pause{}, until, false},
		{"without an end", schedule.Pause{Paused: true}, until, true},
		{"a microsecond before its end", schedule.Pause{Paused: true, Until: until}, until.Add(-time.Microsecond), true},
		{"at its end", schedule.Pause{Paused: true, Until: until}, until, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := c.pause.Active(c.now); got != c.holds {
				t.Errorf("active is %v", got)
			}
		})
	}
}

func TestEveryFieldOfADefinitionCountsWhenTwoAreCompared(t *testing.T) {
	base := func() schedule.Definition {
		return schedule.Definition{ScheduleID: "s", Labels: map[string]string{"a": "b"}, Input: json.RawMessage(`{}`)}
	}
	typ := reflect.TypeFor[schedule.Definition]()
	for i := range typ.NumField() {
		changed, same := base(), base()
		f := reflect.ValueOf(&changed).Elem().Field(i)
		switch v := f.Interface().(type) {
		case time.Time:
			f.Set(reflect.ValueOf(time.Unix(7, 0)))
		case map[string]string:
			f.Set(reflect.ValueOf(map[string]string{"a": "c"}))
		case []string:
			f.Set(reflect.ValueOf([]string{"x"}))
		case json.RawMessage:
			f.Set(reflect.ValueOf(json.RawMessage(`{ }`)))
		case schedule.Expect:
			f.Set(reflect.ValueOf(schedule.Expect{AlertAfter: 7}))
		case schedule.RetryPolicy:
			f.Set(reflect.ValueOf(schedule.RetryPolicy{MaxAttempts: 7}))
		case schedule.Consume:
			f.Set(reflect.ValueOf(schedule.Consume{Topics: []string{"x"}}))
		case uint32, int32:
			f.Set(reflect.ValueOf(7).Convert(f.Type()))
		default:
			_ = v
			f.SetString(f.String() + "x")
		}
		if changed.Equal(&same) {
			t.Errorf("a change of %s is not seen", typ.Field(i).Name)
		}
		if !same.Equal(&same) {
			t.Error("a definition differs from itself")
		}
	}
}

func TestCanonicalJSONSortsMembersAndKeepsNumbers(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"members are sorted, white space goes", "{ \"b\" : 1,\n\"a\" : [ 1 , 2 ] }", `{"a":[1,2],"b":1}`},
		{"numbers stay as written", `[1.0, 1e3, 12345678901234567890, -0]`, `[1.0,1e3,12345678901234567890,-0]`},
		{"angle brackets stay", `"<a> & b"`, `"<a> & b"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := schedule.CanonicalJSON([]byte(c.in))
			if err != nil || string(got) != c.want {
				t.Errorf("got %s, %v; want %s", got, err, c.want)
			}
		})
	}
	for _, bad := range []string{"", "{", "1 2", "nope"} {
		if _, err := schedule.CanonicalJSON([]byte(bad)); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}

func TestAnErrorNamesFieldValueAndWayOut(t *testing.T) {
	var c schedule.Collect
	c.Add("jitter_ms", 4_000_000, "is over 3600000 (1h0m0s)", "")
	c.Add("workflow_id", "a\nb", "is not a valid id", "use letters")
	c.Add("input", strings.Repeat("x", 200), "is too long", "")
	err := c.Err()
	var invalid *schedule.InvalidError
	if !errors.As(err, &invalid) || len(invalid.Violations) != 3 {
		t.Fatalf("%v", err)
	}
	for _, want := range []string{"jitter_ms: 4000000 is over 3600000", `workflow_id: "a\nb" is not a valid id; use letters`, "… (200 bytes)"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not say %q", err, want)
		}
	}
	if strings.Contains(err.Error(), "\n") {
		t.Error("a control character got through")
	}
	if (&schedule.Collect{}).Err() != nil {
		t.Error("nothing wrong is an error")
	}
}

func TestAReportTokenIsGoodForItsRunOnly(t *testing.T) {
	a, b := schedule.ManualKey("s", "1"), schedule.ManualKey("s", "2")
	secret := []byte("secret")
	token := schedule.ReportToken(secret, a)
	if !schedule.CheckReportToken(secret, a, token) {
		t.Error("the run's own token is refused")
	}
	if schedule.CheckReportToken(secret, b, token) || schedule.CheckReportToken([]byte("other"), a, token) || schedule.CheckReportToken(secret, a, "") {
		t.Error("a token that is not this run's is taken")
	}
}

func TestIdsAreOneTo128OfAShortAlphabet(t *testing.T) {
	for id, valid := range map[string]bool{
		"a": true, "A.z_0:9-": true, strings.Repeat("x", 128): true,
		"": false, strings.Repeat("x", 129): false, "a b": false, "a/b": false, "ä": false, "a\x00": false, "a\n": false,
	} {
		if schedule.ValidID(id) != valid {
			t.Errorf("%q: valid is %v", id, !valid)
		}
	}
}
