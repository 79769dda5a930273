package console

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"google.golang.org/grpc"

	"github.com/carillon/carillon/internal/auth"
	"github.com/carillon/carillon/internal/auth/gate"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

// Prefix begins the paths of all pages except the first: REST uses /schedules.
const Prefix = "/ui/"

// maxStreams bounds the live updates that one process serves; each is a query every quarter of a
// second. Other pages poll.
const maxStreams = 64

// maxCallerStreams are those of one caller; a team may share one token.
const maxCallerStreams = maxStreams / 2

// askTimeout is the timeout of the calls for one page.
const askTimeout = 15 * time.Second

// Identifier identifies callers; *gate.Gate implements it.
type Identifier interface {
	Identify(ctx context.Context, c gate.Credentials) (auth.Identity, error)
}

// Options are the parts that the console needs.
type Options struct {
	// Conn carries the identity in a call's context to the services.
	Conn       grpc.ClientConnInterface
	Identifier Identifier
	// Now is the ledger's clock.
	Now    func() time.Time
	Logger *slog.Logger
	// Environment is ENVIRONMENT, shown on every page; empty: none.
	Environment string
	// Secure restricts the session's cookie to HTTPS even if TLS ends before this process.
	Secure bool
}

// Console serves the pages.
type Console struct {
	o         Options
	log       *slog.Logger
	pages     pages
	assets    assets
	schedules carillonv1.ScheduleServiceClient
	runs      carillonv1.RunServiceClient
	workflows carillonv1.WorkflowServiceClient
	workers   carillonv1.WorkerServiceClient
	alerts    carillonv1.AlertServiceClient
	queues    carillonv1.QueueServiceClient
	groups    carillonv1.GroupServiceClient
	limits    carillonv1.LimitServiceClient
	overlaps  carillonv1.OverlapGroupServiceClient
	counts    keptCounts
	live      livePages
	mux       *http.ServeMux
}

// New makes a console. It parses all templates.
func New(o Options) *Console {
	c := &Console{
		o: o, log: o.Logger.With("component", "console"), assets: loadAssets(),
		schedules: carillonv1.NewScheduleServiceClient(o.Conn),
		runs:      carillonv1.NewRunServiceClient(o.Conn),
		workflows: carillonv1.NewWorkflowServiceClient(o.Conn),
		workers:   carillonv1.NewWorkerServiceClient(o.Conn),
		alerts:    carillonv1.NewAlertServiceClient(o.Conn),
		queues:    carillonv1.NewQueueServiceClient(o.Conn),
		groups:    carillonv1.NewGroupServiceClient(o.Conn),
		limits:    carillonv1.NewLimitServiceClient(o.Conn),
		overlaps:  carillonv1.NewOverlapGroupServiceClient(o.Conn),
		live:      livePages{of: make(map[string]int)},
	}
	c.pages = loadPages(c.assets)
	c.mux = c.routes()
	return c
}

func (c *Console) routes() *http.ServeMux {
	mux := http.NewServeMux()
	mux.Handle("GET /ui/static/{name}", c.assets)
	mux.HandleFunc("GET /ui/signin", c.showSignIn)
	mux.HandleFunc("POST /ui/signin", c.signIn)
	mux.HandleFunc("POST /ui/signout", c.signOut)
	mux.HandleFunc("GET /ui/live", c.serveLive)
	for pattern, show := range map[string]func(*visit) (page, error){
		"GET /{$}":                         c.showOverview,
		"GET /ui/schedules":                c.showSchedules,
		"GET /ui/schedules/{id}":           c.showSchedule,
		"GET /ui/schedules/{id}/edit":      c.showEdit,
		"POST /ui/schedules/{id}/edit":     c.saveEdit,
		"GET /ui/schedules/{id}/year":      c.showYear,
		"GET /ui/schedules/{id}/history":   c.showHistory,
		"GET /ui/schedules/{id}/explain":   c.showWhy,
		"GET /ui/schedules/{id}/backfills": c.showBackfills,
		"GET /ui/runs":                     c.showRuns,
		"GET /ui/runs/redrive":             c.showRedrive,
		"GET /ui/runs/{key}":               c.showRun,
		"GET /ui/runs/{key}/output":        c.showOutput,
		"GET /ui/preview":                  c.showPlayground,
		"GET /ui/timeline":                 c.showTimeline,
		"GET /ui/workers":                  c.showWorkers,
		"GET /ui/queues":                   c.showQueues,
		"GET /ui/queues/{id}":              c.showQueue,
		"GET /ui/queues/{id}/cancel":       c.showCancelQueue,
		"GET /ui/groups":                   c.showGroups,
		"GET /ui/groups/{id}":              c.showGroup,
		"GET /ui/limits":                   c.showLimits,
		"GET /ui/limits/{id}":              c.showLimit,
		"GET /ui/workflows":                c.showWorkflows,
		"GET /ui/workflows/{key}":          c.showWorkflow,
		"GET /ui/alerts":                   c.showAlerts,
		"GET /ui/alerts/{id}":              c.showAlert,
		"GET /ui/simulate":                 c.showSimulation,
		"GET /ui/":                         showNothing,
	} {
		mux.Handle(pattern, c.show(show))
	}
	for pattern, act := range c.acts() {
		mux.Handle(pattern, c.act(act))
	}
	return mux
}

// acts are what forms do.
func (c *Console) acts() map[string]func(*visit) (toast, error) {
	return map[string]func(*visit) (toast, error){
		"POST /ui/schedules":                                      c.actOnMany,
		"POST /ui/schedules/{id}/pause":                           c.pause,
		"POST /ui/schedules/{id}/resume":                          c.resume,
		"POST /ui/schedules/{id}/trigger":                         c.trigger,
		"POST /ui/schedules/{id}/backfill":                        c.startBackfill,
		"POST /ui/backfills/{id}/pause":                           c.pauseBackfill,
		"POST /ui/backfills/{id}/resume":                          c.resumeBackfill,
		"POST /ui/backfills/{id}/cancel":                          c.cancelBackfill,
		"POST /ui/alerts/{id}/acknowledge":                        c.acknowledge,
		"POST /ui/queues/{id}/pause":                              c.pauseQueue,
		"POST /ui/queues/{id}/cancel":                             c.cancelQueue,
		"POST /ui/queues/{id}/resume":                             c.resumeQueue,
		"POST /ui/queues/{id}/close":                              c.closeQueue,
		"POST /ui/queues/{id}/open":                               c.openQueue,
		"POST /ui/queues/{id}/reservations/{reservation}/release": c.releaseReservation,
		"POST /ui/groups/{id}/seal":                               c.sealGroup,
		"POST /ui/groups/{id}/cancel":                             c.cancelGroup,
		"POST /ui/groups/{id}/retry":                              c.retryGroup,
		"POST /ui/limits/{id}/change":                             c.changeLimit,
		"POST /ui/limits/{id}/key":                                c.setLimitKey,
		"POST /ui/workflows/{key}/run":                            c.runWorkflow,
		"POST /ui/alerts/test":                                    c.testAlerts,
		"POST /ui/messages/{id}/redeliver":                        c.redeliver,
		"POST /ui/messages/redeliver":                             c.redeliverDead,
		"POST /ui/runs/redrive":                                   c.redrive,
		"POST /ui/runs/{key}/cancel":                              c.cancel,
		"POST /ui/runs/{key}/retry":                               c.retry,
		"POST /ui/runs/{key}/move":                                c.move,
		"POST /ui/runs/{key}/webhook":                             c.redeliverWebhook,
	}
}

// policy is the Content-Security-Policy: only files of this server, no inline scripts
// and no inline styles.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// ServeHTTP answers "/" and everything below Prefix.
func (c *Console) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Security-Policy", policy)
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Referrer-Policy", "same-origin")
	w.Header().Set("Cache-Control", "no-store")
	c.mux.ServeHTTP(w, r)
}
