package app_test

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

var moreAddress = regexp.MustCompile(`data-more="([^"]+)"`)

// follow loads the fragment that the browser requests next, and returns it with its URL.
func (g *guarded) follow(from seen) seen {
	g.t.Helper()
	more := moreAddress.FindStringSubmatch(from.text)
	if more == nil {
		g.t.Fatalf("the page has no address of more lines:\n%s", from.main())
	}
	next := g.browse("user", strings.ReplaceAll(more[1], "&amp;", "&"), nil, "HX-Request", "true")
	if next.code != http.StatusOK {
		g.t.Fatalf("%s: %d", more[1], next.code)
	}
	return next
}

func (s seen) holds(t *testing.T, what string, texts ...string) {
	t.Helper()
	for _, text := range texts {
		without, absent := strings.CutPrefix(text, "not: ")
		if strings.Contains(s.main(), without) == absent {
			t.Errorf("%s: want %q in\n%s", what, text, s.main())
		}
	}
}

func TestTheOutputTabFollowsARun(t *testing.T) {
	t.Parallel()
	for _, store := range databases {
		t.Run(store.name, func(t *testing.T) {
			t.Parallel()
			f := newAccepting(t, false, map[string]any{"database_url": store.url(t)})
			key := f.accepted("nightly")
			address := "/ui/runs/" + key.String() + "/output"
			f.browse("user", "/ui/runs/"+key.String(), nil).holds(t, "the run's page", `href="`+address+`"`)
			empty := f.browse("user", address, nil)
			empty.holds(t, "before a report", "No output yet", `data-follow="true"`, `<a class="button" href="`+address+`"`)

			if err := f.reports(key, &carillonv1.ReportRunRequest{Status: "STARTED", Output: "<b>first</b>\n", LogUrl: "https://ci.example/17"}); err != nil {
				t.Fatal(err)
			}
			for _, page := range []seen{f.browse("user", "/ui/runs/"+key.String(), nil), f.follow(empty)} {
				_, live, _ := strings.Cut(page.main(), `id="about" data-live>`)
				if live, _, _ = strings.Cut(live, "</p>"); !strings.Contains(live, `href="https://ci.example/17"`) {
					t.Errorf("the link to the log appears only when the page is loaded again:\n%s", page.main())
				}
			}
			first := f.follow(empty)
			first.holds(t, "after a report", "&lt;b&gt;first&lt;/b&gt;", "not: <b>first", `data-whole="true"`, `data-follow="true"`)
			again := f.follow(first)
			again.holds(t, "without news", "not: first", `data-whole="false"`, `data-follow="true"`)

			var long strings.Builder
			for i := range 2500 {
				fmt.Fprintf(&long, "line %d.\n", i)
			}
			if err := f.reports(key, &carillonv1.ReportRunRequest{Status: "FAILED", Output: long.String()}); err != nil {
				t.Fatal(err)
			}
			last := f.follow(again)
			last.holds(t, "when the run failed", `data-whole="true"`, `data-follow="false"`, "The run ended", "not: line 499.", "line 500.", "line 2499.", `id="cut">`)
			f.browse("user", "/ui/runs/"+key.String(), nil).holds(t, "the page of the failed run", "Last lines of output", "line 2499.", "not: line 2489.")
			f.browse("user", address+"?step=load", nil).holds(t, "a step that wrote nothing", "No output of this step is kept", "<option selected>load</option>")
			if got := f.browse("bob", address, nil); got.code != http.StatusNotFound {
				t.Errorf("another owner: %d", got.code)
			}
			if got := f.browse("user", address+"?after=x", nil); got.code != http.StatusUnprocessableEntity {
				t.Errorf("a part that is no number: %d", got.code)
			}
		})
	}
}
