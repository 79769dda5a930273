package logthrottle

import (
	"log/slog"

	"github.com/carillon/carillon/internal/schedule"
)

// RunLevel is the log level for a run with this status: a warning for a failed run.
func RunLevel(status schedule.Status) slog.Level {
	if status == schedule.StatusFailed {
		return slog.LevelWarn
	}
	return slog.LevelInfo
}
