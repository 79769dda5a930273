package cronexpr_test

import (
	"bufio"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/schedule/cronexpr"
)

// vectors calls check with the columns of every line of a file in testdata.
// Columns are separated by |, and # begins a comment line.
func vectors(t *testing.T, name string, check func(t *testing.T, columns []string)) {
	t.Helper()
	file, err := os.Open("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		line := lines.Text()
		if line == "" || line[0] == '#' {
			continue
		}
		columns := strings.Split(line, " | ")
		t.Run(strings.Join(columns[:min(3, len(columns))], " "), func(t *testing.T) { check(t, columns) })
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
}

func TestGrammarVectors(t *testing.T) {
	t.Parallel()
	vectors(t, "grammar.txt", func(t *testing.T, columns []string) {
		expr, third, fourth := columns[1], columns[2], columns[3]
		e, err := cronexpr.Parse(expr)
		if columns[0] == "no" {
			var syntax *cronexpr.SyntaxError
			if !errors.As(err, &syntax) {
				t.Fatalf("accepted as %v", e)
			}
			if syntax.Field != third || !strings.Contains(syntax.Problem, fourth) {
				t.Fatalf("%v", err)
			}
			if !strings.Contains(expr, syntax.Value) {
				t.Fatalf("the message quotes %q, which nobody wrote", syntax.Value)
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if e.String() != third || e.Wildcard() != (fourth == "wildcard") {
			t.Errorf("canonical %q, wildcard %v", e, e.Wildcard())
		}
		if again := mustParse(t, e.String()); *again != *e {
			t.Errorf("%q parses to %+v, but its canonical text to %+v", expr, e, again)
		}
	})
}

func TestOverlongTextIsRefused(t *testing.T) {
	t.Parallel()
	text := "0" + strings.Repeat(",0", 124) + " * * * *" // 257 bytes
	if _, err := cronexpr.Parse(text[2:]); err != nil {
		t.Errorf("255 bytes: %v", err)
	}
	_, err := cronexpr.Parse(text)
	if err == nil || !strings.Contains(err.Error(), "is 257 bytes long; at most 256") {
		t.Errorf("257 bytes: %v", err)
	}
}

func TestClockChangeVectors(t *testing.T) {
	t.Parallel()
	vectors(t, "dst.txt", func(t *testing.T, columns []string) {
		zone, expr, dst, after, want, why := columns[0], columns[1], columns[2], columns[3], columns[4], columns[5]
		tl := mustParse(t, expr).In(mustZone(t, zone), cronexpr.DST(dst))
		checkSlots(t, tl, mustZone(t, zone), after, want, why)
	})
}

func TestCalendarVectors(t *testing.T) {
	t.Parallel()
	vectors(t, "calendar.txt", func(t *testing.T, columns []string) {
		expr, after, want, why := columns[0], columns[1], columns[2], columns[3]
		checkSlots(t, mustParse(t, expr).In(time.UTC, cronexpr.Vixie), time.UTC, after, want, why)
	})
}

func checkSlots(t *testing.T, tl *cronexpr.Timeline, loc *time.Location, after, want, why string) {
	t.Helper()
	at, err := time.Parse(time.RFC3339, after)
	if err != nil {
		t.Fatal(err)
	}
	if err := tl.CheckFires(at); want == "never" || err != nil {
		if want != "never" || !errors.Is(err, cronexpr.ErrNeverFires) {
			t.Errorf("%s: %v", why, err)
		}
		return
	}
	for slot := range strings.FieldsSeq(want) {
		next, _ := tl.Next(at)
		if got := next.In(loc).Format(time.RFC3339); got != slot {
			t.Errorf("%s: got %s, want %s", why, got, slot)
		}
		if next.Location() != time.UTC {
			t.Errorf("the slot is in %v, not in UTC", next.Location())
		}
		at = next
	}
}
