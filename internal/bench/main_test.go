package main

import (
	"context"
	"os"
	"os/signal"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/bench/proc"
)

// TestMain makes this test binary each of the children as well.
func TestMain(m *testing.M) {
	if kind := proc.Kind(); kind != "" {
		main()
		return
	}
	os.Exit(m.Run())
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
			name: "a herd, by Carillon in processes and in one, by River both ways, and by robfig",
			args: []string{"herd", "-systems", "carillon,carillon-sqlite,river-tuned,river-tuned-periodic,river-tuned-grpc,robfig"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			ctx, stop := signal.NotifyContext(t.Context(), os.Interrupt)
			defer stop()
			ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
			defer cancel()
			if err := harness(ctx, append(test.args, "-n", "5", "-runs", "1", "-strict", "-before", "3s")); err != nil {
				t.Fatal(err)
			}
		})
	}
}
