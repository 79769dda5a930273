package site

import (
	"context"
	"fmt"
	"net/http"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// Step is what the workers' metrics say of one kind of pass.
type Step struct {
	Count   uint64
	Seconds float64
	buckets map[float64]uint64 // passes that took at most so many seconds
}

// stepMetric is the histogram of passes.
const stepMetric = "carillon_worker_step_seconds"

// Steps reads the passes of all workers so far: plan, claim, settle, sweep.
func (s *Site) Steps(ctx context.Context) (map[string]Step, error) {
	out := make(map[string]Step)
	for _, addr := range s.metrics {
		families, err := scrape(ctx, addr)
		if err != nil {
			return nil, err
		}
		for _, m := range families[stepMetric].GetMetric() {
			name := m.GetLabel()[0].GetValue()
			out[name] = out[name].add(m.GetHistogram())
		}
	}
	return out, nil
}

func scrape(ctx context.Context, addr string) (map[string]*dto.MetricFamily, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the worker's metrics: %s", response.Status)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	return parser.TextToMetricFamilies(response.Body)
}

func (s Step) add(h *dto.Histogram) Step {
	out := Step{Count: s.Count + h.GetSampleCount(), Seconds: s.Seconds + h.GetSampleSum(), buckets: make(map[float64]uint64)}
	for _, b := range h.GetBucket() {
		out.buckets[b.GetUpperBound()] = s.buckets[b.GetUpperBound()] + b.GetCumulativeCount()
	}
	return out
}

// Sub is what came since an earlier look.
func (s Step) Sub(earlier Step) Step {
	out := Step{Count: s.Count - earlier.Count, Seconds: s.Seconds - earlier.Seconds, buckets: make(map[float64]uint64)}
	for bound, n := range s.buckets {
		out.buckets[bound] = n - earlier.buckets[bound]
	}
	return out
}

// Mean of a pass, in milliseconds.
func (s Step) Mean() float64 {
	if s.Count == 0 {
		return 0
	}
	return 1000 * s.Seconds / float64(s.Count)
}

// AtMost is the bucket's bound below which a share q of the passes stayed, in
// milliseconds: no more is known of a histogram.
func (s Step) AtMost(q float64) float64 {
	least := 0.0
	for bound, n := range s.buckets {
		if float64(n) >= q*float64(s.Count) && (least == 0 || bound < least) {
			least = bound
		}
	}
	return 1000 * least
}
