package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/carillon/carillon/schema"
)

// Health is the result of a check.
type Health string

// The results of a check.
const (
	HealthOK   Health = "ok"
	HealthWarn Health = "warn" // needs attention
	HealthFail Health = "fail" // does not work
)

// Finding is the result of one check.
type Finding struct {
	Check  string `json:"check"` // configuration, database, schema, …
	Health Health `json:"health"`
	Says   string `json:"says"`
	Do     string `json:"do"` // the remedy; empty if healthy
}

// Healthy reports whether nothing failed.
func Healthy(findings []Finding) bool {
	return !slices.ContainsFunc(findings, func(f Finding) bool { return f.Health == HealthFail })
}

// Examine runs all checks in order. It skips checks that depend on something unreachable. It leaves no
// changes behind and takes no leadership.
func Examine(ctx context.Context, cfg Config, loaded error) []Finding {
	d := &doctor{cfg: cfg}
	if d.configuration(loaded); loaded != nil {
		return d.findings
	}
	store := d.database(ctx)
	if store != nil {
		defer func() { _ = store.Close() }()
		if d.schema(ctx, store) {
			d.clock(ctx, store)
			d.leaders(ctx, store)
			d.leadership(ctx, store)
			d.processes(ctx, store)
			d.lag(ctx, store)
			d.upkeep(ctx, store)
			d.presence(ctx, store)
			d.history(ctx, store)
			d.outcomes(ctx, store)
			d.calls(ctx, store)
			d.failing(ctx, store)
			d.dead(ctx, store)
			d.events(ctx, store)
			d.queues(ctx, store)
			d.limits(ctx, store)
			d.launching(ctx, store)
			d.openAlerts(ctx, store)
			d.notifications(ctx, store)
			d.webhooks(ctx, store)
		}
	}
	d.launcher(ctx)
	d.executor(ctx)
	d.server(ctx)
	return d.findings
}

type doctor struct {
	cfg      Config
	findings []Finding
}

// checkTimeout is for one answer.
const checkTimeout = 3 * time.Second

func (d *doctor) ok(check, format string, args ...any) {
	d.findings = append(d.findings, Finding{Check: check, Health: HealthOK, Says: fmt.Sprintf(format, args...)})
}

func (d *doctor) warn(check, says, do string) {
	d.findings = append(d.findings, Finding{Check: check, Health: HealthWarn, Says: says, Do: do})
}

func (d *doctor) fail(check, says, do string) {
	d.findings = append(d.findings, Finding{Check: check, Health: HealthFail, Says: says, Do: do})
}

// unread reports a check that could not read its rows.
func (d *doctor) unread(check string, err error) {
	d.fail(check, d.cfg.Scrub(err).Error(), "check that the database answers")
}

func (d *doctor) configuration(loaded error) {
	switch {
	case loaded != nil:
		d.fail("configuration", strings.ReplaceAll(loaded.Error(), "\n", "; "), "correct it in the environment, the flags or the --config file; docs/configuration.md lists all settings")
		return
	case d.cfg.CheckServe() != nil && d.cfg.DataDir != "":
		d.warn("configuration", strings.ReplaceAll(d.cfg.CheckServe().Error(), "\n", "; "), "or check a `carillon dev` with `carillon doctor --dev`")
		return
	}
	environment := ""
	if d.cfg.Environment != "" {
		environment = "environment " + d.cfg.Environment + ", "
	}
	d.ok("configuration", "%sroles %s, %s, executor %s, retention %d days", environment, d.cfg.Roles, d.cfg.DatabaseName(), d.cfg.Executor, d.cfg.RetentionDays)
}

// slowDatabase is a round trip that delays thousands of schedules noticeably.
const slowDatabase = 20 * time.Millisecond

func (d *doctor) database(ctx context.Context) Store {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	// The store outlives this check, so it must not use the caller's context.
	store, err := OpenStore(context.WithoutCancel(ctx), d.cfg, slog.New(slog.DiscardHandler), OpenOptions{})
	if errors.Is(err, fs.ErrNotExist) {
		d.fail("database", "no such file: "+absolute(d.cfg.sqlitePath()), "set DATA_DIR or DATABASE_URL; `carillon dev` and `carillon migrate` create it")
		return nil
	}
	if err != nil && !d.cfg.OnPostgres() {
		d.fail("database", err.Error(), d.databaseAdvice())
		return nil
	}
	if err != nil {
		d.fail("database", d.cfg.Scrub(err).Error(), "check that the server runs, and the host, user and password of DATABASE_URL")
		return nil
	}
	untilFast := lockNoticed
	if d.cfg.OnPostgres() {
		untilFast = 0
	}
	took, err := medianPing(ctx, store.Ping, untilFast)
	if err == nil && !d.cfg.OnPostgres() {
		err = roomFor(d.cfg.sqlitePath())
	}
	if err != nil {
		d.fail("database", d.cfg.Scrub(err).Error(), d.databaseAdvice())
		_ = store.Close() // the ping has failed already
		return nil
	}
	switch {
	case took <= slowDatabase:
		d.ok("database", "answers in %s", took.Round(10*time.Microsecond))
	case d.cfg.OnPostgres():
		d.warn("database", fmt.Sprintf("answers in %s", took.Round(100*time.Microsecond)), "run workers closer to the database: within a millisecond or two")
	default:
		d.warn("database", fmt.Sprintf("answers in %s", took.Round(100*time.Microsecond)), "use a local disk, and check which other process has the file open (`fuser FILE`)")
	}
	return store
}

// lockNoticed is how long a slow SQLite file is pinged again: the store reports a lock that another
// process has held for two seconds. It must be less than checkTimeout, so that a slow file does not
// time out.
const lockNoticed = 2500 * time.Millisecond

// medianPing is the median time of five pings, or of more for up to untilFast while they are slow.
func medianPing(ctx context.Context, ping func(context.Context) error, untilFast time.Duration) (median time.Duration, err error) {
	var took []time.Duration
	first := time.Now()
	for len(took) < 5 || took[len(took)-1] > slowDatabase && time.Since(first) < untilFast {
		began := time.Now()
		if err := ping(ctx); err != nil {
			return 0, err
		}
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	return took[len(took)/2], nil
}

func (d *doctor) databaseAdvice() string {
	if d.cfg.OnPostgres() {
		return "check that the database runs, accepts writes and is reachable from here"
	}
	return "check the disk of " + absolute(d.cfg.sqlitePath()) + ", who owns the file, and which other process has it open (`fuser FILE`)"
}

// roomFor writes and removes a small file next to the database, because only a write detects a full
// disk.
func roomFor(path string) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".doctor-*")
	if err != nil {
		return fmt.Errorf("cannot write next to the database: %w", err)
	}
	_, err = f.Write(make([]byte, 64<<10))
	if err = cmp.Or(err, f.Close()); err != nil {
		err = fmt.Errorf("the disk takes no writes: %w", err)
	}
	return errors.Join(err, os.Remove(f.Name()))
}

func (d *doctor) schema(ctx context.Context, store Store) bool {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	err := store.CheckSchema(ctx)
	switch {
	case errors.Is(err, schema.ErrUnknownSchema):
		d.fail("schema", err.Error(), "run `carillon migrate` with the newest carillon in use")
	case err != nil:
		d.fail("schema", d.cfg.Scrub(err).Error(), "grant the database user SELECT on goose_db_version")
	default:
		d.ok("schema", "matches this carillon")
	}
	return err == nil
}

func (d *doctor) clock(ctx context.Context, store Store) {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	if !d.cfg.OnPostgres() {
		d.ok("clock", "same as the database's clock")
		return
	}
	skew, err := store.MeasureClock(ctx)
	says := fmt.Sprintf("this machine's clock differs from the database's by %s", skew.Abs().Round(time.Millisecond))
	const do = "run an NTP client on both machines; a worker here does not lead beyond 2 s"
	switch {
	case err != nil:
		d.unread("clock", err)
	case skew.Abs() > skewLimit:
		d.fail("clock", says, do)
	case skew.Abs() > skewWarning:
		d.warn("clock", says, do)
	default:
		d.ok("clock", "%s", says)
	}
}
