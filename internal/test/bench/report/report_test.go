package report_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/carillon/carillon/internal/test/bench/report"
)

func TestTableHasMediansAndRatiosToCarillon(t *testing.T) {
	var out, kept bytes.Buffer
	w := report.New(&out, &kept, report.Machine{CPU: "of a test"})
	for _, l := range []report.Line{
		{System: "river-tuned", Run: 1, Figures: map[string]float64{"p50_ms": 300}},
		{System: "carillon", Run: 1, Figures: map[string]float64{"p50_ms": 3, "p99_ms": 9, "settled_ms": 20}},
		{System: "carillon", Run: 2, Figures: map[string]float64{"p50_ms": 1, "p99_ms": 7}},
		{System: "carillon", Run: 3, Figures: map[string]float64{"p50_ms": 2, "p99_ms": 8}, Bad: map[string]int{"lost": 2, "early": 0}},
		{System: "carillon", Run: 4, Figures: map[string]float64{"p50_ms": 99}, Apart: true},
	} {
		l.Workload, l.N = "burst", 1000
		if err := w.Add(l); err != nil {
			t.Fatal(err)
		}
	}
	lines := out.String()
	out.Reset()
	if err := w.Table(); err != nil {
		t.Fatal(err)
	}
	want := strings.TrimLeft(`
burst, n = 1000: median (min–max) of the runs, ×carillon
system       runs  p50_ms            p99_ms            settled_ms          bad
river-tuned  1     300.0 ×150        –                 –                   0
carillon     3     2.00 (1.00–3.00)  8.00 (7.00–9.00)  20.0 (20.0–20.0)  2 lost
`, "\n")
	for i, line := range strings.Split(strings.TrimSpace(out.String()), "\n") {
		if strings.Join(strings.Fields(line), " ") != strings.Join(strings.Fields(strings.Split(want, "\n")[i]), " ") {
			t.Errorf("line %d is\n%s\nwant\n%s", i, line, strings.Split(want, "\n")[i])
		}
	}
	if lines != kept.String() || strings.Count(lines, "\n") != 5 {
		t.Errorf("five JSON lines were to be printed and kept, have\n%s\nand\n%s", lines, &kept)
	}
	var again bytes.Buffer
	later := report.New(&again, io.Discard, report.Machine{})
	if err := errors.Join(later.Read(&kept), later.Table()); err != nil || again.String() != out.String() {
		t.Errorf("the kept lines make another table (%v):\n%s", err, &again)
	}
	var first map[string]any
	if err := json.Unmarshal([]byte(lines[:strings.Index(lines, "\n")]), &first); err != nil || first["system"] != "river-tuned" {
		t.Errorf("the first line is %v (%v)", first, err)
	}
}
