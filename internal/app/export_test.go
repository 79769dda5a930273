package app

import (
	"context"
	"net/http"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/carillon/carillon/internal/auth"
)

// The limits of the listeners.
var (
	NewHTTPServer = newHTTPServer
	GRPCLimits    = grpcLimits
)

// Guard is guard without a log.
func Guard(next http.Handler, cfg Config) http.Handler {
	return guard(next, &cfg, func(*http.Request, auth.Identity, codes.Code) {})
}

// CgroupMemoryLimit reads a memory limit from other paths than the kernel's.
func CgroupMemoryLimit(self, root string) (int64, bool) {
	return cgroupFiles{self: self, root: root}.memoryLimit()
}

// MedianPing is the doctor's measurement of the database, with its time limit.
func MedianPing(ctx context.Context, ping func(context.Context) error) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	return medianPing(ctx, ping, lockNoticed)
}

// Store is the process' store.
func (a *App) Store() Store { return a.store }

// PruneLogs prunes the output of runs once.
func (a *App) PruneLogs(ctx context.Context) { a.pruneLogsOnce(ctx); a.pruneResultsOnce(ctx) }
