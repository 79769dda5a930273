package main

import (
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/carillon/carillon/internal/chaos/check"
	"github.com/carillon/carillon/internal/chaos/record"
)

// result is one line of a file of results: parts of a long dose add up.
type result struct {
	At         time.Time               `json:"at"`
	Dose       string                  `json:"dose"`
	Seed       uint64                  `json:"seed"`
	Store      string                  `json:"store"`
	Lock       string                  `json:"lock"`
	Queue      string                  `json:"queue"`
	Violations int                     `json:"violations"`
	Broken     map[string]int          `json:"broken,omitempty"` // violations by invariant
	Counts     check.Counts            `json:"counts"`
	Figures    map[string][]float64    `json:"figures_ms"` // each measured time
	Lateness   map[string]distribution `json:"lateness_ms"`
}

// distribution stands for what is too much to keep.
type distribution struct {
	N    int    `json:"n"`
	Text string `json:"text"`
}

// keep appends the result of a run, and prints its line.
func keep(o Options, d dose, r *check.Report) error {
	line := result{
		At: time.Now().UTC(), Dose: d.name, Seed: o.Seed, Store: d.store, Lock: d.lock, Queue: d.queue,
		Violations: len(r.Violations), Broken: r.Broken(), Counts: r.Counts, Figures: make(map[string][]float64), Lateness: make(map[string]distribution),
	}
	for _, f := range r.Figures {
		if strings.HasPrefix(f.Name, "lateness") {
			line.Lateness[f.Name] = distribution{N: len(f.Values), Text: f.String()}
			continue
		}
		for _, v := range f.Values {
			line.Figures[f.Name] = append(line.Figures[f.Name], float64(v.Microseconds())/1000)
		}
	}
	if o.Results == "" {
		return nil
	}
	to, err := record.NewWriter(filepath.Dir(o.Results), filepath.Base(o.Results))
	if err != nil {
		return err
	}
	defer to.Close()
	return to.Write(line)
}

// addUp prints the sums over a file of results.
func addUp(out io.Writer, path string) error {
	lines, err := record.Read[result](filepath.Dir(path), filepath.Base(path))
	if err != nil {
		return err
	}
	sums := make(map[string]*check.Counts)
	figures := make(map[string][]time.Duration)
	violations := 0
	var order []string
	for _, l := range lines {
		group := fmt.Sprintf("%s, lock %s, queue %s", l.Store, l.Lock, l.Queue)
		n := sums[group]
		if n == nil {
			n = &check.Counts{}
			sums[group] = n
			order = append(order, group)
		}
		n.Add(l.Counts)
		violations += l.Violations
		for name, values := range l.Figures {
			for _, v := range values {
				figures[group+": "+name] = append(figures[group+": "+name], time.Duration(v*float64(time.Millisecond)))
			}
		}
	}
	for _, group := range order {
		n := sums[group]
		_, _ = fmt.Fprintf(out, "%s: slots %d, keys %d, sent again %d, faults %d, leader kills %d, leader pauses %d: lost %d, doubled %d, early %d, wrong skips %d\n",
			group, n.Slots, n.Keys, n.Redelivered, n.Faults, n.Kills, n.Pauses, n.Lost, n.Doubled, n.Early, n.WrongSkips)
	}
	var names []string
	for name, values := range figures {
		slices.Sort(values)
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		_, _ = fmt.Fprintln(out, check.Figure{Name: name, Values: figures[name]})
	}
	_, _ = fmt.Fprintf(out, "%d runs, %d violations\n", len(lines), violations)
	return nil
}
