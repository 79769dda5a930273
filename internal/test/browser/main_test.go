package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// visitor is somebody before a browser, and the product that it shows.
type visitor struct {
	t       *testing.T
	tab     context.Context
	product *product

	mu   sync.Mutex
	said []chromedp.ConsoleMessage // by the browser's console
}

// visit starts both, or skips the test where there is no browser. Most of a visit is
// waiting, so they are made side by side.
func visit(t *testing.T, args ...string) *visitor {
	t.Helper()
	t.Parallel()
	if findBrowser() == "" {
		const missing = "no Chromium here: `make browser` installs Debian's where that can be done without asking"
		if os.Getenv("REQUIRE_SERVICES") == "1" {
			t.Fatal(missing)
		}
		t.Skip(missing)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	t.Cleanup(cancel)
	p, err := start(ctx, args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.stop)
	tab, closeTab, err := openTab(ctx)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(closeTab)
	v := &visitor{t: t, tab: tab, product: p}
	messages := chromedp.Console(tab)
	go func() { // it ends with the tab
		for m, err := range messages {
			if err != nil {
				return
			}
			v.mu.Lock()
			v.said = append(v.said, m)
			v.mu.Unlock()
		}
	}()
	return v
}

// complaints are what the browser said of pages: errors, warnings, and what
// the policy of content stopped. That a page which is not there answers 404 is
// none.
func (v *visitor) complaints(expected ...string) (all []string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, m := range v.said {
		known := false
		for _, path := range expected {
			known = known || strings.Contains(m.URL, path) && strings.Contains(m.Text, "the server responded with a status of") ||
				strings.Contains(m.Text, path) && strings.Contains(m.Text, "Response Status Error Code") // htmx says it once more
		}
		if !known && m.Type != chromedp.ConsoleLog && m.Type != chromedp.ConsoleDebug && m.Type != chromedp.ConsoleInfo {
			all = append(all, m.URL+" "+m.String())
		}
	}
	return all
}

func (v *visitor) do(steps ...chromedp.Action[chromedp.Void]) {
	v.t.Helper()
	ctx, cancel := context.WithTimeout(v.tab, 20*time.Second)
	defer cancel()
	if err := chromedp.Do(ctx, steps...); err != nil {
		page, _ := chromedp.Run(v.tab, chromedp.Evaluate[string](`location.href + "\n" + document.body.innerText + "\nfocus: " + document.activeElement?.outerHTML.slice(0, 300)`))
		v.t.Fatalf("%v\non the page:\n%s", err, page)
	}
}

// sees waits until the expression is true in the page.
func (v *visitor) sees(expression string) {
	v.t.Helper()
	v.do(chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error { return becomes(ctx, expression) }))
}

// reads waits until the page shows the text.
func (v *visitor) reads(text string) {
	v.t.Helper()
	v.sees(fmt.Sprintf("document.body.innerText.toLowerCase().includes(%q)", strings.ToLower(text)))
}

func (v *visitor) opens(path string) {
	v.t.Helper()
	if err := show(v.tab, v.product.url(path), 1280, 900, "light"); err != nil {
		v.t.Fatal(err)
	}
	v.sees(`document.readyState === "complete"`)
}

// clicks waits for the whole page, and until nothing on it moves: what is pressed
// at one place and let go at another is not clicked.
func (v *visitor) clicks(selector string) {
	v.t.Helper()
	v.sees(`document.readyState === "complete"`)
	v.sees(`!document.getAnimations().some((a) => a.playState === "running" && Number.isFinite(a.effect.getComputedTiming().endTime))`)
	v.do(chromedp.Click(chromedp.CSS(selector)))
}

func (v *visitor) types(keys string) {
	v.t.Helper()
	v.do(chromedp.KeyEvent(keys))
}

// must ends the test at a preparation that failed.
func (v *visitor) must(err error) {
	v.t.Helper()
	if err != nil {
		v.t.Fatal(err)
	}
}
