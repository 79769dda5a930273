package dumps_test

import (
	"log/slog"
	"time"
)

// The dumps are of a virtual clock that ran from begin to end, over three midnights.
var (
	begin = time.Date(2026, 2, 27, 20, 30, 0, 0, time.UTC)
	end   = time.Date(2026, 3, 2, 12, 0, 10, 0, time.UTC)
)

func feb28(hour, minute int) time.Time { return time.Date(2026, 2, 28, hour, minute, 0, 0, time.UTC) }

func mar1(hour, minute int) time.Time { return time.Date(2026, 3, 1, hour, minute, 0, 0, time.UTC) }

func mar2(hour, minute int) time.Time { return time.Date(2026, 3, 2, hour, minute, 0, 0, time.UTC) }

// The owners in the dumps.
const (
	acme   = "acme"
	globex = "globex"
	teamB  = "team/b"
)

var mute = slog.New(slog.DiscardHandler)
