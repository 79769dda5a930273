package logthrottle

import (
	"log/slog"

	"github.com/carillon/carillon/internal/schedule"
)

// RunLevel is the level of a line about a run that now has this status: a failed
// run is a warning.
func RunLevel(status schedule.Status) slog.Level {
	if status == schedule.StatusFailed {
		return slog.LevelWarn
	}
	return slog.LevelInfo
}
