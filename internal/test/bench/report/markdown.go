package report

import (
	"fmt"
	"slices"
	"strings"
)

// Markdown prints tables for a document: one for each kind of workload, with its figures
// and the measured revision.
func (w *Writer) Markdown(columns []string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	var kinds []string
	for _, l := range w.lines {
		if kind := l.kind(); !l.Apart && !slices.Contains(kinds, kind) {
			kinds = append(kinds, kind)
			if err := w.markdown(kind, columns); err != nil {
				return err
			}
		}
	}
	return nil
}

// kind is the workload's first word.
func (l Line) kind() string {
	kind, _, _ := strings.Cut(l.Workload, " ")
	return strings.TrimSuffix(kind, ",")
}

func (w *Writer) markdown(kind string, columns []string) error {
	var titles, had []string
	for _, l := range w.lines {
		if l.Apart || l.kind() != kind {
			continue
		}
		if title := l.title(); !slices.Contains(titles, title) {
			titles = append(titles, title)
		}
		for _, column := range columns {
			if _, there := l.Figures[column]; there && !slices.Contains(had, column) {
				had = append(had, column)
			}
		}
	}
	columns = slices.DeleteFunc(slices.Clone(columns), func(c string) bool { return !slices.Contains(had, c) })
	heads := append(append([]string{"workload", "system"}, columns...), "bad", "runs", "revision")
	rows := []string{"", "| " + strings.Join(heads, " | ") + " |", strings.Repeat("| --- ", len(heads)) + "|"}
	for _, title := range titles {
		systems, runs := w.under(title)
		for i, system := range systems {
			of := runs[system]
			cells := []string{title, system}
			if i > 0 {
				cells[0] = ""
			}
			for _, column := range columns {
				cells = append(cells, cell(of, runs[baselineOf(systems)], column))
			}
			cells = append(cells, bad(of), fmt.Sprint(len(of)), of[len(of)-1].Machine.Versions["carillon"])
			rows = append(rows, "| "+strings.Join(cells, " | ")+" |")
		}
	}
	_, err := fmt.Fprintln(w.out, strings.Join(rows, "\n"))
	return err
}
