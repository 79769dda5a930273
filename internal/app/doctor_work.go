package app

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/carillon/carillon/internal/schedule"
	launcherclient "github.com/carillon/carillon/launcher/client"
	"github.com/carillon/carillon/launcher/launchqueue"
)

// seenLately is the maximum age of a live worker's heartbeat.
const seenLately = time.Minute

// silentLeader is the maximum age of a leader's heartbeat. It writes one every second unless it hangs
// or cannot reach the database.
const silentLeader = 5 * time.Second

// leaders checks the leader of every shard. Without a leader nothing fires.
func (d *doctor) leaders(ctx context.Context, store Store) {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	now := store.Now()
	instances, err := store.Instances(ctx, seenLately)
	if err == nil {
		var led []schedule.Leadership
		if led, err = store.Leaders(ctx, now); err == nil {
			var shards int
			if shards, err = store.Shards(ctx); err == nil {
				d.shards(schedule.Workers(instances), led, max(shards, 1), now)
				return
			}
		}
	}
	d.unread("leader", err)
}

func (d *doctor) shards(workers []schedule.Instance, led []schedule.Leadership, shards int, now time.Time) {
	byID := make(map[string]schedule.Instance)
	for _, w := range workers {
		byID[w.ID] = w
		if w.Unhealthy != "" {
			d.warn("leader", fmt.Sprintf("worker %s (%s) is unhealthy: %s", w.ID, w.Host, w.Unhealthy), "it could not launch runs; fix the cause")
		}
	}
	if d.cfg.Has("worker") && shards != d.cfg.Shards {
		d.fail("leader", fmt.Sprintf("SHARDS is %d here and %d in the database", d.cfg.Shards, shards),
			fmt.Sprintf("start this worker with SHARDS=%d, or run `carillon shards set %d` and restart every worker", shards, d.cfg.Shards))
	}
	known := make(map[int]schedule.Leadership)
	for _, l := range led {
		known[l.Shard] = l
	}
	for shard := range shards {
		l, ok := known[shard]
		w, seen := byID[l.Holder]
		name := fmt.Sprintf("shard %d", shard)
		switch {
		case !ok || l.Holder == "" || l.Expired:
			d.fail("leader", "no leader for "+name, "start a worker (`carillon serve` with the role worker), and see its log for why it does not lead; nothing is planned or launched until one does")
		case !seen:
			d.warn("leader", fmt.Sprintf("the leader of %s, %s, was not seen in the last minute; its term ends %s", name, l.Holder, l.ExpiresAt.UTC().Format(time.RFC3339)),
				"another worker takes over then; check that one runs")
		case now.Sub(w.SeenAt) > min(ms(d.cfg.LeaderTTLMS), silentLeader):
			d.warn("leader", fmt.Sprintf("leader of %s is %s (%s), last seen %s ago", name, l.Holder, w.Host, now.Sub(w.SeenAt).Round(time.Second)), "check whether that process runs and reaches the database")
		case !l.LockHeld:
			d.warn("leader", fmt.Sprintf("leader of %s is %s (%s), without the shard's lock", name, l.Holder, w.Host),
				"it took over from a process that hung and may still hold the lock; end that process or its session")
		default:
			d.ok("leader", "leader of %s is %s (%s), epoch %d, process started %s, last seen %s ago", name, l.Holder, w.Host, l.Epoch,
				w.StartedAt.UTC().Format(time.RFC3339), max(now.Sub(w.SeenAt), 0).Round(100*time.Millisecond))
		}
	}
}

// The maximum healthy wait of a due slot for its claim, and of a schedule for its plan.
const (
	lagWarning = 5 * time.Second
	lagLimit   = time.Minute
)

func (d *doctor) lag(ctx context.Context, store Store) {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	now := store.Now()
	l, err := store.Lag(ctx, now)
	if err != nil {
		d.unread("lag", err)
		return
	}
	behind := func(what string, n int, oldest time.Time, do string) {
		late := time.Duration(0)
		if n > 0 {
			late = now.Sub(oldest)
		}
		says := fmt.Sprintf("%s: %d, the oldest since %s", what, n, late.Round(100*time.Millisecond))
		switch {
		case late > lagLimit:
			d.fail("lag", says, do)
		case late > lagWarning:
			d.warn("lag", says, do)
		case n == 0:
			d.ok("lag", "no %s", what)
		default:
			d.ok("lag", "%s", says)
		}
	}
	behind("due runs to claim", l.Due, l.OldestDue, "check that a worker leads, and whether MAX_LAUNCHES or a slow executor delays launches (carillon_inflight)")
	behind("schedules to plan", l.Unplanned, l.OldestPlan, "check that a worker leads, and its log for failed passes")
}

// launcher checks whether a worker's launches would arrive.
func (d *doctor) launcher(ctx context.Context) {
	if !d.cfg.Has("worker") {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	if d.cfg.LaunchQueue == "redis" {
		d.queue(ctx)
		return
	}
	if d.cfg.Has("launcher") {
		d.ok("launcher", "in the same process as the worker")
		return
	}
	const do = "start one (`carillon serve --roles launcher`), or correct LAUNCHER_ADDR"
	dialing, err := d.cfg.launcherDialing()
	if err == nil {
		var client *launcherclient.Client
		if client, err = launcherclient.New(d.cfg.LauncherAddr, dialing...); err == nil {
			err = client.Reach(ctx)
			_ = client.Close() // its answer was read
		}
	}
	if err != nil {
		d.fail("launcher", d.cfg.Scrub(err).Error(), do)
		return
	}
	d.ok("launcher", "%s accepts launches", d.cfg.LauncherAddr)
}

func (d *doctor) queue(ctx context.Context) {
	redis, err := launchqueue.Open(d.cfg.RedisURL.Reveal())
	if err == nil {
		err = launchqueue.NewPublisher(redis, launchqueue.NewMetrics(prometheus.NewRegistry())).Reach(ctx)
		_ = redis.Close() // its answer was read
	}
	if err != nil {
		d.fail("launcher", d.cfg.Scrub(err).Error(), "check that Redis runs, REDIS_URL is correct, and a launcher runs with LAUNCH_QUEUE=redis")
		return
	}
	d.ok("launcher", "the launch queue is up, and a launcher reads it")
}

// executor checks that the executor answers, with a request that cannot start a run.
func (d *doctor) executor(ctx context.Context) {
	if !d.cfg.Has("launcher") {
		return
	}
	if d.cfg.Executor == "local" {
		d.ok("executor", "runs workflows on this machine")
		return
	}
	e, err := newExecutor(d.cfg, "", nil, nil, slog.New(slog.DiscardHandler))
	if err != nil {
		d.fail("executor", d.cfg.Scrub(err).Error(), "correct EXECUTOR_URL")
		return
	}
	defer e.close()
	probe, ok := e.Executor.(interface {
		Probe(ctx context.Context) (says string, err error)
	})
	if !ok {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	says, err := probe.Probe(ctx)
	if err != nil {
		d.fail("executor", d.cfg.Scrub(err).Error(), "start the executor, or correct EXECUTOR_URL; launches are retried for LAUNCH_RETRY_FOR_MS")
		return
	}
	d.ok("executor", "%s", says)
}

// server checks whether a carillon is running at these addresses.
func (d *doctor) server(ctx context.Context) {
	if !d.cfg.Has("registrar") {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	const do = "start one with `carillon serve` or `carillon dev`, or set its HTTP_ADDR"
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", d.cfg.HTTPAddr)
	if err != nil {
		d.warn("server", "no server answers at HTTP_ADDR "+d.cfg.HTTPAddr, do)
		return
	}
	_ = conn.Close() // the HTTP request below opens another
	if d.cfg.tlsOn() {
		d.ok("server", "%s accepts connections (TLS)", d.cfg.HTTPAddr)
		return
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+d.cfg.HTTPAddr+"/readyz", nil)
	if err != nil {
		d.warn("server", err.Error(), do)
		return
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		d.fail("server", fmt.Sprintf("%s accepts connections but does not answer: %s", d.cfg.HTTPAddr, d.cfg.Scrub(err)),
			"check whether that process hangs, and that it is carillon")
		return
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		d.fail("server", fmt.Sprintf("%s answers %s%s", req.URL, resp.Status, failedChecks(resp.Body)), "the server's log has the cause")
		return
	}
	name, _ := os.Hostname()
	d.ok("server", "%s is ready (this machine is %s)", d.cfg.HTTPAddr, name)
}

// failedChecks returns the failed checks of /readyz, which names them only to callers that may see
// workers.
func failedChecks(body io.Reader) string {
	var checks map[string]string
	if json.NewDecoder(io.LimitReader(body, 64<<10)).Decode(&checks) != nil {
		return ""
	}
	delete(checks, "status")
	maps.DeleteFunc(checks, func(_, result string) bool { return result == "ok" })
	if len(checks) == 0 {
		return ""
	}
	return ": failed: " + strings.Join(slices.Sorted(maps.Keys(checks)), ", ")
}
