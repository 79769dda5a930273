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

// NewLogger writes structured logs without secrets and limits repeated errors.
func NewLogger(w io.Writer, cfg Config) *slog.Logger {
	var level slog.Level
	_ = level.UnmarshalText([]byte(cfg.LogLevel)) // bounded by Validate
	w = scrubbing{next: w, scrubber: cfg.scrubber()}
	options := &slog.HandlerOptions{Level: level, ReplaceAttr: durationText}
	var lines slog.Handler = slog.NewJSONHandler(w, options)
	if cfg.LogFormat == "text" {
		lines = slog.NewTextHandler(w, options)
	}
	if tracing.On() {
		lines = traced{lines}
	}
	log := slog.New(LimitErrors(lines))
	if cfg.Environment != "" {
		log = log.With("environment", cfg.Environment)
	}
	return log
}

// traced adds the trace id to lines with the key of a run.
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

// durationText writes durations such as 1.5s. The JSON handler would write nanoseconds.
func durationText(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindDuration {
		a.Value = slog.StringValue(a.Value.Duration().String())
	}
	return a
}

// The maximum of lines with an error per second: of one message and of all messages. The first line of
// a message always passes.
const (
	sameErrors = 2
	allErrors  = 8
)

// LimitErrors limits lines with the attribute err, because an outage of the database or of an executor
// would write one for every run. The next line of the same message counts the dropped ones. Lines
// about decisions have no err and always pass.
func LimitErrors(next slog.Handler) slog.Handler {
	return &errorLimiter{next: next, counts: &errorCounts{}}
}

type errorLimiter struct {
	next   slog.Handler
	counts *errorCounts // shared with the handlers of WithAttrs and WithGroup
}

type errorCounts struct {
	mu      sync.Mutex
	second  time.Time
	written map[string]int // in this second, by message
	all     int
	left    map[string]int // since the last line of the message
}

func (h *errorLimiter) Enabled(ctx context.Context, level slog.Level) bool {
	return h.next.Enabled(ctx, level)
}

func (h *errorLimiter) Handle(ctx context.Context, line slog.Record) error {
	if !hasError(&line) {
		return h.next.Handle(ctx, line)
	}
	left, pass := h.counts.admit(line.Message, line.Time)
	if !pass {
		return nil
	}
	if left > 0 {
		line = line.Clone()
		line.AddAttrs(slog.Int(logthrottle.LeftOut, left))
	}
	return h.next.Handle(ctx, line)
}

func hasError(line *slog.Record) (found bool) {
	line.Attrs(func(a slog.Attr) bool {
		found = a.Key == "err"
		return !found
	})
	return found
}

func (s *errorCounts) admit(message string, at time.Time) (left int, pass bool) {
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

func (h *errorLimiter) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &errorLimiter{next: h.next.WithAttrs(attrs), counts: h.counts}
}

func (h *errorLimiter) WithGroup(name string) slog.Handler {
	return &errorLimiter{next: h.next.WithGroup(name), counts: h.counts}
}
