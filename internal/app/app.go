package app

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection"

	"github.com/carillon/carillon/internal/auth/gate"
	"github.com/carillon/carillon/internal/connlimit"
	"github.com/carillon/carillon/internal/heartbeat"
	"github.com/carillon/carillon/internal/tracing"
	"github.com/carillon/carillon/launcher"
	launcherapi "github.com/carillon/carillon/launcher/api"
	"github.com/carillon/carillon/launcher/dispatch"
	"github.com/carillon/carillon/launcher/launchqueue"
	"github.com/carillon/carillon/launcher/presence"
	"github.com/carillon/carillon/launcher/workflow/bucket"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
	"github.com/carillon/carillon/registrar"
	"github.com/carillon/carillon/registrar/alert"
	registrarapi "github.com/carillon/carillon/registrar/api"
	"github.com/carillon/carillon/registrar/creditgate"
	"github.com/carillon/carillon/registrar/notify"
	"github.com/carillon/carillon/worker"
)

// Options are what a command adds to the configuration.
type Options struct {
	Logger *slog.Logger
	// Dev creates the SQLite file if there is none, also at the default path.
	Dev bool
	// Migrate migrates the database to this binary's schema; otherwise another schema is refused.
	Migrate bool
	// Reflection offers gRPC reflection, for grpcurl.
	Reflection bool
	// Executor replaces the configured one, for benchmarks.
	Executor launcher.Executor
	// Version is the release of this binary, shown by carillon_build_info.
	Version string
}

// App is one process with its roles.
type App struct {
	cfg        Config
	id         string // of the worker; new at every start
	version    string // release of this binary
	log        *slog.Logger
	store      Store
	registry   *prometheus.Registry
	credit     *creditgate.Gate // nil without CREDIT_GATE_URL
	bucket     *bucket.Store    // nil without WORKFLOW_STORE=blob
	executor   *executorRole    // nil without the launcher role
	launch     *launcher.Launcher
	presence   *presence.Presence // nil without the launcher role
	health     *health.Server     // grpc.health.v1
	heart      *heartbeat.Heart
	worker     *worker.Worker        // nil without the worker role
	dispatcher *dispatch.Dispatcher  // nil without the launcher role
	consumer   *launchqueue.Consumer // nil without the launcher role or LAUNCH_QUEUE
	client     closer                // of LAUNCHER_ADDR
	queue      *redis.Client         // nil without LAUNCH_QUEUE
	runs       *worker.Metrics
	queued     *launchqueue.Metrics
	redis      closer // of LEADER_LOCK=redis
	gate       *gate.Gate
	tls        *tls.Config     // of the listeners; nil: no TLS
	tracer     *tracing.Tracer // nil: off
	observe    func(method string, code codes.Code, took time.Duration)
	stopKeys   func() // stops fetching keys; nil: none are fetched
	grpc       *registrarapi.Server
	http       *http.Server
	loopback   net.Listener
	conn       *grpc.ClientConn
	httpLis    net.Listener
	grpcLis    net.Listener
	steps      chan clockStep
	failing    atomic.Pointer[string]  // why the launcher of this process launches nothing; nil: it does
	runHooks   func() *notify.RunHooks // WEBHOOK_TARGETS_FILE; nil: there is none
	watch      *alert.Watch            // nil without the registrar role
	auditor    *registrarapi.Auditor
	ending     chan struct{} // closed when the servers have to stop
	stopAt     atomic.Int64  // when the shutdown began, Unix nanoseconds; 0: not yet
	skew       atomic.Int64  // last measured: this machine's clock − the database's, nanoseconds

	database *databaseWatch

	strangers strangerLogs
}

type closer interface{ Close() error }

// New opens the database, checks its schema and binds the listeners. Nothing runs yet. Close frees
// everything.
func New(ctx context.Context, cfg Config, o Options) (app *App, err error) {
	a := &App{cfg: cfg, id: rand.Text(), log: o.Logger, registry: prometheus.NewRegistry(), steps: make(chan clockStep, 1), ending: make(chan struct{})}
	defer func() {
		if err != nil {
			err = cfg.Scrub(errors.Join(err, a.Close()))
		}
	}()
	if err := cfg.checkOpen(); err != nil {
		return nil, err
	}
	if a.tracer, err = tracing.Open(ctx, map[string]string{"service.instance.id": a.id, "carillon.roles": cfg.Roles, "deployment.environment.name": cfg.Environment}, o.Logger); err != nil {
		return nil, err
	}
	a.observe, a.strangers, a.version = newCallMetrics(a.registry), newStrangerLogs(o.Logger), showBuild(a.registry, o.Version, cfg.Environment)
	a.database = newDatabaseWatch(a.registry, o.Logger, cfg.DatabaseName())
	o.Logger = slog.New(folding{o.Logger.Handler(), a.database})
	a.log = o.Logger
	a.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	if a.store, err = OpenStore(ctx, cfg, o.Logger, OpenOptions{
		Create: o.Dev || o.Migrate && cfg.NamesSQLiteFile(), Wait: ms(cfg.DatabaseWaitMS), ClockStepped: a.clockStepped,
	}); err != nil {
		return nil, err
	}
	a.database.ping = a.store.Ping
	countEndedTwice(a.registry, a.store)
	a.log.Info("database opened", "database", cfg.DatabaseName())
	if err := a.checkSchema(ctx, o.Migrate); err != nil {
		return nil, err
	}
	if err := a.buildGate(ctx); err != nil {
		return nil, err
	}
	if err := a.listen(); err != nil {
		return nil, err
	}
	secret, err := reportSecret(cfg)
	if err != nil {
		return nil, err
	}
	if err := a.openBucket(ctx); err != nil {
		return nil, err
	}
	reg, err := a.newRegistrar(secret)
	if err != nil {
		return nil, err
	}
	if err := a.buildLauncher(reg, secret, o.Executor); err != nil {
		return nil, err
	}
	if err := a.openQueue(); err != nil {
		return nil, err
	}
	if err := a.buildWorker(ctx); err != nil {
		return nil, err
	}
	a.buildConsumer()
	a.buildHeart()
	if err := a.buildServers(ctx, reg, o.Reflection); err != nil {
		return nil, err
	}
	return a, nil
}

func (a *App) listen() (err error) {
	if a.httpLis, err = net.Listen("tcp", a.cfg.HTTPAddr); err != nil {
		return fmt.Errorf("HTTP_ADDR: %w; is another carillon running?", err)
	}
	if a.grpcLis, err = net.Listen("tcp", a.cfg.GRPCAddr); err != nil {
		return fmt.Errorf("GRPC_ADDR: %w; is another carillon running?", err)
	}
	a.limitConnections()
	return nil
}

// HTTPAddr is the bound address of REST, metrics and health.
func (a *App) HTTPAddr() string { return a.httpLis.Addr().String() }

// GRPCAddr is the bound address of gRPC.
func (a *App) GRPCAddr() string { return a.grpcLis.Addr().String() }

// Conn is a connection to the gRPC services of this process. Calls with WaitForReady wait for Run.
func (a *App) Conn() grpc.ClientConnInterface { return gate.InProcess(a.conn) }

func (a *App) publicURL() string {
	if a.cfg.PublicURL != "" {
		return a.cfg.PublicURL
	}
	return a.scheme() + a.HTTPAddr()
}

func (a *App) buildServers(ctx context.Context, reg *registrar.Registrar, withReflection bool) error {
	options := grpcLimits(a.cfg.MaxLaunches)
	if a.tracer != nil {
		options = append(options, grpc.StatsHandler(a.tracer.Calls()))
	}
	options = append(options, grpc.Creds(connlimit.Credentials(a.transport())))
	a.auditor = registrarapi.NewAuditor(a.store, a.store.Now, a.log)
	a.grpc = registrarapi.NewServer(a.log, []registrarapi.Interceptors{
		a.auditor.Interceptors(),
		a.callerLimits(),
		{Early: a.gate.Early, Unary: a.gate.Unary, Stream: a.gate.Stream, Observe: a.observe, Strangers: a.limits().calls, Refusals: a.limits().refusals},
		a.ownerLimits(),
		a.commandLimits(),
	}, options...)
	alerts, err := a.buildAlerts(reg)
	if err != nil {
		return err
	}
	if a.cfg.Has("registrar") {
		registrarapi.Register(a.grpc, registrarapi.Services{Writer: reg, Reader: reg, Workflows: reg, Grants: reg, Runs: reg, Backfills: reg, Queues: reg, Limits: reg, Events: reg, Groups: reg, Overlaps: reg, Workers: a.store, Trail: a.store, Alerts: alerts, Links: a.cfg.links(), Now: a.store.Now, Ending: a.ending})
	} else if a.launch != nil { // executors report to the launcher that called them
		registrarapi.RegisterReports(a.grpc, reg)
	}
	if a.launch != nil {
		launcherapi.Register(a.grpc, a.launch, a.startBatches())
	}
	a.serveHealth()
	if withReflection {
		reflection.Register(a.grpc)
	}
	if a.loopback, a.conn, err = registrarapi.Loopback(); err != nil {
		return fmt.Errorf("open loopback: %w", err)
	}
	gateway, err := registrarapi.NewGateway(ctx, a.gate.Forward(a.conn), registrarapi.GatewayOptions{Launcher: a.launch != nil, ReportToken: reg.KnowsReportToken})
	if err != nil {
		return fmt.Errorf("build REST gateway: %w", err)
	}
	checks := []check{{name: "process", run: a.mayServe}, {name: "database", run: a.store.Ping}}
	if a.worker != nil {
		checks = append(checks, check{name: "worker", run: a.heart.Alive})
		if !a.cfg.Has("registrar") { // the API works without a launcher
			checks = append(checks, check{name: "launcher", run: a.worker.Healthy, open: true})
		}
	}
	if a.launch != nil && !a.cfg.Has("registrar") && a.worker == nil {
		checks = append(checks, check{name: "launcher", run: a.mayLaunch, open: true})
	}
	a.http = newHTTPServer(guard(a.newMux(gateway, checks), &a.cfg, a.refused))
	a.http.TLSConfig = a.tls.Clone() // net/http modifies its config while gRPC uses the other
	a.http.ErrorLog = log.New(connectionErrors{a.log.With("component", "http"), a.strangers.connections}, "", 0)
	return nil
}

// serveHealth registers grpc.health.v1 for the server and for the launcher service, which workers
// check.
func (a *App) serveHealth() {
	a.health = health.NewServer()
	if a.launch != nil {
		a.health.SetServingStatus(carillonv1.RunLauncher_ServiceDesc.ServiceName, healthv1.HealthCheckResponse_SERVING)
	}
	healthv1.RegisterHealthServer(a.grpc, a.health)
}

// Run serves until ctx ends. It stops the worker before the listeners, so that executors can still
// report.
func (a *App) Run(ctx context.Context) error {
	defer context.AfterFunc(ctx, func() { a.stopAt.Store(time.Now().UnixNano()) })()
	serveCtx, stopServing := context.WithCancel(context.WithoutCancel(ctx))
	defer stopServing()
	defer a.holdPresence()()
	servers, serveCtx := errgroup.WithContext(serveCtx)
	servers.Go(func() error { return a.serveHTTP(serveCtx) })
	servers.Go(func() error { return a.serveGRPC(serveCtx) })
	if a.launch != nil {
		servers.Go(func() error { a.showLauncherHealth(serveCtx); return nil })
	}
	servers.Go(func() error { a.strangers.run(serveCtx); return nil })
	servers.Go(func() error { a.database.run(serveCtx); return nil })
	servers.Go(func() error { a.watchClock(serveCtx); return nil })
	servers.Go(func() error { a.watchLedger(serveCtx); return nil })
	servers.Go(func() error { a.watchHistory(serveCtx); return nil })
	servers.Go(func() error { a.followClock(serveCtx); return nil })
	servers.Go(func() error { return a.watchExpectations(serveCtx) })
	servers.Go(func() error { a.pruneLogs(serveCtx); return nil })
	servers.Go(func() error { a.auditor.Run(serveCtx); return nil })
	stopExecutor := a.serveExecutor(serveCtx, servers)
	a.log.Info("carillon started", "http", a.HTTPAddr(), "grpc", a.GRPCAddr(), "roles", a.cfg.Roles, "executor", a.cfg.Executor)

	workers, workCtx := errgroup.WithContext(ctx)
	workers.Go(func() error { a.heart.Run(workCtx); return nil })
	if a.worker != nil {
		workers.Go(func() error { return a.worker.Run(workCtx) })
	}
	if a.dispatcher != nil {
		workers.Go(func() error { return a.dispatcher.Run(workCtx) })
	}
	if a.consumer != nil {
		workers.Go(func() error { return a.consumer.Run(workCtx) })
	}
	workers.Go(func() error { // a failed server stops the worker too
		select {
		case <-serveCtx.Done():
			return context.Cause(serveCtx)
		case <-workCtx.Done():
			return nil
		}
	})
	err := workers.Wait()
	close(a.ending)
	stopExecutor()
	stopServing()
	if serveErr := servers.Wait(); serveErr != nil && !errors.Is(serveErr, context.Canceled) {
		err = errors.Join(err, serveErr)
	}
	a.auditor.Flush(context.WithoutCancel(ctx))
	if errors.Is(err, context.Canceled) {
		err = nil
	}
	a.log.Info("carillon stopped")
	return a.cfg.Scrub(err)
}

func (a *App) serveHTTP(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() {
		drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), a.drain())
		defer cancel()
		if err := a.http.Shutdown(drain); err != nil {
			_ = a.http.Close()
		}
	})
	defer stop()
	serve := a.http.Serve
	if a.tls != nil {
		serve = func(lis net.Listener) error { return a.http.ServeTLS(lis, "", "") }
	}
	if err := serve(a.httpLis); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve HTTP: %w", err)
	}
	return nil
}

func (a *App) serveGRPC(ctx context.Context) error {
	defer context.AfterFunc(ctx, func() {
		defer time.AfterFunc(a.drain(), a.grpc.Stop).Stop()
		a.grpc.GracefulStop()
	})()
	var g errgroup.Group
	for _, lis := range []net.Listener{a.grpcLis, a.loopback} {
		g.Go(func() error {
			if err := a.grpc.Serve(lis); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
				return fmt.Errorf("serve gRPC: %w", err)
			}
			return nil
		})
	}
	return g.Wait()
}

// Close frees the resources of New.
func (a *App) Close() error {
	var errs []error
	for _, lis := range []net.Listener{a.httpLis, a.grpcLis} {
		if lis != nil {
			if err := lis.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
				errs = append(errs, err)
			}
		}
	}
	if a.conn != nil {
		errs = append(errs, a.conn.Close())
	}
	if a.stopKeys != nil {
		a.stopKeys()
	}
	if a.client != nil {
		errs = append(errs, a.client.Close())
	}
	if a.redis != nil {
		errs = append(errs, a.redis.Close())
	}
	if a.queue != nil {
		errs = append(errs, a.queue.Close())
	}
	if a.credit != nil {
		a.credit.Close()
	}
	if a.executor != nil && a.executor.close != nil {
		a.executor.close()
	}
	if a.bucket != nil {
		errs = append(errs, a.bucket.Close())
	}
	errs = append(errs, a.tracer.Close())
	if a.store != nil {
		errs = append(errs, a.closeStore())
	}
	return errors.Join(errs...)
}
