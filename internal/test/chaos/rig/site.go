package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/carillon/carillon/internal/test/chaos/proxy"
	"github.com/carillon/carillon/internal/test/chaos/record"
	"github.com/carillon/carillon/internal/tools/servers"
)

// site is one deployment with its servers, its executor and the links between
// them.
type site struct {
	dose     dose
	folder   string
	database string // URL past all proxies, or path of the SQLite file
	postgres *servers.Server
	redis    *servers.Server

	oracle     *child
	oracleGRPC string
	registrar  *child // on SQLite the one process that does everything
	launchers  []*child
	workers    []*child
	fetchers   []*child               // workers that fetch runs
	toStore    map[string]*proxy.Link // by child
	toLaunch   map[string]*proxy.Link // by worker
	links      []*proxy.Link
	ports      ports
}

// The settings are turned down so that bounds are reached in seconds.
const (
	callTimeout = 1500 * time.Millisecond
	cancelWait  = 8 * time.Second
	maxCatchup  = 5
	tick        = 500 * time.Millisecond
	lookahead   = 4 * time.Second
)

func (d dose) settings(seed uint64) record.Settings {
	return record.Settings{
		Seed: seed, Dose: d.name, Store: d.store, Lock: d.lock, Queue: d.queue, Workers: d.workers, Grace: d.grace, RunTimeout: d.runTimeout,
		LeaderTTL: d.ttl, MaxCatchup: maxCatchup, Tick: tick, Lookahead: lookahead, Shards: d.shards, CancelWait: cancelWait, CallTimeout: callTimeout, Jobs: d.jobs,
	}
}

func (s *site) environ() []string {
	oracle := "http://" + s.oracle.httpAddr
	env := []string{
		fmt.Sprint("TICK_MS=", tick.Milliseconds()), fmt.Sprint("LOOKAHEAD_MS=", lookahead.Milliseconds()), fmt.Sprint("MAX_CATCHUP_PER_TICK=", maxCatchup), "CLAIM_LEASE_MS=3000",
		fmt.Sprint("EXECUTOR_TIMEOUT_MS=", callTimeout.Milliseconds()), fmt.Sprint("CANCEL_WAIT_MS=", cancelWait.Milliseconds()),
		fmt.Sprint("LEADER_TTL_MS=", s.dose.ttl.Milliseconds()), fmt.Sprint("MISFIRE_GRACE_MS=", s.dose.grace.Milliseconds()),
		fmt.Sprint("LAUNCH_RETRY_FOR_MS=", s.dose.runTimeout.Milliseconds()), "LOG_LEVEL=info", "REPORT_SECRET=the-same-in-every-process",
		"EXECUTOR=http", "EXECUTOR_URL=" + oracle + "/run/{workflow_id}", "EXECUTOR_CANCEL_URL=" + oracle + "/run/{idempotency_key}",
	}
	if s.dose.shards > 1 {
		env = append(env, fmt.Sprint("SHARDS=", s.dose.shards))
	}
	if s.dose.lock == "redis" {
		env = append(env, "LEADER_LOCK=redis")
	}
	if s.dose.queue == "redis" {
		env = append(env, "LAUNCH_QUEUE=redis")
	}
	if s.redis != nil {
		env = append(env, "REDIS_URL="+s.redis.URL())
	}
	return env
}

// build starts what the dose wants, empty and ready.
func (s *site) build(ctx context.Context, o Options) error {
	s.toStore, s.toLaunch = make(map[string]*proxy.Link), make(map[string]*proxy.Link)
	logs := filepath.Join(s.folder, record.LogsFolder)
	if err := os.MkdirAll(logs, 0o755); err != nil {
		return err
	}
	var err error
	if s.oracle, err = newChild(s.folder, logs, "oracle", o.Oracle, nil, nil); err != nil {
		return err
	}
	if s.oracle.httpAddr, err = s.ports.free(); err != nil {
		return err
	}
	if s.oracleGRPC, err = s.ports.free(); err != nil {
		return err
	}
	s.oracle.args = []string{"-addr", s.oracle.httpAddr, "-grpc", s.oracleGRPC, "-folder", s.folder, "-seed", fmt.Sprint(o.Seed), "-temper", s.dose.temper}
	if err := s.oracle.start(); err != nil {
		return err
	}
	if s.dose.lock == "redis" || s.dose.queue == "redis" {
		if s.redis, err = servers.Redis(ctx, servers.Options{}); err != nil {
			return err
		}
	}
	if err := s.buildMembers(ctx, o, logs); err != nil || !s.dose.pull {
		return err
	}
	return s.startFetchers(o, logs)
}

func (s *site) buildMembers(ctx context.Context, o Options, logs string) (err error) {
	if s.dose.store == "sqlite" {
		return s.buildAlone(ctx, o, logs)
	}
	if s.postgres, err = servers.Postgres(ctx, servers.Options{CommitTimes: true}); err != nil {
		return err
	}
	s.database = s.postgres.URL()
	return s.buildApart(ctx, o, logs)
}

// buildAlone is one process on SQLite.
func (s *site) buildAlone(ctx context.Context, o Options, logs string) error {
	s.database = filepath.Join(s.folder, "carillon.db")
	one, err := s.member(o, logs, "worker-1", "serve")
	if err != nil {
		return err
	}
	one.env = append(one.env, "DATABASE_URL=sqlite:"+s.database)
	s.registrar, s.workers = one, []*child{one}
	if err := one.run(ctx, "migrate"); err != nil {
		return err
	}
	if err := s.watchWrites(ctx); err != nil {
		return err
	}
	return errors.Join(one.start(), one.awaitReady(ctx))
}

// buildApart is every role in a process of its own, on Postgres.
func (s *site) buildApart(ctx context.Context, o Options, logs string) error {
	var err error
	if s.registrar, err = s.member(o, logs, "registrar", "serve", "--migrate", "--roles", "registrar"); err != nil {
		return err
	}
	launchers := 1
	switch {
	case s.dose.jobs:
		launchers = 3
	case s.dose.queue == "redis":
		launchers = 2
	}
	for i := range launchers {
		one, err := s.member(o, logs, fmt.Sprintf("launcher-%d", i+1), "serve", "--roles", "launcher")
		if err != nil {
			return err
		}
		if s.dose.batch && i > 0 {
			one.env = append(one.env, "EXECUTOR=grpc", "EXECUTOR_URL="+s.oracleGRPC)
		}
		s.launchers = append(s.launchers, one)
	}
	for i := range s.dose.workers {
		one, err := s.member(o, logs, fmt.Sprintf("worker-%d", i+1), "serve", "--roles", "worker")
		if err != nil {
			return err
		}
		link, err := s.link(s.launchers[0].addrOf("GRPC_ADDR"))
		if err != nil {
			return err
		}
		s.toLaunch[one.name] = link
		one.env = append(one.env, "LAUNCHER_ADDR="+link.Addr())
		s.workers = append(s.workers, one)
	}
	for _, one := range s.members() {
		if err := s.reachStore(one); err != nil {
			return err
		}
	}
	if err := errors.Join(s.registrar.start(), s.registrar.awaitReady(ctx), s.watchWrites(ctx)); err != nil {
		return err
	}
	for _, one := range s.members()[1:] {
		if err := one.start(); err != nil {
			return err
		}
	}
	for _, one := range s.members()[1:] {
		if err := one.awaitReady(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (s *site) members() []*child {
	if s.dose.store == "sqlite" {
		return s.workers
	}
	all := []*child{s.registrar}
	all = append(all, s.launchers...)
	return append(all, s.workers...)
}

func (s *site) member(o Options, logs, name string, args ...string) (*child, error) {
	c, err := newChild(s.folder, logs, name, o.Binary, args, s.environ())
	if err != nil {
		return nil, err
	}
	grpcAddr, err := s.ports.free()
	if err != nil {
		return nil, err
	}
	if c.httpAddr, err = s.ports.free(); err != nil {
		return nil, err
	}
	c.env = append(c.env, "HTTP_ADDR="+c.httpAddr, "GRPC_ADDR="+grpcAddr)
	return c, nil
}

func (c *child) addrOf(variable string) string {
	for _, entry := range c.env {
		if value, found := strings.CutPrefix(entry, variable+"="); found {
			return value
		}
	}
	return ""
}

func (s *site) link(target string) (*proxy.Link, error) {
	link, err := proxy.New(target)
	if err == nil {
		s.links = append(s.links, link)
	}
	return link, err
}

// reachStore leads a process to Postgres through a link of its own, and under
// its own name.
func (s *site) reachStore(c *child) error {
	parsed, err := url.Parse(s.database)
	if err != nil {
		return err
	}
	link, err := s.link(parsed.Host)
	if err != nil {
		return err
	}
	s.toStore[c.name] = link
	parsed.Host = link.Addr()
	query := parsed.Query()
	query.Set("application_name", c.name)
	parsed.RawQuery = query.Encode()
	c.env = append(c.env, "DATABASE_URL="+parsed.String())
	return nil
}

// end ends everything that was started.
func (s *site) end() {
	for _, c := range append(s.members(), s.fetchers...) {
		if c != nil {
			c.signal(contSignal)
			c.kill()
			_ = c.log.Close()
		}
	}
	if s.oracle != nil {
		s.oracle.kill()
		_ = s.oracle.log.Close()
	}
	for _, link := range s.links {
		link.Close()
	}
	if s.postgres != nil {
		s.postgres.Stop()
	}
	if s.redis != nil {
		s.redis.Stop()
	}
}

func (s *site) open() (*sql.DB, error) {
	if s.dose.store == "sqlite" {
		return sql.Open("sqlite", s.database+"?_pragma=busy_timeout(10000)")
	}
	return sql.Open("pgx", s.database)
}
