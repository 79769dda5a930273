package app_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/app"
)

func TestAnOutageWritesAFewLinesPerSecondAndCountsDroppedOnes(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	h := app.LimitErrors(slog.NewTextHandler(&out, nil)).WithAttrs([]slog.Attr{slog.String("component", "worker")})
	began := time.Date(2026, time.March, 8, 12, 0, 0, 0, time.UTC)
	say := func(after time.Duration, message string, args ...any) {
		line := slog.NewRecord(began.Add(after), slog.LevelWarn, message, 0)
		line.Add(args...)
		if err := h.Handle(context.Background(), line); err != nil {
			t.Fatal(err)
		}
	}
	const seconds = 10
	for i := range seconds * 1000 {
		after := time.Duration(i) * time.Millisecond
		say(after, "launch outcome unknown", "err", errors.New("refused"))
		say(after, "cannot write the heartbeat", "err", errors.New("refused"))
		say(after, fmt.Sprint("one of many, ", i%20), "err", errors.New("refused"))
	}
	lines := strings.Count(out.String(), "\n")
	if limit := seconds * 24; lines > limit { // the first of each of 22 messages, and little more
		t.Errorf("%d lines in %d s", lines, seconds)
	}
	if n := strings.Count(out.String(), "left_out=998"); n != 2*(seconds-1) {
		t.Errorf("%d lines say that 998 were left out, want two for each second but the first", n)
	}

	out.Reset()
	for range 100 {
		say(time.Hour, "run settled", "key", "k")
	}
	if n := strings.Count(out.String(), "\n"); n != 100 {
		t.Errorf("%d of 100 decisions were written", n)
	}
}

func TestDurationsAreReadableInBothFormats(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		format string
		want   []string
	}{
		{name: "JSON", format: "json", want: []string{`"took":"1.5s"`, `"limits":{"rest":"20ms"}`}},
		{name: "text", format: "text", want: []string{`took=1.5s`, `limits.rest=20ms`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out bytes.Buffer
			app.NewLogger(&out, app.Config{LogFormat: c.format, LogLevel: "info"}).
				Info("waited", "took", 1500*time.Millisecond, slog.Group("limits", "rest", 20*time.Millisecond))
			for _, want := range c.want {
				if !strings.Contains(out.String(), want) {
					t.Errorf("no %s in %s", want, &out)
				}
			}
		})
	}
}
