// Package report writes the figures: one JSON line for each run, and tables of medians at
// the end.
package report

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"time"
)

// Line is one run. Figures are named as in the JSON, with their unit.
type Line struct {
	Workload string             `json:"workload"`
	System   string             `json:"system"`
	N        int                `json:"n"`
	Run      int                `json:"run"`
	Figures  map[string]float64 `json:"figures"`
	Bad      map[string]int     `json:"bad,omitempty"`    // lost, doubled, early, …: what must not be
	Ledger   map[string]int     `json:"ledger,omitempty"` // how the slots ended, where something is bad
	Settings map[string]string  `json:"settings,omitempty"`
	Apart    bool               `json:"apart,omitempty"` // in no table: a step of a search
	At       time.Time          `json:"at"`
	Machine  Machine            `json:"machine"`
}

// Wrong tells whether something was that must not be.
func (l Line) Wrong() bool {
	for _, n := range l.Bad {
		if n > 0 {
			return true
		}
	}
	return false
}

// Machine is where a run took place, and with what.
type Machine struct {
	CPU      string            `json:"cpu"`
	Cores    int               `json:"cores"`
	MemoryGB int               `json:"memory_gb"`
	Kernel   string            `json:"kernel"`
	Go       string            `json:"go"`
	Load     string            `json:"load"` // average over the minute that the run ended in
	Versions map[string]string `json:"versions"`
	Postgres map[string]string `json:"postgres,omitempty"`
}

// ThisMachine describes the machine; version is the product's.
func ThisMachine(version string, postgres map[string]string) Machine {
	m := Machine{
		CPU: field("/proc/cpuinfo", "model name"), Cores: runtime.NumCPU(), Kernel: firstLine("/proc/sys/kernel/osrelease"),
		Go: runtime.Version(), Versions: map[string]string{"carillon": version}, Postgres: postgres,
	}
	var kilobytes int
	_, _ = fmt.Sscan(field("/proc/meminfo", "MemTotal"), &kilobytes) // 0 where it is not known
	m.MemoryGB = kilobytes >> 20
	if build, ok := debug.ReadBuildInfo(); ok {
		for _, d := range build.Deps {
			if d.Path == "github.com/riverqueue/river" || d.Path == "github.com/robfig/cron/v3" {
				m.Versions[filepath.Base(strings.TrimSuffix(d.Path, "/v3"))] = d.Version
			}
		}
	}
	return m
}

func firstLine(path string) string {
	text, _ := os.ReadFile(path) // "" where there is none
	line, _, _ := strings.Cut(string(text), "\n")
	return line
}

// field is the first line of the file that begins with the name, after the colon.
func field(path, name string) string {
	text, _ := os.ReadFile(path)
	for line := range strings.Lines(string(text)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// Writer prints lines as they come and keeps them for the table.
type Writer struct {
	mu      sync.Mutex
	out     io.Writer
	kept    io.Writer
	machine Machine
	lines   []Line
}

// New makes a Writer to out; kept gets the JSON lines too.
func New(out, kept io.Writer, machine Machine) *Writer {
	return &Writer{out: out, kept: kept, machine: machine}
}

// Read takes lines that were kept in for the table, without printing them.
func (w *Writer) Read(kept io.Reader) error {
	for from := json.NewDecoder(kept); ; {
		var line Line
		if err := from.Decode(&line); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("read lines: %w", err)
		}
		w.lines = append(w.lines, line)
	}
}

// Add writes a run down.
func (w *Writer) Add(line Line) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	line.At, line.Machine = time.Now().UTC().Truncate(time.Second), w.machine
	load, _, _ := strings.Cut(firstLine("/proc/loadavg"), " ")
	line.Machine.Load = load
	for name, v := range line.Figures {
		line.Figures[name] = math.Round(v*1000) / 1000
	}
	w.lines = append(w.lines, line)
	text, err := json.Marshal(line)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintln(w.kept, string(text)); err != nil {
		return err
	}
	_, err = fmt.Fprintln(w.out, string(text))
	return err
}
