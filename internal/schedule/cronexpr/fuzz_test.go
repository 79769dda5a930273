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

func FuzzParse(f *testing.F) {
	file, err := os.Open("testdata/grammar.txt")
	if err != nil {
		f.Fatal(err)
	}
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if columns := strings.Split(lines.Text(), " | "); len(columns) == 4 {
			f.Add(columns[1])
		}
	}
	f.Fuzz(func(t *testing.T, text string) {
		began := time.Now()
		e, err := cronexpr.Parse(text)
		if took := time.Since(began); took > time.Second {
			t.Fatalf("%q took %v", text, took)
		}
		if err != nil {
			checkSyntaxError(t, text, err)
			return
		}
		if len(text) > 256 || strings.ContainsAny(text, "=~\n\r+") {
			t.Fatalf("%q is accepted", text)
		}
		again, err := cronexpr.Parse(e.String())
		if err != nil || *again != *e {
			t.Fatalf("%q is %q, which is %v, %v", text, e, again, err)
		}
	})
}

func checkSyntaxError(t *testing.T, text string, err error) {
	t.Helper()
	var syntax *cronexpr.SyntaxError
	if !errors.As(err, &syntax) || syntax.Field == "" || syntax.Problem == "" {
		t.Fatalf("%q: %#v", text, err)
	}
	if strings.Contains(syntax.Problem, "second parser") {
		t.Fatalf("%q: the grammar accepts what gronx refuses", text)
	}
}

func FuzzNext(f *testing.F) {
	f.Add("30 2 * * *", uint16(151), int64(1_710_000_000), false)
	f.Add("*/15 * * * * *", uint16(400), int64(1_730_000_000), true)
	f.Add("0 0 29W 2 ?", uint16(3), int64(4_000_000_000), false)
	f.Add("0 12 31 12 MON#5,SUNL", uint16(77), int64(2_240_000_000), false)
	f.Add("0 0 30 2 *", uint16(500), int64(-3_000_000_000), true)
	zones := cronexpr.Zones()
	f.Fuzz(func(t *testing.T, text string, zone uint16, second int64, literal bool) {
		e, err := cronexpr.Parse(text)
		if err != nil {
			return
		}
		dst := cronexpr.Vixie
		if literal {
			dst = cronexpr.Literal
		}
		loc := mustZone(t, zones[int(zone)%len(zones)])
		after := time.Unix(second%(300<<30), 0)
		tl, o := e.In(loc, dst), newOracle(e.String())
		began := time.Now()
		slots := take(tl, after, 5)
		if took := time.Since(began); took > time.Second {
			t.Fatalf("%q in %s after %v took %v", text, loc, after, took)
		}
		for _, slot := range slots {
			checkSlot(t, tl, o, loc, after, slot)
			after = slot
		}
	})
}

// checkSlot holds one answer of Next to what is true of any slot.
func checkSlot(t *testing.T, tl *cronexpr.Timeline, o *oracle, loc *time.Location, after, slot time.Time) {
	t.Helper()
	if !slot.After(after) {
		t.Fatalf("after %v comes %v", after, slot)
	}
	_, offset := slot.In(loc).Zone()
	_, before := slot.Add(-time.Second).In(loc).Zone()
	if jump := offset - before; !o.matches(readingOf(slot.In(loc))) && (jump <= 0 || jump > 3*3600) {
		t.Fatalf("%v does not match", slot.In(loc))
	}
	if back, ok := tl.Prev(slot.Add(1), slot.Sub(after)); !ok || !back.Equal(slot) {
		t.Fatalf("Prev after %v is %v, %v", slot, back, ok)
	}
	if middle, ok := tl.Next(after.Add(slot.Sub(after) / 2).Truncate(time.Second)); slot.Sub(after) > time.Second && (!ok || middle.Before(slot)) {
		t.Fatalf("between %v and %v lies %v", after, slot, middle)
	}
}
