package api_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/registrar"
)

// launchesAnswer is the part of a forecast that the tests read.
type launchesAnswer struct {
	From, Until        time.Time
	LaunchesPerMinute  []int `json:"launches_per_minute"`
	Launches           int
	Schedules, Paused  int
	Peaks, Flattenings []map[string]any
}

func (r *rig) forecast(query string) (a launchesAnswer) {
	r.t.Helper()
	if err := json.Unmarshal([]byte(r.must("GET", "/v1/forecast"+query, "")), &a); err != nil {
		r.t.Fatal(err)
	}
	return a
}

func TestAForecastCountsLaunches(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for i := range 40 {
		r.must("PUT", fmt.Sprintf("/v1/schedules/nightly-%02d", i), `{"workflow_id":"w","version":1,"user_id":"ada","cron_expr":"0 2 * * *","labels":{"team":"billing"}}`)
	}
	r.must("PUT", "/v1/schedules/hourly", `{"workflow_id":"w","version":1,"user_id":"bob","cron_expr":"30 * * * *"}`)
	r.must("PUT", "/v1/schedules/paused", `{"workflow_id":"w","version":1,"user_id":"bob","cron_expr":"* * * * *","paused":true}`)

	all := r.forecast("")
	if all.Launches != 64 || all.Schedules != 41 || all.Paused != 1 || len(all.LaunchesPerMinute) < 1440 {
		t.Errorf("got %+v, want 40 nightly and 24 hourly launches in 1440 minutes", all)
	}
	peak := all.Peaks[0]
	minute, _ := time.Parse(time.RFC3339, peak["minute"].(string))
	if peak["launches"] != 40.0 || peak["schedules"] != 40.0 || minute.Hour() != 2 || minute.Minute() != 0 || len(peak["contributors"].([]any)) != 5 {
		t.Errorf("the peak is %v, want 40 at 02:00 with five named", peak)
	}
	if i := int(minute.Sub(all.From.Truncate(time.Minute)) / time.Minute); all.LaunchesPerMinute[i] != 40 {
		t.Errorf("minute %d has %d launches, want 40", i, all.LaunchesPerMinute[i])
	}
	if len(all.Flattenings) != 2 || all.Flattenings[0]["kind"] != "minute_offset" || all.Flattenings[0]["peak"] != 1.0 || all.Flattenings[1]["kind"] != "jitter" {
		t.Errorf("flattenings are %v, want other minutes that leave one in each, then a jitter", all.Flattenings)
	}
	for query, want := range map[string]int{"?user_id=bob": 24, "?label=team%3Dbilling": 40, "?workflow_id=none": 0} {
		if got := r.forecast(query); got.Launches != want {
			t.Errorf("%s counts %d launches, want %d", query, got.Launches, want)
		}
	}
}

// The test applies the suggestion and compares the next forecast.
func TestASuggestedChangeHasThePredictedEffect(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	put := func(id, rule string) {
		r.must("PUT", "/v1/schedules/"+id, `{"workflow_id":"w","version":1,"user_id":"ada",`+rule+`}`)
	}
	for i := range 30 {
		put(fmt.Sprintf("n%02d", i), `"cron_expr":"15 3 * * *","timezone":"Europe/Berlin"`)
	}
	window := "?from=" + time.Now().UTC().Truncate(24*time.Hour).Add(48*time.Hour).Format(time.RFC3339)
	before := r.forecast(window)
	for _, f := range before.Flattenings {
		for _, id := range f["schedule_ids"].([]any) {
			if f["kind"] == "jitter" {
				put(id.(string), fmt.Sprintf(`"cron_expr":"15 3 * * *","timezone":"Europe/Berlin","jitter_ms":%v`, f["jitter_ms"]))
			}
		}
		for _, m := range f["moves"].([]any) {
			move := m.(map[string]any)
			put(move["schedule_id"].(string), fmt.Sprintf(`"cron_expr":%q,"timezone":"Europe/Berlin"`, move["cron_expr_to"]))
		}
		after := r.forecast(window)
		if got := after.Peaks[0]["launches"]; got != f["peak"] {
			t.Errorf("%v: afterwards the peak is %v, it said %v", f["text"], got, f["peak"])
		}
		for i := range 30 {
			put(fmt.Sprintf("n%02d", i), `"cron_expr":"15 3 * * *","timezone":"Europe/Berlin"`)
		}
	}
	if len(before.Flattenings) != 2 {
		t.Errorf("flattenings are %v, want two", before.Flattenings)
	}
}

// The change names no minute, so that a page can show it in the reader's zone.
func TestASuggestedChangeIsAlsoGivenWithoutItsEffect(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for i := range 5 {
		r.must("PUT", fmt.Sprintf("/v1/schedules/n%d", i), `{"workflow_id":"w","version":1,"user_id":"ada","cron_expr":"15 3 * * *"}`)
	}
	want := map[string]string{
		"minute_offset": `move n0 to "16 3 * * *" (+1 min), n1 to "14 3 * * *" (-1 min), n2 to "17 3 * * *" (+2 min) and 1 more`,
		"jitter":        `give 5 schedules jitter_ms `,
	}
	found := r.forecast("").Flattenings
	if len(found) != len(want) {
		t.Fatalf("flattenings are %v, want other minutes and a jitter", found)
	}
	for _, f := range found {
		change, text := f["change"].(string), f["text"].(string)
		if !strings.HasPrefix(change, want[f["kind"].(string)]) || strings.Contains(change, "busiest") {
			t.Errorf("the change is %q, want %q and nothing of the minute", change, want[f["kind"].(string)])
		}
		comes := fmt.Sprintf("%s: the busiest minute would be %sZ with ", change, f["peak_minute"].(string)[:len("2006-01-02T15:04")])
		if said, ok := strings.CutPrefix(text, comes); !ok || strings.TrimRight(said, "es") != fmt.Sprintf("%v launch", f["peak"]) {
			t.Errorf("the text is %q, want %q and how many launches", text, comes)
		}
	}
}

func TestAForecastRefusesWindowsThatAreNone(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	now := time.Now().UTC()
	at := func(d time.Duration) string { return now.Add(d).Format(time.RFC3339) }
	for query, says := range map[string]string{
		"?until=" + at(-time.Hour):                                 "is not later than the start",
		"?until=" + at(8*24*time.Hour):                             "more than 7 days",
		"?from=" + at(48*time.Hour) + "&until=" + at(24*time.Hour): "is not later than the start",
		"?peaks=51":      "less than or equal to 50",
		"?label=%3Dacme": `label: \"=acme\" has no name before the =; write NAME=VALUE`,
	} {
		code, text := r.rest("GET", "/v1/forecast"+query, "")
		if code != http.StatusBadRequest || !strings.Contains(text, says) {
			t.Errorf("%s: %d %s, want 400 that says %q", query, code, text, says)
		}
	}
}

// fleet inserts n typical schedules: different minutes and zones, one in four with jitter, one in
// ten an interval, a burst at 02:00.
func fleet(b testing.TB, r *rig, n int) {
	b.Helper()
	zones := []string{"UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata"}
	reg := registrar.New(registrar.Options{Schedules: r.store, Runs: r.store, Workflows: r.store, Shares: r.store, Grants: r.store, Logger: slog.New(slog.DiscardHandler)})
	for at := 0; at < n; at += 5000 {
		in := registrar.ApplyInput{Set: fmt.Sprint("set-", at)}
		for i := at; i < min(n, at+5000); i++ {
			d := schedule.Definition{ScheduleID: fmt.Sprint("schedule-", i), WorkflowID: "w", Version: 1, UserID: fmt.Sprint("u", i%50), Timezone: zones[i%4]}
			up := registrar.UpsertInput{Definition: d}
			jitter := uint32(30_000)
			switch {
			case i%10 == 0:
				up.Definition.IntervalMS = 60_000
			case i%10 < 4:
				up.Definition.CronExpr = "0 2 * * *"
			default:
				up.Definition.CronExpr = fmt.Sprintf("*/%d 6-22 * * *", 1+i%5)
			}
			if i%4 == 0 {
				up.JitterMS = &jitter
			}
			in.Schedules = append(in.Schedules, up)
		}
		if _, err := reg.ApplySchedules(b.Context(), in); err != nil {
			b.Fatal(err)
		}
	}
}

// A forecast over 10,000 schedules must take at most two seconds, including the store's reads.
func BenchmarkForecastOf10000Schedules(b *testing.B) {
	r := newRig(b)
	fleet(b, r, 10_000)
	for b.Loop() {
		// A change is searched for, but saves less than a tenth.
		if a := r.forecast(""); a.Launches < 1_000_000 || len(a.Peaks) == 0 {
			b.Fatalf("got %d launches and %v", a.Launches, a.Peaks)
		}
	}
}

// A thousand previews, each of a saved schedule, take at most 50 ms.
func BenchmarkPreviews1000(b *testing.B) {
	r := newRig(b)
	fleet(b, r, 1000)
	reg := registrar.New(registrar.Options{Schedules: r.store, Runs: r.store, Workflows: r.store, Shares: r.store, Grants: r.store, Logger: slog.New(slog.DiscardHandler)})
	for b.Loop() {
		for i := range 1000 {
			fires, _, err := reg.Preview(b.Context(), registrar.PreviewInput{ScheduleID: fmt.Sprint("schedule-", i), Count: 5})
			if err != nil || len(fires) != 5 {
				b.Fatal(len(fires), err)
			}
		}
	}
}
