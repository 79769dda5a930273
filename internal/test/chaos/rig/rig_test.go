package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/carillon/carillon/internal/tools/servers"
)

// TestLongAWholeDeploymentSurvives runs the short doses, as `make chaos` does.
// CHAOS_SEED repeats the faults of a run that failed.
func TestLongAWholeDeploymentSurvives(t *testing.T) {
	if testing.Short() {
		t.Skip("takes two minutes")
	}
	folder := t.TempDir()
	built := Options{}
	if err := build(t.Context(), folder, &built); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"short", "short-redis", "short-sqlite", "short-jobs"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			o := Options{Dose: name, Seed: seed(t), Binary: built.Binary, Oracle: built.Oracle, Out: &out}
			report, err := Run(t.Context(), o)
			if errors.Is(err, servers.ErrMissing) && os.Getenv("REQUIRE_SERVICES") != "1" {
				t.Skip(err)
			}
			if err != nil {
				t.Fatalf("%v\n%s", err, &out)
			}
			if n := len(report.Violations); n > 0 {
				t.Errorf("%d violations", n)
			}
			c := report.Counts
			if jobs := name == "short-jobs"; c.Redelivered < 5 || jobs && c.JobKeys < 100 || !jobs && (c.Kills < 3 || c.Slots < 300) {
				t.Errorf("too little happened: %+v", c)
			}
			t.Log(out.String())
		})
	}
}

func TestAnInterruptedRunIsNeitherJudgedNorKept(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, interrupt := context.WithCancel(t.Context())
	interrupt()
	var out bytes.Buffer
	o := Options{Dose: "short-sqlite", Seed: 1, Binary: self, Oracle: self, Folder: t.TempDir(), Results: filepath.Join(t.TempDir(), "results.jsonl"), Out: &out}
	report, err := Run(ctx, o)
	if report != nil || !errors.Is(err, errInterrupted) || err.Error() != "interrupted" {
		t.Errorf("got %v and %v, want no report and interrupted\n%s", report, err, &out)
	}
	if _, err := os.Stat(o.Results); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a result was kept (%v)", err)
	}
}

func seed(t *testing.T) uint64 {
	t.Helper()
	if text := os.Getenv("CHAOS_SEED"); text != "" {
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatalf("CHAOS_SEED: %v", err)
		}
		return n
	}
	return rand.Uint64N(1_000_000) + 1
}

func TestTheSameSeedPlansTheSameFaults(t *testing.T) {
	for _, d := range doses {
		d, _ := chosen(d.name)
		one, again, other := fmt.Sprint(plan(d, 7, d.faults)), fmt.Sprint(plan(d, 7, d.faults)), fmt.Sprint(plan(d, 8, d.faults))
		if one != again {
			t.Errorf("%s: seed 7 plans this once and that again:\n%s\n%s", d.name, one, again)
		}
		if one == other {
			t.Errorf("%s: the seeds 7 and 8 plan the same", d.name)
		}
	}
}

func TestEveryKindOfADoseStrikes(t *testing.T) {
	for _, d := range doses {
		d, _ := chosen(d.name)
		struck := make(map[string]int)
		for _, s := range plan(d, 1, d.faults) {
			struck[s.kind]++
		}
		for _, want := range d.mix {
			if struck[want.kind] == 0 {
				t.Errorf("the dose %s has %d faults, and none is a %s", d.name, d.faults, want.kind)
			}
		}
	}
}

func TestPartsOfADoseAddUp(t *testing.T) {
	path := filepath.Join(t.TempDir(), "results.jsonl")
	lines := `{"store":"postgres","lock":"postgres","queue":"none","violations":0,"counts":{"slots":10,"rows":10,"leader_kills":2,"faults":2},"struck":{"kill":2},"figures_ms":{"takeover after kill":[80,120]},"lateness_ms":{"lateness":{"n":2,"text":"","ms":{"3":1,"9":1}}}}
{"store":"postgres","lock":"postgres","queue":"none","violations":1,"counts":{"slots":5,"rows":4,"leader_kills":1,"lost":1,"faults":2},"figures_ms":{"takeover after kill":[100],"on time again after kill":[0]}}
{"dose":"kills","seed":7,"store":"postgres","lock":"postgres","queue":"none","violations":9,"counts":{"slots":9,"lost":9}}
`
	if err := os.WriteFile(path, []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := addUp(&out, path); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"| postgres, lock postgres, queue none | 2 | 15 | 0 | 0 | 4 | 3 | 0 | 0 | 0 | 0 | 1 | 0 | 0 | 0 | 1 |",
		"| kill | 3 | 3 |", "| (kind not kept) | 1 | 1 |", "| takeover after kill | 3 | 100ms | 120ms | 120ms |", "| lateness | 2 | 3ms | 9ms | 9ms |",
		"- kills, seed 7", "2 runs, 1 violations",
	} {
		if !bytes.Contains(out.Bytes(), []byte(want)) {
			t.Errorf("the sums do not say %q:\n%s", want, &out)
		}
	}
}
