package main

import (
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

func TestAnOperatorPausesResumesAndTriggersAndWatchesTheRunEndWell(t *testing.T) {
	v := visit(t)
	v.must(v.product.workflow(v.tab, "nap", "sleep 1"))
	v.must(v.product.schedule(v.tab, "nightly", "nap", map[string]any{"cron_expr": "0 3 * * *", "timezone": "Europe/Berlin"}))

	v.opens("/ui/schedules")
	v.clicks(`a[href="/ui/schedules/nightly"]`)
	v.reads("No runs yet")
	v.sees(`document.querySelector("#live").textContent === "live"`)
	v.do(chromedp.Evaluate[chromedp.Void]("window.same = true")) // lost by a reload

	v.clicks("#b-pause")
	v.sees(`document.activeElement.id === "pause-note"`)
	v.types("the warehouse is moving")
	v.clicks(`#pause button[type="submit"]`)
	v.reads("Paused nightly")
	v.reads("“the warehouse is moving”")
	v.sees(`document.querySelector("#state").textContent.includes("paused") && !document.querySelector("dialog[open]")`)

	v.clicks("#b-resume")
	v.clicks(`#resume button[type="submit"]`)
	v.reads("Resumed nightly")
	v.sees(`document.querySelector("#state").textContent.includes("active")`)

	v.clicks("#b-trigger")
	v.clicks(`#trigger button[type="submit"]`)
	v.reads("Triggered nightly")
	v.sees(`document.querySelector("#past .chip.STARTED, #past .chip.LAUNCHING, #past .chip.ENQUEUED")`)
	v.sees(`document.querySelector("#past .chip.SUCCESS")`)
	v.sees("window.same")

	v.clicks("#past a.title")
	v.reads("Timeline")
	v.sees(`[...document.querySelectorAll("#life strong")].map((el) => el.textContent).filter((name) => name !== "Due").join() === "Planned,Claimed,Launched,Started,Ended"`)
	v.reads("DAG, nap v1")
	v.sees(`!document.querySelector("#b-retry, #b-cancel")`) // there is nothing to be done about a success
	if said := v.complaints(); len(said) > 0 {
		t.Errorf("the browser complains: %q", said)
	}
}

func TestARefusalSaysWhyAndChangesNothing(t *testing.T) {
	v := visit(t)
	v.must(v.product.workflow(v.tab, "slow", "sleep 30"))
	v.must(v.product.schedule(v.tab, "busy", "slow", nil))
	if _, err := v.product.trigger(v.tab, "busy", "STARTED"); err != nil {
		t.Fatal(err)
	}
	v.opens("/ui/schedules/busy")
	v.clicks("#b-trigger")
	v.clicks(`#trigger button[type="submit"]`)
	v.sees(`document.querySelector(".toast.bad")`)
	v.reads("in flight")
	v.do(chromedp.SetValue(chromedp.CSS("#trigger-overlap"), "allow"), chromedp.SetValue(chromedp.CSS("#trigger-input"), "{broken"))
	v.clicks(`#trigger button[type="submit"]`)
	v.sees(`[...document.querySelectorAll(".toast code")].some((el) => el.textContent === "input")`)
	v.sees(`document.querySelectorAll("#past tbody tr").length === 1`)

	v.types(kb.Escape)
	v.clicks("#past a.title")
	v.clicks("#b-cancel")
	v.types("it hangs")
	v.clicks(`#cancel button[type="submit"]`)
	v.sees(`document.querySelector("#status .chip.CANCELLED") && document.querySelector("#b-retry")`)
	v.clicks("#b-retry")
	v.clicks(`#retry button[type="submit"]`)
	v.reads("Attempt 2 created")
	v.clicks(".toast a")
	v.reads("attempt 2 of another run")
}

func TestAScheduleIsEditedAndTheSecondWriterSeesBothVersions(t *testing.T) {
	v := visit(t)
	v.must(v.product.workflow(v.tab, "quick", "true"))
	v.must(v.product.schedule(v.tab, "nightly", "quick", map[string]any{"cron_expr": "0 3 * * *"}))
	v.opens("/ui/schedules/nightly")
	v.clicks("#b-edit")
	v.sees(`document.querySelector("#cron_expr")?.value === "0 3 * * *"`)
	v.must(v.product.api(v.tab, "PATCH", "/v1/schedules/nightly", map[string]any{"timezone": "Asia/Tokyo"}, nil))
	v.do(chromedp.SetValue(chromedp.CSS("#cron_expr"), "0 99 * * *"))
	v.clicks("#b-save")
	v.reads("Not saved: the schedule changed")
	v.isAccessible()
	v.sees(`document.querySelector("#timezone").value === "Asia/Tokyo" && document.querySelector("#conflict table").innerText.includes("0 99 * * *")`)
	v.clicks("#b-save")
	v.sees(`document.querySelector("#cron_expr").getAttribute("aria-invalid") && document.querySelector("#cron_expr-problem")`)
	v.isAccessible()
	v.do(chromedp.SetValue(chromedp.CSS("#cron_expr"), "0 4 * * *"))
	v.clicks("#b-save")
	v.reads("Saved nightly as revision 3")
	v.clicks("main p a")
	v.sees(`location.pathname === "/ui/schedules/nightly" && document.body.innerText.includes("0 4 * * *") && document.body.innerText.includes("Asia/Tokyo")`)
	if said := v.complaints("edit"); len(said) > 0 {
		t.Errorf("the browser complains: %q", said)
	}
}

func TestAnInstantIsExplainedPastAndAhead(t *testing.T) {
	v := visit(t)
	v.must(v.product.workflow(v.tab, "quick", "true"))
	v.must(v.product.schedule(v.tab, "tick", "quick", map[string]any{"interval_ms": 1000}))
	v.must(v.product.schedule(v.tab, "nightly", "quick", map[string]any{"cron_expr": "30 2 * * *", "timezone": "America/New_York"}))
	v.opens("/ui/schedules/tick")
	v.sees(`document.querySelector("#past .chip.SUCCESS")`)
	v.do(chromedp.Evaluate[chromedp.Void](`[...document.querySelectorAll("#past tbody tr")].find((tr) => tr.querySelector(".chip.SUCCESS")).querySelector("a.small").click()`))
	v.sees(`location.pathname === "/ui/schedules/tick/explain" && document.querySelector("#answer .chip.SUCCESS")?.textContent === "ran"`)
	v.clicks("#answer a.button")
	v.reads("Timeline")

	v.opens("/ui/schedules/nightly/explain")
	v.clicks("#time")
	v.types("2027-03-14T02:30" + kb.Enter)
	v.reads("does not exist in")
	v.do(chromedp.SetValue(chromedp.CSS("#time"), "2027-03-14T03:00"))
	v.clicks(`form button.primary`)
	v.sees(`location.search.includes("14T03") && document.querySelector("#answer .chip")?.textContent === "will fire"`)
	v.do(chromedp.SetValue(chromedp.CSS("#time"), "2027-03-15T03:00"))
	v.clicks(`form button.primary`)
	v.sees(`location.search.includes("15T03") && document.querySelector("#answer .chip")?.textContent === "not a slot"`)
}

func TestABackfillIsTriedDryAndThenRuns(t *testing.T) {
	v := visit(t)
	v.must(v.product.workflow(v.tab, "quick", "true"))
	v.must(v.product.schedule(v.tab, "hourly", "quick", map[string]any{"cron_expr": "0 * * * *"}))
	v.opens("/ui/schedules/hourly/backfills")
	v.do(chromedp.SetValue(chromedp.CSS("#from"), "2026-01-05T00:00"), chromedp.SetValue(chromedp.CSS("#to"), "2026-01-05T04:00"), chromedp.SetValue(chromedp.CSS("#reprocess"), "all"))
	v.clicks(`button[name="dry_run"]`)
	v.reads("Would run 4 of the 4 slots")
	v.reads("No backfill yet")
	v.clicks("#new button.primary")
	v.reads("Backfill started")
	v.sees(`document.querySelector("#backfills .chip.SUCCESS")?.textContent === "finished"`)
	v.reads("4 succeeded")
}

func TestManyArePausedAndResumedEachWithOneNote(t *testing.T) {
	v := visit(t)
	v.must(v.product.workflow(v.tab, "quick", "true"))
	for _, id := range []string{"a.one", "a.two", "b.three"} {
		v.must(v.product.schedule(v.tab, id, "quick", map[string]any{"cron_expr": "0 3 * * *"}))
	}
	v.opens("/ui/schedules")
	v.clicks(`input[value="a.one"]`)
	v.clicks(`input[value="a.two"]`)
	v.reads("2 selected")
	v.clicks(`[data-dialog="pause-many"]`)
	v.types("frozen for the audit")
	v.clicks(`#pause-many button[type="submit"]`)
	v.reads("Paused 2 schedules")
	v.sees(`document.querySelectorAll("#list .chip.paused").length === 2 && document.querySelectorAll("#list .chip.active").length === 1`)
	v.reads("frozen for the audit")
	v.sees(`document.querySelector("#bulk").hidden`)

	v.clicks("#tick-all")
	v.reads("3 selected")
	v.clicks(`[data-dialog="resume-many"]`)
	v.sees(`document.activeElement.id === "many-resume-note"`)
	v.types("the audit is over")
	v.clicks(`#resume-many button[type="submit"]`)
	v.reads("Resumed 3 schedules")
	v.sees(`document.querySelectorAll("#list .chip.active").length === 3 && document.querySelector("#bulk").hidden`)
	v.opens("/ui/schedules/a.two/history")
	v.sees(`[...document.querySelectorAll("#events tr")].some((tr) => tr.innerText.includes("resume") && tr.innerText.includes("the audit is over"))`)
	if said := v.complaints(); len(said) > 0 {
		t.Errorf("the browser complains: %q", said)
	}
}

func TestThePlaygroundAnswersWhileOneTypes(t *testing.T) {
	v := visit(t)
	v.opens("/ui/preview")
	v.sees(`document.activeElement.id === "cron"`)
	v.types("30 2 * * *")
	v.do(chromedp.SetValue(chromedp.CSS("#from"), "2027-03-13T00:00"), chromedp.Evaluate[chromedp.Void](`(() => {
		const zone = document.querySelector("#zone"); zone.value = "America/New_York"; zone.dispatchEvent(new Event("input", {bubbles: true}));
	})()`))
	v.reads("Sun 14 Mar 2027, 03:00:00 -04:00") // 02:30 does not exist in that night
	v.sees(`document.activeElement.id === "cron"`)
	v.types(" *")
	v.types(" 7")
	v.sees(`document.querySelector("#result [role=alert] code")?.textContent === "cron_expr"`)
	v.sees(`new URLSearchParams(location.search).get("cron") === "30 2 * * * * 7"`)
	if said := v.complaints(); len(said) > 0 {
		t.Errorf("the browser complains: %q", said)
	}
}

func TestEverythingIsDoneByTheKeyboardAlone(t *testing.T) {
	v := visit(t)
	v.must(v.product.workflow(v.tab, "quick", "true"))
	v.must(v.product.schedule(v.tab, "nightly", "quick", map[string]any{"cron_expr": "0 3 * * *"}))
	v.opens("/")
	v.types(kb.Tab)
	v.sees(`document.activeElement.classList.contains("skip") && document.activeElement.getBoundingClientRect().left >= 0`)
	v.types("gs")
	v.sees(`location.pathname === "/ui/schedules" && document.readyState === "complete"`)
	v.types("/")
	v.sees(`document.activeElement.id === "q"`)
	// A browser gives the field no character of a key that the page has taken;
	// keys that are made up come with one.
	v.do(chromedp.Evaluate[chromedp.Void](`document.activeElement.value = ""`))
	v.types("night" + kb.Enter)
	v.sees(`location.search.includes("q=night") && document.readyState === "complete"`)
	v.tabTo(`a[href="/ui/schedules/nightly"]`)
	v.types(kb.Enter)
	v.sees(`location.pathname === "/ui/schedules/nightly" && document.readyState === "complete"`)
	v.tabTo("#b-pause")
	v.sees(`getComputedStyle(document.activeElement).outlineStyle !== "none"`)
	v.types(kb.Enter)
	v.sees(`document.activeElement.id === "pause-note"`)
	v.types(kb.Escape)
	v.sees(`!document.querySelector("dialog[open]") && document.activeElement.id === "b-pause"`)
	v.types(kb.Enter)
	v.sees(`document.activeElement.id === "pause-note"`)
	v.types("by keyboard")
	v.tabTo(`#pause button[type="submit"]`)
	v.types(kb.Enter)
	v.reads("Paused nightly")
	v.reads("“by keyboard”")
	v.types("?")
	v.sees(`document.querySelector("#keys").open`)
}

// tabTo presses Tab until the element has the focus.
func (v *visitor) tabTo(selector string) {
	v.t.Helper()
	for range 60 {
		v.types(kb.Tab)
		if is, err := chromedp.Run(v.tab, chromedp.Evaluate[bool](`document.activeElement.matches('`+selector+`')`)); err == nil && is {
			return
		}
	}
	v.t.Fatalf("the Tab key does not lead to %s", selector)
}
