package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

func TestABrokenPromiseIsSeenToAndItsMessageIsSentAgain(t *testing.T) {
	v := visit(t)
	v.must(v.product.workflow(v.tab, "slow", "sleep 60"))
	v.must(v.product.schedule(v.tab, "ledger.close", "slow", map[string]any{
		"cron_expr": "* * * * * *", "overlap_policy": "skip", "expect": map[string]any{"finish_within_ms": 2000, "success_every_ms": 7_200_000},
	}))
	v.opens("/ui/alerts")
	v.sees(`document.querySelector("#open a.title")?.textContent === "ledger.close"`) // by itself, as it is found
	v.sees(`document.querySelectorAll("#dead button").length === 1 && document.querySelector("#sent .chip.SUCCESS")`)
	v.reads("1 open alert; 1 failed notification")
	v.isAccessible()

	v.clicks("#b-test")
	v.reads("2 test notifications sent")
	v.sees(`document.querySelectorAll("#sent .chip.SUCCESS").length === 2 && document.querySelector("#b-all-again")`)
	v.product.receiver.mend()
	v.clicks("#dead td button")
	v.reads("Sending again")
	v.sees(`document.querySelectorAll("#dead td button").length === 1 && document.querySelectorAll("#sent .chip.SUCCESS").length === 3`)

	v.opens("/ui/alerts?schedule=another")
	v.sees(`document.querySelector("#sent").innerText.includes("None sent") && document.querySelector("#dead").innerText.includes("No failed notifications about this schedule")`)
	v.opens("/ui/alerts?schedule=ledger.close")
	v.sees(`document.querySelectorAll("#sent tbody tr").length === 2 && document.querySelectorAll("#dead tbody tr").length <= 1`) // not the test's

	v.clicks("#open a.title")
	v.reads("ledger.close expected to succeed within 2 s of its slot")
	v.clicks("#b-ack")
	v.sees(`document.activeElement.id === "ack-note"`)
	v.types("the ledger's disk is being grown")
	v.clicks(`#ack button[type="submit"]`)
	v.reads("Acknowledged by")
	v.sees(`!document.querySelector("#b-ack") && document.querySelector("#notes").innerText.includes("the ledger's disk is being grown")`)
	v.isAccessible()
	v.clicks("#buttons a.button") // explain the slot
	v.sees(`location.pathname === "/ui/schedules/ledger.close/explain" && document.querySelector("#answer .chip")`)

	v.opens("/ui/schedules/ledger.close")
	v.sees(`document.querySelector("#expectations .chip.FAILED").textContent === "alerting" && document.querySelector("#expectations .chip.SUCCESS").textContent === "met"`)
	v.clicks("#expectations a")
	v.reads("Notifications")
	if said := v.complaints(); len(said) > 0 {
		t.Errorf("the browser complains: %q", said)
	}
}

func TestAllMessagesThatWereGivenUpAreSentAgainAtOnce(t *testing.T) {
	v := visit(t)
	v.opens("/ui/alerts")
	for i := range 3 {
		v.clicks("#b-test")
		v.sees(fmt.Sprintf(`document.querySelectorAll("#dead td button").length === %d`, i+1))
	}
	v.product.receiver.mend()
	v.clicks("#b-all-again")
	v.reads("3 notifications sent again")
	v.sees(`!document.querySelector("#dead button") && document.querySelectorAll("#sent .chip.SUCCESS").length === 6`)
	if said := v.complaints(); len(said) > 0 {
		t.Errorf("the browser complains: %q", said)
	}
}

func TestASimulationIsPlayedAndItsLimitsAreSaid(t *testing.T) {
	v := visit(t)
	v.must(v.product.workflow(v.tab, "quick", "true"))
	v.must(v.product.schedule(v.tab, "hourly", "quick", map[string]any{"cron_expr": "0 * * * *", "timezone": "Europe/Berlin"}))
	v.opens("/ui/schedules/hourly")
	v.clicks(`#buttons a[href*="/ui/simulate"]`)
	v.sees(`document.querySelector("#schedule").value === "hourly" && document.querySelectorAll("#slots tbody tr").length === 24`)

	v.opens("/ui/simulate")
	v.reads("At most 50 schedules, 366 days, 10,000 slots")
	v.clicks(`label:has([value="interval"])`)
	fill := func(fields map[string]string) {
		text, err := json.Marshal(fields)
		v.must(err)
		v.do(chromedp.Evaluate[chromedp.Void](`for (const [id, text] of Object.entries(` + string(text) + `)) document.getElementById(id).value = text`))
		v.clicks("#b-simulate")
	}
	// A run of 90 seconds each minute, and two may wait: one is launched every minute
	// and a half, and later ones find the queue full.
	fill(map[string]string{
		"interval": "1m", "zone": "UTC", "from": "2027-03-01T00:00", "until": "2027-03-01T00:10", "duration": "90s", "overlap": "queue", "queued": "2",
	})
	v.sees(`document.querySelectorAll("#slots tbody tr").length === 9`)
	v.sees(`[...document.querySelectorAll("#sums .value")].map((el) => el.textContent).join() === "9,6,5,0,1,2 min 30 s"`)
	v.sees(`[...document.querySelectorAll("#slots tr")].filter((tr) => tr.innerText.includes("queue_full")).length === 1`)
	v.isAccessible()
	fill(map[string]string{"outages": "2027-03-01T00:02 / 3m", "pauses": "2027-03-01T00:07 / 2m", "catchup": "latest", "failures": "100"})
	v.sees(`["coalesced", "paused", "workflow_failed"].every((reason) => document.querySelector(".reasons").innerText.includes(reason))`)

	fill(map[string]string{"until": "2027-02-01T00:00", "failures": "101", "outages": ""})
	v.sees(`document.querySelector("#failures").reportValidity() === false`) // the browser knows that bound by itself
	fill(map[string]string{"failures": "0", "p95": "1s"})
	v.sees(`document.querySelector("#p95 + .problem").innerText.includes("not more than duration_ms") && document.querySelector("#until + .problem").innerText.includes("not later than from")`)
	fill(map[string]string{"p95": "", "until": "2027-03-09T00:00"})
	v.reads("makes a window with 11519 slots, more than 10000")

	v.clicks(`label:has([value="pasted"])`)
	v.do(chromedp.SetValue(chromedp.CSS("#pasted"), "schedules:\n- schedule_id: one\n  cron_expr: '*/5 * * * *'\n  workflow_id: w\n- schedule_id: two\n  interval_ms: 60000\n"))
	fill(map[string]string{"until": "2027-03-01T06:00", "pauses": "", "overlap": "", "queued": "", "duration": "1s"})
	v.sees(`document.querySelector("#result .note code").textContent === "workflow_id"`)
	v.sees(`document.querySelectorAll("#slots tbody tr").length === 200 && document.querySelector(".w8 .pages a").innerText.includes("Next")`)
	v.clicks(".w8 .pages a")
	v.sees(`document.querySelector("#slots-title + span").innerText.startsWith("201 to 400 of 431")`)
	if said := v.complaints(); len(said) > 0 {
		t.Errorf("the browser complains: %q", said)
	}
}

func TestRunsAndSchedulesAreWalkedPageByPage(t *testing.T) {
	v := visit(t)
	v.must(v.product.workflow(v.tab, "quick", "true"))
	var schedules []string
	for i := range 30 {
		schedules = append(schedules, fmt.Sprintf("s.%02d", i))
		v.must(v.product.schedule(v.tab, schedules[i], "quick", nil))
	}
	var runs []string
	for i := range 60 {
		var made struct{ Run run }
		v.must(v.product.api(v.tab, "POST", "/v1/schedules/"+schedules[i%30]+":trigger", map[string]any{"overlap_policy": "allow"}, &made))
		runs = append(runs, made.Run.Key)
	}
	v.opens("/ui/schedules")
	first := v.texts("#list a.title")
	v.clicks("#list .pages a")
	v.sees(`location.search.includes("page_token") && document.querySelectorAll("#list a.title").length === 5`)
	if got := slices.Concat(first, v.texts("#list a.title")); !slices.Equal(got, schedules) {
		t.Errorf("two pages hold %q", got)
	}
	v.clicks("#list .pages a")
	v.sees(`!location.search.includes("page_token") && document.querySelectorAll("#list a.title").length === 25`)

	v.opens("/ui/runs")
	const keys = `#list td:first-child a.title`
	newest := v.hrefs(keys)
	v.clicks("#list .pages a")
	v.sees(`location.search.includes("page_token") && document.querySelectorAll("#list tbody tr").length === 10`)
	got := slices.Concat(newest, v.hrefs(keys))
	for i, href := range got {
		got[i] = strings.TrimPrefix(href, "/ui/runs/")
	}
	slices.Sort(got)
	slices.Sort(runs)
	if !slices.Equal(got, runs) || len(newest) != 50 {
		t.Errorf("two pages hold %d and %d runs of 60, not each once", len(newest), len(got)-len(newest))
	}
	v.clicks(`#list .pages a`)
	v.sees(`!location.search.includes("page_token") && document.querySelectorAll("#list tbody tr").length === 50`)
	if said := v.complaints(); len(said) > 0 {
		t.Errorf("the browser complains: %q", said)
	}
}

func TestAPageFollowsRunsAgainOnceTheServerIsBack(t *testing.T) {
	v := visit(t)
	v.must(v.product.workflow(v.tab, "quick", "true"))
	v.must(v.product.schedule(v.tab, "by.hand", "quick", nil))
	v.opens("/ui/runs")
	v.sees(`document.querySelector("#live").textContent === "live"`)
	v.do(chromedp.Evaluate[chromedp.Void]("window.same = true")) // lost by a reload
	v.product.end()
	v.sees(`document.querySelector("#live").dataset.state === "lost"`)
	v.must(v.product.run(v.tab, v.product.addr))
	v.sees(`document.querySelector("#live").textContent === "live"`)
	_, err := v.product.trigger(v.tab, "by.hand", "SUCCESS")
	v.must(err)
	v.sees(`window.same && document.querySelector("#list .chip.SUCCESS")`)
}

func TestAPersonSignsInAndDoesWhatTheTokenAllows(t *testing.T) {
	v := visit(t)
	operator, viewer, err := v.product.lock(v.tab)
	v.must(err)
	v.must(v.product.workflow(v.tab, "quick", "true"))
	v.must(v.product.schedule(v.tab, "nightly", "quick", map[string]any{"cron_expr": "0 3 * * *"}))
	for _, width := range []int64{390, 1280} {
		v.must(show(v.tab, v.product.url("/ui/schedules/nightly"), width, 844, "dark"))
		v.sees(`location.pathname === "/ui/signin" && document.activeElement.id === "token"`)
		v.fits()
		v.isAccessible()
	}
	v.types("car_nonsense")
	v.clicks(`button[type="submit"]`)
	v.reads("token not accepted")

	signIn := func(token, name string) {
		v.clicks("#token")
		v.types(token)
		v.clicks(`button[type="submit"]`)
		v.sees(`location.pathname === "/ui/schedules/nightly"`) // where the visit began
		v.sees(fmt.Sprintf(`document.querySelector(".side-end form").innerText.includes(%q)`, name))
		v.sees(fmt.Sprintf(`!document.cookie.includes(%q) && !document.documentElement.outerHTML.includes(%q)`, token, token))
		v.sees(`document.querySelector("#live").textContent === "live"`) // the stream is let in too
	}
	signIn(viewer, "vera")
	v.clicks("#b-pause")
	v.clicks(`#pause button[type="submit"]`)
	v.reads("Not allowed")
	v.types(kb.Escape)
	v.clicks(".toast [data-close]")
	v.clicks(".side-end form button")
	v.sees(`location.pathname === "/ui/signin"`)

	v.opens("/ui/schedules/nightly")
	v.sees(`location.pathname === "/ui/signin"`)
	signIn(operator, "olga")
	v.clicks("#b-pause")
	v.clicks(`#pause button[type="submit"]`)
	v.reads("Paused by olga")
	if said := v.complaints("signin", "pause"); len(said) > 0 {
		t.Errorf("the browser complains: %q", said)
	}
}

// texts are those of all elements that a selector finds.
func (v *visitor) texts(selector string) []string { return v.list(selector, "el.textContent") }

func (v *visitor) hrefs(selector string) []string { return v.list(selector, `el.getAttribute("href")`) }

func (v *visitor) list(selector, what string) (all []string) {
	v.t.Helper()
	text, err := chromedp.Run(v.tab, chromedp.Evaluate[string](fmt.Sprintf("JSON.stringify([...document.querySelectorAll(%q)].map((el) => %s))", selector, what)))
	v.must(err)
	v.must(json.Unmarshal([]byte(text), &all))
	return all
}
