package app

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// cgroupFiles are the paths of control groups on Linux.
type cgroupFiles struct {
	self string // /proc/self/cgroup
	root string // /sys/fs/cgroup
}

// noCgroupLimit: version 1 writes 2^63 less one page for no limit; this is a lower bound of it.
const noCgroupLimit = 1 << 62

// memoryLimit is the smallest memory limit of the process's control group and its parents, in bytes.
// Version 2 has it in memory.max, version 1 in memory.limit_in_bytes. Inside a container
// /proc/self/cgroup may contain paths of the host, which do not exist there; the container's group is
// then the root of the mount.
func (f cgroupFiles) memoryLimit() (limit int64, found bool) {
	text, err := os.ReadFile(f.self)
	if err != nil {
		return 0, false
	}
	smallest := func(path string) {
		if n, ok := readLimit(path); ok && (!found || n < limit) {
			limit, found = n, true
		}
	}
	for line := range strings.Lines(string(text)) {
		// hierarchy:controllers:path, as in 0::/system.slice/carillon.service
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 {
			continue
		}
		root, name := f.root, "memory.max"
		if parts[1] != "" {
			if !slices.Contains(strings.Split(parts[1], ","), "memory") {
				continue
			}
			root, name = filepath.Join(f.root, "memory"), "memory.limit_in_bytes"
		}
		for group := filepath.Clean("/" + parts[2]); ; group = filepath.Dir(group) {
			smallest(filepath.Join(root, group, name))
			if group == "/" {
				break
			}
		}
	}
	return limit, found
}

// readLimit reads one limit; "max" and numbers from noCgroupLimit mean none.
func readLimit(path string) (int64, bool) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	return n, err == nil && n > 0 && n < noCgroupLimit
}
