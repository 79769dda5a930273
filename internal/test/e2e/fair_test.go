package e2e_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// enterKeyed puts runs into the queue q in one request, with the part of their names before the
// digits as their key.
func (r *rest) enterKeyed(names ...string) {
	var runs []string
	for _, name := range names {
		runs = append(runs, fmt.Sprintf(`{"workflow_id": "w", "version": 1, "input": {"name": %q}, "fair_key": %q}`, name, strings.TrimRight(name, "0123456789")))
	}
	r.do("POST", "/v1/queues/q/runs:batch", `{"request_id": "`+names[0]+`", "runs": [`+strings.Join(runs, ",")+`]}`, nil)
}

// TestLongKeysTakeTurnsWithKills: forty runs of one key wait, and a few of two others that entered
// later. They start in turns, also with kills.
func TestLongKeysTakeTurnsWithKills(t *testing.T) {
	t.Parallel()
	onEachDatabase(t, func(t *testing.T, database string) {
		g := newGauge(10 * time.Millisecond)
		p, api := limitSite(t, database, g)
		api.do("PUT", "/v1/queues/q", `{"user_id": "ada", "max_in_flight": 1, "fair": "key", "weights": {"c": 2}}`, nil)
		api.do("POST", "/v1/queues/q:pause", `{}`, nil)
		api.enterKeyed(numbered("a", 40)...)
		api.enterKeyed(numbered("b", 5)...)
		api.enterKeyed(numbered("c", 10)...)
		var queue struct {
			Queue struct {
				Shares []struct {
					Key     string `json:"fair_key"`
					Weight  int    `json:"weight"`
					Waiting int    `json:"waiting"`
					First   int    `json:"first"`
				} `json:"shares"`
			} `json:"queue"`
		}
		if api.do("GET", "/v1/queues/q", nil, &queue); fmt.Sprint(queue.Queue.Shares) != "[{a 1 40 2} {c 2 10 1} {b 1 5 3}]" {
			t.Errorf("the shares are %v", queue.Queue.Shares)
		}
		api.do("POST", "/v1/queues/q:resume", `{}`, nil)
		for _, n := range []int{5, 25} {
			eventually(t, startBound, fmt.Sprint(n, " runs have started"), func() error {
				if started := g.order(); len(started) < n {
					return fmt.Errorf("%d have", len(started))
				}
				return nil
			})
			p.kill()
			p.startReady()
		}
		eventually(t, 2*startBound, "all runs start", func() error {
			if started := g.order(); len(started) < 55 {
				return fmt.Errorf("%d have", len(started))
			}
			return nil
		})
		// In each turn of a and b, c has two. Runs that draw the same place start as they entered.
		var want []string
		for i := range 40 {
			if i < 5 {
				want = append(want, fmt.Sprintf("c%03d", 2*i))
			}
			want = append(want, fmt.Sprintf("a%03d", i))
			if i < 5 {
				want = append(want, fmt.Sprintf("b%03d", i), fmt.Sprintf("c%03d", 2*i+1))
			}
		}
		if got := g.order(); !slices.Equal(got, want) {
			t.Errorf("the runs started in the order\n%v\nwant\n%v", got, want)
		}
	})
}

// order are the names of the runs as they started.
func (g *gauge) order() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.names)
}
