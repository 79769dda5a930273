package app

import (
	"context"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/carillon/carillon/internal/logthrottle"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/tracing"
)

// NewLogger writes structured logs as the configuration says. What goes wrong
// for the same reason a thousand times is not said a thousand times.
func NewLogger(w io.Writer, cfg Config) *slog.Logger {
	var level slog.Level
	_ = level.UnmarshalText([]byte(cfg.LogLevel)) // bounded by Validate
	w = scrubbing{next: w, scrubber: cfg.scrubber()}
	options := &slog.HandlerOptions{Level: level, ReplaceAttr: readable}
	var lines slog.Handler = slog.NewJSONHandler(w, options)
	if cfg.LogFormat == "text" {
		lines = slog.NewTextHandler(w, options)
	}
	if tracing.On() {
		lines = traced{lines}
	}
	log := slog.New(Sparing(lines))
	if cfg.Environment != "" {
		log = log.With("environment", cfg.Environment)
	}
	return log
}

// traced puts the trace id beside the key of every line that tells of a run.
type traced struct{ slog.Handler }

func (h traced) Handle(ctx context.Context, line slog.Record) error {
	key := ""
	line.Attrs(func(a slog.Attr) bool {
		if a.Key == "key" && a.Value.Kind() == slog.KindString {
			key = a.Value.String()
		}
		return key == ""
	})
	if k, err := schedule.ParseKey(key); err == nil {
		line = line.Clone()
		line.AddAttrs(slog.String("trace_id", k.TraceID()))
	}
	return h.Handler.Handle(ctx, line)
}

func (h traced) WithAttrs(attrs []slog.Attr) slog.Handler { return traced{h.Handler.WithAttrs(attrs)} }

func (h traced) WithGroup(name string) slog.Handler { return traced{h.Handler.WithGroup(name)} }

// readable writes durations as people read them, in JSON too, which knows them
// only as nanoseconds.
func readable(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindDuration {
		a.Value = slog.StringValue(a.Value.Duration().String())
	}
	return a
}

// The bounds of lines that tell of an error, a second: those of one message,
// and of all. The first of a message always passes.
const (
	sameErrors = 2
	allErrors  = 8
)

// Sparing passes on every line but those that tell of an error (err) and are
// one too many in their second: an outage of the database or of an executor
// would write one for every run. How many were left out stands on the next
// line of the same message. Lines that tell what was decided have no err, and
// all of them are written.
func Sparing(next slog.Handler) slog.Handler {
	return &sparing{next: next, state: &spared{}}
}

type sparing struct {
	next  slog.Handler
	state *spared // shared by what WithAttrs makes
}

type spared struct {
	mu      sync.Mutex
	second  time.Time
	written map[string]int // in this second, by message
	all     int
	left    map[string]int // since the last line of the message
}

func (h *sparing) Enabled(ctx context.Context, level slog.Level) bool {
	return h.next.Enabled(ctx, level)
}

func (h *sparing) Handle(ctx context.Context, line slog.Record) error {
	if !tellsError(&line) {
		return h.next.Handle(ctx, line)
	}
	left, pass := h.state.admit(line.Message, line.Time)
	if !pass {
		return nil
	}
	if left > 0 {
		line = line.Clone()
		line.AddAttrs(slog.Int(logthrottle.LeftOut, left))
	}
	return h.next.Handle(ctx, line)
}

func tellsError(line *slog.Record) (found bool) {
	line.Attrs(func(a slog.Attr) bool {
		found = a.Key == "err"
		return !found
	})
	return found
}

func (s *spared) admit(message string, at time.Time) (left int, pass bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if second := at.Truncate(time.Second); !second.Equal(s.second) {
		s.second, s.all, s.written = second, 0, make(map[string]int)
	}
	if n := s.written[message]; n > 0 && (n >= sameErrors || s.all >= allErrors) {
		if s.left == nil {
			s.left = make(map[string]int)
		}
		s.left[message]++
		return 0, false
	}
	s.written[message]++
	s.all++
	left = s.left[message]
	delete(s.left, message)
	return left, true
}

func (h *sparing) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &sparing{next: h.next.WithAttrs(attrs), state: h.state}
}

func (h *sparing) WithGroup(name string) slog.Handler {
	return &sparing{next: h.next.WithGroup(name), state: h.state}
}
