package app

import (
	"os"
	"runtime/debug"
)

// gcPercent is GOGC unless the environment sets it. The heap of this process is
// small, and a burst of launches lets it grow tenfold within a second, with ten
// thousand stacks for each collection to scan: at the default of 100, a fifth of
// the CPU of those seconds.
const gcPercent = 400

// TuneMemory sets the garbage collector's limits for the whole process, so only
// main calls it. What GOGC and GOMEMLIMIT set stays.
func TuneMemory() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	if os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	files := cgroupFiles{self: "/proc/self/cgroup", root: "/sys/fs/cgroup"}
	if limit, found := files.memoryLimit(); found {
		debug.SetMemoryLimit(heapLimit(limit))
	}
}

// heapLimit is the Go memory limit in a control group: nine tenths of the
// group's, since the kernel counts the pages of open files and sockets too. With
// GOGC at 400 and without this limit, a heap may grow past the group's limit and
// the kernel kills the process while most of the heap is garbage.
func heapLimit(group int64) int64 { return group / 10 * 9 }
