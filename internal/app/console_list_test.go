package app_test

import (
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

var (
	countdowns = regexp.MustCompile(`<time datetime="([^"]+)"[^>]* data-countdown>`)
	pageNow    = regexp.MustCompile(`data-now="(\d+)"`)
)

// The overview caches the list of schedules for seconds. Changes and fires must be visible at once.
func TestTheOverviewShowsNoStaleSchedules(t *testing.T) {
	t.Parallel()
	onBothStores(t, func(t *testing.T, g *guarded) {
		g.register("each.second", `{"workflow_id":"w","version":1,"user_id":"ada","interval_ms":1000,"overlap_policy":"skip"}`)
		g.register("hourly", hourly)
		soonest := func(who string) string {
			text := g.browse(who, "/", nil).text
			_, text, _ = strings.Cut(text, `id="soon"`)
			text, _, _ = strings.Cut(text, "</section>")
			return text
		}
		if kept := soonest("user"); !strings.Contains(kept, "hourly") {
			t.Fatal("what fires within the hour is not shown:", kept)
		}
		if foreign := soonest("bob"); strings.Contains(foreign, "hourly") {
			t.Error("another owner is shown what was kept for the first:", foreign)
		}
		if got := g.browse("user", "/ui/schedules/hourly/pause", url.Values{"note": {"x"}}); got.code != http.StatusOK {
			t.Fatal(got.code, got.main())
		}
		if after := soonest("user"); strings.Contains(after, "hourly") {
			t.Error("it was paused here, and still shows as what fires next:", after)
		}
		tick := time.NewTicker(200 * time.Millisecond)
		defer tick.Stop()
		for range 12 { // longer than two slots
			<-tick.C
			got := g.browse("user", "/", nil)
			now := pageNow.FindStringSubmatch(got.text)
			ms, err := strconv.ParseInt(now[1], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			found := countdowns.FindAllStringSubmatch(got.main(), -1)
			if len(found) == 0 {
				t.Fatal("nothing fires:", got.main())
			}
			for _, one := range found {
				if at, err := time.Parse(time.RFC3339Nano, one[1]); err != nil || at.Before(time.UnixMilli(ms)) {
					t.Errorf("a page of %s counts down to %s: %v", time.UnixMilli(ms).UTC(), one[1], err)
				}
			}
		}
	})
}

// The text is the API's, the minute is in the viewer's zone.
func TestTheTimelineSuggestsHowToFlattenAPeak(t *testing.T) {
	t.Parallel()
	g := newGuarded(t, nil)
	for _, id := range []string{"a", "b", "c"} {
		if code, answer := g.send("compiler", "PUT", "/v1/schedules/"+id, `{"workflow_id":"w","version":1,"user_id":"ada","cron_expr":"0 2 * * *"}`); code != http.StatusOK {
			t.Fatal(answer)
		}
	}
	got := g.browse("operator", "/ui/timeline", nil, "Cookie", "carillon_session="+g.shown("operator")+"; carillon_zone=Asia/Kolkata")
	change := regexp.MustCompile(`<li>move a to &#34;1 2 \* \* \*&#34; \(&#43;1 min\), b to &#34;2 2 \* \* \*&#34; \(&#43;2 min\): the busiest minute would be [^<]*07:30 with 1 launch</li>`)
	if got.code != http.StatusOK || !change.MatchString(got.text) {
		t.Errorf("%d without %q:\n%s", got.code, change, got.main())
	}
}
