// Command browser drives the console in a real browser: its tests do what a
// user would, and the command itself takes the pictures of docs/console.md.
// It is a module of its own, so that the product does not depend on a browser's
// protocol; it knows the product as the binary that it starts.
//
// It takes no step in a slot's life.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"

	"github.com/chromedp/chromedp"
)

func main() {
	out := flag.String("out", ".", "folder for the pictures")
	all := flag.Bool("all", false, "every page, wide and narrow, dark and light; not only those of the docs")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := takePictures(ctx, *out, *all); err != nil {
		fmt.Fprintln(os.Stderr, "browser:", err)
		os.Exit(1)
	}
}

// picture is one page as it is shown.
type picture struct {
	name, path    string
	width, height int64
	theme         string
	ready         string // an expression that is true when the page is
}

// pictures are those of the docs.
var pictures = []picture{
	{"overview", "/", 1280, 860, "dark", ""},
	{"schedule", "/ui/schedules/reports.hourly", 1280, 1100, "light", "!!document.querySelector('#year')"},
	{"run", "", 1280, 900, "light", ""},
	{"alerts", "/ui/alerts", 1280, 900, "light", ""},
	{"simulate", "/ui/simulate?kind=cron&cron=*/10+*+*+*+*&zone=UTC&overlap=queue&queued=1&catchup=latest&duration=8m&p95=30m&failures=10&from=2027-03-01T00:00&until=2027-03-01T04:00&outages=2027-03-01T01:15+/+35m", 1280, 1000, "dark", ""},
	{"phone", "/ui/schedules", 390, 800, "dark", ""},
}

func takePictures(ctx context.Context, out string, all bool) error {
	product, err := start(ctx)
	if err != nil {
		return err
	}
	defer product.stop()
	if err := product.seed(ctx); err != nil {
		return err
	}
	tab, cancel, err := openTab(ctx)
	if err != nil {
		return err
	}
	defer cancel()
	wanted := pictures
	if all {
		wanted = everyPicture(product)
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	for _, p := range wanted {
		if p.path == "" {
			p.path = "/ui/runs/" + product.failed
		}
		png, err := take(tab, product, p)
		if err != nil {
			return fmt.Errorf("picture %s: %w", p.name, err)
		}
		if err := os.WriteFile(filepath.Join(out, p.name+".png"), png, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// everyPicture is every page at two widths, in two themes.
func everyPicture(p *product) (all []picture) {
	for name, path := range p.pages() {
		for _, theme := range []string{"dark", "light"} {
			all = append(all,
				picture{name + "-1280-" + theme, path, 1280, 0, theme, ""},
				picture{name + "-390-" + theme, path, 390, 0, theme, ""})
		}
	}
	return all
}

// take shows a page and takes its picture: of its whole length where no height
// is given.
func take(tab context.Context, product *product, p picture) ([]byte, error) {
	height := p.height
	if height == 0 {
		height = 844
	}
	if err := show(tab, product.url(p.path), p.width, height, p.theme); err != nil {
		return nil, err
	}
	ready := "!document.querySelector('.skeleton') && (!document.querySelector('[data-stream]') || document.querySelector('#live').dataset.state === 'open')"
	if p.ready != "" {
		ready += " && " + p.ready
	}
	if err := becomes(tab, ready); err != nil {
		return nil, err
	}
	if p.height == 0 {
		return chromedp.Run(tab, chromedp.FullScreenshot(100))
	}
	return chromedp.Run(tab, chromedp.CaptureScreenshot())
}
