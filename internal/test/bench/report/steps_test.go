package report_test

import (
	"strings"
	"testing"

	"github.com/carillon/carillon/internal/test/bench/report"
)

const benchmarks = `goos: linux
pkg: example.org/x/store/sqlite
BenchmarkPlan-2   	      20	  51000000 ns/op	        51.00 µs/row	 1048576 B/op	    9000 allocs/op
BenchmarkPlan-2   	      20	  49000000 ns/op	        49.00 µs/row	 1048576 B/op	    9000 allocs/op
BenchmarkPlan-2   	      20	  60000000 ns/op	        60.00 µs/row	 1048576 B/op	    9002 allocs/op
PASS
pkg: example.org/x/cronexpr
BenchmarkNext/UTC/0_9_*_*_1-5-2         	25000000	        47.10 ns/op	       0 B/op	       0 allocs/op
BenchmarkNeverFires/UTC-2   	   50000	     21000 ns/op
`

func TestStepsAreTheMediansOfEachBenchmark(t *testing.T) {
	var out strings.Builder
	if err := report.Steps(strings.NewReader(benchmarks), &out); err != nil {
		t.Fatal(err)
	}
	want := "| package | benchmark | time | allocations | runs |\n| --- | --- | --- | --- | --- |\n" +
		"| cronexpr | `Next/UTC/0 9 * * 1-5` | 47.1 ns | 0 | 1 |\n" +
		"| cronexpr | `NeverFires/UTC` | 21.0 µs | – | 1 |\n" +
		"| sqlite | `Plan` | 51.0 ms (49.0–60.0) | 9000 | 3 |\n"
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
}

func TestWhatHoldsNoBenchmarkIsRefused(t *testing.T) {
	if err := report.Steps(strings.NewReader("PASS\n"), &strings.Builder{}); err == nil {
		t.Error("no error for a text without benchmarks")
	}
}
