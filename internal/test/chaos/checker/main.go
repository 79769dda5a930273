// Command checker checks the evidence of a run of the chaos rig again: it needs
// the run's folder and nothing else. Its exit code is 1 when a promise was
// broken.
//
// It takes no step in a slot's life.
package main

import (
	"fmt"
	"os"

	"github.com/carillon/carillon/internal/test/chaos/check"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: checker FOLDER")
		os.Exit(2)
	}
	evidence, err := check.Load(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, "checker:", err)
		os.Exit(1)
	}
	report := check.Run(evidence)
	report.Print(os.Stdout)
	if len(report.Violations) > 0 {
		os.Exit(1)
	}
}
