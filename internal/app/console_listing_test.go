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

// TestWhatAPageKeepsOfSchedulesIsNotSeen: the overview keeps the list of
// schedules for some seconds; neither what was just done with them nor what has
// just fired may look as if it had not.
func TestWhatAPageKeepsOfSchedulesIsNotSeen(t *testing.T) {
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
		for range 12 { // over two slots and more
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
