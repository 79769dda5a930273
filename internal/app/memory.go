package app

import (
	"os"
	"runtime/debug"
)

// gcPercent is GOGC unless the environment sets it. A burst of launches grows the small heap tenfold
// within a second, with ten thousand stacks to scan per collection. At the default of 100 that costs a
// fifth of the CPU.
const gcPercent = 400

// TuneMemory sets the garbage collector's limits of the whole process, so only main may call it. GOGC
// and GOMEMLIMIT take precedence.
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

// heapLimit is the Go memory limit in a control group: 90 % of the group's, because the kernel also
// counts pages of open files and sockets. Without it, at GOGC=400, the kernel could kill the process
// while most of the heap is garbage.
func heapLimit(group int64) int64 { return group / 10 * 9 }
