package report

import (
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
)

// Baseline is the system whose figures the others' are divided by; where it
// did not run, the first that did.
const Baseline = "carillon"

// Table prints, workload by workload, the median of each system's runs with the
// least and the greatest, and how many times Carillon's the figure is.
func (w *Writer) Table() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	var seen []string
	for _, l := range w.lines {
		if title := l.title(); !l.Apart && !slices.Contains(seen, title) {
			seen = append(seen, title)
			if err := w.table(title); err != nil {
				return err
			}
		}
	}
	return nil
}

func (l Line) title() string {
	if l.N == 0 { // the figure itself is how many
		return l.Workload
	}
	return fmt.Sprintf("%s, n = %d", l.Workload, l.N)
}

func (w *Writer) table(title string) error {
	systems, runs := w.under(title)
	var columns []string
	for _, lines := range runs {
		for _, l := range lines {
			for name := range l.Figures {
				if !slices.Contains(columns, name) {
					columns = append(columns, name)
				}
			}
		}
	}
	slices.SortFunc(columns, byRank)
	baseline := baselineOf(systems)
	if _, err := fmt.Fprintf(w.out, "\n%s: median (min–max) of the runs, ×%s\n", title, baseline); err != nil {
		return err
	}
	rows := []string{"system\truns\t" + strings.Join(columns, "\t") + "\tbad"}
	for _, system := range systems {
		cells := []string{system, fmt.Sprint(len(runs[system]))}
		for _, column := range columns {
			cells = append(cells, cell(runs[system], runs[baseline], column))
		}
		rows = append(rows, strings.Join(append(cells, bad(runs[system])), "\t"))
	}
	out := tabwriter.NewWriter(w.out, 0, 0, 2, ' ', 0)
	if _, err := fmt.Fprintln(out, strings.Join(rows, "\n")); err != nil {
		return err
	}
	return out.Flush()
}

// under are the systems of a table, in the order in which they came, and their
// runs.
func (w *Writer) under(title string) (systems []string, runs map[string][]Line) {
	runs = make(map[string][]Line)
	for _, l := range w.lines {
		if l.Apart || l.title() != title {
			continue
		}
		if _, known := runs[l.System]; !known {
			systems = append(systems, l.System)
		}
		runs[l.System] = append(runs[l.System], l)
	}
	return systems, runs
}

func baselineOf(systems []string) string {
	if slices.Contains(systems, Baseline) {
		return Baseline
	}
	return systems[0]
}

// rank is the order of columns; others follow by name.
var rank = []string{"jobs_a_second", "enqueued_a_second", "p50_ms", "p99_ms", "max_ms", "settled_ms", "settled_seen_ms"}

func byRank(a, b string) int {
	at := func(name string) int {
		if i := slices.Index(rank, name); i >= 0 {
			return i
		}
		return len(rank)
	}
	if d := at(a) - at(b); d != 0 {
		return d
	}
	return strings.Compare(a, b)
}

// circumstances are figures that no system is better or worse for: they have no
// ratio.
var circumstances = []string{"load_s", "others_", "planned_ahead", "steps", "expired_", "skipped_there_%"}

func cell(runs, baseline []Line, column string) string {
	mid, low, high, ok := spread(runs, column)
	if !ok {
		return "–"
	}
	text := number(mid)
	if len(runs) > 1 {
		text += fmt.Sprintf(" (%s–%s)", number(low), number(high))
	}
	if slices.ContainsFunc(circumstances, func(prefix string) bool { return strings.HasPrefix(column, prefix) }) {
		return text
	}
	if base, _, _, ok := spread(baseline, column); ok && base > 0 && runs[0].System != baseline[0].System {
		text += " ×" + ratio(mid/base)
	}
	return text
}

// spread is the median, least and greatest of a figure.
func spread(runs []Line, column string) (mid, low, high float64, ok bool) {
	var values []float64
	for _, l := range runs {
		if v, there := l.Figures[column]; there {
			values = append(values, v)
		}
	}
	if len(values) == 0 {
		return 0, 0, 0, false
	}
	slices.Sort(values)
	mid = values[len(values)/2]
	if len(values)%2 == 0 {
		mid = (mid + values[len(values)/2-1]) / 2
	}
	return mid, values[0], values[len(values)-1], true
}

// ratio has two digits, or as many as stand before the point.
func ratio(v float64) string {
	if v >= 100 {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.2g", v)
}

func number(v float64) string {
	switch {
	case v >= 1000:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

// bad sums up what must not be.
func bad(runs []Line) string {
	sums := make(map[string]int)
	var names []string
	for _, l := range runs {
		for name, n := range l.Bad {
			if sums[name] == 0 && n > 0 {
				names = append(names, name)
			}
			sums[name] += n
		}
	}
	if len(names) == 0 {
		return "0"
	}
	slices.Sort(names)
	for i, name := range names {
		names[i] = fmt.Sprintf("%d %s", sums[name], name)
	}
	return strings.Join(names, ", ")
}
