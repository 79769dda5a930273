package report_test

import (
	"io"
	"strings"
	"testing"

	"github.com/carillon/carillon/internal/test/bench/report"
)

func TestMarkdownHasATableOfEachWorkloadWithTheFiguresItHas(t *testing.T) {
	machine := report.Machine{Versions: map[string]string{"carillon": "abc"}}
	var out strings.Builder
	w := report.New(&out, io.Discard, machine)
	for _, l := range []report.Line{
		{Workload: "burst", N: 1000, System: "carillon", Figures: map[string]float64{"p99_ms": 4, "cpu_s": 1}},
		{Workload: "burst", N: 1000, System: "peer", Figures: map[string]float64{"p99_ms": 8}, Bad: map[string]int{"lost": 2}},
		{Workload: "idle", N: 5, System: "carillon", Figures: map[string]float64{"worker_rss_mb": 70}},
		{Workload: "burst", N: 9, System: "carillon", Figures: map[string]float64{"p99_ms": 3}, Apart: true},
	} {
		if err := w.Add(l); err != nil {
			t.Fatal(err)
		}
	}
	out.Reset() // the lines
	if err := w.Markdown([]string{"p99_ms", "worker_rss_mb"}); err != nil {
		t.Fatal(err)
	}
	want := `
| workload | system | p99_ms | bad | runs | revision |
| --- | --- | --- | --- | --- | --- |
| burst, n = 1000 | carillon | 4.00 | 0 | 1 | abc |
|  | peer | 8.00 ×2 | 2 lost | 1 | abc |

| workload | system | worker_rss_mb | bad | runs | revision |
| --- | --- | --- | --- | --- | --- |
| idle, n = 5 | carillon | 70.0 | 0 | 1 | abc |
`
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", &out, want)
	}
}
