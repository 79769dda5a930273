package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

// product is a carillon that was started for this.
type product struct {
	addr     string
	token    string // for the API; empty: it is open
	binary   string
	args     []string
	command  *exec.Cmd
	dir      string
	receiver *receiver
	failed   string // the key of a run that failed
	alert    string // the id of an alert that is open
}

const startWithin = 30 * time.Second

var up = regexp.MustCompile(`msg="carillon started" http=(\S+)`)

// build builds the product once, as `make build` does, so that what is compiled
// already is not again.
var build = sync.OnceValues(func() (string, error) {
	root, err := filepath.Abs(filepath.Join("..", "..", ".."))
	if err != nil {
		return "", err
	}
	path := filepath.Join(root, ".build", "console", "carillon")
	command := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-o", path, "./cmd/carillon")
	command.Dir = root
	command.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := command.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the product: %w\n%s", err, out)
	}
	return path, nil
})

// start starts the product with a database of its own, on a port that is free.
// args are added to those of dev.
func start(ctx context.Context, args ...string) (*product, error) {
	binary, err := build()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "carillon-console-")
	if err != nil {
		return nil, err
	}
	p := &product{dir: dir, binary: binary, args: append([]string{
		"dev", "--examples=false", "--grpc-addr", "127.0.0.1:0", "--data-dir", filepath.Join(dir, "state"),
	}, args...)}
	if p.receiver, err = receive(); err != nil {
		return nil, err
	}
	if err := p.run(ctx, "127.0.0.1:0"); err != nil {
		p.stop()
		return nil, err
	}
	return p, nil
}

// run starts the process and waits until it is up.
func (p *product) run(ctx context.Context, addr string) error {
	p.command = exec.CommandContext(ctx, p.binary, append(p.args, "--http-addr", addr)...)
	p.command.Env = append(os.Environ(), p.receiver.env()...)
	// The local executor asks for it where a test turns authentication on.
	p.command.Env = append(p.command.Env, "LOCAL_EXECUTOR_ROLES=operator,compiler")
	p.command.Cancel = func() error { return p.command.Process.Signal(os.Interrupt) }
	log, err := p.command.StderrPipe()
	if err != nil {
		return err
	}
	if err := p.command.Start(); err != nil {
		return err
	}
	found := make(chan string, 1)
	go func() { // it ends with the product, which stop ends
		var said bytes.Buffer
		for lines := bufio.NewScanner(log); lines.Scan(); {
			said.WriteString(lines.Text() + "\n")
			if m := up.FindStringSubmatch(lines.Text()); m != nil {
				found <- m[1]
				_, _ = io.Copy(io.Discard, log)
				return
			}
		}
		found <- ""
		fmt.Fprint(os.Stderr, said.String())
	}()
	select {
	case p.addr = <-found:
	case <-time.After(startWithin):
		p.addr = ""
	}
	if p.addr == "" {
		return errors.New("the product did not start")
	}
	return nil
}

// end ends the process, and leaves its database.
func (p *product) end() {
	_ = p.command.Process.Signal(os.Interrupt)
	_ = p.command.Wait()
}

func (p *product) stop() {
	p.end()
	p.receiver.close()
	_ = os.RemoveAll(p.dir)
}

func (p *product) url(path string) string { return "http://" + p.addr + path }

// api makes a call as a client of REST would, and reads what it answers.
func (p *product) api(ctx context.Context, method, path string, body, answer any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, method, p.url(path), bytes.NewReader(text))
	if err != nil {
		return err
	}
	if p.token != "" {
		req.Header.Set("Authorization", "Bearer "+p.token)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s %s: %s: %s", method, path, resp.Status, got)
	}
	if answer == nil {
		return nil
	}
	return json.Unmarshal(got, answer)
}

// workflow stores a workflow of one command.
func (p *product) workflow(ctx context.Context, id, shell string) error {
	return p.api(ctx, "PUT", "/v1/workflows/"+id+"/versions/1", map[string]any{"dag": map[string]any{
		"workflow_id": id, "version": 1, "steps": []any{map[string]any{"id": "only", "shell": shell}},
	}}, nil)
}

// schedule makes or changes a schedule.
func (p *product) schedule(ctx context.Context, id, workflow string, more map[string]any) error {
	body := map[string]any{"workflow_id": workflow, "version": 1, "user_id": "ada"}
	for name, value := range more {
		body[name] = value
	}
	return p.api(ctx, "PUT", "/v1/schedules/"+id, body, nil)
}

// run is what the API says of one.
type run struct {
	Key    string `json:"idempotency_key"`
	Status string `json:"status"`
}

// trigger runs a schedule by hand and waits until the run has the status.
func (p *product) trigger(ctx context.Context, id, status string) (key string, err error) {
	var answer struct{ Run run }
	if err := p.api(ctx, "POST", "/v1/schedules/"+id+":trigger", map[string]any{"overlap_policy": "allow"}, &answer); err != nil {
		return "", err
	}
	key = answer.Run.Key
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(startWithin); answer.Run.Status != status; <-tick.C {
		if time.Now().After(deadline) {
			return "", fmt.Errorf("run %s of %s is %s, not %s", key, id, answer.Run.Status, status)
		}
		if err := p.api(ctx, "GET", "/v1/runs/"+key, nil, &answer); err != nil {
			return "", err
		}
	}
	return key, nil
}

// seed fills the product with what an operator would see on an ordinary day.
func (p *product) seed(ctx context.Context) error {
	flag := filepath.Join(p.dir, "flag")
	soon := func(d time.Duration) string { return time.Now().Add(d).UTC().Format(time.RFC3339) }
	for id, shell := range map[string]string{"quick": "true", "broken": "echo the disk of host a1 is full >&2; exit 3", "slow": "sleep 60", "nap": "sleep 45", "flaky": "test -e " + flag + " || { touch " + flag + "; exit 1; }"} {
		if err := p.workflow(ctx, id, shell); err != nil {
			return err
		}
	}
	labels := func(team string) map[string]string { return map[string]string{"team": team, "tier": "1"} }
	for _, s := range []struct {
		id, workflow string
		more         map[string]any
	}{
		{"reports.hourly", "quick", map[string]any{"cron_expr": "5 * * * *", "timezone": "Europe/Berlin", "jitter_ms": 5000, "labels": labels("reports"), "input": map[string]any{"rows": 100}}},
		{"reports.weekdays", "quick", map[string]any{"cron_expr": "30 8 * * 1-5", "timezone": "Europe/Berlin", "labels": labels("reports"), "catchup_policy": "latest"}},
		{"billing.nightly", "broken", map[string]any{"cron_expr": "15 2 * * *", "timezone": "America/New_York", "labels": labels("billing"), "overlap_policy": "queue"}},
		{"billing.every-quarter", "quick", map[string]any{"cron_expr": "*/15 * * * *", "labels": labels("billing")}},
		{"heartbeat", "quick", map[string]any{"interval_ms": 2000}},
		{"import.slow", "slow", map[string]any{"cron_expr": "0 */6 * * *", "timezone": "Asia/Tokyo"}},
		{"cleanup.by-hand", "quick", map[string]any{"labels": labels("ops")}},
		{"ledger.close", "nap", map[string]any{"cron_expr": "*/2 * * * * *", "overlap_policy": "allow", "end_at": soon(8 * time.Second), "labels": labels("billing"), "expect": map[string]any{"finish_within_ms": 1000, "success_every_ms": 36_000_000, "alert_after": 2}}},
		{"mirror.check", "flaky", map[string]any{"interval_ms": 2000, "expect": map[string]any{"finish_within_ms": 1500, "start_within_ms": 1500, "remind_every_ms": 3600_000}}},
	} {
		if err := p.schedule(ctx, s.id, s.workflow, s.more); err != nil {
			return err
		}
	}
	return p.live(ctx, labels)
}

// live lets things happen: runs that end well and badly, an edit, a pause.
func (p *product) live(ctx context.Context, labels func(string) map[string]string) (err error) {
	for range 4 {
		if _, err := p.trigger(ctx, "reports.hourly", "SUCCESS"); err != nil {
			return err
		}
	}
	if p.failed, err = p.trigger(ctx, "billing.nightly", "FAILED"); err != nil {
		return err
	}
	if _, err := p.trigger(ctx, "import.slow", "STARTED"); err != nil {
		return err
	}
	if err := p.schedule(ctx, "reports.hourly", "quick", map[string]any{
		"cron_expr": "5 * * * *", "timezone": "Europe/Berlin", "jitter_ms": 30000, "labels": labels("reports"), "input": map[string]any{"rows": 250},
	}); err != nil {
		return err
	}
	if err := p.api(ctx, "POST", "/v1/schedules/reports.weekdays:pause", map[string]any{"note": "the warehouse is moving, see INC-204"}, nil); err != nil {
		return err
	}
	return p.alarm(ctx)
}

// pages are all pages of a seeded product, by name.
func (p *product) pages() map[string]string {
	return map[string]string{
		"overview": "/", "schedules": "/ui/schedules", "schedule": "/ui/schedules/reports.hourly", "edit": "/ui/schedules/reports.hourly/edit", "paused": "/ui/schedules/reports.weekdays",
		"history": "/ui/schedules/reports.hourly/history", "explain": "/ui/schedules/billing.nightly/explain?time=2026-03-08T02:30", "backfills": "/ui/schedules/reports.hourly/backfills", "why": "/ui/schedules/reports.weekdays/explain?time=2099-01-05T08:30:00%2B01:00", "runs": "/ui/runs", "run": "/ui/runs/" + p.failed, "output": "/ui/runs/" + p.failed + "/output",
		"preview":  "/ui/preview?kind=cron&cron=30+2+*+*+*&zone=America%2FNew_York&from=2027-03-13T00%3A00",
		"refused":  "/ui/preview?kind=cron&cron=61+2+*+*+*&zone=Mars%2FBase",
		"simulate": "/ui/simulate", "simulated": "/ui/simulate?kind=cron&cron=*/10+*+*+*+*&zone=UTC&overlap=queue&queued=1&catchup=latest&duration=8m&p95=30m&failures=10&from=2027-03-01T00:00&until=2027-03-01T04:00&outages=2027-03-01T01:15+/+35m",
		"beyond": "/ui/simulate?kind=cron&cron=61+*+*+*+*&zone=UTC&p95=1s&duration=2s",
		"alerts": "/ui/alerts", "alert": "/ui/alerts/" + p.alert, "promises": "/ui/schedules/ledger.close",
		"timeline": "/ui/timeline", "workers": "/ui/workers", "nothing": "/ui/runs?schedule=none-such", "unknown": "/ui/schedules/none-such",
	}
}

// browsers are the names that a Chromium has.
var browsers = []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable"}

func findBrowser() string {
	for _, name := range browsers {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	return ""
}

// openTab starts a browser without a window.
func openTab(ctx context.Context) (tab context.Context, cancel func(), err error) {
	path := findBrowser()
	if path == "" {
		return nil, nil, fmt.Errorf("no browser: none of %s is installed (Debian: apt-get install --no-install-recommends chromium)", strings.Join(browsers, ", "))
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true), chromedp.Flag("hide-scrollbars", true),
		chromedp.Env("TZ=Europe/Paris"))
	allocated, cancelAllocated := chromedp.NewExecAllocator(ctx, options...)
	tab, cancelTab := chromedp.NewContext(allocated)
	cancel = func() { cancelTab(); cancelAllocated() }
	if err := chromedp.Do(tab); err != nil {
		cancel()
		return nil, nil, fmt.Errorf("start %s: %w", path, err)
	}
	return tab, cancel, nil
}

// show opens a page in a window of a size, on a machine that prefers a theme.
func show(tab context.Context, url string, width, height int64, theme string) error {
	if _, err := chromedp.Call(tab, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: theme}, {Name: "prefers-reduced-motion", Value: "reduce"}},
	}); err != nil {
		return err
	}
	return chromedp.Do(tab, chromedp.EmulateViewport(width, height), chromedp.Navigate(url))
}

// becomes waits until the expression is true in the page.
func becomes(ctx context.Context, expression string) error {
	ctx, cancel := context.WithTimeout(ctx, startWithin)
	defer cancel()
	tick := time.NewTicker(30 * time.Millisecond)
	defer tick.Stop()
	for {
		// Evaluated again each time: a poll inside the page would not outlive a navigation.
		if is, err := chromedp.Run(ctx, chromedp.Evaluate[bool]("!!("+expression+")")); err == nil && is {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("never so: %s", expression)
		case <-tick.C:
		}
	}
}
