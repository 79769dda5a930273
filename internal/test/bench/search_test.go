package main

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/test/bench/report"
)

// capacity is a system whose p99 is 10 ms up to a rate, grows from there, and
// which loses slots beyond twice that.
func capacity(most int, tried *[]int) func(int) (report.Line, error) {
	return func(rate int) (report.Line, error) {
		*tried = append(*tried, rate)
		line := report.Line{Figures: map[string]float64{"p99_ms": 10}, Bad: map[string]int{"lost": 0}}
		if rate > most {
			line.Figures["p99_ms"] = 10 + float64(rate-most)
		}
		if rate > 2*most {
			line.Bad["lost"] = rate - 2*most
		}
		return line, nil
	}
}

func TestTheSearchEndsWithinAStepOfWhatASystemBears(t *testing.T) {
	for _, test := range []struct {
		name           string
		most, first    int
		held1s, held25 [2]float64 // the least and the greatest that is right
		steps          int
	}{
		{name: "from far below", most: 20_000, first: 1000, held1s: [2]float64{19_000, 20_990}, held25: [2]float64{18_000, 20_240}, steps: 20},
		{name: "from far above", most: 900, first: 50_000, held1s: [2]float64{1700, 1800}, held25: [2]float64{1000, 1139}, steps: 20},
		{name: "from where it is", most: 7000, first: 7000, held1s: [2]float64{7000, 7989}, held25: [2]float64{6600, 7239}, steps: 15},
	} {
		t.Run(test.name, func(t *testing.T) {
			var tried []int
			s := newSearch(options{ns: []int{test.first}, most: 1_000_000, factor: 1.1, seconds: 1, budget: time.Minute}, capacity(test.most, &tried))
			line, err := s.run()
			if err != nil {
				t.Fatal(err)
			}
			if got := line.Figures["rate_p99_1s"]; got < test.held1s[0] || got > test.held1s[1] {
				t.Errorf("under a second it says %g, want %v; it tried %v", got, test.held1s, tried)
			}
			if got := line.Figures["rate_p99_250ms"]; got < test.held25[0] || got > test.held25[1] {
				t.Errorf("under 250 ms it says %g, want %v; it tried %v", got, test.held25, tried)
			}
			if len(tried) > test.steps {
				t.Errorf("it took %d steps, want at most %d: %v", len(tried), test.steps, tried)
			}
		})
	}
}

func TestTheSearchEndsWithItsBudget(t *testing.T) {
	var tried []int
	s := newSearch(options{ns: []int{10}, most: 1_000_000, factor: 1.1, seconds: 1, budget: -time.Second}, capacity(1000, &tried))
	line, err := s.run()
	if err != nil {
		t.Fatal(err)
	}
	if len(tried) != 1 || line.Figures["rate_p99_1s"] != 10 || line.Figures["fails_p99_1s"] != 0 {
		t.Errorf("it tried %v and says %v, want one try that held and none that failed", tried, line.Figures)
	}
}

func TestASearchThatIsCutShortSaysHowFarItCame(t *testing.T) {
	var tried []int
	bears := capacity(1000, &tried)
	s := newSearch(options{ns: []int{100}, most: 1_000_000, factor: 1.1, seconds: 1, budget: time.Minute}, func(rate int) (report.Line, error) {
		if len(tried) == 2 {
			return report.Line{}, context.Canceled
		}
		return bears(rate)
	})
	line, err := s.run()
	if !errors.Is(err, context.Canceled) || line.Figures["rate_p99_1s"] != 200 || line.Figures["rate_p99_250ms"] != 200 {
		t.Errorf("it says %v (%v), want 200 held and that it was canceled", line.Figures, err)
	}
}

func TestSkippedSlotsAreToldApart(t *testing.T) {
	s := newSearch(options{ns: []int{100}, most: 100, factor: 1.1, seconds: 2, budget: time.Minute}, func(rate int) (report.Line, error) {
		line := report.Line{Figures: map[string]float64{"p99_ms": 40}, Bad: map[string]int{"lost": 0}}
		if rate > 50 {
			line.Bad["skipped"] = rate / 10
		}
		return line, nil
	})
	line, err := s.run()
	if err != nil {
		t.Fatal(err)
	}
	if line.Figures["rate_p99_1s"] != 50 || line.Figures["rate_p99_1s_skips_aside"] != 100 || line.Figures["skipped_there_%"] != 5 {
		t.Errorf("it says %v, want 50 held, and 100 with 5 %% skipped", line.Figures)
	}
}
