package main

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/chromedp/chromedp"
)

// axe is axe-core; see testdata/README.md.
//
//go:embed testdata/axe.min.js
var axe string

// wcagRules runs the rules of WCAG 2.2 AA, and what axe counts as good practice.
const wcagRules = `axe.run(document, {runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"], resultTypes: ["violations"]})
	.then((r) => JSON.stringify(r.violations.map((v) => ({rule: v.id, help: v.help, where: v.nodes.slice(0, 4).map((n) => n.target.join(" ") + ": " + n.failureSummary)}))))`

func TestEveryPageIsAccessibleFitsAPhoneAndIsQuietInTheConsole(t *testing.T) {
	v := visit(t)
	v.must(v.product.seed(v.tab))
	for name, path := range v.product.pages() {
		for _, theme := range []string{"dark", "light"} {
			for _, width := range []int64{1280, 390} {
				t.Run(fmt.Sprintf("%s in %s at %d", name, theme, width), func(t *testing.T) {
					v.t = t
					v.must(show(v.tab, v.product.url(path), width, 844, theme))
					v.sees(`document.readyState === "complete" && !document.querySelector(".skeleton")`)
					v.fits()
					v.isAccessible()
				})
			}
		}
	}
	v.t = t
	if said := v.complaints("none-such"); len(said) > 0 {
		t.Errorf("the browser complains: %q", said)
	}
}

// fits reports what is wider than the window.
func (v *visitor) fits() {
	v.t.Helper()
	wide, err := chromedp.Run(v.tab, chromedp.Evaluate[string](`(() => {
		const root = document.documentElement;
		if (root.scrollWidth <= root.clientWidth) return "";
		const beyond = [...document.querySelectorAll("body *")].filter((el) => el.getBoundingClientRect().right > root.clientWidth + 1);
		return root.scrollWidth + " > " + root.clientWidth + ": " + beyond.slice(0, 6).map((el) => el.outerHTML.slice(0, 120)).join("\n");
	})()`))
	if err != nil || wide != "" {
		v.t.Errorf("it scrolls sideways: %s %v", wide, err)
	}
}

func (v *visitor) isAccessible() {
	v.t.Helper()
	v.do(chromedp.Evaluate[chromedp.Void](axe))
	text, err := chromedp.Run(v.tab, chromedp.Evaluate[string](wcagRules, chromedp.EvalAwaitPromise))
	if err != nil {
		v.t.Fatal(err)
	}
	var found []struct {
		Rule, Help string
		Where      []string
	}
	if err := json.Unmarshal([]byte(text), &found); err != nil {
		v.t.Fatal(err)
	}
	for _, one := range found {
		v.t.Errorf("%s: %s\n%q", one.Rule, one.Help, one.Where)
	}
}

func TestTheThemeIsKept(t *testing.T) {
	v := visit(t)
	v.opens("/")
	before, err := chromedp.Run(v.tab, chromedp.Evaluate[string](`getComputedStyle(document.body).backgroundColor`))
	v.must(err)
	v.clicks("#theme")
	v.sees(fmt.Sprintf("getComputedStyle(document.body).backgroundColor !== %q", before))
	v.opens("/ui/runs")
	v.sees(fmt.Sprintf("getComputedStyle(document.body).backgroundColor !== %q && document.documentElement.dataset.theme === 'dark'", before))
}

func TestTimesAreInTheViewersZoneFromTheFirstVisitOn(t *testing.T) {
	v := visit(t)
	v.must(v.product.workflow(v.tab, "quick", "true"))
	v.must(v.product.schedule(v.tab, "tokyo", "quick", map[string]any{"cron_expr": "0 12 * * *", "timezone": "Asia/Tokyo"}))
	v.opens("/ui/schedules")
	v.sees(`document.documentElement.dataset.zone === "Europe/Paris"`) // the browser's
	v.sees(`document.querySelector("#list tbody").innerText.includes("12:00 JST")`)
	v.sees(`/0[45]:00 CES?T/.test(document.querySelector("#list tbody").innerText)`)
	first, err := chromedp.Run(v.tab, chromedp.Evaluate[string](`document.querySelector("#list time[data-countdown]").textContent`))
	v.must(err)
	v.sees(fmt.Sprintf("document.querySelector('#list time[data-countdown]').textContent !== %q", first))
}
