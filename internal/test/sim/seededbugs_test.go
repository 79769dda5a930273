package sim_test

import (
	"flag"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/test/mutant"
)

var mutate = flag.Bool("sim.mutants", false, "run TestSeededBugsAreFound, which builds the simulator once for each")

// mutantSeeds are how many worlds a bug may live through.
const mutantSeeds = 6000

type edit = mutant.Edit

// seededBug is a bug as edits of the source.
type seededBug struct {
	name  string
	edits []edit
}

// worldMutants are the bugs that worlds have to find.
func worldMutants() []seededBug {
	return slices.Concat(
		mutants, queueMutants, slotQueueMutants, slotGroupMutants,
		reservationMutants, estimateMutants, uniqueMutants, fairMutants, pullMutants, orderedMutants, resultMutants, minuteMutants, cancelMutants, coalesceMutants, eventMutants,
	)
}

// TestSeededBugsAreFound proves the checker: with each of these bugs in the
// source, a world breaks.
func TestSeededBugsAreFound(t *testing.T) {
	if !*mutate {
		t.Skip("make sim-mutants")
	}
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range worldMutants() {
		t.Run(strings.ReplaceAll(m.name, " ", "_"), func(t *testing.T) {
			binary := build(t, root, m.edits, "./internal/test/sim")
			began := time.Now()
			out, err := exec.CommandContext(t.Context(), binary, "-test.run", "^TestWorlds", "-test.timeout", "5m",
				"-sim.failfast", "-sim.seeds", fmt.Sprint(mutantSeeds)).CombinedOutput()
			if err == nil {
				t.Fatalf("not found in %d seeds", mutantSeeds)
			}
			t.Logf("found after %s seeds, %.1f s: %s", found(out), time.Since(began).Seconds(), firstViolation(out))
		})
	}
}

// TestSeededBugsStillFit: each bug has its place in the source as it is now.
func TestSeededBugsStillFit(t *testing.T) {
	for _, m := range append(worldMutants(), shardMutants...) {
		t.Run(strings.ReplaceAll(m.name, " ", "_"), func(t *testing.T) {
			if _, err := mutant.Overlay("../../..", t.TempDir(), m.edits); err != nil {
				t.Error(err)
			}
		})
	}
}

// build makes the test binary of a package, in a source with a bug.
func build(t *testing.T, root string, edits []edit, pkg string) (binary string) {
	t.Helper()
	dir := t.TempDir()
	overlay, err := mutant.Overlay(root, dir, edits)
	if err != nil {
		t.Fatal(err)
	}
	binary = filepath.Join(dir, "sim.test")
	cmd := exec.CommandContext(t.Context(), "go", "test", "-c", "-vet=off", "-buildvcs=false", "-overlay", overlay, "-o", binary, pkg)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	return binary
}

var (
	sumLine       = regexp.MustCompile(`sim: (\d+) seeds,`)
	violationLine = regexp.MustCompile(`(?m)^\s+\+\d.*$`)
)

func found(out []byte) string {
	if m := sumLine.FindSubmatch(out); m != nil {
		return string(m[1])
	}
	return "some" // it crashed, or hung
}

func firstViolation(out []byte) string {
	if line := violationLine.Find(out); line != nil {
		return strings.TrimSpace(string(line))
	}
	return string(out[max(0, len(out)-500):])
}
