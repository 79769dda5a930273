// Command mutants proves the checker of the chaos rig: it seeds bugs into the
// product, one after the other, without touching the tree, lets the rig run a
// dose that provokes each, and demands that the checker finds it.
//
// It takes no step in a slot's life.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/carillon/carillon/internal/test/chaos/record"
	"github.com/carillon/carillon/internal/test/mutant"
)

// doseBound is how long one dose may take, on a busy machine.
const doseBound = 5 * time.Minute

func main() {
	only := flag.String("only", "", "only those with this in their name or the name of their dose")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := proveAll(ctx, *only); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

func proveAll(ctx context.Context, only string) error {
	folder, err := os.MkdirTemp("", "carillon-mutants-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(folder) }()
	rig := filepath.Join(folder, "rig")
	if err := run(ctx, "go", "build", "-buildvcs=false", "-o", rig, "./internal/test/chaos/rig"); err != nil {
		return err
	}
	// The product as it is must pass what the mutants must not.
	all := append([]bug{
		{name: "none", dose: "mutant-calm"},
		{name: "none, with jobs", dose: "mutant-jobs"},
		{name: "none, with an ordered limit", dose: "mutant-jobs-ordered", faults: 2},
		{name: "none, with groups", dose: "mutant-jobs-groups", faults: 2},
		{name: "none, with reservations", dose: "mutant-jobs-reserved", faults: 2},
	}, allBugs()...)
	caught, missed := 0, []string{}
	for i, m := range all {
		if !strings.Contains(m.name, only) && !strings.Contains(m.dose, only) {
			continue
		}
		broken, err := m.prove(ctx, rig, filepath.Join(folder, fmt.Sprint(i)))
		if err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
		verdict := "caught by " + sums(broken)
		switch {
		case len(m.changes) == 0 && len(broken) > 0:
			return fmt.Errorf("the product without a seeded bug breaks %s", sums(broken))
		case len(m.changes) == 0:
			verdict = "clean"
		case len(broken) == 0:
			verdict = "NOT CAUGHT"
			missed = append(missed, m.name)
		default:
			caught++
		}
		fmt.Printf("%s  %-55s %s\n", time.Now().UTC().Format(time.TimeOnly), m.name, verdict)
	}
	fmt.Printf("%d of %d seeded bugs caught\n", caught, caught+len(missed))
	if len(missed) > 0 {
		return fmt.Errorf("not caught: %s", strings.Join(missed, "; "))
	}
	return nil
}

func sums(broken map[string]int) string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(broken)) {
		all = append(all, fmt.Sprintf("%s×%d", name, broken[name]))
	}
	return strings.Join(all, " ")
}

// prove runs the dose on the product with this bug, and returns what the
// checker finds broken.
func (m bug) prove(ctx context.Context, rig, folder string) (map[string]int, error) {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return nil, err
	}
	overlay, err := mutant.Overlay(".", folder, m.changes)
	if err != nil {
		return nil, err
	}
	binary := filepath.Join(folder, "carillon")
	if err := run(ctx, "go", "build", "-buildvcs=false", "-tags", "failpoints", "-overlay", overlay, "-o", binary, "./cmd/carillon"); err != nil {
		return nil, err
	}
	evidence := filepath.Join(folder, "evidence")
	if err := os.MkdirAll(evidence, 0o755); err != nil {
		return nil, err
	}
	bounded, cancel := context.WithTimeout(ctx, doseBound)
	defer cancel()
	const seed = "1"
	problem := run(bounded, rig, "-dose", m.dose, "-faults", fmt.Sprint(m.faults), "-seed", seed, "-binary", binary,
		"-folder", evidence, "-results", filepath.Join(folder, "results.jsonl"))
	found, err := record.Read[struct {
		Broken map[string]int `json:"broken"`
	}](folder, "results.jsonl")
	if err == nil && len(found) != 1 {
		err = errors.New("the rig wrote no result")
	}
	if err != nil {
		return nil, errors.Join(err, problem)
	}
	return found[0].Broken, nil
}

func run(ctx context.Context, program string, args ...string) error {
	command := exec.CommandContext(ctx, program, args...)
	command.Cancel = func() error { return command.Process.Signal(os.Interrupt) }
	command.WaitDelay = 20 * time.Second
	if out, err := command.CombinedOutput(); err != nil {
		text := string(out)
		return fmt.Errorf("%s: %w\n%s", filepath.Base(program), err, text[max(0, len(text)-4000):])
	}
	return nil
}
