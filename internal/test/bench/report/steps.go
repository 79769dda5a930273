package report

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"path"
	"slices"
	"strconv"
	"strings"
)

// step is one Go benchmark's figures over its runs.
type step struct {
	name, pkg  string
	ns, allocs []float64
}

// Steps reads what `go test -bench` printed, and writes a table in Markdown: the
// median of each benchmark with the least and the greatest.
func Steps(from io.Reader, to io.Writer) error {
	var all []*step
	known := make(map[string]*step)
	pkg := ""
	lines := bufio.NewScanner(from)
	for lines.Scan() {
		line := lines.Text()
		if name, is := strings.CutPrefix(line, "pkg: "); is {
			pkg = path.Base(name)
			continue
		}
		fields := strings.Fields(line)
		if len(fields) < 4 || !strings.HasPrefix(fields[0], "Benchmark") {
			continue
		}
		name := benchName(line)
		s, there := known[pkg+" "+name]
		if !there {
			s = &step{name: name, pkg: pkg}
			known[pkg+" "+name] = s
			all = append(all, s)
		}
		s.read(line)
	}
	if err := lines.Err(); err != nil {
		return err
	}
	if len(all) == 0 {
		return fmt.Errorf("no line of a benchmark is in it: it must be what `go test -bench` printed")
	}
	return writeSteps(all, to)
}

// benchName is the benchmark's own name, without how many cores it had.
func benchName(line string) string {
	name, _, _ := strings.Cut(line, "\t")
	name = strings.TrimPrefix(strings.TrimSpace(name), "Benchmark")
	if at := strings.LastIndexByte(name, '-'); at > 0 {
		if _, err := strconv.Atoi(name[at+1:]); err == nil {
			name = name[:at]
		}
	}
	return strings.ReplaceAll(name, "_", " ")
}

// read takes the figures of a line: a number, a unit, and so on.
func (s *step) read(line string) {
	for _, cell := range strings.Split(line, "\t")[1:] {
		text, unit, ok := strings.Cut(strings.TrimSpace(cell), " ")
		v, err := strconv.ParseFloat(text, 64)
		if !ok || err != nil {
			continue
		}
		switch unit {
		case "ns/op":
			s.ns = append(s.ns, v)
		case "allocs/op":
			s.allocs = append(s.allocs, v)
		}
	}
}

func writeSteps(all []*step, to io.Writer) error {
	slices.SortStableFunc(all, func(a, b *step) int { return cmp.Compare(a.pkg, b.pkg) })
	rows := []string{"| package | benchmark | time | allocations | runs |", "| --- | --- | --- | --- | --- |"}
	for _, s := range all {
		if len(s.ns) == 0 {
			continue
		}
		allocs := "–"
		if len(s.allocs) > 0 {
			slices.Sort(s.allocs)
			allocs = number(s.allocs[len(s.allocs)/2])
			allocs = strings.TrimSuffix(allocs, ".00")
		}
		rows = append(rows, fmt.Sprintf("| %s | `%s` | %s | %s | %d |", s.pkg, s.name, times(s.ns), allocs, len(s.ns)))
	}
	_, err := fmt.Fprintln(to, strings.Join(rows, "\n"))
	return err
}

// times is the median with the least and the greatest, in the unit that suits
// the median.
func times(ns []float64) string {
	slices.Sort(ns)
	mid := ns[len(ns)/2]
	if len(ns)%2 == 0 {
		mid = (mid + ns[len(ns)/2-1]) / 2
	}
	unit, per := "ns", 1.0
	switch {
	case mid >= 1e6:
		unit, per = "ms", 1e6
	case mid >= 1e3:
		unit, per = "µs", 1e3
	}
	text := number(mid/per) + " " + unit
	if len(ns) > 1 {
		text += fmt.Sprintf(" (%s–%s)", number(ns[0]/per), number(ns[len(ns)-1]/per))
	}
	return text
}
