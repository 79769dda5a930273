package proc

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Usage is what a process took so far.
type Usage struct {
	CPU float64 // seconds, user and system
	RSS int64   // bytes, now
}

// Sub is what came since an earlier usage; RSS is the later one's.
func (u Usage) Sub(earlier Usage) Usage { return Usage{CPU: u.CPU - earlier.CPU, RSS: u.RSS} }

// Add sums the usages of two processes up.
func (u Usage) Add(other Usage) Usage { return Usage{CPU: u.CPU + other.CPU, RSS: u.RSS + other.RSS} }

// ticks of /proc are hundredths of a second: USER_HZ, on every Linux.
const ticks = 100

// Usage of the child.
func (c *Child) Usage() (Usage, error) {
	s, err := readStat(c.PID())
	return Usage{CPU: s.own, RSS: s.rss}, err
}

// Family is the usage of a process and its children, those included that have
// ended: a server with a process a connection. Shared memory is counted once
// for each process that touched it.
func Family(pid int) (Usage, error) {
	root, err := readStat(pid)
	if err != nil {
		return Usage{}, err
	}
	total := Usage{CPU: root.own + root.ended, RSS: root.rss}
	paths, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return Usage{}, err
	}
	for _, path := range paths {
		child, err := strconv.Atoi(filepath.Base(path))
		if err != nil {
			continue
		}
		if s, err := readStat(child); err == nil && s.parent == pid { // one that has just ended is in root.ended next time
			total = total.Add(Usage{CPU: s.own, RSS: s.rss})
		}
	}
	return total, nil
}

// Parent is the process that started another.
func Parent(pid int) (int, error) {
	s, err := readStat(pid)
	return s.parent, err
}

// Busy is how many CPU seconds this machine was busy since it started, for
// whomever: what other machines on the same host took is counted too.
func Busy() (float64, error) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, err
	}
	line, _, _ := strings.Cut(string(text), "\n")
	fields := strings.Fields(line)
	if len(fields) < 9 {
		return 0, fmt.Errorf("/proc/stat begins with %q", line)
	}
	busy := 0.0
	for i, field := range fields[1:9] { // user nice system idle iowait irq softirq steal
		if n, err := strconv.ParseFloat(field, 64); err == nil && i != 3 && i != 4 {
			busy += n / ticks
		}
	}
	return busy, nil
}

// Self is the usage of this process.
func Self() (Usage, error) {
	s, err := readStat(os.Getpid())
	return Usage{CPU: s.own, RSS: s.rss}, err
}

type stat struct {
	parent     int
	own, ended float64 // CPU seconds: its own, and those of its children that it has waited for
	rss        int64
}

func readStat(pid int) (stat, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return stat{}, err
	}
	// The name, in brackets, may hold anything.
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	if len(fields) < 22 {
		return stat{}, fmt.Errorf("/proc/%d/stat has %d fields", pid, len(fields))
	}
	number := func(i int) float64 { n, _ := strconv.ParseFloat(fields[i], 64); return n }
	return stat{
		parent: int(number(1)),
		own:    (number(11) + number(12)) / ticks,
		ended:  (number(13) + number(14)) / ticks,
		rss:    int64(number(21)) * int64(os.Getpagesize()),
	}, nil
}
