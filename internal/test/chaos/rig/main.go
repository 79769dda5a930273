// Command rig starts a whole deployment as real processes, breaks it in ways
// drawn from a seed, and runs the checker on what it left behind. See
// docs/reliability.md for what it does and how its output is read.
//
// It takes no step in a slot's life.
package main

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
)

func main() {
	var o Options
	flag.StringVar(&o.Dose, "dose", "short", "one of "+names())
	flag.Uint64Var(&o.Seed, "seed", 0, "of the faults and behaviours (default: a random one)")
	flag.IntVar(&o.Faults, "faults", 0, "how many (default: the dose's)")
	flag.StringVar(&o.Folder, "folder", "", "where the evidence goes (default: a new one in the temporary folder, kept when something is wrong)")
	flag.StringVar(&o.Results, "results", "", "file to which a line with the sums is appended")
	flag.StringVar(&o.Binary, "binary", "", "the product (default: built from this tree with its failpoints)")
	sum := flag.String("sum", "", "add up a file of results instead")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := command(ctx, o, *sum); err != nil {
		fmt.Fprintln(os.Stderr, "rig:", err)
		os.Exit(1)
	}
}

func names() string {
	var all []string
	for _, d := range doses {
		all = append(all, d.name)
	}
	return strings.Join(all, ", ")
}

func command(ctx context.Context, o Options, sum string) error {
	if sum != "" {
		return addUp(os.Stdout, sum)
	}
	if o.Seed == 0 {
		o.Seed = rand.Uint64N(1_000_000) + 1
	}
	o.Out = os.Stdout
	report, err := Run(ctx, o)
	if err != nil {
		return err
	}
	if n := len(report.Violations); n > 0 {
		return fmt.Errorf("%d violations", n)
	}
	return nil
}

// binaries is the folder of the binaries of one run.
const binaries = "bin"

// build builds the product with its failpoints, and the executor, into a folder.
func build(ctx context.Context, folder string, o *Options) error {
	if o.Binary != "" && o.Oracle != "" {
		return nil
	}
	folder = filepath.Join(folder, binaries)
	o.Oracle = filepath.Join(folder, "oracle")
	targets := [][]string{{"build", "-buildvcs=false", "-o", o.Oracle, "github.com/carillon/carillon/internal/test/chaos/oracle"}}
	if o.Binary == "" {
		o.Binary = filepath.Join(folder, "carillon")
		args := []string{"build", "-buildvcs=false", "-pgo=off", "-tags", "failpoints", "-o", o.Binary}
		if o.Overlay != "" {
			args = append(args, "-overlay", o.Overlay)
		}
		targets = append(targets, append(args, "github.com/carillon/carillon/cmd/carillon"))
	}
	for _, args := range targets {
		if out, err := exec.CommandContext(ctx, "go", args...).CombinedOutput(); err != nil {
			return fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, out)
		}
	}
	return nil
}
