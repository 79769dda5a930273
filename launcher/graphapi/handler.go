package graphapi

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"log/slog"
	"net/http"
	"strings"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/launcher"
)

// Path is the handler's pattern for a mux.
const Path = "/api/internal/graphs/{workflow_id}/runs"

// Launcher starts the runs; *launcher.Launcher implements it.
type Launcher interface {
	RunGraph(ctx context.Context, run launcher.GraphRun) (schedule.StartReply, error)
}

// Options are a Handler's parts.
type Options struct {
	Launcher Launcher
	Token    string       // INTERNAL_API_TOKEN; "": none
	Open     bool         // without a Token, admit every caller; else none
	MaxOpen  int          // calls open at once; default 1000
	Logger   *slog.Logger // default slog.Default
}

// Handler answers POST Path.
type Handler struct {
	launcher Launcher
	token    [sha256.Size]byte
	anybody  bool
	nobody   bool
	open     chan struct{}
	log      *slog.Logger
}

// New makes a Handler of its parts.
func New(o Options) *Handler {
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.MaxOpen <= 0 {
		o.MaxOpen = 1000
	}
	return &Handler{
		launcher: o.Launcher, token: sha256.Sum256([]byte(o.Token)),
		anybody: o.Token == "" && o.Open, nobody: o.Token == "" && !o.Open,
		open: make(chan struct{}, o.MaxOpen), log: o.Logger.With("component", "graphapi"),
	}
}

func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !h.admits(r) {
		w.Header().Set("WWW-Authenticate", "Bearer")
		refuse(w, http.StatusUnauthorized, "unauthenticated", "send Authorization: Bearer with the deployment's INTERNAL_API_TOKEN")
		return
	}
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		refuse(w, http.StatusMethodNotAllowed, "method_not_allowed", "this address takes POST")
		return
	}
	run, bad := read(w, r)
	if bad != nil {
		refuse(w, bad.status, bad.code, bad.message)
		return
	}
	select {
	case h.open <- struct{}{}:
		defer func() { <-h.open }()
	default:
		again(w, http.StatusServiceUnavailable, "unavailable", "too many calls are open; send the same key again in a moment")
		return
	}
	// The call goes on if its caller hangs up: its outcome is recorded and answers the
	// repeat. Every step is bounded.
	ctx := context.WithoutCancel(r.Context())
	reply, err := h.launcher.RunGraph(ctx, run)
	// The log names the caller, never its token or its input.
	attrs := []any{"workflow_id", run.WorkflowID, "key", launcher.GraphKey(run.Key).String(), "caller", schedule.Storable(r.UserAgent(), 128)}
	if err != nil {
		h.log.WarnContext(ctx, "graph run has no outcome", append(attrs, "err", err)...)
		answerError(w, err)
		return
	}
	h.log.InfoContext(ctx, "graph run answered", append(attrs, "status", string(reply.Outcome.Status), "reason", string(reply.Outcome.Reason))...)
	answer(w, reply.Outcome)
}

// admits compares hashes in constant time, so that neither the token nor its length
// can be guessed.
func (h *Handler) admits(r *http.Request) bool {
	switch {
	case h.anybody:
		return true
	case h.nobody:
		return false
	}
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	given := sha256.Sum256([]byte(strings.TrimSpace(token)))
	return subtle.ConstantTimeCompare(given[:], h.token[:]) == 1 && strings.EqualFold(scheme, "Bearer")
}
