package app

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"google.golang.org/grpc/status"

	"github.com/carillon/carillon/internal/store/postgres"
	"github.com/carillon/carillon/internal/store/sqlite"
)

const (
	databaseEvery = time.Second // between two checks
	// lateLines is how long after an outage lines about it still arrive, because calls from the outage
	// run into their timeouts.
	lateLines = 5 * time.Second
	// maxHeld bounds the lines that wait for a check. Further ones are written at once.
	maxHeld = 1000
)

// databaseWatch detects database outages with the check of /readyz and logs one line at the start and
// one at the end. Lines of components about the database wait for the next check: they keep their
// level if the database is available, otherwise they get level debug.
type databaseWatch struct {
	ping    func(ctx context.Context) error
	log     *slog.Logger
	name    string
	up      prometheus.Gauge
	suspect chan struct{} // requests a check now

	mu      sync.Mutex
	running bool
	away    bool
	since   time.Time // start of the current outage
	back    time.Time // end of the last one
	held    []heldLine
}

// heldLine is a line that waits for a check, with the handler that writes it.
type heldLine struct {
	next slog.Handler
	line slog.Record
}

func newDatabaseWatch(registry prometheus.Registerer, log *slog.Logger, name string) *databaseWatch {
	w := &databaseWatch{
		log: log.With("component", "database"), name: name, suspect: make(chan struct{}, 1),
		up: promauto.With(registry).NewGauge(prometheus.GaugeOpts{
			Name: "carillon_database_up", Help: "1 while the database answers and takes writes, checked every second.",
		}),
	}
	w.up.Set(1) // a process starts only if the database is available
	return w
}

// run checks the database every second, and after an error of a component, until ctx ends.
func (w *databaseWatch) run(ctx context.Context) {
	w.mu.Lock()
	w.running = true
	w.mu.Unlock()
	defer w.stop(ctx)
	ticker := time.NewTicker(databaseEvery)
	defer ticker.Stop()
	for {
		w.check(ctx)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		case <-w.suspect:
		}
	}
}

func (w *databaseWatch) unavailable() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.away
}

// stop writes the waiting lines and lets further ones pass.
func (w *databaseWatch) stop(ctx context.Context) {
	w.mu.Lock()
	w.running = false
	lines := w.held
	w.held = nil
	w.mu.Unlock()
	release(ctx, lines)
}

func (w *databaseWatch) check(ctx context.Context) {
	w.mu.Lock()
	before := len(w.held) // lines that arrive during the ping may be newer than its answer
	w.mu.Unlock()
	began := time.Now()
	err := w.pingOnce(ctx)
	if err != nil && !errors.Is(err, context.DeadlineExceeded) {
		err = w.pingOnce(ctx) // a single broken connection is not an outage
	}
	switch {
	case ctx.Err() != nil: // shutdown; the ping proves nothing
	case err != nil:
		w.isAway(ctx, began, err)
	default:
		w.isUp(ctx, before)
	}
}

func (w *databaseWatch) pingOnce(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	return w.ping(ctx)
}

func (w *databaseWatch) isAway(ctx context.Context, began time.Time, err error) {
	w.mu.Lock()
	lines, first := w.held, !w.away
	w.held = nil
	if first {
		w.away, w.since = true, began
		if len(lines) > 0 && lines[0].line.Time.Before(began) {
			w.since = lines[0].line.Time
		}
	}
	w.mu.Unlock()
	w.up.Set(0)
	if first {
		w.log.ErrorContext(ctx, "database unavailable", "database", w.name, "err", err)
	}
	for i := range lines {
		lines[i].line.Level = slog.LevelDebug
	}
	release(ctx, lines)
}

func (w *databaseWatch) isUp(ctx context.Context, before int) {
	w.mu.Lock()
	was, since := w.away, w.since
	lines := slices.Clone(w.held[:before])
	w.held = slices.Delete(w.held, 0, before)
	if was {
		w.away, w.back = false, time.Now()
	}
	w.mu.Unlock()
	w.up.Set(1)
	if was {
		w.log.InfoContext(ctx, "database available again", "database", w.name, "away_for", time.Since(since).Round(time.Millisecond))
	}
	release(ctx, lines)
}

// admit reports whether to write a component's line now, at its level or at debug; false: it waits for
// a check.
func (w *databaseWatch) admit(next slog.Handler, line *slog.Record) (write bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.away || line.Time.Sub(w.back) < lateLines:
		line.Level = slog.LevelDebug
		return true
	case !w.running || len(w.held) >= maxHeld:
		return true
	}
	w.held = append(w.held, heldLine{next, *line})
	select {
	case w.suspect <- struct{}{}:
	default: // a check is already requested
	}
	return false
}

func release(ctx context.Context, lines []heldLine) {
	for _, l := range lines {
		if l.next.Enabled(ctx, l.line.Level) {
			_ = l.next.Handle(ctx, l.line) // an error of the log itself cannot be logged
		}
	}
}

// folding passes warnings and errors about the database to the watch. All other lines pass.
type folding struct {
	slog.Handler
	watch *databaseWatch
}

func (h folding) Handle(ctx context.Context, line slog.Record) error {
	if line.Level >= slog.LevelWarn && fromDatabase(errorOf(&line)) {
		line = line.Clone()
		if !h.watch.admit(h.Handler, &line) || !h.Enabled(ctx, line.Level) {
			return nil
		}
	}
	return h.Handler.Handle(ctx, line)
}

func (h folding) WithAttrs(attrs []slog.Attr) slog.Handler {
	return folding{h.Handler.WithAttrs(attrs), h.watch}
}

func (h folding) WithGroup(name string) slog.Handler {
	return folding{h.Handler.WithGroup(name), h.watch}
}

// errorOf is the error in a line, or nil.
func errorOf(line *slog.Record) (err error) {
	line.Attrs(func(a slog.Attr) bool {
		if a.Key == "err" {
			err, _ = a.Value.Any().(error)
		}
		return err == nil
	})
	return err
}

// fromDatabase reports whether err comes from the database. Timeouts and broken connections count
// unless they are of HTTP or gRPC, because pgx returns some of them unwrapped.
func fromDatabase(err error) bool {
	if err == nil {
		return false
	}
	var http *url.Error
	if _, isStatus := status.FromError(err); isStatus || errors.As(err, &http) {
		return false
	}
	var broken *net.OpError
	if errors.As(err, &broken) && broken.Op != "dial" { // pgx wraps its dial errors
		return true
	}
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, io.ErrUnexpectedEOF) || postgres.FromDriver(err) || sqlite.FromDriver(err)
}
