package logthrottle_test

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillon/carillon/internal/logthrottle"
)

func TestAnOutageIsSaidOnceThenRarelyAndOnceWhenItIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		l := logthrottle.New(slog.New(slog.NewTextHandler(&out, nil)))
		l.Recovered("it works again") // nothing was wrong
		for range 120 {
			l.Warn("not written", errors.New("refused"))
			<-time.After(time.Second)
		}
		l.Recovered("it works again")
		l.Recovered("it works again")
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		if len(lines) < 5 || len(lines) > 11 {
			t.Errorf("%d lines in two minutes:\n%s", len(lines), &out)
		}
		if !strings.Contains(lines[0], "left_out=0") || strings.Contains(lines[1], "left_out=0 ") {
			t.Errorf("the first lines do not say what was left out:\n%s", &out)
		}
		if strings.Count(out.String(), "it works again") != 1 || !strings.Contains(lines[len(lines)-1], "it works again") {
			t.Errorf("that it works again is to be said once, at the end:\n%s", &out)
		}
		total := 0
		for _, line := range lines {
			var n int
			for _, digit := range line[strings.Index(line, "left_out=")+len("left_out="):] {
				n = 10*n + int(digit-'0')
			}
			total += n
		}
		if said := len(lines) - 1; said+total != 120 {
			t.Errorf("%d were said and %d left out, of 120:\n%s", said, total, &out)
		}
	})
}
