package main

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"
)

// gated is a step that goes on when the file exists.
func gated(before, gate, after string) string {
	return fmt.Sprintf("%s; until test -e %s; do sleep 0.05; done; %s", before, gate, after)
}

func (v *visitor) opensGate(path string) {
	v.t.Helper()
	v.must(os.WriteFile(path, nil, 0o600))
}

// writes starts a run of two steps, fetch and load, whose output goes on when
// the gates open, and opens the page of its output.
func (v *visitor) writes(fetch, load string) {
	v.t.Helper()
	v.must(v.product.api(v.tab, "PUT", "/v1/workflows/etl/versions/1", map[string]any{"dag": map[string]any{
		"workflow_id": "etl", "version": 1, "steps": []any{
			map[string]any{"id": "fetch", "shell": fetch}, map[string]any{"id": "load", "shell": load, "needs": []string{"fetch"}},
		},
	}}, nil))
	v.must(v.product.schedule(v.tab, "nightly", "etl", nil))
	key, err := v.product.trigger(v.tab, "nightly", "STARTED")
	v.must(err)
	v.opens("/ui/runs/" + key)
	v.clicks(`.tabs a[href$="/output"]`)
	v.sees(`location.pathname.endsWith("/output") && document.readyState === "complete"`)
	v.do(chromedp.Evaluate[chromedp.Void]("window.same = true")) // lost by a reload
}

func TestTheOutputOfARunIsFollowedWhileItIsWritten(t *testing.T) {
	v := visit(t)
	one, two := filepath.Join(v.product.dir, "one"), filepath.Join(v.product.dir, "two")
	v.writes(gated(`seq -f "row %g <b>x</b>" 1 300`, one, `seq -f "more %g" 1 2500`), gated("echo loading", two, "echo loaded"))
	v.sees(`document.querySelectorAll("#log span").length === 301 && document.querySelector("#log").textContent.includes("fetch | row 300 <b>x</b>")`)
	v.sees(`document.querySelector("#log").scrollTop > 0`) // it begins at the end
	v.isAccessible()

	// Who reads further up stays there.
	v.do(chromedp.Evaluate[chromedp.Void](`document.querySelector("#log").scrollTop = 0`))
	v.opensGate(one)
	v.sees(`document.querySelector("#log").textContent.includes("load | loading")`)
	v.sees(`document.querySelectorAll("#log span").length === 2000 && !document.querySelector("#cut").hidden`)
	v.sees(`(([log]) => log.scrollTop + log.clientHeight < log.scrollHeight - 1000)([document.querySelector("#log")])`)
	v.sees(`[...document.querySelector("#step").options].map((o) => o.value).join() === ",fetch,load"`)

	v.do(chromedp.Evaluate[chromedp.Void](`document.querySelector("#log").scrollTop = 1e9`))
	v.opensGate(two)
	v.sees(`document.querySelector("#log").textContent.includes("load | loaded\n")`)
	v.sees(`(([log]) => log.scrollTop + log.clientHeight >= log.scrollHeight - 8)([document.querySelector("#log")])`)
	v.sees(`document.querySelector("#status .chip.SUCCESS") && document.querySelector("#tail").textContent === "The run ended."`)
	v.sees("window.same")

	v.do(chromedp.Evaluate[chromedp.Void](`(() => { const step = document.querySelector("#step"); step.value = "load"; step.dispatchEvent(new Event("change", {bubbles: true})); })()`))
	v.sees(`location.search === "?step=load" && document.querySelector("#log").textContent.includes("\nloading\nloaded\n") && !document.querySelector("#log").textContent.includes("more")`)
	if said := v.complaints(); len(said) > 0 {
		t.Errorf("the browser complains: %q", said)
	}
}

func TestOutputIsFollowedAgainAfterARestart(t *testing.T) {
	v := visit(t)
	v.writes(gated("echo fetched", filepath.Join(v.product.dir, "never"), "true"), "true")
	v.sees(`document.querySelector("#log").textContent.includes("fetch | fetched\n")`)
	v.product.end()
	v.sees(`document.querySelector("#tail").textContent.includes("does not answer")`)
	v.must(v.product.run(v.tab, v.product.addr))
	v.sees(`document.querySelector("#status .chip.FAILED") && document.querySelector("#tail").textContent === "The run ended."`) // the local executor ended with its process
	v.sees(`window.same && document.querySelector("#log").textContent.includes("fetch | fetched\n")`)
}
