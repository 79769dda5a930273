// Command herd measures what a herd at the minute meets: N schedules due at
// the same second, in process, each handed to an executor that answers at
// once, the whole life of every slot durable. It prints one JSON line a run
// and a table of medians; lost, doubled and early slots are counted.
//
//	DATABASE_URL=postgres://… go run ./internal/bench/herd -n 1000 -runs 5
//	go run ./internal/bench/herd -n 1000 -runs 5          # SQLite in a temporary folder
//	REDIS_URL=redis://… DATABASE_URL=…                    # the same through the launch queue
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"time"
)

// result is one run.
type result struct {
	Store     string  `json:"store"`
	N         int     `json:"n"`
	P50       float64 `json:"p50_ms"`
	P99       float64 `json:"p99_ms"`
	Max       float64 `json:"max_ms"`
	Settled   float64 `json:"all_settled_ms"` // the last outcome was durable so long after the due instant
	Lost      int     `json:"lost"`
	Doubled   int     `json:"doubled"`
	Early     int     `json:"early"`
	Unsettled int     `json:"unsettled"`
}

func main() {
	n := flag.Int("n", 1000, "schedules that are due at the same second")
	runs := flag.Int("runs", 5, "how often")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := measure(ctx, os.Getenv("DATABASE_URL"), *n, *runs); err != nil {
		fmt.Fprintln(os.Stderr, "herd:", err)
		os.Exit(1)
	}
}

func measure(ctx context.Context, url string, n, runs int) (err error) {
	rig, err := newRig(ctx, url, os.Getenv("REDIS_URL"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rig.close()) }()
	var results []result
	for i := range runs {
		r, err := rig.herd(ctx, i, n)
		if err != nil {
			return err
		}
		line, err := json.Marshal(r)
		if err != nil {
			return err
		}
		fmt.Println(string(line))
		results = append(results, r)
	}
	printTable(results)
	return nil
}

func printTable(results []result) {
	column := func(of func(result) float64) string {
		var v []float64
		for _, r := range results {
			v = append(v, of(r))
		}
		slices.Sort(v)
		return fmt.Sprintf("%.1f (%.1f–%.1f)", v[len(v)/2], v[0], v[len(v)-1])
	}
	bad := 0
	for _, r := range results {
		bad += r.Lost + r.Doubled + r.Early + r.Unsettled
	}
	r := results[0]
	fmt.Printf("\nmedian (min–max) of %d runs, ms after the due instant\n", len(results))
	fmt.Printf("%-22s %7s  %-20s %-20s %-20s %-22s %s\n", "store", "n", "p50", "p99", "max", "all settled", "lost+doubled+early+unsettled")
	fmt.Printf("%-22s %7d  %-20s %-20s %-20s %-22s %d\n", r.Store, r.N,
		column(func(r result) float64 { return r.P50 }), column(func(r result) float64 { return r.P99 }),
		column(func(r result) float64 { return r.Max }), column(func(r result) float64 { return r.Settled }), bad)
}

func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
