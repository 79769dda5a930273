package main

import (
	"context"
	"os"
	"os/signal"
	"slices"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/test/bench/proc"
)

// TestMain makes this test binary each of the children as well.
func TestMain(m *testing.M) {
	if kind := proc.Kind(); kind != "" {
		main()
		return
	}
	if err := os.Setenv("LOOKAHEAD_MS", "2000"); err != nil { // a stream's tail is as long
		panic(err)
	}
	os.Exit(m.Run())
}

func TestWhatNeedsNodeIsLeftOutWithoutIt(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	o := options{systems: []string{"robfig", "graphile-tuned"}, peers: t.TempDir()}
	if got, err := o.present(t.Context()); err != nil || !slices.Equal(got, []string{"robfig"}) {
		t.Errorf("present says %v, %v; want robfig alone", got, err)
	}
	o.systems = []string{"graphile-tuned"}
	if got, err := o.present(t.Context()); err == nil {
		t.Errorf("present says %v where nothing can run, want an error", got)
	}
}

// TestSmoke runs every workload on a few slots, so that none rots unseen.
func TestSmoke(t *testing.T) {
	if os.Getenv("TEST_DATABASE_URL") == "" {
		if os.Getenv("REQUIRE_SERVICES") == "1" {
			t.Fatal("TEST_DATABASE_URL is not set: run me by `make bench-check`")
		}
		t.Skip("TEST_DATABASE_URL is not set: run me by `make bench-check`")
	}
	for _, test := range []struct {
		name string
		args []string
	}{
		{
			name: "a burst, by Carillon in processes and in one, by River both ways, and by robfig",
			args: []string{"burst", "-n", "5", "-systems", "carillon,carillon-sqlite,river-tuned,river-tuned-periodic,river-tuned-grpc,robfig"},
		},
		{
			name: "a stream, Carillon's with a tail",
			args: []string{"sustained", "-n", "5", "-seconds", "2", "-systems", "carillon,river-tuned,river-tuned-periodic"},
		},
		{name: "the search for the highest rate, among few", args: []string{"sustained", "-n", "5", "-seconds", "1", "-search", "-most", "6", "-systems", "robfig"}},
		{name: "an idle deployment", args: []string{"idle", "-n", "2000", "-seconds", "1", "-systems", "carillon,river-default"}},
		{name: "registering", args: []string{"register", "-n", "40", "-systems", "carillon,carillon-sqlite"}},
		{
			name: "a burst beside sleepers and a ledger that is being pruned",
			args: []string{"growth", "-n", "2000", "-burst", "5", "-ledger", "2000", "-expired", "1000"},
		},
		{name: "a stream beside sleepers", args: []string{"growth", "-n", "1100", "-burst", "5", "-seconds", "2"}},
		{name: "neighbours that look ahead", args: []string{"neighbours", "-n", "2", "-seconds", "2", "-open", "4", "-systems", "carillon,carillon-sqlite"}},
		{name: "the console over a small fleet", args: []string{"console", "-n", "200", "-ledger", "1000", "-systems", "carillon,carillon-sqlite"}},
		{name: "a queue that is drained, by Carillon and by River", args: []string{"drain", "-n", "300", "-systems", "carillon,carillon-sqlite,river-tuned-grpc"}},
		{name: "a queue that is drained, with a limit", args: []string{"drain", "-n", "300", "-limit", "50", "-systems", "carillon,carillon-sqlite"}},
		{name: "jobs behind full keys of a limit", args: []string{"keys", "-n", "20", "-systems", "carillon,carillon-sqlite"}},
		{name: "keys of a fair queue", args: []string{"fair", "-n", "1", "-seconds", "2", "-systems", "carillon,carillon-sqlite"}},
		{name: "dead jobs that are redriven", args: []string{"redrive", "-n", "30", "-systems", "carillon,carillon-sqlite"}},
		{name: "slots of a queue", args: []string{"slots", "-n", "4", "-busy", "20ms", "-seconds", "1", "-systems", "carillon,carillon-sqlite"}},
		{name: "shards and several processes", args: []string{"shards", "-n", "5", "-shapes", "2/2/2"}},
		{name: "a launch queue between two workers and two launchers", args: []string{"burst", "-n", "5", "-queue", "-shards", "2", "-workers", "2", "-launchers", "2"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel() // they wait most of the time
			ctx, stop := signal.NotifyContext(t.Context(), os.Interrupt)
			defer stop()
			ctx, cancel := context.WithTimeout(ctx, 8*time.Minute) // on a busy machine too
			defer cancel()
			args := append(test.args, "-runs", "1", "-strict", "-before", "3s", "-timeout", "20s", "-warm", "10")
			if err := harness(ctx, args); err != nil {
				t.Fatal(err)
			}
		})
	}
}
