package app

import (
	"os"
	"runtime/debug"
)

// gcPercent is GOGC unless the environment sets it. The heap of this process is
// small, and a herd lets it grow tenfold within a second, with ten thousand
// stacks to be looked through by each of the collections on the way: a fifth of
// the CPU of those seconds, at the usual 100.
const gcPercent = 400

// TuneMemory is for main: it concerns the whole process.
func TuneMemory() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
}
