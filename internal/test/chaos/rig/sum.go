package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/carillon/carillon/internal/test/chaos/check"
	"github.com/carillon/carillon/internal/test/chaos/record"
)

// total adds up the runs on one store with one lock.
type total struct {
	parts, violations int
	counts            check.Counts
	struck            map[string]int
	figures           map[string][]time.Duration
	lateness          map[string]*pooled
	broken            map[string]int
}

// pooled is the lateness of several parts. Of a part that kept no single
// values only its own percentiles are left, which nothing can combine.
type pooled struct {
	values []time.Duration
	n      int
	parts  []string // percentiles of those that kept no values
}

// addUp prints the sums over a file of results as tables of Markdown.
func addUp(out io.Writer, path string) error {
	lines, err := record.Read[result](filepath.Dir(path), filepath.Base(path))
	if err != nil {
		return err
	}
	totals := make(map[string]*total)
	var order []string
	var cut []string
	for _, l := range lines {
		if l.CutShort != "" || l.Counts.Rows == 0 { // stopped half way: nothing was dumped that could be checked
			cut = append(cut, fmt.Sprintf("- %s, seed %d, until %s, %d faults: %s", l.Dose, l.Seed, l.At.Format(time.DateTime), l.Counts.Faults,
				cmp.Or(strings.ReplaceAll(l.CutShort, "\n", "; "), "no dump of the database")))
			continue
		}
		group := fmt.Sprintf("%s, lock %s, queue %s", l.Store, l.Lock, l.Queue)
		switch l.Dose {
		case "figures", "shards": // another lease, and other terms: no figures to mix with
			group = "`" + l.Dose + "`: " + group
		}
		if totals[group] == nil {
			totals[group] = &total{
				struck: make(map[string]int), figures: make(map[string][]time.Duration), lateness: make(map[string]*pooled), broken: make(map[string]int),
			}
			order = append(order, group)
		}
		totals[group].add(l)
	}
	p := func(format string, args ...any) { _, _ = fmt.Fprintf(out, format+"\n", args...) }
	printCounts(p, order, totals)
	printFaults(p, order, totals)
	printFigures(p, order, totals)
	violations := 0
	for _, group := range order {
		violations += totals[group].violations
		if t := totals[group]; t.violations > 0 {
			p("%s: %v", group, t.broken)
		}
	}
	if len(cut) > 0 {
		p("Cut short, and in none of these sums:\n\n%s\n", strings.Join(cut, "\n"))
	}
	p("%d runs, %d violations", len(lines)-len(cut), violations)
	return nil
}

func (t *total) add(l result) {
	t.parts, t.violations = t.parts+1, t.violations+l.Violations
	t.counts.Add(l.Counts)
	for invariant, n := range l.Broken {
		t.broken[invariant] += n
	}
	for kind, n := range l.struck() {
		t.struck[kind] += n
	}
	for name, values := range l.Figures {
		for _, v := range values {
			t.figures[name] = append(t.figures[name], time.Duration(v*float64(time.Millisecond)))
		}
	}
	for name, d := range l.Lateness {
		if t.lateness[name] == nil {
			t.lateness[name] = &pooled{}
		}
		one := t.lateness[name]
		if one.n += d.N; d.MS == nil && d.N > 0 {
			one.parts = append(one.parts, strings.Join(strings.Fields(strings.TrimPrefix(d.Text, name)), " "))
		}
		for ms, n := range d.MS {
			one.values = append(one.values, slices.Repeat([]time.Duration{time.Duration(ms) * time.Millisecond}, n)...)
		}
	}
}

// struck are the faults of a run by kind. Lines of an earlier form say only how
// many were measured of each, which is all but those after which nothing of a
// probe fell due; the rest has no name.
func (l result) struck() map[string]int {
	if l.Struck != nil {
		return l.Struck
	}
	const measured = "on time again after "
	kinds := make(map[string]int)
	rest := l.Counts.Faults
	for name, values := range l.Figures {
		if kind, found := strings.CutPrefix(name, measured); found {
			kinds[kind] = len(values)
			rest -= len(values)
		}
	}
	if rest > 0 {
		kinds["(kind not kept)"] = rest
	}
	return kinds
}

func printCounts(p func(string, ...any), order []string, totals map[string]*total) {
	p("| on | parts | slots | effects asked for | sent again | faults | leader kills | leader pauses | terms | API calls repeated | caught up | lost | doubled | early | wrong skips | violations |")
	p("| --- |%s", strings.Repeat(" ---: |", 15))
	for _, group := range order {
		t := totals[group]
		n := t.counts
		p("| %s | %d | %d | %d | %d | %d | %d | %d | %d | %d | %d | %d | %d | %d | %d | %d |", group, t.parts, n.Slots, n.Keys, n.Redelivered,
			n.Faults, n.Kills, n.Pauses, n.Terms, n.Repeats, n.CaughtUp, n.Lost, n.Doubled, n.Early, n.WrongSkips, t.violations)
	}
	p("")
}

func printFaults(p func(string, ...any), order []string, totals map[string]*total) {
	sums := make(map[string]int)
	for _, t := range totals {
		for kind, n := range t.struck {
			sums[kind] += n
		}
	}
	p("| fault | %s | sum |", strings.Join(order, " | "))
	p("| --- |%s", strings.Repeat(" ---: |", len(order)+1))
	for _, kind := range slices.Sorted(maps.Keys(sums)) {
		row := "| " + kind + " |"
		for _, group := range order {
			row += fmt.Sprintf(" %d |", totals[group].struck[kind])
		}
		p("%s %d |", row, sums[kind])
	}
	p("")
}

func printFigures(p func(string, ...any), order []string, totals map[string]*total) {
	p("| on | time | n | p50 | p99 | max |")
	p("| --- | --- | ---: | ---: | ---: | ---: |")
	var apart []string
	show := func(group string, f check.Figure) {
		slices.Sort(f.Values)
		p("| %s | %s | %d | %s | %s | %s |", group, f.Name, len(f.Values), f.At(50), f.At(99), f.At(100))
	}
	for _, group := range order {
		t := totals[group]
		for _, name := range slices.Sorted(maps.Keys(t.figures)) {
			show(group, check.Figure{Name: name, Values: t.figures[name]})
		}
		for _, name := range slices.Sorted(maps.Keys(t.lateness)) {
			switch one := t.lateness[name]; {
			case len(one.parts) == 0 && one.n > 0:
				show(group, check.Figure{Name: name, Values: one.values})
			case one.n > 0:
				p("| %s | %s | %d | part by part, below | | |", group, name, one.n)
				for _, part := range one.parts {
					apart = append(apart, fmt.Sprintf("- %s: %s: %s", group, name, part))
				}
			}
		}
	}
	p("")
	if len(apart) > 0 {
		p("Of these parts no single values were kept, so percentiles over all of them cannot be told (the greatest maximum is that of all):")
		p("")
		for _, line := range apart {
			p("%s", line)
		}
		p("")
	}
}
